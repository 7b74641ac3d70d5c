"""Motors behind a controller of any family: set-points in its own units to the outputs of the
vehicle.

The power stage is that of the VESC's emulator, with the scales of the family: it knows torque or
current, speed, duty, the command timeout and injected faults.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from drivers.vesc.canbus import Can
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.vesc_motor import PowerStage
from vehicled.core.messages import MotorStatus
from vehicled.core.mixing import Mix

TURN_RAD = 6.283185307179586
FAULT, OWN_TIMEOUT = "fault", "own_timeout"


class MotorScales(Struct, kw_only=True):
    """Calibration of the power stage, in place of the driver's table of a VESC."""

    max_duty: float = 1.0
    max_current_a: float = 1.0
    """Torque or current at full throttle, in the unit of the family."""
    max_speed_mps: float = 1.0
    max_brake_current_a: float = 1.0
    erpm_per_mps: float
    """Speed in the unit of the family at 1 m/s."""
    pole_pairs: int = 1
    steering: bool = False
    servo_center: float = 0.5
    servo_gain: float = 0.0
    timeout_ms: int = 0
    timeout_brake_current_a: float = 0.0


def signs_of(outputs: Iterable[str], mix: Mapping[str, Mix]) -> list[float]:
    """Return the sign of each output when the vehicle drives forwards; 1 for one that no row
    names."""
    return [-1.0 if name in mix and mix[name].drive < 0.0 else 1.0 for name in outputs]


class MotorStages:
    """Motors of one controller, which time out together."""

    def __init__(
        self,
        scales: MotorScales,
        signs: Sequence[float],
        timeout_ms: int,
        start_ns: int,
        brake: float = 0.0,
    ) -> None:
        """``signs``: -1 for a motor that is mounted the other way round. ``brake``: what the
        controller does at its timeout, 0 to coast, 1 for its full brake."""
        self._signs = [sign or 1.0 for sign in signs]
        self._stages = [
            PowerStage(scales, timeout_ms, brake * scales.max_brake_current_a, False, start_ns)
            for _ in signs
        ]
        self.turns_per_s = [0.0] * len(self._signs)
        """Speed of each motor."""
        self.sampled = False
        """True once the sensor model has given a value: before, the controller boots and answers
        nothing."""
        self.voltage_v = self.current_a = self.input_current_a = 0.0
        self._now = [DriveCommand(start_ns, 0.0, 0.0, 0.0) for _ in signs]

    def observe(self, message: MotorStatus, per_turn: float, now_ns: int) -> None:
        """Take the state of the motors. ``per_turn``: units of speed per turn and second; negative
        if it turns backwards."""
        self.sampled = True
        turns_per_s = message.motor_speed_radps / TURN_RAD
        self.turns_per_s = [sign * turns_per_s for sign in self._signs]
        self.voltage_v, self.current_a = message.input_voltage_v, message.motor_current_a
        self.input_current_a = message.input_current_a
        for stage, own_turns_per_s in zip(self._stages, self.turns_per_s, strict=True):
            stage.measure(per_turn * own_turns_per_s, self.voltage_v, now_ns)

    def torque(self, index: int, value: float, now_ns: int) -> None:
        """Set torque or current of a motor; against the motion it brakes."""
        self._stages[index].set_motor(Can.SET_CURRENT, value, now_ns)

    def speed(self, index: int, value: float, now_ns: int) -> None:
        """Set the speed of a motor."""
        self._stages[index].set_motor(Can.SET_RPM, value, now_ns)

    def duty(self, index: int, value: float, now_ns: int) -> None:
        """Set the duty of a motor, -1 to 1."""
        self._stages[index].set_motor(Can.SET_DUTY, value, now_ns)

    def release(self, now_ns: int) -> None:
        """Release all motors."""
        for stage in self._stages:
            stage.set_motor(Can.SET_CURRENT, 0.0, now_ns)

    def feed(self, now_ns: int) -> None:
        """Restart the timeout."""
        for stage in self._stages:
            stage.feed(now_ns)

    @property
    def timed_out(self) -> bool:
        """True after the command timeout."""
        return any(stage.timed_out for stage in self._stages)

    def restart(self, now_ns: int) -> None:
        """Reset as after power-on."""
        for stage in self._stages:
            stage.restart(now_ns)

    def lose(self, deaf: bool) -> None:
        """Lose set-points inside the controller."""
        for stage in self._stages:
            stage.lose_set_points(deaf)

    def next_due_ns(self) -> int:
        """Time of the next duty."""
        return min(stage.next_due_ns() for stage in self._stages)

    def on_time(self, now_ns: int) -> None:
        """Run the duties that are due."""
        for stage in self._stages:
            if stage.next_due_ns() <= now_ns:
                stage.on_time(now_ns)

    def take_commands(self) -> list[DriveCommand]:
        """Drain the commands for the vehicle. Motors beside each other give outputs, and one alone
        is the throttle."""
        taken = [list(stage.take_commands()) for stage in self._stages]
        if len(self._stages) == 1:
            return taken[0]
        for i, commands in enumerate(taken):
            for command in commands:
                self._now[i] = command
        if not any(taken):
            return []
        newest = max(command.t_ns for command in self._now)
        outputs = tuple(command.throttle for command in self._now)
        brake = sum(command.brake for command in self._now) / len(self._now)
        return [DriveCommand(newest, sum(outputs) / len(outputs), brake, 0.0, outputs)]
