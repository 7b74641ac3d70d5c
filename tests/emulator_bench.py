"""A driver and an emulated device joined in memory: no socket, no loop, time as a number."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from sim_backend.emulators.interface import DriveCommand, Emulator
from vehicled.core.messages import Event, Fault, Message, PortState
from vehicled.core.ports import Device as Driver
from vehicled.core.ports import Reopen, Send, SetBaud
from vehicled.profile.schema import Choice, DeviceTable

MS = 1_000_000
SECOND = 1_000_000_000
START = 1_000_000_000
REOPEN_NS = 300 * MS


def table(driver: str, params: Struct, messages: Sequence[str] = (), port: str = "") -> DeviceTable:
    """Return a device's table as in a profile."""
    return DeviceTable(
        driver=Choice(name=driver, params={driver: params}),
        messages=list(messages),  # type: ignore[arg-type]
        port=port,
    )


class Bench:
    """Runs both ends in order of time; ``messages`` come from the driver, ``commands`` are those
    the device understood."""

    def __init__(
        self, emulator: Emulator, driver: Driver | None = None, start_ns: int = START
    ) -> None:
        self.emulator = emulator
        self.driver = driver
        self.now_ns = start_ns
        self.messages: list[Message] = []
        self.commands: list[DriveCommand] = []
        self.arrivals: list[tuple[int, bytes]] = []
        self.bauds: list[int] = []
        self.reopened = 0
        self._open = False
        self._opens_ns = start_ns
        self._queue: list[tuple[int, int, bytes]] = []
        self._count = 0

    def run(self, until_ns: int, samples: Iterable[tuple[int, Message]] = ()) -> None:
        """Run up to ``until_ns``, with ``(ready_ns, message)`` of the sensor, each delivered when
        it is valid."""
        waiting = sorted(
            samples, key=lambda sample: getattr(sample[1], "t_ns", sample[0]), reverse=True
        )
        while True:
            sample_ns = getattr(waiting[-1][1], "t_ns", 0) if waiting else until_ns + 1
            arrival_ns = self._queue[0][0] if self._queue else until_ns + 1
            driver_ns = (
                self.driver.next_due_ns()
                if self.driver is not None and self._open
                else until_ns + 1
            )
            opens_ns = (
                self._opens_ns if self.driver is not None and not self._open else until_ns + 1
            )
            due_ns = min(sample_ns, arrival_ns, driver_ns, opens_ns, self.emulator.next_due_ns())
            if due_ns > until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = max(self.now_ns, due_ns)
            if sample_ns == due_ns:
                ready_ns, message = waiting.pop()
                self.emulator.on_message(message, ready_ns)
            elif self.emulator.next_due_ns() == due_ns:
                self.emulator.on_time(self.now_ns)
            elif arrival_ns == due_ns:
                t_ns, _, data = heappop(self._queue)
                self.arrivals.append((t_ns, data))
                if self.driver is not None and self._open:
                    self.messages += self.driver.on_rx(data, t_ns)
            elif self.driver is not None and not self._open:
                self._open = True
                self.emulator.on_line(0, self.now_ns)
                self.messages += self.driver.on_port(PortState.OPENED, "bench", self.now_ns)
            elif self.driver is not None:
                self.messages += self.driver.on_time(self.now_ns)
            self._act()

    def command(self, message: Message) -> None:
        """Send pending bytes of the daemon to the device now."""
        assert self.driver is not None
        self.driver.on_command(message, self.now_ns)
        self._act()

    def send(self, data: bytes) -> None:
        """Send bytes to the device without a driver."""
        self.emulator.on_rx(data, self.now_ns)
        self._act()

    @property
    def received(self) -> bytes:
        """Return all bytes from the device, joined."""
        return b"".join(data for _, data in self.arrivals)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the driver's messages of one type."""
        return [message for message in self.messages if type(message) is kind]

    def reported(self) -> list[str]:
        """Return names of events and faults, in order."""
        return [
            m.name if isinstance(m, Event) else m.code
            for m in self.messages
            if isinstance(m, Event | Fault)
        ]

    def _act(self) -> None:
        if self.driver is not None:
            for action in self.driver.take_tx():
                if isinstance(action, Send):
                    if self.now_ns <= action.deadline_ns:
                        self.emulator.on_rx(action.data, self.now_ns)
                elif isinstance(action, SetBaud):
                    self.bauds.append(action.baud)
                    self.emulator.on_line(action.baud, self.now_ns)
                elif isinstance(action, Reopen):
                    self.reopened += 1
                    self._open = False
                    self._opens_ns = self.now_ns + REOPEN_NS
                    self.messages += self.driver.on_port(PortState.LOST, action.reason, self.now_ns)
        for t_ns, data in self.emulator.take_tx():
            self._count += 1
            heappush(self._queue, (t_ns, self._count, data))
        self.commands += self.emulator.take_commands()
