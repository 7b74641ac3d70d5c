"""Converts columns of numbers to the messages that a vehicle's devices would have sent."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Mode,
)
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings.recording import Times
from vehicled.paths.datum import Datum

START_NS = 1_000_000_000
"""Time of the first row: as in lockstep, so that nothing has to live with a time of 0."""


def stamps_ns(t_s: Array) -> Times:
    """Integer stamps of rows, the first at ``START_NS``."""
    stamps: Times = START_NS + np.round((t_s - t_s[0]) * 1e9).astype(np.int64)
    return stamps


def fixes(
    t_ns: Times,
    x_m: Array,
    y_m: Array,
    given: NDArray[np.bool_],
    datum: Datum,
    carrier: CarrierSolution,
    sigma_m: float,
) -> Iterator[GnssFix]:
    """A fix for each row that is ``given``. ``sigma_m`` is what the receiver says of itself, per
    axis."""
    variance = sigma_m * sigma_m
    covariance = (variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, NAN)
    for k in np.flatnonzero(given & np.isfinite(x_m) & np.isfinite(y_m)):
        now_ns = int(t_ns[k])
        latitude, longitude, height = datum.to_geodetic(float(x_m[k]), float(y_m[k]), 0.0)
        yield GnssFix(
            now_ns,
            now_ns,
            latitude,
            longitude,
            height,
            position_covariance_m2=covariance,
            fix_type=FixType.FIX_3D,
            carrier=carrier,
            differential=carrier is not CarrierSolution.NONE,
        )


def headings(t_ns: Times, yaw_rad: Array, sigma_rad: float, kind: HeadingKind) -> Iterator[Heading]:
    """A heading for each row that has one."""
    for k in np.flatnonzero(np.isfinite(yaw_rad)):
        yield Heading(int(t_ns[k]), int(t_ns[k]), float(yaw_rad[k]), sigma_rad, kind)


def rates(t_ns: Times, yaw_rad: Array) -> Iterator[ImuSample]:
    """The gyro behind an integrated yaw: mean rate since the row before, stamped with the end of
    that time. No accelerometer."""
    with np.errstate(invalid="ignore"):
        rate = np.diff(yaw_rad) / (np.diff(t_ns) * 1e-9)
    for k in np.flatnonzero(np.isfinite(rate)):
        now_ns = int(t_ns[k + 1])
        yield ImuSample(now_ns, now_ns, (NAN, NAN, NAN), (NAN, NAN, float(rate[k])))


def commands(
    t_ns: Times, throttle: Array, steering: Array, vehicle: Vehicle
) -> Iterator[ActuatorCommand]:
    """A command for each row, cut to what the actuators take: throttle 0..1, steering -1..1."""
    for k in np.flatnonzero(np.isfinite(throttle) & np.isfinite(steering)):
        now_ns = int(t_ns[k])
        share = min(max(float(steering[k]), -1.0), 1.0)
        yield ActuatorCommand(
            now_ns,
            now_ns,
            min(max(float(throttle[k]), 0.0), 1.0),
            0.0,
            share,
            vehicle.steering.wheel_angle_rad(share),
            Mode.AUTO,
        )
