"""The stopping monitor: distances and speeds of a stop, the sharpest bend ahead, and the fence
before and beyond its end."""

from dataclasses import replace as with_arrays
from math import inf, nan, pi, sqrt
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_entry import along
from tests.unit.test_safety_fence import SQUARE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import EstimatorStatus, Mode
from vehicled.core.vehicle import Vehicle
from vehicled.paths.course import Course
from vehicled.paths.formulas import circle, straight
from vehicled.safety.fence import Fence, swept_on_arc
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.stopping import StoppingMonitor

BRAKED = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=3.0))
CERTAIN_MPS2 = 1.5 - BRAKED.drive.acceleration_mps2(0.0, 0.0)
REACTION_S = 0.05 + 0.1
FRONT_M, REAR_M, HALF_M = BRAKED.outline


def way_m(speed_mps: float) -> float:
    return REACTION_S * speed_mps + 0.5 * speed_mps**2 / CERTAIN_MPS2


def monitors(
    *, vehicle: Vehicle = BRAKED, course: Course | None = None, fence: Fence | None = None
) -> Monitors:
    return Monitors(LIMITS, vehicle, course=course, fence=fence, antenna_m=(0.3, 0.4))


def updated(
    m: Monitors, x_m: float, y_m: float, speed_mps: float = 1.0, **estimate: Any
) -> StoppingMonitor:
    """Update place and stop with an estimate."""
    pose = replace(ESTIMATE, x_m=x_m, y_m=y_m, speed_mps=speed_mps, **estimate)
    s = SafetyInputs(
        now_ns=0, mode=Mode.AUTO, limits=LIMITS, estimate=pose, measured_speed_mps=speed_mps
    )
    m.place.update(s)
    m.stopping.update(s)
    return m.stopping


# ---------------------------------------------------------------------------------------- distances


@pytest.mark.parametrize(
    ("brake_mps2", "friction_nm", "certain_mps2"),
    [(3.0, 0.02, CERTAIN_MPS2), (0.0, 0.02, CERTAIN_MPS2 - 1.5), (0.0, 0.0, 0.05)],
)
def test_half_of_the_brake_and_the_friction_are_certain(
    brake_mps2: float, friction_nm: float, certain_mps2: float
) -> None:
    drive = replace(VEHICLE.drive, brake_deceleration_mps2=brake_mps2, friction_nm=friction_nm)
    stopping = monitors(vehicle=replace(VEHICLE, drive=drive)).stopping
    assert (stopping.distance_m, stopping.leaves, stopping.outside, stopping.cap_mps) == (
        0.0,
        "",
        "",
        inf,
    )
    assert stopping.way_m(0.0) == 0.0
    assert stopping.way_m(2.0) == pytest.approx(2.0 * REACTION_S + 4.0 / (2.0 * certain_mps2))
    for share in (1.0, 0.5):
        stop_m = 2.0 * REACTION_S + 4.0 / (2.0 * share * certain_mps2)
        assert stopping.speed_mps(stop_m, share) == pytest.approx(2.0)
    assert stopping.speed_mps(stopping.way_m(3.0)) == pytest.approx(3.0)
    assert stopping.body_m == BRAKED.outline.reach_m


@pytest.mark.parametrize(
    ("response_s", "age_s", "reaction_s"),
    [(0.01, 0.01, 0.15), (0.04, 0.02, 0.16), (0.2, 0.0, 0.3), (0.0, 0.2, 0.3)],
)
def test_a_stop_begins_after_response_age_and_delay(
    response_s: float, age_s: float, reaction_s: float
) -> None:
    stopping = monitors().stopping
    stopping.measured(response_s, age_s)
    assert stopping.reaction_s == pytest.approx(reaction_s)


def test_a_vehicle_that_was_identified_is_never_expected_to_stop_sooner_than_its_profile_says() -> (
    None
):
    stopping = monitors().stopping
    for brake_mps2, certain_mps2 in (
        (9.0, CERTAIN_MPS2),
        (2.0, CERTAIN_MPS2 - 0.5),
        (3.0, CERTAIN_MPS2),
    ):
        stopping.adapt(
            replace(
                BRAKED, drive=replace(BRAKED.drive, brake_deceleration_mps2=brake_mps2, delay_s=0.2)
            )
        )
        assert stopping.way_m(2.0) == pytest.approx(2.0 * REACTION_S + 2.0 / certain_mps2)
    stopping.measured(0.1, 0.0)
    assert stopping.reaction_s == pytest.approx(0.3)


