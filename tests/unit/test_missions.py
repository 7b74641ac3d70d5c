"""Missions do what they say: every item of a file is driven, named as ignored, or refused with its
reason."""

import json
from contextlib import suppress
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.paths.course import Course
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import course_from_bytes
from vehicled.paths.mission import ItemError, Mission, MissionItem, changed_speed
from vehicled.paths.mission_commands import COMMANDS, CommandEffect
from vehicled.paths.waits import MAX_WAIT_S

Row = tuple[Any, ...]


def waypoint(k: int, *params: float, command: int = 16, frame: int = 3) -> Row:
    """Return an item about 11 m north of the one before."""
    return (command, frame, *params, *[0.0] * (4 - len(params)), 48.0 + 1e-4 * k, 11.0)


def text(*rows: Row, version: str = "110", first: int = 1, autocontinue: int = 1) -> bytes:
    lines = [f"QGC WPL {version}"]
    for k, (command, frame, p1, p2, p3, p4, x, y) in enumerate(rows, first):
        lines.append(
            f"{k}\t0\t{frame}\t{command}\t{p1}\t{p2}\t{p3}\t{p4}\t{x:.8f}\t{y:.8f}\t50\t{autocontinue}"
        )
    return "\n".join(lines).encode()


def plan(*rows: Row) -> bytes:
    items = [
        {
            "type": "SimpleItem",
            "command": command,
            "frame": frame,
            "autoContinue": True,
            "params": [*params, 50],
        }
        for command, frame, *params in rows
    ]
    return json.dumps(
        {"fileType": "Plan", "version": 1, "mission": {"version": 2, "items": items}}
    ).encode()


def read(*rows: Row) -> Course:
    """Read a mission from both kinds of file, with the same result."""
    found = course_from_bytes(text(*rows), "a.waypoints")
    other = course_from_bytes(plan(*rows), "a.plan")
    assert found.waits == other.waits
    assert (found.speed_mps == other.speed_mps).all()
    return found


def account(course: Course) -> str:
    assert course.account is not None
    return "\n".join(course.account.lines())


ALL = [waypoint(k) for k in range(4)]


@pytest.mark.parametrize(("version", "waypoints"), [("110", 3), ("120", 4)])
def test_item_0_is_home_in_version_110_only(version: str, waypoints: int) -> None:
    rows = [(16, 0, *ALL[0][2:]), *ALL[1:]]
    course = course_from_bytes(text(*rows, version=version, first=0), "a.waypoints")
    assert course.waypoints == waypoints
    assert f"QGC WPL {version}" in account(course)
    assert ("ignored: home" in account(course)) is (version == "110")


@pytest.mark.parametrize("number", [*COMMANDS, 26, 250, 12_345, 65_535])
def test_every_command_is_driven_named_or_refused(number: int) -> None:
    name, kind = COMMANDS.get(number, ("", None))
    params = {178: (1.0, 0.5), 93: (3.0,)}.get(number, ())
    rows = [ALL[0], ALL[1], waypoint(2, *params, command=number), ALL[3]]
    if kind is CommandEffect.DRIVEN and number != 20:
        assert "ignored" not in account(read(*rows))
    elif kind is CommandEffect.HARMLESS:
        course = read(*rows)
        assert f"ignored: command {number} ({name}): it moves nothing (line 4)" in account(course)
        assert (course.waypoints, course.waits) == (3, ())
    else:
        for data, file in ((text(*rows), "a.waypoints"), (plan(*rows), "a.plan")):
            with pytest.raises(CourseError) as error:
                course_from_bytes(data, file)
            said = str(error.value)
            assert ("line 4" if file == "a.waypoints" else "mission item 3") in said
            assert f"command {number}" in said
            assert name in said


def test_a_command_that_comes_often_is_one_line() -> None:
    course = read(
        ALL[0],
        waypoint(0, command=203),
        ALL[1],
        waypoint(1, command=203),
        waypoint(1, command=211),
        ALL[2],
    )
    assert "command 203 (DO_DIGICAM_CONTROL): it moves nothing (line 3 and 1 more)" in account(
        course
    )
    assert "command 211 (DO_GRIPPER)" in account(course)


