"""Initial state of the inertial filter: levelled by the accelerometer, with the yaw of a heading, a
course or a chord.

A vehicle without a heading device starts when it moves: with the course of GNSS velocity, or, if
the receiver gives none, with the chord between fixes plus the turn that the gyro measured since.
"""

from collections import deque
from math import atan2, cos, exp, hypot, isfinite, nan, pi, sin, sqrt

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import matmul
from vehicled.core.messages import MapPose
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.estimation.ins.inertial import ZeroVelocityDetector
from vehicled.estimation.ins.measurements import Fix
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import (
    BA,
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
    cross,
    from_angles,
)
from vehicled.estimation.map_pose import covariance_of
from vehicled.estimation.measurements import HEADING_AGE_NS

CHORD_S = 10.0
"""Longest time for a chord between fixes."""
SPEED_S = 0.9
"""Shortest time over which a chord gives the speed at its end."""
ACCELERATION_MPS2 = 1.0
"""Assumed acceleration within that time."""
MAX_CHORD_TURN_RAD = 0.5
MAX_CHORD_SIGMA_RAD = 0.15
LEVEL_S = 0.05
"""Shortest standstill whose mean force gives roll and pitch: noise of 0.1 m/s2 at 100 Hz is then 5
mrad."""
COURSE_SIGMA_RAD = 0.05
"""Lower bound of the sigma of a yaw from motion: slip and the antenna's lever arm."""
UNKNOWN_SPEED_SIGMA_MPS = 0.8
STANDING_SIGMA_MPS = 0.1


class Yaw(Struct, frozen=True, gc=False):
    """An initial yaw; ``kind`` is that of the heading whose bias it shares, or -1."""

    yaw_rad: float
    sigma_rad: float
    kind: int = -1
    speed_mps: float = nan
    """Forward speed of a yaw that was seen in motion; NaN otherwise."""
    speed_sigma_mps: float = nan


class _FixPlace(Struct, frozen=True, gc=False):
    t_ns: int
    east_m: float
    north_m: float
    turned_rad: float
    variance_m2: float
    """Variance of the white error."""
    colour: int
    colour_variance_m2: float


