"""What a sensor model is."""

from typing import Protocol

from sim_backend.plant.interface import Motion
from vehicled.messages import Message


class Sensor(Protocol):
    """A device output that samples the truth at its own rate. Called once per sample, in order, whoever reads."""

    rate_hz: float
    least_latency_ns: int
    """No sample arrives sooner after its validity than this."""

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, Message]:
        """Arrival time and message of the sample valid at ``t_ns``, where ``motion`` is the truth. Arrivals never go back."""
        ...
