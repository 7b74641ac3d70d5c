"""Parameters of the double-track vehicle model. Vehicles differ only in these numbers.

SI units and radians; body axes x forward, y left, z up; a positive steering angle turns left. Keys
have no defaults: a missing number is an error in the file. A feature that a vehicle lacks is
disabled by its number, 0 unless stated otherwise.
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
    """Name and class of the vehicle."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_]+$", max_length=64)]
    description: str


class Body(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mass and its distribution."""

    mass_kg: Annotated[float, Meta(gt=0.01, le=200_000.0)]
    """Mass of the complete vehicle, including the unsprung masses of the axles."""
    wheelbase_m: Size
    cg_to_front_m: Size
    """Distance from the vehicle's centre of mass to the front axle, "a"; the rest of the wheelbase
    is "b"."""
    weight_shift: Annotated[float, Meta(ge=-0.2, le=0.2)]
    """Fraction of the weight on the front axle beyond what the centre of mass gives. 0 for a real
    vehicle; some models put unsprung masses on their axles and leave them out of the centre of
    mass.
    """
    lean_yaw: Share = 1.0
    """Fraction of the yaw moment that the leaning sprung mass causes under longitudinal
    acceleration. May be left out: 1 for a real vehicle; some models neglect it.
    """
    cg_height_m: Annotated[float, Meta(gt=0.0, le=10.0)]
    """Height of the sprung mass above the ground. Unsprung masses are at wheel centre."""
    yaw_inertia_kgm2: Positive
    """Yaw inertia of the complete vehicle about its centre of mass."""
    roll_inertia_kgm2: Positive
    """Roll inertia of the sprung mass about its centre of mass."""
    pitch_inertia_kgm2: Positive
    """Pitch inertia of the sprung mass about its centre of mass."""
    pitch_stiffness_nmprad: NonNegative
    """Pitch stiffness of both axles together; 0: the body does not pitch, and load transfers at
    once."""
    pitch_damping_nmsprad: NonNegative
    pitch_centre_height_m: Height
    """Height of the pitch centre, from anti-dive and anti-squat; the pitch lever is the centre of
    mass above it."""
    length_m: Size
    """Length of the body's outline; width and height follow."""
    width_m: Size
    height_m: Size


class TyreDirection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TMeasy force curve of one direction. Forces depend on load as a parabola through 0 and the
    two values, slips linearly."""

    slope_n: Pair
    """Slope dF0 of force over slip at slip 0."""
    peak_force_n: Pair
    peak_slip: Pair
    sliding_force_n: Pair
    sliding_slip: Pair
    """Slip beyond which the tyre slides completely."""
    carcass_stiffness_npm: Positive
    carcass_damping_nspm: NonNegative


class Vertical(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Change of a tyre's radii with the load. Both are given at the static load."""

    stiffness_npm: Positive
    """Wheel load over the decrease of the loaded radius."""
    rolling_share: Annotated[list[Share], Meta(min_length=2, max_length=2)]
    """Weight of the unloaded radius in the rolling radius, at the nominal load and at twice the
    nominal load; the loaded radius has the rest.
    """


class Tyre(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """TMeasy parameters of a tyre. Rill, Castro: Road Vehicle Dynamics, chapter 3."""

    nominal_load_n: Positive
    largest_load_n: Positive
    """Load beyond which forces do not grow."""
    rolling_resistance: Share
    """Rolling resistance coefficient, as dry friction."""
    longitudinal: TyreDirection
    lateral: TyreDirection
    vertical: Vertical | None = None
    """May be left out: the radii are the same at all loads."""


class Axle(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Two wheels and their suspension."""

    track_m: Size
    unsprung_mass_kg: NonNegative
    """Mass of both wheels with their part of the suspension."""
    roll_centre_height_m: Height
    roll_stiffness_nmprad: NonNegative
    """Roll stiffness; 0 at both axles: the body does not roll."""
    roll_damping_nmsprad: NonNegative
    roll_steer: Annotated[float, Meta(ge=-1.0, le=1.0)]
    """Steering angle per roll angle, left positive per right side down."""
    roll_scrub_m: Annotated[float, Meta(ge=-5.0, le=5.0)]
    """Lateral motion of the contact patches per roll angle, to the right per right side down; its
    work on the roll is neglected."""
    rolled_slip: Share
    """Slip definition. 0: slip of the wheel's motion. 1: slip relative to the wheel's own rolling
    speed plus a small offset, as some models do, so that a locked wheel loses a part of its
    longitudinal force.
    """
    rolling_radius_m: Annotated[float, Meta(gt=0.0, le=5.0)]
    """Speed over wheel speed without force."""
    loaded_radius_m: Annotated[float, Meta(gt=0.0, le=5.0)]
    """Lever arm of the longitudinal force."""
    spin_inertia_kgm2: Positive
    """Inertia of one wheel with the parts that always turn with it."""
    tyre: Tyre


class SteeringGeometry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Steering from the command -1..1 to the wheels. Angles are those of the virtual wheel in the
    middle of the front axle."""

    map_command: Curve
    """Commands, growing, and their angles."""
    map_angle_rad: Curve
    max_wheel_rad: Annotated[float, Meta(ge=0.0, lt=1.5)]
    """Angle of the mechanical stop."""
    rate_radps: NonNegative
    """Rate limit; 0: none."""
    bandwidth_radps: NonNegative
    """Bandwidth of the second-order servo behind the rate limit; 0: it follows at once."""
    damping_ratio: NonNegative
    delay_s: Delay
    offset_rad: Angle
    """Wheel angle at command 0."""
    dead_zone: Annotated[float, Meta(ge=0.0, lt=0.9)]
    """Command below which nothing moves; the full range is mapped to the rest."""
    slack_rad: NonNegative
    """Backlash between servo and wheels, peak to peak."""
    ackermann: Share
    """Ackermann ratio. 0: parallel wheels, 1: both towards the centre of the turn."""
    rear_ratio: Annotated[float, Meta(ge=-1.0, le=0.9)]
    """Angle of the rear wheels over that of the front wheels; -1 is full counter-steering."""


class Differential(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Differential between two shafts. Open: lock 0 and both biases 1."""

    lock_nms: NonNegative
    """Viscous coupling of both sides; 1e6 locks them."""
    bias: Annotated[float, Meta(ge=1.0, le=100.0)]
    """Torque of the slower over that of the faster side once their speeds differ, under power."""
    coast_bias: Annotated[float, Meta(ge=0.01, le=100.0)]
    """Torque ratio while coasting. Below 1 for a limited-slip differential; above 1 the slower side
    is dragged more."""
    bias_begin_radps: NonNegative
    """Speed differences at which the bias begins and is complete."""
    bias_full_radps: NonNegative


class Driveline(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Driveline from the drive to the wheels."""

    layout: Literal["axles", "sides"]
    """"sides": left and right wheels have a drive each (skid steer), which the steering command
    splits."""
    front_share: Share
    """Drive torque to the front: 1 front, 0 rear, between them all-wheel drive. Unused for
    sides."""
    speed_front_share: Share
    """Weight of the front axle in the speed that the drive sees; a mechanical drive sees its
    ``front_share``."""
    side_gain_prad: NonNegative
    """Layout "sides": throttle ratio moved from left to right per steering angle."""
    front: Differential
    """Differential of the front wheels; layout "sides": of the left side."""
    rear: Differential
    """Differential of the rear wheels; layout "sides": of the right side."""
    centre: Differential


class Motor(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="motor"
):
    """Electric motor with its controller and a fixed gear. Layout "sides" has two of them."""

    mode: Literal["duty", "current", "speed"]
    """Meaning of the throttle: ratio of the supply voltage, of the peak torque, or of the top
    speed."""
    curve_speed_radps: Curve
    """Motor speeds, growing, and the torque there at full duty; both scale with the duty. A DC
    motor has two points."""
    curve_torque_nm: Curve
    peak_torque_nm: Positive
    """Torque at the current limit."""
    regeneration: Share
    """Fraction of braking torque that the controller lets through; 0: freewheeling."""
    top_speed_radps: Positive
    """Mode "speed": motor speed at full throttle."""
    speed_gain_nms: NonNegative
    """Mode "speed": torque per difference of speed."""
    reduction: Positive
    """Motor turns per wheel turn."""
    rotor_inertia_kgm2: NonNegative
    loss_speed_radps: Curve
    """Motor speeds (absolute), growing, and the dry friction of motor and gear there."""
    loss_torque_nm: Curve
    hold_torque_nm: NonNegative
    """Additional dry friction at the motor at throttle 0: parking brake, holding torque."""
    reverse_share: Share
    """Largest throttle backward."""
    map_throttle: Curve
    """Throttles from 0, growing, and the controller's output 0..1; the same backward. A range that
    maps to 0 is a dead zone."""
    map_share: Curve
    throttle_rate_ps: NonNegative
    """Rate limit of the throttle, full ranges per second; 0: none."""
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class Selector(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Selector P, R, N, D of an automatic gearbox as a drive-by-wire kit works it: the direction
    follows the sign of the throttle."""

    change_s: Delay
    """Time in N between two of P, R and D; the throttle stays closed."""
    park_after_s: Delay
    """Time at standstill with closed throttle after which P and the parking brake engage."""
    park_torque_nm: NonNegative
    """Dry friction of P and the parking brake, at all driven wheels together."""


class Engine(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="engine"
):
    """Combustion engine with torque converter or rigid coupling, and stepped gears."""

    map_speed_radps: Curve
    """Engine speeds, growing, and the torque there at full throttle."""
    map_torque_nm: Curve
    loss_speed_radps: Curve
    """Engine speeds, growing, and the torque added at any throttle: negative for engine braking."""
    loss_torque_nm: Curve
    inertia_kgm2: NonNegative
    """Inertia of the crank; with a rigid coupling it turns with the wheels."""
    converter_capacity: Curve
    """Engine speed over root of torque, by speed ratio; [0, 0]: rigid coupling."""
    converter_torque_ratio: Curve
    converter_speed_ratio: Curve
    """Output over engine speed, growing from 0 to 1."""
    gear_ratios: Annotated[list[Positive], Meta(min_length=1, max_length=12)]
    """Wheel speed over gearbox input speed, final drive included, first gear first."""
    reverse_ratio: NonNegative
    """Magnitude of the reverse ratio; 0: no reverse."""
    up_speed_radps: Annotated[list[float], Meta(min_length=1, max_length=12)]
    """Gearbox input speeds by gear: shift up above the first, down below the second."""
    down_speed_radps: Annotated[list[float], Meta(min_length=1, max_length=12)]
    shift_interval_s: Delay
    """Shortest time between two shifts."""
    selector: Selector | None = None
    """May be left out: the direction changes at once below 0.5 m/s, and nothing parks."""
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class AccelerationDrive(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="kind",
    tag="acceleration",
):
    """Throttle as a commanded acceleration: drive torque mass x acceleration x rolling radius.
    Rotating inertias are not compensated.
    """

    full_acceleration_mps2: Positive
    """Acceleration at full throttle."""
    switch_speed_mps: Positive
    """Speed beyond which the limit falls as with constant power."""
    top_speed_mps: Positive
    reverse_share: Share
    delay_s: Delay
    lag_s: Delay
    driveline: Driveline


class Brakes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dry friction at the wheels at full brake."""

    front_torque_nm: NonNegative
    """Torque of each front wheel."""
    rear_torque_nm: NonNegative
    delay_s: Delay
    lag_s: Delay


class Aerodynamics(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Coefficients times area, at the given air density."""

    air_density_kgpm3: Annotated[float, Meta(ge=0.0, le=10.0)]
    drag_area_m2: NonNegative
    front_lift_area_m2: Annotated[float, Meta(gt=-100.0, lt=100.0)]
    """Lift, upward positive; negative for downforce."""
    rear_lift_area_m2: Annotated[float, Meta(gt=-100.0, lt=100.0)]


class Bounds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Validity limits of the model."""

    roll_limit_rad: Annotated[float, Meta(gt=0.0, le=1.6)]
    """Roll at which the vehicle counts as rolled over, including tipping."""
    speed_limit_mps: Annotated[float, Meta(gt=0.0, le=1000.0)]
    """Speed above which the model has diverged."""


class TwinParameters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Complete parameters of one vehicle. :func:`sim_backend.plant.double_track.checks.check` finds
    contradictions."""

    identity: Identity
    body: Body
    front: Axle
    rear: Axle
    steering: SteeringGeometry
    powertrain: Motor | Engine | AccelerationDrive
    brakes: Brakes
    aerodynamics: Aerodynamics
    bounds: Bounds
