"""Server side of the control socket, on asyncio or trio. No client costs the loop a deadline, and a
stop is never refused.

A connection gets a place with its first request. Without one it may read the state and stop the
vehicle. What is quick is done as it is read: stops, teleop readings, setpoints. Everything else
waits for a turn (:mod:`vehicled.live.control_socket.turns`); paths and courses are the planning
process's. Answers keep the order of the requests.
"""

import grp
import os
import pwd
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from math import inf, nan
from pathlib import Path
from typing import Any, TypeGuard

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from vehicled.core.messages import (
    CourseCommand,
    CourseKind,
    Mode,
    ParameterCommand,
    Setpoint,
    TeleopCommand,
)
from vehicled.daemon.live_changes import ChangeError, Prepared
from vehicled.live.control_socket.console import STOPPED, Console
from vehicled.live.control_socket.lines import CoursePieces, LineReader, LineTooLongError
from vehicled.live.control_socket.pending import (
    BACKLOG,
    STOP_WORDS,
    PendingConnection,
    PendingConnections,
)
from vehicled.live.control_socket.protocol import (
    ACTIONS,
    COURSE_KINDS,
    VERSION,
    ActionRequest,
    CourseRequest,
    GotoRequest,
    HeartbeatRequest,
    HelloRequest,
    MarginsRequest,
    ParametersRequest,
    PathRequest,
    Request,
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
    farewell,
    parse,
    printable,
    refusal,
    version_refusal,
)
from vehicled.live.control_socket.socket_path import GROUP, answers, taken
from vehicled.live.control_socket.topics import TIMES_PERIOD_S, Subscription, listening, survey
from vehicled.live.control_socket.turns import Turns
from vehicled.log.cat import kinds_of
from vehicled.log.errors import LogError
from vehicled.paths.course import Course
from vehicled.runtime.planner.process import Asker, Planned, PlanningProcess
from vehicled.safety.monitors.setpoints import LEASE_NS

READ_BYTES = 1 << 14
COURSE_READ_BYTES = 1 << 16
MAX_CLIENTS = 16
MAX_PER_PROGRAM = 8
"""Largest number of places for connections of one process."""
MAX_STOPPERS = 32
"""Largest number of connections that have no place and ask for something; beyond it the oldest of
the program that has most is closed.
"""
STOPPER_TIMEOUT_S = 1.0
"""Time that a connection may last while there is no place for it, s."""
STOPS = ("stop", "disarm", "emergency_stop")
FULL = (
    f"{MAX_CLIENTS} clients are connected already, or {MAX_PER_PROGRAM} of this program: close "
    "one; only a stop is accepted"
)
REQUESTS_PER_S = 200.0
BURST = 50.0
"""Requests of one program: at this rate, and so many at once. It has no more of them with more
connections."""
MAX_ALLOWANCES = 64
COURSE_BYTES_PER_S = 8e6
MAX_REQUESTS = 64
"""Largest number of requests of one client that wait for their answers; further ones are
refused."""
WRITE_TIMEOUT_S = 1.0
"""Timeout for a client that does not read its answers, s; it is then disconnected."""
CHANGE_PERIOD_S = 0.05
"""Shortest time between two changes of course or parameter, by all clients together, s."""
PREPARATIONS = 3
"""Most preparations of a change, if the vehicle has moved on or something else was changed
meanwhile."""
BUILD_TIMEOUT_S = 5.0
"""Longest time that a controller may take to be built again, s."""
MAX_EARLY_STOPS = 4
"""Largest number of stops that overtake the requests read with them: the later ones ask for the
same."""
ENDED = "the run has ended"
NEWER = "a newer request of the same client took its place"

Line = bytes | CoursePieces


def _stops(request: "Request | CoursePieces") -> "TypeGuard[ActionRequest]":
    """Return True for a request that is never refused or delayed."""
    return isinstance(request, ActionRequest) and request.action in STOPS


