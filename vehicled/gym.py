"""Environments for gymnasium: importing this module registers them. See docs/gym.md."""

from typing import TYPE_CHECKING, Any

from vehicled.offline.learning.gym import EstimateNoise as EstimateNoise
from vehicled.offline.learning.gym import GymError as GymError
from vehicled.offline.learning.gym import Weights as Weights

if TYPE_CHECKING:
    from vehicled.offline.learning.gym.fleet import FleetEnv as FleetEnv


def __getattr__(name: str) -> Any:
    # It needs a library that the other environments do not.
    if name == "FleetEnv":
        from vehicled.offline.learning.gym.fleet import FleetEnv

        return FleetEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
