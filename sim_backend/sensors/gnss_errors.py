"""Position error models of a receiver, by the names of ``[sim.gnss] model``. All advance one step
per fix.

Each gives six numbers: white and coloured error, east, north, up. Vertical errors are ``vertical``
times the horizontal ones.
"""

from collections.abc import Callable
from math import exp, sqrt
from typing import Protocol

from sim_backend.sensors.gnss_replayed import ReplayedGnssError
from sim_backend.sensors.noise import GaussMarkov, Normals, stream
from vehicled.profile.gnss import GnssModel, RandomWalk

Error = tuple[float, float, float, float, float, float]
Variances = tuple[float, float, float]
NO_ERROR: Error = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MODELS_THAT_SETTLE = frozenset({"airsim", "gauss_airsim", "random_walk_airsim"})
"""Models whose reported covariance follows a dilution that settles after switch-on."""
_WALKS = {"random_walk": "random_walk", "random_walk_airsim": "random_walk"} | {
    name: name for name in ("art_inner", "art_simulator", "art_judge")
}


class PositionError(Protocol):
    """Position error that evolves from fix to fix."""

    variances_m2: Variances
    """Variances of the whole error, east, north, up, as a receiver should report them."""

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Return the error ``elapsed_s`` after the start; ``normals`` are six unit normals of this
        fix."""
        ...


class NoError:
    """Zero error, as in AirSim's receiver."""

    variances_m2 = (0.0, 0.0, 0.0)

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Return zeros, see :class:`PositionError`."""
        return NO_ERROR


class WhiteNoise:
    """White noise, independent from fix to fix."""

    def __init__(self, sigma_m: float, vertical: float) -> None:
        self.variances_m2 = _variances(sigma_m * sigma_m, vertical)
        self._sigma_m = sigma_m
        self._up_m = sigma_m * vertical

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Return the error of this fix, see :class:`PositionError`."""
        return (
            self._sigma_m * normals[0],
            self._sigma_m * normals[1],
            self._up_m * normals[2],
            0.0,
            0.0,
            0.0,
        )


class GaussMarkovError:
    """White noise plus a first-order Gauss-Markov process per axis."""

    def __init__(self, model: GnssModel, dt_s: float, vertical: float, start: list[float]) -> None:
        """``start``: three unit normals for a stationary start."""
        sigma_m, walk_sigma_m, time_s = model.sigma_m, model.walk_sigma_m, model.walk_time_s
        self._white_m = sigma_m
        self._white_up_m = up_m = sigma_m * vertical
        sigmas_m = (walk_sigma_m, walk_sigma_m, walk_sigma_m * vertical)
        horizontal_m2 = sigma_m * sigma_m + walk_sigma_m * walk_sigma_m
        self.variances_m2 = (horizontal_m2, horizontal_m2, up_m * up_m + sigmas_m[2] * sigmas_m[2])
        self._east, self._north, self._up = (
            GaussMarkov(s, time_s, dt_s, n) for s, n in zip(sigmas_m, start)
        )

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Advance and return the error, see :class:`PositionError`."""
        return (
            self._white_m * normals[0],
            self._white_m * normals[1],
            self._white_up_m * normals[2],
            self._east.step(normals[3]),
            self._north.step(normals[4]),
            self._up.step(normals[5]),
        )


class RandomWalkError:
    """Random walk in the second derivative, see :class:`vehicled.profile.gnss.RandomWalk`; starts
    at zero and steps at its own rate.
    """

    def __init__(
        self, form: RandomWalk, vertical: float, normals: Callable[[], list[float]]
    ) -> None:
        """``normals`` is its own source, three per step, because its rate is not the fix rate."""
        self.variances_m2 = _variances(form.settled_sigma_m**2, vertical)
        self._form = form
        self._vertical = vertical
        self._normals = normals
        self._steps = 0
        self._place_m = [0.0, 0.0, 0.0]
        self._speed = [0.0, 0.0, 0.0]

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Advance and return the error, see :class:`PositionError`."""
        # Tolerate times that are rounded to the nanosecond.
        due = int(elapsed_s * self._form.rate_hz + 1e-6)
        for _ in range(due - self._steps):
            self._advance()
        self._steps = due
        east, north, up = self._place_m
        return 0.0, 0.0, 0.0, east, north, up * self._vertical

    def _advance(self) -> None:
        form = self._form
        pull = form.pull * form.sigma
        range_m = form.pull_range_m
        most = form.acceleration_cut
        fastest = form.speed_cut
        for axis, normal in enumerate(self._normals()):
            mean = -pull * min(max(self._place_m[axis] / range_m, -1.0), 1.0)
            acceleration = min(max(mean + form.sigma * normal, -most), most) * form.step_s
            speed = min(max(self._speed[axis] + acceleration, -fastest), fastest)
            self._speed[axis] = speed
            self._place_m[axis] += speed * form.step_s


