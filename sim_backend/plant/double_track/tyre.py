"""TMeasy tyre with an elastic carcass, one wheel. Rill, Castro: Road Vehicle Dynamics, 2nd ed.,
chapter 3.

Assignments of expressions only, because :mod:`sim_backend.plant.double_track.c_source` translates
the text to C.

The carcass is a spring and a damper in series with the friction of the contact patch:

    c u + d du/dt = F = -g (v + du/dt)

with u the deflection, v the sliding velocity of the wheel over the ground and g the force per
sliding velocity that the TMeasy curve gives at the slip of v. The implicit step is linear in the
new deflection. It has no singularity at standstill: g grows without bound, and the tyre is a spring
that sticks until the curve's sliding force is reached.
"""

from math import fabs, sqrt
from typing import NamedTuple

from sim_backend.plant.double_track.constants import AxleConstants

CALM_MPS = 0.02
"""Transport velocity at which half of the standstill damping remains; it models the loss in rubber
that is only flexed."""
CREEP_MPS = 1e-3
"""Offset of the transport velocity, m/s. A standing wheel under load creeps by this times its slip:
micrometres per second."""


class Contact(NamedTuple):
    """Forces of one wheel in its own axes, before its new speed is known."""

    drag_n: float
    """Longitudinal force at sliding velocity 0."""
    drag_nspm: float
    """Decrease of that force per sliding velocity at the end of the step."""
    side_n: float
    side_deflection_m: float
    grip_nspm: float
    """Force per longitudinal sliding velocity of the contact patch: g."""
    series_nspm: float
    """Force per sliding velocity including the carcass damper."""
    rolling_radius_m: float
    lever_m: float
    """Lever arm of the longitudinal force."""


def contact(
    c: AxleConstants,
    load_n: float,
    friction: float,
    forward_mps: float,
    lateral_mps: float,
    spin_radps: float,
    deflection_m: float,
    side_deflection_m: float,
) -> Contact:
    """Return the contact of a loaded tyre on ground of a friction scale; velocities in wheel axes.
    Finite for finite inputs."""
    share = load_n / c.nominal_load_n
    q = share if share < c.largest_share else c.largest_share
    # Forces stay divided by q until the end, so that a wheel without load needs no special case.
    slope_x = c.slope_x - c.slope_x_fall * q
    slope_y = c.slope_y - c.slope_y_fall * q
    peak_x = c.peak_x - c.peak_x_fall * q
    peak_y = c.peak_y - c.peak_y_fall * q
    peak_slip_x = c.peak_slip_x + c.peak_slip_x_rise * q
    peak_slip_y = c.peak_slip_y + c.peak_slip_y_rise * q
    reach_x = peak_x / slope_x
    reach_y = peak_y / slope_y
    norm_x = peak_slip_x / (peak_slip_x + peak_slip_y) + reach_x / (reach_x + reach_y)
    norm_y = 2.0 - norm_x
    bent = q if q < c.radius_bend else c.radius_bend
    radius_m = c.unloaded_radius_m - (c.radius_fall_m - c.radius_rise_m * bent) * q
    rolling_mps = radius_m * spin_radps
    turned_mps = fabs(rolling_mps)
    scale_x = 1.0 / norm_x
    scale_y = 1.0 / norm_y
    # A locked wheel slides against its velocity whatever the two slips are: the small velocity is
    # not normalised.
    per_mps_x = 1.0 / (norm_x * turned_mps + CREEP_MPS)
    per_mps_y = 1.0 / (norm_y * turned_mps + CREEP_MPS)
    # Models that count slip by rolling speed add to it before normalising: there a locked wheel
    # slides with normalised slips.
    seen_x = 1.0 / (1.0 + c.rolled_slip * CREEP_MPS * (norm_x - 1.0) * per_mps_x)
    seen_y = 1.0 / (1.0 + c.rolled_slip * CREEP_MPS * (norm_y - 1.0) * per_mps_y)
    slip_x = (rolling_mps - forward_mps) * per_mps_x * seen_x
    slip_y = lateral_mps * per_mps_y * seen_y
    along = slip_x * slip_x
    square = along + slip_y * slip_y
    slip = sqrt(square)
    # Squared share of each direction.
    xx = along / square if square > 1e-24 else 1.0
    yy = 1.0 - xx
    slope_x = slope_x * norm_x
    slope_y = slope_y * norm_y
    peak_slip_x = peak_slip_x * scale_x
    peak_slip_y = peak_slip_y * scale_y
    slope = sqrt(slope_x * slope_x * xx + slope_y * slope_y * yy)
    peak = friction * sqrt(peak_x * peak_x * xx + peak_y * peak_y * yy)
    peak_slip = friction * sqrt(peak_slip_x * peak_slip_x * xx + peak_slip_y * peak_slip_y * yy)
    secant = peak / peak_slip
    slope = slope if slope > 2.0 * secant else 2.0 * secant
    force_per_slip = (
        adhesion(slip / peak_slip, slope, slope / secant - 2.0)
        if slip < peak_slip
        else beyond_peak(c, q, friction, slip, slope, peak, peak_slip, xx, yy, norm_x, norm_y)
    )
    grip = q * force_per_slip
    grip_x = grip * per_mps_x
    grip_y = grip * per_mps_y
    calm = CALM_MPS / (CALM_MPS + turned_mps)
    viscous_x = c.damping_x_nspm + c.calm_x_nspm * calm + c.yield_x_nspm
    viscous_y = c.damping_y_nspm + c.calm_y_nspm * calm + c.yield_y_nspm
    share_of_patch = grip_x / (viscous_x + grip_x)
    rate_mps = -(c.stiffness_y_npm * side_deflection_m + grip_y * lateral_mps) / (
        viscous_y + grip_y
    )
    return Contact(
        c.stiffness_x_npm * deflection_m * share_of_patch,
        viscous_x * share_of_patch,
        c.stiffness_y_npm * side_deflection_m + viscous_y * rate_mps,
        side_deflection_m + c.step_s * rate_mps,
        grip_x,
        grip_x + viscous_x,
        radius_m,
        c.unloaded_lever_m - c.lever_fall_m * q,
    )


