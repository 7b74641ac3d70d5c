"""Drives of the protocol by which a reference system is checked, with known errors of the
reference."""

from collections.abc import Sequence
from math import cos, pi, sin
from typing import NamedTuple

from msgspec.structs import replace

from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.reference import Reference
from vehicled.core.messages import GnssFix, ReferenceState
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel
from vehicled.profile.sensors import ReferenceModel

START_NS = 5_000_000_000
ARM_M = (0.3, 0.1, 0.4)
ANTENNA_M = (0.25, 0.0, 0.3)
STEP_S = 0.05
RAMP_MPS2 = 1.0


class Leg(NamedTuple):
    """A way from the mark back to it, or a rest on it."""

    duration_s: float = 0.0
    radius_m: float = 0.0
    """Radius of a circle, positive to the left; 0: a rest."""
    speed_mps: float = 0.0
    rounds: int = 1
    turns_round: bool = False
    """Leave the mark and come back to it from the other side: 60 degrees of a circle, 300 of the
    opposite one, 60 of the first."""

    @property
    def arcs(self) -> list[tuple[float, float]]:
        """Arcs as (angle, radius)."""
        if self.turns_round:
            return [(pi / 3, self.radius_m), (5 * pi / 3, -self.radius_m), (pi / 3, self.radius_m)]
        return [(2.0 * pi * self.rounds, self.radius_m)]


REST = Leg(15.0)
PROTOCOL = [
    REST, Leg(0.0, 6.0, 1.5, turns_round=True), REST, Leg(0.0, 8.0, 1.5), REST,
    Leg(0.0, -6.0, 2.5, turns_round=True), REST, Leg(0.0, -8.0, 3.0), REST,
    Leg(0.0, 8.0, 2.5, turns_round=True), REST, Leg(0.0, 8.0, 3.0), REST,
]  # fmt: skip
"""Both ways, slow and fast, seven visits to one mark from both sides."""


def motions(legs: Sequence[Leg], slip_rad_per_mps2: float = 0.0) -> list[Motion]:
    """The true motion at every ``STEP_S``."""
    found: list[Motion] = []
    x = y = yaw = 0.0
    for leg in legs:
        if not leg.radius_m:
            found += [_motion(x, y, yaw, 0.0, 0.0, 0.0)] * round(leg.duration_s / STEP_S)
            continue
        length = sum(angle * abs(radius) for angle, radius in leg.arcs)
        at = begin = speed = 0.0
        for angle, radius in leg.arcs:
            end, start = begin + angle * abs(radius), yaw
            centre = x - radius * sin(yaw), y + radius * cos(yaw)
            while at < min(end, length - 1e-9):
                # Brake so that it stands where it began.
                speed = min(
                    leg.speed_mps,
                    speed + RAMP_MPS2 * STEP_S,
                    (2.0 * RAMP_MPS2 * max(length - at, 1e-4)) ** 0.5,
                )
                at += speed * STEP_S
                yaw = start + (at - begin) / radius
                beta = slip_rad_per_mps2 * speed**2 / radius
                place = centre[0] + radius * sin(yaw), centre[1] - radius * cos(yaw)
                # The path of the axle is the circle; the body is turned out of it by the slip.
                found.append(
                    _motion(
                        *place, yaw - beta, speed * cos(beta), speed * sin(beta), speed / radius
                    )
                )
            yaw = start + angle * (1.0 if radius > 0.0 else -1.0)
            x, y = centre[0] + radius * sin(yaw), centre[1] - radius * cos(yaw)
            begin = end
    return found


def _motion(
    x_m: float, y_m: float, yaw_rad: float, ahead_mps: float, left_mps: float, rate_radps: float
) -> Motion:
    return Motion(x_m, y_m, yaw_rad, ahead_mps, left_mps, rate_radps, 0.0, 0.0, 0.0, 0.0)


def drive(
    model: ReferenceModel,
    legs: Sequence[Leg] = tuple(PROTOCOL),
    *,
    slip_rad_per_mps2: float = 0.0,
    receiver: GnssModel | None = None,
    seed: int = 1,
) -> tuple[list[ReferenceState], list[GnssFix], list[Motion]]:
    """A drive as reference and receiver report it, and the truth of each state."""
    sensor = Reference(
        replace(model, rate_hz=1.0 / STEP_S), ARM_M, LOT_17, seed, "ins/ReferenceState"
    )
    other = receiver and Gnss(receiver, ANTENNA_M, LOT_17, seed, "gnss/GnssFix", START_NS, 0)
    states, fixes, truths = [], [], []
    for k, motion in enumerate(motions(legs, slip_rad_per_mps2)):
        t_ns = START_NS + round(k * STEP_S * 1e9)
        states.append(sensor.sample(t_ns, motion)[1])
        truths.append(motion)
        if other and k % 2 == 0:
            fixes.append(other.sample(t_ns, motion)[1])
    return states, fixes, truths
