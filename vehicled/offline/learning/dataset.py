"""Data sets: rows of features and commands, by drive, in a Parquet file that says where they come
from."""

import csv
import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from vehicled.control.policy.features import PUBLISHED, FeatureError, FeatureVector
from vehicled.control.policy.network import COMMANDS
from vehicled.core.arrays import Array
from vehicled.core.messages import CourseCommand, Message
from vehicled.log.reader import LogReader, run_parts
from vehicled.offline.learning.errors import LearningError
from vehicled.offline.learning.exploring import ExploringParams
from vehicled.offline.learning.recorder import TYPES, StepRecorder, columns
from vehicled.paths.stored import from_json
from vehicled.profile import parse
from vehicled.profile.plugins import label

METADATA = b"vehicled"
RECORDED_NAMES = {
    "e_ahead_m": "reference_ahead_m",
    "e_left_m": "reference_left_m",
    "e_heading_rad": "reference_heading_rad",
    "e_speed_mps": "reference_speed_mps",
    "throttle_cmd": "throttle",
    "steering_cmd": "steering",
}
"""Columns of the recorded training data of Zhang et al. 2023 by our names."""
SUFFIXES = (".mcap", ".csv", ".parquet")


class DriveNote(Struct, frozen=True, kw_only=True):
    """Origin of the rows of one drive."""

    name: str
    rows: int
    profile: str = ""
    course: str = ""
    driver: str = ""
    """Controller that drove, or ``person``."""
    expert: str = ""
    """Controller whose commands the rows hold, if that is another one."""
    seed: int = 0


class Meaning(Struct, frozen=True, kw_only=True):
    """Meaning of the columns of a data set."""

    features: list[str] = field(default_factory=lambda: list(PUBLISHED))
    look_ahead_m: float = 1.0
    predicts: bool = True
    """True if the features are those of the pose at which the command acts."""
    period_s: float = 0.1
    drives: list[DriveNote] = field(default_factory=list)


