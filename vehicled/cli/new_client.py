"""Command ``vehicled new client``: a client of the control protocol in another language."""

import os
import shutil
from argparse import Namespace
from pathlib import Path

from vehicled.core.errors import SetupError
from vehicled.run.argument_types import TEXT
from vehicled.run.command_line import CommandParser

CLIENTS = Path(__file__).parent / "templates" / "clients"
NEXT = {
    "cpp": (
        "build it: cmake -S {folder} -B {folder}/build && cmake --build {folder}/build",
        "in another terminal: vehicled serve simulation --course circle_r5_ccw",
        "drive a lap: {folder}/build/step_lap tcp:127.0.0.1:7715 TOKEN",
    ),
    "matlab": (
        "in another terminal: vehicled serve simulation --course circle_r5_ccw",
        "drive a lap in MATLAB: cd {folder}; step_lap('tcp:127.0.0.1:7715', 'TOKEN')",
        "in GNU Octave before it: pkg load instrument-control",
    ),
}
"""Next steps, by language."""


def declare_new_client(parser: CommandParser) -> None:
    """Write a client of the control protocol into a folder, with programs that drive a lap at once:
    by setpoints to a running daemon, and step by step in simulation."""
    parser.describe(
        examples=(
            "vehicled new client my_planner --language cpp",
            "vehicled new client my_model --language matlab",
        ),
        epilog="See docs/clients.md.",
    )
    parser.add_argument("name", type=TEXT, metavar="FOLDER", help="folder of the files")
    parser.add_argument(
        "--language", choices=tuple(NEXT), required=True, help="language of the client"
    )
    parser.set_defaults(run=new_client)


def new_client(arguments: Namespace) -> int:
    """Write the files; refuse to overwrite one."""
    folder, source = Path(arguments.name), CLIENTS / arguments.language
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    copies = {folder / file: source / file for file in files}
    copies[folder / "conformance.py"] = CLIENTS / "conformance.py"
    if there := [str(path) for path in copies if path.exists()]:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise SetupError(f"{there[0]}{more}: exists already; choose another folder")
    try:
        for path, template in copies.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(template, path)
    except OSError as error:
        raise SetupError(f"cannot write to {folder}: {error.strerror}") from None
    shown = os.path.relpath(folder)
    print(f"written: {len(copies)} files in {shown}")
    for line in NEXT[arguments.language]:
        print(line.format(folder=shown))
    return 0
