"""Missions of ground stations: QGroundControl ``.plan`` (JSON) and the ``QGC WPL`` text of Mission Planner.

A course takes the waypoints (NAV_WAYPOINT, 16) and the ground speed changes (DO_CHANGE_SPEED, 178), which count from the waypoint
before them on. Camera and servo commands are ignored; anything else that would move the vehicle is refused rather than left out.
Speeds of the plan's vehicle (cruiseSpeed, hoverSpeed) are planning aids and not taken.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from vehicled.paths.course_file import DEFAULT_SPEED_MPS, CourseFile, check_count, json_of, number, shown, text_of
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary

PLAN_KIND = "a QGroundControl plan"
TEXT_KIND = '"QGC WPL 110" and one mission item a line'
ORDER = "missions write latitude first, then longitude"
WAYPOINT = 16
CHANGE_SPEED = 178
GROUND_SPEED = 1
# MAV_FRAME: GLOBAL, GLOBAL_RELATIVE_ALT, their _INT forms, GLOBAL_TERRAIN_ALT and its _INT form. Heights are not used.
GLOBAL_FRAMES = (0, 3, 5, 6, 10, 11)
# MAV_CMD: those up to 95 navigate, 112 to 115 hold the mission up, 177 jumps, 189 starts a landing, 193 and 194 pause and reverse.
_MOVING = {*range(1, 96), *range(112, 116), 177, 189, 192, 193, 194, 252, 300}
_NAMES = {
    17: "LOITER", 18: "LOITER_TURNS", 19: "LOITER_TIME", 20: "RETURN_TO_LAUNCH", 21: "LAND", 22: "TAKEOFF",
    82: "SPLINE_WAYPOINT", 93: "DELAY", 177: "JUMP", 194: "SET_REVERSE",
}  # fmt: skip


@dataclass(slots=True)
class _Mission:
    """Waypoints so far, and the speed of the next leg."""

    file_name: str
    points: list[tuple[float, float]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    speeds_mps: list[float] = field(default_factory=list)
    speed_mps: float = DEFAULT_SPEED_MPS
    ignored: dict[str, int] = field(default_factory=dict)
    """Numbers of ignored items and sections, by name."""
    changes: int = 0
    """Number of speed changes used."""

    def ignore(self, what: str) -> None:
        """Count an ignored item."""
        self.ignored[what] = self.ignored.get(what, 0) + 1

    def add(self, place: str, frame: int, command: int, params: list[float | None]) -> None:
        """Add one item; ``params`` are its seven parameters, None if unset. Raises CourseError."""
        at = f"{self.file_name}, {place}"
        if command == WAYPOINT:
            if frame not in GLOBAL_FRAMES:
                raise CourseError(f"{at}: coordinate frame {frame} is not global; give the waypoint as latitude and longitude")
            latitude, longitude = params[4], params[5]
            if latitude is None or longitude is None:
                raise CourseError(f"{at}: the waypoint has no position; give it one or delete it")
            self.points.append((latitude, longitude))
            check_count(self.file_name, len(self.points))
            self.places.append(place)
            self.speeds_mps.append(self.speed_mps)
        elif command == CHANGE_SPEED:
            self._change_speed(at, params)
        elif command in _MOVING:
            name = f" ({_NAMES[command]})" if command in _NAMES else ""
            raise CourseError(f"{at}: command {command}{name} cannot be driven; use waypoints (16) and speed changes (178) only")
        else:
            self.ignore(f"command {command}")

    def _change_speed(self, at: str, params: list[float | None]) -> None:
        kind, speed = params[0], params[1]
        # Ground stations write 0 (airspeed) for rovers too, where it means the same; climb and descent speeds are not ours.
        if (kind is not None and kind not in (0, GROUND_SPEED)) or speed is None or speed in (-1.0, -2.0):
            self.ignore("speed change that sets no ground speed")
            return
        if not (isfinite(speed) and speed > 0.0):
            raise CourseError(f"{at}: speed change to {speed:g} m/s; a target speed is above 0: delete the item or correct it")
        self.speed_mps = speed
        self.changes += 1
        if self.speeds_mps:
            self.speeds_mps[-1] = speed

    def drawing(self, form: str) -> CourseFile:
        used = [("waypoints", "latitude, longitude, deg")]
        remarks = []
        if self.changes:
            used.append((f"{self.changes} speed change(s)", "m/s, each from the waypoint before it on"))
        else:
            remarks.append(f"no speed changes: {DEFAULT_SPEED_MPS:g} m/s all along")
        ignored = tuple((what, f"{count} of them" if count > 1 else "") for what, count in list(self.ignored.items())[:12])
        return CourseFile(
            file_name=self.file_name,
            points=self.points,
            places=self.places,
            geodetic=True,
            order=ORDER,
            speeds_mps=self.speeds_mps,
            speed_holds=True,
            account=ReadSummary(form, tuple(used), ignored, tuple(remarks)),
        )


def read_plan(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of a QGroundControl plan without home, fence and rally points. Raises CourseError."""
    root = json_of(data, file_name, PLAN_KIND)
    if root.get("fileType") != "Plan":
        other = shown(root.get("fileType"))
        raise CourseError(f'{file_name}: "fileType" is {other}, not "Plan"; save the mission as a plan in QGroundControl')
    section = root.get("mission")
    items = section.get("items") if isinstance(section, dict) else None
    if not isinstance(items, list):
        raise CourseError(f'{file_name}: the plan has no list "mission.items"; save it again in QGroundControl')
    mission = _Mission(file_name)
    for key, what in (("cruiseSpeed", "cruiseSpeed"), ("hoverSpeed", "hoverSpeed"), ("plannedHomePosition", "home")):
        if section is not None and section.get(key) is not None:
            mission.ignore(what)
    for key in ("geoFence", "rallyPoints"):
        if root.get(key):
            mission.ignore(key)
    for i, item in enumerate(items):
        place = f"mission item {i + 1}"
        if not isinstance(item, dict):
            raise CourseError(f"{file_name}, {place}: {shown(item)} is not a mission item; save the plan again in QGroundControl")
        kind = item.get("type")
        if kind == "ComplexItem":
            what = shown(item.get("complexItemType", "pattern"), 30)
            raise CourseError(
                f"{file_name}, {place}: a ComplexItem ({what}) is drawn by the ground station only; replace it by single waypoints"
            )
        if kind != "SimpleItem":
            raise CourseError(f"{file_name}, {place}: type {shown(kind)} is not a SimpleItem; use waypoints and speed changes only")
        command, frame = item.get("command"), item.get("frame", 3)
        if not isinstance(command, int) or not isinstance(frame, int):
            raise CourseError(f"{file_name}, {place}: command {shown(command)} in frame {shown(frame)}: both must be whole numbers")
        mission.add(place, frame, command, _parameters(file_name, place, item))
    return mission.drawing("a QGroundControl plan")


