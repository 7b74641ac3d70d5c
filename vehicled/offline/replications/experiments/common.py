"""Interface of the experiments: discovery and console.

An experiment is a module with two functions: ``add_arguments(parser: ArgumentParser) -> None`` and
``run(arguments: Namespace, console: Console) -> int``, the exit status. It imports heavy modules only when it runs.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vehicled.daemon.app import SetupError

if TYPE_CHECKING:
    from vehicled.offline.studies.report import Finished

MOST_DRIVES = 1000

EXPERIMENTS = {
    "ekf-circle": (
        "vehicled.offline.replications.experiments.ekf_circle",
        "ten circles on wandering GPS: filters against the measurement",
    ),
    "mpc-tracking": (
        "vehicled.offline.replications.experiments.mpc_tracking",
        "two trajectories, five tests each: predictive control in the loop",
    ),
    "standing-receiver": (
        "vehicled.offline.replications.experiments.standing_receiver",
        "a standing receiver: recorded and simulated positions",
    ),
    "ins-check": (
        "vehicled.offline.replications.experiments.ins_check",
        "straight drives of known length: is the speed of the INS a truth?",
    ),
    "sim-to-real": (
        "vehicled.offline.replications.experiments.sim_to_real",
        "commands, errors and speed of simulated drives beside recorded ones",
    ),
    "vepd": (
        "vehicled.offline.replications.experiments.vepd",
        "three manoeuvres, five receiver models, ten drives: which is like a real receiver",
    ),
}
"""Module and one line about it, by name."""


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


def add_drives(parser: ArgumentParser, name: str, drives: int) -> None:
    """Add the options of an experiment that drives in simulation and writes into the folder ``name``."""
    parser.add_argument("--drives", type=int, default=drives, metavar="N", help=f"drives in simulation (default {drives})")
    parser.add_argument("--profile", default="art_published", metavar="P", help="vehicle in simulation (default art_published)")
    parser.add_argument("--output", default=name, metavar="DIR", help=f"folder of drives and pictures (default {name})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def check_drives(arguments: Namespace, least: int = 1) -> None:
    """Raise SetupError for numbers that cannot be used."""
    if not least <= arguments.drives <= MOST_DRIVES or arguments.jobs < 1:
        raise SetupError(f"--drives takes {least} to {MOST_DRIVES}, --jobs a whole number from 1 on")


def driven(arguments: Namespace, console: "ExperimentConsole", folder: Path, name: str, **content: Any) -> "Finished":
    """Drive what is missing of a study over ``--drives`` seeds, and read it. Raises StudyError."""
    from vehicled.offline.studies import specification
    from vehicled.offline.studies.campaign import Campaign
    from vehicled.offline.studies.pool import LocalPool
    from vehicled.offline.studies.report import read_study

    factors = {**content.pop("factors", {}), "seed": {"from": 1, "to": arguments.drives}}
    content = {"name": name, "profile": arguments.profile, "keep_logs": "all", **content, "factors": factors}
    wanted = specification.of(content, Path(f"{name}.toml").resolve())
    # A newer version drives anew what it would drive otherwise.
    with closing(LocalPool(arguments.jobs)) as pool, Campaign(wanted, folder, extend=True) as campaign:
        campaign.run(pool, lambda state: console.progress(f"{state.done} of {state.size} drives"))
    return read_study(folder)


def names() -> list[str]:
    """Experiments that are installed."""
    return [name for name, (module, _) in EXPERIMENTS.items() if find_spec(module) is not None]


def summary(mean_m: Sequence[Mapping[str, float]], max_m: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return over all tests the mean of the mean errors and the largest of the largest, m, by system, and the number of tests."""
    systems = mean_m[0]
    return {
        "tests": len(mean_m),
        "mean_m": {name: sum(row[name] for row in mean_m) / len(mean_m) for name in systems},
        "max_m": {name: max(row[name] for row in max_m) for name in systems},
    }
