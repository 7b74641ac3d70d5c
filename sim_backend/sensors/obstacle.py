"""A sensor of obstacles that never sees one: the courses of the twin are empty, but it must keep saying so."""

from math import inf

from sim_backend.plant.interface import Motion
from vehicled.messages import ObstacleRange

DEFAULT_RATE_HZ = 20.0
LATENCY_NS = 5_000_000


class ObstacleSensor:
    """A free lane, as often as the profile says."""

    def __init__(self, rate_hz: float | None) -> None:
        self.rate_hz = rate_hz or DEFAULT_RATE_HZ
        self.least_latency_ns = LATENCY_NS

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, ObstacleRange]:
        """See :class:`sim_backend.sensors.interface.Sensor`."""
        return t_ns + LATENCY_NS, ObstacleRange(t_ns, 0, inf)
