"""State history of a filter, so that a late measurement is fused at its time of validity.

A filter is two pure functions: ``predict(state, t0_ns, t1_ns)``, which looks up its inputs
(commands, inertial samples) by time, and ``update(state, z)``. The timeline keeps the states that
they return. A measurement older than the newest state is fused after the last state before it, and
all later predictions and updates are repeated up to now. The result equals that of a filter which
had the measurement in time: it depends on the set of measurements, not on their order of arrival.
Larsen et al. 1998 call this filter recalculation; robot_localization calls it
``smooth_lagged_data``.

Counters of repeatable events (rejected measurements, the last innovation) belong in the state, so
that they count once.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
Z = TypeVar("Z")

STEP = -1
"""Source number of a prediction's end, which precedes the measurements of the same instant."""


class Timeline(Generic[S, Z]):
    """States of the last ``keep_ns`` and the measurements that led to them.

    States are kept by reference: ``predict`` and ``update`` return new ones and leave their
    arguments unchanged. A measurement in order costs one update; a late one also the predictions
    and updates since. ``capacity`` bounds the states, one for each step and each measurement, and
    with them memory and the work of one step. Nothing is kept before :meth:`start`.

    A stamp up to ``ahead_ns`` in the future is an error of the device clock's mapping and counts as
    now.
    """

    def __init__(
        self,
        predict: Callable[[S, int, int], S],
        update: Callable[[S, Z], S],
        *,
        keep_ns: int,
        capacity: int = 1024,
        ahead_ns: int = 0,
    ) -> None:
        self._predict = predict
        self._update = update
        self._keep_ns = keep_ns
        self._capacity = capacity
        self._ahead_ns = ahead_ns
        self._keys: list[tuple[int, int]] = []
        self._states: list[S] = []
        self._measured: list[Z | None] = []
        self._pending: list[tuple[int, int, Z]] = []
        self._stale_ns: int | None = None
        self.late = 0
        """Measurements older than the history, or beyond ``capacity`` in one step."""
        self.duplicate = 0
        """Measurements repeated for the same source and instant."""
        self.future = 0
        """Measurements further ahead than ``ahead_ns``."""

    @property
    def refused(self) -> int:
        """Measurements that were not fused, for any reason."""
        return self.late + self.duplicate + self.future

    @property
    def running(self) -> bool:
        """True once the timeline holds a state."""
        return bool(self._keys)

    @property
    def t_ns(self) -> int:
        """Time of the newest state. Raises IndexError before :meth:`start`."""
        return self._keys[-1][0]

    @property
    def state(self) -> S:
        """Newest state. Raises IndexError before :meth:`start`."""
        return self._states[-1]

    @property
    def oldest_ns(self) -> int:
        """Oldest time at which a measurement can still be fused. Raises IndexError before
        :meth:`start`."""
        return self._keys[0][0]

    def start(self, t_ns: int, state: S) -> None:
        """Restart from this state; pending measurements remain."""
        self._keys = [(t_ns, STEP)]
        self._states = [state]
        self._measured = [None]
        self._stale_ns = None

    def clear(self) -> None:
        """Forget all states and measurements; the counters remain."""
        self._keys, self._states, self._measured, self._pending = [], [], [], []
        self._stale_ns = None

    def observe(self, t_ns: int, source: int, z: Z) -> None:
        """Queue a measurement valid at ``t_ns`` for the next :meth:`advance`.

        ``source`` >= 0 identifies the sensor: one measurement per source and instant. At the same
        instant the lower number is fused first.
        """
        if len(self._pending) < self._capacity:
            self._pending.append((t_ns, source, z))
        else:
            self.late += 1

    def changed(self, t_ns: int) -> None:
        """Mark the inputs after ``t_ns`` as changed: the next :meth:`advance` repeats the
        prediction from there."""
        if self._stale_ns is None or t_ns < self._stale_ns:
            self._stale_ns = t_ns

    def advance(self, now_ns: int) -> S:
        """Fuse the pending measurements and predict to ``now_ns``. Return the state then, or the
        newest one if time went back."""
        keys, states = self._keys, self._states
        newest_ns = keys[-1][0]
        if now_ns < newest_ns:
            now_ns = newest_ns
        if not self._pending and self._stale_ns is None:
            if now_ns > newest_ns:
                keys.append((now_ns, STEP))
                states.append(self._predict(states[-1], newest_ns, now_ns))
                self._measured.append(None)
                self._forget(now_ns)
            return states[-1]
        events = self._admit(now_ns)
        if now_ns > newest_ns:
            events.append(((now_ns, STEP), None))
        first = min((key for key, _ in events), default=(now_ns + 1, STEP))
        if self._stale_ns is not None:
            first = min(first, (self._stale_ns + 1, STEP))
            self._stale_ns = None
        # The oldest state cannot be predicted again: no state precedes it.
        index = max(bisect_left(keys, first), 1)
        events += zip(keys[index:], self._measured[index:], strict=True)
        del keys[index:], states[index:], self._measured[index:]
        events.sort(key=_key)
        self._replay(events)
        self._forget(now_ns)
        return states[-1]

    def _admit(self, now_ns: int) -> list[tuple[tuple[int, int], Z | None]]:
        """Return the pending measurements that can be fused, and count the others."""
        keys = self._keys
        oldest = max(keys[0], (now_ns - self._keep_ns, STEP))
        latest_ns = now_ns + self._ahead_ns
        admitted: dict[tuple[int, int], Z | None] = {}
        for t_ns, source, z in self._pending:
            key = (min(t_ns, now_ns), source)
            if t_ns > latest_ns:
                self.future += 1
            elif key in admitted or self._has(key):
                self.duplicate += 1
            elif key < oldest:
                self.late += 1
            else:
                admitted[key] = z
        self._pending = []
        return list(admitted.items())

    def _has(self, key: tuple[int, int]) -> bool:
        index = bisect_left(self._keys, key)
        return index < len(self._keys) and self._keys[index] == key

    def _replay(self, events: list[tuple[tuple[int, int], Z | None]]) -> None:
        keys, states, measured = self._keys, self._states, self._measured
        predict, update = self._predict, self._update
        t_ns, state = keys[-1][0], states[-1]
        for key, z in events:
            if key[0] > t_ns:
                state = predict(state, t_ns, key[0])
                t_ns = key[0]
            if z is not None:
                state = update(state, z)
            keys.append(key)
            states.append(state)
            measured.append(z)

    def _forget(self, now_ns: int) -> None:
        """Drop old states except the newest of them, from which the oldest admissible measurement
        is predicted."""
        keys = self._keys
        limit_ns = now_ns - self._keep_ns
        drop = len(keys) - self._capacity if len(keys) > self._capacity else 0
        while drop < len(keys) - 1 and keys[drop + 1][0] <= limit_ns:
            drop += 1
        if drop:
            del keys[:drop], self._states[:drop], self._measured[:drop]


def _key(event: tuple[tuple[int, int], object]) -> tuple[int, int]:
    return event[0]
