"""Mixed reality: the process of the virtual world, its requests and its answers.

The process gets the estimated pose every ``PERIOD_NS`` and answers with a scan of the virtual
bodies, which enters the machine as a message. It never runs on the loop. In lockstep virtual time
waits for it; in wall time a late answer is late. A process that is gone is reported and not
replaced, because its bodies would begin anew.
"""

import os
import select
from collections.abc import Callable
from math import isfinite

import anyio
import msgspec
from msgspec.structs import replace

from vehicled.core.messages import EstimatorStatus, Event, Message, VirtualWorld
from vehicled.daemon.machine import Machine
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.log.frames import HEAD
from vehicled.paths.stored import to_bytes
from vehicled.run.mixed_frames import ViewPoint, VirtualView, WorldOpening
from vehicled.run.plan import Plan
from vehicled.runtime.clock import RunClock

PERIOD_NS = 50_000_000
LATENCY_NS = 10_000_000
"""Time from the request to the answer in lockstep, ns; in wall time it is as long as it takes."""
PATIENCE_S = 5.0
"""Longest wait for an answer before the process counts as gone, s; in lockstep of the computer's
time."""
MAX_ANSWER_BYTES = 1 << 20


class WorldGoneError(Exception):
    """The process of the virtual world answers no more; the text gives the reason."""


