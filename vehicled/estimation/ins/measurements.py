"""Measurement models of the inertial filter: residual, derivative and noise of each kind, passed to
the corrector.

The derivatives follow from ``R_true = exp([phi]x) R``: a body vector b is ``R b - [R b]x phi`` in
ENU, an ENU vector v is ``R'v + R'(v x phi)`` in body axes.
"""

from math import inf, isfinite, remainder, sqrt, tau

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.arrays import Array, matmul
from vehicled.core.messages import CarrierSolution, GnssFix, Heading, MapPose
from vehicled.estimation.coloured_error import FLOOR_RATIO, restore_floor
from vehicled.estimation.ins.params import HeadingUse, InsParams
from vehicled.estimation.ins.state import (
    BG,
    HB,
    A,
    C,
    InsState,
    N,
    P,
    S,
    Triple,
    V,
    apply,
    apply_inverse,
    cross,
    yaw_of,
)
from vehicled.estimation.ins.update import Corrector
from vehicled.estimation.map_pose import whitening
from vehicled.estimation.measurements import is_coloured

POSITION, HEIGHT, VELOCITY, CLIMB, HEADING, WHEEL, MOTOR, CONSTRAINT = 0, 1, 2, 3, 4, 7, 8, 9
"""Gates; HEADING reserves one number for each kind."""
UNKNOWN_SIGMA_M = {
    CarrierSolution.NONE: 2.0,
    CarrierSolution.FLOAT: 0.4,
    CarrierSolution.FIXED: 0.03,
}
"""Assumed horizontal position sigma per axis where the receiver gives none; usual values."""
UNKNOWN_SIGMA_MPS = 0.2
VERTICAL_RATIO = 1.7
"""Assumed ratio of vertical to horizontal sigma: all satellites are above the antenna."""
MAX_SIGMA = 1e3
MAX_SPEED_MPS = 100.0
LEVEL_SIGMA_RAD = 0.05
"""Assumed slope of the ground without an accelerometer."""


class Fix(Struct, frozen=True, gc=False):
    """A prepared GNSS fix: antenna in ENU, with variances. NaN marks unknown or unused values."""

    east_m: float
    north_m: float
    up_m: float
    variance_m2: Triple
    """Variance east, covariance, variance north; of the white part if the error is coloured."""
    up_variance_m2: float
    colour: int
    """Carrier solution of a coloured error, else -1."""
    colour_variance_m2: Triple
    velocity_mps: Triple
    velocity_variance: Triple
    climb_variance: float


def horizontal(covariance: tuple[float, ...], floor: float, unknown: float) -> Triple:
    """Return east variance, covariance and north variance of a row-major (9,) ENU covariance, made
    positive definite.

    Sigmas are clamped between ``floor`` and MAX_SIGMA and the correlation to +-0.95; ``unknown``
    (sigma) replaces variances that are not finite or not positive.
    """
    ee, en, nn = covariance[0], covariance[1], covariance[4]
    if not (0.0 < ee < inf and 0.0 < nn < inf):
        variance = max(unknown, floor) ** 2
        return (variance, 0.0, variance)
    least, most = floor * floor, MAX_SIGMA * MAX_SIGMA
    ee, nn = min(max(ee, least), most), min(max(nn, least), most)
    bound = 0.95 * (ee * nn) ** 0.5
    return (ee, min(max(en, -bound), bound) if isfinite(en) else 0.0, nn)


def vertical(covariance: tuple[float, ...], floor: float, unknown: float) -> float:
    """Return the up variance of a row-major (9,) ENU covariance, likewise."""
    uu = covariance[8]
    sigma = uu**0.5 if 0.0 < uu < inf else unknown * VERTICAL_RATIO
    return min(max(sigma, floor * VERTICAL_RATIO), MAX_SIGMA) ** 2


def prepare(params: InsParams, fix: GnssFix, enu_m: Triple) -> Fix:
    """Split the declared error into white and coloured parts, and apply floors and masks."""
    use = params.gnss
    unknown = UNKNOWN_SIGMA_M[fix.carrier]
    spread = horizontal(fix.position_covariance_m2, use.sigma_floor_m, unknown)
    up = vertical(fix.position_covariance_m2, use.sigma_floor_m, unknown)
    colour, colour_variance = -1, (0.0, 0.0, 0.0)
    if use.coloured and is_coloured(fix):
        white = use.white_sigma_m**2
        colour = int(fix.carrier)
        colour_variance = (
            max(spread[0] - white, white),
            max(spread[2] - white, white),
            max(up - white, white),
        )
        spread, up = (white, 0.0, white), white
    ve, vn, vu = fix.velocity_enu_mps
    moved = use.use_velocity and abs(ve) <= MAX_SPEED_MPS and abs(vn) <= MAX_SPEED_MPS
    climbs = moved and use.use_vertical_velocity and abs(vu) <= MAX_SPEED_MPS
    nan = float("nan")
    return Fix(
        enu_m[0],
        enu_m[1],
        enu_m[2] if use.use_height and isfinite(fix.height_m) else nan,
        spread,
        up,
        colour,
        colour_variance,
        (ve if moved else nan, vn if moved else nan, vu if climbs else nan),
        horizontal(fix.velocity_covariance_m2ps2, use.velocity_sigma_floor_mps, UNKNOWN_SIGMA_MPS),
        vertical(fix.velocity_covariance_m2ps2, use.velocity_sigma_floor_mps, UNKNOWN_SIGMA_MPS),
    )


