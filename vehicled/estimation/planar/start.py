"""Initial state of the planar filter from a fix and a heading, a course over ground, or a distance
driven."""

from math import atan2, cos, hypot, pi, remainder, sin, sqrt, tau

import numpy as np

from vehicled.core.arrays import matmul
from vehicled.core.messages import CarrierSolution, GnssFix, Heading, MapPose
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.map_pose import covariance_of
from vehicled.estimation.measurements import (
    HEADING_AGE_NS,
    UNKNOWN_SIGMA_M,
    UNKNOWN_SIGMA_MPS,
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
    GYRO_BIAS,
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
from vehicled.estimation.planar.update import (
    MAX_SPEED_MPS,
    Position,
    error_sigma_m,
    heading_sigma_rad,
    misalignment_sigma_rad,
)

MAX_CHORD_NS = 20_000_000_000
"""Longest time for the chord between two fixes; in a longer time plain GNSS drifts as far."""
CHORD_SIGMAS = 5.0
"""Shortest chord, in sigmas, whose direction is used as a yaw."""
MIN_CHORD_M = 1.0
UNKNOWN_SPEED_SIGMA_MPS = 0.5


class Start:
    """Collects measurements until they suffice for an initial state."""

    def __init__(self, params: PlanarParams, lever_arm_m: tuple[float, float, float]) -> None:
        self._params = params
        self._lever_arm_m = lever_arm_m
        self._first: Position | None = None
        self.heading: Heading | None = None

    def clear(self) -> None:
        """Forget the collected measurements."""
        self._first = None
        self.heading = None

    def attempt(
        self, z: Position, vehicle: Vehicle, rejected: int, backward: bool = False
    ) -> PlanarState | None:
        """Return the state at this fix, or None without a yaw.

        The yaw is a heading of about the same time, else the direction of the fix's velocity, else
        that of the chord since an earlier fix; the latter two are reversed if the vehicle is driven
        ``backward``.
        """
        p = self._params
        heading = self.heading
        if heading is not None and abs(z.fix.t_ns - heading.t_ns) <= HEADING_AGE_NS:
            sigma = heading_sigma_rad(p, heading)
            yaw = heading.yaw_rad - p.heading_misalignment_rad
            return self._state(z, vehicle, rejected, yaw, sigma * sigma, heading)
        course = self._course(z.fix)
        if course is None:
            course = self._chord(z)
        if course is None:
            return None
        state = self._state(
            z, vehicle, rejected, course[0] + (pi if backward else 0.0), course[1], None
        )
        if backward:
            state.x[V] = -state.x[V] if vehicle.drive.reverse_share > 0.0 else 0.0
        return state

    def on_map(self, z: MapPose, vehicle: Vehicle, rejected: int) -> PlanarState:
        """Return the state at a pose on a map, which holds place and yaw."""
        p = self._params
        x, P = np.zeros(SIZE), np.zeros((SIZE, SIZE))
        x[X], x[Y], x[YAW] = z.x_m, z.y_m, remainder(z.yaw_rad, tau)
        P[np.ix_((X, Y, YAW), (X, Y, YAW))] = covariance_of(z)
        P[EX, EX] = P[EY, EY] = P[RATE_X, RATE_X] = P[RATE_Y, RATE_Y] = 1.0
        x[MISALIGNMENT] = p.heading_misalignment_rad
        P[MISALIGNMENT, MISALIGNMENT] = misalignment_sigma_rad(p, -1) ** 2
        P[V, V] = UNKNOWN_SPEED_SIGMA_MPS**2
        self._parameters(x, P, vehicle)
        return PlanarState(
            x=x, P=P, steering=0.0, throttle=0.0, yaw_rate_radps=0.0, rest_s=0.0, error_sigma_m=0.0,
            carrier=int(CarrierSolution.NONE), heading_kind=-1,
            counters=GateCounters(z.t_ns, 1, rejected),
        )  # fmt: skip

    def _course(self, fix: GnssFix) -> tuple[float, float] | None:
        """Return yaw and variance from the velocity of a moving antenna."""
        speed = hypot(fix.velocity_enu_mps[0], fix.velocity_enu_mps[1])
        if not self._params.course_min_speed_mps <= speed <= MAX_SPEED_MPS:
            return None
        R = self._velocity_covariance(fix)
        return atan2(fix.velocity_enu_mps[1], fix.velocity_enu_mps[0]), float(R[0, 0] + R[1, 1]) / (
            speed * speed
        )

    def _chord(self, z: Position) -> tuple[float, float] | None:
        """Return yaw and variance from the chord between two fixes. Only the change of a correlated
        error between them counts."""
        first = self._first
        if (
            first is None
            or not 0 <= z.fix.t_ns - first.fix.t_ns <= MAX_CHORD_NS
            or first.fix.carrier != z.fix.carrier
        ):
            self._first = z
            return None
        dx, dy = z.east_m - first.east_m, z.north_m - first.north_m
        chord_m = hypot(dx, dy)
        sigma = error_sigma_m(z.fix)
        if is_coloured(z.fix):
            sigma = min(
                sigma, self._params.error_walk_m * sqrt(0.5e-9 * (z.fix.t_ns - first.fix.t_ns))
            )
        sigma = sqrt(2.0) * max(sigma, self._params.gnss_sigma_floor_m)
        if chord_m < max(MIN_CHORD_M, CHORD_SIGMAS * sigma):
            return None
        return atan2(dy, dx), (sigma / chord_m) ** 2 + 0.01

    def _velocity_covariance(self, fix: GnssFix) -> np.ndarray:
        return horizontal_covariance(
            fix.velocity_covariance_m2ps2,
            self._params.gnss_velocity_sigma_floor_mps,
            UNKNOWN_SIGMA_MPS,
        )

    def _state(
        self,
        z: Position,
        vehicle: Vehicle,
        rejected: int,
        yaw: float,
        yaw_variance: float,
        heading: Heading | None,
    ) -> PlanarState:
        p, fix = self._params, z.fix
        x, P = np.zeros(SIZE), np.zeros((SIZE, SIZE))
        forward, left = self._lever_arm_m[0], self._lever_arm_m[1]
        x[YAW] = remainder(yaw, tau)
        arm_x, arm_y = cos(yaw) * forward - sin(yaw) * left, sin(yaw) * forward + cos(yaw) * left
        x[X], x[Y] = z.east_m - arm_x, z.north_m - arm_y

        R = horizontal_covariance(
            fix.position_covariance_m2, p.gnss_sigma_floor_m, UNKNOWN_SIGMA_M[CarrierSolution.FIXED]
        )
        sigma = 0.0
        if is_coloured(fix):
            sigma = error_sigma_m(fix)
            R = np.eye(2) * p.error_white_sigma_m**2
            # A fix measures only the sum of position and correlated error.
            variance = (p.error_at_start * sigma) ** 2 + 1e-8
            for at, e, rate in ((X, EX, RATE_X), (Y, EY, RATE_Y)):
                P[e, e] = variance
                P[at, at] = variance
                P[at, e] = P[e, at] = -variance
                P[rate, rate] = variance * error_frequency(p, sigma) ** 2 + 1e-8
        else:
            P[EX, EX] = P[EY, EY] = P[RATE_X, RATE_X] = P[RATE_Y, RATE_Y] = 1.0
        P[np.ix_((X, Y), (X, Y))] += R

        # A heading measures the sum of yaw and misalignment; the lever arm turns with the yaw.
        misalignment = misalignment_sigma_rad(p, -1 if heading is None else int(heading.kind)) ** 2
        x[MISALIGNMENT] = p.heading_misalignment_rad
        P[MISALIGNMENT, MISALIGNMENT] = misalignment
        G = np.zeros((SIZE, 2))
        G[YAW, 0] = 1.0
        G[X, 0], G[Y, 0] = arm_y, -arm_x
        S = np.array(((yaw_variance, 0.0), (0.0, 0.0)))
        if heading is not None:
            S[0, 0] += misalignment
            G[MISALIGNMENT, 1] = 1.0
            S[0, 1] = S[1, 0] = -misalignment
        P += matmul(matmul(G, S), G.T)

        speed = hypot(fix.velocity_enu_mps[0], fix.velocity_enu_mps[1])
        if speed <= MAX_SPEED_MPS:
            C = self._velocity_covariance(fix)
            x[V] = speed if speed >= p.course_min_speed_mps else 0.0
            P[V, V] = float(C[0, 0] + C[1, 1])
        else:
            P[V, V] = UNKNOWN_SPEED_SIGMA_MPS**2
        self._parameters(x, P, vehicle)
        return PlanarState(
            x=x, P=0.5 * (P + P.T), steering=0.0, throttle=0.0, yaw_rate_radps=0.0, rest_s=0.0,
            error_sigma_m=sigma, carrier=int(fix.carrier),
            heading_kind=-1 if heading is None else int(heading.kind),
            counters=GateCounters(fix.t_ns, 1, rejected),
        )  # fmt: skip

    def _parameters(self, x: np.ndarray, P: np.ndarray, vehicle: Vehicle) -> None:
        """Set the vehicle parameters and their variances."""
        p, drive, steering = self._params, vehicle.drive, vehicle.steering
        per_nm = drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2
        x[AUTHORITY] = p.authority_scale * drive.stall_torque_nm * per_nm
        x[FRICTION] = drive.friction_nm * per_nm + p.friction_extra_mps2
        x[GAIN], x[OFFSET], x[WHEEL_SCALE] = steering.gain_rad, steering.offset_rad, 1.0
        P[AUTHORITY, AUTHORITY] = (p.authority_spread * x[AUTHORITY]) ** 2
        P[FRICTION, FRICTION] = p.friction_spread_mps2**2
        P[GAIN, GAIN] = (p.gain_spread * x[GAIN]) ** 2
        P[OFFSET, OFFSET] = p.offset_spread_rad**2
        P[WHEEL_SCALE, WHEEL_SCALE] = p.wheel_scale_sigma**2
        P[GYRO_BIAS, GYRO_BIAS] = p.gyro_bias_sigma_radps**2
