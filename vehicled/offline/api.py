"""The Python interface: ``import vehicled as v``. See ``docs/python.md``."""

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from vehicled.core.error_text import message as error_message
from vehicled.core.error_text import shown
from vehicled.core.errors import SetupError
from vehicled.core.messages import Message
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import RunHeader
from vehicled.offline.analysis.export.columns import columns_of
from vehicled.offline.drives import DriveRequest, drive_all
from vehicled.offline.replay.drive import Replay, ReplayResult
from vehicled.offline.replay.journal import Journal
from vehicled.offline.replay.setup import Code
from vehicled.offline.studies import specification as study_specification
from vehicled.offline.studies.campaign import Campaign, StudyState
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.kinds import write_page
from vehicled.offline.studies.logs import expanded, grouped
from vehicled.offline.studies.pool import LocalPool, Pool
from vehicled.offline.studies.report import Finished, read_study
from vehicled.offline.studies.statistics import Effect, effects
from vehicled.offline.studies.table import flat_table
from vehicled.profile import Loaded, load
from vehicled.profile.toml_text import assignment
from vehicled.run.judge import TracePoint
from vehicled.run.plan import Plan
from vehicled.run.result import Result
from vehicled.run.signals import give_back, own_interrupts
from vehicled.run.simulation import SimulationSpec
from vehicled.run.simulation import simulate as run_simulation
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.run.stepwise import Action, Observation, Stepwise
from vehicled.runtime.plugin_watch import IMPORT_LIMIT_S, PluginWatch

if TYPE_CHECKING:
    from vehicled.offline.gap.gap import Gap

Spec = TypeVar("Spec", RunSpec, SimulationSpec)


def load_profile(name_or_file: str, overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Return a profile by name or file, checked. ``overrides``: values by dotted key, as for
    ``--set``.

    The numbers are in ``.profile``. Raises ProfileError with every mistake.
    """
    return load(name_or_file, _overrides(overrides))


class Log:
    """A log: its messages as arrays or tables."""

    def __init__(self, path: str) -> None:
        """Take the file of a run; of a rotated log any part. Raises LogError if it cannot be
        read."""
        self.path = path
        self._parts = run_parts(path)
        with LogReader(self._parts[0]) as log:
            self.header: RunHeader = log.header
        with LogReader(self._parts[-1]) as log:
            self.end = log.end
            """Outcome, reason and digest; empty if the run did not end in order."""

    def messages(self, kind: type[Message]) -> Any:
        """Return all messages of a type as a numpy structured array, in log order.

        The first column ``time_s`` is the log time since the start of the run, the others are the
        fields. Vectors are columns of shape (n, length), enumerations are numbers, text and
        sequences are objects.
        """
        origin_ns, rows = self.header.start_monotonic_ns, []
        for part in self._parts:
            with LogReader(part) as log:
                rows += [
                    ((record.t_ns - origin_ns) * 1e-9, record.message)
                    for record in log.messages(kind)
                ]
        fields = kind.__struct_fields__
        columns = {name: _array([getattr(message, name) for _, message in rows]) for name in fields}
        dtype = [
            ("time_s", np.float64),
            *((name, column.dtype, column.shape[1:]) for name, column in columns.items()),
        ]
        found = np.empty(len(rows), dtype)
        found["time_s"] = [t_s for t_s, _ in rows]
        for name, column in columns.items():
            found[name] = column
        return found

    def frame(self, kind: type[Message], library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return all messages of a type as a data frame of an installed library; vectors have a
        column for each element."""
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

    def __init__(
        self, spec: RunSpec, result: Result, trace: Sequence[TracePoint], folder: str
    ) -> None:
        """``folder`` holds a log that is deleted with this object; empty for one that is kept."""
        if result.log:
            super().__init__(result.log)
        else:
            self.path = ""
        self._spec, self._result, self._trace = spec, result, trace
        self._finalizer = (
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True) if folder else None
        )

    def messages(self, kind: type[Message]) -> Any:
        """Return all messages of a type, see :meth:`Log.messages`. Raises SetupError for a run
        without a log."""
        self._check_log()
        return super().messages(kind)

    def frame(self, kind: type[Message], library: Literal["polars", "pandas"] = "polars") -> Any:
        """Return all messages of a type, see :meth:`Log.frame`. Raises SetupError for a run without
        a log."""
        self._check_log()
        return super().frame(kind, library)

    def _check_log(self) -> None:
        if not self._result.log:
            raise SetupError(
                "this run was driven without its log; simulate_many keeps the logs with logs=True"
            )

    def close(self) -> None:
        """Delete the log now, unless it is kept."""
        if self._finalizer is not None:
            self._finalizer()

    @property
    def metrics(self) -> Result:
        """Outcome and its reason, errors against ground truth, deadlines, digest."""
        return self._result

    def plot(self, file: str) -> None:
        """Plot the drive into a PNG, SVG or PDF file. Needs the extra ``plot``."""
        from vehicled.offline.analysis.lap_plot import plot_drive

        plot_drive(_plan(self._spec).course, self._trace, self.metrics, file)


