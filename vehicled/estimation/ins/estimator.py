"""Inertial navigation aided by GNSS: an error-state filter of 22 states, see
:mod:`vehicled.estimation.ins.state`.

The filter runs on the clock of the inertial unit: each step mechanises up to its newest sample, and
the estimate is extrapolated over the remaining milliseconds with the last rates. Measurements are
fused at their time of validity by :class:`~vehicled.estimation.timeline.Timeline`; one that is
newer than the newest sample waits for the next step.

Without accelerometer the velocity turns with the body and is a random walk; without any inertial
unit the body turns as the single-track model does. This bridges a lost sensor. For a vehicle
without an inertial unit a planar filter is better.
"""

from math import cos, isfinite, sqrt
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from vehicled.core.arrays import matmul
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    MapPose,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
    largest_variance,
)
from vehicled.core.vehicle import MAX_DELAY_NS, Vehicle
from vehicled.estimation.counters import Counted, GateCounters
from vehicled.estimation.direction import DirectionMonitor
from vehicled.estimation.filter_status import MAX_GAP_NS, RESTART_FACTOR, status_of, unknown
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory
from vehicled.estimation.ins.alignment import Aligner, first_state, start_on_map
from vehicled.estimation.ins.inertial import FUTURE_TOLERANCE_NS, Queue, ZeroVelocityDetector
from vehicled.estimation.ins.measurements import POSITION, Sensors
from vehicled.estimation.ins.mechanisation import NOTHING, InertialInputs, Predictor, mechanise
from vehicled.estimation.ins.messages import (
    HEADING,
    MOTOR,
    WHEEL,
    PendingMeasurement,
    measured,
    wanted,
)
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import InsState, N, Triple, apply, apply_inverse, cross, yaw_of
from vehicled.estimation.measurements import MAX_RANGE_M
from vehicled.estimation.sliding import SlidingDetector
from vehicled.estimation.timeline import Timeline
from vehicled.paths.datum import Datum

MAX_SUBSTEP_NS = 20_000_000
MAX_QUEUE = 512
UNSMOOTHED_NS = 20_000_000
"""History without ``smooth_lagged_data``: enough for measurements of the current step."""
NEUTRAL = ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0)


