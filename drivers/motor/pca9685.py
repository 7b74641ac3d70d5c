"""PCA9685 boards on I2C, as donkeycar and Adafruit's servo boards have them: codec in both
directions, and the driver. Sources: NOTES.md.

Sixteen channels of 12 bits. The calibration and the logic of the pulses are those of the PWM board.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from drivers.pwm_board.codec import Pulses
from drivers.pwm_board.device import PwmBoard, PwmParams
from vehicled.core.messages import ActuatorCommand, Event, Fault, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS, Transport
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.i2c import I2cRequest, encode
from vehicled.core.wire.usage import MessageUsage

MODE1, MODE2, LED0_ON_L, PRE_SCALE = 0x00, 0x01, 0x06, 0xFE
AUTO_INCREMENT, SLEEP, RESTART = 0x20, 0x10, 0x80
TOTEM_POLE = 0x04
CHANNELS, TICKS = 16, 4096
OSCILLATOR_HZ = 25_000_000.0
SHORTEST_US, LONGEST_US = 500, 2500
POLL_NS = 100_000_000
"""Interval of the questions for its mode, which leave with a frame."""
APPEARS_NS = 500_000_000
"""Additional time for its first answer, ns."""
MOST_ASKED = 4
"""Questions that may wait: one whose frame expired has no answer."""
SETTINGS = 2
"""Number of registers that an answer has."""

Pulse = Annotated[float, Meta(ge=SHORTEST_US, le=LONGEST_US)]
PulseRange = Annotated[float, Meta(ge=-1000.0, le=1000.0)]


class Pca9685Params(PwmParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration of the pulses, and the channels. ``resync_bytes`` means nothing here."""

    steering_center_us: Pulse = 1500.0
    """Pulse of straight wheels, us."""
    steering_range_us: PulseRange = 300.0
    """Pulse from centre to full left, us; negative if a longer pulse turns right."""
    drive_neutral_us: Pulse = 1500.0
    """Pulse without drive, us."""
    throttle_range_us: PulseRange = 300.0
    """Pulse from neutral to full throttle, us."""
    servo_channel: Annotated[int, Meta(ge=0, lt=CHANNELS)] = 1
    """Channel of the steering servo; donkeycar's default."""
    drive_channel: Annotated[int, Meta(ge=0, lt=CHANNELS)] = 0
    """Channel of the speed controller; donkeycar's default."""
    pwm_hz: Annotated[float, Meta(ge=40.0, le=400.0)] = 60.0
    """Frequency of the pulses, Hz."""
    oscillator_hz: Annotated[float, Meta(ge=20e6, le=30e6)] = OSCILLATOR_HZ
    """Frequency of its own oscillator, Hz: boards differ by some per cent, and so do the pulses."""
    accept_no_timeout: bool = False
    """Drive although the board repeats the last pulse for ever when commands end. Set it only with
    a switch of your own, such as a receiver's, before the speed controller, or a watchdog at the
    pin OE."""
    silence_s: Annotated[float, Meta(ge=0.15, le=5.0)] = 0.35
    """Age of its last answer that raises a fault, s."""

    @property
    def prescale(self) -> int:
        """Value of the prescaler, 3 to 255."""
        return min(max(round(self.oscillator_hz / (TICKS * self.pwm_hz)) - 1, 3), 255)

    @property
    def ticks_per_us(self) -> float:
        """Ticks of a microsecond, with the frequency that the prescaler makes of it."""
        return self.oscillator_hz / (self.prescale + 1) * 1e-6


class Pca9685Pulse(Struct, frozen=True, gc=False):
    """Pulse of one channel: ticks of a period of 4096, from its beginning on."""

    channel: int
    ticks: int


def set_up(prescale: int) -> tuple[I2cRequest, ...]:
    """Return the requests that set the frequency, which it takes asleep only, and wake it."""
    return (
        I2cRequest(bytes((MODE1, AUTO_INCREMENT | SLEEP))),
        I2cRequest(bytes((PRE_SCALE, prescale))),
        I2cRequest(bytes((MODE2, TOTEM_POLE))),
        I2cRequest(bytes((MODE1, AUTO_INCREMENT))),
    )


def set_pulse(pulse: Pca9685Pulse) -> I2cRequest:
    """Return the request of a pulse."""
    on_and_off = (0).to_bytes(2, "little") + pulse.ticks.to_bytes(2, "little")
    return I2cRequest(bytes((LED0_ON_L + 4 * pulse.channel,)) + on_and_off)


