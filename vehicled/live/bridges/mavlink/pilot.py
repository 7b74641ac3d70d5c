"""Intents of ground stations as requests to the daemon. Pure: time is given, requests go to lanes.

The rules that keep the vehicle from driving by mistake are here, and only here:

- Arming moves nothing. What was given while the vehicle was disarmed does not drive it later.
- A stop, a disarming or a change of mode calls off whatever was asked for before and has not begun.
- Places and velocities count in GUIDED only, as on ArduPilot's rover.
"""

from collections.abc import Callable
from math import hypot
from typing import Any, Protocol

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.core.messages import CourseKind, Mode
from vehicled.live.bridges.mavlink.config import MavlinkConfig
from vehicled.live.bridges.mavlink.mission import Item, MissionCourse, MissionError, mission_course
from vehicled.live.bridges.mavlink.modes import ARMED, CHOOSABLE, RoverMode, shown_mode
from vehicled.live.bridges.mavlink.places import Place
from vehicled.live.bridges.mavlink.units import chunks
from vehicled.live.bridges.mavlink.view import RunView
from vehicled.live.control_socket.protocol import (
    Action,
    ActionRequest,
    CourseRequest,
    GotoRequest,
    Request,
    ReturnRequest,
    SetpointRequest,
    SpeedRequest,
)
from vehicled.paths.shortest import MAX_AWAY_M
from vehicled.paths.stored import to_bytes

ORIGIN = "MAVLink"
ARMING_S = 3.0
"""Longest wait for arming before the command is answered, s."""
OFFBOARD_S = 0.5
"""Interval of the requests to drive by the velocities that arrive, s."""
MOST_ARMING = 16
"""Arming commands that wait for their answer at most."""
QUIET_S = 1.0
"""Time for which the same text is not repeated, s."""
MOST_TEXTS = 64
REACHED_M = 0.3
"""Distance before a waypoint at which it counts as reached, m."""
CALLED_OFF = "called off by what was asked for since"
ARM_FIRST = "the vehicle is not armed: arm it first, then ask again"
ACCEPTED, REJECTED = int(mav.MAV_RESULT_ACCEPTED), int(mav.MAV_RESULT_TEMPORARILY_REJECTED)
DENIED, IN_PROGRESS = int(mav.MAV_RESULT_DENIED), int(mav.MAV_RESULT_IN_PROGRESS)

DaemonAnswer = dict[str, Any]
Answer = Callable[[DaemonAnswer, str], None]
"""Function (answer of the daemon, reason of a refusal; one of both is empty)."""
Reply = Callable[[int, str], None]
"""Function (MAV_RESULT, text for the ground station)."""


class Lanes(Protocol):
    """Ways to the daemon. None of them waits, and what has no room is answered at once."""

    def operate(self, request: Request, answer: Answer) -> None:
        """Send a request that the daemon answers at once: modes and limits, in order, on a
        connection of their own."""

    def plan(self, prepare: Callable[[], Request], answer: Answer) -> None:
        """Prepare and send a request for a course, which takes time. A newer one takes the place of
        one that waits."""

    def ask(self, request: Request, answer: Answer) -> None:
        """Send a request about parameters."""

    def offer(self, request: Request) -> None:
        """Send a setpoint or a heartbeat; a newer one takes the place of one that waits."""

    def cancel(self, why: str, *, operations: bool) -> None:
        """Answer the plans that wait with a refusal instead of sending them; ``operations``: the
        modes and limits too. A stop that waits stays.
        """


class MissionPlan:
    """Course through a mission, prepared apart from the link."""

    def __init__(self, view: RunView, items: tuple[Item, ...]) -> None:
        self._pose = view.pose
        self._home = view.home
        self._datum = view.datum
        self._config = view.config
        self.items = items
        self.made: MissionCourse | None = None
        self.result = int(mav.MAV_MISSION_ERROR)
        """MAV_MISSION_RESULT of a mission that is refused."""

    def prepare(self) -> Request:
        """Return the request for the course. Raises :class:`MissionError`."""
        try:
            if self._pose is None:
                raise MissionError(mav.MAV_MISSION_ERROR, "the vehicle has no position yet")
            self.made = mission_course(
                self.items, self._pose, self._home, self._datum,
                usual_speed_mps=self._config.usual_speed_mps,
                turn_radius_m=self._config.turn_radius_m,
            )  # fmt: skip
        except MissionError as error:
            self.result = error.result
            raise
        return CourseRequest(to_bytes(self.made.course), "mission", ORIGIN)


