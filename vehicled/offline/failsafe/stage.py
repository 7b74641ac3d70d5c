"""Set-up of one lockstep trial: a drive with all parts that can be made to fail."""

from collections.abc import Callable, Sequence
from enum import Enum
from math import cos, hypot, remainder, sin, tau

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure
from vehicled.core.journal import Sink
from vehicled.core.messages import (
    Heartbeat,
    MapMatch,
    MapPose,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    Setpoint,
    TeleopCommand,
)
from vehicled.offline.failsafe.bench import Faulty, WrappedPair
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile.schema import Profile
from vehicled.safety.fence import Fence, Polygon

SECOND_NS = 1_000_000_000
READING_NS = 20_000_000
HEARTBEAT_NS = 500_000_000
ARM_NS, TAKE_NS, PUSH_NS = (START_NS + round(s * SECOND_NS) for s in (0.3, 0.6, 1.0))
"""Times at which the operator arms, requests teleop and deflects the stick. The stick is neutral
until then."""
HAND_STEERING, HAND_THROTTLE = 0.3, 0.5
STICK = "gamepad"
PROGRAM = "planner"
SETPOINT_MPS, SETPOINT_PER_M = 0.8, 0.1
FAR_M = 1000.0
POST_M = 0.15
"""Radius of the post put up as an obstacle, m."""


class InjectionScene(Enum):
    """State of the vehicle at the injection."""

    COURSE = "drives the course"
    MANUAL = "is driven manually"
    HELD = "is in teleop: armed, stick neutral"
    SETPOINTS = "is driven by the setpoints of a program"
    PARKED = "stands disarmed; arming and driving are requested after the injection"


class SuddenFence(Fence):
    """Fence that is empty until it is put up."""

    def __init__(self) -> None:
        super().__init__(())

    def put_up(self, x_m: float, y_m: float, across: tuple[float, float]) -> None:
        """Forbid everything beyond a line through a point; the unit vector ``across`` points into
        the forbidden side."""
        cx, cy = across
        near = [(x_m - FAR_M * cy, y_m + FAR_M * cx), (x_m + FAR_M * cy, y_m - FAR_M * cx)]
        far = [(x + FAR_M * cx, y + FAR_M * cy) for x, y in reversed(near)]
        super().__init__((Polygon((*near, *far), keep_out=True, name="put up by the trial"),))


