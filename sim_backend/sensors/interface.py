"""Interface of the sensor models."""

from typing import Protocol

from sim_backend.plant.interface import Motion
from vehicled.core.messages import Message


class Sensor(Protocol):
    """Device output that samples the ground truth at its own rate. Called once per sample, in
    order."""

    rate_hz: float
    least_latency_ns: int
    """Smallest latency of a sample after its time of validity."""

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, Message]:
        """Return arrival time and message of the sample valid at ``t_ns``, with ground truth
        ``motion``. Arrivals never go back."""
        ...
