"""What a plant is, and what can be read from it."""

from typing import NamedTuple, Protocol

from msgspec import Struct


class VehicleLostError(Exception):
    """The vehicle cannot go on: it rolled over, or its numbers left all bounds. The message is the reason of the run's end."""


class Pose(NamedTuple):
    """Where the vehicle starts: its reference point in ``map``, ENU."""

    x_m: float
    y_m: float
    yaw_rad: float


class Motion(Struct, frozen=True, gc=False):
    """True motion of the vehicle's reference point: position in ``map`` (ENU), the rest in body axes."""

    x_m: float
    y_m: float
    yaw_rad: float
    """Continuous: it grows by a full turn per lap, so that it can be interpolated."""
    speed_mps: float
    """Forward; negative backward."""
    lateral_speed_mps: float
    """To the left; 0 without slip."""
    yaw_rate_radps: float
    acceleration_mps2: float
    """Inertial, forward; mean over the grid step that ended here, as are the other accelerations."""
    lateral_acceleration_mps2: float
    """Inertial, to the left: includes the centripetal part."""
    yaw_acceleration_radps2: float
    motor_speed_radps: float
    z_m: float = 0.0
    """Height of the ground under the reference point."""
    roll_rad: float = 0.0
    """Of the body against the horizon, right side down positive; slope included."""
    pitch_rad: float = 0.0
    """Of the body against the horizon, nose down positive; slope included."""
    roll_rate_radps: float = 0.0
    pitch_rate_radps: float = 0.0
    roll_acceleration_radps2: float = 0.0
    pitch_acceleration_radps2: float = 0.0
    vertical_acceleration_mps2: float = 0.0
    """Inertial, along the body's up axis, without gravity."""
    wheel_speeds_radps: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Front left, front right, rear left, rear right; forward positive."""


class Plant(Protocol):
    """A vehicle on the fixed physics grid, behind its actuators. Built as ``plant(sim, pose, step_s)``, at rest."""

    @property
    def motor_speed_radps(self) -> float:
        """Of the drive motor; the supply and the telemetry see it."""
        ...

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        """Advance one grid step with inputs held: ``throttle`` as share of the stall torque at nominal voltage (can exceed 1 on a
        full battery; negative backward), ``brake`` 0..1, ``wheel_angle_rad`` of the virtual front wheel at the end of the step.
        Inputs are finite. Raises :class:`VehicleLostError` where the run must end."""
        ...

    def motion(self) -> Motion:
        """State at the newest grid point."""
        ...


def interpolate(before: Motion, after: Motion, share: float) -> Motion:
    """Motion a ``share`` (0 to 1) of the way between two neighbouring grid points. Positions, angles and rates are linear; the
    accelerations are those of the step itself, which holds them."""
    rest = 1.0 - share
    return Motion(
        rest * before.x_m + share * after.x_m,
        rest * before.y_m + share * after.y_m,
        rest * before.yaw_rad + share * after.yaw_rad,
        rest * before.speed_mps + share * after.speed_mps,
        rest * before.lateral_speed_mps + share * after.lateral_speed_mps,
        rest * before.yaw_rate_radps + share * after.yaw_rate_radps,
        after.acceleration_mps2,
        after.lateral_acceleration_mps2,
        after.yaw_acceleration_radps2,
        rest * before.motor_speed_radps + share * after.motor_speed_radps,
        rest * before.z_m + share * after.z_m,
        rest * before.roll_rad + share * after.roll_rad,
        rest * before.pitch_rad + share * after.pitch_rad,
        rest * before.roll_rate_radps + share * after.roll_rate_radps,
        rest * before.pitch_rate_radps + share * after.pitch_rate_radps,
        after.roll_acceleration_radps2,
        after.pitch_acceleration_radps2,
        after.vertical_acceleration_mps2,
        (
            rest * before.wheel_speeds_radps[0] + share * after.wheel_speeds_radps[0],
            rest * before.wheel_speeds_radps[1] + share * after.wheel_speeds_radps[1],
            rest * before.wheel_speeds_radps[2] + share * after.wheel_speeds_radps[2],
            rest * before.wheel_speeds_radps[3] + share * after.wheel_speeds_radps[3],
        ),
    )
