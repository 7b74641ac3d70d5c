"""Monitor of the motor controller's telemetry: faults, temperature, voltage."""

from math import isfinite

from vehicled.core.messages import MotorStatus
from vehicled.core.vehicle import Limits

MAX_V, MAX_A = 1e3, 1e4
SAG_TIME_S = 2.0
"""Time constant of the smoothed voltage, s."""


class MotorMonitor:
    """Monitor of the newest motor status and of the battery voltage without load."""

    def __init__(self, limits: Limits) -> None:
        self._resistance_ohm = limits.battery_resistance_ohm
        self.fault_code = 0
        self.hottest_k = float("nan")
        """Higher temperature of motor and motor controller, K; NaN if unknown."""
        self.rest_v = float("nan")
        """Battery voltage plus the drop across its resistance, smoothed, V; NaN if unknown."""
        self.awaited = ""
        """Names of the actuator devices that have not reported since the last status; empty for a
        single one."""
        self._before_ns = 0

    def on_message(self, status: MotorStatus, now_ns: int) -> None:
        """Update from a status; any of its values may be NaN."""
        self.fault_code = status.fault_code
        known = [
            t for t in (status.motor_temperature_k, status.controller_temperature_k) if isfinite(t)
        ]
        self.hottest_k = max(known, default=float("nan"))
        # One absurd reading would stay in the mean for minutes.
        if not 0.0 <= status.input_voltage_v <= MAX_V:
            return
        current = status.input_current_a if isfinite(status.input_current_a) else 0.0
        rest_v = status.input_voltage_v + self._resistance_ohm * min(max(current, 0.0), MAX_A)
        if isfinite(self.rest_v):
            share = min(max(now_ns - self._before_ns, 0) * 1e-9 / SAG_TIME_S, 1.0)
            self.rest_v += share * (rest_v - self.rest_v)
        else:
            self.rest_v = rest_v
        self._before_ns = now_ns
