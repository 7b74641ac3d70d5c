"""Vehicle parameters and limits as the daemon believes them. The simulator has its own set: the
truth of the twin."""

from math import atan, copysign, hypot, isfinite, tan
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.core.clamp import clamp
from vehicled.core.messages import Identification

Positive = Annotated[float, Meta(gt=0.0)]
NonNegative = Annotated[float, Meta(ge=0.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
SteeringAngle = Annotated[float, Meta(gt=0.0, lt=1.5)]
Delay = Annotated[float, Meta(ge=0.0, le=2.0)]
STANDSTILL_MPS = 0.05
"""Speed below which the vehicle counts as standing: an estimated or measured speed is hardly ever
0."""
REST_MPS = 0.1
"""Estimated or recorded speed below which a vehicle without throttle counts as at rest: errors of
the estimate are within it."""
MOVING_MPS = 0.15
"""Speed above which an estimate shows motion for certain, m/s, of a vehicle that drives at a metre
per second or faster."""
MAX_DELAY_NS = 2_000_000_000
"""Longest delay of an actuator; command histories must reach back this far."""


def standing_below_mps(asked_mps: float, noise_mps: float, most_mps: float = MOVING_MPS) -> float:
    """Return the speed below which a vehicle that was asked for a speed counts as standing: a
    quarter of it, or noise up to a half.

    ``asked_mps`` >= 0, NaN if unknown; ``most_mps``: for any speed asked.
    """
    if not isfinite(asked_mps):
        return most_mps
    half_mps = 0.5 * asked_mps
    return clamp(0.25 * asked_mps, half_mps if half_mps < noise_mps else noise_mps, most_mps)


class Outline(NamedTuple):
    """The rectangle of a body about its reference point, m, body frame: x forward, y left."""

    front_m: float
    """Distance from the reference point to the front end."""
    rear_m: float
    """Distance from the reference point to the rear end, positive behind it."""
    half_m: float
    """Half of the width."""

    @property
    def reach_m(self) -> float:
        """Distance from the reference point to the farthest corner."""
        return hypot(max(abs(self.front_m), abs(self.rear_m)), self.half_m)

    def widened(self, room_m: float) -> "Outline":
        """Return the rectangle with more room on every side."""
        return Outline(self.front_m + room_m, self.rear_m + room_m, self.half_m + room_m)


class Steering(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Steering actuator: normalised command -1..1 (left positive) to the angle of the virtual front
    wheel.

    ``wheel_angle = offset_rad + gain_rad * effective(command(t - delay_s))``, slewed at
    ``rate_radps``, limited to ``max_wheel_rad``. Commands below ``dead_zone`` have no effect; the
    rest of the range is scaled to the full angle.
    """

    gain_rad: Positive
    """Wheel angle per unit command."""
    offset_rad: Annotated[float, Meta(ge=-0.5, le=0.5)] = 0.0
    """Wheel angle at command 0, rad, left positive."""
    max_wheel_rad: SteeringAngle
    """Largest wheel angle, rad."""
    rate_radps: Positive
    """Slew rate of the wheel angle, rad/s."""
    delay_s: Delay
    """Time from the command to the first motion, s."""
    dead_zone: Annotated[float, Meta(ge=0.0, lt=0.9)] = 0.0
    """Magnitude of the command below which the wheels do not move, of 1."""

    def wheel_angle_rad(self, command: float) -> float:
        """Return the steady wheel angle of a command -1..1."""
        beyond = abs(command) - self.dead_zone
        effective = (0.0 if beyond < 0.0 else beyond) / (1.0 - self.dead_zone)
        return self.offset_rad + self.gain_rad * copysign(effective, command)

    def command(self, wheel_angle_rad: float) -> float:
        """Return the command -1..1 for a wheel angle, limited to the range. Finite for finite
        angles."""
        wanted = (wheel_angle_rad - self.offset_rad) / self.gain_rad
        if wanted == 0.0:
            return 0.0
        return min(
            1.0, max(-1.0, wanted * (1.0 - self.dead_zone) + copysign(self.dead_zone, wanted))
        )


class Drive(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Longitudinal map of the 4-DOF model: DC motor, gear, losses.

    ``dv/dt = (r gear / I) (f1 - f0)`` with ``f1 = stall_torque throttle - stall_torque v / (no_load
    r gear)`` and ``f0 = viscous v / (r gear) + friction``. Unjhawala et al. 2023; symbols there:
    tau0, omega0, c1, c0, gamma, r, I. In reverse everything is mirrored: throttle and speed are
    negative, friction and brake oppose the motion.
    """

    stall_torque_nm: Positive
    """Motor torque at full throttle and standstill, N m."""
    no_load_speed_radps: Positive
    """Motor speed at full throttle without load, rad/s."""
    friction_nm: NonNegative
    """Dry friction, N m at the motor."""
    viscous_nms: NonNegative
    """Viscous friction, N m per rad/s at the motor."""
    gear_ratio: Positive
    """Ratio of the gear, as in the equation above."""
    wheel_radius_m: Positive
    """Rolling radius of the driven wheels, m."""
    inertia_kgm2: Positive
    """Inertia of vehicle and drive at the motor, kg m2."""
    delay_s: Delay
    """Time from the command to the torque, s."""
    brake_deceleration_mps2: NonNegative = 0.0
    """Deceleration at full brake; 0 for a vehicle that can only coast."""
    reverse_share: Share = 0.0
    """Largest fraction of full drive in reverse; 0 for a vehicle that cannot reverse."""

    def acceleration_mps2(self, throttle: float, speed_mps: float, brake: float = 0.0) -> float:
        """Return the acceleration at a throttle -1..1, a speed (both negative in reverse) and a
        brake 0..1, rolling friction included.

        Friction and brake oppose the motion; at standstill they oppose the drive. A result against
        the drive then means that the vehicle stays at standstill: see :meth:`settled_mps`.
        """
        reduced = self.wheel_radius_m * self.gear_ratio
        motor_speed = speed_mps / reduced
        drive = self.stall_torque_nm * (throttle - motor_speed / self.no_load_speed_radps)
        backward = speed_mps < 0.0 or (speed_mps == 0.0 and throttle < 0.0)
        sign = -1.0 if backward else 1.0
        rolling = (
            (drive - self.viscous_nms * motor_speed - sign * self.friction_nm)
            * reduced
            / self.inertia_kgm2
        )
        return rolling - sign * (brake * self.brake_deceleration_mps2)

    def settled_mps(self, before_mps: float, after_mps: float, throttle: float) -> float:
        """Return the speed after a step in which ``acceleration_mps2`` gave ``after_mps``, with
        static friction.

        Friction and brake stop a motion and never start one; from standstill the vehicle only moves
        in the throttle's direction.
        """
        if before_mps > 0.0 or (before_mps == 0.0 and throttle >= 0.0):
            return after_mps if after_mps > 0.0 else 0.0
        return after_mps if after_mps < 0.0 else 0.0

    @property
    def top_speed_mps(self) -> float:
        """Steady speed at full throttle."""
        return self.steady_speed_mps(1.0)

    @property
    def top_reverse_speed_mps(self) -> float:
        """Steady reverse speed at ``reverse_share``, as a magnitude; 0 for a vehicle that cannot
        reverse."""
        return max(0.0, self.steady_speed_mps(self.reverse_share))

    def steady_speed_mps(self, throttle: float) -> float:
        """Return the forward speed that a throttle 0..1 holds; below 0 if it does not overcome
        friction."""
        slope = self.stall_torque_nm / self.no_load_speed_radps + self.viscous_nms
        torque_nm = self.stall_torque_nm * throttle - self.friction_nm
        return torque_nm * self.wheel_radius_m * self.gear_ratio / slope

    def steady_throttle(self, speed_mps: float) -> float:
        """Return the throttle that holds a speed; beyond 1 if the vehicle cannot reach it, negative
        in reverse.

        At speed 0 it is the throttle that just overcomes friction, forward.
        """
        motor_speed = speed_mps / (self.wheel_radius_m * self.gear_ratio)
        loss = self.viscous_nms * motor_speed + (
            self.friction_nm if speed_mps >= 0.0 else -self.friction_nm
        )
        return loss / self.stall_torque_nm + motor_speed / self.no_load_speed_radps


class Vehicle(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Geometry and actuators of one vehicle. The reference point is the middle of the rear axle;
    see ``skid_steer`` and ``rear_steering_ratio``."""

    wheelbase_m: Positive
    """Distance of the axles, m; of a loaded profile that of ``single_track``."""
    track_m: Positive
    """Distance of the wheels of an axle, m."""
    length_m: Positive
    """Length of the body, m."""
    width_m: Positive
    """Width of the body, m."""
    front_overhang_m: NonNegative | None = None
    """Length of the body ahead of the front axle; None if the body is as long behind the rear axle
    as before the front axle."""
    mass_kg: Positive
    """Mass, kg."""
    understeer_rad_per_mps2: Annotated[float, Meta(ge=0.0, le=0.05)] = 0.0
    """Understeer gradient: extra wheel angle per lateral acceleration; 0 without tyre slip."""
    rear_slip_rad_per_mps2: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    """Rear slip angle per lateral acceleration."""
    path_lag_s_per_mps: Annotated[float, Meta(ge=0.0, le=0.1)] = 0.0
    """Lag per speed from wheel angle to path curvature, caused by yaw inertia and tyres."""
    skid_steer: bool = False
    """True if the sides are driven apart and no wheel turns. The reference point is then the middle
    of the wheels, which does not slip sideways; the rear axle slips by half the axle distance times
    the yaw rate."""
    rear_steering_ratio: Annotated[float, Meta(ge=-1.0, le=0.9)] = 0.0
    """Angle of the rear wheels over that of the front wheels: 0 if they do not turn, -1 if they
    turn as far the other way. The reference point is then the one that does not slip sideways,
    ``-r / (1 - r)`` wheelbases ahead of the rear axle. See ``single_track``."""
    steering: Steering
    """Steering actuator."""
    drive: Drive
    """Drive: motor, gear and losses."""

    @property
    def single_track(self) -> "Vehicle":
        """The front-steered vehicle that moves alike: same front axle, with its rear axle where
        this one does not slip sideways. Exact for small angles and for ratios of 0 and -1. Applied
        once, when a profile is loaded."""
        ratio = self.rear_steering_ratio
        if not ratio:
            return self
        overhang_m = self.front_overhang_m
        return replace(
            self,
            wheelbase_m=self.wheelbase_m / (1.0 - ratio),
            front_overhang_m=0.5 * (self.length_m - self.wheelbase_m)
            if overhang_m is None
            else overhang_m,
        )

    @property
    def axle_distance_m(self) -> float:
        """Distance of the axles of a vehicle of a loaded profile."""
        return self.wheelbase_m * (1.0 - self.rear_steering_ratio)

    @property
    def centre_m(self) -> float:
        """Distance of the middle of the body ahead of the reference point."""
        middle_m = 0.0 if self.skid_steer else 0.5 * self.wheelbase_m
        if self.front_overhang_m is None:
            return middle_m
        return middle_m + 0.5 * self.wheelbase_m + self.front_overhang_m - 0.5 * self.length_m

    @property
    def outline(self) -> Outline:
        """The body, with its overhangs."""
        half_m = 0.5 * self.length_m
        return Outline(half_m + self.centre_m, half_m - self.centre_m, 0.5 * self.width_m)

    @property
    def min_turn_radius_m(self) -> float:
        """Turning radius of the rear axle at full lock."""
        return self.wheelbase_m / tan(self.steering.max_wheel_rad)

    def effective_wheelbase_m(self, speed_mps: float) -> float:
        """Return the effective wheelbase at a speed, l + K v^2: that of a slip-free vehicle with
        the same steady turn."""
        return self.wheelbase_m + self.understeer_rad_per_mps2 * speed_mps * speed_mps

    def grip_wheel_rad(self, lateral_mps2: float, speed_mps: float) -> float:
        """Return the largest wheel angle at which a speed > 0 stays within a lateral
        acceleration."""
        return atan(self.effective_wheelbase_m(speed_mps) * lateral_mps2 / (speed_mps * speed_mps))

    def identified(self, found: Identification) -> "Vehicle":
        """Return this vehicle with the identified parameters."""
        steering, drive = self.steering, self.drive
        if isfinite(found.steering_gain_sigma_rad):
            steering = replace(
                steering,
                gain_rad=found.steering_gain_rad,
                # The full command may not reach the stop; planners need the tightest turn that is
                # possible.
                max_wheel_rad=min(
                    steering.max_wheel_rad, found.steering_gain_rad + abs(found.steering_offset_rad)
                ),
                offset_rad=found.steering_offset_rad,
                delay_s=found.steering_delay_s,
                dead_zone=found.steering_dead_zone,
            )
        if isfinite(found.wheel_scale_sigma):
            drive = replace(drive, wheel_radius_m=drive.wheel_radius_m * found.wheel_scale)
        if isfinite(found.drive_authority_sigma_mps2):
            reduced_m = drive.wheel_radius_m * drive.gear_ratio
            torque_per_mps2 = drive.inertia_kgm2 / reduced_m
            stall_nm = found.drive_authority_mps2 * torque_per_mps2
            # Back EMF and viscous losses both grow with speed; data cannot separate them.
            back_emf = max(found.drive_damping_per_s * drive.inertia_kgm2 - drive.viscous_nms, 1e-9)
            drive = replace(
                drive,
                stall_torque_nm=stall_nm,
                no_load_speed_radps=stall_nm / back_emf,
                friction_nm=found.drive_friction_mps2 * torque_per_mps2,
            )
        return replace(self, steering=steering, drive=drive)


class Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of a vehicle for every mode: speeds, accelerations, distances, and how long each input
    may be silent."""

    max_speed_mps: Positive
    """Largest speed, m/s."""
    max_lateral_acceleration_mps2: Positive
    """Largest lateral acceleration, m/s2; it limits the speed in turns."""
    corridor_m: Positive
    """Half width of the corridor along the course; leaving it stops the vehicle."""
    capped_speed_mps: Positive = 0.5
    """Speed limit of reaction S1."""
    gnss_silence_s: Positive = 0.5
    """Longest silence of the GNSS receiver, s."""
    imu_silence_s: Positive = 0.05
    """Longest silence of the IMU, s."""
    estimate_silence_s: Positive = 0.025
    """Age of the state estimate beyond which the vehicle brakes."""
    control_silence_s: Positive = 0.05
    """Age of the controller's command beyond which the vehicle brakes."""
    loop_silence_s: Positive = 0.2
    """Longest gap between commands; after a longer one the motor controller has timed out and the
    drive ends."""
    telemetry_silence_s: Positive = 0.1
    """Longest silence of a motor controller that sends telemetry."""
    teleop_silence_s: Positive = 0.2
    """Age of a teleop reading beyond which the deadman counts as released."""
    ground_silence_s: Positive = 2.0
    """Longest silence of a ground station after its first heartbeat."""
    stop_without_ground: bool = True
    """True: stop when the ground station is lost. False: continue."""
    ground_expected: bool = False
    """True: arming needs a ground station. False: it is monitored from its first heartbeat on."""
    arming_missed_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.05
    """Largest fraction of deadlines missed by a task in the ten seconds before arming; 1 disables
    the check."""
    obstacle_silence_s: Positive = 0.3
    """Silence of an obstacle sensor that counts as an obstacle."""
    obstacle_gap_m: NonNegative = 0.3
    """Distance kept to an obstacle ahead."""
    obstacle_side_m: NonNegative = 0.1
    """Clearance required beside the vehicle."""
    rtk_lost_stop_s: Positive = 20.0
    """Time after the loss of RTK until the controlled stop."""
    gnss_refusals: Annotated[int, Meta(ge=1, le=100)] = 5
    """Consecutive fixes that the estimator's gate may reject."""
    map_silence_s: Positive = 0.3
    """Time without a scan that fits the map after which the speed is capped, s."""
    map_lost_stop_s: Positive = 1.0
    """Time without a scan that fits the map after which the vehicle stops, s."""
    speed_mismatch_s: Positive = 0.5
    """Time for which wheel speed and estimate may disagree, s."""
    not_moving_s: Positive = 2.0
    """Time for which a vehicle with a command to drive may stand, s."""
    no_progress_s: Positive = 10.0
    """Time without progress after which a drive that is asked to go on is stopped, however slow it
    may be."""
    roll_back_m: Positive = 0.3
    """Distance that the vehicle may roll back while it is asked to go on."""
    uncommanded_s: Positive = 0.3
    """Time of motion without a command that brakes the vehicle, s."""
    overspeed_mps: Positive = 0.5
    """Margin above ``max_speed_mps`` that counts as overspeed."""
    motor_hot_k: Positive = 353.0
    """Temperature of motor or controller that caps the speed; 15 K more stop the drive."""
    battery_resistance_ohm: NonNegative = 0.02
    """Internal resistance, ohm; the voltage drop of the load is added back."""
    battery_low_v: NonNegative = 0.0
    """Open-circuit voltage below which the speed is capped; 0 if the controller reports none."""
    battery_empty_v: NonNegative = 0.0
    """Open-circuit voltage below which the vehicle stops."""
    max_new_course_m: Annotated[float, Meta(ge=10.0, le=20_000.0)] = 5000.0
    """Longest course that a request may set or plan during a run."""
    still_rate_radps: Positive = 0.03
    """Largest mean angular rate of an IMU at standstill."""
    still_force_mps2: Positive = 0.6
    """Largest deviation of the mean specific force from gravity at standstill."""
    still_tilt_rad: Annotated[float, Meta(gt=0.0, le=1.57)] = 0.5
    """Steepest ground on which the vehicle is armed: largest angle between gravity and the vertical
    axis of an IMU."""
    max_acceleration_mps2: Positive = 3.0
    """Largest acceleration by the drive model. Deceleration is not limited."""
    max_jerk_mps3: Positive = 50.0
    """Largest rate at which drive acceleration may grow."""
    max_lateral_jerk_mps3: Positive = 30.0
    """Largest rate of the lateral acceleration, m/s3; it limits the steering rate at speed."""
    max_steering_rate_radps: Positive = 7.0
    """Largest rate of the commanded wheel angle; far above the actuator's own, so that it only
    catches faulty controllers."""


class AlignmentParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Alignment by driving: a vehicle without a heading device learns its heading from the course
    over ground."""

    allowed: bool = True
    """True if an operator may request it. It never begins without a request."""
    speed_mps: Annotated[float, Meta(ge=0.2, le=3.0)] = 1.0
    """Speed of the drive. The estimator needs at least its ``course_min_speed_mps``."""
    distance_m: Annotated[float, Meta(ge=1.0, le=50.0)] = 5.0
    """Longest drive. A circle of this radius and the stop distance must lie inside the fence."""
    time_s: Annotated[float, Meta(ge=2.0, le=60.0)] = 20.0
    """Longest time until the heading is known."""
    heading_sigma_rad: Annotated[float, Meta(gt=0.0, le=0.5)] = 0.05
    """Standard deviation of the heading at which the drive ends."""
    arming_sigma_rad: Annotated[float, Meta(gt=0.0, le=0.6)] = 0.2
    """A larger standard deviation of the heading refuses arming: align again."""


class ControlFrameParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the control frame (``odom``): how fast the controller's pose follows a jump of
    the estimate."""

    position_rate_mps: Positive = 0.3
    """Position slew rate. At 1 m/s the controller sees 0.3 rad of heading error, which does not
    saturate it."""
    yaw_rate_radps: Positive = 0.2
    """Yaw slew rate; a fraction of the yaw rate at full lock and 1 m/s."""
    immediate_m: NonNegative = 0.004
    """Position difference that passes at once, because no controller reacts to it."""
    immediate_rad: NonNegative = 0.003
    """Jump of the yaw that the controller's pose follows at once, rad."""
    max_time_s: Annotated[float, Meta(ge=0.1, le=30.0)] = 2.0
    """Longest time to follow a jump; large jumps exceed the rates above."""