@pytest.mark.parametrize("speed_mps", [2.0, -2.0])
def test_the_stop_of_the_present_speed(speed_mps: float) -> None:
    assert updated(monitors(), 0.0, 0.0, speed_mps).distance_m == pytest.approx(way_m(2.0))


@pytest.mark.parametrize("field", ["x_m", "y_m", "yaw_rad", "speed_mps"])
@pytest.mark.parametrize("bad", [nan, inf])
def test_without_an_estimate_no_fence_is_accused(field: str, bad: float) -> None:
    m = monitors(fence=Fence([SQUARE]))
    assert updated(m, 11.5, 5.0, 1.0).leaves
    assert m.stopping.outside
    s = SafetyInputs(
        now_ns=0, mode=Mode.AUTO, limits=LIMITS, estimate=replace(ESTIMATE, **{field: bad})
    )
    m.stopping.update(s)
    assert (m.stopping.leaves, m.stopping.outside) == ("", "")
    updated(m, 11.5, 5.0, 1.0)
    m.stopping.update(replace(s, estimate=None))
    assert (m.stopping.leaves, m.stopping.outside) == ("", "")


# -------------------------------------------------------------------------------------- bends ahead


@pytest.mark.parametrize(
    ("off_m", "room_m"), [(0.0, 2.0), (1.5, 0.5), (-1.5, 0.5), (1.95, 0.1), (2.5, 0.1)]
)
@pytest.mark.parametrize(("course", "curvature"), [(circle(5.0), 0.2), (straight(20.0), 1e-3)])
def test_from_the_cap_a_stop_with_straight_wheels_ends_in_the_corridor(
    course: Course, curvature: float, off_m: float, room_m: float
) -> None:
    m = monitors(course=course)
    at = along(course, 5.0)
    updated(m, at.x_m, at.y_m, yaw_rad=at.yaw_rad)
    beside = along(course, 5.0, off_m)
    stopping = updated(m, beside.x_m, beside.y_m, yaw_rad=beside.yaw_rad)
    least = max(stopping.speed_mps(sqrt(2.0 * room_m / curvature)), LIMITS.capped_speed_mps)
    assert stopping.cap_mps == pytest.approx(least, rel=0.02)


def test_the_cap_is_never_below_a_capped_speed_and_the_last_one_stays_without_a_place() -> None:
    corner = with_arrays(straight(20.0), curvature_per_m=np.full(len(straight(20.0).s_m), 1e4))
    assert updated(monitors(course=corner), 5.0, 0.0).cap_mps == LIMITS.capped_speed_mps
    assert monitors().stopping.cap_mps == inf
    nowhere = monitors(course=straight(20.0))
    nowhere.stopping.update(
        SafetyInputs(now_ns=0, mode=Mode.AUTO, limits=LIMITS, estimate=ESTIMATE)
    )
    assert nowhere.stopping.cap_mps == inf, "its place on the course is not known yet"
    assert updated(monitors(), 0.0, 0.0).cap_mps == inf


@pytest.mark.parametrize("closed", [True, False])
def test_the_sharpest_bend_within_three_metres_counts(closed: bool) -> None:
    course = circle(5.0) if closed else straight(20.0)
    count = len(course.s_m)
    spacing_m = course.length_m / count
    reach = round(3.0 / spacing_m)
    for bend in (0, 1, reach - 1, 100, count - 1):
        for value in (0.7, -0.7):
            curvature = np.zeros(count)
            curvature[bend] = value
            stopping = monitors(course=with_arrays(course, curvature_per_m=curvature)).stopping
            ahead = np.array(stopping._sharpest)
            assert len(ahead) == count
            near = [(bend - k) % count for k in range(reach) if closed or k <= bend]
            assert sorted(np.flatnonzero(ahead).tolist()) == sorted(near)
            assert ahead.max() == 0.7


