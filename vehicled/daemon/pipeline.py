"""The four tasks from measurement to command: ingestion, fusion, control, actuation.

Each task runs to completion at a given instant. The buffers between the tasks are their only shared
state. The machine converts between bytes and messages.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf, isfinite, isnan, nan
from typing import Any

from msgspec.structs import replace

from vehicled.control.alignment import AlignmentDrive, AlignmentInputs
from vehicled.control.interface import Controller
from vehicled.control.setpoint import SetpointControl
from vehicled.control.speed import SpeedParams
from vehicled.control.teleop import teleop_command
from vehicled.control.waiting import WaitTracker
from vehicled.core.bus import Inbox, Latest
from vehicled.core.events import WAIT_BEGINS, WAIT_ENDED, CourseSet, CourseWait, LapJoined
from vehicled.core.journal import Sink
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    ControlLevel,
    CourseCommand,
    CourseKind,
    EstimatorStatus,
    Event,
    Fault,
    GnssFix,
    Heading,
    ImuSample,
    LaserScan,
    MapPose,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    NeighbourState,
    ObstacleRange,
    OperatorCommand,
    ParameterCommand,
    PlannedMotion,
    RcChannels,
    Reaction,
    SpeedCommand,
    StateEstimate,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.core.observers import Observers
from vehicled.core.ports import NEVER_NS
from vehicled.core.rc import RcMap
from vehicled.core.vehicle import AlignmentParams, ControlFrameParams, Limits, Vehicle
from vehicled.daemon.live_changes import ChangeError, ControllerBuilder, Prepared, check_limit
from vehicled.estimation.control_frame import ControlFrame
from vehicled.estimation.interface import Estimator, Identifier
from vehicled.maps.localiser import MapLocaliser
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.lateral_offset import PlannedOffset
from vehicled.safety.arming import missing
from vehicled.safety.entry import Entry, join_moving, lap_from
from vehicled.safety.fence import Fence
from vehicled.safety.gate import Gate
from vehicled.safety.modes import MOVING
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.inertial import Mounting
from vehicled.safety.monitors.sources import AHEAD_NS, OLDEST_NS, MonitoredSource
from vehicled.safety.rows.sensors import UNMEASURED
from vehicled.safety.rule import RuleInputs
from vehicled.safety.supervisor import Supervisor

INBOX_LIMIT = 4096
PLAN_PERIOD_NS = 100_000_000
"""Interval of the planned motion that is broadcast."""
STOP_TIMEOUT_NS = 8 * 10**9
"""Longest wait for standstill after a stop; then the run ends with the brake applied."""

_DISARMED = (Mode.INIT, Mode.STANDBY, Mode.FAULT, Mode.STOPPING)

MEASUREMENTS = frozenset(
    {GnssFix, ImuSample, Heading, MapPose, WheelSpeed, MotorStatus, SteeringFeedback}
)
"""Inputs of the estimator, with or without a rate in the profile."""
RANGES = frozenset({ObstacleRange, LaserScan})
"""Inputs of the obstacle monitor."""


class Pipeline:
    """Runs estimator, controller, supervisor and gate. Each task is one method, called once per
    release."""

    def __init__(
        self,
        *,
        sources: Sequence[MonitoredSource],
        vehicle: Vehicle,
        limits: Limits,
        estimator: Estimator,
        controller: Controller,
        supervisor: Supervisor,
        gate: Gate,
        sink: Sink,
        identifier: Identifier | None = None,
        course: Course | None = None,
        fence: Fence | None = None,
        control_frame: ControlFrameParams | None = None,
        antenna_m: tuple[float, float] = (0.0, 0.0),
        telemetry: bool = False,
        alignment: AlignmentParams | None = None,
        datum: Datum | None = None,
        speed: SpeedParams | None = None,
        builder: ControllerBuilder | None = None,
        observers: Observers | None = None,
        mounting: Mounting | None = None,
        rc: RcMap | None = None,
        localiser: MapLocaliser | None = None,
    ) -> None:
        self.observers = observers or Observers()
        """Failures of what only explains the drive."""
        self._mode_record = self.observers.guard(
            "mode records", self._made_mode_record, None, lasting=True
        )
        self._clipped_record = self.observers.guard(
            "gate records", self._made_clipped_record, None, lasting=True
        )
        alignment = alignment or AlignmentParams()
        self.monitors = Monitors(
            limits, vehicle, sources, course, fence, antenna_m,
            telemetry=telemetry, alignment=alignment, datum=datum, mounting=mounting, rc=rc,
        )  # fmt: skip
        self._localiser = localiser
        self.monitors.localisation.mapped = localiser is not None
        self._alignment = AlignmentDrive(alignment, speed or SpeedParams(), vehicle)
        self._setpoints = SetpointControl(speed or SpeedParams(), vehicle)
        self.builder = builder
        """Builder of the controller; None if it cannot be changed during the run."""
        self.course_kind = CourseKind.GIVEN
        """Purpose of the present course."""
        self.speed_limit_mps = inf
        """Speed limit that was requested, m/s; infinite for none."""
        self.home: tuple[float, float, float] | None = None
        """Pose in the map frame at which the vehicle was armed, m, m, rad; None before."""
        self._vehicle = self._known = vehicle
        self._limits = limits
        self._estimator = estimator
        self._controller = controller
        self.gate = gate
        self._clipped_before: dict[str, int] = dict(gate.clipped_by_kind)
        self._sink = sink
        self._identifier = identifier
        self.waits = None if course is None else WaitTracker(course)
        """Waits of the present course; None without a course."""
        self._frame = ControlFrame(control_frame or ControlFrameParams())
        self.supervisor = supervisor
        self.inbox: Inbox[Message] = Inbox(INBOX_LIMIT)
        """Messages of the devices since the last ingestion."""
        self._accepted: Inbox[Message] = Inbox(INBOX_LIMIT)
        self.estimate: Latest[StateEstimate] = Latest()
        self.newest_command: Latest[ControlCommand] = Latest()
        self.broadcasts_plan = False
        """A radio broadcasts the planned motion."""
        self.planned_motion: Latest[PlannedMotion] = Latest()
        self._plan_ns = 0
        self._newest_plan = self.observers.guard(
            "planned motion", self._made_plan, None, lasting=True
        )
        self._sent: ActuatorCommand | None = None
        self._asked_mps = nan
        """Magnitude of the target speed of the last demand, m/s; NaN without one."""
        self._finished = False
        """The controller says after its last step that its course is driven."""
        self._planned: PlannedOffset | None = None
        """The path beside the course that the controller says it drives along."""
        self._scan: LaserScan | None = None
        """Newest scan that the controller has not seen."""
        self.command_override: Callable[[ActuatorCommand], ActuatorCommand] | None = None
        """Open-loop replay: returns the recorded command instead of the one made here; None
        otherwise."""
        self._mode_seen = supervisor.mode
        self._driving_mode = Mode.AUTO
        self._stopping_since_ns = NEVER_NS
        self.raised = ""
        """Exception of a task since the last actuation; empty if none."""
        self.setup_fault = ""
        """Reason why profile or calibration do not fit; empty if they do."""
        self.substitutes: tuple[str, ...] = ()
        """Substitutes for missing capabilities of the actuator and a missing independent stop;
        reported at arming."""
        self.independent_stop = ""
        """Description of the stop that does not pass through this computer."""
        self.not_finite = 0
        """Number of sensor messages dropped for NaN or infinite values."""

    # ---------------------------------------------------------------- tasks

    def ingest(self, now_ns: int) -> None:
        """Check new messages and pass them on: measurements to fusion, requests and faults to the
        supervisor and its monitors."""
        monitors = self.monitors
        for message in self.inbox.drain():
            kind = type(message)
            if kind in MEASUREMENTS:
                if not is_finite(message):
                    self.not_finite += 1
                    continue
                t_rx_ns: int = message.t_rx_ns  # type: ignore[attr-defined]
                age_ns: int = now_ns - message.t_ns  # type: ignore[attr-defined]
                if -AHEAD_NS <= age_ns <= OLDEST_NS:
                    monitors.sources.received(kind, t_rx_ns if t_rx_ns < now_ns else now_ns)
                else:
                    monitors.sources.misdated(kind, age_ns)
                self._accepted.put(message)
            elif kind in RANGES:
                monitors.sources.received(kind, min(message.t_rx_ns, now_ns))  # type: ignore[attr-defined]
                if kind is LaserScan:
                    self._scan = message  # type: ignore[assignment]
                    if self._localiser is not None:
                        self._localiser.on_scan(message)  # type: ignore[arg-type]
            elif kind is OperatorCommand:
                self.supervisor.on_operator(message, now_ns)  # type: ignore[arg-type]
            elif kind is RcChannels:
                reading = monitors.rc.on_message(message, now_ns)  # type: ignore[arg-type]
                if reading is not None:
                    self._sink.record(reading, now_ns)
                    monitors.teleop.on_message(reading, now_ns, rc=True)
            elif kind is NeighbourState:
                self._controller.on_neighbour(message)  # type: ignore[arg-type]
            monitors.on_message(message, now_ns)

    def fuse(self, now_ns: int) -> None:
        """Step estimator and identifier."""
        estimator, identifier = self._estimator, self._identifier
        if self._localiser is not None:
            pose = self._localiser.step(now_ns, self.estimate.value)
            if pose is not None:
                self._sink.record(pose, now_ns)
                self.monitors.on_message(pose, now_ns)
                estimator.observe(pose)
        for message in self._accepted.drain():
            estimator.observe(message)
            if identifier is not None:
                identifier.observe(message)
        estimate = estimator.step(now_ns)
        self.estimate.put(estimate, now_ns)
        self._sink.record(estimate, now_ns)
        if identifier is not None:
            found = identifier.step(estimate, now_ns)
            if found is not None:
                self._sink.record(found, now_ns)
                self._adapt(self._vehicle.identified(found))

    def control(self, now_ns: int) -> None:
        """Step the controller on the newest estimate."""
        estimate = self.estimate.value
        if estimate is None:
            return
        # Otherwise only the gate would hold the cap, and the speed would oscillate around it.
        self._controller.limit_speed(self._cap_mps)
        if self._scan is not None:
            self._controller.on_scan(self._scan)
            self._scan = None
        command = self._controller.step(self._frame.step(estimate), now_ns)
        if self.waits is not None and self.waits.left and self.supervisor.mode is Mode.AUTO:
            command = self._wait(self.waits, command, estimate, now_ns)
        self.newest_command.put(command, now_ns)
        self._sink.record(command, now_ns)
        # Asked here, where an exception of the controller is one of its task.
        self._finished = bool(self._controller.finished)
        self._planned = self._controller.lateral_offset
        if self.broadcasts_plan and now_ns >= self._plan_ns:
            self._plan_ns = now_ns + PLAN_PERIOD_NS
            plan = self._newest_plan(now_ns) or PlannedMotion(now_ns, (), (), (), (), ())
            self.planned_motion.put(plan, now_ns)
            self._sink.record(plan, now_ns)

    def _made_plan(self, now_ns: int) -> PlannedMotion | None:
        driving = self.supervisor.mode is Mode.AUTO
        plan = self._controller.planned_motion(now_ns) if driving else None
        if plan is not None and (problem := plan.problem):
            raise ValueError(problem)
        return plan

    def _wait(
        self, waits: WaitTracker, command: ControlCommand, estimate: StateEstimate, now_ns: int
    ) -> ControlCommand:
        """Return the command, or the brake while the course asks the vehicle to stand."""
        before = waits.present
        at_end = bool(self._controller.finished)
        s_m = self.monitors.place.s_m
        ended = waits.step(s_m, estimate.speed_mps, now_ns, at_end=at_end)
        wait = waits.present or before
        if wait is None:
            return command
        if ended or before is None:
            event = CourseWait(wait.s_m, wait.duration_s).event(
                now_ns, WAIT_ENDED if ended else WAIT_BEGINS
            )
            self._sink.record(event, now_ns)
        if ended and not at_end and isfinite(s_m):
            # As for a drive that resumes: the integral of the speed control has grown meanwhile.
            self._controller.reset(s_m, self.gate.wheel_angle_rad)
        return replace(command, throttle=0.0, brake=1.0, target_speed_mps=0.0)

    def late(self) -> None:
        """Report a missed deadline to the controller, so that it may use a cheaper law next
        time."""
        self._controller.on_deadline_miss()

    def actuate(self, now_ns: int, actuator_lost: str) -> ActuatorCommand:
        """Decide mode and reaction and pass the command through the gate.

        ``actuator_lost`` is the reason why the actuator cannot be reached; empty if it can.
        """
        supervisor = self.supervisor
        inputs = self._rule_inputs(now_ns, actuator_lost)
        supervisor.step(inputs)
        self.raised = ""
        if supervisor.mode is not self._mode_seen:
            # Includes changes by the operator between two ticks.
            self._on_mode(self._mode_seen, now_ns)
            self._mode_seen = supervisor.mode
        if supervisor.faults:
            for fault in supervisor.take_faults():
                self._sink.record(fault, now_ns)
        demand = self._demand(inputs)
        self._asked_mps = nan if demand is None else abs(demand.target_speed_mps)
        cap_mps = min(supervisor.speed_cap_mps, self.speed_limit_mps)
        doubted = self._doubted(inputs)
        command = self.gate.apply(
            demand,
            inputs.speed_mps,
            supervisor.mode,
            supervisor.reaction,
            now_ns,
            demand.newest_input_ns if demand is not None else 0,
            cap_mps=min(cap_mps, self._asked_mps) if doubted else cap_mps,
            releases_brake=supervisor.releases_brake,
            proven_mps=self.monitors.motion.faster_mps(now_ns, inputs.speed_mps),
            holds=doubted or supervisor.in_force(UNMEASURED) is not None,
            surplus_mps2=self.monitors.motion.surplus_mps2,
        )
        command = self._aged(command, now_ns, demand)
        self.sent(command)
        return command

    def _doubted(self, s: RuleInputs) -> bool:
        """Return True if the newest fix shows a drive to be faster than the estimate.

        A controller that follows an estimate which is too slow gives more and more throttle.
        """
        fresh = isfinite(self.monitors.speed.newest_ground_mps(s.now_ns))
        return fresh and isfinite(self._asked_mps) and self.monitors.consistency.faster

    def _aged(
        self, command: ActuatorCommand, now_ns: int, demand: ControlCommand | None
    ) -> ActuatorCommand:
        """Return the command with the ages of its inputs."""
        sources = self.monitors.sources
        ages = [
            self.estimate.age_ns(now_ns),
            sources.age_ns(GnssFix, now_ns),
            sources.age_ns(ImuSample, now_ns),
            min(sources.age_ns(WheelSpeed, now_ns), sources.age_ns(MotorStatus, now_ns)),
        ]
        estimate_ns, gnss_ns, imu_ns, odometry_ns = [-1 if age >= NEVER_NS else age for age in ages]
        return replace(
            command,
            level=demand.level if demand is not None else ControlLevel.STOP,
            estimate_age_ns=estimate_ns,
            gnss_age_ns=gnss_ns,
            imu_age_ns=imu_ns,
            odometry_age_ns=odometry_ns,
        )

    def _demand(self, s: RuleInputs) -> ControlCommand | None:
        """Return the command of the source that drives in this mode."""
        mode, manual, now_ns = self.supervisor.mode, self.monitors.teleop.command, s.now_ns
        if mode is Mode.ALIGN:
            newest_ns = 0 if s.estimate is None else s.estimate.newest_input_ns
            turned_rad = self.monitors.alignment.turned_rad
            return self._alignment.step(
                AlignmentInputs(s.speed_mps, turned_rad, self._cap_mps, newest_ns), now_ns
            )
        if mode is Mode.STOPPING and self._driving_mode is Mode.ALIGN:
            return self._alignment.stop(
                0 if s.estimate is None else s.estimate.newest_input_ns, now_ns
            )
        if mode is Mode.TELEOP and manual is not None:
            return teleop_command(manual, self._known, now_ns)
        setpoint = self.monitors.setpoints.newest
        if mode is Mode.OFFBOARD and setpoint is not None:
            return self._setpoints.step(setpoint, s.estimate, self._cap_mps, now_ns)
        # A stop after manual driving holds the wheel angle, because there is no path to follow.
        driven = mode is Mode.AUTO or (mode is Mode.STOPPING and self._driving_mode is Mode.AUTO)
        return self.newest_command.value if driven else None

    # ---------------------------------------------------------------- changes between two ticks

    def change(
        self,
        message: CourseCommand | ParameterCommand | SpeedCommand,
        now_ns: int,
        prepared: Prepared | None = None,
    ) -> str:
        """Take a change, prepared or not. Return why it is refused; empty if it is taken. The log
        has the answer."""
        try:
            if isinstance(message, SpeedCommand):
                check_limit(message.limit_mps, self._limits.max_speed_mps)
                self.speed_limit_mps = message.limit_mps
                name: str = "speed_limited"
                fields: dict[str, Any] = {
                    "limit_mps": message.limit_mps if isfinite(message.limit_mps) else None
                }
            else:
                name, fields = self._rebuild(message, prepared)
        except ChangeError as error:
            self._sink.record(
                Fault(now_ns, "request_refused", message.origin, Reaction.NONE, True, str(error)),
                now_ns,
            )
            return str(error)
        self._sink.record(Event.of(now_ns, "info", name, **fields, by=message.origin), now_ns)
        return ""

    def fits(self, message: CourseCommand | ParameterCommand, prepared: Prepared) -> bool:
        """Return True if a change can be taken as it was prepared: nothing else was changed
        meanwhile, and the vehicle has not left the place for which its lap was prepared."""
        builder = self.builder
        if builder is None or not builder.fits(prepared, message):
            return False
        moving = self.supervisor.mode is Mode.AUTO
        parameter = isinstance(message, ParameterCommand)
        return (
            parameter
            or lap_from(prepared.course, self.estimate.value, self._limits, moving=moving) is None
        )

    def _rebuild(
        self, message: CourseCommand | ParameterCommand, prepared: Prepared | None
    ) -> tuple[str, dict[str, Any]]:
        """Replace the controller; return name and fields of the event. Raises
        :class:`ChangeError`."""
        builder, mode, estimate = self.builder, self.supervisor.mode, self.estimate.value
        if builder is None:
            raise ChangeError("the controller of this run cannot be changed")
        if mode is Mode.STOPPING:
            raise ChangeError(
                f"the vehicle is being stopped ({self.supervisor.why}): ask again when it stands"
            )
        if prepared is None or not self.fits(message, prepared):
            prepared = builder.prepare(message, estimate, moving=mode is Mode.AUTO)
        command, s_m = self.newest_command.value, None
        if isinstance(message, CourseCommand):
            name: str = CourseSet.names[0]
            fields: dict[str, Any] = {
                "course": prepared.course.name,
                "length_m": prepared.course.length_m,
            }
            if prepared.lap_from_m is not None:
                fields["lap_from_m"] = prepared.lap_from_m
            if mode is Mode.AUTO:
                if estimate is None:
                    raise ChangeError("the estimator has no position: ask again when it has one")
                joined = join_moving(prepared.course, estimate, self._known, self._limits)
                if joined.s_m is None:
                    raise ChangeError(joined.refused)
                fields["joined_m"] = s_m = joined.s_m
            self.course_kind = message.kind
            if command is not None:
                # Its place belongs to the old course.
                self.newest_command.value = replace(
                    command, progress_m=nan, cross_track_m=nan, heading_error_rad=nan
                )
        else:
            name, fields = "parameter_set", {"key": message.key, "value": message.value}
            if mode is Mode.AUTO and self.monitors.place.point is not None:
                s_m = self.monitors.place.s_m
        self._take(prepared)
        if s_m is not None:
            self._controller.reset(s_m, self.gate.wheel_angle_rad)
            if isinstance(message, CourseCommand):
                self.monitors.place.begin(Entry(s_m), estimate)
                if self.waits is not None:
                    self.waits.begin(s_m)
        return name, fields

    @property
    def _cap_mps(self) -> float:
        """Highest speed that rules, profile and request allow now."""
        return min(self.supervisor.speed_cap_mps, self._limits.max_speed_mps, self.speed_limit_mps)

    # ---------------------------------------------------------------- queries of the machine

    def safe_command(self, now_ns: int) -> ActuatorCommand:
        """Return the brake command, independent of the tasks."""
        command = self.gate.apply(
            None, float("nan"), self.supervisor.mode, Reaction.BRAKE, now_ns, 0
        )
        # The estimator may be the part that raised; the brake must go out all the same.
        with suppress(Exception):
            self.sent(command)
        return command

    def sent(self, command: ActuatorCommand) -> None:
        """Report a sent command to everything that predicts with it."""
        if self.command_override is not None:
            command = self.command_override(command)
        self._sent = command
        self._estimator.command(command)
        self._controller.on_command_sent(command.throttle, command.brake)
        self._setpoints.on_command_sent(command.t_ns, command.throttle, command.brake)
        if self._identifier is not None:
            self._identifier.command(command)

    def waiting_for(self, now_ns: int, actuator_lost: str) -> list[str]:
        """Return what arming waits for now; while armed, what the requested drive waits for; while
        stopping, why the stop does not end."""
        if self.supervisor.mode not in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
            return list(self.supervisor.waiting)
        return missing(self._rule_inputs(now_ns, actuator_lost))

    def age_s(self, now_ns: int) -> float:
        """Return the age of the newest measurement in the estimate; 0 without an estimate."""
        estimate = self.estimate.value
        # Before it starts an estimate holds no measurement, and the speed is that of wheels and
        # GNSS.
        started = estimate is not None and estimate.status is not EstimatorStatus.UNINITIALISED
        return (
            max(now_ns - estimate.newest_input_ns, 0) * 1e-9
            if estimate is not None and started
            else 0.0
        )

    def over(self, now_ns: int) -> bool:
        """Return True if a drive has ended and the vehicle is known to stand, or waiting for that
        has timed out."""
        return self.supervisor.stopped or now_ns - self._stopping_since_ns > STOP_TIMEOUT_NS

    @property
    def coasting(self) -> bool:
        """True while the vehicle drives, or has driven and is not yet known to be at standstill."""
        mode = self.supervisor.mode
        stopping = self._mode_seen in MOVING or self._stopping_since_ns != NEVER_NS
        return mode in MOVING or (mode is Mode.FAULT and stopping and not self.supervisor.stopped)

    # ---------------------------------------------------------------- inside

    def _adapt(self, vehicle: Vehicle) -> None:
        """Give the identified parameters to every part that uses them."""
        self._known = vehicle
        self._estimator.adapt(vehicle)
        self._controller.adapt(vehicle)
        self._setpoints.adapt(vehicle)
        self.gate.adapt(vehicle)
        self.monitors.adapt(vehicle)

    def _on_mode(self, before: Mode, now_ns: int) -> None:
        supervisor = self.supervisor
        mode = supervisor.mode
        if mode is Mode.AUTO:
            s_m = supervisor.entry.s_m
            if supervisor.entry.joined and self._begin_lap(now_ns):
                s_m = 0.0
            self._controller.reset(s_m, self.gate.wheel_angle_rad)
            self._finished, self._planned = False, None
            if self.waits is not None:
                self.waits.begin(s_m)
            self._frame.reset()
            self._driving_mode = mode
        elif mode is Mode.TELEOP:
            self._driving_mode = mode
        elif mode is Mode.OFFBOARD:
            self._setpoints.begin()
            self._driving_mode = mode
        elif mode is Mode.ARMED and (estimate := self.estimate.value) is not None:
            self.home = estimate.x_m, estimate.y_m, estimate.yaw_rad
        elif mode is Mode.ALIGN:
            self._alignment.begin()
            self._driving_mode = mode
        if mode is not Mode.AUTO and self.waits is not None:
            self.waits.leave()
        if mode not in (Mode.STOPPING, Mode.FAULT):
            self._stopping_since_ns = NEVER_NS
        elif before in MOVING and self._stopping_since_ns == NEVER_NS:
            self._stopping_since_ns = now_ns
        if self.substitutes and before in _DISARMED and mode not in _DISARMED:
            self._sink.record(
                Event.of(now_ns, "info", "substitutes", stands_in=self.substitutes), now_ns
            )
        records = (
            self._clipped_record(now_ns) if (before in MOVING) is not (mode in MOVING) else None,
            self._mode_record(before, now_ns),
        )
        for record in records:
            if record is not None:
                self._sink.record(record, now_ns)

    def _made_mode_record(self, before: Mode, now_ns: int) -> ModeChange:
        supervisor = self.supervisor
        reason = supervisor.reason
        *_, first = reason.parts()
        measured = (
            ()
            if reason.measured is None
            else (reason.measured.value, reason.measured.limit, reason.measured.unit)
        )
        code = (supervisor.reaction, reason.code, reason.by, first.code)
        return ModeChange(now_ns, before, supervisor.mode, *code, reason.text(), *measured)

    def _begin_lap(self, now_ns: int) -> bool:
        """Let the present lap begin where the vehicle stands; return False if it begins there, or
        if there is no lap."""
        builder, estimate = self.builder, self.estimate.value
        from_m = (
            None
            if builder is None
            else lap_from(builder.course, estimate, self._limits, moving=False)
        )
        if builder is None or from_m is None:
            return False
        self._take(builder.beginning_at(from_m))
        self.monitors.place.begin(Entry(0.0), estimate)
        self._sink.record(LapJoined(from_m).event(now_ns), now_ns)
        return True

    def _take(self, prepared: Prepared) -> None:
        """Use another controller, and its course, from now on."""
        assert self.builder is not None
        if prepared.course is not self.builder.course:
            self.monitors.follow(prepared.course, prepared.tracker)
            self.waits = WaitTracker(prepared.course)
        self.builder.take(prepared)
        self._controller = prepared.controller
        self._controller.adapt(self._known)
        self._finished, self._planned = False, None

    def _made_clipped_record(self, now_ns: int) -> Event | None:
        """Return the clipped commands by kind since the last start or end of a drive; None if there
        were none."""
        before, self._clipped_before = self._clipped_before, dict(self.gate.clipped_by_kind)
        clipped = {
            kind: n - before[kind] for kind, n in self._clipped_before.items() if n > before[kind]
        }
        return Event.of(now_ns, "info", "commands_cut", **clipped) if clipped else None

    def _rule_inputs(self, now_ns: int, actuator_lost: str) -> RuleInputs:
        return RuleInputs(
            now_ns=now_ns,
            mode=self.supervisor.mode,
            limits=self._limits,
            monitors=self.monitors,
            estimate=self.estimate.value,
            estimate_age_ns=self.estimate.age_ns(now_ns),
            control=self.newest_command.value,
            control_age_ns=self.newest_command.age_ns(now_ns),
            sent=self._sent,
            controller_finished=self._finished and not (self.waits is not None and self.waits.left),
            waiting=self.waits is not None and self.waits.present is not None,
            actuator_lost=actuator_lost,
            task_raised=self.raised,
            measured_speed_mps=self.monitors.speed.signed_mps(
                now_ns, self._sent.throttle if self._sent is not None else 0.0
            ),
            planned_offset=self._planned,
            asked_mps=min(self._cap_mps, self._asked_mps) if isfinite(self._asked_mps) else nan,
            cap_mps=self._cap_mps,
            setup_fault=self.setup_fault,
        )


def is_finite(message: Message) -> bool:
    """Return True if all required values are finite. Optional values may be NaN; their users check
    them."""
    if isinstance(message, ImuSample):
        f, w = message.specific_force_mps2, message.angular_rate_radps
        if isfinite(w[0] + w[1] + w[2] + f[0] + f[1] + f[2]):
            return True
        # An IMU without accelerometer has no force at all; one with a partial force is broken.
        no_force = isnan(f[0]) and isnan(f[1]) and isnan(f[2])
        return isfinite(w[0] + w[1] + w[2]) and (no_force or isfinite(f[0] + f[1] + f[2]))
    if isinstance(message, GnssFix):
        return isfinite(message.latitude_rad + message.longitude_rad + message.height_m)
    return True