class MixedReality:
    """The virtual world of one run."""

    def __init__(
        self,
        process: BridgeProcess,
        name: str,
        record: Callable[[Message, int], None],
        *,
        stops_if_lost: bool,
        behind_s: float,
    ) -> None:
        """``record`` takes the events; ``behind_s``: age from which an answer is of no use."""
        self._process = process
        self._name = name
        self._record = record
        self._stops_if_lost = stops_if_lost
        self._behind_s = behind_s
        self._begun = self._gone = self._waits = self._behind = False
        self._buffer = bytearray()
        self._due_ns = 0
        self._answer: tuple[int, VirtualView] | None = None

    @classmethod
    def start(cls, plan: Plan, record: Callable[[Message, int], None]) -> "MixedReality":
        """Start the process and let it read the scene. Raises BridgeError."""
        spec, profile = plan.spec, plan.loaded.profile
        opening = WorldOpening(
            scene=spec.mixed,
            course=to_bytes(plan.course),
            seed=spec.mixed_seed,
            outline=profile.vehicle.outline,
            vehicles=list(spec.mixed_vehicles),
        )
        process = BridgeProcess.start("mixed reality", "vehicled.offline.mixed.child", opening)
        return cls(
            process,
            spec.mixed_name,
            record,
            stops_if_lost=spec.mixed_loss == "stop",
            behind_s=profile.limits.obstacle_silence_s,
        )

    def close(self) -> None:
        """End the process. Safe to repeat."""
        self._process.close()

    # ------------------------------------------------------------------ lockstep

    def turn(self, machine: Machine, now_ns: int) -> None:
        """Follow a turn of the lockstep pump: deliver an answer that is due, and request the
        next."""
        if not self._begun:
            self._begin(machine, now_ns)
        if self._gone:
            return
        try:
            if self._answer is not None:
                if now_ns >= self._answer[0]:
                    view, self._answer = self._answer[1], None
                    self._deliver(machine, view, now_ns)
            elif now_ns >= self._due_ns and (point := self._view_point(machine, now_ns)):
                self._due_ns = now_ns + PERIOD_NS
                self._request(point)
                while (answer := self._answered(point)) is None:
                    if not select.select([self._process.answers], [], [], PATIENCE_S)[0]:
                        raise WorldGoneError(f"no answer within {PATIENCE_S:g} s")
                self._answer = now_ns + LATENCY_NS, answer
        except WorldGoneError as error:
            self._lost(error, now_ns)

    # ------------------------------------------------------------------ wall time

    async def serve(self, machine: Machine, clock: RunClock) -> None:
        """Request scans and deliver them, until cancelled or the process is gone."""
        os.set_blocking(self._process.answers, False)
        self._begin(machine, clock.now_ns())
        try:
            while True:
                began_s = anyio.current_time()
                point = self._view_point(machine, clock.now_ns())
                if point is not None:
                    await self._exchange(machine, clock, point)
                await anyio.sleep_until(began_s + PERIOD_NS * 1e-9)
        except WorldGoneError as error:
            self._lost(error, clock.now_ns())

    async def _exchange(self, machine: Machine, clock: RunClock, point: ViewPoint) -> None:
        self._request(point)
        answer: VirtualView | None = None
        for wait_s in (self._behind_s, PATIENCE_S):
            with anyio.move_on_after(wait_s):
                while (answer := self._answered(point)) is None:
                    await anyio.wait_readable(self._process.answers)
            if answer is not None:
                break
            if wait_s == PATIENCE_S:
                raise WorldGoneError(f"no answer within {PATIENCE_S:g} s")
            self._fell_behind(clock.now_ns())
        else:
            raise AssertionError
        assert answer is not None
        self._deliver(machine, answer, clock.now_ns())

    def _fell_behind(self, now_ns: int) -> None:
        if not self._behind:
            self._behind = True
            self._say(
                Event.of(now_ns, "warning", "virtual_world_behind", longer_than_s=self._behind_s)
            )

    # ------------------------------------------------------------------ both

    def _begin(self, machine: Machine, now_ns: int) -> None:
        self._begun = True
        world = VirtualWorld(now_ns, now_ns, self._name, self._stops_if_lost)
        machine.on_message(world, now_ns)
        if_lost = "counts as an obstacle" if self._stops_if_lost else "the drive goes on without it"
        self._say(Event.of(now_ns, "warning", "mixed_reality", world=self._name, if_lost=if_lost))

    def _view_point(self, machine: Machine, now_ns: int) -> ViewPoint | None:
        """Return what the virtual world is seen from; None before the vehicle has a pose."""
        estimate = machine.estimate
        if (
            estimate is None
            or estimate.status is EstimatorStatus.UNINITIALISED
            or not isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad)
        ):
            if not self._waits:
                self._waits = True
                why = "the vehicle has no pose yet"
                self._say(Event.of(now_ns, "info", "virtual_world_waits", why=why))
            return None
        return ViewPoint(
            estimate.t_ns,
            estimate.x_m,
            estimate.y_m,
            estimate.yaw_rad,
            machine.pipeline.monitors.place.s_m,
        )

    def _request(self, point: ViewPoint) -> None:
        if not self._process.offer(FrameKind.REQUEST, msgspec.msgpack.encode(point)):
            raise WorldGoneError("its process ended or reads no more")

    def _answered(self, point: ViewPoint) -> VirtualView | None:
        """Return the answer if it has arrived. Raises :class:`WorldGoneError`."""
        try:
            data = os.read(self._process.answers, 1 << 16)
        except BlockingIOError:
            return None
        if not data:
            raise WorldGoneError("its process ended")
        self._buffer += data
        if len(self._buffer) < HEAD.size:
            return None
        length, _ = HEAD.unpack_from(self._buffer)
        if length > MAX_ANSWER_BYTES:
            raise WorldGoneError(f"an answer of {length} bytes")
        if len(self._buffer) < HEAD.size + length:
            return None
        try:
            view = msgspec.msgpack.decode(self._buffer[HEAD.size :], type=VirtualView)
        except msgspec.MsgspecError as error:
            raise WorldGoneError(f"its answer is none: {error}") from None
        self._buffer.clear()
        if view.scan.t_ns != point.t_ns:
            raise WorldGoneError("it answers another question")
        return view

    def _deliver(self, machine: Machine, view: VirtualView, now_ns: int) -> None:
        machine.on_message(replace(view.scan, t_rx_ns=now_ns), now_ns)
        self._behind = False
        for text in view.warnings:
            self._say(Event.of(now_ns, "warning", "virtual_world", why=text))

    def _lost(self, error: WorldGoneError, now_ns: int) -> None:
        self._gone = True
        self._process.abandon()
        what = "it counts as an obstacle" if self._stops_if_lost else "the drive goes on without it"
        self._say(Event.of(now_ns, "warning", "virtual_world_lost", why=f"{error}; {what}"))

    def _say(self, event: Event) -> None:
        self._record(event, event.t_ns)
