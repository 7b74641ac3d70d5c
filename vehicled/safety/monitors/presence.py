"""Something that must keep telling that it is there: a ground station, a sensor of obstacles."""

from math import inf, isnan

from vehicled.messages import Heartbeat, ObstacleRange
from vehicled.ports import NEVER_NS


class PresenceMonitor:
    """When it was last heard, and how far the lane is free."""

    def __init__(self) -> None:
        self._heard_ns: int | None = None
        self.distance_m = inf

    def hear(self, message: Heartbeat | ObstacleRange, now_ns: int) -> None:
        """It is there. A distance that is no number counts as an obstacle at the bumper."""
        self._heard_ns = min(message.t_rx_ns, now_ns)
        if isinstance(message, ObstacleRange):
            self.distance_m = 0.0 if isnan(message.distance_m) else message.distance_m

    def age_ns(self, now_ns: int) -> int:
        """Time since it was last heard; ``NEVER_NS`` when never."""
        return NEVER_NS if self._heard_ns is None else now_ns - self._heard_ns
