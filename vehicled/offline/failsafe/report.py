"""Summary of failsafe trials: one line per injection and link, as a table and as JSON."""

from collections.abc import Sequence
from math import isfinite
from statistics import median

import msgspec
from msgspec import Struct

from vehicled.run.terminal import print_table

COLUMNS = ("row", "injected", "on", "detected by", "passed", "react ms", "limit", "stop m")
USUAL = "art_vesc"
"""Default profile; the report names only other ones."""


class Injected(Struct, frozen=True, kw_only=True):
    """Description of an injected fault and of the drive."""

    row: int
    code: str
    """Code that must detect the fault; empty if a reaction outside the daemon is expected."""
    how: str
    simulated: bool
    clock: str
    link: str
    profile: str


class TrialResult(Injected, frozen=True, kw_only=True):
    """Result of one trial."""

    seed: int
    problem: str
    react_ms: float
    limit_ms: float
    stop_m: float
    reported: tuple[str, ...]
    """Codes of the faults that were reported, in order."""

    @property
    def group(self) -> tuple[int, str, str, str, str, str]:
        """Return the key shared by trials that differ only in their seed."""
        return self.row, self.code, self.how, self.clock, self.link, self.profile


class TrialSummary(Injected, frozen=True, kw_only=True):
    """Summary of all trials of one injection on one link. Times in ms, distances in m; None if not
    measured."""

    n: int
    passed: int
    react_min_ms: float | None
    react_p50_ms: float | None
    react_max_ms: float | None
    limit_ms: float
    stop_min_m: float | None
    stop_p50_m: float | None
    stop_max_m: float | None
    problems: list[str]
    """Problems of the failed trials, with their seeds."""


def lines(trials: Sequence[TrialResult]) -> list[TrialSummary]:
    """Return one line per group of trials, in the order of first occurrence."""
    groups: dict[tuple[int, str, str, str, str, str], list[TrialResult]] = {}
    for trial in trials:
        groups.setdefault(trial.group, []).append(trial)
    return [_line(group) for group in groups.values()]


def _line(group: Sequence[TrialResult]) -> TrialSummary:
    first = group[0]
    reacted = [trial.react_ms for trial in group if isfinite(trial.react_ms)]
    stopped = [trial.stop_m for trial in group if isfinite(trial.stop_m)]
    return TrialSummary(
        **{name: getattr(first, name) for name in Injected.__struct_fields__},
        n=len(group),
        passed=sum(not trial.problem for trial in group),
        react_min_ms=min(reacted, default=None),
        react_p50_ms=median(reacted) if reacted else None,
        react_max_ms=max(reacted, default=None),
        limit_ms=max(trial.limit_ms for trial in group),
        stop_min_m=min(stopped, default=None),
        stop_p50_m=median(stopped) if stopped else None,
        stop_max_m=max(stopped, default=None),
        problems=[f"seed {trial.seed}: {trial.problem}" for trial in group if trial.problem],
    )


def to_json(found: Sequence[TrialSummary]) -> str:
    """Return the lines as JSON."""
    return msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode()


def show(found: Sequence[TrialSummary]) -> None:
    """Print the table (minimum, median and maximum of times and distances), the failures, and a
    note on simulated faults."""
    print_table("", COLUMNS, [_cells(line) for line in found])
    if any(line.simulated for line in found):
        print(
            "* simulated at the edge of the daemon, because a development machine cannot "
            "produce this fault"
        )
    for line in found:
        for problem in line.problems:
            print(f"row {line.row}, {line.how}, {line.clock}, {line.link}: {problem}")
            print(f"  repeat with: {again(line, problem)}")
    n, passed = sum(line.n for line in found), sum(line.passed for line in found)
    print(f"{passed} of {n} trials passed, {len({line.row for line in found})} rows of the matrix")


def again(line: TrialSummary, problem: str) -> str:
    """Return the command that repeats a failed trial; in lockstep it is reproducible bit for
    bit."""
    seed = problem.removeprefix("seed ").partition(":")[0]
    return (
        f"vehicled failsafe test --row {line.row} --clock {line.clock} --link {line.link} "
        f"--seed {seed} --n 1"
    )


def _cells(line: TrialSummary) -> list[str]:
    where = (
        line.link
        + (", wall" if line.clock == "wall" else "")
        + (f", {line.profile}" if line.profile != USUAL else "")
    )
    return [
        str(line.row),
        line.how + (" *" if line.simulated else ""),
        where,
        line.code or "-",
        f"{line.passed} of {line.n}",
        _three(line.react_min_ms, line.react_p50_ms, line.react_max_ms, 0),
        f"{line.limit_ms:.0f}",
        _three(line.stop_min_m, line.stop_p50_m, line.stop_max_m, 2),
    ]


def _three(least: float | None, middle: float | None, most: float | None, digits: int) -> str:
    if least is None or middle is None or most is None:
        return "-"
    return f"{least:.{digits}f} / {middle:.{digits}f} / {most:.{digits}f}"
