"""Wall-clock pump: wakes the machine when a task is due and delivers bytes as they arrive. Runs on
asyncio and trio."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import anyio
from msgspec.structs import replace

from vehicled.core.events import LoopBlocked
from vehicled.core.journal import Sink
from vehicled.core.link import LinkError
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.daemon.machine import Machine, Outgoing
from vehicled.runtime.clock import PacedClock
from vehicled.runtime.ending import EndConditions, Ending, Outcome
from vehicled.runtime.evidence import WallEvidenceSource
from vehicled.runtime.evidence.block_sampler import BlockSampler
from vehicled.runtime.host import Transport
from vehicled.runtime.lease import Lease
from vehicled.runtime.timer import Alarm

BLOCK_NS = 5_000_000
"""Longest normal turn of the machine, twice the shortest period of the pipeline; the blocking line
of a longer one is logged."""

CLOSE_S = 0.5
"""Timeout for ports that do not accept the last stop, s."""

RECEIVE, LOG, TRANSMIT, VIEW = range(4)
"""Runtime callbacks by number; :data:`vehicled.core.attribution.HOLDERS` has their names."""


class WallPump:
    """One run on the wall clock, and the :class:`~vehicled.runtime.host.Host` of its transport."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        run: EndConditions,
        evidence_source: WallEvidenceSource,
        sink: Sink,
        services: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
        spare: Callable[[int, int], None] | None = None,
    ) -> None:
        """Take the machine. ``services`` run beside the pump and are cancelled with it; an
        exception in one brakes and ends the run.

        ``spare`` is called after each turn with the time and that of the next task, by which it
        must return. It only explains the run, as do evidence and samples of blocking lines: their
        failures reach the machine's observers and go no further.
        """
        guard = machine.observers.guard
        self._spare = None if spare is None else guard("bridges", spare, None)
        self._services = services
        self._machine = machine
        self._transport = transport
        self._run = run
        self._evidence_source = evidence_source
        self._clock = evidence_source.clock
        self._sink = sink
        self._alarm = Alarm()
        if isinstance(self._clock, PacedClock):
            self._clock.on_released = self._rearm
        self._lease = Lease(machine, transport, evidence_source.clock.now_ns)
        self._sampler = BlockSampler(BLOCK_NS, observers=machine.observers)
        self._enter, self._leave = self._sampler.enter, self._sampler.leave
        self._name_block = guard("block sampler", self._record_block, None)
        self._note_turn = guard("evidence", self._record_turn, None, lasting=True)
        self._stopwatch, self._ended = evidence_source.stopwatch, evidence_source.holders.ended
        self._due_ns = NEVER_NS
        """Next run of the machine for which the alarm is set."""
        self._ending: Ending | None = None
        self._interrupted = False

    async def run(self) -> Ending:
        """Run until the end condition. The last output to the actuator is always a stop."""
        machine = self._machine
        machine.start(self._clock.now_ns())
        try:
            with self._alarm, self._lease:
                self._alarm.record = machine.observers.guard(
                    "evidence", self._evidence_source.watch_loop, None
                )()
                async with anyio.create_task_group() as group:
                    self._scope = group.cancel_scope
                    group.start_soon(self._serve)
                    for service in self._services:
                        group.start_soon(service)
                    await self._tick()
                    group.cancel_scope.cancel()
        finally:
            machine.observers.guard("block sampler", self._sampler.close, None)()
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._transport.aclose()
        assert self._ending is not None
        return self._ending

    def interrupt(self, name: str) -> None:
        """Stop the vehicle and end the run; the second call ends it at once."""
        if not self._interrupted:
            self._interrupted = True
            self._run.interrupt(name)
            return
        why = f"interrupted twice ({name}): brake commanded, ended without waiting for standstill"
        self._end(Ending(Outcome.INTERRUPTED, why, self._clock.now_ns()))
        self._scope.cancel()

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that was opened or lost."""
        self._machine.on_port(port, state, detail, now_ns)
        self._rearm()

    def _rearm(self) -> None:
        self._alarm.rearm(self._alarm_ns())

    def _alarm_ns(self) -> int:
        self._due_ns = self._machine.next_due_ns()
        return self._clock.alarm_ns(self._due_ns)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Handle received bytes."""
        self._stopwatch.refresh()
        self._enter()
        self._machine.on_rx(port, data, t_rx_ns)
        if self._leave(self._alarm.due_ns):
            self._name_block(t_rx_ns)
        self._ended(RECEIVE)
        if self._machine.next_due_ns() != self._due_ns:
            self._rearm()

    async def _tick(self) -> None:
        await self._alarm.serve(self._alarm_ns(), self._turn)

    def _turn(self) -> int | None:
        """Run what is due, if anything is. Return when to look again; None at the end of the
        run."""
        machine, clock = self._machine, self._clock
        if self._over():
            return None
        now_ns = begin_ns = clock.now_ns()
        self._enter()
        if machine.next_due_ns() > now_ns:
            # The clock is paused or the time was moved; send a heartbeat to the simulator anyway.
            self._stopwatch.refresh()
            self._transmit((), now_ns)
        else:
            machine.on_time(now_ns)
            self._stopwatch.refresh()
            now_ns = clock.now_ns()
            if self._transmit(machine.take_tx(), now_ns):
                self._end(self._run.turn(now_ns))
                self._ended(LOG)
                if self._spare is not None:
                    self._spare(clock.now_ns(), machine.next_due_ns())
                    self._ended(VIEW)
            self._note_turn()
        alarm_ns = self._alarm_ns()
        if self._leave(alarm_ns):
            self._name_block(begin_ns)
        return None if self._over() else alarm_ns

    def _transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> bool:
        """Send outputs; return False if that ends the run."""
        try:
            self._lease.transmit(outgoing, now_ns)
        except LinkError as error:
            self._end(self._run.lost(str(error), self._clock.now_ns()))
            return False
        self._ended(TRANSMIT)
        return True

    async def _serve(self) -> None:
        try:
            await self._transport.serve(self)
        except LinkError as error:
            self._end(self._run.lost(str(error), self._clock.now_ns()))
            self._scope.cancel()

    def _over(self) -> bool:
        return self._ending is not None

    def _end(self, ending: Ending | None) -> None:
        """Set the end of the run; only the first reason counts."""
        if self._ending is None:
            self._ending = ending

    def _record_turn(self) -> None:
        for collection in self._evidence_source.collections.take():
            begin_ns, end_ns = (
                self._clock.at_ns(collection.t_ns + k) for k in (0, collection.duration_ns)
            )
            self._sink.record(replace(collection, t_ns=begin_ns), end_ns)
        self._evidence_source.mark(self._evidence_source.stopwatch.newest[0])

    def _record_block(self, begin_ns: int) -> None:
        sighting = self._sampler.take()
        if sighting is not None:
            after_ms = (self._clock.at_ns(sighting.t_ns) - begin_ns) / 1e6
            self._sink.record(
                LoopBlocked(sighting.where, after_ms, sighting.plugin).event(begin_ns), begin_ns
            )
