"""The command gate: the last pure function before the actuators, outside every controller.

It replaces what is not finite by the brake, cuts what is out of range, holds the limits of acceleration and jerk, along and across,
drives against the motion at a crawl only, carries out the reaction in force and turns the wheel angle into the actuator's command.

It adds no delay: what is inside the limits leaves in the tick it came in, and what is not leaves cut in that tick. Less throttle
and more brake always pass at once: no limit slows a stop down.
"""

from collections.abc import Mapping
from math import atan, inf, isfinite

from vehicled.messages import ActuatorCommand, ControlCommand, Mode, Reaction
from vehicled.vehicle import Drive, Limits, Vehicle

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
"""What the bits of ``ActuatorCommand.clipped`` mean."""

CONTROLLED_STOP_BRAKE = 0.5
"""Share of the brake for a stop on the path."""

CRAWL_MPS = 0.15
"""Faster than this the drive is not turned round: brake first. Above the error of an estimate at rest."""

BEYOND_SHARE = 0.25
"""Of a speed limit: so far above it the last drive is taken away. Cut all at once, the noise of a speed at its limit would have
the vehicle lurch."""

LONGEST_STEP_S = 0.1
"""A longer pause between two commands does not allow more than this one does."""

SLOW_MPS = 0.1
"""Slower than this nothing is felt across."""

_MOVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.STOPPING)


class Gate:
    """Keeps the last wheel angle, so that a stop holds the wheel instead of jerking it straight, and the last throttle."""

    def __init__(self, vehicle: Vehicle, limits: Limits) -> None:
        self._vehicle = vehicle
        self._limits = limits
        self._wheel_angle_rad = 0.0
        self._throttle = 0.0
        self._before_ns: int | None = None
        self.clipped_total = 0
        """Commands that had to be cut or replaced since start."""
        self.clipped_by_kind = dict.fromkeys(KINDS.values(), 0)
        """The same by what was cut; one command may count more than once."""

    @property
    def wheel_angle_rad(self) -> float:
        """Wheel angle that is commanded now."""
        return self._wheel_angle_rad

    def adapt(self, vehicle: Vehicle) -> None:
        """Map wheel angles to commands with these parameters from now on."""
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
    ) -> ActuatorCommand:
        """The command for the actuators. ``command`` None or a mode that does not drive gives a stop; never raises, never NaN.

        Nothing accelerates beyond the speed ``cap_mps``; ``releases_brake`` turns a disabled drive's brake into no current.
        """
        clipped = 0
        throttle, brake, wheel = 0.0, 1.0, self._wheel_angle_rad
        if command is not None:
            if isfinite(command.wheel_angle_rad) and isfinite(command.throttle) and isfinite(command.brake):
                throttle, brake, wheel = command.throttle, command.brake, command.wheel_angle_rad
            else:
                clipped |= NOT_FINITE
        if reaction >= Reaction.BRAKE or mode not in _MOVING:
            throttle, brake = 0.0, 0.0 if releases_brake and reaction is Reaction.DISABLE else 1.0
        elif reaction is Reaction.CONTROLLED_STOP or mode is Mode.STOPPING:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
        most = self._most(abs(speed_mps), min(cap_mps, self._limits.max_speed_mps))
        throttle = min(max(throttle, -most), most)
        reverse_share = self._vehicle.drive.reverse_share
        # A vehicle that cannot reverse moves backward by itself only, and its drive may be all that stops it.
        if reverse_share > 0.0 and throttle * speed_mps < 0.0 and abs(speed_mps) > CRAWL_MPS:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
            clipped |= CLIPPED_THROTTLE

        before_ns, self._before_ns = self._before_ns, now_ns
        if before_ns is None:
            # Nothing has been sent that a rate could be measured from.
            elapsed_s = inf
        else:
            elapsed_s = min(max((now_ns - before_ns) * 1e-9, 0.0), LONGEST_STEP_S)
        wheel, cut = self._steer(wheel, abs(speed_mps), elapsed_s)
        clipped |= cut
        cut_throttle, cut_brake = min(1.0, max(throttle, -reverse_share)), min(1.0, max(0.0, brake))
        clipped |= (CLIPPED_THROTTLE if cut_throttle != throttle else 0) | (CLIPPED_BRAKE if cut_brake != brake else 0)
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
        """Largest throttle at a size of speed: beyond the limit less than what holds the limit, and soon nothing."""
        if speed_mps <= limit_mps:
            return inf
        beyond_mps, room_mps = speed_mps - limit_mps, BEYOND_SHARE * limit_mps
        if beyond_mps < room_mps:
            return (1.0 - beyond_mps / room_mps) * self._vehicle.drive.steady_throttle(limit_mps)
        # NaN, too: an unknown speed is no licence to drive.
        return 0.0

    def _steer(self, wheel_rad: float, speed_mps: float, elapsed_s: float) -> tuple[float, int]:
        """Wheel angle within rate and range at a size of speed, and the bits of what was cut."""
        clipped = 0
        step = self._wheel_rate_radps(speed_mps) * elapsed_s
        held = self._wheel_angle_rad
        if abs(wheel_rad - held) > step:
            wheel_rad = held + (step if wheel_rad > held else -step)
            clipped |= CLIPPED_STEERING_RATE
        # The range has the last word: it shrinks with the speed, and the tyres know no rate.
        limit = self._wheel_limit_rad(speed_mps)
        if abs(wheel_rad) > limit:
            wheel_rad = limit if wheel_rad > 0.0 else -limit
            clipped |= CLIPPED_STEERING
        return wheel_rad, clipped

    def _drive(self, throttle: float, speed_mps: float, elapsed_s: float) -> tuple[float, int]:
        """Throttle within acceleration and jerk, and the bits of what was cut. Its size may shrink as it likes."""
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
        """Largest wheel angle at a size of speed: the mechanical stop, and the lateral acceleration of a steady turn."""
        mechanical = self._vehicle.steering.max_wheel_rad
        if not speed_mps > SLOW_MPS:
            return mechanical
        curvature = self._limits.max_lateral_acceleration_mps2 / (speed_mps * speed_mps)
        return min(mechanical, atan(self._vehicle.effective_wheelbase_m(speed_mps) * curvature))

    def _wheel_rate_radps(self, speed_mps: float) -> float:
        """Fastest turn of the wheel at a size of speed: v^2 rate / base, the jerk across with the wheel near straight."""
        rate = self._limits.max_steering_rate_radps
        if not speed_mps > SLOW_MPS:
            return rate
        return min(
            rate, self._vehicle.effective_wheelbase_m(speed_mps) * self._limits.max_lateral_jerk_mps3 / (speed_mps * speed_mps)
        )


def authority_mps2(drive: Drive) -> float:
    """Acceleration per unit of throttle."""
    return drive.stall_torque_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def throttle_for(drive: Drive, acceleration_mps2: float, speed_mps: float) -> float:
    """Throttle that accelerates so much at a speed >= 0, by the drive's model; above 1 where it cannot."""
    return (acceleration_mps2 - drive.acceleration_mps2(0.0, speed_mps)) / authority_mps2(drive)
