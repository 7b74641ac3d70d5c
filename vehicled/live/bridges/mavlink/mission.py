"""The course through a mission that a ground station uploads. Pure; :mod:`vehicled.paths.mission`
says what the items mean."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import ceil, hypot, isfinite
from typing import Any, NamedTuple

import numpy as np
from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.live.bridges.mavlink.places import (
    Place,
    PlaceError,
    check_degrees,
    global_place,
    local_place,
)
from vehicled.paths.course import MAX_LENGTH_M, Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.mission import (
    LOCAL_NED,
    Flaw,
    ItemError,
    Mission,
    MissionItem,
    MissionStage,
    unset,
)
from vehicled.paths.shortest import MAX_AWAY_M, NEAR_M, WIDER, Pose, paths_to

PASS_M = 0.2
"""Distance by which a pass may be farther from a waypoint than the nearest one, m."""
STEP_M = 50.0
"""Longest distance of two points of a leg, m."""
RESULTS = {
    Flaw.COMMAND: mav.MAV_MISSION_UNSUPPORTED,
    Flaw.PARAM1: mav.MAV_MISSION_INVALID_PARAM1,
    Flaw.PARAM2: mav.MAV_MISSION_INVALID_PARAM2,
    Flaw.PARAM3: mav.MAV_MISSION_INVALID_PARAM3,
    Flaw.PARAM4: mav.MAV_MISSION_INVALID_PARAM4,
    Flaw.X: mav.MAV_MISSION_INVALID_PARAM5_X,
    Flaw.FRAME: mav.MAV_MISSION_UNSUPPORTED_FRAME,
    Flaw.MISSION: mav.MAV_MISSION_ERROR,
}
"""MAV_MISSION_RESULT by what is wrong."""


class Item(NamedTuple):
    """One item of a mission, as it crossed the link."""

    frame: int
    command: int
    autocontinue: int
    params: tuple[float, float, float, float]
    x: int
    y: int
    z: float

    def meant(self) -> MissionItem:
        """Return the item in degrees or metres, without the values that are not set."""
        scale = 1e-4 if self.frame == LOCAL_NED else 1e-7
        params = [unset(value) for value in self.params]
        return MissionItem(
            self.command, self.frame, params, self.x * scale, self.y * scale, self.autocontinue != 0
        )


class Waypoint(NamedTuple):
    """Place to drive through, in the map frame, with the item that asks for it."""

    x_m: float
    y_m: float
    speed_mps: float
    """Speed on the way to it."""
    item: int
    wait_s: float = 0.0
    """Time to stand there."""


class MissionError(Exception):
    """The mission cannot be driven; ``result`` is the MAV_MISSION_RESULT, the text gives the
    reason."""

    def __init__(self, result: int, text: str) -> None:
        super().__init__(text)
        self.result = result


def item_of(message: Any) -> Item:
    """Return the item of a MISSION_ITEM or MISSION_ITEM_INT. Raises :class:`MissionError`."""
    params = (message.param1, message.param2, message.param3, message.param4)
    head = message.frame, message.command, message.autocontinue, params
    if message.get_type() == "MISSION_ITEM":
        scale = 1e4 if message.frame == LOCAL_NED else 1e7
        if (
            not isfinite(message.x + message.y)
            or max(abs(message.x), abs(message.y)) * scale >= 2**31
        ):
            raise MissionError(
                mav.MAV_MISSION_INVALID_PARAM5_X, f"item {message.seq}: its place is not finite"
            )
        return Item(*head, round(message.x * scale), round(message.y * scale), message.z)
    return Item(*head, message.x, message.y, message.z)


def check_item(item: Item, seq: int, datum: Datum | None = None) -> None:
    """Raise :class:`MissionError` for an item that the vehicle cannot follow. ``datum``: origin of
    the map, if it is known."""
    mission = Mission(1.0, home=(0.0, 0.0), local=True)
    with _named(seq):
        mission.add(item.meant(), str(seq))
        for stage in mission.stages:
            _place(stage, datum)


def waypoints(
    items: Sequence[Item], datum: Datum, home: tuple[float, float] | None, usual_speed_mps: float
) -> list[Waypoint]:
    """Return the places of a mission in order. Raises :class:`MissionError`. ``home``: where the
    vehicle was armed, m."""
    return _waypoints(read_mission(items, home, usual_speed_mps), datum)


def read_mission(
    items: Sequence[Item], home: tuple[float, float] | None, usual_speed_mps: float
) -> Mission:
    """Return what the items of a mission mean. Raises :class:`MissionError`."""
    mission = Mission(
        usual_speed_mps, home=None if home is None else (home[1], home[0]), local=True
    )
    # Item 0 is the home position, which ArduPilot's ground stations send along.
    for seq, item in enumerate(items[1:], 1):
        with _named(seq):
            mission.add(item.meant(), str(seq))
    if not mission.stages:
        raise MissionError(mav.MAV_MISSION_ERROR, "the mission has no waypoint to drive to")
    return mission


def _waypoints(mission: Mission, datum: Datum) -> list[Waypoint]:
    found = []
    for stage in mission.stages:
        with _named(int(stage.label)):
            found.append(
                Waypoint(*_place(stage, datum), stage.speed_mps, int(stage.label), stage.wait_s)
            )
    return found


def _place(stage: MissionStage, datum: Datum | None) -> Place:
    if stage.local:
        return local_place(LOCAL_NED, None, stage.x, stage.y)
    if datum is None:
        check_degrees(stage.x, stage.y)
        return Place(0.0, 0.0)
    return global_place(datum, stage.x, stage.y)


@contextmanager
def _named(seq: int) -> Iterator[None]:
    """Raise errors of an item as :class:`MissionError` with its number."""
    try:
        yield
    except ItemError as error:
        raise MissionError(RESULTS[error.flaw], f"item {seq}: {error}") from None
    except PlaceError as error:
        raise MissionError(mav.MAV_MISSION_INVALID_PARAM5_X, f"item {seq}: {error}") from None


class MissionCourse(NamedTuple):
    """Course through a mission."""

    course: Course
    arcs_m: list[tuple[float, int]]
    """Arc length of each waypoint with the number of its item."""
    remarks: list[str]
    """Lines about the parts that are ignored, one for each kind."""


def mission_course(
    items: Sequence[Item], start: Pose, home: tuple[float, float] | None, datum: Datum, *,
    usual_speed_mps: float, turn_radius_m: float,
) -> MissionCourse:  # fmt: skip
    """Return the course from the vehicle's pose through a mission. Raises :class:`MissionError`."""
    mission = read_mission(items, home, usual_speed_mps)
    places = _waypoints(mission, datum)
    course, arcs_m = course_through(
        start,
        places,
        turn_radius_m=turn_radius_m,
        datum=datum,
        name="mission",
        first_wait_s=mission.first_wait_s,
    )
    return MissionCourse(
        course, list(zip(arcs_m, (place.item for place in places), strict=True)), mission.remarks()
    )


