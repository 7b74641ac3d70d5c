"""Decisions of the controller of docs/examples/right_of_way. Its course leads north, and crosses
that of the other vehicle 6.5 m from its start."""

import runpy
from math import inf, pi
from pathlib import Path

import pytest

from vehicled.core.messages import NeighbourState, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "right_of_way"
NOW_NS = 10**10


def controller(name="north", expects=()):
    example = runpy.run_path(str(EXAMPLE / "right_of_way.py"))
    params = example["RightOfWayParams"](
        name=name, priority=["east", "north", "west"], expects=list(expects)
    )
    profile = load_profile("art")
    course = load_course(str(EXAMPLE / "north.csv"))
    return example["RightOfWay"](params, profile.vehicle, profile.limits, course, 0.01)


def other(x_m, speed_mps=1.0, *, sender="east", t_ns=NOW_NS, plans=True, yaw_rad=0.0):
    """A vehicle on the crossing course, with or without a plan at constant speed."""
    sign = 1.0 if yaw_rad == 0.0 else -1.0
    times = tuple(0.5 * k for k in range(11)) if plans else ()
    return NeighbourState(
        t_ns, t_ns, sender, x_m, 0.0, yaw_rad, speed_mps, 0.0, 0.02,
        plan_time_s=times,
        plan_x_m=tuple(x_m + sign * speed_mps * time_s for time_s in times),
        plan_y_m=(0.0,) * len(times),
        plan_yaw_rad=(yaw_rad,) * len(times),
        plan_speed_mps=(speed_mps,) * len(times),
    )  # fmt: skip


def stops_at(follower, *others, y_m=-3.5, speed_mps=1.0):
    """Arc length at which the vehicle stops; infinite if it drives on."""
    for state in others:
        follower.on_neighbour(state)
    # The first pose of a drive lies on the first metres of the course.
    follower.reset(y_m + 6.5)
    covariance = (4e-4, 0.0, 0.0, 0.0) * 4
    follower.step(
        StateEstimate(NOW_NS, NOW_NS, 0.0, y_m, pi / 2, speed_mps, 0.0, covariance), NOW_NS
    )
    return follower.stop_s_m


@pytest.mark.parametrize("plans", [True, False])
def test_it_gives_way_to_a_vehicle_with_priority_that_comes_at_the_same_time(plans):
    follower = controller()
    stop_m = stops_at(follower, other(-3.0, plans=plans))
    assert 4.0 < stop_m < 5.5, "before the crossing of the bodies"
    plan = follower.planned_motion(NOW_NS)
    assert plan.speed_mps[-1] < 0.1, "the others see that it will stop"
    assert plan.y_m[-1] < stop_m - 6.5 + 0.05


def test_who_has_priority_drives_on():
    assert stops_at(controller(), other(-3.0, sender="west")) == inf
    assert stops_at(controller("east"), other(-3.0, sender="north")) == inf


def test_who_comes_at_another_time_needs_no_room():
    assert stops_at(controller(), other(-12.0)) == inf, "it comes later"
    assert stops_at(controller(), other(3.0)) == inf, "it has passed"
    assert stops_at(controller(), other(-3.0, yaw_rad=pi)) == inf, "it drives away"
    assert stops_at(controller(), other(-3.0, 0.0)) == inf, "it stands and plans to stand"


def test_a_zone_with_a_vehicle_in_it_is_closed_whoever_has_priority():
    assert stops_at(controller(), other(0.2, 0.0, sender="west")) < 5.5
    assert stops_at(controller(), other(-1.3, 1.0, sender="west")) < 5.5, "it can no longer stop"


def test_who_is_in_the_zone_leaves_it_unless_the_other_is_there_too():
    assert stops_at(controller(), other(-4.0), y_m=-0.5) == inf
    assert stops_at(controller(), other(-0.5), y_m=-0.9) == pytest.approx(5.6, abs=0.05)


def test_a_vehicle_that_is_expected_must_be_received():
    assert stops_at(controller(expects=["east"])) == pytest.approx(3.0, abs=0.05)
    old_ns = NOW_NS - 2 * 10**9
    near, gone = other(-9.0, t_ns=old_ns), other(4.0, t_ns=old_ns)
    assert stops_at(controller(expects=["east"]), near) == pytest.approx(3.0, abs=0.05)
    assert stops_at(controller(expects=["east"]), gone) == inf, "its path leads away"
    assert stops_at(controller(), near) == inf, "nobody is expected"


def test_the_nearest_vehicles_count_however_many_there_are():
    crowd = [other(-60.0 - k, sender=f"far{k}") for k in range(40)]
    assert stops_at(controller(), *crowd, other(-3.0), *crowd) < 5.5


def test_an_older_state_does_not_replace_a_newer_one():
    late = other(4.0, t_ns=NOW_NS - 10**8)
    assert stops_at(controller(), other(-3.0), late) < 5.5