class Pilot:
    """Intents of all ground stations; the newest counts."""

    def __init__(self, config: MavlinkConfig, send: Callable[[Any], None], lanes: Lanes) -> None:
        """``send`` packs and sends a message."""
        self.view = RunView(config)
        self.send, self.lanes = send, lanes
        self.mission: tuple[Item, ...] = ()
        self.arcs_m: list[tuple[float, int]] = []
        """Arc length and number of the waypoints that were not reached yet."""
        self._intent = 0
        """Number of the newest intent; what belongs to an older one is called off."""
        self._paused = False
        """True if the last stop was a pause."""
        self._arming: list[tuple[float, Reply]] = []
        """Arming commands that are not answered yet, with the time at which they are given up."""
        self._stopping: set[str] = set()
        """Stops that the daemon has not answered yet."""
        self._deferred: tuple[Callable[[], Request], Answer] | None = None
        """Plan that waits for them."""
        self._armed, self._disarmings = False, 0
        """Last state of arming, and number of disarmings since the start."""
        self._sequence = 0
        self._offboard_s = 0.0
        self._text = 0
        self._said: dict[str, float] = {}

    # ---------------------------------------------------------------- texts

    def say(self, text: str, severity: int = 4, quiet_s: float = QUIET_S) -> None:
        """Send a text, in parts if it is long; not again within ``quiet_s``."""
        now_s = self.view.now_s
        if now_s < self._said.get(text, 0.0):
            return
        if len(self._said) >= MOST_TEXTS:
            self._said = {said: until_s for said, until_s in self._said.items() if until_s > now_s}
            while len(self._said) >= MOST_TEXTS:
                del self._said[next(iter(self._said))]
        self._said[text] = now_s + quiet_s
        parts = chunks(text)
        self._text = self._text % 65535 + 1 if len(parts) > 1 else self._text
        for number, part in enumerate(parts):
            identity = self._text if len(parts) > 1 else 0
            self.send(mav.MAVLink_statustext_message(severity, part, identity, number))

    # ---------------------------------------------------------------- intents

    @property
    def shown(self) -> RoverMode:
        """Mode that ground stations show."""
        return shown_mode(self.view.state, self.view.chosen)

    def _new_intent(self, why: str = CALLED_OFF, *, stops: bool = False) -> int:
        """Call off what was asked for and has not begun; return the number of the new intent."""
        self._intent += 1
        self._paused = False
        self.lanes.cancel(why, operations=stops)
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            deferred[1]({}, why)
        return self._intent

    def stop(self, action: Action, reply: Reply, *, pause: bool = False) -> None:
        """Stop, disarm or stop at once (``stop``, ``disarm``, ``emergency_stop``), whatever else is
        under way."""
        self._new_intent("called off by a stop", stops=True)
        self._paused = pause
        self.view.chosen = RoverMode.HOLD
        self._answer_arming(REJECTED, "called off by a stop")
        if action in self._stopping:
            reply(IN_PROGRESS, "")
            return
        self._stopping.add(action)

        def stopped(_: DaemonAnswer, why: str) -> None:
            self._stopping.discard(action)
            reply(DENIED if why else ACCEPTED, why)
            if self._deferred is not None and not self._stopping:
                deferred, self._deferred = self._deferred, None
                self.lanes.plan(*deferred)

        self.lanes.operate(ActionRequest(action, ORIGIN), stopped)

    def arm(self, reply: Reply) -> None:
        """Arm, and answer once it has succeeded or waited too long. Nothing moves."""

        def asked(_: DaemonAnswer, why: str) -> None:
            if why:
                reply(DENIED, why)
            elif len(self._arming) >= MOST_ARMING:
                reply(REJECTED, "")
            else:
                self._arming.append((self.view.now_s + ARMING_S, reply))

        self.lanes.operate(ActionRequest("arm", ORIGIN), asked)

    def reset(self, reply: Reply) -> None:
        """Leave FAULT."""
        self._operate("reset", reply)

    def resume(self, reply: Reply) -> None:
        """Drive on after a pause, once the vehicle is armed again."""
        if not self._paused:
            reply(DENIED, "nothing is paused")
        elif self.view.state.mode is not Mode.ARMED:
            reply(REJECTED, ARM_FIRST)
        else:
            self._operate("drive", reply)

    def limit_speed(self, limit_mps: float | None, reply: Reply) -> None:
        """Limit the speed; None lifts the limit."""
        self.lanes.operate(SpeedRequest(limit_mps, ORIGIN), _replying(reply))

    def choose(self, number: int, reply: Reply) -> None:
        """Change to a custom mode of ArduPilot's rover."""
        if number not in CHOOSABLE:
            name = RoverMode(number).name if number in tuple(RoverMode) else f"number {number}"
            reply(
                DENIED,
                (
                    f"mode {name} cannot be chosen here: HOLD, AUTO, GUIDED and RTL can; drive by "
                    "hand with vehicled teleop"
                ),
            )
            return
        mode, driven = RoverMode(number), self.view.state.mode
        if mode is RoverMode.HOLD:
            self.stop("stop", reply)
        elif mode is self.shown and driven in (Mode.AUTO, Mode.OFFBOARD):
            reply(ACCEPTED, "")
        elif driven in (Mode.TELEOP, Mode.ALIGN):
            reply(REJECTED, "the vehicle is driven by hand, or learns its heading: stop it first")
        elif mode is RoverMode.GUIDED:
            self._guided(driven, reply)
        elif driven not in (Mode.ARMED, Mode.AUTO):
            reply(REJECTED, f"{mode.name} would drive: {ARM_FIRST}")
        elif mode is RoverMode.RTL:
            self._plan(lambda: ReturnRequest(origin=ORIGIN), reply)
        else:
            self._auto(reply)

    def _guided(self, driven: Mode, reply: Reply) -> None:
        """Wait for a place or a velocity; a drive along a course ends, as on ArduPilot's rover."""
        if driven in (Mode.ARMED, Mode.AUTO, Mode.OFFBOARD):
            # Of an armed vehicle that stands, a stop only calls off a drive that waits to begin.
            self.stop("stop", reply)
            if driven is not Mode.ARMED:
                self.say("GUIDED: the drive is stopped; arm, then give a place", 5)
        else:
            self._new_intent()
            reply(ACCEPTED, "")
        self.view.chosen = RoverMode.GUIDED

    def _auto(self, reply: Reply) -> None:
        """Drive the mission from where the vehicle is now, or the run's own course without one."""
        view = self.view
        if self.mission:
            plan = MissionPlan(view, self.mission)
            self._plan(plan.prepare, reply, lambda: self._follow(plan))
        elif view.state.course_kind is CourseKind.GIVEN and view.state.mode is Mode.ARMED:
            self._new_intent()
            self._operate("drive", reply)
        else:
            reply(DENIED, "there is no mission: upload one")

    # ---------------------------------------------------------------- places and velocities

    def go_to(
        self,
        place: Place,
        heading_rad: float | None,
        speed_mps: float | None,
        reply: Reply,
        *,
        change_mode: bool,
    ) -> None:
        """Plan to a place, and drive there if the vehicle is armed and in GUIDED. ``change_mode``:
        change to GUIDED first."""
        driven = self.view.state.mode
        if driven in (Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD):
            reply(
                REJECTED,
                (
                    "the vehicle is driven by hand or by velocities, or learns its heading: stop "
                    "it first"
                ),
            )
            return
        if driven in (Mode.ARMED, Mode.AUTO) and not (
            change_mode or self.shown is RoverMode.GUIDED
        ):
            reply(DENIED, f"the mode is {self.shown.name}: choose GUIDED before you give a place")
            return
        pose = self.view.pose
        if pose is None:
            reply(REJECTED, "the vehicle has no position yet")
            return
        away_m = hypot(place.x_m - pose.x_m, place.y_m - pose.y_m)
        if not away_m <= MAX_AWAY_M:
            reply(
                DENIED,
                (
                    f"the place is {away_m / 1000:.1f} km away (at most {MAX_AWAY_M / 1000:g} km): "
                    "look at its coordinates"
                ),
            )
            return
        if change_mode:
            self.view.chosen = RoverMode.GUIDED
        goal = GotoRequest(
            place.x_m, place.y_m, yaw_rad=heading_rad, speed_mps=speed_mps, origin=ORIGIN
        )
        self._plan(lambda: goal, reply)

    def follow_velocity(self, speed_mps: float, curvature_per_m: float, reply: Reply) -> None:
        """Drive by a velocity that a ground station repeats."""
        driven, now_s = self.view.state.mode, self.view.now_s
        if self.shown is not RoverMode.GUIDED or driven not in (
            Mode.ARMED,
            Mode.AUTO,
            Mode.OFFBOARD,
        ):
            reply(
                DENIED,
                f"velocities count in GUIDED, armed; the mode is {self.shown.name}, {driven.name}",
            )
            return
        self._sequence = self._sequence % 2**31 + 1
        self.lanes.offer(
            SetpointRequest(
                speed_mps=speed_mps,
                curvature_per_m=curvature_per_m,
                sequence=self._sequence,
                origin=ORIGIN,
            )
        )
        if driven is not Mode.OFFBOARD and now_s >= self._offboard_s:
            self._offboard_s = now_s + OFFBOARD_S
            self._new_intent()
            self._operate("offboard", reply)

    # ---------------------------------------------------------------- missions

    def take_mission(self, items: tuple[Item, ...], answer: Reply) -> None:
        """Take an uploaded mission once the daemon has accepted its course. ``answer`` gets the
        MAV_MISSION_RESULT and a text."""
        if self.view.state.mode not in (Mode.INIT, Mode.STANDBY, Mode.ARMED, Mode.FAULT):
            answer(
                mav.MAV_MISSION_DENIED, "the vehicle drives: stop it before you upload a mission"
            )
            return
        plan, intent = MissionPlan(self.view, items), self._new_intent()

        def planned(_: DaemonAnswer, why: str) -> None:
            if intent != self._intent:
                answer(mav.MAV_MISSION_OPERATION_CANCELLED, why or CALLED_OFF)
            elif why:
                answer(plan.result, why)
            else:
                self.mission = items
                self._follow(plan)
                for remark in plan.made.remarks if plan.made is not None else ():
                    self.say(remark, 5)
                answer(mav.MAV_MISSION_ACCEPTED, "")

        self._send_plan(plan.prepare, planned)

    def clear_mission(self) -> None:
        """Forget the mission; a vehicle that drives it is stopped."""
        drives = (
            self.view.state.mode is Mode.AUTO and self.view.state.course_kind is CourseKind.MISSION
        )
        self.mission, self.arcs_m, self.view.mission_current = (), [], None
        if drives:
            self.stop("stop", self.saying)
        else:
            self._new_intent("called off: the mission was cleared")

    def _follow(self, plan: MissionPlan) -> None:
        """Report the waypoints of a course that the daemon has taken from now on."""
        if plan.made is not None:
            self.arcs_m = list(plan.made.arcs_m)
            self.view.mission_current = self.arcs_m[0][1]

    def reach(self, progress_m: float) -> None:
        """Report the waypoints up to a place on the course."""
        while self.arcs_m and progress_m >= self.arcs_m[0][0] - REACHED_M:
            _, number = self.arcs_m.pop(0)
            self.send(mav.MAVLink_mission_item_reached_message(number))
            self.view.mission_current = self.arcs_m[0][1] if self.arcs_m else number

    # ---------------------------------------------------------------- inside

    def saying(self, result: int, text: str) -> None:
        """Answer what MAVLink has no acknowledgement for: a refusal is a text."""
        if result != ACCEPTED and text:
            self.say(text)

    def _operate(self, action: Action, reply: Reply) -> None:
        self.lanes.operate(ActionRequest(action, ORIGIN), _replying(reply))

    def _plan(
        self, prepare: Callable[[], Request], reply: Reply, taken: Callable[[], None] | None = None
    ) -> None:
        """Ask for a course, and drive it if the vehicle was armed when it was asked for and still
        is."""
        intent, disarmings = self._new_intent(), self._disarmings
        armed = self.view.state.mode in (Mode.ARMED, Mode.AUTO)

        def planned(answer: DaemonAnswer, why: str) -> None:
            if intent != self._intent:
                reply(REJECTED, why or CALLED_OFF)
                return
            if why:
                reply(DENIED, why)
                return
            self.arcs_m = []
            if taken is not None:
                taken()
            stayed_armed = armed and disarmings == self._disarmings
            if stayed_armed and answer.get("mode") == Mode.ARMED.name:
                self._operate("drive", reply)
            else:
                if not stayed_armed:
                    self.say(
                        "the course is planned; to drive it arm the vehicle, then ask again", 5
                    )
                reply(ACCEPTED, "")

        self._send_plan(prepare, planned)

    def _send_plan(self, prepare: Callable[[], Request], planned: Answer) -> None:
        """Send a plan once the stops before it are answered; otherwise they could call it off,
        too."""
        if self._stopping:
            self._deferred = prepare, planned
        else:
            self.lanes.plan(prepare, planned)

    def on_mode(self, after: Mode) -> None:
        """Take the daemon's mode."""
        armed = after in ARMED
        self._disarmings += self._armed and not armed
        self._armed = armed
        if after in (Mode.STOPPING, Mode.FAULT) and self.view.chosen is not RoverMode.GUIDED:
            self.view.chosen = RoverMode.HOLD
        if after not in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
            self._answer_arming(ACCEPTED, "")

    def tick(self) -> None:
        """Give up on arming that waits too long."""
        if self._arming and self.view.now_s > self._arming[0][0]:
            for text in self.view.state.waiting_for:
                self.say(f"arming waits: {text}", 3)
            self._answer_arming(REJECTED, "")

    def _answer_arming(self, result: int, why: str) -> None:
        waiting, self._arming = self._arming, []
        for _, reply in waiting:
            reply(result, why)


def _replying(reply: Reply) -> Answer:
    return lambda _, why: reply(DENIED if why else ACCEPTED, why)
