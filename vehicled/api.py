"""The Python interface: ``import vehicled as v``. See ``docs/python.md``."""

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from vehicled.analysis.export.columns import columns_of
from vehicled.app import SetupError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import RunHeader
from vehicled.messages import Message
from vehicled.profile import Loaded, load
from vehicled.profile.toml_text import assignment
from vehicled.replay.drive import Replay, ReplayResult
from vehicled.replay.journal import Journal
from vehicled.replay.setup import Code
from vehicled.run.plan import Plan
from vehicled.run.result import Result
from vehicled.run.simulation import Simulated, SimulationSpec
from vehicled.run.simulation import simulate as run_simulation
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.run.stepwise import Action, Observation, Stepwise
from vehicled.studies import specification as study_specification
from vehicled.studies.campaign import Campaign, State
from vehicled.studies.conduct import Row
from vehicled.studies.kinds import write_page
from vehicled.studies.pool import LocalPool, Pool
from vehicled.studies.report import Finished, read_study
from vehicled.studies.statistics import Effect, effects
from vehicled.studies.table import flat_table

if TYPE_CHECKING:
    from vehicled.reality_gap.gap import Gap

Spec = TypeVar("Spec", RunSpec, SimulationSpec)


def load_profile(name_or_file: str, overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Return a profile by name or file, checked. ``overrides``: values by dotted key, as for ``--set``.

    The numbers are in ``.profile``. Raises ProfileError with every mistake.
    """
    return load(name_or_file, _overrides(overrides))


class Log:
    """A log: its messages as arrays or tables."""

    def __init__(self, path: str) -> None:
        """Take the file of a run; of a rotated log any part. Raises LogError if it cannot be read."""
        self.path = path
        self._parts = run_parts(path)
        with LogReader(self._parts[0]) as log:
            self.header: RunHeader = log.header
        with LogReader(self._parts[-1]) as log:
            self.end = log.end
            """Outcome, reason and digest; empty if the run did not end in order."""

    def messages(self, kind: type[Message]) -> Any:
        """Return all messages of a type as a numpy structured array, in log order.

        The first column ``time_s`` is the log time since the start of the run, the others are the fields. Vectors are columns of
        shape (n, length), enumerations are numbers, text and sequences are objects.
        """
        origin_ns, rows = self.header.start_monotonic_ns, []
        for part in self._parts:
            with LogReader(part) as log:
                rows += [((record.t_ns - origin_ns) * 1e-9, record.message) for record in log.messages(kind)]
        fields = kind.__struct_fields__
        columns = {name: _array([getattr(message, name) for _, message in rows]) for name in fields}
        dtype = [("time_s", np.float64), *((name, column.dtype, column.shape[1:]) for name, column in columns.items())]
        found = np.empty(len(rows), dtype)
        found["time_s"] = [t_s for t_s, _ in rows]
        for name, column in columns.items():
            found[name] = column
        return found

    def frame(self, kind: type[Message], library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return all messages of a type as a data frame of an installed library; vectors have a column for each element."""
        columns: dict[str, list[Any]] = {"time_s": []}
        kinds = columns_of(kind)
        columns |= {column.name: [] for column in kinds}
        origin_ns = self.header.start_monotonic_ns
        for part in self._parts:
            with LogReader(part) as log:
                for record in log.messages(kind):
                    columns["time_s"].append((record.t_ns - origin_ns) * 1e-9)
                    for column in kinds:
                        columns[column.name].append(column.take(record.message))
        try:
            module = __import__(library)
        except ImportError:
            raise SetupError(f"{library} is not installed: pip install {library}") from None
        return module.DataFrame(columns)


class Run(Log):
    """A finished simulation: its metrics, and its log."""

    def __init__(self, plan: Plan, simulated: Simulated, folder: str) -> None:
        """``folder`` holds a log that is deleted with this object; empty for one that is kept."""
        super().__init__(simulated.result.log)
        self._plan = plan
        self._simulated = simulated
        if folder:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def metrics(self) -> Result:
        """Outcome and its reason, errors against ground truth, deadlines, digest."""
        return self._simulated.result

    def plot(self, file: str) -> None:
        """Plot the drive into a PNG, SVG or PDF file. Needs the extra ``plot``."""
        from vehicled.analysis.lap_plot import plot_drive

        plot_drive(self._plan.course, self._simulated.trace, self.metrics, file)


def simulate(
    profile: str = "art",
    course: str = "",
    *,
    seed: int = 1,
    controller: str | type = "",
    estimator: str | type = "",
    identifier: str | type = "",
    programme: str = "",
    overrides: Mapping[str, Any] | None = None,
    laps: int = 1,
    link: Literal["messages", "wires"] = "messages",
    start: Literal["", "stand", "align", "push"] = "",
    failures: Sequence[str] = (),
    latency: str = "",
    board: str | Path = "",
    duration_s: float | None = None,
    log: str | Path | None = None,
) -> Run:
    """Drive a course in lockstep against the simulator, as ``vehicled sim`` does, and return the run.

    ``profile`` and ``course`` are names or files; an empty course is the profile's. ``controller``, ``estimator`` and
    ``identifier`` are names, ``FILE.py:NAME``, or classes that are defined in a file. ``overrides``: values by dotted key.
    ``programme``, ``start``, ``failures``, ``latency`` and ``board``: as for ``--programme``, ``--start``, ``--fail``,
    ``--latency`` and ``--board``. ``log``: folder that keeps the log; without it the log lives as long as the run object.
    Raises ProfileError, CourseError, PluginError, SetupError and LogError, each with the place and the cure.
    """
    folder = tempfile.mkdtemp(prefix="vehicled_run_") if log is None else ""
    spec = _checked(
        RunSpec,
        profile=profile,
        course=course,
        seed=seed,
        controller=_reference(controller),
        estimator=_reference(estimator),
        identifier=_reference(identifier),
        programme=programme,
        overrides=tuple(_overrides(overrides)),
        laps=laps,
        link=link,
        latency=latency,
        board=str(board),
        start_timeout_s=START_TIMEOUT_S,
        duration_s=duration_s,
        log_folder=folder if log is None else log,
    )
    plan, simulation = Plan.of(spec), _checked(SimulationSpec, failures=tuple(failures), start=start, in_process=True)
    return Run(plan, run_simulation(plan, simulation, keep_trace=True), folder)


class Simulation(Stepwise):
    """A drive in this process that the caller steps and may steer: ``reset``, ``step``, ``observe``."""

    def __init__(
        self,
        profile: str = "art",
        course: str = "",
        *,
        seed: int = 1,
        controller: str | type = "",
        estimator: str | type = "",
        overrides: Mapping[str, Any] | None = None,
        laps: int = 1,
        link: Literal["messages", "wires"] = "messages",
        latency: str = "",
        board: str | Path = "",
    ) -> None:
        """Take the arguments of :func:`simulate`, and begin the drive. Raises the same errors."""
        spec = _checked(
            RunSpec,
            profile=profile,
            course=course,
            seed=seed,
            controller=_reference(controller),
            estimator=_reference(estimator),
            overrides=tuple(_overrides(overrides)),
            laps=laps,
            link=link,
            latency=latency,
            board=str(board),
            log_folder=None,
        )
        super().__init__(Plan.of(spec))


class Study:
    """A finished study: its rows, its report, its figures."""

    def __init__(self, finished: Finished) -> None:
        """Take what :func:`study` or :func:`open_study` read."""
        self._finished = finished

    @property
    def rows(self) -> list[Row]:
        """All runs in order, each with its levels, its outcome and its metrics."""
        return self._finished.rows

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column: factors, outcome, metrics; ready for a data frame of any library."""
        names, records = flat_table(self.rows)
        return {name: [record[i] for record in records] for i, name in enumerate(names)}

    def effects(self, factor: str, metric: str) -> list[Effect]:
        """Return mean, bootstrap interval and paired change of a metric at every level of a factor. Raises StudyError."""
        finished = self._finished
        return effects(self.rows, finished.check_factor(factor), finished.check_metric(metric))

    def report(self, file: str | Path) -> None:
        """Write the page."""
        write_page(self._finished, Path(file))


def study(
    file: str | Path | Mapping[str, Any],
    *,
    output: str | Path = "",
    jobs: int | None = None,
    on: str = "",
    extend: bool = False,
    progress: Callable[[State], None] | None = None,
) -> Study:
    """Drive what is missing of a study, as ``vehicled study`` does, and return all of it.

    ``file``: study file, name of a shipped study, or the content of a study file as a dict. ``output``: folder of the results, by
    default ``study_NAME``. ``jobs``: processes. ``on``: Dask cluster. Raises StudyError and ProfileError with every mistake.
    """
    if isinstance(file, Mapping):
        specification = study_specification.of(file, Path(f"{file.get('name', 'python')}.toml").resolve())
    else:
        specification = study_specification.load(os.fspath(file))
    folder = Path(output or f"study_{specification.name}")
    pool: Pool
    if on:
        from vehicled.studies.cluster import DaskPool

        pool = DaskPool(on)
    else:
        pool = LocalPool(jobs)
    try:
        with Campaign(specification, folder, extend=extend) as campaign:
            campaign.run(pool, progress or (lambda state: None))
    finally:
        pool.close()
    return open_study(folder)


def open_study(folder: str | Path) -> Study:
    """Open the folder of a study. Raises StudyError."""
    return Study(read_study(Path(folder)))


def gap(
    real: Sequence[str | Path],
    simulated: Mapping[str, Sequence[str | Path]] | Sequence[str | Path],
    *,
    judge: str | type = "ekf4",
    overrides: Mapping[str, Any] | None = None,
    profile: str = "",
    kinds: Sequence[str] = (),
    mapping: str | Path = "",
    manoeuvres: Sequence[str] = (),
    quantities: Sequence[str] = ("E", "S"),
    distance: str = "wasserstein",
    jobs: int = 1,
    progress: Callable[[str], None] | None = None,
) -> "Gap":
    """Compare simulated with real runs, as ``vehicled gap`` does.

    ``real`` and ``simulated``: files and folders; of several models by label. The others are as the options of the command;
    ``overrides`` are parameters of the judge. Raises GapError, RecordingError, UnknownNameError and ProfileError.
    """
    from vehicled.reality_gap.gap import gap as measure
    from vehicled.reality_gap.runs import Task

    task = Task(
        judge=_reference(judge),
        overrides=tuple(_overrides(overrides)),
        profile=profile,
        kinds=tuple(kinds),
        mapping=str(mapping),
        manoeuvres=tuple(manoeuvres),
    )
    models = simulated if isinstance(simulated, Mapping) else {"simulated": simulated}
    return measure(
        real, models, task, quantities=quantities, distance=distance, jobs=jobs, progress=progress or (lambda text: None)
    )


def open_log(path: str) -> Log:
    """Open a log of a simulation or a vehicle. Raises LogError."""
    return Log(path)


def replay(
    path: str,
    *,
    controller: str | type = "",
    estimator: str | type = "",
    overrides: Mapping[str, Any] | None = None,
    code: Code = "same",
    progress: Callable[[float], None] | None = None,
) -> ReplayResult:
    """Run the daemon's logic again on a log and compare every output bit by bit.

    A change makes it a what-if, open loop. ``code``: source of the run's plugins. ``progress`` is called with the time of the run.
    """
    names = {"controller": _reference(controller), "estimator": _reference(estimator)}
    changes = [*_overrides(overrides), *(f"{table}.name={name}" for table, name in names.items() if name)]
    with Journal(path) as journal:
        return Replay(journal, changes, code=code).run(progress)


def _checked(kind: type[Spec], **values: Any) -> Spec:
    """Return a specification whose values have been checked as the command line checks its options."""
    hints, checked = get_type_hints(kind, include_extras=True), {}
    for name, value in values.items():
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value.item() if isinstance(value, np.generic) else value
        try:
            checked[name] = msgspec.convert(plain, hints[name])
        except msgspec.ValidationError as error:
            choices = [repr(choice) for choice in get_args(hints[name]) if isinstance(choice, str)]
            reason = f"use one of {', '.join(choices)}" if choices else str(error)
            raise SetupError(f"{name} = {value!r:.60}: {reason}") from None
    return kind(**checked)


def _overrides(values: Mapping[str, Any] | None) -> list[str]:
    return [
        assignment(key, value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
        for key, value in (values or {}).items()
    ]


def _reference(kind: str | type) -> str:
    """Return a name, or the reference of a class that a file defines."""
    if isinstance(kind, str):
        return kind
    if not isinstance(kind, type):
        raise SetupError(f"give the class itself, or FILE.py:NAME, instead of {kind!r:.60}: its parameters are overrides")
    try:
        file = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        file = None
    if file is None or not Path(file).is_file():
        raise SetupError(f"{kind.__name__} is not defined in a file: write it into one (in a notebook: %%writefile my_law.py)")
    if kind.__module__ == "__main__" and "__main__" not in Path(file).read_text(encoding="utf-8"):
        raise SetupError(
            f"{file} is run once more to load {kind.__name__} from it: write what follows below "
            'if __name__ == "__main__", or the class into a file of its own'
        )
    return f"{Path(file).resolve()}:{kind.__qualname__}"


def _array(values: list[Any]) -> Any:
    """Return values of one field as an array; objects where they are no numbers of one shape."""
    first = values[0] if values else 0.0
    if isinstance(first, bool | int | float):
        return np.array(values)
    if isinstance(first, tuple) and all(len(value) == len(first) for value in values):
        return np.array(values, dtype=np.float64)
    found = np.empty(len(values), object)
    found[:] = values
    return found


__all__ = [
    "Action", "Log", "Observation", "Run", "Simulation", "Study",
    "gap", "load_profile", "open_log", "open_study", "replay", "simulate", "study",
]  # fmt: skip
