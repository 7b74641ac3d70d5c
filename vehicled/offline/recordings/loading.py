"""Finds recordings of all formats in a file or folder. A source is opened only when it is
loaded."""

import os
import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from msgspec import Struct

from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings import art
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import KINDS, Recording
from vehicled.run.argument_types import NameType

KIND = NameType(lambda text, before: KINDS)
"""Argument type of a kind of recording."""


class RecordingSource(Struct, frozen=True):
    """A file, or a bag's folder, that holds recordings. ``load`` takes the wanted kinds, None for
    all of them."""

    name: str
    path: Path
    kinds: tuple[str, ...]
    load: Callable[[Collection[str] | None], list[Recording]]


def sources(path: str | os.PathLike[str], vehicle: Vehicle | None = None) -> list[RecordingSource]:
    """Return the recordings at a path, sorted by name. ``vehicle`` is assumed for recordings that
    name none.

    Raises :class:`RecordingError` if there are none.
    """
    root = Path(path).expanduser()
    if not root.exists():
        raise RecordingError(
            f"{root}: there is no such file or folder; name one that holds recordings (CSV, "
            ".mcap, ROS bags)"
        )
    if not root.is_dir() or _is_bag_folder(root):
        found = _source(root, root.name if root.is_dir() else root.stem, vehicle)
        if found is None:
            art.read(root, root.stem)  # says what is wrong with it
            raise RecordingError(f"{root}: is no recording that can be read here")
        return [found]
    listed = []
    seen: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        here = Path(folder)
        real = os.path.realpath(folder)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        bags = [name for name in folders if _is_bag_folder(here / name)]
        folders[:] = sorted(set(folders) - set(bags))
        for name in [*bags, *files]:
            file = here / name
            found = _source(
                file,
                (file if name in bags else file.with_suffix("")).relative_to(root).as_posix(),
                vehicle,
            )
            if found is not None:
                listed.append(found)
    if not listed:
        raise RecordingError(
            f"{root}: holds no recording: no CSV file with the columns of one, no log (.mcap) "
            "and no ROS bag"
        )
    return sorted(listed, key=lambda source: source.name)


def known_kinds(kinds: Collection[str]) -> None:
    """Raises :class:`RecordingError` for a kind that does not exist."""
    for kind in kinds:
        if kind not in KINDS:
            raise RecordingError(f"unknown kind {kind!r}: there are {', '.join(KINDS)}")


def _source(file: Path, name: str, vehicle: Vehicle | None) -> RecordingSource | None:
    suffix = file.suffix.lower()
    if suffix == ".csv":
        reader = art.reader_of(file)
        return (
            None
            if reader is None
            else RecordingSource(
                name, file, art.KINDS[reader], partial(art.read, file, name, vehicle=vehicle)
            )
        )
    if suffix == ".mcap" and file.is_file():
        from vehicled.offline.recordings import mcap

        if mcap.is_ours(file):
            # A later part of a rotated log belongs to the first, where that is there.
            first = file.with_name(re.sub(r"_part\d+\.mcap$", ".mcap", file.name))
            return (
                None
                if first != file and first.is_file()
                else RecordingSource(name, file, ("log",), partial(_log, file, name))
            )
    if suffix in (".bag", ".mcap", ".db3") or _is_bag_folder(file):
        return RecordingSource(name, file, ("rosbag",), partial(_bag, file, name, vehicle))
    return None


def _log(file: Path, name: str, kinds: Collection[str] | None) -> list[Recording]:
    from vehicled.offline.recordings import mcap

    return [mcap.load(file, name)] if kinds is None or "log" in kinds else []


def _bag(
    file: Path, name: str, vehicle: Vehicle | None, kinds: Collection[str] | None
) -> list[Recording]:
    from vehicled.offline.recordings import rosbag

    return [rosbag.load(file, vehicle, name)] if kinds is None or "rosbag" in kinds else []


def _is_bag_folder(path: Path) -> bool:
    return path.is_dir() and (path / "metadata.yaml").is_file()
