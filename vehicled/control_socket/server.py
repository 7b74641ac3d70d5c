"""Server side of the control socket, on asyncio or trio. Rate limits protect the loop from clients that send too much."""

import grp
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf, nan
from pathlib import Path

import anyio
from msgspec.structs import replace

from vehicled.control_socket.console import Console
from vehicled.control_socket.protocol import (
    ACTIONS,
    COURSE_BEGINS,
    COURSE_KINDS,
    MAX_COURSE_LINE,
    MAX_LINE,
    ActionRequest,
    Change,
    CourseRequest,
    HeartbeatRequest,
    MarginsRequest,
    ParametersRequest,
    RequestError,
    ReturnRequest,
    SetParameterRequest,
    SetpointRequest,
    SpeedRequest,
    StatusRequest,
    SubscribeRequest,
    TeleopRequest,
    TopicsRequest,
    WatchRequest,
    answer,
    parse,
    refusal,
)
from vehicled.control_socket.socket_path import GROUP, answers, taken
from vehicled.control_socket.topics import Subscription, listening, survey
from vehicled.live_changes import ChangeError
from vehicled.log.cat import kinds_of
from vehicled.log.errors import LogError
from vehicled.messages import CourseCommand, CourseKind, Mode, ParameterCommand, Setpoint, TeleopCommand
from vehicled.paths.stored import to_bytes
from vehicled.safety.monitors.setpoints import LEASE_NS

READ_BYTES = 1 << 16
MAX_CLIENTS = 8
MAX_STOPPERS = 4
"""Extra clients beyond the limit. Each may only read the state and stop the vehicle, for ``STOPPER_TIMEOUT_S``, because a stop is
never refused.
"""
STOPPER_TIMEOUT_S = 1.0
STOPS = ("stop", "disarm", "emergency_stop")
FULL = f"{MAX_CLIENTS} clients are connected already: close one; only a stop is accepted"
REQUESTS_PER_S = 100.0
BURST = 50.0
WRITE_TIMEOUT_S = 1.0
"""Timeout for a client that does not read its answers, s; it is then disconnected."""


class _Stream:
    """Socket of a client. It is not an anyio socket, because that of the asyncio backend logs an error if cancelled while
    reading.
    """

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self.teleop: TeleopCommand | None = None
        """Newest teleop reading of this client; None if it sends none."""
        self.was_informed = False
        """True if the client was informed that another one uses its origin."""
        self.only_stops = False
        """True if the client came beyond the limit."""
        self.setpoint: Setpoint | None = None
        """Newest setpoint of this client; None if it sends none."""

    async def receive(self) -> bytes:
        """Return received data. Raises EOFError if the client disconnected, OSError if the socket broke."""
        while True:
            await anyio.wait_readable(self._socket)
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                continue
            if not data:
                raise EOFError
            return data

    async def send(self, data: bytes) -> None:
        """Send all data. Raises TimeoutError, an OSError, if the client does not read."""
        with anyio.fail_after(WRITE_TIMEOUT_S):
            while data:
                await anyio.wait_writable(self._socket)
                with suppress(BlockingIOError):
                    data = data[self._socket.send(data) :]


