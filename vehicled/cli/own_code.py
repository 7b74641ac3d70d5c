"""Commands ``vehicled new controller | estimator | driver`` and ``vehicled list``."""

import json
import keyword
import os
import sys
from argparse import Namespace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from sim_backend.emulators.registry import EMULATORS
from sim_backend.plant.registry import PLANTS
from vehicled.core.errors import SetupError
from vehicled.profile.registry import CONTROLLERS, DECODERS, DRIVERS, ESTIMATORS, IDENTIFIERS
from vehicled.run.argument_types import TEXT
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import print_table

TEMPLATES = Path(__file__).parent / "templates"
TABLES = {
    "controllers": CONTROLLERS,
    "estimators": ESTIMATORS,
    "identifiers": IDENTIFIERS,
    "drivers": DRIVERS,
    "decoders": DECODERS,
    "plants": PLANTS,
    "emulators": EMULATORS,
}


def declare_new_controller(parser: CommandParser) -> None:
    """Write a commented file NAME.py that drives at once, and its test test_NAME.py. Change it,
    then drive with it."""
    parser.describe(
        examples=(
            "vehicled new controller my_law                 write it and its test",
            "vehicled sim --controller ./my_law.py:MyLaw    drive a lap with it",
        )
    )
    _declare(parser, "controller")


def declare_new_estimator(parser: CommandParser) -> None:
    """Write a commented file NAME.py that estimates at once, and its test test_NAME.py. Change it,
    then drive with it."""
    _declare(parser, "estimator")


def declare_new_driver(parser: CommandParser) -> None:
    """Write a commented file NAME.py that works at once, and its test test_NAME.py. Change it, then
    name it in a profile."""
    _declare(parser, "driver")


def _declare(parser: CommandParser, kind: str) -> None:
    parser.add_argument(
        "name",
        type=TEXT,
        metavar="NAME",
        help="lower-case name of the file without .py; the class is named after it",
    )
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="folder of the two files (default: this one)"
    )
    parser.set_defaults(run=new, kind=kind)


def declare_list(parser: CommandParser) -> None:
    """List built-in names, and those that installed packages offer. An offered name is used only
    where a profile or a command names it.
    """
    parser.add_argument("kind", choices=tuple(TABLES), metavar="KIND", help=", ".join(TABLES))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=list_names)


def new(arguments: Namespace) -> int:
    """Write a plugin and its test; refuse to overwrite a file."""
    name = arguments.name.removesuffix(".py")
    if (
        not name.isidentifier()
        or not name.isascii()
        or name != name.lower()
        or keyword.iskeyword(name)
    ):
        raise SetupError(
            f'"{arguments.name}" cannot be the name of a Python file: use lower-case letters, '
            "digits and underscores"
        )
    if name in sys.stdlib_module_names or name in ("vehicled", "drivers", "sim_backend"):
        raise SetupError(f'"{name}" is the name of a module that exists: choose another one')
    folder, cls = Path(arguments.folder), "".join(part.capitalize() for part in name.split("_"))
    texts = {
        folder / f"{name}.py": TEMPLATES / f"{arguments.kind}.py",
        folder / f"test_{name}.py": TEMPLATES / f"{arguments.kind}_test.py",
    }
    if there := [str(path) for path in texts if path.exists()]:
        raise SetupError(f"{' and '.join(there)}: exists already; choose another name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, template in texts.items():
            path.write_text(
                template.read_text(encoding="utf-8")
                .replace("TemplateClass", cls)
                .replace("template_file", name)
            )
    except OSError as error:
        raise SetupError(f"cannot write to {folder}: {error.strerror}") from None
    file, test = (os.path.relpath(path) for path in texts)
    print(f"written: {file} with the {arguments.kind} {cls}, and {test}")
    python = os.path.relpath(sys.executable)
    if arguments.kind == "driver":
        print(f'name it in a profile: driver = "./{name}.py:{cls}"')
    else:
        print(f"drive with it: vehicled sim --{arguments.kind} {os.path.join('.', file)}:{cls}")
    lacks = "" if find_spec("pytest") else f"{python} -m pip install pytest && "
    print(f"test it: {lacks}{python} -m pytest {test}")
    return 0


def list_names(arguments: Namespace) -> int:
    """Print the built-in names of a kind and those of installed packages."""
    rows = [
        (name, target.partition(":")[0], "built in")
        for name, target in sorted(TABLES[arguments.kind].items())
    ]
    points = sorted(entry_points(group=f"vehicled.{arguments.kind}"), key=lambda point: point.name)
    for point in points:
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "?"
        hidden = point.name in TABLES[arguments.kind]
        rows.append(
            (
                point.name,
                point.value,
                f"{package}, hidden by the built-in name" if hidden else package,
            )
        )
    if arguments.json:
        print(
            json.dumps(
                [dict(zip(("name", "where", "from"), row, strict=True)) for row in rows], indent=2
            )
        )
    else:
        print_table(arguments.kind, ["name", "where", "from"], [list(row) for row in rows])
        if arguments.kind == "controllers":
            print("a trained network: FILE.onnx, see docs/learning.md")
        print(
            "your own: FILE.py:NAME, see docs/plugins.md; begin with: vehicled new "
            f"{arguments.kind[:-1]} NAME"
        )
    return 0
