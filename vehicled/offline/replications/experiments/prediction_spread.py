"""Spread of a predicted drive: how far another drive of the campaign may differ from the known one,
and by which cause.

Every cause is an independent Gaussian deviation of one number of the twin or of its heading on
board. Its standard deviation joins the uncertainty of the identification and the spread between
recorded drives (``BETWEEN``), because battery, surface and zero of the steering change from drive
to drive. The moments of a figure of the drive follow from its values at the middle and at two
points per cause: univariate dimension reduction with the three-point Gauss-Hermite rule (Rahman &
Xu 2004, *Probabilistic Engineering Mechanics* 19, 393-408). Causes that amplify each other are
taken as if each acted alone. What the twin does not know of the vehicle at all is one more cause,
of a fixed relative size (``REST_SIGMA``).
"""

from collections.abc import Callable, Mapping
from math import exp, log, sqrt
from statistics import NormalDist

from msgspec import Struct
from msgspec.structs import replace

from vehicled.offline.replications.experiments.drive_response import DriveResponse

COVERAGE = 0.8
"""Stated probability that the interval of a prediction holds the figure of another recorded
drive."""
BETWEEN = {"gain": 0.0, "offset": 0.0048, "delay": 0.026, "speed": 0.052, "time constant": 0.24}
"""Standard deviation between the drives of a campaign beyond the uncertainty of their
identification, over 36 recorded drives: gain, speed and time constant relative, offset in rad,
delay in s. ``bench/prediction_spread.py`` measures it. Gains differ by less than they are
uncertain."""
HEADING_SIGMA_RAD = 0.035
"""Standard deviation, over eighteen recorded drives, of the mean difference between course over
ground and the heading on board."""
DRIFT_SIGMA_RADPS = 0.0012
"""Root mean square, over 36 recorded drives, of the rate at which the heading on board leaves the
true one."""
REST_SIGMA = 0.09
"""Relative standard deviation that is left: with it intervals of 80 % hold four fifths of the
recorded drives, without it two thirds."""
CAUSES = (*BETWEEN, "heading zero", "heading drift")
NODE = sqrt(3.0)
"""Outer nodes of the rule, in standard deviations; their weights are a sixth each, that of the
middle two thirds."""


class Deviation(Struct, frozen=True):
    """A twin that differs from the identified one, and the errors of its heading on board."""

    response: DriveResponse
    heading_rad: float = 0.0
    """Mean over the drive."""
    drift_radps: float = 0.0


class PredictionInterval(Struct, frozen=True, kw_only=True):
    """Prediction of a positive figure of a drive."""

    exact: float
    """Figure of the identified twin with an exact heading."""
    expected: float
    """Mean over the heading zero: the prediction."""
    low: float
    high: float
    """Ends of the interval that holds another drive with probability ``COVERAGE``."""
    shares: dict[str, float]
    """Fraction of the variance by cause, and of what is left as ``rest``."""
    per_delay_ps: float
    """Relative growth of the figure per second of steering delay, about the identified one."""


def sigmas(response: DriveResponse, drift_radps: float) -> dict[str, float]:
    """Return the standard deviation by cause between this drive and another one of its campaign.
    This one drifts by ``drift_radps``.
    """
    own = {
        "gain": response.gain_sigma_rad / response.gain_rad, "offset": response.offset_sigma_rad,
        "delay": response.delay_sigma_s, "speed": response.speed_sigma,
        "time constant": response.time_constant_sigma,
    }  # fmt: skip
    # Both drives differ from the campaign's mean.
    spread = {cause: sqrt(own[cause] ** 2 + 2.0 * between**2) for cause, between in BETWEEN.items()}
    # One drive says as much of the size of the drift as all before it: scaled inverse chi-square
    # prior with one degree of freedom.
    drift = sqrt(0.5 * (drift_radps**2 + DRIFT_SIGMA_RADPS**2))
    return spread | {"heading zero": HEADING_SIGMA_RAD, "heading drift": drift}


def deviated(response: DriveResponse, cause: str, by: float) -> Deviation:
    """Return the twin that differs in one cause, in the unit of its standard deviation."""
    if cause == "heading zero":
        return Deviation(response, heading_rad=by)
    if cause == "heading drift":
        return Deviation(response, drift_radps=by)
    if cause == "gain":
        return Deviation(replace(response, gain_rad=response.gain_rad * exp(by)))
    if cause == "offset":
        return Deviation(replace(response, offset_rad=response.offset_rad + by))
    if cause == "delay":
        return Deviation(replace(response, delay_s=max(response.delay_s + by, 0.0)))
    if cause == "speed":
        factor = exp(by)
        return Deviation(
            replace(
                response,
                reach_mps=response.reach_mps * factor,
                friction_mps=response.friction_mps * factor,
            )
        )
    return Deviation(replace(response, time_constant_s=response.time_constant_s * exp(by)))


def interval(
    response: DriveResponse, sigma: Mapping[str, float], figure: Callable[[Deviation], float]
) -> PredictionInterval:
    """Return the prediction of a positive figure; it is evaluated once and twice more per cause."""
    exact = expected = figure(Deviation(response))
    variances, per_delay_ps = dict[str, float](), 0.0
    for cause in CAUSES:
        low, high = (
            figure(deviated(response, cause, side * NODE * sigma[cause])) for side in (-1.0, 1.0)
        )
        shift = (low + high - 2.0 * exact) / 6.0
        variances[cause] = ((low - exact) ** 2 + (high - exact) ** 2) / 6.0 - shift**2
        if cause == "heading zero":
            expected += shift
        if cause == "delay" and sigma[cause] > 0.0:
            per_delay_ps = (high - low) / (2.0 * NODE * sigma[cause] * exact)
    variances["rest"] = (REST_SIGMA * expected) ** 2
    total = sum(variances.values())
    # Lognormal about the prediction, because an error is positive and its large values are rare.
    reach = NormalDist().inv_cdf(0.5 + 0.5 * COVERAGE) * sqrt(log(1.0 + total / expected**2))
    return PredictionInterval(
        exact=exact, expected=expected, low=expected * exp(-reach), high=expected * exp(reach),
        shares={cause: variance / total for cause, variance in variances.items()},
        per_delay_ps=per_delay_ps,
    )  # fmt: skip
