"""Faults as episodes: one message at the start, one at the end, none in between."""

from vehicled.messages import Fault, Reaction

ORIGIN = "vesc"


class Episodes:
    """Which faults are going on."""

    def __init__(self) -> None:
        self._active: dict[str, tuple[Reaction, str]] = {}
        self._out: list[Fault] = []

    def __contains__(self, code: object) -> bool:
        return code in self._active

    def start(self, code: str, reaction: Reaction, reason: str, now_ns: int) -> bool:
        """Begin an episode; False when it was going on already."""
        if code in self._active:
            return False
        self._active[code] = (reaction, reason)
        self._out.append(Fault(now_ns, code, ORIGIN, reaction, True, reason))
        return True

    def end(self, code: str, now_ns: int) -> bool:
        """End an episode; False when there was none."""
        if code not in self._active:
            return False
        reaction, reason = self._active.pop(code)
        self._out.append(Fault(now_ns, code, ORIGIN, reaction, False, f"over: {reason}"))
        return True

    def switch(self, code: str, reaction: Reaction, reason: str, now_ns: int) -> None:
        """Begin an episode, or begin it anew when its reason has become another one."""
        if code in self._active and self._active[code][1] != reason:
            self.end(code, now_ns)
        self.start(code, reaction, reason, now_ns)

    def active(self, prefix: str = "") -> list[str]:
        """Codes that are going on."""
        return [code for code in self._active if code.startswith(prefix)]

    @property
    def waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self._out)

    def take(self) -> list[Fault]:
        """Starts and ends since the last call, in order."""
        out, self._out = self._out, []
        return out
