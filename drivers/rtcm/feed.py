"""From bytes of an RTCM stream to messages: what every source of corrections shares, whatever it is wrapped in."""

from collections.abc import Sequence

import msgspec

from drivers.rtcm.census import Census
from drivers.rtcm.codec import FrameReader
from vehicled.messages import Corrections, Event, Message
from vehicled.ports import NEVER_NS

STALE_NS = 2_000_000_000
"""A start that has waited this long without a byte is given up. Longer than a TCP retransmission, because a frame that was merely
on its way would be lost with it; a false start seldom waits so long, as it claims a kilobyte at most."""


class CorrectionFeed:
    """Cuts a stream into whole frames, counts them and makes :class:`Corrections` of them.

    One message per frame: a consumer may drop the oldest ones without ever cutting a frame. ``t_ns`` is the arrival, since the
    frames are not read.
    """

    def __init__(self, origin: str, wanted: bool) -> None:
        """``wanted`` False: count and tell, but produce no corrections, because the profile does not expect any."""
        self._origin = origin
        self._wanted = wanted
        self._reader = FrameReader()
        self._rx_ns = 0
        self.census = Census()
        """Since the last connection began."""

    @property
    def dropped_bytes(self) -> int:
        """Bytes that belonged to no whole frame."""
        return self._reader.dropped_bytes

    @property
    def bad_frames(self) -> int:
        """Starts of frames whose check sum did not hold."""
        return self._reader.bad_frames

    @property
    def due_ns(self) -> int:
        """When :meth:`on_silence` is due; ``NEVER_NS`` while no start of a frame waits."""
        return self._rx_ns + STALE_NS if self._reader.buffered_bytes else NEVER_NS

    def reset(self) -> None:
        """A new connection: the tail of the old one would only spoil the first frame."""
        self._reader.clear()
        self.census = Census()

    def feed(self, data: bytes, t_rx_ns: int) -> list[Message]:
        """Messages of the frames completed by ``data``. Never raises."""
        if not data:
            return []
        self._rx_ns = t_rx_ns
        return self._messages(self._reader.feed(data), t_rx_ns)

    def on_silence(self) -> list[Message]:
        """Frames hidden behind a false start, stamped with the arrival of their last byte."""
        return self._messages(self._reader.flush(), self._rx_ns)

    def _messages(self, frames: Sequence[bytes], t_rx_ns: int) -> list[Message]:
        messages: list[Message] = []
        for frame in frames:
            if self.census.add(frame, t_rx_ns):
                messages.append(self._station_event(t_rx_ns))
            if self._wanted:
                messages.append(Corrections(t_rx_ns, t_rx_ns, self._origin, frame))
        return messages

    def _station_event(self, t_ns: int) -> Event:
        """A base that moves takes the vehicle with it: worth a line each time the position is told anew or otherwise."""
        station = self.census.station
        assert station is not None
        fields = {
            "origin": self._origin,
            "station": station.number,
            "ecef_m": [station.x_m, station.y_m, station.z_m],
            "virtual": station.virtual,
        }
        return Event(t_ns, "info", "corrections_station", msgspec.json.encode(fields).decode())
