"""Metrics of a run by name, and functions of the user's that compute others."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from vehicled.core.error_text import shown
from vehicled.paths.course import Course
from vehicled.profile import plugins
from vehicled.profile.problems import nearest
from vehicled.profile.schema import Profile
from vehicled.run.judge import TracePoint
from vehicled.run.result import ErrorStats, Result


class StudyDrive(Struct, frozen=True):
    """A finished drive, as a metric function of the user's gets it."""

    result: Result
    trace: Sequence[TracePoint]
    """Every instant of the drive."""
    course: Course
    profile: Profile
    levels: Mapping[str, Any]
    """Level by factor."""


def _errors(name: str, unit: str) -> dict[str, Callable[[Result], Any]]:
    field = f"{name}_{unit}"

    def reader(which: str) -> Callable[[Result], Any]:
        def read(result: Result) -> Any:
            errors: ErrorStats = getattr(result, field)
            return getattr(errors, which)

        return read

    return {f"{name}_{which}_{unit}": reader(which) for which in ("mean", "rms", "max")}


def _section(field: str) -> Callable[[Result], Any]:
    return lambda result: None if result.section is None else getattr(result.section, field)


def _motion(field: str) -> Callable[[Result], Any]:
    return lambda result: None if result.motion is None else getattr(result.motion, field)


def _tasks(field: str) -> Callable[[Result], Any]:
    return lambda result: sum(getattr(task, field) for task in result.tasks)


METRICS: dict[str, Callable[[Result], Any]] = {
    **_errors("cross_track", "m"),
    **_errors("heading", "rad"),
    **_errors("speed", "mps"),
    **_errors("estimate_position", "m"),
    **_errors("estimate_yaw", "rad"),
    **_errors("estimate_speed", "mps"),
    "manoeuvre_cross_track_mean_m": _section("cross_track_mean_m"),
    "manoeuvre_cross_track_max_m": _section("cross_track_max_m"),
    "manoeuvre_heading_mean_rad": _section("heading_mean_rad"),
    "manoeuvre_speed_mean_mps": _section("speed_mean_mps"),
    "top_speed_mps": _motion("top_speed_mps"),
    "turned_rad": _motion("turned_rad"),
    "peak_lateral_mps2": _motion("peak_lateral_mps2"),
    "driven_m": lambda result: result.driven_m,
    "driving_s": lambda result: result.driving_s,
    "lanes_passed": lambda result: (
        None if result.markings_passed is None else int(result.markings_passed)
    ),
    "misses": _tasks("misses"),
    "skips": _tasks("skips"),
}
"""Numbers of a run by name; None where a drive has none."""
CONTACTS = "contacts"
"""Metric of a fleet: number of contacts."""
DEFAULT = (
    "cross_track_mean_m",
    "cross_track_max_m",
    "heading_mean_rad",
    "speed_mean_mps",
    "driving_s",
)
"""Metrics that a report shows if the study names none."""


def of_fleet(name: str) -> bool:
    """True if a fleet has this metric: ``contacts``, or one of a vehicle, such as
    ``v1.driven_m``."""
    vehicle, _, metric = name.partition(".")
    return name == CONTACTS or (bool(vehicle) and metric in (CONTACTS, *METRICS))


def check_metrics(
    wanted: Sequence[str], folder: Path, *, fleet: bool = False
) -> tuple[list[str], list[str]]:
    """Return the metrics with the whole paths of the user's files, and the mistakes. ``fleet``: the
    study drives one."""
    checked, problems = [], []
    for name in wanted:
        if fleet:
            if not of_fleet(name):
                problems.append(
                    f"metrics: a fleet has no metric {name!r:.60}; it has {CONTACTS}, and those of "
                    f"each vehicle after its name, such as v1.{CONTACTS} or v1.driven_m"
                )
            checked.append(name)
        elif name in METRICS:
            checked.append(name)
        elif ":" in name:
            reference = plugins.absolute(name, folder)
            try:
                function(reference)
                checked.append(reference)
            except plugins.PluginError as error:
                problems.append(f"metrics: {error}")
        else:
            near = nearest(name, METRICS)
            cure = (
                f"did you mean {near}?"
                if near
                else f"known are {', '.join(METRICS)}; your own function is FILE.py:NAME"
            )
            problems.append(f"metrics: no metric {name!r:.60}; {cure}")
    return checked, problems


class _ResultFields:
    """Plain values of a result, read as its attributes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return _attributes(self._values[name])


def _attributes(value: Any) -> Any:
    if isinstance(value, dict):
        return _ResultFields(value)
    return [_attributes(each) for each in value] if isinstance(value, list) else value


def measure_plain(result: Mapping[str, Any]) -> dict[str, float | None]:
    """Return all metrics of a result that another process gave as plain values."""
    return {
        name: _plain(read(cast("Result", _ResultFields(result)))) for name, read in METRICS.items()
    }


def check_searched(name: str, functions: Sequence[str], *, fleet: bool = False) -> list[str]:
    """Return the mistake of the metric that a search is for: it must be known, or a listed function
    of the user's gives it."""
    own = [plugins.table_name(each) for each in functions if plugins.is_reference(each)]
    # A function may return several numbers, function.name.
    if of_fleet(name) if fleet else name in METRICS or name.partition(".")[0] in own:
        return []
    near = nearest(name, (*METRICS, *own))
    cure = (
        f"did you mean {near}?"
        if near
        else f"known are {', '.join((*METRICS, *own))}; list FILE.py:NAME in metrics to use NAME"
    )
    return [f"optimise.metric: no metric {name!r:.60}; {cure}"]


def function(reference: str) -> Callable[[StudyDrive], Any]:
    """Return a metric function of the user's. Raises PluginError."""
    made: Callable[[StudyDrive], Any] = plugins.load(
        "metric", reference, plugins.CONTRACTS["metric"], {}
    ).implementation
    return made


def measure(result: Result) -> dict[str, float | None]:
    """Return all metrics of a result; None for what is missing or not finite."""
    return {name: _plain(read(result)) for name, read in METRICS.items()}


def measure_own(
    references: Sequence[str], drive: StudyDrive
) -> tuple[dict[str, float | None], str]:
    """Return the metrics of the user's functions by name, and what went wrong.

    A function returns one number, or several by name in a dict, which become ``function.name``.
    """
    found: dict[str, float | None] = {}
    problems = []
    for reference in references:
        name = plugins.table_name(reference)
        try:
            with plugins.guard(name):
                value = function(reference)(drive)
                pairs = (
                    {f"{name}.{key}": each for key, each in value.items()}
                    if isinstance(value, dict)
                    else {name: value}
                )
                found |= {key: _number(each) for key, each in pairs.items()}
        except BaseException as error:
            if plugins.is_interrupt(error):
                raise
            problems.append(f"metric {name}: {plugins.describe(error)}")
            found[name] = None
    return found, "; ".join(problems)


def _number(value: Any) -> float | None:
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"returned {shown(value)}; return a number, or several by name in a dict")
    return _plain(float(value))


def _plain(value: Any) -> float | None:
    if value is None or isinstance(value, int):
        return value
    return value if isfinite(value) else None
