"""Parameters of a vehicle, as the daemon believes them to be. The simulator has a set of its own: the truth of the twin."""

from math import copysign, isfinite, tan
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.messages import Identification

Positive = Annotated[float, Meta(gt=0.0)]
NonNegative = Annotated[float, Meta(ge=0.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
SteeringAngle = Annotated[float, Meta(gt=0.0, lt=1.5)]
Delay = Annotated[float, Meta(ge=0.0, le=2.0)]
MAX_DELAY_NS = 2_000_000_000
"""Longest delay of an actuator, for those who keep histories."""


class Steering(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Steering actuator: normalised command -1..1 (left positive) to the angle of the virtual front wheel.

    ``wheel_angle = offset_rad + gain_rad * effective(command(t - delay_s))``, slewed at ``rate_radps``, cut at ``max_wheel_rad``.
    Commands smaller than ``dead_zone`` do nothing; beyond it the rest of the range is used in full.
    """

    gain_rad: Positive
    """Wheel angle per unit command."""
    offset_rad: Annotated[float, Meta(ge=-0.5, le=0.5)] = 0.0
    max_wheel_rad: SteeringAngle
    rate_radps: Positive
    delay_s: Delay
    dead_zone: Annotated[float, Meta(ge=0.0, lt=0.9)] = 0.0

    def wheel_angle_rad(self, command: float) -> float:
        """Angle that a command -1..1 leads to, when the wheel has followed."""
        effective = max(abs(command) - self.dead_zone, 0.0) / (1.0 - self.dead_zone)
        return self.offset_rad + self.gain_rad * copysign(effective, command)

    def command(self, wheel_angle_rad: float) -> float:
        """Command -1..1 that leads to an angle, or as near to it as the range allows. Finite for finite angles."""
        wanted = (wheel_angle_rad - self.offset_rad) / self.gain_rad
        if wanted == 0.0:
            return 0.0
        return min(1.0, max(-1.0, wanted * (1.0 - self.dead_zone) + copysign(self.dead_zone, wanted)))


class Drive(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Longitudinal map of the 4-DOF model: DC motor, gear, losses.

    ``dv/dt = (r gear / I) (f1 - f0)`` with ``f1 = stall_torque throttle - stall_torque v / (no_load r gear)`` and
    ``f0 = viscous v / (r gear) + friction``. Unjhawala et al. 2023; tau0, omega0, c1, c0, gamma, r, I there. Backward all of it
    is mirrored: throttle and speed negative, friction and brake against the motion.
    """

    stall_torque_nm: Positive
    no_load_speed_radps: Positive
    friction_nm: NonNegative
    viscous_nms: NonNegative
    gear_ratio: Positive
    wheel_radius_m: Positive
    inertia_kgm2: Positive
    delay_s: Delay
    brake_deceleration_mps2: NonNegative = 0.0
    """Deceleration of the full brake; 0 for a vehicle that can only coast."""
    reverse_share: Share = 0.0
    """Largest share of full drive that is used backward; 0 for a vehicle that cannot reverse."""

    def acceleration_mps2(self, throttle: float, speed_mps: float, brake: float = 0.0) -> float:
        """Acceleration at a throttle -1..1 and a speed, both negative backward, and a brake 0..1; rolling friction included.

        Friction and brake stand against the motion; at rest against the drive, forward without any, where a result against the
        drive means that it does not move off: :meth:`settled_mps` keeps it standing.
        """
        reduced = self.wheel_radius_m * self.gear_ratio
        motor_speed = speed_mps / reduced
        drive = self.stall_torque_nm * (throttle - motor_speed / self.no_load_speed_radps)
        backward = speed_mps < 0.0 or (speed_mps == 0.0 and throttle < 0.0)
        sign = -1.0 if backward else 1.0
        rolling = (drive - self.viscous_nms * motor_speed - sign * self.friction_nm) * reduced / self.inertia_kgm2
        return rolling - sign * (brake * self.brake_deceleration_mps2)

    def settled_mps(self, before_mps: float, after_mps: float, throttle: float) -> float:
        """Speed at the end of a step over which ``acceleration_mps2`` gave ``after_mps``: friction and brake end at rest.

        They stop a motion and never begin one, and what stands moves off the way the throttle says or not at all.
        """
        if before_mps > 0.0 or (before_mps == 0.0 and throttle >= 0.0):
            return max(0.0, after_mps)
        return min(0.0, after_mps)

    @property
    def top_speed_mps(self) -> float:
        """Steady speed at full throttle."""
        return self._steady_speed_mps(1.0)

    @property
    def top_reverse_speed_mps(self) -> float:
        """Steady speed backward at ``reverse_share``, as a magnitude; 0 for a vehicle that cannot reverse."""
        return max(0.0, self._steady_speed_mps(self.reverse_share))

    def _steady_speed_mps(self, throttle: float) -> float:
        slope = self.stall_torque_nm / self.no_load_speed_radps + self.viscous_nms
        torque_nm = self.stall_torque_nm * throttle - self.friction_nm
        return torque_nm * self.wheel_radius_m * self.gear_ratio / slope

    def steady_throttle(self, speed_mps: float) -> float:
        """Throttle that holds a speed; may exceed 1 when the vehicle cannot reach it. Negative backward; at 0 that before moving
        off forward."""
        motor_speed = speed_mps / (self.wheel_radius_m * self.gear_ratio)
        loss = self.viscous_nms * motor_speed + (self.friction_nm if speed_mps >= 0.0 else -self.friction_nm)
        return loss / self.stall_torque_nm + motor_speed / self.no_load_speed_radps


class Vehicle(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Geometry and actuators of one vehicle. The reference point is the middle of the rear axle; see ``skid_steer``."""

    wheelbase_m: Positive
    track_m: Positive
    length_m: Positive
    width_m: Positive
    mass_kg: Positive
    understeer_rad_per_mps2: Annotated[float, Meta(ge=0.0, le=0.05)] = 0.0
    """Wheel angle that a lateral acceleration takes beyond that of the wheelbase; 0 for a vehicle whose tyres do not slip."""
    rear_slip_rad_per_mps2: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    """Slip angle of the rear axle by lateral acceleration: it does not move where the vehicle points."""
    path_lag_s_per_mps: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    """Time by speed from a turn of the wheels to the bend in the path of the rear axle, which yaw and tyres take."""
    skid_steer: bool = False
    """No wheel turns: the sides are driven apart. The reference point is then the middle of the wheels, which does not slip
    sideways, and not that of the rear axle, which does by half the distance of the axles times the yaw rate."""
    steering: Steering
    drive: Drive

    @property
    def centre_m(self) -> float:
        """Distance of the middle of the body ahead of the reference point."""
        return 0.0 if self.skid_steer else 0.5 * self.wheelbase_m

    @property
    def min_turn_radius_m(self) -> float:
        """Radius of the rear axle's path at full lock."""
        return self.wheelbase_m / tan(self.steering.max_wheel_rad)

    def turning_base_m(self, speed_mps: float) -> float:
        """Wheelbase of the vehicle without slip that turns as this one does in steady turns at a speed: l + K v^2."""
        return self.wheelbase_m + self.understeer_rad_per_mps2 * speed_mps * speed_mps

    def identified(self, found: Identification) -> "Vehicle":
        """This vehicle with what has been identified in place of what was believed."""
        steering, drive = self.steering, self.drive
        if isfinite(found.steering_gain_sigma_rad):
            steering = replace(
                steering,
                gain_rad=found.steering_gain_rad,
                # The full command may reach less far than the stop, and who plans must know the tightest turn there is.
                max_wheel_rad=min(steering.max_wheel_rad, found.steering_gain_rad + abs(found.steering_offset_rad)),
                offset_rad=found.steering_offset_rad,
                delay_s=found.steering_delay_s,
                dead_zone=found.steering_dead_zone,
            )
        if isfinite(found.drive_authority_sigma_mps2):
            reduced_m = drive.wheel_radius_m * drive.gear_ratio
            torque_per_mps2 = drive.inertia_kgm2 / reduced_m
            stall_nm = found.drive_authority_mps2 * torque_per_mps2
            # Both the back electromotive force and viscous losses grow with speed; data cannot tell them apart.
            back_emf = max(found.drive_damping_per_s * drive.inertia_kgm2 - drive.viscous_nms, 1e-9)
            drive = replace(
                drive,
                stall_torque_nm=stall_nm,
                no_load_speed_radps=stall_nm / back_emf,
                friction_nm=found.drive_friction_mps2 * torque_per_mps2,
            )
        return replace(self, steering=steering, drive=drive)


class Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the vehicle must never exceed, whoever commands it, and how long it may drive on without news."""

    max_speed_mps: Positive
    max_lateral_acceleration_mps2: Positive
    corridor_m: Positive
    """Half width of the corridor round the course; leaving it stops the vehicle."""
    capped_speed_mps: Positive = 0.5
    """Speed allowed while a fault caps it (reaction S1)."""
    gnss_silence_s: Positive = 0.5
    imu_silence_s: Positive = 0.05
    estimate_silence_s: Positive = 0.025
    """Age of the state estimate beyond which the brake is applied."""
    control_silence_s: Positive = 0.05
    """Age of the controller's command beyond which the brake is applied."""
    loop_silence_s: Positive = 0.2
    """Commands further apart than this have let the motor controller time out: the drive is over."""
    telemetry_silence_s: Positive = 0.1
    """A motor controller that has told of itself must go on telling so often."""
    teleop_silence_s: Positive = 0.2
    """A stick that has not been read for this long has been let go."""
    ground_silence_s: Positive = 2.0
    """A ground station that has been heard once must be heard so often."""
    stop_without_ground: bool = True
    """Stop when the ground station is lost; otherwise go on."""
    ground_expected: bool = False
    """Arm only when a ground station is heard; otherwise it is watched from when it has been heard once."""
    arming_missed_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.05
    """Share of its deadlines that a task may have missed in the ten seconds before arming; 1 to arm whatever was missed."""
    obstacle_silence_s: Positive = 0.3
    """A sensor of obstacles that is silent for this long counts as an obstacle."""
    obstacle_gap_m: NonNegative = 0.3
    """Left between the vehicle and an obstacle that it stops for."""
    obstacle_side_m: NonNegative = 0.1
    """Room beside the vehicle that must be free, too."""
    rtk_lost_stop_s: Positive = 20.0
    """How long a drive may go on after RTK was lost."""
    gnss_refusals: Annotated[int, Meta(ge=1, le=100)] = 5
    """Fixes in a row that the estimator's gate may refuse."""
    speed_mismatch_s: Positive = 0.5
    not_moving_s: Positive = 2.0
    uncommanded_s: Positive = 0.3
    overspeed_mps: Positive = 0.5
    """How far beyond ``max_speed_mps`` is overspeed."""
    motor_hot_k: Positive = 353.0
    """Motor or controller hotter than this are spared; 15 K more stop the drive."""
    battery_resistance_ohm: NonNegative = 0.02
    battery_low_v: NonNegative = 0.0
    """Voltage without load below which the speed is capped; 0 where the controller tells none."""
    battery_empty_v: NonNegative = 0.0
    """Voltage without load below which the vehicle stops."""
    still_rate_radps: Positive = 0.03
    """Mean angular rate that an IMU at rest may show."""
    still_force_mps2: Positive = 0.6
    """How far from gravity the mean specific force at rest may be."""
    max_acceleration_mps2: Positive = 3.0
    """Of the drive, by its model. Nothing limits how the vehicle slows down."""
    max_jerk_mps3: Positive = 50.0
    """With which drive may build up."""
    max_lateral_jerk_mps3: Positive = 30.0
    max_steering_rate_radps: Positive = 7.0
    """Of the wheel angle commanded; far above what the actuator follows, so that it only shows who steers wildly."""


class ControlFrameParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How fast the controller's pose follows a jump of the estimate."""

    position_rate_mps: Positive = 0.3
    """At 1 m/s this looks to the controller like a heading error of 0.3 rad, which it follows without saturating."""
    yaw_rate_radps: Positive = 0.2
    """A few times less than what steering at full lock does to the yaw at 1 m/s."""
    immediate_m: NonNegative = 0.004
    """Differences up to this pass at once, as up to the next: no controller feels them."""
    immediate_rad: NonNegative = 0.003
    max_time_s: Annotated[float, Meta(ge=0.1, le=30.0)] = 2.0
    """A jump is worked off within this time, however large: then faster than at the rates above."""
