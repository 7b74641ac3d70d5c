"""The service on a real Debian with the real-time kernel, in a virtual machine: ``make board``.

Builds the image, boots it, and makes every check of ``checks/`` in the order of their names. Prints
a table of verdicts, and writes it to the output folder with the consoles, the journal and the logs
of the drives. After a run of all checks it also writes the table to ``docs/results`` and into the
page. Status 1 if a check failed.

A check is a file ``checks/NN_name.py``: its docstring says what it proves, and ``check(board)``
returns what was seen. It fails by :func:`bench.board_vm.board.expect`, and says that it could not
be tried here by ``NotTriedError``.
"""

import argparse
import importlib.util
import json
import platform
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.board_vm.board import HERE, LOGS, UNIT, Board, FailedError, NotTriedError
from bench.board_vm.foreign import STEPS, Step, foreign
from bench.board_vm.image import ARCHITECTURES, CACHE, ROOT, MissingToolError, image
from bench.board_vm.machine import Machine, MachineError
from tests.figures import Column, Results, Row, save, write_pages

RESULTS = "board_checks"
PASSED, FAILED, NOT_TRIED = "passed", "**failed**", "not tried"
WIDTH = 120


class Check(NamedTuple):
    """One file of ``checks/``."""

    name: str
    proves: str
    run: Callable[[Board], str | None]


class Verdict(NamedTuple):
    """Result of one check."""

    name: str
    proves: str
    verdict: str
    seen: str
    took_s: float


