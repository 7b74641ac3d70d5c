"""Arguments of ``vehicled learn``."""

import re
from argparse import ArgumentTypeError, _ArgumentGroup, _SubParsersAction

from vehicled.cli.argument_types import between, whole
from vehicled.cli.parser import CommandParser

_count = whole(1, 100_000, "expected a whole number from 1 to 100000")
_seed = whole(0, 2**32 - 1, "expected a whole number from 0")


def _words(text: str) -> tuple[str, ...]:
    """Return the names between commas."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ArgumentTypeError("expected names, separated by commas")
    return words


def _sizes(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > 8 or not all(word.isdecimal() and 1 <= int(word) <= 4096 for word in words):
        raise ArgumentTypeError(f"expected up to eight sizes from 1 to 4096, separated by commas, not {text!r}")
    return tuple(int(word) for word in words)


def _range(text: str) -> tuple[str, float, float]:
    found = re.fullmatch(r"([\w.]+)=(.+)\.\.(.+)", text)
    try:
        assert found is not None
        low, high = float(found[2]), float(found[3])
    except (AssertionError, ValueError):
        raise ArgumentTypeError(f"expected KEY=LOW..HIGH, such as sim.steering.gain_rad=0.25..0.42, not {text!r}") from None
    if not low <= high:
        raise ArgumentTypeError(f"the range of {found[1]} begins above its end: {text!r}")
    return found[1], low, high


def learn_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``learn``."""
    learn = commands.add_parser(
        "learn",
        help="train a network on drives, and use it as a controller",
        description="Collect drives, make a data set of them, train a network that imitates their driver, drive with it.",
        examples=(
            "vehicled learn collect -o drives        the MPC on circles and a straight",
            "vehicled learn dataset drives -o data.parquet",
            "vehicled learn train data.parquet -o policy.onnx",
            "vehicled sim --controller ./policy.onnx",
        ),
        epilog="See docs/learning.md.",
    ).add_subparsers(dest="learn_command", metavar="COMMAND", required=True)

    collect = learn.add_parser(
        "collect",
        help="let a controller drive courses in simulation, with logs",
        epilog="A person's drives are collected by 'vehicled sim --clock wall --by-hand' and 'vehicled teleop'. "
        "Exit status: 0 every drive was finished, or lasted --duration; 1 one was not; 130 interrupted.",
    )
    collect.add_argument("-o", "--output", metavar="DIR", required=True, help="folder of the logs")
    _drive_arguments(collect)
    collect.add_argument("--seeds", type=_count, default=1, metavar="N", help="drives of each course, with other noise (default 1)")
    collect.add_argument("--jobs", type=_count, metavar="N", help="processes (default: one per core)")
    collect.set_defaults(run="vehicled.cli.learn:collect")

    dataset = learn.add_parser(
        "dataset",
        help="make a data set of logs",
        description="Make a data set of logs (.mcap), tables (.csv) and other data sets (.parquet), or of all in a folder.",
    )
    dataset.add_argument("source", nargs="+", metavar="FILE", help="file or folder")
    dataset.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write, .parquet")
    dataset.add_argument(
        "--features",
        type=_words,
        metavar="NAMES",
        help="inputs by name, separated by commas, or the name of a set: published (default), preview; see vehicled learn features",
    )
    dataset.add_argument(
        "--look-ahead",
        type=between(0.0, 100.0, "expected metres from 0 to 100"),
        default=1.0,
        metavar="M",
        help="distance ahead of the vehicle from which its reference is searched (default 1)",
    )
    dataset.add_argument(
        "--no-prediction",
        action="store_true",
        help="features of the estimated pose, not of the one at which the command acts; so are those of a table",
    )
    dataset.add_argument(
        "--period",
        type=between(0.0, 10.0, "expected seconds from 0 to 10"),
        default=0.1,
        metavar="S",
        help="least time between two rows (default 0.1)",
    )
    dataset.add_argument(
        "--expert", default="", metavar="NAME", help="take the commands of this controller instead of what was commanded"
    )
    dataset.set_defaults(run="vehicled.cli.learn:dataset")

    train = learn.add_parser(
        "train",
        help="train a network on a data set",
        description="Train a dense network that imitates the commands of a data set, and write it as an ONNX file.",
        epilog="Whole drives are held back to judge it, never rows of one.",
    )
    train.add_argument("data", metavar="FILE", help="data set of 'vehicled learn dataset'")
    train.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write, .onnx")
    train.add_argument("--hidden", type=_sizes, default=(8, 16), metavar="SIZES", help="sizes of the hidden layers (default 8,16)")
    train.add_argument(
        "--commands", type=_words, default=("throttle", "steering"), metavar="NAMES",
        help="outputs: steering or wheel_angle_rad, and throttle or not (default throttle,steering)",
    )  # fmt: skip
    train.add_argument("--epochs", type=_count, default=100, metavar="N", help="passes over the data (default 100)")
    train.add_argument("--batch", type=_count, default=32, metavar="N", help="rows of one step (default 32)")
    train.add_argument(
        "--rate", type=between(1e-9, 1.0, "expected a number from 1e-9 to 1"), default=1e-3, metavar="X",
        help="learning rate (default 0.001)",
    )  # fmt: skip
    train.add_argument("--no-scaling", action="store_true", help="leave features and commands in their units, as published")
    train.add_argument(
        "--validation", type=between(0.0, 0.9, "expected a share from 0 to 0.9"), default=0.2, metavar="X",
        help="share of the drives that is held back to judge the network (default 0.2)",
    )  # fmt: skip
    train.add_argument("--seed", type=_seed, default=1, metavar="N", help="random seed (default 1)")
    train.add_argument("--library", choices=("sklearn", "torch", "numpy"), default="sklearn", help="library (default sklearn)")
    train.add_argument("--plot", metavar="FILE", help="plot learning curve and commands (.png, .svg or .pdf)")
    rounds = train.add_argument_group("DAgger", "more drives by the network itself, on which the expert says what it would do")
    rounds.add_argument("--dagger", type=_count, metavar="N", help="number of such drives")
    _drive_arguments(rounds, expert="expert")
    rounds.add_argument("--save-data", metavar="FILE", help="also write all data, .parquet")
    train.set_defaults(run="vehicled.cli.learn:train")

    features = learn.add_parser("features", help="list the features that a network may have")
    features.set_defaults(run="vehicled.cli.learn:features")


