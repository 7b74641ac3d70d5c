"""Planar filter over the rear axle that also estimates errors of its sensors and parameters of its
vehicle.

An extended Kalman filter of 15 states, see :mod:`vehicled.estimation.planar.state`. Differences to
:class:`~vehicled.estimation.ekf4.estimator.Ekf4`: the error of a GNSS position without fixed
carrier phase is a state, so that a hundred fixes with one common error do not count as independent;
drive and friction are states, so that the speed is known without a wheel sensor and through an
outage; the heading may be misaligned or drift; steering gain and offset are states where the yaw
depends on them.

Late measurements are fused at their time of validity by
:class:`~vehicled.estimation.timeline.Timeline`.
"""

from math import isfinite, sqrt
from typing import ClassVar

import numpy as np
from msgspec import structs

from vehicled.core.clamp import clamp
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    GnssFix,
    Heading,
    ImuSample,
    MapMatch,
    MapPose,
    Message,
    MotorStatus,
    StateEstimate,
    SteeringFeedback,
    WheelSpeed,
    largest_variance,
)
from vehicled.core.vehicle import MAX_DELAY_NS, Vehicle
from vehicled.estimation.counters import Counted
from vehicled.estimation.direction import DirectionMonitor
from vehicled.estimation.filter_status import MAX_GAP_NS, RESTART_FACTOR, status_of, unknown
from vehicled.estimation.gaussian import chi_square_limit
from vehicled.estimation.history import CommandHistory
from vehicled.estimation.map_pose import is_usable
from vehicled.estimation.measurements import MAX_RANGE_M, MAX_SIGMA, enu_m, is_possible_fix
from vehicled.estimation.planar import start as planar_start
from vehicled.estimation.planar import update as planar_update
from vehicled.estimation.planar.inputs import GyroHistory, MotionCommand
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import (
    SIZE,
    YAW,
    Inputs,
    PlanarState,
    V,
    X,
    Y,
    predict,
    substeps,
)
from vehicled.estimation.planar.update import Context, Position, ScalarMeasurement
from vehicled.estimation.sliding import SlidingDetector
from vehicled.estimation.timeline import Timeline
from vehicled.paths.datum import Datum

AHEAD_NS = 10_000_000
"""A stamp up to this far ahead is an error of the device clock's mapping and counts as now."""
MAX_QUEUE = 256

Measured = Position | Heading | MapPose | ScalarMeasurement
OBSERVED = np.array([SIZE * i + j for i in (X, Y, YAW, V) for j in (X, Y, YAW, V)])
"""Places of the estimated state's covariance in that of the filter, row by row."""


