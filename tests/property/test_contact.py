"""Contact of vehicles with scenes: nothing is entered or jumped over, and no energy is gained, at
any speed and step."""

from math import cos, hypot, pi, sin, tau

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sim_backend.contact.geometry import Obstacles, Touch
from sim_backend.contact.impulse import RigidBody, approach_mps, struck
from sim_backend.contact.plant import SKIN_M, ContactPlant
from sim_backend.plant.interface import Motion, VehicleLostError
from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import ContactSurface, ContactSurfaces, Scene, ScenePose
from sim_backend.scene.shapes import Bodies
from vehicled.core.vehicle import Outline

OUTLINE = Outline(0.5, 0.15, 0.2)
AHEAD_M = 0.2
MASS_KG, INERTIA_KGM2 = 5.0, 0.4


class Puck:
    """Rigid plant without wheels: it keeps its velocity, or is pushed along its x axis by a
    force."""

    motor_speed_radps = 0.0

    def __init__(self, pose, vx, vy, rate, step_s=1e-3, force_n=0.0):
        self.x, self.y, self.yaw = pose
        self.vx, self.vy, self.rate, self.step_s, self.force_n = vx, vy, rate, step_s, force_n

    def step(self, throttle, brake, wheel_angle_rad):
        self.vx += self.force_n / MASS_KG * cos(self.yaw) * self.step_s
        self.vy += self.force_n / MASS_KG * sin(self.yaw) * self.step_s
        middle_x, middle_y = self.x + AHEAD_M * cos(self.yaw), self.y + AHEAD_M * sin(self.yaw)
        self.yaw += self.rate * self.step_s
        self.x = middle_x + self.vx * self.step_s - AHEAD_M * cos(self.yaw)
        self.y = middle_y + self.vy * self.step_s - AHEAD_M * sin(self.yaw)

    def motion(self):
        c, s = cos(self.yaw), sin(self.yaw)
        ahead, left = c * self.vx + s * self.vy, c * self.vy - s * self.vx - AHEAD_M * self.rate
        return Motion(self.x, self.y, self.yaw, ahead, left, self.rate, 0.0, 0.0, 0.0, 0.0)

    def rigid_body(self, mass_kg):
        return MASS_KG, INERTIA_KGM2, AHEAD_M

    def strike(self, pose, speed_mps, lateral_speed_mps, yaw_rate_radps):
        self.x, self.y, self.yaw = pose
        left = lateral_speed_mps + AHEAD_M * yaw_rate_radps
        c, s = cos(self.yaw), sin(self.yaw)
        self.vx = c * speed_mps - s * left
        self.vy = s * speed_mps + c * left
        self.rate = yaw_rate_radps

    @property
    def energy_j(self):
        return 0.5 * MASS_KG * (self.vx**2 + self.vy**2) + 0.5 * INERTIA_KGM2 * self.rate**2

    @property
    def pose(self):
        return ScenePose(self.x, self.y, self.yaw)


def among(scene, puck):
    obstacles = Obstacles(scene, OUTLINE)
    return ContactPlant(puck, obstacles, MASS_KG, puck.step_s), obstacles


def room(inside, friction, restitution, half_m=4.0):
    """Return a closed room with bodies, circles and a thin wall in it."""
    rng = np.random.default_rng(inside)
    corners = [(-half_m, -half_m), (half_m, -half_m), (half_m, half_m), (-half_m, half_m)]
    walls = [[*a, *b] for a, b in zip(corners, corners[1:] + corners[:1])]
    bodies = []
    for _ in range(3):
        x, y = rng.uniform(-half_m, half_m, 2)
        if hypot(x, y) > 1.8:
            angles = np.sort(rng.uniform(0.0, tau, 5))
            bodies.append([(x + 0.6 * cos(a), y + 0.6 * sin(a)) for a in angles])
    circles = [
        [x, y, r]
        for x, y, r in zip(*rng.uniform(-half_m, half_m, (2, 4)), rng.uniform(0.02, 0.5, 4))
        if hypot(x, y) > 1.6
    ]
    walls.append([1.5, -half_m, 2.5, half_m])
    surface = ContactSurface("something", friction, restitution)
    return Scene(np.array(walls), np.array(circles) if circles else None, Bodies(bodies),
        surfaces=ContactSurfaces(
        [surface] * len(walls), [surface] * len(bodies), [surface] * len(circles), (),
        surface))  # fmt: skip


FAST = st.floats(-30.0, 30.0)
touch = st.builds(
    lambda angle, at, along, friction, restitution, vx, vy: Touch(
        at[0], at[1], cos(angle), sin(angle), 0.0, (vx, vy) if along else (0.0, 0.0),
        ContactSurface("", friction, restitution)
    ),
    st.floats(-pi, pi), st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)), st.just(False),
    st.floats(0.0, 2.0), st.floats(0.0, 1.0), FAST, FAST,
)  # fmt: skip


