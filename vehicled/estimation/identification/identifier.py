"""Identifies the vehicle parameters while driving, beside any estimator.

Learnt parameters and their references:

- steering gain, offset, delay, dead zone: turn per distance against the command (:mod:`.steering`),
- speed response: gain of speed against throttle (:mod:`.drive`),
- wheel scale and heading misalignment: wheel distance and heading against the chord between two
  estimated positions, which depends on the position fixes and not on the speed and yaw from the
  same wheel or heading; wheel distance also against the integral of the GNSS velocity
  (:mod:`.chord`).

The turn is that of the gyro or the heading, never the estimator's own yaw rate: without a gyro that
rate is computed from the assumed steering and would confirm it. The speed is the estimator's.
"""

from math import atan, isfinite, nan, sqrt
from typing import ClassVar

from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    Identification,
    ImuSample,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.core.vehicle import MAX_DELAY_NS, REST_MPS, Vehicle
from vehicled.estimation.identification.chord import ChordFilter
from vehicled.estimation.identification.drive import DriveFilter, DriveSample
from vehicled.estimation.identification.integral import RunningIntegral, SlewedCommands
from vehicled.estimation.identification.params import IdentifierParams
from vehicled.estimation.identification.steering import SteeringBank, SteeringSample
from vehicled.estimation.identification.yaw import NEVER_NS, Turn, YawSource

MAX_SPEED_MPS = 100.0
MAX_STEP_NS = 500_000_000
"""Longest gap between estimates that is bridged."""
STANDSTILL_NS = 1_000_000_000
KEEP_NS = MAX_DELAY_NS + 2_000_000_000
LATE_S = 1.5
"""Largest age of a turn whose commands are kept, beyond the longest delay."""
MAX_CURVATURE_ANGLE_RAD = 1.2
"""A larger angle is impossible for a steered wheel: the vehicle spun, or a measurement jumped."""
MIN_RATE_PER_S = 0.5
"""Slowest slew in commands per second, so that a wrong gain does not freeze the modelled wheel."""


