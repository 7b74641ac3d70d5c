"""Judges whether a simulator keeps time, from the stamps of its frames. Pure: the time of the
computer is an argument.

Every method raises :class:`~vehicled.core.link.LinkError` with the reason to end the run.
"""

from vehicled.core.link import LinkError

MAX_STEP_NS = 1_000_000_000
"""Largest distance of a stamp from the instant that the daemon asked for, ns; a time further away
is not that of this run."""
LEAST_STEP_NS = 1_000_000
"""Smallest step of the simulator's time that counts as progress, ns."""
LONGEST_WAIT_S = 1.0
"""Longest time between two looks that counts as standstill, s: a longer one means that this process
was stopped as well."""


class LockstepTime:
    """Time that a simulator grants in lockstep."""

    def __init__(self, start_ns: int, silence_s: float) -> None:
        """``silence_s``: longest time without progress."""
        self._silence_s = silence_s
        self.granted_ns = self.asked_ns = start_ns
        """Newest grant, and the instant that the daemon asked for after it."""
        self._reached_ns = (0, 0)
        self._before_s: float | None = None
        self._waited_s = 0.0

    def check(self, t_ns: int, *, grant: bool) -> None:
        """Check the stamp of a grant, or of bytes."""
        granted_ns, asked_ns = self.granted_ns, self.asked_ns
        if granted_ns <= t_ns <= asked_ns:
            return
        if grant and t_ns < granted_ns:
            raise LinkError(
                f"the simulator granted {t_ns * 1e-9:.9g} s after {granted_ns * 1e-9:.9g} s: "
                "its time went back"
            )
        if granted_ns - MAX_STEP_NS <= t_ns <= asked_ns + MAX_STEP_NS:
            return
        what = "granted time" if grant else "stamped bytes"
        distance_s, where = (
            ((granted_ns - t_ns) * 1e-9, "before")
            if t_ns < granted_ns
            else ((t_ns - asked_ns) * 1e-9, "after")
        )
        raise LinkError(
            f"the simulator {what} {distance_s:.3f} s {where} the present instant, "
            f"{asked_ns * 1e-9:.3f} s"
        )

    def granted(self, t_ns: int, asked_ns: int) -> None:
        """Note a grant, and the instant asked for after it."""
        self.granted_ns, self.asked_ns = t_ns, asked_ns

    def progress(self, wake_ns: int, now_s: float) -> None:
        """Check after some frames that time goes on. ``wake_ns``: when the machine runs next;
        ``now_s``: time of the computer."""
        granted_ns, before_ns = self._reached_ns
        if self.granted_ns >= granted_ns + LEAST_STEP_NS or wake_ns >= before_ns + LEAST_STEP_NS:
            self._reached_ns, self._before_s, self._waited_s = (self.granted_ns, wake_ns), None, 0.0
            return
        if self._before_s is not None:
            self._waited_s += min(now_s - self._before_s, LONGEST_WAIT_S)
        self._before_s = now_s
        if self._waited_s > self._silence_s:
            raise LinkError(
                f"the simulator has granted no time for {self._silence_s:g} s, although it sends"
            )


class PacedTime:
    """Time of a simulator that may pause the clock of the run. All times but that of a grant are
    those of the computer, ns."""

    def __init__(self, opened_ns: int) -> None:
        """``opened_ns``: time of the greeting."""
        self._opened_ns = opened_ns
        self._granted_ns = self._advanced_to_ns = 0
        self._advanced_ns = opened_ns

    def begin(self, now_ns: int) -> None:
        """Note that the run begins."""
        self._advanced_ns = now_ns

    def check(self, t_ns: int, lost_ns: int, named_ns: int, run_ns: int, now_ns: int) -> None:
        """Check a grant with the time lost so far. ``run_ns``: time of the run; ``named_ns``: time
        in the last heartbeat of the daemon, near which the simulator waits.
        """
        if t_ns < self._granted_ns:
            back_s = (self._granted_ns - t_ns) * 1e-9
            raise LinkError(
                f"the simulator granted a time {back_s:.3f} s before that of its last grant: "
                "its time went back"
            )
        if t_ns - run_ns > MAX_STEP_NS:
            raise LinkError(
                f"the simulator granted time {(t_ns - run_ns) * 1e-9:.3f} s ahead of the run"
            )
        if lost_ns > now_ns - self._opened_ns + MAX_STEP_NS:
            raise LinkError(
                f"the simulator lost {lost_ns * 1e-9:.3f} s of time, more than the run has lasted"
            )
        self._granted_ns = t_ns
        if t_ns >= min(self._advanced_to_ns + LEAST_STEP_NS, named_ns):
            self._advanced_to_ns, self._advanced_ns = t_ns, now_ns

    def progress(self, received_ns: int, silence_ns: int) -> None:
        """Check that time goes on while the simulator sends. ``received_ns``: time of its last
        message."""
        if received_ns - self._advanced_ns > silence_ns:
            raise LinkError(
                "the simulator has granted no time for "
                f"{(received_ns - self._advanced_ns) * 1e-9:.2f} s"
            )
