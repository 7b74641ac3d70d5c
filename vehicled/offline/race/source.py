"""Tracks by name: those that ship, track files, scenes and maps of ROS map_server."""

from difflib import get_close_matches
from math import hypot
from pathlib import Path

import numpy as np
from msgspec import Struct

from sim_backend.scene.anchor import scene_of
from sim_backend.scene.describe import SceneView, view_of
from vehicled.core import shipped
from vehicled.core.arrays import Array
from vehicled.maps.map_file import read_map
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.line import check_libraries
from vehicled.offline.race.track import RaceTrack, track_of
from vehicled.offline.race.track_file import read_track
from vehicled.offline.race.track_map import track_from_grid
from vehicled.paths import scenes
from vehicled.paths.course import Course

TABLES = (".csv", ".txt", ".tsv", ".dat")
MAPS = (".yaml", ".yml")
POINTS_PER_WIDTH = 3
MOST_WALL_POINTS = 5000


class TrackSource(Struct, frozen=True):
    """A track, and the scene to drive it in."""

    track: RaceTrack
    scene: str
    """Name or file of the scene; empty: the walls of the track, see :func:`walls_scene`."""


def names() -> list[str]:
    """Return the names of the tracks that ship, sorted."""
    return sorted(path.stem for path in shipped.folder("profiles/tracks").glob("*.csv"))


def load_track(name: str) -> TrackSource:
    """Return the track of a name or a file. Raises :class:`RaceError`, MapError and the errors of
    scenes."""
    check_libraries()
    path = Path(name).expanduser()
    suffix = path.suffix.lower()
    if name in names():
        file = shipped.folder("profiles/tracks") / f"{name}.csv"
        return TrackSource(_named(read_track(file), name), "")
    if suffix in MAPS:
        return TrackSource(track_from_grid(read_map(path), name), str(path.absolute()))
    if suffix in TABLES or (path.is_file() and suffix not in (".toml", ".geojson")):
        return TrackSource(read_track(path), "")
    stem = name.partition("@")[0]
    if suffix in (".toml", ".geojson") or stem in scenes.names() or ".toml@" in name:
        return TrackSource(_scene_track(name), scenes.absolute(name))
    known = [*names(), *scenes.names()]
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise RaceError(
        f'no track "{name[:60]}"; {hint}tracks: {", ".join(names())}; scenes: '
        f"{', '.join(scenes.names())}; or give a file: a table of the centre line "
        f"({', '.join(TABLES)}), a map ({', '.join(MAPS)}) or a scene (.toml)"
    )


def _named(track: RaceTrack, name: str) -> RaceTrack:
    return RaceTrack(
        name,
        track.x_m,
        track.y_m,
        track.right_m,
        track.left_m,
        track.left_wall_m,
        track.right_wall_m,
        track.counter_clockwise,
        track.length_m,
        track.remarks,
    )


def _scene_track(name: str) -> RaceTrack:
    """Return the track of a scene: of its map, else of its first closed lane."""
    view = view_of(name)
    course = next((course for course, _ in view.courses if course.closed), None)
    if view.file.map:
        grid = read_map(scene_of(name).file.parent / view.file.map)
        x, y, yaw = grid.origin
        grid = grid._replace(
            resolution_m=view.scale * grid.resolution_m,
            origin=(view.scale * x, view.scale * y, yaw),
        )
        track = track_from_grid(grid, name)
        return track if course is None else _along(track, course)
    return _lane_track(name, view)


def _along(track: RaceTrack, course: Course) -> RaceTrack:
    """Return a track in the direction of a course, from its start on."""
    ccw = float((course.x_m * np.roll(course.y_m, -1) - np.roll(course.x_m, -1) * course.y_m).sum())
    if (ccw > 0.0) != track.counter_clockwise:
        track = track.reversed()
    x, y = float(course.x_m[0]), float(course.y_m[0])
    k = int(np.argmin([hypot(a - x, b - y) for a, b in track.points.tolist()]))
    return track_of(
        track.name,
        *(np.roll(values, -k) for values in (track.x_m, track.y_m, track.right_m, track.left_m)),
        remarks=track.remarks,
    )


def _lane_track(name: str, view: SceneView) -> RaceTrack:
    closed = {lane.name for lane in view.file.lane if lane.closed}
    for lane, width_m, left, right in view.lanes:
        if lane in closed:
            middle = 0.5 * (left + right)
            step = max(1, round(len(middle) * width_m / POINTS_PER_WIDTH / _length(middle)))
            middle = middle[::step]
            half = np.full(len(middle), 0.5 * width_m)
            return track_of(
                name,
                middle[:, 0],
                middle[:, 1],
                half,
                half,
                remarks=(f"lane {lane!r} of the scene",),
            )
    raise RaceError(
        f"{name}: this scene has neither a map nor a closed lane; name a scene with one, such as "
        "race_track, or give the file of a track"
    )


def _length(points: Array) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def walls_scene(track: RaceTrack) -> str:
    """Return the text of a scene with the walls of a track."""
    lines = [f'title = "walls of the track {Path(track.name).stem}"', ""]
    for side, wall in (("left", track.left_wall_m), ("right", track.right_wall_m)):
        step = max(1, -(-len(wall) // MOST_WALL_POINTS))
        points = ", ".join(f"[{x:.3f}, {y:.3f}]" for x, y in wall[::step].tolist())
        lines += ["[[wall]]", f'name = "the {side} wall"', "closed = true", f"points = [{points}]"]
        lines.append("")
    return "\n".join(lines)