def _drive_arguments(group: CommandParser | _ArgumentGroup, expert: str = "controller") -> None:
    of_data = expert == "expert"
    group.add_argument(
        "--profile", default="" if of_data else "art_published", metavar="NAME",
        help=f"profile name or file (default {'that of the data' if of_data else 'art_published'})",
    )  # fmt: skip
    group.add_argument(
        "--course", action="append", metavar="NAME", help="course to drive; repeatable (default: circles and a straight)"
    )
    group.add_argument(
        f"--{expert}", default="" if of_data else "mpc", metavar="NAME",
        help=f"controller to imitate (default {'that of the data' if of_data else 'mpc'})",
    )  # fmt: skip
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a value of the profile; repeatable"
    )
    group.add_argument(
        "--disturb", type=between(0.0, 1.5, "expected radians from 0 to 1.5"), default=0.0, metavar="RAD",
        help="deviation of the angle by which the wheels are turned and held in bursts, to learn the way back (default none)",
    )  # fmt: skip
    group.add_argument(
        "--randomise", action="append", type=_range, default=[], metavar="KEY=LOW..HIGH",
        help="draw this value of the profile for each drive, such as sim.steering.gain_rad=0.25..0.42; repeatable",
    )  # fmt: skip
    group.add_argument("--first-seed", type=_seed, default=1, metavar="N", help="seed of the first drive's noise (default 1)")
    group.add_argument(
        "--duration", type=between(0.1, 1e6, "expected seconds from 0.1"), default=60.0, metavar="S",
        help="longest drive, simulated time (default 60)",
    )  # fmt: skip
