"""Source table of a caster: its mountpoints, their positions, and the closest matches to a requested name."""

from collections.abc import Sequence
from math import asin, cos, isfinite, nan, radians, sin, sqrt
from typing import Final

from msgspec import Struct

MAX_TABLE_BYTES: Final = 4 << 20
"""Largest table accepted; the largest public ones are below one megabyte."""
MAX_LINE_BYTES: Final = 4_096
MAX_RECORDS: Final = 20_000
END: Final = "ENDSOURCETABLE"
EARTH_RADIUS_M: Final = 6_371_000.0


class Stream(Struct, frozen=True):
    """One mountpoint (STR record). Missing values are empty or NaN."""

    mountpoint: str
    identifier: str = ""
    format: str = ""
    format_details: str = ""
    """Message types with their periods, as in ``1005(10),1077(1)``."""
    carrier: int = 0
    """Carrier phase: 0 none, 1 L1, 2 L1 and L2 or more."""
    systems: str = ""
    network: str = ""
    country: str = ""
    latitude_rad: float = nan
    longitude_rad: float = nan
    wants_position: bool = False
    """True if the caster needs the rover's position."""
    networked: bool = False
    """True if computed from several stations."""
    generator: str = ""
    compression: str = ""
    authentication: str = ""
    """Authentication: ``N`` none, ``B`` basic, ``D`` digest."""
    fee: bool = False
    bitrate: int = 0
    misc: str = ""

    def distance_m(self, latitude_rad: float, longitude_rad: float) -> float:
        """Return the great-circle distance, accurate to 0.5 %; NaN without a position in the table."""
        half_north = (latitude_rad - self.latitude_rad) / 2.0
        half_east = (longitude_rad - self.longitude_rad) / 2.0
        square = sin(half_north) ** 2 + cos(latitude_rad) * cos(self.latitude_rad) * sin(half_east) ** 2
        return 2.0 * EARTH_RADIUS_M * asin(sqrt(min(square, 1.0)))


class Caster(Struct, frozen=True):
    """Another caster recommended by this one (CAS record)."""

    host: str
    port: int = 0
    identifier: str = ""
    operator: str = ""
    wants_position: bool = False
    country: str = ""
    latitude_rad: float = nan
    longitude_rad: float = nan
    fallback_host: str = ""
    fallback_port: int = 0
    misc: str = ""


class Network(Struct, frozen=True):
    """Network of stations (NET record)."""

    identifier: str
    operator: str = ""
    authentication: str = ""
    fee: bool = False
    web: str = ""
    streams_web: str = ""
    registration: str = ""
    misc: str = ""


Record = Stream | Caster | Network


class SourceTable(Struct, frozen=True):
    """Complete source table."""

    streams: Sequence[Stream] = ()
    casters: Sequence[Caster] = ()
    networks: Sequence[Network] = ()
    complete: bool = False
    """True if the table's last line arrived."""
    bad_lines: int = 0
    """Lines that are not a known record."""


HEADINGS: Final = (
    "mountpoint",
    "distance km",
    "format",
    "systems",
    "carrier",
    "position",
    "access",
    "country",
    "place",
    "messages",
)


def rows(
    table: SourceTable, latitude_rad: float = nan, longitude_rad: float = nan, limit: int | None = None
) -> list[tuple[str, ...]]:
    """Return the mountpoints as a table of texts under ``HEADINGS``: by distance if a position is given, else by name."""

    def order(stream: Stream) -> tuple[float, str]:
        distance_m = stream.distance_m(latitude_rad, longitude_rad)
        return (distance_m if isfinite(distance_m) else float("inf"), stream.mountpoint.casefold())

    listed: list[tuple[str, ...]] = []
    for stream in sorted(table.streams, key=order)[:limit]:
        distance_m = stream.distance_m(latitude_rad, longitude_rad)
        listed.append(
            (
                stream.mountpoint,
                f"{distance_m / 1e3:.1f}" if isfinite(distance_m) else "",
                stream.format,
                stream.systems,
                {0: "", 1: "L1", 2: "L1+L2"}.get(stream.carrier, str(stream.carrier)),
                "needed" if stream.wants_position else "",
                {"N": "open", "B": "password", "D": "digest"}.get(stream.authentication, stream.authentication)
                + (", fee" if stream.fee else ""),
                stream.country,
                stream.identifier,
                stream.format_details,
            )
        )
    return listed


