"""A small simulator of delay, slew and drive, both ways, for controllers that are given the exact
state."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.control.interface import Controller
from vehicled.core.arrays import Array
from vehicled.core.messages import ControlCommand, EstimatorStatus, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker

STEERING = make_steering(offset_rad=0.018)
DRIVE = make_drive(brake_deceleration_mps2=3.0, reverse_share=0.5)
VEHICLE = make_vehicle(steering=STEERING, drive=DRIVE)
LIMITS = Limits(max_speed_mps=2.5, max_lateral_acceleration_mps2=3.0, corridor_m=1.5)
STEP_NS = 2_000_000


@dataclass
class Result:
    """Result of a drive; arrays have one entry per control step."""

    finished: bool
    cross_track_m: Array
    heading_rad: Array
    speed_mps: Array
    commands: list[ControlCommand]
    end: tuple[float, float, float]
    """Final pose x, y, yaw at standstill."""

    def end_error(self, course: Course) -> tuple[float, float]:
        """Distance (m) and angle (rad) from the last pose of the course."""
        x, y, yaw = self.end
        return (
            math.hypot(x - course.x_m[-1], y - course.y_m[-1]),
            abs(math.remainder(yaw - float(course.yaw_rad[-1]), math.tau)),
        )


def drive(
    course: Course,
    build: Callable[[Vehicle, Limits, Course, float], Controller],
    truth: Vehicle = VEHICLE,
    believed: Vehicle = VEHICLE,
    rate_hz: float = 50.0,
    offset_m: float = 0.0,
    limit_s: float | None = None,
) -> Result:
    """Drive a course from rest at its start, ``offset_m`` left of it; ends when the vehicle stands
    at the end, or much too late."""
    controller = build(believed, LIMITS, course, 1.0 / rate_hz)
    judge = PathTracker(course, cusp_tolerance_m=0.3)
    yaw, v, wheel = float(course.yaw_rad[0]), 0.0, 0.0
    x = float(course.x_m[0]) - offset_m * math.sin(yaw)
    y = float(course.y_m[0]) + offset_m * math.cos(yaw)
    period_ns, next_ns = int(1e9 / rate_hz), 0
    commands: list[ControlCommand] = []
    cross, headings, speeds = [], [], []
    steering_at = drive_at = -1
    dt = STEP_NS * 1e-9
    if limit_s is None:
        limit_s = 3.0 * course.length_m / float(np.abs(course.speed_mps).mean()) + 20.0
    for now_ns in range(0, int(limit_s * 1e9), STEP_NS):
        if now_ns >= next_ns:
            next_ns += period_ns
            yaw_rate = v * math.tan(wheel) / truth.wheelbase_m
            estimate = StateEstimate(
                now_ns, now_ns, x, y, yaw, v, yaw_rate, (0.0,) * 16, EstimatorStatus.RUNNING
            )
            commands.append(controller.step(estimate, now_ns))
            here = judge.update(x, y, yaw, v)
            cross.append(here.cross_track_m)
            headings.append(here.heading_error_rad)
            speeds.append(v)
            if controller.finished and abs(v) < 0.01:
                break
        while (
            steering_at + 1 < len(commands)
            and commands[steering_at + 1].t_ns <= now_ns - truth.steering.delay_s * 1e9
        ):
            steering_at += 1
        while (
            drive_at + 1 < len(commands)
            and commands[drive_at + 1].t_ns <= now_ns - truth.drive.delay_s * 1e9
        ):
            drive_at += 1
        if steering_at >= 0:
            share = truth.steering.gain_rad / believed.steering.gain_rad
            target = (
                commands[steering_at].wheel_angle_rad * share
                + truth.steering.offset_rad
                - believed.steering.offset_rad
            )
            wheel += min(
                max(target - wheel, -truth.steering.rate_radps * dt), truth.steering.rate_radps * dt
            )
        throttle, brake = (
            (commands[drive_at].throttle, commands[drive_at].brake) if drive_at >= 0 else (0.0, 0.0)
        )
        middle = yaw + 0.5 * dt * v * math.tan(wheel) / truth.wheelbase_m
        x, y, yaw = x + v * math.cos(middle) * dt, y + v * math.sin(middle) * dt, 2.0 * middle - yaw
        v = truth.drive.settled_mps(
            v, v + dt * truth.drive.acceleration_mps2(throttle, v, brake), throttle
        )
    return Result(
        controller.finished,
        np.array(cross),
        np.array(headings),
        np.array(speeds),
        commands,
        (x, y, yaw),
    )