def _parameters(file_name: str, place: str, item: dict[str, Any]) -> list[float | None]:
    raw = item.get("params")
    coordinate = item.get("coordinate")
    if isinstance(raw, list) and len(raw) == 4 and isinstance(coordinate, list) and len(coordinate) == 3:
        # Plans of 2018 and before keep the position apart.
        raw = raw + coordinate
    if not isinstance(raw, list) or len(raw) != 7:
        raise CourseError(f"{file_name}, {place}: params is {shown(raw)}; expected seven values")
    return [number(value) for value in raw]


def read_text(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of a ``QGC WPL`` file without item 0 in the absolute frame, the home position. Raises CourseError."""
    lines = text_of(data, file_name, TEXT_KIND).splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip())
    header = lines[start].split()
    if header[:2] != ["QGC", "WPL"] or len(header) != 3 or header[2] not in ("110", "120"):
        raise CourseError(f'{file_name}, line {start + 1}: {shown(lines[start])} is not "QGC WPL 110"; save it as waypoints')
    mission = _Mission(file_name)
    for i, line in enumerate(lines[start + 1 :], start=start + 2):
        cells = line.split()
        if not cells or cells[0].startswith("#"):
            continue
        place = f"line {i}"
        if len(cells) != 12:
            raise CourseError(f"{file_name}, {place}: {len(cells)} values, a mission item has 12; the line is damaged or cut off")
        try:
            values = [float(cell) for cell in cells]
        except ValueError:
            raise CourseError(f"{file_name}, {place}: a value is not a number: {shown(line)}; correct the line") from None
        whole = [values[k] for k in (0, 2, 3)]
        if not all(isfinite(v) and v == int(v) for v in whole):
            raise CourseError(f"{file_name}, {place}: index, frame and command must be whole numbers; correct the line")
        index, frame, command = (int(v) for v in whole)
        if index == 0 and frame == 0 and command == WAYPOINT:
            mission.ignore("home")
            continue
        mission.add(place, frame, command, list(values[4:11]))
    return mission.drawing("QGC WPL, a mission of Mission Planner")
