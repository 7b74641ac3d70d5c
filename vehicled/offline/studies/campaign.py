"""Runs a study: what is missing in its table is driven, and every finished run is kept at once."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from vehicled.offline.studies.conduct import REFUSALS, RunRequest, RunRow, plan_of, renumbered
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.fleet_run import plan_of_fleet
from vehicled.offline.studies.pool import LocalPool, Pool
from vehicled.offline.studies.software import software_digest
from vehicled.offline.studies.specification import Point, RunSettings, Specification, changes
from vehicled.offline.studies.table import VERSION, RunTable
from vehicled.profile import ProfileError, plugins
from vehicled.profile.plugins import is_reference, source_file
from vehicled.profile.schema import Profile
from vehicled.run.plan import Plan
from vehicled.run.simulation import simulated_profile
from vehicled.run.world_files import world_files

_LONGEST_PATH = 4096
_SHOWN = 12
"""Lines of a difference that an error shows."""


class StudyState(Struct, frozen=True):
    """Progress of a study."""

    done: int
    size: int
    failed: int
    driven: int
    """Runs of this call."""
    best: float | None = None
    """Best value so far of an optimisation."""


Progress = Callable[[StudyState], None]


class Campaign:
    """A study in its folder. A context manager."""

    def __init__(self, specification: Specification, folder: Path, *, extend: bool = False) -> None:
        """Check the study and open its table. ``extend`` takes over the runs of a study that was
        changed.

        Raises :class:`StudyError` if the study, its files or the software changed since the runs in
        the folder.
        """
        self.specification, self.folder = specification, folder
        self._planned = False
        files = check_levels(specification)
        self.basis = hashlib.sha256(f"{software_digest()}\n{files}".encode()).hexdigest()
        facts = {
            "version": VERSION,
            "name": specification.name,
            "path": specification.path,
            "source": specification.source,
            "software": software_digest(),
            **{f"file {path}": digest for path, digest in files.items()},
        }
        self._table = RunTable(folder, create=True)
        try:
            known = self._table.facts()
            if known and not extend:
                _refuse_changes(known, facts, folder)
            self._table.keep_facts(facts)
            self._known = {row.key: row for row in self._table.rows()}
        except BaseException:
            self._table.__exit__()
            raise

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        self._table.__exit__()

    def run(
        self, pool: Pool | None = None, progress: Progress = lambda state: None
    ) -> list[RunRow]:
        """Drive what is missing; return all rows of the study in order. Ctrl-C loses only the runs
        in progress."""
        own = pool is None
        pool = pool or LocalPool()
        try:
            rows = (
                self._optimise(pool, progress)
                if self.specification.optimise
                else self._table_of_all(pool, progress)
            )
        finally:
            if own:
                pool.close()
        rows.sort(key=lambda row: row.number)
        self._table.lay_out(rows)
        return rows

    def _table_of_all(self, pool: Pool, progress: Progress) -> list[RunRow]:
        size = self.specification.size
        found, missing = self._plan(self.specification.points())
        progress(StudyState(len(found), size, self.failed, 0))
        for row in self._drive(missing, pool):
            found.append(row)
            progress(StudyState(len(found), size, self.failed, self.driven))
        return found

    def drive(self, points: "Iterator[Point] | Sequence[Point]", pool: Pool) -> Iterator[RunRow]:
        """Yield the rows of some points: first those that are known, then those that are driven
        now, as they come."""
        known, missing = self._plan(points)
        yield from known
        yield from self._drive(missing, pool)

    def _plan(
        self, points: "Iterator[Point] | Sequence[Point]"
    ) -> tuple[list[RunRow], dict[str, list[Point]]]:
        """Store which runs belong to the study; return the rows that are known, and the points of
        the others by key."""
        self.failed = self.driven = 0
        known: list[RunRow] = []
        missing: dict[str, list[Point]] = {}
        keyed = [(point, point.key(self.basis)) for point in points]
        self._table.plan(
            [(point.number, key, point.levels) for point, key in keyed], first=not self._planned
        )
        self._planned = True
        for point, key in keyed:
            row = self._known.get(key)
            if row is not None and row.outcome != "crashed":
                known.append(self._counted(row, point))
            else:
                missing.setdefault(key, []).append(point)
        return known, missing

    def _drive(self, missing: dict[str, list[Point]], pool: Pool) -> Iterator[RunRow]:
        for row in pool.run([self._request(same[0], key) for key, same in missing.items()]):
            self._table.add(row)
            self._known[row.key] = row
            self.driven += 1
            # Levels of different factors may come to the same run.
            for point in missing[row.key]:
                yield self._counted(row, point)

    def _counted(self, row: RunRow, point: Point) -> RunRow:
        self.failed += row.outcome != "finished"
        return renumbered(row, point.number, point.levels)

    def _request(self, point: Point, key: str) -> RunRequest:
        wanted = self.specification
        return RunRequest(
            key=key, number=point.number, levels=point.levels, settings=point.settings,
            metrics=wanted.metrics, keep_logs=wanted.keep_logs,
            logs=str((self.folder / "logs").resolve()),
        )  # fmt: skip

    def _optimise(self, pool: Pool, progress: Progress) -> list[RunRow]:
        from vehicled.offline.studies.optimise import optimise

        return optimise(self, pool, progress)


def check_levels(specification: Specification) -> dict[str, str]:
    """Load every level of every factor once; return the digests of all files that the study reads,
    by path.

    Raises :class:`StudyError` with the mistakes of all levels.
    """
    problems: dict[Any, str] = {}
    files: dict[str, str] = {}
    for point in specification.samples():
        try:
            with _plans(point.settings) as plans:
                for plan, faults in plans:
                    files |= _files_of(plan, simulated_profile(plan, faults))
        except ProfileError as error:
            # The same key is wrong at every level.
            problems |= {
                (each.path, each.message): f"{error.origin}: {each}" for each in error.problems
            }
            continue
        except REFUSALS as error:
            problems[str(error)] = str(error)
            continue
        named = [
            getattr(point.settings, name)
            for name in ("course", "programme", "controller", "board", "fleet")
        ]
        files |= dict.fromkeys(_files(named), "")
    for reference in filter(is_reference, specification.metrics):
        hashes = plugins.load(
            "metric", reference, plugins.CONTRACTS["metric"], {}, fresh=True
        ).hashes
        files |= {f"{reference} {name}": digest for name, digest in hashes.items()}
    if problems:
        raise StudyError(specification.path, list(problems.values()))
    for path, digest in files.items():
        files[path] = digest or hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return dict(sorted(files.items()))


@contextmanager
def _plans(settings: RunSettings) -> Iterator[list[tuple[Plan, Sequence[str]]]]:
    """Yield the plans of all vehicles of a run, with the faults of each."""
    if not settings.fleet:
        yield [(plan_of(settings), settings.fail)]
        return
    with TemporaryDirectory(prefix="vehicled_fleet_") as folder:
        fleet = plan_of_fleet(settings, Path(folder))
        yield [(each.plan, each.entry.fail) for each in fleet.vehicles]


def _files_of(plan: Plan, profile: Profile) -> dict[str, str]:
    """Return the files that a vehicle reads, with the digests that are known."""
    files = {plan.loaded.path: ""} | dict.fromkeys(_files(msgspec.to_builtins(profile)), "")
    # A fleet names the courses of its vehicles in its own file.
    files |= dict.fromkeys(_files(plan.spec.course), "")
    for row in world_files(plan.loaded):
        if row.key == "sim.scene":
            files |= {
                f"{Path(row.path).parent / name}": digest for name, digest in row.hashes.items()
            }
    for plugin in plan.plugins:
        files |= {f"{plugin.reference} {name}": digest for name, digest in plugin.hashes.items()}
    return files


def _files(data: Any) -> Iterator[str]:
    """Iterate over the texts in plain values that are paths of files."""
    if isinstance(data, dict):
        for value in data.values():
            yield from _files(value)
    elif isinstance(data, list):
        for value in data:
            yield from _files(value)
    elif isinstance(data, str) and data.startswith("/") and len(data) < _LONGEST_PATH:
        path = source_file(data) if is_reference(data) else data
        if Path(path).is_file():
            yield path


def _refuse_changes(known: dict[str, str], facts: dict[str, str], folder: Path) -> None:
    """Raise :class:`StudyError` with what changed since the runs in a folder."""
    problems = []
    if known.get("version") != VERSION:
        problems.append(
            f"the folder is of another version of vehicled ({known.get('version')}, this one "
            f"writes {VERSION})"
        )
    if known.get("source") != facts["source"]:
        lines = changes(known.get("source", ""), facts["source"])
        more = [f"... and {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
        problems.append("\n    ".join(["the study file has changed:", *lines[:_SHOWN], *more]))
    if known.get("software") != facts["software"]:
        problems.append(
            f"vehicled or its numeric libraries have changed ({known.get('software')} -> "
            f"{facts['software']})"
        )
    old = {name for name in known if name.startswith("file ")}
    new = {name for name in facts if name.startswith("file ")}
    # A file that a changed study no longer names is no reason of its own.
    changed = sorted(name.removeprefix("file ") for name in old & new if known[name] != facts[name])
    problems += [f"{name} has changed" for name in changed]
    if problems:
        cure = (
            "choose another --output; or --extend, which keeps the runs that still belong and "
            "drives the others"
        )
        raise StudyError(f"{folder} holds runs of another study", problems, cure)
