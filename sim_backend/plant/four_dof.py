"""4-DOF plant: motor map and slip-free single track, rear-axle reference. Unjhawala et al. 2023,
"4-DOF model".

    dx/dt = v cos(yaw)   dy/dt = v sin(yaw)   dyaw/dt = v tan(wheel) / wheelbase
    dv/dt = (r gamma / I) (f1 - f0)

The speed equation is linear between inputs and solved exactly. The heading turns by the travelled
distance times the mean curvature of the step, and the position follows the chord of that arc. The
vehicle never rolls back: friction and brake end at rest. Backward (throttle below 0) it is the same
with the signs turned.
"""

from math import cos, exp, expm1, sin, tan

from sim_backend.plant.interface import Motion, StartPose, slowed
from vehicled.profile.schema import Sim

GRIP_MPS2 = 8.0
"""Deceleration of a slide that a contact has begun; the model itself never slides."""


class FourDof:
    """See the module. Scalar floats on purpose: a step costs about a microsecond, an array
    operation alone that much."""

    def __init__(self, sim: Sim, pose: StartPose, step_s: float, speed_mps: float = 0.0) -> None:
        drive = sim.drive
        assert drive is not None, "the profile's own rules see to it"
        assert sim.wheelbase_m is not None, "the profile's own rules see to it"
        reduced_m = drive.wheel_radius_m * drive.gear_ratio
        force_per_torque = reduced_m / drive.inertia_kgm2
        damping_per_s = (
            drive.stall_torque_nm / drive.no_load_speed_radps + drive.viscous_nms
        ) / drive.inertia_kgm2
        # Exact solution of dv/dt = a - damping v over one step: v' = decay v + response a.
        self._decay = exp(-damping_per_s * step_s)
        self._response_s = (
            -expm1(-damping_per_s * step_s) / damping_per_s if damping_per_s > 0.0 else step_s
        )
        self._stall_mps2 = force_per_torque * drive.stall_torque_nm
        self._friction_mps2 = force_per_torque * drive.friction_nm
        self._brake_mps2 = drive.brake_deceleration_mps2
        self._reduced_m = reduced_m
        self._wheel_radius_m = drive.wheel_radius_m
        self._wheelbase_m = sim.wheelbase_m
        self._step_s = step_s
        self._x_m, self._y_m, self._yaw_rad = pose
        self._speed_mps = speed_mps
        self._wheel_angle_rad = 0.0
        self._curvature_per_m = 0.0
        self._yaw_rate_radps = 0.0
        self._front_share = 1.0
        self._acceleration_mps2 = 0.0
        self._yaw_acceleration_radps2 = 0.0
        self._rear_slide_mps = 0.0
        self._front_slide_mps = 0.0
        self._shock_mps2 = 0.0
        self.motor_speed_radps = 0.0

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        """Advance one grid step; see :class:`sim_backend.plant.interface.Plant`. Never raises for
        finite inputs."""
        step_s = self._step_s
        before_mps = self._speed_mps
        backward = before_mps < 0.0 or (throttle < 0.0 and before_mps == 0.0)
        if backward:
            before_mps, throttle = -before_mps, -throttle
        drive_mps2 = self._stall_mps2 * throttle - self._friction_mps2 - self._brake_mps2 * brake
        speed_mps = self._decay * before_mps + self._response_s * drive_mps2
        if speed_mps > 0.0:
            travelled_m = 0.5 * (before_mps + speed_mps) * step_s
        else:
            # Standstill is reached inside the step, at the fraction before / (before - after), and
            # then held.
            travelled_m = (
                0.5 * before_mps * before_mps / (before_mps - speed_mps) * step_s
                if before_mps > 0.0
                else 0.0
            )
            speed_mps = 0.0
        if backward:
            before_mps, travelled_m = -before_mps, -travelled_m
            speed_mps = -speed_mps if speed_mps else 0.0
        mean_curvature_per_m = self._curvature_per_m
        if wheel_angle_rad != self._wheel_angle_rad:
            self._wheel_angle_rad = wheel_angle_rad
            self._curvature_per_m = tan(wheel_angle_rad) / self._wheelbase_m
            self._front_share = 1.0 / cos(wheel_angle_rad)
            mean_curvature_per_m = 0.5 * (mean_curvature_per_m + self._curvature_per_m)
        if travelled_m:
            half_turn_rad = 0.5 * travelled_m * mean_curvature_per_m
            # Chord of an arc: sin(h) / h, as a series because h is a few milliradians and may be 0.
            square = half_turn_rad * half_turn_rad
            chord_m = travelled_m * (1.0 - square * (1.0 - 0.05 * square) / 6.0)
            middle_rad = self._yaw_rad + half_turn_rad
            self._x_m += chord_m * cos(middle_rad)
            self._y_m += chord_m * sin(middle_rad)
            self._yaw_rad = middle_rad + half_turn_rad
        yaw_rate_radps = speed_mps * self._curvature_per_m
        self._yaw_acceleration_radps2 = (yaw_rate_radps - self._yaw_rate_radps) / step_s
        self._acceleration_mps2 = (speed_mps - before_mps) / step_s
        self._yaw_rate_radps = yaw_rate_radps
        self._speed_mps = speed_mps
        self._shock_mps2 = 0.0
        self.motor_speed_radps = speed_mps / self._reduced_m
        if self._rear_slide_mps or self._front_slide_mps:
            self._slide()

    def _slide(self) -> None:
        """Move sideways and turn as a contact has pushed the axles, each of which carries half of
        the vehicle."""
        self._rear_slide_mps = slowed(self._rear_slide_mps, GRIP_MPS2 * self._step_s)
        self._front_slide_mps = slowed(self._front_slide_mps, GRIP_MPS2 * self._step_s)
        moved_m = self._rear_slide_mps * self._step_s
        self._x_m -= moved_m * sin(self._yaw_rad)
        self._y_m += moved_m * cos(self._yaw_rad)
        self._yaw_rad += (
            (self._front_slide_mps - self._rear_slide_mps) / self._wheelbase_m * self._step_s
        )

    def rigid_body(self, mass_kg: float) -> tuple[float, float, float]:
        """Return the body with its mass in the middle, and an inertia with which the axles slide
        independently of each other."""
        return mass_kg, mass_kg * (0.5 * self._wheelbase_m) ** 2, 0.5 * self._wheelbase_m

    def strike(
        self, pose: StartPose, speed_mps: float, lateral_speed_mps: float, yaw_rate_radps: float
    ) -> None:
        """Set pose and velocity after a contact. What the wheels do not follow becomes a slide of
        the axles."""
        self._x_m, self._y_m, self._yaw_rad = pose
        self._acceleration_mps2 += (speed_mps - self._speed_mps) / self._step_s
        self._shock_mps2 = (lateral_speed_mps - self._rear_slide_mps) / self._step_s
        self._speed_mps = speed_mps
        self._yaw_rate_radps = speed_mps * self._curvature_per_m
        self._rear_slide_mps = lateral_speed_mps
        self._front_slide_mps = (
            lateral_speed_mps + (yaw_rate_radps - self._yaw_rate_radps) * self._wheelbase_m
        )
        self.motor_speed_radps = speed_mps / self._reduced_m

    def motion(self) -> Motion:
        """State at the newest grid point. A single track has one wheel per axle, so both wheels of
        an axle turn alike."""
        rear_radps = self._speed_mps / self._wheel_radius_m
        front_radps = rear_radps * self._front_share
        yaw_rate_radps = self._yaw_rate_radps
        if self._rear_slide_mps or self._front_slide_mps:
            yaw_rate_radps += (self._front_slide_mps - self._rear_slide_mps) / self._wheelbase_m
        return Motion(
            self._x_m,
            self._y_m,
            self._yaw_rad,
            self._speed_mps,
            self._rear_slide_mps,
            yaw_rate_radps,
            self._acceleration_mps2,
            self._speed_mps * yaw_rate_radps + self._shock_mps2,
            self._yaw_acceleration_radps2,
            self.motor_speed_radps,
            wheel_speeds_radps=(front_radps, front_radps, rear_radps, rear_radps),
        )
