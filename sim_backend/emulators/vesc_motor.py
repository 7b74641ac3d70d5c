"""Power stage of the VESC emulator: set-points in, actuator commands out, with the controller's
timeout and faults.

The driver's calibration converts set-points back to normalised commands: full drive is
``max_duty``, ``max_current_a`` or ``max_speed_mps``. The motor's dead time and the servo's rate are
in ``[sim]``.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Protocol

from drivers.vesc.canbus import Can
from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.outbox import drained

HOLD_NS = 50_000_000
"""Interval at which unchanged outputs are repeated to the actuators."""
FAULT_STOP_NS = 500_000_000
"""Duration of a fault, with the motor released, after its cause is gone."""
OVER_VOLTAGE, UNDER_VOLTAGE = 1, 2
MIN_VOLTAGE_V, MAX_VOLTAGE_V = 8.0, 57.0
"""Supply limits in factory state."""
SERVO_AT_BOOT = 0.5
SPEED_P, SPEED_I_PER_S = 3.0, 3.0
"""Gains of the speed controller: fraction of full drive per fraction of ``max_speed_mps``."""
REVERSAL_MPS = 0.05
"""Speed below which a set-point against the motion reverses the drive; above it brakes."""
LONGEST_STEP_S = 0.1
"""Longest gap between measurements that is integrated."""


class MotorCalibration(Protocol):
    """Parameters read from the driver's table, which documents them."""

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
    """Proportional-integral control of the electrical speed, needed by SET_RPM."""

    def __init__(self, full_erpm: float) -> None:
        """``full_erpm`` is the electrical speed at ``max_speed_mps``; negative if the motor runs
        backwards to drive forwards."""
        self._full_erpm = full_erpm
        self._integral = 0.0

    def reset(self) -> None:
        """Clear the integral after a change of set-point type."""
        self._integral = 0.0

    def output(self, target_erpm: float, measured_erpm: float, dt_s: float = 0.0) -> float:
        """Return the fraction of full drive, -1 to 1; against the motion it brakes. Integrates over
        ``dt_s`` unless saturated."""
        error = (target_erpm - measured_erpm) / self._full_erpm
        raw = SPEED_P * error + self._integral
        lowest, highest = (0.0, 1.0) if target_erpm * self._full_erpm >= 0.0 else (-1.0, 0.0)
        if abs(raw) < 1.0 or raw * error < 0.0:
            self._integral = min(
                highest,
                max(lowest, self._integral + SPEED_I_PER_S * error * min(dt_s, LONGEST_STEP_S)),
            )
        return min(1.0, max(-1.0, SPEED_P * error + self._integral))


class PowerStage:
    """Motor and servo output. Called in time order."""

    def __init__(
        self,
        params: MotorCalibration,
        timeout_ms: int,
        timeout_brake_a: float,
        servo_on: bool,
        start_ns: int,
    ) -> None:
        """``timeout_ms`` 0 disables the timeout; ``timeout_brake_a`` 0 coasts on timeout."""
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
        """Reset as after power-on: no command yet, so timed out; servo centred. Causes of faults
        persist."""
        self._drive: tuple[int, float] = (Can.SET_CURRENT, 0.0)
        self._speed_loop.reset()
        self._servo = SERVO_AT_BOOT
        self._fed_ns = NEVER_NS
        self.timed_out = True
        """True if no command came within the timeout."""
        self.fault_code = 0
        """Reported fault code; 0 is none."""
        self._fault_end_ns = NEVER_NS
        self._find_fault(now_ns)
        self._emit(now_ns)

    # ---------------------------------------------------------------- commands

    def set_motor(self, packet: int, value: float, now_ns: int) -> None:
        """Apply a motor set-point, by its CAN packet. During a fault it only restarts the
        timeout."""
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
        """Restart the timeout after a command or ALIVE. The effect of an expired one lasts until
        the next set-point."""
        if not self._deaf:
            self._fed_ns = now_ns
            self.timed_out = False

    def set_servo(self, position: float, now_ns: int) -> None:
        """Set the servo position 0 to 1. It is independent of timeout and faults."""
        if self._servo_on:
            self._servo = min(1.0, max(0.0, position))
            self._emit(now_ns)

    def measure(self, erpm: float, voltage_v: float, now_ns: int) -> None:
        """Take the present electrical speed and supply voltage; NaN if unknown."""
        if isfinite(voltage_v):
            self._from_supply = (
                UNDER_VOLTAGE
                if voltage_v < MIN_VOLTAGE_V
                else OVER_VOLTAGE
                if voltage_v > MAX_VOLTAGE_V
                else 0
            )
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
        """Set the cause of a fault; 0 removes it."""
        self._injected = code
        self._find_fault(now_ns)

    def lose_set_points(self, deaf: bool) -> None:
        """Lose motor set-points inside the controller, so that it times out although commands
        arrive."""
        self._deaf = deaf

    # ---------------------------------------------------------------- time

    def next_due_ns(self) -> int:
        """Time of the timeout, the end of a fault, or the next repetition of the outputs."""
        return min(self._expiry_ns(), self._fault_end_ns, self._hold_ns)

    def on_time(self, now_ns: int) -> None:
        """Run a duty that is due."""
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
        """Drain the commands for the actuators."""
        return drained(self._commands)

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
        self._commands.append(
            DriveCommand(now_ns, min(max(throttle, -1.0), 1.0), min(brake, 1.0), self._steering())
        )
        self._hold_ns = now_ns + HOLD_NS

    def _outputs(self) -> tuple[float, float]:
        if self.fault_code:
            return 0.0, 0.0
        # On timeout the brake current is applied continuously, so that it also returns after a
        # fault.
        packet, value = (
            (Can.SET_CURRENT_BRAKE, self._timeout_brake_a) if self.timed_out else self._drive
        )
        return self._effects[packet](value)

    def _steering(self) -> float:
        params = self._params
        if not self._servo_on or params.servo_gain == 0.0:
            return 0.0
        return min(1.0, max(-1.0, (self._servo - params.servo_center) / params.servo_gain))

    def _build_effects(self) -> dict[int, Callable[[float], tuple[float, float]]]:
        """Return throttle and brake of a set-point, by packet. Position control is missing: a
        driven wheel has no position."""
        params, forward = self._params, self._forward
        max_brake_a = params.max_brake_current_a

        def current(value: float) -> tuple[float, float]:
            fraction = forward * value / params.max_current_a
            return (0.0, abs(value) / max_brake_a) if self._against(fraction) else (fraction, 0.0)

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

    def _against(self, fraction: float) -> bool:
        """True if a drive fraction works against the motion."""
        speed_mps = self._erpm / self._params.erpm_per_mps
        return fraction * speed_mps < 0.0 and abs(speed_mps) > REVERSAL_MPS

    def _both_ways(self, fraction: float) -> tuple[float, float]:
        """Return throttle, negative backward, or brake if it works against the motion: it slows
        down before it reverses."""
        return (0.0, abs(fraction)) if self._against(fraction) else (fraction, 0.0)
