"""Takes commands of ROS nodes and sends them to the daemon, over its control socket."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cyclonedds.core import (
    DDSException,
    InstanceState,
    ReadCondition,
    SampleState,
    ViewState,
    WaitSet,
)
from cyclonedds.util import duration
from msgspec.structs import replace

from vehicled.live.bridges.ros2.autoware import (
    CONTROL_TOPIC,
    LATCHED_COMMANDS,
    TRAJECTORY_TOPICS,
    AutowareVehicle,
)
from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.dds import DdsParticipant, idl_type
from vehicled.live.bridges.ros2.lease import WriterLease
from vehicled.live.bridges.ros2.requests import (
    ORIGIN,
    REQUESTS,
    RefusedError,
    RequestKind,
    request_of,
)
from vehicled.live.bridges.ros2.topics import COMMANDS
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import ActionRequest, CourseRequest, Request
from vehicled.live.control_socket.socket_path import SocketPathError

REQUEST_S = 30.0
"""Longest wait for the answer to a request, which may have to plan, s."""
SETPOINT_PERIOD_S = 0.02
"""Shortest interval of two setpoints, s: what a node sends faster than that is replaced by its next
one, and none is sent late."""
Note = Callable[[str, str], None]
"""Function (topic, why it was refused)."""
TRAJECTORY_PERIOD_S = 0.5
"""Shortest interval of two courses along the trajectories of a planner, s."""
TRAJECTORY_SILENCE_S = 2.0
"""Silence of the planner after which the vehicle is stopped, s."""


def start_commands(
    config: Ros2Config,
    participant: DdsParticipant,
    note: Note,
    autoware: AutowareVehicle | None = None,
) -> None:
    """Start to take commands, on threads that end with the process.

    Setpoints have a connection of their own: its end is the end of their lease, and a goal that is
    still planned must not make them wait.
    """
    commands, kinds = dict(COMMANDS), dict(REQUESTS)
    if autoware is not None:
        commands |= autoware.commands()
        kinds |= autoware.requests(partial(note, CONTROL_TOPIC))
    groups: dict[type[_Sender], list[tuple[str, str]]] = {}
    for key, request in commands.items():
        sender: type[_Sender] = _RequestSender
        if request in ("setpoint", ""):
            sender = _SetpointSender
        elif key[0] in TRAJECTORY_TOPICS:
            sender = _TrajectorySender
        groups.setdefault(sender, []).append(key)
    for kind, keys in groups.items():
        readers = [
            (topic, type_name, participant.reader(topic, type_name, latched=latched))
            for topic, type_name in keys
            # A reader of latched messages does not accept a writer that keeps none.
            for latched in ((False, True) if topic in LATCHED_COMMANDS else (False,))
        ]
        threading.Thread(
            target=_follow,
            args=(readers, kind(config, note, autoware), kinds, config, note),
            daemon=True,
        ).start()


class _Sender(ABC):
    """Connection to the daemon, opened when it is first needed."""

    period_s = 0.0
    """Shortest interval of two requests, s."""

    def __init__(self, config: Ros2Config, note: Note, autoware: AutowareVehicle | None) -> None:
        self._path = Path(config.control_socket)
        self._note = note
        self._autoware = autoware
        self._client: Client | None = None

    def admits(self, topic: str, writer: int) -> str:
        """Return why a message of a writer is not taken now; empty if it is."""
        del topic, writer
        return ""

    def on_refusal(self, topic: str, writer: int) -> None:
        """React to a message of a writer that is refused, here or by the daemon."""
        del topic, writer

    def on_wait(self, now_s: float) -> None:
        """React to the time that has passed, on the monotonic clock."""
        del now_s

    def send(self, topic: str, request: Request) -> bool:
        """Send a request; False if it is refused, which is noted."""
        sent = True
        try:
            if self._client is None:
                self._client = Client(self._path, REQUEST_S)
                if self.period_s:
                    # A daemon that was frozen must not find old setpoints.
                    self._client.hurry()
            self._ask(self._client, topic, request)
        except (ControlError, SocketPathError, OSError) as error:
            self._note(topic, str(error))
            if self._client is not None:
                with self._client:
                    self._client = None
            sent = False
        if self.period_s:
            time.sleep(self.period_s)
        return sent

    @abstractmethod
    def _ask(self, client: Client, topic: str, request: Request) -> None:
        """Send over an open connection. Raises :class:`ControlError` for a refusal."""


class _RequestSender(_Sender):
    def _ask(self, client: Client, topic: str, request: Request) -> None:
        client.ask(request)


class _TrajectorySender(_RequestSender):
    """Sender of the courses along a planner's trajectories. While one is driven, the vehicle is
    stopped by a trajectory that is refused, and by the planner's silence: what it drives along may
    not be free any more."""

    def __init__(self, config: Ros2Config, note: Note, autoware: AutowareVehicle | None) -> None:
        super().__init__(config, note, autoware)
        self._lease = WriterLease()
        self._taken_s: float | None = None
        """Time at which a trajectory became the course; None before the first."""

    def admits(self, topic: str, writer: int) -> str:
        if self._lease.take((topic, writer), time.monotonic()):
            return ""
        return "another node sends trajectories already: end it"

    def _ask(self, client: Client, topic: str, request: Request) -> None:
        super()._ask(client, topic, request)
        if isinstance(request, CourseRequest):
            self._taken_s = time.monotonic()
            time.sleep(TRAJECTORY_PERIOD_S)

    def on_refusal(self, topic: str, writer: int) -> None:
        if not self.admits(topic, writer):
            self._stop(topic)

    def on_wait(self, now_s: float) -> None:
        if self._taken_s is not None and now_s - self._taken_s > TRAJECTORY_SILENCE_S:
            self._stop(TRAJECTORY_TOPICS[0], f"no trajectory for {TRAJECTORY_SILENCE_S:g} s")

    def _stop(self, topic: str, why: str = "") -> None:
        """Stop the vehicle if it drives along a trajectory."""
        if self._taken_s is None or self._autoware is None or not self._autoware.autonomous:
            return
        if why:
            self._note(topic, why)
        self.send(topic, ActionRequest("stop", origin=ORIGIN))


class _SetpointSender(_Sender):
    period_s = SETPOINT_PERIOD_S

    def __init__(self, config: Ros2Config, note: Note, autoware: AutowareVehicle | None) -> None:
        super().__init__(config, note, autoware)
        self._sequence = 0
        self._lease = WriterLease()

    def admits(self, topic: str, writer: int) -> str:
        if self._lease.take((topic, writer), time.monotonic()):
            return ""
        return "another node sends setpoints already: end it, or use a multiplexer"

    def _ask(self, client: Client, topic: str, request: Request) -> None:
        """Offer the setpoint; one that the daemon has no room for is out of date by the next."""
        self._sequence += 1
        client.offer(replace(request, sequence=self._sequence))
        for answer in client.arrived():
            if not answer.get("ok"):
                self._note(topic, str(answer.get("why", "refused without a reason")))


def _follow(
    readers: list[tuple[str, str, Any]],
    sender: _Sender,
    kinds: Mapping[str, RequestKind],
    config: Ros2Config,
    note: Note,
) -> None:
    """Send what arrives until the participant is gone."""
    waiting = WaitSet(readers[0][2].participant)
    conditions = [
        ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Any)
        for *_, reader in readers
    ]
    for condition in conditions:
        waiting.attach(condition)
    while True:
        try:
            waiting.wait(duration(seconds=1))
        except DDSException:
            return
        sender.on_wait(time.monotonic())
        for topic, type_name, reader in readers:
            for message in _taken(reader):
                if not isinstance(message, idl_type(type_name)):
                    continue  # the end of a writer
                info: Any = message.sample_info  # type: ignore[attr-defined]
                writer: int = info.publication_handle
                try:
                    request = request_of(kinds[type_name], message, config, time.time_ns())
                except RefusedError as refused:
                    note(topic, str(refused))
                    sender.on_refusal(topic, writer)
                    continue
                if request is None:
                    continue
                if why := sender.admits(topic, writer):
                    note(topic, why)
                elif not sender.send(topic, request):
                    sender.on_refusal(topic, writer)


def _taken(reader: Any) -> list[Any]:
    """Return the newest message, if it can be read at all."""
    with suppress(Exception):
        return list(reader.take(1))
    return []
