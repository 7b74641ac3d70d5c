"""Extended Kalman filter over (x, y, yaw, speed) of the rear axle: the 4-DOF filter of Unjhawala et
al. 2023, corrected.

Corrected: the Jacobian is that of the step (I + dt df/dq), measurements carry their own covariance,
angles are wrapped, speed stays >= 0 unless the drive has a reverse, actuator delays and steering
slew are modelled, process noise is a density in time, and each measurement is fused at its time of
validity (:mod:`~vehicled.estimation.timeline`). Added: gyro, GNSS velocity, antenna lever arm,
chi-square gates, alignment, and with ``model = "dynamic"`` slipping tyres.

The gyro bias is the mean rate at standstill (no throttle, no speed, for ``rest_s``). It is not a
state: while driving, a heading source or the GNSS course bounds the yaw, and ``yaw_density`` must
cover the drift of the bias since the last standstill. A heading that a gyro integrates shares that
drift, so it bounds the yaw only to ``heading_drift_sigma_rad``.
"""

from math import isfinite, sqrt
from typing import ClassVar

from msgspec import Struct

from vehicled.core.clamp import clamp
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    largest_variance,
)
from vehicled.core.vehicle import MAX_DELAY_NS, REST_MPS, Vehicle
from vehicled.estimation.alignment import initial_state
from vehicled.estimation.counters import Counted, GateCounters
from vehicled.estimation.direction import DirectionMonitor
from vehicled.estimation.dynamic_single_track import SingleTrack, single_track
from vehicled.estimation.ekf4.fusion import (
    POSITION,
    Ekf4Measurement,
    FilterState,
    fuse,
    fusion_config,
)
from vehicled.estimation.ekf4.inputs import Observable, is_possible, source_of, to_measurement
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.filter_status import MAX_GAP_NS, RESTART_FACTOR, status_of, unknown
from vehicled.estimation.four_dof import Densities, Input, lowest_speed_mps, predict
from vehicled.estimation.gyro import FUTURE_TOLERANCE_NS, YawRateGyro
from vehicled.estimation.history import CommandHistory
from vehicled.estimation.measurements import HEADING_AGE_NS, MAX_RANGE_M, enu_m
from vehicled.estimation.sliding import SlidingDetector
from vehicled.estimation.timeline import Timeline
from vehicled.paths.datum import Datum

MAX_SUBSTEP_NS = 20_000_000
MAX_PENDING = 256
MAX_SURPLUS_SHARE = 0.5
"""Bound of the drive model's estimated error, as a fraction of the acceleration at full drive."""


class ModelCommand(Struct, frozen=True, gc=False):
    """The part of an ActuatorCommand that moves the model."""

    throttle: float = 0.0
    brake: float = 0.0
    wheel_angle_rad: float = 0.0


