from vehicled.api import Action as Action
from vehicled.api import Log as Log
from vehicled.api import Observation as Observation
from vehicled.api import Run as Run
from vehicled.api import Simulation as Simulation
from vehicled.api import Study as Study
from vehicled.api import gap as gap
from vehicled.api import load_profile as load_profile
from vehicled.api import open_log as open_log
from vehicled.api import open_study as open_study
from vehicled.api import replay as replay
from vehicled.api import simulate as simulate
from vehicled.api import study as study
from vehicled.messages import *  # noqa: F403

__version__: str