THREE = [
    Touch(0.79, 0.27, cos(-2.014), sin(-2.014), 0.0, (0.0, 0.0), ContactSurface("", 2.0, 0.0)),
    Touch(0.96, 0.89, cos(0.657), sin(0.657), 0.0, (0.0, 0.0), ContactSurface("", 0.5, 1.0)),
    Touch(-0.56, 0.28, cos(0.051), sin(0.051), 0.0, (0.0, 0.0), ContactSurface("", 2.0, 0.0)),
]
"""Unequal restitutions in a wedge: impulses that are only enlarged would quadruple the energy."""


@given(st.lists(touch, min_size=1, max_size=5), FAST, FAST, st.floats(-20.0, 20.0))
@example(THREE, 14.6, -21.2, -3.3)
def test_impulses_gain_no_energy_and_stay_within_the_friction_cone(touches, vx, vy, rate):
    body = RigidBody(MASS_KG, INERTIA_KGM2, 0.1, -0.05, vx, vy, rate)
    after, impulses = struck(body, touches)

    def energy(of):
        return MASS_KG * (of.vx_mps**2 + of.vy_mps**2) + INERTIA_KGM2 * of.yaw_rate_radps**2

    assert energy(after) <= energy(body) * (1.0 + 1e-12) + 1e-12
    for (px, py), each in zip(impulses, touches):
        normal = px * each.normal_x + py * each.normal_y
        across = -px * each.normal_y + py * each.normal_x
        assert normal >= 0.0
        assert abs(across) <= each.surface.friction * normal + 1e-9


@given(touch, FAST, FAST, st.floats(-20.0, 20.0))
def test_one_contact_rebounds_with_its_restitution(each, vx, vy, rate):
    body = RigidBody(MASS_KG, INERTIA_KGM2, 0.0, 0.0, vx, vy, rate)
    each = each._replace(surface=each.surface._replace(friction=0.0))
    before = approach_mps(body, each)
    after, _ = struck(body, [each])
    expected = -each.surface.restitution * before if before > 0.05 else min(before, 0.0)
    assert approach_mps(after, each) == pytest.approx(expected, abs=1e-6 * max(1.0, abs(before)))


@given(
    st.integers(0, 10**6), st.sampled_from([1e-3, 2e-3, 5e-3, 20e-3]), FAST, FAST,
    st.floats(-20.0, 20.0), st.floats(0.0, 2.0), st.floats(0.0, 1.0),
)  # fmt: skip
@example(3, 20e-3, 30.0, 0.3, 0.0, 0.0, 1.0)
@example(3, 1e-3, 30.0, 30.0, 20.0, 2.0, 1.0)
def test_a_body_in_a_room_stays_in_it_enters_nothing_and_gains_no_energy(
    inside, step_s, vx, vy, rate, friction, restitution
):
    scene = room(inside, friction, restitution)
    puck = Puck((0.0, 0.0, 0.3), vx, vy, rate, step_s)
    plant, obstacles = among(scene, puck)
    energy, side = puck.energy_j, 1.0
    for k in range(250):
        plant.step(0.0, 0.0, 0.0)
        assert obstacles.gap(puck.pose, k * step_s) > 0.05 * SKIN_M, "it entered something"
        assert scene.holding(puck.x, puck.y) is None
        assert max(abs(puck.x), abs(puck.y)) < 4.0, "it left the room"
        # The thin wall of the room goes from one side to the other.
        assert side * (1.5 + (puck.y + 4.0) / 8.0 - puck.x) > 0.0, "it went through the thin wall"
        assert puck.energy_j <= energy * (1.0 + 1e-9) + 1e-12
        energy = puck.energy_j


@given(st.floats(0.05, 1.4), st.floats(0.2, 1.0), st.floats(0.0, 0.4), st.just(1e-2))
def test_a_body_that_is_driven_into_a_wedge_comes_to_rest_in_it(
    half_angle, friction, restitution, step_s
):
    ends = [(-3.0 * cos(half_angle), side * 3.0 * sin(half_angle)) for side in (1.0, -1.0)]
    walls = np.array([[*ends[0], 0.0, 0.0], [0.0, 0.0, *ends[1]]])
    surface = ContactSurface("the wedge", friction, restitution)
    scene = Scene(walls, surfaces=ContactSurfaces([surface] * 2))
    start = -OUTLINE.half_m / np.tan(half_angle) - 1.2
    if start < -3.0 * cos(half_angle):
        return
    puck = Puck((start, 0.01, 0.0), 1.0, 0.0, 0.0, step_s, force_n=20.0)
    plant, obstacles = among(scene, puck)
    for k in range(round(3.0 / step_s)):
        plant.step(0.0, 0.0, 0.0)
        assert obstacles.gap(puck.pose, k * step_s) > 0.0
        assert puck.x < 0.0
    assert hypot(puck.vx, puck.vy) < 0.2, "the force holds it in the wedge"