def test_the_bend_at_the_place_counts_and_another_course_replaces_it() -> None:
    curvature = np.zeros(len(straight(20.0).s_m))
    curvature[150] = 0.5
    m = monitors(course=straight(20.0))
    course = with_arrays(straight(20.0), curvature_per_m=curvature)
    m.stopping.follow(course)
    updated(m, 0.0, 0.0)
    spacing_m = course.length_m / len(curvature)
    reach = round(3.0 / spacing_m)
    caps = [updated(m, 0.1 * k, 0.0).cap_mps for k in range(201)]
    slow = [0.1 * k for k, cap in enumerate(caps) if cap < 0.9 * max(caps)]
    assert slow[0] == pytest.approx((151 - reach) * spacing_m, abs=0.11)
    assert slow[-1] == pytest.approx(151 * spacing_m, abs=0.11)


# -------------------------------------------------------------------------------------------- fence


def test_the_body_at_the_end_of_its_stop_is_inside() -> None:
    for yaw_rad, lead_m in ((0.0, FRONT_M), (pi, REAR_M)):
        for speed in (1.0, 2.0):
            for beyond_m, leaves in ((-0.002, False), (0.002, True)):
                m = monitors(fence=Fence([SQUARE]))
                driven = speed if yaw_rad == 0.0 else -speed
                stopping = updated(
                    m, 10.0 - lead_m - way_m(speed) + beyond_m, 5.0, driven, yaw_rad=yaw_rad
                )
                assert (bool(stopping.leaves), stopping.outside) == (leaves, "")
    keep_out = Fence([SQUARE._replace(keep_out=True)])
    for beyond_m, leaves in ((-0.002, False), (0.002, True)):
        stopping = updated(monitors(fence=keep_out), -FRONT_M - way_m(1.0) + beyond_m, 5.0)
        assert (bool(stopping.leaves), stopping.outside) == (leaves, "")
    assert updated(monitors(fence=keep_out), 5.0, 5.0).outside, "deep in it no edge is near"


