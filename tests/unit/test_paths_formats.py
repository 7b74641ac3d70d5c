"""Course files of every kind: what they give, and what is said of a broken one."""

import json
import math
from typing import Any

import numpy as np
import pytest

from vehicled.paths import CourseError
from vehicled.paths.course import Course
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.formats import MAX_BYTES, course_from_bytes

# An L of 20 m east and 10 m north.
ORIGIN = Datum.from_degrees(48.1, 11.5)
PLANE = [(0.0, 0.0), (10.0, 0.0), (20.0, 0.0), (20.0, 10.0)]
GEODETIC = [ORIGIN.to_geodetic(e, n, 0.0) for e, n in PLANE]
EARTH = [(math.degrees(latitude), math.degrees(longitude)) for latitude, longitude, _ in GEODETIC]


def geojson(points: list[tuple[float, float]], **properties: object) -> dict[str, Any]:
    line = {"type": "LineString", "coordinates": [[lon, lat, 500.0] for lat, lon in points]}
    return {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": properties, "geometry": line}],
    }


def gpx(points: list[tuple[float, float]]) -> str:
    body = "".join(
        f'<trkpt lat="{lat:.9f}" lon="{lon:.9f}"><ele>500</ele><speed>0</speed></trkpt>\n'
        for lat, lon in points
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.1" '
        'xmlns="http://www.topografix.com/GPX/1/1">\n'
        f"<trk><name>yard</name><trkseg>\n{body}</trkseg></trk></gpx>\n"
    )


def item(
    command: int, *params: float | None, frame: int = 3, kind: str = "SimpleItem"
) -> dict[str, Any]:
    return {
        "type": kind,
        "command": command,
        "frame": frame,
        "params": list(params),
        "autoContinue": True,
    }


def waypoint(point: tuple[float, float]) -> dict[str, Any]:
    return item(16, 0, 0, 0, None, *point, 50)


def plan(items: list[Any]) -> dict[str, Any]:
    return {
        "fileType": "Plan",
        "groundStation": "QGroundControl",
        "version": 1,
        "mission": {
            "cruiseSpeed": 15,
            "items": items,
            "plannedHomePosition": [48.0, 11.0, 500],
            "version": 2,
        },
        "geoFence": {"circles": [], "polygons": [], "version": 2},
    }


def wpl(points: list[tuple[float, float]]) -> str:
    rows = ["QGC WPL 110", "0\t1\t0\t16\t0\t0\t0\t0\t47.0\t11.0\t500\t1"]
    rows += [
        f"{i}\t0\t3\t16\t0\t0\t0\t0\t{lat:.9f}\t{lon:.9f}\t100\t1"
        for i, (lat, lon) in enumerate(points, start=1)
    ]
    return "\n".join(rows) + "\n"


VALID = {
    "ours.csv": "# name: yard\nx_m,y_m,speed_mps\n" + "".join(f"{x},{y},1.5\n" for x, y in PLANE),
    "headerless.csv": "".join(f"{x},{y}\n" for x, y in PLANE),
    "two.txt": "".join(f"{x} {y}\n" for x, y in PLANE),
    "earth.csv": "id;Latitude;Longitude;note\n"
    + "".join(f"{i};{lat:.9f};{lon:.9f};-\n" for i, (lat, lon) in enumerate(EARTH)),
    "line.geojson": json.dumps(geojson(EARTH, speed_mps=1.5, name="yard")),
    "bare.json": json.dumps(
        {"type": "LineString", "coordinates": [[lon, lat] for lat, lon in EARTH]}
    ),
    "track.gpx": gpx(EARTH),
    "mission.plan": json.dumps(plan([waypoint(p) for p in EARTH])),
    "mission.json": json.dumps(plan([waypoint(p) for p in EARTH])),
    "mission.waypoints": wpl(EARTH),
    "mission.txt": wpl(EARTH),
}
"""One good file of every format; also the seeds of the mutation tests."""


def load(text: str | bytes, name: str) -> Course:
    return course_from_bytes(text.encode() if isinstance(text, str) else text, name)


