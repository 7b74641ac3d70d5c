"""GNSS reception by place and time: zones, loss and recovery of the carrier solution, multipath.

The state depends on the vehicle's path, the noise does not: it is drawn at every fix, in zones or
not.
"""

from math import cos, pi, sin, sqrt
from typing import NamedTuple

from sim_backend.sensors.noise import GaussMarkov, Normals, stream
from vehicled.core.messages import CarrierSolution
from vehicled.paths.polygon import encloses
from vehicled.profile.gnss import GnssModel, GnssZone

CORRECTION_PERIOD_NS = 1_000_000_000
CORRECTION_LATENCY_S = 0.3
_WAVES = 6
_NONE, _FLOAT, _FIXED = CarrierSolution.NONE, CarrierSolution.FLOAT, CarrierSolution.FIXED
CARRIERS = {"none": _NONE, "float": _FLOAT, "fixed": _FIXED}


class EpochReception(NamedTuple):
    """Reception at one epoch."""

    fix: bool
    carrier: CarrierSolution
    correction_age_s: float
    satellites: int
    extra_sigma_m: float
    """Standard deviation of the extra error, known to the receiver."""
    error_m: tuple[float, float, float]
    """Extra error plus multipath, east, north, up; the receiver does not know the multipath."""


class Zone:
    """Reception zone with its multipath field: a sum of plane waves in random directions, so that
    each place has a fixed bias.

    Per axis ``b = bias sqrt(2 / n) sum cos(k_i r + phase_i)`` with ``|k_i| = 1 / correlation_m``:
    standard deviation ``bias``, and autocorrelation J0(d / correlation_m) over distance d.
    """

    def __init__(self, zone: GnssZone, vertical: float, seed: int, entity: str) -> None:
        """The field comes from the stream ``entity``."""
        self.effect = zone.effect
        self.satellites_lost = zone.satellites_lost
        self._from_ns, self._until_ns = round(zone.from_s * 1e9), round(zone.until_s * 1e9)
        self._circle = (
            (*zone.center_m, zone.radius_m**2)
            if zone.center_m is not None and zone.radius_m is not None
            else None
        )
        self._corners = (
            tuple((x, y) for x, y in zone.corners_m) if zone.corners_m is not None else ()
        )
        chance = stream(seed, entity)
        bearings, phases = chance.uniform(0.0, 2.0 * pi, (2, 3, _WAVES))
        self._waves = [
            [(cos(b) / zone.correlation_m, sin(b) / zone.correlation_m, p) for b, p in zip(*axis)]
            for axis in zip(bearings.tolist(), phases.tolist())
        ]
        size_m = zone.bias_m * sqrt(2.0 / _WAVES)
        self._sizes_m = (size_m, size_m, size_m * vertical)

    def holds(self, elapsed_ns: int, x_m: float, y_m: float) -> bool:
        """True if it acts on an antenna at this time and place; polygons by
        :func:`~vehicled.paths.polygon.encloses`."""
        if not self._from_ns <= elapsed_ns < self._until_ns:
            return False
        if self._circle is not None:
            east, north, square = self._circle
            return (x_m - east) ** 2 + (y_m - north) ** 2 <= square
        return not self._corners or encloses(self._corners, x_m, y_m)

    def bias_m(self, x_m: float, y_m: float) -> tuple[float, float, float]:
        """Return the multipath at a place: east, north, up."""
        east, north, up = (
            size_m * sum(cos(kx * x_m + ky * y_m + phase) for kx, ky, phase in waves)
            for size_m, waves in zip(self._sizes_m, self._waves)
        )
        return east, north, up


class ReceptionModel:
    """All zones together, and the state of the receiver that passed through them."""

    def __init__(self, model: GnssModel, seed: int, entity: str) -> None:
        """Noise comes from the stream ``entity`` + "/rtk", the zones' fields from numbered
        streams."""
        vertical = model.vdop / model.hdop
        self._zones = [
            Zone(zone, vertical, seed, f"{entity}/zone/{index}")
            for index, zone in enumerate(model.zones)
        ]
        self._rtk = model.rtk
        self._best = CARRIERS[model.carrier]
        self._satellites = model.satellites
        self._vertical = vertical
        self._normals = Normals(stream(seed, f"{entity}/rtk"), 3)
        self._wander = [
            GaussMarkov(1.0, model.rtk.wander_time_s, 1.0 / model.rate_hz, n)
            for n in self._normals()
        ]
        # The receiver was switched on long before the run and has settled.
        self._fix = True
        self._carrier = self._best
        self._since_ns = 0
        self._corrected_ns = 0

    def at(self, elapsed_ns: int, x_m: float, y_m: float) -> EpochReception:
        """Return the reception at an antenna's place, ``elapsed_ns`` after the start. Call once per
        fix, in order."""
        acting = [zone for zone in self._zones if zone.holds(elapsed_ns, x_m, y_m)]
        effects: set[str] = {zone.effect for zone in acting}
        age_s = self._age_s(elapsed_ns, "no_corrections" not in effects)
        self._follow(elapsed_ns, "no_fix" not in effects, self._most(effects, age_s))
        wander = [process.step(normal) for process, normal in zip(self._wander, self._normals())]
        sigma_m = 0.0
        if self._carrier < self._best:
            sigma_m = self._rtk.float_sigma_m if self._carrier is _FLOAT else self._rtk.none_sigma_m
        east = sigma_m * wander[0]
        north = sigma_m * wander[1]
        up = sigma_m * wander[2] * self._vertical
        for zone in acting:
            if zone.effect == "multipath":
                bias = zone.bias_m(x_m, y_m)
                east, north, up = east + bias[0], north + bias[1], up + bias[2]
        left = self._satellites - sum(zone.satellites_lost for zone in acting)
        # A position needs four satellites; without one fewer are received.
        satellites = min(max(left, 4), self._satellites) if self._fix else min(max(left, 0), 3)
        return EpochReception(
            self._fix, self._carrier, age_s, satellites, sigma_m, (east, north, up)
        )

    def _age_s(self, elapsed_ns: int, arriving: bool) -> float:
        """Age of the newest corrections: made once a second and delayed on the way."""
        if arriving:
            self._corrected_ns = elapsed_ns // CORRECTION_PERIOD_NS * CORRECTION_PERIOD_NS
        return CORRECTION_LATENCY_S + (elapsed_ns - self._corrected_ns) * 1e-9

    def _most(self, effects: set[str], age_s: float) -> CarrierSolution:
        """Best carrier solution that the conditions allow."""
        if effects & {"no_fix", "no_carrier"} or age_s > self._rtk.correction_timeout_s:
            return _NONE
        if "float" in effects or age_s > self._rtk.float_age_s:
            return min(self._best, _FLOAT)
        return self._best

    def _follow(self, elapsed_ns: int, received: bool, best: CarrierSolution) -> None:
        """Update the carrier solution: lost at once, regained step by step after a delay each."""
        if not received:
            self._fix, self._carrier, self._since_ns = False, _NONE, elapsed_ns
            return
        waited_s = (elapsed_ns - self._since_ns) * 1e-9
        if not self._fix:
            if waited_s >= self._rtk.reacquire_s:
                self._fix, self._since_ns = True, elapsed_ns
        elif best < self._carrier:
            self._carrier, self._since_ns = best, elapsed_ns
        elif best == self._carrier:
            self._since_ns = elapsed_ns if self._carrier < self._best else self._since_ns
        elif waited_s >= (
            self._rtk.float_after_s if self._carrier is _NONE else self._rtk.fixed_after_s
        ):
            self._carrier, self._since_ns = CarrierSolution(self._carrier + 1), elapsed_ns