@given(st.floats(0.5, 20.0), st.integers(1, 40), st.floats(-0.5, 0.5))
def test_a_body_that_slides_along_joined_walls_does_not_catch_on_their_joints(speed, joints, lean):
    """It keeps its speed where there is no friction; the walls are one straight line in many
    pieces."""
    at = np.sort(np.append(np.random.default_rng(joints).uniform(0.0, 8.0, joints), [-5.0, 200.0]))
    walls = np.column_stack((at[:-1], np.zeros(len(at) - 1), at[1:], np.zeros(len(at) - 1)))
    scene = Scene(walls, surfaces=ContactSurfaces([ContactSurface("", 0.0, 0.0)] * len(walls)))
    puck = Puck((0.0, OUTLINE.half_m + 0.5 * SKIN_M, 0.0), speed, -0.01, 0.0)
    plant, _ = among(scene, puck)
    for _ in range(150):
        puck.vy -= 0.01
        plant.step(0.0, 0.0, 0.0)
    assert puck.vx == pytest.approx(speed, rel=1e-9)
    assert puck.y == pytest.approx(OUTLINE.half_m + SKIN_M, abs=SKIN_M)


@given(st.floats(3.0, 15.0), st.floats(-0.15, 0.15), st.booleans(), st.sampled_from([1e-3, 5e-3]))
def test_a_moving_body_pushes_a_standing_one_before_it(speed, aside, round_, step_s):
    shape = (
        {"radius_m": 0.3}
        if round_
        else {"outline_m": [(0.3, 0.3), (-0.3, 0.3), (-0.3, -0.3), (0.3, -0.3)]}
    )
    thing = Moving([(-2.0, aside), (20.0, aside)], [0.0, 22.0 / speed], **shape)
    surface = ContactSurface("the pusher", 0.5, 0.0)
    scene = Scene(moving=[thing], surfaces=ContactSurfaces(moving=[surface]))
    puck = Puck((0.0, 0.0, 0.0), 0.0, 0.0, 0.0, step_s)
    plant, obstacles = among(scene, puck)
    for k in range(1, min(round(3.0 / speed / step_s), round(2.5 / speed / step_s) + 100)):
        plant.step(0.0, 0.0, 0.0)
        assert obstacles.gap(puck.pose, k * step_s) > 0.0
    assert plant.contacts
    assert plant.contacts[0].what == "the pusher"
    assert plant.contacts[0].speed_mps == pytest.approx(speed, rel=1e-6)
    assert puck.vx > 0.5 * speed


def test_a_vehicle_between_a_wall_and_a_moving_body_is_crushed():
    thing = Moving([(-2.0, 0.0), (20.0, 0.0)], [0.0, 22.0], radius_m=0.3)
    scene = Scene(np.array([[0.8, -2.0, 0.8, 2.0]]), moving=[thing], surfaces=ContactSurfaces(
        [ContactSurface("the wall", 0.5, 0.0)],
        moving=[ContactSurface("a lorry", 0.5, 0.0)]))  # fmt: skip
    plant, _ = among(scene, Puck((0.0, 0.0, 0.0), 0.0, 0.0, 0.0))

    def drive():
        for _ in range(3000):
            plant.step(0.0, 0.0, 0.0)

    with pytest.raises(
        VehicleLostError, match=r"crushed between (a lorry and the wall|the wall and a lorry)"
    ):
        drive()


@given(st.floats(0.0, 2.0), st.floats(0.0, 1.5))
def test_friction_stops_a_body_on_a_wall_within_its_cone(friction, angle):
    """A force that pushes at an angle from the normal below the friction angle does not move the
    body along the wall."""
    surface = ContactSurface("", friction, 0.0)
    scene = Scene(np.array([[-50.0, 0.0, 50.0, 0.0]]), surfaces=ContactSurfaces([surface]))
    puck = Puck((0.0, OUTLINE.half_m + SKIN_M, 0.0), 0.0, 0.0, 0.0)
    plant, _ = among(scene, puck)
    for _ in range(200):
        puck.vx += 2e-3 * sin(angle)
        puck.vy -= 2e-3 * cos(angle)
        plant.step(0.0, 0.0, 0.0)
    free = max(sin(angle) - friction * cos(angle), 0.0)
    assert puck.vx == pytest.approx(0.4 * free, abs=1e-2)
