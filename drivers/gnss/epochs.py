"""Epochs: combines the messages of one instant, and computes its time on the host clock."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from vehicled.core.messages import TimePulse
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.usage import Unused

WEEK_MS = 604_800_000
LAST = "EOE"
"""Message that ends an epoch."""
RECENT_EPOCHS = 64
"""Epochs remembered, to recognise repeated and late messages."""
REPEAT_NS = 1_000_000_000
"""Age after which an old time tag is a new epoch, because the receiver's time was set back."""
LEARNING_RATIO = 0.25
"""Weight of one epoch in the learned message order: tolerates one lost message, not three in a
row."""
FAR_NS = 1 << 62
PULSE_NS = 5_000_000_000
"""Age up to which a pulse gives the time of an epoch: the computer's clock drifts by some 0.1 ms
meanwhile."""
PULSE_STEP_NS = 300_000_000
"""Difference from the time by the arrivals beyond which a pulse is not believed."""
NEAR_MS = 2_000
"""Distance from the newest instant beyond which a time is not of the same clock: some sentences
have GPS time, not UTC."""


class Epoch(Struct):
    """Messages of one instant by kind."""

    counter_ms: int
    t_ns: int
    first_rx_ns: int
    last_rx_ns: int
    parts: dict[str, Any]
    last_kind: str = ""
    """Kind of the newest message, in time or late."""
    handed_over: bool = False


class EpochClock:
    """Clock that computes times of validity from the receiver's exact time of week or day and the
    arrivals.

    One value per epoch, from its first message. Roll-overs of the week (or day, in NMEA) are
    handled. While pulses of a PPS pin come, they give the time, and the arrivals only bound it.
    """

    def __init__(self, modulus_ms: int, latency_ns: int) -> None:
        self.regression = DeviceClock(
            tick_ns=1e6, bits=None, modulus=modulus_ms, latency_ns=latency_ns
        )
        """Clock regression, public for its statistics."""
        self._modulus_ms = modulus_ms
        self._counter_ms = -1
        self._t_ns = 0
        self._utc_less_counter_ms: int | None = None
        self._pulse: TimePulse | None = None

    def on_pulse(self, pulse: TimePulse) -> None:
        """Use a pulse whose second is known."""
        if pulse.utc_ns:
            self._pulse = pulse

    def on_utc(self, counter_ms: int, utc_ns: int) -> None:
        """Learn how the counter of the epochs and UTC belong together; 0 for an unknown UTC."""
        if utc_ns:
            self._utc_less_counter_ms = round(utc_ns / 1e6) - counter_ms

    def _by_pulse(self, counter_ms: int, t_rx_ns: int, otherwise_ns: int) -> int:
        """Return the time of an instant by the newest pulse, or the other one where there is no
        pulse, or where it contradicts the arrivals."""
        pulse, utc_less_ms = self._pulse, self._utc_less_counter_ms
        if pulse is None or utc_less_ms is None or t_rx_ns - pulse.t_ns > PULSE_NS:
            return otherwise_ns
        half = self._modulus_ms // 2
        since_ms = counter_ms + utc_less_ms - pulse.utc_ns // 1_000_000
        t_ns = pulse.t_ns + ((since_ms + half) % self._modulus_ms - half) * 1_000_000
        fits = t_ns <= t_rx_ns and abs(t_ns - otherwise_ns) < PULSE_STEP_NS
        return t_ns if fits else otherwise_ns

    def time_of(self, counter_ms: int, t_rx_ns: int) -> int:
        """Return the host time of the instant ``counter_ms``, with a message that arrived at
        ``t_rx_ns``."""
        if counter_ms != self._counter_ms:
            ahead = (counter_ms - self._counter_ms) % self._modulus_ms < self._modulus_ms // 2
            first, self._counter_ms = self._counter_ms < 0, counter_ms
            by_arrival_ns = self.regression.update(counter_ms, t_rx_ns)
            t_ns = self._by_pulse(counter_ms, t_rx_ns, by_arrival_ns)
            if t_ns != by_arrival_ns and ahead and not first:
                # At the first pulse the times may step back by more than an epoch.
                t_ns = min(max(t_ns, self._t_ns + 1), t_rx_ns)
            self._t_ns = t_ns
        return self._t_ns

    @property
    def newest_ns(self) -> int | None:
        """Host time of the newest instant."""
        return self._t_ns if self._counter_ms >= 0 else None

    def near(self, counter_ms: int | None) -> int | None:
        """Return the host time of an instant close to the newest one, else that of the newest one.
        Learns nothing."""
        if self._counter_ms < 0 or counter_ms is None:
            return self.newest_ns
        half = self._modulus_ms // 2
        step_ms = (counter_ms - self._counter_ms + half) % self._modulus_ms - half
        return self._t_ns + step_ms * 1_000_000 if abs(step_ms) <= NEAR_MS else self._t_ns


