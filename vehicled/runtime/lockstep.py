"""Lockstep pump: a synchronous loop on the link. The simulator grants time; nothing here waits for
a clock.

The daemon asks to be woken at its next possible output. Earlier task releases need no message from
the simulator: its data carry their arrival times, so the machine runs each release before later
data.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from vehicled.core.executive import DeclaredStopwatch
from vehicled.core.link import Frame, Hello, LinkError, LinkFrameKind, decode_reason
from vehicled.core.link_time import LockstepTime
from vehicled.core.messages import PortState
from vehicled.daemon.machine import Machine, Outgoing
from vehicled.runtime.ending import EndConditions, Ending, Outcome
from vehicled.runtime.reopening import Reopening

SILENCE_S = 5.0
"""Longest time of the computer without progress of the simulated time, s."""


class LockstepLink(Protocol):
    """Link to a simulator that grants time: a socket, or the world itself."""

    hello: Hello
    ports: list[str]

    def receive(self) -> Iterable[Frame]:
        """Return frames up to a grant, at least one. Raises :class:`LinkError` if the simulator is
        gone."""

    def reply(self, outgoing: Sequence[Outgoing], wake_ns: int | None) -> None:
        """Send frames, and the next wake-up time unless the run ends. Raises :class:`LinkError`."""

    def close(self, reason: str) -> None:
        """End the link; never raises."""


def run_lockstep(
    machine: Machine,
    link: LockstepLink,
    run: EndConditions,
    stopwatch: DeclaredStopwatch,
    silence_s: float = SILENCE_S,
) -> Ending:
    """Run the machine, whose stopwatch this is, by grants until an end. Never raises for errors of
    the simulator."""
    now_ns = wake_ns = link.hello.start_ns
    granted = LockstepTime(now_ns, silence_s)
    machine.start(now_ns)
    for name in machine.ports:
        machine.on_port(name, PortState.OPENED, "simulator link", now_ns)
    out: list[Outgoing] = []
    reopening = Reopening(machine)
    try:
        while True:
            for kind, port, t_ns, payload in link.receive():
                if kind is LinkFrameKind.BYE:
                    return run.lost(
                        f"the simulator ended the run: {decode_reason(payload)}", now_ns
                    )
                if kind is not LinkFrameKind.DATA and kind is not LinkFrameKind.GRANT:
                    continue
                granted.check(t_ns, grant=kind is LinkFrameKind.GRANT)
                # Data that arrive at the instant of a release come first; a grant says that all of
                # them have arrived.
                while wake_ns < t_ns or (wake_ns == t_ns and kind is LinkFrameKind.GRANT):
                    now_ns = wake_ns
                    if reopening.due_ns <= now_ns:
                        reopening.on_time(now_ns)
                    machine.on_time(now_ns)
                    taken = machine.take_tx()
                    if taken:
                        out += taken
                        reopening.on_outgoing(taken, now_ns)
                    ending = run.turn(now_ns)
                    if ending is not None:
                        link.reply(out, None)
                        return ending
                    # Task costs may exceed the next release; the machine cannot be woken before it
                    # is free.
                    busy_ns = machine.executive.busy_until_ns
                    due_ns = min(machine.next_due_ns(), reopening.due_ns)
                    wake_ns = stopwatch.wake_ns(due_ns, busy_ns if busy_ns > now_ns else now_ns + 1)
                if kind is LinkFrameKind.DATA:
                    machine.on_rx(link.ports[port], payload, t_ns)
                else:
                    asked_ns = max(wake_ns, min(machine.next_output_ns(), reopening.due_ns))
                    granted.granted(t_ns, asked_ns)
                    link.reply(out, asked_ns)
                    out.clear()
            granted.progress(wake_ns, time.monotonic())
    except (LinkError, IndexError) as error:
        why = (
            str(error)
            if isinstance(error, LinkError)
            else "the simulator sent bytes for a port that it did not announce"
        )
        return run.lost(why, now_ns)
    except KeyboardInterrupt:
        run.lost("interrupted twice", now_ns)
        return Ending(
            Outcome.INTERRUPTED,
            "interrupted twice: brake commanded, ended without waiting for standstill",
            now_ns,
        )