class TrialStage:
    """Machine, simulated world and operator of one trial. :meth:`step` advances time."""

    def __init__(
        self,
        profile: Profile,
        course: Course,
        scene: InjectionScene,
        link: str,
        failures: Sequence[Failure],
        recorder: Sink,
        seed: int,
    ) -> None:
        self.profile, self.course, self.scene = profile, course, scene
        self.fence = SuddenFence()
        self.duties: list[Callable[[], None]] = []
        """Functions called after every step."""
        self.deadman = True
        self.stick_plugged = True
        self.program_sends = True
        self.pushes = False
        self.ground_speaks = False
        self.way_m = 0.0
        """True distance driven so far, m."""
        self.turned_rad = 0.0
        """Range of the true yaw since :meth:`measure_turn`, rad."""
        self.actuator_neutral_ns: int | None = None
        """Time at which the actuator itself released or braked the drive while the daemon was
        frozen."""
        self._sequence = 0
        self._reading_ns = self._heartbeat_ns = START_NS
        self._asked: set[str] = set()
        self.pair = WrappedPair(
            profile,
            course,
            failures,
            recorder,
            seed,
            link=link,
            fence=self.fence,
            scenario=scene is InjectionScene.COURSE,
        )
        self._tracker = PathTracker(course)
        self._place = self.pair.world.motion

    # ---------------------------------------------------------------- time

    def step(self) -> None:
        """Grant one step and let the operator act."""
        pair = self.pair
        pair.grant()
        self._measure()
        for duty in self.duties:
            duty()
        self._humans(pair.now_ns)
        pair.reply()

    def freeze(self, seconds: float) -> None:
        """Freeze the daemon."""
        pair, actuators = self.pair, self.pair.world.actuators
        begin_ns, delay_ns = pair.now_ns, actuators.drive_delay_ns
        pair.send(pair.machine.take_tx())

        def watch(t_ns: int) -> None:
            self._measure()
            # What acts now was commanded one dead time ago. The controller's ramp is the vehicle's,
            # not the board's reaction.
            neutral = actuators.commanded_throttle <= 0.0
            if self.actuator_neutral_ns is None and t_ns - begin_ns > delay_ns and neutral:
                self.actuator_neutral_ns = t_ns - delay_ns

        pair.freeze(begin_ns + round(seconds * SECOND_NS), watch)

    @property
    def now_ns(self) -> int:
        """Time of the last grant, ns."""
        return self.pair.now_ns

    @property
    def estimator(self) -> Faulty:
        """Estimator whose output can be corrupted."""
        return self.pair.estimator

    @property
    def controller(self) -> Faulty:
        """Controller whose output can be corrupted."""
        return self.pair.controller

    # ---------------------------------------------------------------- truth

    @property
    def speed_mps(self) -> float:
        """True speed, m/s."""
        return abs(self._place.speed_mps)

    @property
    def off_course_m(self) -> float:
        """True distance from the course, m."""
        place = self._place
        return abs(self._tracker.update(place.x_m, place.y_m, place.yaw_rad).cross_track_m)

    @property
    def beyond_m(self) -> float:
        """True distance beyond the end of an open course, m."""
        place = self._place
        here = self._tracker.update(place.x_m, place.y_m, place.yaw_rad)
        along_m = cos(here.yaw_rad) * (place.x_m - here.x_m) + sin(here.yaw_rad) * (
            place.y_m - here.y_m
        )
        return along_m if self._tracker.remaining_m == 0.0 else 0.0

    @property
    def backward_m(self) -> float:
        """True distance lost along the course since the vehicle was farthest, m."""
        place = self._place
        return (
            self._tracker.progress_m - self._tracker.update(place.x_m, place.y_m, place.yaw_rad).s_m
        )

    def measure_turn(self) -> None:
        """Measure ``turned_rad`` from now on."""
        first_rad, least_rad, greatest_rad = self._place.yaw_rad, 0.0, 0.0

        def measure() -> None:
            nonlocal least_rad, greatest_rad
            yaw_rad = remainder(self._place.yaw_rad - first_rad, tau)
            least_rad, greatest_rad = min(least_rad, yaw_rad), max(greatest_rad, yaw_rad)
            self.turned_rad = greatest_rad - least_rad

        self.duties.append(measure)

    def _measure(self) -> None:
        before, self._place = self._place, self.pair.world.motion
        self.way_m += hypot(self._place.x_m - before.x_m, self._place.y_m - before.y_m)

    # # ---------------------------------------------------------------- messages

    def say(self, message: Message) -> None:
        """Deliver a message that does not come through a port."""
        self.pair.machine.on_message(message, self.now_ns)

    def ask(self, *actions: OperatorAction) -> None:
        """Request actions as the operator."""
        for action in actions:
            self.say(OperatorCommand(self.now_ns, self.now_ns, action, "the trial"))

    def _humans(self, now_ns: int) -> None:
        manual = self.scene in (InjectionScene.MANUAL, InjectionScene.HELD)
        if manual and self.stick_plugged and now_ns >= self._reading_ns:
            self._reading_ns = now_ns + READING_NS
            self._sequence += 1
            pushes = self.pushes or (self.scene is InjectionScene.MANUAL and now_ns >= PUSH_NS)
            steering, throttle = (HAND_STEERING, HAND_THROTTLE) if pushes else (0.0, 0.0)
            self.say(
                TeleopCommand(
                    now_ns, now_ns, steering, throttle, 0.0, self.deadman, STICK, self._sequence
                )
            )
        if self.scene is InjectionScene.SETPOINTS:
            if self.program_sends and now_ns >= self._reading_ns:
                self._reading_ns = now_ns + READING_NS
                self._sequence += 1
                speed_mps = SETPOINT_MPS if now_ns >= PUSH_NS else 0.0
                self.say(
                    Setpoint(
                        now_ns,
                        now_ns,
                        speed_mps,
                        SETPOINT_PER_M,
                        origin=PROGRAM,
                        sequence=self._sequence,
                    )
                )
            self._once("arm", ARM_NS, OperatorAction.ARM)
            self._once("take", TAKE_NS, OperatorAction.OFFBOARD)
        if self.ground_speaks and now_ns >= self._heartbeat_ns:
            self._heartbeat_ns = now_ns + HEARTBEAT_NS
            self.say(Heartbeat(now_ns, now_ns, "ground"))
        if manual:
            self._once("arm", ARM_NS, OperatorAction.ARM)
            self._once("take", TAKE_NS, OperatorAction.TELEOP)

    def _once(self, name: str, at_ns: int, action: OperatorAction) -> None:
        if self.now_ns >= at_ns and name not in self._asked:
            self._asked.add(name)
            self.ask(action)

    @property
    def ready(self) -> bool:
        """Return True if the vehicle is in the state that the trial needs."""
        wanted = {
            InjectionScene.COURSE: Mode.AUTO,
            InjectionScene.MANUAL: Mode.TELEOP,
            InjectionScene.HELD: Mode.TELEOP,
            InjectionScene.SETPOINTS: Mode.OFFBOARD,
            InjectionScene.PARKED: Mode.STANDBY,
        }  # fmt: skip
        return self.pair.machine.mode is wanted[self.scene]

    def put_up_post(self, ahead_m: float) -> None:
        """Put a post on the course, at a distance ahead of the true vehicle's front."""
        place = self._place
        here = self._tracker.update(place.x_m, place.y_m, place.yaw_rad)
        point = self._tracker.point_at(
            here.s_m + self.profile.vehicle.outline.front_m + ahead_m + POST_M
        )
        self.pair.world.scene.add_circle(point.x_m, point.y_m, POST_M)

    def cover_scanner(self) -> None:
        """Cover the scanner's window."""
        self.pair.world.scene.covered = True

    def leave_map(self) -> None:
        """Let the vehicle be located on a map by a last scan, now."""
        localisation, now_ns = self.pair.machine.pipeline.monitors.localisation, self.now_ns
        localisation.mapped = True
        localisation.on_message(
            MapPose(now_ns, now_ns, 0.0, 0.0, 0.0, outcome=MapMatch.MATCHED), now_ns
        )

    def put_up_fence(self, ahead_m: float, *, beyond: bool) -> None:
        """Put up a fence across the course, at a distance ahead of the true vehicle; ``beyond``
        forbids the far side, else the near side.
        """
        place = self._place
        here = self._tracker.update(place.x_m, place.y_m, place.yaw_rad)
        point = self._tracker.point_at(here.s_m + ahead_m)
        way = 1.0 if beyond else -1.0
        self.fence.put_up(
            point.x_m, point.y_m, (way * cos(point.yaw_rad), way * sin(point.yaw_rad))
        )
