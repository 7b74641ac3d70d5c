"""Added latency between the devices and the daemon, drawn from one stream per port and
direction."""

from collections.abc import Callable

from sim_backend.sensors.noise import stream
from vehicled.profile.latency import LatencyModel

BLOCK = 256
"""Delays drawn at a time. It affects cost only, never values."""


class Delayed:
    """One direction of one port: gives each transmission its arrival time and keeps their order."""

    __slots__ = ("_draw", "_newest_ns")

    def __init__(self, model: LatencyModel, side: str, seed: int, port: str) -> None:
        low_ms, high_ms = model.bounds_ms(side)
        low_ns, high_ns = round(low_ms * 1e6), round(high_ms * 1e6)
        self._draw = (
            _uniform(low_ns, high_ns, seed, f"latency/{side}/{port}")
            if high_ns > low_ns
            else lambda: low_ns
        )
        self._newest_ns = -(2**63)

    def at_ns(self, t_ns: int) -> int:
        """Return the arrival time of what is sent at ``t_ns``."""
        self._newest_ns = max(t_ns + self._draw(), self._newest_ns)
        return self._newest_ns


def delayed(model: LatencyModel, side: str, seed: int, port: str) -> Delayed | None:
    """Return the latency of a port; None without any."""
    return Delayed(model, side, seed, port) if model.bounds_ms(side)[1] > 0.0 else None


def _uniform(low_ns: int, high_ns: int, seed: int, entity: str) -> Callable[[], int]:
    generator = stream(seed, entity)
    waiting: list[int] = []

    def draw() -> int:
        if not waiting:
            waiting.extend(generator.integers(low_ns, high_ns, BLOCK, endpoint=True)[::-1].tolist())
        return waiting.pop()

    return draw