class Ins(Counted):
    """Adapter of the filter to the :class:`~vehicled.estimation.interface.Estimator` protocol;
    ``restarts`` counts restarts."""

    Params: ClassVar[type[InsParams]] = InsParams

    def __init__(
        self,
        params: InsParams,
        vehicle: Vehicle,
        datum: Datum,
        lever_arm_m: tuple[float, float, float],
    ) -> None:
        super().__init__()
        self._params = params
        self._datum = datum
        imu = params.imu_lever_arm_m
        self._least_upright = cos(params.max_tilt_rad)
        self._metres_per_rad = vehicle.drive.gear_ratio * vehicle.drive.wheel_radius_m
        self._imu_m: Triple = (imu[0], imu[1], imu[2])
        self._arm_m: Triple = (
            lever_arm_m[0] - imu[0],
            lever_arm_m[1] - imu[1],
            lever_arm_m[2] - imu[2],
        )
        self._sensors = Sensors(params, lever_arm_m)
        self._predictor = Predictor(params, vehicle.wheelbase_m)
        self._history_ns = (
            int(params.history_length_s * 1e9) if params.smooth_lagged_data else UNSMOOTHED_NS
        )
        self._grid_ns = int(1e9 / params.constraints.rate_hz)
        self._timeline: Timeline[InsState, PendingMeasurement] = Timeline(
            self._predict, self._update, keep_ns=self._history_ns, capacity=2048
        )
        keep_ns = self._history_ns + 2 * MAX_GAP_NS
        self._drives: CommandHistory[InertialInputs] = CommandHistory(NOTHING, keep_ns)
        self._commands: CommandHistory[ActuatorCommand] = CommandHistory(
            NEUTRAL, keep_ns + MAX_DELAY_NS
        )
        self._inertial = Queue(params.sensor_timeout_s, self._inputs)
        self._zero_velocity = ZeroVelocityDetector(params.rest)
        self._aligner = Aligner(params)
        uses = zip(HeadingKind, (params.inertial, params.magnetic, params.moving_base))
        kinds = frozenset(
            kind
            for kind, use in uses
            if use.use_yaw and use.bias_sigma_rad < params.max_yaw_sigma_rad
        )
        self._direction = DirectionMonitor(datum, vehicle, kinds)
        self._sliding = SlidingDetector(vehicle)
        self._waiting: list[PendingMeasurement] = []
        self._last_drive = NOTHING
        self._wheel_rad = 0.0
        self._step_ns: int | None = None
        self._newest_ns = 0
        self._rows = np.zeros((4, N))
        self._rows[0, 0] = self._rows[1, 1] = 1.0
        self.adapt(vehicle)

    @property
    def state(self) -> InsState | None:
        """State at the newest inertial sample; None before alignment."""
        return self._timeline.state if self._timeline.running else None

    # ---------------------------------------------------------------- inputs

    def observe(self, message: Message) -> None:
        if isinstance(message, ImuSample):
            self._inertial.observe(message)
        elif isinstance(message, GnssFix | Heading | MapPose | WheelSpeed | MotorStatus):
            if not wanted(self._params, message):
                return
            z = measured(self._params, self._metres_per_rad, self._datum, message)
            if z is not None:
                self._sliding.observe(message)
            if z is None or self._sliding.refuses(message):
                self._inputs.ignored += 1
            elif len(self._waiting) >= MAX_QUEUE:
                self._inputs.late += 1
            else:
                self._waiting.append(z)
                self._direction.observe(message)

    def command(self, command: ActuatorCommand) -> None:
        if isfinite(command.throttle) and isfinite(command.wheel_angle_rad):
            self._commands.append(command.t_ns, command)
            self._direction.command(command)
        else:
            self._inputs.ignored += 1

    def adapt(self, vehicle: Vehicle) -> None:
        """Predict with other parameters from now on; see
        :class:`~vehicled.estimation.interface.Estimator`. The filter uses the steering without a
        gyro and the drive's delay. It keeps the first wheel radius, because it estimates the scale
        of the wheels itself and would correct them twice."""
        self._vehicle = vehicle
        self._predictor.wheelbase_m = vehicle.wheelbase_m
        self._steering_delay_ns = int(vehicle.steering.delay_s * 1e9)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)

    # ---------------------------------------------------------------- step

    def step(self, now_ns: int) -> StateEstimate:
        timeline = self._timeline
        if timeline.running and now_ns - timeline.t_ns > MAX_GAP_NS:
            self._restart()
        since_ns = (
            timeline.t_ns
            if timeline.running
            else self._step_ns
            if self._step_ns is not None
            else now_ns - MAX_GAP_NS
        )
        known_ns = self._drive(since_ns, now_ns)
        self._waiting = [z for z in self._waiting if self._is_due(z, now_ns)]
        if not timeline.running:
            self._align(known_ns)
        if timeline.running:
            waiting = self._waiting
            if waiting:
                self._waiting = [z for z in waiting if z.t_ns > known_ns]
                for z in waiting:
                    if z.t_ns <= known_ns:
                        timeline.observe(z.t_ns, z.source, z)
            timeline.advance(known_ns)
        estimate = self._direction.judge(self._estimate(now_ns))
        if not self._direction.contradicted:
            return estimate
        self._restart()
        return self._estimate(now_ns)

    def _drive(self, since_ns: int, now_ns: int) -> int:
        """Record the inputs from ``since_ns`` on, and return the time up to which they are
        known."""
        end_ns, force, rate = self._inertial.take(since_ns, now_ns)
        known_ns = max(since_ns, now_ns if end_ns is None else end_ns)
        running = self._timeline.running
        if known_ns > since_ns:
            dt_s = min((known_ns - since_ns) * 1e-9, 1.0)
            steering = self._vehicle.steering
            target = self._commands.at(known_ns - self._steering_delay_ns).wheel_angle_rad
            lock = steering.max_wheel_rad
            self._wheel_rad = slew(
                self._wheel_rad, min(max(target, -lock), lock), steering.rate_radps * dt_s, lock
            )
            if not running:
                self._aligner.turn(
                    rate[2] - self._zero_velocity.rate_radps[2] if rate is not None else 0.0, dt_s
                )
            drive = InertialInputs(
                force, rate, self._standstill(known_ns, force, rate), self._wheel_rad
            )
            self._last_drive = drive
            if running:
                self._drives.append(since_ns, drive)
            if rate is not None:
                self._newest_ns = max(self._newest_ns, known_ns)
        self._step_ns = known_ns
        return known_ns

    def _standstill(self, t_ns: int, force: Triple | None, rate: Triple | None) -> bool:
        state = self.state
        throttle = self._commands.at(t_ns - self._drive_delay_ns).throttle
        speed, bias = 0.0, (0.0, 0.0, 0.0)
        if state is not None:
            x = state.x
            speed = sqrt(x[3] * x[3] + x[4] * x[4])
            bias = (x[9], x[10], x[11])
        quiet = (
            throttle == 0.0
            and speed < self._params.rest.max_speed_mps
            and not self._sliding.slides(t_ns)
        )
        return self._zero_velocity.update(t_ns, force, rate, bias, quiet) and state is not None

    def _is_due(self, z: PendingMeasurement, now_ns: int) -> bool:
        if z.t_ns <= now_ns + FUTURE_TOLERANCE_NS:
            return True
        self._inputs.late += 1
        return False

    # ------------------------------------------------------------ the two functions of the timeline

    def _predict(self, state: InsState, t0_ns: int, t1_ns: int) -> InsState:
        drive = self._drives.at(t0_ns)
        t_ns = t0_ns
        while t_ns < t1_ns:
            dt_ns = min(t1_ns - t_ns, MAX_SUBSTEP_NS)
            state = self._predictor.predict(state, drive, dt_ns * 1e-9)
            t_ns += dt_ns
        if t1_ns // self._grid_ns != t0_ns // self._grid_ns:
            # Rounding in the prediction breaks the symmetry; restoring it here is cheap.
            state.P = 0.5 * (state.P + state.P.T)
            if drive.still:
                self._sensors.stand(state, drive.rate_radps is not None)
            else:
                self._sensors.constrain(state)
            if drive.force_mps2 is None:
                self._sensors.level(state)
        return state

    def _update(self, state: InsState, z: PendingMeasurement) -> InsState:
        state = state.copy()
        if z.fix is not None:
            accepted = self._sensors.fix(state, z.fix)
        elif z.pose is not None:
            accepted = self._sensors.map_pose(state, z.pose)
        elif z.source < WHEEL:
            accepted = self._sensors.heading(state, z.source - HEADING, z.value, z.sigma)
        else:
            accepted = self._sensors.speed(state, z.source == MOTOR, z.value, z.sigma)
        if accepted:
            state.counters = replace(
                state.counters, newest_ns=max(state.counters.newest_ns, z.t_ns)
            )
        return state

    # ---------------------------------------------------------------- start and end

    def _align(self, known_ns: int) -> None:
        """Start from the first fix with a yaw; measurements queued behind it remain."""
        waiting, self._waiting = sorted(self._waiting, key=lambda z: (z.t_ns, -z.source)), []
        for index, z in enumerate(waiting):
            if z.t_ns > known_ns:
                self._waiting.append(z)
            elif z.t_ns < known_ns - self._history_ns:
                self._inputs.late += 1
            elif z.fix is not None:
                backward = self._direction.sign(z.t_ns) < 0
                yaw = self._aligner.yaw(z.t_ns, z.fix, backward)
                if yaw is not None and max(abs(z.fix.east_m), abs(z.fix.north_m)) <= MAX_RANGE_M:
                    self._start(
                        z,
                        first_state(self._params, z.fix, yaw, self._zero_velocity, self._arm_m),
                        known_ns,
                    )
                    self._waiting += waiting[index + 1 :]
                    return
            elif z.pose is not None:
                rear_axle_m = (-self._imu_m[0], -self._imu_m[1], -self._imu_m[2])
                fix, yaw = start_on_map(z.pose)
                self._start(
                    z,
                    first_state(self._params, fix, yaw, self._zero_velocity, rear_axle_m),
                    known_ns,
                )
                self._waiting += waiting[index + 1 :]
                return
            elif HEADING <= z.source < WHEEL:
                self._aligner.heading(z.source - HEADING, z.t_ns, z.value, z.sigma)

    def _start(self, z: PendingMeasurement, state: InsState, known_ns: int) -> None:
        state.counters = GateCounters(z.t_ns, 1, self._rejected)
        self._drives.clear(self._last_drive)
        self._timeline.start(z.t_ns, state)

    def _restart(self) -> None:
        if self._timeline.running:
            self._rejected = self._timeline.state.counters.rejected
        self._timeline.clear()
        self._drives.clear(NOTHING)
        self._zero_velocity.reset()
        self._aligner.clear()
        self._direction.restarted()
        self.restarts += 1

    # ---------------------------------------------------------------- output

    def _estimate(self, now_ns: int) -> StateEstimate:
        timeline = self._timeline
        if timeline.running:
            state = timeline.state
            counters = state.counters
            covariance = self._covariance(state)
            p = self._params
            spread = max(
                sqrt(max(largest_variance(covariance[0], covariance[1], covariance[5]), 0.0))
                / p.max_position_sigma_m,
                sqrt(max(covariance[10], 0.0)) / p.max_yaw_sigma_rad,
                sqrt(max(covariance[15], 0.0)) / p.max_speed_sigma_mps,
            )
            x, y, yaw, speed, yaw_rate = self._pose(state, (now_ns - timeline.t_ns) * 1e-9)
            far = max(abs(x), abs(y)) > 2.0 * MAX_RANGE_M
            if isfinite(x + y + yaw + speed + yaw_rate) and spread <= RESTART_FACTOR and not far:
                status = status_of(spread, counters.good_fixes, p.align_fixes)
                if state.R[8] < self._least_upright:
                    status = EstimatorStatus.DIVERGED
                newest_ns = max(self._newest_ns, counters.newest_ns)
                return StateEstimate(
                    now_ns, newest_ns, x, y, yaw, speed, yaw_rate, covariance, status, counters.nis,
                    counters.rejected, counters.strikes[POSITION],
                )  # fmt: skip
            self._restart()
        return unknown(now_ns, self._newest_ns, self._rejected)

    def _pose(self, s: InsState, ahead_s: float) -> tuple[float, float, float, float, float]:
        """Return position, yaw, speed and yaw rate of the rear axle, extrapolated by ``ahead_s``
        with the last force and rate."""
        rate = s.rate_radps
        R = s.R
        p, v = (s.x[0], s.x[1], s.x[2]), (s.x[3], s.x[4], s.x[5])
        if ahead_s > 0.0:
            force = s.force_mps2 if self._last_drive.force_mps2 is not None else None
            p, v, _, R, _ = mechanise(
                s.x, s.q, R, force, rate, min(ahead_s, self._params.sensor_timeout_s)
            )
        lx, ly, _ = apply(R, *self._imu_m)
        ahead = apply_inverse(R, *v)[0] - cross(rate, self._imu_m)[0]
        yaw_rate = R[6] * rate[0] + R[7] * rate[1] + R[8] * rate[2]
        return p[0] - lx, p[1] - ly, yaw_of(R), ahead, yaw_rate

    def _covariance(self, s: InsState) -> tuple[float, ...]:
        """Return the covariance (16,) of position, yaw and speed of the rear axle, from that of the
        inertial unit."""
        J, R, x = self._rows, s.R, s.x
        lx, ly, lz = apply(R, *self._imu_m)
        J[0, 7], J[0, 8], J[1, 6], J[1, 8] = -lz, ly, lz, -lx
        flat = max(R[0] * R[0] + R[3] * R[3], 1e-6)
        J[2, 6], J[2, 7], J[2, 8] = -R[0] * R[6] / flat, -R[3] * R[6] / flat, 1.0
        ax, ay, az = R[0], R[3], R[6]
        vx, vy, vz = x[3], x[4], x[5]
        J[3, 3:9] = ax, ay, az, ay * vz - az * vy, az * vx - ax * vz, ax * vy - ay * vx
        J[3, 10], J[3, 11] = self._imu_m[2], -self._imu_m[1]
        a, b, c, d = matmul(matmul(J, s.P), J.T).tolist()
        return (
            a[0], a[1], a[2], a[3],
            a[1], b[1], b[2], b[3],
            a[2], b[2], c[2], c[3],
            a[3], b[3], c[3], d[3],
        )  # fmt: skip
