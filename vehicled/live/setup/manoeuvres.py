"""Drives of the set-up: the vehicle moves while a key is held, within limits that end it. Pure:
speeds in, commands out."""

from collections.abc import Callable
from math import nan, pi, tan
from typing import NamedTuple

from msgspec import Struct

from vehicled.core.vehicle import Vehicle

CIRCLES = ((0.0, 3.2), (0.6, 2.2), (-0.6, 2.2), (0.3, 2.2), (-0.3, 2.2), (0.0, 2.2))
"""Steering commands of the circles and their times, s; each change is also a step whose delay
shows."""
TAPE_STEERING = 0.6
"""Steering command of circles that are measured by tape."""
RUNAWAY_S = 0.4
"""Time for which a vehicle may roll against its command before it is stopped."""
FREE_WHEEL_MPS = 1.0
"""Speed of wheels off the ground above which they get no more throttle."""
JOG_PER_S = 0.25
"""Change of the steering command while an arrow key is held."""


class SetupDemand(NamedTuple):
    """SetupDemand of a manoeuvre; neutral by default."""

    throttle: float = 0.0
    brake: float = 0.0
    steering: float = 0.0


BRAKE = SetupDemand(brake=1.0)


class Moment(NamedTuple):
    """Inputs of a manoeuvre at one instant."""

    dt_s: float
    """Time since the call before."""
    held: bool
    """True while the deadman is held and repeats."""
    speed_mps: float
    """Measured speed, NaN if none."""
    arrow: int = 0
    """Arrow key that repeats: 1 left, -1 right, 0 none."""


class Pace(Struct, frozen=True):
    """Speeds and throttles of the manoeuvres of one vehicle."""

    speed_mps: float
    """Speed of the circles: walking pace for a vehicle of this size."""
    run_mps: float
    """Speed at which the straight run brakes."""
    start_throttle: float
    """Throttle of the straight run."""
    most_throttle: float
    """Largest throttle of any manoeuvre."""
    throttle_per_mps: float
    """Gain of the speed controller."""
    hold_throttle: Callable[[float], float]
    """Throttle that holds a speed, by the profile."""
    circles: tuple[tuple[float, float], ...] = CIRCLES
    """Steering commands, and time for each, s."""

    @classmethod
    def of(cls, vehicle: Vehicle, limit_mps: float, *, by_tape: bool = False) -> "Pace":
        """Return the pace of a vehicle: 2.5 wheelbases a second, between 0.5 and 2 m/s, and never
        above its limit. ``by_tape``: circles that are long enough to be measured.
        """
        drive = vehicle.drive
        speed = min(max(2.5 * vehicle.wheelbase_m, 0.5), 2.0, limit_mps)
        run = min(1.6 * speed, limit_mps)
        authority = max(drive.acceleration_mps2(1.0, 0.0), 0.1)
        friction = max(0.0, -drive.acceleration_mps2(0.0, 0.1))
        start = min((1.2 + friction) / authority, 0.5)
        hold = drive.steady_throttle(run)
        plan: tuple[tuple[float, float], ...] = CIRCLES
        if by_tape:
            radius_m = vehicle.wheelbase_m / tan(
                min(TAPE_STEERING * vehicle.steering.gain_rad, 1.2)
            )
            plan = tuple(
                (command, 3.0 * pi * radius_m / speed)
                for command in (TAPE_STEERING, -TAPE_STEERING)
            )
        most = min(max(2.0 * start, hold + start), 0.8)
        start = max(start, min(1.3 * hold, 0.7))
        return cls(speed, run, start, most, 1.0 / authority, drive.steady_throttle, plan)


