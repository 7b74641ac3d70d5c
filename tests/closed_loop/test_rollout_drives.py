"""The controller ``rollout`` in lockstep: it passes posts, stops before a wall, and its drive is replayed bit by bit."""

from pathlib import Path

import pytest

import vehicled as v
from tests.closed_loop.test_obstacle_stop import Drive, on_course, post
from vehicled.core.messages import Mode

ROLLOUT = {"controller.name": '"rollout"'}


def test_it_passes_posts_on_both_sides_of_the_course_without_a_stop(tmp_path: Path) -> None:
    places = [on_course(6.0, 0.1), on_course(13.0, -0.15)]
    drive = Drive(tmp_path, "".join(post(*place) for place in places), **ROLLOUT)
    nearest = []
    for place, until_s in zip(places, (10.5, 17.0), strict=True):
        drive.nearest_m = float("inf")
        drive.until(until_s, lambda t, place=place: place)
        nearest.append(drive.nearest_m)
    assert drive.pair.machine.mode is Mode.AUTO
    assert drive.codes == []
    # 0.1 m of side clearance and 0.1 m of its own.
    assert all(0.1 < gap < 0.8 for gap in nearest), nearest
    command = drive.pair.machine.pipeline.newest_command.value
    assert command is not None
    assert abs(command.cross_track_m) < 0.1, "back on the course"


def test_it_stops_before_a_wall_that_no_path_passes(tmp_path: Path) -> None:
    places = [on_course(4.5, left) for left in (-2.4, -2.0, -1.6, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4)]
    drive = Drive(tmp_path, "".join(post(*place) for place in places), **ROLLOUT)
    drive.until(7.0, lambda t: places[6])
    assert drive.pair.machine.mode is Mode.STANDBY
    assert "obstacle_ahead" in drive.codes
    assert drive.nearest_m > 0.1


@pytest.mark.soak
def test_its_drive_is_replayed_bit_by_bit(tmp_path: Path) -> None:
    (tmp_path / "scene.toml").write_text(post(*on_course(4.5)))
    overrides = {"devices.scanner.driver": "msglink", "devices.scanner.messages": ["LaserScan"], "devices.scanner.rate_hz": 20,
                 "devices.scanner.lever_arm_m": [0.45, 0.0, 0.15], "sim.scene": str(tmp_path / "scene.toml")}  # fmt: skip
    run = v.simulate("art_vesc", controller="rollout", overrides=overrides, duration_s=3.5)
    assert v.replay(run.path).ok