def heading_sigma(use: HeadingUse, heading: Heading) -> float:
    """Return the sigma of a heading's white error: its own, not below the floor, or the assumed one
    if it has none."""
    sigma = (
        heading.sigma_rad
        if isfinite(heading.sigma_rad) and heading.sigma_rad > 0.0
        else use.sigma_unknown_rad
    )
    return min(max(sigma, use.sigma_floor_rad), MAX_SIGMA)


class Sensors:
    """Measurement models with preallocated derivatives, of which only the changing entries are
    written.

    All methods change the given state in place; those with a gate return True if the measurement
    was accepted.
    """

    def __init__(self, params: InsParams, antenna_m: Triple) -> None:
        """``antenna_m`` points from the rear axle to the GNSS antenna."""
        self._params = params
        imu = params.imu_lever_arm_m
        self._imu_m: Triple = (imu[0], imu[1], imu[2])
        self._arm_m: Triple = (antenna_m[0] - imu[0], antenna_m[1] - imu[1], antenna_m[2] - imu[2])
        self._corrector = Corrector(params.max_rejections)
        gate = params.gate
        self._pose_limit = params.gnss.pose_rejection_threshold**2 if gate else inf
        self._twist_limit = params.gnss.twist_rejection_threshold**2 if gate else inf
        self._uses = (params.inertial, params.magnetic, params.moving_base)
        self._yaw_limits = [use.rejection_threshold**2 if gate else inf for use in self._uses]
        self._speed_limits = [
            use.rejection_threshold**2 if gate else inf
            for use in (params.wheel_speed, params.motor_speed)
        ]
        self._position, self._velocity = np.zeros((2, N)), np.zeros((2, N))
        self._height, self._climb = np.zeros(N), np.zeros(N)
        for row in (0, 1):
            self._position[row, P + row] = self._velocity[row, V + row] = 1.0
        self._height[P + 2] = self._climb[V + 2] = 1.0
        self._yaw = np.zeros(N)
        self._speed = np.zeros(N)
        self._slide = np.zeros((2, N))
        # The derivative of the rear axle's velocity in body axes by the gyro bias is l x e_i.
        ix, iy, iz = self._imu_m
        self._slide[0, BG : BG + 3] = (-iz, 0.0, ix)
        self._slide[1, BG : BG + 3] = (iy, -ix, 0.0)
        self._units = np.eye(N)
        self._standing = np.eye(N)[V : V + 2].copy()

    # ---------------------------------------------------------------- GNSS

    def fix(self, s: InsState, z: Fix) -> bool:
        """Fuse position, height, velocity and vertical velocity of the antenna, each with its own
        gate."""
        if z.colour >= 0:
            recolour(s, z)
        accepted = self._params.gnss.use_position and self._place(s, z)
        ve, vn, vu = z.velocity_mps
        if ve == ve:
            accepted = self._move(s, ve, vn, vu, z) or accepted
        return accepted

    def _place(self, s: InsState, z: Fix) -> bool:
        ax, ay, az = apply(s.R, *self._arm_m)
        H, h, x = self._position, self._height, s.x
        H[0, 7], H[0, 8], H[1, 6], H[1, 8] = az, -ay, -az, ax
        coloured = 1.0 if z.colour >= 0 else 0.0
        H[0, C] = H[1, C + 1] = h[C + 2] = coloured
        east = z.east_m - x[0] - ax - coloured * x[15]
        north = z.north_m - x[1] - ay - coloured * x[16]
        before = float(s.P[0, 0]), float(s.P[1, 1])
        nis, accepted = self._corrector.pair(
            s, H, east, north, z.variance_m2, self._pose_limit, POSITION, ((0,), (1,))
        )
        if accepted and z.colour >= 0:
            restore_floor(s.P, before, (P, P + 1), (C, C + 1), sqrt(max(z.colour_variance_m2[:2])))
        elif accepted and self._params.gnss.coloured:
            # A fixed solution also has a slow error, of millimetres to a centimetre.
            for axis, variance in enumerate((z.variance_m2[0], z.variance_m2[2])):
                s.P[axis, axis] = max(
                    float(s.P[axis, axis]), min(before[axis], FLOOR_RATIO * FLOOR_RATIO * variance)
                )
        s.counters = replace(s.counters, nis=nis, good_fixes=s.counters.good_fixes + accepted)
        if z.up_m == z.up_m:
            h[6], h[7] = ay, -ax
            up = z.up_m - s.x[2] - az - coloured * s.x[17]
            self._corrector.scalar(s, h, up, z.up_variance_m2, self._pose_limit, HEIGHT, (2,))
        return accepted

    def _move(self, s: InsState, ve: float, vn: float, vu: float, z: Fix) -> bool:
        lx, ly, lz = apply(s.R, *cross(s.rate_radps, self._arm_m))
        H, x = self._velocity, s.x
        H[0, 7], H[0, 8], H[1, 6], H[1, 8] = lz, -ly, -lz, lx
        r1, r2 = ve - x[3] - lx, vn - x[4] - ly
        _, accepted = self._corrector.pair(
            s, H, r1, r2, z.velocity_variance, self._twist_limit, VELOCITY, ((3,), (4,))
        )
        if vu == vu:
            h = self._climb
            h[6], h[7] = ly, -lx
            self._corrector.scalar(
                s, h, vu - s.x[5] - lz, z.climb_variance, self._twist_limit, CLIMB, (5,)
            )
        return accepted

    # ---------------------------------------------------------------- pose on a map

    def map_pose(self, s: InsState, z: MapPose) -> bool:
        """Fuse a pose of the rear axle on a map, whose three values are decorrelated first. The map
        is level, at height 0."""
        W = whitening(z)
        r1, r2, _ = matmul(self._off_map(s, z), W.T).tolist()
        H = matmul(W, self._on_map(s))
        doubt = ((0, A + 2), (1, A + 2))
        nis, accepted = self._corrector.pair(
            s, H[:2], r1, r2, (1.0, 0.0, 1.0), self._pose_limit, POSITION, doubt
        )
        if accepted:
            # The third value alone does not decide: the pair has passed the gate.
            H = matmul(W, self._on_map(s))
            r3 = float(matmul(self._off_map(s, z), W.T)[2])
            self._corrector.scalar(s, H[2], r3, 1.0, inf, CONSTRAINT, ())
            _, _, lz = apply(s.R, *self._imu_m)
            self._corrector.scalar(s, self._units[P + 2], lz - s.x[2], 1.0, inf, CONSTRAINT, ())
        s.counters = replace(s.counters, nis=nis, good_fixes=s.counters.good_fixes + accepted)
        return accepted

    def _off_map(self, s: InsState, z: MapPose) -> Array:
        lx, ly, _ = apply(s.R, *self._imu_m)
        return np.array(
            (z.x_m - s.x[0] + lx, z.y_m - s.x[1] + ly, remainder(z.yaw_rad - yaw_of(s.R), tau))
        )

    def _on_map(self, s: InsState) -> Array:
        """Return the derivative (3, N) of the rear axle's place and yaw."""
        R = s.R
        lx, ly, lz = apply(R, *self._imu_m)
        H = np.zeros((3, N))
        H[0, 0] = H[1, 1] = 1.0
        H[0, 7], H[0, 8], H[1, 6], H[1, 8] = -lz, ly, lz, -lx
        flat = max(R[0] * R[0] + R[3] * R[3], 1e-6)
        H[2, 6], H[2, 7], H[2, 8] = -R[0] * R[6] / flat, -R[3] * R[6] / flat, 1.0
        return H

    # ---------------------------------------------------------------- heading and speed

    def heading(self, s: InsState, kind: int, yaw_rad: float, sigma_rad: float) -> bool:
        """Fuse a yaw with the bias of its kind. Repeated rejection inflates a drifting bias, but
        for two antennas the yaw."""
        h, R = self._yaw, s.R
        flat = max(R[0] * R[0] + R[3] * R[3], 1e-6)
        h[6], h[7], h[8] = -R[0] * R[6] / flat, -R[3] * R[6] / flat, 1.0
        h[HB : HB + 3] = 0.0
        h[HB + kind] = 1.0
        residual = remainder(yaw_rad - yaw_of(R) - s.x[HB + kind], tau)
        doubt = (A + 2,) if kind == 2 else (HB + kind,)
        variance = sigma_rad * sigma_rad
        return self._corrector.scalar(
            s, h, residual, variance, self._yaw_limits[kind], HEADING + kind, doubt
        )[1]

    def body_velocity(self, s: InsState) -> Triple:
        """Return the velocity of the rear axle in body axes."""
        x = s.x
        b = apply_inverse(s.R, x[3], x[4], x[5])
        l = cross(s.rate_radps, self._imu_m)  # noqa: E741
        return (b[0] - l[0], b[1] - l[1], b[2] - l[2])

    def speed(self, s: InsState, motor: bool, speed_mps: float, sigma_mps: float) -> bool:
        """Fuse the forward speed of wheel or motor, measured = (1 - scale error) speed."""
        h, R = self._speed, s.R
        ahead = self.body_velocity(s)[0]
        k = 1.0 - s.x[S]
        _body_row(h, (R[0], R[3], R[6]), s.x)
        h[V : V + 3] *= k
        h[A : A + 3] *= k
        h[BG + 1], h[BG + 2] = k * self._imu_m[2], -k * self._imu_m[1]
        h[S] = -ahead
        gate = MOTOR if motor else WHEEL
        limit = self._speed_limits[motor]
        return self._corrector.scalar(
            s, h, speed_mps - k * ahead, sigma_mps * sigma_mps, limit, gate, (3, 4)
        )[1]

    # ---------------------------------------------------------------- constraints

    def constrain(self, s: InsState) -> None:
        """Apply the non-holonomic constraints of the rear axle (Dissanayake et al. 2001); their
        sigma grows with speed and side force."""
        use = self._params.constraints
        ahead, left, up = self.body_velocity(s)
        R = s.R
        side = abs(ahead * s.rate_radps[2])
        lateral = use.lateral_sigma_mps + abs(ahead) * (
            use.lateral_per_speed + use.lateral_per_force * side
        )
        H = self._slide
        if use.use_lateral:
            _body_row(H[0], (R[1], R[4], R[7]), s.x)
        if use.use_vertical:
            _body_row(H[1], (R[2], R[5], R[8]), s.x)
        if use.use_lateral and use.use_vertical:
            spread = (lateral * lateral, 0.0, use.vertical_sigma_mps**2)
            self._corrector.pair(s, H, -left, -up, spread, inf, CONSTRAINT, ((), ()))
        elif use.use_lateral:
            self._corrector.scalar(s, H[0], -left, lateral * lateral, inf, CONSTRAINT, ())
        elif use.use_vertical:
            self._corrector.scalar(s, H[1], -up, use.vertical_sigma_mps**2, inf, CONSTRAINT, ())

    def stand(self, s: InsState, gyro: bool) -> None:
        """Apply the zero-velocity update, and with a gyro the zero-rate update, which measures its
        bias."""
        use, correct, units = self._params.rest, self._corrector, self._units
        if use.use_zero_velocity:
            variance = use.velocity_sigma_mps**2
            correct.pair(
                s,
                self._standing,
                -s.x[3],
                -s.x[4],
                (variance, 0.0, variance),
                inf,
                CONSTRAINT,
                ((), ()),
            )
            correct.scalar(s, units[V + 2], -s.x[5], variance, inf, CONSTRAINT, ())
        if use.use_zero_rate and gyro:
            variance = use.rate_sigma_radps**2
            before = s.x[BG : BG + 3]
            for axis in range(3):
                # The predicted rate had the bias of that time removed.
                residual = s.rate_radps[axis] + before[axis] - s.x[BG + axis]
                correct.scalar(s, units[BG + axis], residual, variance, inf, CONSTRAINT, ())

    def level(self, s: InsState) -> None:
        """Assume level ground, for a vehicle without accelerometer."""
        variance = LEVEL_SIGMA_RAD**2
        self._corrector.scalar(s, self._units[A], s.R[5], variance, inf, CONSTRAINT, ())
        self._corrector.scalar(s, self._units[A + 1], -s.R[2], variance, inf, CONSTRAINT, ())


def recolour(s: InsState, z: Fix) -> None:
    """Set the variance of the coloured states to the declared one. Another kind of solution has
    another error, so its states are marginalised and reset."""
    if s.colour != z.colour:
        block = slice(C, C + 3)
        s.P[block, :] = 0.0
        s.P[:, block] = 0.0
        s.P[block, block] = np.diag(z.colour_variance_m2)
        s.x = [*s.x[:C], 0.0, 0.0, 0.0, *s.x[C + 3 :]]
        s.colour = z.colour
    else:
        # The error may already have grown by the increase of the declared variance.
        for axis, (new, old) in enumerate(zip(z.colour_variance_m2, s.colour_variance)):
            s.P[C + axis, C + axis] += max(new - old, 0.0)
    s.colour_variance = z.colour_variance_m2


def _body_row(h: Array, axis: Triple, x: list[float]) -> None:
    """Write the derivative of the velocity along a body axis (given in ENU) by velocity and
    attitude."""
    ax, ay, az = axis
    vx, vy, vz = x[3], x[4], x[5]
    h[3], h[4], h[5] = ax, ay, az
    h[6], h[7], h[8] = ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
