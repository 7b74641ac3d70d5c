"""Lateral velocity and yaw rate of a single-track model with linear tyres; the step is stable from
standstill to full speed.

    m (dv_y/dt + v r) = F_f + F_r        F_f = -C_f ((v_y + a r)/|v| - tan(delta) v/|v|)
    I_z dr/dt = a F_f - b F_r            F_r = -C_r  (v_y - b r)/|v|

v_y at the centre of gravity, a and b from there to the axles (Riekert and Schunck 1940). The tyres
relax within |v| m/C, which vanishes at walking pace: explicit steps diverge there, and the usual
cure, another model below some speed, jumps at the switch. This step is implicit Euler, multiplied
by |v|: it does not divide by the speed, is stable at every step length, and as v -> 0 or C ->
infinity it becomes the kinematic single-track model, r = v tan(delta)/l without slip at the rear
axle.
"""

from math import isfinite

from msgspec import Struct

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2

UNSTABLE_SHARE = 0.25
"""Limit of the inertial term in reverse, as a fraction of g l/K. At the square root of g l/K an
understeering vehicle in reverse becomes unstable; beyond it the linear model is invalid and the
step has no solution."""


class SingleTrack(Struct, frozen=True, gc=False):
    """Coefficients of the equations above, divided by mass or inertia, so that the mass cancels.

    ``k11..k22`` multiply (v_y, r)/|v|, ``b1, b2`` tan(delta) v/|v|.
    """

    k11: float
    k12: float
    k21: float
    k22: float
    b1: float
    b2: float
    rear_m: float
    """b, the distance of the centre of gravity ahead of the rear axle."""
    rear_slip: float
    """Slip angle of the rear axle per lateral acceleration in a steady turn, rad per m/s2."""
    lowest_square: float
    """Lower bound of v |v| in reverse, m2/s2; negative."""


def single_track(
    wheelbase_m: float,
    stiffness_per_rad: float,
    understeer_rad_per_g: float,
    centre_share: float,
    inertia_share: float,
) -> SingleTrack:
    """Return the coefficients from parameters that hardly depend on a vehicle's size.

    ``stiffness_per_rad`` is C_r over the load of the rear axle, ``understeer_rad_per_g`` >= 0 the
    wheel angle per g of lateral acceleration beyond l/R, so that C_f over its load is 1/(1/C_r +
    K); ``centre_share`` = b/l; ``inertia_share`` = I_z/(m a b), 1 for most vehicles.
    """
    g, l = STANDARD_GRAVITY_MPS2, wheelbase_m  # noqa: E741
    rear = stiffness_per_rad
    front = 1.0 / (1.0 / rear + understeer_rad_per_g)
    b = centre_share * l
    a = l - b
    turn = g / (inertia_share * l)
    return SingleTrack(
        k11=g * (front * centre_share + rear * (1.0 - centre_share)),
        k12=g * centre_share * a * (front - rear),
        k21=turn * (front - rear),
        k22=turn * (a * front + b * rear),
        b1=g * front * centre_share,
        b2=turn * front,
        rear_m=b,
        rear_slip=1.0 / (rear * g),
        lowest_square=-UNSTABLE_SHARE * g * l / understeer_rad_per_g
        if understeer_rad_per_g > 0.0
        else -1e6,
    )


def lateral_step(
    t: SingleTrack,
    speed_mps: float,
    lateral_mps: float,
    rate_radps: float,
    tan_wheel: float,
    measured_radps: float,
    dt_s: float,
) -> tuple[float, float, float, float]:
    """Return (lateral velocity of the rear axle, yaw rate, their derivatives by speed) after
    ``dt_s`` > 0 at a signed speed, m/s and rad/s.

    A finite ``measured_radps`` is the yaw rate. The lateral velocity is then that of the steady
    turn with it, in which the rear axle carries its part of m v r. This needs no wheel angle, whose
    gain is the least certain parameter.
    """
    v = speed_mps
    magnitude = abs(v)
    sign = 1.0 if v >= 0.0 else -1.0
    square, dsquare = v * magnitude, 2.0 * magnitude
    if square < t.lowest_square:
        square, dsquare = t.lowest_square, 0.0
    if isfinite(measured_radps):
        slip = -t.rear_slip * measured_radps
        return slip * square, measured_radps, slip * dsquare, 0.0
    sideways = lateral_mps + t.rear_m * rate_radps
    m11, m12 = magnitude + dt_s * t.k11, dt_s * (t.k12 + square)
    f1 = magnitude * sideways + dt_s * v * t.b1 * tan_wheel
    # Derivatives of matrix and right side by v, for d(M z)/dv = df/dv.
    df1 = sign * sideways + dt_s * t.b1 * tan_wheel
    m21, m22 = dt_s * t.k21, magnitude + dt_s * t.k22
    f2 = magnitude * rate_radps + dt_s * v * t.b2 * tan_wheel
    scale = 1.0 / (m11 * m22 - m12 * m21)
    y = scale * (m22 * f1 - m12 * f2)
    r = scale * (m11 * f2 - m21 * f1)
    df1 -= sign * y + dt_s * dsquare * r
    df2 = sign * rate_radps + dt_s * t.b2 * tan_wheel - sign * r
    dy = scale * (m22 * df1 - m12 * df2)
    dr = scale * (m11 * df2 - m21 * df1)
    return y - t.rear_m * r, r, dy - t.rear_m * dr, dr
