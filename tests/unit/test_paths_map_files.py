"""Lines drawn or recorded in map programs: KML, KMZ, GPX, GeoJSON, well-known text; and where on
the earth they lie."""

import io
import json
import zipfile
from collections.abc import Mapping

import pytest

from vehicled.paths import CourseError
from vehicled.paths.course import Course
from vehicled.paths.course_file import ReadOptions
from vehicled.paths.datum import Datum
from vehicled.paths.formats import course_from_bytes
from vehicled.paths.place import place_of, seen_from

LINE = [(16.4 + 5e-5 * i, 48.2 + 1e-6 * i * i) for i in range(12)]
"""Longitude and latitude."""
LENGTH_M = 43.71
RING = [(16.4, 48.2), (16.4003, 48.2), (16.4003, 48.2002), (16.4, 48.2002), (16.4, 48.2)]
RING_M = 89.1
STAMPS = [f"2024-05-05T12:00:{2 * i:02d}Z" for i in range(12)]


def load(data: bytes | str, name: str, **options: object) -> Course:
    return course_from_bytes(
        data.encode() if isinstance(data, str) else data,
        name,
        ReadOptions(**options),  # type: ignore[arg-type]
    )


def account(course: Course) -> str:
    assert course.account is not None
    return "\n".join(course.account.lines())


def kml(body: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2" '
        f'xmlns:gx="http://www.google.com/kml/ext/2.2"><Document><name>doc</name>\n{body}\n</Document></kml>'
    )


def coordinates(points: list[tuple[float, float]] = LINE, separator: str = " ") -> str:
    return (
        "<coordinates>\n"
        + separator.join(f"{a:.7f},{b:.7f},120" for a, b in points)
        + "\n</coordinates>"
    )


def gpx_points(tag: str, inside: str = "") -> str:
    return "".join(f'<{tag} lat="{b:.7f}" lon="{a:.7f}">{inside}</{tag}>' for a, b in LINE)


def placemark(geometry: str, name: str = "yard") -> str:
    return f"<Placemark><name>{name}</name><styleUrl>#s</styleUrl>{geometry}</Placemark>"


TRACK = "".join(f"<when>{stamp}</when>" for stamp in STAMPS) + "".join(
    f"<gx:coord>{a:.7f} {b:.7f} 120</gx:coord>" for a, b in LINE
)
DRAWN = f"<LineString>{coordinates()}</LineString>"
SPOT_GEOMETRY = {"type": "Point", "coordinates": LINE[0]}
SPOT = "<Point><coordinates>16.4,48.2,0</coordinates></Point>"


def kmz(text: str, name: str = "doc.kml") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("files/icon.png"), b"\x89PNG", zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def wkt(points: list[tuple[float, float]] = LINE, height: str = "") -> str:
    return ", ".join(f"{a:.7f} {b:.7f}{height}" for a, b in points)


