"""Courses on a map: clear of walls, and refusals that name the place."""

from math import cos, hypot, pi, sin
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import structs

from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN, OccupancyGrid
from vehicled.maps.matching import PlanarPose
from vehicled.paths.course import Course
from vehicled.paths.datum import LOT_17
from vehicled.paths.reeds_shepp import reeds_shepp_words
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import from_bytes
from vehicled.profile import load_profile
from vehicled.runtime.planner import hybrid_astar
from vehicled.runtime.planner.frames import Goal, Opening, PlanFrameKind, ReplyKind
from vehicled.runtime.planner.work import Work
from vehicled.safety.fence import Fence, Polygon

CAR = load_profile("f1tenth_lidar")
CELL_M = 0.05
TURNED = (-3.0, 2.0, 0.3)
"""Origin of a map whose axes are not those of the map frame."""


def room(*, door_m: float = 0.0) -> OccupancyGrid:
    """Return a room of 12 x 6 m with a wall in its middle that leaves a door in the north."""
    cells = np.full((140, 260), UNKNOWN, np.int8)
    cells[10:130, 10:250] = FREE
    for rows, columns in (
        (slice(10, 130), slice(10, 12)), (slice(10, 130), slice(248, 250)),
        (slice(10, 12), slice(10, 250)), (slice(128, 130), slice(10, 250)),
        (slice(10, 130 - round(door_m / CELL_M)), slice(128, 131)),
    ):  # fmt: skip
        cells[rows, columns] = OCCUPIED
    return OccupancyGrid(cells, CELL_M, TURNED)


def at(x_m: float, y_m: float, yaw_rad: float = 0.0) -> Pose:
    """Return a pose, given from the corner of the map, in the map frame."""
    x, y, yaw = TURNED
    c, s = cos(yaw), sin(yaw)
    return Pose(x + c * x_m - s * y_m, y + s * x_m + c * y_m, yaw + yaw_rad)


def planned(
    grid: OccupancyGrid, start: Pose, goal: Pose, *, any_yaw: bool = True, fence: Any = None,
    reverse: bool = True, direction: int = 0,
) -> Course | str:  # fmt: skip
    """Return the course of a request, or why it is refused."""
    vehicle = CAR.vehicle
    if not reverse:
        drive = structs.replace(vehicle.drive, reverse_share=0.0)
        vehicle = structs.replace(vehicle, drive=drive)
    opening = Opening.of(vehicle, CAR.limits, LOT_17, fence, grid)
    request = Goal(
        start=start, x_m=goal.x_m, y_m=goal.y_m, yaw_rad=None if any_yaw else goal.yaw_rad,
        speed_mps=1.0, name="goto", direction=direction,
    )  # fmt: skip
    answer = Work(msgspec.msgpack.encode(opening)).reply(
        PlanFrameKind.GOAL, msgspec.msgpack.encode(request)
    )
    if answer[0][4] == ReplyKind.REFUSED:
        return answer[1].decode()
    return from_bytes(answer[-1])


def touches(grid: OccupancyGrid, course: Course) -> bool:
    """Return True if any part of the body is on an occupied or unknown cell, by its rectangle."""
    outline = CAR.vehicle.outline
    along, aside = np.meshgrid(
        np.linspace(-outline.rear_m, outline.front_m, 30),
        np.linspace(-outline.half_m, outline.half_m, 16),
    )
    x0, y0, turn = grid.origin
    for x, y, yaw in zip(course.x_m, course.y_m, course.yaw_rad, strict=True):
        c, s = cos(yaw), sin(yaw)
        px, py = x + c * along - s * aside - x0, y + s * along + c * aside - y0
        column = ((cos(turn) * px + sin(turn) * py) / grid.resolution_m).astype(int)
        row = ((cos(turn) * py - sin(turn) * px) / grid.resolution_m).astype(int)
        if (grid.cells[row, column] != FREE).any():
            return True
    return False


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("any_yaw", [True, False])
def test_a_course_leads_through_the_door_clear_of_walls(reverse: bool, any_yaw: bool) -> None:
    grid, goal = room(door_m=1.5), at(11.0, 2.0, -pi / 2)
    course = planned(grid, at(2.0, 2.0, pi), goal, any_yaw=any_yaw, reverse=reverse)
    assert isinstance(course, Course), course
    assert not touches(grid, course)
    assert hypot(course.x_m[-1] - goal.x_m, course.y_m[-1] - goal.y_m) < 0.01
    if not any_yaw:
        assert cos(course.yaw_rad[-1] - goal.yaw_rad) > 0.995
    assert np.abs(course.curvature_per_m).max() < 1.0 / CAR.vehicle.min_turn_radius_m
    assert reverse or not course.reverses
    assert (np.diff([0, *course.cusps, len(course.x_m)]) >= 3).all()