class Dataset(Struct, frozen=True):
    """Rows (n,) of drives: features (n, width) and commands (n,), NaN where unknown."""

    meaning: Meaning
    drive: Any
    """Index of the drive of each row in ``meaning.drives``, (n,)."""
    t_s: Array
    features: Array
    commands: dict[str, Array]
    """Columns ``throttle``, ``steering`` and ``wheel_angle_rad``."""

    def __len__(self) -> int:
        return len(self.t_s)

    @property
    def digest(self) -> str:
        """SHA-256 of features and commands, hex."""
        found = hashlib.sha256(np.ascontiguousarray(self.features).tobytes())
        for name in COMMANDS:
            found.update(np.ascontiguousarray(self.commands[name]).tobytes())
        return found.hexdigest()


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Return several data sets of equal meaning as one. Raises :class:`LearningError`."""
    if not parts:
        raise LearningError("there are no drives to learn from")
    first = parts[0].meaning
    for part in parts[1:]:
        for name in ("features", "look_ahead_m", "predicts"):
            ours, theirs = getattr(first, name), getattr(part.meaning, name)
            if ours != theirs:
                raise LearningError(
                    f"the data differ in {name}: {ours} and {theirs}; make both with the same "
                    "options"
                )
    drives = [note for part in parts for note in part.meaning.drives]
    offsets = np.cumsum([0, *(len(part.meaning.drives) for part in parts)])
    return Dataset(
        msgspec.structs.replace(first, drives=drives),
        np.concatenate([part.drive + offset for part, offset in zip(parts, offsets)]),
        np.concatenate([part.t_s for part in parts]),
        np.concatenate([part.features for part in parts]),
        {name: np.concatenate([part.commands[name] for part in parts]) for name in COMMANDS},
    )


def from_recorder(meaning: Meaning, note: DriveNote, recorder: StepRecorder, width: int) -> Dataset:
    """Return the rows of one recorded drive."""
    found = columns(recorder.rows, width)
    note = msgspec.structs.replace(note, rows=len(recorder.rows))
    return Dataset(
        msgspec.structs.replace(meaning, drives=[note]), np.zeros(len(recorder.rows), np.int64),
        found["t_s"], found["features"], {name: found[name] for name in COMMANDS},
    )  # fmt: skip


def files_in(places: Sequence[str]) -> list[Path]:
    """Return the files named, and of folders those that can be read. Raises
    :class:`LearningError`."""
    found: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(
                path for path in place.rglob("*") if path.suffix in SUFFIXES and path.is_file()
            )
            if not inside:
                raise LearningError(
                    f"{place}: holds no log (.mcap), table (.csv) or data set (.parquet)"
                )
            found += inside
        elif place.is_file():
            found.append(place)
        else:
            raise LearningError(f"{place}: no such file or folder")
    # Later parts of a rotated log are read with its first one.
    return [
        path for path in found if path.suffix != ".mcap" or Path(run_parts(str(path))[0]) == path
    ]


def read_drives(
    places: Sequence[str],
    meaning: Meaning,
    expert: str = "",
    progress: Callable[[str], None] | None = None,
) -> tuple[Dataset, list[str]]:
    """Return the rows of logs, tables and data sets, and what was left out, in words. Raises
    :class:`LearningError`."""
    try:
        vector = FeatureVector(meaning.features)
    except FeatureError as error:
        raise LearningError(str(error)) from None
    parts, notes = [], []
    for path in files_in(places):
        if progress is not None:
            progress(path.name)
        if path.suffix == ".mcap":
            part, said = _from_log(path, meaning, vector, expert)
            notes += said
        elif path.suffix == ".parquet":
            part = load(path)
        else:
            part = _from_table(path, meaning, vector)
        if len(part):
            parts.append(part)
        else:
            notes.append(f"{path.name}: no row of a drive, left out")
    if not parts:
        raise LearningError("; ".join(notes) or "there are no drives to learn from")
    return joined(parts), notes


def _from_log(
    path: Path, meaning: Meaning, vector: FeatureVector, expert: str
) -> tuple[Dataset, list[str]]:
    notes: list[str] = []
    files = run_parts(str(path))
    with LogReader(files[0]) as log:
        header = log.header
        profile = parse(log.attachment("profile.toml").decode(), f"profile of {path.name}").profile
        course = from_json(log.attachment("course.json"))
    driver = header.controller
    if isinstance(selected := profile.controller.selected, ExploringParams):
        # What was commanded is disturbed; the rows hold what the disturbed controller wanted.
        driver = label(selected.controller)
        expert = expert or selected.controller
    recorder = StepRecorder(
        profile, course, vector, look_ahead_m=meaning.look_ahead_m, predicts=meaning.predicts,
        period_s=meaning.period_s, expert=expert,
    )  # fmt: skip
    wanted: tuple[type[Message], ...] = (*TYPES, CourseCommand)
    for message, t_ns in _messages(files, wanted):
        if isinstance(message, CourseCommand):
            notes.append(
                f"{path.name}: the course was changed during the run; the rows after that are "
                "left out"
            )
            break
        recorder.record(message, t_ns)
    if recorder.far:
        notes.append(f"{path.name}: {recorder.far} rows far from the course are left out")
    note = DriveNote(
        name=path.stem, rows=0, profile=header.profile, course=course.name,
        driver="person" if recorder.by_hand else driver, expert=expert, seed=header.seed or 0,
    )  # fmt: skip
    return from_recorder(meaning, note, recorder, vector.width), notes


def _messages(
    files: Sequence[str], kinds: tuple[type[Message], ...]
) -> Iterator[tuple[Message, int]]:
    """Iterate over the messages of all parts of a run, each with its time."""
    for file in files:
        with LogReader(file) as log:
            for each in log.messages(*kinds):
                yield each.message, each.t_ns


def _from_table(path: Path, meaning: Meaning, vector: FeatureVector) -> Dataset:
    """Return the rows of a CSV file with the columns of the features and commands by name."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LearningError(f"{path}: cannot be read as a table: {error}") from None
    if not rows:
        raise LearningError(f"{path}: is empty")
    header = [RECORDED_NAMES.get(name.strip(), name.strip()) for name in rows[0]]
    wanted = [*vector.columns, *(name for name in COMMANDS if name in header)]
    lacking = [name for name in vector.columns if name not in header]
    if lacking or "throttle" not in wanted or not {"steering", "wheel_angle_rad"} & set(wanted):
        raise LearningError(
            f"{path}: has no column "
            f"{', '.join(lacking) or 'throttle, and steering or wheel_angle_rad'} (it has "
            f"{', '.join(rows[0][:20])})"
        )
    places = [header.index(name) for name in wanted]
    values: Array = np.empty((len(rows) - 1, len(wanted)))
    for number, row in enumerate(rows[1:], 2):
        try:
            values[number - 2] = [float(row[place]) for place in places]
        except (ValueError, IndexError):
            raise LearningError(
                f"{path}, line {number}: a number is missing or is none: {','.join(row)[:80]}"
            ) from None
    values = values[np.isfinite(values).all(axis=1)]
    width = vector.width
    commands = {name: np.full(len(values), np.nan) for name in COMMANDS}
    for index, name in enumerate(wanted[width:], width):
        commands[name] = values[:, index]
    note = DriveNote(
        name=f"{path.parent.name}/{path.stem}", rows=len(values), driver=path.parent.name
    )
    return Dataset(
        msgspec.structs.replace(meaning, drives=[note]), np.zeros(len(values), np.int64),
        meaning.period_s * np.arange(len(values), dtype=np.float64), values[:, :width], commands,
    )  # fmt: skip


