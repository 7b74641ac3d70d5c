"""Pololu Maestro servo controllers: codec in both directions, and the driver. Sources: NOTES.md.

Commands of the compact protocol, or of the Pololu protocol with a device number: ``AA | device |
command & 7F``. Targets are in quarters of a microsecond, seven bits a byte. The calibration and the
logic of the pulses are those of the PWM board.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from drivers.pwm_board.codec import Pulses
from drivers.pwm_board.device import PwmBoard, PwmParams
from vehicled.core.messages import ActuatorCommand, Event, Fault, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS, Action, Send, Transport
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage

POLOLU = 0xAA
SET_TARGET, GET_ERRORS = 0x84, 0xA1
SERIAL_TIMEOUT = 0x20
"""Error bit of the serial timeout."""
ERRORS = {
    0x01: "serial signal", 0x02: "serial overrun", 0x04: "serial buffer full", 0x08: "serial CRC",
    0x10: "serial protocol", 0x20: "serial timeout", 0x40: "script stack",
    0x80: "script call stack", 0x100: "script counter",
}  # fmt: skip
QUARTERS = 4
MARGIN_NS = 100_000_000
"""Time beyond the timeout for which the proof waits, and time for an answer."""
REPEAT_NS = 5_000_000_000
"""Interval of the proofs while the controller does not time out."""
POLL_NS = 100_000_000


class MaestroTarget(Struct, frozen=True, gc=False):
    """Pulse of one channel."""

    channel: int
    pulse_us: float


def encode(command: MaestroTarget | None, device: int | None = None) -> bytes:
    """Return a command: a target, or None for the question for errors."""
    number = GET_ERRORS if command is None else SET_TARGET
    head = bytes((number,)) if device is None else bytes((POLOLU, device, number & 0x7F))
    if command is None:
        return head
    quarters = round(command.pulse_us * QUARTERS)
    return head + bytes((command.channel, quarters & 0x7F, quarters >> 7 & 0x7F))


class CommandReader:
    """Reads commands on the controller's side, cut anywhere. Never raises; keeps less than a
    command."""

    def __init__(self, device: int | None = None) -> None:
        self._device = device
        self._held = b""
        self.bad_frames = 0
        """Commands with a byte that has the top bit where none may."""

    def feed(self, data: bytes) -> list[MaestroTarget | None]:
        """Return the commands that ``data`` completes; None for the question for errors."""
        data, found, at = self._held + data, list[MaestroTarget | None](), 0
        head = 1 if self._device is None else 3
        while at + head <= len(data):
            number = data[at]
            if self._device is not None:
                number = (
                    data[at + 2] | 0x80
                    if data[at] == POLOLU and data[at + 1] == self._device
                    else 0
                )
            if number == GET_ERRORS:
                found.append(None)
                at += head
            elif number != SET_TARGET:
                at += 1
            elif at + head + 3 > len(data):
                break
            else:
                channel, low, high = data[at + head : at + head + 3]
                if (channel | low | high) & 0x80:
                    self.bad_frames += 1
                    at += 1
                    continue
                found.append(MaestroTarget(channel, (low | high << 7) / QUARTERS))
                at += head + 3
        self._held = data[at:]
        return found


class MaestroParams(PwmParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration of the pulses, and the channels. ``resync_bytes`` means nothing here."""

    device_number: Annotated[int, Meta(ge=0, le=127)] | None = None
    """Number of the device where several share a line; left out: the compact protocol."""
    servo_channel: Annotated[int, Meta(ge=0, le=23)] = 0
    """Channel of the steering servo."""
    drive_channel: Annotated[int, Meta(ge=0, le=23)] = 1
    """Channel of the speed controller."""
    timeout_ms: Annotated[int, Meta(ge=20, le=5_000)] = 200
    """Longest serial timeout accepted in the controller, ms. It is tried each time that the port is
    opened."""
    silence_s: Annotated[float, Meta(ge=0.15, le=5.0)] = 0.35
    """Age of its last answer that raises a fault, s."""


