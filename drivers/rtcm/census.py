"""Message census of an RTCM stream: the first thing to check if a receiver does not reach a fixed solution."""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from drivers.rtcm.codec import Station, decode_station, message_type, name_of, station_of

RATE_WINDOW = 32
"""Messages of one type used to measure its rate."""
MAX_STATIONS = 8
"""Station numbers kept. One is normal, two are a hand-over in a network, more are a mixed source."""


class MessageStats(Struct, frozen=True):
    """Statistics of one message type."""

    kind: int
    name: str
    count: int
    octets: int
    """Bytes of complete frames."""
    rate_hz: float
    """Rate over the last messages and the silence since, Hz; NaN before the second message."""
    last_ns: int
    """Arrival of the newest message."""


class _Tally:
    __slots__ = ("count", "octets", "times")

    def __init__(self) -> None:
        self.count = 0
        self.octets = 0
        self.times: deque[int] = deque(maxlen=RATE_WINDOW)


class Census:
    """Counts, bytes, rates and last arrival by message type, and the stations. Bounded, because types are 12-bit numbers."""

    def __init__(self) -> None:
        self._tallies: dict[int, _Tally] = {}
        self.frames = 0
        self.octets = 0
        """Bytes of complete frames."""
        self.station: Station | None = None
        """Newest position from a 1005 or 1006 message."""
        self.stations: list[int] = []
        """Station numbers in the order of their first message, ``MAX_STATIONS`` at most."""

    def add(self, frame: bytes, t_ns: int) -> bool:
        """Count a frame that arrived at ``t_ns``. Return True if it changed the station position."""
        kind = message_type(frame)
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = _Tally()
        tally.count += 1
        tally.octets += len(frame)
        tally.times.append(t_ns)
        self.frames += 1
        self.octets += len(frame)
        number = station_of(frame)
        if number is not None and number not in self.stations and len(self.stations) < MAX_STATIONS:
            self.stations.append(number)
        reported = decode_station(frame)
        if reported is None or _same(reported, self.station):
            return False
        self.station = reported
        return True

    def count(self, kind: int) -> int:
        """Return the number of messages of one type."""
        tally = self._tallies.get(kind)
        return tally.count if tally else 0

    def rows(self, now_ns: int) -> Sequence[MessageStats]:
        """Return one row per type, by number. ``now_ns`` lowers the rate of a type that has stopped."""
        return [
            MessageStats(kind, name_of(kind), tally.count, tally.octets, _rate_hz(tally.times, now_ns), tally.times[-1])
            for kind, tally in sorted(self._tallies.items())
        ]

    def missing(self) -> Sequence[str]:
        """Return what a fixed solution needs and has not arrived yet; empty if complete."""
        kinds = self._tallies.keys()
        lacks = []
        if not any(
            (1071 <= kind <= 1137 and kind % 10 in {4, 5, 6, 7}) or kind in {1003, 1004, 1011, 1012, 4072} for kind in kinds
        ):
            lacks.append("observations with carrier phase (MSM4 to MSM7)")
        if not {1005, 1006, 4072} & kinds:
            lacks.append("the station position (1005 or 1006)")
        if any(1084 <= kind <= 1087 or kind in {1011, 1012} for kind in kinds) and not {1033, 1230} & kinds:
            lacks.append("the GLONASS biases (1230 or 1033)")
        return lacks


def _same(reported: Station, known: Station | None) -> bool:
    """True if two positions are equal: 1005 and 1006 of a station differ only in antenna height."""
    if known is None or reported.number != known.number:
        return False
    return (reported.x_m, reported.y_m, reported.z_m) == (known.x_m, known.y_m, known.z_m)


def _rate_hz(times: deque[int], now_ns: int) -> float:
    span_ns = max(now_ns, times[-1]) - times[0]
    return (len(times) - 1) * 1e9 / span_ns if len(times) > 1 and span_ns > 0 else float("nan")
