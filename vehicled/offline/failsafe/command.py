"""Commands ``vehicled failsafe list | test``."""

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from vehicled.core.errors import SetupError
from vehicled.offline.failsafe import document
from vehicled.offline.failsafe.report import TrialResult, lines, show, to_json
from vehicled.run.argument_types import whole
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress
from vehicled.safety.matrix import MATRIX

LOCKSTEP_N, WALL_N = 20, 3


_COUNT = whole(1, 10_000, "expected a whole number from 1 to 10000")
_SEED = whole(0, 10**20 - 1, "expected a whole number from 0 up")


def declare_failsafe_list(parser: CommandParser) -> None:
    """Show the matrix as a table."""
    parser.add_argument("--markdown", action="store_true", help="print docs/failsafe.md instead")
    parser.set_defaults(run=listing)


def declare_failsafe_test(parser: CommandParser) -> None:
    """Inject every fault of the matrix into a closed-loop simulated drive; check the reactions and
    their times."""
    parser.describe(
        epilog="Exit status: 0 every trial passed; 1 at least one failed; 2 invalid arguments."
    )
    parser.add_argument(
        "--row",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="only this row; repeatable",
    )
    parser.add_argument(
        "--link", choices=("messages", "wires"), help="only this link (default both)"
    )
    parser.add_argument(
        "--clock", choices=("lockstep", "wall"), help="only this clock (default both)"
    )
    parser.add_argument(
        "--n",
        type=_COUNT,
        metavar="N",
        help="trials per fault, at random times (default 20 lockstep, 3 wall)",
    )
    parser.add_argument(
        "--seed",
        type=_SEED,
        default=1,
        metavar="S",
        help="seed of the first trial; each further trial adds 1 (default 1)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=test)


def listing(arguments: Namespace) -> int:
    """Print the matrix."""
    if arguments.markdown:
        sys.stdout.write(document.markdown())
        return 0
    print(document.plain(shutil.get_terminal_size().columns))
    return 0


def test(arguments: Namespace) -> int:
    """Inject the faults, measure and report. Exit status 1 if a trial failed."""
    rows = _rows(arguments.row)
    clocks = [arguments.clock] if arguments.clock else ["lockstep", "wall"]
    links = [arguments.link] if arguments.link else ["messages", "wires"]
    trials: list[TrialResult] = []
    progress = Progress()
    for clock in clocks:
        run = _lockstep if clock == "lockstep" else _wall
        n = arguments.n or (LOCKSTEP_N if clock == "lockstep" else WALL_N)
        for done, total, trial in run(rows, links, n, arguments.seed):
            trials.append(trial)
            failed = sum(bool(each.problem) for each in trials)
            if progress.due() or done == total:
                progress.show(
                    f"{clock}: {done} of {total} trials, {failed} failed, row {trial.row}"
                )
    progress.close()
    if not trials:
        raise SetupError(
            "no fault matches --row, --link and --clock: wall time covers rows 1, 6, 17 and 24 "
            "to 29, and some rows need one link"
        )
    found = lines(trials)
    if arguments.json:
        print(to_json(found))
    else:
        show(found)
    return 0 if not any(trial.problem for trial in trials) else 1


def _rows(chosen: Sequence[int]) -> list[int]:
    known = [row.number for row in MATRIX]
    for number in chosen:
        if number not in known:
            raise SetupError(f"no row {number}: the matrix has rows {known[0]} to {known[-1]}")
    return list(chosen) or known


def _lockstep(
    rows: Sequence[int], links: Sequence[str], n: int, seed: int
) -> Iterator[tuple[int, int, TrialResult]]:
    """Run trials on all processors. Each trial is independent of those that run in parallel."""
    from vehicled.offline.failsafe.injections import INJECTIONS

    jobs = [
        (index, link, seed + k)
        for index, injection in enumerate(INJECTIONS)
        if injection.row in rows
        for link in links
        if link in injection.links
        for k in range(n)
    ]
    with ProcessPoolExecutor(min(len(jobs), os.cpu_count() or 1) or 1) as pool:
        for done, trial in enumerate(pool.map(_one, jobs, chunksize=max(1, min(n, 10))), start=1):
            yield done, len(jobs), trial


def _one(job: tuple[int, str, int]) -> TrialResult:
    from vehicled.offline.failsafe.injections import INJECTIONS
    from vehicled.offline.failsafe.trial import run_trial

    index, link, seed = job
    return run_trial(INJECTIONS[index], link, seed)


def _wall(
    rows: Sequence[int], links: Sequence[str], n: int, seed: int
) -> Iterator[tuple[int, int, TrialResult]]:
    """Run trials one after the other, because parallel ones would disturb each other."""
    from vehicled.offline.failsafe.wall import WALL, run_wall

    jobs = [
        (each, link, seed + k)
        for each in WALL
        if each.row in rows
        for link in links
        if link in each.links
        for k in range(n)
    ]
    for done, (each, link, one_seed) in enumerate(jobs, start=1):
        yield done, len(jobs), run_wall(each, link, one_seed)
