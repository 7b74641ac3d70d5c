"""Impulses of a rigid body against what it touches: no approach, friction within its cone, rebound,
never a gain of energy.

The impulses of a plastic contact come first: they stop every approach, each within its friction
cone. All are then enlarged by 1 + restitution, as Poisson's rule does for one contact. With p the
plastic impulses, u the relative velocities before and G the compliance of the body, p.(u + G p) <=
0, so the energy changes by (1 + e) p.u + (1 + e)^2 p.G p / 2 <= 0 for e <= 1. An impulse that would
exceed this, because restitutions differ or the iteration has not ended, is made smaller.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sim_backend.contact.geometry import Touch

ROUNDS = 60
SETTLED = 1e-12
"""Change of a velocity, m/s, below which the iteration has ended."""
REBOUND_MPS = 0.05
"""Approach speed below which nothing rebounds: the body comes to rest."""
PASSES = 3
"""A rebound may drive the body against another part; each pass stops that."""


class RigidBody(NamedTuple):
    """Body in the plane, with its motion."""

    mass_kg: float
    inertia_kgm2: float
    x_m: float
    """Centre of mass in ``map``."""
    y_m: float
    vx_mps: float
    """Velocity of the centre of mass in ``map``."""
    vy_mps: float
    yaw_rate_radps: float

    def velocity_at(self, x_m: float, y_m: float) -> tuple[float, float]:
        """Return the velocity of a point of the body."""
        return self.vx_mps - self.yaw_rate_radps * (
            y_m - self.y_m
        ), self.vy_mps + self.yaw_rate_radps * (x_m - self.x_m)

    def pushed(
        self, impulses: Sequence[tuple[float, float]], touches: Sequence[Touch], scale: float = 1.0
    ) -> "RigidBody":
        """Return the body after impulses (x, y) in N s at touching points."""
        sum_x = sum_y = turn = 0.0
        for (px, py), touch in zip(impulses, touches, strict=True):
            sum_x += px
            sum_y += py
            turn += (touch.x_m - self.x_m) * py - (touch.y_m - self.y_m) * px
        return self._replace(
            vx_mps=self.vx_mps + scale * sum_x / self.mass_kg,
            vy_mps=self.vy_mps + scale * sum_y / self.mass_kg,
            yaw_rate_radps=self.yaw_rate_radps + scale * turn / self.inertia_kgm2,
        )


def approach_mps(body: RigidBody, touch: Touch) -> float:
    """Return the speed at which the body and the part approach; negative if they part."""
    vx, vy = body.velocity_at(touch.x_m, touch.y_m)
    return -((vx - touch.velocity[0]) * touch.normal_x + (vy - touch.velocity[1]) * touch.normal_y)


def struck(
    body: RigidBody, touches: Sequence[Touch]
) -> tuple[RigidBody, list[tuple[float, float]]]:
    """Return the body after the impulses of its touching points, and these impulses (x, y) in N
    s."""
    total = [(0.0, 0.0)] * len(touches)
    for number in range(PASSES):
        plastic = _plastic(body, touches)
        # What rebounds in a later pass only follows from the first one.
        rebound = [
            1.0
            + (
                touch.surface.restitution
                if number == 0 and approach_mps(body, touch) > REBOUND_MPS
                else 0.0
            )
            for touch in touches
        ]
        impulses = [
            (factor * px, factor * py) for factor, (px, py) in zip(rebound, plastic, strict=True)
        ]
        share = min(1.0, _most(body, impulses, touches))
        body = body.pushed(impulses, touches, share)
        total = [
            (ax + share * px, ay + share * py)
            for (ax, ay), (px, py) in zip(total, impulses, strict=True)
        ]
        if all(approach_mps(body, touch) < SETTLED for touch in touches):
            break
    return body, total


def _most(
    body: RigidBody, impulses: Sequence[tuple[float, float]], touches: Sequence[Touch]
) -> float:
    """Return the largest factor of the impulses that does not raise the energy, seen from the
    parts."""
    work = 0.0
    for (px, py), touch in zip(impulses, touches, strict=True):
        vx, vy = body.velocity_at(touch.x_m, touch.y_m)
        work += px * (vx - touch.velocity[0]) + py * (vy - touch.velocity[1])
    still = body._replace(vx_mps=0.0, vy_mps=0.0, yaw_rate_radps=0.0).pushed(impulses, touches)
    gain = (
        body.mass_kg * (still.vx_mps**2 + still.vy_mps**2)
        + body.inertia_kgm2 * still.yaw_rate_radps**2
    )
    return max(-2.0 * work / gain, 0.0) if gain > 0.0 else 0.0


def _plastic(body: RigidBody, touches: Sequence[Touch]) -> list[tuple[float, float]]:
    """Return the impulses that stop every approach, by projected Gauss-Seidel."""
    normal, across = [0.0] * len(touches), [0.0] * len(touches)
    rows = []
    for touch in touches:
        nx, ny = touch.normal_x, touch.normal_y
        rx, ry = touch.x_m - body.x_m, touch.y_m - body.y_m
        turn_n, turn_t = rx * ny - ry * nx, rx * nx + ry * ny
        give_n = 1.0 / body.mass_kg + turn_n * turn_n / body.inertia_kgm2
        give_t = 1.0 / body.mass_kg + turn_t * turn_t / body.inertia_kgm2
        rows.append(
            (
                nx,
                ny,
                rx,
                ry,
                turn_n,
                turn_t,
                give_n,
                give_t,
                *touch.velocity,
                touch.surface.friction,
            )
        )
    vx, vy, rate = body.vx_mps, body.vy_mps, body.yaw_rate_radps
    for _ in range(ROUNDS):
        largest = 0.0
        for k, (nx, ny, rx, ry, turn_n, turn_t, give_n, give_t, ux, uy, friction) in enumerate(
            rows
        ):
            approach = (vx - rate * ry - ux) * nx + (vy + rate * rx - uy) * ny
            more = max(normal[k] - approach / give_n, 0.0) - normal[k]
            normal[k] += more
            vx = vx + more * nx / body.mass_kg
            vy = vy + more * ny / body.mass_kg
            rate = rate + more * turn_n / body.inertia_kgm2
            # The tangent is the normal turned to the left.
            slide = -(vx - rate * ry - ux) * ny + (vy + rate * rx - uy) * nx
            most = friction * normal[k]
            side = min(max(across[k] - slide / give_t, -most), most) - across[k]
            across[k] += side
            vx = vx - side * ny / body.mass_kg
            vy = vy + side * nx / body.mass_kg
            rate = rate + side * turn_t / body.inertia_kgm2
            largest = max(largest, abs(more) * give_n, abs(side) * give_t)
        if largest < SETTLED:
            break
    return [
        (n * row[0] - t * row[1], n * row[1] + t * row[0]) for n, t,
        row in zip(normal, across, rows, strict=True)
    ]  # fmt: skip
