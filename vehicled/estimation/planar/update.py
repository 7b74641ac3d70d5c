"""Measurement models of the planar filter: expected value, derivative, noise, gate, and recovery
from repeated rejection.

Each function takes the :class:`~vehicled.estimation.planar.state.PlanarState` at the time of
validity and returns the corrected one. None raises.
"""

from math import cos, hypot, isfinite, log, remainder, sin, tau

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.arrays import Array, matmul
from vehicled.core.messages import GnssFix, Heading, HeadingKind, MapPose
from vehicled.estimation.coloured_error import restore_floor
from vehicled.estimation.map_pose import whitening
from vehicled.estimation.measurements import (
    UNKNOWN_SIGMA_M,
    UNKNOWN_SIGMA_MPS,
    declared_sigma_m,
    horizontal_covariance,
    is_coloured,
)
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import (
    AUTHORITY,
    EX,
    EY,
    FRICTION,
    GAIN,
    MISALIGNMENT,
    OFFSET,
    RATE_X,
    RATE_Y,
    SIZE,
    WHEEL_SCALE,
    YAW,
    PlanarState,
    V,
    X,
    Y,
    error_frequency,
)

HEADING, WHEEL, MOTOR, STEERING, POSITION, VELOCITY, MAP = range(7)
"""Sources, in their order of fusion at one instant."""
MAX_SPEED_MPS = 100.0
_IDENTITY = np.eye(SIZE)


class Position(Struct, frozen=True, gc=False):
    """A fix in the map frame."""

    fix: GnssFix
    east_m: float
    north_m: float


class ScalarMeasurement(Struct, frozen=True, gc=False):
    """Speed or wheel angle, with its sigma."""

    t_ns: int
    value: float
    sigma: float


class Context(Struct, frozen=True):
    """Constant inputs of every update."""

    params: PlanarParams
    lever_arm_m: tuple[float, float, float]
    limits: tuple[float, float]
    """Chi-square limits for one and two degrees of freedom."""
    jump_limit: float
    """Chi-square limit for two degrees of freedom beyond which the error of GNSS has jumped."""
    reverses: bool


def fuse(
    c: Context,
    state: PlanarState,
    residual: Array,
    H: Array,
    R: Array,
    inflation: Array | None,
    limit: float | None = None,
) -> tuple[PlanarState, float, bool]:
    """Return the Kalman update in Joseph form, Sarkka 2013, Alg. 5.4. residual (m,), H (m, 15), R
    (m, m), m is 1 or 2.

    With ``inflation`` None the gate may reject the measurement; otherwise these variances (15,) are
    added first when it would. ``limit`` replaces that of the gate. The result is the state, the
    normalised innovation squared before any inflation, and True if the measurement was accepted.
    """
    P = state.P
    HP = matmul(H, P)
    inverse, determinant = _inverse(matmul(HP, H.T) + R)
    nis = float(np.sum(matmul(residual, inverse) * residual))
    gate = c.limits[len(residual) - 1]
    if isfinite(nis):
        density = -0.5 * (min(nis, gate) + log((tau ** len(residual)) * determinant))
        state = state._replace(log_likelihood=state.log_likelihood + density)
    if not nis <= (gate if limit is None else limit):
        if inflation is None or not isfinite(nis):
            return state, nis, False
        P = P + np.diag(inflation)
        HP = matmul(H, P)
        inverse, _ = _inverse(matmul(HP, H.T) + R)
    Kt = matmul(inverse, HP)
    A = _IDENTITY - matmul(Kt.T, H)
    P = matmul(matmul(A, P), A.T) + matmul(matmul(Kt.T, R), Kt)
    x = state.x + matmul(residual, Kt)
    x[YAW] = remainder(x[YAW], tau)
    _bound(x, c.reverses)
    return state._replace(x=x, P=0.5 * (P + P.T)), nis, True


def _bound(x: Array, reverses: bool) -> None:
    """Clamp the parameters to plausible values, in place."""
    if not reverses and x[V] < 0.0:
        x[V] = 0.0
    x[AUTHORITY] = min(max(x[AUTHORITY], 0.05), 100.0)
    x[FRICTION] = min(max(x[FRICTION], 0.0), 20.0)
    x[GAIN] = min(max(x[GAIN], 0.02), 2.0)
    x[OFFSET] = min(max(x[OFFSET], -0.3), 0.3)
    x[WHEEL_SCALE] = min(max(x[WHEEL_SCALE], 0.5), 2.0)