class ControlServer:
    """Serves one control socket until cancelled."""

    def __init__(self, path: Path, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Take the path; ``now_ns`` is the clock of the run."""
        self._path = path
        self._now_ns = now_ns
        self.clients = 0
        """Number of connected clients."""
        self.refused = 0
        """Number of lines that were not requests."""
        self._teleop_owners: dict[str, _Stream] = {}
        """Client of each teleop origin. Two clients with one origin would be mixed up: one neutral, the other driving."""
        self._setpoint_owner: _Stream | None = None
        """Client that holds the lease of the setpoints."""

    async def serve(self, console: Console) -> None:
        """Listen, and serve every client in its own task. Raises :class:`SocketPathError` if another daemon has the socket."""
        with _listener(self._path) as listener:
            async with anyio.create_task_group() as group:
                while True:
                    await anyio.wait_readable(listener)
                    with suppress(OSError):
                        group.start_soon(self._serve_client, listener.accept()[0], console)

    async def _serve_client(self, client: socket.socket, console: Console) -> None:
        with client:
            client.setblocking(False)
            stream = _Stream(client)
            try:
                if self.clients >= MAX_CLIENTS + MAX_STOPPERS:
                    await stream.send(refusal(FULL))
                    return
                stream.only_stops = self.clients >= MAX_CLIENTS
                self.clients += 1
                try:
                    with anyio.move_on_after(STOPPER_TIMEOUT_S if stream.only_stops else inf) as scope:
                        await self._converse(stream, console, _who(client))
                    if scope.cancelled_caught:
                        # Send the reason, or the client would take the disconnect for the end of the run.
                        await stream.send(refusal(FULL))
                finally:
                    self.clients -= 1
                    self._release(stream)
                    if stream.teleop is not None:
                        # A lost teleop client counts as an unplugged device, so the vehicle brakes without waiting for a timeout.
                        now_ns = self._now_ns()
                        console.teleop(replace(stream.teleop, t_ns=now_ns, t_rx_ns=now_ns, unplugged=True), now_ns)
                    if self._setpoint_owner is stream and stream.setpoint is not None:
                        self._setpoint_owner, now_ns = None, self._now_ns()
                        console.setpoint(replace(stream.setpoint, t_ns=now_ns, t_rx_ns=now_ns, released=True), now_ns)
            except (OSError, EOFError):
                pass  # The client disconnected or did not read its answers.

    def _holds(self, stream: _Stream, origin: str) -> bool:
        """Return True if this client owns the teleop origin. A client has one device at a time."""
        if self._teleop_owners.setdefault(origin, stream) is not stream:
            return False
        if stream.teleop is not None and stream.teleop.origin != origin:
            self._release(stream)
            self._teleop_owners[origin] = stream
        return True

    def _release(self, stream: _Stream) -> None:
        for origin in [origin for origin, holder in self._teleop_owners.items() if holder is stream]:
            del self._teleop_owners[origin]

    async def _converse(self, stream: _Stream, console: Console, who: str) -> None:
        buffer = bytearray()
        tokens, before_s = BURST, time.monotonic()
        while True:
            data = await stream.receive()
            buffer += data
            lines: list[bytes] = []
            if b"\n" in data:
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
            longest = MAX_COURSE_LINE if buffer.startswith(COURSE_BEGINS) and not stream.only_stops else MAX_LINE
            if len(buffer) > longest:
                await stream.send(refusal(f"line too long: at most {longest} bytes"))
                return
            for line in lines:
                now_s = time.monotonic()
                tokens, before_s = min(BURST, tokens + (now_s - before_s) * REQUESTS_PER_S), now_s
                if tokens < 1.0 and (stream.teleop is not None or stream.setpoint is not None):
                    # Readings and setpoints would queue in the kernel and be used when they are old.
                    what = "readings" if stream.teleop is not None else "setpoints"
                    await stream.send(refusal(f"more than {REQUESTS_PER_S:.0f} {what} per second: send fewer"))
                    return
                if tokens < 1.0:
                    # Only this client waits; its further requests stay in the kernel.
                    await anyio.sleep((1.0 - tokens) / REQUESTS_PER_S)
                    tokens = 1.0
                tokens -= 1.0
                if line.strip():
                    await self._serve_line(stream, console, who, line)

    async def _serve_line(self, stream: _Stream, console: Console, who: str, line: bytes) -> None:
        try:
            request = parse(line)
        except RequestError as error:
            self.refused += 1
            await stream.send(refusal(str(error)))
            return
        if stream.only_stops and not (
            isinstance(request, StatusRequest) or (isinstance(request, ActionRequest) and request.action in STOPS)
        ):
            await stream.send(refusal(FULL))
            return
        now_ns = self._now_ns()
        match request:
            case StatusRequest():
                await stream.send(answer(status=console.status(now_ns)))
            case MarginsRequest():
                await stream.send(answer(rules=console.margins()))
            case ActionRequest():
                refused = console.request(ACTIONS[request.action], request.origin or who, now_ns)
                await stream.send(refusal(refused) if refused else answer(mode=console.mode.name))
            case TeleopRequest():
                if not self._holds(stream, request.origin):
                    if not stream.was_informed:
                        stream.was_informed = True
                        await stream.send(refusal(f"another client already drives as {request.origin!r}: choose another origin"))
                    return
                reading = TeleopCommand(
                    now_ns, now_ns, request.steering, request.throttle, request.brake, request.deadman, request.origin,
                    request.sequence, request.unplugged,
                )  # fmt: skip
                stream.teleop = reading
                console.teleop(reading, now_ns)
            case TopicsRequest():
                await stream.send(answer(topics=await survey(console, request.seconds)))
            case SubscribeRequest():
                await self._publish(stream, console, request)
            case SetpointRequest():
                await self._take_setpoint(stream, console, request)
            case HeartbeatRequest():
                console.heartbeat(request.origin, now_ns)
            case WatchRequest():
                while True:
                    await stream.send(answer(status=console.status(self._now_ns())))
                    await anyio.sleep(1.0 / request.rate_hz)
            case _:
                try:
                    await stream.send(await self._change(console, request, request.origin or who))
                except ChangeError as error:
                    await stream.send(refusal(str(error)))

    async def _publish(self, stream: _Stream, console: Console, request: SubscribeRequest) -> None:
        """Send the messages of a topic until the client disconnects."""
        try:
            (kind,) = kinds_of([request.topic])
        except LogError as error:
            await stream.send(refusal(str(error)))
            return
        with listening(console, kind) as listeners:
            messages = Subscription(listeners[kind], request.rate_hz)
            while True:
                await stream.send(answer(**(await messages.times() if request.times else await messages.newest())))

    async def _take_setpoint(self, stream: _Stream, console: Console, request: SetpointRequest) -> None:
        """Pass on a setpoint of the client that holds the lease, and refuse those of any other, once."""
        owner, now_ns = self._setpoint_owner, self._now_ns()
        other = owner.setpoint if owner is not None and owner is not stream else None
        if other is not None and (now_ns - other.t_rx_ns <= LEASE_NS or console.mode is Mode.OFFBOARD):
            if not stream.was_informed:
                stream.was_informed = True
                await stream.send(refusal(f"{other.origin!r} sends setpoints already: end it first"))
            return
        if (request.curvature_per_m is None) is (request.wheel_angle_rad is None):
            await stream.send(refusal("a setpoint has either curvature_per_m or wheel_angle_rad"))
            return
        self._setpoint_owner = stream
        curvature, wheel = (nan if value is None else value for value in (request.curvature_per_m, request.wheel_angle_rad))
        stream.setpoint = Setpoint(
            now_ns, now_ns, request.speed_mps, curvature, wheel, request.origin, request.sequence
        )  # fmt: skip
        console.setpoint(stream.setpoint, now_ns)

    async def _change(self, console: Console, request: Change | ParametersRequest, origin: str) -> bytes:
        """Return the answer to a change. What takes time runs in another thread. Raises :class:`ChangeError`."""
        now_ns, stops = self._now_ns(), console.stops
        match request:
            case ParametersRequest():
                return answer(parameters=console.parameters())
            case SpeedRequest():
                limit_mps = inf if request.limit_mps is None else request.limit_mps
                refused = console.limit_speed(limit_mps, origin, now_ns)
                return refusal(refused) if refused else answer(limit_mps=request.limit_mps)
            case SetParameterRequest():
                message: CourseCommand | ParameterCommand = ParameterCommand(now_ns, now_ns, origin, request.key, request.value)
            case CourseRequest():
                message = CourseCommand(now_ns, now_ns, origin, "", request.data, COURSE_KINDS[request.kind])
            case _:
                course = await anyio.to_thread.run_sync(console.plan_goto, request, abandon_on_cancel=True)
                kind = CourseKind.RETURN if isinstance(request, ReturnRequest) else CourseKind.GOTO
                message = CourseCommand(now_ns, now_ns, origin, course.name, to_bytes(course), kind)
        prepared = await anyio.to_thread.run_sync(console.prepare, message, abandon_on_cancel=True)
        if isinstance(message, CourseCommand):
            message = replace(message, name=prepared.course.name)
        refused = console.change(message, prepared, self._now_ns(), stops)
        if refused:
            return refusal(refused)
        if isinstance(message, ParameterCommand):
            return answer(key=message.key, value=message.value)
        return answer(course=prepared.course.name, length_m=prepared.course.length_m, mode=console.mode.name)


@contextmanager
def _listener(path: Path) -> Iterator[socket.socket]:
    """Listen at a path, for owner and group; remove the path afterwards."""
    _remove_stale_socket(path)
    # Bind under a temporary name, because clients that see the final path must already have access.
    making = path.with_name(f".{os.getpid()}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        try:
            with suppress(OSError):
                making.unlink()  # left by a killed process with the same number
            listener.bind(str(making))
            making.chmod(0o660)
            with suppress(KeyError, PermissionError):
                # Let the group connect; without that group only the owner may.
                os.chown(making, -1, grp.getgrnam(GROUP).gr_gid)
            listener.listen(MAX_CLIENTS)
            try:
                path.hardlink_to(making)  # unlike a rename, a hard link does not replace the socket of a faster daemon
            except FileExistsError:
                raise taken(path) from None
        finally:
            with suppress(OSError):
                making.unlink()
        try:
            yield listener
        finally:
            with suppress(OSError):
                path.unlink()


def _who(client: socket.socket) -> str:
    """Return the user of the client, as reported by the kernel."""
    try:
        _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"{pwd.getpwuid(uid).pw_name} on the control socket"
    except (AttributeError, OSError, KeyError):
        return "control socket"


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a dead daemon. Raises :class:`SocketPathError` if one still answers."""
    if answers(path):
        raise taken(path)
    with suppress(OSError):
        path.unlink()
