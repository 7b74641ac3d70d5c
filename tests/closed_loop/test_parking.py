"""Manoeuvres with cusps: the vehicle stops, turns its wheels, drives backward, and ends where it
should."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.closed_loop import exact_state
from tests.closed_loop.exact_state import DRIVE, LIMITS, STEERING, VEHICLE
from vehicled.control.interface import Controller
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.core.messages import GroundTruth
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.log.reader import LogReader
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints

COURSES = ("parallel_parking", "three_point_turn")


def _build(vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> Controller:
    return PurePursuit(
        PurePursuitParams(speed=SpeedParams(p=1.5)), vehicle, limits, course, period_s
    )


@pytest.mark.parametrize("name", COURSES)
def test_a_manoeuvre_ends_where_it_should(name: str) -> None:
    course = load_course(name)
    result = exact_state.drive(course, _build)
    assert result.finished
    distance, angle = result.end_error(course)
    assert distance < 0.03
    assert angle < 0.01
    assert np.abs(result.cross_track_m).max() < 0.01
    assert np.abs(result.heading_rad).max() < 0.02
    assert result.speed_mps.min() == pytest.approx(-0.5, abs=0.03)


def test_it_comes_to_rest_and_turns_its_wheels_before_it_drives_the_other_way() -> None:
    """Straight wheels at the cusp would hide it: here one arc ends hard left and the next one
    begins hard right."""
    arc = np.linspace(0.0, 1.2, 25)
    lead = np.column_stack((2.0 * np.sin(arc), 2.0 * (1.0 - np.cos(arc))))
    end, yaw = lead[-1], arc[-1]
    # Back on the other side: the centre of the second arc lies to the right.
    centre = end + 2.0 * np.array([math.sin(yaw), -math.cos(yaw)])
    swing = np.linspace(0.0, 1.0, 20)[1:]
    back = centre + 2.0 * np.column_stack((-np.sin(yaw + swing), np.cos(yaw + swing)))
    points = np.vstack((lead, back))
    course = course_from_waypoints(
        "hook",
        points[:, 0],
        points[:, 1],
        speed=[0.5] * (len(lead) - 1) + [-0.5] * (len(back) + 1),
        closed=False,
    )
    assert course.curvature_per_m[course.cusps[0] - 2] == pytest.approx(0.5, abs=0.05)
    assert course.curvature_per_m[course.cusps[0] + 2] == pytest.approx(-0.5, abs=0.05)
    result = exact_state.drive(course, _build)
    assert result.finished
    signs = np.sign([c.throttle for c in result.commands])
    first_back = int(np.argmax(signs < 0))
    assert first_back > 0
    assert abs(result.speed_mps[first_back]) < 0.01, "stands when the drive is turned round"
    waiting = [c for c in result.commands[:first_back] if c.brake == 1.0]
    # 0.49 rad from side to side at 0.67 rad/s after 0.4 s.
    assert len(waiting) / 50.0 == pytest.approx(0.4 + 0.49 / 0.67, abs=0.35)
    assert np.abs(result.cross_track_m).max() < 0.06, (
        "the line begins with the wheels hard over, which takes its time at the start"
    )
    assert result.end_error(course)[1] < 0.03


@pytest.mark.parametrize("brake", [0.0, 3.0])
def test_a_vehicle_without_a_brake_parks_too(brake: float) -> None:
    coasting = msgspec.structs.replace(
        VEHICLE, drive=msgspec.structs.replace(DRIVE, brake_deceleration_mps2=brake)
    )
    course = load_course("parallel_parking")
    result = exact_state.drive(course, _build, truth=coasting, believed=coasting)
    assert result.finished
    assert result.end_error(course)[0] < 0.05


@pytest.mark.parametrize(("gain", "delay_s"), [(0.3, 0.5), (0.38, 0.3)])
def test_parks_with_a_steering_that_is_not_as_believed(gain: float, delay_s: float) -> None:
    real = msgspec.structs.replace(
        VEHICLE, steering=msgspec.structs.replace(STEERING, gain_rad=gain, delay_s=delay_s)
    )
    course = load_course("parallel_parking")
    result = exact_state.drive(course, _build, truth=real)
    assert result.finished
    distance, angle = result.end_error(course)
    assert distance < 0.1
    assert angle < 0.05


def test_the_profile_stops_at_every_cusp_and_its_targets_are_signed() -> None:
    course = load_course("three_point_turn")
    profile = SpeedProfile(SpeedParams(), VEHICLE, LIMITS, course)
    first, second = (float(course.s_m[i]) for i in course.cusps)
    assert profile.at(first - 1e-9).speed_mps == pytest.approx(0.0, abs=1e-3)
    assert profile.at(first + 0.01).speed_mps == pytest.approx(-0.5, abs=1e-3)
    braking = profile.at(second - 0.05)
    assert -0.5 < braking.speed_mps < -0.1
    assert braking.acceleration_mps2 == pytest.approx(0.5), (
        "slowing down backward is an acceleration"
    )
    assert profile.at(second + 0.01).speed_mps == pytest.approx(0.5, abs=1e-3)
    # By the number of the leg, beyond its end is its end.
    assert profile.at(first + 0.3, 0).speed_mps == pytest.approx(0.0, abs=1e-6)
    assert profile.at(first - 0.3, 1).speed_mps == pytest.approx(-0.5, abs=1e-3)


def _last_truth(path: str) -> GroundTruth:
    with LogReader(path) as log:
        return [record.message for record in log.messages(GroundTruth)][-1]


@pytest.mark.soak  # make test: test_lockstep_drive.py parks, too
@pytest.mark.parametrize(
    ("name", "link"), [("parallel_parking", "wires"), ("three_point_turn", "messages")]
)
def test_the_twin_parks(
    drive: Callable[..., tuple[int, dict[str, Any], str]], name: str, link: str
) -> None:
    status, result, said = drive(
        "--profile", "art_vesc", "--course", name, "--link", link, "--quiet"
    )
    assert status == 0, said
    assert result["cross_track_m"]["max"] < 0.05
    course, truth = load_course(name), _last_truth(result["log"])
    assert abs(truth.speed_mps) < 0.05, "as good as at rest, by which the run ends"
    assert math.hypot(truth.x_m - course.x_m[-1], truth.y_m - course.y_m[-1]) < 0.1
    assert abs(math.remainder(truth.yaw_rad - float(course.yaw_rad[-1]), math.tau)) < 0.05


def test_a_vehicle_that_cannot_reverse_is_not_sent_backward(
    drive: Callable[..., tuple[int, dict[str, Any], str]],
) -> None:
    status, result, said = drive(
        "--profile", "art", "--course", "parallel_parking", "--quiet", "--no-log"
    )
    assert status != 0
    assert not result
    assert "reverse_share" in said
    assert "Traceback" not in said
