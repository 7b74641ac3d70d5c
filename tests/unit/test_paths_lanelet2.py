"""Lanelet2 maps as courses: centre lines, chains, places, speeds, and what is refused."""

import re
from math import pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autoware_definitions import DEFINITIONS
from tests.examples import examples
from tests.lanelet_maps import Lane, OsmMap, ring, straight
from tests.unit.test_paths_map_files import account, load
from vehicled.paths import CourseError
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum


def mapped(lanes: dict[str, Lane], *, place: str = "local", turned: tuple[str, ...] = ()) -> str:
    drawn = OsmMap(place=place)
    for number, lane in lanes.items():
        drawn.add(number, lane, turned=turned)
    return drawn.text()


def course(text: str, line: str = "") -> Course:
    return load(text, "map.osm", line=line)


ROAD = {str(100 + k): straight(10.0 * k, 10.0 * (k + 1)) for k in range(3)}


def test_a_chain_of_lanelets_is_driven_along_its_middle() -> None:
    found = course(mapped(ROAD))
    assert found.length_m == pytest.approx(30.0)
    assert np.ptp(found.y_m) == pytest.approx(0.0, abs=1e-6)
    assert found.x_m[0] == pytest.approx(89_000.0)
    assert not found.closed
    assert not found.surveyed
    assert "3 of 3 lanelets" in account(found)
    assert "local_x, local_y (east, north, m)" in account(found)


@pytest.mark.parametrize(
    "turned", [(), ("left",), ("right",), ("left", "right"), ("centerline", "left")]
)
@pytest.mark.parametrize("explicit", [False, True])
def test_the_direction_is_that_in_which_the_left_bound_is_left(
    turned: tuple[str, ...], explicit: bool
) -> None:
    """Maps carry ways in any direction; Lanelet2 aligns them."""
    lanes = {
        number: lane._replace(centre=(lane.left[0], (lane.left[1])) if explicit else ())
        for number, lane in ROAD.items()
    }
    found = course(mapped(lanes, turned=turned))
    assert found.x_m[-1] - found.x_m[0] == pytest.approx(30.0)
    # The map's own centre line, here on the left bound, takes the place of the middle.
    assert found.y_m[0] == pytest.approx(43_001.5 if explicit else 43_000.0)


@pytest.mark.parametrize("parts", [1, 3])
def test_lanelets_that_lead_to_each_other_are_a_lap(parts: int) -> None:
    lanes = {str(k): lane for k, lane in enumerate(ring(parts), start=7)}
    found = course(mapped(lanes))
    assert found.closed
    assert found.length_m == pytest.approx(2.0 * pi * 20.0, rel=0.02)
    assert np.hypot(found.x_m - 89_000.0, found.y_m - 43_000.0) == pytest.approx(20.0, abs=0.8)
    # Counter-clockwise.
    assert found.curvature_per_m.mean() == pytest.approx(1.0 / 20.0, rel=0.05)


@given(
    st.permutations(range(5)),
    st.lists(st.sampled_from(["left", "right"]), max_size=2),
    st.floats(8.0, 40.0),
)
@examples(15)
def test_neither_order_nor_direction_of_the_ways_changes_the_line(
    order: list[int], turned: list[str], radius_m: float
) -> None:
    arcs = ring(6, radius_m)[:5]
    text = mapped({str(k + 1): arcs[k] for k in order}, turned=tuple(turned))
    found = course(text)
    plain = course(mapped({str(k + 1): arcs[k] for k in range(5)}))
    assert np.allclose(found.x_m, plain.x_m)
    assert np.allclose(found.y_m, plain.y_m)


# ------------------------------------------------------------------ places


def test_latitude_and_longitude_place_the_course_on_the_earth() -> None:
    found = course(mapped(ROAD, place="degrees"))
    assert found.surveyed
    first = found.datum.to_geodetic(float(found.x_m[0]), float(found.y_m[0]), 0.0)
    truth = Datum.from_degrees(48.1, 11.5).to_geodetic(0.0, 0.0, 0.0)
    assert first[:2] == pytest.approx(truth[:2], abs=1e-9)
    assert found.length_m == pytest.approx(30.0, abs=1e-3)