class SecondOrderGaussMarkov:
    """Critically damped second-order Gauss-Markov process, exactly discretised and stationary from
    the first sample.

    ``x'' + 2 x' / T + x / T^2 = w``: standard deviation sigma, autocorrelation ``(1 + t / T) exp(-t
    / T)``; smooth, unlike a first-order one. State ``(x, T x')``, both of variance sigma^2 and
    uncorrelated when stationary. Gelb 1974, table 2.2-1.
    """

    def __init__(self, sigma: float, time_s: float, dt_s: float, start: list[float]) -> None:
        """``start``: two unit normals."""
        u = dt_s / time_s
        decay = exp(-u)
        self._xx, self._xv = decay * (1.0 + u), decay * u
        self._vx, self._vv = -decay * u, decay * (1.0 - u)
        # Process noise that keeps the covariance at sigma^2 times the identity, and its Cholesky
        # root.
        qxx = 1.0 - self._xx**2 - self._xv**2
        qxv = -self._xx * self._vx - self._xv * self._vv
        qvv = 1.0 - self._vx**2 - self._vv**2
        root_x = sqrt(max(qxx, 0.0))
        root_xv = qxv / root_x if root_x > 0.0 else 0.0
        self._drive = (
            sigma * root_x,
            sigma * root_xv,
            sigma * sqrt(max(qvv - root_xv * root_xv, 0.0)),
        )
        self.value = sigma * start[0]
        self._slope = sigma * start[1]

    def step(self, first: float, second: float) -> float:
        """Advance by one interval with two unit normals and return the value."""
        x, v = self.value, self._slope
        drive_x, drive_xv, drive_v = self._drive
        self.value = self._xx * x + self._xv * v + drive_x * first
        self._slope = self._vx * x + self._vv * v + drive_xv * first + drive_v * second
        return self.value


class RecordedGnssError:
    """White noise, a first-order and a second-order Gauss-Markov process per axis, fitted to
    recordings of plain GNSS."""

    def __init__(self, model: GnssModel, dt_s: float, vertical: float, normals: Normals) -> None:
        """``normals`` is its own source, twelve per fix."""
        form = model.recorded
        self.variances_m2 = _variances(
            form.white_sigma_m**2 + form.wander_sigma_m**2 + form.smooth_sigma_m**2, vertical
        )
        self._white_m = form.white_sigma_m
        self._vertical = vertical
        self._normals = normals
        start = normals()
        self._wander = [
            GaussMarkov(form.wander_sigma_m, form.wander_time_s, dt_s, start[axis])
            for axis in range(3)
        ]
        pairs = [start[3 + 2 * axis : 5 + 2 * axis] for axis in range(3)]
        self._smooth = [
            SecondOrderGaussMarkov(form.smooth_sigma_m, form.smooth_time_s, dt_s, pair)
            for pair in pairs
        ]

    def step(self, elapsed_s: float, normals: list[float]) -> Error:
        """Advance and return the error, see :class:`PositionError`."""
        n = self._normals()
        east, north, up = (
            wander.step(n[axis]) + smooth.step(n[3 + 2 * axis], n[4 + 2 * axis])
            for axis, (wander, smooth) in enumerate(zip(self._wander, self._smooth))
        )
        white, vertical = self._white_m, self._vertical
        return white * n[9], white * n[10], white * n[11] * vertical, east, north, up * vertical


def position_error(model: GnssModel, seed: int, entity: str, start: list[float]) -> PositionError:
    """Return the error that ``model`` names. Models with their own rate draw from the stream
    ``entity`` + "/error"."""
    vertical = model.vdop / model.hdop
    dt_s = 1.0 / model.rate_hz
    if model.model in _WALKS:
        form: RandomWalk = getattr(model, _WALKS[model.model])
        return RandomWalkError(form, vertical, Normals(stream(seed, f"{entity}/error"), 3))
    if model.model in ("gauss", "gauss_airsim"):
        return WhiteNoise(model.gauss.sigma_m, vertical)
    if model.model == "recorded":
        return RecordedGnssError(
            model, dt_s, vertical, Normals(stream(seed, f"{entity}/error"), 12)
        )
    if model.model == "replayed":
        return ReplayedGnssError(model, seed)
    if model.model == "airsim":
        return NoError()
    return GaussMarkovError(model, dt_s, vertical, start)


def _variances(horizontal_m2: float, vertical: float) -> Variances:
    return horizontal_m2, horizontal_m2, horizontal_m2 * vertical * vertical
