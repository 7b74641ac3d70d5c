"""Every vehicle drives a short bend on the double-track plant, in lockstep, and stays as near to it
as it did when measured."""

from math import sin

import pytest

from sim_backend.connection import START_NS
from tests.closed_loop.fault_judge import SECOND_NS
from tests.grid import sampled
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.course import course_from_waypoints
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.run.judge import Judge

LONGEST_S = 40.0
BENDS = {
    # vehicle: length of a radian of the bend in metres, speed, largest cross-track error: twice
    # what was measured
    "nigel": (0.35, 0.2, 0.008),
    "f1tenth": (4.0, 3.0, 0.05),
    "f1tenth_gnss": (4.0, 1.5, 0.05),
    "roboracer": (4.0, 3.0, 0.03),
    "hunter_se": (2.5, 1.0, 0.035),
    "husky_a200": (2.0, 0.8, 0.06),
    "art_twin": (3.0, 1.2, 0.09),
    "hmmwv": (14.0, 6.0, 0.18),
    "opencav": (14.0, 6.0, 0.08),
    "rzr": (14.0, 6.0, 0.09),
}
REAR = {
    # rear_steering_ratio of hunter_se, and the largest cross-track error: twice what was measured.
    # A profile that does not know its rear wheels is off by more.
    -1.0: 0.034, -0.5: 0.034,
}  # fmt: skip


def drive_bend(profile: Profile, size_m: float, speed_mps: float) -> Judge:
    u = [0.1 * k for k in range(46)]
    course = course_from_waypoints(
        "bend",
        [size_m * v for v in u],
        [0.25 * size_m * sin(v) for v in u],
        default_speed_mps=speed_mps,
        closed=False,
    )
    judge = Judge(course)
    pair = WrappedPair(profile, course, (), judge, seed=1, link="messages")
    while not judge.finished and pair.now_ns < START_NS + LONGEST_S * SECOND_NS:
        pair.grant()
        pair.reply()
    assert judge.finished, (
        f"{judge.driven_m:.1f} m driven; {pair.machine.mode.name}: {pair.machine.why}"
    )
    return judge


@pytest.mark.parametrize(
    "vehicle", sampled(BENDS, lambda vehicle: vehicle not in ("rzr", "f1tenth_gnss", "opencav"))
)
def test_a_bend_is_driven(vehicle: str) -> None:
    size_m, speed_mps, most_m = BENDS[vehicle]
    judge = drive_bend(load_profile(vehicle), size_m, speed_mps)
    assert judge.cross_track_m.max < most_m


@pytest.mark.parametrize("ratio", sampled(REAR, lambda ratio: ratio == -1.0))
def test_a_bend_is_driven_with_four_steered_wheels(ratio: float) -> None:
    size_m, speed_mps, _ = BENDS["hunter_se"]
    known = load_profile("hunter_se", [f"vehicle.rear_steering_ratio={ratio}"])
    unknown = load_profile("hunter_se", [f"sim.twin.changes.steering.rear_ratio={ratio}"])
    most_m = drive_bend(known, size_m, speed_mps).cross_track_m.max
    assert most_m < REAR[ratio]
    assert drive_bend(unknown, size_m, speed_mps).cross_track_m.max > 1.5 * most_m


@pytest.mark.parametrize("seed", sampled([1, 2, 3], lambda seed: seed == 1))
def test_a_skid_steered_vehicle_turns_a_corner_and_is_not_stopped(seed: int) -> None:
    """Its rear axle slips sideways, so gyro and course over ground parted by half a radian where
    that was the reference point."""
    course = course_from_waypoints(
        "corner", [0.0, 4.0, 4.0], [0.0, 0.0, 4.0], default_speed_mps=0.8, closed=False
    )
    judge = Judge(course)
    pair = WrappedPair(load_profile("husky_a200"), course, (), judge, seed=seed, link="messages")
    while not pair.machine.course_driven and pair.now_ns < START_NS + LONGEST_S * SECOND_NS:
        pair.grant()
        pair.reply()
    assert pair.machine.course_driven, f"{pair.machine.mode.name}: {pair.machine.why}"