def load(path: Path) -> Check:
    """Load a check from its file. Raises ValueError if it has no docstring or no function
    ``check``."""
    spec = importlib.util.spec_from_file_location(f"board_check_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.__doc__ or not hasattr(module, "check"):
        raise ValueError(
            f"{path.name}: a check needs a docstring, which says what it proves, and a "
            "function check(board)"
        )
    return Check(path.stem.partition("_")[2], " ".join(module.__doc__.split()), module.check)


def checks(folder: Path, wanted: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a folder in the order of their numbers; of these names, if any are
    given. Raises ValueError."""
    found = [load(path) for path in sorted(folder.glob("[0-9]*_*.py"))]
    unknown = set(wanted) - {check.name for check in found}
    if unknown:
        raise ValueError(
            f"no check {', '.join(sorted(unknown))}; there are "
            f"{', '.join(check.name for check in found)}"
        )
    return [
        check
        for check in found
        if not wanted or check.name in wanted or check.name in ("install", "start")
    ]


def make(check: Check | Step, board: Any) -> Verdict:
    """Make one check, whatever happens in it; ``board`` is what it is made on."""
    start = time.monotonic()
    try:
        verdict, seen = PASSED, check.run(board) or ""
    except FailedError as error:
        verdict, seen = FAILED, str(error)
    except NotTriedError as error:
        verdict, seen = NOT_TRIED, str(error)
    except MachineError as error:
        verdict, seen = FAILED, f"the bench: {error}"
    except Exception as error:  # noqa: BLE001
        verdict, seen = FAILED, f"the check itself: {type(error).__name__}: {error}"
        traceback.print_exc()
    return Verdict(
        check.name, check.proves, verdict, " ".join(seen.split()), time.monotonic() - start
    )


def table(verdicts: Iterable[Verdict]) -> str:
    """Return the table as it is printed."""
    return "\n".join(
        f"{v.verdict.strip('*'):<10} {v.name:<20} {v.took_s:5.0f} s  {v.seen}" for v in verdicts
    )


def results(verdicts: Sequence[Verdict], where: str, command: str = "make board") -> Results:
    """Return the table of docs/service.md."""
    return Results(
        command=command,
        kind="machine",
        measured=time.strftime("%Y-%m-%d"),
        machine=where,
        columns=[
            Column(head="check"),
            Column(head="proves"),
            Column(head="result"),
            Column(head="seen"),
        ],
        rows=[Row(cells=[v.name, v.proves, v.verdict, _short(v.seen)]) for v in verdicts],
    )


def _short(text: str) -> str:
    text = text.replace("|", "/")
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def collect(board: Board, out: Path) -> None:
    """Copy journal and logs out of the guest, and the consoles of the machine."""
    board.machine.collect(out)
    try:
        board.status_of(
            "mkdir -p /bench/out; journalctl --no-pager -o short-precise >/bench/out/journal.txt"
        )
        board.status_of(
            (
                f"journalctl -u {UNIT} --no-pager -o cat >/bench/out/events.jsonl; cp "
                f"{LOGS}/*.mcap /bench/out/"
            ),
            timeout_s=200.0,
        )
    except MachineError as error:
        print(f"no journal and no logs: {error}")
        return
    for path in (board.machine.share / "out").iterdir():
        shutil.move(path, out / path.name)


def run_foreign(arguments: argparse.Namespace) -> list[Verdict]:
    """Try the package in a system of another architecture."""
    start = time.monotonic()
    root = foreign(arguments.arch)
    print(f"the system was made or found in {time.monotonic() - start:.0f} s", flush=True)
    wanted = [step for step in STEPS if not arguments.checks or step.name in arguments.checks]
    verdicts = []
    for step in wanted:
        verdicts.append(make(step, root))
        print(table(verdicts[-1:]), flush=True)
    if wanted == list(STEPS) and not arguments.no_write:
        where = f"{arguments.arch} on {platform.machine()} by qemu-user"
        save(
            f"board_{arguments.arch}", results(verdicts, where, f"make board ARCH={arguments.arch}")
        )
        write_pages()
    return verdicts


def run(arguments: argparse.Namespace) -> list[Verdict]:
    """Boot the machine and make the checks."""
    wanted = checks(HERE / "checks", arguments.checks)
    out: Path = arguments.out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    built = image()
    folder = CACHE / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    verdicts = []
    with Machine(built, folder) as machine:
        board = Board(machine, built)
        print(f"kernel {built.release} boots", flush=True)
        print(f"the guest answers after {board.boot():.0f} s", flush=True)
        for check in wanted:
            verdict = make(check, board)
            print(table([verdict]), flush=True)
            verdicts.append(verdict)
            if verdict.verdict == FAILED:
                board.restore()
        collect(board, out)
    where = f"Debian with kernel {built.release}, {platform.machine()} emulated by qemu"
    (out / "verdicts.json").write_text(
        json.dumps([verdict._asdict() for verdict in verdicts], indent=1) + "\n"
    )
    (out / "table.txt").write_text(table(verdicts) + "\n")
    if not arguments.checks and not arguments.no_write:
        save(RESULTS, results(verdicts, where))
        write_pages()
    shutil.rmtree(folder)
    return verdicts


def main() -> int:
    """Make the checks and print the table."""
    parser = argparse.ArgumentParser(
        prog="make board", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "checks",
        nargs="*",
        metavar="CHECK",
        help="only these, after install and start (default: all)",
    )
    parser.add_argument(
        "--arch",
        choices=sorted(ARCHITECTURES),
        default="amd64",
        help="of another one only the package is tried, without a kernel (default amd64)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "board",
        metavar="DIR",
        help="folder of tables and logs",
    )
    parser.add_argument(
        "--no-write",
        action="store_true",
        help=f"leave docs/results/{RESULTS}.json and the page as they are",
    )
    parser.add_argument(
        "--list", action="store_true", help="only list the checks and what they prove"
    )
    arguments = parser.parse_args()
    try:
        if arguments.list:
            listed: Sequence[Check | Step] = (
                checks(HERE / "checks", arguments.checks) if arguments.arch == "amd64" else STEPS
            )
            for check in listed:
                print(f"{check.name:<20} {check.proves}")
            return 0
        verdicts = run(arguments) if arguments.arch == "amd64" else run_foreign(arguments)
    except (MissingToolError, MachineError, ValueError) as error:
        print(f"make board: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(
            f"make board: {Path(str(error.cmd[0])).name} failed with status {error.returncode}",
            file=sys.stderr,
        )
        return 2
    print(f"\n{table(verdicts)}\n")
    counts = {
        kind: sum(v.verdict == kind for v in verdicts) for kind in (PASSED, FAILED, NOT_TRIED)
    }
    print(
        f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[NOT_TRIED]} not tried; "
        f"logs: {arguments.out}"
    )
    return int(counts[FAILED] > 0)


if __name__ == "__main__":
    sys.exit(main())
