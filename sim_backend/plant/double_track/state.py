"""State and outputs of a double-track vehicle."""

from typing import NamedTuple


class PlantState(NamedTuple):
    """State at a grid point. Centre of mass, ISO axes; wheels in the order front left, front right,
    rear left, rear right."""

    x_m: float
    y_m: float
    yaw_rad: float
    forward_mps: float
    lateral_mps: float
    """Lateral velocity, to the left."""
    yaw_rate_radps: float
    roll_rad: float
    """Roll of the body on its springs, right side down."""
    roll_rate_radps: float
    pitch_rad: float
    """Pitch of the body on its springs, nose down."""
    pitch_rate_radps: float
    tip_rad: float
    """Roll of the whole vehicle about the wheels of one side, right side down."""
    tip_rate_radps: float
    spin_fl_radps: float
    spin_fr_radps: float
    spin_rl_radps: float
    spin_rr_radps: float
    deflection_fl_m: float
    """Longitudinal deflection of the carcass."""
    deflection_fr_m: float
    deflection_rl_m: float
    deflection_rr_m: float
    side_fl_m: float
    """Lateral deflection of the carcass."""
    side_fr_m: float
    side_rl_m: float
    side_rr_m: float
    forward_mps2: float
    """Specific force over the step that ended here, as an ideal accelerometer in the plane of the
    road reads it."""
    lateral_mps2: float
    engine_radps: float
    gear: float
    """Gear from 1; 0 is reverse, -1 neutral, -2 park."""
    since_shift_s: float
    standing_s: float
    """Time for which a vehicle with an engine stands with closed throttle; far below 0 before it
    has driven."""
    still_s: float
    """Time at standstill."""


class Outputs(NamedTuple):
    """Intermediate results of a step."""

    forward_mps2: float
    """Inertial acceleration of the centre of mass in body axes."""
    lateral_mps2: float
    yaw_radps2: float
    roll_radps2: float
    pitch_radps2: float
    load_fl_n: float
    load_fr_n: float
    load_rl_n: float
    load_rr_n: float
    along_fl_n: float
    """Tyre forces in the axes of the wheel."""
    along_fr_n: float
    along_rl_n: float
    along_rr_n: float
    across_fl_n: float
    across_fr_n: float
    across_rl_n: float
    across_rr_n: float
    drive_nm: float
    """Total torque at the wheels."""


class Stepped(NamedTuple):
    """Result of a step."""

    state: PlantState
    outputs: Outputs


class Surface(NamedTuple):
    """Ground under the vehicle, for one step."""

    forward_mps2: float
    """Gravity along the body's axes: forward, left, and into the ground."""
    lateral_mps2: float
    down_mps2: float
    cos_along: float
    """Horizontal distance per distance travelled forward, and to the left."""
    cos_across: float
    friction_fl: float
    """Scale of the tyre forces."""
    friction_fr: float
    friction_rl: float
    friction_rr: float