def simulate(
    profile: str = "art",
    course: str = "",
    *,
    scene: str = "",
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
    mixed: str | Path = "",
    mixed_seed: int = 1,
    mixed_loss: Literal["warn", "stop"] = "warn",
    log: str | Path | None = None,
) -> Run:
    """Drive a course in lockstep against the simulator, as ``vehicled sim`` does, and return the
    run.

    ``profile``, ``course`` and ``scene`` are names or files; an empty course is the scene's first
    one, else the profile's. ``controller``, ``estimator`` and ``identifier`` are names,
    ``FILE.py:NAME``, or classes that are defined in a file. ``overrides``: values by dotted key.
    ``programme``, ``start``, ``failures``, ``latency``, ``board`` and ``mixed`` with its seed and
    loss: as for ``--programme``, ``--start``, ``--fail``, ``--latency``, ``--board`` and
    ``--mixed``. ``log``: folder that keeps the log;
    without it the log lives as long as the run object. Raises ProfileError, CourseError,
    PluginError, SetupError and LogError, each with the place and the cure.

    Ctrl-C stops the vehicle, closes the log and then raises KeyboardInterrupt; a second one does
    not wait for the standstill. SIGTERM stops it alike and then has the effect that it has in your
    program. In other threads than the main one nothing is changed about signals.
    """
    request = _request(
        profile, course, scene=scene, seed=seed, controller=controller, estimator=estimator,
        identifier=identifier, programme=programme, overrides=overrides, laps=laps, link=link,
        start=start, failures=failures, latency=latency, board=board, duration_s=duration_s,
        mixed=mixed, mixed_seed=mixed_seed, mixed_loss=mixed_loss, log=log,
    )  # fmt: skip
    spec, folder = _with_log(request.run)
    try:
        simulated = run_simulation(
            _plan(spec), request.simulation, keep_trace=True, keeps_signal=True
        )
        run = Run(spec, simulated.result, simulated.trace, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if simulated.drive.signal:
        # The vehicle stands and the log is closed; the rest of the script must not run on. SIGTERM
        # may end the process here.
        run.close()
        give_back(simulated.drive.signal)
    return run


def simulate_many(
    runs: Iterable[Mapping[str, Any]],
    *,
    jobs: int | None = None,
    logs: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> list[Run]:
    """Drive many at once, on all cores, and return the runs in the same order: what
    :func:`simulate` returns for each.

    ``runs``: arguments of :func:`simulate` by name, such as ``[{"profile": "art", "seed": seed} for
    seed in range(20)]``. ``jobs``: number of processes. ``logs``: False drives without logs, which
    is faster; the runs then have metrics and no messages. ``progress`` is called with the numbers
    of finished and of all drives. Raises the errors of :func:`simulate`, and SetupError for
    arguments that it does not take. Ctrl-C ends all drives.
    """
    requests, folders = [], []
    try:
        for number, arguments in enumerate(runs, start=1):
            try:
                request = _request(**arguments)
            except TypeError as error:
                raise SetupError(
                    f"run {number}: {error_message(error).replace('_request()', 'simulate()')}"
                ) from None
            spec, folder = (
                _with_log(request.run)
                if logs
                else (msgspec.structs.replace(request.run, log_folder=None), "")
            )
            requests.append(DriveRequest(spec, request.simulation))
            folders.append(folder)
        found = drive_all(requests, jobs, progress or (lambda done, total: None))
        pairs = zip(requests, found, folders, strict=True)
        return [
            Run(request.run, driven.result, driven.trace, folder)
            for request, driven, folder in pairs
        ]
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder or os.devnull, ignore_errors=True)
        raise


def _with_log(spec: RunSpec) -> tuple[RunSpec, str]:
    """Return the run with a folder for its log, and that folder if it is to be deleted."""
    folder = tempfile.mkdtemp(prefix="vehicled_run_") if spec.log_folder is None else ""
    return (msgspec.structs.replace(spec, log_folder=folder) if folder else spec), folder


def _request(
    profile: str = "art", course: str = "", *, scene: str = "", seed: int = 1,
    controller: str | type = "", estimator: str | type = "", identifier: str | type = "",
    programme: str = "", overrides: Mapping[str, Any] | None = None, laps: int = 1,
    link: str = "messages", start: str = "", failures: Sequence[str] = (), latency: str = "",
    board: str | Path = "", duration_s: float | None = None, mixed: str | Path = "",
    mixed_seed: int = 1, mixed_loss: str = "warn", log: str | Path | None = None,
) -> DriveRequest:  # fmt: skip
    """Return the checked specifications of a drive, with the arguments of :func:`simulate`. Raises
    SetupError."""
    spec = _checked(
        RunSpec,
        profile=profile,
        course=course,
        scene=scene,
        seed=seed,
        controller=_reference(controller),
        estimator=_reference(estimator),
        identifier=_reference(identifier),
        programme=programme,
        overrides=tuple(_overrides(overrides)),
        laps=laps,
        link=link,
        latency=latency,
        board=board,
        start_timeout_s=START_TIMEOUT_S,
        duration_s=duration_s,
        mixed=mixed,
        mixed_seed=mixed_seed,
        mixed_loss=mixed_loss,
        log_folder=log,
    )
    return DriveRequest(
        spec,
        _checked(
            SimulationSpec, failures=_texts("failures", failures), start=start, in_process=True
        ),
    )


class Simulation(Stepwise):
    """A drive in this process that the caller steps and may steer: ``reset``, ``step``,
    ``observe``."""

    def __init__(
        self,
        profile: str = "art",
        course: str = "",
        *,
        scene: str = "",
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
            scene=scene,
            seed=seed,
            controller=_reference(controller),
            estimator=_reference(estimator),
            overrides=tuple(_overrides(overrides)),
            laps=laps,
            link=link,
            latency=latency,
            board=board,
            log_folder=None,
        )
        super().__init__(_plan(spec))


class Study:
    """A finished study: its rows, its report, its figures."""

    def __init__(self, finished: Finished) -> None:
        """Take what :func:`study` or :func:`open_study` read."""
        self._finished = finished

    @property
    def rows(self) -> list[RunRow]:
        """All runs in order, each with its levels, its outcome and its metrics."""
        return self._finished.rows

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column: factors, outcome, metrics; ready for a data frame of any
        library."""
        names, records = flat_table(self.rows)
        return {name: [record[i] for record in records] for i, name in enumerate(names)}

    def effects(self, factor: str, metric: str) -> list[Effect]:
        """Return mean, bootstrap interval and paired change of a metric at every level of a factor.
        Raises StudyError."""
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
    progress: Callable[[StudyState], None] | None = None,
) -> Study:
    """Drive what is missing of a study, as ``vehicled study`` does, and return all of it.

    ``file``: study file, name of a shipped study, or the content of a study file as a dict.
    ``output``: folder of the results, by default ``study_NAME``. ``jobs``: processes. ``on``: Dask
    cluster. Raises StudyError and ProfileError with every mistake.
    """
    if isinstance(file, Mapping):
        specification = study_specification.of(
            file, Path(f"{file.get('name', 'python')}.toml").resolve()
        )
    else:
        specification = study_specification.load(os.fspath(file))
    folder = Path(output or f"study_{specification.name}")
    pool: Pool
    if on:
        from vehicled.offline.studies.cluster import DaskPool

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
    by: str = "",
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

    ``real`` and ``simulated``: files and folders; of several models by label, or of studies to be
    split by the levels of the factor ``by``. The others are as the options of the command;
    ``overrides`` are parameters of the judge. Raises GapError, RecordingError, UnknownNameError and
    ProfileError.
    """
    from vehicled.offline.gap.errors import GapError
    from vehicled.offline.gap.gap import gap as measure
    from vehicled.offline.gap.runs import JudgingTask

    task = JudgingTask(
        judge=_reference(judge),
        overrides=tuple(_overrides(overrides)),
        profile=profile,
        kinds=tuple(kinds),
        mapping=str(mapping),
        manoeuvres=tuple(manoeuvres),
    )
    if not isinstance(simulated, Mapping):
        models = (
            grouped([*map(str, simulated)], by)
            if by
            else {"simulated": expanded([*map(str, simulated)])}
        )
    elif by:
        raise GapError("by: takes a list of studies in the place of models by label")
    else:
        models = {label: expanded([*map(str, paths)]) for label, paths in simulated.items()}
    return measure(
        expanded([*map(str, real)]),
        models,
        task,
        quantities=quantities,
        distance=distance,
        jobs=jobs,
        progress=progress or (lambda text: None),
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

    A change makes it a what-if, open loop. ``code``: source of the run's plugins. ``progress`` is
    called with the time of the run.
    """
    names = {"controller": _reference(controller), "estimator": _reference(estimator)}
    changes = [
        *_overrides(overrides),
        *(f"{table}.name={name}" for table, name in names.items() if name),
    ]
    with Journal(path) as journal:
        return Replay(journal, changes, code=code).run(progress)


def _plan(spec: RunSpec) -> Plan:
    """Return the checked plan of a run. The import of a plugin that does not return is ended."""
    with own_interrupts(), PluginWatch(IMPORT_LIMIT_S, imports=True):
        return Plan.of(spec)


def _checked(kind: type[Spec], **values: Any) -> Spec:
    """Return a specification whose values have been checked as the command line checks its
    options."""
    hints, checked = get_type_hints(kind, include_extras=True), {}
    for name, value in values.items():
        try:
            plain = (
                os.fspath(value)
                if isinstance(value, os.PathLike)
                else value.item()
                if isinstance(value, np.generic)
                else value
            )
            checked[name] = msgspec.convert(plain, hints[name])
            _refuse_unwritable(checked[name])
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
            choices = [repr(choice) for choice in get_args(hints[name]) if isinstance(choice, str)]
            reason = f"use one of {', '.join(choices)}" if choices else error_message(error)
            raise SetupError(f"{name} = {shown(value)}: {reason}") from None
    return kind(**checked)


def _refuse_unwritable(value: Any) -> None:
    """Raise ValueError for a text that no file name and no log can hold, and for a number that is
    not finite."""
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, str) and (
            "\0" in each or (not each.isascii() and each.encode("utf-8", "ignore").decode() != each)
        ):
            raise ValueError("a text without NUL and half characters is needed")
        if isinstance(each, float) and not isfinite(each):
            raise ValueError("a finite number is needed")


def _overrides(values: Any) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise SetupError(
            f"overrides = {shown(values)}: give a dict of values by dotted key, such as "
            "{'limits.corridor_m': 1.0}"
        )
    return [
        assignment(key, value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
        for key, value in values.items()
    ]


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise SetupError(f"{name} = {shown(values)}: give a list of texts")
    return tuple(values)


def _reference(kind: str | type) -> str:
    """Return a name, or the reference of a class that a file defines."""
    if isinstance(kind, str):
        return kind
    if not isinstance(kind, type):
        raise SetupError(
            f"give the class itself, or FILE.py:NAME, instead of {shown(kind)}: its parameters "
            "are overrides"
        )
    try:
        file = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        file = None
    if file is None or not Path(file).is_file():
        raise SetupError(
            f"{kind.__name__} is not defined in a file: write it into one (in a notebook: "
            "%%writefile my_law.py)"
        )
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
