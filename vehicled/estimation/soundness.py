"""What the filters have in common beside the filtering: when they begin anew, and what they then say of themselves."""

from vehicled.messages import NAN, EstimatorStatus, StateEstimate

MAX_GAP_NS = 1_000_000_000
"""A step longer than this restarts a filter: a second without any step is no prediction any more."""
RESTART_FACTOR = 10.0
"""A filter starts anew when a sigma is this many times the limit of DIVERGED: linearisation has lost its meaning by then."""


def status_of(spread: float, good_fixes: int, align_fixes: int) -> EstimatorStatus:
    """Of a filter that runs. ``spread``: the largest of its sigmas, each over the limit of DIVERGED."""
    if spread > 1.0:
        return EstimatorStatus.DIVERGED
    return EstimatorStatus.ALIGNING if good_fixes < align_fixes else EstimatorStatus.RUNNING


def unknown(now_ns: int, newest_input_ns: int, rejected: int) -> StateEstimate:
    """The estimate of a filter that has not started, or not started anew."""
    nothing = (NAN,) * 16
    return StateEstimate(now_ns, newest_input_ns, NAN, NAN, NAN, NAN, NAN, nothing, EstimatorStatus.UNINITIALISED, NAN, rejected)