class MaestroDevice(PwmBoard):
    """Driver of a servo and a speed controller on a Maestro.

    It does not report its timeout, but it remembers one that has happened. So after opening the
    driver sends neutral once, is quiet for longer than the timeout, and asks: without the error the
    outputs would hold for ever, and nothing is driven.
    """

    Params: ClassVar[type[MaestroParams]] = MaestroParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (Fault, Event)

    def __init__(
        self, params: MaestroParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._own = params
        self._questions: list[Send] = []
        self._held = b""
        self._quiet_ns = NEVER_NS
        self._proven = False
        self._asked_ns = self._answered_ns = 0
        self._silent = FaultEpisode("maestro_silent", "maestro")
        self._config = FaultEpisode("maestro_config", "maestro")
        self._errors = FaultEpisode("maestro_errors", "maestro")
        self.usage = MessageUsage()

    @property
    def refusal(self) -> str:
        if self._silent.reason or self._config.reason:
            return self._silent.reason or self._config.reason
        if not self._proven:
            return "its serial timeout is being tried"
        return "the port was opened anew; disarm, then arm again" if self._locked else ""

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Begin the proof of the timeout with one neutral frame."""
        self._held = b""
        self._questions.clear()
        self._proven, self._quiet_ns = False, NEVER_NS
        found = list(super().on_port(state, detail, now_ns))
        if state is PortState.OPENED:
            self._begin_proof(now_ns)
        return [*found, *self._silent.set("", now_ns), *self._config.set("", now_ns)]

    def _begin_proof(self, now_ns: int) -> None:
        self._proven = False
        self._quiet_ns = now_ns + self._own.timeout_ms * 1_000_000 + MARGIN_NS
        self._due_ns = self._quiet_ns
        self._asked_ns, self._answered_ns = 0, self._quiet_ns

    def on_command(self, command: Message, now_ns: int) -> None:
        if isinstance(command, ActuatorCommand) and (not self._proven or self._silent.reason):
            # What was refused before must not be driven by the same command afterwards.
            super().on_command(replace(command, throttle=0.0), now_ns)
            self._locked = True
            return
        super().on_command(command, now_ns)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        if not self._proven and self._due_ns != NEVER_NS and now_ns >= self._quiet_ns:
            if not self._asked_ns:
                self._ask(now_ns)
            elif now_ns - self._asked_ns > MARGIN_NS:
                text = (
                    "the controller does not answer: check power, cable, line rate, and that "
                    "its serial mode is USB or UART"
                )
                found += self._silent.set(text, now_ns, Reaction.BRAKE)
                self._ask(now_ns)
            self._due_ns = max(self._due_ns, now_ns + MARGIN_NS)
            return [*found, *self._take()]
        if self._proven and now_ns - self._answered_ns > self._own.silence_s * 1e9:
            self._locked = True
            found += self._silent.set(
                "the controller does not answer any more: check power and cable",
                now_ns,
                Reaction.BRAKE,
            )
        return [*found, *super().on_time(now_ns)]

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        if not self._asked_ns:
            self.dropped_bytes += len(data)
            return found
        self._held += data
        self.dropped_bytes += max(0, len(self._held) - 2)
        if len(self._held) >= 2:
            errors = int.from_bytes(self._held[:2], "little")
            self._held, self._asked_ns, self._answered_ns = b"", 0, t_rx_ns
            self.usage.use("ERRORS")
            found += self._silent.set("", t_rx_ns)
            found += self._on_errors(errors, t_rx_ns)
        return found

    def _on_errors(self, errors: int, t_rx_ns: int) -> list[Message]:
        if not self._proven:
            if errors & SERIAL_TIMEOUT:
                self._proven, self._due_ns = True, t_rx_ns
                ready = Event.of(t_rx_ns, "info", "maestro_ready", timeout_ms=self._own.timeout_ms)
                return [*self._config.set("", t_rx_ns), ready]
            self._begin_proof(t_rx_ns + REPEAT_NS)
            text = (
                f"its serial timeout did not act within {self._own.timeout_ms} ms: set it, and "
                "the channels to go off on error"
            )
            return self._config.set(text, t_rx_ns, Reaction.BRAKE)
        names = ", ".join(name for bit, name in ERRORS.items() if errors & bit)
        if errors:
            self._locked = True
        return self._errors.set(
            f"the controller reports {names or errors}" if errors else "", t_rx_ns, Reaction.BRAKE
        )

    def take_tx(self) -> Sequence[Action]:
        taken = [*super().take_tx(), *self._questions]
        self._questions.clear()
        return taken

    def _transmit(self, now_ns: int) -> None:
        if not self._proven and self._quiet_ns != NEVER_NS:
            # Any command would end the quiet time of the proof.
            return
        super()._transmit(now_ns)

    def _encode(self, pulses: Pulses, now_ns: int) -> bytes:
        own = self._own
        targets = ((own.servo_channel, pulses.servo_us), (own.drive_channel, pulses.drive_us))
        data = b"".join(
            encode(MaestroTarget(channel, pulse), own.device_number) for channel, pulse in targets
        )
        if self._proven and (not self._asked_ns or now_ns - self._asked_ns >= POLL_NS):
            self._asked_ns, self._held = now_ns, b""
            data += encode(None, own.device_number)
        return data

    def _ask(self, now_ns: int) -> None:
        self._asked_ns, self._held = now_ns, b""
        self._questions = [
            Send(encode(None, self._own.device_number), now_ns + MARGIN_NS, droppable=True)
        ]