def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return a list that grows by pose, bend and way of everything that is swept."""
    looked: list[tuple[Any, ...]] = []

    def sweep(outline: Any, pose: Any, bend: float, way_m: float) -> Any:
        looked.append((pose, bend, way_m))
        return swept_on_arc(outline, pose, bend, way_m)

    monkeypatch.setattr("vehicled.safety.monitors.stopping.swept_on_arc", sweep)
    return looked


@pytest.mark.parametrize(
    ("speed_mps", "yaw_rate_radps", "bend", "driven_m"),
    [
        (1.0, 0.5, 0.5, way_m(1.0)), (-1.0, 0.5, -0.5, -way_m(1.0)), (0.1, 0.5, 0.0, way_m(0.1)),
        (0.101, 0.5, 0.5 / 0.101, way_m(0.101)), (-0.101, 0.5, -0.5 / 0.101, -way_m(0.101)),
        (1.0, nan, 0.0, way_m(1.0)), (400.0, 0.0, 0.0, 1e4),
    ],
)  # fmt: skip
def test_what_it_sweeps_until_it_stands(
    monkeypatch: pytest.MonkeyPatch,
    speed_mps: float,
    yaw_rate_radps: float,
    bend: float,
    driven_m: float,
) -> None:
    looked = sweeps(monkeypatch)
    updated(
        monitors(fence=Fence([SQUARE])),
        9.5,
        5.0,
        speed_mps,
        yaw_rad=0.2,
        yaw_rate_radps=yaw_rate_radps,
    )
    assert looked == [((9.5, 5.0, 0.2), pytest.approx(bend), pytest.approx(driven_m))]


def test_edges_that_are_farther_than_stop_and_body_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = sweeps(monkeypatch)
    edge_m = way_m(1.0) + BRAKED.outline.reach_m
    m = monitors(fence=Fence([SQUARE]))
    updated(m, 5.0, 5.0)
    assert not looked
    # From there it has moved towards the edge, or so it may be.
    for moved_m, looks in ((5.0 - edge_m - 0.001, False), (5.0 - edge_m + 0.001, True)):
        updated(m, 5.0 + moved_m, 5.0)
        assert bool(looked) is looks
    looked.clear()
    m = monitors(fence=Fence([SQUARE]))
    updated(m, 4.0, 4.0)
    updated(m, 4.0 + 3.0 / sqrt(2.0), 4.0 - 3.0 / sqrt(2.0))
    assert looked, "it has moved by 3 m"
    updated(m, 9.9, 9.9)
    assert m.stopping.leaves, "beyond what was known the distance is measured anew"
    updated(m, 5.0, 5.0)
    assert m.stopping.leaves == ""
    m.stopping._fence = Fence([SQUARE._replace(keep_out=True)])
    assert updated(m, 5.0, 5.0).outside, "another fence"


@pytest.mark.parametrize(
    ("x_m", "speed_mps", "leaves"),
    [
        # Outside it may drive back in, and stand, and not drive farther out.
        (11.5, -1.0, False), (11.5, 0.0, False), (11.5, 1.0, True), (10.2, 1.0, True),
        (10.2, -1.0, False),
        # Its corners may swing by 2 cm.
        (11.5, 0.1, False), (11.5, 0.2, True),
    ],
)  # fmt: skip
def test_a_vehicle_outside_may_drive_back(x_m: float, speed_mps: float, leaves: bool) -> None:
    stopping = updated(monitors(fence=Fence([SQUARE])), x_m, 5.0, speed_mps)
    assert (bool(stopping.leaves), bool(stopping.outside)) == (leaves, True)


# ---------------------------------------------------------------------------------- unknown heading


@pytest.mark.parametrize(
    ("active", "unknown", "round_about"),
    [(True, False, True), (False, True, True), (False, False, False)],
)
def test_with_an_unknown_heading_the_stop_ends_inside_in_every_direction(
    active: bool, unknown: bool, round_about: bool
) -> None:
    reach_m = way_m(1.0) + BRAKED.outline.reach_m + 0.5
    for x_m, leaves in ((reach_m + 0.001, False), (reach_m - 0.001, True)):
        m = monitors(fence=Fence([SQUARE]))
        m.alignment.active, m.alignment.without_heading = active, unknown
        m.alignment.antenna_m = (x_m, 5.0)
        stopping = updated(m, 5.0, 5.0, 1.0, status=EstimatorStatus.RUNNING)
        assert bool(stopping.leaves) is (leaves and round_about)
        assert stopping.outside == ""
        assert stopping.distance_m == pytest.approx(way_m(1.0))
        updated(m, 5.0, 5.0, -2.0)
        assert stopping.distance_m == pytest.approx(way_m(2.0))
        updated(m, 5.0, 5.0, nan)
        assert stopping.distance_m == pytest.approx(way_m(2.0)), "the last one stays"


def test_room_round_the_antenna() -> None:
    stopping = monitors(fence=Fence([SQUARE])).stopping
    assert stopping.room_around((2.0, 5.0), 1.999) == ""
    assert "2.0 m away, and 2.0 m are needed" in stopping.room_around((2.0, 5.0), 2.001)
    assert "position is not" in stopping.room_around(None, 0.1)
    assert "the vehicle is" in stopping.room_around((-1.0, 5.0), 0.1)
    assert monitors().stopping.room_around(None, 100.0) == ""
    m = monitors(fence=Fence([SQUARE]))
    m.alignment.active = True
    assert updated(m, 5.0, 5.0).leaves, "without a fix"
    assert m.stopping.outside == ""
    m.alignment.antenna_m = (-1.0, 5.0)
    assert updated(m, 5.0, 5.0).outside
    m = monitors()
    m.alignment.active, m.alignment.antenna_m = True, (-1.0, 5.0)
    assert (updated(m, 5.0, 5.0).leaves, m.stopping.outside) == ("", "")


def test_a_vehicle_that_is_elsewhere_is_looked_for_there() -> None:
    """The distance to the fence that is remembered holds near the place where it was computed,
    along both axes."""
    square = SQUARE._replace(corners=((5.0, -8.0), (21.0, -8.0), (21.0, 8.0), (5.0, 8.0)))
    for begin, away in (
        ((13.0, 0.0), (0.0, 0.0)),
        ((13.0, 0.0), (13.0, 13.0)),
        ((13.0, 5.0), (4.0, 5.0)),
    ):
        m = monitors(fence=Fence([square]))
        assert updated(m, *begin, 0.0).outside == ""
        assert updated(m, *away, 0.0).outside != ""
