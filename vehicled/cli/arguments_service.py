"""Arguments of ``doctor`` and ``service``, the commands that check and set up the vehicle's computer."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import between
from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser

LONGEST_S = 450.0
_duration = between(1.0, LONGEST_S, f"expected a number of seconds from 1 to {LONGEST_S:g}")
_seconds = between(0.0, 600.0, "expected a number of seconds from 0 to 600")


def service_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``doctor`` and ``service``."""
    doctor = commands.add_parser(
        "doctor",
        help="check this computer: ports, real-time performance, missing settings",
        description="List the ports of this computer and their devices, check its settings, and measure "
        "the task and serial rates that it can sustain. See docs/service.md.",
        epilog="Exit status: 0 no problem; 1 a probed port was not understood, or the profile needs more than this board sustains.",
    )
    doctor.add_argument("--probe", action="store_true", help="listen on every serial port to identify the device; sends nothing")
    doctor.add_argument("--profile", metavar="P", help="check if this board sustains the rates of a profile")
    doctor.add_argument(
        "--seconds",
        type=_seconds,
        default=3.0,
        metavar="S",
        help="length of the measurement at each priority; 0: none (default 3)",
    )
    doctor.add_argument(
        "--save", action="store_true", help="store the calibration in /etc/vehicled, where the arming check reads it"
    )
    doctor.add_argument("--report", metavar="FILE", help="write a report to attach to a bug report; contains no secrets")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--measure-board",
        metavar="FILE",
        help="instead: drive the profile in the simulator in real time and write the task times of this computer, for "
        "vehicled sim --board; see docs/computers.md",
    )
    doctor.add_argument(
        "--duration",
        type=_duration,
        metavar="S",
        help=f"with --measure-board: length of the recording (default 30, at most {LONGEST_S:g})",
    )
    doctor.add_argument(
        "--log", type=log_name, metavar="RUN", help="with --measure-board: use the log of this run on a vehicle, and do not drive"
    )
    doctor.set_defaults(run="vehicled.cli.doctor:doctor")

    service = commands.add_parser("service", help="install or remove the systemd service")
    verbs = service.add_subparsers(dest="service_command", metavar="COMMAND", required=True)
    install = verbs.add_parser(
        "install",
        help="install unit, user, udev rules and profile",
        description="Install the unit, user, udev rules, profile and its options, and print each file and command. "
        "Can be repeated; edited files are kept. If Python is too old, uv installs another one.",
    )
    install.add_argument("--profile", default="art", metavar="P", help="profile: a name or a .toml file (default art)")
    install.add_argument(
        "--no-environment", action="store_true", help="do not create /opt/vehicled: the command is already on the PATH"
    )
    install.set_defaults(run="vehicled.cli.service:install")
    uninstall = verbs.add_parser("uninstall", help="remove what was installed and not edited since")
    uninstall.add_argument("--profile", metavar="P", help="only for this profile (default: everything)")
    uninstall.set_defaults(run="vehicled.cli.service:uninstall")
    for verb in (install, uninstall):
        verb.add_argument("--dry-run", action="store_true", help="print the actions without doing them")
        verb.add_argument("--prefix", default="/", metavar="DIR", help="root of another system, such as an image (default /)")