def complaint(text: str | bytes, name: str) -> str:
    with pytest.raises(CourseError) as caught:
        load(text, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", VALID)
def test_every_format_gives_the_same_line(name: str) -> None:
    course = load(VALID[name], name)
    assert course.length_m == pytest.approx(30.0, abs=0.01)
    assert (course.x_m[-1], course.y_m[-1]) == pytest.approx((20.0, 10.0), abs=0.01)
    assert not course.closed
    earth = name not in ("ours.csv", "headerless.csv", "two.txt")
    datum = course.datum
    expected = ORIGIN if earth else LOT_17
    assert (datum.latitude_rad, datum.longitude_rad) == pytest.approx(
        (expected.latitude_rad, expected.longitude_rad), abs=1e-9
    )


def test_names_and_speeds() -> None:
    assert load(VALID["ours.csv"], "ours.csv").name == "yard"
    assert load(VALID["track.gpx"], "track.gpx").name == "yard"
    assert load(VALID["headerless.csv"], "dir/headerless.csv").name == "headerless"
    assert set(load(VALID["line.geojson"], "line.geojson").speed_mps) == {1.5}
    assert set(load(VALID["mission.plan"], "mission.plan").speed_mps) == {1.0}
    ramp = load(json.dumps(geojson(EARTH, speed_mps=[1, 2, 3, 3])), "a.geojson")
    assert float(np.interp(5.0, ramp.s_m, ramp.speed_mps)) == pytest.approx(1.5, abs=0.01)


def test_csv_settings() -> None:
    text = (
        "# datum_deg: -33.9, 151.2, 20\n# closed: no\n# Seen: a comment with a "
        "colon\nx,y\n0,0\n10,0\n10,10\n0,0\n"
    )
    course = load(text, "a.csv")
    assert course.datum == Datum.from_degrees(-33.9, 151.2, 20.0)
    assert not course.closed
    assert load(text.replace("closed: no", "closed: yes"), "a.csv").closed


@pytest.mark.parametrize(
    "text",
    [
        "x\ty\n0\t0\n5\t5\n",
        "x  y\n0 0\n5 5\n",
        "\ufeffx,y\r\n0,0\r\n\r\n5,5\r\n",
        '"x","y"\n"0","0"\n"5","5"\n',
    ],
)
def test_csv_dialects(text: str) -> None:
    assert load(text, "a.csv").length_m == pytest.approx(math.hypot(5, 5))


def test_earth_columns_keep_the_given_datum() -> None:
    text = "# datum_deg: 48.1, 11.5\nlat,lon\n" + "".join(
        f"{lat:.9f},{lon:.9f}\n" for lat, lon in EARTH[1:]
    )
    course = load(text, "a.csv")
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((10.0, 0.0), abs=1e-3)


def test_speed_changes_of_a_mission_hold_from_their_waypoint() -> None:
    a, b, c, d = (waypoint(p) for p in EARTH)
    items = [
        item(178, 1, 2.0, -1, 0, 0, 0, 0, frame=2),
        a,
        b,
        item(178, 1, 0.5, -1, 0, 0, 0, 0, frame=2),
        c,
        d,
    ]
    course = load(json.dumps(plan(items)), "a.plan")
    assert set(course.speed_mps[course.s_m < 9.9]) == {2.0}
    assert set(course.speed_mps[course.s_m > 10.1]) == {0.5}


def test_mission_extras() -> None:
    camera = item(203, 0, 0, 0, 0, 1, 0, 0, frame=2)
    old = {
        "type": "SimpleItem",
        "command": 16,
        "frame": 3,
        "params": [0, 0, 0, 0],
        "coordinate": [*EARTH[3], 10],
    }
    course = load(json.dumps(plan([camera, *(waypoint(p) for p in EARTH[:3]), old])), "a.plan")
    assert course.length_m == pytest.approx(30.0, abs=0.01)
    # Item 0 in a relative frame is a waypoint, not home.
    text = "QGC WPL 110\n" + "".join(
        f"{i} 0 3 16 0 0 0 0 {lat:.9f} {lon:.9f} 50 1\n" for i, (lat, lon) in enumerate(EARTH)
    )
    assert load(text, "a.waypoints").length_m == pytest.approx(30.0, abs=0.01)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", ["empty"]),
        ("a.csv", "  \n\n", ["empty"]),
        ("a.csv", "# only: comments\n", ["only comments"]),
        ("a.csv", "x,y\n", ["0 waypoint(s)", "at least 2"]),
        ("a.csv", "x,y\n1,2\n", ["1 waypoint(s)"]),
        ("a.csv", b"\x89PNG\r\n\x1a\n\x00\x00", ["0x89", "offset 0", "not UTF-8"]),
        ("a.csv", b"x,y\n\x00\x00", ["binary", "offset 4"]),
        ("a.csv", b"\xff\xfex\x00,\x00y", ["0x79", "not UTF-16"]),
        ("a.csv", "x,y\n0,0\n1,nan\n2,0\n", ["line 3", "y is nan"]),
        ("a.csv", "x,y\n0,0\n1,inf\n2,0\n", ["line 3", "y is inf"]),
        ("a.csv", "x,y\n0,0\n1\n2,0\n", ["line 3", "1 value(s)"]),
        ("a.csv", "x,y\n0,0\n1,abc\n2,0\n", ["line 3", "'abc'", "not a number"]),
        ("a.csv", "x;y\n0;0\n1,5;0\n2.5;0\n", ["line 4", "comma here and with a point elsewhere"]),
        ("a.csv", "x,y\n0,0\n1,5,0\n", ["line 3", "3 value(s) where 2"]),
        ("a.csv", "0,0,0,1\n1,0,0,1\n", ["4 columns", "ambiguous", "a.csv:columns=x,y"]),
        ("a.csv", "x,y,speed_mps\n0,0,1\n1,0,0\n2,0,1\n", ["line 3", "speed is 0"]),
        ("a.csv", "x,y,v,speed\n0,0,1,1\n1,0,1,1\n", ["keep one"]),
        ("a.csv", "a,b\n0,0\n1,0\n", ["line 1", "name them x_m, y_m"]),
        ("a.csv", "0,0,1\n1,0,1\n", ["3 columns", "ambiguous", "x_m,y_m,speed_mps"]),
        ("a.csv", "x,y,lat,lon\n0,0,1,1\n1,0,1,1\n", ["keep one pair"]),
        ("a.csv", '{"type": "LineString"}', ["JSON or XML", "rename"]),
        ("a.csv", "# datum_deg: 43\nx,y\n0,0\n1,0\n", ["datum_deg", "write for example"]),
        ("a.csv", "# datum_deg: -80.4, 143.0\nx,y\n0,0\n1,0\n", []),
        ("a.csv", "# datum_deg: -120, 43.0\nx,y\n0,0\n1,0\n", ["swapped"]),
        (
            "a.csv",
            "# datum_deg: -89.4,43.07\nx,y\n0,0\n10,0\n20,0\n",
            ["next to a pole", "look swapped", "latitude first"],
        ),
        ("a.csv", "# datum: 43, -89\nx,y\n0,0\n1,0\n", ["line 1", 'did you mean "# datum_deg:"']),
        ("a.csv", "# closed: maybe\nx,y\n0,0\n1,0\n", ["neither yes nor no"]),
        (
            "a.csv",
            "lat,lon\n-89.4090,43.0705\n-89.4091,43.0705\n",
            ["line 2", "swapped", "name the columns"],
        ),
        (
            "a.csv",
            "lat,lon\n111.4,43.0705\n111.5,43.0705\n",
            ["line 2", "outside -90 to 90", "swapped"],
        ),
        ("a.csv", "lat,lon\n411.4,43.0705\n111.5,43.0705\n", ["line 2", "outside -90 to 90"]),
        ("a.csv", "lat,lon\n43.0705,289.4\n43.0706,289.4\n", ["line 2", "outside -180 to 180"]),
        (
            "a.csv",
            "# datum_deg: 52.52, 13.405\nlat,lon\n13.405,52.52\n13.4051,52.52\n",
            ["line 3", "look swapped"],
        ),
        ("a.csv", "lat,lon\n52.52,13.405\n52.52,15.405\n", ["line 3", "100 km", "first waypoint"]),
        ("a.csv", "lat,lon\n52.52,13.405\n-52.52,-166.595\n", ["line 3", "100 km"]),
        ("a.csv", "lat,lon\n0,0\n52.52,13.405\n", ["line 2", "place holder"]),
        ("a.csv", "x,y\n48.1,11.5\n48.10001,11.5\n48.10002,11.5\n", ["degrees"]),
        ("a.geojson", "{", ["line 1", "cut off"]),
        ("a.geojson", VALID["line.geojson"][:-30], ["cut off"]),
        ("a.geojson", "[1, 2]", ["JSON list"]),
        ("a.geojson", "[" * 100_000, ["nested too deeply"]),
        ("a.geojson", '{"type": "LineString", "coordinates": [[NaN, 1], [2, 1]]}', ["NaN"]),
        (
            "a.geojson",
            '{"type": "LineString", "coordinates": [[1' + "0" * 400 + ", 1], [2, 1]]}",
            ["position 1"],
        ),
        (
            "a.geojson",
            '{"type": "LineString", "coordinates": [[1' + "0" * 5000 + ", 1], [2, 1]]}",
            ["GeoJSON"],
        ),
        (
            "a.geojson",
            '{"type": "LineString", "coordinates": [[1], [2, 1]]}',
            ["position 1", "[longitude, latitude]"],
        ),
        ("a.geojson", '{"type": "LineString", "coordinates": "no"}', ["coordinates is 'no'"]),
        ("a.geojson", '{"type": "Polygon", "coordinates": []}', ["no LineString", "Polygon"]),
        ("a.geojson", '{"type": "FeatureCollection"}', ["no list of features"]),
        (
            "a.geojson",
            json.dumps({**geojson(EARTH), "features": geojson(EARTH)["features"] * 2}),
            ["2 lines", "feature 2"],
        ),
        (
            "a.geojson",
            json.dumps(geojson([(-89.409, 43.07), (-89.409, 43.08)])),
            ["swapped", "longitude first"],
        ),
        (
            "a.geojson",
            json.dumps(geojson([(139.4, 43.07), (139.4, 43.08)])),
            ["swapped", "longitude first"],
        ),
        ("a.geojson", json.dumps(geojson(EARTH, speed_mps="fast")), ["speed_mps", "'fast'"]),
        ("a.geojson", json.dumps(geojson(EARTH, speed_mps=[1, 2])), ["list of 4"]),
        ("a.geojson", json.dumps(geojson(EARTH, closed="yes")), ["true or false"]),
        (
            "a.geojson",
            json.dumps({**geojson(EARTH), "crs": {"properties": {"name": "EPSG:25832"}}}),
            ["crs", "WGS 84"],
        ),
        ("a.gpx", "", ["empty"]),
        ("a.gpx", "<gpx><trk><trkseg>", ["line 1", "cut off"]),
        ("a.gpx", "not xml", ["line 1"]),
        ("a.gpx", "<kml></kml>", ["<kml>", "not <gpx>"]),
        ("a.gpx", "<gpx></gpx>", ["no points"]),
        ("a.gpx", '<gpx><wpt lat="1" lon="2"/></gpx>', ["1 waypoint(s)"]),
        ("a.gpx", "<gpx><trk><trkseg>\n<trkpt lat='1'/></trkseg></trk></gpx>", ["line 2", '"lon"']),
        (
            "a.gpx",
            "<gpx><trk><trkseg>\n<trkpt lat='1,5' lon='2'/></trkseg></trk></gpx>",
            ["line 2", "not a number"],
        ),
        (
            "a.gpx",
            gpx(EARTH).replace("</trkseg>", "</trkseg><trkseg><trkpt lat='48' lon='11'/></trkseg>"),
            ["2 lines", "line 3"],
        ),
        ("a.gpx", gpx([(-89.409, 43.07), (-89.408, 43.07)]), ["line 4", "swapped"]),
        ("a.gpx", '<!DOCTYPE gpx [<!ENTITY a "b">]><gpx>&a;</gpx>', ["document type"]),
        ("a.gpx", '<?xml version="1.0" encoding="klingon"?><gpx/>', ["klingon"]),
        ("a.gpx", "<gpx>" + "<a>" * 1000, ["nested too deeply"]),
        ("a.gpx", "<gpx><trkpt lat='1' lon='1'/></gpx>", ["outside <trkseg>"]),
        ("a.plan", "{}", ["fileType", "Plan"]),
        ("a.plan", '{"fileType": "Plan"}', ["mission.items"]),
        ("a.plan", json.dumps(plan([])), ["0 waypoint(s)"]),
        ("a.plan", json.dumps(plan([3])), ["mission item 1"]),
        (
            "a.plan",
            json.dumps(plan([{"type": "ComplexItem", "complexItemType": "survey"}])),
            ["mission item 1", "survey"],
        ),
        (
            "a.plan",
            json.dumps(plan([waypoint(EARTH[0]), item(21, 0, 0, 0, 0, *EARTH[1], 0)])),
            ["mission item 2", "21 (NAV_LAND)", "take-off and landing"],
        ),
        (
            "a.plan",
            json.dumps(plan([waypoint(EARTH[0]), item(177, 1, 3, 0, 0, 0, 0, 0)])),
            ["177 (DO_JUMP)", "order of the items"],
        ),
        ("a.plan", json.dumps(plan([item(16, 0, 0, 0, 0, 5, 5, 0, frame=1)])), ["frame 1"]),
        ("a.plan", json.dumps(plan([item(16, 0, 0, 0, 0, None, None, 0)])), ["no position"]),
        ("a.plan", json.dumps(plan([item(16, 0, 0)])), ["seven values"]),
        (
            "a.plan",
            json.dumps(plan([waypoint((0, 0)), waypoint(EARTH[0])])),
            ["mission item 1", "place holder"],
        ),
        ("a.plan", json.dumps(plan([item(178, 1, 0, -1, 0, 0, 0, 0)])), ["speed change to 0"]),
        (
            "a.plan",
            json.dumps(plan([waypoint((-89.4, 43.07)), waypoint((-89.4, 43.08))])),
            ["swapped", "latitude first"],
        ),
        ("a.waypoints", "hello\n", ["line 1", "QGC WPL 110"]),
        ("a.waypoints", "QGC WPL 999\n", ["QGC WPL 110"]),
        ("a.waypoints", "QGC WPL 110\n", ["0 waypoint(s)"]),
        ("a.waypoints", "QGC WPL 110\n1\t0\t3\t16\t0\t0\n", ["line 2", "12", "cut off"]),
        ("a.waypoints", "QGC WPL 110\n1 0 3 x 0 0 0 0 1 1 1 1\n", ["line 2", "not a number"]),
        ("a.waypoints", "QGC WPL 110\n1 0 3 1.5 0 0 0 0 1 1 1 1\n", ["line 2", "whole numbers"]),
        ("a.waypoints", "QGC WPL 110\n1 0 3 nan 0 0 0 0 1 1 1 1\n", ["line 2", "whole numbers"]),
        (
            "a.waypoints",
            "QGC WPL 110\n1 0 3 16 0 0 0 0 nan 1 1 1\n2 0 3 16 0 0 0 0 1 1 1 1\n",
            ["line 2", "finite"],
        ),
        ("a.waypoints", "QGC WPL 110\n1 0 3 20 0 0 0 0 0 0 0 1\n", ["RETURN_TO_LAUNCH"]),
        ("a.pdf", "%PDF", ["unknown kind", ".gpx"]),
        ("noending", "0,0\n", ["unknown kind"]),
    ],
)
def test_a_broken_file_is_explained(name: str, text: str | bytes, words: list[str]) -> None:
    if not words:
        assert load(text, name).length_m > 0
        return
    message = complaint(text, name)
    assert message.startswith(name)
    for word in words:
        assert word in message


def test_entity_bombs_do_not_go_off() -> None:
    layers = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE gpx [<!ENTITY a0 '
        f'"boom">{layers}]><gpx><trk><name>&a11;</name></trk></gpx>'
    )
    assert "delete the declaration" in complaint(bomb, "bomb.gpx")
    outside = '<!DOCTYPE gpx SYSTEM "file:///etc/passwd"><gpx/>'
    assert "document type" in complaint(outside, "bomb.gpx")


def test_a_file_too_large_is_not_parsed() -> None:
    assert "at most 50 MB" in complaint(b"x" * (MAX_BYTES + 1), "large.csv")
    assert "thin the file out" in complaint("x,y\n" + "1,2\n" * 200_001, "long.csv")
