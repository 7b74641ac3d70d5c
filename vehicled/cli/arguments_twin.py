"""Arguments of ``vehicled twin``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import whole
from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser

_jobs = whole(1, 256, "expected a number of processes from 1 to 256")


def twin_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the group ``twin``."""
    twin = commands.add_parser("twin", help="validate, show and calibrate the simulator's vehicle models").add_subparsers(
        dest="twin_command", metavar="COMMAND", required=True
    )
    validate = twin.add_parser(
        "validate",
        help="compare our vehicle models with published reference runs and with theory",
        description="Simulate every reference run in a folder with our model: same commands, open loop, same start. "
        "Show the deviations from the reference with their targets, the parameters that all runs together show to be off, and "
        "check every vehicle against theory.",
        epilog="Exit status: 0 all targets met and all checks passed; 1 at least one failed; 2 invalid arguments. With --mutants: "
        "0 no false alarm; 1 otherwise.",
    )
    validate.add_argument("folder", nargs="?", metavar="DIR", help="folder of reference runs (default ~/vehicled/data)")
    validate.add_argument(
        "--vehicle",
        metavar="NAME",
        help="only this vehicle: its twin file, such as hmmwv_lfdm, or the reference's name, such as hmmwv",
    )
    validate.add_argument("--run", dest="only", metavar="GLOB", help="only runs of this name, such as 'lfdm/*dlc*'")
    validate.add_argument(
        "--mutants",
        action="store_true",
        help="instead: change each parameter by 5 and 10 percent and count the runs that show it (2 minutes of processor time)",
    )
    validate.add_argument("--no-theory", action="store_true", help="skip the checks against theory")
    validate.add_argument("--json", action="store_true", help="print JSON")
    validate.add_argument("-o", "--output", metavar="HTML", help="write a page with the errors of every run")
    validate.add_argument("--plot-dir", metavar="DIR", help="plot every run into a PNG file in this folder (needs matplotlib)")
    validate.add_argument(
        "--jobs",
        type=_jobs,
        default=1,
        metavar="N",
        help="number of parallel processes (default 1)",
    )
    validate.set_defaults(run="vehicled.offline.twin.validate:validate")
    listing = twin.add_parser("list", help="list the vehicles of the double-track model")
    listing.set_defaults(run="vehicled.offline.twin.show:listing")
    show = twin.add_parser("show", help="show every parameter of a vehicle, with status, uncertainty and origin")
    show.add_argument("name", metavar="NAME", help="name of a twin file, or a .toml file")
    show.add_argument("--only", default="", metavar="KEY", help="only parameters whose key begins with KEY, such as front.tyre")
    show.add_argument("--json", action="store_true", help="print JSON")
    show.set_defaults(run="vehicled.offline.twin.show:run")
    terrain = twin.add_parser(
        "terrain",
        help="inspect a terrain file: extent, slopes, holes",
        description="Read a point cloud or a raster as [sim.terrain] does, and summarise it.",
    )
    terrain.add_argument("file", metavar="FILE", help="point cloud (.las .laz .ply .xyz .txt .pts) or raster (.tif .png .csv)")
    terrain.add_argument("--resolution", type=float, default=0.25, metavar="M", help="grid cell for point clouds (default 0.25)")
    terrain.add_argument("--friction", metavar="FILE", help="friction file to show with it")
    terrain.add_argument("--plot", metavar="PNG", help="plot it into this file (needs matplotlib)")
    terrain.add_argument("--json", action="store_true", help="print JSON")
    terrain.set_defaults(run="vehicled.offline.twin.terrain:run")
    calibrate = twin.add_parser(
        "calibrate",
        help="fit the parameters of a vehicle to recorded drives",
        description="Fit chosen parameters of a twin to recorded drives: simulate the commands and compare the motion. Print "
        "each uncertainty, the parameters that the drives do not determine, and the prediction error on held-out drives.",
        epilog="Exit status: 0 fitted; 1 interrupted, best fit so far; 2 invalid arguments or drives.",
    )
    which = calibrate.add_mutually_exclusive_group(required=True)
    which.add_argument("--profile", metavar="P", help="profile whose twin to fit")
    which.add_argument("--vehicle", metavar="TWIN", help="name of a twin file, or a .toml file")
    calibrate.add_argument(
        "--log",
        nargs="+",
        type=log_name,
        required=True,
        metavar="RUN",
        help="recorded drives: .mcap, CSV, bags, or folders of these",
    )
    calibrate.add_argument(
        "--fit", default="powertrain,steering,tyres", metavar="GROUP,...",
        help="powertrain, steering, tyres, inertia (default the first three)",
    )  # fmt: skip
    calibrate.add_argument("--hold-out", nargs="+", metavar="RUN", help="drives, or name patterns with *, used for validation only")
    calibrate.add_argument(
        "--folds", type=int, default=0, metavar="K", help="K-fold cross-validation: predict every drive from a fit without it"
    )
    calibrate.add_argument("-o", "--output", metavar="TOML", help="write the vehicle, or the profile, with the fitted parameters")
    calibrate.add_argument("--plot", metavar="PNG", help="plot the drives into this file (needs matplotlib)")
    calibrate.add_argument("--json", action="store_true", help="print JSON")
    calibrate.set_defaults(run="vehicled.offline.twin.calibrate:run")
    predict = twin.add_parser(
        "predict",
        help="identify the twin from one recorded drive and predict the cross-track error of the others",
        description="For each recorded drive of a path: identify steering gain, offset, delay and speed response, "
        "simulate the twin with the published controllers, and compare its mean cross-track error with that of the other drives "
        "of the campaign. Each prediction has an interval, its largest causes, and its growth with the steering delay.",
        epilog="Exit status: 0 every prediction is within 25 percent; 1 at least one is not; 2 invalid arguments.",
    )
    predict.add_argument(
        "folder", nargs="?", metavar="DIR",
        help="folder with path_following_2024 and reference_paths (default ~/vehicled/data, filled by vehicled data fetch)",
    )  # fmt: skip
    predict.add_argument(
        "--profile", default="art_published", metavar="P", help="profile of the vehicle, with a 4-DOF twin (default art_published)"
    )
    predict.add_argument(
        "--explain", action="store_true", help="instead: how each error changes without one cause, such as the steering delay"
    )
    predict.add_argument("--jobs", type=_jobs, metavar="N", help="number of parallel processes (default: one per core)")
    predict.add_argument("--json", action="store_true", help="print JSON")
    predict.set_defaults(run="vehicled.offline.replications.predict:predict_drives")
