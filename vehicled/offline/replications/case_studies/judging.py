"""Judges of the case studies: the criteria of each kind, checked on what was driven."""

from collections.abc import Callable, Sequence
from math import atan, cos, degrees, hypot, pi, remainder, sin
from typing import Any

import numpy as np
from msgspec import Struct

from sim_backend.contact.geometry import Obstacles
from sim_backend.scene.describe import SceneView, view_of
from sim_backend.scene.reading import ground_of
from sim_backend.scene.scene import ScenePose
from sim_backend.terrain.reading import load_terrain
from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.core.vehicle import Outline
from vehicled.offline.race.drive import DrivenLap
from vehicled.offline.race.line import RaceLine
from vehicled.offline.replications.case_studies.declarations import (
    CaseStudy,
    OffRoadStudy,
    ParkingStudy,
    RacingStudy,
    TrackingStudy,
)
from vehicled.offline.replications.case_studies.driving import CaseDriven

FULL_BACKWARD = 0.95
"""Least fraction of the course's backward parts that is driven backward."""
GAP_POSES = 1000
"""Poses of a drive at which its distance to the bodies of the scene is taken."""


class CaseCheck(Struct, frozen=True):
    """One criterion, and what was found."""

    name: str
    found: str
    wanted: str
    passed: bool


class CaseVerdict(Struct, frozen=True):
    """Result of a study."""

    name: str
    title: str
    passed: bool
    checks: list[CaseCheck]
    figures: dict[str, float]
    digests: list[str]


class RaceOutcome(Struct, frozen=True):
    """Race line and the laps along it."""

    line: RaceLine
    lap: DrivenLap


CaseOutcome = CaseDriven | RaceOutcome


def judge(study: CaseStudy, outcomes: Sequence[Any]) -> CaseVerdict:
    """Return the verdict on the outcomes of a study, in the order of its drives."""
    checks, figures, digests = _JUDGES[type(study)](study, outcomes)
    passed = all(check.passed for check in checks)
    return CaseVerdict(study.name, study.title, passed, checks, figures, digests)


_Found = tuple[list[CaseCheck], dict[str, float], list[str]]


def _at_most(name: str, value: float, limit: float, unit: str) -> CaseCheck:
    return CaseCheck(name, f"{value:.3g} {unit}", f"at most {limit:.3g} {unit}", value <= limit)


def _at_least(name: str, value: float, limit: float, unit: str) -> CaseCheck:
    return CaseCheck(name, f"{value:.3g} {unit}", f"at least {limit:.3g} {unit}", value >= limit)


def _is(name: str, found: str, wanted: str) -> CaseCheck:
    return CaseCheck(name, found, wanted, found == wanted)


def _driven(outcome: CaseDriven) -> list[CaseCheck]:
    """Return the criteria of every drive in a scene: finished, and nothing touched."""
    return [
        CaseCheck("course", outcome.why, "finished", outcome.finished),
        _is("contacts", ", ".join(outcome.contacts) or "none", "none"),
    ]


def _park(study: ParkingStudy, outcomes: Sequence[CaseDriven]) -> _Found:
    (done,) = outcomes
    view = view_of(study.drive.scene)
    pose, size = space_of(view, study.space)
    margin = _margin_m(pose, size, body_m(done.outline, done.end))
    angle = degrees(abs(remainder(done.end[2] - pose.yaw_rad, 2.0 * pi)))
    room = 0.5 * size[1] - done.outline.half_m
    checks = [
        *_driven(done),
        _at_least("driven backward", done.backward_m, FULL_BACKWARD * done.backward_course_m, "m"),
        _at_most("cross-track error", done.cross_track_max_m, room, "m"),
        _at_least("body inside the space by", margin, 0.0, "m"),
        _at_most("angle to the space", angle, study.heading_deg, "degrees"),
        _at_most("moved after the last command", done.moved_m, study.moved_m, "m"),
    ]
    if done.gear:
        checks.append(_is("gear", done.gear, "P"))
    figures = {
        "backward_m": done.backward_m,
        "cross_track_max_m": done.cross_track_max_m,
        "room_m": room,
        "margin_m": margin,
        "angle_deg": angle,
        "moved_m": done.moved_m,
        "gap_m": least_gap_m(view, done),
        "driving_s": done.driving_s,
    }
    return checks, figures, [done.digest]


def _race(study: RacingStudy, outcomes: Sequence[RaceOutcome]) -> _Found:
    (done,) = outcomes
    line, lap = done.line, done.lap
    checks = [
        CaseCheck("laps", lap.why, "finished", lap.finished),
        _at_most("contacts", lap.contacts, 0, ""),
        _at_most("flying lap over the ideal lap", lap.ratio, study.over_ideal, ""),
        _at_most("flying lap, beside the ideal of the centre line", lap.lap_s, line.centre_time_s,
            "s"),
    ]  # fmt: skip
    figures = {
        "lap_s": lap.lap_s,
        "ideal_s": line.lap.time_s,
        "centre_s": line.centre_time_s,
        "ratio": lap.ratio,
        "cross_track_max_m": lap.cross_track_max_m,
        "contacts": float(lap.contacts),
        "slips": float(lap.slips),
    }
    return checks, figures, [lap.digest]


