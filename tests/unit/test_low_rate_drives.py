"""Drives of the low-rate study: exact state, controller, actuators and plant, without the
daemon."""

import pytest

from vehicled.offline.studies.exact_drive import ExactDrive, drive, record_trace
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.profile import load_profile

THESIS = load_profile("hmmwv_thesis", ["sim.twin.changes.steering.delay_s=0.0"])
ARM_M = 0.5 * THESIS.vehicle.wheelbase_m
TURN = load_course("thesis_left15:straight_m=4,clothoid_m=6,run_up_m=20,run_out_m=5")
LANES = load_course("thesis_dlc40:run_up_m=110,run_out_m=5")


def published(
    rate_hz: float, course_name: str = "turn", delay_steps: int = 2, physics_hz: float | None = None
) -> ExactDrive:
    course = {"turn": TURN, "lanes": LANES}[course_name]
    return drive(
        THESIS, course, rate_hz, delay_steps=delay_steps, arm_m=ARM_M, physics_hz=physics_hz
    )


def test_the_published_controller_finishes_a_turn_at_any_rate() -> None:
    found = [published(rate_hz) for rate_hz in (60.0, 100.0)]
    assert all(each.finished for each in found), found
    # Its look-ahead is fixed in seconds, so its error is as good as independent of the rate.
    assert found[0].cross_track_m == pytest.approx(found[1].cross_track_m, rel=0.15)


def test_at_a_low_rate_the_delay_of_two_steps_ends_the_fast_lane_change() -> None:
    lost = published(60.0, "lanes")
    assert not lost.finished
    assert lost.why in ("missed a waypoint box", "left the corridor")
    assert 0.0 < lost.place_m < 125.0


def test_physics_may_be_faster_than_control() -> None:
    coarse, fine = published(60.0), published(60.0, physics_hz=960.0)
    assert coarse.finished
    assert fine.finished
    assert fine.cross_track_m == pytest.approx(coarse.cross_track_m, rel=0.2)


def test_a_trace_of_a_drive_is_a_course_near_the_driven_one() -> None:
    trace = record_trace(THESIS, TURN)
    course = course_from_waypoints(
        "trace", trace.x_m, trace.y_m, speed=trace.speed_mps, closed=False
    )
    again = drive(THESIS, course, 100.0, delay_steps=2, arm_m=ARM_M)
    assert again.finished
    assert again.cross_track_m < 0.1
