"""Plant in a scene: contact pushes the vehicle back.

After each grid step the body of the vehicle is compared with the scene. If it would reach into a
part, it goes back to the instant at which it touched it, takes the impulses of :mod:`.impulse`, and
moves on with its new velocity for the rest of the step. So it enters nothing, whatever its speed.
While the nearest part is far, no step needs a look.
"""

from math import atan2, cos, hypot, sin, sqrt
from typing import NamedTuple

from sim_backend.contact.geometry import NEAR_M, Obstacles, Touch
from sim_backend.contact.impulse import RigidBody, approach_mps, struck
from sim_backend.plant.interface import Motion, RigidPlant, StartPose, VehicleLostError
from sim_backend.scene.scene import ScenePose

SKIN_M = 1e-3
"""Distance at which parts touch."""
LEAST_M = 0.3 * SKIN_M
"""Distance that a step may leave of it."""
BAND_M = 2.0 * SKIN_M
CRUSH_M = 0.02
"""Depth to which a moving part may reach into a vehicle that cannot give way."""
ACCELERATION_MPS2 = 200.0
"""Bound of the acceleration of any point of the body, for the number of steps without a look."""
SUBSTEPS = 4
"""Impacts within one step."""
ADVANCES = 64
APART_S = 0.2
"""Time without touch after which the next one is another contact."""
HARDER_MPS = 0.1
"""Approach speed beyond the hardest so far of a contact that is reported again."""


class ContactPoint(NamedTuple):
    """One contact, at its first or hardest impact."""

    time_s: float
    """Scene time."""
    x_m: float
    y_m: float
    what: str
    speed_mps: float
    """Approach speed along the normal."""
    impulse_ns: float
    """Impulse of this step on the vehicle."""
    bearing_rad: float
    """Direction from the reference point of the vehicle, from its x axis."""


