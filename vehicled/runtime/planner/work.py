"""Work of the planning process: finds paths, and reads and checks the courses of clients. Pure.

Each function returns the pieces of its answer; see :mod:`vehicled.runtime.planner.frames`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.daemon.live_changes import ChangeError, CourseRules
from vehicled.paths.course import SPACING_M, Course
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.shortest import course_to
from vehicled.paths.stored import from_bytes, to_bytes
from vehicled.runtime.planner.frames import (
    Goal,
    Opening,
    PlanFrameKind,
    PlanningMap,
    planned,
    refused,
)
from vehicled.safety.fence import Fence

if TYPE_CHECKING:
    from vehicled.runtime.planner.free_space import FreeSpace

DENSEST = 2.0
"""Most samples of a course for each that the daemon itself would place."""
SPARE_SAMPLES = 1000


class CourseLine(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="course", kw_only=True
):
    """A client's line with a course, as
    :class:`vehicled.live.control_socket.protocol.CourseRequest`."""

    data: bytes
    kind: Literal["course", "mission"] = "course"
    origin: Annotated[str, Meta(max_length=64)] = ""


class Work:
    """Answers to the requests of one run."""

    def __init__(self, opening: bytes) -> None:
        facts = msgspec.msgpack.decode(opening, type=Opening)
        fence = None if facts.polygons is None else Fence(facts.polygons)
        self._map = facts.map
        self._space: FreeSpace | None = None
        """Free space of the map, from the first goal on."""
        self._polygons = facts.polygons or []
        self._rules = CourseRules(facts.vehicle, facts.limits, Datum(*facts.datum), fence)

    def reply(self, kind: int, payload: bytes) -> list[bytes]:
        """Return the answer to one request."""
        try:
            if kind == PlanFrameKind.GOAL:
                course = self._path(msgspec.msgpack.decode(payload, type=Goal))
                return planned(course, to_bytes(course))
            return self._read(payload)
        except (ChangeError, CourseError) as error:
            return refused(str(error))

    def _path(self, goal: Goal) -> Course:
        rules = self._rules
        if self._map is not None:
            return self._path_on_map(goal, self._map)
        return course_to(
            goal.start,
            *(goal.x_m, goal.y_m, goal.yaw_rad),
            radius_m=rules.vehicle.min_turn_radius_m,
            speed_mps=goal.speed_mps,
            datum=rules.datum,
            refused=rules.outside,
            name=goal.name,
            most_m=rules.limits.max_new_course_m,
        )

    def _path_on_map(self, goal: Goal, planning_map: PlanningMap) -> Course:
        # Loaded by the first goal on a map: other requests need not wait for it.
        from vehicled.runtime.planner.free_space import FreeSpace
        from vehicled.runtime.planner.on_map import course_on_map

        rules = self._rules
        if self._space is None:
            self._space = FreeSpace(
                planning_map.grid(), rules.vehicle, rules.limits, self._polygons
            )
        course = course_on_map(
            self._space,
            goal.start,
            (goal.x_m, goal.y_m, goal.yaw_rad),
            vehicle=rules.vehicle,
            direction=goal.direction,
            speed_mps=goal.speed_mps,
            datum=rules.datum,
            name=goal.name,
            most_m=rules.limits.max_new_course_m,
        )
        rules.check(course)
        return course

    def _read(self, line: bytes) -> list[bytes]:
        try:
            request = msgspec.json.decode(line, type=CourseLine)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ChangeError(f"not a request: {error}") from None
        course = from_bytes(request.data)
        most_m = self._rules.limits.max_new_course_m
        if course.length_m > most_m:
            raise ChangeError(
                f"{course.name}: the course is {course.length_m / 1000:.3g} km long; during a "
                f"run it may have {most_m / 1000:g} km (limits.max_new_course_m): divide it"
            )
        most = int(DENSEST * course.length_m / SPACING_M) + SPARE_SAMPLES
        if len(course.x_m) > most:
            raise ChangeError(
                f"{course.name}: the course has {len(course.x_m)} samples on "
                f"{course.length_m:.1f} m (at most {most}): let it be sampled every "
                f"{SPACING_M:g} m"
            )
        self._rules.check(course)
        return planned(course, request.data, request.origin, request.kind)
