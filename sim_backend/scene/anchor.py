"""Paths and reading of the scene files that a profile names."""

import os
from pathlib import Path

from msgspec.structs import replace

from sim_backend.scene.errors import SceneError
from vehicled.paths import scenes
from vehicled.paths.errors import CourseError
from vehicled.profile.schema import Profile

MAX_BYTES = 16 * 1024 * 1024


def expanded(name: str) -> Path:
    """Expand ``~`` as a shell does. An unknown user stays unexpanded, so the file is reported as
    missing."""
    return Path(os.path.expanduser(name))


def scene_of(name: str) -> scenes.SceneReference:
    """Return what the reference of a scene names. Raises :class:`SceneError`."""
    try:
        reference = scenes.parse(name)
    except CourseError as error:
        raise SceneError(str(error)) from None
    return reference._replace(file=expanded(str(reference.file)))


def anchored(profile: Profile, path: str) -> Profile:
    """Return the profile read from the file ``path``, with the relative paths of scene, terrain,
    zones and errors resolved against it."""

    def place(name: str) -> str:
        return str(Path(path).parent / expanded(name)) if name and path else name

    sim = profile.sim
    scene = sim.scene if scenes.is_shipped(sim.scene) else place(sim.scene)
    terrain = replace(
        sim.terrain, height=place(sim.terrain.height), friction=place(sim.terrain.friction)
    )
    replayed = replace(sim.gnss.replayed, file=place(sim.gnss.replayed.file))
    gnss = replace(sim.gnss, zones_file=place(sim.gnss.zones_file), replayed=replayed)
    return replace(profile, sim=replace(sim, scene=scene, terrain=terrain, gnss=gnss))


def bytes_of(path: Path, key: str) -> bytes:
    """Read the drawing that the profile names by ``key``. Raises :class:`SceneError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SceneError(
            f"{path}: cannot be read ({error.strerror}); {key} is relative to the profile"
        ) from None
    if len(data) > MAX_BYTES:
        raise SceneError(
            f"{path}: larger than {MAX_BYTES >> 20} MiB; draw fewer corners, or thin it out"
        )
    return data
