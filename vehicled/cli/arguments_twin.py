"""Arguments of ``vehicled twin``."""

from argparse import _SubParsersAction

from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser


def twin_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the group ``twin``."""
    twin = commands.add_parser("twin", help="the vehicle models of the simulator: how true they are").add_subparsers(
        dest="twin_command", metavar="COMMAND", required=True
    )
    validate = twin.add_parser(
        "validate",
        help="drive reference runs of other people's models with ours, and check ours against theory",
        description="Drive every reference run below a folder with our model: the same commands, open loop, from the same start. "
        "Show how far it ends up from the reference, beside what is wanted, and check every vehicle against theory.",
        epilog="Exit status: 0 every target is kept and every check holds; 1 one is not; 2 the arguments cannot be used.",
    )
    validate.add_argument("folder", nargs="?", metavar="DIR", help="folder of reference runs (default ~/vehicled/data)")
    validate.add_argument(
        "--vehicle", metavar="NAME", help="this vehicle only: name of its file, as hmmwv_lfdm, or of the reference's, as hmmwv"
    )
    validate.add_argument("--run", dest="only", metavar="GLOB", help="runs of this name only, as 'lfdm/*dlc*'")
    validate.add_argument("--no-theory", action="store_true", help="leave out the checks against theory")
    validate.add_argument("--json", action="store_true", help="print JSON")
    validate.add_argument("-o", "--output", metavar="HTML", help="write a page with the figures of every run")
    validate.add_argument("--plot-dir", metavar="DIR", help="draw every run into a PNG file there (needs matplotlib)")
    validate.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="processes at a time (default 1)")
    validate.set_defaults(run="vehicled.cli.twin:validate")
    listing = twin.add_parser("list", help="list the vehicles that the double-track plant can be")
    listing.set_defaults(run="vehicled.cli.twin_show:listing")
    show = twin.add_parser("show", help="every number of a vehicle, with its status, spread and origin")
    show.add_argument("name", metavar="NAME", help="name of a twin file, or a .toml file")
    show.add_argument("--only", default="", metavar="KEY", help="numbers whose key begins so, as front.tyre")
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(run="vehicled.cli.twin_show:run")
    terrain = twin.add_parser(
        "terrain",
        help="look at a file of the ground: extent, slopes, holes",
        description="Read a point cloud or a raster as [sim.terrain] would, and say what is in it.",
    )
    terrain.add_argument("file", metavar="FILE", help="point cloud (.las .laz .ply .xyz .txt .pts) or raster (.tif .png .csv)")
    terrain.add_argument(
        "--resolution", type=float, default=0.25, metavar="M", help="cell that a point cloud is brought onto (default 0.25)"
    )
    terrain.add_argument("--friction", metavar="FILE", help="file of the friction, to be shown beside it")
    terrain.add_argument("--plot", metavar="PNG", help="draw it into this file (needs matplotlib)")
    terrain.add_argument("--json", action="store_true", help="print JSON")
    terrain.set_defaults(run="vehicled.cli.twin_terrain:run")
    calibrate = twin.add_parser(
        "calibrate",
        help="fit the numbers of a vehicle to recorded drives",
        description="Fit chosen numbers of a twin to recorded drives: their commands, open loop, against their motion. Say how far "
        "each number may be off, what the drives do not show, and how well drives are foretold that the fit has not seen.",
        epilog="Exit status: 0 fitted; 1 ended by hand, with the best until then; 2 the arguments or the drives cannot be used.",
    )
    which = calibrate.add_mutually_exclusive_group(required=True)
    which.add_argument("--profile", metavar="P", help="profile whose twin is fitted")
    which.add_argument("--vehicle", metavar="TWIN", help="name of a twin file, or a .toml file")
    calibrate.add_argument(
        "--log",
        nargs="+",
        type=log_name,
        required=True,
        metavar="RUN",
        help="recorded drives: .mcap, CSV, bags, or folders of such",
    )
    calibrate.add_argument(
        "--fit", default="powertrain,steering,tyres", metavar="GROUP,...",
        help="powertrain, steering, tyres, inertia (default the first three)",
    )  # fmt: skip
    calibrate.add_argument("--hold-out", nargs="+", metavar="RUN", help="drives, or names with * of drives, that are foretold only")
    calibrate.add_argument(
        "--folds", type=int, default=0, metavar="K", help="foretell every drive by one of K further fits without it"
    )
    calibrate.add_argument("-o", "--output", metavar="TOML", help="write the vehicle, or the profile, with the numbers found")
    calibrate.add_argument("--plot", metavar="PNG", help="draw drives into this file (needs matplotlib)")
    calibrate.add_argument("--json", action="store_true", help="print JSON")
    calibrate.set_defaults(run="vehicled.cli.twin_calibrate:run")
    predict = twin.add_parser(
        "predict",
        help="identify the twin from one recorded drive and foretell the cross-track error of the others",
        description="For each recorded drive of a path: identify steering gain, offset, delay and the response of the speed, "
        "drive the twin under the published controllers, and compare its mean cross-track error with that of the other drives.",
        epilog="Exit status: 0 every path and controller is foretold to a quarter; 1 one is not; 2 the arguments cannot be used.",
    )
    predict.add_argument(
        "folder", nargs="?", metavar="DIR",
        help="folder with path_following_2024 and reference_paths (default ~/vehicled/data, filled by vehicled data fetch)",
    )  # fmt: skip
    predict.add_argument("--profile", default="art", metavar="P", help="vehicle, with a 4-DOF twin (default art)")
    predict.add_argument("--json", action="store_true", help="print JSON")
    predict.set_defaults(run="vehicled.cli.twin_predict:predict_drives")


def _jobs(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 256:
        raise ValueError(text)
    return value


_jobs.__name__ = "number of processes from 1 to 256"
