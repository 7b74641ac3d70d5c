"""Tuning of the controller ``avoid``."""

from typing import Annotated

from msgspec import Meta

from vehicled.control.pure_pursuit import PurePursuitParams
from vehicled.core.vehicle import NonNegative, Positive


class AvoidParams(PurePursuitParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the pure pursuit that drives the planned path, and of the plan. Clearances are
    those of the body, beside it."""

    cells: Annotated[int, Meta(ge=4, le=60)] = 14
    """Cells of the lattice across the width of the vehicle."""
    stations: Annotated[int, Meta(ge=8, le=120)] = 40
    """Stations of the lattice at most; they bound what a plan costs."""
    horizon_s: Annotated[float, Meta(ge=0.5, le=20.0)] = 3.2
    """Time that a plan looks ahead at the speed of the course; never less than
    ``horizon_lengths``."""
    horizon_lengths: Annotated[float, Meta(ge=2.0, le=50.0)] = 8.0
    """Distance that a plan looks ahead at least, in lengths of the vehicle."""
    turn_share: Annotated[float, Meta(gt=0.05, le=1.0)] = 0.7
    """Part of the tightest turn, and of the lateral limit, that a plan may take."""
    spread_m: Positive = 10.0
    """Largest offset from the course; never beyond the corridor less ``corridor_margin_share`` of
    it."""
    corridor_margin_share: Annotated[float, Meta(ge=0.0, le=0.9)] = 0.12
    """Part of the corridor at its edge into which no path is planned."""
    clearance_share: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.03
    """Clearance that a path must have beyond ``limits.obstacle_side_m``, in widths of the
    vehicle."""
    comfort_share: Annotated[float, Meta(ge=0.0, le=5.0)] = 0.4
    """Clearance beyond the required one up to which more of it is better, in widths."""
    near_ratio: Annotated[float, Meta(gt=0.05, le=1.0)] = 0.4
    """Speed over that of the course where the clearance is the required one; it is the full speed
    from the comfortable one on."""
    memory_s: NonNegative = 1.0
    """Time for which returns count that have left the field of view, s."""
    predict_s: NonNegative = 4.0
    """Time for which a moving body is expected to keep its velocity, s."""
    wait_s: NonNegative = 6.0
    """Time for which the vehicle stands before what is in its way, s; then the obstacle stop ends
    the drive."""
    back_after_s: NonNegative = 2.0
    """Time after which a vehicle that stands goes back along its trail, s, if a path is free from
    there; never from ``wait_s`` on."""
    offset_weight: NonNegative = 0.25
    """Cost of one width beside the course over one length of the vehicle."""
    change_weight: NonNegative = 1.0
    """Cost of one width beside the present path over one length, so that plans do not waver."""
    near_weight: NonNegative = 6.0
    """Cost of the required clearance and no more over one length."""
    headed_weight: NonNegative = 4.0
    """Cost over one length of wheels that point at something within the distance of an emergency
    stop: the obstacle stop would end the drive."""
    bend_weight: NonNegative = 0.3
    """Cost of one step of curvature, squared."""
    keep_ratio: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.4
    """Part of its cost by which another path must be better than the present one."""
