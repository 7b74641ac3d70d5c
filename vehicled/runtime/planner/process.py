"""The daemon's side of the planning process: requests wait here, one at a time is worked on, and
the loop only moves bytes.

Each origin has one request at a time; a newer one takes its place. The program that has used the
least time comes first. The process is started before the loop, ends with the daemon, and is started
again if it dies or exceeds its time: the run goes on, and that request is refused.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import msgspec
from msgspec import Struct

from vehicled.core.messages import Event, Message
from vehicled.daemon.live_changes import ChangeError
from vehicled.log.pipe import child_environment
from vehicled.paths.course import Course
from vehicled.paths.stored import from_columns
from vehicled.runtime.planner.frames import (
    HEAD,
    LENGTH,
    MAX_FRAME_BYTES,
    Goal,
    Opening,
    PlanFrameKind,
    PlannedHead,
    ReplyKind,
    empty_columns,
)

PLAN_TIMEOUT_S = 8.0
"""Longest time for one request, s; the process is then started again."""
MAX_WAITING = 16
"""Largest number of requests that wait for their turn."""
PIECE_BYTES = 64 << 10
"""Most bytes that the loop moves at once; they take it some 20 us."""
RESTART_S = 1.0
"""Shortest time between two starts of the process, s."""
MAX_ACCOUNTS = 64


class Planned(Struct, frozen=True):
    """Course of one request, read and checked."""

    course: Course
    stored: bytes
    """The same course for the journal; see :func:`vehicled.paths.stored.from_bytes`."""
    origin: str
    """Origin that a client's line named; empty if none."""
    kind: str = "course"
    """Kind that a client's line named."""


class Asker(Struct, frozen=True, eq=False):
    """Client that asks for a course."""

    client: object
    origin: str
    program: int
    """Process id of the client, which shares its time with its other connections; 0 if it is
    unknown."""


class _Job:
    """Request that waits or is being worked on."""

    def __init__(
        self, asker: Asker, kind: PlanFrameKind, pieces: Sequence[bytes | bytearray]
    ) -> None:
        self.asker = asker
        self.kind = kind
        self.pieces = pieces
        self.done = anyio.Event()
        self.planned: Planned | None = None
        self.why = ""

    def refuse(self, why: str) -> None:
        """End the request without a course."""
        if not self.done.is_set():
            self.why = why
            self.done.set()


