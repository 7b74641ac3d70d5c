"""Commands ``vehicled learn collect | dataset | train | features``."""

import re
import sys
from argparse import ArgumentTypeError, Namespace, _ArgumentGroup
from collections import Counter
from pathlib import Path

from vehicled.control.policy.features import PARAMETRISED, SCALARS, SETS, FeatureVector
from vehicled.offline.learning.dataset import Dataset, Meaning, load, read_drives, save
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.imitation import COURSES, DaggerRound, DriveSpec, dagger, requests
from vehicled.offline.learning.policy_file import write_policy
from vehicled.offline.learning.training import TrainingEpoch, TrainingSpec
from vehicled.offline.learning.training import train as train_network
from vehicled.offline.studies.pool import LocalPool
from vehicled.run.argument_types import CONTROLLER, COURSE, KEY, PROFILE, between, whole
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file
from vehicled.run.terminal import Progress, print_table

INTERRUPTED_STATUS = 130
_COUNT = whole(1, 100_000, "expected a whole number from 1 to 100000")
_SEED = whole(0, 2**32 - 1, "expected a whole number from 0")


def declare_learn(parser: CommandParser) -> None:
    """Collect drives, make a data set of them, train a network that imitates their driver, drive
    with it."""
    parser.describe(
        examples=(
            "vehicled learn collect -o drives        the MPC on circles and a straight",
            "vehicled learn dataset drives -o data.parquet",
            "vehicled learn train data.parquet -o policy.onnx",
            "vehicled sim --controller ./policy.onnx",
        ),
        epilog="See docs/learning.md.",
    )


def declare_learn_collect(parser: CommandParser) -> None:
    """Let a controller drive courses in simulation, with logs."""
    parser.describe(
        epilog="A person's drives are collected by 'vehicled sim --clock wall --by-hand' and "
        "'vehicled teleop'. "
        "Exit status: 0 every drive was finished, or lasted --duration; 1 one was not; 130 "
        "interrupted.",
    )
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder of the logs")
    _declare_drives(parser)
    parser.add_argument(
        "--seeds",
        type=_COUNT,
        default=1,
        metavar="N",
        help="drives of each course, with other noise (default 1)",
    )
    parser.add_argument(
        "--jobs", type=_COUNT, metavar="N", help="processes (default: one per core)"
    )
    parser.set_defaults(run=collect)


def declare_learn_dataset(parser: CommandParser) -> None:
    """Make a data set of logs (.mcap), tables (.csv) and other data sets (.parquet), or of all in a
    folder."""
    parser.add_argument("source", nargs="+", metavar="FILE", help="file or folder")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write, .parquet"
    )
    parser.add_argument(
        "--features",
        type=_words,
        metavar="NAMES",
        help=(
            "inputs by name, separated by commas, or the name of a set: published (default), "
            "preview; see vehicled learn features"
        ),
    )
    parser.add_argument(
        "--look-ahead",
        type=between(0.0, 100.0, "expected metres from 0 to 100"),
        default=1.0,
        metavar="M",
        help="distance ahead of the vehicle from which its reference is searched (default 1)",
    )
    parser.add_argument(
        "--no-prediction",
        action="store_true",
        help=(
            "features of the estimated pose, not of the one at which the command acts; so are "
            "those of a table"
        ),
    )
    parser.add_argument(
        "--period",
        type=between(0.0, 10.0, "expected seconds from 0 to 10"),
        default=0.1,
        metavar="S",
        help="least time between two rows (default 0.1)",
    )
    parser.add_argument(
        "--expert",
        type=CONTROLLER,
        default="",
        metavar="NAME",
        help="take the commands of this controller instead of what was commanded",
    )
    parser.set_defaults(run=dataset)


