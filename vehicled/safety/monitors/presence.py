"""Something that must keep telling that it is there: a ground station."""

from vehicled.messages import Heartbeat
from vehicled.ports import NEVER_NS


class PresenceMonitor:
    """When it was last heard."""

    def __init__(self) -> None:
        self._heard_ns: int | None = None

    def on_message(self, message: Heartbeat, now_ns: int) -> None:
        """It is there."""
        self._heard_ns = min(message.t_rx_ns, now_ns)

    def age_ns(self, now_ns: int) -> int:
        """Time since it was last heard; ``NEVER_NS`` when never."""
        return NEVER_NS if self._heard_ns is None else now_ns - self._heard_ns
