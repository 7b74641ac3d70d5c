"""Published pure pursuit under one changed assumption at a time, on the manoeuvres of its study: a
table in Markdown.

    python bench/published_pursuit.py [--course thesis_left15]... [--rate 400] [--only steering]

The controller of the profile ``hmmwv`` with the exact state drives the twin of the profile, from
standstill to the end of the manoeuvre. The first row has the controller as shipped, and wheels that
turn at once, as the study has no lag of them; each other row changes one assumption. Errors are
those of the pursuing point against the line that it pursues, mean over the manoeuvre. A drive ends
as "left" where the rear axle leaves the corridor of the profile, at the arc length in m from the
start of the manoeuvre.
"""

import argparse
from collections.abc import Mapping
from math import ceil, cos, sin, tan
from typing import Any, NamedTuple

from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion, StartPose, VehicleLostError
from sim_backend.plant.registry import plant_class
from sim_backend.plant.twin_file import load_twin
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.offline.replications.published.pure_pursuit import PurePursuitPublished
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile

PUBLISHED_CM = {
    "thesis_st5": 1.92, "thesis_left10": 2.31, "thesis_left15": 4.68, "thesis_ss20": 7.69,
    "thesis_ss25": 9.40, "thesis_ss30": 12.67, "thesis_dlc30": 7.00, "thesis_dlc35": 5.87,
    "thesis_dlc40": 7.51,
}  # fmt: skip
"""Mean cross-track error at 400 Hz."""
PROMPT = {"steering.rate_radps": 20.0, "steering.delay_s": 0.0}
LATERAL_SLOPES = ("front.tyre.lateral.slope_n", "rear.tyre.lateral.slope_n")


class Factors(NamedTuple):
    """Assumptions about the published drive."""

    params: Mapping[str, Any] = {}
    """Changed parameters of the controller."""
    twin: Mapping[str, Any] = PROMPT
    """Changed numbers of the twin."""
    stiffer: float = 1.0
    """Factor of the cornering stiffness of the twin."""
    slips: bool = True
    """Drive the twin; otherwise a kinematic single track at the speed of the course."""
    drive_delay_s: float | None = None
    """Believed delay of the drive, which limits the gain of the speed control; None keeps that of
    the profile."""


ROWS = {
    "middle, square, prompt steering": Factors(),
    "rear axle": Factors({"reference_wheelbases": 0.0}),
    "front axle": Factors({"reference_wheelbases": 1.0}),
    "steering of the profile: 0.35 rad/s, 0.05 s": Factors(twin={}),
    "steering 0.35 rad/s": Factors(twin={"steering.delay_s": 0.0}),
    "steering delay 0.05 s": Factors(twin={"steering.rate_radps": 20.0}),
    "tyres twice as stiff": Factors(stiffer=2.0),
    "no slip, constant speed": Factors(slips=False),
    "no slip, constant speed, rear axle": Factors({"reference_wheelbases": 0.0}, slips=False),
    "wheel angle = bearing": Factors({"full_lock_rad": 0.62}),
    "samples from the vehicle": Factors({"reached_m": 0.0}),
    "samples from the corner of the square": Factors({"reached_m": 0.707}),
    "look-ahead not lengthened": Factors({"most_samples": 10}),
    "speed gain P 6, not limited": Factors(drive_delay_s=0.0),
}


class SingleTrack:
    """Kinematic single track at constant speed, as a plant."""

    motor_speed_radps = 0.0

    def __init__(
        self, pose: StartPose, wheelbase_m: float, speed_mps: float, step_s: float
    ) -> None:
        self._x_m, self._y_m, self._yaw_rad = pose
        self._wheelbase_m, self._speed_mps, self._step_s = wheelbase_m, speed_mps, step_s
        self._yaw_rate_radps = 0.0

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        """Advance one step; the speed stays."""
        self._yaw_rate_radps = self._speed_mps * tan(wheel_angle_rad) / self._wheelbase_m
        middle_rad = self._yaw_rad + 0.5 * self._step_s * self._yaw_rate_radps
        self._x_m += self._step_s * self._speed_mps * cos(middle_rad)
        self._y_m += self._step_s * self._speed_mps * sin(middle_rad)
        self._yaw_rad += self._step_s * self._yaw_rate_radps

    def motion(self) -> Motion:
        """Return the present motion."""
        return Motion(
            self._x_m,
            self._y_m,
            self._yaw_rad,
            self._speed_mps,
            0.0,
            self._yaw_rate_radps,
            0.0,
            0.0,
            0.0,
            0.0,
        )