class SourceTableReader:
    """Incremental reader of a source table, line by line. Never raises; bounded: oversized lines are counted and skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = False
        self._streams: list[Stream] = []
        self._casters: list[Caster] = []
        self._networks: list[Network] = []
        self._total = 0
        self._records = 0
        self.bad_lines = 0
        self.complete = False
        """True after ``ENDSOURCETABLE``, or once the size limit is exceeded."""

    def feed(self, data: bytes) -> list[Stream]:
        """Return the mountpoints whose lines ``data`` completes. Bytes after the table are ignored."""
        self._total += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        fresh: list[Stream] = []
        for line in lines:
            if self._skip:
                self._skip = False
            elif not self.complete:
                self._add(line, fresh)
        if len(self._rest) > MAX_LINE_BYTES:
            self.bad_lines += not self._skip
            self._rest, self._skip = b"", True
        if self._total > MAX_TABLE_BYTES:
            self.complete = True
        self._streams += fresh
        return fresh

    def end(self) -> list[Stream]:
        """Return the last mountpoint at the end of the connection, because its line end may be missing."""
        return self.feed(b"\n") if self._rest else []

    def table(self) -> SourceTable:
        """Return the table received so far."""
        return SourceTable(tuple(self._streams), tuple(self._casters), tuple(self._networks), self.complete, self.bad_lines)

    def _add(self, line: bytes, streams: list[Stream]) -> None:
        text = line.decode("utf-8", "replace").strip()
        if text == END:
            self.complete = True
            return
        record = parse_record(text) if len(line) <= MAX_LINE_BYTES else None
        match record:
            case None:
                self.bad_lines += bool(text)
                return
            case Stream():
                streams.append(record)
            case Caster():
                self._casters.append(record)
            case Network():
                self._networks.append(record)
        self._records += 1
        self.complete = self._records >= MAX_RECORDS


def parse(data: bytes) -> SourceTable:
    """Return a source table from a response body. Never raises."""
    reader = SourceTableReader()
    reader.feed(data)
    reader.end()
    return reader.table()


def parse_record(line: str) -> Record | None:
    """Return one record of a table; None for another kind or without a name."""
    kind, _, rest = line.partition(";")
    if kind not in {"STR", "CAS", "NET"}:
        return None
    have = _split(rest)
    if not have[0]:
        return None
    if kind == "STR":
        cells = _padded(have, 18)
        return Stream(
            mountpoint=cells[0],
            identifier=cells[1],
            format=cells[2],
            format_details=cells[3],
            carrier=_number(cells[4]),
            systems=cells[5],
            network=cells[6],
            country=cells[7],
            latitude_rad=_angle(cells[8], 90.0),
            longitude_rad=_angle(cells[9], 360.0),
            wants_position=cells[10] == "1",
            networked=cells[11] == "1",
            generator=cells[12],
            compression=cells[13],
            authentication=cells[14].upper(),
            fee=cells[15].upper() == "Y",
            bitrate=_number(cells[16]),
            misc=cells[17],
        )
    if kind == "CAS":
        cells = _padded(have, 11)
        return Caster(
            host=cells[0],
            port=_number(cells[1]),
            identifier=cells[2],
            operator=cells[3],
            wants_position=cells[4] == "1",
            country=cells[5],
            latitude_rad=_angle(cells[6], 90.0),
            longitude_rad=_angle(cells[7], 360.0),
            fallback_host=cells[8],
            fallback_port=_number(cells[9]),
            misc=cells[10],
        )
    cells = _padded(have, 8)
    return Network(cells[0], cells[1], cells[2].upper(), cells[3].upper() == "Y", cells[4], cells[5], cells[6], cells[7])


def _split(text: str) -> list[str]:
    """Return the cells between semicolons; quoted cells may contain semicolons (NTRIP 2.0)."""
    if '"' not in text:
        return [cell.strip() for cell in text.split(";")]
    cells: list[str] = []
    at = 0
    while at <= len(text):
        if text.startswith('"', at) and (close := text.find('"', at + 1)) >= 0 and text[close + 1 : close + 2] in {"", ";"}:
            cells.append(text[at + 1 : close])
            at = close + 2
        else:
            found = text.find(";", at)
            stop = len(text) if found < 0 else found
            cells.append(text[at:stop].strip())
            at = stop + 1
    return cells


def _padded(cells: list[str], count: int) -> list[str]:
    """Return exactly ``count`` cells; the last takes the rest."""
    cells = cells + [""] * (count - len(cells))
    return [*cells[: count - 1], ";".join(cells[count - 1 :]).strip(";")]


def _number(cell: str) -> int:
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 10 else 0


def _angle(cell: str, limit_deg: float) -> float:
    """Return an angle in rad, -pi..pi; NaN if invalid."""
    try:
        degrees = float(cell)
    except ValueError:
        return nan
    if not abs(degrees) <= limit_deg:
        return nan
    return radians(degrees - 360.0 if degrees > 180.0 else degrees + 360.0 if degrees < -180.0 else degrees)


class Closest:
    """Closest matches to a requested mountpoint, collected while the table arrives."""

    def __init__(self, wanted: str, latitude_rad: float = nan, longitude_rad: float = nan, keep: int = 3) -> None:
        """Match by similarity to the name ``wanted`` and, with a position, by distance; ``keep`` of each."""
        self._pairs = _pairs(wanted)
        self._place = (latitude_rad, longitude_rad)
        self._keep = keep
        self._by_name: list[tuple[float, str]] = []
        self._by_distance: list[tuple[float, str]] = []

    def add(self, streams: Sequence[Stream]) -> None:
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
    """Return the letter pairs of a name, which tolerate wrong case, missing letters and swapped parts."""
    folded = f"^{name.casefold()}$"
    return {folded[i : i + 2] for i in range(len(folded) - 1)}
