"""Mission protocol: upload and download of a mission, and the course through its waypoints. Pure."""

from collections.abc import Sequence
from math import hypot, isfinite, radians
from typing import Any, NamedTuple

import numpy as np
from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.shortest import NEAR_M, WIDER, Pose, paths_to

MOST_ITEMS = 2000
TIMEOUT_S, RETRIES = 1.0, 5
PASS_M = 0.2
"""Distance by which a pass may be farther from a waypoint than the nearest one, m."""
GLOBAL_FRAMES = (
    mav.MAV_FRAME_GLOBAL, mav.MAV_FRAME_GLOBAL_RELATIVE_ALT, mav.MAV_FRAME_GLOBAL_INT, mav.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT,
    mav.MAV_FRAME_GLOBAL_TERRAIN_ALT, mav.MAV_FRAME_GLOBAL_TERRAIN_ALT_INT,
)  # fmt: skip
SUPPORTED = (mav.MAV_CMD_NAV_WAYPOINT, mav.MAV_CMD_DO_CHANGE_SPEED, mav.MAV_CMD_NAV_RETURN_TO_LAUNCH)


class Item(NamedTuple):
    """One item of a mission, as it crossed the link."""

    frame: int
    command: int
    autocontinue: int
    params: tuple[float, float, float, float]
    x: int
    y: int
    z: float


class Waypoint(NamedTuple):
    """Place to drive through, in the map frame, with the item that asks for it."""

    x_m: float
    y_m: float
    speed_mps: float
    item: int


class MissionError(Exception):
    """The mission cannot be driven; ``result`` is the MAV_MISSION_RESULT, the text gives the reason."""

    def __init__(self, result: int, text: str) -> None:
        super().__init__(text)
        self.result = result


class Upload:
    """Mission that a ground station sends, item by item."""

    def __init__(self, count: int, peer: tuple[int, int]) -> None:
        self.count, self.peer = count, peer
        self.items: list[Item] = []
        self.due_s = 0.0
        """Time at which the next item is asked for again."""
        self.tries = 0

    def take(self, message: Any) -> bool:
        """Take an item if it is the next one; return True then. Raises :class:`MissionError` for one that cannot be driven."""
        if message.seq != len(self.items):
            return False
        item = _item(message)
        # Item 0 is the home position, which ArduPilot's ground stations send along.
        if message.seq > 0:
            check_item(item, message.seq)
        self.items.append(item)
        self.tries = 0
        return True


def _item(message: Any) -> Item:
    params = (message.param1, message.param2, message.param3, message.param4)
    if message.get_type() == "MISSION_ITEM":
        scale = 1e4 if message.frame == mav.MAV_FRAME_LOCAL_NED else 1e7
        if not isfinite(message.x + message.y) or max(abs(message.x), abs(message.y)) * scale >= 2**31:
            raise MissionError(mav.MAV_MISSION_INVALID, f"item {message.seq}: its place is not finite")
        return Item(
            message.frame,
            message.command,
            message.autocontinue,
            params,
            round(message.x * scale),
            round(message.y * scale),
            message.z,
        )
    return Item(message.frame, message.command, message.autocontinue, params, message.x, message.y, message.z)


def check_item(item: Item, seq: int) -> None:
    """Raise :class:`MissionError` for an item that the vehicle cannot follow."""
    if item.command not in SUPPORTED:
        name = mav.enums["MAV_CMD"][item.command].name if item.command in mav.enums["MAV_CMD"] else str(item.command)
        raise MissionError(mav.MAV_MISSION_UNSUPPORTED, f"item {seq}: {name} is not supported; waypoints, speeds and return are")
    if item.command != mav.MAV_CMD_NAV_WAYPOINT:
        return
    if item.frame in GLOBAL_FRAMES:
        if abs(item.x) > 90e7 or abs(item.y) > 180e7:
            raise MissionError(mav.MAV_MISSION_INVALID_PARAM5_X, f"item {seq}: latitude or longitude is out of range")
    elif item.frame != mav.MAV_FRAME_LOCAL_NED:
        raise MissionError(mav.MAV_MISSION_UNSUPPORTED_FRAME, f"item {seq}: frame {item.frame} is not supported")


def waypoints(items: Sequence[Item], datum: Datum, home: tuple[float, float] | None, usual_speed_mps: float) -> list[Waypoint]:
    """Return the places of a mission in order, with the speed on the way to each. Raises :class:`MissionError`."""
    found: list[Waypoint] = []
    speed_mps = usual_speed_mps
    for seq, item in enumerate(items):
        if seq == 0:
            continue
        if item.command == mav.MAV_CMD_DO_CHANGE_SPEED:
            if isfinite(item.params[1]) and item.params[1] > 0.0:
                speed_mps = item.params[1]
            elif item.params[1] != -1.0:
                speed_mps = usual_speed_mps
        elif item.command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            if home is None:
                raise MissionError(mav.MAV_MISSION_ERROR, f"item {seq}: the vehicle has not been armed yet, so there is no launch")
            found.append(Waypoint(*home, speed_mps, seq))
        elif item.frame == mav.MAV_FRAME_LOCAL_NED:
            found.append(Waypoint(item.y * 1e-4, item.x * 1e-4, speed_mps, seq))
        else:
            x_m, y_m, _ = datum.to_enu(radians(item.x * 1e-7), radians(item.y * 1e-7), datum.height_m)
            found.append(Waypoint(x_m, y_m, speed_mps, seq))
    if not found:
        raise MissionError(mav.MAV_MISSION_ERROR, "the mission has no waypoint to drive to")
    return found


def course_through(
    start: Pose, places: Sequence[Waypoint], *, turn_radius_m: float, datum: Datum, name: str
) -> tuple[Course, list[float]]:
    """Return the course from the vehicle's pose through all places, and the arc length of each, m. Raises :class:`MissionError`.

    The way to the first place begins in the vehicle's heading and ends towards the second place.
    """
    ahead = [place for place in places if hypot(place.x_m - start.x_m, place.y_m - start.y_m) >= NEAR_M or place is not places[0]]
    if not ahead:
        raise MissionError(mav.MAV_MISSION_ERROR, "the vehicle is at the only waypoint already")
    first = ahead[0]
    yaw_rad = None
    if len(ahead) > 1 and hypot(ahead[1].x_m - first.x_m, ahead[1].y_m - first.y_m) > 1e-3:
        yaw_rad = float(np.arctan2(ahead[1].y_m - first.y_m, ahead[1].x_m - first.x_m))
    approach = next(iter(paths_to(start, first.x_m, first.y_m, yaw_rad, WIDER * turn_radius_m)))
    xs = [pose.x_m for pose in approach] + [place.x_m for place in ahead[1:]]
    ys = [pose.y_m for pose in approach] + [place.y_m for place in ahead[1:]]
    speeds = [first.speed_mps] * len(approach) + [place.speed_mps for place in ahead[1:]]
    try:
        course = course_from_waypoints(name, xs, ys, speed=speeds, closed=False, datum=datum)
    except CourseError as error:
        raise MissionError(mav.MAV_MISSION_ERROR, str(error)) from None
    return course, _arcs_m(course, places)


def _arcs_m(course: Course, places: Sequence[Waypoint]) -> list[float]:
    """Return the arc lengths at which the course passes the places, in order, m."""
    found, at = [], 0
    for place in places:
        off_m = np.hypot(course.x_m[at:] - place.x_m, course.y_m[at:] - place.y_m)
        # The first pass, because a later part of the course may come by again.
        at += int(np.argmax(off_m <= off_m.min() + PASS_M))
        found.append(float(course.s_m[at]))
    return found