class Aligner:
    """Collects headings and fixes for an initial yaw."""

    def __init__(self, params: InsParams) -> None:
        self._params = params
        self._uses = (params.inertial, params.magnetic, params.moving_base)
        self._headings: dict[int, tuple[int, Yaw]] = {}
        self._places: deque[_FixPlace] = deque(maxlen=512)
        self._turned_rad = 0.0

    def clear(self) -> None:
        """Forget headings and fixes."""
        self._headings.clear()
        self._places.clear()

    def turn(self, rate_radps: float, dt_s: float) -> None:
        """Integrate the gyro's yaw rate, known bias removed."""
        self._turned_rad += rate_radps * dt_s

    def heading(self, kind: int, t_ns: int, yaw_rad: float, sigma_rad: float) -> None:
        """Add a heading that may give the yaw."""
        self._headings[kind] = t_ns, Yaw(yaw_rad, sigma_rad, kind)

    def yaw(self, t_ns: int, fix: Fix, backward: bool) -> Yaw | None:
        """Return the best yaw at the time of a fix, or None."""
        yaw = self._by_heading(t_ns) or self._by_course(fix, backward)
        return yaw or self._by_chord(t_ns, fix, backward)

    def _by_heading(self, t_ns: int) -> Yaw | None:
        best: Yaw | None = None
        least = self._params.max_yaw_sigma_rad
        for heading_ns, candidate in self._headings.values():
            sigma = hypot(candidate.sigma_rad, self._uses[candidate.kind].bias_sigma_rad)
            if abs(t_ns - heading_ns) <= HEADING_AGE_NS and sigma < least:
                best, least = candidate, sigma
        return best

    def _by_course(self, fix: Fix, backward: bool) -> Yaw | None:
        ve, vn, _ = fix.velocity_mps
        speed = hypot(ve, vn)
        if not speed >= self._params.gnss.course_min_speed_mps:
            return None
        sigma = sqrt(max(fix.velocity_variance[0], fix.velocity_variance[2])) / speed
        forward = -speed if backward else speed
        return Yaw(
            _direction(ve, vn, backward), hypot(sigma, COURSE_SIGMA_RAD), -1, forward, sigma * speed
        )

    def _by_chord(self, t_ns: int, fix: Fix, backward: bool) -> Yaw | None:
        colour = max(fix.colour_variance_m2[0], fix.colour_variance_m2[1])
        white = max(fix.variance_m2[0], fix.variance_m2[2])
        places = self._places
        while places and (t_ns - places[0].t_ns > CHORD_S * 1e9 or t_ns <= places[-1].t_ns):
            if t_ns <= places[-1].t_ns:
                return None
            places.popleft()
        here = _FixPlace(t_ns, fix.east_m, fix.north_m, self._turned_rad, white, fix.colour, colour)
        best: Yaw | None = None
        turns = self._turned_rad
        count = 1
        for there in reversed(places):
            count += 1
            turns += there.turned_rad
            if abs(there.turned_rad - self._turned_rad) > MAX_CHORD_TURN_RAD:
                break
            east, north = here.east_m - there.east_m, here.north_m - there.north_m
            chord_m = hypot(east, north)
            variance = white + there.variance_m2 + self._wander_m2(there, here)
            sigma = sqrt(variance) / chord_m if chord_m > 0.0 else pi
            if sigma < MAX_CHORD_SIGMA_RAD and (best is None or sigma < best.sigma_rad):
                best = Yaw(
                    _direction(east, north, backward) + self._turned_rad - turns / count, sigma
                )
        speed = best and self._speed(here, best.yaw_rad)
        places.append(here)
        return (
            best
            and speed
            and Yaw(best.yaw_rad, hypot(best.sigma_rad, COURSE_SIGMA_RAD), -1, *speed)
        )

    def _speed(self, here: _FixPlace, yaw_rad: float) -> tuple[float, float] | None:
        """Return the forward speed over the last second and its sigma; None without a place that is
        old enough."""
        for there in reversed(self._places):
            dt_s = (here.t_ns - there.t_ns) * 1e-9
            if dt_s >= SPEED_S:
                break
        else:
            return None
        forward_m = (here.east_m - there.east_m) * cos(yaw_rad) + (
            here.north_m - there.north_m
        ) * sin(yaw_rad)
        variance = here.variance_m2 + there.variance_m2 + self._wander_m2(there, here)
        return forward_m / dt_s, hypot(sqrt(variance), 0.5 * ACCELERATION_MPS2 * dt_s * dt_s) / dt_s

    def _wander_m2(self, there: _FixPlace, here: _FixPlace) -> float:
        """Return the variance of the change of the coloured error between two places.

        One error drifts by a Gauss-Markov process; what a receiver declares beyond it comes on top.
        Fixes of two kinds have two errors, and the chord between them carries both: a jump from RTK
        to plain GNSS is no course.
        """
        shared = (
            min(there.colour_variance_m2, here.colour_variance_m2)
            if there.colour == here.colour
            else 0.0
        )
        decay = exp((there.t_ns - here.t_ns) * 1e-9 / self._params.gnss.coloured_time_s)
        return there.colour_variance_m2 + here.colour_variance_m2 - 2.0 * decay * shared


def start_on_map(pose: MapPose) -> tuple[Fix, Yaw]:
    """Return a pose on a map as a position of the rear axle and a yaw. A map is level, at the
    height of the datum."""
    R = covariance_of(pose)
    nothing = (nan, nan, nan)
    variance = float(R[0, 0]), float(R[0, 1]), float(R[1, 1])
    fix = Fix(
        pose.x_m, pose.y_m, 0.0, variance, 1.0, -1, (0.0, 0.0, 0.0), nothing, (1.0, 0.0, 1.0), 1.0
    )
    return fix, Yaw(pose.yaw_rad, sqrt(float(R[2, 2])))


def _direction(east: float, north: float, backward: bool) -> float:
    """Return the yaw of a vehicle that moves in this direction."""
    return atan2(north, east) + (pi if backward else 0.0)


def tilt(force_mps2: Triple) -> tuple[float, float]:
    """Return roll and pitch of a unit at standstill from its specific force. Groves 2013, eq.
    5.101, in REP-103 axes."""
    fx, fy, fz = force_mps2
    return atan2(fy, fz), atan2(-fx, hypot(fy, fz))


