"""Contact between two vehicles of a fleet.

After a grid step both rectangles are compared. If they would overlap, both vehicles go back to the
instant at which they touched, exchange the impulses of :mod:`sim_backend.contact.pair_impulse`, and
move on with their new velocities for the rest of the step. So they never enter each other. While
they are apart, no step needs a look.
"""

from math import atan2, cos, hypot, sin, sqrt
from typing import NamedTuple

from msgspec import Struct

from sim_backend.contact.geometry import Obstacles, Touch
from sim_backend.contact.impulse import RigidBody
from sim_backend.contact.pair_impulse import closing_mps, struck_pair
from sim_backend.contact.plant import (
    ACCELERATION_MPS2,
    ADVANCES,
    APART_S,
    BAND_M,
    HARDER_MPS,
    LEAST_M,
    SKIN_M,
    SUBSTEPS,
    ContactPoint,
    between,
)
from sim_backend.fleet.bodies import corners
from sim_backend.plant.interface import Motion, RigidPlant, StartPose
from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import DEFAULT, ContactSurfaces, Scene, ScenePose
from vehicled.core.vehicle import Outline

HELD_KG = 1e9
"""Mass of a vehicle that is simulated no longer: nothing pushes it."""


class _PosedBody(Moving):
    """Rectangle at a pose that is set before each look."""

    def __init__(self, outline: Outline) -> None:
        super().__init__([(0.0, 0.0)], [0.0], outline_m=corners(outline))
        self.pose = ScenePose(0.0, 0.0, 0.0)

    def state(self, time_s: float) -> tuple[float, float, float, float, float]:
        """Return the pose that was set. The velocity is that of the body, which differs from point
        to point."""
        return (*self.pose, 0.0, 0.0)


class _Rectangles:
    """Distance and touching points of two rectangles at any two poses."""

    def __init__(self, first: Outline, second: Outline) -> None:
        self._posed = _PosedBody(second)
        scene = Scene(moving=[self._posed], surfaces=ContactSurfaces(moving=[DEFAULT]))
        self._obstacles = Obstacles(scene, first)

    def gap_m(self, first: ScenePose, second: ScenePose) -> float:
        """Return the distance; 0 for an overlap."""
        self._posed.pose = second
        return self._obstacles.gap(first, 0.0)

    def touches(self, first: ScenePose, second: ScenePose) -> list[Touch]:
        """Return the touching points, whose normals point to the first."""
        self._posed.pose = second
        return self._obstacles.touches(first, 0.0, BAND_M)


def overlap(first: Outline, first_at: ScenePose, second: Outline, second_at: ScenePose) -> bool:
    """True if two rectangles overlap or touch, also if one lies within the other."""
    return (
        _Rectangles(first, second).gap_m(first_at, second_at) == 0.0
        or _Rectangles(second, first).gap_m(second_at, first_at) == 0.0
    )


class Collider(Struct):
    """Vehicle that others may run into."""

    name: str
    outline: Outline
    plant: RigidPlant
    mass_kg: float
    """Mass of the profile, for a plant that has none."""


class _SideState(NamedTuple):
    """Pose and velocity of one vehicle of a pair."""

    pose: ScenePose
    body: RigidBody


