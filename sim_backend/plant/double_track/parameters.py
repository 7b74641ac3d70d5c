"""Parameters of a vehicle of the double-track family. Everything that tells one vehicle from another is a number here.

SI units and radians; body axes x forward, y left, z up; a positive steering angle turns left. No key has a default: a number that
nobody gave is a mistake of the file. What a vehicle does not have is switched off by its number, which is 0 unless said otherwise.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[float, Meta(gt=0.0, lt=1e9)]
NonNegative = Annotated[float, Meta(ge=0.0, lt=1e9)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Size = Annotated[float, Meta(gt=0.0, le=30.0)]
Height = Annotated[float, Meta(ge=0.0, le=10.0)]
Angle = Annotated[float, Meta(ge=-1.5, le=1.5)]
Delay = Annotated[float, Meta(ge=0.0, le=2.0)]
Pair = Annotated[list[Positive], Meta(min_length=2, max_length=2)]
"""Values at the nominal load and at twice the nominal load."""
Curve = Annotated[list[float], Meta(min_length=2, max_length=32)]


class Identity(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which vehicle this is."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_]+$", max_length=64)]
    description: str


class Body(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mass and its distribution."""

    mass_kg: Annotated[float, Meta(gt=0.01, le=200_000.0)]
    """Complete vehicle; the unsprung masses of the axles are a part of it."""
    wheelbase_m: Size
    cg_to_front_m: Size
    """From the centre of mass of the vehicle back to front axle: "a"; the rest of the wheelbase is "b"."""
    weight_shift: Annotated[float, Meta(ge=-0.2, le=0.2)]
    """Share of the weight that stands on the front axle beyond what the centre of mass puts there. 0 for a vehicle: some models
    put the unsprung masses on their axles and leave them out of the centre of mass."""
    cg_height_m: Annotated[float, Meta(gt=0.0, le=10.0)]
    """Of the sprung mass above the ground. Unsprung masses are at wheel centre."""
    yaw_inertia_kgm2: Positive
    """Of the complete vehicle about its centre of mass."""
    roll_inertia_kgm2: Positive
    """Of the sprung mass about its centre of mass."""
    pitch_inertia_kgm2: Positive
    """Of the sprung mass about its centre of mass."""
    pitch_stiffness_nmprad: NonNegative
    """Both axles together; 0: the body does not pitch, and loads move between the axles at once."""
    pitch_damping_nmsprad: NonNegative
    pitch_centre_height_m: Height
    """What anti-dive and anti-squat leave: the body pitches by the lever of its centre of mass above this."""
    length_m: Size
    """Outline of the body, as are the next two."""
    width_m: Size
    height_m: Size


