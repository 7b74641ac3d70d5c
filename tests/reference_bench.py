"""Drives of the protocol by which a reference system is checked, with known errors of the reference."""

from collections.abc import Sequence
from math import cos, pi, sin
from typing import NamedTuple

from msgspec.structs import replace

from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.reference import Reference
from vehicled.messages import GnssFix, ReferenceState
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel
from vehicled.profile.sensors import ReferenceModel

START_NS = 5_000_000_000
ARM_M = (0.3, 0.1, 0.4)
ANTENNA_M = (0.25, 0.0, 0.3)
STEP_S = 0.05
RAMP_MPS2 = 1.0


class Leg(NamedTuple):
    """A closed circle from the mark back to it, or a rest at the mark."""

    duration_s: float = 0.0
    radius_m: float = 0.0
    """Positive to the left."""
    speed_mps: float = 0.0
    rounds: int = 1


PROTOCOL = [
    Leg(20.0), Leg(0.0, 8.0, 1.5), Leg(15.0), Leg(0.0, -8.0, 1.5), Leg(15.0), Leg(0.0, 6.0, 2.5, 2), Leg(15.0),
    Leg(0.0, -6.0, 2.5, 2), Leg(15.0), Leg(0.0, 12.0, 3.0), Leg(15.0), Leg(0.0, -12.0, 3.0), Leg(20.0),
]  # fmt: skip
"""Both ways, slow and fast, seven visits to one mark."""


def motions(legs: Sequence[Leg], slip_rad_per_mps2: float = 0.0) -> list[Motion]:
    """The true motion at every ``STEP_S``."""
    found: list[Motion] = []
    x = y = yaw = 0.0
    for leg in legs:
        if not leg.radius_m:
            found += [_motion(x, y, yaw, 0.0, 0.0, 0.0)] * round(leg.duration_s / STEP_S)
            continue
        length = 2.0 * pi * abs(leg.radius_m) * leg.rounds
        centre = x - leg.radius_m * sin(yaw), y + leg.radius_m * cos(yaw)
        start, at, speed = yaw, 0.0, 0.0
        while at < length:
            # Brake so that it stands where it began.
            speed = min(leg.speed_mps, speed + RAMP_MPS2 * STEP_S, (2.0 * RAMP_MPS2 * max(length - at, 1e-4)) ** 0.5)
            at += speed * STEP_S
            yaw = start + at / leg.radius_m
            beta = slip_rad_per_mps2 * speed**2 / leg.radius_m
            place = centre[0] + leg.radius_m * sin(yaw), centre[1] - leg.radius_m * cos(yaw)
            # The path of the axle is the circle; the body is turned out of it by the slip.
            found.append(_motion(*place, yaw - beta, speed * cos(beta), speed * sin(beta), speed / leg.radius_m))
        yaw = start + length / leg.radius_m
    return found


def _motion(x_m: float, y_m: float, yaw_rad: float, ahead_mps: float, left_mps: float, rate_radps: float) -> Motion:
    return Motion(x_m, y_m, yaw_rad, ahead_mps, left_mps, rate_radps, 0.0, 0.0, 0.0, 0.0)


def drive(
    model: ReferenceModel,
    legs: Sequence[Leg] = tuple(PROTOCOL),
    *,
    slip_rad_per_mps2: float = 0.0,
    receiver: GnssModel | None = None,
    seed: int = 1,
) -> tuple[list[ReferenceState], list[GnssFix], list[Motion]]:
    """A drive as reference and receiver tell it, and the truth of each state."""
    sensor = Reference(replace(model, rate_hz=1.0 / STEP_S), ARM_M, LOT_17, seed, "ins/ReferenceState")
    other = receiver and Gnss(receiver, ANTENNA_M, LOT_17, seed, "gnss/GnssFix", START_NS, 0)
    states, fixes, truths = [], [], []
    for k, motion in enumerate(motions(legs, slip_rad_per_mps2)):
        t_ns = START_NS + round(k * STEP_S * 1e9)
        states.append(sensor.sample(t_ns, motion)[1])
        truths.append(motion)
        if other and k % 2 == 0:
            fixes.append(other.sample(t_ns, motion)[1])
    return states, fixes, truths