def declare_learn_train(parser: CommandParser) -> None:
    """Train a dense network that imitates the commands of a data set, and write it as an ONNX
    file."""
    parser.describe(epilog="Whole drives are held back to judge it, never rows of one.")
    parser.add_argument("data", metavar="FILE", help="data set of 'vehicled learn dataset'")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write, .onnx"
    )
    parser.add_argument(
        "--hidden",
        type=_sizes,
        default=(8, 16),
        metavar="SIZES",
        help="sizes of the hidden layers (default 8,16)",
    )
    parser.add_argument(
        "--commands", type=_words, default=("throttle", "steering"), metavar="NAMES",
        help=(
            "outputs: steering or wheel_angle_rad, and throttle or not (default "
            "throttle,steering)"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--epochs", type=_COUNT, default=100, metavar="N", help="passes over the data (default 100)"
    )
    parser.add_argument(
        "--batch", type=_COUNT, default=32, metavar="N", help="rows of one step (default 32)"
    )
    parser.add_argument(
        "--rate", type=between(1e-9, 1.0, "expected a number from 1e-9 to 1"), default=1e-3,
        metavar="X", help="learning rate (default 0.001)",
    )  # fmt: skip
    parser.add_argument(
        "--no-scaling",
        action="store_true",
        help="leave features and commands in their units, as published",
    )
    parser.add_argument(
        "--validation", type=between(0.0, 0.9, "expected a share from 0 to 0.9"), default=0.2,
        metavar="X",
        help="share of the drives that is held back to judge the network (default 0.2)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=_SEED, default=1, metavar="N", help="random seed (default 1)"
    )
    parser.add_argument(
        "--library",
        choices=("sklearn", "torch", "numpy"),
        default="sklearn",
        help="library (default sklearn)",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="plot learning curve and commands (.png, .svg or .pdf)"
    )
    rounds = parser.add_argument_group(
        "DAgger", "more drives by the network itself, on which the expert says what it would do"
    )
    rounds.add_argument("--dagger", type=_COUNT, metavar="N", help="number of such drives")
    _declare_drives(rounds, expert="expert")
    rounds.add_argument("--save-data", metavar="FILE", help="also write all data, .parquet")
    parser.set_defaults(run=train)


def declare_learn_features(parser: CommandParser) -> None:
    """List the features that a network may have."""
    parser.set_defaults(run=features)


def _declare_drives(group: CommandParser | _ArgumentGroup, expert: str = "controller") -> None:
    of_data = expert == "expert"
    group.add_argument(
        "--profile", type=PROFILE, default="" if of_data else "art_published", metavar="NAME",
        help=f"profile name or file (default {'that of the data' if of_data else 'art_published'})",
    )  # fmt: skip
    group.add_argument(
        "--course",
        type=COURSE,
        action="append",
        metavar="NAME",
        help="course to drive; repeatable (default: circles and a straight)",
    )
    group.add_argument(
        f"--{expert}", type=CONTROLLER, default="" if of_data else "mpc", metavar="NAME",
        help=f"controller to imitate (default {'that of the data' if of_data else 'mpc'})",
    )  # fmt: skip
    group.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a value of the profile; repeatable",
    )
    group.add_argument(
        "--disturb", type=between(0.0, 1.5, "expected radians from 0 to 1.5"), default=0.0,
        metavar="RAD",
        help=(
            "deviation of the angle by which the wheels are turned and held in bursts, to "
            "learn the way back (default none)"
        ),
    )  # fmt: skip
    group.add_argument(
        "--randomise", action="append", type=_range, default=[], metavar="KEY=LOW..HIGH",
        help=(
            "draw this value of the profile for each drive, such as "
            "sim.steering.gain_rad=0.25..0.42; repeatable"
        ),
    )  # fmt: skip
    group.add_argument(
        "--first-seed",
        type=_SEED,
        default=1,
        metavar="N",
        help="seed of the first drive's noise (default 1)",
    )
    group.add_argument(
        "--duration", type=between(0.1, 1e6, "expected seconds from 0.1"), default=60.0,
        metavar="S", help="longest drive, simulated time (default 60)",
    )  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    """Return the names between commas."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ArgumentTypeError("expected names, separated by commas")
    return words


def _sizes(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > 8 or not all(word.isdecimal() and 1 <= int(word) <= 4096 for word in words):
        raise ArgumentTypeError(
            f"expected up to eight sizes from 1 to 4096, separated by commas, not {text!r}"
        )
    return tuple(int(word) for word in words)


def _range(text: str) -> tuple[str, float, float]:
    found = re.fullmatch(r"([\w.]+)=(.+)\.\.(.+)", text)
    try:
        assert found is not None
        low, high = float(found[2]), float(found[3])
    except (AssertionError, ValueError):
        raise ArgumentTypeError(
            f"expected KEY=LOW..HIGH, such as sim.steering.gain_rad=0.25..0.42, not {text!r}"
        ) from None
    if not low <= high:
        raise ArgumentTypeError(f"the range of {found[1]} begins above its end: {text!r}")
    return found[1], low, high


def collect(arguments: Namespace) -> int:
    """Drive every course with every seed; the logs stay."""
    folder = Path(arguments.output)
    wanted = requests(
        _drives(arguments, arguments.profile, arguments.controller), arguments.seeds, folder
    )
    progress, rows = Progress(), []
    pool = LocalPool(arguments.jobs)
    try:
        progress.show(f"{len(wanted)} drives")
        for row in pool.run(wanted):
            rows.append(row)
            progress.show(
                f"[{'#' * round(24 * len(rows) / len(wanted)):<24}] {len(rows)} of "
                f"{len(wanted)} drives"
            )
    except KeyboardInterrupt:
        progress.close()
        print(f"vehicled: interrupted; {len(rows)} drives are in {folder}", file=sys.stderr)
        return INTERRUPTED_STATUS
    finally:
        pool.close()
        progress.close()
    if all(row.outcome == "refused" for row in rows):
        raise LearningError(rows[0].why)
    table = []
    for row in sorted(rows, key=lambda each: each.number):
        error_m = row.metrics.get("cross_track_mean_m")
        shown = "" if error_m is None else f"{error_m:.3f} m"
        end = row.outcome if row.outcome == "finished" else row.why
        table.append([row.levels["course"], str(row.levels["seed"]), end, shown])
    print_table(
        f"{arguments.controller} on {arguments.profile}",
        ["course", "seed", "drive", "mean cross-track error"],
        table,
    )
    print(f"logs: {folder}\nnext: vehicled learn dataset {folder} -o data.parquet")
    return (
        0
        if all(row.outcome == "finished" or row.run_s >= arguments.duration for row in rows)
        else 1
    )


def _only(found: set[str], what: str, option: str) -> str:
    """Return the one name that all drives of the data have. Raises :class:`LearningError`."""
    if len(found) == 1:
        return found.pop()
    which = ", ".join(sorted(found)) or "none"
    raise LearningError(
        f"--dagger: the data name {len(found)} {what} ({which}); say which with {option}"
    )


def _drives(arguments: Namespace, profile: str, expert: str) -> DriveSpec:
    return DriveSpec(
        profile=profile,
        courses=tuple(arguments.course or COURSES),
        controller=expert,
        disturbance_rad=arguments.disturb,
        overrides=tuple(arguments.set),
        randomised=tuple(arguments.randomise),
        seed=arguments.first_seed,
        duration_s=arguments.duration,
    )


def dataset(arguments: Namespace) -> int:
    """Write the rows of all drives named."""
    file = _output(arguments.output, ".parquet")
    meaning = Meaning(
        features=[
            name
            for word in arguments.features or ("published",)
            for name in SETS.get(word, (word,))
        ],
        look_ahead_m=arguments.look_ahead,
        predicts=not arguments.no_prediction,
        period_s=arguments.period,
    )
    progress = Progress()
    try:
        data, notes = read_drives(arguments.source, meaning, arguments.expert, progress.show)
    finally:
        progress.close()
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    save(data, file)
    _show(data)
    print(f"data set: {file}, {len(data)} rows of {len(data.meaning.drives)} drives")
    return 0


def _show(data: Dataset) -> None:
    names = FeatureVector(data.meaning.features).columns
    columns = {**dict(zip(names, data.features.T)), **data.commands}
    rows = [
        [
            name,
            f"{values.mean():.4g}",
            f"{values.std():.4g}",
            f"{values.min():.4g}",
            f"{values.max():.4g}",
        ]
        for name, values in columns.items()
    ]
    print_table("", ["column", "mean", "deviation", "least", "most"], rows[:40])


def train(arguments: Namespace) -> int:
    """Train, and write the network."""
    file = _output(arguments.output, ".onnx")
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    saved = _output(arguments.save_data, ".parquet") if arguments.save_data else None
    data = load(Path(arguments.data))
    spec = TrainingSpec(
        hidden=arguments.hidden, commands=arguments.commands, epochs=arguments.epochs,
        batch=arguments.batch, rate=arguments.rate, scaling=not arguments.no_scaling,
        validation=arguments.validation, seed=arguments.seed, library=arguments.library,
    )  # fmt: skip
    progress = Progress()

    def show(epoch: TrainingEpoch) -> None:
        progress.update(
            f"epoch {epoch.number} of {spec.epochs}: error {epoch.training:.4f}, held back "
            f"{epoch.validation:.4f}"
        )

    def show_drive(done: DaggerRound) -> None:
        progress.close()
        end = "finished" if done.finished else done.why
        error = f"mean cross-track error {done.cross_track_mean_m:.3f} m"
        print(f"drive {done.number}, {done.course}: {end}, {error}, {done.rows} rows")

    try:
        if arguments.dagger:
            notes = data.meaning.drives
            profile = arguments.profile or _only(
                {note.profile for note in notes} - {""}, "vehicles", "--profile"
            )
            expert = arguments.expert or _only(
                {note.expert or note.driver for note in notes} - {"person"}, "experts", "--expert"
            )
            drives = _drives(arguments, profile, expert)
            trained, data = dagger(
                data, spec, drives, arguments.dagger, on_drive=show_drive, on_epoch=show
            )
        else:
            trained = train_network(data, spec, show)
    finally:
        progress.close()
    write_policy(file, trained.layers, trained.description)
    if saved is not None:
        save(data, saved)
    if arguments.plot:
        from vehicled.offline.learning.training import plot_training

        plot_training(data, trained, arguments.plot)
    last = trained.curve[-1]
    rows = [
        [
            "error, mean square of the scaled commands",
            f"{last.training:.5f}",
            f"{last.validation:.5f}",
        ]
    ]
    drivers = Counter(drive.expert or drive.driver for drive in data.meaning.drives)
    print_table(
        f"imitates {', '.join(drivers)}: {len(data)} rows",
        ["", "training", "drives held back"],
        rows,
    )
    for name, value in trained.rms.items():
        print(
            f"{name}: RMS error "
            f"{value:.4f}{'' if trained.held_back else ' (no drive is held back)'}"
        )
    if trained.held_back:
        print(f"held back: {', '.join(trained.held_back)}")
    print(
        f"policy: {file}\nnext: vehicled sim --controller "
        f"{file if file.is_absolute() else f'./{file}'}"
    )
    return 0


def _output(text: str, suffix: str) -> Path:
    file = Path(text)
    if file.suffix != suffix:
        raise LearningError(f"-o {file}: the name must end in {suffix}")
    check_output("-o", file)
    return file


def features(arguments: Namespace) -> int:
    """Print the features by name."""
    rows = [[name, about] for name, (about, _) in SCALARS.items()] + [
        [name, about] for name, about in PARAMETRISED.items()
    ]
    print_table("", ["feature", "meaning"], rows)
    for name, names in SETS.items():
        print(f"set {name}: {', '.join(names)}")
    return 0
