"""Places on a map: the vehicle drives there round walls, and in reverse where it must."""

from math import hypot, pi, remainder, tau
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from sim_backend.connection import START_NS
from vehicled.core.messages import CourseCommand, Fault, Mode, OperatorAction, OperatorCommand
from vehicled.maps.map_file import read_map
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import from_bytes
from vehicled.profile import load_profile
from vehicled.run.pair import Pair
from vehicled.runtime.planner.frames import Goal, Opening, PlanFrameKind
from vehicled.runtime.planner.work import Work

SECOND = 1_000_000_000
GRID = read_map(Path("profiles/scenes/race_track.yaml"))
LAP = load_course("race_track/lap")
AT_M = float(LAP.s_m[np.hypot(LAP.x_m - 13.4, LAP.y_m - 7.7).argmin()])
HERE = LAP.beginning_at(AT_M)
"""Begins before the hairpin."""
START = float(HERE.x_m[0]), float(HERE.y_m[0]), float(HERE.yaw_rad[0])


class Drive:
    """A drive on the map of the race track that begins at the hairpin."""

    def __init__(self) -> None:
        self.profile = load_profile(
            "f1tenth_lidar",
            [
                "sim.scene=race_track",
                "localisation.map=race_track.yaml",
                f"localisation.start=[{START[0]}, {START[1]}, {START[2]}]",
            ],
        )
        self.codes: list[str] = []
        self.pair = Pair(
            self.profile, HERE, [], self, 1, link="messages", scenario=False, grid=GRID
        )

    def record(self, message: Any, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active and message.reaction:
            self.codes.append(message.code)

    def goto(self, x_m: float, y_m: float, yaw_rad: float | None) -> Course:
        """Ask the planner for a course, and the machine to take it and to drive."""
        machine, now_ns = self.pair.machine, self.pair.now_ns
        assert machine.estimate is not None
        here = Pose(machine.estimate.x_m, machine.estimate.y_m, machine.estimate.yaw_rad)
        profile = self.profile
        opening = Opening.of(profile.vehicle, profile.limits, HERE.datum, None, GRID)
        goal = Goal(start=here, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad, speed_mps=1.2, name="goto")
        *_, stored = Work(msgspec.msgpack.encode(opening)).reply(
            PlanFrameKind.GOAL, msgspec.msgpack.encode(goal)
        )
        course = from_bytes(stored)
        assert not machine.on_message(
            CourseCommand(now_ns, now_ns, "a test", "goto", stored), now_ns
        )
        for action in (OperatorAction.ARM, OperatorAction.DRIVE):
            answer = machine.on_message(OperatorCommand(now_ns, now_ns, action, "a test"), now_ns)
            assert not answer
            self.until(0.2)
        return course

    def until(self, seconds: float, mode: Mode | None = None) -> None:
        """Go on for a time, or as long as a mode lasts."""
        end_ns = self.pair.now_ns + round(seconds * SECOND)
        while self.pair.now_ns < end_ns and mode in (None, self.pair.machine.mode):
            self.pair.grant()
            self.pair.reply()


@pytest.mark.parametrize(
    ("goal", "turns_back"),
    [((13.7, 13.0, None), False), ((11.6, 8.0, START[2] - pi), True)],
    ids=["round the wall", "turned round in the lane"],
)
def test_a_place_on_the_map_is_reached_clear_of_its_walls(
    goal: tuple[float, float, float | None], turns_back: bool
) -> None:
    drive = Drive()
    drive.until(2.0)
    assert drive.pair.now_ns > START_NS
    course = drive.goto(*goal)
    assert course.reverses is turns_back
    straight = np.linspace(START[:2], goal[:2], 200)
    column, row = (straight / GRID.resolution_m).astype(int).T
    assert GRID.occupied[row, column].any() is not np.bool_(turns_back)
    drive.until(30.0, Mode.AUTO)
    drive.until(2.0)
    true = drive.pair.world.motion
    assert drive.codes == []
    assert hypot(true.x_m - goal[0], true.y_m - goal[1]) < 0.25
    if goal[2] is not None:
        assert abs(remainder(true.yaw_rad - goal[2], tau)) < 0.15
