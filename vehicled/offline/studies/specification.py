"""A study file: its fixed values, its factors, and the runs that they give."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import msgspec.inspect as mi
from msgspec import Meta, Struct

from vehicled.core import shipped
from vehicled.offline.studies.design import (
    MAX_RUNS,
    Factor,
    Interval,
    Level,
    Sampling,
    factor_of,
    flat,
    points,
)
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.formula import FormulaError, evaluate, is_formula
from vehicled.offline.studies.metrics import check_metrics, check_searched
from vehicled.paths import scenes
from vehicled.profile import ProfileError, plugins, toml_text
from vehicled.profile.collect import build_table
from vehicled.profile.problems import choices, found, nearest
from vehicled.profile.profile_files import read
from vehicled.profile.wording import describe


class ExactLoop(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A drive without the daemon: exact state, controller, actuators and plant. It answers what the
    control law alone can do."""

    rate_hz: Annotated[float, Meta(ge=5.0, le=2000.0)]
    """Rate of the control law, Hz."""
    physics_hz: Annotated[float, Meta(ge=0.0, le=20_000.0)] = 0.0
    """Rate of the physics, Hz, a whole multiple of ``rate_hz``; 0: that of the control law, if the
    plant is stable with it."""
    delay_steps: Annotated[int, Meta(ge=0, le=1000)] = 1
    """Control steps from a state to the actuator."""
    point_wheelbases: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.0
    """Point that is judged, ahead of the rear axle, in wheelbases."""
    box_m: Annotated[float, Meta(gt=0.0, le=1e6)] = 0.5
    """Distance from the line beyond which a waypoint is missed, m."""


class RunSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings that decide one run, together with the files that they name."""

    profile: str = "art"
    course: str = ""
    """Empty: the scene's first, else the profile's."""
    scene: str = ""
    """Empty: the profile's."""
    fleet: str = ""
    """File of a fleet, which is then driven; the other keys hold for its vehicles."""
    controller: str = ""
    estimator: str = ""
    identifier: str = ""
    programme: str = ""
    laps: Annotated[int, Meta(ge=1, le=10_000)] = 1
    link: Literal["messages", "wires"] = "messages"
    start: Literal["", "stand", "align", "push"] = ""
    seed: Annotated[int, Meta(ge=0)] = 1
    duration_s: Annotated[float, Meta(gt=0.0, le=1e6)] = 3600.0
    """Simulated time after which the drive is stopped."""
    latency: str = ""
    """Added latency, as for ``--latency``."""
    board: str = ""
    """File of a measured computer, as for ``--board``."""
    fail: tuple[str, ...] = ()
    """Faults to inject, as for ``--fail``."""
    exact: ExactLoop | None = None
    """Loop without the daemon, of the keys ``exact.rate_hz`` and others; None: the daemon
    drives."""
    overrides: dict[str, Any] = {}
    """Values of the profile by dotted key."""


EXACT = "exact."
FIELDS = tuple(name for name in RunSettings.__struct_fields__ if name not in ("overrides", "exact"))
"""Keys of a study file that are no keys of the profile."""
ONE_VEHICLE = {"fail", "start", "identifier"}
"""Keys that a fleet does not take for all its vehicles."""
_HINTS = get_type_hints(RunSettings, include_extras=True)
_ALLOWED = {name: describe(mi.type_info(hint)) for name, hint in _HINTS.items()}


class Optimisation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Search for the best values of the factors instead of a table of all."""

    metric: str
    direction: Literal["minimize", "maximize"] = "minimize"
    trials: Annotated[int, Meta(ge=1, le=MAX_RUNS)] = 100
    batch: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Trials that are chosen together, so that the result does not depend on the number of
    processes."""
    sampler: Literal["tpe", "cmaes", "random", "gp"] = "tpe"
    seed: int = 1
    failed: float = 1e3
    """Value of a trial in which a run did not finish; the opposite when maximizing."""


class Point(Struct, frozen=True):
    """One run of a study: the levels of its factors, and its settings."""

    number: int
    levels: dict[str, Any]
    """Label of the level by factor."""
    settings: RunSettings

    def key(self, basis: str) -> str:
        """Return the identity of the run: a hash of everything that decides it. ``basis`` stands
        for software and files."""
        text = json.dumps(msgspec.to_builtins(self.settings), sort_keys=True)
        return hashlib.sha256(f"{basis}\n{text}".encode()).hexdigest()[:16]