def _off_road(study: OffRoadStudy, outcomes: Sequence[CaseDriven]) -> _Found:
    (done,) = outcomes
    view = view_of(study.drive.scene)
    room = 0.5 * view.scene.lanes[study.lane] - done.outline.half_m
    heights, steepest, climb = ground_along(view, done)
    checks = [
        *_driven(done),
        _at_most("cross-track error", done.cross_track_max_m, room, "m"),
        _at_least("steepest ground under the way", steepest, study.slope_deg, "degrees"),
    ]
    figures = {
        "course_m": done.course_m,
        "cross_track_mean_m": done.cross_track_mean_m,
        "cross_track_max_m": done.cross_track_max_m,
        "room_m": room,
        "steepest_deg": steepest,
        "climb_deg": climb,
        "height_m": float(np.ptp(heights)),
        "gap_m": least_gap_m(view, done),
        "driving_s": done.driving_s,
    }
    return checks, figures, [done.digest]


def _track(study: TrackingStudy, outcomes: Sequence[CaseDriven]) -> _Found:
    checks: list[CaseCheck] = []
    figures: dict[str, float] = {}
    for done in outcomes:
        name, length_m = done.drive.profile, done.length_m
        mean, largest = done.cross_track_mean_m / length_m, done.cross_track_max_m / length_m
        checks += [
            CaseCheck(f"{name}: course", done.why, "finished", done.finished),
            _at_most(f"{name}: mean cross-track error", mean, study.mean_lengths, "lengths"),
            _at_most(f"{name}: largest", largest, study.largest_lengths, "lengths"),
        ]
        figures |= {
            f"{name}_length_m": length_m,
            f"{name}_mean_m": done.cross_track_mean_m,
            f"{name}_max_m": done.cross_track_max_m,
            f"{name}_mean_lengths": mean,
            f"{name}_max_lengths": largest,
            f"{name}_mean_mps": done.course_m / done.driving_s,
        }
    return checks, figures, [done.digest for done in outcomes]


_JUDGES: dict[type, Callable[[Any, Sequence[Any]], _Found]] = {
    ParkingStudy: _park,
    RacingStudy: _race,
    OffRoadStudy: _off_road,
    TrackingStudy: _track,
}


def space_of(view: SceneView, name: str) -> tuple[ScenePose, tuple[float, float]]:
    """Return middle, heading and size of a parking space, m. Raises :class:`SetupError` for a name
    that the scene has not."""
    for space, (pose, _) in zip(view.file.parking_space, view.parking_spaces, strict=True):
        if space.name == name:
            length_m, width_m = (view.scale * size for size in space.size_m)
            return pose, (length_m, width_m)
    raise SetupError(f"scene {view.name} has no parking space {name!r}")


def body_m(outline: Outline, pose: tuple[float, float, float]) -> Array:
    """Return the corners (4, 2) of a body at a pose."""
    x, y, yaw = pose
    front, rear, half = outline
    corners = np.array([[front, half], [-rear, half], [-rear, -half], [front, -half]])
    turn = np.array([[cos(yaw), -sin(yaw)], [sin(yaw), cos(yaw)]])
    moved: Array = corners @ turn.T + np.array([x, y])
    return moved


def _margin_m(pose: ScenePose, size: tuple[float, float], corners: Array) -> float:
    """Return the least distance of corners inside a rectangle to its edges; negative outside."""
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    away = corners - np.array([pose.x_m, pose.y_m])
    along, across = away @ np.array([c, s]), away @ np.array([-s, c])
    return float(min((0.5 * size[0] - abs(along)).min(), (0.5 * size[1] - abs(across)).min()))


def least_gap_m(view: SceneView, done: CaseDriven) -> float:
    """Return the least distance between the body and what stands in the scene."""
    obstacles = Obstacles(view.scene, done.outline)
    step = -(-len(done.poses) // GAP_POSES)
    rows = done.poses[::step, 1:].tolist()
    return min(obstacles.gap_of_still(ScenePose(*row)) for row in [*rows, done.end])


def ground_along(view: SceneView, done: CaseDriven) -> tuple[Array, float, float]:
    """Return the heights under a drive, the steepest ground there and the steepest climb or descent
    along the way, degrees. Raises :class:`SetupError` for a scene without ground."""
    table = ground_of(view.name, view.file)
    if table is None:
        raise SetupError(f"scene {view.name} has no ground")
    terrain = load_terrain(table)
    found = [(*terrain.at(x, y)[:3], yaw) for _, x, y, yaw in done.poses.tolist()]
    steepest = max(degrees(atan(hypot(dx, dy))) for _, dx, dy, _ in found)
    climb = max(degrees(atan(abs(dx * cos(yaw) + dy * sin(yaw)))) for _, dx, dy, yaw in found)
    return np.array([height for height, *_ in found]), steepest, climb
