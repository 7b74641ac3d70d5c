"""Interface of the experiments: discovery and console.

An experiment is a module with two functions: ``add_arguments(parser: ArgumentParser) -> None`` and
``run(arguments: Namespace, console: Console) -> int``, the exit status. It imports heavy modules only when it runs.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

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