def collection(*geometries: Mapping[str, object], **properties: object) -> str:
    features = [
        {"type": "Feature", "properties": properties, "geometry": geometry}
        for geometry in geometries
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


WRITTEN = f"<LineString>{coordinates()}</LineString>"
LINES: dict[str, str | bytes] = {
    "path.kml": kml(placemark(WRITTEN.replace("<coord", "<tessellate>1</tessellate><coord"))),
    "windows.kml": kml(placemark(WRITTEN.replace(coordinates(), coordinates(separator="\r\n")))),
    "blanks.kml": kml(placemark(f"<LineString>{coordinates().replace(',', ', ')}</LineString>")),
    "with_ends.kml": kml(placemark(SPOT, "start") + placemark(DRAWN) + placemark(SPOT, "end")),
    "multi.kml": kml(placemark(f"<MultiGeometry>{WRITTEN}{SPOT}</MultiGeometry>")),
    "track.kml": kml(placemark(f"<gx:Track>{TRACK}</gx:Track>")),
    "multitrack.kml": kml(
        placemark(f"<gx:MultiTrack><gx:Track>{TRACK}</gx:Track></gx:MultiTrack>")
    ),
    "places.kml": kml("".join(placemark(f"<Point>{coordinates([p])}</Point>", str(i)) for i,
        p in enumerate(LINE))),
    "path.kmz": kmz(kml(placemark(f"<LineString>{coordinates()}</LineString>"))),
    "other.kmz": kmz(kml(placemark(f"<LineString>{coordinates()}</LineString>")), "path.KML"),
    "waypoints.gpx": f"<gpx>{gpx_points('wpt', '<name>w</name>')}</gpx>",
    "route.gpx": f"<gpx><rte><name>yard</name>{gpx_points('rtept')}</rte></gpx>",
    "multi.geojson": json.dumps({"type": "MultiLineString", "coordinates": [LINE]}),
    "heights.geojson": collection({"type": "LineString",
        "coordinates": [(*p, 100.0) for p in LINE]}, coordTimes=STAMPS),
    "collection.geojson": json.dumps(
        {"type": "GeometryCollection",
         "geometries": [SPOT_GEOMETRY, {"type": "LineString", "coordinates": LINE}]}
    ),
    "points.geojson": collection(*({"type": "Point", "coordinates": p} for p in LINE)),
    "multipoint.geojson": collection({"type": "MultiPoint", "coordinates": LINE}),
    "line.wkt": f"LINESTRING({wkt()})",
    "z.wkt": f"LINESTRING Z ({wkt(height=' 120')})",
    "srid.wkt": f"SRID=4326;LineString ({wkt()})",
    "multi.wkt": f"MULTILINESTRING(({wkt()}))",
    "points.wkt": "\n".join(f"POINT({wkt([p])})" for p in LINE),
    "broken_over_lines.wkt": f"LINESTRING(\n{wkt()}\n)".replace(", ", ",\n"),
    "qgis.csv": f'WKT,id,name\n"LINESTRING ({wkt()})",1,yard\n',
    "qgis_points.csv": "WKT,id\n" + "".join(f"POINT ({wkt([p])}),{i}\n" for i,
        p in enumerate(LINE)),
    "bare.txt": f"LINESTRING ({wkt()})\n",
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_a_map_program_is_a_course(name: str) -> None:
    course = load(LINES[name], name)
    assert course.length_m == pytest.approx(LENGTH_M, abs=0.15)
    assert not course.closed
    assert place_of(course) == (
        "place: starts at 48.20000 N, 16.40000 E; extent 40.9 m east to west, 13.5 m north to south"
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("area.kml",
         kml(placemark(f"<Polygon><outerBoundaryIs><LinearRing>{coordinates(RING)}</LinearRing></outerBoundaryIs>"
                                   f"<innerBoundaryIs><LinearRing>{coordinates(RING)}</LinearRing></innerBoundaryIs></Polygon>"))),
        ("area.geojson", collection({"type": "Polygon", "coordinates": [RING, RING]})),
        ("areas.geojson", collection({"type": "MultiPolygon", "coordinates": [[RING, RING]]})),
        ("area.wkt", f"POLYGON(({wkt(RING)}), ({wkt(RING)}))"),
        ("areas.wkt", f"MULTIPOLYGON((({wkt(RING)}), ({wkt(RING)})))"),
    ],
    ids=["kml", "geojson", "multi geojson", "wkt", "multi wkt"],
)  # fmt: skip
def test_the_outline_of_an_area_is_a_lap(name: str, data: str) -> None:
    course = load(data, name)
    assert course.closed
    assert course.length_m == pytest.approx(RING_M, abs=0.3)


def test_one_of_several_lines_is_chosen_by_name_or_number() -> None:
    other = [(a, b + 0.001) for a, b in LINE]
    line, moved = (f"<LineString>{coordinates(points)}</LineString>" for points in (LINE, other))
    both = kml(
        placemark(line, "course")
        + placemark(moved, "estimate")
        + placemark(moved, "gnss")
        + placemark(moved, "gnss")
    )
    with pytest.raises(CourseError) as error:
        load(both, "a.kml")
    assert '4 lines (1: line "course" in line 3, 2: line "estimate"' in str(error.value)
    assert "a.kml:line=2" in str(error.value)
    assert (
        load(both, "a.kml", line="course").datum.latitude_rad
        < load(both, "a.kml", line="2").datum.latitude_rad
    )
    for wanted, words in (
        ("gnss", "choose by number: 3, 4"),
        ("cours", 'did you mean "course"'),
        ("9", "there are 4"),
    ):
        with pytest.raises(CourseError, match=words):
            load(both, "a.kml", line=wanted)
    lines = {"type": "MultiLineString", "coordinates": [LINE[:6], LINE[6:]]}
    with pytest.raises(CourseError, match=r"2 lines .*line=2, or join them.*gaps=bridge"):
        load(json.dumps(lines), "a.geojson")
    joined = load(json.dumps(lines), "a.geojson", bridge_gaps=True)
    assert joined.length_m == pytest.approx(LENGTH_M, abs=0.15)
    assert "2 segments joined by straight lines" in account(joined)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.kml", "", ["empty", "KML"]),
        ("a.kml", "<gpx/>", ["<gpx>, not <kml>", "export it as KML"]),
        ("a.kml", kml(""), ["no line in it", "draw the course"]),
        ("a.kml",
         kml("<NetworkLink><Link><href>http://example.org/a.kml</href></Link></NetworkLink>"),
         ["only links to others"]),
        ("a.kml", kml(placemark("<LineString><coordinates>16.4 48.2</coordinates></LineString>")),
         ["longitude,latitude"]),
        ("a.kml", kml(placemark(f"<LineString>{coordinates()}"))[:-60], ["cut off"]),
        ("a.kml",
         kml(placemark(WRITTEN.replace(coordinates(),
             coordinates([(b - 130, a) for a, b in LINE])))), []),
        ("a.kml", '<!DOCTYPE kml [<!ENTITY a "b">]><kml>&a;</kml>', ["document type"]),
        ("a.kml", "<kml>" + "<Folder>" * 1000, ["nested too deeply"]),
        ("a.kmz", b"PK\x03\x04 no archive", ["no readable KMZ", "save it as KML"]),
        ("a.kmz", kmz("x", "readme.txt"), ["no .kml in the archive"]),
        ("a.wkt", "CIRCULARSTRING(0 0, 1 1)", ["no geometry", "LINESTRING(11.5"]),
        ("a.wkt", "LINESTRING(16.4 48.2, 16.5", ["bracket is missing"]),
        ("a.wkt", "LINESTRING(16.4, 48.2)", ["two or three numbers"]),
        ("a.wkt", "SRID=3857;LINESTRING(0 0, 1 1)", ["EPSG:3857", "EPSG:4326"]),
        ("a.wkt", "LINESTRING(0 0, 0.7 0)", ["in metres or degrees?", "SRID=4326"]),
        ("a.wkt", "GEOMETRYCOLLECTION(POINT(1 1))", ["collection"]),
        ("a.geojson", '{"type": "Point", "coordinates": [1]}', ["[longitude, latitude]"]),
        ("a.tcx", "<x/>", ["export it as GPX"]),
        ("a.xlsx", "PK", ["save the sheet as CSV"]),
    ],
)  # fmt: skip
def test_a_broken_map_file_is_explained(name: str, data: str | bytes, words: list[str]) -> None:
    if not words:
        load(data, name)
        return
    with pytest.raises(CourseError) as error:
        load(data, name)
    assert str(error.value).startswith(name)
    for word in words:
        assert word in str(error.value)


