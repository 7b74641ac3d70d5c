"""Lockstep pump: a synchronous loop on the link. The simulator grants time; nothing here waits for a clock.

The daemon asks to be woken at its next possible output. Earlier task releases need no message from the simulator: its data carry
their arrival times, so the machine runs each release before later data.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from vehicled.executive import DeclaredStopwatch
from vehicled.link import LEAST_STEP_NS, MAX_STEP_NS, Frame, Hello, Kind, LinkError, decode_reason
from vehicled.machine import Machine, Outgoing
from vehicled.messages import PortState
from vehicled.runtime.ending import EndConditions, Ending, Outcome

SILENCE_S = 5.0
"""Longest time of the computer without progress of the simulated time, s."""
_LONGEST_WAIT_S = 1.0


class LockstepLink(Protocol):
    """Link to a simulator that grants time: a socket, or the world itself."""

    hello: Hello
    ports: list[str]

    def receive(self) -> Iterable[Frame]:
        """Return frames up to a grant, at least one. Raises :class:`LinkError` if the simulator is gone."""

    def reply(self, outgoing: Sequence[Outgoing], wake_ns: int | None) -> None:
        """Hand over the frames of a grant, and the next wake-up time unless the run ends. Raises :class:`LinkError`."""

    def close(self, reason: str) -> None:
        """End the link; never raises."""


class _Progress:
    """Ends a run whose simulator sends something and yet no time. A silent one is noticed by its link."""

    def __init__(self, silence_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._silence_s = silence_s
        self._clock_s = clock_s
        self._granted_ns = self._wake_ns = 0
        self._before_s: float | None = None
        self._waited_s = 0.0

    def turn(self, granted_ns: int, wake_ns: int) -> None:
        """Take the time that is granted after some frames, and that at which the machine runs next.

        Raises :class:`LinkError` if both have stood still for too long.
        """
        if granted_ns >= self._granted_ns + LEAST_STEP_NS or wake_ns >= self._wake_ns + LEAST_STEP_NS:
            self._granted_ns, self._wake_ns, self._before_s, self._waited_s = granted_ns, wake_ns, None, 0.0
            return
        now_s = self._clock_s()
        if self._before_s is not None:
            # A longer wait is one in which this process was stopped as well.
            self._waited_s += min(now_s - self._before_s, _LONGEST_WAIT_S)
        self._before_s = now_s
        if self._waited_s > self._silence_s:
            raise LinkError(f"the simulator has granted no time for {self._silence_s:g} s, although it sends")


def _check_time(kind: Kind, t_ns: int, granted_ns: int, asked_ns: int) -> None:
    """Check the stamp of DATA or GRANT. Raises :class:`LinkError` if it is not of this run."""
    if kind is Kind.GRANT and t_ns < granted_ns:
        raise LinkError(f"the simulator granted {t_ns * 1e-9:.9g} s after {granted_ns * 1e-9:.9g} s: its time went back")
    if granted_ns - MAX_STEP_NS <= t_ns <= asked_ns + MAX_STEP_NS:
        return
    what = "granted time" if kind is Kind.GRANT else "stamped bytes"
    distance_s, where = ((granted_ns - t_ns) * 1e-9, "before") if t_ns < granted_ns else ((t_ns - asked_ns) * 1e-9, "after")
    raise LinkError(f"the simulator {what} {distance_s:.3f} s {where} the present instant, {asked_ns * 1e-9:.3f} s")


def run_lockstep(
    machine: Machine, link: LockstepLink, run: EndConditions, stopwatch: DeclaredStopwatch, silence_s: float = SILENCE_S
) -> Ending:
    """Run the machine, whose stopwatch this is, by grants until an end. Never raises for errors of the simulator."""
    now_ns = wake_ns = granted_ns = asked_ns = link.hello.start_ns
    progress = _Progress(silence_s)
    machine.start(now_ns)
    for name in machine.ports:
        machine.on_port(name, PortState.OPENED, "simulator link", now_ns)
    out: list[Outgoing] = []
    try:
        while True:
            for kind, port, t_ns, payload in link.receive():
                if kind is Kind.BYE:
                    return run.lost(f"the simulator ended the run: {decode_reason(payload)}", now_ns)
                if kind is not Kind.DATA and kind is not Kind.GRANT:
                    continue
                if not granted_ns <= t_ns <= asked_ns:
                    _check_time(kind, t_ns, granted_ns, asked_ns)
                # Data that arrive at the instant of a release come first; a grant says that all of them have arrived.
                while wake_ns < t_ns or (wake_ns == t_ns and kind is Kind.GRANT):
                    now_ns = wake_ns
                    machine.on_time(now_ns)
                    out += machine.take_tx()
                    ending = run.turn(now_ns)
                    if ending is not None:
                        link.reply(out, None)
                        return ending
                    # Task costs may exceed the next release; the machine cannot be woken before it is free.
                    busy_ns = machine.executive.busy_until_ns
                    wake_ns = stopwatch.wake_ns(machine.next_due_ns(), busy_ns if busy_ns > now_ns else now_ns + 1)
                if kind is Kind.DATA:
                    machine.on_rx(link.ports[port], payload, t_ns)
                else:
                    granted_ns, asked_ns = t_ns, max(wake_ns, machine.next_output_ns())
                    link.reply(out, asked_ns)
                    out.clear()
            progress.turn(granted_ns, wake_ns)
    except (LinkError, IndexError) as error:
        why = str(error) if isinstance(error, LinkError) else "the simulator sent bytes for a port that it did not announce"
        return run.lost(why, now_ns)
    except KeyboardInterrupt:
        run.lost("interrupted twice", now_ns)
        return Ending(Outcome.INTERRUPTED, "interrupted twice: brake commanded, ended without waiting for standstill", now_ns)
