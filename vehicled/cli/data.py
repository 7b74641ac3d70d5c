"""Command ``vehicled data``: list and download public recordings."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.offline.recordings import public_data
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import DATA_SETS, DataSet
from vehicled.run.argument_types import TEXT, NameType
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress, print_table

UNKNOWN = "none stated"
DATA_SET = NameType(lambda text, before: DATA_SETS)


def declare_data_list(parser: CommandParser) -> None:
    """List the data sets with size, licence and origin."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--to", default="~/vehicled/data", metavar="DIR", help="folder (default ~/vehicled/data)"
    )
    parser.set_defaults(run=listing)


def declare_data_fetch(parser: CommandParser) -> None:
    """Download data sets from the public repositories of their authors. Existing files are kept, so
    an interrupted download can be continued.
    """
    parser.describe(epilog="Exit status: 0 all files are present; 2 a download failed.")
    parser.add_argument(
        "name",
        type=DATA_SET,
        nargs="+",
        metavar="NAME",
        help="name of a data set, see vehicled data list",
    )
    parser.add_argument(
        "--accept-unknown-licence",
        action="store_true",
        help="download data whose authors state no licence",
    )
    parser.add_argument(
        "--mirror", type=TEXT, default="https://raw.githubusercontent.com", metavar="URL",
        help=(
            "base URL for OWNER/REPOSITORY/COMMIT/PATH (default "
            "https://raw.githubusercontent.com)"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--to", default="~/vehicled/data", metavar="DIR", help="folder (default ~/vehicled/data)"
    )
    parser.set_defaults(run=fetch)


def listing(arguments: Namespace) -> int:
    """List the data sets, and how much of each is present."""
    folder = Path(arguments.to).expanduser()
    if arguments.json:
        rows = [
            {
                "name": data.name, "what": data.what, "size_mb": data.size_mb,
                "licence": data.licence or None, "page": data.page, "files": len(data.files),
                "fetched": _fetched(data, folder),
            }
            for data in DATA_SETS.values()
        ]  # fmt: skip
        print(msgspec.json.encode(rows).decode())
        return 0
    print_table(
        f"public recordings; fetched ones are in {folder}",
        ["name", "what", "about", "licence", "fetched", "page"],
        [
            [
                data.name, data.what, f"{data.size_mb:g} MB", data.licence or UNKNOWN,
                f"{_fetched(data, folder)} of {len(data.files)}", data.page,
            ]
            for data in DATA_SETS.values()
        ],
    )  # fmt: skip
    return 0


def fetch(arguments: Namespace) -> int:
    """Download data sets. Raises :class:`RecordingError`."""
    wanted = [public_data.chosen(name) for name in arguments.name]
    folder = Path(arguments.to).expanduser()
    unlicensed = [data.name for data in wanted if not data.licence]
    if unlicensed and not arguments.accept_unknown_licence:
        raise RecordingError(
            f"{', '.join(unlicensed)}: the authors state no licence: you may look at it, but do "
            "not pass it on; to download it, add --accept-unknown-licence"
        )
    progress = Progress()
    try:
        for data in wanted:
            print(
                f"{data.name}: {data.what}; licence: {data.licence or UNKNOWN}; from {data.page}",
                file=sys.stderr,
            )
            count = public_data.fetch(data, folder, progress.update, source=arguments.mirror)
            progress.close()
            print(f"{folder / data.name}: {count} files downloaded, {len(data.files)} in total")
    finally:
        progress.close()
    return 0


def _fetched(data: DataSet, folder: Path) -> int:
    return sum((folder / data.name / file.path).is_file() for file in data.files)
