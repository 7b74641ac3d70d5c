"""Lease on the actuators: commands are possible only inside a scope, and leaving it brakes.

Return, cancellation and exception all leave the scope through the brake command, after which no
command follows.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

from vehicled.core.link import LinkError
from vehicled.daemon.machine import Machine, Outgoing
from vehicled.runtime.host import Transport


class LeaseEndedError(RuntimeError):
    """A command to the actuators was attempted outside the scope of the lease."""


class Lease:
    """Scope that may command the actuators: ``with Lease(machine, transport) as lease``, then
    :meth:`transmit`.

    The end is synchronous, so that no cancellation can come between leaving the scope and the
    brake.
    """

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._machine = machine
        self._transport = transport
        self._clock_ns = clock_ns
        self._held = False

    def __enter__(self) -> "Lease":
        self._held = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held = False
        now_ns = self._clock_ns()
        # A lost link accepts nothing more and its actuators brake by their timeout. Keep the
        # original exception.
        with suppress(LinkError):
            self._transport.transmit(self._machine.brake_now(now_ns), now_ns)

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send outputs; raises like :meth:`vehicled.runtime.host.Transport.transmit`, and
        :class:`LeaseEndedError` outside the scope.
        """
        if not self._held:
            raise LeaseEndedError("the lease on the actuators has ended")
        self._transport.transmit(outgoing, now_ns)
