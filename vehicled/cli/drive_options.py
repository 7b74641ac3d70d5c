"""Options that a simulated drive and a drive of a vehicle share."""

from argparse import _ArgumentGroup

from vehicled.live.bridges.mavlink.config import MOST_SYSTEM_ID
from vehicled.run.argument_types import COURSE, KEY, PROFILE, PROGRAMME, SCENE, TEXT, between, whole
from vehicled.run.command_line import CommandParser

SECONDS = between(1e-9, 1e6, "expected a number of seconds above 0, at most 1e6")


def add_programme(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the option of an open-loop programme."""
    parser.add_argument(
        "--programme",
        type=PROGRAMME,
        metavar="P",
        help=(
            "drive an open-loop programme instead of the course: a .csv file or a name such as "
            "step_steer; see docs/manoeuvres.md"
        ),
    )


def add_noise(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the option of noise on real sensors."""
    parser.add_argument(
        "--noise",
        action="store_true",
        help=(
            "add the noise of [devices.NAME.noise] to what these sensors measure; see "
            "docs/motion_capture.md"
        ),
    )


def add_connect_timeout(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the time to wait for a simulator that has not started yet."""
    parser.add_argument(
        "--connect-timeout",
        type=SECONDS,
        metavar="S",
        help="with --connect: try again for S seconds while no simulator listens (default: once)",
    )


def add_backend(parser: CommandParser | _ArgumentGroup, what: str) -> None:
    """Add the choice of the event loop."""
    parser.add_argument(
        "--async-backend",
        choices=("asyncio", "trio"),
        default="asyncio",
        help=f"{what} (default asyncio)",
    )


def add_view(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the option of the live view."""
    parser.add_argument(
        "--view",
        type=TEXT,
        nargs="?",
        const="",
        metavar="ADDRESS",
        help=(
            "serve the live view at HOST:PORT (default: view.address of the profile, "
            "127.0.0.1:8765); see docs/live_view.md"
        ),
    )


def add_ros2(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the options of the ROS 2 bridge."""
    parser.add_argument(
        "--ros2",
        type=TEXT,
        nargs="?",
        const="",
        metavar="INTERFACE",
        help=(
            "publish ROS 2 topics to this computer, or on a network interface such as eth0; "
            "see docs/ros2.md"
        ),
    )
    parser.add_argument(
        "--ros2-commands",
        action="store_true",
        help="with --ros2: let ROS nodes command the vehicle",
    )
    parser.add_argument(
        "--ros2-autoware",
        nargs="?",
        const="control",
        default="",
        choices=("control", "trajectory"),
        help=(
            "with --ros2: speak Autoware's vehicle interface too; with --ros2-commands its "
            "controller drives (default), or its trajectories are courses; see docs/autoware.md"
        ),
    )
    parser.add_argument(
        "--ros2-autoware-auto",
        action="store_true",
        help="with --ros2-autoware: use the types of autoware_auto_msgs, for Autoware before 2024",
    )


def add_mixed(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the options of mixed reality."""
    parser.add_argument(
        "--mixed",
        type=SCENE,
        metavar="SCENE",
        help="mixed reality: let the obstacle stop answer to the virtual bodies of this scene, "
        "too; see docs/mixed_reality.md",
    )
    parser.add_argument(
        "--mixed-vehicle",
        type=TEXT,
        action="append",
        default=[],
        metavar="NAME",
        help="mixed reality with the vehicle of another daemon that runs here, by its profile or "
        "socket; repeatable",
    )
    parser.add_argument(
        "--mixed-seed",
        type=whole(0, 2**63 - 1, "expected a whole number from 0 up"),
        default=1,
        metavar="N",
        help="seed of what the scene of --mixed lets be drawn (default 1)",
    )
    parser.add_argument(
        "--mixed-loss",
        choices=("warn", "stop"),
        default="warn",
        help="when the virtual world is lost: warn and drive on without it (default), or count it "
        "as an obstacle and stop",
    )


def add_mavlink(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the options of the MAVLink bridge."""
    parser.add_argument(
        "--mavlink",
        type=TEXT,
        nargs="?",
        const="udp:127.0.0.1:14550",
        metavar="ADDRESS",
        help="speak MAVLink to ground stations: udp:HOST:PORT (default udp:127.0.0.1:14550), "
        "udpin:HOST:PORT or "
        "serial:PATH?baud=RATE; see docs/mavlink.md",
    )
    parser.add_argument(
        "--mavlink-commands",
        action="store_true",
        help="with --mavlink: let ground stations command the vehicle",
    )
    parser.add_argument(
        "--mavlink-id",
        type=whole(1, MOST_SYSTEM_ID, f"expected a system id from 1 to {MOST_SYSTEM_ID}"),
        default=1,
        metavar="N",
        help="with --mavlink: system id of the vehicle (default 1); vehicles that one ground "
        "station sees need different ones",
    )


def add_profile(parser: CommandParser | _ArgumentGroup) -> None:
    """Add the options that say what to drive."""
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art",
        metavar="P",
        help="profile: a name or a .toml file (default art)",
    )
    parser.add_argument(
        "--course",
        type=COURSE,
        metavar="C",
        help="course: a name or a path file (default: the profile's)",
    )
    parser.add_argument(
        "--laps", type=int, default=1, metavar="N", help="laps of a closed course (default 1)"
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key of the profile; repeatable",
    )
