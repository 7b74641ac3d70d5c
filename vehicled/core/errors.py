"""Base of the errors that a user can cure. A command prints their text and ends without a
traceback: with status 2, or with 75 if the same command can succeed later.

The text says what happened, where, and what to do. What is in brackets is where it is defined::

    UserError
    ├── SetupError                   a valid profile cannot be run as asked (here)
    ├── ProfileError                 a profile is invalid; lists every mistake (profile.problems)
    ├── UnknownNameError             a name without implementation (profile.registry)
    ├── PluginError                  code of the user cannot be loaded (profile.plugins)
    │   └── PluginFaultError         it fails or returns something wrong in a run
    ├── CourseError                  a course, mission or map (paths.errors)
    │   └── ItemError                one item of a mission (paths.mission)
    ├── MapError                     an occupancy grid cannot be read or used (maps.errors)
    ├── MappingDriveError            no map can be made of a drive (offline.mapping.errors)
    ├── PolicyError                  a trained network (control.policy.network)
    ├── LinkError                    the simulator or its link (core.link)
    │   └── LinkClosedError          the peer has closed it (runtime.connection)
    ├── LogError                     a log cannot be read or written (log.errors)
    ├── RecordingError               a recorded drive (offline.recordings.errors)
    ├── GapError                     runs cannot be judged or compared (offline.gap.errors)
    ├── StudyError                   a study (offline.studies.errors)
    ├── LearningError                data to learn from (offline.learning.errors)
    ├── RaceError                    a race track, or a line on it (offline.race.errors)
    ├── CalibrationError             drives that determine no parameter (offline.twin.calibration)
    ├── ReferenceRunError            a run of a reference model (offline.twin.validation.reference)
    ├── SceneError, TerrainError     what stands round the course, and the ground (sim_backend)
    ├── UnknownPlantError, UnknownEmulatorError, FailureError, HandError, ListenError:
    │                                what the simulator was asked for
    ├── VirtualVehicleError          a virtual vehicle cannot join (offline.mixed.virtual_vehicles)
    ├── NotMeasuredError             a step of the set-up shows nothing (live.setup.estimates)
    ├── InstallError                 the service cannot be installed (cli.installation)
    ├── BridgeError                  a bridge cannot start (live.bridges.process)
    ├── MappingError                 a gamepad's mapping (live.teleop.mapping)
    ├── SocketPathError              no daemon, or several (live.control_socket.socket_path)
    └── ControlError                 the daemon refuses or does not answer (live.control_socket)
        ├── HungUpError              it has closed the connection
        └── NoAnswerError            no answer in time
"""

import errno

_PASSING = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
    )
)


class UserError(Exception):
    """Base of the errors whose text names the problem, its place and the cure."""

    passing = False
    """True if the same call can succeed later: a disk may be freed, a port or a socket released."""


class SetupError(UserError):
    """Valid profile or command that cannot be run as requested; the text names the cure."""


def passes(error: OSError) -> bool:
    """Return True for an error of the operating system that the same call may not meet again."""
    return error.errno in _PASSING
