"""Interface of the experiments: console and common options.

An experiment is a command; its module has ``run(arguments: Namespace, console: ExperimentConsole)
-> int``, the exit status.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vehicled.core.errors import SetupError
from vehicled.run.argument_types import PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress, print_table

if TYPE_CHECKING:
    from vehicled.offline.studies.report import Finished

MOST_DRIVES = 1000


class ExperimentConsole(Protocol):
    """Output of an experiment to its user."""

    def progress(self, text: str) -> None:
        """A line about where it stands; replaces the one before, and may be dropped."""
        ...

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table for people: first column left."""
        ...

    def text(self, text: str) -> None:
        """A line of the result."""
        ...


class TerminalConsole:
    """Shows an experiment on the terminal: progress on standard error, results on standard
    output."""

    def __init__(self) -> None:
        self._progress = Progress()

    def progress(self, text: str) -> None:
        """Show a progress line, which the next one replaces."""
        self._progress.update(text)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table on standard output."""
        self._progress.close()
        print_table(title, columns, rows)

    def text(self, text: str) -> None:
        """Print a line on standard output."""
        self._progress.close()
        print(text)

    def close(self) -> None:
        """Clear the progress line."""
        self._progress.close()


def on_terminal(run: Callable[[Namespace, ExperimentConsole], int]) -> Callable[[Namespace], int]:
    """Return the function of a command that runs an experiment on the terminal."""

    def command(arguments: Namespace) -> int:
        with closing(TerminalConsole()) as console:
            return run(arguments, console)

    return command


def add_drives(parser: CommandParser, name: str, drives: int) -> None:
    """Add the options of an experiment that drives in simulation and writes into the folder
    ``name``."""
    parser.add_argument(
        "--drives",
        type=int,
        default=drives,
        metavar="N",
        help=f"drives in simulation (default {drives})",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="vehicle in simulation (default art_published)",
    )
    parser.add_argument(
        "--output",
        default=name,
        metavar="DIR",
        help=f"folder of drives and pictures (default {name})",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def check_drives(arguments: Namespace, least: int = 1) -> None:
    """Raise SetupError for numbers that cannot be used."""
    if not least <= arguments.drives <= MOST_DRIVES or arguments.jobs < 1:
        raise SetupError(
            f"--drives takes {least} to {MOST_DRIVES}, --jobs a whole number from 1 on"
        )


def driven(
    arguments: Namespace, console: "ExperimentConsole", folder: Path, name: str, **content: Any
) -> "Finished":
    """Drive what is missing of a study over ``--drives`` seeds, and read it. Raises StudyError."""
    from vehicled.offline.studies import specification
    from vehicled.offline.studies.campaign import Campaign
    from vehicled.offline.studies.pool import LocalPool
    from vehicled.offline.studies.report import read_study

    factors = {**content.pop("factors", {}), "seed": {"from": 1, "to": arguments.drives}}
    content = {
        "name": name,
        "profile": arguments.profile,
        "keep_logs": "all",
        **content,
        "factors": factors,
    }
    wanted = specification.of(content, Path(f"{name}.toml").resolve())
    # A newer version drives anew what it would drive otherwise.
    with (
        closing(LocalPool(arguments.jobs)) as pool,
        Campaign(wanted, folder, extend=True) as campaign,
    ):
        campaign.run(pool, lambda state: console.progress(f"{state.done} of {state.size} drives"))
    return read_study(folder)


def summary(
    mean_m: Sequence[Mapping[str, float]], max_m: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    """Return over all tests the mean of the mean errors and the largest of the largest, m, by
    system, and the number of tests."""
    systems = mean_m[0]
    return {
        "tests": len(mean_m),
        "mean_m": {name: sum(row[name] for row in mean_m) / len(mean_m) for name in systems},
        "max_m": {name: max(row[name] for row in max_m) for name in systems},
    }
