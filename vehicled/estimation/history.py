"""History of recent commands, and the pose that measurements are compared with."""

from bisect import bisect_right
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class CommandHistory(Generic[T]):
    """Commands or other inputs by time, held from one to the next, for actuators with a delay.

    Keeps ``keep_ns`` of history and at most ``capacity`` entries; before the oldest entry the value
    is ``initial``.
    """

    def __init__(self, initial: T, keep_ns: int, capacity: int = 4096) -> None:
        self._initial = initial
        self._keep_ns = keep_ns
        self._capacity = capacity
        self._times_ns: list[int] = []
        self._values: list[T] = []

    def append(self, t_ns: int, value: T) -> None:
        """Add the value commanded from ``t_ns`` on. A value older than the newest entry is
        dropped."""
        times = self._times_ns
        if times and t_ns <= times[-1]:
            if t_ns == times[-1]:
                self._values[-1] = value
            return
        times.append(t_ns)
        self._values.append(value)
        # Entries are removed in blocks, because deleting from the front of a list moves all others.
        if len(times) >= 256 and (
            len(times) >= self._capacity or times[128] < t_ns - self._keep_ns
        ):
            self._initial = self._values[127]
            del times[:128], self._values[:128]

    def at(self, t_ns: int) -> T:
        """Return the value in force at a time."""
        index = bisect_right(self._times_ns, t_ns)
        return self._values[index - 1] if index else self._initial

    def clear(self, initial: T) -> None:
        """Forget all entries; ``initial`` is in force."""
        self._initial = initial
        self._times_ns.clear()
        self._values.clear()


class EstimatedPose(Struct, frozen=True, gc=False):
    """Estimated state of the rear axle at one time."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    lateral_mps: float = 0.0
    """Velocity of the rear axle to the left, m/s."""
