"""The controller ``avoid`` in lockstep: it goes round posts and stops before a wall; and a sample
of its campaign."""

from pathlib import Path

import numpy as np
import pytest

import vehicled as v
from bench.avoid import CLASSES, PROFILES, drive_of, driven
from bench.passage import PassageSearch
from sim_backend.scene.scene import Scene
from tests.closed_loop.test_obstacle_stop import Drive, on_course, post
from vehicled.core.messages import Mode
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

AVOID = {"controller.name": '"avoid"', "limits.obstacle_side_m": "0.05"}


def test_it_goes_round_posts_on_both_sides_of_the_course_without_a_stop(tmp_path: Path) -> None:
    places = [on_course(6.0, 0.1), on_course(13.0, -0.15)]
    drive = Drive(tmp_path, "".join(post(*place) for place in places), **AVOID)
    nearest = []
    for place, until_s in zip(places, (11.0, 20.5), strict=True):
        drive.nearest_m = float("inf")
        drive.until(until_s, lambda t, place=place: place)
        nearest.append(drive.nearest_m)
    assert drive.pair.machine.mode is Mode.AUTO
    assert all(0.05 < gap < 0.8 for gap in nearest), nearest
    command = drive.pair.machine.pipeline.newest_command.value
    assert command is not None
    assert abs(command.cross_track_m) < 0.1, "back on the course"


def test_it_stops_before_a_wall_that_no_path_passes(tmp_path: Path) -> None:
    places = [
        on_course(5.5, left)
        for left in (-2.4, -2.0, -1.6, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4)
    ]
    rest = {**AVOID, "controller.avoid.wait_s": "0.5"}
    drive = Drive(tmp_path, "".join(post(*place) for place in places), **rest)
    drive.until(
        25.0,
        lambda t: places[6],
        stop=lambda: drive.pair.machine.mode is Mode.STANDBY and "obstacle_ahead" in drive.codes,
    )
    assert drive.pair.machine.mode is Mode.STANDBY
    assert "obstacle_ahead" in drive.codes
    assert drive.nearest_m > 0.1


@pytest.mark.soak
def test_it_goes_back_from_a_fence_that_is_put_up_right_before_it(tmp_path: Path) -> None:
    """Safety judges what is behind it, and the distance that it loses along the course."""
    drive = Drive(tmp_path, "", **AVOID)
    drive.until(4.5, None)
    at_m = _progress_m(drive)
    places = [on_course(at_m + 1.8, 0.15 * k) for k in range(-2, 3)]
    for x, y in places:
        drive.pair.world.scene.add_circle(x, y, 0.08)
    slowest = farthest = 0.0
    for k in range(24):
        drive.until(5.0 + k, lambda t: places[2], stop=lambda: _progress_m(drive) > at_m + 4.0)
        slowest = min(slowest, drive.pair.world.motion.speed_mps)
        farthest = _progress_m(drive)
    assert (drive.pair.machine.mode, drive.codes) == (Mode.AUTO, ["obstacle_in_sight"])
    assert slowest < -0.1
    assert farthest > at_m + 3.9
    assert drive.nearest_m > 0.02


def _progress_m(drive: Drive) -> float:
    command = drive.pair.machine.pipeline.newest_command.value
    return 0.0 if command is None else command.progress_m


@pytest.mark.soak
def test_its_drive_is_replayed_bit_by_bit(tmp_path: Path) -> None:
    (tmp_path / "scene.toml").write_text(post(*on_course(4.5)))
    overrides = {"devices.scanner.driver": "msglink", "devices.scanner.messages": ["LaserScan"],
        "devices.scanner.rate_hz": 20,
                 "devices.scanner.lever_arm_m": [0.45, 0.0, 0.15],
                 "sim.scene": str(tmp_path / "scene.toml")}  # fmt: skip
    run = v.simulate("art_vesc", controller="avoid", overrides=overrides, duration_s=3.5)
    assert v.replay(run.path).ok


# ------------------------------------------------------------------------------------- the campaign


@pytest.mark.parametrize("number", [0, 2, 20])
def test_a_sample_of_the_campaign_passes(tmp_path: Path, number: int) -> None:
    """Posts, a gate, somebody who crosses. The whole campaign is ``python -m bench.avoid``."""
    outcome = driven(drive_of(number), "avoid", tmp_path)
    assert outcome.passage
    assert (outcome.end, outcome.reason) == ("passed", "")
    assert outcome.nearest_m > 0.01


def test_without_a_planner_the_same_drive_is_stopped(tmp_path: Path) -> None:
    outcome = driven(drive_of(2), "pure_pursuit", tmp_path)
    assert (outcome.end, outcome.reason) == ("stopped", "obstacle_ahead")


@pytest.mark.parametrize(("widths", "passes"), [(1.45, False), (1.6, True)])
@pytest.mark.parametrize("middle_m", [0.0, 1.2])
def test_the_judge_knows_a_passage_of_one_and_a_half_widths(
    widths: float, passes: bool, middle_m: float
) -> None:
    vehicle, course = load_profile("art_vesc").vehicle, load_course("straight_20m")
    half_m = 0.5 * widths * vehicle.width_m
    walls = np.array([[8.0, -5.0, 8.0, middle_m - half_m], [8.0, middle_m + half_m, 8.0, 5.0]])
    search = PassageSearch(course, vehicle, 2.0, Scene(walls_m=walls), 9.0, widths=1.5)
    assert (search.find(1.0, 0.0) is not None) is passes


def test_every_class_and_vehicle_is_drawn_and_repeats() -> None:
    drives = [drive_of(number) for number in range(len(PROFILES) * len(CLASSES))]
    assert {drive.kind for drive in drives} == set(CLASSES)
    assert {(drive.kind, drive.profile) for drive in drives} == {
        (kind, name) for kind in CLASSES for name in PROFILES
    }
    assert drives[17] == drive_of(17)
