"""Conversion of MAVLink messages to those of the daemon: units, axes, flags. Pure. Missing and
invalid values are NaN."""

from math import cos, isfinite, nan, radians, remainder, sin, tau

from drivers.autopilot.codec import MILLI_G, BatteryStatus, GpsRawInt, HighresImu, RawImu, ScaledImu
from drivers.gnss.solution import diagonal, yaw_rad
from drivers.imu.axes import flu
from drivers.imu.base import Sample
from vehicled.core.messages import (
    NAN3,
    NAN9,
    CarrierSolution,
    FixType,
    GnssFix,
    is_place,
    stated_carrier,
)
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.usage import Unused, UsageProblem

MOST_MM = 100_000_000
"""Largest believable height and stated error."""
UNKNOWN_16 = 0xFFFF
FIX_TYPES = {
    2: FixType.FIX_2D, 3: FixType.FIX_3D, 4: FixType.FIX_3D, 5: FixType.FIX_3D, 6: FixType.FIX_3D,
    8: FixType.FIX_3D,
}  # fmt: skip
CARRIERS = {5: CarrierSolution.FLOAT, 6: CarrierSolution.FIXED}
DIFFERENTIAL = (4, 5, 6)
BATTERY_TROUBLE = {
    2: "low", 3: "critical", 4: "so low that it is damaged", 5: "failed", 6: "unhealthy",
}  # fmt: skip
"""MAV_BATTERY_CHARGE_STATE that a person should know."""
TYPED_IN = 7
"""GPS_FIX_TYPE_STATIC: the position of a base, typed in or surveyed."""


def fix_problem(raw: GpsRawInt) -> UsageProblem | None:
    """Return why a message has no position."""
    if raw.fix_type in (0, 1):
        return UsageProblem(Unused.NO_SOLUTION)
    if raw.fix_type == TYPED_IN:
        return UsageProblem(Unused.MANUAL)
    if raw.fix_type not in FIX_TYPES:
        return UsageProblem(Unused.UNKNOWN_STATE, "fix_type", raw.fix_type)
    if not is_place(radians(raw.lat * 1e-7), radians(raw.lon * 1e-7)):
        return UsageProblem(Unused.OUT_OF_RANGE, "place", f"{raw.lat} {raw.lon}")
    if max(abs(raw.alt), abs(raw.alt_ellipsoid)) > MOST_MM:
        return UsageProblem(Unused.OUT_OF_RANGE, "height", f"{raw.alt} mm")
    return None


def fix(raw: GpsRawInt, t_ns: int, t_rx_ns: int) -> GnssFix:
    """Return the fix of a message; without a position it has only the number of satellites."""
    satellites = 0 if raw.satellites_visible == 255 else raw.satellites_visible
    hdop, vdop = (nan if value >= UNKNOWN_16 else value * 1e-2 for value in (raw.eph, raw.epv))
    if fix_problem(raw) is not None:
        return GnssFix(t_ns, t_rx_ns, nan, nan, nan, satellites=satellites, hdop=hdop, vdop=vdop)
    position, velocity, doubt = NAN9, NAN3, NAN9
    if 0 < raw.h_acc < MOST_MM:
        # The receivers state the error of both axes together.
        axis = (raw.h_acc * 1e-3) ** 2 / 2
        position = diagonal(axis, axis, (raw.v_acc * 1e-3) ** 2 if raw.v_acc > 0 else nan)
    if raw.vel < UNKNOWN_16 and raw.cog < UNKNOWN_16:
        speed, course = raw.vel * 1e-2, radians(raw.cog * 1e-2)
        velocity = (speed * sin(course), speed * cos(course), nan)
        if 0 < raw.vel_acc < MOST_MM:
            variance = (raw.vel_acc * 1e-3) ** 2
            doubt = diagonal(variance / 2, variance / 2, nan)
    carrier = stated_carrier(CARRIERS.get(raw.fix_type, CarrierSolution.NONE), position)
    return GnssFix(
        t_ns,
        t_rx_ns,
        radians(raw.lat * 1e-7),
        radians(raw.lon * 1e-7),
        # A height of exactly 0 on the ellipsoid is a field that was not sent.
        (raw.alt_ellipsoid or raw.alt) * 1e-3,
        velocity,
        position,
        doubt,
        FIX_TYPES[raw.fix_type],
        carrier,
        raw.fix_type in DIFFERENTIAL,
        satellites=satellites,
        hdop=hdop,
        vdop=vdop,
    )


def battery_volts(raw: BatteryStatus) -> float:
    """Return the sum of the cells, which may be one entry for all; NaN for none. An entry of 65534
    is a part of a voltage that fills several."""
    known = [each for each in raw.voltages if 0 < each < UNKNOWN_16]
    return sum(known) * 1e-3 if known else nan


def antenna_yaw(raw: GpsRawInt) -> tuple[float, float]:
    """Return yaw and its standard deviation from two antennas, rad; NaN for none. 0 means unknown,
    north is 36000."""
    if not 0 < raw.yaw <= 36_000 or raw.fix_type < 2:
        return nan, nan
    sigma = radians(raw.hdg_acc * 1e-5)
    return yaw_rad(raw.yaw * 1e-2, 0.0), sigma if 0.0 < sigma < tau / 2 else nan


def yaw_of_attitude(yaw_from_north_rad: float) -> float:
    """Return the yaw counter-clockwise from east."""
    return remainder(tau / 4 - yaw_from_north_rad, tau) if isfinite(yaw_from_north_rad) else nan


def sample(message: RawImu | ScaledImu | HighresImu) -> Sample:
    """Return an inertial sample; its counter is in microseconds since the start."""
    force = (message.xacc, message.yacc, message.zacc)
    rate = (message.xgyro, message.ygyro, message.zgyro)
    if isinstance(message, HighresImu):
        return Sample(
            message.time_usec, flu(force), flu(rate), None, message.temperature + ZERO_CELSIUS_K
        )
    warm = message.temperature * 1e-2 + ZERO_CELSIUS_K if message.temperature else None
    us = message.time_usec if isinstance(message, RawImu) else message.time_boot_ms * 1000
    return Sample(us, flu(force, MILLI_G), flu(rate, 1e-3), None, warm)
