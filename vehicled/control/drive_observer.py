"""Observer of the drive's model error, as one constant acceleration.

Gears, speed loops, slopes and a weak battery do not follow the DC motor model of
:class:`~vehicled.core.vehicle.Drive`. A speed predicted over the drive delay would be wrong by the
model error times the delay, and no integral removes an error of the prediction. With the observed
acceleration in the prediction, the steady-state error is zero.
"""

from math import copysign

from vehicled.control.speed import Demand, drive_authority_mps2
from vehicled.core.clamp import clamp
from vehicled.core.vehicle import STANDSTILL_MPS, Drive
from vehicled.estimation.history import CommandHistory

MEMORY_S = 1.0
"""Shortest time constant, s; a faster observer would turn speed noise into throttle noise."""

MEMORY_DELAYS = 5.0
"""Shortest time constant in drive delays; the response comes one delay late, so the observer must
be slow against it."""

HASTY_S, HASTY_DELAYS = 0.3, 1.0
"""The same while the vehicle runs away, on a slope: noise does less harm then than speed."""

BOUND_FRACTION = 0.5
"""Largest surplus, as a fraction of the acceleration at full drive. A larger one means the vehicle
is held or the drive does not respond."""


class DriveObserver:
    """Luenberger observer of speed and a constant acceleration, both poles at ``1 / memory``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Assume that the drive matches its model."""
        self._driven_mps2 = 0.0
        self._braked_mps2: float | None = None
        """Surplus while the brake acts; None while it does not."""
        self._holds_back = False
        """True if the vehicle has run away since the brake began to act: a slope pushes it,
        whatever the brake is like."""
        self._t_ns: int | None = None
        self._speed_mps = 0.0
        self._sense = 0.0
        """Sign of the speed when the vehicle last moved."""

    @property
    def surplus_mps2(self) -> float:
        """Acceleration on top of the model's while the vehicle moves, m/s2, in the sign convention
        of the speed."""
        return self._driven_mps2 if self._braked_mps2 is None else self._braked_mps2

    def observe(
        self,
        drive: Drive,
        demands: CommandHistory[Demand],
        t_ns: int,
        speed_mps: float,
        *,
        answers: bool = True,
        runs_away: bool = False,
    ) -> None:
        """Add a finite speed measurement; times not later than the last are ignored.

        Nothing is learned at standstill, where friction balances any force, nor while the vehicle
        does not answer to its drive (``answers`` is false). Under braking it learns apart, since
        brakes are not modelled precisely; that ends with the brake, except if the vehicle runs away
        (``runs_away``) and is braked therefore.
        """
        before_ns, before_mps = self._t_ns, self._speed_mps
        if before_ns is not None and t_ns <= before_ns:
            return
        self._t_ns, self._speed_mps = t_ns, speed_mps
        if abs(speed_mps) >= STANDSTILL_MPS:
            if speed_mps * self._sense < 0.0:
                # Friction has changed sign, so the learned acceleration is void; at standstill the
                # estimate is exactly 0.
                self._driven_mps2, self._braked_mps2 = 0.0, None
            self._sense = copysign(1.0, speed_mps)
        if (
            before_ns is None
            or min(abs(speed_mps), abs(before_mps)) < STANDSTILL_MPS
            or speed_mps * before_mps < 0.0
        ):
            return
        demand = demands.at((t_ns + before_ns) // 2 - int(drive.delay_s * 1e9))
        bound = BOUND_FRACTION * drive_authority_mps2(drive)
        if demand.brake > 0.0:
            self._holds_back = runs_away or (self._braked_mps2 is not None and self._holds_back)
            self._braked_mps2 = (
                self._driven_mps2 if self._braked_mps2 is None else self._braked_mps2
            )
        elif self._braked_mps2 is not None:
            self._driven_mps2 = (
                clamp(self._braked_mps2, -bound, bound) if self._holds_back else self._driven_mps2
            )
            self._braked_mps2 = None
        if not answers:
            return
        dt_s = (t_ns - before_ns) * 1e-9
        if runs_away:
            memory_s = max(HASTY_S, HASTY_DELAYS * drive.delay_s)
        else:
            memory_s = max(MEMORY_S, MEMORY_DELAYS * drive.delay_s)
        gain = min(dt_s / memory_s, 0.5)
        acceleration = (
            drive.acceleration_mps2(demand.throttle, before_mps, demand.brake) + self.surplus_mps2
        )
        error = speed_mps - before_mps - acceleration * dt_s
        learned = self.surplus_mps2 + gain * gain / dt_s * error
        if self._braked_mps2 is None:
            self._driven_mps2 = clamp(learned, -bound, bound)
        else:
            self._braked_mps2 = clamp(
                learned, -drive.brake_deceleration_mps2, drive.brake_deceleration_mps2
            )
        self._speed_mps = speed_mps - (1.0 - 2.0 * gain) * error