def adhesion(ratio: float, slope: float, excess: float) -> float:
    """Return force over slip below the peak, at a slip relative to the peak's."""
    return slope / (1.0 + (ratio + excess) * ratio)


def beyond_peak(
    c: AxleConstants,
    q: float,
    friction: float,
    slip: float,
    slope: float,
    peak: float,
    peak_slip: float,
    xx: float,
    yy: float,
    norm_x: float,
    norm_y: float,
) -> float:
    """Return force over slip beyond the peak: two parabolas down to sliding, or one cubic if they
    do not fit. If sliding has the greater force, as in published sets for soft tyres, one parabola
    up.
    """
    slide_x = c.slide_x - c.slide_x_fall * q
    slide_y = c.slide_y - c.slide_y_fall * q
    slide_slip_x = (c.slide_slip_x + c.slide_slip_x_rise * q) / norm_x
    slide_slip_y = (c.slide_slip_y + c.slide_slip_y_rise * q) / norm_y
    slide = friction * sqrt(slide_x * slide_x * xx + slide_y * slide_y * yy)
    slide_slip = friction * sqrt(
        slide_slip_x * slide_slip_x * xx + slide_slip_y * slide_slip_y * yy
    )
    bend = peak * peak / (peak_slip * peak_slip * peak_slip * slope)
    # The slip lines over load may cross outside their data; the range between peak and sliding is
    # then empty.
    apart = slide_slip - peak_slip
    least = 1e-9 * peak_slip
    width = apart if apart > least else least
    fall = peak - slide
    first = fall / (bend * width)
    past = slip - peak_slip
    left = slide_slip - slip
    third = past / width
    second = width - first
    force = (
        slide
        if left <= 0.0
        else (
            slide + fall * (1.0 - third) * (1.0 - third)
            if fall <= 0.0
            else (
                peak - fall * third * third * (3.0 - 2.0 * third)
                if second <= 1e-9
                else (
                    peak - bend * past * past
                    if past <= first
                    else slide + bend * first / second * left * left
                )
            )
        )
    )
    return force / slip


def deflected(
    c: AxleConstants, deflection_m: float, grip_nspm: float, series_nspm: float, sliding_mps: float
) -> float:
    """Return the longitudinal deflection at the end of the step, once the wheel's new speed is
    known."""
    return (
        deflection_m
        - c.step_s * (c.stiffness_x_npm * deflection_m + grip_nspm * sliding_mps) / series_nspm
    )
