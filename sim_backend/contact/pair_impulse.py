"""Impulses between two rigid bodies that touch: equal and opposite, within the friction cone, with
rebound, never a gain of energy.

The rules are those of :mod:`.impulse` with both bodies free: what one gains in momentum, the other
loses.
"""

from collections.abc import Sequence

from sim_backend.contact.geometry import Touch
from sim_backend.contact.impulse import PASSES, REBOUND_MPS, ROUNDS, SETTLED, RigidBody

Impulses = list[tuple[float, float]]


def closing_mps(first: RigidBody, second: RigidBody, touch: Touch) -> float:
    """Return the speed at which two bodies approach at a touching point, whose normal points to
    the first; negative if they part."""
    ux, uy = _relative(first, second, touch)
    return -(ux * touch.normal_x + uy * touch.normal_y)


def struck_pair(
    first: RigidBody, second: RigidBody, touches: Sequence[Touch]
) -> tuple[RigidBody, RigidBody, Impulses]:
    """Return both bodies after the impulses of their touching points, and these impulses (x, y) on
    the first in N s."""
    total: Impulses = [(0.0, 0.0)] * len(touches)
    for number in range(PASSES):
        rebound = [
            1.0
            + (
                touch.surface.restitution
                if number == 0 and closing_mps(first, second, touch) > REBOUND_MPS
                else 0.0
            )
            for touch in touches
        ]
        impulses = [
            (factor * px, factor * py)
            for factor, (px, py) in zip(rebound, _plastic(first, second, touches), strict=True)
        ]
        share = min(1.0, _most(first, second, impulses, touches))
        first = first.pushed(impulses, touches, share)
        second = second.pushed(impulses, touches, -share)
        total = [
            (ax + share * px, ay + share * py)
            for (ax, ay), (px, py) in zip(total, impulses, strict=True)
        ]
        if all(closing_mps(first, second, touch) < SETTLED for touch in touches):
            break
    return first, second, total


def _relative(first: RigidBody, second: RigidBody, touch: Touch) -> tuple[float, float]:
    ax, ay = first.velocity_at(touch.x_m, touch.y_m)
    bx, by = second.velocity_at(touch.x_m, touch.y_m)
    return ax - bx, ay - by


def _most(
    first: RigidBody, second: RigidBody, impulses: Impulses, touches: Sequence[Touch]
) -> float:
    """Return the largest factor of the impulses that does not raise the energy of both."""
    work = 0.0
    for (px, py), touch in zip(impulses, touches, strict=True):
        ux, uy = _relative(first, second, touch)
        work += px * ux + py * uy
    gain = 0.0
    for body in (first, second):
        still = body._replace(vx_mps=0.0, vy_mps=0.0, yaw_rate_radps=0.0).pushed(impulses, touches)
        gain += (
            body.mass_kg * (still.vx_mps**2 + still.vy_mps**2)
            + body.inertia_kgm2 * still.yaw_rate_radps**2
        )
    return max(-2.0 * work / gain, 0.0) if gain > 0.0 else 0.0


def _plastic(first: RigidBody, second: RigidBody, touches: Sequence[Touch]) -> Impulses:
    """Return the impulses that stop every approach, by projected Gauss-Seidel."""
    normal, across = [0.0] * len(touches), [0.0] * len(touches)
    rows = []
    for touch in touches:
        nx, ny = touch.normal_x, touch.normal_y
        ax, ay = touch.x_m - first.x_m, touch.y_m - first.y_m
        bx, by = touch.x_m - second.x_m, touch.y_m - second.y_m
        # The tangent is the normal turned to the left.
        turns = (
            (ax * ny - ay * nx) / first.inertia_kgm2,
            (bx * ny - by * nx) / second.inertia_kgm2,
            (ax * nx + ay * ny) / first.inertia_kgm2,
            (bx * nx + by * ny) / second.inertia_kgm2,
        )
        give = 1.0 / first.mass_kg + 1.0 / second.mass_kg
        give_n = give + turns[0] * (ax * ny - ay * nx) + turns[1] * (bx * ny - by * nx)
        give_t = give + turns[2] * (ax * nx + ay * ny) + turns[3] * (bx * nx + by * ny)
        rows.append((nx, ny, ax, ay, bx, by, *turns, give_n, give_t, touch.surface.friction))
    of_a, of_b = 1.0 / first.mass_kg, 1.0 / second.mass_kg
    vx, vy, rate = first.vx_mps, first.vy_mps, first.yaw_rate_radps
    ux, uy, spin = second.vx_mps, second.vy_mps, second.yaw_rate_radps
    for _ in range(ROUNDS):
        largest = 0.0
        for k, (nx, ny, ax, ay, bx, by, an, bn, at, bt, give_n, give_t, friction) in enumerate(
            rows
        ):
            wx, wy = vx - rate * ay - ux + spin * by, vy + rate * ax - uy - spin * bx
            more = max(normal[k] - (wx * nx + wy * ny) / give_n, 0.0) - normal[k]
            normal[k] += more
            vx, vy, rate = vx + more * nx * of_a, vy + more * ny * of_a, rate + more * an
            ux, uy, spin = ux - more * nx * of_b, uy - more * ny * of_b, spin - more * bn
            wx, wy = vx - rate * ay - ux + spin * by, vy + rate * ax - uy - spin * bx
            most = friction * normal[k]
            side = min(max(across[k] - (wy * nx - wx * ny) / give_t, -most), most) - across[k]
            across[k] += side
            vx, vy, rate = vx - side * ny * of_a, vy + side * nx * of_a, rate + side * at
            ux, uy, spin = ux + side * ny * of_b, uy - side * nx * of_b, spin - side * bt
            largest = max(largest, abs(more) * give_n, abs(side) * give_t)
        if largest < SETTLED:
            break
    return [
        (n * touch.normal_x - t * touch.normal_y, n * touch.normal_y + t * touch.normal_x)
        for n, t, touch in zip(normal, across, touches, strict=True)
    ]
