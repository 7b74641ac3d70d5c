"""Extended Kalman filter over (x, y, yaw, speed) of the rear axle: the 4-DOF filter of Unjhawala et al. 2023, mended.

Mended: the Jacobian is that of the step (I + dt df/dq), measurements carry their own covariance, angles are wrapped, speed stays
>= 0, actuator delays and steering slew are modelled, process noise is a density in time, and each measurement meets the pose at its
time of validity. Added: gyro, GNSS velocity, antenna lever arm, chi-square gates, alignment.

A late measurement is compared with the believed pose at its ``t_ns`` (kept for ``history_s``) and its correction is applied to the
state now, as if covariance and derivatives had not changed in between. This is exact for a constant error; what it neglects is the
correlation built up during the delay, of relative order delay x process noise / variance.

Gyro bias: the mean rate while the vehicle stands (no throttle, no speed, for ``rest_s``). It is not a state: on the road a heading
source or the GNSS course bounds the yaw, and ``yaw_density`` must cover the drift of the bias since the last stand.
"""

from math import isfinite, remainder, sqrt, tau
from typing import Any, ClassVar

from msgspec import Struct

from vehicled.estimation import measurements
from vehicled.estimation.alignment import MAX_SPEED_MPS, heading_sigma_rad, initial_state
from vehicled.estimation.ekf4_params import Ekf4Params
from vehicled.estimation.four_dof import Densities, Input, State, predict
from vehicled.estimation.gaussian import Measurement, Update, chi_square_limit, update
from vehicled.estimation.gyro import FUTURE_TOLERANCE_NS, Gyro
from vehicled.estimation.history import CommandHistory, Pose, PoseHistory
from vehicled.messages import (
    ActuatorCommand,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.paths.datum import Datum
from vehicled.vehicle import MAX_DELAY_NS, Vehicle

NAN = float("nan")
MAX_SUBSTEP_NS = 20_000_000
MAX_GAP_NS = 1_000_000_000
"""A step longer than this restarts the filter: a second without fusion is no prediction any more."""
MAX_PENDING = 256
MAX_RANGE_M = 100_000.0
REST_SPEED_MPS = 0.1
HEADING_AGE_NS = 1_000_000_000
"""Oldest heading that may start the filter."""
RESTART_FACTOR = 10.0
"""The filter starts anew when a sigma is this many times the limit of DIVERGED: linearisation has lost its meaning by then."""


class Command(Struct, frozen=True, gc=False):
    """The part of an ActuatorCommand that moves the model."""

    throttle: float = 0.0
    brake: float = 0.0
    wheel_angle_rad: float = 0.0


class Ekf4:
    """Thin adapter of the pure functions to the :class:`~vehicled.estimation.interface.Estimator` protocol: order and bookkeeping.

    ``rejected`` counts measurements refused by the gate, ``restarts`` how often the filter began anew.
    """

    Params: ClassVar[type[Ekf4Params]] = Ekf4Params

    def __init__(self, params: Ekf4Params, vehicle: Vehicle, datum: Datum, lever_arm_m: tuple[float, float, float]) -> None:
        self._params = params
        self._vehicle = vehicle
        self._datum = datum
        self._lever_arm_m = lever_arm_m
        self._noise = Densities(
            params.position_density_m, params.yaw_density_rad, params.wheel_density_rad, params.speed_density_mps
        )
        infinity = float("inf")
        self._limits = tuple(chi_square_limit(params.gate_probability, m) if params.gate else infinity for m in (1, 2))
        self._history_ns = int(params.history_s * 1e9)
        self._steering_delay_ns = int(vehicle.steering.delay_s * 1e9)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)
        keep_ns = MAX_DELAY_NS + self._history_ns + MAX_GAP_NS
        self._commands: CommandHistory[Command] = CommandHistory(Command(), keep_ns)
        self._poses = PoseHistory(self._history_ns)
        self._pending: list[GnssFix | Heading | WheelSpeed | MotorStatus | SteeringFeedback] = []
        self._state: State | None = None
        self._t_ns = 0
        self._yaw_rate_radps = 0.0
        self._heading: Heading | None = None
        self._newest_ns: dict[type[Message], int] = {}
        self._strikes: dict[str, int] = {}
        self._good_fixes = 0
        self._newest_input_ns = 0
        self._nis = NAN
        self._gyro = Gyro(params.gyro_fresh_s, params.rest_s)
        self._ignored = 0
        self._late = 0
        self.rejected = 0
        self.restarts = 0

    @property
    def ignored(self) -> int:
        """Values that were not finite or not possible."""
        return self._ignored + self._gyro.ignored

    @property
    def late(self) -> int:
        """Measurements out of order, repeated, older than the history or from the future."""
        return self._late + self._gyro.late

    @property
    def gyro_bias_radps(self) -> float:
        """Bias learnt while standing, taken off every rate."""
        return self._gyro.bias_radps

    # ---------------------------------------------------------------- inputs

    def observe(self, message: Message) -> None:
        """Queue a measurement for the next step; see :class:`~vehicled.estimation.interface.Estimator`."""
        if isinstance(message, ImuSample):
            self._gyro.observe(message)
        elif isinstance(message, GnssFix | Heading | WheelSpeed | MotorStatus | SteeringFeedback):
            if not _is_possible(message):
                self._ignored += 1
            elif len(self._pending) >= MAX_PENDING:
                self._late += 1
            else:
                self._pending.append(message)

    def command(self, command: ActuatorCommand) -> None:
        """Remember what was commanded; see :class:`~vehicled.estimation.interface.Estimator`."""
        if not (isfinite(command.throttle) and isfinite(command.brake) and isfinite(command.wheel_angle_rad)):
            self._ignored += 1
            return
        lock = self._vehicle.steering.max_wheel_rad
        self._commands.append(
            command.t_ns,
            Command(
                min(max(command.throttle, 0.0), 1.0),
                min(max(command.brake, 0.0), 1.0),
                min(max(command.wheel_angle_rad, -lock), lock),
            ),
        )

    def adapt(self, vehicle: Vehicle) -> None:
        """Predict with other parameters from now on; see :class:`~vehicled.estimation.interface.Estimator`."""
        self._vehicle = vehicle
        self._steering_delay_ns = int(vehicle.steering.delay_s * 1e9)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)

    # ---------------------------------------------------------------- step

    def step(self, now_ns: int) -> StateEstimate:
        """Predict to ``now_ns``, fuse what is pending; see :class:`~vehicled.estimation.interface.Estimator`."""
        entered_ns = self._gyro.take(now_ns, self._standing(now_ns))
        if entered_ns is not None and entered_ns > self._newest_input_ns:
            self._newest_input_ns = entered_ns
        pending = self._pending
        if self._state is not None and now_ns - self._t_ns > MAX_GAP_NS:
            self._restart()
        if self._state is None and pending:
            pending = self._align(pending, now_ns)
        if self._state is not None:
            self._advance(now_ns)
            for message in pending:
                self._fuse(message, now_ns)
            self._check()
        if self._pending:
            self._pending = []
        return self._estimate(now_ns)

    def _standing(self, now_ns: int) -> bool:
        state = self._state
        throttle = self._commands.at(now_ns - self._drive_delay_ns).throttle
        return state is not None and state.speed_mps < REST_SPEED_MPS and throttle == 0.0

    def _advance(self, now_ns: int) -> None:
        state = self._state
        assert state is not None
        while self._t_ns < now_ns:
            dt_ns = min(now_ns - self._t_ns, MAX_SUBSTEP_NS)
            middle_ns = self._t_ns + dt_ns // 2
            drive = self._commands.at(middle_ns - self._drive_delay_ns)
            steering = self._commands.at(middle_ns - self._steering_delay_ns)
            rate = self._gyro.rate_radps(self._t_ns + dt_ns)
            command = Input(drive.throttle, drive.brake, steering.wheel_angle_rad, rate)
            state, self._yaw_rate_radps = predict(self._noise, self._vehicle, state, command, dt_ns * 1e-9)
            self._t_ns += dt_ns
            self._poses.append(self._t_ns, Pose(state.x_m, state.y_m, state.yaw_rad, state.speed_mps, self._yaw_rate_radps))
        self._state = state

    # ---------------------------------------------------------------- fusion

    def _in_time(self, message: Any, now_ns: int) -> bool:
        """Whether a measurement is newer than the last of its kind, within the history and not from the future."""
        kind = type(message)
        t_ns = message.t_ns
        if now_ns - self._history_ns <= t_ns <= now_ns + FUTURE_TOLERANCE_NS and t_ns > self._newest_ns.get(kind, t_ns - 1):
            self._newest_ns[kind] = t_ns
            return True
        self._late += 1
        return False

    def _fuse(self, message: Any, now_ns: int) -> None:
        if not self._in_time(message, now_ns):
            return
        p = self._params
        pose = self._poses.at(message.t_ns)
        if pose is None:
            self._late += 1
        elif isinstance(message, GnssFix):
            self._fuse_fix(message, pose)
        elif isinstance(message, Heading):
            self._heading = message
            self._apply("heading", message.t_ns, measurements.heading(pose, message.yaw_rad, heading_sigma_rad(p, message)))
        elif isinstance(message, WheelSpeed):
            floor = p.wheel_speed_sigma_floor_mps
            sigma = max(message.sigma_mps, floor) if isfinite(message.sigma_mps) else floor
            self._apply("wheel", message.t_ns, measurements.speed(pose, message.speed_mps, min(sigma, measurements.MAX_SIGMA)))
        elif isinstance(message, MotorStatus):
            if p.use_motor_speed:
                value = self._speed_of_motor_mps(message)
                self._apply("motor", message.t_ns, measurements.speed(pose, value, p.motor_speed_sigma_mps))
        elif isinstance(message, SteeringFeedback) and self._state is not None:
            s = self._state
            lock = self._vehicle.steering.max_wheel_rad
            wheel = min(max(message.wheel_angle_rad, -lock), lock)
            self._state = State(s.x_m, s.y_m, s.yaw_rad, s.speed_mps, wheel, s.covariance)

    def _fuse_fix(self, fix: GnssFix, pose: Pose) -> None:
        p = self._params
        east, north, _ = self._enu(fix)
        sigma = measurements.UNKNOWN_SIGMA_M[fix.carrier]
        R = measurements.horizontal_covariance(fix.position_covariance_m2, p.gnss_sigma_floor_m, sigma)
        result = self._apply("position", fix.t_ns, measurements.position(pose, east, north, R, self._lever_arm_m))
        self._nis = result.nis
        if not result.accepted:
            return
        self._good_fixes += 1
        ve, vn = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
        if p.use_gnss_velocity and abs(ve) <= MAX_SPEED_MPS and abs(vn) <= MAX_SPEED_MPS:
            corrected = self._poses.at(fix.t_ns) or pose
            R = measurements.horizontal_covariance(
                fix.velocity_covariance_m2ps2, p.gnss_velocity_sigma_floor_mps, measurements.UNKNOWN_SIGMA_MPS
            )
            z = measurements.velocity(corrected, ve, vn, R, self._lever_arm_m, p.course_min_speed_mps)
            self._apply("velocity", fix.t_ns, z)

    def _apply(self, kind: str, t_ns: int, z: Measurement) -> Update:
        """Gate, correct, count; the gate keeps its patience for each ``kind`` apart."""
        state = self._state
        assert state is not None
        strikes = self._strikes.get(kind, 0)
        forced = strikes >= self._params.gate_patience
        limit = self._limits[len(z.residual) - 1]
        result = update(state.covariance, z, limit, forced)
        if not result.accepted:
            self._strikes[kind] = strikes + 1
            self.rejected = min(self.rejected + 1, 2**32 - 1)
            return result
        if result.nis > limit:
            self._good_fixes = 0
        self._strikes[kind] = 0
        self._newest_input_ns = max(self._newest_input_ns, min(t_ns, self._t_ns))
        dx, dy, dyaw, dv = result.shift
        corrected = State(
            state.x_m + dx,
            state.y_m + dy,
            remainder(state.yaw_rad + dyaw, tau),
            max(0.0, state.speed_mps + dv),
            state.wheel_rad,
            result.covariance,
        )
        self._poses.correct(self._pose_of(state), self._pose_of(corrected))
        self._state = corrected
        return result

    def _pose_of(self, state: State) -> Pose:
        return Pose(state.x_m, state.y_m, state.yaw_rad, state.speed_mps, self._yaw_rate_radps)

    # ---------------------------------------------------------------- start and end

    def _align(self, pending: list[Any], now_ns: int) -> list[Any]:
        """Start from the first fix with a heading, or with a course over ground. Returns what was queued behind that fix."""
        for index, message in enumerate(pending):
            if not isinstance(message, Heading | GnssFix) or not self._in_time(message, now_ns):
                continue
            if isinstance(message, Heading):
                self._heading = message
            elif self._start(message, now_ns):
                return pending[index + 1 :]
        return []

    def _start(self, fix: GnssFix, now_ns: int) -> bool:
        heading = self._heading
        if heading is not None and abs(fix.t_ns - heading.t_ns) > HEADING_AGE_NS:
            heading = None
        start = initial_state(self._params, fix, self._enu(fix), heading, self._lever_arm_m)
        if start is None:
            return False
        self._state = start
        self._t_ns = min(fix.t_ns, now_ns)
        self._yaw_rate_radps = 0.0
        self._poses.append(self._t_ns, self._pose_of(start))
        self._newest_input_ns = max(self._newest_input_ns, self._t_ns)
        self._good_fixes = 1
        return True

    def _restart(self) -> None:
        self._state = None
        self._poses.clear()
        self._newest_ns.clear()
        self._strikes.clear()
        self._heading = None
        self._good_fixes = 0
        self._nis = NAN
        self.restarts += 1

    def _spread(self, state: State) -> float:
        """Largest of the sigmas, each over its limit."""
        p, c = self._params, state.covariance
        return max(
            sqrt(c[0] + c[5]) / p.max_position_sigma_m, sqrt(c[10]) / p.max_yaw_sigma_rad, sqrt(c[15]) / p.max_speed_sigma_mps
        )

    def _check(self) -> None:
        state = self._state
        assert state is not None
        far = max(abs(state.x_m), abs(state.y_m)) > 2.0 * MAX_RANGE_M
        if far or not self._spread(state) <= RESTART_FACTOR:
            self._restart()

    def _estimate(self, now_ns: int) -> StateEstimate:
        state = self._state
        if state is None:
            nothing = (NAN,) * 16
            return StateEstimate(
                now_ns, self._newest_input_ns, NAN, NAN, NAN, NAN, NAN, nothing, EstimatorStatus.UNINITIALISED, NAN, self.rejected
            )
        if self._spread(state) > 1.0:
            status = EstimatorStatus.DIVERGED
        elif self._good_fixes < self._params.align_fixes:
            status = EstimatorStatus.ALIGNING
        else:
            status = EstimatorStatus.RUNNING
        return StateEstimate(
            now_ns, self._newest_input_ns, state.x_m, state.y_m, state.yaw_rad, state.speed_mps, self._yaw_rate_radps,
            state.covariance, status, self._nis, self.rejected,
        )  # fmt: skip

    # ---------------------------------------------------------------- small conversions

    def _enu(self, fix: GnssFix) -> tuple[float, float, float]:
        height = fix.height_m if isfinite(fix.height_m) else self._datum.height_m
        return self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, height)

    def _speed_of_motor_mps(self, status: MotorStatus) -> float:
        drive = self._vehicle.drive
        return status.motor_speed_radps * drive.gear_ratio * drive.wheel_radius_m


def _is_possible(message: GnssFix | Heading | WheelSpeed | MotorStatus | SteeringFeedback) -> bool:
    """Whether the values that a message exists for are finite and within physical bounds."""
    match message:
        case GnssFix():
            return (
                message.fix_type >= FixType.FIX_2D
                and abs(message.latitude_rad) <= 0.25 * tau
                and abs(message.longitude_rad) <= tau
                and not abs(message.height_m) > MAX_RANGE_M
            )
        case Heading():
            return abs(message.yaw_rad) <= 1e3
        case WheelSpeed():
            return abs(message.speed_mps) <= MAX_SPEED_MPS
        case MotorStatus():
            return abs(message.motor_speed_radps) <= 1e5
        case _:
            return abs(message.wheel_angle_rad) <= tau
