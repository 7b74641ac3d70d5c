"""Contact of two vehicles: neither enters the other, momentum is kept and no energy is gained, at
any speed and step."""

from math import cos, pi, sin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim_backend.fleet.collision import Collider, VehiclePair, overlap
from sim_backend.plant.interface import Motion
from sim_backend.scene.scene import ScenePose
from vehicled.core.vehicle import Outline

OUTLINE = Outline(0.5, 0.15, 0.2)
AHEAD_M = 0.2


class Puck:
    """Rigid plant without wheels: it keeps its velocity, or is pushed along its x axis by a
    force."""

    motor_speed_radps = 0.0

    def __init__(self, pose, vx=0.0, vy=0.0, rate=0.0, *, mass_kg=5.0, step_s=1e-3, force_n=0.0):
        self.x, self.y, self.yaw = pose
        self.vx, self.vy, self.rate = vx, vy, rate
        self.mass_kg, self.inertia_kgm2 = mass_kg, 0.08 * mass_kg
        self.step_s, self.force_n = step_s, force_n

    def step(self, throttle=0.0, brake=0.0, wheel_angle_rad=0.0):
        self.vx += self.force_n / self.mass_kg * cos(self.yaw) * self.step_s
        self.vy += self.force_n / self.mass_kg * sin(self.yaw) * self.step_s
        middle_x, middle_y = self.x + AHEAD_M * cos(self.yaw), self.y + AHEAD_M * sin(self.yaw)
        self.yaw += self.rate * self.step_s
        self.x = middle_x + self.vx * self.step_s - AHEAD_M * cos(self.yaw)
        self.y = middle_y + self.vy * self.step_s - AHEAD_M * sin(self.yaw)

    def motion(self):
        c, s = cos(self.yaw), sin(self.yaw)
        ahead, left = c * self.vx + s * self.vy, c * self.vy - s * self.vx - AHEAD_M * self.rate
        return Motion(self.x, self.y, self.yaw, ahead, left, self.rate, 0.0, 0.0, 0.0, 0.0)

    def rigid_body(self, mass_kg):
        return self.mass_kg, self.inertia_kgm2, AHEAD_M

    def strike(self, pose, speed_mps, lateral_speed_mps, yaw_rate_radps):
        self.x, self.y, self.yaw = pose
        left = lateral_speed_mps + AHEAD_M * yaw_rate_radps
        c, s = cos(self.yaw), sin(self.yaw)
        self.vx, self.vy, self.rate = (
            c * speed_mps - s * left,
            s * speed_mps + c * left,
            yaw_rate_radps,
        )

    @property
    def pose(self):
        return ScenePose(self.x, self.y, self.yaw)

    @property
    def energy_j(self):
        return 0.5 * (self.mass_kg * (self.vx**2 + self.vy**2) + self.inertia_kgm2 * self.rate**2)


def pair_of(first, second):
    colliders = [
        Collider(name, OUTLINE, puck, puck.mass_kg) for name, puck in (("a", first), ("b", second))
    ]
    return VehiclePair(colliders[0], colliders[1], first.step_s)


def drive(first, second, seconds):
    """Let two pucks move, and look at them as a fleet does; return the pair."""
    pair = pair_of(first, second)
    for step in range(1, round(seconds / first.step_s) + 1):
        first.step()
        second.step()
        pair.unwatched -= 1
        if pair.unwatched < 0:
            pair.resolve(step * first.step_s)
        assert not overlap(OUTLINE, first.pose, OUTLINE, second.pose)
    return pair


SPEEDS = st.floats(-20.0, 20.0)


@given(
    y=st.floats(-0.6, 0.6),
    yaw=st.floats(-pi, pi),
    speeds=st.tuples(SPEEDS, SPEEDS),
    rates=st.tuples(st.floats(-10.0, 10.0), st.floats(-10.0, 10.0)),
    masses=st.tuples(st.floats(1.0, 50.0), st.floats(1.0, 2500.0)),
    step_ms=st.sampled_from((1.0, 5.0, 20.0)),
)
@example(0.0, 0.0, (20.0, 0.0), (0.0, 0.0), (5.0, 5.0), 20.0)
def test_nothing_is_entered_and_no_energy_is_gained(y, yaw, speeds, rates, masses, step_ms):
    first = Puck(
        (0.0, 0.0, 0.0), speeds[0], 0.0, rates[0], mass_kg=masses[0], step_s=step_ms * 1e-3
    )
    second = Puck(
        (2.0, y, yaw), -abs(speeds[1]), 0.0, rates[1], mass_kg=masses[1], step_s=step_ms * 1e-3
    )
    pucks = first, second
    energy_j = sum(puck.energy_j for puck in pucks)
    momentum = [sum(puck.mass_kg * getattr(puck, axis) for puck in pucks) for axis in ("vx", "vy")]
    drive(first, second, 0.6)
    assert sum(puck.energy_j for puck in pucks) <= energy_j * (1.0 + 1e-9) + 1e-12
    scale = sum(puck.mass_kg * 20.0 for puck in pucks)
    for axis, before in zip(("vx", "vy"), momentum, strict=True):
        after = sum(puck.mass_kg * getattr(puck, axis) for puck in pucks)
        assert after == pytest.approx(before, abs=1e-9 * scale)


def test_equal_bodies_in_line_share_the_speed_as_the_restitution_says():
    first, second = Puck((0.0, 0.0, 0.0), 2.0), Puck((1.5, 0.0, 0.0))
    pair = drive(first, second, 1.0)
    # Restitution 0.1: of the difference of speeds a tenth comes back.
    assert first.vx == pytest.approx(0.9)
    assert second.vx == pytest.approx(1.1)
    (mine,), (theirs,) = pair.contacts
    assert (mine.what, theirs.what) == ("b", "a")
    assert mine.speed_mps == theirs.speed_mps == pytest.approx(2.0)
    assert mine.impulse_ns == pytest.approx(5.0 * 1.1, rel=0.6)
    assert abs(mine.bearing_rad) < 0.5
    assert abs(theirs.bearing_rad) > 2.0


def test_a_heavy_one_pushes_a_light_one_without_entering_it():
    lorry = Puck((0.0, 0.0, 0.0), mass_kg=2000.0, force_n=1000.0)
    car = Puck((0.7, 0.05, 0.0), mass_kg=5.0)
    drive(lorry, car, 2.0)
    assert car.vx > 0.5


def test_one_that_is_held_stands_like_a_wall():
    first, second = Puck((0.0, 0.0, 0.0), 2.0), Puck((1.5, 0.0, 0.0))
    pair = pair_of(first, second)
    pair.hold("b", second.pose)
    for step in range(1, 1500):
        first.step()
        pair.unwatched -= 1
        if pair.unwatched < 0:
            pair.resolve(step * 1e-3)
    assert second.pose == (1.5, 0.0, 0.0)
    assert first.vx == pytest.approx(-0.2, abs=1e-6)


def test_one_within_the_other_overlaps():
    small = Outline(0.05, 0.05, 0.05)
    assert overlap(small, ScenePose(0.1, 0.0, 0.0), OUTLINE, ScenePose(0.0, 0.0, 0.0))
    assert overlap(OUTLINE, ScenePose(0.0, 0.0, 0.0), small, ScenePose(0.1, 0.0, 0.0))
    assert not overlap(OUTLINE, ScenePose(0.0, 0.0, 0.0), small, ScenePose(1.1, 0.0, 0.0))