def test_a_bomb_of_a_kmz_is_refused_before_it_fills_the_memory() -> None:
    bomb = kmz("<kml>" + " " * 60_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(CourseError, match="unpacks to more than 50 MB"):
        load(bomb, "a.kmz")


def test_an_option_that_a_format_has_not_is_refused() -> None:
    for name, option in (
        ("line.geojson", {"columns": ("x", "y")}),
        ("qgis.csv", {"line": "2"}),
        ("path.kml", {"time": "ms"}),
    ):
        with pytest.raises(CourseError, match="leave it out"):
            load(LINES.get(name, LINES["multi.geojson"]), name, **option)


def test_metres_of_well_known_text_have_no_place_on_the_earth() -> None:
    course = load("LINESTRING(0 0, 10 0, 20 5)", "a.wkt")
    assert course.length_m == pytest.approx(21.2, abs=0.1)
    assert place_of(course) == "extent: 20.0 m east to west, 5.0 m north to south"


def test_exchanged_coordinates_are_seen_from_the_site() -> None:
    site = Datum.from_degrees(48.21, 16.41)
    right = load(LINES["multi.geojson"], "a.geojson")
    turned = load(
        json.dumps({"type": "LineString", "coordinates": [p[::-1] for p in LINE]}), "a.geojson"
    )
    assert seen_from(right, site, "the yard") == "1.3 km from the yard (48.21000 N, 16.41000 E)"
    assert seen_from(turned, site, "the yard").startswith("4,56")
    assert "latitude and longitude look exchanged" in seen_from(turned, site, "the yard")
    south = load("lat,lon\n-33.9,-70.5\n-33.9,-70.501\n", "a.csv")
    assert "starts at 33.90000 S, 70.50000 W" in place_of(south)
    assert "exchanged" not in seen_from(south, site, "the yard")
