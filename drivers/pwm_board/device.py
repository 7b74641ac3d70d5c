"""Driver of the ART board: sends commands as pulse widths at a fixed rate, and neutral without a
valid command."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.motor.commands import bounded
from drivers.pwm_board.codec import BOARD_MAX_US, BOARD_MIN_US, Pulses, encode
from vehicled.core.messages import ActuatorCommand, Fault, Message, Mode, PortState, Reaction
from vehicled.core.mixing import Mixing, OutputKind, plain
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport

Pulse = Annotated[float, Meta(ge=BOARD_MIN_US, le=BOARD_MAX_US)]
PulseRange = Annotated[float, Meta(ge=-500.0, le=500.0)]
DRIVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD, Mode.STOPPING)


class PwmParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration. Defaults are those published with the vehicle, except for the brake."""

    steering_center_us: Pulse = 1450.0
    """Pulse of straight wheels, us."""
    steering_range_us: PulseRange = 200.0
    """Pulse from centre to full left, us; negative if a longer pulse turns right."""
    drive_neutral_us: Pulse = 1500.0
    """Pulse without drive, us."""
    throttle_range_us: PulseRange = -100.0
    """Pulse from neutral to full throttle, us."""
    brake_range_us: PulseRange = 0.0
    """Pulse from neutral to full brake, us. 0: brake with the neutral pulse. The published 100 was
    never sent (NOTES.md)."""
    reverse_range_us: PulseRange = 0.0
    """Pulse from neutral to full reverse, us. 0: no reverse; a negative throttle gives neutral."""
    reverse_pull_s: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.0
    """Duration of the first reverse pulse, s, and of the neutral after it, for speed controllers
    that take it as the brake. 0: reverse at once (NOTES.md)."""
    slew_us_per_s: Annotated[float, Meta(ge=0.0, le=100_000.0)] = 0.0
    """Rate limit of steering and rising throttle, us/s. 0: left to the board, which follows at 500
    us/s."""
    rate_hz: Annotated[float, Meta(ge=5.1, le=100.0)] = 20.0
    """Frame rate, Hz. The board goes to neutral after 200 ms without a frame."""
    hold_s: Annotated[float, Meta(ge=0.02, le=1.0)] = 0.2
    """Age of a command after which neutral is sent, s; the steering is held."""
    resync_bytes: Annotated[int, Meta(ge=0, le=16)] = 4
    """Zeros before each frame, which the board skips, so that it resynchronises after a lost
    byte."""


