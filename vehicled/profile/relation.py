"""Relation: a plausible range for a combination of profile values. Also the relations within a
steering, drive or speed table."""

from collections.abc import Callable
from math import inf, tan
from typing import NamedTuple

Range = tuple[float, float]


class Relation(NamedTuple):
    """``quantity(value of key, values of others)`` lies in ``usual``, and cannot lie outside
    ``possible``."""

    key: str
    others: tuple[str, ...]
    quantity: Callable[..., float]
    what: str
    """The quantity as a noun phrase, with its unit."""
    usual: Range
    possible: Range = (0.0, inf)
    cure: str = ""


def plain(value: float) -> float:
    """Return the value itself."""
    return value


def not_zero(value: float) -> float:
    """Return the value, and a usual delay for none."""
    return value or 0.05


def ratio(value: float, other: float) -> float:
    """Return the ratio; 1 for zero over zero."""
    return value / other if other else 1.0 if not value else inf


def product(value: float, other: float) -> float:
    """Return the product."""
    return value * other


def top_speed_mps(
    stall: float, no_load: float, friction: float, viscous: float, radius: float, gear: float
) -> float:
    """Return the steady speed at full throttle of a drive."""
    return (stall - friction) * radius * gear / (stall / no_load + viscous)


def steering(table: str, wheelbase: str) -> tuple[Relation, ...]:
    """Return the relations of one steering table."""
    gain, lock, rate = f"{table}.gain_rad", f"{table}.max_wheel_rad", f"{table}.rate_radps"
    return (
        Relation(
            gain, (lock,), ratio, what="ratio of full command to the mechanical stop",
            usual=(0.3, 2.5), possible=(0.1, 8.0),
            cure="gain_rad is the wheel angle in radians at full command",
        ),
        Relation(
            lock, (), plain, what="largest wheel angle, rad", usual=(0.08, 1.05),
            possible=(0.01, 1.4),
        ),
        Relation(
            lock, (wheelbase,), lambda angle, base: base / tan(angle),
            what="turning radius at full lock, m", usual=(0.05, 40.0), possible=(0.01, 200.0),
        ),
        Relation(
            f"{table}.offset_rad", (gain,), lambda offset, full: abs(offset) / full,
            what="offset over full command", usual=(0.0, 0.35),
        ),
        Relation(
            rate, (lock,), lambda slew, angle: angle / slew,
            what="time from straight to full lock, s", usual=(0.012, 6.0), possible=(0.001, 40.0),
        ),
        Relation(
            f"{table}.delay_s", (), not_zero, what="delay from the command to the wheel, s",
            usual=(0.0005, 0.9), cure="a real steering answers after 0.01 to 0.5 s",
        ),
        Relation(
            f"{table}.dead_zone", (), plain, what="dead zone (fraction of full command)",
            usual=(0.0, 0.5),
        ),
    )  # fmt: skip


