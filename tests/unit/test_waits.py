"""Waits of a course: where they lie, what keeps them, and what a drive makes of them."""

from dataclasses import replace
from math import inf, nan

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.control.waiting import WaitTracker
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import from_bytes, from_json, to_bytes, to_json
from vehicled.paths.waits import MAX_WAIT_S, Wait
from vehicled.profile import load_profile

SECOND_NS = 10**9
RING = ([0.0, 6.0, 6.0, 0.0], [0.0, 0.0, 6.0, 6.0])


def course(*waits: Wait) -> Course:
    return replace(load_course("straight_20m"), waits=waits)


@given(
    st.lists(st.tuples(st.floats(-40, 40), st.floats(-40, 40)), min_size=2, max_size=12),
    st.lists(st.sampled_from([0.0, 0.0, 1.0, 30.0]), min_size=12, max_size=12),
    st.sampled_from([None, False, True]),
)
def test_a_wait_lies_at_its_waypoint(
    places: list[tuple[float, float]], durations: list[float], closed: bool | None
) -> None:
    x, y = zip(*places, strict=True)
    waits_s = durations[: len(places)]
    try:
        found = course_from_waypoints("a", x, y, closed=closed, waits_s=waits_s)
    except CourseError:
        assume(False)
    plain = course_from_waypoints("a", x, y, closed=closed)
    assert (plain.x_m == found.x_m).all()
    assert plain.waits == ()
    assert sum(wait.duration_s for wait in found.waits) == pytest.approx(sum(waits_s))
    marks = [(x, y) for (x, y), wait_s in zip(places, waits_s, strict=True) if wait_s]
    for wait in found.waits:
        at = int(abs(found.s_m - wait.s_m).argmin()) if wait.s_m <= found.s_m[-1] else 0
        # A waypoint that is left out, because it repeats its neighbour or lies in a spike, waits at
        # the one before.
        off_m = min(
            np.hypot(found.x_m[at] - x, found.y_m[at] - y)
            for x, y in (marks if found.waypoints == len(places) else places)
        )
        assert off_m < 0.15
    for stored in (from_bytes(to_bytes(found)), from_json(to_json(found))):
        assert stored.waits == found.waits


def test_waits_at_one_place_follow_each_other_and_the_seam_of_a_lap_has_two_sides() -> None:
    doubled = course_from_waypoints("a", [0, 5, 5, 10], [0, 0, 0, 0], waits_s=[0, 10, 20, 0])
    assert [(round(wait.s_m, 6), wait.duration_s) for wait in doubled.waits] == [(5.0, 30.0)]
    x, y = RING
    lap = course_from_waypoints("a", [*x, x[0]], [*y, y[0]], closed=True, waits_s=[3, 0, 0, 0, 4])
    assert [(wait.s_m, wait.duration_s) for wait in lap.waits] == [(0.0, 3.0), (lap.length_m, 4.0)]
    three = lap.repeated(3)
    assert [wait.duration_s for wait in three.waits] == [3.0, 7.0, 7.0, 4.0]
    assert [wait.s_m for wait in three.waits] == pytest.approx([k * lap.length_m for k in range(4)])


@pytest.mark.parametrize(
    "waits", [[1], [0, -1, 0, 0], [0, nan, 0, 0], [0, inf, 0, 0], [0, MAX_WAIT_S + 1, 0, 0]]
)
def test_waits_that_are_none_are_refused(waits: list[float]) -> None:
    with pytest.raises(CourseError, match=r"a: 1 waits for 4|waypoint 2: a wait of"):
        course_from_waypoints("a", *RING, closed=False, waits_s=waits)


@pytest.mark.parametrize(
    "waits",
    [
        (Wait(-1.0, 1.0),), (Wait(1e9, 1.0),), (Wait(nan, 1.0),), (Wait(1.0, nan),),
        (Wait(1.0, 0.0),), (Wait(1.0, inf),), (Wait(2.0, 1.0), Wait(1.0, 1.0)),
        (Wait(1.0, 1.0), Wait(1.0, 1.0)), (Wait(1.0, MAX_WAIT_S * 2),),
    ],
)  # fmt: skip
def test_a_sent_course_has_waits_in_order_and_in_range(waits: tuple[Wait, ...]) -> None:
    with pytest.raises(CourseError):
        from_bytes(to_bytes(course(*waits)))


def test_courses_of_older_logs_have_no_waits() -> None:
    plain = load_course("straight_20m")
    stored = msgspec.json.decode(to_json(plain))
    del stored["waits"]
    assert from_json(msgspec.json.encode(stored)).waits == ()


