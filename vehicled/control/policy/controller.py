"""Policy controller: a trained network computes the commands.

Like every path follower it tracks progress, slows down at the end, and stops at cusps; the command
gate limits what it returns, and the failsafe matrix watches the vehicle. A network that returns NaN
brakes.
"""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import ClassVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.policy.features import FeatureInputs
from vehicled.control.policy.network import (
    Network,
    PolicyDescription,
    PolicyError,
    interface,
    read_network,
)
from vehicled.control.speed import SpeedParams
from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.paths.course import Course


class PolicyParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a policy. What its numbers mean is in its file."""

    features: list[str] = field(default_factory=list)
    """Names of its inputs, in order, for a file without the description that vehicled writes."""
    steering_factor: Positive = 1.0
    """Factor on its steering. Zhang et al. 2024 drove the network that imitates a person with
    1.75."""
    trim: bool = False
    """Subtract the estimated steering offset from a command in fractions of full steering."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed profile parameters, and the speed control of a policy that only steers."""


class Policy(PathFollower):
    """Path follower with a trained network. The class of one file has its ``network``."""

    Params: ClassVar[type[PolicyParams]] = PolicyParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "steering_factor": (0.1, 10.0),
    }
    network: ClassVar[Network]

    def __init__(
        self,
        params: PolicyParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params = params
        description = self.network.description
        if description is None or params.features:
            description = replace(
                description or PolicyDescription(features=[]), features=params.features
            )
            if not description.features:
                raise PolicyError(
                    f"{self.network.name}: it does not say what its inputs are; name them with "
                    "--set "
                    'controller.policy.features=["reference_ahead_m", ...]'
                )
        self._interface = interface(self.network, description)
        self._look_ahead_m = description.look_ahead_m
        self._inputs: Array = np.zeros((1, self._interface.features.width))
        self._scan: LaserScan | None = None
        self.predicts = description.predicts  # type: ignore[misc]  # one class for all files
        super().__init__(params.speed, vehicle, limits, course, period_s)

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._scan = None

    def on_scan(self, scan: LaserScan) -> None:
        self._scan = scan

    def steer(self, state: FollowerState) -> SteeringDemand:
        here, steering = state.here, self.vehicle.steering
        meaning = self._interface
        meaning.features.fill(
            FeatureInputs(self, state, self._look_ahead_m, self._scan), self._inputs[0]
        )
        inputs = (
            self._inputs
            if meaning.offset is None
            else (self._inputs - meaning.offset) * meaning.scale
        )
        made = self.network.run(inputs.astype(np.float32))[0].tolist()
        command = dict(zip(meaning.commands, made, strict=True))
        turned, factor = here.direction, self._params.steering_factor
        if "steering" in command:
            share = command["steering"] * factor
            if not isfinite(share):
                return SteeringDemand(share)
            wheel = steering.wheel_angle_rad(turned * min(max(share, -1.0), 1.0))
            wheel -= steering.offset_rad if self._params.trim else 0.0
        else:
            wheel = turned * command["wheel_angle_rad"] * factor
        return SteeringDemand(wheel, inf, command.get("throttle"))


def policy_class(path: Path) -> type[Policy]:
    """Return the controller of a file. Raises :class:`PolicyError` for a file that cannot drive."""
    network = read_network(path)
    if network.description is not None and network.description.features:
        interface(network, network.description)
    return type("Policy", (Policy,), {"network": network, "__module__": Policy.__module__})
