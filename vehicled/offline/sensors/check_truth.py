"""Command ``vehicled sensors check-truth``: what a reference system may claim as truth."""

from argparse import Namespace
from math import degrees, isfinite
from pathlib import Path

import msgspec

from vehicled.offline.sensors.truth import QUANTITIES, TruthCheck, TruthEvidence, check, read
from vehicled.run.argument_types import LOG
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import print_table

_KEYS = {
    "position": "least_position_sigma_m",
    "speed": "least_speed_sigma_mps",
    "heading": "least_heading_sigma_rad",
}
"""Keys of the driver that take the claims."""


def declare_sensors_check_truth(parser: CommandParser) -> None:
    """Check the reference states of logs against rest, marked places, their own velocity, the
    course over ground and the fixes of another receiver. Print the accuracy of position, speed and
    heading that may be claimed, and what stays unknown.
    """
    parser.describe(
        examples=(
            "vehicled sensors check-truth protocol.mcap --plot truth.png",
            "vehicled sensors check-truth morning.mcap noon.mcap",
        ),
        epilog="Exit status: 0 all three accuracies can be claimed; 1 some stay unknown; 2 "
        "invalid arguments or logs. "
        "The drive that shows them all: docs/sensors.md.",
    )
    parser.add_argument(
        "run_files",
        nargs="+",
        type=LOG,
        metavar="LOG",
        help="logs with reference states; one place and unit",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the drives and the accuracies (.png, .svg, .pdf)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Check and print. Raises SetupError, RecordingError, LogError and ProfileError."""
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    runs = read(arguments.run_files)
    found = check(runs)
    if arguments.plot:
        from vehicled.offline.sensors.picture import draw_check

        draw_check(Path(arguments.plot), runs, found)
    complete = all(isfinite(claim) for claim in found.claims.values())
    if arguments.json:
        print(msgspec.json.encode(found).decode())
        return 0 if complete else 1
    print_table(f"Reference of {', '.join(found.runs)}", ("check", "finding"), _findings(found))
    print_table(
        "One sigma per axis",
        ("quantity", "check", "shown", "independent", "upper 95 %"),
        _evidence(found),
    )
    print_table(
        "May be claimed as truth",
        ("quantity", "one sigma", "declared", "independent", "judges errors from"),
        _claims(found),
    )
    for line in found.unknown:
        print(f"unknown: {line}")
    if arguments.plot:
        print(f"picture: {arguments.plot}")
    known = {_KEYS[name]: claim for name, claim in found.claims.items() if isfinite(claim)}
    if known:
        print("\nin the profile, for the driver of the reference:")
        for key, claim in known.items():
            print(f"    {key} = {claim:.2g}")
    if isfinite(found.yaw_offset_rad):
        print(
            f"    yaw_offset_rad: add {found.yaw_offset_rad:+.4f} rad, or turn the unit in its "
            "own settings"
        )
    return 0 if complete else 1


def _findings(found: TruthCheck) -> list[tuple[str, str]]:
    rows = []
    for each in found.checks:
        rows += [
            (each.name if k == 0 else "", text)
            for k, text in enumerate(each.findings or ["not done"])
        ]
    return rows


def _evidence(found: TruthCheck) -> list[tuple[str, ...]]:
    return [
        (
            each.quantity,
            each.check,
            _value(each.quantity, each.sigma),
            f"{each.independent:.0f}",
            _value(each.quantity, each.upper) if each.proves else "a part of the errors",
        )
        for each in sorted(found.evidence, key=_place)
    ]


def _place(evidence: TruthEvidence) -> int:
    return list(QUANTITIES).index(evidence.quantity)


def _claims(found: TruthCheck) -> list[tuple[str, ...]]:
    return [
        (
            name,
            _value(name, claim) if isfinite(claim) else "unknown",
            _value(name, found.declared[name]),
            f"{found.independent[name]:.0f}",
            _value(name, 3.0 * claim) if isfinite(claim) else "nothing",
        )
        for name, claim in found.claims.items()
    ]


def _value(quantity: str, value: float) -> str:
    if not isfinite(value):
        return "unknown"
    return (
        f"{degrees(value):.3f} deg"
        if quantity == "heading"
        else f"{value:.4f} {QUANTITIES[quantity]}"
    )
