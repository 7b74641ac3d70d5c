"""Commands ``vehicled twin list | show``: the built-in vehicles, with the origin of each of their
parameters."""

import json
from argparse import Namespace
from collections import Counter
from typing import Any

import msgspec

from sim_backend.plant import twin_file
from sim_backend.plant.twin_file import STATUSES, Provenance, Twin
from vehicled.profile import ProfileError
from vehicled.profile.toml_text import leaves
from vehicled.run.argument_types import TEXT, TWIN
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import print_table

_LONGEST = 46


def declare_twin_list(parser: CommandParser) -> None:
    """List the vehicles of the double-track model."""
    parser.set_defaults(run=listing)


def declare_twin_show(parser: CommandParser) -> None:
    """Show every parameter of a vehicle, with status, uncertainty and origin."""
    parser.add_argument(
        "name", type=TWIN, metavar="NAME", help="name of a twin file, or a .toml file"
    )
    parser.add_argument(
        "--only",
        type=TEXT,
        default="",
        metavar="KEY",
        help="only parameters whose key begins with KEY, such as front.tyre",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def listing(arguments: Namespace) -> int:
    """List every vehicle with its size and the status of its parameters."""
    rows, broken = [], 0
    for name in twin_file.names():
        try:
            twin = twin_file.load_twin(name)
        except ProfileError as error:
            broken += 1
            rows.append(
                [
                    name,
                    f"{len(error.problems)} problem(s), see: vehicled twin show {name}",
                    "",
                    "",
                    "",
                ]
            )
            continue
        body = twin.parameters.body
        counted = counts(twin)
        rows.append(
            [
                name,
                twin.parameters.identity.description,
                f"{body.mass_kg:.4g} kg",
                f"{body.wheelbase_m:.3g} m",
                " / ".join(str(counted[status]) for status in STATUSES),
            ]
        )
    print_table("", ["vehicle", "what", "mass", "wheelbase", " / ".join(STATUSES)], rows)
    return 1 if broken else 0


def run(arguments: Namespace) -> int:
    """Print every parameter of one vehicle: value, status, uncertainty, origin. Raises ProfileError
    with every mistake of the file.
    """
    twin = twin_file.load_twin(arguments.name)
    if arguments.json:
        print(json.dumps(facts(twin), indent=2))
        return 0
    rows = [
        [key, _shown(value), record.status, _spread(record), record.origin]
        for key, (value, record) in numbers(twin).items()
        if not arguments.only or key.startswith(arguments.only)
    ]
    identity = twin.parameters.identity
    print_table(
        f"{identity.name}: {identity.description}",
        ["parameter", "value", "status", "uncertainty", "origin"],
        rows,
    )
    for key, text in twin.origins.items():
        print(f"  {key}: {text}")
    counted = counts(twin)
    print(f"  {', '.join(f'{counted[status]} {status}' for status in STATUSES)}; {twin.path}")
    return 0


def numbers(twin: Twin) -> dict[str, tuple[Any, Provenance]]:
    """Return value and provenance of every parameter, by dotted key in file order."""
    return {
        key: (value, twin.provenance[key])
        for key, value in leaves(msgspec.to_builtins(twin.parameters))
        if key in twin.provenance
    }


def counts(twin: Twin) -> Counter[str]:
    """Return the number of parameters per status."""
    return Counter(record.status for record in twin.provenance.values())


def facts(twin: Twin) -> dict[str, Any]:
    """Return the same as :func:`run` for JSON."""
    return {
        "name": twin.parameters.identity.name,
        "description": twin.parameters.identity.description,
        "path": twin.path,
        "digest": twin.digest,
        "origins": twin.origins,
        "numbers": {
            key: {
                "value": value,
                "status": record.status,
                "origin": record.origin,
                _spread_key(record): record.spread,
            }
            for key, (value, record) in numbers(twin).items()
        },
    }


def _spread_key(record: Provenance) -> str:
    return "spread_abs" if record.absolute else "spread"


def _spread(record: Provenance) -> str:
    if record.spread == 0.0:
        return "-"
    return f"{record.spread:.3g}" if record.absolute else f"{100.0 * record.spread:.3g} %"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        text = ", ".join(_shown(item) for item in value)
        return (
            text
            if len(text) <= _LONGEST
            else f"{text[: text.rfind(',', 0, _LONGEST - 5)]}, ... ({len(value)})"
        )
    return f"{value:.6g}"