class PwmBoard(Device):
    """Driver of the ART board. Open loop: the board sends nothing, so nothing is measured or
    verified."""

    Params: ClassVar[type[PwmParams]] = PwmParams
    limits_us: ClassVar[tuple[float, float]] = (BOARD_MIN_US, BOARD_MAX_US)
    """Shortest and longest pulse that the board makes."""
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (Fault,)
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"motor": "drive", "servo": "steer"}
    )

    def __init__(
        self, params: PwmParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Ignore ``messages``, because the board sends none."""
        self._params = params
        self._lifetime_ns = command_lifetime_ns
        self._period_ns = round(1e9 / params.rate_hz)
        self._hold_ns = round(params.hold_s * 1e9)
        self._due_ns = NEVER_NS
        self._frame: Send | None = None
        self._out: list[Message] = []
        self._mixing = plain(self.actuator_outputs)
        self._steering = self._servo = 0.0
        self._drive = 0.0
        self._brake = 0.0
        self._backward = False
        self._pull_since_ns: int | None = None
        self._pull_ns = round(params.reverse_pull_s * 1e9)
        self._commanded_ns = 0
        self._sent_ns = 0
        self._servo_us = params.steering_center_us
        self._drive_us = params.drive_neutral_us
        self._locked = True
        self._refused = False
        self.dropped_bytes = 0
        """Bytes received, although the board should not send any."""
        self.bad_frames = 0

    def mix(self, mixing: Mixing) -> None:
        self._mixing = mixing

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Start an opened port with a neutral frame; do not drive until disarmed once."""
        self._locked = True
        self._drive = self._brake = 0.0
        self._pull_since_ns = None
        self._frame = None
        if state is PortState.OPENED:
            self._commanded_ns = now_ns
            self._servo_us, self._drive_us = self._target_us(now_ns)
            self._transmit(now_ns)
        else:
            self._due_ns = NEVER_NS
        return self._take()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Count unexpected bytes."""
        self.dropped_bytes += len(data)
        return self._take()

    def on_command(self, command: Message, now_ns: int) -> None:
        """Store the newest command for the next frame; one that reduces drive is sent at once."""
        if not isinstance(command, ActuatorCommand):
            return
        throttle, brake, self._steering = bounded(command, self._steering)
        motor, self._servo = self._mixing.outputs(throttle, self._steering)
        if not self._params.reverse_range_us:
            motor = max(motor, 0.0)
        if motor == 0.0 and command.mode not in DRIVING:
            self._locked = False
            self._refuse(False, now_ns)
        elif motor != 0.0 and self._locked:
            motor, brake = 0.0, 1.0
            self._refuse(True, now_ns)
        # The brake wins, because one pulse carries only one of the two.
        drive = 0.0 if brake > 0.0 else motor
        less = (drive == 0.0 and self._drive != 0.0) or brake > self._brake
        self._drive, self._brake = drive, brake
        self._commanded_ns = now_ns
        if self._due_ns != NEVER_NS and (less or now_ns >= self._due_ns):
            self._transmit(now_ns)

    def next_due_ns(self) -> int:
        """Return the time of the next frame; now if there is something to report."""
        return self._commanded_ns if self._out else self._due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Queue the due frame, with or without a new command."""
        if now_ns >= self._due_ns:
            if now_ns - self._commanded_ns > self._hold_ns:
                self._drive = self._brake = 0.0
            self._transmit(now_ns)
        return self._take()

    def take_tx(self) -> Sequence[Action]:
        if self._frame is None:
            return ()
        frame, self._frame = self._frame, None
        return (frame,)

    def _target_us(self, now_ns: int) -> tuple[float, float]:
        params = self._params
        reach_us = self._reach_us(now_ns)
        return (
            params.steering_center_us + params.steering_range_us * self._servo,
            params.drive_neutral_us + reach_us,
        )

    def _reach_us(self, now_ns: int) -> float:
        """Return the drive pulse relative to neutral. ``_backward``: the speed controller may now
        take a reverse pulse as reverse."""
        params, drive = self._params, self._drive
        if drive >= 0.0:
            self._pull_since_ns = None
        if drive > 0.0:
            self._backward = False
            return params.throttle_range_us * drive
        if drive == 0.0:
            # In reverse, a brake pulse on the reverse side would accelerate.
            drives_on = self._backward and params.brake_range_us * params.reverse_range_us > 0.0
            return 0.0 if drives_on else params.brake_range_us * self._brake
        if self._pull_since_ns is None:
            self._pull_since_ns = now_ns - (2 * self._pull_ns if self._backward else 0)
            self._backward = True
        since_ns = now_ns - self._pull_since_ns
        if since_ns < self._pull_ns:
            return params.reverse_range_us
        return 0.0 if since_ns < 2 * self._pull_ns else -params.reverse_range_us * drive

    def _transmit(self, now_ns: int) -> None:
        servo_us, drive_us = self._target_us(now_ns)
        slew = self._params.slew_us_per_s
        if slew:
            step = slew * min(now_ns - self._sent_ns, self._period_ns) / 1e9
            servo_us = min(self._servo_us + step, max(self._servo_us - step, servo_us))
            if self._drive != 0.0:
                drive_us = min(self._drive_us + step, max(self._drive_us - step, drive_us))
        self._servo_us, self._drive_us = servo_us, drive_us
        data = self._encode(Pulses(self._width(servo_us), self._width(drive_us)), now_ns)
        self._frame = Send(data, now_ns + self._lifetime_ns)
        self._sent_ns = now_ns
        self._due_ns = now_ns + self._period_ns

    def _width(self, pulse_us: float) -> int:
        """Return the pulse in whole microseconds within the board's limits, because it ignores
        others and keeps the last one."""
        shortest, longest = self.limits_us
        return round(min(longest, max(shortest, pulse_us)))

    def _encode(self, pulses: Pulses, now_ns: int) -> bytes:
        return encode(pulses, self._params.resync_bytes)

    def _refuse(self, refused: bool, now_ns: int) -> None:
        if refused is not self._refused:
            self._refused = refused
            reason = "not driven: the port was opened anew; disarm, then arm again"
            text = reason if refused else f"over: {reason}"
            self._out.append(
                Fault(now_ns, "pwm_drive_refused", "pwm_board", Reaction.BRAKE, refused, text)
            )

    def _take(self) -> list[Message]:
        out, self._out = self._out, []
        return out
