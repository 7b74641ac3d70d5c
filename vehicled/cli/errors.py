"""Error types that the user can fix. They are shown as a message, without a traceback."""


def expected_errors() -> tuple[type[Exception], ...]:
    """Return the exception types whose text names the place of the error and the remedy."""
    from vehicled.control.policy.network import PolicyError
    from vehicled.core.link import LinkError
    from vehicled.daemon.app import SetupError
    from vehicled.live.bridges.process import BridgeError
    from vehicled.live.control_socket.client import ControlError
    from vehicled.live.control_socket.socket_path import SocketPathError
    from vehicled.live.teleop.mapping import MappingError
    from vehicled.log.errors import LogError
    from vehicled.offline.gap.errors import GapError
    from vehicled.offline.learning.errors import LearningError
    from vehicled.offline.recordings.errors import RecordingError
    from vehicled.offline.studies.errors import StudyError
    from vehicled.paths.errors import CourseError
    from vehicled.profile import ProfileError
    from vehicled.profile.plugins import PluginError
    from vehicled.profile.registry import UnknownNameError

    ours = (SetupError, ControlError, SocketPathError, LinkError, LogError, CourseError, ProfileError, RecordingError)
    return (*ours, PluginError, UnknownNameError, MappingError, BridgeError, StudyError, LearningError, PolicyError, GapError)
