"""The wall-clock pump: wakes the machine when it is due and hands it bytes as they arrive. Runs on either of anyio's backends."""

import signal
import struct
import time
from collections.abc import Iterable
from contextlib import suppress

import anyio
import anyio.abc
import msgspec

from vehicled.journal import Sink
from vehicled.link import Kind, LinkError, encode
from vehicled.machine import Frame, Machine
from vehicled.messages import Event, Fault, Reaction
from vehicled.runtime.block_sampler import BlockSampler
from vehicled.runtime.connection import Link, LinkClosedError
from vehicled.runtime.evidence import WallWitness
from vehicled.runtime.run import Ending, Outcome, Run
from vehicled.runtime.timer import Alarm

HEARTBEAT_NS = 50_000_000
BLOCK_NS = 5_000_000
"""A turn of the machine that takes longer has the line it is at written into the log: twice the shortest period of the pipeline."""
_ECHO = struct.Struct("<q")

RECEIVE, LOG, TRANSMIT = range(3)
HOLDERS = ("receive", "log", "transmit")
"""Runtime callbacks by number, as they stand in ``TaskTick.holder``."""


class WallPump:
    """One run on the wall clock over the simulator link."""

    def __init__(self, machine: Machine, link: Link, run: Run, witness: WallWitness, sink: Sink, silence_s: float) -> None:
        """``silence_s``: the link is lost when nothing was heard for this long."""
        self._machine = machine
        self._link = link
        self._run = run
        self._witness = witness
        self._sink = sink
        self._silence_ns = round(silence_s * 1e9)
        self._alarm = Alarm()
        self._sampler = BlockSampler(BLOCK_NS)
        self._heard_ns = 0
        self._heartbeat_ns = 0
        self._ending: Ending | None = None
        self._signals = 0
        self.expired_frames = 0
        """Frames dropped because they could not leave before their deadline."""

    async def run(self) -> Ending:
        """Drive until the run ends or the link is lost. The last thing written to the actuator is a stop, whatever happens."""
        link, run, machine = self._link, self._run, self._machine
        link.sock.setblocking(False)
        now_ns = time.monotonic_ns()
        self._heard_ns = now_ns
        machine.start(now_ns)
        run.opened(link.ports, now_ns)
        try:
            with self._alarm:
                self._witness.watch_loop()
                async with anyio.create_task_group() as group:
                    group.start_soon(self._receive, group.cancel_scope)
                    group.start_soon(self._watch_signals, group.cancel_scope)
                    await self._tick()
                    group.cancel_scope.cancel()
        finally:
            # Leaving this scope, by return, cancel or exception, is the stop.
            now_ns = time.monotonic_ns()
            with suppress(LinkError):
                self._transmit(machine.brake_now(now_ns), now_ns)
            self._sampler.close()
        assert self._ending is not None
        return self._ending

    async def _tick(self) -> None:
        machine, run, witness, sampler = self._machine, self._run, self._witness, self._sampler
        while self._ending is None:
            due_ns = machine.next_due_ns()
            # Always through the alarm: it is a checkpoint even when late, so an overload cannot starve the receiver.
            await self._alarm.wait_until(due_ns)
            if self._ending is not None:
                return
            now_ns = time.monotonic_ns()
            if machine.next_due_ns() > now_ns:
                continue
            sampler.arm()
            machine.on_time(now_ns)
            sampler.disarm()
            self._name_block(now_ns)
            ending: Ending | None
            try:
                with witness.holders.hold(TRANSMIT):
                    self._transmit(machine.take_tx(), now_ns)
                if now_ns - self._heard_ns > self._silence_ns:
                    raise LinkClosedError(f"the simulator has been silent for {(now_ns - self._heard_ns) / 1e9:.2f} s")
            except LinkError as error:
                ending = self._lost(str(error))
            else:
                with witness.holders.hold(LOG):
                    ending = run.turn(time.monotonic_ns())
            if ending is not None:
                self._ending = ending
            witness.mark(time.monotonic_ns())

    async def _receive(self, scope: anyio.CancelScope) -> None:
        machine, link, holders = self._machine, self._link, self._witness.holders
        try:
            while True:
                await anyio.wait_readable(link.sock)
                with holders.hold(RECEIVE):
                    now_ns = time.monotonic_ns()
                    frames = link.receive()
                    self._heard_ns = now_ns
                    for kind, port, t_ns, payload in frames:
                        if kind is Kind.DATA:
                            machine.on_rx(link.ports[port], payload, now_ns)
                        elif kind is Kind.SYNC:
                            link.send(encode(Kind.SYNC, 0, time.monotonic_ns(), _ECHO.pack(t_ns)))
                        elif kind is Kind.BYE:
                            raise LinkClosedError(f"the simulator ended the run: {payload.decode(errors='replace')}")
                    self._alarm.rearm(machine.next_due_ns())
        except (LinkError, IndexError) as error:
            self._ending = self._lost(
                str(error) if isinstance(error, LinkError) else "the simulator sent bytes for an unknown port"
            )
            scope.cancel()

    async def _watch_signals(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self._signals += 1
                name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
                if self._signals == 1:
                    self._run.interrupt(name)
                    continue
                now_ns = time.monotonic_ns()
                why = f"interrupted twice ({name}): the brake was commanded, nothing was waited for"
                self._ending = Ending(Outcome.INTERRUPTED, why, now_ns)
                scope.cancel()

    def _name_block(self, now_ns: int) -> None:
        sighting = self._sampler.take()
        if sighting is not None:
            fields = msgspec.json.encode({"where": sighting.where, "after_ms": (sighting.t_ns - now_ns) / 1e6}).decode()
            self._sink.record(Event(now_ns, "warning", "loop_blocked", fields), now_ns)

    def _lost(self, why: str) -> Ending:
        now_ns = time.monotonic_ns()
        self._run.closed(self._link.ports, why, now_ns)
        return self._run.lost(why, now_ns)

    def _transmit(self, frames: Iterable[Frame], now_ns: int) -> None:
        out = []
        for frame in frames:
            if now_ns > frame.deadline_ns:
                self.expired_frames += 1
                why = f"a frame for {frame.port} was {(now_ns - frame.deadline_ns) / 1e6:.1f} ms past its deadline"
                self._sink.record(Fault(now_ns, "frame_expired", frame.port, Reaction.WARN, True, why), now_ns)
                continue
            out.append(encode(Kind.DATA, self._link.number[frame.port], frame.t_ns, frame.data))
        if now_ns >= self._heartbeat_ns:
            self._heartbeat_ns = now_ns + HEARTBEAT_NS
            out.append(encode(Kind.DONE, 0, now_ns))
        if out:
            self._link.send(b"".join(out))