class _Side:
    """One vehicle of a pair."""

    def __init__(self, collider: Collider) -> None:
        self.collider = collider
        self.mass_kg, self._inertia_kgm2, self._ahead_m = collider.plant.rigid_body(
            collider.mass_kg
        )
        self.reach_m = collider.outline.reach_m
        self.contacts: list[ContactPoint] = []
        self._held: _SideState | None = None

    def hold(self, pose: ScenePose) -> None:
        """Let the vehicle stand at a pose, as heavy as a wall, from now on."""
        self.mass_kg = HELD_KG
        still = RigidBody(HELD_KG, HELD_KG, 0.0, 0.0, 0.0, 0.0, 0.0)
        self._held = _SideState(pose, self.at_pose(still, pose))

    @property
    def held(self) -> bool:
        """True once the vehicle is simulated no longer."""
        return self._held is not None

    def state(self) -> _SideState:
        """Return pose and velocity at the newest grid point."""
        if self._held is not None:
            return self._held
        motion: Motion = self.collider.plant.motion()
        pose = ScenePose(motion.x_m, motion.y_m, motion.yaw_rad)
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        lateral = motion.lateral_speed_mps + self._ahead_m * motion.yaw_rate_radps
        body = RigidBody(
            self.mass_kg,
            self._inertia_kgm2,
            0.0,
            0.0,
            motion.speed_mps * c - lateral * s,
            motion.speed_mps * s + lateral * c,
            motion.yaw_rate_radps,
        )
        return _SideState(pose, self.at_pose(body, pose))

    def at_pose(self, body: RigidBody, pose: ScenePose) -> RigidBody:
        """Return the body with its centre of mass where the pose puts it."""
        return body._replace(
            x_m=pose.x_m + self._ahead_m * cos(pose.yaw_rad),
            y_m=pose.y_m + self._ahead_m * sin(pose.yaw_rad),
        )

    def onward(self, pose: ScenePose, body: RigidBody, time_s: float) -> ScenePose:
        """Return the pose after moving on at the velocity of the body."""
        yaw = pose.yaw_rad + body.yaw_rate_radps * time_s
        x, y = body.x_m + body.vx_mps * time_s, body.y_m + body.vy_mps * time_s
        return ScenePose(x - self._ahead_m * cos(yaw), y - self._ahead_m * sin(yaw), yaw)

    def place(self, pose: ScenePose, body: RigidBody) -> None:
        """Give the plant its pose and velocity after contact."""
        if self._held is not None:
            return
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        self.collider.plant.strike(
            StartPose(*pose),
            body.vx_mps * c + body.vy_mps * s,
            body.vy_mps * c - body.vx_mps * s - self._ahead_m * body.yaw_rate_radps,
            body.yaw_rate_radps,
        )

    def speed_mps(self, body: RigidBody) -> float:
        """Return a bound of the speed of any point of the body."""
        return hypot(body.vx_mps, body.vy_mps) + 2.0 * self.reach_m * abs(body.yaw_rate_radps)

    def moved_m(self, start: ScenePose, end: ScenePose) -> float:
        """Return a bound of the distance that any point moves between two poses."""
        turned = abs(end.yaw_rad - start.yaw_rad)
        return hypot(end.x_m - start.x_m, end.y_m - start.y_m) + turned * self.reach_m


