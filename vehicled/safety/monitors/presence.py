"""Monitor of the ground station's heartbeat."""

from vehicled.core.messages import Heartbeat
from vehicled.core.ports import NEVER_NS


class PresenceMonitor:
    """Monitor of the last heartbeat."""

    def __init__(self) -> None:
        self._received_ns: int | None = None

    def on_message(self, message: Heartbeat, now_ns: int) -> None:
        """Note the arrival of a heartbeat."""
        self._received_ns = min(message.t_rx_ns, now_ns)

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last heartbeat; ``NEVER_NS`` before the first."""
        return NEVER_NS if self._received_ns is None else now_ns - self._received_ns
