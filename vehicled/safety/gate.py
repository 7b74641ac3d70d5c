"""The command gate: the last pure function before the actuators, outside every controller.

It brakes instead of a command that is not finite and clips values that are out of range. It keeps
the longitudinal and lateral limits of acceleration and jerk. It reverses the drive only at a crawl,
carries out the reaction in force, and converts the wheel angle to the actuator's command.

While the speed is not measured the throttle is limited to what the model of the drive needs to hold
the speed: a prediction of the speed by that very model cannot show that the drive is stronger, and
a controller would add throttle until it is measured again.

It adds no delay: every command leaves in the tick in which it came, clipped if necessary. Less
throttle and more brake always pass at once, so no limit delays a stop.
"""

from collections.abc import Mapping
from math import inf, isfinite

from vehicled.core.clamp import clamp
from vehicled.core.messages import ActuatorCommand, ControlCommand, Mode, Reaction
from vehicled.core.vehicle import Drive, Limits, Vehicle
from vehicled.safety.modes import MOVING

CLIPPED_STEERING = 1
CLIPPED_THROTTLE = 2
CLIPPED_BRAKE = 4
NOT_FINITE = 8
CLIPPED_STEERING_RATE = 16
CLIPPED_ACCELERATION = 32
CLIPPED_JERK = 64

KINDS: Mapping[int, str] = {
    CLIPPED_STEERING: "steering",
    CLIPPED_THROTTLE: "throttle",
    CLIPPED_BRAKE: "brake",
    NOT_FINITE: "not finite",
    CLIPPED_STEERING_RATE: "steering rate",
    CLIPPED_ACCELERATION: "acceleration",
    CLIPPED_JERK: "jerk",
}
"""Names of the bits of ``ActuatorCommand.clipped``."""

CONTROLLED_STOP_BRAKE = 0.5
"""Brake command of a controlled stop, 0..1."""

CRAWL_MPS = 0.15
"""Speed above which the gate brakes before it reverses the drive, m/s; it lies above the estimate's
error at standstill."""

BEYOND_SHARE = 0.25
"""Fraction of the speed limit over which throttle fades to zero above it; a hard cut would amplify
the noise of the speed."""

LONGEST_STEP_S = 0.1
"""Longest time between two commands that the rate limits count, s."""

SLOW_MPS = 0.1
"""Speed below which lateral limits do not apply, m/s."""


