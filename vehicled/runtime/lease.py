"""The lease on the actuators: who may move them, and for how long.

An actuator obeys a scope of a task and nothing else. Leaving that scope, by return, cancel or exception, is the stop: there is no
way out that does not command the brake, and no command after it.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

from vehicled.link import LinkError
from vehicled.machine import Machine, Outgoing
from vehicled.runtime.host import Transport


class LeaseEndedError(RuntimeError):
    """Something wanted to command the actuators outside the scope that holds them."""


class Lease:
    """``with Lease(machine, transport) as lease``: what the machine wants is handed over by :meth:`transmit`, inside only.

    The end is synchronous: no cancellation gets between leaving the scope and the brake.
    """

    def __init__(self, machine: Machine, transport: Transport, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._machine = machine
        self._transport = transport
        self._clock_ns = clock_ns
        self._held = False

    def __enter__(self) -> "Lease":
        self._held = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._held = False
        now_ns = self._clock_ns()
        # A link that is gone takes nothing more: whatever hangs on it brakes by its own time-out. The reason to leave comes first.
        with suppress(LinkError):
            self._transport.transmit(self._machine.brake_now(now_ns), now_ns)

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Hand over; raises as :meth:`vehicled.runtime.host.Transport.transmit`, and :class:`LeaseEndedError` outside the scope."""
        if not self._held:
            raise LeaseEndedError("the lease on the actuators has ended")
        self._transport.transmit(outgoing, now_ns)