def test_local_coordinates_that_fit_are_not_needed() -> None:
    found = course(mapped(ROAD, place="both"))
    assert found.surveyed
    assert "local_x, local_y fit lat, lon" in account(found)


def test_local_coordinates_that_do_not_fit_take_the_place_of_the_others() -> None:
    """Maps without a place on the earth may have any latitude and longitude."""
    assert "lat, lon do not fit" in account(course(mapped(ROAD)))
    assert "do not fit" not in account(course(mapped(ROAD).replace('lat="0" lon="0"', "")))


# ------------------------------------------------------------------ choice

FORK = {
    **ROAD,
    "200": Lane(((10.0, 1.5), (20.0, 9.0)), ((10.0, -1.5), (22.0, 7.0))),
    "300": straight(50.0, 60.0, subtype="crosswalk"),
}


@pytest.mark.parametrize(
    ("line", "length_m"),
    [("100", 10.0), ("100+101+102", 30.0), ("100 + 102", 30.0), ("101+102", 20.0), ("300", 10.0)],
)
def test_lanelets_are_chosen_by_their_ids_and_those_between_are_found(
    line: str, length_m: float
) -> None:
    assert course(mapped(FORK), line).length_m == pytest.approx(length_m)


def test_the_shortest_way_between_is_taken() -> None:
    lanes = {
        "1": straight(0.0, 10.0),
        "2": Lane(
            ((10.0, 1.5), (15.0, 20.0), (20.0, 1.5)), ((10.0, -1.5), (15.0, 15), (20.0, -1.5))
        ),
        "3": straight(10.0, 20.0),
        "4": straight(20.0, 30.0),
    }
    assert course(mapped(lanes), "1+4").length_m == pytest.approx(30.0)


def test_a_lap_names_its_first_lanelet_again() -> None:
    lanes = {str(k): lane for k, lane in enumerate(ring(4), start=1)}
    found = course(mapped(lanes), "2+2")
    assert found.closed
    assert found.length_m == pytest.approx(2.0 * pi * 20.0, rel=0.01)
    assert not course(mapped(lanes), "2+4").closed


# ------------------------------------------------------------------ speeds


@pytest.mark.parametrize(
    ("limit", "speed_mps"),
    [("36", 10.0), ("36 km/h", 10.0), ("36kmh", 10.0), ("10 m/s", 10.0), ("10 mph", 4.4704)],
)
def test_the_speed_limit_is_the_target_speed(limit: str, speed_mps: float) -> None:
    lanes = {"1": straight(0.0, 10.0, speed_limit=limit), "2": straight(10.0, 20.0)}
    found = course(mapped(lanes))
    assert found.speed_mps[0] == pytest.approx(speed_mps)
    assert found.speed_mps[-1] == pytest.approx(1.0)
    assert "1 lanelets without speed_limit: 1 m/s there" in account(found)


# ------------------------------------------------------------------ refusals