class Gate:
    """The command gate. It keeps the last throttle and wheel angle, so that a stop holds the wheel
    instead of straightening it."""

    def __init__(self, vehicle: Vehicle, limits: Limits) -> None:
        self._vehicle = vehicle
        self._limits = limits
        self._wheel_angle_rad = 0.0
        self._throttle = 0.0
        self._before_ns: int | None = None
        self.clipped_total = 0
        """Number of commands that were clipped or replaced since start."""
        self.clipped_by_kind = dict.fromkeys(KINDS.values(), 0)
        """Number of clipped commands per name in ``KINDS``; one command may count more than
        once."""

    @property
    def wheel_angle_rad(self) -> float:
        """Last commanded wheel angle, rad."""
        return self._wheel_angle_rad

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        self._vehicle = vehicle

    def apply(
        self,
        command: ControlCommand | None,
        speed_mps: float,
        mode: Mode,
        reaction: Reaction,
        now_ns: int,
        newest_input_ns: int,
        *,
        cap_mps: float = inf,
        releases_brake: bool = False,
        proven_mps: float = 0.0,
        holds: bool = False,
        surplus_mps2: float = 0.0,
    ) -> ActuatorCommand:
        """Return the command for the actuators. It never raises, and its values are never NaN.

        If ``command`` is None or ``mode`` does not drive, the result is a stop. Throttle fades out
        above ``cap_mps``. ``releases_brake`` releases the brake of a disabled drive.
        ``proven_mps``: speed that measurements prove; limits count it where ``speed_mps`` is less.
        ``holds``: the speed is not measured, so the throttle is at most that which holds
        ``cap_mps`` against ``surplus_mps2``, the acceleration in the direction of motion that the
        drive model does not explain.
        """
        clipped = 0
        throttle, brake, wheel = 0.0, 1.0, self._wheel_angle_rad
        if command is not None:
            if (
                isfinite(command.wheel_angle_rad)
                and isfinite(command.throttle)
                and isfinite(command.brake)
            ):
                throttle, brake, wheel = command.throttle, command.brake, command.wheel_angle_rad
            else:
                clipped |= NOT_FINITE
        if reaction >= Reaction.BRAKE or mode not in MOVING:
            throttle, brake = 0.0, 0.0 if releases_brake and reaction is Reaction.DISABLE else 1.0
        elif reaction is Reaction.CONTROLLED_STOP or mode is Mode.STOPPING:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
        fast_mps, cap_mps = (
            max(abs(speed_mps), proven_mps),
            min(cap_mps, self._limits.max_speed_mps),
        )
        most = self._most(fast_mps, cap_mps)
        if holds:
            most = min(most, max(throttle_for(self._vehicle.drive, -surplus_mps2, cap_mps), 0.0))
        throttle = clamp(throttle, -most, most)
        reverse_share = self._vehicle.drive.reverse_share
        # A vehicle without reverse moves backward only if it rolls, and its drive may be all that
        # stops it.
        if reverse_share > 0.0 and throttle * speed_mps < 0.0 and abs(speed_mps) > CRAWL_MPS:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
            clipped |= CLIPPED_THROTTLE

        before_ns, self._before_ns = self._before_ns, now_ns
        if before_ns is None:
            # The first command has no predecessor, so no rate limit applies.
            elapsed_s = inf
        else:
            elapsed_s = clamp((now_ns - before_ns) * 1e-9, 0.0, LONGEST_STEP_S)
        wheel, cut = self._steer(wheel, fast_mps, elapsed_s)
        clipped |= cut
        cut_throttle, cut_brake = min(1.0, max(throttle, -reverse_share)), min(1.0, max(0.0, brake))
        clipped |= (CLIPPED_THROTTLE if cut_throttle != throttle else 0) | (
            CLIPPED_BRAKE if cut_brake != brake else 0
        )
        cut_throttle, cut = self._drive(cut_throttle, speed_mps, elapsed_s)
        clipped |= cut
        steering = self._vehicle.steering
        sent = steering.command(wheel)
        self._wheel_angle_rad, self._throttle = wheel, cut_throttle
        self._count(clipped)
        return ActuatorCommand(
            now_ns,
            newest_input_ns,
            cut_throttle,
            cut_brake,
            sent,
            steering.wheel_angle_rad(sent),
            mode,
            reaction,
            clipped,
        )

    def _most(self, speed_mps: float, limit_mps: float) -> float:
        """Return the largest throttle at ``speed_mps`` >= 0; above the limit it fades from the
        steady throttle to zero."""
        if speed_mps <= limit_mps:
            return inf
        beyond_mps, room_mps = speed_mps - limit_mps, BEYOND_SHARE * limit_mps
        if beyond_mps < room_mps:
            return (1.0 - beyond_mps / room_mps) * self._vehicle.drive.steady_throttle(limit_mps)
        # A NaN speed also ends here: without a speed there is no throttle.
        return 0.0

    def _steer(self, wheel_rad: float, speed_mps: float, elapsed_s: float) -> tuple[float, int]:
        """Return the wheel angle within rate and range at ``speed_mps`` >= 0, and the bits of what
        was clipped."""
        clipped = 0
        step = self._wheel_rate_radps(speed_mps) * elapsed_s
        held = self._wheel_angle_rad
        if abs(wheel_rad - held) > step:
            wheel_rad = held + (step if wheel_rad > held else -step)
            clipped |= CLIPPED_STEERING_RATE
        # The range is applied last and without a rate, since it shrinks with speed and the tyres
        # demand it at once.
        limit = self._wheel_limit_rad(speed_mps)
        if abs(wheel_rad) > limit:
            wheel_rad = limit if wheel_rad > 0.0 else -limit
            clipped |= CLIPPED_STEERING
        return wheel_rad, clipped

    def _drive(self, throttle: float, speed_mps: float, elapsed_s: float) -> tuple[float, int]:
        """Return the throttle within acceleration and jerk, and the bits of what was clipped. It
        may fall at any rate."""
        if throttle == 0.0:
            return 0.0, 0
        clipped = 0
        sign = 1.0 if throttle > 0.0 else -1.0
        size, before = abs(throttle), max(sign * self._throttle, 0.0)
        drive, limits = self._vehicle.drive, self._limits
        most = throttle_for(drive, limits.max_acceleration_mps2, max(sign * speed_mps, 0.0))
        if size > most:
            size = most
            clipped |= CLIPPED_ACCELERATION
        rise = limits.max_jerk_mps3 * elapsed_s / authority_mps2(drive)
        if size - before > rise:
            size = before + rise
            clipped |= CLIPPED_JERK
        return sign * size, clipped

    def _count(self, clipped: int) -> None:
        if clipped:
            self.clipped_total += 1
            for bit, kind in KINDS.items():
                if clipped & bit:
                    self.clipped_by_kind[kind] += 1

    def _wheel_limit_rad(self, speed_mps: float) -> float:
        """Return the largest wheel angle at ``speed_mps`` >= 0: the mechanical stop, or the limit
        of lateral acceleration."""
        mechanical = self._vehicle.steering.max_wheel_rad
        if not speed_mps > SLOW_MPS:
            return mechanical
        return min(
            mechanical,
            self._vehicle.grip_wheel_rad(self._limits.max_lateral_acceleration_mps2, speed_mps),
        )

    def _wheel_rate_radps(self, speed_mps: float) -> float:
        """Return the largest steering rate at ``speed_mps`` >= 0; lateral jerk is v^2 * rate /
        wheelbase with the wheel near straight."""
        rate = self._limits.max_steering_rate_radps
        if not speed_mps > SLOW_MPS:
            return rate
        return min(
            rate,
            self._vehicle.effective_wheelbase_m(speed_mps)
            * self._limits.max_lateral_jerk_mps3
            / (speed_mps * speed_mps),
        )


def authority_mps2(drive: Drive) -> float:
    """Return the acceleration per unit of throttle."""
    return drive.stall_torque_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def throttle_for(drive: Drive, acceleration_mps2: float, speed_mps: float) -> float:
    """Return the throttle for an acceleration at a speed >= 0, by the drive model; above 1 if the
    drive is too weak."""
    return (acceleration_mps2 - drive.acceleration_mps2(0.0, speed_mps)) / authority_mps2(drive)
