"""Error types that the user can fix. They are shown as a message, without a traceback."""


def expected_errors() -> tuple[type[Exception], ...]:
    """Return the exception types whose text names the place of the error and the remedy."""
    from vehicled.app import SetupError
    from vehicled.bridges.process import BridgeError
    from vehicled.control.policy.network import PolicyError
    from vehicled.control_socket.client import ControlError
    from vehicled.control_socket.socket_path import SocketPathError
    from vehicled.learning.errors import LearningError
    from vehicled.link import LinkError
    from vehicled.log.errors import LogError
    from vehicled.paths.errors import CourseError
    from vehicled.plugins import PluginError
    from vehicled.profile import ProfileError
    from vehicled.reality_gap.errors import GapError
    from vehicled.recordings.errors import RecordingError
    from vehicled.registry import UnknownNameError
    from vehicled.studies.errors import StudyError
    from vehicled.teleop.mapping import MappingError

    ours = (SetupError, ControlError, SocketPathError, LinkError, LogError, CourseError, ProfileError, RecordingError)
    return (*ours, PluginError, UnknownNameError, MappingError, BridgeError, StudyError, LearningError, PolicyError, GapError)
