from vehicled.core.messages import *  # noqa: F403
from vehicled.offline.api import Action as Action
from vehicled.offline.api import Log as Log
from vehicled.offline.api import Observation as Observation
from vehicled.offline.api import Run as Run
from vehicled.offline.api import Simulation as Simulation
from vehicled.offline.api import Study as Study
from vehicled.offline.api import gap as gap
from vehicled.offline.api import load_profile as load_profile
from vehicled.offline.api import open_log as open_log
from vehicled.offline.api import open_study as open_study
from vehicled.offline.api import replay as replay
from vehicled.offline.api import simulate as simulate
from vehicled.offline.api import simulate_many as simulate_many
from vehicled.offline.api import study as study

__version__: str
