"""Arguments of the commands that look after the computer of a vehicle: ``doctor`` and ``service``."""

from argparse import _SubParsersAction

from vehicled.cli.parser import CommandParser


def service_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add them."""
    doctor = commands.add_parser(
        "doctor",
        help="what this machine has, what it can keep up with, and what is missing",
        description="Ports of this machine and what answers on them; state of the board, and by a measurement of some seconds "
        "the rates that it may claim. The rule, and every cure: docs/service.md.",
        epilog="Exit status: 0 sound; 1 a probed port was not understood, or the profile asks for more than the board keeps.",
    )
    doctor.add_argument(
        "--probe", action="store_true", help="listen on every serial port to find out what speaks there; sends nothing"
    )
    doctor.add_argument("--profile", metavar="P", help="judge whether this board keeps what a profile asks for")
    doctor.add_argument(
        "--seconds", type=_seconds, default=3.0, metavar="S", help="of measuring, for each priority; 0: none (default 3)"
    )
    doctor.add_argument("--save", action="store_true", help="store the calibration in /etc/vehicled, for arming to judge by")
    doctor.add_argument("--report", metavar="FILE", help="write a report to attach to a bug; holds no secrets")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run="vehicled.cli.doctor:doctor")

    service = commands.add_parser("service", help="install the systemd service, or take it away")
    verbs = service.add_subparsers(dest="service_command", metavar="COMMAND", required=True)
    install = verbs.add_parser(
        "install",
        help="put unit, user, udev rules and profile in their places",
        description="Put unit, user, udev rules, profile and its options in their places, each file and command told. "
        "May be repeated; what somebody edited stays. Where Python is too old, uv brings one of its own.",
    )
    install.add_argument("--profile", default="art", metavar="P", help="profile: a name or a .toml file (default art)")
    install.add_argument("--no-environment", action="store_true", help="make no /opt/vehicled: the command is on the PATH already")
    install.set_defaults(run="vehicled.cli.service:install")
    uninstall = verbs.add_parser("uninstall", help="take away exactly what was installed and not edited since")
    uninstall.add_argument("--profile", metavar="P", help="for this profile only (default: everything)")
    uninstall.set_defaults(run="vehicled.cli.service:uninstall")
    for verb in (install, uninstall):
        verb.add_argument("--dry-run", action="store_true", help="say everything, do nothing")
        verb.add_argument("--prefix", default="/", metavar="DIR", help="root of another system, such as an image (default /)")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 600.0:
        raise ValueError(text)
    return value


_seconds.__name__ = "number of seconds from 0 to 600"
