"""Knowledge of the bridge about the run: newest records, state, and the place of the vehicle.
Pure."""

from math import isfinite
from typing import Any, NamedTuple, TypeVar

from vehicled.core.messages import CourseKind, Message, Mode, Reaction, StateEstimate
from vehicled.live.bridges.mavlink.config import MavlinkConfig
from vehicled.live.bridges.mavlink.modes import RoverMode
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose

M = TypeVar("M", bound=Message)


class RunState(NamedTuple):
    """State of the run, from the status of the daemon."""

    mode: Mode = Mode.INIT
    reaction: Reaction = Reaction.NONE
    why_code: str = ""
    course_kind: CourseKind = CourseKind.GIVEN
    waiting_for: tuple[str, ...] = ()
    wait: tuple[float, float] | None = None
    """Place, m, and duration, s, of the wait at which the vehicle stands now; None while there is
    none."""

    @classmethod
    def from_status(cls, status: dict[str, Any]) -> "RunState":
        """Return the state of a status, as
        :meth:`vehicled.live.control_socket.console.Console.status` gives it."""
        wait = status.get("wait")
        return cls(
            Mode[status["mode"]],
            Reaction[status.get("reaction", "NONE")],
            status.get("why_code", ""),
            CourseKind[status.get("course_kind", "GIVEN")],
            tuple(status.get("waiting_for", ())),
            None if wait is None else (wait["at_m"], wait["duration_s"]),
        )


class RunView:
    """Run as the bridge sees it."""

    def __init__(self, config: MavlinkConfig) -> None:
        self.config = config
        self.datum = Datum(*config.datum)
        self.state = RunState()
        self.chosen = RoverMode.HOLD
        """Mode that a ground station chose while the vehicle does not drive."""
        self.home: tuple[float, float] | None = None
        """Place in the map frame at which the vehicle was armed last, m; None before."""
        self.mission_current: int | None = None
        """Number of the mission item under way; None without a mission."""
        self.now_s = 0.0
        self._newest: dict[type[Message], Message] = {}

    def record(self, message: Message) -> None:
        """Keep the newest message of its type."""
        self._newest[type(message)] = message

    def newest(self, kind: type[M]) -> M | None:
        """Return the newest message of a type; None before the first."""
        return self._newest.get(kind)  # type: ignore[return-value]

    @property
    def pose(self) -> Pose | None:
        """Estimated pose in the map frame; None while it is unknown."""
        estimate = self.newest(StateEstimate)
        if estimate is None or not isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad):
            return None
        return Pose(estimate.x_m, estimate.y_m, estimate.yaw_rad)

    @property
    def boot_ms(self) -> int:
        """Time since the start of the run, ms."""
        estimate = self.newest(StateEstimate)
        t_ns = estimate.t_ns if estimate is not None else self.config.started_ns
        return max(t_ns - self.config.started_ns, 0) // 1_000_000 % 2**32
