"""State and requests of a run, for the control socket and the live view. Requests go through the
machine and into its journal."""

from math import copysign, degrees, isfinite, radians
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from vehicled.core.journal import Router
from vehicled.core.messages import (
    CourseCommand,
    CourseKind,
    EstimatorStatus,
    Heartbeat,
    Mode,
    OperatorAction,
    OperatorCommand,
    ParameterCommand,
    PortState,
    Reaction,
    Setpoint,
    SpeedCommand,
    TeleopCommand,
)
from vehicled.core.tasks import PIPELINE
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.daemon.live_changes import ChangeError, ControllerBuilder, Parameter, Prepared
from vehicled.daemon.machine import Machine
from vehicled.live.control_socket.path_points import path_points
from vehicled.live.control_socket.protocol import GotoRequest, ReturnRequest
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import to_bytes
from vehicled.runtime.planner.frames import Goal
from vehicled.safety.margins import RuleState, standings
from vehicled.safety.supervisor import Supervisor

STOPS = (OperatorAction.STOP, OperatorAction.DISARM, OperatorAction.EMERGENCY_STOP)
STOPPED = "the vehicle was stopped after this was asked for: ask again"


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts that stay constant during a run."""

    profile: str
    course: str
    course_m: float
    estimator: str
    controller: str
    link: str
    version: str
    started_ns: int
    log: str = ""
    """Path of the log; empty if none is written."""
    datum: Datum | None = None
    """Origin of the map frame; None if unknown."""
    closed_ports: frozenset[str] = frozenset()
    """Ports that this run never opens: on a vehicle the ground truth and devices without an
    address."""
    mixed: str = ""
    """Scene and virtual vehicles of mixed reality; empty without them."""


class Console:
    """Access to one run. All methods return at once and must be called on the loop."""

    def __init__(self, machine: Machine, facts: RunFacts, router: Router | None = None) -> None:
        """``router`` passes on the messages of the run."""
        self._machine = machine
        self.router = router or Router()
        self.facts = facts
        self.stops = 0
        """Number of stops and disarmings asked for; what was asked for before one is called off."""

    def request(self, action: OperatorAction, origin: str, now_ns: int) -> str:
        """Request a change of mode, which passes the usual checks and takes effect at the next
        actuation tick.

        Return the reason if the request is impossible in the present mode; empty if it is followed
        or waits for its checks.
        """
        self.stops += action in STOPS
        refused = self._machine.supervisor.refusal(action)
        self._machine.on_message(OperatorCommand(now_ns, now_ns, action, origin), now_ns)
        return refused

    def teleop(self, reading: TeleopCommand, now_ns: int) -> None:
        """Pass on one teleop reading."""
        self._machine.on_message(reading, now_ns)

    def setpoint(self, setpoint: Setpoint, now_ns: int) -> None:
        """Pass on one setpoint of another program."""
        self._machine.on_message(setpoint, now_ns)

    def limit_speed(self, limit_mps: float, origin: str, now_ns: int) -> str:
        """Limit the speed; infinite lifts the limit. Return why this is refused; empty if it is
        done."""
        return self._machine.on_message(SpeedCommand(now_ns, now_ns, origin, limit_mps), now_ns)

    def parameters(self) -> list[Parameter]:
        """Return the parameters of the controller that may be changed now."""
        return self._builder().parameters()

    def path(self, points: int) -> dict[str, Any] | None:
        """Return the course of the run as at most so many points; None without a course."""
        builder = self._machine.pipeline.builder
        return None if builder is None else path_points(builder.course, points)

    def prepare(
        self, message: CourseCommand | ParameterCommand, course: Course | None = None
    ) -> Prepared:
        """Return what a change makes; another thread may call this. ``course``: that of the
        message, if it was read and checked already. Raises :class:`ChangeError`.
        """
        moving = self.mode is Mode.AUTO
        prepared = self._builder().prepare(
            message, self._machine.estimate, moving=moving, checked=course
        )
        if prepared.lap_from_m is None:
            return prepared
        return replace(prepared, stored=to_bytes(prepared.course), lap_from_m=None)

    def fits(self, message: CourseCommand | ParameterCommand, prepared: Prepared) -> bool:
        """Return True if the change can be taken as it was prepared, without work on the loop."""
        return self._machine.fits(message, prepared)

    def change(
        self,
        message: CourseCommand | ParameterCommand,
        prepared: Prepared | None,
        now_ns: int,
        stops: int | None = None,
    ) -> str:
        """Take a prepared change between two ticks. Return why it is refused; empty if it is taken.

        ``stops``: value of :attr:`stops` when a course was asked for, so that a stop calls off what
        is still being planned.
        """
        if stops is not None and stops != self.stops and isinstance(message, CourseCommand):
            return STOPPED
        message = replace(message, t_ns=now_ns, t_rx_ns=now_ns)
        if isinstance(message, CourseCommand) and prepared is not None and prepared.stored:
            message = replace(message, course=prepared.stored)
        return self._machine.on_message(message, now_ns, prepared)

    def goal(self, request: GotoRequest | ReturnRequest) -> Goal:
        """Return what a path to a goal is planned from: where the vehicle is, and where it shall
        go. Raises :class:`ChangeError`.
        """
        estimate, builder = self._machine.estimate, self._builder()
        builder.require_course()
        if estimate is None or estimate.status is not EstimatorStatus.RUNNING:
            raise ChangeError("the estimator has no position: ask again when it has one")
        x_m, y_m, yaw_rad = self._place(request)
        return Goal(
            start=Pose(estimate.x_m, estimate.y_m, estimate.yaw_rad),
            x_m=x_m,
            y_m=y_m,
            yaw_rad=yaw_rad,
            speed_mps=min(
                request.speed_mps or builder.usual_speed_mps, builder.limits.max_speed_mps
            ),
            name="return" if isinstance(request, ReturnRequest) else f"goto {x_m:.1f} {y_m:.1f}",
            direction=0
            if abs(estimate.speed_mps) <= STANDSTILL_MPS
            else int(copysign(1.0, estimate.speed_mps)),
        )

    def _place(self, goal: GotoRequest | ReturnRequest) -> tuple[float, float, float | None]:
        if isinstance(goal, ReturnRequest):
            if self._machine.pipeline.home is None:
                raise ChangeError(
                    "the vehicle has not been armed yet: there is no place to return to"
                )
            return self._machine.pipeline.home
        if (
            goal.x_m is not None
            and goal.y_m is not None
            and goal.latitude_deg is None
            and goal.longitude_deg is None
        ):
            return goal.x_m, goal.y_m, goal.yaw_rad
        if (
            goal.latitude_deg is not None
            and goal.longitude_deg is not None
            and goal.x_m is None
            and goal.y_m is None
        ):
            if goal.latitude_deg == 0.0 == goal.longitude_deg:
                raise ChangeError("0 N 0 E is a place holder: give the place itself")
            datum = self._builder().course.datum
            east_m, north_m, _ = datum.to_enu(
                radians(goal.latitude_deg), radians(goal.longitude_deg), datum.height_m
            )
            return east_m, north_m, goal.yaw_rad
        raise ChangeError("a goal is either x_m and y_m, or latitude_deg and longitude_deg")

    def _builder(self) -> ControllerBuilder:
        builder = self._machine.pipeline.builder
        if builder is None:
            raise ChangeError("the controller of this run cannot be changed")
        return builder

    def margins(self) -> list[RuleState]:
        """Return value, limit and state of every rule at the last actuation tick."""
        return standings(self._machine.supervisor)

    def heartbeat(self, origin: str, now_ns: int) -> None:
        """Pass on a heartbeat of the ground station."""
        self._machine.on_message(Heartbeat(now_ns, now_ns, origin), now_ns)

    @property
    def supervisor(self) -> Supervisor:
        """Supervisor of the run."""
        return self._machine.supervisor

    @property
    def mode(self) -> Mode:
        """Present mode."""
        return self._machine.mode

    def status(self, now_ns: int) -> dict[str, Any]:
        """Return the state of the run as plain values; None for unknown ones."""
        machine, facts = self._machine, self.facts
        supervisor = machine.supervisor
        estimate, control = machine.estimate, machine.pipeline.newest_command.value
        return {
            "profile": facts.profile,
            **self._course(),
            "estimator": facts.estimator,
            "controller": facts.controller,
            "link": facts.link,
            "mixed_reality": facts.mixed,
            "version": facts.version,
            "log": facts.log,
            "log_trouble": machine.pipeline.monitors.host.log_trouble,
            "up_s": (now_ns - facts.started_ns) * 1e-9,
            "mode": supervisor.mode.name,
            "why": supervisor.why + self._waits(now_ns),
            "wait": self._wait(now_ns),
            "why_code": supervisor.reason.code,
            "driver": supervisor.driver,
            "reaction": supervisor.reaction.name,
            "waiting_for": machine.waiting_for(now_ns),
            "substitutes": list(machine.pipeline.substitutes),
            "independent_stop": machine.pipeline.independent_stop,
            "chain": [
                {
                    "ago_s": (now_ns - link.t_ns) * 1e-9,
                    "code": link.reason.code,
                    "reaction": link.reaction.name,
                    "reason": link.reason.text(),
                    "measured": None if link.reason.measured is None else str(link.reason.measured),
                }
                for link in supervisor.chain
            ],
            "speed_cap_mps": self._speed_cap_mps(),
            "speed_limit_mps": _known(machine.pipeline.speed_limit_mps),
            "offboard": machine.pipeline.monitors.setpoints.holder,
            "datum": self._datum(),
            "estimate": None
            if estimate is None
            else {
                "status": estimate.status.name,
                "x_m": _known(estimate.x_m),
                "y_m": _known(estimate.y_m),
                "yaw_rad": _known(estimate.yaw_rad),
                "speed_mps": _known(estimate.speed_mps),
                "sigma_m": _known(estimate.position_sigma_m),
                "age_ms": (now_ns - estimate.t_ns) * 1e-6,
            },
            "lane": self._lane(),
            "rc": machine.pipeline.monitors.rc.status(now_ns),
            **self._place_on_course(),
            "target_speed_mps": None if control is None else _known(control.target_speed_mps),
            "ports": [
                {
                    "name": name,
                    "state": state.name if isinstance(state, PortState) else "OPENING",
                    "detail": detail,
                }
                for name, (state, detail) in machine.port_states.items()
                if name not in facts.closed_ports
            ],
            "messages": [to_builtins(row) for row in machine.usage],
            "deadlines": [self._deadline(index) for index in range(len(PIPELINE))],
            "clipped": {
                "commands": machine.pipeline.gate.clipped_total,
                "by_kind": dict(machine.pipeline.gate.clipped_by_kind),
            },
        }

    def _course(self) -> dict[str, Any]:
        builder = self._machine.pipeline.builder
        if builder is None:
            return {
                "course": self.facts.course,
                "course_kind": CourseKind.GIVEN.name,
                "course_m": self.facts.course_m,
            }
        kind = self._machine.pipeline.course_kind.name
        return {
            "course": builder.course.name,
            "course_kind": kind,
            "course_m": builder.course.length_m,
        }

    def _wait(self, now_ns: int) -> dict[str, float] | None:
        """Return the wait of the course at which the vehicle is to stand now; None while there is
        none."""
        wait = self._machine.wait(now_ns)
        return (
            None
            if wait is None
            else {"at_m": wait[0].s_m, "duration_s": wait[0].duration_s, "waited_s": wait[1]}
        )

    def _waits(self, now_ns: int) -> str:
        wait = self._wait(now_ns)
        return (
            ""
            if wait is None
            else "; waits {waited_s:.0f} s of {duration_s:g} s at {at_m:.1f} m".format(**wait)
        )

    def _place_on_course(self) -> dict[str, float | None]:
        """Return the place on the course as the monitors track it; a controller may be wrong about
        its own."""
        s = self._machine.supervisor.inputs
        place = None if s is None else s.monitors.place
        if place is None or place.point is None:
            return {"progress_m": None, "cross_track_m": None}
        return {"progress_m": place.s_m, "cross_track_m": place.off_m}

    def _speed_cap_mps(self) -> float | None:
        """Return the speed cap if it is below the profile's limit."""
        supervisor = self._machine.supervisor
        s = supervisor.inputs
        return (
            None
            if s is None or supervisor.speed_cap_mps >= s.limits.max_speed_mps
            else supervisor.speed_cap_mps
        )

    def _datum(self) -> dict[str, float] | None:
        datum = self.facts.datum
        if datum is None:
            return None
        place = {
            "latitude_rad": datum.latitude_rad,
            "longitude_rad": datum.longitude_rad,
            "height_m": datum.height_m,
        }
        return place | {
            "latitude_deg": degrees(datum.latitude_rad),
            "longitude_deg": degrees(datum.longitude_rad),
        }

    def _lane(self) -> dict[str, Any] | None:
        """Return the free distance ahead; None without a working obstacle sensor; ``free_m`` is
        None if the lane is clear."""
        s = self._machine.supervisor.inputs
        if s is None or not s.monitors.obstacle.sees:
            return None
        return {
            "free_m": _known(s.monitors.obstacle.free_m),
            "stop_m": _known(s.monitors.stopping.distance_m),
        }

    def _deadline(self, index: int) -> dict[str, Any]:
        stats = self._machine.executive.stats(index)
        return {
            "task": PIPELINE[index],
            "releases": stats.n,
            "misses": stats.misses,
            "skips": stats.skips,
        }

    def summary(self) -> str:
        """Return one line for the service manager: mode, and pending arming checks or the reason
        for the stop."""
        supervisor = self._machine.supervisor
        said = f"{supervisor.mode.name}: {supervisor.why}"
        return (
            said if supervisor.reaction is Reaction.NONE else f"{said} ({supervisor.reaction.name})"
        )


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
