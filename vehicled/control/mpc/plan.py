"""One step of the steering optimisation: roll out, linearise, solve, extract.

Real-time iteration (Diehl et al. 2005): one linearisation and one quadratic program per tick, about
the last plan shifted by the elapsed time. The nominal motion is rolled out with the nonlinear
single-track model from the state in which the command takes effect, so the program needs no affine
terms. Each pose has its own projection on the path; the published error-state controller used one
error at one point, and omitted the turn of the path (theta_r' dt) and the distance covered (A14 =
dt). Arrays are allocated once.
"""

from math import inf, isfinite, remainder, tan, tau
from typing import NamedTuple

import numpy as np

from vehicled.control.mpc.path import Leg, Rows
from vehicled.control.mpc.qp import WHEEL, Complex, HorizonQp
from vehicled.control.mpc.qp_solver import Solver
from vehicled.core.arrays import Array
from vehicled.core.messages import ControlReason


class PlanStart(NamedTuple):
    """State in which the command takes effect, with signed speed, and the speed cap."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    wheel_rad: float
    cap_mps: float = inf


class PlanLimits(NamedTuple):
    """Limits of the plan."""

    wheelbase_m: float
    lowest_wheel_rad: float
    highest_wheel_rad: float
    rate_radps: float
    lateral_mps2: float
    lateral_wheelbase_m: float
    """Wheelbase from which the command gate computes the lateral acceleration, whatever the turns
    measure."""
    acceleration_mps2: float
    """Acceleration towards the speed of the profile, m/s2."""
    deceleration_mps2: float
    corridor_m: float


class SteeringPlan(NamedTuple):
    """Wheel angles (N + 1,) at the ends of the stages, beginning with the start's; None if a reason
    is given."""

    wheel_rad: Array | None
    reason: ControlReason
    iterations: int


MIN_SPEED_MPS = 0.1
"""Lowest speed of the nominal motion, m/s; at standstill steering has no effect, but a plan is
needed for the start."""


class SteeringPlanner:
    """Planner of the wheel angles over N = ``stages`` stages of ``dt_s``; keeps the last plan."""

    def __init__(self, program: HorizonQp, solver: Solver, dt_s: float) -> None:
        self._program, self._solver, self._dt_s = program, solver, dt_s
        n = program.stages
        # The plan has one angle more than the horizon, so that shifting it by part of a stage is
        # one interpolation.
        self._plan = np.zeros(n + 2)
        self._has_plan = False
        self._wheel = np.zeros(n + 1)
        self._middle = np.zeros(n)
        self._yaw = np.zeros(n + 1)
        self._place: Complex = np.zeros(n + 1, dtype=np.complex128)
        self._place_xy = self._place.view(np.float64).reshape(n + 1, 2)
        self._projections: Rows = np.zeros(n, dtype=np.intp)
        self._leg: Leg | None = None
        self._stages = np.arange(1.0, n + 1)
        self._turned_rad = np.zeros(n)
        """Angle by which the wheels turn until the end of each stage."""
        self._faster = np.zeros(n)
        self._slower = np.zeros(n)
        self._speed = np.zeros(n)
        # Constants are arrays, because a Python scalar costs as much again as the operation.
        self._half = np.full(n, 0.5)
        self._minus_half = -self._half
        self._half_turned: Complex = 1j * self._half
        self._limits: PlanLimits | None = None
        self._bent = False
        """True if the wheel limits vary over the horizon."""

    def forget(self) -> None:
        """Forget the last plan and start the solver cold."""
        self._has_plan = False
        self._leg = None
        self._solver.forget()

    def step(
        self, leg: Leg, projection_m: float, start: PlanStart, limits: PlanLimits, shift_s: float
    ) -> SteeringPlan:
        """Return the plan from ``start``, whose projection is at arc length ``projection_m``.
        ``shift_s`` is the time since the last plan."""
        if limits is not self._limits:
            self._adapt(limits)
        if not isfinite(start.x_m + start.y_m + start.yaw_rad + start.speed_mps + start.wheel_rad):
            self._has_plan = False
            return SteeringPlan(None, ControlReason.NOT_FINITE, 0)
        turned = self._linearise(leg, projection_m, start, limits, shift_s)
        # Both are running sums, so an overflow anywhere shows at the end.
        end = self._place_xy[-1]
        if not isfinite(end[0] + end[1] + self._yaw[-1]):
            self._has_plan = False
            return SteeringPlan(None, ControlReason.NOT_FINITE, 0)
        self._bound(start, limits)
        self._program.fill(turned)
        x, reason, iterations = self._solver.solve()
        wheel = self._plan
        # Without a solution the next step continues from the nominal motion, as the solver does
        # from its last iterate.
        wheel[:-1] = self._wheel
        if x is not None:
            wheel[1:-1] += x[WHEEL]
        wheel[-1] = wheel[-2]
        self._has_plan = True
        return SteeringPlan(None if x is None else wheel[:-1], reason, iterations)

    def _adapt(self, limits: PlanLimits) -> None:
        self._limits = limits
        self._bent = False
        self._widest_tangent = tan(max(limits.highest_wheel_rad, -limits.lowest_wheel_rad))
        lowest = self._program.lowest
        highest = self._program.highest
        turn_rad = limits.rate_radps * self._dt_s
        lowest[0], highest[0] = -turn_rad, turn_rad
        lowest[1], highest[1] = limits.lowest_wheel_rad, limits.highest_wheel_rad
        lowest[2], highest[2] = -limits.corridor_m, limits.corridor_m
        np.multiply(self._stages, turn_rad, out=self._turned_rad)
        np.multiply(self._stages, limits.acceleration_mps2 * self._dt_s, out=self._faster)
        np.multiply(self._stages, -limits.deceleration_mps2 * self._dt_s, out=self._slower)
        if self._has_plan:
            np.clip(self._plan, limits.lowest_wheel_rad, limits.highest_wheel_rad, out=self._plan)

    def _linearise(
        self, leg: Leg, projection_m: float, start: PlanStart, limits: PlanLimits, shift_s: float
    ) -> Complex:
        """Write the linearised motion into the program; return exp(i D_k) of the path."""
        wheel, middle, motion = self._wheel, self._middle, self._program.motion
        row = leg.row(projection_m)
        self._shift(start, shift_s)
        after, before = wheel[1:], wheel[:-1]
        np.subtract(after, before, out=motion.turn_rad)
        motion.wheel_rad[:] = after
        np.add(after, before, out=middle)
        middle *= self._half
        step_m = self._steps_m(leg, row, start)

        # Roll-out: midpoint rule.
        tangent = np.tan(middle)
        step = step_m / limits.wheelbase_m
        yaw = self._yaw
        near_rad = leg.yaw_list[row]
        yaw[0] = near_rad + remainder(start.yaw_rad - near_rad, tau)
        after = yaw[1:]
        np.multiply(step, tangent, out=after)
        np.add.accumulate(yaw, out=yaw)
        np.add(after, yaw[:-1], out=middle)
        moves = np.exp(np.multiply(middle, self._half_turned))
        moves *= step_m
        place = self._place
        place[0] = complex(start.x_m, start.y_m) - leg.origin
        ahead = place[1:]
        ahead[:] = moves
        np.add.accumulate(place, out=place)

        # Projections: nearest sample, then along its tangent and arc.
        projections = self._projections = leg.nearest(
            self._place_xy[1:], row, np.add.accumulate(np.abs(step_m))
        )
        back = leg.back_tangent.take(projections)
        off = ahead - leg.place.take(projections)
        off *= back
        bend = leg.curvature_per_m.take(projections)
        along = off.real
        bend *= along
        np.subtract(after, leg.yaw_rad.take(projections), out=motion.yaw_rad)
        np.subtract(motion.yaw_rad, bend, out=motion.yaw_rad)
        bend *= along
        bend *= self._half
        np.subtract(off.imag, bend, out=motion.left_m)

        # Half of the derivatives, because they apply to the mean over the stage.
        moves *= back
        np.multiply(moves.imag, self._minus_half, out=motion.along_per_yaw)
        np.multiply(moves.real, self._half, out=motion.left_per_yaw)
        # 1 / cos^2 = 1 + tan^2.
        step *= self._half
        tangent *= tangent
        tangent *= step
        np.add(tangent, step, out=motion.yaw_per_wheel)
        turned = back[1:].conj()
        turned *= back[:-1]
        return turned

    def _shift(self, start: PlanStart, shift_s: float) -> None:
        """Set the nominal wheel angles from the predicted one on: the last plan, shifted by the
        elapsed time; without a plan, straight ahead as soon as the wheels can be."""
        wheel, plan = self._wheel, self._plan
        if not self._has_plan:
            # A wheel that was left at its lock would roll out to a circle, about which turning on
            # looks like the way back.
            wheel[0] = start.wheel_rad
            np.subtract(abs(start.wheel_rad), self._turned_rad, out=wheel[1:])
            np.maximum(wheel[1:], 0.0, out=wheel[1:])
            np.copysign(wheel[1:], start.wheel_rad, out=wheel[1:])
            return
        fraction = min(shift_s / self._dt_s, 1.0)
        np.subtract(plan[1:], plan[:-1], out=wheel)
        wheel *= fraction
        wheel += plan[:-1]
        wheel[0] = start.wheel_rad

    def _steps_m(self, leg: Leg, row: int, start: PlanStart) -> Array:
        """Return the signed distance of each stage, from the present speed to that of the profile
        along the last motion."""
        if leg is not self._leg:
            self._leg = leg
            self._projections.fill(row)
        speed = self._speed = leg.speed_mps.take(self._projections)
        present = leg.direction * start.speed_mps
        np.minimum(speed, np.minimum(self._faster + present, start.cap_mps), out=speed)
        np.maximum(speed, self._slower + present, out=speed)
        np.maximum(speed, MIN_SPEED_MPS, out=speed)
        return speed * (leg.direction * self._dt_s)

    def _bound(self, start: PlanStart, limits: PlanLimits) -> None:
        """Set the wheel limits over the horizon. An angle beyond them returns at the slew rate, so
        that they are feasible."""
        lowest, highest = self._program.lowest[1], self._program.highest[1]
        fastest = float(np.maximum.reduce(self._speed))
        tangent_mps2 = limits.lateral_mps2 * limits.lateral_wheelbase_m
        grips = fastest * fastest * self._widest_tangent <= tangent_mps2
        if grips and limits.lowest_wheel_rad <= start.wheel_rad <= limits.highest_wheel_rad:
            if self._bent:
                lowest[:], highest[:] = limits.lowest_wheel_rad, limits.highest_wheel_rad
                self._bent = False
            return
        self._bent = True
        # The gate judges the first angle at the present speed, which a braking plan leaves behind.
        self._speed[0] = max(self._speed[0], abs(start.speed_mps))
        grip = np.arctan(tangent_mps2 / (self._speed * self._speed))
        way_back = limits.rate_radps * self._dt_s * self._stages
        np.minimum(
            np.maximum(-grip, limits.lowest_wheel_rad), start.wheel_rad + way_back, out=lowest
        )
        np.maximum(
            np.minimum(grip, limits.highest_wheel_rad), start.wheel_rad - way_back, out=highest
        )
