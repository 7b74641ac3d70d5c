"""Exports the drive as GPX, GeoJSON or KML: estimated track, raw GNSS fixes and course.

The estimate (rear axle) is converted with the datum of the course in the log; fixes (antenna) are
as received. Coordinates are WGS 84 degrees, heights above the ellipsoid, times UTC.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from math import degrees, isfinite
from typing import IO
from xml.sax.saxutils import escape

import msgspec
from msgspec import Struct

from vehicled.core.messages import EstimatorStatus, FixType, GnssFix, StateEstimate
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.export.columns import header_of, records
from vehicled.offline.analysis.export.exporting import ExportRequest, ExportResult
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError

DEFAULT_RATE_HZ = 10.0
GAP_NS = 2_000_000_000
"""Longest gap within a segment of the track, ns."""


class TrackPoint(Struct, frozen=True, gc=False):
    """Geodetic point of a track."""

    utc_ns: int
    latitude_deg: float
    longitude_deg: float
    height_m: float


class _TrackPlace(Struct):
    latitude_rad: float
    longitude_rad: float
    height_m: float


class _Course(Struct):
    datum: _TrackPlace
    name: str = "course"
    closed: bool = False
    x_m: list[float] = []
    y_m: list[float] = []


class _Map:
    """Tracks and course of a run. Each track is read from the file again, so nothing is kept in
    memory."""

    def __init__(self, request: ExportRequest) -> None:
        rate_hz = request.rate_hz if request.rate_hz is not None else DEFAULT_RATE_HZ
        if not 0.0 < rate_hz <= 1000.0:
            raise LogError(f"a rate of {rate_hz:g} Hz must be above 0 and at most 1000 Hz")
        self._request = request
        self._period_ns = round(1e9 / rate_hz)
        self.header = header_of(request.path)
        self.notes: list[str] = []
        self.counts = {"estimate": 0, "gnss": 0}
        self._course: _Course | None = None
        self._datum: Datum | None = None
        try:
            with LogReader(request.path) as log:
                self._course = msgspec.json.decode(log.attachment("course.json"), type=_Course)
            place = self._course.datum
            self._datum = Datum(place.latitude_rad, place.longitude_rad, place.height_m)
        except (LogError, msgspec.MsgspecError, CourseError) as error:
            self.notes.append(
                "only GNSS fixes were exported: the estimate cannot be georeferenced without "
                f"the datum of a course ({error})"
            )

    @property
    def title(self) -> str:
        return f"{self.header.profile} {self.header.course} {self.header.run_id}"

    def segments(self, name: str) -> Iterator[list[TrackPoint]]:
        """Yield the segments of a track, split at gaps."""
        piece: list[TrackPoint] = []
        for point in self._estimate() if name == "estimate" else self._fixes():
            self.counts[name] += 1
            if piece and not 0 <= point.utc_ns - piece[-1].utc_ns <= GAP_NS:
                yield piece
                piece = []
            piece.append(point)
        if piece:
            yield piece

    def _estimate(self) -> Iterator[TrackPoint]:
        datum = self._datum
        if datum is None:
            return
        due_ns = 0
        offset_ns = self.header.offset_ns
        for t_ns, record in records(self._request.path, (StateEstimate,)):
            message = record.message
            assert isinstance(message, StateEstimate)
            usable = message.status in (EstimatorStatus.RUNNING, EstimatorStatus.ALIGNING)
            if t_ns < due_ns or not usable or not (isfinite(message.x_m) and isfinite(message.y_m)):
                continue
            # Keep the phase; otherwise jitter would lower the rate.
            due_ns = (
                due_ns + self._period_ns
                if due_ns + self._period_ns > t_ns
                else t_ns + self._period_ns
            )
            latitude, longitude, height = datum.to_geodetic(message.x_m, message.y_m, 0.0)
            yield TrackPoint(
                message.t_ns + offset_ns, degrees(latitude), degrees(longitude), height
            )

    def _fixes(self) -> Iterator[TrackPoint]:
        offset_ns = self.header.offset_ns
        for _, record in records(self._request.path, (GnssFix,)):
            fix = record.message
            assert isinstance(fix, GnssFix)
            if (
                fix.fix_type >= FixType.DEAD_RECKONING
                and isfinite(fix.latitude_rad)
                and isfinite(fix.longitude_rad)
            ):
                yield TrackPoint(
                    fix.t_ns + offset_ns,
                    degrees(fix.latitude_rad),
                    degrees(fix.longitude_rad),
                    fix.height_m,
                )

    def course(self) -> tuple[str, list[TrackPoint]]:
        """Return name and points of the course; both empty if the log has no course."""
        course, datum = self._course, self._datum
        if (
            course is None
            or datum is None
            or len(course.x_m) < 2
            or len(course.x_m) != len(course.y_m)
        ):
            return "", []
        points = []
        for x, y in zip(course.x_m, course.y_m):
            latitude, longitude, height = datum.to_geodetic(x, y, 0.0)
            points.append(TrackPoint(0, degrees(latitude), degrees(longitude), height))
        return course.name, points + points[:1] if course.closed else points

    def done(self) -> ExportResult:
        if not any(self.counts.values()):
            raise LogError(
                f"{self._request.path}: holds neither a georeferenced estimate nor a GNSS fix: "
                "no track to export"
            )
        return ExportResult(files=[self._request.out], counts=self.counts, notes=self.notes)


def write_gpx(request: ExportRequest) -> ExportResult:
    """Write GPX 1.1: tracks ``estimate`` and ``gnss`` with times, and the course as a route."""
    drawn = _Map(request)
    with open(request.out, "x", encoding="utf-8") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        out.write(
            '<gpx version="1.1" creator="vehicled" xmlns="http://www.topografix.com/GPX/1/1">\n'
        )
        out.write(f"<metadata><name>{escape(drawn.title)}</name></metadata>\n")
        name, course = drawn.course()
        if course:
            out.write(f"<rte><name>{escape(name)}</name>\n")
            out.writelines(f"<rtept {_attributes(point)}/>\n" for point in course)
            out.write("</rte>\n")
        for name in drawn.counts:
            out.write(f"<trk><name>{name}</name>\n")
            for piece in drawn.segments(name):
                out.write("<trkseg>\n")
                for point in piece:
                    height = f"<ele>{point.height_m:.3f}</ele>" if isfinite(point.height_m) else ""
                    out.write(
                        "<trkpt "
                        f"{_attributes(point)}>{height}<time>{_utc(point.utc_ns)}</time></trkpt>\n"
                    )
                out.write("</trkseg>\n")
            out.write("</trk>\n")
        out.write("</gpx>\n")
    return drawn.done()


def write_geojson(request: ExportRequest) -> ExportResult:
    """Write GeoJSON (RFC 7946): a MultiLineString for each track with its times in ``coordTimes``,
    and the course."""
    drawn = _Map(request)
    with open(request.out, "x", encoding="utf-8") as out:
        out.write('{"type": "FeatureCollection", "features": [\n')
        name, course = drawn.course()
        if course:
            places = [_coordinates(point) for point in course]
            _json_feature(
                out,
                {"name": name, "kind": "course"},
                {"type": "LineString", "coordinates": places},
                end=",\n",
            )
        for name in drawn.counts:
            times: list[list[str]] = []
            lines: list[list[list[float]]] = []
            for piece in drawn.segments(name):
                # GeoJSON requires at least two points per line.
                points = piece if len(piece) > 1 else piece * 2
                lines.append([_coordinates(point) for point in points])
                times.append([_utc(point.utc_ns) for point in points])
            properties = {"name": name, "kind": "track", "coordTimes": times}
            end = "\n" if name == "gnss" else ",\n"
            _json_feature(
                out, properties, {"type": "MultiLineString", "coordinates": lines}, end=end
            )
        out.write("]}\n")
    return drawn.done()


def write_kml(request: ExportRequest) -> ExportResult:
    """Write KML 2.2: a coloured ground line for each track and for the course."""
    drawn = _Map(request)
    with open(request.out, "x", encoding="utf-8") as out:
        out.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n<kml '
            'xmlns="http://www.opengis.net/kml/2.2"><Document>\n'
        )
        out.write(f"<name>{escape(drawn.title)}</name>\n")
        for style, colour in (
            ("course", "ff999999"),
            ("estimate", "ffd07000"),
            ("gnss", "ff0050f0"),
        ):
            out.write(
                "<Style "
                f'id="{style}"><LineStyle><color>{colour}</color><width>3</width></LineStyle></Style>\n'
            )
        name, course = drawn.course()
        if course:
            _kml_line(out, name, "course", course)
        for name in drawn.counts:
            for piece in drawn.segments(name):
                _kml_line(out, name, name, piece)
        out.write("</Document></kml>\n")
    return drawn.done()


def _kml_line(out: IO[str], name: str, style: str, points: list[TrackPoint]) -> None:
    span = ""
    if points[0].utc_ns:
        begin, end = _utc(points[0].utc_ns), _utc(points[-1].utc_ns)
        span = f"<TimeSpan><begin>{begin}</begin><end>{end}</end></TimeSpan>"
    out.write(f"<Placemark><name>{escape(name)}</name>{span}<styleUrl>#{style}</styleUrl>\n")
    out.write("<LineString><tessellate>1</tessellate><coordinates>\n")
    out.writelines(
        ",".join(f"{value:.9f}" for value in _coordinates(point)) + "\n" for point in points
    )
    out.write("</coordinates></LineString></Placemark>\n")


def _json_feature(out: IO[str], properties: object, geometry: object, *, end: str) -> None:
    feature = {"type": "Feature", "properties": properties, "geometry": geometry}
    out.write(msgspec.json.encode(feature).decode() + end)


def _coordinates(point: TrackPoint) -> list[float]:
    place = [round(point.longitude_deg, 9), round(point.latitude_deg, 9)]
    return [*place, round(point.height_m, 3)] if isfinite(point.height_m) else place


def _attributes(point: TrackPoint) -> str:
    return f'lat="{point.latitude_deg:.9f}" lon="{point.longitude_deg:.9f}"'


def _utc(utc_ns: int) -> str:
    seconds, rest = divmod(utc_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