def _inverse(S: Array) -> tuple[Array, float]:
    """Return the inverse and the determinant of a covariance (1, 1) or (2, 2)."""
    if S.shape[0] == 1:
        return 1.0 / S, float(S[0, 0])
    a, b, c, d = S.ravel().tolist()
    determinant = a * d - b * c
    scale = 1.0 / determinant
    return np.array(((d * scale, -b * scale), (-c * scale, a * scale))), determinant


def _settled(state: PlanarState, source: int, t_ns: int, accepted: bool) -> PlanarState:
    """Count the gate's decision."""
    counters = state.counters
    return state._replace(
        counters=counters.accept(source, t_ns) if accepted else counters.reject(source)
    )


# -------------------------------------------------------------------- position and velocity


def error_sigma_m(fix: GnssFix) -> float:
    """Return the declared sigma per axis, or the usual one for this kind of solution."""
    return min(max(declared_sigma_m(fix), 0.05), 100.0)


def wandering(p: PlanarParams, state: PlanarState, fix: GnssFix) -> PlanarState:
    """Return the state with error states for this fix's kind of solution, reset if the kind
    changed."""
    if not is_coloured(fix):
        return (
            state
            if state.error_sigma_m == 0.0
            else state._replace(carrier=int(fix.carrier), error_sigma_m=0.0)
        )
    sigma = error_sigma_m(fix)
    if state.carrier == fix.carrier and state.error_sigma_m > 0.0:
        if state.error_sigma_m == sigma:
            return state
        # The error may already have grown by the increase of the declared sigma.
        more_m2 = max(sigma * sigma - state.error_sigma_m * state.error_sigma_m, 0.0)
        P = state.P.copy()
        P[EX, EX] += more_m2
        P[EY, EY] += more_m2
        return state._replace(P=P, error_sigma_m=sigma)
    x, P = state.x.copy(), state.P.copy()
    rate = error_frequency(p, sigma) * sigma
    for i, variance in (
        (EX, sigma * sigma),
        (EY, sigma * sigma),
        (RATE_X, rate * rate),
        (RATE_Y, rate * rate),
    ):
        x[i] = 0.0
        P[i, :] = P[:, i] = 0.0
        P[i, i] = variance
    return state._replace(x=x, P=P, carrier=int(fix.carrier), error_sigma_m=sigma)


def position(c: Context, state: PlanarState, z: Position) -> PlanarState:
    """Fuse the GNSS position of the antenna, p + R(yaw) lever + error. Residual (2,) in m, ENU; the
    vehicle is assumed level."""
    p, fix = c.params, z.fix
    state = wandering(p, state, fix)
    coloured = is_coloured(fix)
    x = state.x.tolist()
    cy, sy = cos(x[YAW]), sin(x[YAW])
    arm_x = cy * c.lever_arm_m[0] - sy * c.lever_arm_m[1]
    arm_y = sy * c.lever_arm_m[0] + cy * c.lever_arm_m[1]
    H = np.zeros((2, SIZE))
    H[0, X] = H[1, Y] = 1.0
    H[0, YAW], H[1, YAW] = -arm_y, arm_x
    dx, dy = z.east_m - x[X] - arm_x, z.north_m - x[Y] - arm_y
    inflated = np.zeros(SIZE)
    strikes = state.counters.strikes[POSITION]
    if coloured:
        H[0, EX] = H[1, EY] = 1.0
        dx -= x[EX]
        dy -= x[EY]
        white = p.error_white_sigma_m**2
        R = np.array(((white, 0.0), (0.0, white)))
        forced, limit = True, c.jump_limit
        inflated[EX], inflated[EY] = dx * dx, dy * dy
    else:
        R = horizontal_covariance(
            fix.position_covariance_m2, p.gnss_sigma_floor_m, UNKNOWN_SIGMA_M[fix.carrier]
        )
        forced, limit = strikes >= p.max_rejections, c.limits[1]
        inflated[X], inflated[Y] = dx * dx, dy * dy
    jitter = (p.timing_sigma_s * x[V]) ** 2
    R = R + jitter * np.array(((cy * cy, cy * sy), (cy * sy, sy * sy)))
    after, nis, accepted = fuse(
        c, state, np.array((dx, dy)), H, R, inflated if forced else None, limit
    )
    after = _settled(after, POSITION, fix.t_ns, accepted)
    after = after._replace(counters=replace(after.counters, nis=nis))
    if not accepted:
        return after
    if coloured:
        P = after.P.copy()
        restore_floor(
            P, (float(state.P[X, X]), float(state.P[Y, Y])), (X, Y), (EX, EY), state.error_sigma_m
        )
        after = after._replace(P=P)
    jumped = nis > c.limits[1] and not coloured
    after = after._replace(
        counters=replace(after.counters, good_fixes=0 if jumped else state.counters.good_fixes + 1)
    )
    if p.use_gnss_velocity:
        # A position that went astray did so by a wrong speed or direction.
        after = velocity(c, after, fix, forced=jumped)
    return after


