"""Check of a cable from both ends: each end asks, answers what the other asks, and says which
direction works.

On a serial line a question is the text ``vehicled-cable P NAME NUMBER``, an answer ``vehicled-cable
A NAME NUMBER`` with the name and number of the question. On CAN they are frames with two
identifiers and the same content.
"""

import re
import struct
import time
from secrets import token_hex

import anyio

from vehicled.core.messages import PortState
from vehicled.core.wire.can import CanFrame, pack, unpack_all
from vehicled.runtime.ports.contract import Port

PERIOD_S = 0.1
ENOUGH = 20
"""Answers after which a direction counts as working."""
FAREWELL_S = 1.0
"""Time for which an end that is satisfied goes on to answer, s."""
ASK_ID, ANSWER_ID = 0x1FFF0001, 0x1FFF0002
_KEPT_NS = 200_000_000
_LINE = re.compile(rb"vehicled-cable ([PA]) ([0-9a-f]{8}) (\d{1,9})\n")
_LONGEST = 64
_DATA = struct.Struct(">4sI")


class CableCheck:
    """One end of a cable, and the host of its port."""

    def __init__(self, port: Port, *, frames: bool) -> None:
        """Take an unopened port. ``frames``: it is a CAN bus."""
        self._port = port
        self._frames = frames
        self._name = token_hex(4)
        self._asked_ns: dict[int, int] = {}
        self._rest = b""
        self.asked = 0
        self.answered: list[int] = []
        """Round trips of the answered questions, ns."""
        self.questions = 0
        """Questions of the other end."""
        self.echoes = 0
        """Own questions that came back."""
        self.strange_bytes = 0
        """Bytes received that belong to neither end."""

    async def run(self, timeout_s: float) -> None:
        """Ask and answer until both directions work, or until the timeout."""
        with anyio.move_on_after(timeout_s):
            async with anyio.create_task_group() as group:
                group.start_soon(self._port.serve, self)
                while len(self.answered) < ENOUGH or self.questions < ENOUGH:
                    self._ask()
                    await anyio.sleep(PERIOD_S)
                await anyio.sleep(FAREWELL_S)
                group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._port.aclose()

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Forget half a line of a port that was closed."""
        self._rest = b""

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Answer questions, and count answers."""
        for kind, name, number in self._frames_in(data) if self._frames else self._lines_in(data):
            if kind == "P" and name == self._name:
                self.echoes += 1
            elif kind == "P":
                self.questions += 1
                self._send("A", name, number)
            elif name == self._name and (asked_ns := self._asked_ns.pop(number, None)) is not None:
                self.answered.append(t_rx_ns - asked_ns)

    @property
    def works(self) -> bool:
        """True if both directions work."""
        return bool(self.answered) and bool(self.questions)

    def verdict(self) -> str:
        """Return what was found, and what to do."""
        port = self._port
        if port.trouble and not port.counts.opened:
            return port.trouble
        strange = f"{self.strange_bytes} bytes arrived that are not of this check"
        if self.works:
            trips_ms = sorted(each / 1e6 for each in self.answered)
            found = (
                f"both directions work: round trip {trips_ms[len(trips_ms) // 2]:.1f} ms, "
                f"{trips_ms[-1]:.1f} ms at most"
            )
            return f"{found}; {strange}: is there a loose contact?" if self.strange_bytes else found
        if self.echoes:
            return "this end receives what it sends: TX and RX are joined somewhere on the way"
        if self.questions:
            return "the other end sends but receives nothing: check the wire from this TX to its RX"
        if self.answered:
            return (
                "the other end answers, but its questions do not arrive: run the same version "
                "at both ends"
            )
        if port.counts.error_frames:
            return (
                f"{port.counts.error_frames} errors on the bus: check its bit rate at both "
                "ends, and 120 ohm at each end"
            )
        if self.strange_bytes:
            line = "another line rate at the other end, inverted levels, or a device that sends"
            return f"{strange}: {'frames of others' if self._frames else line}"
        line = "this TX to its RX, this RX to its TX, ground to ground"
        wires = "CAN_H and CAN_L, and 120 ohm at each end" if self._frames else line
        return f"nothing arrives: run this command at the other end, too; then check {wires}"

    def _ask(self) -> None:
        self.asked += 1
        self._asked_ns[self.asked] = time.monotonic_ns()
        if not self._send("P", self._name, self.asked):
            del self._asked_ns[self.asked]
            self.asked -= 1

    def _send(self, kind: str, name: str, number: int) -> bool:
        if self._frames:
            identifier = ASK_ID if kind == "P" else ANSWER_ID
            data = pack(CanFrame(identifier, _DATA.pack(bytes.fromhex(name), number), True, False))
        else:
            data = f"vehicled-cable {kind} {name} {number}\n".encode()
        now_ns = time.monotonic_ns()
        return self._port.send(data, now_ns + _KEPT_NS, now_ns)

    def _lines_in(self, data: bytes) -> list[tuple[str, str, int]]:
        self._rest += data
        found, end = [], 0
        for line in _LINE.finditer(self._rest):
            self.strange_bytes += line.start() - end
            end = line.end()
            found.append((line[1].decode(), line[2].decode(), int(line[3])))
        rest = self._rest[end:]
        self.strange_bytes += max(0, len(rest) - _LONGEST)
        self._rest = rest[-_LONGEST:]
        return found

    def _frames_in(self, data: bytes) -> list[tuple[str, str, int]]:
        found = []
        for frame in unpack_all(data):
            if (
                frame.extended
                and frame.can_id in (ASK_ID, ANSWER_ID)
                and len(frame.data) == _DATA.size
            ):
                name, number = _DATA.unpack(frame.data)
                found.append(("P" if frame.can_id == ASK_ID else "A", name.hex(), number))
            elif not frame.error:
                self.strange_bytes += len(frame.data)
        return found
