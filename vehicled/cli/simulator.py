"""Command ``vehicled simulator``."""

from argparse import Namespace

from vehicled.run.argument_types import COURSE, FAILURE, KEY, PROFILE, SCENE, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.runtime.simulator import add_options


def declare_simulator(parser: CommandParser) -> None:
    """Run the simulator for a daemon in another process or on another computer. It serves one run
    and exits."""
    parser.describe(
        examples=(
            "vehicled simulator --listen tcp:0.0.0.0:7700",
            "    and for the daemon: vehicled sim --connect tcp:HOST:7700 --clock wall",
            "vehicled simulator --ptys /tmp/devices   serial ports for 'vehicled run'",
            "vehicled simulator --port gnss=serial:/dev/ttyUSB0    on a real cable",
        ),
        epilog=(
            "Exit status: 0 the daemon ended the run; 1 connection to the daemon lost; 2 "
            "invalid arguments; 143 terminated."
        ),
    )
    add_options(parser)
    parser.complete(
        profile=PROFILE, set=KEY, course=COURSE, fail=FAILURE, listen=TEXT, port=TEXT, scene=SCENE
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Run the simulator."""
    from sim_backend.__main__ import command

    return command(arguments)
