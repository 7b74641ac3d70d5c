"""Source table of a caster: its mountpoints, their positions, and the closest matches to a
requested name."""

from collections.abc import Sequence
from math import asin, cos, isfinite, nan, radians, sin, sqrt
from typing import Final

from msgspec import Struct

MAX_TABLE_BYTES: Final = 4 << 20
"""Largest table accepted; the largest public ones are below one megabyte."""
MAX_LINE_BYTES: Final = 4_096
MAX_STREAMS: Final = 20_000
END: Final = "ENDSOURCETABLE"
EARTH_RADIUS_M: Final = 6_371_000.0


class Mountpoint(Struct, frozen=True):
    """One mountpoint (STR record). A missing position is NaN."""

    mountpoint: str
    latitude_rad: float = nan
    longitude_rad: float = nan

    def distance_m(self, latitude_rad: float, longitude_rad: float) -> float:
        """Return the great-circle distance, accurate to 0.5 %; NaN without a position in the
        table."""
        half_north = (latitude_rad - self.latitude_rad) / 2.0
        half_east = (longitude_rad - self.longitude_rad) / 2.0
        square = (
            sin(half_north) ** 2 + cos(latitude_rad) * cos(self.latitude_rad) * sin(half_east) ** 2
        )
        return 2.0 * EARTH_RADIUS_M * asin(sqrt(min(square, 1.0)))


class SourceTableReader:
    """Incremental reader of a source table, line by line. Never raises; bounded: oversized and
    unknown lines are skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = False
        self._total = 0
        self.streams: list[Mountpoint] = []
        """Mountpoints received so far."""
        self.complete = False
        """True after ``ENDSOURCETABLE``, or once a limit is exceeded."""

    def feed(self, data: bytes) -> list[Mountpoint]:
        """Return the mountpoints whose lines ``data`` completes. Bytes after the table are
        ignored."""
        self._total += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        before = len(self.streams)
        for line in lines:
            if self._skip:
                self._skip = False
            elif not self.complete:
                self._add(line)
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._skip = b"", True
        if self._total > MAX_TABLE_BYTES:
            self.complete = True
        return self.streams[before:]

    def end(self) -> list[Mountpoint]:
        """Return the last mountpoint at the end of the connection, because its line end may be
        missing."""
        return self.feed(b"\n") if self._rest else []

    def _add(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        stream = parse_stream(text) if len(line) <= MAX_LINE_BYTES else None
        if stream is not None:
            self.streams.append(stream)
        self.complete = text == END or len(self.streams) >= MAX_STREAMS


def parse_stream(line: str) -> Mountpoint | None:
    """Return a mountpoint of a table; None for another record or without a name."""
    kind, _, rest = line.partition(";")
    cells = _split(rest)
    if kind != "STR" or not cells[0]:
        return None
    latitude, longitude = (*cells[8:10], "", "")[:2]
    return Mountpoint(cells[0], _angle(latitude, 90.0), _angle(longitude, 360.0))


def _split(text: str) -> list[str]:
    """Return the cells between semicolons; quoted cells may contain semicolons (NTRIP 2.0)."""
    if '"' not in text:
        return [cell.strip() for cell in text.split(";")]
    cells: list[str] = []
    at = 0
    while at <= len(text):
        if (
            text.startswith('"', at)
            and (close := text.find('"', at + 1)) >= 0
            and text[close + 1 : close + 2] in {"", ";"}
        ):
            cells.append(text[at + 1 : close])
            at = close + 2
        else:
            found = text.find(";", at)
            stop = len(text) if found < 0 else found
            cells.append(text[at:stop].strip())
            at = stop + 1
    return cells


def _angle(cell: str, limit_deg: float) -> float:
    """Return an angle in rad, -pi..pi; NaN if invalid."""
    try:
        degrees = float(cell)
    except ValueError:
        return nan
    if not abs(degrees) <= limit_deg:
        return nan
    return radians(
        degrees - 360.0 if degrees > 180.0 else degrees + 360.0 if degrees < -180.0 else degrees
    )


class Closest:
    """Closest matches to a requested mountpoint, collected while the table arrives."""

    def __init__(
        self, wanted: str, latitude_rad: float = nan, longitude_rad: float = nan, keep: int = 3
    ) -> None:
        """Match by similarity to the name ``wanted`` and, with a position, by distance; ``keep`` of
        each."""
        self._pairs = _pairs(wanted)
        self._place = (latitude_rad, longitude_rad)
        self._keep = keep
        self._by_name: list[tuple[float, str]] = []
        self._by_distance: list[tuple[float, str]] = []

    def add(self, streams: Sequence[Mountpoint]) -> None:
        """Compare more mountpoints."""
        for stream in streams:
            pairs = _pairs(stream.mountpoint)
            alike = 2.0 * len(pairs & self._pairs) / (len(pairs) + len(self._pairs))
            self._by_name.append((-alike, stream.mountpoint))
            distance_m = stream.distance_m(*self._place)
            if isfinite(distance_m):
                self._by_distance.append((distance_m, stream.mountpoint))
        self._by_name = sorted(self._by_name)[: self._keep]
        self._by_distance = sorted(self._by_distance)[: self._keep]

    def names(self) -> list[str]:
        """Return the names, best match first."""
        return [name for _, name in self._by_name]

    def nearest(self) -> list[tuple[str, float]]:
        """Return names with distances (m); empty without a position."""
        return [(name, distance_m) for distance_m, name in self._by_distance]


def _pairs(name: str) -> set[str]:
    """Return the letter pairs of a name, which tolerate wrong case, missing letters and swapped
    parts."""
    folded = f"^{name.casefold()}$"
    return {folded[i : i + 2] for i in range(len(folded) - 1)}
