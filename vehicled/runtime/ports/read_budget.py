"""Bytes of a line that may be read in a turn of the loop."""

import time

TURN_BYTES = 1024
"""Most bytes that a byte stream gives to the loop in one turn, so that tasks run between two pieces
of a flood."""
LINE_BYTES_PER_S = 131_072
"""Bytes per second of a line that names no rate of its own, and of USB, which ignores the one it is
given."""
BURST_S = 0.5
"""Time whose bytes may have gathered while the loop did other things."""


class ReadBudget:
    """Token bucket of the bytes that a line can have carried since the last read. The rest waits in
    the kernel."""

    def __init__(self, bytes_per_s: float, turn_bytes: int = TURN_BYTES) -> None:
        self._bytes_per_ns = bytes_per_s * 1e-9
        self._turn_bytes = turn_bytes
        self._most = max(bytes_per_s * BURST_S, turn_bytes)
        self._left = self._most
        self._read_ns = 0

    def allowance(self) -> int:
        """Return how many bytes may be read now, at least one."""
        now_ns = time.monotonic_ns()
        self._left = min(self._most, self._left + (now_ns - self._read_ns) * self._bytes_per_ns)
        self._read_ns = now_ns
        return max(1, min(int(self._left), self._turn_bytes))

    def spend(self, read_bytes: int) -> float:
        """Account for what was read; return the pause before the next read, s."""
        self._left -= read_bytes
        lacking = self._turn_bytes - self._left
        return 0.0 if self._left >= 1.0 else lacking / self._bytes_per_ns * 1e-9
