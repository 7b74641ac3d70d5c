"""Gives the files that a run was built from back: profile, course, fence, computer, plugins, and
those of its simulated world.

A log may be a stranger's. Names of its files stay inside the folder, nothing is overwritten, and no
code of it is run here.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from vehicled.core.errors import SetupError
from vehicled.log.errors import LogError, why
from vehicled.log.members import safe_member
from vehicled.log.reader import LogReader
from vehicled.log.schema import (
    BOARD_NAME,
    FENCE_NAME,
    FileRow,
    RunHeader,
    file_attachment,
    plugin_attachment,
)
from vehicled.offline.replay.setup import Code, plugin_files
from vehicled.paths import CourseError, scenes
from vehicled.paths.stored import from_json
from vehicled.profile import toml_text
from vehicled.profile.layers import replace_plugins
from vehicled.profile.plugins import is_reference, label, renamed
from vehicled.profile.problems import ProfileError, printable
from vehicled.run.world_files import MIXED_KEY

PROFILE_NAME, COURSE_NAME = "profile.toml", "course.json"


class Extracted(Struct, frozen=True, kw_only=True):
    """Files of a run in a folder."""

    header: RunHeader
    profile: str
    """Path of the profile, which names the other files of the folder."""
    course: str
    """Path of the course; empty for an imported log, which has none."""
    board: str
    """Path of the recorded computer; empty without one."""
    files: list[str]
    """Paths of all files."""
    notes: list[str]

    def to_text(self) -> str:
        """Return the files and notes as plain text."""
        return "\n".join([*self.files, *(f"note: {note}" for note in self.notes)])


def extract(
    log: str | os.PathLike[str], folder: str | os.PathLike[str], *, code: Code = "log"
) -> Extracted:
    """Write the files of a run into a new folder. Raises :class:`LogError` and :class:`SetupError`.

    ``code``: what the profile says of plugins. ``log``: their texts in the folder; ``same``: their
    files on this computer, which must be those of the run; ``changed``: their files, whatever they
    hold now.
    """
    path, target = os.fspath(log), Path(folder)
    with LogReader(path) as reader:
        if reader.header.part != 1:
            raise LogError(
                f"{path}: part {reader.header.part} of a run: its files are in the first part"
            )
        return _Extraction(path, reader, target, code).run()


class _Extraction:
    def __init__(self, path: str, reader: LogReader, folder: Path, code: Code) -> None:
        self._path = path
        self._reader = reader
        self._header = reader.header
        self._folder = folder
        self._code: Code = code
        self._names = {entry.name for entry in reader.layout.attachments}
        self._files: list[str] = []
        self._notes: list[str] = []
        self._changes: list[tuple[str, str]] = []
        """Values of the profile, as it writes them, and those that take their place."""

    def run(self) -> Extracted:
        try:
            text = self._reader.attachment(PROFILE_NAME).decode("utf-8")
            data = toml_text.parse(text, f"profile of {self._path}")
        except (UnicodeDecodeError, ProfileError) as error:
            raise LogError(f"{self._path}: its profile cannot be read: {error}") from None
        plan = [*self._plain(data), *self._plugins(data), *self._world(data)]
        plan.append((PROFILE_NAME, self._renamed(text, data).encode()))
        # Everything is known to be sound before the first file is written.
        members = [(safe_member(self._folder, name, self._path), content) for name, content in plan]
        try:
            self._folder.mkdir(parents=True)
        except FileExistsError:
            raise LogError(
                f"{self._folder}: exists already and is not overwritten: choose another folder "
                "with -o"
            ) from None
        except OSError as error:
            raise LogError(f"{self._folder}: cannot be made: {why(error)}") from error
        try:
            for member, content in members:
                member.parent.mkdir(parents=True, exist_ok=True)
                with member.open("xb") as file:
                    file.write(content)
                self._files.append(str(member))
        except OSError as error:
            raise LogError(f"{self._folder}: cannot be written: {why(error)}") from error
        has = {name for name, _ in plan}
        return Extracted(
            header=self._header,
            profile=str(self._folder / PROFILE_NAME),
            course=str(self._folder / COURSE_NAME) if COURSE_NAME in has else "",
            board=str(self._folder / BOARD_NAME) if BOARD_NAME in has else "",
            files=self._files,
            notes=self._notes,
        )

    def _plain(self, data: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        """Iterate over course, fence and computer."""
        course = self._reader.attachment(COURSE_NAME) if COURSE_NAME in self._names else b""
        try:
            from_json(course)
            yield COURSE_NAME, course
            data["course"] = COURSE_NAME
        except CourseError:
            self._notes.append("no course: the log was imported, and its source holds none")
        if FENCE_NAME in self._names:
            yield FENCE_NAME, self._reader.attachment(FENCE_NAME)
            data["fence"] = FENCE_NAME
        if BOARD_NAME in self._names:
            yield BOARD_NAME, self._reader.attachment(BOARD_NAME)

    def _plugins(self, data: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        """Iterate over the texts of the daemon's plugins, and name them in the profile."""
        rows = self._header.plugins
        if self._code != "log":
            replace_plugins(
                data, plugin_files(self._header, self._reader.attachment, self._code, self._path)
            )
            return
        written = set[int]()

        def find(name: str) -> str:
            same = [k for k, row in enumerate(rows) if label(row.reference) == label(name)]
            if not same or not rows[same[0]].text_file:
                return name
            number = next((k for k in same if rows[k].reference == name), same[0])
            written.add(number)
            return f"plugins/{number}/{label(rows[number].reference)}"

        replace_plugins(data, find)
        for number in sorted(written):
            for file in rows[number].hashes:
                yield (
                    f"plugins/{number}/{file}",
                    self._reader.attachment(plugin_attachment(number, file)),
                )

    def _world(self, data: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        """Iterate over the files of the simulated world, and name them in the profile."""
        for number, row in enumerate(self._header.files):
            own = next(iter(row.hashes), "")
            if row.key == MIXED_KEY:
                self._notes.append("the run was mixed reality: its virtual world is not repeated")
                continue
            is_code = row.key != "sim.scene" and is_reference(row.name)
            if is_code and self._code != "log":
                self._check_code(row)
                _put(data, row.key, row.name)
                continue
            if not row.attached:
                self._notes.append(
                    f"{row.key}: {row.path} was too large for the log; put it there again"
                )
                _put(data, row.key, row.path)
                continue
            for file in row.hashes:
                yield (
                    file_attachment(number, file),
                    self._reader.attachment(file_attachment(number, file)),
                )
            place = file_attachment(number, own)
            size = scenes.size_of(row.name) if row.key == "sim.scene" else ""
            _put(data, row.key, renamed(row.name, Path(place)) if is_code else f"{place}{size}")
        named = {row.key for row in self._header.files}
        for key in (
            "sim.scene",
            "sim.terrain.height",
            "sim.terrain.friction",
            "sim.gnss.replayed.file",
            "sim.gnss.zones_file",
        ):
            if key not in named and (name := _get(data, key)):
                self._notes.append(f"{key}: the log does not hold {printable(str(name))}")

    def _check_code(self, row: FileRow) -> None:
        for file, digest in row.hashes.items() if self._code == "same" else ():
            path = Path(row.path).parent / file
            try:
                same = hashlib.sha256(path.read_bytes()).hexdigest() == digest
            except OSError:
                same = False
            if not same:
                raise SetupError(
                    f"the run used {row.key} = {printable(row.name)}, and {path} is not what it "
                    "was; restore it, or run the text in the log, if you trust that log: --code "
                    "log"
                )

    def _renamed(self, text: str, data: dict[str, Any]) -> str:
        """Return the profile's text with the new values, its comments kept where that is
        possible."""
        before = toml_text.parse(text, "profile")
        changed = text
        for old, new in _differences(before, data):
            changed = changed.replace(f'"{old}"', f'"{new}"').replace(f"'{old}'", f'"{new}"')
        if "course" in data and "course" not in before:
            changed = f'course = "{data["course"]}"\n{changed}'
        try:
            if toml_text.parse(changed, "profile") == data:
                return changed
        except ProfileError:
            pass
        return toml_text.write(data)


def _put(data: dict[str, Any], key: str, value: str) -> None:
    """Give a key of a profile another text, if it has one; of a table with a name, the name."""
    *tables, last = key.split(".")
    table: Any = data
    for name in tables:
        table = table.get(name) if isinstance(table, dict) else None
    if isinstance(table, dict) and isinstance(table.get(last), dict):
        table, last = table[last], "name"
    if isinstance(table, dict) and isinstance(table.get(last), str):
        table[last] = value


def _differences(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() & after.keys():
            yield from _differences(before[key], after[key])
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        yield before, after


def _get(data: dict[str, Any], key: str) -> Any:
    found: Any = data
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