def broken(old: str, new: str, *, place: str = "local") -> str:
    text = mapped(ROAD, place=place)
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", "", ["empty", "Lanelet2"]),
        ("<kml/>", "", ["<kml>, not <osm>"]),
        ("<osm/>", "", ["no lanelet", "GPX"]),
        ('<!DOCTYPE osm [<!ENTITY a "b">]><osm>&a;</osm>', "", ["document type"]),
        ("<osm>" + "<a>" * 100, "", ["nested too deeply"]),
        (mapped(ROAD)[:-30], "", ["cut off"]),
        (mapped(FORK), "", ["no single chain", "map.osm:line=ID+ID", "100"]),
        (mapped({**ROAD, "900": straight(90.0, 99.0)}), "", ["no single chain"]),
        (mapped(FORK), "999", ["no lanelet '999'", "ids of lanelets"]),
        (mapped(FORK), "102+100", ["102 does not lead to lanelet 100", "direction of travel"]),
        (broken('role="left"', 'role="lift"'), "", ["line ", "lanelet 100", "role left"]),
        (broken('type="way" ref="4"', 'type="way" ref="77"'), "", ["way 77", "whole map"]),
        (broken('<nd ref="2"/>', '<nd ref="77"/>'), "", ["node 77", "whole map"]),
        (broken('<nd ref="2"/>', ""), "", ["1 node(s)", "at least 2"]),
        (broken('v="89000.0"', 'v="east"'), "", ["line 3", "local_x", "'east'"]),
        (broken('v="89000.0"', 'v="nan"'), "", ["local_x", "'nan'"]),
        (broken('v="89000.0"', 'v="1e300"'), "", ["local_x", "'1e300'"]),
        (broken('v="89000.0"', 'v="9e6"'), "", ["km long"]),
        (broken('<tag k="local_x" v="89000.0"/>', ""), "", ["node 2", "lat, lon do not fit"]),
        (broken('lat="48.1', 'lat="x48.1', place="degrees"), "", ["line 3", "lat of the node 2"]),
        (broken('lat="48.1', 'lat="98.1', place="degrees"), "", ["node 2", "not on the earth"]),
        (broken('lat="48.1', 'lat="" x="', place="degrees"), "", ["node 2", "no lat and lon"]),
        (mapped(ROAD, place="none"), "", ["no lat and lon"]),
        (mapped({"1": straight(0, 9, speed_limit="fast")}), "", ["speed_limit", "'fast'"]),
        (mapped({"1": straight(0, 9, speed_limit="0")}), "", ["speed_limit", "above 0"]),
        (mapped({"1": straight(0, 9, speed_limit="9" * 99_999 + "!")}), "", ["speed_limit"]),
        (mapped({"1": straight(0, 9, speed_limit="9 knots")}), "", ["speed_limit", "m/s or mph"]),
    ],
)
def test_what_is_no_course_is_refused_with_place_and_cure(
    text: str, line: str, why: list[str]
) -> None:
    with pytest.raises(CourseError) as error:
        course(text, line)
    message = str(error.value)
    assert message.startswith("map.osm")
    for part in why:
        assert part in message


def test_a_broken_lanelet_elsewhere_does_not_matter_to_a_choice() -> None:
    text = broken('role="left"', 'role="lift"')
    assert course(text, "101+102").length_m == pytest.approx(20.0)
    with pytest.raises(CourseError, match="role left"):
        course(text, "100")


def test_what_was_deleted_in_an_editor_is_not_there() -> None:
    text = mapped(FORK).replace('<relation id="200">', '<relation id="200" action="delete">')
    text = text.replace('<relation id="300">', '<relation id="300" visible="false">')
    assert course(text).length_m == pytest.approx(30.0)


# ------------------------------------------------------------------ maps of Autoware

MAPS = DEFINITIONS / "maps"


@pytest.mark.parametrize(
    ("name", "length_m", "closed", "surveyed"),
    [
        ("loop.osm", 458.4, True, True),
        ("local.osm", 128.3, False, False),
        # Each centre line begins and ends in its neighbours.
        ("overlapping_centre_lines.osm", 61.0, False, True),
    ],
)
def test_sample_maps_of_autoware_are_courses(
    name: str, length_m: float, closed: bool, surveyed: bool
) -> None:
    found = load((MAPS / name).read_bytes(), name)
    assert found.length_m == pytest.approx(length_m, abs=0.1)
    assert (found.closed, found.surveyed) == (closed, surveyed)


def test_a_centre_line_that_ends_in_a_doubled_node_joins_the_next_one_where_it_begins() -> None:
    centre = ((0.0, 0.0), (9.0, 0.0), (10.0, 0.0), (10.0, 0.0))
    bend = Lane(
        ((10.0, 1.5), (12.0, 2.5), (13.0, 5.0)),
        ((10.0, -1.5), (14.0, 0.5), (16.0, 5.0)),
        centre=((10.0, 0.0), (13.0, 1.5), (14.5, 5.0)),
    )
    lanes = {"1": straight(0.0, 10.0)._replace(centre=centre), "2": bend}
    found = course(mapped(lanes))
    middle = np.hypot(found.x_m - 89_013.0, found.y_m - 43_001.5)
    assert middle.min() < 0.2


def test_degrees_and_local_coordinates_of_a_map_give_the_same_line() -> None:
    data = (MAPS / "loop.osm").read_text()
    on_earth = load(data, "map.osm")
    local = load(re.sub(r'lat="[^"]*" lon="[^"]*"', 'lat="" lon=""', data), "map.osm")
    assert not local.surveyed
    # The grid of the map is scaled by 0.9996.
    assert local.length_m == pytest.approx(on_earth.length_m, rel=1e-3)