def drive(table: str) -> tuple[Relation, ...]:
    """Return the relations of one drive table."""
    stall = f"{table}.stall_torque_nm"
    no_load = f"{table}.no_load_speed_radps"
    friction = f"{table}.friction_nm"
    viscous, radius, gear = f"{table}.viscous_nms", f"{table}.wheel_radius_m", f"{table}.gear_ratio"
    inertia = f"{table}.inertia_kgm2"
    return (
        Relation(
            radius, ("vehicle.wheelbase_m",), ratio, what="wheel radius over wheelbase",
            usual=(0.03, 0.6), possible=(0.01, 1.2), cure="write half of the tyre's diameter",
        ),
        Relation(
            no_load, (stall, friction, viscous, radius, gear),
            lambda speed, torque, loss, damping, r, g: top_speed_mps(torque, speed, loss, damping,
                r, g),
            what="top speed of the drive, m/s", usual=(0.1, 75.0), possible=(0.02, 150.0),
        ),
        Relation(
            no_load, (), plain, what="motor speed without load, rad/s", usual=(10.0, 12000.0),
            possible=(1.0, 60000.0),
        ),
        Relation(
            stall, (radius, gear, inertia), lambda torque, r, g, i: torque * r * g / i,
            what="acceleration at full drive, m/s2", usual=(0.15, 60.0), possible=(0.02, 300.0),
        ),
        Relation(
            inertia, (radius, gear, "vehicle.mass_kg"), lambda i, r, g, m: i / (r * g) ** 2 / m,
            what=(
                "mass that the drive moves (inertia_kgm2 / (wheel_radius_m gear_ratio)^2) over "
                "mass_kg"
            ),
            usual=(0.08, 6.0), possible=(0.005, 100.0),
        ),
        Relation(
            gear, (), plain, what="wheel speed over motor speed", usual=(0.001, 2.0),
            possible=(1e-05, 30.0),
        ),
        Relation(
            friction, (radius, gear, inertia), lambda loss, r, g, i: loss * r * g / i,
            what="deceleration by friction, m/s2", usual=(0.0, 4.0), possible=(0.0, 40.0),
        ),
        Relation(
            friction, (stall,), lambda loss, torque: loss / torque if loss else 0.01,
            what="friction over stall torque", usual=(0.0005, 0.6), possible=(0.0, 1.0),
        ),
        Relation(
            viscous, (stall, no_load), lambda damping, torque, speed: damping * speed / torque,
            what="viscous loss at no-load speed over stall torque", usual=(0.0, 3.0),
            possible=(0.0, 50.0),
        ),
        Relation(
            f"{table}.brake_deceleration_mps2", (), lambda a: a or 1.0,
            what="deceleration at full brake (tyres hold about 10), m/s2",
            usual=(0.3, 13.0), possible=(0.02, 25.0),
        ),
        Relation(
            f"{table}.delay_s", (), not_zero, what="delay from the command to the drive, s",
            usual=(0.0005, 1.0),
        ),
    )  # fmt: skip


def speed(table: str) -> tuple[Relation, ...]:
    """Return the relations of one speed control."""
    stall, inertia = "vehicle.drive.stall_torque_nm", "vehicle.drive.inertia_kgm2"
    radius, gear = "vehicle.drive.wheel_radius_m", "vehicle.drive.gear_ratio"
    return (
        Relation(
            f"{table}.p", (stall, radius, gear, inertia),
            lambda p, torque, r, g, i: p * torque * r * g / i if p else 1.0,
            what="bandwidth of the speed loop, 1/s", usual=(0.05, 60.0), possible=(0.001, 1000.0),
        ),
        Relation(
            f"{table}.i", (f"{table}.p",), lambda i, p: i / p if i and p else 0.1,
            what="i over p, 1/m", usual=(0.005, 10.0), possible=(0.0001, 500.0),
        ),
        Relation(
            f"{table}.integral_limit", (), lambda limit: limit or 0.1,
            what="integral limit (fraction of full drive)", usual=(0.01, 1.0),
        ),
        Relation(
            f"{table}.acceleration_mps2", ("limits.max_acceleration_mps2",), ratio,
            what="planned over allowed acceleration", usual=(0.01, 1.0), possible=(0.0005, 10.0),
            cure="the gate cuts what exceeds limits.max_acceleration_mps2",
        ),
        Relation(
            f"{table}.acceleration_mps2", (), plain, what="planned acceleration, m/s2",
            usual=(0.1, 15.0), possible=(0.005, 60.0),
        ),
        Relation(
            f"{table}.deceleration_mps2", (), plain, what="planned deceleration, m/s2",
            usual=(0.1, 10.0), possible=(0.005, 25.0),
        ),
        Relation(
            f"{table}.creep_mps", ("limits.max_speed_mps",), ratio,
            what="creep speed over the speed limit", usual=(0.005, 0.5), possible=(1e-05, 1.0),
        ),
    )  # fmt: skip
