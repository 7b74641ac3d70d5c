"""Observer of the drive's model error, as one constant acceleration.

Gears, speed loops, slopes and a weak battery do not follow the DC motor model of :class:`~vehicled.vehicle.Drive`. A speed
predicted over the drive delay would be wrong by the model error times the delay, and no integral removes an error of the
prediction. With the observed acceleration in the prediction, the steady-state error is zero.
"""

from math import copysign

from vehicled.clamp import clamp
from vehicled.control.speed import Demand, drive_authority_mps2
from vehicled.estimation.history import CommandHistory
from vehicled.vehicle import STANDSTILL_MPS, Drive

MEMORY_S = 1.0
"""Shortest time constant, s; a faster observer would turn speed noise into throttle noise."""

MEMORY_DELAYS = 5.0
"""Shortest time constant in drive delays; the response comes one delay late, so the observer must be slow against it."""

BOUND_FRACTION = 0.5
"""Largest surplus, as a fraction of the acceleration at full drive. A larger one means the vehicle is held or the drive does not
respond."""


class DriveObserver:
    """Luenberger observer of speed and a constant acceleration, both poles at ``1 / memory``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Assume that the drive matches its model."""
        self.surplus_mps2 = 0.0
        """Acceleration on top of the model's while the vehicle moves, m/s2, in the sign convention of the speed."""
        self._t_ns: int | None = None
        self._speed_mps = 0.0
        self._sense = 0.0
        """Sign of the speed when the vehicle last moved."""

    def observe(self, drive: Drive, demands: CommandHistory[Demand], t_ns: int, speed_mps: float) -> None:
        """Add a finite speed measurement; times not later than the last are ignored.

        Nothing is learned at standstill, where friction balances any force, nor under braking, which is not modelled precisely
        enough.
        """
        before_ns, before_mps = self._t_ns, self._speed_mps
        if before_ns is not None and t_ns <= before_ns:
            return
        self._t_ns, self._speed_mps = t_ns, speed_mps
        if abs(speed_mps) >= STANDSTILL_MPS:
            if speed_mps * self._sense < 0.0:
                # Friction has changed sign, so the learned acceleration is void; at standstill the estimate is exactly 0.
                self.surplus_mps2 = 0.0
            self._sense = copysign(1.0, speed_mps)
        if before_ns is None or min(abs(speed_mps), abs(before_mps)) < STANDSTILL_MPS or speed_mps * before_mps < 0.0:
            return
        demand = demands.at((t_ns + before_ns) // 2 - int(drive.delay_s * 1e9))
        if demand.brake > 0.0:
            return
        dt_s = (t_ns - before_ns) * 1e-9
        memory_s = max(MEMORY_S, MEMORY_DELAYS * drive.delay_s)
        gain = min(dt_s / memory_s, 0.5)
        acceleration = drive.acceleration_mps2(demand.throttle, before_mps) + self.surplus_mps2
        error = speed_mps - before_mps - acceleration * dt_s
        bound = BOUND_FRACTION * drive_authority_mps2(drive)
        self.surplus_mps2 = clamp(self.surplus_mps2 + gain * gain / dt_s * error, -bound, bound)
        self._speed_mps = speed_mps - (1.0 - 2.0 * gain) * error
