"""Connections over a simulator link: the link stays open, so a device that asks for a new
connection is given one here."""

from collections.abc import Sequence
from typing import Protocol

from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS, Pause, Reopen
from vehicled.daemon.machine import Outgoing


class _Host(Protocol):
    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None: ...


class Reopening:
    """Ports whose devices decide when to connect again, by :class:`vehicled.core.ports.Pause`.

    Others are reopened at once, without their notice.
    """

    def __init__(self, host: _Host) -> None:
        self._host = host
        self._pauses_s: dict[str, float] = {}
        self._due_ns: dict[str, int] = {}
        self.due_ns = NEVER_NS
        """Time of the next opening; ``NEVER_NS`` without one."""

    def on_outgoing(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Close the ports that are to be reopened."""
        for port, action in [(each.port, each.action) for each in outgoing]:
            if isinstance(action, Pause):
                self._pauses_s[port] = action.least_s
                if port in self._due_ns:
                    self._open_after_pause(port, now_ns)
            elif isinstance(action, Reopen) and port in self._pauses_s and port not in self._due_ns:
                self._open_after_pause(port, now_ns)
                self._host.on_port(
                    port, PortState.LOST, f"reopened on request: {action.reason}", now_ns
                )

    def on_time(self, now_ns: int) -> None:
        """Open the ports that are due."""
        for port in [port for port, due_ns in self._due_ns.items() if due_ns <= now_ns]:
            del self._due_ns[port]
            self._plan()
            self._host.on_port(port, PortState.OPENED, "simulator link", now_ns)

    def _open_after_pause(self, port: str, now_ns: int) -> None:
        """Let a port open after the pause that its device asked for."""
        self._due_ns[port] = now_ns + round(self._pauses_s[port] * 1e9)
        self._plan()

    def _plan(self) -> None:
        self.due_ns = min(self._due_ns.values(), default=NEVER_NS)