class PlanningProcess:
    """Handle of the planning process, for the control socket."""

    def __init__(
        self, opening: Opening, record: Callable[[Message, int], None], now_ns: Callable[[], int]
    ) -> None:
        """Take the facts of the run. ``record`` takes the events of the process, with times of
        ``now_ns``."""
        self._opening = msgspec.msgpack.encode(opening)
        self._record = record
        self._now_ns = now_ns
        self._waiting: list[_Job] = []
        self._current: _Job | None = None
        self._spent_s: dict[int, float] = {}
        """Time that each program has used, s."""
        self._news = anyio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: list[subprocess.Popen[bytes]] = []
        self._channel: socket.socket | None = None
        self._greeted = False
        self._started_s = -RESTART_S
        self.deaths = 0
        """Number of times that the process ended before the run."""

    # ------------------------------------------------------------------ the process

    def start(self) -> None:
        """Start the process; raises OSError. It takes a few milliseconds: call it before the loop
        runs, or in a thread."""
        self._drop()
        self._started_s = time.monotonic()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # -P: a file in the working directory must not shadow a library module.
                    [sys.executable, "-P", "-m", "vehicled.runtime.planner.child"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=child_environment(),
                    # Ctrl-C goes to the terminal's foreground group; the daemon ends this process
                    # itself.
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._channel, self._greeted = ours, False

    def close(self) -> None:
        """End the process. Safe to repeat."""
        self._drop()
        for process in self._ended:
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        self._ended.clear()

    def _drop(self) -> None:
        """Kill the process without waiting for its end, which takes some milliseconds."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._ended.append(self._process)
            self._process = None
        self._ended = [process for process in self._ended if process.poll() is None]

    @property
    def pid(self) -> int | None:
        """Process id; None while no process runs."""
        return None if self._process is None else self._process.pid

    # ------------------------------------------------------------------ requests

    async def goal(self, asker: Asker, goal: Goal) -> Planned:
        """Return the shortest path to a goal. Raises :class:`ChangeError`."""
        return await self._ask(_Job(asker, PlanFrameKind.GOAL, [msgspec.msgpack.encode(goal)]))

    async def course(self, asker: Asker, line: Sequence[bytes | bytearray]) -> Planned:
        """Return the course of a client's line, which comes in pieces. Raises
        :class:`ChangeError`."""
        return await self._ask(_Job(asker, PlanFrameKind.COURSE, line))

    def cancel(self, client: object, why: str) -> None:
        """Refuse the requests of a client that have no answer yet."""
        self._refuse(lambda job: job.asker.client is client, why)

    def _refuse(self, chosen: Callable[[_Job], bool], why: str) -> None:
        for job in [*self._waiting, *([self._current] if self._current is not None else [])]:
            if chosen(job):
                job.refuse(why)
        self._waiting = [job for job in self._waiting if not chosen(job)]

    async def _ask(self, job: _Job) -> Planned:
        asker = job.asker
        self._refuse(
            lambda other: other.asker.client is asker.client or other.asker.origin == asker.origin,
            "a newer request of the same client took its place",
        )
        if len(self._waiting) >= MAX_WAITING:
            raise ChangeError("too many clients wait for a path: ask again later")
        self._waiting.append(job)
        self._news.set()
        try:
            await job.done.wait()
        finally:
            job.refuse("the client is gone")
            if job in self._waiting:
                self._waiting.remove(job)
        if job.planned is None:
            raise ChangeError(job.why)
        return job.planned

    async def serve(self) -> None:
        """Work on the requests, one after the other, until cancelled; then end the process."""
        try:
            while True:
                if not self._waiting:
                    self._news = anyio.Event()
                    await self._news.wait()
                    continue
                job = min(self._waiting, key=lambda job: self._spent_s.get(job.asker.program, 0.0))
                self._waiting.remove(job)
                self._current, began_s = job, time.monotonic()
                await self._work(job)
                self._current = None
                self._charge(job.asker.program, time.monotonic() - began_s)
        finally:
            self.close()

    def _charge(self, program: int, spent_s: float) -> None:
        if len(self._spent_s) >= MAX_ACCOUNTS:
            self._spent_s.clear()
        self._spent_s[program] = self._spent_s.get(program, 0.0) + spent_s

    async def _work(self, job: _Job) -> None:
        try:
            if self._channel is None:
                await self._restart()
            with anyio.fail_after(PLAN_TIMEOUT_S):
                await self._exchange(job)
        except TimeoutError:
            self._gone(f"a request took more than {PLAN_TIMEOUT_S:g} s")
            job.refuse(
                f"the plan was not ready within {PLAN_TIMEOUT_S:g} s: ask again when the computer "
                "is less busy, or for a nearer place or a shorter course"
            )
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            self._gone(str(error) or "its process ended")
            job.refuse("the planning process ended and starts again: ask again")

    async def _restart(self) -> None:
        await anyio.sleep(max(self._started_s + RESTART_S - time.monotonic(), 0.0))
        await anyio.to_thread.run_sync(self.start)

    def _gone(self, why: str) -> None:
        self.deaths += 1
        self._drop()
        now_ns = self._now_ns()
        self._record(
            Event.of(now_ns, "warning", "planner_gone", why=why, deaths=self.deaths), now_ns
        )

    # ------------------------------------------------------------------ bytes

    async def _exchange(self, job: _Job) -> None:
        channel = self._channel
        assert channel is not None
        if not self._greeted:
            self._greeted = True
            await _send(
                channel, HEAD.pack(len(self._opening), PlanFrameKind.OPENING) + self._opening
            )
        await _send(channel, HEAD.pack(sum(map(len, job.pieces)), job.kind))
        for piece in job.pieces:
            await _send(channel, piece)
        length, kind = HEAD.unpack(await _receive(channel, HEAD.size))
        if length > MAX_FRAME_BYTES:
            raise ValueError(f"an answer of {length} bytes")
        if kind == ReplyKind.REFUSED:
            job.refuse((await _receive(channel, length)).decode(errors="replace"))
            return
        (head_bytes,) = LENGTH.unpack(await _receive(channel, LENGTH.size))
        head = msgspec.msgpack.decode(await _receive(channel, head_bytes), type=PlannedHead)
        columns = empty_columns(head)
        await _receive_into(channel, columns.data.cast("B"))
        stored = await _receive(channel, head.stored_bytes)
        if not job.done.is_set():
            job.planned = Planned(
                from_columns(head.course, columns), bytes(stored), head.origin, head.kind
            )
            job.done.set()


async def _send(channel: socket.socket, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        await anyio.wait_writable(channel)
        with suppress(BlockingIOError):
            view = view[channel.send(view[:PIECE_BYTES]) :]


async def _receive(channel: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    await _receive_into(channel, memoryview(data))
    return data


async def _receive_into(channel: socket.socket, view: memoryview) -> None:
    """Fill ``view``. Raises EOFError if the process ended."""
    while view:
        await anyio.wait_readable(channel)
        try:
            received = channel.recv_into(view[:PIECE_BYTES])
        except BlockingIOError:
            continue
        if not received:
            raise EOFError
        view = view[received:]
