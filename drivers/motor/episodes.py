"""Faults as episodes: one message at the start, one at the end, none in between."""

from math import inf

from vehicled.core.messages import Fault, Reaction
from vehicled.core.wire.episodes import QUIET_NS


class Episodes:
    """Set of active faults.

    A fault that returns within ``QUIET_NS`` of its end is reported once more, and then stays
    reported until it has been absent for as long. Only the reports wait: :meth:`active` and ``in``
    say what is the case now.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._active: dict[str, tuple[Reaction, str]] = {}
        self._out: list[Fault] = []
        self._ended_ns: dict[str, float] = {}
        self._returned: set[str] = set()
        self._ending: dict[str, tuple[int, Fault]] = {}
        """End and report of the faults that are over but may return."""

    def __contains__(self, code: object) -> bool:
        return code in self._active

    def start(self, code: str, reaction: Reaction, reason: str, now_ns: int) -> bool:
        """Start an episode; return False if it was active already."""
        if code in self._active:
            return False
        self._active[code] = (reaction, reason)
        waiting = self._ending.pop(code, None)
        if waiting is not None and waiting[1].reaction == reaction:
            return True
        if now_ns - self._ended_ns.get(code, -inf) < QUIET_NS:
            self._returned.add(code)
        self._out.append(Fault(now_ns, code, self._origin, reaction, True, reason))
        return True

    def end(self, code: str, now_ns: int) -> bool:
        """End an episode; return False if it was not active."""
        if code not in self._active:
            return False
        reaction, reason = self._active.pop(code)
        self._ended_ns[code] = now_ns
        over = Fault(now_ns, code, self._origin, reaction, False, f"over: {reason}")
        if code in self._returned:
            self._ending[code] = now_ns, over
        else:
            self._out.append(over)
        return True

    def switch(self, code: str, reaction: Reaction, reason: str, now_ns: int) -> None:
        """Start an episode, or restart it with a new reason."""
        if code in self._active and self._active[code][1] != reason:
            self.end(code, now_ns)
        self.start(code, reaction, reason, now_ns)

    def active(self, prefix: str = "") -> list[str]:
        """Return the active codes."""
        return [code for code in self._active if code.startswith(prefix)]

    @property
    def waiting(self) -> bool:
        """True if a message is waiting."""
        return bool(self._out)

    def take(self, now_ns: int) -> list[Fault]:
        """Drain starts and ends, in order."""
        for code, (ended_ns, over) in list(self._ending.items()):
            if now_ns - ended_ns >= QUIET_NS:
                del self._ending[code]
                self._returned.discard(code)
                self._out.append(over)
        out, self._out = self._out, []
        return out
