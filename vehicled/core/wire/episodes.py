"""Episodes: a state that changes is reported once, and one that comes and goes is one episode,
never a message per frame."""

from math import inf

from msgspec import Struct

from vehicled.core.messages import Fault, Message, Reaction

QUIET_NS = 5_000_000_000
"""Time without a change after which an episode is over."""


class Change(Struct, frozen=True):
    """Change of a state that is to be reported."""

    before: str
    now: str
    changes: int = 1
    """Changes since the last report."""
    unsteady: bool = False
    """True at the begin of an episode in which the state comes and goes; the next report follows
    when it is steady again."""


class StateEpisodes:
    """Filter of the changes of a state. One that returns to an earlier state twice within
    ``QUIET_NS`` begins an episode."""

    def __init__(self, state: str) -> None:
        self.state = state
        """Present state."""
        self._reported = state
        self._left_ns: dict[str, float] = {}
        self._returned_ns: float = -inf
        self._changed_ns: int | None = None
        self.changes = 0
        """Changes of an episode that is not over; 0 without one."""

    def update(self, state: str, now_ns: int) -> Change | None:
        """Return the change to report; None for none. Call it for every frame, changed or not."""
        if state == self.state:
            if not self.changes or self._changed_ns is None or now_ns - self._changed_ns < QUIET_NS:
                return None
            changes, self.changes = self.changes, 0
            before, self._reported = self._reported, state
            return Change(before, state, changes)
        if self._changed_ns is not None:
            # Few states, so few entries; a state without bounds in its values would grow this. The
            # state before the first message does not count: a device that starts and soon fails has
            # not come and gone.
            self._left_ns[self.state] = now_ns
        before, self.state, self._changed_ns = self.state, state, now_ns
        if self.changes:
            self.changes += 1
            return None
        if now_ns - self._left_ns.get(state, -inf) < QUIET_NS:
            again = now_ns - self._returned_ns < QUIET_NS
            self._returned_ns = now_ns
            if again:
                self.changes = 1
                return Change(before, state, unsteady=True)
        self._reported = state
        return Change(before, state)


class FaultEpisode:
    """One fault of a device: reports its start, a stronger reaction, and its end.

    A fault that returns within ``QUIET_NS`` of its end is the same episode and ends when it has
    been absent for as long.
    """

    def __init__(self, code: str, origin: str) -> None:
        self._code, self._origin = code, origin
        self.reason = ""
        """Reason in words as reported; empty without a fault."""
        self.reaction = Reaction.NONE
        """Reaction that is in force; ``NONE`` without a fault."""
        self._seen_ns = self._reported_ns = 0
        self._ended_ns: float = -inf
        self._returns = False

    def set(self, reason: str, now_ns: int, reaction: Reaction = Reaction.WARN) -> list[Message]:
        """Set the reason in words, empty for none; return the faults to report."""
        if not reason:
            return self._clear(now_ns)
        self._seen_ns = now_ns
        if not self.reason:
            self._returns = now_ns - self._ended_ns < QUIET_NS
            return self._report(reason, now_ns, reaction)
        if reason == self.reason and reaction == self.reaction:
            self._reported_ns = now_ns
            return []
        # Words and a weaker reaction may vary with every frame; a stronger reaction must not wait.
        if reaction > self.reaction or now_ns - self._reported_ns >= QUIET_NS:
            return self._report(reason, now_ns, reaction)
        return []

    def _clear(self, now_ns: int) -> list[Message]:
        if not self.reason or (self._returns and now_ns - self._seen_ns < QUIET_NS):
            return []
        reason, self.reason, self.reaction, self._ended_ns = self.reason, "", Reaction.NONE, now_ns
        return [Fault(now_ns, self._code, self._origin, Reaction.NONE, False, reason)]

    def _report(self, reason: str, now_ns: int, reaction: Reaction) -> list[Message]:
        self.reason, self.reaction, self._reported_ns = reason, reaction, now_ns
        return [Fault(now_ns, self._code, self._origin, reaction, True, reason)]
