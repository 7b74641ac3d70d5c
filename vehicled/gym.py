"""Environments for gymnasium: importing this module registers them. See docs/gym.md."""

from vehicled.offline.learning.gym import EstimateNoise as EstimateNoise
from vehicled.offline.learning.gym import GymError as GymError
from vehicled.offline.learning.gym import Weights as Weights
