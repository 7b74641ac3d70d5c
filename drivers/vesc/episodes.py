"""Faults as episodes: one message at the start, one at the end, none in between."""

from vehicled.messages import Fault, Reaction

ORIGIN = "vesc"


class Episodes:
    """Set of active faults."""

    def __init__(self) -> None:
        self._active: dict[str, tuple[Reaction, str]] = {}
        self._out: list[Fault] = []

    def __contains__(self, code: object) -> bool:
        return code in self._active

    def start(self, code: str, reaction: Reaction, reason: str, now_ns: int) -> bool:
        """Start an episode; return False if it was active already."""
        if code in self._active:
            return False
        self._active[code] = (reaction, reason)
        self._out.append(Fault(now_ns, code, ORIGIN, reaction, True, reason))
        return True

    def end(self, code: str, now_ns: int) -> bool:
        """End an episode; return False if it was not active."""
        if code not in self._active:
            return False
        reaction, reason = self._active.pop(code)
        self._out.append(Fault(now_ns, code, ORIGIN, reaction, False, f"over: {reason}"))
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

    def take(self) -> list[Fault]:
        """Drain starts and ends, in order."""
        out, self._out = self._out, []
        return out
