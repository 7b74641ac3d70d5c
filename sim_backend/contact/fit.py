"""Comparison of a vehicle with a scene: its start, the courses that belong to the scene, and the
lanes."""

from itertools import product
from math import cos, degrees, hypot, sin

import numpy as np

from sim_backend.contact.geometry import Obstacles
from sim_backend.plant.interface import StartPose, pushable
from sim_backend.plant.registry import plant_class
from sim_backend.scenario import PUSH_M, Start, default_start, pose_behind
from sim_backend.scene.errors import SceneError
from sim_backend.scene.scene import Scene, ScenePose
from vehicled.paths import scenes
from vehicled.paths.course import Course
from vehicled.profile.schema import Profile

FREE_M = 0.05
"""Room that a free place has on all sides."""
SEARCHED_M = 20.0
"""Distance within which a free place is searched."""
STEP_M = 0.2
"""Distance of the poses at which the vehicle is compared with the scene along a course."""
TIGHTER = 1.15
"""Largest curvature of a course in units of the vehicle's: corners are sampled, and steering limits
are conservative."""


def start_pose(scene: Scene, profile: Profile, course: Course, start: Start) -> StartPose:
    """Return the pose at which the vehicle stands at first. Raises :class:`SceneError` for a name
    that the scene does not have."""
    name = profile.sim.start_pose
    if name and name not in scene.starts:
        known = ", ".join(sorted(scene.starts)) or "none"
        raise SceneError(f'sim.start_pose: the scene has no start "{name[:40]}"; known: {known}')
    pose = (
        StartPose(*scene.starts[name])
        if name
        else StartPose(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]))
    )
    return pose_behind(pose, profile.alignment.distance_m) if start == "align" else pose


def check_start(scene: Scene, profile: Profile, course: Course, start: Start) -> StartPose:
    """Return :func:`start_pose`. Raises :class:`SceneError` if something stands there."""
    pose = start_pose(scene, profile, course, start)
    if scene.empty:
        return pose
    obstacles = Obstacles(scene, profile.vehicle.outline)
    for place in [pose_behind(pose, PUSH_M), pose] if start == "push" else [pose]:
        _check_start(obstacles, ScenePose(*place), profile)
    return pose


def check_scene(scene: Scene, profile: Profile, course: Course, start: Start | None = None) -> None:
    """Raise :class:`SceneError` if the vehicle would start inside something, is too large for the
    scene, or cannot be pushed."""
    if (
        not scene.empty
        and profile.sim.contact != "none"
        and not pushable(plant_class(profile.sim.plant))
    ):
        raise SceneError(
            f"sim.plant {profile.sim.plant}: has no rigid_body and strike, by which contact "
            "pushes it back (docs/scenes.md); "
            'write them, or set sim.contact = "none"'
        )
    for name, width_m in scene.lanes.items():
        if width_m < profile.vehicle.width_m:
            raise SceneError(
                f"{_title(profile)}: lane {name} is {width_m:.2f} m wide, and the vehicle of "
                f"profile {profile.name} {profile.vehicle.width_m:.2f} m: it does not fit; "
                f"{_larger(profile, profile.vehicle.width_m / width_m)}"
            )
    check_start(scene, profile, course, start or default_start(profile))
    if course.name.startswith(f"{_title(profile)}/"):
        _check_course(Obstacles(scene, profile.vehicle.outline), profile, course)


def _check_start(obstacles: Obstacles, pose: ScenePose, profile: Profile) -> None:
    what = _blocking(obstacles, pose)
    if not what:
        return
    free = _nearest_free(obstacles, pose)
    cure = (
        f"within {SEARCHED_M:g} m there is no free place with this heading: choose another "
        "course or start"
    )
    if free is not None:
        away_m = hypot(free.x_m - pose.x_m, free.y_m - pose.y_m)
        cure = (
            f"the nearest free place with this heading is ({free.x_m:.2f}, {free.y_m:.2f}) m, "
            f"{away_m:.2f} m away: move the body or the course, or give the scene a [[start]] "
            "there and name it in sim.start_pose"
        )
    raise SceneError(
        f"{_title(profile)}: the vehicle would start inside {what} at ({pose.x_m:.2f}, "
        f"{pose.y_m:.2f}) m, heading {degrees(pose.yaw_rad):.0f} degrees; {cure}"
    )


def _blocking(obstacles: Obstacles, pose: ScenePose, room_m: float = 0.0) -> str:
    """Return the name of what a vehicle at a pose overlaps at the start of the run; empty for
    nothing."""
    if obstacles.gap(pose, 0.0) <= room_m:
        touches = obstacles.touches(pose, 0.0, room_m + 1e-9)
        return (touches[0].surface.name if touches else "") or "the scene"
    inside = obstacles.covering(pose)
    return "" if inside is None else inside.name or "the scene"


def _nearest_free(obstacles: Obstacles, pose: ScenePose) -> ScenePose | None:
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    step_m = 0.25 * max(obstacles.outline.half_m, 0.1)
    for spread in (1.0, 4.0, 16.0):
        cells = [step_m * spread * k for k in range(-16, 17)]
        for ahead, left in sorted(product(cells, cells), key=lambda cell: (hypot(*cell), cell)):
            if hypot(ahead, left) > SEARCHED_M:
                break
            place = ScenePose(
                pose.x_m + c * ahead - s * left, pose.y_m + s * ahead + c * left, pose.yaw_rad
            )
            if not _blocking(obstacles, place, FREE_M):
                return place
    return None


def _check_course(obstacles: Obstacles, profile: Profile, course: Course) -> None:
    """Raise :class:`SceneError` if the vehicle would touch something on a course of the scene, or
    cannot turn so tightly."""
    vehicle = profile.vehicle
    every = max(1, round(STEP_M / (course.length_m / len(course.x_m))))
    for k in range(0, len(course.x_m), every):
        pose = ScenePose(float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k]))
        if obstacles.gap_of_still(pose) == 0.0:
            touches = obstacles.touches(pose, 0.0, 1e-9)
            what = (touches[0].surface.name if touches else "") or "the scene"
            raise SceneError(
                f"{_title(profile)}: the vehicle of profile {profile.name} ({vehicle.length_m:g} "
                f"x {vehicle.width_m:g} m) does not fit: at {course.s_m[k]:.1f} m of course "
                f"{course.name} its body meets {what}; {_larger(profile, 1.5)}"
            )
    tightest = float(np.abs(course.curvature_per_m).max())
    if not vehicle.skid_steer and tightest * vehicle.min_turn_radius_m > TIGHTER:
        raise SceneError(
            f"{_title(profile)}: the vehicle of profile {profile.name} does not fit: course "
            f"{course.name} turns with a radius of {1.0 / tightest:.2f} m, and the vehicle with "
            f"{vehicle.min_turn_radius_m:.2f} m at full lock; "
            f"{_larger(profile, tightest * vehicle.min_turn_radius_m)}"
        )


def _title(profile: Profile) -> str:
    return scenes.title_of(profile.sim.scene)


def _larger(profile: Profile, factor: float) -> str:
    reference = scenes.parse(profile.sim.scene)
    if reference.file.suffix.lower() != ".toml":
        return "take a smaller vehicle"
    if profile.sim.terrain.height and reference.scale == 1.0:
        return "take a smaller vehicle"
    return (
        "take a smaller vehicle, or build the scene larger, such as "
        f"{reference.file.stem}@{1.05 * factor * reference.scale:.2g}"
    )
