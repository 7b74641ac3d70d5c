"""Published pure pursuit under one changed assumption at a time, on the manoeuvres of its study: a table in Markdown.

    python bench/published_pursuit.py [--course thesis_left15]... [--rate 400]

A kinematic single track with the exact state and constant speed drives each course. Each row changes one assumption of the first.
A drive ends as unfinished where its cross-track error exceeds the corridor of the profile.
"""

import argparse
from math import cos, inf, radians, sin, tan
from typing import NamedTuple

from vehicled.control.preview import Preview
from vehicled.lab.published.pure_pursuit import PurePursuitPublishedParams, mean_bearing
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile

COURSES = tuple(f"thesis_{name}" for name in ["st5", "left10", "left15", "ss20", "ss25", "ss30", "dlc30", "dlc35", "dlc40"])


class Factors(NamedTuple):
    """Assumptions about the published drive."""

    reached_m: float = 0.5
    forward: float = 0.0
    """Pursuing point ahead of the rear axle, wheelbases."""
    wheel_is_bearing: bool = False
    """Steer the wheels by the bearing itself; otherwise 45 degrees of bearing is full lock."""
    steering_rate_radps: float = inf
    first_samples: int = 10


ROWS = {
    "rear axle, prompt steering": Factors(),
    "steering rate 0.35 rad/s": Factors(steering_rate_radps=0.35),
    "wheel angle = bearing": Factors(wheel_is_bearing=True),
    "middle of the vehicle": Factors(forward=0.5),
    "front axle": Factors(forward=1.0),
    "samples from the vehicle": Factors(reached_m=0.0),
    "middle, samples from the vehicle": Factors(forward=0.5, reached_m=0.0),
    "front axle, samples from the vehicle": Factors(forward=1.0, reached_m=0.0),
    "look-ahead at least 0.25 s": Factors(first_samples=100),
}


def mean_error_m(profile: Profile, course: Course, factors: Factors, rate_hz: float) -> float | None:
    """Drive the course; return the mean cross-track error of the pursuing point, or None if it left the corridor."""
    vehicle, params = profile.vehicle, PurePursuitPublishedParams(first_samples=factors.first_samples)
    lock = vehicle.steering.max_wheel_rad
    gain = 1.0 if factors.wheel_is_bearing else lock / radians(45.0)
    arm, speed = factors.forward * vehicle.wheelbase_m, float(course.speed_mps.max())
    tracker, dt = PathTracker(course), 1.0 / rate_hz
    yaw, wheel, total, steps = float(course.yaw_rad[0]), 0.0, 0.0, 0
    x, y = float(course.x_m[0]) - arm * cos(yaw), float(course.y_m[0]) - arm * sin(yaw)
    while not tracker.finished and steps < 2.0 * course.length_m / (speed * dt):
        at = Preview(x + arm * cos(yaw), y + arm * sin(yaw), yaw, speed, wheel)
        here = tracker.update(at.x_m, at.y_m, yaw, speed)
        if abs(here.cross_track_m) > profile.limits.corridor_m:
            return None
        total, steps = total + abs(here.cross_track_m), steps + 1
        bearing, _ = mean_bearing(params, tracker, at, here.s_m + factors.reached_m, speed / params.sample_hz)
        target = min(max(gain * bearing, -lock), lock)
        change = factors.steering_rate_radps * dt
        wheel += min(max(target - wheel, -change), change)
        half_turn = 0.5 * speed * dt * tan(wheel) / vehicle.wheelbase_m
        x, y = x + speed * dt * cos(yaw + half_turn), y + speed * dt * sin(yaw + half_turn)
        yaw += 2.0 * half_turn
    return total / steps if tracker.finished else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--course", action="append", help="course of the table (repeatable; default: the nine of the study)")
    parser.add_argument("--rate", type=float, default=400.0, help="control rate, Hz")
    arguments = parser.parse_args()
    profile = load_profile("hmmwv")
    names = arguments.course or COURSES
    courses = [load_course(name) for name in names]
    print("| mean error, cm |", " | ".join(name.removeprefix("thesis_") for name in names), "|")
    print("| --- |" + " --- |" * len(names))
    for label, factors in ROWS.items():
        errors = [mean_error_m(profile, course, factors, arguments.rate) for course in courses]
        print(f"| {label} |", " | ".join("left" if e is None else f"{100 * e:.1f}" for e in errors), "|", flush=True)


if __name__ == "__main__":
    main()