class ContactPlant:
    """Vehicle among obstacles. See :class:`sim_backend.plant.interface.Plant`."""

    def __init__(
        self, inside: RigidPlant, obstacles: Obstacles, mass_kg: float, step_s: float
    ) -> None:
        self._inside, self._obstacles, self._step_s = inside, obstacles, step_s
        self._mass_kg, self._inertia_kgm2, self._ahead_m = inside.rigid_body(mass_kg)
        self._steps = self._unwatched = 0
        self._touched: dict[str, tuple[float, float]] = {}
        """Time of the last touch and hardest approach, by part."""
        self.contacts: list[ContactPoint] = []
        """Contacts since they were taken."""
        motion = inside.motion()
        self._pose = ScenePose(motion.x_m, motion.y_m, motion.yaw_rad)
        self._time_s = 0.0
        self._gap_m = obstacles.gap(self._pose, 0.0)

    @property
    def motor_speed_radps(self) -> float:
        return self._inside.motor_speed_radps

    def motion(self) -> Motion:
        return self._inside.motion()

    def rigid_body(self, mass_kg: float) -> tuple[float, float, float]:
        return self._inside.rigid_body(mass_kg)

    def strike(
        self, pose: StartPose, speed_mps: float, lateral_speed_mps: float, yaw_rate_radps: float
    ) -> None:
        """Take pose and velocity after contact with another vehicle; the next step compares the
        vehicle with the scene."""
        self._inside.strike(pose, speed_mps, lateral_speed_mps, yaw_rate_radps)
        self._pose = ScenePose(*pose)
        self._time_s = self._steps * self._step_s
        self._gap_m = self._obstacles.gap(self._pose, self._time_s)
        self._unwatched = 0

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        self._inside.step(throttle, brake, wheel_angle_rad)
        self._steps += 1
        if self._unwatched:
            self._unwatched -= 1
            return
        self._compare()

    def _compare(self) -> None:
        """Compare the newest pose with the scene, and let contact act."""
        motion = self._inside.motion()
        target = ScenePose(motion.x_m, motion.y_m, motion.yaw_rad)
        now_s = self._steps * self._step_s
        body = self._body(motion)
        pushed = False
        for _ in range(SUBSTEPS):
            fraction, self._gap_m = self._reached(target, now_s)
            self._pose = between(self._pose, target, fraction)
            self._time_s += fraction * (now_s - self._time_s)
            if fraction < 1.0:
                pushed = True
            elif self._gap_m > BAND_M:
                break
            touches = self._obstacles.touches(self._pose, self._time_s, BAND_M)
            body = self._at_pose(body)
            if any(approach_mps(body, touch) > 0.0 for touch in touches):
                body, pushed = self._struck(body, touches), True
            pushed = self._apart(touches) or pushed
            self._check_crushed(touches)
            left_s = now_s - self._time_s
            if left_s <= 0.0:
                break
            target = self._onward(body, left_s)
        self._time_s = now_s
        if pushed:
            self._place(body)
        self._unwatched = self._steps_without_look(body)

    def _body(self, motion: Motion) -> RigidBody:
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        lateral = motion.lateral_speed_mps + self._ahead_m * motion.yaw_rate_radps
        vx, vy = motion.speed_mps * c - lateral * s, motion.speed_mps * s + lateral * c
        return RigidBody(self._mass_kg, self._inertia_kgm2, 0.0, 0.0, vx, vy, motion.yaw_rate_radps)

    def _at_pose(self, body: RigidBody) -> RigidBody:
        """Return the body at the pose that has been reached."""
        x_m = self._pose.x_m + self._ahead_m * cos(self._pose.yaw_rad)
        return body._replace(x_m=x_m, y_m=self._pose.y_m + self._ahead_m * sin(self._pose.yaw_rad))

    def _reached(self, target: ScenePose, now_s: float) -> tuple[float, float]:
        """Return the fraction of the way to a pose that is free, and the gap there."""
        start, turned = self._pose, abs(target.yaw_rad - self._pose.yaw_rad)
        moved_m = (
            hypot(target.x_m - start.x_m, target.y_m - start.y_m)
            + turned * self._obstacles.outline.reach_m
        )
        moved_m += self._obstacles.fastest_mps * (now_s - self._time_s)
        gap_m = self._obstacles.gap(target, now_s)
        if moved_m < min(self._gap_m, NEAR_M) or (
            gap_m >= LEAST_M and moved_m <= self._obstacles.outline.half_m
        ):
            return 1.0, gap_m
        fraction, at_m = 0.0, min(self._gap_m, NEAR_M)
        for _ in range(ADVANCES):
            if at_m <= LEAST_M and fraction:
                break
            # The first advance is never nothing: a body that parts from what it touches must get
            # away from it.
            fraction += max(at_m - 0.5 * LEAST_M, 0.25 * LEAST_M) / moved_m
            if fraction >= 1.0:
                return 1.0, gap_m
            at_m = self._obstacles.gap(
                between(start, target, fraction), self._time_s + fraction * (now_s - self._time_s)
            )
        return fraction, at_m

    def _struck(self, body: RigidBody, touches: list[Touch]) -> RigidBody:
        after, impulses = struck(body, touches)
        for touch, (px, py) in zip(touches, impulses, strict=True):
            if px or py:
                self._note(touch, approach_mps(body, touch), hypot(px, py))
        return after

    def _note(self, touch: Touch, speed_mps: float, impulse_ns: float) -> None:
        last_s, hardest = self._touched.get(touch.surface.name, (-APART_S, -1.0))
        if self._time_s - last_s > APART_S:
            hardest = -HARDER_MPS
        if speed_mps >= hardest + HARDER_MPS:
            hardest = speed_mps
            c, s = cos(self._pose.yaw_rad), sin(self._pose.yaw_rad)
            dx, dy = touch.x_m - self._pose.x_m, touch.y_m - self._pose.y_m
            bearing = atan2(c * dy - s * dx, c * dx + s * dy)
            self.contacts.append(
                ContactPoint(
                    self._time_s,
                    touch.x_m,
                    touch.y_m,
                    touch.surface.name,
                    speed_mps,
                    impulse_ns,
                    bearing,
                )
            )
        self._touched[touch.surface.name] = self._time_s, hardest

    def _apart(self, touches: list[Touch]) -> bool:
        """Move the vehicle so that everything is ``SKIN_M`` away as far as that is possible; True
        if it moved."""
        pose = self._pose
        dx = dy = 0.0
        for _ in range(8):
            for touch in touches:
                missing = SKIN_M - (touch.gap_m + dx * touch.normal_x + dy * touch.normal_y)
                if missing > 1e-9:
                    dx += missing * touch.normal_x
                    dy += missing * touch.normal_y
        # Between parts that face each other one would be moved into the other.
        while hypot(dx, dy) > 1e-9:
            corrected = ScenePose(pose.x_m + dx, pose.y_m + dy, pose.yaw_rad)
            gap_m = self._obstacles.gap(corrected, self._time_s)
            if gap_m >= min(self._gap_m, SKIN_M) and (gap_m > 0.0 or touches[0].gap_m <= 0.0):
                self._pose, self._gap_m = corrected, gap_m
                return True
            dx, dy = 0.5 * dx, 0.5 * dy
        return False

    def _check_crushed(self, touches: list[Touch]) -> None:
        """End the run if the vehicle cannot give way to a part that moves into it."""
        if self._gap_m > 0.0:
            return
        left = self._obstacles.touches(self._pose, self._time_s, 0.0)
        if left and left[0].gap_m < -CRUSH_M:
            names = " and ".join(
                dict.fromkeys(touch.surface.name or "the scene" for touch in [*left, *touches])
            )
            raise VehicleLostError(
                f"the vehicle was crushed between {names} at ({self._pose.x_m:.2f}, "
                f"{self._pose.y_m:.2f}) m"
            )

    def _onward(self, body: RigidBody, time_s: float) -> ScenePose:
        """Return the pose after moving on at the velocity of the body."""
        yaw = self._pose.yaw_rad + body.yaw_rate_radps * time_s
        c, s = cos(self._pose.yaw_rad), sin(self._pose.yaw_rad)
        x = self._pose.x_m + self._ahead_m * c + body.vx_mps * time_s
        y = self._pose.y_m + self._ahead_m * s + body.vy_mps * time_s
        return ScenePose(x - self._ahead_m * cos(yaw), y - self._ahead_m * sin(yaw), yaw)

    def _place(self, body: RigidBody) -> None:
        """Give the plant its pose and velocity after contact."""
        c, s = cos(self._pose.yaw_rad), sin(self._pose.yaw_rad)
        self._inside.strike(
            StartPose(*self._pose),
            body.vx_mps * c + body.vy_mps * s,
            body.vy_mps * c - body.vx_mps * s - self._ahead_m * body.yaw_rate_radps,
            body.yaw_rate_radps,
        )

    def _steps_without_look(self, body: RigidBody) -> int:
        room_m = min(self._gap_m, NEAR_M) - BAND_M
        if room_m <= 0.0:
            return 0
        speed = hypot(body.vx_mps, body.vy_mps) + self._obstacles.outline.reach_m * 2.0 * abs(
            body.yaw_rate_radps
        )
        speed += self._obstacles.fastest_mps
        time_s = (
            sqrt(speed * speed + 2.0 * ACCELERATION_MPS2 * room_m) - speed
        ) / ACCELERATION_MPS2
        return max(0, int(time_s / self._step_s) - 1)


def between(start: ScenePose, end: ScenePose, fraction: float) -> ScenePose:
    """Return the pose at a fraction of the way between two."""
    if fraction == 1.0:
        return end
    return ScenePose(*(a + fraction * (b - a) for a, b in zip(start, end, strict=True)))
