"""Result of a run, as the table at its end and as JSON."""

from math import degrees, isnan
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from vehicled.core.executive import Executive
from vehicled.core.messages import Identification, Message, ObstacleContact, contact_text
from vehicled.core.wire.usage import UsageRow, usage_lines
from vehicled.run.judge import ErrorStatistics, Judge
from vehicled.run.manoeuvre import ProgrammeMotion, Section
from vehicled.run.terminal import print_table
from vehicled.runtime.clock import StallCount
from vehicled.runtime.ending import Ending, Outcome


class ErrorStats(Struct, frozen=True):
    """Mean, RMS and maximum magnitude of one error."""

    mean: float
    rms: float
    max: float

    @classmethod
    def of(cls, errors: ErrorStatistics) -> "ErrorStats":
        """Return the statistics of an error; NaN if empty."""
        return cls(errors.mean, errors.rms, errors.max if errors.n else float("nan"))


class TaskHealth(Struct, frozen=True):
    """Deadline statistics of one task."""

    name: str
    releases: int
    misses: int
    skips: int
    longest_miss_run: int
    response_p50_ns: int
    response_p99_ns: int
    causes: dict[str, int]
    declared_us: float | None = None
    """Cost that lockstep charged for each run; None where a clock measured it."""


class Learnt:
    """Newest output of a parameter identifier."""

    def __init__(self) -> None:
        self._newest: Identification | None = None

    @property
    def values(self) -> dict[str, float] | None:
        """Return parameters and their standard deviations by name; None before the first
        message."""
        return None if self._newest is None else asdict(self._newest)

    def record(self, message: Message, log_time_ns: int) -> None:
        """Process one message."""
        if isinstance(message, Identification):
            self._newest = message