def _arrow() -> Any:
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise LearningError('Parquet needs pyarrow: pip install "vehicled[learn]"') from None


def save(data: Dataset, file: Path) -> None:
    """Write a data set. Raises :class:`LearningError`."""
    arrow = _arrow()
    names = FeatureVector(data.meaning.features).columns
    table = {"drive": data.drive, "t_s": data.t_s}
    table |= {name: data.features[:, index] for index, name in enumerate(names)}
    table |= data.commands
    made = arrow.table(table).replace_schema_metadata({METADATA: msgspec.json.encode(data.meaning)})
    try:
        arrow.parquet.write_table(made, file)
    except OSError as error:
        raise LearningError(
            f"{file}: cannot be written: {error.strerror or error}; choose another file"
        ) from None


def load(file: Path) -> Dataset:
    """Return the data set of a file. Raises :class:`LearningError`."""
    arrow = _arrow()
    try:
        table = arrow.parquet.read_table(file)
        meaning = msgspec.json.decode((table.schema.metadata or {})[METADATA], type=Meaning)
        names = FeatureVector(meaning.features).columns
        found = {
            name: table.column(name).to_numpy() for name in ("drive", "t_s", *names, *COMMANDS)
        }
    except FileNotFoundError:
        raise LearningError(f"{file}: no such file") from None
    except (KeyError, OSError, ValueError, msgspec.MsgspecError, arrow.ArrowException) as error:
        raise LearningError(
            f"{file}: this is no data set of vehicled learn dataset: {error}"
        ) from None
    if len(found["drive"]) and not 0 <= found["drive"].min() <= found["drive"].max() < len(
        meaning.drives
    ):
        raise LearningError(f"{file}: a row belongs to no drive; make the file again")
    features = (
        np.column_stack([found[name] for name in names])
        if len(found["t_s"])
        else np.empty((0, len(names)))
    )
    return Dataset(
        meaning, found["drive"], found["t_s"], features, {name: found[name] for name in COMMANDS}
    )