class Manoeuvre:
    """A manoeuvre that goes on while the key is held, and stops while it is not. A subclass defines
    :meth:`drive`."""

    top_mps = nan
    """Speed that ends the step, NaN for none."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.over = False
        """True once everything was driven."""
        self.trouble = ""
        """Reason for which it was ended; empty if none."""
        self._against_s = 0.0
        self._integral = 0.0

    def demand(self, now: Moment) -> SetupDemand:
        """Return what to send: the brake where the key is not held or something is wrong."""
        if self.trouble or self.over or not now.held:
            self._integral = self._against_s = 0.0
            return BRAKE
        if abs(now.speed_mps) > self.top_mps:
            self.trouble = (
                f"stopped at {abs(now.speed_mps):.1f} m/s, faster than the {self.top_mps:.1f} "
                "m/s of this step"
            )
            return BRAKE
        wanted = self.drive(now)
        against = wanted.throttle * now.speed_mps < 0.0 and abs(now.speed_mps) > 0.15
        self._against_s = self._against_s + now.dt_s if against else 0.0
        if self._against_s > RUNAWAY_S:
            self.trouble = (
                "stopped: it counts backward while it is driven forward; do the step push first"
            )
            return BRAKE
        return wanted

    def drive(self, now: Moment) -> SetupDemand:
        """Return what to send while the key is held."""
        return SetupDemand()

    def _at_speed(self, now: Moment, speed_mps: float) -> float:
        """Return the throttle of a slow speed controller; without a measured speed what the profile
        expects."""
        hold = self.pace.hold_throttle(speed_mps)
        if now.speed_mps != now.speed_mps:
            return min(hold, self.pace.most_throttle)
        error = speed_mps - now.speed_mps
        gain = self.pace.throttle_per_mps
        self._integral = min(
            max(self._integral + 0.7 * gain * error * now.dt_s, 0.0), self.pace.most_throttle
        )
        return min(max(hold + gain * error + self._integral, 0.0), self.pace.most_throttle)


class WheelsFree(Manoeuvre):
    """Wheels off the ground: a throttle that grows slowly, for two seconds."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        self._time_s = 0.0

    def drive(self, now: Moment) -> SetupDemand:
        self._time_s += now.dt_s
        self.over = self._time_s > 2.0
        fast = abs(now.speed_mps) > FREE_WHEEL_MPS
        return (
            SetupDemand()
            if fast
            else SetupDemand(throttle=self.pace.start_throttle * min(1.0, 0.2 + 0.4 * self._time_s))
        )


class ServoJog(Manoeuvre):
    """Wheels off the ground: the servo follows the arrow keys to both ends."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        self.steering = 0.0

    def drive(self, now: Moment) -> SetupDemand:
        self.steering = min(max(self.steering + now.arrow * JOG_PER_S * now.dt_s, -1.0), 1.0)
        return SetupDemand(steering=self.steering)

    def demand(self, now: Moment) -> SetupDemand:
        """Keep the position where no key is held: a servo holds its last command, and the motor
        stands."""
        return self.drive(now) if now.held else SetupDemand(steering=self.steering)


class BrakeDrive(Manoeuvre):
    """Straight ahead with one throttle up to a speed, then the full brake."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        self.top_mps = 1.5 * pace.run_mps
        self._time_s = self._braked_s = 0.0

    def drive(self, now: Moment) -> SetupDemand:
        self._time_s += now.dt_s
        if self._braked_s or self._time_s > 6.0 or abs(now.speed_mps) >= self.pace.run_mps:
            self._braked_s += now.dt_s
            self.over = self._braked_s > 1.0 and not abs(now.speed_mps) > 0.02
            return BRAKE
        return SetupDemand(throttle=self.pace.start_throttle)

    def demand(self, now: Moment) -> SetupDemand:
        """A run that was let go is not one: it begins again."""
        if not now.held and not self._braked_s and self._time_s:
            self.trouble = "the key was released before the run was over"
        return super().demand(now)


class CircleDrive(Manoeuvre):
    """CircleDrive at several steering commands at walking pace; one that was interrupted is driven
    again."""

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        self.top_mps = 1.8 * pace.speed_mps
        self._number, self._time_s = 0, 0.0

    def drive(self, now: Moment) -> SetupDemand:
        self._time_s += now.dt_s
        if self._time_s > self.pace.circles[self._number][1]:
            self._number, self._time_s = self._number + 1, 0.0
        self.over = self._number >= len(self.pace.circles)
        return (
            BRAKE
            if self.over
            else SetupDemand(
                throttle=self._at_speed(now, self.pace.speed_mps), steering=self._steering
            )
        )

    def demand(self, now: Moment) -> SetupDemand:
        """Go on where it was, with the wheels kept."""
        wanted = super().demand(now)
        if not now.held:
            self._time_s = 0.0
            return BRAKE._replace(steering=self._steering)
        return wanted

    @property
    def _steering(self) -> float:
        circles = self.pace.circles
        return circles[min(self._number, len(circles) - 1)][0]