class Direction(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TMeasy force curve of one direction. Forces go with the load as a parabola through 0 and the two values, slips linearly."""

    slope_n: Pair
    """Force per slip at slip 0, dF0."""
    peak_force_n: Pair
    peak_slip: Pair
    sliding_force_n: Pair
    sliding_slip: Pair
    """Slip from which the tyre slides completely."""
    carcass_stiffness_npm: Positive
    carcass_damping_nspm: NonNegative


class Tyre(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TMeasy set of a tyre. Rill, Castro: Road Vehicle Dynamics, chapter 3."""

    nominal_load_n: Positive
    largest_load_n: Positive
    """Forces do not grow with loads beyond this."""
    rolling_resistance: Share
    """Of the load, as dry friction."""
    longitudinal: Direction
    lateral: Direction


class Axle(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Two wheels and what holds them."""

    track_m: Size
    unsprung_mass_kg: NonNegative
    """Both wheels with their part of the suspension."""
    roll_centre_height_m: Height
    roll_stiffness_nmprad: NonNegative
    """0 at both axles: the body does not roll."""
    roll_damping_nmsprad: NonNegative
    roll_steer: Annotated[float, Meta(ge=-1.0, le=1.0)]
    """Steering angle per roll angle, left positive per right side down."""
    roll_scrub_m: Annotated[float, Meta(ge=-5.0, le=5.0)]
    """Lateral motion of the contact patches per roll angle, to the right per right side down; its work on the roll is left out."""
    rolled_slip: Share
    """0: the slips are those of the wheel's motion. 1: they are counted by the wheel's own rolling speed plus something small, as
    some models do, so that a locked wheel loses a part of its force along."""
    rolling_radius_m: Annotated[float, Meta(gt=0.0, le=5.0)]
    """Speed over wheel speed without force."""
    loaded_radius_m: Annotated[float, Meta(gt=0.0, le=5.0)]
    """Lever of the longitudinal force."""
    spin_inertia_kgm2: Positive
    """Of one wheel with what always turns with it."""
    tyre: Tyre


class Steering(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From the command -1..1 to the wheels. Angles are those of the virtual wheel in the middle of the front axle."""

    map_command: Curve
    """Commands, growing, and the angles they lead to."""
    map_angle_rad: Curve
    max_wheel_rad: Annotated[float, Meta(ge=0.0, lt=1.5)]
    """Mechanical stop."""
    rate_radps: NonNegative
    """0: no limit."""
    bandwidth_radps: NonNegative
    """Of the second-order servo behind the rate limit; 0: it follows at once."""
    damping_ratio: NonNegative
    delay_s: Delay
    offset_rad: Angle
    """Angle of the wheels told straight."""
    dead_zone: Annotated[float, Meta(ge=0.0, lt=0.9)]
    """Commands smaller than this do nothing; beyond it the rest of the range is used in full."""
    slack_rad: NonNegative
    """Backlash between servo and wheels, peak to peak."""
    ackermann: Share
    """0: both wheels parallel, 1: both towards the centre of the turn."""
    rear_ratio: Annotated[float, Meta(ge=-1.0, le=1.0)]
    """Angle of the rear wheels over that of the front wheels; -1 turns them fully against each other."""


class Differential(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Between two shafts. Open: lock 0 and both biases 1."""

    lock_nms: NonNegative
    """Viscous coupling of both sides; at 1e6 they are locked."""
    bias: Annotated[float, Meta(ge=1.0, le=100.0)]
    """Torque of the slower over that of the faster side once their speeds differ, while the drive pulls."""
    coast_bias: Annotated[float, Meta(ge=0.01, le=100.0)]
    """The same while the drive drags. What a limited slip differential does is below 1; above 1 the slower side is dragged more."""
    bias_begin_radps: NonNegative
    """Difference of speeds at which the bias begins, and at which it is complete."""
    bias_full_radps: NonNegative


class Driveline(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From the drive to the wheels."""

    layout: Literal["axles", "sides"]
    """"sides": left and right wheels have a drive each (skid steer), told apart by the steering."""
    front_share: Share
    """Of the drive torque: 1 front, 0 rear; an all-wheel drive in between. Without meaning for sides."""
    speed_front_share: Share
    """Of the front axle in the speed that the drive sees; a mechanical drive sees its ``front_share``."""
    side_gain_prad: NonNegative
    """Layout "sides": share of the throttle that goes to the right side more, and to the left side less, per steering angle."""
    front: Differential
    """Between the front wheels; layout "sides": between the wheels of the left side."""
    rear: Differential
    """Between the rear wheels; layout "sides": between the wheels of the right side."""
    centre: Differential


class Motor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="motor"):
    """Electric motor with its controller and a fixed gear. Layout "sides" has two of them."""

    mode: Literal["duty", "current", "speed"]
    """What the throttle says: share of the supply's voltage, of the peak torque, or of the top speed."""
    curve_speed_radps: Curve
    """Motor speeds, growing, and the torque there at full duty; at another duty both shrink with it. A DC motor is two points."""
    curve_torque_nm: Curve
    peak_torque_nm: Positive
    """Limit of the current."""
    regeneration: Share
    """Share of a torque against the turning that the controller lets through; 0: it runs free."""
    top_speed_radps: Positive
    """Mode "speed": of the motor at full throttle."""
    speed_gain_nms: NonNegative
    """Mode "speed": torque per difference of speed."""
    reduction: Positive
    """Turns of the motor per turn of the wheel."""
    rotor_inertia_kgm2: NonNegative
    loss_speed_radps: Curve
    """Motor speeds (absolute), growing, and the dry friction of motor and gear there."""
    loss_torque_nm: Curve
    hold_torque_nm: NonNegative
    """Further dry friction at the motor while the throttle is 0: parking brake, holding torque."""
    reverse_share: Share
    """Largest throttle backward."""
    map_throttle: Curve
    """Throttles from 0, growing, and what the controller makes of them, 0..1; the same backward. A range that leads to 0 is a dead
    zone."""
    map_share: Curve
    throttle_rate_ps: NonNegative
    """Fastest change of the throttle that the controller follows, full ones per second; 0: no limit."""
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class Engine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="engine"):
    """Combustion engine, converter or rigid coupling, stepped gears."""

    map_speed_radps: Curve
    """Engine speeds, growing, and the torque there at full throttle."""
    map_torque_nm: Curve
    loss_speed_radps: Curve
    """Engine speeds, growing, and the torque added whatever the throttle: negative where it brakes."""
    loss_torque_nm: Curve
    inertia_kgm2: NonNegative
    """Of the crank; with a rigid coupling it turns with the wheels."""
    converter_capacity: Curve
    """Engine speed over root of torque, by speed ratio; [0, 0]: rigid coupling."""
    converter_torque_ratio: Curve
    converter_speed_ratio: Curve
    """Output over engine speed, growing from 0 to 1."""
    gear_ratios: Annotated[list[Positive], Meta(min_length=1, max_length=12)]
    """Wheel speed over gearbox input speed, final drive included, first gear first."""
    reverse_ratio: NonNegative
    """As a magnitude; 0: no reverse."""
    up_speed_radps: Annotated[list[float], Meta(min_length=1, max_length=12)]
    """By gear: gearbox input speed above which the next one is taken, and below which the last one."""
    down_speed_radps: Annotated[list[float], Meta(min_length=1, max_length=12)]
    shift_interval_s: Delay
    """No second shift within this."""
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class Acceleration(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="acceleration"):
    """The throttle commands an acceleration: drive torque mass x acceleration x rolling radius. The turning parts are not made
    up for."""

    full_acceleration_mps2: Positive
    """At full throttle."""
    switch_speed_mps: Positive
    """Beyond this the most that can be had falls as with constant power."""
    top_speed_mps: Positive
    reverse_share: Share
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class Brakes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dry friction at the wheels; full brake."""

    front_torque_nm: NonNegative
    """Of each front wheel."""
    rear_torque_nm: NonNegative
    delay_s: Delay
    lag_s: Delay


class Aerodynamics(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Coefficient times area, at the air density given."""

    air_density_kgpm3: Annotated[float, Meta(ge=0.0, le=10.0)]
    drag_area_m2: NonNegative
    front_lift_area_m2: Annotated[float, Meta(gt=-100.0, lt=100.0)]
    """Upward positive; a wing that presses down is negative."""
    rear_lift_area_m2: Annotated[float, Meta(gt=-100.0, lt=100.0)]


class Bounds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the model ends."""

    roll_limit_rad: Annotated[float, Meta(gt=0.0, le=1.6)]
    """Body roll from which the vehicle counts as rolled over, tipping included."""
    speed_limit_mps: Annotated[float, Meta(gt=0.0, le=1000.0)]
    """Anything faster has diverged."""


class TwinParameters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One vehicle, complete. :func:`sim_backend.plant.double_track.checks.check` says what contradicts itself in it."""

    identity: Identity
    body: Body
    front: Axle
    rear: Axle
    steering: Steering
    powertrain: Motor | Engine | Acceleration
    brakes: Brakes
    aerodynamics: Aerodynamics
    bounds: Bounds