def course_through(
    start: Pose,
    places: Sequence[Waypoint],
    *,
    turn_radius_m: float,
    datum: Datum,
    name: str,
    first_wait_s: float = 0.0,
) -> tuple[Course, list[float]]:
    """Return the course from the vehicle's pose through all places, and the arc length of each, m.
    Raises :class:`MissionError`.

    The way to the first place begins in the vehicle's heading and ends towards the second place.
    """
    _check_legs(start, places)
    first = places[0]
    if hypot(first.x_m - start.x_m, first.y_m - start.y_m) < NEAR_M:
        # The vehicle is there already, and waits where it is.
        first_wait_s, ahead = first_wait_s + first.wait_s, list(places[1:])
    else:
        ahead = list(places)
    if not ahead:
        raise MissionError(mav.MAV_MISSION_ERROR, "the vehicle is at the only waypoint already")
    first = ahead[0]
    yaw_rad = None
    if len(ahead) > 1 and hypot(ahead[1].x_m - first.x_m, ahead[1].y_m - first.y_m) > 1e-3:
        yaw_rad = float(np.arctan2(ahead[1].y_m - first.y_m, ahead[1].x_m - first.x_m))
    approach = next(iter(paths_to(start, first.x_m, first.y_m, yaw_rad, WIDER * turn_radius_m)))
    xs, ys = [pose.x_m for pose in approach], [pose.y_m for pose in approach]
    # Each point has the speed from there on: that on the way to the next place.
    speeds = [first.speed_mps] * (len(xs) - 1)
    waits = [first_wait_s] + [0.0] * (len(xs) - 2) + [first.wait_s]
    for before, place in pairwise(ahead):
        # The points of the approach are close together, so that a long leg beside them would look
        # like a mistake.
        count = max(1, ceil(hypot(place.x_m - before.x_m, place.y_m - before.y_m) / STEP_M))
        for k in range(1, count + 1):
            xs.append(before.x_m + (place.x_m - before.x_m) * k / count)
            ys.append(before.y_m + (place.y_m - before.y_m) * k / count)
        speeds += [place.speed_mps] * count
        waits += [0.0] * (count - 1) + [place.wait_s]
    speeds.append(speeds[-1])
    try:
        course = course_from_waypoints(
            name, xs, ys, speed=speeds, closed=False, datum=datum, speed_holds=True, waits_s=waits
        )
    except CourseError as error:
        raise MissionError(mav.MAV_MISSION_ERROR, str(error)) from None
    return course, _arcs_m(course, places)


def _check_legs(start: Pose, places: Sequence[Waypoint]) -> None:
    """Refuse a way that is too long before anything is planned."""
    x_m, y_m, way_m = start.x_m, start.y_m, 0.0
    for place in places:
        leg_m = hypot(place.x_m - x_m, place.y_m - y_m)
        x_m, y_m, way_m = place.x_m, place.y_m, way_m + leg_m
        if not leg_m <= MAX_AWAY_M:
            far = f"{leg_m / 1000:.1f} km from the place before (at most {MAX_AWAY_M / 1000:g} km)"
            raise MissionError(
                mav.MAV_MISSION_INVALID_PARAM5_X,
                f"item {place.item}: {far}: look at its coordinates",
            )
    if not way_m <= MAX_LENGTH_M:
        raise MissionError(
            mav.MAV_MISSION_NO_SPACE,
            f"the mission is {way_m / 1000:.0f} km long (at most {MAX_LENGTH_M / 1000:g} km)",
        )


def _arcs_m(course: Course, places: Sequence[Waypoint]) -> list[float]:
    """Return the arc lengths at which the course passes the places, in order, m."""
    found, at = [], 0
    for place in places:
        off_m = np.hypot(course.x_m[at:] - place.x_m, course.y_m[at:] - place.y_m)
        # The first pass, because a later part of the course may come by again.
        at += int(np.argmax(off_m <= off_m.min() + PASS_M))
        found.append(float(course.s_m[at]))
    return found