class Planar(Counted):
    """Adapter of the pure functions to the :class:`~vehicled.estimation.interface.Estimator`
    protocol; ``restarts`` counts restarts."""

    Params: ClassVar[type[PlanarParams]] = PlanarParams

    def __init__(
        self,
        params: PlanarParams,
        vehicle: Vehicle,
        datum: Datum,
        lever_arm_m: tuple[float, float, float],
    ) -> None:
        super().__init__()
        self._params = params
        self._vehicle = vehicle
        self._datum = datum
        infinity = float("inf")
        limits = tuple(
            chi_square_limit(params.gate_probability, m) if params.gate else infinity
            for m in (1, 2)
        )
        jump_limit = chi_square_limit(params.error_jump_probability, 2) if params.gate else infinity
        self._context = Context(
            params,
            lever_arm_m,
            (limits[0], limits[1]),
            jump_limit,
            vehicle.drive.reverse_share > 0.0,
        )
        history_ns = int(params.history_s * 1e9)
        self._commands: CommandHistory[MotionCommand] = CommandHistory(
            MotionCommand(), MAX_DELAY_NS + history_ns + MAX_GAP_NS
        )
        self._driven = False
        self._gyro = GyroHistory(
            history_ns + MAX_GAP_NS, int(params.gyro_fresh_s * 1e9), self._inputs
        )
        self._timeline: Timeline[PlanarState, tuple[int, Measured]] = Timeline(
            self._predict, self._update, keep_ns=history_ns, ahead_ns=AHEAD_NS
        )
        self._queue: list[tuple[int, Measured]] = []
        self._direction = DirectionMonitor(datum, vehicle)
        self._sliding = SlidingDetector(vehicle)
        self._start = planar_start.Start(params, lever_arm_m)
        self._newest_input_ns = 0
        self._spread = 0.0
        """Largest ratio of a sigma to its limit, of the newest state."""

    @property
    def state(self) -> PlanarState | None:
        """Full state, None before alignment. Its arrays must not be written to."""
        return self._timeline.state if self._timeline.running else None

    # ---------------------------------------------------------------- inputs

    def observe(self, message: Message) -> None:
        if isinstance(message, ImuSample):
            self._gyro.append(message)
            return
        item = self._item(message)
        if item is None:
            return
        self._sliding.observe(message)
        if self._sliding.refuses(message):
            self._inputs.ignored += 1
            return
        self._direction.observe(message)
        if len(self._queue) >= MAX_QUEUE:
            self._inputs.late += 1
        else:
            self._queue.append(item)

    def command(self, command: ActuatorCommand) -> None:
        if not (
            isfinite(command.throttle) and isfinite(command.brake) and isfinite(command.steering)
        ):
            self._inputs.ignored += 1
            return
        self._driven = True
        self._direction.command(command)
        self._commands.append(
            command.t_ns,
            MotionCommand(
                clamp(command.throttle, -1.0, 1.0),
                clamp(command.brake, 0.0, 1.0),
                clamp(command.steering, -1.0, 1.0),
            ),
        )

    def adapt(self, vehicle: Vehicle) -> None:
        """Predict with this steering from now on, but keep the first drive. Its authority and
        friction are states that fit one damping only, and a damping learnt from the speeds of this
        filter would feed the filter its own estimate.
        """
        self._vehicle = structs.replace(vehicle, drive=self._vehicle.drive)
        c = self._context
        self._context = Context(
            c.params, c.lever_arm_m, c.limits, c.jump_limit, vehicle.drive.reverse_share > 0.0
        )

    def _item(self, message: Message) -> tuple[int, Measured] | None:
        """Return source and measurement, or None if the message is unused or implausible
        (counted)."""
        p = self._params
        item: tuple[int, Measured] | None = None
        if isinstance(message, GnssFix):
            if is_possible_fix(message):
                east, north, _ = enu_m(self._datum, message)
                if max(abs(east), abs(north)) <= MAX_RANGE_M:
                    item = planar_update.POSITION, Position(message, east, north)
        elif isinstance(message, Heading):
            if abs(message.yaw_rad) <= 1e3:
                item = planar_update.HEADING, message
        elif isinstance(message, MapPose):
            if message.outcome is not MapMatch.MATCHED:
                return None
            if is_usable(message):
                item = planar_update.MAP, message
        elif isinstance(message, WheelSpeed):
            item = self._speed(
                message.t_ns,
                planar_update.WHEEL,
                message.speed_mps,
                message.sigma_mps,
                p.wheel_speed_sigma_floor_mps,
            )
        elif isinstance(message, MotorStatus):
            if not p.use_motor_speed:
                return None
            drive = self._vehicle.drive
            value = message.motor_speed_radps * drive.gear_ratio * drive.wheel_radius_m
            item = self._speed(
                message.t_ns, planar_update.MOTOR, value, NAN, p.motor_speed_sigma_mps
            )
        elif isinstance(message, SteeringFeedback):
            if abs(message.wheel_angle_rad) <= 1.5:
                sigma = _sigma(message.sigma_rad, 0.01)
                item = (
                    planar_update.STEERING,
                    ScalarMeasurement(message.t_ns, message.wheel_angle_rad, sigma),
                )
        else:
            return None
        if item is None:
            self._inputs.ignored += 1
        return item

    @staticmethod
    def _speed(
        t_ns: int, source: int, value: float, sigma: float, floor: float
    ) -> tuple[int, Measured] | None:
        return (
            (source, ScalarMeasurement(t_ns, value, _sigma(sigma, floor)))
            if abs(value) <= planar_update.MAX_SPEED_MPS
            else None
        )

    # ---------------------------------------------------------------- step

    def step(self, now_ns: int) -> StateEstimate:
        timeline = self._timeline
        gyro_ns = self._gyro.drop_after(now_ns + AHEAD_NS)
        if timeline.running and now_ns - timeline.t_ns > MAX_GAP_NS:
            self._restart()
        queue, self._queue = self._queue, []
        if not timeline.running:
            queue = self._align(queue, now_ns)
        if timeline.running:
            for source, z in queue:
                timeline.observe(_stamp(z), source, (source, z))
            state = timeline.advance(now_ns)
            self._rejected = state.counters.rejected
            newest_ns = max(state.counters.newest_ns, gyro_ns)
            if newest_ns > now_ns:
                newest_ns = now_ns
            if newest_ns > self._newest_input_ns:
                self._newest_input_ns = newest_ns
            if not self._is_valid(state):
                self._restart()
        estimate = self._direction.judge(self._estimate(now_ns))
        if not self._direction.contradicted:
            return estimate
        self._restart()
        return self._estimate(now_ns)

    def _predict(self, state: PlanarState, t0_ns: int, t1_ns: int) -> PlanarState:
        vehicle, commands_at = self._vehicle, self._commands.at
        steering = vehicle.steering
        drive_ns, steering_ns = int(vehicle.drive.delay_s * 1e9), int(steering.delay_s * 1e9)
        rate = self._gyro.mean_radps(t0_ns, t1_ns)
        parts = substeps(t0_ns, t1_ns)
        for part in range(parts):
            begin_ns = t0_ns + (t1_ns - t0_ns) * part // parts
            end_ns = t0_ns + (t1_ns - t0_ns) * (part + 1) // parts
            middle_ns = (begin_ns + end_ns) // 2
            drive = commands_at(middle_ns - drive_ns)
            target = commands_at(middle_ns - steering_ns).steering
            steer = (steering.wheel_angle_rad(target) - steering.offset_rad) / steering.gain_rad
            driven = self._driven and not self._sliding.slides(middle_ns)
            inputs = Inputs(driven, drive.throttle, drive.brake, steer, rate)
            state = predict(self._params, vehicle, state, inputs, (end_ns - begin_ns) * 1e-9)
        return state

    def _update(self, state: PlanarState, item: tuple[int, Measured]) -> PlanarState:
        source, z = item
        if isinstance(z, Position):
            return planar_update.position(self._context, state, z)
        if isinstance(z, Heading):
            return planar_update.heading(self._context, state, z)
        if isinstance(z, MapPose):
            return planar_update.map_pose(self._context, state, z)
        if source == planar_update.STEERING:
            return planar_update.steering(self._context, state, z)
        return planar_update.speed(self._context, state, z, source)

    # ---------------------------------------------------------------- start and end

    def _align(self, queue: list[tuple[int, Measured]], now_ns: int) -> list[tuple[int, Measured]]:
        """Try to start from the queue. Return the measurements left for fusion."""
        for index, (_, z) in enumerate(queue):
            if not now_ns - MAX_GAP_NS <= _stamp(z) <= now_ns + AHEAD_NS:
                self._inputs.late += 1
            elif isinstance(z, Heading):
                self._start.heading = z
            elif isinstance(z, MapPose):
                t_ns = min(z.t_ns, now_ns)
                self._timeline.start(t_ns, self._start.on_map(z, self._vehicle, self._rejected))
                return [
                    (source, later) for source, later in queue[index + 1 :] if _stamp(later) > t_ns
                ]
            elif isinstance(z, Position):
                state = self._start.attempt(
                    z, self._vehicle, self._rejected, self._direction.sign(z.fix.t_ns) < 0
                )
                if state is not None:
                    t_ns = min(z.fix.t_ns, now_ns)
                    self._timeline.start(t_ns, state)
                    return [
                        (source, later)
                        for source, later in queue[index + 1 :]
                        if _stamp(later) > t_ns
                    ]
        return []

    def _restart(self) -> None:
        self._timeline.clear()
        self._start.clear()
        self._direction.restarted()
        self.restarts += 1

    def _is_valid(self, state: PlanarState) -> bool:
        p, x = self._params, state.x.tolist()
        variances = state.P.diagonal().tolist()
        if not (
            isfinite(sum(x))
            and isfinite(float(np.add.reduce(state.P, None)))
            and min(variances) > 0.0
        ):
            return False
        self._spread = max(
            sqrt(largest_variance(variances[X], state.P.item(X, Y), variances[Y]))
            / p.max_position_sigma_m,
            sqrt(variances[YAW]) / p.max_yaw_sigma_rad,
            sqrt(variances[V]) / p.max_speed_sigma_mps,
        )
        far = (
            max(abs(x[X]), abs(x[Y])) > 2.0 * MAX_RANGE_M
            or abs(x[V]) > 2.0 * planar_update.MAX_SPEED_MPS
        )
        return not far and self._spread <= RESTART_FACTOR

    def _estimate(self, now_ns: int) -> StateEstimate:
        if not self._timeline.running:
            return unknown(now_ns, self._newest_input_ns, self._rejected)
        state = self._timeline.state
        status = status_of(self._spread, state.counters.good_fixes, self._params.align_fixes)
        x = state.x.tolist()
        covariance = tuple(state.P.take(OBSERVED).tolist())
        return StateEstimate(
            now_ns,
            self._newest_input_ns,
            x[X],
            x[Y],
            x[YAW],
            x[V],
            state.yaw_rate_radps,
            covariance,
            status,
            state.counters.nis,
            state.counters.rejected,
            state.counters.strikes[planar_update.POSITION],
        )


def _stamp(z: Measured) -> int:
    return z.fix.t_ns if isinstance(z, Position) else z.t_ns


def _sigma(declared: float, floor: float) -> float:
    return min(max(declared, floor), MAX_SIGMA) if isfinite(declared) else floor
