"""Foxglove's WebSocket protocol: live channels with the schemas and bytes of the log. Pure.

See https://github.com/foxglove/ws-protocol, docs/spec.md, version 1. The newer subprotocol
``foxglove.sdk.v1`` is the same for reading, which is all that is offered: the server has no
capabilities.
"""

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from vehicled.core.messages import Path
from vehicled.live.view.wire import ViewConfig
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.projecting import Projector
from vehicled.log.schema import (
    CHANNELS,
    MESSAGE_ENCODING,
    PROJECTION_CHANNEL_BASE,
    SCHEMA_ENCODING,
    schema_of,
)

SUBPROTOCOLS = ("foxglove.sdk.v1", "foxglove.websocket.v1")
"""Supported subprotocols, in order of preference."""
MAX_SUBSCRIPTIONS = 200
"""Limit per request; the rest is ignored."""
MESSAGE_DATA = struct.Struct("<BIQ")
"""Header of binary messages: opcode, subscription, receive time in ns."""
INFO, WARNING, ERROR = range(3)


class _Subscription(Struct, frozen=True):
    id: int
    channel: int = msgspec.field(name="channelId")


class Subscribe(Struct, frozen=True, tag_field="op", tag="subscribe"):
    """Request to send messages of some channels."""

    subscriptions: list[_Subscription]


class Unsubscribe(Struct, frozen=True, tag_field="op", tag="unsubscribe"):
    """Request to end subscriptions."""

    ids: list[int] = msgspec.field(name="subscriptionIds")


_decoder = msgspec.json.Decoder(Subscribe | Unsubscribe)


class SharedChannels:
    """State shared by all Foxglove connections: channels, latched messages, and conversions to
    standard types."""

    def __init__(self, opening: ViewConfig) -> None:
        self._projector = Projector(opening.offset_ns)
        course = {
            number
            for number, channel in self._projector.channels.items()
            if channel.topic == "/course"
        }
        self._course = CHANNELS[Path].id
        self._once = {self._course, *course}
        """Channels whose newest message is sent to later subscribers."""
        self.kept: dict[int, tuple[int, bytes]] = {}
        self.channels = {channel.id for channel in CHANNELS.values()} | set(
            self._projector.channels
        )
        info = {
            "op": "serverInfo",
            "name": f"vehicled {opening.version}, {opening.profile}",
            "capabilities": [],
            "supportedEncodings": [],
            "metadata": {"profile": opening.profile, "course": opening.course.name},
            "sessionId": opening.session,
        }
        self.greeting = [
            _text(info),
            _text({"op": "advertise", "channels": [*_own_channels(), *self._projected_channels()]}),
        ]

    def _projected_channels(self) -> Iterable[dict[str, Any]]:
        for channel in self._projector.channels.values():
            yield _channel(channel.id, channel.topic, channel.schema_name, channel.schema_text)

    def messages(self, records: bytes, wanted: set[int]) -> list[tuple[int, int, bytes]]:
        """Return (channel, UTC in ns, CDR bytes) of the records of some channels, with conversions.
        Raises ValueError for damaged records.
        """
        heads = list(message_heads(records))
        course = any(head[2] == self._course for head in heads)
        if course or any(channel >= PROJECTION_CHANNEL_BASE for channel in wanted):
            records = self._projector.extend(records)
            heads = list(message_heads(records))
        found = []
        for offset, length, channel, _, log_time in heads:
            if channel in wanted or channel in self._once:
                start = offset + MESSAGE_HEAD.size
                message = channel, log_time, records[start : start + length]
                if channel in self._once:
                    self.kept[channel] = log_time, message[2]
                if channel in wanted:
                    found.append(message)
        return found


class FoxgloveSession:
    """Protocol state of one connection."""

    def __init__(self, shared: SharedChannels) -> None:
        self._shared = shared
        self._channel_of: dict[int, int] = {}
        self.subscription_of: dict[int, int] = {}
        """Subscription numbers by channel."""

    def receive(self, text: str | bytes) -> list[str | bytes]:
        """Return the answers to a message of the client."""
        if isinstance(text, bytes):
            return [_status(WARNING, "publishing is not possible: this server is read-only")]
        try:
            request = _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return [_status(WARNING, f"message ignored, not part of reading: {error}"[:300])]
        if isinstance(request, Subscribe):
            return [
                answer
                for wanted in request.subscriptions[:MAX_SUBSCRIPTIONS]
                for answer in self._subscribe(wanted)
            ]
        answers: list[str | bytes] = []
        for number in request.ids[:MAX_SUBSCRIPTIONS]:
            channel = self._channel_of.pop(number, None)
            if channel is None:
                answers.append(_status(WARNING, f"no subscription {number}"))
            else:
                del self.subscription_of[channel]
        return answers

    def _subscribe(self, wanted: _Subscription) -> list[str | bytes]:
        number, channel = wanted.id, wanted.channel
        if channel not in self._shared.channels:
            return [_status(WARNING, f"no channel {channel}")]
        if not 0 <= number < 2**32 or number in self._channel_of or channel in self.subscription_of:
            return [
                _status(
                    WARNING,
                    (
                        f"subscription {number} of channel {channel} rejected: numbers must be "
                        "unique, from 0 to 2**32 - 1"
                    ),
                )
            ]
        self._channel_of[number], self.subscription_of[channel] = channel, number
        kept = self._shared.kept.get(channel)
        return [] if kept is None else [self.data(channel, *kept)]

    def data(self, channel: int, t_ns: int, payload: bytes) -> bytes:
        """Encode a message of a subscribed channel."""
        return MESSAGE_DATA.pack(1, self.subscription_of[channel], t_ns) + payload


def dropped_status(count: int) -> str:
    """Return the status message for a connection that is too slow."""
    return _status(WARNING, f"{count} messages dropped so far: this connection is too slow")


def displaced_status() -> str:
    """Return the status message for a connection that gives way to a page."""
    return _status(WARNING, "a page took the place of this connection")


def _status(level: Literal[0, 1, 2] | int, message: str) -> str:
    return _text({"op": "status", "level": level, "message": message})


@cache
def _own_channels() -> tuple[dict[str, Any], ...]:
    return tuple(
        _channel(channel.id, channel.topic, *schema_of(message))
        for message, channel in CHANNELS.items()
    )


def _channel(number: int, topic: str, schema_name: str, schema: str) -> dict[str, Any]:
    return {
        "id": number,
        "topic": topic,
        "encoding": MESSAGE_ENCODING,
        "schemaName": schema_name,
        "schema": schema,
        "schemaEncoding": SCHEMA_ENCODING,
    }


def _text(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message).decode()