class Result(Struct, frozen=True, kw_only=True):
    """Result of a run. Errors are against ground truth, in AUTO mode."""

    finished: bool
    why: str
    profile: str
    course: str
    controller: str
    estimator: str
    clock: str
    link: str
    seed: int
    driven_m: float
    course_m: float
    driving_s: float
    cross_track_m: ErrorStats
    heading_rad: ErrorStats
    speed_mps: ErrorStats
    estimate_position_m: ErrorStats
    estimate_yaw_rad: ErrorStats
    estimate_speed_mps: ErrorStats
    tasks: list[TaskHealth]
    run_s: float
    """Duration of the run on the daemon's clock, s."""
    wall_s: float
    digest: str
    frames: int
    log: str
    """Path of the log; empty if none was written."""
    log_problem: str
    markings: str = ""
    """Verdict on the lanes and boxes of the course, by the true body; empty if it has none."""
    markings_passed: bool | None = None
    """True if the lanes were kept and the boxes met; None if the course has none."""
    section: Section | None = None
    programme: str = ""
    """Name of the programme, if one was driven; the course errors are then meaningless."""
    motion: ProgrammeMotion | None = None
    stalls: StallCount | None = None
    """Stalls of this computer during which the simulated clock paused; None if it never pauses."""
    identified: dict[str, float] | None = None
    """Identified vehicle parameters at the end, named as in :class:`Identification`; None without
    an identifier."""

    late_tasks: list[str] = []
    """Texts about the tasks that would have been late in real time on this computer; lockstep
    only."""
    observers_failed: str = ""
    """Failures of what only explains the drive, such as the judge, whose figures may then be wrong;
    empty if there were none."""
    messages: list[UsageRow] = []
    """Messages that arrived on each port: used, and not used with the reason."""
    contacts: list[dict[str, Any]] = []
    """Contacts of the vehicle with its scene: the fields of :class:`ObstacleContact`."""
    course_notes: list[str] = []
    """Reasons for driving slower than the course asks."""
    noise: str = ""
    """Noise that was added to what sensors measured; empty for none."""
    mixed: str = ""
    """Scene and virtual vehicles of mixed reality; empty without them."""

    @property
    def real_time_factor(self) -> float:
        """Run time per wall time."""
        return self.run_s / self.wall_s if self.wall_s > 0 else float("nan")

    def to_json(self) -> str:
        """Return the result as JSON, with null for missing numbers."""
        data: dict[str, Any] = msgspec.to_builtins(self) | {
            "real_time_factor": self.real_time_factor
        }
        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()

    def _course_rows(self) -> list[list[str]]:
        rows = [
            ["driven", f"{self.driven_m:.1f} of {self.course_m:.1f} m in {self.driving_s:.1f} s"],
            ["cross-track error", _metres(self.cross_track_m)],
            ["heading error", _degrees(self.heading_rad)],
            ["speed error", _line(self.speed_mps, "m/s", 3)],
        ]
        if self.section is not None:
            of = self.section
            errors = (
                f"cross-track mean {of.cross_track_mean_m:.3f}  max {of.cross_track_max_m:.3f} m, "
            )
            errors += (
                f"heading mean {degrees(of.heading_mean_rad):.2f} deg, at "
                f"{of.speed_mean_mps:.2f} m/s"
            )
            rows += [["manoeuvre", errors], ["lanes, boxes", self.markings]]
        return rows

    def show(self) -> None:
        """Print the result as a table."""
        verdict = (
            "NOT finished"
            if not self.finished
            else "NOT passed"
            if self.markings_passed is False
            else "finished"
        )
        rows = [
            ["result", f"{verdict}: {self.why}"],
            *([["noise injected", self.noise]] if self.noise else []),
            *([["mixed reality", self.mixed]] if self.mixed else []),
            *(
                [["driven slower", "; ".join(self.course_notes)]]
                if self.course_notes and self.motion is None
                else []
            ),
            *(
                self._course_rows()
                if self.motion is None
                else _motion_rows(self.motion, self.driving_s)
            ),
            ["estimate: position", _metres(self.estimate_position_m)],
            ["estimate: heading", _degrees(self.estimate_yaw_rad)],
            ["estimate: speed", _line(self.estimate_speed_mps, "m/s", 3)],
            *([["contact", _contacts(self.contacts)]] if self.contacts else []),
            *(
                [["identified", _identified(self.identified)]]
                if self.identified is not None
                else []
            ),
            ["deadlines", _health(self.tasks)],
            *([["really late", "; ".join(self.late_tasks)]] if self.late_tasks else []),
            *(
                ["messages" if k == 0 else "", line]
                for k, line in enumerate(usage_lines(self.messages))
            ),
            [
                "speed of the run",
                (
                    f"{self.real_time_factor:.1f} x real time ({self.run_s:.1f} s in "
                    f"{self.wall_s:.1f} s)"
                ),
            ],
            *([["stalls", str(self.stalls)]] if self.stalls is not None else []),
            *([["failed beside it", self.observers_failed]] if self.observers_failed else []),
            ["digest", f"{self.digest} ({self.frames} actuator frames)"],
            ["log", self.log_problem or self.log or "not written"],
        ]
        driven = f"on {self.course}" if self.motion is None else f"by programme {self.programme}"
        title = (
            f"{self.profile} {driven}, {self.controller}, {self.link}, {self.clock}, seed "
            f"{self.seed}"
        )
        print_table(title, ["", ""], rows)


def _contacts(contacts: list[dict[str, Any]]) -> str:
    hardest = contact_text(
        ObstacleContact(**max(contacts, key=lambda each: float(each["speed_mps"])))
    )
    return hardest if len(contacts) == 1 else f"{len(contacts)}, the hardest: {hardest}"


def _motion_rows(motion: ProgrammeMotion, driving_s: float) -> list[list[str]]:
    turned = (
        f"{degrees(motion.turned_rad):+.1f} deg, at most "
        f"{degrees(motion.peak_yaw_rate_radps):.1f} deg/s, "
    )
    turned += f"{motion.peak_lateral_mps2:.2f} m/s2"
    cut = ", ".join(f"{kind} {count}" for kind, count in motion.cut.items())
    return [
        [
            "driven",
            f"{motion.driven_m:.1f} m in {driving_s:.1f} s, up to {motion.top_speed_mps:.2f} m/s",
        ],
        ["turned", turned],
        ["limited by the gate", cut or "none"],
    ]


