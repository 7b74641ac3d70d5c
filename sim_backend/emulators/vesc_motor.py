"""The power stage of a VESC: set-points in, what the vehicle's actuators get out, with the controller's own time-out and faults.

Set-points become normalised commands again by the calibration in the driver's table: full drive of the twin is ``max_duty``,
``max_current_a`` or ``max_speed_mps``. What passes for the motor's dead time, and how fast the servo turns, is in ``[sim]``.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Protocol

from drivers.vesc.codec import Can
from sim_backend.emulators.interface import NEVER_NS, DriveCommand

HOLD_NS = 50_000_000
"""Outputs stand until they are changed, and the actuators are told so this often."""
FAULT_STOP_NS = 500_000_000
"""A fault goes on, and the motor stays released, for so long after its cause is gone."""
OVER_VOLTAGE, UNDER_VOLTAGE = 1, 2
MIN_VOLTAGE_V, MAX_VOLTAGE_V = 8.0, 57.0
"""Limits of the supply, as delivered."""
SERVO_AT_BOOT = 0.5
SPEED_P, SPEED_I_PER_S = 3.0, 3.0
"""Of the speed controller, in shares of full drive per share of ``max_speed_mps``."""
STANDS_MPS = 0.05
"""Slower than this a set-point against the motion drives the other way; before, it brakes."""
LONGEST_STEP_S = 0.1
"""A gap between measurements is not integrated beyond this."""


class Calibration(Protocol):
    """What is read of the driver's table in the profile, where each has its meaning."""

    max_duty: float
    max_current_a: float
    max_speed_mps: float
    max_brake_current_a: float
    erpm_per_mps: float
    pole_pairs: int
    steering: bool
    servo_center: float
    servo_gain: float
    timeout_ms: int
    timeout_brake_current_a: float


class SpeedLoop:
    """Proportional and integral control of the electrical speed. Without it, SET_RPM would be a wish."""

    def __init__(self, full_erpm: float) -> None:
        """``full_erpm`` is the electrical speed at ``max_speed_mps``, negative for a motor that drives forwards backwards."""
        self._full_erpm = full_erpm
        self._integral = 0.0

    def reset(self) -> None:
        """Another kind of set-point has taken over."""
        self._integral = 0.0

    def output(self, target_erpm: float, measured_erpm: float, dt_s: float = 0.0) -> float:
        """Share of full drive, -1 to 1; against the motion it brakes. Integrates over ``dt_s`` unless the output is at its end."""
        error = (target_erpm - measured_erpm) / self._full_erpm
        raw = SPEED_P * error + self._integral
        lowest, highest = (0.0, 1.0) if target_erpm * self._full_erpm >= 0.0 else (-1.0, 0.0)
        if abs(raw) < 1.0 or raw * error < 0.0:
            self._integral = min(highest, max(lowest, self._integral + SPEED_I_PER_S * error * min(dt_s, LONGEST_STEP_S)))
        return min(1.0, max(-1.0, SPEED_P * error + self._integral))