def first_state(
    params: InsParams, fix: Fix, yaw: Yaw, still: ZeroVelocityDetector, arm_m: Triple
) -> InsState:
    """Return the state of the inertial unit at the fix. ``arm_m`` points from the unit to the
    antenna. The covariance keeps the correlations of position with coloured error, attitude and
    lever arm, and of yaw with the bias of its heading."""
    imu = params.imu
    force = still.force_mps2 if still.seconds >= LEVEL_S else None
    standing = force is not None and abs(hypot(*force) - STANDARD_GRAVITY_MPS2) < 1.0
    roll, pitch = tilt(force) if force is not None and standing else (0.0, 0.0)
    variance = np.zeros(N)
    variance[[P, P + 1, P + 2]] = fix.variance_m2[0], fix.variance_m2[2], fix.up_variance_m2
    sigma_tilt = (
        imu.accelerometer_bias_sigma_mps2 / STANDARD_GRAVITY_MPS2
        if standing
        else imu.tilt_sigma_rad
    )
    variance[A : A + 2] = sigma_tilt**2
    variance[A + 2] = yaw.sigma_rad**2
    rested = still.seconds >= params.rest.after_s
    variance[BG : BG + 3] = (
        params.rest.rate_sigma_radps if rested else imu.gyro_bias_sigma_radps
    ) ** 2
    variance[BA : BA + 3] = imu.accelerometer_bias_sigma_mps2**2
    variance[C : C + 3] = fix.colour_variance_m2 if fix.colour >= 0 else 1.0
    for kind, use in enumerate((params.inertial, params.magnetic, params.moving_base)):
        variance[HB + kind] = max(use.bias_sigma_rad, 1e-6) ** 2
    variance[S] = max(params.wheel_scale_sigma, 1e-6) ** 2

    q = from_angles(roll, pitch, yaw.yaw_rad)
    state = InsState([0.0] * N, q, np.zeros((N, N)))
    ax, ay, az = apply(state.R, *arm_m)
    bias = still.rate_radps if rested else (0.0, 0.0, 0.0)
    ve, vn, vu = fix.velocity_mps
    known = isfinite(ve + vn)
    moves = isfinite(yaw.speed_mps)
    turning = apply(state.R, *cross(tuple(a - b for a, b in zip(still.rate_radps, bias)), arm_m))  # type: ignore[arg-type]
    unknown = (STANDING_SIGMA_MPS if standing else UNKNOWN_SPEED_SIGMA_MPS) ** 2
    variance[V : V + 2] = (fix.velocity_variance[0], fix.velocity_variance[2]) if known else unknown
    variance[V + 2] = fix.climb_variance if isfinite(vu) else unknown
    if moves:
        variance[V] = yaw.speed_sigma_mps**2
        variance[V + 1] = (COURSE_SIGMA_RAD * yaw.speed_mps) ** 2
    up = fix.up_m if isfinite(fix.up_m) else 0.0
    state.x[P : P + 3] = [fix.east_m - ax, fix.north_m - ay, up - az]
    if moves:
        velocity = apply(state.R, yaw.speed_mps, 0.0, 0.0)
    else:
        velocity = (ve - turning[0], vn - turning[1], 0.0) if known else (0.0, 0.0, 0.0)
    state.x[V : V + 3] = list(velocity)
    state.x[BG : BG + 3] = list(bias)

    T = np.eye(N)
    if yaw.kind >= 0:
        T[A + 2, HB + yaw.kind] = -1.0
    M = np.eye(N)
    M[P : P + 3, A : A + 3] = ((0.0, -az, ay), (az, 0.0, -ax), (-ay, ax, 0.0))
    if fix.colour >= 0:
        M[P : P + 3, C : C + 3] = -np.eye(3)
        state.colour, state.colour_variance = fix.colour, fix.colour_variance_m2
    if moves:
        # The velocity points along the yaw, so their errors are one. Taken as independent, the
        # constraint of no lateral speed would hold the velocity to a wrong yaw.
        vx, vy, vz = velocity
        M[V : V + 3, V : V + 3] = np.reshape(state.R, (3, 3))
        M[V : V + 3, A : A + 3] = ((0.0, vz, -vy), (-vz, 0.0, vx), (vy, -vx, 0.0))
    T = matmul(M, T)
    covariance = matmul(T * variance, T.T)
    state.P = 0.5 * (covariance + covariance.T)
    return state
