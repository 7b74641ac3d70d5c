"""RTCM, SPARTN or RXM-PMP byte stream to messages: the common part of sources of corrections."""

from collections.abc import Sequence
from math import hypot
from typing import Literal

from drivers.rtcm import pmp, spartn
from drivers.rtcm.codec import STATION_TYPES, FrameReader, Station, decode_station, message_type
from vehicled.core.messages import Corrections, Event, Message
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.framing import PayloadReader
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

CorrectionProtocol = Literal["rtcm", "spartn"]
FeedProtocol = Literal["rtcm", "spartn", "pmp"]
STALE_NS = 2_000_000_000
"""Timeout of an incomplete frame, ns. Longer than a TCP retransmission, which would otherwise lose
a frame; a false start claims at most a kilobyte, so it seldom waits."""
MOVING_NS = 60_000_000_000
"""Shortest time between two reports of stations that change, ns: a base that surveys itself moves
with every message."""
STATIONS = 8
"""Stations reported at once; a caster that sends more of them changes them."""
EARTH_M = 6_340_000.0, 6_400_000.0
"""Distances of places on the earth from its centre, m; it is flat by 21 km."""


class CorrectionFeed:
    """Converter of a stream to frames and :class:`Corrections`, and detector of a moved base.

    One message per frame, so a consumer may drop the oldest ones without cutting a frame. ``t_ns``
    is the arrival, because frames are not read.
    """

    def __init__(self, origin: str, wanted: bool, protocol: FeedProtocol = "rtcm") -> None:
        """Count only, without producing corrections, if ``wanted`` is False, because the profile
        does not expect any."""
        self._origin = origin
        self._wanted = wanted
        self._protocol = protocol
        self._reader: PayloadReader = (
            spartn.SpartnReader()
            if protocol == "spartn"
            else pmp.PmpReader()
            if protocol == "pmp"
            else FrameReader()
        )
        self._rx_ns = 0
        self._stations: dict[int, Station] = {}
        self._changed_ns = -MOVING_NS
        self.usage = MessageUsage()
        """Account of the messages by number. They are passed on unread, so every one is used if
        corrections are expected."""
        self.frames = 0
        """Complete frames of the present connection."""

    @property
    def due_ns(self) -> int:
        """Time at which :meth:`on_silence` is due; ``NEVER_NS`` if no frame is incomplete."""
        return self._rx_ns + STALE_NS if self._reader.buffered_bytes else NEVER_NS

    def reset(self) -> None:
        """Reset on a new connection, because the old partial frame would spoil the first one."""
        self._reader.clear()
        self._stations.clear()
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
            number = message_type(frame) if self._protocol == "rtcm" else 0
            name = (
                spartn.name_of(frame)
                if self._protocol == "spartn"
                else pmp.NAME
                if self._protocol == "pmp"
                else str(number)
                if number
                else "RTCM3"
            )
            if number in STATION_TYPES:
                messages += self._on_station(name, decode_station(frame), t_rx_ns)
            if not self._wanted:
                self.usage.refuse(name, Unused.NOT_WANTED)
            else:
                self.usage.use(name)
                messages.append(Corrections(t_rx_ns, t_rx_ns, self._origin, frame))
        return messages

    def _on_station(self, name: str, station: Station | None, t_rx_ns: int) -> list[Message]:
        """Return the event of a new or moved station, and the warning of one whose place is
        none."""
        problem = station_problem(station)
        if problem is not None:
            self.usage.lose(name, *problem)
            return self.usage.take_events(t_rx_ns, self._origin)
        assert station is not None
        known = self._stations.get(station.number)
        if _same(station, known):
            return []
        if known is not None or len(self._stations) >= STATIONS:
            if t_rx_ns - self._changed_ns < MOVING_NS:
                return []
            self._changed_ns = t_rx_ns
        # Numbers have 12 bits, so this is bounded.
        self._stations[station.number] = station
        return [self._station_event(station, t_rx_ns)]

    def _station_event(self, station: Station, t_ns: int) -> Event:
        """Return the event for a new or changed station position, because a moved base moves the
        vehicle."""
        fields = {
            "origin": self._origin,
            "station": station.number,
            "ecef_m": [station.x_m, station.y_m, station.z_m],
            "virtual": station.virtual,
        }
        return Event.of(t_ns, "info", "corrections_station", **fields)


def station_problem(station: Station | None) -> UsageProblem | None:
    """Return why a base has no place: its receiver would make a wrong position of it, under a valid
    checksum."""
    if station is None:
        return UsageProblem(Unused.UNREADABLE, "length")
    from_centre_m = hypot(station.x_m, station.y_m, station.z_m)
    if from_centre_m == 0.0:
        return UsageProblem(Unused.ALL_ZERO, "place of the base")
    if not EARTH_M[0] <= from_centre_m <= EARTH_M[1]:
        return UsageProblem(
            Unused.OUT_OF_RANGE,
            "place of the base",
            f"{from_centre_m * 1e-3:.0f} km from the centre of the earth",
        )
    return None


def _same(reported: Station, known: Station | None) -> bool:
    """True if two positions are equal: 1005 and 1006 of a station differ only in antenna height."""
    if known is None or reported.number != known.number:
        return False
    return (reported.x_m, reported.y_m, reported.z_m) == (known.x_m, known.y_m, known.z_m)
