"""Parameters and rules common to all filters: when to doubt the state, when to restart, and the
status they report."""

from typing import Annotated

from msgspec import Meta, Struct

from vehicled.core.messages import NAN, EstimatorStatus, StateEstimate
from vehicled.core.vehicle import Positive

MAX_GAP_NS = 1_000_000_000
"""A longer step restarts a filter: after a second without steps its prediction is worthless."""
RESTART_FACTOR = 10.0
"""A filter restarts when a sigma exceeds the limit of DIVERGED by this factor, where linearisation
no longer holds."""


class FilterParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning that every filter has."""

    gate: bool = True
    """False: measurements of any size are fused, without the chi-square test."""
    max_rejections: Annotated[int, Meta(ge=1)] = 5
    """Consecutive rejections of one kind after which the filter doubts its state: it inflates the
    covariance by the residual and accepts the measurement. Otherwise one wrong state would reject
    correct measurements for ever."""
    align_fixes: Annotated[int, Meta(ge=1)] = 5
    """Accepted fixes needed for RUNNING, counted from the start or from an acceptance against the
    gate."""
    max_position_sigma_m: Positive = 4.0
    """Limit of the sigma beyond which the status is DIVERGED; likewise the next two."""
    max_yaw_sigma_rad: Positive = 0.6
    """Sigma of the yaw beyond which the estimate is not RUNNING, rad."""
    max_speed_sigma_mps: Positive = 1.0
    """Sigma of the speed beyond which the estimate is not RUNNING, m/s."""


def status_of(spread: float, good_fixes: int, align_fixes: int) -> EstimatorStatus:
    """Return the status of a running filter. ``spread`` is the largest ratio of a sigma to its
    limit of DIVERGED."""
    if spread > 1.0:
        return EstimatorStatus.DIVERGED
    return EstimatorStatus.ALIGNING if good_fixes < align_fixes else EstimatorStatus.RUNNING


def unknown(now_ns: int, newest_input_ns: int, rejected: int) -> StateEstimate:
    """Return the estimate of a filter that has not started or restarted yet."""
    nothing = (NAN,) * 16
    return StateEstimate(
        now_ns,
        newest_input_ns,
        NAN,
        NAN,
        NAN,
        NAN,
        NAN,
        nothing,
        EstimatorStatus.UNINITIALISED,
        NAN,
        rejected,
    )