class SingleTrackIdentifier:
    """Adapter of the filters to the :class:`~vehicled.estimation.interface.Identifier` protocol:
    time, gating, reporting."""

    Params: ClassVar[type[IdentifierParams]] = IdentifierParams

    def __init__(self, params: IdentifierParams, vehicle: Vehicle) -> None:
        self._params = params
        self._vehicle = vehicle
        self._bank = SteeringBank(params, vehicle.steering)
        self._drive = DriveFilter(params, vehicle.drive)
        self._chord = ChordFilter(params, vehicle.drive)
        self._yaw = YawSource(params)
        self._steering_commands = SlewedCommands(self._bank.dead_zones, params.max_delay_s + LATE_S)
        self._throttle = RunningIntegral(KEEP_NS, hold=True)
        self._brake = RunningIntegral(KEEP_NS, hold=True)
        self._speed = RunningIntegral(KEEP_NS)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)
        self._window_start: tuple[int, float] | None = None
        self._standing_since_ns: int | None = None
        self._speed_sigma_mps = 0.0
        self._learnt_ns = NEVER_NS
        self._reported: Identification | None = None
        self._reported_samples = 0

    # ---------------------------------------------------------------- inputs

    def observe(self, message: Message) -> None:
        if isinstance(message, ImuSample):
            self._yaw.gyro(message)
        elif isinstance(message, Heading):
            self._yaw.heading(message)
            self._chord.heading(message)
        elif isinstance(message, GnssFix):
            self._chord.velocity(message)
        elif isinstance(message, WheelSpeed):
            self._chord.wheel(message.t_ns, message.speed_mps)
        elif isinstance(message, MotorStatus):
            self._chord.motor(message.t_ns, message.motor_speed_radps)

    def command(self, command: ActuatorCommand) -> None:
        if not (
            isfinite(command.steering) and isfinite(command.throttle) and isfinite(command.brake)
        ):
            return
        self._steering_commands.command(
            command.t_ns, min(max(command.steering, -1.0), 1.0), self._slew_per_s()
        )
        self._throttle.append(command.t_ns, min(max(command.throttle, -1.0), 1.0))
        self._brake.append(command.t_ns, min(max(command.brake, 0.0), 1.0))

    # ---------------------------------------------------------------- step

    def step(self, estimate: StateEstimate, now_ns: int) -> Identification | None:
        turn = self._yaw.take(now_ns)
        self._forget_future(now_ns)
        usable = (
            estimate.status in (EstimatorStatus.ALIGNING, EstimatorStatus.RUNNING)
            and abs(estimate.speed_mps) <= MAX_SPEED_MPS
            and isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad)
            and isfinite(estimate.covariance[0] + estimate.covariance[5] + estimate.covariance[15])
        )
        if not usable:
            self._break_off()
            return None
        newest_ns = self._speed.newest_ns
        if newest_ns is not None and estimate.t_ns - newest_ns > MAX_STEP_NS:
            self._break_off()
        self._speed.append(estimate.t_ns, estimate.speed_mps)
        self._speed_sigma_mps = sqrt(max(0.0, estimate.covariance[15]))
        self._detect_standstill(estimate, now_ns)
        if turn is not None and self._params.steering:
            self._learn_steering(turn)
        if self._params.drive:
            self._learn_drive(estimate)
        self._chord.step(estimate)
        return self._report(now_ns)

    def _forget_future(self, now_ns: int) -> None:
        """Clear histories with a stamp from the future, which would lock out later inputs."""
        limit_ns = now_ns + MAX_STEP_NS
        for history in (self._steering_commands, self._throttle, self._brake, self._speed):
            newest_ns = history.newest_ns
            if newest_ns is not None and newest_ns > limit_ns:
                history.clear()

    def _break_off(self) -> None:
        self._speed.clear()
        self._chord.break_off()
        self._window_start = None
        self._standing_since_ns = None
        self._yaw.standing = False

    def _detect_standstill(self, estimate: StateEstimate, now_ns: int) -> None:
        if abs(estimate.speed_mps) > REST_MPS or self._throttle.newest != 0.0:
            self._standing_since_ns = None
        elif self._standing_since_ns is None:
            self._standing_since_ns = now_ns
        self._yaw.standing = (
            self._standing_since_ns is not None
            and now_ns - self._standing_since_ns >= STANDSTILL_NS
        )

    # ---------------------------------------------------------------- steering

    def _learn_steering(self, turn: Turn) -> None:
        p, commands = self._params, self._steering_commands
        if not self._speed.covers(turn.start_ns):
            return
        interval_s = (turn.end_ns - turn.start_ns) * 1e-9
        distance_m = self._speed.until(turn.end_ns) - self._speed.until(turn.start_ns)
        speed = distance_m / interval_s
        rate = turn.yaw_rad / interval_s
        if abs(speed) < p.min_speed_mps or abs(speed * rate) > p.max_lateral_mps2:
            return
        commands.advance(turn.end_ns, self._slew_per_s())
        if not commands.covers(turn.start_ns - int(self._bank.delays_ns[-1])):
            return
        wheelbase_m = self._vehicle.wheelbase_m
        wheel = atan(wheelbase_m * turn.yaw_rad / distance_m)
        if abs(wheel) > MAX_CURVATURE_ANGLE_RAD:
            return
        # Noise of yaw and of speed; the latter acts in proportion to the angle.
        turned = wheelbase_m * turn.sigma_rad / distance_m
        slowed = wheel * self._speed_sigma_mps / speed
        sigma = sqrt(p.wheel_sigma_rad**2 + turned * turned + slowed * slowed)
        new_s = min(interval_s, (turn.end_ns - self._learnt_ns) * 1e-9)
        self._learnt_ns = turn.end_ns
        self._bank.update(
            SteeringSample(
                commands.mean(turn.start_ns, turn.end_ns, self._bank.delays_ns), wheel, sigma, new_s
            )
        )

    def _slew_per_s(self) -> float:
        """Return the steering slew in commands per second, with the current gain."""
        return max(self._vehicle.steering.rate_radps / self._bank.found.gain_rad, MIN_RATE_PER_S)

    # ---------------------------------------------------------------- drive

    def _learn_drive(self, estimate: StateEstimate) -> None:
        p = self._params
        speed, start = estimate.speed_mps, self._window_start
        moving = abs(speed) >= p.min_speed_mps
        if start is None or not moving or start[1] * speed < 0.0:
            self._window_start = (estimate.t_ns, speed) if moving else None
            return
        window_s = (estimate.t_ns - start[0]) * 1e-9
        if window_s < p.drive_window_s:
            return
        self._window_start = (estimate.t_ns, speed)
        begin_ns, end_ns = start[0] - self._drive_delay_ns, estimate.t_ns - self._drive_delay_ns
        if not self._throttle.covers(begin_ns):
            return
        braked_s = self._brake.until(end_ns) - self._brake.until(begin_ns)
        sense = 1.0 if speed > 0.0 else -1.0
        self._drive.update(
            DriveSample(
                speed - start[1] + sense * braked_s * self._vehicle.drive.brake_deceleration_mps2,
                self._throttle.until(end_ns) - self._throttle.until(begin_ns),
                self._speed.until(estimate.t_ns) - self._speed.until(start[0]),
                sense * window_s,
                # The brake is known less well than the motor, so its whole effect counts as
                # uncertain.
                sqrt(2.0) * p.speed_sigma_mps
                + braked_s * self._vehicle.drive.brake_deceleration_mps2,
            )
        )

    # ---------------------------------------------------------------- reporting

    def _report(self, now_ns: int) -> Identification | None:
        last = self._reported
        samples = self._bank.samples + self._drive.samples + self._chord.samples
        if samples == self._reported_samples or (
            last is not None and now_ns - last.t_ns < self._params.period_s * 1e9
        ):
            return None
        self._reported_samples = samples
        identification = self._identification(now_ns)
        if last is not None and not _changed(last, identification):
            return None
        self._reported = identification
        return identification

    def _identification(self, now_ns: int) -> Identification:
        f, bank, drive = self._bank.found, self._bank, self._drive
        scale, misalignment = self._chord.scale, self._chord.misalignment
        a, b, c = (float(value) for value in drive.mean)
        steered = bank.samples > 0
        sa, sb, sc = drive.sigma if drive.samples else (nan, nan, nan)
        return Identification(
            now_ns, f.gain_rad, f.offset_rad, f.delay_s, f.dead_zone, a, b, c, scale.mean,
            misalignment.mean, f.gain_sigma_rad if steered else nan,
            f.offset_sigma_rad if steered else nan,
            f.delay_sigma_s if steered else nan,
            f.dead_zone_sigma if steered and len(bank.dead_zones) > 1 else nan,
            sa, sb, sc,
            scale.sigma if scale.samples else nan,
            misalignment.sigma if misalignment.samples else nan,
        )  # fmt: skip


def _changed(before: Identification, after: Identification) -> bool:
    """Return True if a parameter changed enough to matter to a controller or a reader."""
    begun = isfinite(after.steering_gain_sigma_rad) and not isfinite(before.steering_gain_sigma_rad)
    begun |= isfinite(after.drive_authority_sigma_mps2) and not isfinite(
        before.drive_authority_sigma_mps2
    )
    return (
        begun
        or abs(after.steering_gain_rad - before.steering_gain_rad) > 0.01 * before.steering_gain_rad
        or abs(after.steering_offset_rad - before.steering_offset_rad) > 0.001
        or abs(after.steering_delay_s - before.steering_delay_s) > 0.01
        or abs(after.steering_dead_zone - before.steering_dead_zone) > 0.01
        or abs(after.drive_authority_mps2 - before.drive_authority_mps2)
        > 0.02 * before.drive_authority_mps2
        or abs(after.drive_damping_per_s - before.drive_damping_per_s)
        > 0.05 * before.drive_damping_per_s
        or abs(after.drive_friction_mps2 - before.drive_friction_mps2) > 0.02
        or abs(after.wheel_scale - before.wheel_scale) > 0.005
        or abs(after.heading_misalignment_rad - before.heading_misalignment_rad) > 0.005
    )
