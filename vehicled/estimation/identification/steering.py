"""Steering gain, offset, delay and dead zone from the measured turn and the commands.

Model: ``arctan(l dyaw / ds) = gain s(t - delay) + offset + e`` with the slewed effective command s
of one dead zone. It is linear in gain and offset, so a bank holds one Kalman filter of these two
for every pair of dead zone and delay; the likelihood of each member's innovations is the evidence
for its pair (multiple-model estimation, Bar-Shalom 2001, ch. 11.6). The result is the mean over the
bank.

The error e is mostly that of the model (linkage, tyres) and stays constant while the command does.
A sample therefore has only the weight ``interval / correlation time + change of command /
correlation command``, so that the sigma is consistent and a long bend does not dominate. The
evidence is weighted by time alone, because delays differ only while the command changes.

Parameters do not drift without information: the random walks of gain and evidence scale with the
excitation (command against zero, spread of the members' predictions), that of the offset with the
time of motion.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array, exp, log
from vehicled.core.vehicle import Steering
from vehicled.estimation.identification.params import IdentifierParams

DELAY_STEP_S = 0.05
CLEAR_DEAD_ZONE = 0.1
"""Difference of dead zones that slack cannot explain."""
DEGREES = 4.0
"""Degrees of freedom of Student's t, which models outliers in the innovations."""
EXCITATION = 0.2
"""Command at which the gain is fully observable."""


class SteeringSample(NamedTuple):
    """Measured response of the steering over one interval."""

    command: Array
    """(z, k) mean slewed command of each member."""
    wheel_rad: float
    """Measured wheel angle, arctan(l dyaw / ds)."""
    sigma_rad: float
    """Sigma of the measured wheel angle, measurement and model together."""
    interval_s: float


class SteeringEstimate(NamedTuple):
    """Means and sigmas of the bank."""

    gain_rad: float
    gain_sigma_rad: float
    offset_rad: float
    offset_sigma_rad: float
    delay_s: float
    delay_sigma_s: float
    dead_zone: float
    dead_zone_sigma: float