def velocity(c: Context, state: PlanarState, fix: GnssFix, *, forced: bool = False) -> PlanarState:
    """Fuse the GNSS velocity of the antenna, v (cos, sin) + yaw rate x lever, m/s, if it is finite
    and plausible.

    Below ``course_min_speed_mps`` (estimated or measured) the course is noise: only the speed along
    the estimated yaw is used. ``forced``: accept it whatever the state says.
    """
    p = c.params
    ve, vn = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
    if not (abs(ve) <= MAX_SPEED_MPS and abs(vn) <= MAX_SPEED_MPS):
        return state
    R = horizontal_covariance(
        fix.velocity_covariance_m2ps2, p.gnss_velocity_sigma_floor_mps, UNKNOWN_SIGMA_MPS
    )
    x = state.x.tolist()
    cy, sy, v = cos(x[YAW]), sin(x[YAW]), x[V]
    rate, (forward, left, _) = state.yaw_rate_radps, c.lever_arm_m
    ve += rate * (sy * forward + cy * left)
    vn -= rate * (cy * forward - sy * left)
    inflated = np.zeros(SIZE)
    if abs(v) >= p.course_min_speed_mps and hypot(ve, vn) >= p.course_min_speed_mps:
        H = np.zeros((2, SIZE))
        H[0, YAW], H[1, YAW] = -v * sy, v * cy
        H[0, V], H[1, V] = cy, sy
        residual = np.array((ve - v * cy, vn - v * sy))
        error2 = float(np.sum(residual * residual))
        inflated[YAW], inflated[V] = min(error2 / (v * v), 3.0), error2
    else:
        H = np.zeros((1, SIZE))
        H[0, V] = 1.0
        along = ve * cy + vn * sy - v
        residual = np.array((along,))
        R = np.array(((cy * cy * R[0, 0] + 2.0 * cy * sy * R[0, 1] + sy * sy * R[1, 1],),))
        inflated[V] = along * along
    forced = forced or state.counters.strikes[VELOCITY] >= p.max_rejections
    after, _, accepted = fuse(c, state, residual, H, R, inflated if forced else None)
    return _settled(after, VELOCITY, fix.t_ns, accepted)


# -------------------------------------------------------------------- pose on a map


def map_pose(c: Context, state: PlanarState, z: MapPose) -> PlanarState:
    """Fuse a pose on a map. Its three values are decorrelated first, so that each has the weight of
    what the scan shows of it: along a corridor nothing. Rejections count with those of GNSS
    positions.
    """
    W = whitening(z)
    H = np.zeros((3, SIZE))
    H[:, [X, Y, YAW]] = W
    measured = np.array((z.x_m, z.y_m, z.yaw_rad))

    def residual(x: Array) -> Array:
        off = measured - x[[X, Y, YAW]]
        off[2] = remainder(off[2], tau)
        return off

    inflated = None
    if state.counters.strikes[POSITION] >= c.params.max_rejections:
        inflated = np.zeros(SIZE)
        inflated[[X, Y, YAW]] = residual(state.x) ** 2
    before = state
    after, nis, accepted = fuse(
        c, state, matmul(residual(state.x), W[:2].T), H[:2], np.eye(2), inflated
    )
    if accepted:
        after, _, accepted = fuse(
            c, after, matmul(residual(after.x), W[2:].T), H[2:], np.eye(1), inflated
        )
    if not accepted:
        after = before
    after = _settled(after, POSITION, z.t_ns, accepted)
    good = 0 if inflated is not None and accepted else state.counters.good_fixes + accepted
    return after._replace(counters=replace(after.counters, nis=nis, good_fixes=good))


