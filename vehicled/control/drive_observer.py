"""What the drive does beyond its model: one acceleration, seen in how the speed departs from what was predicted.

An engine with gears, a speed loop, a slope and a tired battery are none of them the DC motor of :class:`~vehicled.vehicle.Drive`. A
speed predicted over the delay of the drive by the model alone is wrong by what the model has wrong, times the delay, and a control
that holds the prediction holds a speed that is wrong by as much, whatever its integral does. With the acceleration of the observer
in the prediction nothing remains at a steady speed: there it takes the value at which the model stands still, too.
"""

from math import copysign

from vehicled.control.speed import REST_MPS, Demand, drive_authority_mps2
from vehicled.estimation.history import CommandHistory
from vehicled.vehicle import Drive

MEMORY_S = 1.0
"""Of the observer, at least: faster, the noise of a speed becomes one of the throttle."""

MEMORY_DELAYS = 5.0
"""Delays of the drive that the memory is, at least. What it sees is answered one delay late, so it must be slow against that."""

BOUND_SHARE = 0.5
"""Largest surplus, as a share of the acceleration of full drive. More is a vehicle held fast or a drive that does not answer."""


class DriveObserver:
    """Luenberger observer of speed and a constant acceleration, both poles at ``1 / memory``."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The drive is as believed."""
        self.surplus_mps2 = 0.0
        """Acceleration on top of the model's while the vehicle moves; signed as the speed is."""
        self._t_ns: int | None = None
        self._speed_mps = 0.0
        self._sense = 0.0
        """Sign of the speed when it last moved."""

    def observe(self, drive: Drive, demands: CommandHistory[Demand], t_ns: int, speed_mps: float) -> None:
        """Take the speed at a time. Finite; a time that is not later than the last is ignored.

        It learns nothing at rest, where friction holds with any force, nor under the brake, which no model knows to this degree.
        """
        before_ns, before_mps = self._t_ns, self._speed_mps
        if before_ns is not None and t_ns <= before_ns:
            return
        self._t_ns, self._speed_mps = t_ns, speed_mps
        if abs(speed_mps) >= REST_MPS:
            if speed_mps * self._sense < 0.0:
                # Friction has turned round, and with it all that is learnt of it; in between an estimate rests at 0 exactly.
                self.surplus_mps2 = 0.0
            self._sense = copysign(1.0, speed_mps)
        if before_ns is None or min(abs(speed_mps), abs(before_mps)) < REST_MPS or speed_mps * before_mps < 0.0:
            return
        demand = demands.at((t_ns + before_ns) // 2 - int(drive.delay_s * 1e9))
        if demand.brake > 0.0:
            return
        dt_s = (t_ns - before_ns) * 1e-9
        memory_s = max(MEMORY_S, MEMORY_DELAYS * drive.delay_s)
        share = min(dt_s / memory_s, 0.5)
        acceleration = drive.acceleration_mps2(demand.throttle, before_mps) + self.surplus_mps2
        error = speed_mps - before_mps - acceleration * dt_s
        bound = BOUND_SHARE * drive_authority_mps2(drive)
        self.surplus_mps2 = min(max(self.surplus_mps2 + share * share / dt_s * error, -bound), bound)
        self._speed_mps = speed_mps - (1.0 - 2.0 * share) * error
