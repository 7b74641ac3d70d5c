"""Missions of ground stations: QGroundControl ``.plan`` (JSON) and the ``QGC WPL`` text of Mission
Planner.

:mod:`vehicled.paths.mission` says what the items mean. Speeds of the plan's vehicle (cruiseSpeed,
hoverSpeed) are planning aids and not taken.
"""

from math import isfinite
from typing import Any

from vehicled.paths.course_file import (
    DEFAULT_SPEED_MPS,
    CourseFile,
    check_count,
    json_of,
    number,
    shown,
    text_of,
)
from vehicled.paths.errors import CourseError
from vehicled.paths.mission import WAYPOINT, ItemError, Mission, MissionItem, unset
from vehicled.paths.read_summary import ReadSummary

PLAN_KIND = "a QGroundControl plan"
TEXT_KIND = '"QGC WPL 110" and one mission item a line'
ORDER = "missions write latitude first, then longitude"


class _FileMission:
    """Mission of a file, with what else the file holds."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._mission = Mission(DEFAULT_SPEED_MPS)
        self.sections: list[str] = []
        """Names of sections that are no part of the way."""

    def add(
        self,
        place: str,
        frame: int,
        command: int,
        params: list[float | None],
        *,
        autocontinue: bool,
    ) -> None:
        """Add one item; ``params`` are its seven parameters, None if unset. Raises CourseError."""
        try:
            self._mission.add(
                MissionItem(command, frame, params[:4], params[4], params[5], autocontinue), place
            )
        except ItemError as error:
            raise CourseError(f"{self._file_name}, {place}: {error}") from None
        check_count(self._file_name, len(self._mission.stages))

    def drawing(self, form: str) -> CourseFile:
        mission = self._mission
        stages = mission.stages
        waits_s = [stage.wait_s for stage in stages]
        if stages:
            waits_s[0] += mission.first_wait_s
        used = [("waypoints", "latitude, longitude, deg")]
        remarks = mission.remarks()
        if mission.changes:
            used.append(
                (f"{mission.changes} speed change(s)", "m/s, each from the waypoint before it on")
            )
        else:
            remarks.append(f"no speed changes: {DEFAULT_SPEED_MPS:g} m/s all along")
        if number_of_waits := sum(wait_s > 0.0 for wait_s in waits_s):
            used.append(
                (f"{number_of_waits} wait(s)", f"{sum(waits_s):g} s in all, each at its waypoint")
            )
        return CourseFile(
            file_name=self._file_name,
            points=[(stage.x, stage.y) for stage in stages],
            places=[stage.label for stage in stages],
            geodetic=True,
            order=ORDER,
            speeds_mps=mission.speeds_mps,
            speed_holds=True,
            waits_s=waits_s,
            account=ReadSummary(
                form, tuple(used), tuple((section, "") for section in self.sections), tuple(remarks)
            ),
        )


def read_plan(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of a QGroundControl plan without home, fence and rally points. Raises
    CourseError."""
    root = json_of(data, file_name, PLAN_KIND)
    if root.get("fileType") != "Plan":
        other = shown(root.get("fileType"))
        raise CourseError(
            f'{file_name}: "fileType" is {other}, not "Plan"; save the mission as a plan in '
            "QGroundControl"
        )
    section = root.get("mission")
    items = section.get("items") if isinstance(section, dict) else None
    if not isinstance(items, list):
        raise CourseError(
            f'{file_name}: the plan has no list "mission.items"; save it again in QGroundControl'
        )
    mission = _FileMission(file_name)
    for key, what in (
        ("cruiseSpeed", "cruiseSpeed"),
        ("hoverSpeed", "hoverSpeed"),
        ("plannedHomePosition", "home"),
    ):
        if section is not None and section.get(key) is not None:
            mission.sections.append(what)
    for key in ("geoFence", "rallyPoints"):
        if root.get(key):
            mission.sections.append(key)
    for i, item in enumerate(items):
        place = f"mission item {i + 1}"
        if not isinstance(item, dict):
            raise CourseError(
                f"{file_name}, {place}: {shown(item)} is not a mission item; save the plan "
                "again in QGroundControl"
            )
        kind = item.get("type")
        if kind == "ComplexItem":
            what = shown(item.get("complexItemType", "pattern"), 30)
            raise CourseError(
                f"{file_name}, {place}: a ComplexItem ({what}) is drawn by the ground station "
                "only; replace it by single waypoints"
            )
        if kind != "SimpleItem":
            raise CourseError(
                f"{file_name}, {place}: type {shown(kind)} is not a SimpleItem; use waypoints "
                "and speed changes only"
            )
        command, frame = item.get("command"), item.get("frame", 3)
        if not isinstance(command, int) or not isinstance(frame, int):
            raise CourseError(
                f"{file_name}, {place}: command {shown(command)} in frame {shown(frame)}: both "
                "must be whole numbers"
            )
        autocontinue = item.get("autoContinue", True) is not False
        mission.add(
            place, frame, command, _parameters(file_name, place, item), autocontinue=autocontinue
        )
    return mission.drawing("a QGroundControl plan")


def _parameters(file_name: str, place: str, item: dict[str, Any]) -> list[float | None]:
    raw = item.get("params")
    coordinate = item.get("coordinate")
    if (
        isinstance(raw, list)
        and len(raw) == 4
        and isinstance(coordinate, list)
        and len(coordinate) == 3
    ):
        # Plans of 2018 and before keep the position apart.
        raw = raw + coordinate
    if not isinstance(raw, list) or len(raw) != 7:
        raise CourseError(f"{file_name}, {place}: params is {shown(raw)}; expected seven values")
    return [number(value) for value in raw]


def read_text(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of a ``QGC WPL`` file. Raises CourseError.

    Item 0 of version 110 in the absolute frame is the home position; version 120, of old
    QGroundControl, has none.
    """
    lines = text_of(data, file_name, TEXT_KIND).splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip())
    header = lines[start].split()
    if header[:2] != ["QGC", "WPL"] or len(header) != 3 or header[2] not in ("110", "120"):
        raise CourseError(
            f'{file_name}, line {start + 1}: {shown(lines[start])} is not "QGC WPL 110"; save '
            "it as waypoints"
        )
    mission = _FileMission(file_name)
    for i, line in enumerate(lines[start + 1 :], start=start + 2):
        cells = line.split()
        if not cells or cells[0].startswith("#"):
            continue
        place = f"line {i}"
        if len(cells) != 12:
            raise CourseError(
                f"{file_name}, {place}: {len(cells)} values, a mission item has 12; the line "
                "is damaged or cut off"
            )
        try:
            values = [float(cell) for cell in cells]
        except ValueError:
            raise CourseError(
                f"{file_name}, {place}: a value is not a number: {shown(line)}; correct the line"
            ) from None
        whole = [values[k] for k in (0, 2, 3)]
        if not all(isfinite(v) and v == int(v) for v in whole):
            raise CourseError(
                f"{file_name}, {place}: index, frame and command must be whole numbers; "
                "correct the line"
            )
        index, frame, command = (int(v) for v in whole)
        if header[2] == "110" and index == 0 and frame == 0 and command == WAYPOINT:
            mission.sections.append("home")
            continue
        params = [unset(value) for value in values[4:8]] + values[8:11]
        mission.add(place, frame, command, params, autocontinue=values[11] != 0.0)
    return mission.drawing(f"QGC WPL {header[2]}, a mission of a ground station")
