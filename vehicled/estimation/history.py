"""What was commanded and where the vehicle was believed to be, in the recent past."""

from bisect import bisect_right
from collections import deque
from math import remainder, tau
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class CommandHistory(Generic[T]):
    """Commands by time, held from one to the next: what a delayed actuator is still about to do.

    Holds ``keep_ns`` of history and never more than ``capacity`` entries; before the oldest entry the value is ``initial``.
    """

    def __init__(self, initial: T, keep_ns: int, capacity: int = 4096) -> None:
        self._initial = initial
        self._keep_ns = keep_ns
        self._capacity = capacity
        self._times_ns: list[int] = []
        self._values: list[T] = []

    def append(self, t_ns: int, value: T) -> None:
        """Value commanded from ``t_ns`` on. One older than the newest entry is dropped: what it would have changed is over."""
        times = self._times_ns
        if times and t_ns <= times[-1]:
            if t_ns == times[-1]:
                self._values[-1] = value
            return
        times.append(t_ns)
        self._values.append(value)
        # Entries are removed in blocks, because deleting from the front of a list moves all the rest.
        if len(times) >= 256 and (len(times) >= self._capacity or times[128] < t_ns - self._keep_ns):
            self._initial = self._values[127]
            del times[:128], self._values[:128]

    def at(self, t_ns: int) -> T:
        """Value in force at a time."""
        index = bisect_right(self._times_ns, t_ns)
        return self._values[index - 1] if index else self._initial

    def clear(self, initial: T) -> None:
        """Forget everything; ``initial`` is in force."""
        self._initial = initial
        self._times_ns.clear()
        self._values.clear()


class Pose(NamedTuple):
    """Believed state of the rear axle at one time."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float


class PoseHistory:
    """Believed poses of the last ``keep_ns``, so that a late measurement meets the pose at its time of validity.

    A correction made now belongs to the past poses as well, else a measurement that was on its way meanwhile would be corrected for
    the same error twice. Past poses are shifted by the sum of the corrections made since, in O(1): each entry remembers the sum at
    its own time. The shift is exact for a constant offset; that a corrected yaw would also turn the way driven since is neglected
    (first order: way times yaw correction, 2 mm for 0.1 s at 1 m/s and 0.02 rad).
    """

    def __init__(self, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._entries: deque[tuple[int, Pose, Pose]] = deque(maxlen=4096)
        self._shift = Pose(0.0, 0.0, 0.0, 0.0, 0.0)

    def append(self, t_ns: int, pose: Pose) -> None:
        """Pose at ``t_ns``, later than all before."""
        entries = self._entries
        entries.append((t_ns, pose, self._shift))
        # One entry beyond the limit stays, so that the whole span can be interpolated.
        while len(entries) > 2 and entries[1][0] <= t_ns - self._keep_ns:
            entries.popleft()

    def correct(self, before: Pose, after: Pose) -> None:
        """The newest pose was ``before`` and is now believed to be ``after``."""
        s = self._shift
        self._shift = Pose(
            s.x_m + after.x_m - before.x_m,
            s.y_m + after.y_m - before.y_m,
            s.yaw_rad + remainder(after.yaw_rad - before.yaw_rad, tau),
            s.speed_mps + after.speed_mps - before.speed_mps,
            0.0,
        )

    def at(self, t_ns: int) -> Pose | None:
        """Pose at a time, linear between entries, with today's knowledge; the newest for later times, None for forgotten ones."""
        later: tuple[int, Pose, Pose] | None = None
        for entry in reversed(self._entries):
            if entry[0] <= t_ns:
                pose = self._corrected(entry)
                if later is None:
                    return pose
                after = self._corrected(later)
                share = (t_ns - entry[0]) / (later[0] - entry[0])
                return Pose(
                    pose.x_m + share * (after.x_m - pose.x_m),
                    pose.y_m + share * (after.y_m - pose.y_m),
                    pose.yaw_rad + share * remainder(after.yaw_rad - pose.yaw_rad, tau),
                    pose.speed_mps + share * (after.speed_mps - pose.speed_mps),
                    after.yaw_rate_radps,
                )
            later = entry
        return None

    def clear(self) -> None:
        """Forget every pose."""
        self._entries.clear()
        self._shift = Pose(0.0, 0.0, 0.0, 0.0, 0.0)

    def _corrected(self, entry: tuple[int, Pose, Pose]) -> Pose:
        _, pose, then = entry
        now = self._shift
        return Pose(
            pose.x_m + now.x_m - then.x_m,
            pose.y_m + now.y_m - then.y_m,
            pose.yaw_rad + now.yaw_rad - then.yaw_rad,
            max(0.0, pose.speed_mps + now.speed_mps - then.speed_mps),
            pose.yaw_rate_radps,
        )
