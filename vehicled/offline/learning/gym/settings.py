"""Options of the environments, checked as they are given."""

from collections.abc import Iterator
from difflib import get_close_matches
from math import isfinite
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.offline.learning.gym.errors import GymError

RACING = ("scan_m[36]", "speed_mps", "yaw_rate_radps", "previous_throttle", "previous_steering")
"""Default observation of the race."""
Range = Annotated[tuple[float, float], Meta(description="lowest and highest value")]


class EstimateNoise(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Error of a state estimate: first-order Gauss-Markov, stationary, standard deviations per
    quantity."""

    position_m: NonNegative = 0.02
    """Per axis of the map."""
    yaw_rad: NonNegative = 0.01
    speed_mps: NonNegative = 0.03
    yaw_rate_radps: NonNegative = 0.005
    time_s: Positive = 1.0
    """Correlation time."""


class Weights(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights of the reward; those of errors are multiplied by the period, so that the sum is an
    integral over time."""

    progress: NonNegative = 1.0
    """Per metre of course."""
    time: NonNegative = 0.0
    """Cost per second, so that standing before a wall is no way to avoid it."""
    cross_track: NonNegative = 2.0
    """Per second and metre off the course."""
    heading: NonNegative = 0.0
    """Per second and square radian of heading error."""
    speed: NonNegative = 2.0
    """Per second and m/s off the target speed; above the weight of progress, so that driving faster
    than that never pays."""
    steering_rate: NonNegative = 0.02
    """Per second and squared rate of the steering command, full steering per second."""
    throttle_rate: NonNegative = 0.005
    failure: NonNegative = 10.0
    """Once, for leaving the corridor or for a collision."""


RACING_WEIGHTS = Weights(
    time=1.0, cross_track=0.0, speed=0.0, steering_rate=0.005, throttle_rate=0.0
)


class EnvironmentSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options that every environment takes by keyword."""

    task: Literal["path_tracking", "racing"]
    profile: str = "art_published"
    """Name or file of a profile."""
    overrides: tuple[str, ...] = ()
    """Changes of the profile, "dotted.key=value"."""
    course: str = ""
    """Name or file of a course; empty: the profile's own."""
    features: tuple[str, ...] = ()
    """Observation, by feature; empty: the task's default."""
    look_ahead_m: Positive = 1.0
    """Distance ahead of the vehicle from which the reference point is searched."""
    period_s: Positive = 0.1
    """Time between two actions."""
    start: Literal["beginning", "anywhere"] = "beginning"
    """Start at the beginning of the course, or at a random place of it."""
    start_offset_m: NonNegative = 0.0
    """Largest random offset to the side of the course at the start."""
    start_heading_rad: NonNegative = 0.0
    """Largest random heading error at the start."""
    start_speed: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    """Largest random speed at the start, as a fraction of the target speed there; half of the
    episodes begin at standstill."""
    max_time_s: NonNegative = 0.0
    """Time limit of an episode; 0: twice the time of the speed profile, and 10 s."""
    half_width_m: NonNegative = 0.0
    """Half width of the corridor, whose edges are the walls of a race; 0: ``limits.corridor_m`` of
    the profile."""
    scene: str = ""
    """Name or file of a scene instead of the corridor's edges, for scans and collisions; its first
    course is driven unless ``course`` names another."""
    randomise: dict[str, Range] = {}
    """Ranges of numbers of ``[sim]`` from which each episode draws, by dotted key:
    ``{"steering.delay_s": (0.3, 0.5)}``."""
    noise: EstimateNoise | None = None
    """Error of the state in the observation; None: the truth."""
    scan_noise: bool = False
    """Measure scans with the noise and the losses of ``[sim.lidar]``."""
    weights: Weights | None = None
    """Reward; None: the task's default."""


def settings(options: dict[str, Any]) -> EnvironmentSettings:
    """Return checked options. Raises :class:`GymError`."""
    known = EnvironmentSettings.__struct_fields__
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f' did you mean "{close[0]}"?' if close else ""
            raise GymError(
                f'unknown option "{name}";{hint} known: '
                f"{', '.join(key for key in known if key != 'task')}"
            )
    try:
        found = msgspec.convert(options, EnvironmentSettings)
    except msgspec.ValidationError as error:
        raise GymError(f"option of the environment: {error}") from None
    for path, number in _numbers("", msgspec.to_builtins(found)):
        if not isfinite(number):
            raise GymError(
                f"option of the environment: {path.lstrip('.')} is {number}; give a finite number"
            )
    return found


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    """Iterate over the numbers in a value, each with its path."""
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(f"{path}.{key}", each)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _numbers(f"{path}[{index}]", each)
