"""Whatever the bytes are, a course file gives a usable course or a CourseError."""

import io
import json
import math
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from tests.examples import examples
from tests.lanelet_maps import OsmMap, ring
from vehicled.paths import CourseError
from vehicled.paths.datum import Datum
from vehicled.paths.formats import ENDINGS, course_from_bytes
from vehicled.paths.tracking import PathTracker

POINTS = [(48.1 + 1e-5 * k, 11.5 + 2e-5 * math.sin(k / 3)) for k in range(12)]


def _seeds() -> dict[str, bytes]:
    line = {"type": "LineString", "coordinates": [[lon, lat] for lat, lon in POINTS]}
    items = [
        {"type": "SimpleItem", "command": 16, "frame": 3, "params": [0, 0, 0, None, lat, lon, 50]}
        for lat, lon in POINTS
    ]
    items.insert(
        4, {"type": "SimpleItem", "command": 178, "frame": 2, "params": [1, 2.5, -1, 0, 0, 0, 0]}
    )
    track = "".join(f'<trkpt lat="{lat:.7f}" lon="{lon:.7f}"/>' for lat, lon in POINTS)
    rows = "\n".join(
        f"{i + 1}\t0\t3\t16\t0\t0\t0\t0\t{lat:.7f}\t{lon:.7f}\t50\t1"
        for i, (lat, lon) in enumerate(POINTS)
    )
    table = "# datum_deg: 48.1, 11.5, 500\n# closed: no\nx_m,y_m,speed_mps\n" + "".join(
        f"{k},{k % 3},1.5\n" for k in range(12)
    )
    text = " ".join(f"{lon:.7f},{lat:.7f},0" for lat, lon in POINTS)
    drawn = f"<LineString><coordinates>{text}</coordinates></LineString>"
    drawn = f"<kml><Placemark><name>n</name>{drawn}</Placemark></kml>"
    road = OsmMap(place="both")
    for number, lane in enumerate(ring(3), start=1):
        road.add(str(number), lane)
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("doc.kml", drawn)
    solved = "".join(
        f"2024/05/05 12:00:{k:02d}.000 {lat:.9f} {lon:.9f} 100.0 1 9\n"
        for k, (lat, lon) in enumerate(POINTS)
    )
    dense = "time,lat,lon\n" + "".join(
        f"{k / 10:.1f},48.1,{11.5 + 2e-6 * k:.8f}\n" for k in range(120)
    )
    file = io.BytesIO()
    savemat(file, {"x": [float(k) for k in range(12)], "y": [float(k % 3) for k in range(12)]})
    return {
        ".mat": file.getvalue(),
        ".kml": drawn.encode(),
        ".kmz": zipped.getvalue(),
        ".osm": road.text().encode(),
        ".pos": b"%  GPST  latitude(deg) longitude(deg) height(m) Q ns\n" + solved.encode(),
        ".wkt": f"LINESTRING({', '.join(f'{lon:.7f} {lat:.7f}' for lat, lon in POINTS)})".encode(),
        ".tsv": dense.replace(",", "\t").encode(),
        ".csv": table.encode(),
        ".geojson": json.dumps(
            {"type": "Feature", "properties": {"speed_mps": 2}, "geometry": line}
        ).encode(),
        ".gpx": (
            '<?xml version="1.0"?><gpx '
            f'version="1.1"><trk><name>n</name><trkseg>{track}</trkseg></trk></gpx>'
        ).encode(),
        ".plan": json.dumps(
            {"fileType": "Plan", "version": 1, "mission": {"items": items, "version": 2}}
        ).encode(),
        ".waypoints": f"QGC WPL 110\n0\t1\t0\t16\t0\t0\t0\t0\t48\t11\t0\t1\n{rows}\n".encode(),
    }


SEEDS = _seeds()
# What breaks numbers, brackets and tags more often than chance would.
TOKENS = [
    b"nan",
    b"inf",
    b"-",
    b"1e308",
    b"1e-308",
    b"0",
    b"null",
    b"\n",
    b"\x00",
    b"\xff",
    b"9" * 30,
]
TOKENS += [bytes([c]) for c in b'[]{}"<>,']


