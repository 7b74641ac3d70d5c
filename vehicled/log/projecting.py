"""Adds standard ROS messages to the log, derived from ours in the writer process so that they cost
the loop nothing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.schema import CHANNELS, PROJECTION_CHANNEL_BASE
from vehicled.ros.cdr import CdrError, unpacker
from vehicled.ros.projections import PROJECTIONS, MessageProjection


class Projected(msgspec.Struct, frozen=True):
    """Channel of a standard ROS type."""

    id: int
    topic: str
    schema_name: str
    schema_text: str


class _Route:
    __slots__ = ("channel", "next_ns", "period_ns", "project")

    def __init__(
        self, channel: int, project: Callable[[Any, int], bytes | None], max_rate_hz: float
    ) -> None:
        self.channel = channel
        self.project = project
        self.period_ns = round(1e9 / max_rate_hz)
        self.next_ns = 0


class Projector:
    """Converter that appends projected records to chunks."""

    def __init__(
        self, offset_ns: int, projections: Sequence[MessageProjection] = PROJECTIONS
    ) -> None:
        self._offset_ns = offset_ns
        self.channels: dict[int, Projected] = {}
        by_topic: dict[str, int] = {}
        self._routes: dict[int, list[_Route]] = {}
        self._unpack: dict[int, Callable[[bytes], Any]] = {}
        for projection in projections:
            number = by_topic.setdefault(projection.topic, PROJECTION_CHANNEL_BASE + len(by_topic))
            self.channels[number] = Projected(
                number, projection.topic, projection.schema_name, projection.schema_text
            )
            source = CHANNELS[projection.source].id
            self._routes.setdefault(source, []).append(
                _Route(number, projection.project, projection.max_rate_hz)
            )
            self._unpack[source] = unpacker(projection.source)
        self.failures = 0
        """Number of records that could not be projected; they are in the log as our own type."""

    def extend(self, records: bytes) -> bytes:
        """Return the records, followed by their projections. Raises ``ValueError`` for a torn
        record."""
        extra: list[bytes] = []
        for channel, sequence, log_time, payload in self.projected(records):
            extra += (
                MESSAGE_HEAD.pack(5, 22 + len(payload), channel, sequence, log_time, log_time),
                payload,
            )
        return b"".join((records, *extra)) if extra else records

    def projected(self, records: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield (channel, sequence, log time, payload) of each projection. Raises ``ValueError``
        for a torn record."""
        for offset, length, channel, sequence, log_time in message_heads(records):
            routes = self._routes.get(channel)
            if routes is None:
                continue
            message = None
            for route in routes:
                if log_time < route.next_ns:
                    continue
                try:
                    if message is None:
                        start = offset + MESSAGE_HEAD.size
                        message = self._unpack[channel](records[start : start + length])
                    payload = route.project(message, self._offset_ns)
                except (CdrError, ValueError, OverflowError):
                    self.failures += 1
                    continue
                if payload is None:
                    continue
                # Keep the phase, so that 100 Hz limited to 50 Hz is every second message in spite
                # of jitter.
                due = route.next_ns + route.period_ns
                route.next_ns = (
                    due if due > log_time - route.period_ns else log_time + route.period_ns
                )
                yield route.channel, sequence, log_time, payload
