"""RTCM byte stream to messages: the common part of all sources of corrections."""

from collections.abc import Sequence

import msgspec

from drivers.rtcm.codec import FrameReader, Station, decode_station, message_type
from vehicled.messages import Corrections, Event, Message
from vehicled.ports import NEVER_NS
from vehicled.wire.usage import MessageUsage, Unused

STALE_NS = 2_000_000_000
"""Timeout of an incomplete frame, ns. Longer than a TCP retransmission, which would otherwise lose a frame; a false start claims at
most a kilobyte, so it seldom waits."""


class CorrectionFeed:
    """Converter of a stream to frames and :class:`Corrections`, and detector of a moved base.

    One message per frame, so a consumer may drop the oldest ones without cutting a frame. ``t_ns`` is the arrival, because frames
    are not read.
    """

    def __init__(self, origin: str, wanted: bool) -> None:
        """Count only, without producing corrections, if ``wanted`` is False, because the profile does not expect any."""
        self._origin = origin
        self._wanted = wanted
        self._reader = FrameReader()
        self._rx_ns = 0
        self._station: Station | None = None
        self.usage = MessageUsage()
        """Account of the messages by number. They are passed on unread, so every one is used if corrections are expected."""
        self.frames = 0
        """Complete frames of the present connection."""

    @property
    def due_ns(self) -> int:
        """Time at which :meth:`on_silence` is due; ``NEVER_NS`` if no frame is incomplete."""
        return self._rx_ns + STALE_NS if self._reader.buffered_bytes else NEVER_NS

    def reset(self) -> None:
        """Reset on a new connection, because the old partial frame would spoil the first one."""
        self._reader.clear()
        self._station = None
        self.frames = 0

    def feed(self, data: bytes, t_rx_ns: int) -> list[Message]:
        """Return the messages of the frames completed by ``data``. Never raises."""
        if not data:
            return []
        self._rx_ns = t_rx_ns
        return self._messages(self._reader.feed(data), t_rx_ns)

    def on_silence(self) -> list[Message]:
        """Return the frames behind a false start, stamped with the arrival of their last byte."""
        return self._messages(self._reader.flush(), self._rx_ns)

    def _messages(self, frames: Sequence[bytes], t_rx_ns: int) -> list[Message]:
        messages: list[Message] = []
        for frame in frames:
            self.frames += 1
            station = decode_station(frame)
            if station is not None and not _same(station, self._station):
                self._station = station
                messages.append(self._station_event(station, t_rx_ns))
            number = message_type(frame)
            name = str(number) if number else "RTCM3"
            if not self._wanted:
                self.usage.refuse(name, Unused.NOT_WANTED)
            else:
                self.usage.use(name)
                messages.append(Corrections(t_rx_ns, t_rx_ns, self._origin, frame))
        return messages

    def _station_event(self, station: Station, t_ns: int) -> Event:
        """Return the event for a new or changed station position, because a moved base moves the vehicle."""
        fields = {
            "origin": self._origin,
            "station": station.number,
            "ecef_m": [station.x_m, station.y_m, station.z_m],
            "virtual": station.virtual,
        }
        return Event(t_ns, "info", "corrections_station", msgspec.json.encode(fields).decode())


def _same(reported: Station, known: Station | None) -> bool:
    """True if two positions are equal: 1005 and 1006 of a station differ only in antenna height."""
    if known is None or reported.number != known.number:
        return False
    return (reported.x_m, reported.y_m, reported.z_m) == (known.x_m, known.y_m, known.z_m)
