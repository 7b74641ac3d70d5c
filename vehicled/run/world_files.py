"""Files that a simulated world is made of, as a log keeps them: scene, terrain, zones, recorded
errors, twin, plugins.

The map on which the vehicle is located is among them. The daemon's other files are kept elsewhere:
profile, course, fence, plugins.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from vehicled.paths import scenes
from vehicled.profile import Loaded, plugins

MAX_BYTES = 64 * 1024 * 1024
"""Largest sum of files that a log keeps; beyond it a file is only named, with its hash."""
_IMAGE = re.compile(r"^\s*image\s*:\s*[\"']?([^\"'\s#]+)", re.MULTILINE)
_PARTS = re.compile(r"^\s*(?:map|height|friction)\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)
"""Files that a scene names."""
SIDECAR = ".toml"
MAP_KEY = "localisation.map"
MIXED_KEY = "--mixed"
"""Name of the scene of mixed reality among the files; no key of the profile."""


class WorldFile(Struct, frozen=True):
    """One key of the profile that names a file, and what stands in that file and those it names."""

    key: str
    """Dotted key, such as ``sim.scene``."""
    name: str
    """Value of the key, as the profile writes it."""
    path: str
    """File with its whole path."""
    files: dict[str, bytes]
    """Contents by path relative to the file's folder, its own first; empty if they are too
    large."""
    hashes: dict[str, str]
    """SHA-256 of the same files."""


def world_files(loaded: Loaded, *, simulated: bool = True, mixed: str = "") -> list[WorldFile]:
    """Return the files that the simulated world of a profile is read from, the map that the daemon
    itself reads, and the scene ``mixed`` of mixed reality.

    Files that are missing are left out.
    """
    folder = Path(loaded.path).parent if loaded.path else Path()
    found, total = list[WorldFile](), 0
    for key, name in (*_named(loaded), *([(MIXED_KEY, mixed)] if mixed else [])):
        if not simulated and key not in (MAP_KEY, MIXED_KEY):
            continue
        is_scene = key in ("sim.scene", MIXED_KEY)
        reference = name if not is_scene and plugins.is_reference(name) else ""
        file = (
            str(scenes.parse(name).file)
            if is_scene
            else plugins.source_file(reference)
            if reference
            else name
        )
        path = folder / _expanded(file)
        if reference and not plugins.source_file(reference):
            continue
        files = dict(_with_companions(path))
        if not files:
            continue
        hashes = {each: hashlib.sha256(data).hexdigest() for each, data in files.items()}
        total += sum(map(len, files.values()))
        found.append(
            WorldFile(key, name, str(path.absolute()), files if total <= MAX_BYTES else {}, hashes)
        )
    return found


def _named(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Iterate over the keys that name files of the simulated world, with their values."""
    sim = loaded.profile.sim
    if sim.twin is not None and ("/" in sim.twin.vehicle or sim.twin.vehicle.endswith(".toml")):
        yield "sim.twin.vehicle", sim.twin.vehicle
    for key, name in (
        (MAP_KEY, map_name(loaded)),
        ("sim.scene", sim.scene),
        ("sim.terrain.height", sim.terrain.height),
        ("sim.terrain.friction", sim.terrain.friction),
        ("sim.gnss.replayed.file", sim.gnss.replayed.file),
        ("sim.gnss.zones_file", sim.gnss.zones_file),
    ):
        if name:
            yield key, name
    if plugins.is_reference(sim.plant):
        yield "sim.plant", sim.plant
    for device, table in loaded.profile.devices.items():
        emulator = getattr(table, "emulator", "")
        if plugins.is_reference(emulator):
            yield f"devices.{device}.emulator", emulator


def map_name(loaded: Loaded) -> str:
    """Return the file of the map on which the vehicle is located; empty without one."""
    return "" if loaded.profile.localisation is None else loaded.profile.localisation.map


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _with_companions(path: Path) -> Iterator[tuple[str, bytes]]:
    """Iterate over a file and those beside it that belong to it: the map of a scene, the image of a
    map, a raster's side file."""
    waiting, seen = [Path(path.name)], set[Path]()
    while waiting:
        each = waiting.pop(0)
        if each in seen or each.is_absolute() or ".." in each.parts:
            continue
        seen.add(each)
        try:
            if (path.parent / each).stat().st_size > MAX_BYTES:
                continue
            data = (path.parent / each).read_bytes()
        except OSError:
            continue
        yield each.as_posix(), data
        kind = each.suffix.lower()
        if kind in (".yaml", ".yml"):
            waiting += [
                each.parent / name for name in _IMAGE.findall(data.decode("utf-8", "replace"))
            ]
        elif kind == ".toml":
            waiting += [
                each.parent / name for name in _PARTS.findall(data.decode("utf-8", "replace"))
            ]
        elif kind not in (".py", ".geojson"):
            waiting.append(each.with_name(each.name + SIDECAR))


def conditions(failures: tuple[str, ...], start: str, duration_s: float | None) -> dict[str, str]:
    """Return the conditions of a simulated drive that no other part of a log holds."""
    found = {"failures": msgspec.json.encode(failures).decode() if failures else "", "start": start}
    return {key: value for key, value in found.items() if value} | (
        {} if duration_s is None else {"duration_s": repr(duration_s)}
    )