def result_cm(profile: Profile, course: Course, factors: Factors, rate_hz: float) -> str:
    """Drive the course; return the mean error in cm, or where the drive ended."""
    vehicle, speed = profile.vehicle, float(course.speed_mps.max())
    believed = vehicle
    if factors.drive_delay_s is not None:
        believed = replace(vehicle, drive=replace(vehicle.drive, delay_s=factors.drive_delay_s))
    params = replace(profile.controller.params["pure_pursuit_published"], **factors.params)
    follower = PurePursuitPublished(params, believed, profile.limits, course, 1.0 / rate_hz)
    assert profile.sim is not None
    assert profile.sim.twin is not None
    changes = dict(factors.twin)
    if factors.stiffer != 1.0:
        tyres = load_twin(profile.sim.twin.vehicle).parameters
        slopes = tyres.front.tyre.lateral.slope_n, tyres.rear.tyre.lateral.slope_n
        changes |= {
            key: [factors.stiffer * value for value in slope]
            for key, slope in zip(LATERAL_SLOPES, slopes, strict=True)
        }
    sim = replace(profile.sim, twin=replace(profile.sim.twin, changes=changes))
    substeps = ceil(1000.0 / rate_hz)
    step_ns = round(1e9 / (rate_hz * substeps))
    start = StartPose(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]))
    actuators = Actuators(sim, 0, step_ns)
    plant = (
        plant_class(sim.plant)(sim, start, step_ns * 1e-9)
        if factors.slips
        else SingleTrack(start, vehicle.wheelbase_m, speed, step_ns * 1e-9)
    )
    arm_m, judge = params.reference_wheelbases * vehicle.wheelbase_m, PathTracker(course)
    assert course.markings is not None
    from_m = course.markings.from_m
    to_m = course.length_m if course.markings.to_m is None else course.markings.to_m
    now_ns, total_m, count = 0, 0.0, 0
    while now_ns < 1e9 * (2.0 * course.length_m / speed + 20.0):
        at = plant.motion()
        here = judge.update(at.x_m, at.y_m, at.yaw_rad, at.speed_mps)
        if abs(here.cross_track_m) > profile.limits.corridor_m:
            return f"left {here.s_m - from_m:.0f}"
        if here.s_m > to_m:
            return f"{100.0 * total_m / count:.1f}"
        if here.s_m >= from_m:
            # Both ends of the arm; the heading error moves the point across.
            total_m = total_m + abs(here.cross_track_m - arm_m * sin(here.heading_error_rad))
            count = count + 1
        state = (at.x_m, at.y_m, at.yaw_rad, at.speed_mps, at.yaw_rate_radps)
        command = follower.step(
            StateEstimate(now_ns, now_ns, *state, (0.0,) * 16, EstimatorStatus.RUNNING), now_ns
        )
        actuators.command(
            now_ns,
            command.throttle,
            command.brake,
            vehicle.steering.command(command.wheel_angle_rad),
        )
        for _ in range(substeps):
            actuators.step(now_ns, plant.motor_speed_radps)
            try:
                plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            except VehicleLostError:
                return f"lost {here.s_m - from_m:.0f}"
            now_ns += step_ns
    return "late"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--course",
        action="append",
        help="course of the table (repeatable; default: the nine of the study)",
    )
    parser.add_argument("--rate", type=float, default=400.0, help="control rate, Hz")
    parser.add_argument("--only", default="", help="rows whose label contains this text")
    arguments = parser.parse_args()
    profile = load_profile("hmmwv")
    names = arguments.course or list(PUBLISHED_CM)
    courses = [load_course(name) for name in names]
    print("| mean error, cm |", " | ".join(name.removeprefix("thesis_") for name in names), "|")
    print("| --- |" + " --- |" * len(names))
    print(
        "| published, 400 Hz |",
        " | ".join(f"{PUBLISHED_CM[n]:.1f}" if n in PUBLISHED_CM else "" for n in names),
        "|",
    )
    for label, factors in ROWS.items():
        if arguments.only in label:
            print(
                f"| {label} |",
                " | ".join(result_cm(profile, c, factors, arguments.rate) for c in courses),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