def test_the_speed_profile_stops_at_a_wait_and_is_untouched_elsewhere() -> None:
    profile = load_profile("art")
    plain = load_course("straight_20m")
    at_m = float(plain.s_m[len(plain.s_m) // 2])
    without = SpeedProfile(SpeedParams(), profile.vehicle, profile.limits, plain)
    speeds = SpeedProfile(SpeedParams(), profile.vehicle, profile.limits, course(Wait(at_m, 5.0)))
    assert speeds.at(at_m - 1e-6).speed_mps < 0.01
    assert speeds.at(at_m + 1e-6).speed_mps == pytest.approx(without.at(at_m + 1e-6).speed_mps)
    braking_m = without.at(at_m).speed_mps ** 2 / (2 * speeds.deceleration_mps2)
    assert (
        speeds.at(at_m - braking_m - 0.2).speed_mps == without.at(at_m - braking_m - 0.2).speed_mps
    )
    assert -speeds.at(at_m - 0.5 * braking_m).acceleration_mps2 == pytest.approx(
        speeds.deceleration_mps2
    )


class Drive:
    """A tracker on a clock of its own."""

    def __init__(self, *waits: Wait) -> None:
        self.tracker = WaitTracker(course(*waits))
        self.now_ns = 0

    def step(
        self, progress_m: float, speed_mps: float, seconds: float = 0.0, *, at_end: bool = False
    ) -> bool:
        self.now_ns += round(seconds * SECOND_NS)
        return self.tracker.step(progress_m, speed_mps, self.now_ns, at_end=at_end)


def test_a_wait_counts_from_standstill() -> None:
    drive = Drive(Wait(5.0, 10.0))
    drive.tracker.begin(None)
    drive.step(4.0, 1.0)
    assert drive.tracker.present is None
    drive.step(4.95, 0.3, 1.0)
    assert drive.tracker.present == Wait(5.0, 10.0)
    drive.step(5.02, 0.2, 60.0)
    assert drive.tracker.waited_s(drive.now_ns) == 0.0
    drive.step(5.03, 0.0, 1.0)
    assert not drive.step(5.03, nan, 9.9)
    assert drive.step(5.03, 0.0, 0.2)
    assert drive.tracker.present is None
    assert not drive.tracker.left


@pytest.mark.parametrize("garbage", [nan, -inf])
def test_without_a_place_nothing_changes(garbage: float) -> None:
    drive = Drive(Wait(5.0, 1.0))
    drive.step(garbage, 0.0, 5.0)
    assert drive.tracker.present is None
    drive.step(5.0, nan, 5.0)
    assert drive.tracker.waited_s(drive.now_ns) == 0.0


def test_a_drive_that_resumes_repeats_no_wait_that_has_ended_and_begins_a_broken_one_anew() -> None:
    drive = Drive(Wait(2.0, 1.0), Wait(5.0, 10.0))
    drive.tracker.begin(None)
    drive.step(2.0, 0.0)
    assert drive.step(2.0, 0.0, 1.0)
    # Stopped right behind the wait that has ended.
    drive.tracker.leave()
    drive.tracker.begin(2.02)
    drive.step(2.02, 0.0, 5.0)
    assert drive.tracker.present is None
    # Stopped while it waits.
    drive.step(4.98, 0.0, 1.0)
    drive.step(4.98, 0.0, 6.0)
    drive.tracker.leave()
    drive.tracker.begin(4.98)
    drive.step(4.98, 0.0, 60.0)
    assert drive.tracker.waited_s(drive.now_ns) == 0.0
    assert drive.step(4.98, 0.0, 10.0)
    # From the start it has all of them.
    drive.tracker.begin(None)
    drive.step(2.0, 0.0)
    assert drive.tracker.present == Wait(2.0, 1.0)
    # Behind a wait that it was carried past, it has the others.
    drive.tracker.begin(3.0)
    drive.step(3.0, 0.0)
    assert drive.tracker.present is None
    assert drive.tracker.left


def test_a_wait_at_the_end_is_over_before_the_course_is() -> None:
    drive = Drive(Wait(course().length_m, 4.0))
    drive.tracker.begin(None)
    drive.step(course().length_m - 0.5, 0.0, at_end=True)
    assert drive.tracker.left
    assert drive.step(course().length_m - 0.5, 0.0, 4.0, at_end=True)
    assert not drive.tracker.left