class PowerStage:
    """Motor and servo output. Called in the order of time."""

    def __init__(self, params: Calibration, timeout_ms: int, timeout_brake_a: float, servo_on: bool, start_ns: int) -> None:
        """``timeout_ms`` 0 is no time-out at all; ``timeout_brake_a`` 0 coasts on time-out."""
        self._params = params
        self._forward = 1.0 if params.erpm_per_mps > 0.0 else -1.0
        self._timeout_ns = timeout_ms * 1_000_000
        self._timeout_brake_a = timeout_brake_a
        self._servo_on = servo_on and params.steering
        self._speed_loop = SpeedLoop(params.max_speed_mps * params.erpm_per_mps)
        self._effects = self._build_effects()
        self._commands: list[DriveCommand] = []
        self._erpm = 0.0
        self._measured_ns: int | None = None
        self._injected = self._from_supply = 0
        self._deaf = False
        self.restart(start_ns)

    def restart(self, now_ns: int) -> None:
        """As after power-on: no command yet, so timed out; the servo in the middle. Causes of faults outlast it."""
        self._drive: tuple[int, float] = (Can.SET_CURRENT, 0.0)
        self._speed_loop.reset()
        self._servo = SERVO_AT_BOOT
        self._fed_ns = NEVER_NS
        self.timed_out = True
        """No command came for longer than its time-out."""
        self.fault_code = 0
        """As reported; 0 is none."""
        self._fault_end_ns = NEVER_NS
        self._find_fault(now_ns)
        self._emit(now_ns)

    # ---------------------------------------------------------------- what it is told

    def set_motor(self, packet: int, value: float, now_ns: int) -> None:
        """A motor set-point, by its CAN packet. A fault swallows it, but not its effect on the time-out."""
        if self._deaf:
            return
        self.feed(now_ns)
        if self.fault_code or packet not in self._effects:
            return
        if packet != Can.SET_RPM:
            self._speed_loop.reset()
        self._drive = (packet, value)
        self._emit(now_ns)

    def feed(self, now_ns: int) -> None:
        """A command, or ALIVE: the time-out starts anew. What one that has passed did to the motor lasts to the next set-point."""
        if not self._deaf:
            self._fed_ns = now_ns
            self.timed_out = False

    def set_servo(self, position: float, now_ns: int) -> None:
        """Servo position 0 to 1. Neither feeds the time-out nor suffers from it or from a fault."""
        if self._servo_on:
            self._servo = min(1.0, max(0.0, position))
            self._emit(now_ns)

    def measure(self, erpm: float, voltage_v: float, now_ns: int) -> None:
        """Electrical speed and supply as they are now; NaN for what is not known."""
        if isfinite(voltage_v):
            self._from_supply = UNDER_VOLTAGE if voltage_v < MIN_VOLTAGE_V else OVER_VOLTAGE if voltage_v > MAX_VOLTAGE_V else 0
            self._find_fault(now_ns)
        if not isfinite(erpm):
            return
        dt_s = 0.0 if self._measured_ns is None else (now_ns - self._measured_ns) * 1e-9
        self._measured_ns = now_ns
        self._erpm = erpm
        if self._drive[0] == Can.SET_RPM and not (self.timed_out or self.fault_code):
            self._speed_loop.output(self._drive[1], erpm, dt_s)
            self._emit(now_ns)

    def set_fault(self, code: int, now_ns: int) -> None:
        """The cause of a fault is there from now on; 0 takes it away."""
        self._injected = code
        self._find_fault(now_ns)

    def set_deaf(self, deaf: bool) -> None:
        """Motor set-points are lost inside the controller, so that it times out although it is commanded."""
        self._deaf = deaf

    # ---------------------------------------------------------------- time

    def next_due_ns(self) -> int:
        """The time-out, the end of a fault, or the next time to tell that the outputs stand."""
        return min(self._expiry_ns(), self._fault_end_ns, self._hold_ns)

    def on_time(self, now_ns: int) -> None:
        """A duty is due."""
        changed = now_ns >= self._hold_ns
        if now_ns >= self._expiry_ns():
            self.timed_out = changed = True
            self._drive = (Can.SET_CURRENT_BRAKE, self._timeout_brake_a)
            self._speed_loop.reset()
        if now_ns >= self._fault_end_ns:
            self.fault_code, self._fault_end_ns = 0, NEVER_NS
            changed = True
        if changed:
            self._emit(now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        """What the actuators get since the last call."""
        if not self._commands:
            return ()
        commands, self._commands = self._commands, []
        return commands

    def _expiry_ns(self) -> int:
        if self.timed_out or not self._timeout_ns or self._fed_ns == NEVER_NS:
            return NEVER_NS
        return self._fed_ns + self._timeout_ns

    def _find_fault(self, now_ns: int) -> None:
        cause = self._injected or self._from_supply
        if cause:
            self._fault_end_ns = NEVER_NS
            if cause != self.fault_code:
                self.fault_code = cause
                self._drive = (Can.SET_CURRENT, 0.0)
                self._speed_loop.reset()
                self._emit(now_ns)
        elif self.fault_code and self._fault_end_ns == NEVER_NS:
            self._fault_end_ns = now_ns + FAULT_STOP_NS

    # ---------------------------------------------------------------- outputs

    def _emit(self, now_ns: int) -> None:
        throttle, brake = self._outputs()
        self._commands.append(DriveCommand(now_ns, min(max(throttle, -1.0), 1.0), min(brake, 1.0), self._steering()))
        self._hold_ns = now_ns + HOLD_NS

    def _outputs(self) -> tuple[float, float]:
        if self.fault_code:
            return 0.0, 0.0
        # On time-out the brake current is set again and again, so that it follows a fault, too.
        packet, value = (Can.SET_CURRENT_BRAKE, self._timeout_brake_a) if self.timed_out else self._drive
        return self._effects[packet](value)

    def _steering(self) -> float:
        params = self._params
        if not self._servo_on or params.servo_gain == 0.0:
            return 0.0
        return min(1.0, max(-1.0, (self._servo - params.servo_center) / params.servo_gain))

    def _build_effects(self) -> dict[int, Callable[[float], tuple[float, float]]]:
        """Throttle and brake of a set-point, by packet. Positions are missing: a driven wheel has none."""
        params, forward = self._params, self._forward
        max_brake_a = params.max_brake_current_a

        def current(value: float) -> tuple[float, float]:
            share = forward * value / params.max_current_a
            return (0.0, abs(value) / max_brake_a) if self._against(share) else (share, 0.0)

        def braking(value: float) -> tuple[float, float]:
            return 0.0, abs(value) / max_brake_a

        return {
            Can.SET_DUTY: lambda value: self._both_ways(forward * value / params.max_duty),
            Can.SET_CURRENT: current,
            Can.SET_CURRENT_BRAKE: braking,
            Can.SET_RPM: lambda value: self._both_ways(self._speed_loop.output(value, self._erpm)),
            Can.SET_CURRENT_REL: lambda value: self._both_ways(forward * value),
            Can.SET_CURRENT_BRAKE_REL: lambda value: (0.0, abs(value)),
            Can.SET_HANDBRAKE: braking,
            Can.SET_HANDBRAKE_REL: lambda value: (0.0, abs(value)),
        }

    def _against(self, share: float) -> bool:
        """Whether a share of full drive works against the motion."""
        speed_mps = self._erpm / self._params.erpm_per_mps
        return share * speed_mps < 0.0 and abs(speed_mps) > STANDS_MPS

    def _both_ways(self, share: float) -> tuple[float, float]:
        """Throttle, negative backward, or brake where it works against the motion: it slows down before it turns round."""
        return (0.0, abs(share)) if self._against(share) else (share, 0.0)
