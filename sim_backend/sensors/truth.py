"""Ground truth for the log and the evaluation of a run, without noise and latency."""

from collections.abc import Callable
from math import pi, remainder

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from vehicled.core.messages import Gear, GearReport, GroundTruth

RATE_HZ = 100.0
GEAR_RATE_HZ = 10.0


class Truth:
    """True state at ``RATE_HZ``. Position, heading and speed are interpolated to the sample;
    actuators are constant over a step."""

    def __init__(self, actuators: Actuators) -> None:
        self.rate_hz = RATE_HZ
        self.least_latency_ns = 0
        self._actuators = actuators

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, GroundTruth]:
        """Return the truth at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        return t_ns, GroundTruth(
            t_ns,
            0,
            motion.x_m,
            motion.y_m,
            remainder(motion.yaw_rad, 2.0 * pi),
            motion.speed_mps,
            motion.yaw_rate_radps,
            self._actuators.wheel_angle_rad,
            self._actuators.supply.voltage_v,
        )


class GearSensor:
    """Gear of the selector at ``GEAR_RATE_HZ``, as drive-by-wire kits report it."""

    def __init__(self, gear: Callable[[], Gear]) -> None:
        self.rate_hz = GEAR_RATE_HZ
        self.least_latency_ns = 0
        self._gear = gear

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, GearReport]:
        """Return the gear at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        return t_ns, GearReport(t_ns, 0, self._gear())
