"""Tuning of the controller ``rollout``."""

from typing import Annotated

from msgspec import Meta

from vehicled.control.pure_pursuit import PurePursuitParams
from vehicled.core.vehicle import NonNegative, Positive


class RolloutParams(PurePursuitParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the pure pursuit that drives the chosen path, and of the choice. Weights compare with 1 per metre of offset."""

    paths: Annotated[int, Meta(ge=2, le=512)] = 8
    """Control budget: paths that are predicted in a round, besides the present one and the course, each at every speed."""
    rounds: Annotated[int, Meta(ge=1, le=4)] = 2
    """Rounds of a choice: the first spreads its paths over the corridor, each further one around the best path so far."""
    slow_ratio: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.6
    """Second speed of every path, over the speed of the course; 1 for none."""
    horizon_s: Annotated[float, Meta(ge=0.5, le=20.0)] = 4.0
    """Time that is predicted."""
    step_s: Annotated[float, Meta(ge=0.02, le=0.5)] = 0.2
    """Step of the prediction, s."""
    spread_m: Positive = 2.0
    """Largest offset from the course; never beyond the corridor less ``corridor_margin_m``."""
    corridor_margin_m: NonNegative = 0.25
    """Distance that planned paths keep from the edge of the corridor, m."""
    clearance_m: NonNegative = 0.1
    """Clearance to an obstacle that a path must have, beyond the side clearance ``limits.obstacle_side_m`` of the obstacle stop."""
    comfort_m: Positive = 0.5
    """Clearance up to which more of it is better."""
    change_time_s: Positive = 1.5
    """Time over which the offset changes; longer where the curvature or the lateral limit ask for it."""
    memory_s: NonNegative = 0.5
    """Time for which a return of the scanner counts."""
    clearance_weight: NonNegative = 0.4
    """Cost of no clearance beyond the required one; it falls to 0 at ``comfort_m``."""
    speed_weight: NonNegative = 5.0
    """Cost of standing still; a lower speed costs its part of it."""
    change_weight: NonNegative = 0.3
    """Cost per metre of another offset than the present one, so that the choice does not waver. Returning to the course is free."""
