"""Monitor of the setpoints of another program: who holds the lease, and how old its newest setpoint
is."""

from math import isfinite, isnan

from vehicled.core.messages import Setpoint
from vehicled.core.ports import NEVER_NS

SILENCE_S = 0.2
"""Age at which a setpoint is stale, s."""
LEASE_NS = 1_000_000_000
"""Silence after which another program may take the lease, outside mode OFFBOARD."""


class SetpointMonitor:
    """Monitor of the newest setpoint. The first program that sends holds the lease until it
    releases it or is silent.

    While its setpoints drive the vehicle, no other program gets the lease.
    """

    def __init__(self) -> None:
        self.newest: Setpoint | None = None
        """Newest setpoint of the program that holds the lease; None if none does."""
        self.released = False
        """True if the program has ended."""
        self.drives = False
        """True while its setpoints drive the vehicle; the supervisor sets it."""
        self._arrived_ns = -NEVER_NS

    def on_message(self, setpoint: Setpoint, now_ns: int) -> None:
        """Update from a setpoint. One that is not finite, is repeated, or comes from another
        program is ignored."""
        newest = self.newest
        if (
            newest is not None
            and setpoint.origin != newest.origin
            and (self.drives or not self._free(now_ns))
        ):
            return
        if setpoint.released:
            if newest is not None and setpoint.origin == newest.origin:
                self.released = True
                if not self.drives:
                    self.newest = None
            return
        turn = (
            setpoint.curvature_per_m
            if isnan(setpoint.wheel_angle_rad)
            else setpoint.wheel_angle_rad
        )
        if not isfinite(setpoint.speed_mps + turn):
            return
        if (
            newest is not None
            and setpoint.origin == newest.origin
            and setpoint.sequence == newest.sequence
            and not self.released
        ):
            return
        if self.drives and self.released:
            # A release must hold until the rules have seen it.
            return
        self.newest, self.released = setpoint, False
        # A time stamp in the future must not keep a silent program alive.
        self._arrived_ns = min(setpoint.t_rx_ns, now_ns)

    @property
    def holder(self) -> str:
        """Origin of the program that holds the lease; empty if none does."""
        return self.newest.origin if self.newest is not None else ""

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last setpoint; ``NEVER_NS`` before the first."""
        return NEVER_NS if self.newest is None else now_ns - self._arrived_ns

    def missing(self, origin: str, now_ns: int) -> str:
        """Return what the OFFBOARD request of ``origin`` waits for; empty if it may begin."""
        if self.released or self.age_ns(now_ns) > SILENCE_S * 1e9:
            return (
                "driving by setpoints waits: no program sends any; begin to send them, at 10 "
                "Hz or more, then ask again"
            )
        return ""

    def _free(self, now_ns: int) -> bool:
        return self.released or self.age_ns(now_ns) > LEASE_NS
