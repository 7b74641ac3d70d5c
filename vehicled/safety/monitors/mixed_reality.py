"""Monitor of obstacles in mixed reality: real readings and those of a virtual world, each in a
monitor of its own, and the nearer of both.

Virtual readings cannot hide a real one or make a scanner seem to work: they only shorten the free
distance and lower the speed cap.
"""

from math import inf, isfinite

from vehicled.core.messages import LaserScan, ObstacleRange, VirtualScan, VirtualWorld
from vehicled.core.vehicle import Limits
from vehicled.paths.course import Course
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.obstacle import STANDS, ObstacleMonitor


class MixedObstacleMonitor:
    """Takes the place of the :class:`ObstacleMonitor` once a virtual world has begun."""

    def __init__(
        self, real: ObstacleMonitor, virtual: ObstacleMonitor, world: VirtualWorld, limits: Limits
    ) -> None:
        self._real, self._virtual = real, virtual
        self._limits = limits
        self._stops_if_lost = world.stops_if_lost
        self._received_ns = world.t_ns
        self._overlaps = False
        self.lost = False
        """True while the virtual world is silent or its scans are too old to use."""
        self.free_m = inf
        """Free distance ahead of the vehicle, m; infinite if neither real nor virtual sensors
        detect an obstacle."""
        self.cap_mps = inf
        """Speed from which the vehicle stops gently before the obstacle, m/s."""
        self.what, self.does = real.what, real.does
        """Name of the nearest obstacle, and what it does, in reasons."""

    @property
    def blind(self) -> str:
        """Reason why a real scanner is blind; empty if none is."""
        return self._real.blind

    @property
    def sees(self) -> bool:
        """True if a real sensor covers the lane ahead, or a virtual body blocks it."""
        return self._real.sees or isfinite(self.free_m)

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last real reading; ``NEVER_NS`` before the first."""
        return self._real.age_ns(now_ns)

    def drives(self, s: SafetyInputs) -> bool:
        """Return True if the vehicle moves or throttle is commanded."""
        return self._real.drives(s)

    def follow(self, course: Course) -> None:
        """Look along another course from now on."""
        self._real.follow(course)
        self._virtual.follow(course)

    def on_message(self, message: ObstacleRange | LaserScan, now_ns: int) -> None:
        """Queue a reading, a real one or one of the virtual world, for the next update."""
        if not isinstance(message, VirtualScan):
            self._real.on_message(message, now_ns)
            return
        self._received_ns = now_ns
        self._overlaps = message.overlaps
        self._virtual.on_message(message, now_ns)

    def update(self, s: SafetyInputs) -> None:
        """Evaluate the queued readings with the newest estimate."""
        real, virtual = self._real, self._virtual
        real.update(s)
        virtual.update(s)
        silent_s = (s.now_ns - self._received_ns) * 1e-9
        self.lost = silent_s > self._limits.obstacle_silence_s or bool(virtual.blind)
        free_m, cap_mps = virtual.free_m, virtual.cap_mps
        if (self._stops_if_lost and self.lost) or (self._overlaps and not self.lost):
            free_m, cap_mps = 0.0, self._limits.capped_speed_mps
        self.free_m = min(real.free_m, free_m)
        self.cap_mps = min(real.cap_mps, cap_mps)
        self.what, self.does = (
            (real.what, real.does)
            if real.free_m <= free_m
            else (self._virtual_name, virtual.does if free_m == virtual.free_m else STANDS)
        )

    @property
    def _virtual_name(self) -> str:
        return "the lost virtual world" if self.lost and self._stops_if_lost else "a virtual body"
