"""Error frames of a CAN bus, of the kernel's interface or of a serial adapter."""

from vehicled.core.wire.can import CanFrame, error_texts
from vehicled.runtime.ports.contract import PortCounts

REPEAT_NS = 100_000_000
"""Pause between two equal error frames that are delivered."""


class ErrorFrames:
    """Counter of a bus' error frames, which passes on those that say something new."""

    def __init__(self, counts: PortCounts) -> None:
        self._counts = counts
        self._newest: tuple[int, bytes] = (0, b"")
        self._passed_ns = 0

    def pass_on(self, frame: CanFrame, now_ns: int) -> bool:
        """Count an error frame; return True unless it repeats the one before, apart from its
        counters, within ``REPEAT_NS``."""
        self._counts.error_frames += 1
        content = (frame.can_id, frame.data[:6])
        if content == self._newest and now_ns - self._passed_ns < REPEAT_NS:
            return False
        self._newest, self._passed_ns = content, now_ns
        return True


def bus_off(frame: CanFrame) -> str:
    """Return what a controller that left the bus means, and the cure."""
    return (
        f"{', '.join(error_texts(frame))}: no node acknowledges, or the bit rates differ; "
        "check the wiring and set 'restart-ms'"
    )