class Ekf4(Counted):
    """Adapter of the pure functions to the :class:`~vehicled.estimation.interface.Estimator`
    protocol; ``restarts`` counts restarts."""

    Params: ClassVar[type[Ekf4Params]] = Ekf4Params

    def __init__(
        self,
        params: Ekf4Params,
        vehicle: Vehicle,
        datum: Datum,
        lever_arm_m: tuple[float, float, float],
    ) -> None:
        super().__init__()
        self._params = params
        self._datum = datum
        self._lever_arm_m = lever_arm_m
        self._noise = Densities(
            params.position_density_m,
            params.yaw_density_rad,
            params.wheel_density_rad,
            params.speed_density_mps,
            params.gnss_coloured_time_s,
        )
        self._history_ns = int(params.history_s * 1e9)
        self._profile_radius_m = vehicle.drive.wheel_radius_m
        self.adapt(vehicle)
        keep_ns = MAX_DELAY_NS + self._history_ns + MAX_GAP_NS
        self._commands: CommandHistory[ModelCommand] = CommandHistory(ModelCommand(), keep_ns)
        self._rates: CommandHistory[float] = CommandHistory(NAN, keep_ns)
        self._rate_holds = False
        self._timeline: Timeline[FilterState, Ekf4Measurement] = Timeline(
            self._predict,
            lambda filter_state, z: fuse(self._config, filter_state, z),
            keep_ns=self._history_ns,
            ahead_ns=FUTURE_TOLERANCE_NS,
        )
        self._direction = DirectionMonitor(datum, vehicle)
        self._sliding = SlidingDetector(vehicle)
        self._gyro = YawRateGyro(params.gyro_fresh_s, params.rest_s, self._inputs)
        self._pending: list[Observable] = []
        self._heading: Heading | None = None
        self._stepped_ns: int | None = None
        self._newest_input_ns = 0
        self._spread = 0.0
        """Largest ratio of a sigma to its limit, in the newest state."""

    @property
    def gyro_bias_radps(self) -> float:
        """Bias learnt at standstill, subtracted from every rate."""
        return self._gyro.bias_radps

    # ---------------------------------------------------------------- inputs

    def observe(self, message: Message) -> None:
        if isinstance(message, ImuSample):
            self._gyro.observe(message)
        elif isinstance(message, Observable):
            if not is_possible(message):
                self._inputs.ignored += 1
                return
            self._sliding.observe(message)
            if self._sliding.refuses(message):
                self._inputs.ignored += 1
                return
            self._direction.observe(message)
            if len(self._pending) >= MAX_PENDING:
                self._inputs.late += 1
            elif self._params.use_motor_speed or not isinstance(message, MotorStatus):
                self._pending.append(message)

    def command(self, command: ActuatorCommand) -> None:
        if not (
            isfinite(command.throttle)
            and isfinite(command.brake)
            and isfinite(command.wheel_angle_rad)
        ):
            self._inputs.ignored += 1
            return
        self._direction.command(command)
        lock = self._vehicle.steering.max_wheel_rad
        brake = 0.0 if self._sliding.slides(command.t_ns) else command.brake
        self._commands.append(
            command.t_ns,
            ModelCommand(
                clamp(command.throttle, -1.0, 1.0),
                clamp(brake, 0.0, 1.0),
                clamp(command.wheel_angle_rad, -lock, lock),
            ),
        )
        acts_ns = command.t_ns + min(self._drive_delay_ns, self._steering_delay_ns)
        if self._timeline.running and acts_ns < self._timeline.t_ns:
            self._timeline.changed(acts_ns)

    def adapt(self, vehicle: Vehicle) -> None:
        p = self._params
        self._vehicle = vehicle
        self._steering_delay_ns = int(vehicle.steering.delay_s * 1e9)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)
        full_mps2 = vehicle.drive.acceleration_mps2(1.0, 0.0) - vehicle.drive.acceleration_mps2(
            0.0, 0.0
        )
        self._config = fusion_config(
            p,
            self._lever_arm_m,
            lowest_speed_mps(vehicle.drive),
            vehicle.steering.max_wheel_rad,
            MAX_SURPLUS_SHARE * full_mps2,
        )
        self._track: SingleTrack | None = None
        if p.model == "dynamic":
            self._track = single_track(
                vehicle.wheelbase_m,
                p.cornering_stiffness_per_rad,
                p.understeer_rad_per_g,
                p.centre_share,
                p.inertia_share,
            )

    # ---------------------------------------------------------------- step

    def step(self, now_ns: int) -> StateEstimate:
        timeline = self._timeline
        self._take_gyro(now_ns)
        if timeline.running and now_ns - timeline.t_ns > MAX_GAP_NS:
            self._restart()
        pending = self._pending
        if pending:
            self._pending = []
            if not timeline.running:
                pending = self._align(pending, now_ns)
        if timeline.running:
            drive = self._vehicle.drive
            wheel_scale = drive.wheel_radius_m / self._profile_radius_m
            for message in pending:
                if isinstance(message, Heading):
                    self._heading = message
                z = to_measurement(self._params, drive, wheel_scale, self._datum, message)
                timeline.observe(message.t_ns, source_of(message), z)
            timeline.advance(now_ns)
            self._check()
        estimate = self._direction.judge(self._estimate(now_ns))
        if not self._direction.contradicted:
            return estimate
        self._restart()
        return self._estimate(now_ns)

    def _take_gyro(self, now_ns: int) -> None:
        """Add the mean rate since the last step to the history, or NaN once the samples stop."""
        gyro = self._gyro
        begin_ns = now_ns if self._stepped_ns is None else self._stepped_ns
        entered_ns = gyro.take(now_ns, self._standing(now_ns))
        if entered_ns is not None:
            self._rates.append(begin_ns, gyro.rate_radps(entered_ns))
            self._rate_holds = True
            if entered_ns > self._newest_input_ns:
                self._newest_input_ns = entered_ns
        if self._rate_holds and gyro.fresh_until_ns < now_ns:
            self._rates.append(max(gyro.fresh_until_ns, begin_ns), NAN)
            self._rate_holds = False
        self._stepped_ns = now_ns if now_ns > begin_ns else begin_ns

    def _standing(self, now_ns: int) -> bool:
        timeline = self._timeline
        return (
            timeline.running
            and abs(timeline.state.state.speed_mps) < REST_MPS
            and self._commands.at(now_ns - self._drive_delay_ns).throttle == 0.0
        )

    def _predict(self, filter_state: FilterState, t0_ns: int, t1_ns: int) -> FilterState:
        state = filter_state.state
        while t0_ns < t1_ns:
            left_ns = t1_ns - t0_ns
            dt_ns = left_ns if left_ns < MAX_SUBSTEP_NS else MAX_SUBSTEP_NS
            middle_ns = t0_ns + dt_ns // 2
            drive = self._commands.at(middle_ns - self._drive_delay_ns)
            steering = self._commands.at(middle_ns - self._steering_delay_ns)
            command = Input(
                drive.throttle, drive.brake, steering.wheel_angle_rad, self._rates.at(middle_ns)
            )
            state = predict(self._noise, self._vehicle, state, command, dt_ns * 1e-9, self._track)
            t0_ns += dt_ns
        return FilterState(state, filter_state.counters)

    # ---------------------------------------------------------------- start and end

    def _align(self, pending: list[Observable], now_ns: int) -> list[Observable]:
        """Start from the first fix with a heading or a course over ground. Return the measurements
        queued behind that fix."""
        for index, message in enumerate(pending):
            if not isinstance(message, Heading | GnssFix):
                continue
            if not now_ns - self._history_ns <= message.t_ns <= now_ns + FUTURE_TOLERANCE_NS:
                self._inputs.late += 1
            elif isinstance(message, Heading):
                self._heading = message
            elif self._start(message, now_ns):
                return pending[index + 1 :]
        return []

    def _start(self, fix: GnssFix, now_ns: int) -> bool:
        heading = self._heading
        if heading is not None and abs(fix.t_ns - heading.t_ns) > HEADING_AGE_NS:
            heading = None
        state = initial_state(
            self._params,
            fix,
            enu_m(self._datum, fix),
            heading,
            self._lever_arm_m,
            lowest_speed_mps(self._vehicle.drive),
            self._direction.sign(fix.t_ns) < 0,
        )
        if state is None:
            return False
        t_ns = min(fix.t_ns, now_ns)
        self._timeline.start(t_ns, FilterState(state, GateCounters(t_ns, 1, self._rejected)))
        return True

    def _restart(self) -> None:
        counters = self._timeline.state.counters
        self._rejected = counters.rejected
        self._newest_input_ns = max(self._newest_input_ns, counters.newest_ns)
        self._timeline.clear()
        self._heading = None
        self._direction.restarted()
        self.restarts += 1

    def _check(self) -> None:
        """Restart if the newest state is far out of range or far too uncertain."""
        p, state = self._params, self._timeline.state.state
        c = state.covariance
        self._spread = max(
            sqrt(largest_variance(c[0], c[1], c[5])) / p.max_position_sigma_m,
            sqrt(c[10]) / p.max_yaw_sigma_rad,
            sqrt(c[15]) / p.max_speed_sigma_mps,
        )
        far = abs(state.x_m) > 2.0 * MAX_RANGE_M or abs(state.y_m) > 2.0 * MAX_RANGE_M
        if far or not self._spread <= RESTART_FACTOR:
            self._restart()

    def _estimate(self, now_ns: int) -> StateEstimate:
        if not self._timeline.running:
            return unknown(now_ns, self._newest_input_ns, self._rejected)
        filter_state = self._timeline.state
        state, counters = filter_state.state, filter_state.counters
        status = status_of(self._spread, counters.good_fixes, self._params.align_fixes)
        newest_ns = self._newest_input_ns
        if counters.newest_ns > newest_ns:
            newest_ns = max(newest_ns, min(counters.newest_ns, self._timeline.t_ns))
        return StateEstimate(
            now_ns, newest_ns, state.x_m, state.y_m, state.yaw_rad, state.speed_mps,
            state.yaw_rate_radps, state.covariance, status, counters.nis, counters.rejected,
            counters.strikes[POSITION],
        )  # fmt: skip
