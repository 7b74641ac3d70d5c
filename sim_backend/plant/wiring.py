"""Parameters between a command and a plant, in one form for every plant: delays, limits, lags,
steering map."""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from sim_backend.plant.double_track.parameters import Engine, Motor, TwinParameters
from sim_backend.plant.twin_file import load_twin
from vehicled.profile.schema import Sim

UNLIMITED_RADPS = 1e9


class ActuatorWiring(Struct, frozen=True):
    """Parameters of :class:`sim_backend.plant.actuators.Actuators`."""

    angle_rad: Callable[[float], float]
    """Wheel angle for a command -1..1 beyond the dead zone."""
    max_wheel_rad: float
    rate_radps: float
    bandwidth_radps: float
    """Bandwidth of the servo; 0: it follows at once."""
    damping_ratio: float
    slack_rad: float
    dead_zone: float
    steering_delay_s: float
    drive_delay_s: float
    brake_delay_s: float
    drive_lag_s: float
    brake_lag_s: float
    reverse_share: float
    throttle_share: Callable[[float], float] | None
    """Controller's map of a throttle 0..1; None: identity."""
    throttle_rate_ps: float
    """Rate limit of the throttle, 1/s; 0: none."""
    no_load_speed_radps: float
    """No-load speed of the motor at nominal voltage; 0: the drive does not depend on the
    battery."""


def wiring(sim: Sim) -> ActuatorWiring:
    """Return the wiring of ``[sim.steering]`` and ``[sim.drive]``, or of the twin file. Raises
    ProfileError if unreadable."""
    steering, drive = sim.steering, sim.drive
    if sim.twin is not None:
        return _of_twin(load_twin(sim.twin.vehicle, sim.twin.changes).parameters)
    assert steering is not None, "the profile's own rules see to it"
    assert drive is not None, "the profile's own rules see to it"
    gain_rad, offset_rad = steering.gain_rad, steering.offset_rad
    return ActuatorWiring(
        lambda command: offset_rad + gain_rad * command,
        max_wheel_rad=steering.max_wheel_rad,
        rate_radps=steering.rate_radps,
        bandwidth_radps=0.0,
        damping_ratio=1.0,
        slack_rad=steering.slack_rad,
        dead_zone=steering.dead_zone,
        steering_delay_s=steering.delay_s,
        drive_delay_s=drive.delay_s,
        brake_delay_s=drive.delay_s,
        drive_lag_s=0.0,
        brake_lag_s=0.0,
        reverse_share=drive.reverse_share,
        throttle_share=None,
        throttle_rate_ps=0.0,
        no_load_speed_radps=drive.no_load_speed_radps,
    )


def _of_twin(twin: TwinParameters) -> ActuatorWiring:
    steering, drive = twin.steering, twin.powertrain
    reverse_share = (
        float(drive.reverse_ratio > 0.0) if isinstance(drive, Engine) else drive.reverse_share
    )
    by_voltage = isinstance(drive, Motor) and drive.mode == "duty"
    return ActuatorWiring(
        partial(_wheel_rad, steering.map_command, steering.map_angle_rad, steering.offset_rad),
        max_wheel_rad=steering.max_wheel_rad,
        rate_radps=steering.rate_radps or UNLIMITED_RADPS,
        bandwidth_radps=steering.bandwidth_radps,
        damping_ratio=steering.damping_ratio,
        slack_rad=steering.slack_rad,
        dead_zone=steering.dead_zone,
        steering_delay_s=steering.delay_s,
        drive_delay_s=drive.delay_s,
        brake_delay_s=twin.brakes.delay_s,
        drive_lag_s=drive.lag_s,
        brake_lag_s=twin.brakes.lag_s,
        reverse_share=reverse_share,
        throttle_share=throttle_share(drive) if isinstance(drive, Motor) else None,
        throttle_rate_ps=drive.throttle_rate_ps if isinstance(drive, Motor) else 0.0,
        no_load_speed_radps=drive.curve_speed_radps[-1]
        if by_voltage and isinstance(drive, Motor)
        else 0.0,
    )


def throttle_share(motor: Motor) -> Callable[[float], float] | None:
    """Return the controller's map of a throttle 0..1; None if it is the identity."""
    if motor.map_throttle == motor.map_share == [0.0, 1.0]:
        return None
    return partial(_looked_up, motor.map_throttle, motor.map_share)


def _wheel_rad(
    points: list[float], angles_rad: list[float], offset_rad: float, command: float
) -> float:
    return offset_rad + _looked_up(points, angles_rad, command)


def _looked_up(points: list[float], values: list[float], at: float) -> float:
    """Interpolate a piecewise linear curve, constant beyond its ends."""
    index = min(max(bisect_right(points, at), 1), len(points) - 1)
    fraction = (at - points[index - 1]) / (points[index] - points[index - 1])
    fraction = min(max(fraction, 0.0), 1.0)
    return values[index - 1] + fraction * (values[index] - values[index - 1])
