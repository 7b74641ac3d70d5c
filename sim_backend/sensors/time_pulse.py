"""PPS pin of a GNSS receiver, and the kernel that stamps its pulses with the computer's clock."""

from sim_backend.plant.interface import Motion
from vehicled.core.messages import TimePulse

SECOND_NS = 1_000_000_000
JITTER_NS = 2_000.0
"""Standard deviation of the kernel's stamps: a GPIO interrupt of an idle computer."""
OFFSET_NS, RATE = 12_300_000, 5e-6
"""Error of the computer's clock at the start, and its growth: a clock that nobody corrects."""


class TimePulseSensor:
    """Newest pulse once a second, at the second where the simulation begins with one."""

    rate_hz = 1.0
    least_latency_ns = 0

    def __init__(self, start_ns: int, utc_ns: int) -> None:
        """``utc_ns`` is the UTC at ``start_ns``."""
        self._start_ns = start_ns
        self._utc_offset_ns = utc_ns - start_ns

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, TimePulse]:
        """Return the newest pulse, see :class:`sim_backend.sensors.interface.Sensor`."""
        utc_ns = (t_ns + self._utc_offset_ns) // SECOND_NS * SECOND_NS
        pulse_ns = utc_ns - self._utc_offset_ns
        offset_ns = OFFSET_NS + RATE * (pulse_ns - self._start_ns)
        return t_ns, TimePulse(pulse_ns, 0, utc_ns, offset_ns * 1e-9, JITTER_NS * 1e-9)
