"""Arguments of ``vehicled map``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import between
from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser

_resolution = between(0.01, 1.0, "expected a cell of 0.01 to 1 m")
_offset = between(-100.0, 100.0, "expected metres from -100 to 100")


def map_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the group ``map``."""
    group = commands.add_parser("map", help="build a map from a drive with a laser scanner").add_subparsers(
        dest="map_command", metavar="COMMAND", required=True
    )
    build = group.add_parser(
        "build",
        help="build the map of a place from the log of a drive",
        description="Match the scans of a drive to each other, close its loops and write the map in the format of ROS map_server: "
        "a YAML file and a PGM image. Reads logs, ROS 1 and ROS 2 bags (LaserScan, Odometry) and CARMEN logs.",
        examples=(
            "vehicled map build latest -o hall.yaml --plot hall.png",
            "vehicled map build latest -o hall.yaml --path line.csv",
            "vehicled map build intel.log.gz -o intel.yaml",
        ),
        epilog="Exit status: 0 written; 2 invalid arguments, or the log shows nothing that can be mapped. See docs/mapping.md.",
    )
    build.add_argument("log", type=log_name, metavar="LOG", help="log, bag or CARMEN log of the drive; latest: the newest log")
    build.add_argument("-o", "--output", required=True, metavar="YAML", help="map file; the image is written beside it as .pgm")
    build.add_argument("--resolution", type=_resolution, default=0.05, metavar="M", help="size of a cell, m (default 0.05)")
    build.add_argument("--lidar", type=_offset, nargs=2, default=(0.0, 0.0), metavar=("X", "Y"),
        help="scanner from the rear axle, forward and left, m, for files that do not say it")  # fmt: skip
    build.add_argument(
        "--ignore-gnss", action="store_true", help="map by scans and motion alone; the first pose is then the origin"
    )
    build.add_argument("--path", metavar="CSV", help="write the driven path on the map as a course")
    build.add_argument("--trajectory", metavar="FILE", help="write the poses of the keyframes in the format of TUM (for evo)")
    build.add_argument("--plot", metavar="FILE", help="draw the map with the driven path (.png, .svg, .pdf)")
    build.add_argument("--json", action="store_true", help="print JSON")
    build.set_defaults(run="vehicled.offline.mapping.command:build_map")
