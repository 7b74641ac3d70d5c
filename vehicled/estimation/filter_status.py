"""Rules common to all filters: when to restart, and the status they report."""

from vehicled.messages import NAN, EstimatorStatus, StateEstimate

MAX_GAP_NS = 1_000_000_000
"""A longer step restarts a filter: after a second without steps its prediction is worthless."""
RESTART_FACTOR = 10.0
"""A filter restarts when a sigma exceeds the limit of DIVERGED by this factor, where linearisation no longer holds."""


def status_of(spread: float, good_fixes: int, align_fixes: int) -> EstimatorStatus:
    """Return the status of a running filter. ``spread`` is the largest ratio of a sigma to its limit of DIVERGED."""
    if spread > 1.0:
        return EstimatorStatus.DIVERGED
    return EstimatorStatus.ALIGNING if good_fixes < align_fixes else EstimatorStatus.RUNNING


def unknown(now_ns: int, newest_input_ns: int, rejected: int) -> StateEstimate:
    """Return the estimate of a filter that has not started or restarted yet."""
    nothing = (NAN,) * 16
    return StateEstimate(now_ns, newest_input_ns, NAN, NAN, NAN, NAN, NAN, nothing, EstimatorStatus.UNINITIALISED, NAN, rejected)
