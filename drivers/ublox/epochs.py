"""Epochs: the messages that a receiver sends of one instant, put together, and the time of that instant on our clock."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from vehicled.wire.clock import DeviceClock

WEEK_MS = 604_800_000
LAST = "EOE"
"""The message that ends an epoch."""
RECENT_EPOCHS = 64
"""Epochs remembered, to tell a repetition or a late message from a new epoch."""
REPEAT_NS = 1_000_000_000
"""A time tag of an earlier epoch that comes again after so long is a new epoch: the receiver's time was set back."""
LEARNING_RATIO = 0.25
"""Weight of one epoch in what is learned about the order of messages: one lost message is outvoted, three in a row are not."""
FAR_NS = 1 << 62


class Epoch(Struct):
    """Messages of one instant by kind."""

    counter_ms: int
    t_ns: int
    first_rx_ns: int
    last_rx_ns: int
    parts: dict[str, Any]
    last_kind: str = ""
    """Kind of the newest message, whether it came in time or late."""
    handed_over: bool = False


class EpochClock:
    """Time of validity from the receiver's time of week or day, which is exact, and the arrivals, which are late by chance.

    One value per epoch: that of its first message to arrive. The roll-over of the week (or the day, in NMEA) is no jump.
    """

    def __init__(self, modulus_ms: int, latency_ns: int) -> None:
        self.regression = DeviceClock(tick_ns=1e6, bits=None, modulus=modulus_ms, latency_ns=latency_ns)
        """The clock behind it, for figures."""
        self._counter_ms = -1
        self._t_ns = 0

    def time_of(self, counter_ms: int, t_rx_ns: int) -> int:
        """Our time of the instant ``counter_ms``, a message of which arrived at ``t_rx_ns``."""
        if counter_ms != self._counter_ms:
            self._counter_ms = counter_ms
            self._t_ns = self.regression.update(counter_ms, t_rx_ns)
        return self._t_ns

    @property
    def newest_ns(self) -> int | None:
        """Our time of the newest instant."""
        return self._t_ns if self._counter_ms >= 0 else None


class Epochs:
    """Collects the messages of one epoch after another and hands each epoch over once, when it has its anchor.

    The anchor is the message that holds the position: without it nothing is handed over, with it the epoch always is, whatever else
    of it was lost. An epoch with its anchor is handed over at its end message; where there is none, at the kind of message that
    mostly came last in the epochs before; else at the first message of another epoch, or by :meth:`expire`. An anchor that comes
    after another epoch has begun is handed over at once. What comes after the hand-over is late; a repetition is ignored.
    """

    def __init__(self, anchors: Iterable[str], timeout_ns: int, time_of: Callable[[int, int], int]) -> None:
        """``time_of(counter_ms, t_rx_ns)`` is our time of an epoch that begins. ``timeout_ns`` counts from the anchor."""
        self._anchors = frozenset(anchors)
        self._timeout_ns = timeout_ns
        self._time_of = time_of
        self._recent: dict[int, Epoch] = {}
        self._current: Epoch | None = None
        self._due_ns: int | None = None
        self._last_ratios: dict[str, float] = {}
        self._last = ""
        self._untimed: tuple[str, Any, int, int] | None = None
        self._untimed_leads = False
        self._late = 0

    @property
    def due_ns(self) -> int | None:
        """When the rest of the epoch that has its anchor is given up; None without one."""
        return self._due_ns

    def add(self, kind: str, counter_ms: int, message: Any, t_rx_ns: int) -> Sequence[Epoch]:
        """A message of the epoch ``counter_ms``; returns the epochs to hand over because of it."""
        done: list[Epoch] = []
        current, epoch = self._current, self._recent.get(counter_ms)
        if epoch is not None and epoch is not current and t_rx_ns - epoch.last_rx_ns > REPEAT_NS:
            # The receiver's time was set back: this instant is another one.
            epoch = None
        if epoch is None:
            if current is not None:
                if self._due_ns is not None:
                    done.append(self._hand_over(current))
                self._learn(current)
            epoch = Epoch(counter_ms, self._time_of(counter_ms, t_rx_ns), t_rx_ns, t_rx_ns, {})
            self._begin(epoch)
            if self._untimed is not None:
                self._place_untimed(epoch, t_rx_ns)
        self._untimed = None
        return [*done, *self._put(epoch, kind, message, t_rx_ns)]

    def join(self, kind: str, message: Any, t_rx_ns: int) -> Sequence[Epoch]:
        """A message that does not state its epoch: it belongs to the epoch whose messages arrived nearest to it."""
        epoch = self._current
        if epoch is None:
            self._untimed = (kind, message, t_rx_ns, FAR_NS)
            return ()
        self._untimed = (kind, message, t_rx_ns, t_rx_ns - epoch.last_rx_ns)
        return () if self._untimed_leads else self._put(epoch, kind, message, t_rx_ns, untimed=True)

    def expire(self) -> Epoch | None:
        """The rest does not come: the epoch as far as it is, if it has its anchor."""
        current = self._current
        return self._hand_over(current) if current is not None and self._due_ns is not None else None

    def take_late(self) -> int:
        """Messages that came after their epoch was handed over, since the last call."""
        late, self._late = self._late, 0
        return late

    def _begin(self, epoch: Epoch) -> None:
        recent = self._recent
        # Anew at the end, so that the first is the oldest.
        recent.pop(epoch.counter_ms, None)
        recent[epoch.counter_ms] = epoch
        if len(recent) > RECENT_EPOCHS:
            del recent[next(iter(recent))]
        self._current = epoch

    def _put(self, epoch: Epoch, kind: str, message: Any, t_rx_ns: int, *, untimed: bool = False) -> Sequence[Epoch]:
        new = kind not in epoch.parts
        if new:
            epoch.last_kind = kind
        if epoch.handed_over:
            if new:
                epoch.parts[kind] = message
                self._late += kind != LAST and not untimed
            return ()
        epoch.parts[kind] = message
        if kind != LAST and not untimed:
            epoch.last_rx_ns = t_rx_ns
        if self._anchors.isdisjoint(epoch.parts):
            return ()
        if epoch is not self._current or LAST in epoch.parts or self._last in epoch.parts:
            return (self._hand_over(epoch),)
        if self._due_ns is None:
            self._due_ns = t_rx_ns + self._timeout_ns
        return ()

    def _hand_over(self, epoch: Epoch) -> Epoch:
        epoch.handed_over = True
        if epoch is self._current:
            self._due_ns = None
        return epoch

    def _place_untimed(self, epoch: Epoch, t_rx_ns: int) -> None:
        """Decide whether the message before the first one of ``epoch`` belongs to it: then such messages lead from now on."""
        assert self._untimed is not None
        kind, message, untimed_rx_ns, gap_ns = self._untimed
        self._untimed_leads = t_rx_ns - untimed_rx_ns < gap_ns
        if self._untimed_leads:
            epoch.parts[kind] = message

    def _learn(self, epoch: Epoch) -> None:
        """A slow average over epochs, so that one lost message does not change what is waited for."""
        if self._anchors.isdisjoint(epoch.parts):
            return
        ratios = self._last_ratios
        first = not ratios
        ratios.setdefault(epoch.last_kind, 0.0)
        for kind in ratios:
            ratios[kind] += ((kind == epoch.last_kind) - ratios[kind]) * (1.0 if first else LEARNING_RATIO)
        self._last = next((kind for kind, ratio in ratios.items() if ratio > 0.5), "")
