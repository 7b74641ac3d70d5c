"""Epochs: the messages that a receiver sends of one instant, put together, and the time of that instant on our clock."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from vehicled.wire.clock import DeviceClock

WEEK_MS = 604_800_000
LAST = "EOE"
"""The message that ends an epoch."""


class Epoch(Struct):
    """Messages of one instant by kind."""

    counter_ms: int
    t_ns: int
    first_rx_ns: int
    last_rx_ns: int
    parts: dict[str, Any]


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
    """Collects the messages of one epoch after another.

    An epoch ends with its end message, or where there is none: when all kinds of the epoch before have come, when a message of
    another epoch comes, or when :meth:`expire` is called. A message that comes after the end of its epoch is lost to it, but the
    next epoch waits for its kind.
    """

    def __init__(self) -> None:
        self._open: Epoch | None = None
        self._closed_counter_ms: int | None = None
        self._expected: set[str] = set()
        self._late = 0

    @property
    def open_since_ns(self) -> int | None:
        """Arrival of the first message of the epoch that is being collected."""
        return self._open.first_rx_ns if self._open is not None else None

    def add(self, kind: str, counter_ms: int, t_ns: int, message: Any, t_rx_ns: int) -> Iterable[Epoch]:
        """A message of the epoch ``counter_ms``; returns the epochs that are complete with it."""
        done: list[Epoch] = []
        epoch = self._open
        if epoch is None or epoch.counter_ms != counter_ms:
            if counter_ms == self._closed_counter_ms:
                self._late += kind != LAST
                self._expected.add(kind)
                return done
            if epoch is not None:
                done.append(self._close(epoch))
            epoch = self._open = Epoch(counter_ms, t_ns, t_rx_ns, t_rx_ns, {})
        epoch.parts[kind] = message
        if kind == LAST:
            done.append(self._close(epoch))
            return done
        epoch.last_rx_ns = t_rx_ns
        if self._expected and self._expected <= epoch.parts.keys():
            done.append(self._close(epoch))
        return done

    def join(self, kind: str, message: Any, t_rx_ns: int) -> Iterable[Epoch]:
        """A message that does not tell its epoch: it belongs to the one being collected."""
        epoch = self._open
        if epoch is None:
            return ()
        return self.add(kind, epoch.counter_ms, epoch.t_ns, message, t_rx_ns)

    def expire(self) -> Epoch | None:
        """The rest does not come: the epoch as far as it is."""
        return self._close(self._open) if self._open is not None else None

    def take_late(self) -> int:
        """Messages that came after the end of their epoch, since the last call."""
        late, self._late = self._late, 0
        return late

    def _close(self, epoch: Epoch) -> Epoch:
        self._open = None
        self._closed_counter_ms = epoch.counter_ms
        self._expected = set(epoch.parts)
        return epoch