class Specification(Struct, frozen=True, kw_only=True):
    """A checked study file."""

    name: str
    path: str
    source: str
    description: str
    fixed: dict[str, Any]
    """Fixed values by key; formulas are not evaluated yet."""
    factors: tuple[Factor, ...]
    intervals: tuple[Interval, ...]
    sampling: Sampling | None
    optimise: Optimisation | None
    metrics: tuple[str, ...]
    """Metrics that the report shows first; functions of the user's as ``FILE.py:NAME`` with the
    whole path."""
    keep_logs: Literal["none", "failed", "all"]
    report: str
    """Name of the kind of report; empty for the general one."""

    @property
    def folder(self) -> Path:
        """Folder to which files in the study are relative."""
        return Path(self.path).parent

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all factors."""
        return (*(each.name for each in self.intervals), *(each.name for each in self.factors))

    @property
    def size(self) -> int:
        """Number of runs; of an optimisation an upper bound."""
        count = 1
        for factor in self.factors:
            count *= len(factor.levels)
        if self.optimise is not None:
            return self.optimise.trials * self._replicates
        return count * (self.sampling.points if self.intervals and self.sampling is not None else 1)

    @property
    def _replicates(self) -> int:
        return next((len(factor.levels) for factor in self.factors if factor.name == "seed"), 1)

    def points(self) -> Iterator[Point]:
        """Iterate over all runs. Raises :class:`StudyError` if a formula or value of one is
        invalid."""
        for number, levels in enumerate(points(self.factors, self.intervals, self.sampling), 1):
            yield self.point(number, levels)

    def point(self, number: int, levels: Mapping[str, Level]) -> Point:
        """Return the run of a design point. Raises :class:`StudyError`."""
        labels = {name: level.label for name, level in levels.items()}
        values = dict(self.fixed)
        for level in levels.values():
            values |= level.keys
        numbers = {
            name: value for name, value in {**values, **labels}.items() if not is_formula(value)
        }
        try:
            made = {
                key: evaluate(value, numbers) if is_formula(value) else value
                for key, value in values.items()
            }
            return Point(number, labels, _settings(made, self.folder))
        except (FormulaError, ValueError) as error:
            shown = ", ".join(f"{name} = {label}" for name, label in labels.items())
            raise StudyError(self.path, [f"{error} (at {shown or 'the only run'})"]) from None

    def samples(self) -> Iterator[Point]:
        """Iterate over runs that together have every level of every factor but the seed: what is
        loaded before the first run."""
        return (
            self.point(0, levels)
            for levels in self._each_level()
            if levels.get("seed") in (None, self._first().get("seed"))
        )

    def check_values(self) -> None:
        """Evaluate every formula and value once. Raises :class:`StudyError` with the mistakes of
        all levels."""
        problems: dict[str, None] = {}
        for levels in self._each_level():
            try:
                self.point(0, levels)
            except StudyError as error:
                problems |= dict.fromkeys(error.problems)
        if problems:
            raise StudyError(self.path, list(problems))

    def _first(self) -> dict[str, Level]:
        first = {factor.name: factor.levels[0] for factor in self.factors}
        return first | {
            interval.name: interval.level(interval.at(0.5)) for interval in self.intervals
        }

    def _each_level(self) -> Iterator[dict[str, Level]]:
        first = self._first()
        yield first
        for factor in self.factors:
            yield from (first | {factor.name: level} for level in factor.levels[1:])
        for interval in self.intervals:
            yield from (
                first | {interval.name: interval.level(interval.at(end))} for end in (0.0, 1.0)
            )


def _settings(values: Mapping[str, Any], folder: Path) -> RunSettings:
    fields: dict[str, Any] = {}
    overrides = {
        key: value
        for key, value in values.items()
        if key not in FIELDS and not key.startswith(EXACT)
    }
    loop = {
        key.removeprefix(EXACT): value for key, value in values.items() if key.startswith(EXACT)
    }
    if loop:
        fields["exact"], mistakes = build_table(ExactLoop, loop)
        if mistakes:
            raise ValueError("; ".join(f"{EXACT}{each}" for each in mistakes))
    for key in FIELDS:
        if key in values:
            value = values[key]
            if key == "fail":
                value = [value] if isinstance(value, str) else value
                value = [each for each in value if each] if isinstance(value, list) else value
            try:
                fields[key] = msgspec.convert(value, _HINTS[key])
            except msgspec.ValidationError:
                raise ValueError(f"{key}: must be {_ALLOWED[key]}, found {found(value)}") from None
            fields[key] = _beside(key, fields[key], folder)
    return RunSettings(
        **fields,
        overrides={key: plugins.absolute(value, folder) for key, value in overrides.items()},
    )


def _beside(key: str, value: Any, folder: Path) -> Any:
    """Return a value with the whole path of the file that it names, if that is relative to the
    study."""
    if (key == "course" and scenes.is_course(value)) or (
        key == "scene" and scenes.is_shipped(value)
    ):
        return value if scenes.is_shipped(value) else str(folder / value)
    if key == "scene" and value:
        return str((folder / Path(value).expanduser()).resolve())
    if key == "fleet" and value:
        return str((folder / Path(value).expanduser()).resolve())
    if key in ("profile", "course", "programme", "board") and "/" in value:
        return str((folder / Path(value).expanduser()).resolve())
    if key in ("controller", "estimator", "identifier"):
        return plugins.absolute(value, folder)
    return value


def names() -> list[str]:
    """Return the names of the shipped studies."""
    return sorted(path.stem for path in shipped.folder("profiles/studies").glob("*.toml"))


def find(name_or_file: str) -> Path:
    """Return the file of a study. Raises :class:`StudyError` for an unknown name, with the
    nearest."""
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        return Path(name_or_file).expanduser()
    if name_or_file in names():
        return shipped.folder("profiles/studies") / f"{name_or_file}.toml"
    near = nearest(name_or_file, names())
    hint = f'did you mean "{near}"? There' if near else "there"
    raise StudyError(
        f'study "{name_or_file:.60}"',
        [
            (
                f"no study of that name; {hint} are {choices(names())}. A file is given as "
                "./my_study.toml"
            )
        ],
    )


def load(name_or_file: str) -> Specification:
    """Return a study by name or file. Raises :class:`StudyError` with every mistake, and
    ProfileError for what is no TOML."""
    path = find(name_or_file)
    return parse(read(path), path)


def parse(text: str, path: Path, *, driven: bool = False) -> Specification:
    """Return the study of a text. ``path`` names it, and is where relative files are looked for;
    for ``driven`` see :func:`of`."""
    data = toml_text.parse(text, str(path))
    return of(data, path, text, driven=driven)


_TABLES = ("set", "factors", "sampling", "optimise")
_TEXTS = ("name", "description", "report")


def of(
    data: Mapping[str, Any], path: Path, text: str = "", *, driven: bool = False
) -> Specification:
    """Return the study of plain values, as read from TOML. Raises :class:`StudyError` with every
    mistake.

    ``driven``: the study was checked when it was driven; its files may be gone since, and a newer
    version may check more.
    """
    text = text or toml_text.write(data)
    problems: list[str] = []
    known = (*FIELDS, *_TABLES, *_TEXTS, "metrics", "keep_logs")
    for key in data:
        if key not in known:
            near = nearest(key, known)
            cure = (
                f"did you mean {near}?"
                if near
                else "keys of the profile belong into [set] or [factors]"
            )
            problems.append(f"{key}: no such key; {cure}")
    problems += [
        f"{key}: must be a table" for key in _TABLES if not isinstance(data.get(key, {}), dict)
    ]
    texts = {key: data.get(key, "") for key in _TEXTS}
    problems += [
        f"{key}: must be a text" for key, value in texts.items() if not isinstance(value, str)
    ]
    if problems:
        raise StudyError(str(path), problems)
    fixed = {key: value for key, value in data.items() if key in FIELDS}
    fixed |= dict(flat(data.get("set", {})))
    factors, intervals = _factors(data.get("factors", {}), problems)
    varied: dict[str, list[str]] = {}
    every: list[Factor | Interval] = [*factors, *intervals]
    for each in every:
        for key in each.all_keys:
            varied.setdefault(key, []).append(each.name)
    problems += [
        f"{key}: is fixed and a factor: remove one" for key in sorted(varied.keys() & fixed.keys())
    ]
    # Only the last one would have an effect, and the report would say that the others have none.
    problems += [
        f"{key}: is set by the factors {' and '.join(names)}: leave it to one"
        for key, names in varied.items()
        if names[1:]
    ]
    _unknown_keys({*fixed, *varied} - set(FIELDS), problems)
    sampling = _table("sampling", Sampling, data, problems)
    optimise = _table("optimise", Optimisation, data, problems)
    if intervals and sampling is None and optimise is None:
        problems.append(
            f"factors.{intervals[0].name}: has bounds; say with [sampling] points = N how "
            "often it is sampled"
        )
    if sampling is not None and not (1 <= sampling.points <= MAX_RUNS):
        problems.append(f"sampling.points: must be from 1 to {MAX_RUNS}")
    if sampling is not None and not intervals:
        problems.append("sampling: no factor has bounds {low, high}: remove the table, or give one")
    if sampling is not None and optimise is not None:
        problems.append("sampling and optimise exclude each other: remove one")
    metrics = data.get("metrics", [])
    if not isinstance(metrics, list) or not all(isinstance(each, str) for each in metrics):
        problems.append("metrics: must be a list of names, or of functions as FILE.py:NAME")
        metrics = []
    keep = data.get("keep_logs", "none")
    if keep not in ("none", "failed", "all"):
        problems.append(f'keep_logs = {keep!r:.40}: use one of "none", "failed", "all"')
    if (
        sampling is not None
        and sampling.method == "sobol"
        and sampling.points & (sampling.points - 1)
    ):
        near = 2 ** (sampling.points.bit_length() - 1)
        problems.append(
            f"sampling.points: Sobol points are balanced only in powers of two: take {near} or "
            f"{2 * near}"
        )
    fleet = "fleet" in {*fixed, *varied}
    if fleet:
        problems += [
            f"{key}: a fleet takes none: give it to a vehicle of the fleet, or leave it out"
            for key in sorted({*fixed, *varied} & ONE_VEHICLE)
        ]
    metrics = metrics or (["contacts"] if fleet else [])
    checked, mistakes = (
        (metrics, []) if driven else check_metrics(metrics, path.parent, fleet=fleet)
    )
    problems += mistakes
    if optimise is not None and not mistakes:
        problems += check_searched(optimise.metric, checked, fleet=fleet)
    made = Specification(
        name=texts["name"] or path.stem, path=str(path), source=text,
        description=texts["description"], fixed=fixed, factors=tuple(factors),
        intervals=tuple(intervals), sampling=sampling, optimise=optimise, metrics=tuple(checked),
        keep_logs=keep if keep in ("none", "failed", "all") else "none", report=texts["report"],
    )  # fmt: skip
    if made.size > MAX_RUNS:
        problems.append(f"the factors give {made.size} runs: more than {MAX_RUNS}")
    if driven:
        return made
    if problems:
        raise StudyError(str(path), problems)
    made.check_values()
    return made


def _factors(table: Mapping[str, Any], problems: list[str]) -> tuple[list[Factor], list[Interval]]:
    factors: list[Factor] = []
    intervals: list[Interval] = []
    for name, written in flat(table):
        try:
            made = factor_of(name, written)
        except ValueError as error:
            problems.append(f"factors.{name}: {error}")
            continue
        if isinstance(made, Factor):
            factors.append(made)
        else:
            intervals.append(made)
    return factors, intervals


def _unknown_keys(keys: set[str], problems: list[str]) -> None:
    for key in sorted(keys):
        if "." not in key:
            near = nearest(key, FIELDS)
            cure = (
                f"did you mean {near}?"
                if near
                else "a key of the profile has its table before it, as in limits.max_speed_mps"
            )
            problems.append(f"{key}: no such factor or key; {cure}")


def _table(name: str, kind: type[Any], data: Mapping[str, Any], problems: list[str]) -> Any:
    if name not in data:
        return None
    made, mistakes = build_table(kind, data[name])
    problems += [f"{name}.{each}" for each in mistakes]
    return None if mistakes else made


__all__ = [
    "FIELDS",
    "Optimisation",
    "Point",
    "ProfileError",
    "RunSettings",
    "Specification",
    "find",
    "load",
    "names",
    "of",
    "parse",
]


def changes(old: str, new: str) -> Sequence[str]:
    """Return the lines in which two texts of a study differ, with their signs."""
    import difflib

    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