def outcome(data: bytes, name: str) -> None:
    """Load; a course must be sound enough to be tracked, a refusal must name the file on one
    line."""
    try:
        course = course_from_bytes(data, name)
    except CourseError as error:
        message = str(error)
        assert message.startswith(name)
        assert "\n" not in message
        assert len(message) < 500
        return
    assert course.length_m >= 0.4
    for array in (course.x_m, course.y_m, course.yaw_rad, course.curvature_per_m, course.speed_mps):
        assert array.shape == course.s_m.shape
        assert np.isfinite(array).all()
    assert (np.diff(course.s_m) > 0).all()
    assert (course.speed_mps != 0.0).all()
    point = PathTracker(course).update(float(course.x_m[0]), float(course.y_m[0]), 0.0)
    assert abs(point.cross_track_m) < 1e-6


@pytest.mark.parametrize("ending", SEEDS)
def test_the_seeds_are_courses(ending: str) -> None:
    assert course_from_bytes(SEEDS[ending], f"seed{ending}").length_m > 5.0


@pytest.mark.parametrize("ending", ENDINGS)
@given(
    data=st.one_of(
        st.binary(max_size=400),
        st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")),
    )
)
@examples(40)
def test_random_bytes(ending: str, data: bytes) -> None:
    outcome(data, f"file{ending}")


@pytest.mark.parametrize("ending", SEEDS)
@given(data=st.data())
@examples(60)
def test_mutated_files(ending: str, data: st.DataObject) -> None:
    content = bytearray(SEEDS[ending])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.sampled_from([0, 1, 2, 5, 20]))
        content[at : at + length] = data.draw(
            st.one_of(st.sampled_from(TOKENS), st.binary(max_size=4))
        )
        if not content:
            break
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    outcome(bytes(content), f"file{ending}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-200, 200) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("ending", [".geojson", ".plan"])
@given(data=st.data())
@examples(60)
def test_json_of_the_wrong_shape(ending: str, data: st.DataObject) -> None:
    tree = json.loads(SEEDS[ending])
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        child = node[key]
        if isinstance(child, dict | list) and child and data.draw(st.integers(0, 3)):
            node = child
            continue
        node[key] = data.draw(json_values)
        break
    outcome(json.dumps(tree).encode(), f"file{ending}")


@given(st.lists(st.tuples(st.floats(), st.floats(), st.floats()), min_size=2, max_size=12))
@examples(60)
def test_any_numbers_in_a_table(rows: list[tuple[float, float, float]]) -> None:
    outcome(
        ("x,y,speed\n" + "".join(f"{x!r},{y!r},{v!r}\n" for x, y, v in rows)).encode(), "file.csv"
    )


@given(
    points=st.lists(st.tuples(st.integers(-6, 6), st.integers(-6, 6)), min_size=2, max_size=14),
    setting=st.sampled_from(["", "# closed: yes\n"]),
)
@examples(80)
def test_any_walk_on_a_grid(points: list[tuple[int, int]], setting: str) -> None:
    """Corners, reversals, duplicates and crossings of every kind."""
    outcome((setting + "x,y\n" + "".join(f"{x},{y}\n" for x, y in points)).encode(), "file.csv")


@given(
    lat=st.floats(-80, 80),
    lon=st.floats(-180, 180),
    points=st.lists(
        st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=3, max_size=6, unique=True
    ),
)
@examples(30)
def test_positions_on_the_earth_come_back_as_metres(
    lat: float, lon: float, points: list[tuple[float, float]]
) -> None:
    datum = Datum.from_degrees(lat, lon)
    text = "lat,lon\n"
    for east, north in points:
        latitude, longitude, _ = datum.to_geodetic(east, north, 0.0)
        text += f"{math.degrees(latitude):.10f},{math.degrees(longitude):.10f}\n"
    try:
        course = course_from_bytes(text.encode(), "file.csv")
    except CourseError as error:
        causes = ("doubles back", "one spot", "long", "place holder")
        assert any(word in str(error) for word in causes), error  # noqa: PT017
        return
    origin = datum.to_enu(course.datum.latitude_rad, course.datum.longitude_rad, 0.0)
    assert (origin[0], origin[1]) == pytest.approx(points[0], abs=1e-3)
    first = datum.to_enu(*course.datum.to_geodetic(float(course.x_m[0]), float(course.y_m[0]), 0.0))
    assert (first[0], first[1]) == pytest.approx(points[0], abs=2e-3)
