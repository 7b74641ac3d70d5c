"""Takes commands of ROS nodes and sends them to the daemon, over its control socket."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
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

from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.dds import DdsParticipant, idl_type
from vehicled.live.bridges.ros2.lease import WriterLease
from vehicled.live.bridges.ros2.requests import RefusedError, request_of
from vehicled.live.bridges.ros2.topics import COMMANDS
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import Request
from vehicled.live.control_socket.socket_path import SocketPathError

REQUEST_S = 30.0
"""Longest wait for the answer to a request, which may have to plan, s."""
SETPOINT_PERIOD_S = 0.02
"""Shortest interval of two setpoints, s: what a node sends faster than that is replaced by its next
one, and none is sent late."""
Note = Callable[[str, str], None]
"""Function (topic, why it was refused)."""


def start_commands(config: Ros2Config, participant: DdsParticipant, note: Note) -> None:
    """Start to take commands, on threads that end with the process.

    Setpoints have a connection of their own: its end is the end of their lease, and a goal that is
    still planned must not make them wait.
    """
    names = [key for key, request in COMMANDS.items() if request == "setpoint"]
    requests = [key for key in COMMANDS if key not in names]
    for sender, keys in (
        (_SetpointSender(config, note), names),
        (_RequestSender(config, note), requests),
    ):
        readers = [
            (topic, type_name, participant.reader(topic, type_name)) for topic, type_name in keys
        ]
        threading.Thread(target=_follow, args=(readers, sender, config, note), daemon=True).start()


class _Sender(ABC):
    """Connection to the daemon, opened when it is first needed."""

    period_s = 0.0
    """Shortest interval of two requests, s."""

    def __init__(self, config: Ros2Config, note: Note) -> None:
        self._path = Path(config.control_socket)
        self._note = note
        self._client: Client | None = None

    def admits(self, topic: str, writer: int) -> str:
        """Return why a message of a writer is not taken now; empty if it is."""
        del topic, writer
        return ""

    def send(self, topic: str, request: Request) -> None:
        """Send a request; a refusal is noted."""
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
        if self.period_s:
            time.sleep(self.period_s)

    @abstractmethod
    def _ask(self, client: Client, topic: str, request: Request) -> None:
        """Send over an open connection. Raises :class:`ControlError` for a refusal."""


class _RequestSender(_Sender):
    def _ask(self, client: Client, topic: str, request: Request) -> None:
        client.ask(request)


class _SetpointSender(_Sender):
    period_s = SETPOINT_PERIOD_S

    def __init__(self, config: Ros2Config, note: Note) -> None:
        super().__init__(config, note)
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
    readers: list[tuple[str, str, Any]], sender: _Sender, config: Ros2Config, note: Note
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
        for topic, type_name, reader in readers:
            for message in _taken(reader):
                if not isinstance(message, idl_type(type_name)):
                    continue  # the end of a writer
                try:
                    request = request_of(type_name, message, config, time.time_ns())
                except RefusedError as refused:
                    note(topic, str(refused))
                    continue
                info: Any = message.sample_info  # type: ignore[attr-defined]
                if why := sender.admits(topic, info.publication_handle):
                    note(topic, why)
                else:
                    sender.send(topic, request)


def _taken(reader: Any) -> list[Any]:
    """Return the newest message, if it can be read at all."""
    with suppress(Exception):
        return list(reader.take(1))
    return []
