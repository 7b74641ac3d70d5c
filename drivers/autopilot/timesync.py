"""Time of an autopilot by TIMESYNC: how late its messages arrive at least.

The autopilot answers a request with its own time. It was between sending and answer, so the middle
is right within half of the round trip. The clock of the arrivals (:class:`DeviceClock`) keeps the
drift; this adds the constant that no arrival shows, the time that the quickest message took.
"""

from collections import deque

from vehicled.core.wire.usage import Unused, UsageProblem

PERIOD_NS = 1_000_000_000
LONGEST_TRIP_NS = 100_000_000
"""Round trip beyond which an answer says too little."""
KEPT = 16
"""Answers of which the one with the shortest round trip counts."""
MOST_NS = 300_000_000
"""Largest difference from the clock of the arrivals: beyond it the answer is of another clock."""
STEP_NS = 500_000
"""Most by which the correction changes with an answer, so that stamps stay in order."""


class TimeSync:
    """Requests, answers, and the correction of the stamps."""

    def __init__(self) -> None:
        self.shift_ns = 0
        """Correction of stamps by arrival, ns; negative where messages arrive late."""
        self._asked_ns: int | None = None
        self._due_ns = 0
        self._answers: deque[tuple[int, int]] = deque(maxlen=KEPT)
        """Round trip and difference from the clock of the arrivals."""

    @property
    def known(self) -> bool:
        """True once an answer has been used."""
        return bool(self._answers)

    @property
    def trip_ns(self) -> int:
        """Shortest round trip of the kept answers; 0 without one."""
        return min(self._answers)[0] if self._answers else 0

    def ask(self, now_ns: int) -> int | None:
        """Return the time to send in a request; None if none is due."""
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + PERIOD_NS
        self._asked_ns = now_ns
        return now_ns

    def restart(self) -> None:
        """Forget the answers of a clock that began anew."""
        self._answers.clear()
        self.shift_ns = 0

    def answer(
        self, device_ns: int, asked_ns: int, t_rx_ns: int, offset_ns: int
    ) -> UsageProblem | None:
        """Take an answer; ``offset_ns``: host minus device by the clock of the arrivals. Return why
        it is not used."""
        if asked_ns != self._asked_ns:
            return UsageProblem(Unused.FOREIGN)
        self._asked_ns = None
        trip_ns = t_rx_ns - asked_ns
        if not 0 <= trip_ns <= LONGEST_TRIP_NS:
            return UsageProblem(Unused.TOO_INACCURATE, "round trip", f"{trip_ns / 1e6:.0f} ms")
        difference_ns = (asked_ns + t_rx_ns) // 2 - device_ns - offset_ns
        if abs(difference_ns) > MOST_NS:
            return UsageProblem(Unused.CONTRADICTION, "tc1", f"{difference_ns / 1e9:.3g} s")
        first = not self._answers
        self._answers.append((trip_ns, difference_ns))
        best_ns = min(self._answers)[1]
        change_ns = best_ns - self.shift_ns
        self.shift_ns += change_ns if first else min(max(change_ns, -STEP_NS), STEP_NS)
        return None