class VehiclePair:
    """Two vehicles of a fleet. Contacts of each since they were taken: :attr:`contacts`."""

    def __init__(self, first: Collider, second: Collider, step_s: float) -> None:
        """Take both at the start of the scene. ``step_s``: grid step."""
        self._sides = _Side(first), _Side(second)
        self._rectangles = _Rectangles(first.outline, second.outline)
        self._step_s = step_s
        self._time_s = 0.0
        self._last_touch_s, self._hardest_mps = -APART_S, -1.0
        self.unwatched = 0
        """Grid steps that need no look."""
        states = [side.state() for side in self._sides]
        self._poses = states[0].pose, states[1].pose
        self._gap_m = self._distance_m(*self._poses)

    @property
    def names(self) -> tuple[str, str]:
        """Names of both vehicles."""
        return self._sides[0].collider.name, self._sides[1].collider.name

    @property
    def contacts(self) -> tuple[list[ContactPoint], list[ContactPoint]]:
        """Contacts of the first and of the second vehicle."""
        return self._sides[0].contacts, self._sides[1].contacts

    def resolve(self, time_s: float) -> bool:
        """Compare both vehicles at a scene time and let contact act. True if it pushed them."""
        first, second = self._sides
        (pose_a, body_a), (pose_b, body_b) = first.state(), second.state()
        targets = pose_a, pose_b
        bodies = body_a, body_b
        pushed = False
        for _ in range(SUBSTEPS):
            fraction = self._reach(targets)
            self._poses = (
                between(self._poses[0], targets[0], fraction),
                between(self._poses[1], targets[1], fraction),
            )
            self._time_s += fraction * (time_s - self._time_s)
            if fraction < 1.0:
                pushed = True
            elif self._gap_m > BAND_M:
                break
            bodies = (
                first.at_pose(bodies[0], self._poses[0]),
                second.at_pose(bodies[1], self._poses[1]),
            )
            touches = self._rectangles.touches(*self._poses)
            if any(closing_mps(*bodies, touch) > 0.0 for touch in touches):
                bodies = self._struck(bodies, touches)
                pushed = True
            pushed = self._part(touches) or pushed
            left_s = time_s - self._time_s
            if left_s <= 0.0:
                break
            bodies = (
                first.at_pose(bodies[0], self._poses[0]),
                second.at_pose(bodies[1], self._poses[1]),
            )
            targets = (
                first.onward(self._poses[0], bodies[0], left_s),
                second.onward(self._poses[1], bodies[1], left_s),
            )
        self._time_s = time_s
        if pushed:
            for side, pose, body in zip(self._sides, self._poses, bodies, strict=True):
                side.place(pose, body)
        self.unwatched = self._steps_without_look(bodies)
        return pushed

    def hold(self, name: str, pose: ScenePose) -> None:
        """Let a vehicle that is simulated no longer stand at a pose."""
        for side in self._sides:
            if side.collider.name == name and not side.held:
                side.hold(pose)
                self.renew()

    def renew(self) -> None:
        """Look again after another contact moved one of both."""
        self._poses = self._sides[0].state().pose, self._sides[1].state().pose
        self._gap_m = self._distance_m(*self._poses)
        self.unwatched = 0

    def _distance_m(self, first: ScenePose, second: ScenePose) -> float:
        """Return the distance of both rectangles, or a lower bound if they are far apart."""
        apart_m = hypot(first.x_m - second.x_m, first.y_m - second.y_m)
        room_m = apart_m - self._sides[0].reach_m - self._sides[1].reach_m
        return room_m if room_m > BAND_M else self._rectangles.gap_m(first, second)

    def _reach(self, targets: tuple[ScenePose, ScenePose]) -> float:
        """Return the fraction of the way to two poses that is free, and note the distance there."""
        first, second = self._sides
        (start_a, start_b), (end_a, end_b) = self._poses, targets
        moved_m = first.moved_m(start_a, end_a) + second.moved_m(start_b, end_b)
        gap_m = self._distance_m(end_a, end_b)
        smallest_m = min(first.collider.outline.half_m, second.collider.outline.half_m)
        if moved_m < self._gap_m or (gap_m >= LEAST_M and moved_m <= smallest_m):
            self._gap_m = gap_m
            return 1.0
        fraction, at_m = 0.0, self._gap_m
        for _ in range(ADVANCES):
            if at_m <= LEAST_M and fraction:
                break
            # The first advance is never nothing: bodies that part must get away from each other.
            fraction += max(at_m - 0.5 * LEAST_M, 0.25 * LEAST_M) / moved_m
            if fraction >= 1.0:
                self._gap_m = gap_m
                return 1.0
            at_m = self._distance_m(
                between(start_a, end_a, fraction), between(start_b, end_b, fraction)
            )
        self._gap_m = at_m
        return fraction

    def _struck(
        self, bodies: tuple[RigidBody, RigidBody], touches: list[Touch]
    ) -> tuple[RigidBody, RigidBody]:
        first, second, impulses = struck_pair(*bodies, touches)
        for touch, (px, py) in zip(touches, impulses, strict=True):
            if px or py:
                self._note(touch, closing_mps(*bodies, touch), hypot(px, py))
        return first, second

    def _note(self, touch: Touch, speed_mps: float, impulse_ns: float) -> None:
        """Report the first impact of a contact and each harder one, to both vehicles."""
        if self._time_s - self._last_touch_s > APART_S:
            self._hardest_mps = -HARDER_MPS
        self._last_touch_s = self._time_s
        if speed_mps < self._hardest_mps + HARDER_MPS:
            return
        self._hardest_mps = speed_mps
        for side, pose, what in zip(self._sides, self._poses, reversed(self.names), strict=True):
            c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
            dx, dy = touch.x_m - pose.x_m, touch.y_m - pose.y_m
            bearing_rad = atan2(c * dy - s * dx, c * dx + s * dy)
            side.contacts.append(
                ContactPoint(
                    self._time_s, touch.x_m, touch.y_m, what, speed_mps, impulse_ns, bearing_rad
                )
            )

    def _part(self, touches: list[Touch]) -> bool:
        """Move both so that they are ``SKIN_M`` apart, the lighter one further; True if they
        moved."""
        dx = dy = 0.0
        for _ in range(8):
            for touch in touches:
                missing = SKIN_M - (touch.gap_m + dx * touch.normal_x + dy * touch.normal_y)
                if missing > 1e-9:
                    dx += missing * touch.normal_x
                    dy += missing * touch.normal_y
        if hypot(dx, dy) <= 1e-9:
            return False
        first, second = self._sides
        share = second.mass_kg / (first.mass_kg + second.mass_kg)
        (ax, ay, a_yaw), (bx, by, b_yaw) = self._poses
        self._poses = (
            ScenePose(ax + share * dx, ay + share * dy, a_yaw),
            ScenePose(bx - (1.0 - share) * dx, by - (1.0 - share) * dy, b_yaw),
        )
        self._gap_m = self._distance_m(*self._poses)
        return True

    def _steps_without_look(self, bodies: tuple[RigidBody, RigidBody]) -> int:
        room_m = self._gap_m - BAND_M
        if room_m <= 0.0:
            return 0
        speed = sum(side.speed_mps(body) for side, body in zip(self._sides, bodies, strict=True))
        # Each may accelerate towards the other.
        bound = 2.0 * ACCELERATION_MPS2
        time_s = (sqrt(speed * speed + 2.0 * bound * room_m) - speed) / bound
        return max(0, int(time_s / self._step_s) - 1)