class _Allowance:
    """Requests that a program may send now."""

    def __init__(self) -> None:
        self._left = BURST
        self._before_s = time.monotonic()

    def wait_s(self) -> float:
        """Use one up; return how long the program has to wait for it."""
        now_s = time.monotonic()
        self._left = min(BURST, self._left + (now_s - self._before_s) * REQUESTS_PER_S) - 1.0
        self._before_s = now_s
        return max(-self._left / REQUESTS_PER_S, 0.0)


class _AnswerPlace:
    """Place of one answer in the order of the requests."""

    data: bytes | None = None


class _Pending:
    """Request that waits for its turn, or is being served."""

    def __init__(
        self, request: Request | CoursePieces, place: _AnswerPlace, stops: int | None
    ) -> None:
        self.request = request
        self.place = place
        self.stops = stops
        """Number of stops before it; None if a stop does not concern it."""
        self.overruled = ""
        """Why the course that it asks for is not wanted any more; empty while it is."""

    def overrule(self, why: str) -> None:
        """Give up a request for a course."""
        if isinstance(self.request, list | GotoRequest | ReturnRequest):
            self.overruled = self.overruled or why

    def check(self) -> None:
        """Raise :class:`ChangeError` if the course is not wanted any more."""
        if self.overruled:
            raise ChangeError(self.overruled)


class _Client:
    """Connection of a client. It is not an anyio socket, because that of the asyncio backend logs
    an error if cancelled while reading.
    """

    def __init__(self, pending: PendingConnection) -> None:
        self.socket = pending.connection
        self.name = _name(pending.user)
        """Name by which requests without an origin are known."""
        self.program = pending.program
        """Process id; 0 if it is unknown."""
        self.scope = anyio.CancelScope()
        """Cancelled when the connection must end; its deadline is finite while there is no place
        for it."""
        self.group: TaskGroup | None = None
        self.admitted = False
        """True if the client has one of the places."""
        self.requests: deque[_Pending] = deque()
        """Requests that wait for their turn."""
        self.current: _Pending | None = None
        """Request that is being served."""
        self.news: anyio.Event | None = None
        """Set with a new request; None before the first one."""
        self.ended = False
        """True if the client sends nothing more."""
        self.teleop: TeleopCommand | None = None
        """Newest teleop reading of this client; None if it sends none."""
        self.was_informed = False
        """True if the client was informed that another one uses its origin."""
        self.setpoint: Setpoint | None = None
        """Newest setpoint of this client; None if it sends none."""
        self._places: deque[_AnswerPlace] = deque()
        self._sending = anyio.Lock()
        self._cut = False
        """True while a line is sent in part."""

    async def receive(self, most_bytes: int) -> bytes:
        """Return received data. Raises EOFError if the client disconnected, OSError if the socket
        broke."""
        while True:
            try:
                data = self.socket.recv(most_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self.socket)
                continue
            if not data:
                raise EOFError
            return data

    @property
    def hung_up(self) -> bool:
        """True if the client has closed its connection, and not only sent its last request."""
        poller = select.poll()
        poller.register(self.socket, 0)
        return bool(poller.poll(0))

    def place(self) -> _AnswerPlace:
        """Return the place of the next answer."""
        place = _AnswerPlace()
        self._places.append(place)
        return place

    async def reply(self, place: _AnswerPlace, data: bytes) -> None:
        """Send an answer as soon as all before it are sent. Raises TimeoutError, an OSError, if the
        client does not read."""
        place.data = data
        async with self._sending:
            while self._places and (ready := self._places[0].data) is not None:
                self._places.popleft()
                await self._write(ready)

    async def answer(self, data: bytes) -> None:
        """Send an answer to the newest request, like :meth:`reply`."""
        await self.reply(self.place(), data)

    async def send(self, data: bytes) -> None:
        """Send data that no request waits for, at once."""
        async with self._sending:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        with anyio.fail_after(WRITE_TIMEOUT_S):
            while data:
                try:
                    data = data[self.socket.send(data) :]
                    self._cut = bool(data)
                except BlockingIOError:
                    await anyio.wait_writable(self.socket)

    def take_leave(self, why: str) -> None:
        """Say why the daemon closes the connection, unless that has to wait."""
        if not self._cut:
            with suppress(OSError):
                self.socket.send(farewell(why))