class Epochs:
    """Collector of epochs; hands each over once, when it has its anchor.

    The anchor is the message with the position. An epoch with its anchor is always handed over: at
    its end message; without one, at the kind of message that usually came last; else at the first
    message of another epoch, or by :meth:`expire`. An anchor that comes after another epoch has
    begun is handed over at once. Later messages count as late; repetitions are ignored.
    """

    def __init__(
        self, anchors: Iterable[str], timeout_ns: int, time_of: Callable[[int, int], int]
    ) -> None:
        """Use ``time_of(counter_ms, t_rx_ns)`` as the host time of a new epoch. ``timeout_ns``
        counts from the anchor."""
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
        self._unused: list[tuple[Any, Unused]] = []

    @property
    def due_ns(self) -> int | None:
        """Timeout of an epoch that has its anchor; None without one."""
        return self._due_ns

    def add(self, kind: str, counter_ms: int, message: Any, t_rx_ns: int) -> Sequence[Epoch]:
        """Add a message of the epoch ``counter_ms``; return the epochs to hand over."""
        done: list[Epoch] = []
        current, epoch = self._current, self._recent.get(counter_ms)
        if epoch is not None and epoch is not current and t_rx_ns - epoch.last_rx_ns > REPEAT_NS:
            # The receiver's time was set back, so this is another instant.
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
        """Add a message without time to the epoch with the nearest arrival."""
        epoch = self._current
        if epoch is None:
            self._untimed = (kind, message, t_rx_ns, FAR_NS)
            return ()
        self._untimed = (kind, message, t_rx_ns, t_rx_ns - epoch.last_rx_ns)
        return () if self._untimed_leads else self._put(epoch, kind, message, t_rx_ns, untimed=True)

    def expire(self) -> Epoch | None:
        """Return the incomplete epoch at its timeout, if it has its anchor."""
        current = self._current
        return (
            self._hand_over(current) if current is not None and self._due_ns is not None else None
        )

    def take_unused(self) -> Sequence[tuple[Any, Unused]]:
        """Return the messages since the last call that came too late for their epoch, or repeated
        it."""
        if not self._unused:
            return ()
        unused, self._unused = self._unused, []
        return unused

    def _begin(self, epoch: Epoch) -> None:
        recent = self._recent
        # Reinsert at the end, so that the first is the oldest.
        recent.pop(epoch.counter_ms, None)
        recent[epoch.counter_ms] = epoch
        if len(recent) > RECENT_EPOCHS:
            del recent[next(iter(recent))]
        self._current = epoch

    def _put(
        self, epoch: Epoch, kind: str, message: Any, t_rx_ns: int, *, untimed: bool = False
    ) -> Sequence[Epoch]:
        new = kind not in epoch.parts
        if new:
            epoch.last_kind = kind
        if epoch.handed_over:
            if new:
                epoch.parts[kind] = message
            if kind != LAST and not untimed:
                self._unused.append((message, Unused.LATE if new else Unused.REPEATED))
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
        """Decide if the message before the first one of ``epoch`` belongs to it; such messages then
        lead their epochs."""
        assert self._untimed is not None
        kind, message, untimed_rx_ns, gap_ns = self._untimed
        self._untimed_leads = t_rx_ns - untimed_rx_ns < gap_ns
        if self._untimed_leads:
            epoch.parts[kind] = message

    def _learn(self, epoch: Epoch) -> None:
        """Update the slow average of message orders, so that one lost message has little effect."""
        if self._anchors.isdisjoint(epoch.parts):
            return
        ratios = self._last_ratios
        first = not ratios
        ratios.setdefault(epoch.last_kind, 0.0)
        for kind in ratios:
            ratios[kind] += ((kind == epoch.last_kind) - ratios[kind]) * (
                1.0 if first else LEARNING_RATIO
            )
        self._last = next((kind for kind, ratio in ratios.items() if ratio > 0.5), "")
