"""Speaks MAVLink for the vehicle: telemetry out, commands in. Pure: time and messages are given,
requests go to lanes.

A ground station sees an ArduPilot rover. Every command is answered; a refusal carries its reason as
a STATUSTEXT. :data:`TAKEN` is the table of the messages that the vehicle takes,
:func:`~vehicled.live.bridges.mavlink.commands.commands` that of the commands, :data:`REFUSED` that
of the messages that it knows and refuses. What is in none of them is ignored.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.core.messages import (
    ControlCommand,
    CourseKind,
    Fault,
    GnssFix,
    HostHealth,
    ImuSample,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    StateEstimate,
)
from vehicled.live.bridges.mavlink.commands import commands, order_of, set_current, set_mode
from vehicled.live.bridges.mavlink.config import MavlinkConfig
from vehicled.live.bridges.mavlink.mission_protocol import MissionProtocol
from vehicled.live.bridges.mavlink.modes import SEVERITIES
from vehicled.live.bridges.mavlink.parameters import ParameterProtocol
from vehicled.live.bridges.mavlink.pilot import DENIED, IN_PROGRESS, Lanes, Pilot
from vehicled.live.bridges.mavlink.places import PlaceError
from vehicled.live.bridges.mavlink.targets import global_target, local_target
from vehicled.live.bridges.mavlink.telemetry import TELEMETRY, Schedule
from vehicled.live.bridges.mavlink.view import RunState, RunView
from vehicled.live.control_socket.protocol import HeartbeatRequest
from vehicled.safety.reason import ReasonCode

KINDS: tuple[type[Message], ...] = (
    StateEstimate, GnssFix, ImuSample, MotorStatus, ControlCommand, HostHealth, ModeChange, Fault,
)  # fmt: skip
"""Message types that the bridge uses."""
AUTOPILOT = int(mav.MAV_COMP_ID_AUTOPILOT1)
COMPONENTS = frozenset({0, AUTOPILOT, int(mav.MAV_COMP_ID_MISSIONPLANNER)})
"""Target components that mean this vehicle: all, the autopilot, and the one that old QGroundControl
sends its missions to."""
REFUSED_QUIET_S = 30.0
"""Time for which the refusal of a message that comes as a stream is not repeated, s."""


class Autopilot:
    """State of the link to all ground stations."""

    def __init__(self, config: MavlinkConfig, send: Callable[[Any], None], lanes: Lanes) -> None:
        """``send`` packs and sends a message; ``lanes`` lead to the daemon."""
        self.pilot = Pilot(config, send, lanes)
        self.missions = MissionProtocol(self.pilot)
        self.parameters = ParameterProtocol(self.pilot)
        self._schedule = Schedule()
        self.commands = commands(self._schedule)
        self._running: set[tuple[Any, ...]] = set()
        """Commands that are not answered yet, by sender and content."""

    # ---------------------------------------------------------------- from the daemon

    def on_record(self, message: Message) -> None:
        """Take a message of the run."""
        pilot, view = self.pilot, self.pilot.view
        view.record(message)
        if isinstance(message, ModeChange):
            pilot.say(f"{message.after.name}: {message.reason}", SEVERITIES[message.reaction])
            if (
                message.code == ReasonCode.COURSE_FINISHED
                and message.before is Mode.AUTO
                and _on_mission(view)
            ):
                pilot.reach(inf)
            pose = view.pose
            if message.after is Mode.ARMED and pose is not None:
                view.home = pose.x_m, pose.y_m
                self._send("HOME_POSITION")
            view.state = view.state._replace(mode=message.after, reaction=message.reaction)
            pilot.on_mode(message.after)
        elif isinstance(message, Fault):
            if message.active:
                origin = f"{message.origin}: " if message.origin else ""
                pilot.say(f"{origin}{message.reason}", SEVERITIES[message.reaction])
        elif (
            isinstance(message, ControlCommand)
            and view.state.mode is Mode.AUTO
            and _on_mission(view)
        ):
            pilot.reach(message.progress_m)

    def on_status(self, status: dict[str, Any]) -> None:
        """Take the state of the run."""
        pilot, before = self.pilot, self.pilot.view.state.wait
        pilot.view.state = state = RunState.from_status(status)
        if state.wait is not None and state.wait != before:
            pilot.say(f"waits {state.wait[1]:g} s at {state.wait[0]:.0f} m of the course", 6)
        pilot.on_mode(state.mode)

    def tick(self, now_s: float) -> None:
        """Send what is due. Call it at least 50 times a second."""
        self.pilot.view.now_s = now_s
        for name in self._schedule.due(now_s):
            self._send(name)
        self.pilot.tick()
        self.missions.tick()

    def _send(self, name: str) -> None:
        message = TELEMETRY[name].make(self.pilot.view)
        if message is not None:
            self.pilot.send(message)

    # ---------------------------------------------------------------- from ground stations

    def on_message(self, message: Any) -> None:
        """Take a message of a ground station. What is not for this vehicle is ignored."""
        system_id = self.pilot.view.config.system_id
        if (message.get_srcSystem(), message.get_srcComponent()) == (system_id, AUTOPILOT):
            return  # our own, sent back by a router
        if (
            getattr(message, "target_system", 0) not in (0, system_id)
            or getattr(message, "target_component", 0) not in COMPONENTS
        ):
            return
        name = message.get_type()
        if name in REFUSED:
            self.pilot.say(f"{name} is not taken: {REFUSED[name]}", quiet_s=REFUSED_QUIET_S)
        elif (row := TAKEN.get(name)) is None:
            return
        elif row.anybody or self.pilot.view.config.control_socket:
            row.take(self, message)
        else:
            self._refuse_all(message)

    def _refuse_all(self, message: Any) -> None:
        """Answer a command while commands are not taken."""
        self.pilot.say("commands are not taken: start vehicled with --mavlink-commands")
        if message.get_type().startswith("MISSION_"):
            peer = message.get_srcSystem(), message.get_srcComponent()
            self.pilot.send(
                mav.MAVLink_mission_ack_message(
                    *peer, mav.MAV_MISSION_DENIED, getattr(message, "mission_type", 0)
                )
            )

    def command(self, message: Any) -> None:
        """Follow a COMMAND_LONG or COMMAND_INT."""
        row = self.commands.get(message.command)
        if row is not None and not (row.anybody or self.pilot.view.config.control_socket):
            self._refuse_all(message)
            self._ack(message, DENIED)
            return
        if row is None:
            self._ack(message, mav.MAV_RESULT_UNSUPPORTED)
            return
        try:
            order = order_of(message, row, self.pilot)
        except (ValueError, PlaceError) as error:
            self.pilot.say(
                f"{mav.enums['MAV_CMD'][message.command].name.removeprefix('MAV_CMD_')} "
                f"refused: {error}"
            )
            self._ack(message, DENIED)
            return
        # A ground station that has no answer yet sends the same again: it is one command, not two.
        key = (
            message.get_srcSystem(),
            message.get_srcComponent(),
            message.command,
            *map(repr, order.params),
        )
        if row.lasts and key in self._running:
            self._ack(message, IN_PROGRESS)
            return

        def reply(result: int, why: str) -> None:
            self._running.discard(key)
            if why:
                self.pilot.say(why)
            self._ack(message, result)

        if row.lasts:
            self._running.add(key)
        try:
            row.run(self.pilot, order, reply)
        except Exception:
            self._running.discard(key)
            raise

    def _ack(self, message: Any, result: int) -> None:
        peer = message.get_srcSystem(), message.get_srcComponent()
        self.pilot.send(mav.MAVLink_command_ack_message(message.command, result, 0, 0, *peer))

    def beat(self, message: Any) -> None:
        """Pass on the heartbeat of a ground station."""
        if message.type == mav.MAV_TYPE_GCS and self.pilot.view.config.control_socket:
            self.pilot.lanes.offer(HeartbeatRequest(f"MAVLink {message.get_srcSystem()}"))

    def set_mode(self, message: Any) -> None:
        """Follow a SET_MODE, which has no acknowledgement."""
        set_mode(self.pilot, message.base_mode, message.custom_mode, self.pilot.saying)

    def ping(self, message: Any) -> None:
        """Answer a ping to all."""
        if message.target_system == 0:
            peer = message.get_srcSystem(), message.get_srcComponent()
            self.pilot.send(mav.MAVLink_ping_message(message.time_usec, message.seq, *peer))

    def timesync(self, message: Any) -> None:
        """Answer a request for the time."""
        if message.tc1 == 0:
            self.pilot.send(
                mav.MAVLink_timesync_message(int(self.pilot.view.now_s * 1e9), message.ts1)
            )


def _on_mission(view: RunView) -> bool:
    return view.state.course_kind is CourseKind.MISSION


class TakenMessage(NamedTuple):
    """One row of the table of messages."""

    does: str
    """Effect of the message, in words."""
    take: Callable[[Autopilot, Any], None]
    anybody: bool = False
    """True if it commands nothing, so that it is taken without ``--mavlink-commands``."""


TAKEN: dict[str, TakenMessage] = {
    "HEARTBEAT": TakenMessage(
        "of a ground station: it counts for `limits.ground_expected`", Autopilot.beat, anybody=True
    ),
    "COMMAND_LONG": TakenMessage("a command of the table below", Autopilot.command, anybody=True),
    "COMMAND_INT": TakenMessage(
        "the same; a place comes in a global frame", Autopilot.command, anybody=True
    ),
    "SET_MODE": TakenMessage("changes the mode, as DO_SET_MODE", Autopilot.set_mode),
    "SET_POSITION_TARGET_GLOBAL_INT": TakenMessage(
        "a place: latitude and longitude", lambda a, m: global_target(a.pilot, m)
    ),
    "SET_POSITION_TARGET_LOCAL_NED": TakenMessage(
        "a place, or a forward velocity with a turn rate", lambda a, m: local_target(a.pilot, m)
    ),
    "MISSION_COUNT": TakenMessage("begins an upload", lambda a, m: a.missions.on_count(m)),
    "MISSION_ITEM": TakenMessage(
        "an item of an upload; with `current` = 2 a place to drive to, in GUIDED",
        lambda a, m: a.missions.on_item(m),
    ),
    "MISSION_ITEM_INT": TakenMessage("the same", lambda a, m: a.missions.on_item(m)),
    "MISSION_CLEAR_ALL": TakenMessage(
        "forgets the mission, and stops a vehicle that drives it",
        lambda a, m: a.missions.on_clear(m),
    ),
    "MISSION_SET_CURRENT": TakenMessage(
        "the first item only, while the vehicle does not drive",
        lambda a, m: set_current(a.pilot, m.seq, a.pilot.saying),
    ),
    "MISSION_WRITE_PARTIAL_LIST": TakenMessage(
        "is answered UNSUPPORTED", lambda a, m: a.missions.on_partial(m)
    ),
    "MISSION_REQUEST_PARTIAL_LIST": TakenMessage(
        "is answered UNSUPPORTED", lambda a, m: a.missions.on_partial(m), anybody=True
    ),
    "MISSION_REQUEST_LIST": TakenMessage(
        "number of items", lambda a, m: a.missions.on_list(m), anybody=True
    ),
    "MISSION_REQUEST": TakenMessage(
        "an item, in degrees", lambda a, m: a.missions.on_request(m), anybody=True
    ),
    "MISSION_REQUEST_INT": TakenMessage(
        "an item, in 1e-7 degrees", lambda a, m: a.missions.on_request(m), anybody=True
    ),
    "PARAM_REQUEST_LIST": TakenMessage("all parameters", lambda a, m: a.parameters.on_list(m)),
    "PARAM_REQUEST_READ": TakenMessage("one parameter", lambda a, m: a.parameters.on_read(m)),
    "PARAM_SET": TakenMessage(
        "changes a parameter: finite, REAL32, in its range", lambda a, m: a.parameters.on_set(m)
    ),
    "PING": TakenMessage("is answered", Autopilot.ping, anybody=True),
    "TIMESYNC": TakenMessage("is answered", Autopilot.timesync, anybody=True),
}
"""Messages that the vehicle takes."""

_BY_HAND = "drive by hand with vehicled teleop"
_NO_FENCE = "fence and rally points are set in the profile"
REFUSED: dict[str, str] = {
    "MANUAL_CONTROL": _BY_HAND,
    "RC_CHANNELS_OVERRIDE": _BY_HAND,
    "SET_ATTITUDE_TARGET": "give a place, or a velocity in BODY_FRD",
    "SET_ACTUATOR_CONTROL_TARGET": "give a place, or a velocity in BODY_FRD",
    "FOLLOW_TARGET": "give a place",
    "SET_HOME_POSITION": "home is where the vehicle was armed",
    "SET_GPS_GLOBAL_ORIGIN": "the origin of the map is that of the course",
    "FENCE_POINT": _NO_FENCE,
    "FENCE_FETCH_POINT": _NO_FENCE,
    "RALLY_POINT": _NO_FENCE,
    "RALLY_FETCH_POINT": _NO_FENCE,
    "SETUP_SIGNING": "messages are not signed: keep the link on a network of your own",
    "FILE_TRANSFER_PROTOCOL": "logs are files on the vehicle",
    "LOG_REQUEST_LIST": "logs are files on the vehicle",
    "GPS_RTCM_DATA": "corrections come by an NTRIP device of the profile",
    "GPS_INJECT_DATA": "corrections come by an NTRIP device of the profile",
}
"""Messages that ask for what the vehicle does not do, with what to do instead; each is a text,
every 30 s at most."""
