"""Ways from the bridge to the daemon, each a thread with a connection of its own, so that no
request waits behind a slower kind.

- Operations (modes, stops, limits) are answered by the daemon at once. Nothing that takes time
  stands before a stop.
- Plans (courses, places) and parameters take time. A newer plan takes the place of one that waits.
- Offers (setpoints, heartbeats) are sent or replaced by the next; the connection is the lease of
  the setpoints.

The link's thread never waits for any of them. All queues are bounded; what finds no room takes the
place of the oldest.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vehicled.live.bridges.mavlink.pilot import Answer, DaemonAnswer
from vehicled.live.control_socket.client import Client, ControlError, HungUpError, NoAnswerError
from vehicled.live.control_socket.protocol import ActionRequest, Request
from vehicled.live.control_socket.socket_path import SocketPathError

Inbox = queue.SimpleQueue[Callable[[], None]]
"""Calls that the link's thread makes."""
MOST_WAITING = 16
"""Requests that wait on one lane at most."""
OFFER_PERIOD_S = 0.02
"""Shortest interval of two setpoints, s: what comes faster is replaced by the next, and none is
sent late."""
RETRY_S = 1.0
"""Pause after a connection for offers was refused, s."""
OPERATION_S, PLAN_S = 5.0, 30.0
"""Longest waits for an answer, s."""
STOP, OPERATION, PLAN, PARAMETER = "stop", "operation", "plan", "parameter"
STOPS = ("stop", "disarm", "emergency_stop")


class Job(NamedTuple):
    """One request that waits."""

    kind: str
    prepare: Callable[[], Request]
    answer: Answer


class RequestLane:
    """Sends requests to the daemon one after the other, on a thread."""

    def __init__(self, path: Path, inbox: Inbox, timeout_s: float) -> None:
        self._path, self._inbox, self._timeout_s = path, inbox, timeout_s
        self._client: Client | None = None
        self._over = False
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, job: Job, *, newest_only: bool = False) -> None:
        """Add a request. ``newest_only``: it takes the place of those of its kind."""
        with self._changed:
            if newest_only:
                self._refuse(lambda other: other.kind == job.kind, "a newer request took its place")
            if len(self._waiting) >= MOST_WAITING:
                oldest = next(
                    (other for other in self._waiting if other.kind != STOP), self._waiting[0]
                )
                self._refuse(lambda other: other is oldest, "too many requests wait for the daemon")
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, why: str, kind: str) -> None:
        """Answer the requests of a kind that wait with a refusal."""
        with self._changed:
            self._refuse(lambda job: job.kind == kind, why)

    def close(self) -> None:
        """End the thread once nothing waits."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def _refuse(self, chosen: Callable[[Job], bool], why: str) -> None:
        refused = [job for job in self._waiting if chosen(job)]
        self._waiting = deque(job for job in self._waiting if job not in refused)
        for job in refused:
            self._inbox.put(lambda job=job: job.answer({}, why))  # type: ignore[misc]

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._over:
                    self._changed.wait()
                if not self._waiting:
                    self._close()
                    return
                job = self._waiting.popleft()
            reply: DaemonAnswer = {}
            why = ""
            try:
                reply = self._sent(job.prepare())
            except Exception as error:  # noqa: BLE001 - whatever a mission makes of the planner, the next request must be sent
                why = str(error) or type(error).__name__
            self._inbox.put(lambda job=job, reply=reply, why=why: job.answer(reply, why))  # type: ignore[misc]

    def _sent(self, request: Request) -> DaemonAnswer:
        """Send a request and return its answer; once more over a new connection if the daemon had
        closed the old one."""
        fresh = self._client is None
        try:
            self._client = self._client or Client(self._path, self._timeout_s)
            return self._client.ask(request)
        except (HungUpError, NoAnswerError, SocketPathError, OSError) as error:
            self._close()
            if fresh or not isinstance(error, HungUpError):
                raise
        return self._sent(request)

    def _close(self) -> None:
        """Close a connection whose next answer could belong to an earlier request."""
        if self._client is not None:
            with self._client:
                self._client = None


class OfferLane:
    """Sends the newest setpoint and heartbeat, on a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._newest: dict[type, Request] = {}
        self._over = False
        self._changed = threading.Condition()
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, request: Request) -> None:
        """Send a request, unless a newer one of its kind comes first."""
        with self._changed:
            self._newest[type(request)] = request
            self._changed.notify()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def _work(self) -> None:
        client: Client | None = None
        while (requests := self._taken()) is not None:
            try:
                if client is None:
                    client = Client(self._path)
                    # A daemon that was frozen must not find old setpoints.
                    client.hurry()
                for request in requests:
                    client.offer(request)
                client.arrived()
                time.sleep(OFFER_PERIOD_S)
            except (ControlError, SocketPathError, OSError):
                if client is not None:
                    with client:
                        client = None
                time.sleep(RETRY_S)
        if client is not None:
            with client:
                return

    def _taken(self) -> list[Request] | None:
        """Wait for requests and return them; None once the lane is closed."""
        with self._changed:
            while not self._newest and not self._over:
                self._changed.wait()
            requests, self._newest = list(self._newest.values()), {}
        return None if self._over else requests


class DaemonLanes:
    """Lanes to a daemon, see :class:`vehicled.live.bridges.mavlink.pilot.Lanes`."""

    def __init__(self, path: Path, inbox: Inbox) -> None:
        self._operations = RequestLane(path, inbox, OPERATION_S)
        self._plans = RequestLane(path, inbox, PLAN_S)
        self._offers = OfferLane(path)

    def operate(self, request: Request, answer: Answer) -> None:
        """Send a request that the daemon answers at once."""
        kind = STOP if isinstance(request, ActionRequest) and request.action in STOPS else OPERATION
        self._operations.put(Job(kind, lambda: request, answer))

    def plan(self, prepare: Callable[[], Request], answer: Answer) -> None:
        """Prepare and send a request for a course; only the newest waits."""
        self._plans.put(Job(PLAN, prepare, answer), newest_only=True)

    def ask(self, request: Request, answer: Answer) -> None:
        """Send a request about parameters."""
        self._plans.put(Job(PARAMETER, lambda: request, answer))

    def offer(self, request: Request) -> None:
        """Send a setpoint or a heartbeat."""
        self._offers.put(request)

    def cancel(self, why: str, *, operations: bool) -> None:
        """Answer the plans that wait, and with ``operations`` those too, with a refusal; a stop
        that waits stays."""
        self._plans.cancel(why, PLAN)
        if operations:
            self._operations.cancel(why, OPERATION)

    def close(self) -> None:
        """End the threads once nothing waits."""
        for lane in (self._operations, self._plans, self._offers):
            lane.close()