def test_a_vehicle_that_moves_first_goes_on_in_its_direction() -> None:
    for direction in (1, -1):
        course = planned(room(door_m=1.5), at(4.0, 2.0), at(4.0, 4.0, pi), direction=direction)
        assert isinstance(course, Course), course
        assert course.speed_mps[0] * direction > 0.0


PASSAGE = CAR.vehicle.width_m + 0.1


@pytest.mark.parametrize(
    ("door_m", "start", "goal", "said"),
    [
        (1.5, at(2, 2), at(6.45, 2), "is in a wall of the map: choose a place that is free"),
        (1.5, at(2, 2), at(6.3, 2), "the vehicle does not fit at the goal"),
        (1.5, at(2, 2), at(0.2, 3), "is where the map is unknown"),
        (1.5, at(2, 2), at(30, 3), "is outside of the map"),
        (1.5, at(40, 2), at(11, 2), "the map is of another place"),
        (0.0, at(2, 2), at(11, 2), "the nearest place that can be reached is"),
        (PASSAGE, at(2, 2), at(11, 2), "the nearest place that can be reached is"),
        (1.5, at(2, 2), at(2.1, 2), "it is there already"),
    ],
)
def test_a_goal_that_cannot_be_reached_is_refused_with_the_place(
    door_m: float, start: Pose, goal: Pose, said: str
) -> None:
    refused = planned(room(door_m=door_m), start, goal)
    assert isinstance(refused, str)
    assert said in refused
    assert refused.isprintable()


def test_a_fence_counts_as_a_wall() -> None:
    corner = [at(0.6, 0.6), at(12.3, 0.6), at(12.3, 4.4), at(0.6, 4.4)]
    fence = Fence([Polygon(tuple((p.x_m, p.y_m) for p in corner), name="yard")])
    refused = planned(room(door_m=1.5), at(2, 2), at(11, 2), fence=fence)
    assert isinstance(refused, str)
    assert "no path leads to" in refused
    wide = [at(0.6, 0.6), at(12.3, 0.6), at(12.3, 6.4), at(0.6, 6.4)]
    fence = Fence([Polygon(tuple((p.x_m, p.y_m) for p in wide), name="yard")])
    assert isinstance(planned(room(door_m=1.5), at(2, 2), at(11, 2), fence=fence), Course)


def test_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid_astar, "MAX_POSES", 50)
    monkeypatch.setattr(hybrid_astar.HybridAStar, "_finish", lambda self, number: False)
    refused = planned(room(door_m=1.5), at(2.0, 2.0, pi), at(11.0, 2.0))
    assert isinstance(refused, str)
    assert "among 50 poses" in refused


def test_lines_of_unknown_cells_between_rays_are_free() -> None:
    grid = room(door_m=1.5)
    grid.cells[12:128:7, 12:128][grid.cells[12:128:7, 12:128] == FREE] = UNKNOWN
    assert isinstance(planned(grid, at(2, 2), at(5, 4)), Course)


@pytest.mark.parametrize(
    ("pose", "length"),
    [
        ((3.0, 0.0, 3.1), 4.141581),
        ((0.0, 1.0, 0.0), 2.636232),
        ((-2.0, 0.5, 1.2), 2.753884),
        ((0.3, 0.4, -2.0), 2.0),
        ((5.0, -4.0, 1.0), 7.21524),
        ((0.0, 0.0, 2.5), 2.5),
    ],
)
def test_reeds_shepp_paths_are_as_short_as_those_of_ompl(
    pose: tuple[float, float, float], length: float
) -> None:
    found = reeds_shepp_words(*pose)
    assert sum(abs(part) for _, part in found[0]) == pytest.approx(length, abs=1e-5)
    for word in found:
        end = hybrid_astar.ends_of(
            PlanarPose(0.0, 0.0, 0.0), [hybrid_astar.Segment(*part) for part in word]
        )[-1]
        assert hypot(end.x_m - pose[0], end.y_m - pose[1]) < 1e-6
        assert cos(end.yaw_rad - pose[2]) > 1.0 - 1e-9
