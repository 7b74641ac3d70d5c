"""Clock of an Xsens MTi: SampleTimeFine, which wraps and jumps, cross-checked with the packet
counter."""

TICKS_PER_SECOND = 10_000
WRAPS = (864_000_000, 2**32)
"""Moduli of SampleTimeFine: a day in series 10 and 100, 32 bits in the others."""
_WRAP_TICKS = 600 * TICKS_PER_SECOND
_JUMP_TICKS = 200
_COUNTED = 1000
"""Longest countable gap, packets; a longer one is a restart of the device."""


class SampleTime:
    """Continuous ticks of 100 us. Call ``packet`` for every packet, then ``ticks`` if its time is
    valid."""

    def __init__(self) -> None:
        self.lost_packets = 0
        """Lost packets, by the packet counter."""
        self.reset()

    def reset(self) -> None:
        """Reset, because the device may have restarted. Counters are kept."""
        self.period = 0
        """Ticks between successive samples; 0 until two have come."""
        self._count: int | None = None
        self._packets = 0
        self._fine: int | None = None
        self._base = 0
        self._fine_packets = 0
        self._lost_before = self.lost_packets

    def packet(self, count: int | None) -> None:
        """Register a packet, with its packet counter if it has one."""
        self._packets += 1
        if count is None:
            return
        if self._count is not None:
            lost = (count - self._count - 1) & 0xFFFF
            self.lost_packets += lost if lost < _COUNTED else 0
            self._packets += min(lost, _COUNTED)
        self._count = count

    def ticks(self, fine: int) -> int:
        """Return SampleTimeFine without wraps, and without jumps that the packet counter
        contradicts."""
        before = self._fine
        self._fine = fine
        packets, self._fine_packets = self._packets - self._fine_packets, self._packets
        lost, self._lost_before = self.lost_packets - self._lost_before, self.lost_packets
        if before is None:
            return fine
        step = fine - before
        if step < 0:
            for wrap in WRAPS:
                if before <= wrap and wrap - before + fine < _WRAP_TICKS:
                    self._base += wrap
                    step += wrap
                    break
        expected = packets * self.period
        known = self._count is not None and self.period > 0 and packets < _COUNTED
        if known and (step < 0 or abs(step - expected) > max(_JUMP_TICKS, 3 * self.period)):
            self._base += expected - step
        elif not lost and 0 < step < TICKS_PER_SECOND:
            self.period = step
        return fine + self._base