def test_waits_add_up_at_their_waypoint() -> None:
    course = read(
        waypoint(0, 5.0, command=93), waypoint(0, 2.0), waypoint(1, 30.0),
        waypoint(1, 10.0, command=93), waypoint(2, 7.0, command=19), waypoint(3),
        waypoint(3, 4.0, command=93),
    )  # fmt: skip
    assert [wait.duration_s for wait in course.waits] == [7.0, 40.0, 7.0, 4.0]
    assert [wait.s_m for wait in course.waits] == pytest.approx(
        [0.0, 11.12, 22.24, course.length_m], abs=0.06
    )
    assert "4 wait(s) (58 s in all, each at its waypoint)" in account(course)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (waypoint(2, -1.0), "a wait of -1 s"),
        (waypoint(2, 70_000.0), "a wait of 70000 s"),
        (waypoint(2, -1.0, 12.0, command=93), "time of day"),
        (waypoint(2, 0.0, 12.0, command=93), "time of day"),
        (waypoint(2, 1.0, 0.0, command=178), "speed change to 0"),
        (waypoint(2, 1.0, -3.0, command=178), "speed change to -3"),
        (waypoint(2, 5.0, 1.0, command=178), "speed type 5"),
        (waypoint(2, 1.0, 1.0, 0.0, 1.0, command=178), "relative"),
        (waypoint(2, 1.0, -1.0, 40.0, command=178), "without a speed"),
        (waypoint(2, 1.0, 1.0, 140.0, command=178), "out of range"),
        (waypoint(2, frame=1), "coordinate frame 1"),
        (waypoint(2, command=20), "no launch place"),
    ],
)
def test_an_item_out_of_range_is_refused(row: Row, why: str) -> None:
    for data, file in (
        (text(*ALL[:2], row, ALL[3]), "a.waypoints"),
        (plan(*ALL[:2], row, ALL[3]), "a.plan"),
    ):
        with pytest.raises(CourseError, match=f"(line 4|mission item 3).*{why}"):
            course_from_bytes(data, file)


def test_parameters_that_a_rover_has_no_use_for_are_named() -> None:
    course = read(
        ALL[0], waypoint(1, 0.0, 0.0, 5.0, 90.0), waypoint(2, 1.0, 0.0, 20.0, command=19), ALL[3]
    )
    for what in ("pass-by radius", "heading at a waypoint", "loiter radius"):
        assert f"ignored: {what}" in account(course)
    course = course_from_bytes(text(*ALL, autocontinue=0), "a.waypoints")
    assert "autocontinue 0: the vehicle drives on" in account(course)


@pytest.mark.parametrize(
    ("params", "speed_mps"),
    [
        ((1.0, 2.5, -1.0, 0.0), 2.5), ((0.0, 2.5, 0.0, 0.0), 2.5), ((None, 2.5, None, None), 2.5),
        ((1.0, 2.5, 50.0, 0.0), 2.5), ((1.0, -1.0, -1.0, 0.0), None),
        ((1.0, -2.0, -1.0, 0.0), 1.25), ((2.0, 7.5, -1.0, 0.0), None),
        ((3.0, 9.0, -1.0, 0.0), None),
    ],
)  # fmt: skip
def test_a_speed_change_means_the_same_everywhere(
    params: tuple[float | None, ...], speed_mps: float | None
) -> None:
    assert changed_speed(params, 1.25)[0] == speed_mps


def test_speeds_hold_from_the_waypoint_before_and_the_usual_one_comes_back() -> None:
    course = read(
        ALL[0], waypoint(0, 1.0, 2.0, command=178), ALL[1], waypoint(1, 2.0, 7.5, command=178),
        ALL[2], waypoint(2, 1.0, -2.0, command=178), ALL[3],
    )  # fmt: skip
    legs = [
        set(course.speed_mps[(course.s_m > k * 11.12 + 0.2) & (course.s_m < (k + 1) * 11.12 - 0.2)])
        for k in range(3)
    ]
    assert legs == [{2.0}, {2.0}, {1.0}]


values = st.one_of(
    st.none(), st.floats(allow_nan=False), st.sampled_from([0.0, -1.0, -2.0, 1.0, 30.0, inf, -inf])
)


numbers = st.sampled_from([16, 19, 93, 178, 20, 203, 21, 700])
items = st.tuples(numbers, st.sampled_from([0, 1, 3, 12]), st.lists(values, min_size=6, max_size=6))


@given(st.lists(items, max_size=8))
def test_whatever_comes_is_driven_within_limits_or_refused(
    items: list[tuple[int, int, list[float | None]]],
) -> None:
    mission = Mission(1.0, home=(0.0, 0.0), local=True)
    for k, (command, frame, params) in enumerate(items):
        with suppress(ItemError):
            mission.add(MissionItem(command, frame, params[:4], params[4], params[5]), str(k))
    assert all(
        0.0 <= stage.wait_s <= MAX_WAIT_S and 0.0 < stage.speed_mps <= 100.0
        for stage in mission.stages
    )
    assert all(0.0 < speed_mps <= 100.0 for speed_mps in mission.speeds_mps)
    assert 0.0 <= mission.first_wait_s <= MAX_WAIT_S