# -------------------------------------------------------------------- heading, speed, steering


def heading_sigma_rad(p: PlanarParams, z: Heading) -> float:
    """Return the sigma of the white part of a heading's error."""
    sigma = z.sigma_rad if isfinite(z.sigma_rad) else p.heading_sigma_unknown_rad
    return min(max(sigma, p.heading_sigma_floor_rad), 3.0)


def misalignment_sigma_rad(p: PlanarParams, kind: int) -> float:
    """Return the initial sigma of the misalignment of this kind of heading."""
    return p.inertial_start_sigma_rad if kind == HeadingKind.INERTIAL else p.misalignment_sigma_rad


def heading(c: Context, state: PlanarState, z: Heading) -> PlanarState:
    """Fuse a measured yaw, yaw + misalignment; the residual is wrapped to +-pi."""
    p = c.params
    if state.heading_kind != z.kind:
        state = _other_heading(p, state, int(z.kind))
    residual = remainder(z.yaw_rad - state.x[YAW] - state.x[MISALIGNMENT], tau)
    H = np.zeros((1, SIZE))
    H[0, YAW] = H[0, MISALIGNMENT] = 1.0
    sigma = heading_sigma_rad(p, z)
    inflated = None
    if state.counters.strikes[HEADING] >= p.max_rejections:
        # A heading that stays off was reset, or its gyro lost a turn: inflate the drift, not the
        # yaw of the vehicle.
        inflated = np.zeros(SIZE)
        inflated[MISALIGNMENT] = residual * residual
    after, _, accepted = fuse(
        c, state, np.array((residual,)), H, np.array(((sigma * sigma,),)), inflated
    )
    return _settled(after, HEADING, z.t_ns, accepted)


def _other_heading(p: PlanarParams, state: PlanarState, kind: int) -> PlanarState:
    x, P = state.x.copy(), state.P.copy()
    x[MISALIGNMENT] = p.heading_misalignment_rad
    P[MISALIGNMENT, :] = P[:, MISALIGNMENT] = 0.0
    P[MISALIGNMENT, MISALIGNMENT] = misalignment_sigma_rad(p, kind) ** 2
    return state._replace(x=x, P=P, heading_kind=kind)


def speed(c: Context, state: PlanarState, z: ScalarMeasurement, source: int) -> PlanarState:
    """Fuse the speed of wheels or motor, speed / scale. Wheels that clearly turn end a standstill
    that the filter assumes."""
    p = c.params
    pushed = state.rest_s > p.rest_s and abs(z.value) > p.rest_speed_mps + 3.0 * z.sigma
    if pushed:
        state = state._replace(rest_s=0.0)
    scale = state.x[WHEEL_SCALE]
    expected = state.x[V] / scale
    H = np.zeros((1, SIZE))
    H[0, V], H[0, WHEEL_SCALE] = 1.0 / scale, -expected / scale
    residual = z.value - expected
    inflated = None
    if pushed or state.counters.strikes[source] >= p.max_rejections:
        inflated = np.zeros(SIZE)
        inflated[V] = residual * residual
    after, _, accepted = fuse(
        c, state, np.array((residual,)), H, np.array(((z.sigma * z.sigma,),)), inflated
    )
    return _settled(after, source, z.t_ns, accepted)


def steering(c: Context, state: PlanarState, z: ScalarMeasurement) -> PlanarState:
    """Fuse a measured wheel angle, gain x steering + offset."""
    H = np.zeros((1, SIZE))
    H[0, GAIN], H[0, OFFSET] = state.steering, 1.0
    residual = z.value - state.x[GAIN] * state.steering - state.x[OFFSET]
    inflated = None
    if state.counters.strikes[STEERING] >= c.params.max_rejections:
        inflated = np.zeros(SIZE)
        inflated[OFFSET] = residual * residual
    after, _, accepted = fuse(
        c, state, np.array((residual,)), H, np.array(((z.sigma * z.sigma,),)), inflated
    )
    return _settled(after, STEERING, z.t_ns, accepted)