class ControlServer:
    """Serves one control socket until cancelled."""

    def __init__(
        self,
        path: Path,
        now_ns: Callable[[], int] = time.monotonic_ns,
        due_ns: Callable[[], int] | None = None,
        planner: PlanningProcess | None = None,
    ) -> None:
        """Take the path; ``now_ns`` is the clock of the run, ``due_ns`` returns when its next task
        is due. Without a ``planner`` courses are refused.
        """
        self._path = path
        self._now_ns = now_ns
        self._planner = planner
        self._turns = Turns(now_ns, due_ns) if due_ns is not None else Turns(now_ns)
        self._changing = anyio.Lock()
        self._changed_s = 0.0
        self._admitted: Counter[int] = Counter()
        """Number of places by program."""
        self._stoppers: dict[_Client, None] = {}
        """Connections without a place, the oldest first."""
        self._connections: set[_Client] = set()
        self._allowances: dict[int, _Allowance] = {}
        self.refused = 0
        """Number of lines that were not requests."""
        self._teleop_owners: dict[str, _Client] = {}
        """Client of each teleop origin. Two clients with one origin would be mixed up: one neutral,
        the other driving."""
        self._setpoint_owner: _Client | None = None
        """Client that holds the lease of the setpoints."""

    @property
    def clients(self) -> int:
        """Number of clients with a place."""
        return self._admitted.total()

    async def serve(self, console: Console) -> None:
        """Listen, and serve every client in its own task. Raises :class:`SocketPathError` if
        another daemon has the socket."""
        with _listener(self._path) as listener:
            async with anyio.create_task_group() as group:
                if self._planner is not None:
                    group.start_soon(self._planner.serve)

                def admit(pending: PendingConnection) -> None:
                    self._welcome(_Client(pending), console, group)

                await PendingConnections(
                    listener, admit, self._lacks_place, refusal(FULL), STOPPER_TIMEOUT_S
                ).serve()

    # ------------------------------------------------------------------ places

    def _welcome(self, client: _Client, console: Console, group: TaskGroup) -> None:
        """Serve a connection that asks for something."""
        if len(self._stoppers) >= MAX_STOPPERS:
            ((program, _),) = Counter(each.program for each in self._stoppers).most_common(1)
            oldest = next(each for each in self._stoppers if each.program == program)
            del self._stoppers[oldest]
            oldest.scope.cancel()
        self._stoppers[client] = None
        self._connections.add(client)
        group.start_soon(self._serve_client, client, console)

    def _admits(self, client: _Client) -> bool:
        """Return True if the client has a place or gets one now; else it has only a moment left."""
        if client.admitted:
            return True
        if not self._lacks_place(client):
            client.admitted = True
            self._admitted[client.program] += 1
            self._stoppers.pop(client, None)
            client.scope.deadline = inf
        return client.admitted

    def _lacks_place(self, client: "_Client | PendingConnection") -> bool:
        return self.clients >= MAX_CLIENTS or self._admitted[client.program] >= MAX_PER_PROGRAM

    async def _serve_client(self, client: _Client, console: Console) -> None:
        client.scope.deadline = anyio.current_time() + STOPPER_TIMEOUT_S
        with client.socket:
            try:
                with client.scope:
                    try:
                        async with anyio.create_task_group() as client.group:
                            await self._read(client, console)
                    except* (OSError, EOFError):
                        pass  # The client disconnected or did not read its answers.
                if client.scope.cancelled_caught:
                    with suppress(OSError):
                        # Send the reason, or the client would take the disconnect for the end of
                        # the run.
                        await client.send(refusal(FULL))
            except anyio.get_cancelled_exc_class():
                client.take_leave(ENDED)
                raise
            finally:
                self._release_inputs(client, console)
                self._stoppers.pop(client, None)
                self._connections.discard(client)
                if client.admitted:
                    self._admitted[client.program] -= 1
                    self._admitted += Counter()  # drops what is zero

    def _release_inputs(self, client: _Client, console: Console) -> None:
        """Report to the run that the client no longer drives: it has ended, or its connection
        has."""
        for origin in [
            origin for origin, holder in self._teleop_owners.items() if holder is client
        ]:
            del self._teleop_owners[origin]
        now_ns = self._now_ns()
        if client.teleop is not None:
            # A lost teleop client counts as an unplugged device, so the vehicle brakes without
            # waiting for a timeout.
            console.teleop(
                replace(client.teleop, t_ns=now_ns, t_rx_ns=now_ns, unplugged=True), now_ns
            )
            client.teleop = None
        if self._setpoint_owner is client and client.setpoint is not None:
            self._setpoint_owner = None
            console.setpoint(
                replace(client.setpoint, t_ns=now_ns, t_rx_ns=now_ns, released=True), now_ns
            )

    # ------------------------------------------------------------------ reading

    async def _read(self, client: _Client, console: Console) -> None:
        """Read until the client ends, and do or queue what it asks. Raises EOFError and OSError to
        end the connection."""
        reader, allowance = LineReader(), self._allowance(client.program)
        while True:
            try:
                data = await client.receive(COURSE_READ_BYTES if reader.in_course else READ_BYTES)
            except (OSError, EOFError):
                break
            try:
                lines = reader.feed(data)
            except LineTooLongError as error:
                await client.send(refusal(str(error)))
                raise EOFError from None
            early: dict[int, bytes] | None = None
            for index, line in enumerate(lines):
                wait_s = allowance.wait_s()
                if wait_s and (client.teleop is not None or client.setpoint is not None):
                    # Readings and setpoints would queue in the kernel and be used when they are
                    # old.
                    what = "readings" if client.teleop is not None else "setpoints"
                    await client.send(
                        refusal(f"more than {REQUESTS_PER_S:.0f} {what} per second: send fewer")
                    )
                    raise EOFError
                if wait_s and early is None:
                    # Only this program waits; its further requests stay in the kernel. A stop among
                    # them does not wait.
                    early = self._do_stops(client, console, lines, index)
                # Tasks come between any two requests.
                await anyio.sleep(wait_s)
                if early and index in early:
                    await client.answer(early[index])
                elif isinstance(line, list) or line.strip():
                    overruled = early and any(index < stop for stop in early)
                    await self._take(client, console, line, STOPPED if overruled else "")
            if reader.in_course and not self._admits(client):
                await client.send(refusal(FULL))
                raise EOFError
            if reader.in_course:
                await anyio.sleep(len(data) / COURSE_BYTES_PER_S)
        # What it has asked for is still done, but for a path that nobody waits for.
        self._release_inputs(client, console)
        if client.hung_up:
            self._overrule(client, "the client is gone")
        client.ended = True
        if client.news is not None:
            client.news.set()

    def _allowance(self, program: int) -> _Allowance:
        """Return the allowance of a program; one whose process id is not known has its own for
        every connection."""
        if not program:
            return _Allowance()
        if len(self._allowances) >= MAX_ALLOWANCES:
            used = {client.program for client in self._connections}
            self._allowances = {
                each: allowance for each, allowance in self._allowances.items() if each in used
            }
        return self._allowances.setdefault(program, _Allowance())

    def _do_stops(
        self, client: _Client, console: Console, lines: list[Line], first: int
    ) -> dict[int, bytes]:
        """Carry out the stops among the lines from ``first`` on before all others; return their
        answers by index."""
        done = {}
        short = (
            (k, line) for k, line in enumerate(lines[first:], first) if isinstance(line, bytes)
        )
        found = ((k, line) for k, line in short if any(word in line for word in STOP_WORDS))
        for index, line in islice(found, MAX_EARLY_STOPS):
            with suppress(RequestError):
                request = parse(line)
                if _stops(request):
                    self._admits(client)
                    done[index] = self._act(client, console, request)
        return done

    def _act(self, client: _Client, console: Console, request: ActionRequest) -> bytes:
        if _stops(request):
            for each in self._connections:
                self._overrule(each, STOPPED)
        refused = console.request(
            ACTIONS[request.action], request.origin or client.name, self._now_ns()
        )
        return refusal(refused) if refused else answer(mode=console.mode.name)

    def _overrule(self, client: _Client, why: str) -> None:
        """Refuse the courses that the client has asked for and that are not set yet."""
        for pending in (
            *client.requests,
            *([client.current] if client.current is not None else []),
        ):
            pending.overrule(why)
        if self._planner is not None:
            self._planner.cancel(client, why)

    async def _take(self, client: _Client, console: Console, line: Line, overruled: str) -> None:
        """Do what a line asks if it is quick; queue it otherwise. ``overruled``: why it may not
        move the vehicle, if so."""
        try:
            request: Request | CoursePieces = line if isinstance(line, list) else parse(line)
        except RequestError as error:
            self.refused += 1
            await client.answer(refusal(str(error)))
            return
        if not self._admits(client) and not (isinstance(request, StatusRequest) or _stops(request)):
            await client.answer(refusal(FULL))
            return
        moves = isinstance(
            request, ActionRequest | CourseRequest | GotoRequest | ReturnRequest | list
        ) and not _stops(request)
        if overruled and moves:
            await client.answer(refusal(overruled))
            return
        if isinstance(request, CourseRequest) and isinstance(line, bytes):
            # The planning process reads it, however short it is.
            request = [bytearray(line)]
        now_ns = self._now_ns()
        match request:
            case ActionRequest():
                await client.answer(self._act(client, console, request))
            case TeleopRequest():
                if not self._holds(client, request.origin):
                    if not client.was_informed:
                        client.was_informed = True
                        await client.answer(
                            refusal(
                                "another client already drives as "
                                f"{request.origin!r}: choose another origin"
                            )
                        )
                    return
                reading = TeleopCommand(
                    now_ns, now_ns, request.steering, request.throttle, request.brake,
                    request.deadman, request.origin, request.sequence, request.unplugged,
                )  # fmt: skip
                client.teleop = reading
                console.teleop(reading, now_ns)
            case SetpointRequest():
                await self._take_setpoint(client, console, request)
            case HelloRequest():
                refused = version_refusal(request.version)
                await client.answer(
                    refusal(refused)
                    if refused
                    else answer(protocol="control", version=VERSION, software=console.facts.version)
                )
            case HeartbeatRequest():
                console.heartbeat(request.origin, now_ns)
            case SpeedRequest():
                limit_mps = inf if request.limit_mps is None else request.limit_mps
                refused = console.limit_speed(limit_mps, request.origin or client.name, now_ns)
                await client.answer(
                    refusal(refused) if refused else answer(limit_mps=request.limit_mps)
                )
            case _:
                await self._queue(client, console, request)

    async def _queue(
        self, client: _Client, console: Console, request: Request | CoursePieces
    ) -> None:
        asks_course = isinstance(request, list | GotoRequest | ReturnRequest)
        if asks_course:
            self._overrule(client, NEWER)
        if len(client.requests) >= MAX_REQUESTS:
            await client.answer(
                refusal(
                    f"{MAX_REQUESTS} requests of this client wait for their answers: send fewer at "
                    "once"
                )
            )
            return
        client.requests.append(
            _Pending(request, client.place(), console.stops if asks_course else None)
        )
        if client.news is None:
            assert client.group is not None
            client.group.start_soon(self._work, client, console)
            client.news = anyio.Event()
        client.news.set()

    def _holds(self, client: _Client, origin: str) -> bool:
        """Return True if this client owns the teleop origin. A client has one device at a time."""
        if self._teleop_owners.setdefault(origin, client) is not client:
            return False
        if client.teleop is not None and client.teleop.origin != origin:
            del self._teleop_owners[client.teleop.origin]
        return True

    async def _take_setpoint(
        self, client: _Client, console: Console, request: SetpointRequest
    ) -> None:
        """Pass on a setpoint of the client that holds the lease, and refuse those of any other,
        once."""
        owner, now_ns = self._setpoint_owner, self._now_ns()
        other = owner.setpoint if owner is not None and owner is not client else None
        if other is not None and (
            now_ns - other.t_rx_ns <= LEASE_NS or console.mode is Mode.OFFBOARD
        ):
            if not client.was_informed:
                client.was_informed = True
                await client.answer(
                    refusal(f"{other.origin!r} sends setpoints already: end it first")
                )
            return
        if (request.curvature_per_m is None) is (request.wheel_angle_rad is None):
            await client.answer(refusal("a setpoint has either curvature_per_m or wheel_angle_rad"))
            return
        self._setpoint_owner = client
        curvature, wheel = (
            nan if value is None else value
            for value in (request.curvature_per_m, request.wheel_angle_rad)
        )
        client.setpoint = Setpoint(
            now_ns, now_ns, request.speed_mps, curvature, wheel, request.origin, request.sequence
        )  # fmt: skip
        console.setpoint(client.setpoint, now_ns)

    # ---------------------------------------------------------------- requests that wait for a turn

    async def _work(self, client: _Client, console: Console) -> None:
        """Serve the queued requests of a client in order."""
        while True:
            while client.requests:
                client.current = client.requests.popleft()
                await self._serve_request(client, console, client.current)
                client.current = None
            if client.ended:
                return
            client.news = anyio.Event()
            await client.news.wait()

    async def _serve_request(self, client: _Client, console: Console, pending: _Pending) -> None:
        request, place = pending.request, pending.place
        match request:
            case StatusRequest():
                await client.reply(
                    place, await self._turns.take("status", lambda: self._status(console))
                )
            case MarginsRequest():
                await client.reply(
                    place,
                    await self._turns.take(
                        "margins", lambda: _looked_up(lambda: {"rules": console.margins()})
                    ),
                )
            case PathRequest():
                await client.reply(
                    place,
                    await self._turns.take(
                        "path", lambda: _looked_up(lambda: {"path": console.path(request.points)})
                    ),
                )
            case TopicsRequest():
                await client.reply(place, answer(topics=await survey(console, request.seconds)))
            case SubscribeRequest():
                await self._publish(client, console, request, place)
            case WatchRequest():
                await client.reply(place, b"")
                while True:
                    await client.send(
                        await self._turns.take("status", lambda: self._status(console))
                    )
                    await anyio.sleep(1.0 / request.rate_hz)
            case _:
                try:
                    data = await self._change(client, console, pending)
                except ChangeError as error:
                    data = refusal(pending.overruled or str(error))
                await client.reply(place, data)

    def _status(self, console: Console) -> bytes:
        return _looked_up(lambda: {"status": console.status(self._now_ns())})

    async def _publish(
        self, client: _Client, console: Console, request: SubscribeRequest, place: _AnswerPlace
    ) -> None:
        """Send the messages of a topic until the client disconnects."""
        try:
            (kind,) = kinds_of([request.topic])
        except LogError as error:
            await client.reply(place, refusal(str(error)))
            return
        await client.reply(place, b"")
        with listening(console, kind) as listeners:
            messages = Subscription(listeners[kind], request.rate_hz)

            def content() -> bytes:
                return _looked_up(messages.times if request.times else messages.newest)

            while True:
                await (anyio.sleep(TIMES_PERIOD_S) if request.times else messages.wait())
                await client.send(await self._turns.take(kind, content))

    async def _change(self, client: _Client, console: Console, pending: _Pending) -> bytes:
        """Return the answer to a change. What takes time is done by the planning process, and by a
        thread. Raises :class:`ChangeError`.
        """
        request = pending.request
        if isinstance(request, ParametersRequest):
            return await self._turns.take(
                "parameters", lambda: answer(parameters=console.parameters())
            )
        if isinstance(request, SetParameterRequest):
            now_ns, origin = self._now_ns(), request.origin or client.name
            await self._swap(
                console,
                ParameterCommand(now_ns, now_ns, origin, request.key, request.value),
                None,
                pending,
            )
            return answer(key=request.key, value=request.value)

        planned, kind = await self._plan(client, console, pending)
        now_ns, origin = self._now_ns(), printable(planned.origin) or client.name
        message = CourseCommand(now_ns, now_ns, origin, planned.course.name, planned.stored, kind)
        await self._swap(console, message, planned, pending)
        return answer(
            course=planned.course.name, length_m=planned.course.length_m, mode=console.mode.name
        )

    async def _plan(
        self, client: _Client, console: Console, pending: _Pending
    ) -> tuple[Planned, CourseKind]:
        """Return the course of a request, and its purpose."""
        request = pending.request
        if self._planner is None:
            raise ChangeError("this daemon plans no paths and takes no courses")
        if isinstance(request, GotoRequest | ReturnRequest):
            origin = request.origin or client.name
            goal = await self._turns.take("goal", lambda: console.goal(request))
            pending.check()
            planned = await self._planner.goal(Asker(client, origin, client.program), goal)
            kind = CourseKind.RETURN if isinstance(request, ReturnRequest) else CourseKind.GOTO
            return replace(planned, origin=origin), kind
        assert isinstance(request, list)
        pending.check()
        planned = await self._planner.course(
            Asker(client, f"a course by {client.name}", client.program), request
        )
        return planned, COURSE_KINDS[planned.kind]

    async def _swap(
        self,
        console: Console,
        message: CourseCommand | ParameterCommand,
        planned: Planned | None,
        pending: _Pending,
    ) -> None:
        """Build the controller in a thread and take it between two ticks, unless the request is not
        wanted any more."""
        course = None if planned is None else planned.course
        async with self._changing:
            # One at a time, because a change that fits no more must be prepared again.
            await anyio.sleep(max(self._changed_s + CHANGE_PERIOD_S - time.monotonic(), 0.0))
            for _ in range(PREPARATIONS):
                prepared = await self._prepared(console, message, course)

                def change(prepared: Prepared = prepared) -> str | None:
                    pending.check()
                    if not console.fits(message, prepared):
                        return None
                    return console.change(message, prepared, self._now_ns(), pending.stops)

                refused = await self._turns.take(type(message), change)
                if refused is not None:
                    break
            else:
                refused = (
                    "the vehicle moves on faster than the change is prepared: ask again when "
                    "it is slower or stands"
                )
            self._changed_s = time.monotonic()
        if refused:
            raise ChangeError(refused)

    @staticmethod
    async def _prepared(
        console: Console, message: CourseCommand | ParameterCommand, course: Course | None
    ) -> Prepared:
        """Build the controller in a thread."""
        try:
            with anyio.fail_after(BUILD_TIMEOUT_S):
                return await anyio.to_thread.run_sync(
                    console.prepare, message, course, abandon_on_cancel=True
                )
        except TimeoutError:
            raise ChangeError(
                f"the controller took more than {BUILD_TIMEOUT_S:g} s to be built: nothing was "
                "changed"
            ) from None


def _looked_up(look: Callable[[], dict[str, Any]]) -> bytes:
    """Return the answer to a client that only looks. What only explains must not end a drive,
    whatever it finds."""
    try:
        return answer(**look())
    except Exception as error:  # noqa: BLE001 - a defect here is reported to the client that asked
        return refusal(f"the daemon could not answer: {type(error).__name__}: {error}")


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
            listener.listen(BACKLOG)
            try:
                path.hardlink_to(
                    making
                )  # unlike a rename, a hard link does not replace the socket of a faster daemon
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


@cache
def _name(user: int | None) -> str:
    """Return the name of a user's requests; asked once, because a directory on the network may be
    slow."""
    try:
        return (
            "control socket"
            if user is None
            else f"{pwd.getpwuid(user).pw_name} on the control socket"
        )
    except (OSError, KeyError):
        return "control socket"


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a dead daemon. Raises :class:`SocketPathError` if one still answers."""
    if answers(path):
        raise taken(path)
    with suppress(OSError):
        path.unlink()
