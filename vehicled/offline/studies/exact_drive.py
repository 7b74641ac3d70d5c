"""Drives of the low-rate study (Michigan Tech 2022) without the daemon.

The controller gets the exact state, its command goes to the actuators of the twin, and control and
physics step together or apart.

The full daemon needs minutes for what this does in a second; the study's sweep has 315 drives. The
plant, its actuators and the controller are those of ``vehicled sim``.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import isfinite, nan, remainder, sin, tau
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion, StartPose, VehicleLostError
from sim_backend.plant.registry import plant_class
from vehicled.control.interface import Controller
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.markings import NO_MARKINGS
from vehicled.paths.recorded import Recorded, recorded
from vehicled.paths.tracking import PathTracker
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile

BOX_M = 0.5
"""Half of the side of a waypoint box. A drive that passes a waypoint further off has missed its
box, which ends it."""
LONGEST_STEP_S = 0.02
"""Longest step of the plant."""
TRACE_HZ = 400.0


class ExactDrive(Struct, frozen=True, kw_only=True):
    """Result of one drive. Errors are means over the manoeuvre, of the point that pursues against
    the line that it pursues."""

    finished: bool
    why: str
    cross_track_m: float
    cross_track_max_m: float
    heading_rad: float
    speed_mps: float
    place_m: float
    """Arc length from the start of the manoeuvre at which the drive ended."""


class Step(NamedTuple):
    """Exact motion at one control step."""

    t_s: float
    motion: Motion
    s_m: float


def controller_of(profile: Profile, course: Course, rate_hz: float, name: str = "") -> Controller:
    """Return a controller of the profile for a course at a control rate; an empty name is the
    profile's own."""
    chosen = name or profile.controller.name
    kind = resolve("controller", chosen)
    params = profile.controller.params.get(chosen) or kind.Params()
    controller: Controller = kind(params, profile.vehicle, profile.limits, course, 1.0 / rate_hz)
    return controller


def drive(
    profile: Profile,
    course: Course,
    rate_hz: float,
    *,
    controller: Controller | None = None,
    physics_hz: float | None = None,
    delay_steps: int = 2,
    arm_m: float = 0.0,
    box_m: float = BOX_M,
    watch: Callable[[Step], None] | None = None,
) -> ExactDrive:
    """Drive a course from standstill to the end of its manoeuvre with the exact state.

    The plant steps at ``physics_hz``, by default at the control rate; its step is a whole fraction
    of the control period. A command reaches the actuators ``delay_steps`` control steps after its
    state; the delay of the twin's steering comes on top. ``arm_m``: distance of the judged point
    ahead of the rear axle; its line is the one that it draws while the rear axle follows the
    course.
    """
    follower = controller or controller_of(profile, course, rate_hz)
    wanted_s = min(1.0 / (physics_hz or rate_hz), LONGEST_STEP_S)
    substeps = max(1, round(1.0 / (rate_hz * wanted_s)), -int(-1.0 / (rate_hz * LONGEST_STEP_S)))
    step_ns = round(1e9 / (rate_hz * substeps))
    steering = profile.vehicle.steering
    start = StartPose(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]))
    plant = plant_class(profile.sim.plant)(profile.sim, start, step_ns * 1e-9)
    actuators = Actuators(profile.sim, 0, step_ns)
    judge = PathTracker(course)
    from_m = course.markings.from_m
    to_m = course.length_m if course.markings.to_m is None else course.markings.to_m
    longest_s = 3.0 * course.length_m / float(np.abs(course.speed_mps).max()) + 30.0
    waiting: deque[tuple[float, float, float]] = deque()
    now_ns, n, cross_m, worst_m, heading_rad, speed_mps, s_m = 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0
    why = "too slow"
    while now_ns < 1e9 * longest_s:
        at = plant.motion()
        here = judge.update(at.x_m, at.y_m, at.yaw_rad, at.speed_mps)
        s_m = here.s_m
        if watch is not None:
            watch(Step(now_ns * 1e-9, at, s_m))
        if s_m > to_m or judge.finished:
            why = ""
            break
        # Both ends of the arm; the heading error moves the point across.
        error_m = abs(here.cross_track_m - arm_m * sin(here.heading_error_rad))
        if not error_m <= profile.limits.corridor_m:
            why = "left the corridor"
            break
        if s_m >= from_m:
            if error_m > box_m:
                why = "missed a waypoint box"
                break
            n, cross_m, worst_m = n + 1, cross_m + error_m, max(worst_m, error_m)
            heading_rad = heading_rad + abs(here.heading_error_rad)
            speed_mps = speed_mps + at.speed_mps
        pose = (at.x_m, at.y_m, at.yaw_rad, at.speed_mps, at.yaw_rate_radps)
        command = follower.step(
            StateEstimate(now_ns, now_ns, *pose, (0.0,) * 16, EstimatorStatus.RUNNING), now_ns
        )
        waiting.append((command.throttle, command.brake, steering.command(command.wheel_angle_rad)))
        if len(waiting) > delay_steps:
            actuators.command(now_ns, *waiting.popleft())
        try:
            for _ in range(substeps):
                actuators.step(now_ns, plant.motor_speed_radps)
                plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
                now_ns += step_ns
        except VehicleLostError as error:
            why = str(error)
            break
    return ExactDrive(
        finished=not why,
        why=why or "the end of the manoeuvre",
        cross_track_m=cross_m / n if n else nan,
        cross_track_max_m=worst_m if n else nan,
        heading_rad=heading_rad / n if n else nan,
        speed_mps=speed_mps / n if n else nan,
        place_m=s_m - from_m,
    )


def record_trace(
    profile: Profile, course: Course, name: str = "flat", *, spacing_m: float = 0.25
) -> Recorded:
    """Return path and speeds of the rear axle that a controller of the profile drives at 400 Hz on
    a whole course.

    Such a trace has the vehicle's own lateral dynamics. Raises :class:`vehicled.paths.CourseError`
    if nothing was driven.
    """
    steps: list[tuple[float, float, float, float, float]] = []

    def watch(step: Step) -> None:
        m = step.motion
        if isfinite(m.x_m + m.y_m):
            steps.append((step.t_s, m.x_m, m.y_m, remainder(m.yaw_rad, tau), m.speed_mps))

    whole = replace(course, markings=NO_MARKINGS)
    follower = controller_of(profile, whole, TRACE_HZ, name)
    drive(
        profile,
        whole,
        TRACE_HZ,
        controller=follower,
        delay_steps=0,
        box_m=profile.limits.corridor_m,
        watch=watch,
    )
    return recorded(*np.array(steps).T, spacing_m=spacing_m)