class SteeringBank:
    """Bank over dead zones (z) and delays (k); all arrays are (z, k)."""

    def __init__(self, params: IdentifierParams, steering: Steering) -> None:
        self._params = params
        self._assumed = steering
        self.dead_zones: Array = np.array(
            [
                steering.dead_zone,
                *(d for d in params.dead_zones if abs(d - steering.dead_zone) > 0.01),
            ]
        )
        self.delays_s: Array = np.arange(0.0, params.max_delay_s + 0.5 * DELAY_STEP_S, DELAY_STEP_S)
        self.delays_ns: NDArray[np.int64] = np.round(self.delays_s * 1e9).astype(np.int64)
        shape = (len(self.dead_zones), len(self.delays_s))
        self._gain_prior = params.gain_prior * steering.gain_rad
        self._gain = np.full(shape, steering.gain_rad)
        self._offset = np.full(shape, steering.offset_rad)
        self._p00 = np.full(shape, self._gain_prior**2)
        self._p01 = np.zeros(shape)
        self._p11 = np.full(shape, params.offset_prior_rad**2)
        prior = -0.5 * ((self.delays_s - steering.delay_s) / params.delay_prior_s) ** 2
        odds = -params.dead_zone_evidence * np.minimum(
            1.0, np.abs(self.dead_zones - steering.dead_zone) / CLEAR_DEAD_ZONE
        )
        self._prior: Array = odds[:, None] + prior[None, :]
        self._evidence = self._prior - np.max(self._prior)
        weight = exp(prior) / np.sum(exp(prior))
        self._pull_s = float(np.sum(weight * self.delays_s)) - min(
            steering.delay_s, params.max_delay_s
        )
        self._delay_variance = float(
            np.sum(weight * (self.delays_s - float(np.sum(weight * self.delays_s))) ** 2)
        )
        self._last = np.zeros(shape)
        self.samples = 0
        self.found = self._mean()

    def update(self, sample: SteeringSample) -> None:
        """Fuse one interval. All values must be finite, sigma and interval positive."""
        p = self._params
        s, gain, offset = sample.command, self._gain, self._offset
        lock = self._assumed.max_wheel_rad
        predicted = gain * s + offset
        spread = float(np.std(predicted))
        cut = np.abs(predicted) > lock
        h0: Array = s
        h1: Array | float = 1.0
        if cut.any():
            # A wheel at its stop gives only a lower bound of the predicted angle.
            saturated = cut & (np.sign(predicted) * sample.wheel_rad >= lock)
            predicted = np.clip(predicted, -lock, lock)
            error = np.where(saturated, 0.0, sample.wheel_rad - predicted)
            h0, h1 = np.where(saturated, 0.0, s), np.where(saturated, 0.0, 1.0)
        else:
            error = sample.wheel_rad - predicted
        variance = sample.sigma_rad * sample.sigma_rad
        changed = float(np.mean(np.abs(s - self._last)))
        self._last = s
        weight = min(1.0, sample.interval_s / p.correlation_s + changed / p.correlation_command)
        self._diffuse(s, sample.interval_s)
        ph0 = self._p00 * h0 + self._p01 * h1
        ph1 = self._p01 * h0 + self._p11 * h1
        hph = h0 * ph0 + h1 * ph1
        t2 = error * error / (hph + variance)
        # Kalman gain with the noise of Student's t (Meinhold and Singpurwalla 1989): outliers count
        # less.
        noise = (variance / weight) * (DEGREES + t2) / (DEGREES + 1.0)
        k0 = ph0 / (hph + noise)
        k1 = ph1 / (hph + noise)
        self._gain = gain + k0 * error
        self._offset = offset + k1 * error
        # The Joseph form stays positive definite under rounding.
        a, b, c, d = 1.0 - k0 * h0, -k0 * h1, -k1 * h0, 1.0 - k1 * h1
        p00, p01, p11 = self._p00, self._p01, self._p11
        self._p00 = a * a * p00 + 2.0 * a * b * p01 + b * b * p11 + k0 * k0 * noise
        self._p01 = a * c * p00 + (a * d + b * c) * p01 + b * d * p11 + k0 * k1 * noise
        self._p11 = c * c * p00 + 2.0 * c * d * p01 + d * d * p11 + k1 * k1 * noise
        self._bound()
        self._weigh(
            t2,
            hph + variance,
            min(1.0, sample.interval_s / p.evidence_s),
            spread,
            sample.interval_s,
        )
        self.samples += 1
        self.found = self._mean()

    def _diffuse(self, s: Array, interval_s: float) -> None:
        p = self._params
        step = (p.gain_density * self._assumed.gain_rad) ** 2 * interval_s
        self._p00 = self._p00 + step * np.minimum(1.0, (s / EXCITATION) ** 2)
        self._p11 = self._p11 + p.offset_density_rad**2 * interval_s
        # The random walk never raises a variance above its prior.
        f0 = np.minimum(1.0, self._gain_prior / np.sqrt(self._p00))
        f1 = np.minimum(1.0, p.offset_prior_rad / np.sqrt(self._p11))
        self._p00 = self._p00 * f0 * f0
        self._p01 = self._p01 * f0 * f1
        self._p11 = self._p11 * f1 * f1

    def _bound(self) -> None:
        p, assumed = self._params, self._assumed
        np.clip(
            self._gain,
            assumed.gain_rad / p.gain_bounds,
            assumed.gain_rad * p.gain_bounds,
            out=self._gain,
        )
        bound = max(p.offset_bound_rad, abs(assumed.offset_rad))
        np.clip(self._offset, -bound, bound, out=self._offset)

    def _weigh(
        self, t2: Array, variance: Array, time_weight: float, spread: float, interval_s: float
    ) -> None:
        p = self._params
        log_likelihood = -0.5 * (DEGREES + 1.0) * log(1.0 + t2 / DEGREES) - 0.5 * log(variance)
        excitation = min(1.0, (spread / p.wheel_sigma_rad) ** 2)
        faded = min(1.0, excitation * interval_s / p.memory_s)
        self._evidence = self._evidence + time_weight * log_likelihood
        self._evidence -= np.max(self._evidence)
        self._evidence += faded * (self._prior - self._evidence)
        self._evidence -= np.max(self._evidence)

    def _mean(self) -> SteeringEstimate:
        p = self._params
        weight = exp(self._evidence)
        weight /= np.sum(weight)
        gain = float(np.sum(weight * self._gain))
        offset = float(np.sum(weight * self._offset))
        by_delay, by_zone = weight.sum(axis=0), weight.sum(axis=1)
        delay = float(np.sum(by_delay * self.delays_s))
        spread = float(np.sum(by_delay * (self.delays_s - delay) ** 2))
        # The grid truncates the prior at 0, which shifts its mean; the shift vanishes as evidence
        # grows.
        pull = self._pull_s * min(1.0, spread / self._delay_variance)
        zone = float(np.sum(by_zone * self.dead_zones))
        return SteeringEstimate(
            gain,
            sqrt(float(np.sum(weight * (self._p00 + (self._gain - gain) ** 2)))),
            offset,
            sqrt(float(np.sum(weight * (self._p11 + (self._offset - offset) ** 2)))),
            min(max(delay - pull, 0.0), p.max_delay_s),
            sqrt(spread + DELAY_STEP_S**2 / 12.0),
            zone,
            sqrt(float(np.sum(by_zone * (self.dead_zones - zone) ** 2))),
        )