def pulse_of(request: I2cRequest) -> Pca9685Pulse | None:
    """Return the pulse that a request sets; None for another."""
    data = request.written
    if len(data) != 5 or (data[0] - LED0_ON_L) % 4 or not 0 <= data[0] - LED0_ON_L < 4 * CHANNELS:
        return None
    on, off = (int.from_bytes(data[k : k + 2], "little") for k in (1, 3))
    return Pca9685Pulse((data[0] - LED0_ON_L) // 4, (off - on) % TICKS)


ASK = I2cRequest(bytes((MODE1,)), SETTINGS)


class Pca9685Device(PwmBoard):
    """Driver of a servo and a speed controller on a PCA9685.

    The board has no time-out: whatever ends the daemon or the bus, the last pulse is repeated for
    ever. So nothing is driven before the profile accepts that. A dip of its supply puts it to
    sleep, which its mode shows: it is set up again, and drives once the daemon was disarmed.
    """

    Params: ClassVar[type[Pca9685Params]] = Pca9685Params
    limits_us: ClassVar[tuple[float, float]] = (SHORTEST_US, LONGEST_US)
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (Fault, Event)

    def __init__(
        self, params: Pca9685Params, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._own = params
        self._settings = b""
        self._ready = False
        self._asked = 0
        """Number of questions without an answer."""
        self._held = b""
        self._asked_ns = self._answered_ns = 0
        self._silent = FaultEpisode("pca9685_silent", "pca9685")
        self._reset = FaultEpisode("pca9685_reset", "pca9685")
        self.usage = MessageUsage()

    @property
    def refusal(self) -> str:
        if not self._own.accept_no_timeout:
            return (
                "it has no time-out and repeats the last pulse for ever when commands end: set "
                "accept_no_timeout once something else stops the vehicle then"
            )
        if self._silent.reason or self._reset.reason:
            return self._silent.reason or self._reset.reason
        if not self._ready:
            return "the board has not answered yet"
        return "the port was opened anew; disarm, then arm again" if self._locked else ""

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Set an opened board up, with neutral pulses."""
        self._held, self._asked, self._ready = b"", 0, False
        self._settings = encode(*set_up(self._own.prescale))
        self._asked_ns, self._answered_ns = now_ns - POLL_NS, now_ns + APPEARS_NS
        found = super().on_port(state, detail, now_ns)
        return [*found, *self._silent.set("", now_ns), *self._reset.set("", now_ns)]

    def on_command(self, command: Message, now_ns: int) -> None:
        if isinstance(command, ActuatorCommand):
            held = not (self._ready and self._own.accept_no_timeout)
            if held or self._silent.reason or self._reset.reason:
                # What was refused before must not be driven by the same command afterwards.
                command = replace(command, throttle=0.0)
                super().on_command(command, now_ns)
                self._locked = True
                return
        super().on_command(command, now_ns)

    def next_due_ns(self) -> int:
        """Return the time of the next frame or of the silence."""
        return min(super().next_due_ns(), self._silence_due_ns())

    def _silence_due_ns(self) -> int:
        if self._due_ns == NEVER_NS or self._silent.reason:
            return NEVER_NS
        return self._answered_ns + round(self._own.silence_s * 1e9)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        if now_ns >= self._silence_due_ns():
            self._locked, self._ready = True, False
            text = "the board does not answer: its port must be i2c:/dev/i2c-N?device=0x40"
            found += self._silent.set(text, now_ns, Reaction.BRAKE)
        return [*found, *super().on_time(now_ns)]

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        self._held += data
        while self._asked and len(self._held) >= SETTINGS:
            mode, self._held = self._held[:SETTINGS], self._held[SETTINGS:]
            self._asked -= 1
            self._answered_ns = t_rx_ns
            self.usage.use("MODE")
            found += self._silent.set("", t_rx_ns)
            found += self._on_mode(mode[0], mode[1], t_rx_ns)
        if not self._asked:
            self.dropped_bytes += len(self._held)
            self._held = b""
        return found

    def _on_mode(self, mode1: int, mode2: int, t_rx_ns: int) -> list[Message]:
        if (mode1 & ~RESTART, mode2) == (AUTO_INCREMENT, TOTEM_POLE):
            found = self._reset.set("", t_rx_ns)
            if not self._ready:
                self._ready = True
                found.append(Event.of(t_rx_ns, "info", "pca9685_ready", pwm_hz=self._own.pwm_hz))
            return found
        self._settings = encode(*set_up(self._own.prescale))
        if not self._ready:
            return []
        self._locked = True
        text = "the board lost its settings: its supply dips, or another program writes to it"
        return self._reset.set(text, t_rx_ns, Reaction.BRAKE)

    def _encode(self, pulses: Pulses, now_ns: int) -> bytes:
        own = self._own
        targets = ((own.servo_channel, pulses.servo_us), (own.drive_channel, pulses.drive_us))
        data, self._settings = self._settings, b""
        if self._silent.reason:
            data = encode(*set_up(own.prescale))
        data += encode(
            *(
                set_pulse(Pca9685Pulse(channel, round(pulse * own.ticks_per_us)))
                for channel, pulse in targets
            )
        )
        if now_ns - self._asked_ns >= POLL_NS:
            self._asked_ns = now_ns
            self._asked = min(self._asked + 1, MOST_ASKED)
            data += encode(ASK)
        return data
