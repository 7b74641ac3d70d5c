"""Gymnasium environments over the batched twin. Importing this package registers them: docs/gym.md.

gymnasium.make("vehicled.gym:vehicled/PathTracking-v0", profile="art_published", course="lot17")
"""

try:
    import gymnasium
except ImportError:
    raise ImportError('vehicled.gym needs gymnasium: pip install "vehicled[gym]"') from None

from vehicled.offline.learning.gym.errors import GymError as GymError
from vehicled.offline.learning.gym.settings import EstimateNoise as EstimateNoise
from vehicled.offline.learning.gym.settings import Weights as Weights

for _name, _task in (("PathTracking", "path_tracking"), ("Racing", "racing")):
    gymnasium.register(
        id=f"vehicled/{_name}-v0",
        entry_point="vehicled.offline.learning.gym.environments:VehicleEnv",
        vector_entry_point="vehicled.offline.learning.gym.environments:VehicleVectorEnv",
        kwargs={"task": _task},
    )
