"""Interface of the plants: inputs, motion and errors."""

from typing import NamedTuple, Protocol, TypeGuard

from msgspec import Struct

from vehicled.core.messages import Gear


class VehicleLostError(Exception):
    """The run cannot continue: the vehicle rolled over or its state diverged. The message is the
    reason of the run's end."""


class StartPose(NamedTuple):
    """Start pose of the vehicle's reference point in ``map``, ENU."""

    x_m: float
    y_m: float
    yaw_rad: float


class Motion(Struct, frozen=True, gc=False):
    """True motion of ``base_link``: position in ``map`` (ENU), the rest in body axes."""

    x_m: float
    y_m: float
    yaw_rad: float
    """Yaw, rad, continuous: it grows by a full turn per lap, so that it can be interpolated."""
    speed_mps: float
    """Forward speed, m/s; negative backward."""
    lateral_speed_mps: float
    """Speed to the left, m/s; 0 without slip."""
    yaw_rate_radps: float
    acceleration_mps2: float
    """Inertial forward acceleration, mean over the grid step that ended here, like the other
    accelerations."""
    lateral_acceleration_mps2: float
    """Inertial acceleration to the left; includes the centripetal part."""
    yaw_acceleration_radps2: float
    motor_speed_radps: float
    z_m: float = 0.0
    """Height of the ground under the reference point."""
    roll_rad: float = 0.0
    """Roll of the body against the horizon, right side down positive; includes the slope."""
    pitch_rad: float = 0.0
    """Pitch of the body against the horizon, nose down positive; includes the slope."""
    roll_rate_radps: float = 0.0
    pitch_rate_radps: float = 0.0
    roll_acceleration_radps2: float = 0.0
    pitch_acceleration_radps2: float = 0.0
    vertical_acceleration_mps2: float = 0.0
    """Inertial acceleration along the body's up axis, without gravity."""
    wheel_speeds_radps: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Speeds of front left, front right, rear left, rear right wheel; forward positive."""


class Plant(Protocol):
    """Vehicle on the fixed physics grid, behind its actuators. Built as ``plant(sim, pose,
    step_s)``, at standstill."""

    @property
    def motor_speed_radps(self) -> float:
        """Speed of the drive motor, for supply and telemetry."""
        ...

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        """Advance one grid step with constant inputs: ``throttle`` as ratio of the stall torque at
        nominal voltage (may exceed 1 on a full battery; negative backward), ``brake`` 0..1,
        ``wheel_angle_rad`` of the virtual front wheel at the end of the step. Inputs are finite.
        Raises :class:`VehicleLostError` if the run must end.
        """
        ...

    def motion(self) -> Motion:
        """State at the newest grid point."""
        ...


class RigidPlant(Plant, Protocol):
    """Plant that contact with a scene can push back."""

    def rigid_body(self, mass_kg: float) -> tuple[float, float, float]:
        """Return mass, yaw inertia about the centre of mass, and its distance ahead of the
        reference point. ``mass_kg`` is that of the profile, for a plant that has none.
        """
        ...

    def strike(
        self, pose: StartPose, speed_mps: float, lateral_speed_mps: float, yaw_rate_radps: float
    ) -> None:
        """Set pose and velocity of the reference point after a contact in the newest step."""
        ...


def gear_of(plant: Plant) -> Gear:
    """Return the position of a plant's gear selector, its ``gear``; UNKNOWN for a plant without."""
    found: Gear = getattr(plant, "gear", Gear.UNKNOWN)
    return found


def pushable(plant: object) -> TypeGuard[RigidPlant]:
    """True for a plant, or a class of plants, that contact can push back."""
    return hasattr(plant, "rigid_body") and hasattr(plant, "strike")


def slowed(speed: float, by: float) -> float:
    """Return a speed of any sign after dry friction."""
    return max(speed - by, 0.0) if speed > 0.0 else min(speed + by, 0.0)


def interpolate(before: Motion, after: Motion, fraction: float) -> Motion:
    """Interpolate between two neighbouring grid points at a fraction 0 to 1. Positions, angles and
    rates are linear; accelerations are constant over the step.
    """
    complement = 1.0 - fraction
    return Motion(
        complement * before.x_m + fraction * after.x_m,
        complement * before.y_m + fraction * after.y_m,
        complement * before.yaw_rad + fraction * after.yaw_rad,
        complement * before.speed_mps + fraction * after.speed_mps,
        complement * before.lateral_speed_mps + fraction * after.lateral_speed_mps,
        complement * before.yaw_rate_radps + fraction * after.yaw_rate_radps,
        after.acceleration_mps2,
        after.lateral_acceleration_mps2,
        after.yaw_acceleration_radps2,
        complement * before.motor_speed_radps + fraction * after.motor_speed_radps,
        complement * before.z_m + fraction * after.z_m,
        complement * before.roll_rad + fraction * after.roll_rad,
        complement * before.pitch_rad + fraction * after.pitch_rad,
        complement * before.roll_rate_radps + fraction * after.roll_rate_radps,
        complement * before.pitch_rate_radps + fraction * after.pitch_rate_radps,
        after.roll_acceleration_radps2,
        after.pitch_acceleration_radps2,
        after.vertical_acceleration_mps2,
        (
            complement * before.wheel_speeds_radps[0] + fraction * after.wheel_speeds_radps[0],
            complement * before.wheel_speeds_radps[1] + fraction * after.wheel_speeds_radps[1],
            complement * before.wheel_speeds_radps[2] + fraction * after.wheel_speeds_radps[2],
            complement * before.wheel_speeds_radps[3] + fraction * after.wheel_speeds_radps[3],
        ),
    )
