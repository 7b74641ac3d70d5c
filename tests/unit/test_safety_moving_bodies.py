"""Bodies that are about to enter the lane: seen in time, and none seen where nothing comes. The
vehicle drives past on rails; its scanner has noise and loses rays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign, cos, inf, isnan, pi, sin, tau

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sim_backend.scene.moving import Moving
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from tests.strategies import GARBAGE
from tests.unit.test_safety_obstacle import LIMITS, VEHICLE, situation
from vehicled.core.messages import LaserScan
from vehicled.paths.course import course_from_waypoints
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.obstacle import ENTERS, STANDS

RAYS, SCANNER_M, PERIOD_S, TICK_S = 360, 0.45, 0.05, 0.025
BEGIN_S = 50.0
CAR = [(0.3, 0.2), (-0.3, 0.2), (-0.3, -0.2), (0.3, -0.2)]
LORRY = [(2.2, 0.9), (-2.2, 0.9), (-2.2, -0.9), (2.2, -0.9)]
RADIUS_M = 4.0
"""Radius of the bend; its middle is on the left."""


@dataclass
class Passage:
    """Bodies that the vehicle passes, and its own motion."""

    scene: Scene
    bend: bool = False
    speed_mps: float = 1.5
    jump_m: float = 0.0
    """Size of the jumps of the estimated position."""


@dataclass
class Look:
    """State of the monitor after a scan."""

    time_s: float
    free_m: float
    does: str
    stops: bool


def on_way(bend: bool, s_m: float, left_m: float = 0.0) -> tuple[float, float]:
    if not bend:
        return s_m, left_m
    angle = s_m / RADIUS_M
    return (RADIUS_M - left_m) * sin(angle), RADIUS_M - (RADIUS_M - left_m) * cos(angle)


def body(
    places: Sequence[tuple[float, float]],
    speed_mps: float,
    outline: list[tuple[float, float]] | None = None,
    start_s: float = 0.0,
) -> Moving:
    """Something that moves through places at one speed; a round one without an outline."""
    steps = np.hypot(*np.diff(np.array(places), axis=0).T)
    times = BEGIN_S + start_s + np.concatenate(([0.0], np.cumsum(steps))) / speed_mps
    return Moving(places, times.tolist(), None if outline else 0.2, outline or ())


def looks(passage: Passage, duration_s: float = 4.0, seed: int = 1) -> list[Look]:
    """Drive past; return the state after each scan."""
    points = [on_way(passage.bend, s_m) for s_m in np.arange(0.0, 12.0, 0.1)]
    course = course_from_waypoints("way", *(np.array(axis) for axis in zip(*points, strict=True)))
    monitors = Monitors(LIMITS, VEHICLE, course=course)
    rng = np.random.default_rng(seed)
    bearings = -pi + tau / RAYS * np.arange(RAYS)
    found, jump = [], np.zeros(2)
    for k in range(round(duration_s / TICK_S)):
        time_s = BEGIN_S + k * TICK_S
        s_m = passage.speed_mps * k * TICK_S
        x, y = on_way(passage.bend, s_m)
        yaw = s_m / RADIUS_M if passage.bend else 0.0
        now_ns = round(time_s * 1e9)
        if k % 8 == 0:
            jump = rng.normal(0.0, passage.jump_m, 2)
        state = situation(
            monitors, x=x + jump[0], y=y + jump[1], yaw=yaw, speed=passage.speed_mps, now_ns=now_ns
        )
        rate = passage.speed_mps / RADIUS_M if passage.bend else 0.0
        state = replace(state, estimate=replace(state.estimate, yaw_rate_radps=rate))
        if k % 2 == 0:
            eye_x = np.full(RAYS, x + SCANNER_M * cos(yaw), dtype=np.float64)
            eye_y = np.full(RAYS, y + SCANNER_M * sin(yaw), dtype=np.float64)
            rays = Rays(eye_x, eye_y, np.asarray(yaw + bearings, dtype=np.float64))
            range_m = passage.scene.cast(rays, np.full(RAYS, time_s), 20.0).range_m
            range_m = range_m + rng.normal(0.0, 0.02, RAYS)
            range_m[rng.random(RAYS) < 0.05] = inf
            scan = LaserScan(
                now_ns, now_ns, -pi, tau / RAYS, 0.0, PERIOD_S, 0.1, 20.0, SCANNER_M, 0.0,
                tuple(range_m.tolist()),
            )  # fmt: skip
            monitors.obstacle.on_message(scan, now_ns)
        monitors.place.update(state)
        monitors.stopping.update(state)
        monitors.obstacle.update(state)
        if k % 2 == 0:
            obstacle = monitors.obstacle
            need_m = monitors.stopping.distance_m + LIMITS.obstacle_gap_m
            found.append(
                Look(time_s - BEGIN_S, obstacle.free_m, obstacle.does, obstacle.free_m <= need_m)
            )
    return found


def test_a_car_from_the_side_counts_before_it_is_in_the_lane() -> None:
    # At 1.2 m/s its front comes to the lane, 0.3 m beside the middle, after 2.75 s.
    car = body([(8.0, -3.8), (8.0, 4.0)], 1.2, CAR)
    found = looks(Passage(Scene(moving=[car]), speed_mps=2.5))
    stop = next(look for look in found if look.stops)
    assert stop.does == ENTERS
    assert stop.time_s < 2.5
    # The front of the vehicle is then that far from the side of the car.
    assert stop.free_m == pytest.approx(8.0 - 0.2 - 2.5 * stop.time_s - 0.55, abs=0.35)


def test_what_stands_in_the_lane_counts_as_standing() -> None:
    found = looks(Passage(Scene(circles_m=np.array([[5.0, 0.1, 0.2]]))), 2.5)
    assert found[-1].stops
    assert {look.does for look in found} == {STANDS}


def posts(bend: bool) -> Scene:
    return Scene(
        circles_m=np.array(
            [
                (*on_way(bend, s_m, copysign(aside_m, side)), 0.15)
                for s_m, aside_m in ((2.0, 0.6), (3.5, 0.8), (5.0, 0.6), (6.5, 1.2))
                for side in (1.0, -1.0)
            ]
        )
    )


def walls(bend: bool) -> Scene:
    """Walls along both sides with gaps, and another wall that is seen through them."""
    parts = [
        (*on_way(bend, s_m, aside_m), *on_way(bend, s_m + length_m, aside_m))
        for aside_m, starts in ((0.6, (0.0, 2.0, 3.2, 5.5)), (-0.7, (0.5, 1.8, 4.0, 6.0)))
        for s_m, length_m in zip(starts, (1.5, 0.8, 1.7, 0.6), strict=True)
    ]
    behind = [
        (*on_way(bend, s_m, aside_m), *on_way(bend, s_m + 0.5, aside_m))
        for aside_m in (2.0, -2.0)
        for s_m in np.arange(-1.0, 8.0, 0.5)
    ]
    return Scene(walls_m=np.array(parts + behind))


def lane_beside(left_m: float, *, against: bool = False) -> list[tuple[float, float]]:
    way = [on_way(True, s_m, left_m) for s_m in np.arange(-4.0, 16.0, 0.2)]
    return way[::-1] if against else way


HARMLESS: dict[str, Callable[[], Passage]] = {
    "posts beside a straight": lambda: Passage(posts(False)),
    "posts beside a bend": lambda: Passage(posts(True), bend=True),
    "walls beside a straight": lambda: Passage(walls(False)),
    "walls beside a bend": lambda: Passage(walls(True), bend=True),
    "posts while the position jumps": lambda: Passage(posts(False), jump_m=0.1),
    "a person who walks beside": lambda: Passage(
        Scene(moving=[body([(1.5 + 0.35 * k, 0.75 + 0.04 * (-1) ** k) for k in range(30)], 1.2)])
    ),
    "a lorry overtakes in the next lane": lambda: Passage(
        Scene(moving=[body([(-4.0, -1.5), (30.0, -1.5)], 4.0, LORRY)])
    ),
    "a lorry comes in the next lane": lambda: Passage(
        Scene(moving=[body([(14.0, 1.5), (-30.0, 1.5)], 2.0, LORRY)])
    ),
    "a car in the inner lane of a bend": lambda: Passage(
        Scene(moving=[body(lane_beside(0.8), 2.0, CAR)]), bend=True
    ),
    "a car comes in the outer lane of a bend": lambda: Passage(
        Scene(moving=[body(lane_beside(-0.8, against=True), 1.5, CAR)]), bend=True
    ),
    "somebody walks away": lambda: Passage(
        Scene(moving=[body([(5.0, 0.75), (5.0, 5.0)], 1.2, start_s=1.0)])
    ),
    "a car crosses behind": lambda: Passage(
        Scene(moving=[body([(2.5, 4.2), (2.5, -4.0)], 1.2, CAR)])
    ),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_does_not_come_into_the_lane_does_not_count(what) -> None:
    assert not [look for look in looks(HARMLESS[what]()) if look.does == ENTERS]


numbers = st.one_of(st.sampled_from(GARBAGE), st.floats(-5.0, 40.0), st.floats(0.1, 8.0))


@st.composite
def garbage_scans(draw: st.DrawFn) -> list[tuple[float, LaserScan]]:
    """Scans of a scanner that may be wrong in every field, or only in its rays, with their ages."""
    found = []
    for _ in range(draw(st.integers(4, 16))):
        ranges = tuple(draw(st.lists(numbers, max_size=30)))
        fields = [-pi, 0.2, 0.0, PERIOD_S, 0.1, 20.0, 0.45, 0.0]
        if draw(st.integers(0, 3)) == 0:
            fields[draw(st.integers(0, 7))] = draw(numbers)
        age_s = draw(st.sampled_from([0.0, 0.0, 0.01, -0.01, 0.3, -0.35]))
        found.append((age_s, LaserScan(0, 0, *fields, ranges)))  # type: ignore[call-arg, arg-type]
    return found


def free_m(scans: list[tuple[float, LaserScan]], speed_mps: float, rate: float) -> list[float]:
    monitors = Monitors(LIMITS, VEHICLE)
    found, yaw = [], 0.0
    for k, (age_s, scan) in enumerate(scans):
        now_ns = round((BEGIN_S + k * PERIOD_S) * 1e9)
        yaw += rate * PERIOD_S
        state = situation(
            monitors, x=speed_mps * k * PERIOD_S, yaw=yaw, speed=speed_mps, now_ns=now_ns
        )
        state = replace(state, estimate=replace(state.estimate, yaw_rate_radps=rate))
        monitors.obstacle.on_message(
            replace(scan, t_ns=now_ns - round(age_s * 1e9), t_rx_ns=now_ns), now_ns
        )
        monitors.obstacle.update(state)
        found.append(monitors.obstacle.free_m)
    return found


@given(garbage_scans(), st.floats(-3.0, 3.0), st.floats(-2.0, 2.0))
def test_whatever_a_scanner_sends_prediction_only_shortens_the_free_distance(
    scans, speed_mps, rate
) -> None:
    predicted = free_m(scans, speed_mps, rate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vehicled.safety.monitors.obstacle.predicted_free_m", lambda *arguments: inf)
        standing = free_m(scans, speed_mps, rate)
    for one, other in zip(predicted, standing, strict=True):
        assert not isnan(one)
        assert 0.0 <= one <= other