def figures_of(judge: Judge) -> dict[str, ErrorStats]:
    """Return all error statistics by their name in :class:`Result`."""
    names = (
        "cross_track_m",
        "heading_rad",
        "speed_mps",
        "estimate_position_m",
        "estimate_yaw_rad",
        "estimate_speed_mps",
    )
    return {name: ErrorStats.of(getattr(judge, name)) for name in names}


def health_of(executive: Executive, *, charged: bool) -> list[TaskHealth]:
    """Return the deadline statistics of every task. ``charged``: virtual time charges the declared
    costs."""
    rows = []
    for index, spec in enumerate(executive.table):
        stats = executive.stats(index)
        p50, p99 = stats.response.quantiles_ns((0.5, 0.99))
        causes = {cause.name.lower(): count for cause, count in sorted(stats.causes.items())}
        cost_us = spec.declared_ns / 1e3 if charged else None
        counts = (stats.n, stats.misses, stats.skips, stats.longest_miss_run)
        rows.append(TaskHealth(spec.name, *counts, p50, p99, causes, cost_us))
    return rows


def exit_status(ending: Ending, finished: bool, markings_passed: bool | None = None) -> int:
    """Return 0 only if truth and estimate reached the end of the course, within its lanes and
    through its boxes."""
    if ending.outcome is Outcome.FINISHED and (not finished or markings_passed is False):
        return int(Outcome.NOT_FINISHED)
    return int(ending.outcome)


def _identified(found: dict[str, float]) -> str:
    """Return the identified steering parameters as text."""
    texts = []
    for name, unit, digits in (("gain", "rad", 4), ("offset", "rad", 4), ("delay", "s", 3)):
        sigma = found[f"steering_{name}_sigma_{unit}"]
        spread = "the profile's" if isnan(sigma) else f"sigma {sigma:.{digits}f}"
        texts.append(f"{name} {found[f'steering_{name}_{unit}']:.{digits}f} {unit} ({spread})")
    return ", ".join(texts)


def _line(figures: ErrorStats, unit: str, digits: int) -> str:
    if isnan(figures.mean):
        return "not available: the vehicle did not drive in AUTO mode"
    return (
        f"mean {figures.mean:.{digits}f}  RMS {figures.rms:.{digits}f}  max "
        f"{figures.max:.{digits}f} {unit}"
    )


def _metres(figures: ErrorStats) -> str:
    return _line(figures, "m", 3)


def _degrees(figures_rad: ErrorStats) -> str:
    """Format angles in degrees for people; code, logs and JSON use radians."""
    return _line(
        ErrorStats(
            *(degrees(value) for value in (figures_rad.mean, figures_rad.rms, figures_rad.max))
        ),
        "deg",
        2,
    )


def _health(tasks: list[TaskHealth]) -> str:
    releases = sum(task.releases for task in tasks)
    misses, skips = sum(task.misses for task in tasks), sum(task.skips for task in tasks)
    free = [task.name for task in tasks if task.declared_us == 0.0]
    if not misses and not skips:
        if len(free) == len(tasks):
            return (
                "not judged: the profile declares no cost of a task (tasks.*.declared_us), so "
                f"none of {releases} could be late"
            )
        beside = (
            f"; the profile declares no cost of {' and '.join(free)} (declared_us)" if free else ""
        )
        return f"all met: {releases} releases, no miss, no skip{beside}"
    worst = max(tasks, key=lambda task: task.misses)
    causes: dict[str, int] = {}
    for task in tasks:
        for cause, count in task.causes.items():
            causes[cause] = causes.get(cause, 0) + count
    named = ", ".join(
        f"{cause} {count}" for cause, count in sorted(causes.items(), key=lambda item: -item[1])
    )
    most = f"most in {worst.name}: {worst.misses}, {worst.longest_miss_run} in a row"
    return f"{misses} missed, {skips} skipped of {releases} ({named}); {most}"
