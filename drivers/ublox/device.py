"""Driver of u-blox receivers: configures the receiver, converts its messages, detects silence.
Pitfalls: NOTES.md."""

from collections.abc import Sequence
from math import isfinite
from typing import ClassVar

from drivers.gnss.baseline import Baseline
from drivers.gnss.watch import event
from drivers.rtcm.outgoing import TxQueue
from drivers.ublox import nmea
from drivers.ublox.codec import (
    NMEA,
    RTCM,
    UBX_OVERHEAD_BYTES,
    encode,
    framer,
    has_checksum,
    has_layout,
    parse_ubx,
    rtcm_number,
)
from drivers.ublox.configuration import Configuration, Phase
from drivers.ublox.content import MAX_SPEED_MMPS
from drivers.ublox.identity import ReceiverIdentity, identify
from drivers.ublox.keys import CfgValget
from drivers.ublox.layouts import Ack, EsfMeas, MonVer, Nak
from drivers.ublox.names import ubx_name
from drivers.ublox.reception import Reception, ReceptionStats
from drivers.ublox.settings import Params as _Params
from drivers.ublox.settings import groups, period_ms
from drivers.ublox.spartn_keys import encode_keys, read_keys
from drivers.ublox.watch import ORIGIN
from vehicled.core.messages import (
    Corrections,
    Event,
    Fault,
    GnssFix,
    Heading,
    Message,
    MotorStatus,
    PortState,
    TimePulse,
    WheelSpeed,
)
from vehicled.core.ports import (
    NEVER_NS,
    Action,
    Device,
    Reopen,
    SecretRef,
    Send,
    SetBaud,
    Transport,
)
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage, Unused

STALE_NS = 200_000_000
"""Timeout of an incomplete frame, ns."""
MAX_TIMEOUT_NS = 60_000_000_000
SPEED = 11
"""Type of a speed in ESF-MEAS."""


class UbloxDevice(Device):
    """Driver of a receiver on one port, in UBX or NMEA. Corrections go to it or, from a base, come
    from it."""

    Params: ClassVar[type[_Params]] = _Params
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (GnssFix, Heading, Corrections, Event, Fault)
    consumes: tuple[type[Message], ...] = (Corrections, TimePulse)

    def __init__(
        self, params: _Params, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Configure the receiver for those of ``GnssFix``, ``Heading`` and ``Corrections`` that are
        in ``messages``."""
        self._params = params
        self._wanted = frozenset(messages)
        self.moving_base_rover = (
            Heading in self._wanted and params.protocol == "ubx" and not params.inertial
        )
        """True for a moving-base rover, whose heading needs the base on the vehicle; corrections of
        a fixed station would spoil it."""
        self._wheel_period_ns = (
            round(1e9 / params.wheel_speed_hz) if params.wheel_speed_hz > 0.0 else 0
        )
        self._wheel_ns = 0
        if self._wheel_period_ns:
            self.consumes = (
                Corrections,
                TimePulse,
                MotorStatus if params.metres_per_motor_radian > 0.0 else WheelSpeed,
            )
        if not {GnssFix, Heading} & self._wanted:
            # A base station computes no position that corrections could improve.
            self.consumes = ()
        # A slow receiver must not count as silent.
        self._silence_ns = round(max(params.silence_s, 2.5 / params.rate_hz) * 1e9)
        self._framer = framer()
        self.figures = ReceptionStats()
        """Counters."""
        self.version: MonVer | None = None
        """Firmware and hardware version, once received."""
        self.identity: ReceiverIdentity | None = None
        """Model and firmware, once received."""
        self.usage = MessageUsage()
        self._baseline = Baseline(params.baseline_m, params.baseline_tolerance_m)
        self._reception = self._receive()
        self._configuration = Configuration(params, groups(params, messages))
        self._configuration_fault = FaultEpisode("gnss_configuration", ORIGIN)
        self._keys, self._keys_problem, self._keys_sent = b"", "", True
        self._keys_fault = FaultEpisode("spartn_keys", ORIGIN)
        self._lacking: tuple[str, ...] = ()
        self._tx = TxQueue(command_lifetime_ns)
        self._open = False
        self._bytes_ns = 0
        self._last_rx_ns: int | None = None
        self._silent_since_ns: int | None = None
        self._silence_timeout_ns = self._silence_ns
        self._absent_since_ns: int | None = None
        self._absence_timeout_ns = self._silence_ns

    def _receive(self) -> Reception:
        return Reception(self._params, self._wanted, self.figures, self.usage, self._baseline)

    # ---------------------------------------------------------------- what the daemon may ask

    @property
    def bad_frames(self) -> int:
        """Frames with a sync but a wrong shape or checksum."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._framer.dropped_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an incomplete frame; bounded by the longest frame."""
        return self._framer.buffered_bytes

    @property
    def configured(self) -> bool:
        """True once the receiver has the wanted settings, as far as it supports them."""
        return self._configuration.phase is Phase.DONE

    @property
    def rtk_state(self) -> str:
        """State of the solution: none, single, dgps, float or fixed."""
        return self._reception.rtk_state

    # ---------------------------------------------------------------- the verbs of a device

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Configure the receiver whenever the port opens, because it may have lost power."""
        messages = self._reception.lost(now_ns, f"port {state.name.lower()}: {detail}")
        self._framer.clear()
        self._tx.clear()
        self._reception = self._receive()
        self._configuration.stop()
        self._last_rx_ns = self._absent_since_ns = None
        self._silence_timeout_ns = self._absence_timeout_ns = self._silence_ns
        self._open = state is PortState.OPENED
        if self._open:
            if self._params.configure:
                self._configuration.start(now_ns)
                self._take_actions()
            elif self._params.baud is not None:
                self._tx.add((SetBaud(self._params.baud),))
        return messages

    @property
    def secret_ref(self) -> SecretRef | None:
        """Place of the keys of SPARTN; None without one."""
        return self._params.secret_ref

    def set_secret(self, text: str) -> None:
        """Set the keys of SPARTN, which are sent to a receiver that is set up."""
        self._keys, self._keys_problem = b"", ""
        try:
            self._keys = encode_keys(read_keys(text))
        except ValueError as error:
            self._keys_problem = f"{self.secret_ref}: {error}"
        self._keys_sent = False

    def _send_keys(self, now_ns: int) -> list[Message]:
        """Send the keys; they last until the receiver loses its power."""
        self._keys_sent = True
        if self._keys:
            deadline_ns = now_ns + MAX_TIMEOUT_NS
            redacted = self._keys[:UBX_OVERHEAD_BYTES]
            self._tx.add((Send(self._keys, deadline_ns, redacted=redacted),))
        return self._keys_fault.set(self._keys_problem, now_ns)

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        self._bytes_ns = t_rx_ns
        for protocol, frame in self._framer.feed(data):
            self._on_frame(protocol, frame, t_rx_ns, messages)
        if self.configured and not self._keys_sent:
            messages += self._send_keys(t_rx_ns)
        return messages

    def on_command(self, command: Message, now_ns: int) -> None:
        """Queue corrections for the receiver, unread; a pulse gives the time of its epochs."""
        if isinstance(command, Corrections):
            self._tx.correct(command.data, now_ns)
        elif isinstance(command, TimePulse):
            self._reception.on_pulse(command)
        elif isinstance(command, WheelSpeed):
            self._send_speed(command.speed_mps, command.t_ns, now_ns)
        elif isinstance(command, MotorStatus):
            self._send_speed(
                command.motor_speed_radps * self._params.metres_per_motor_radian,
                command.t_ns,
                now_ns,
            )

    def _send_speed(self, speed_mps: float, t_ns: int, now_ns: int) -> None:
        """Send a wheel speed to the receiver's own fusion, no more often than it should get it."""
        if (
            not isfinite(speed_mps)
            or not self.configured
            or t_ns - self._wheel_ns < self._wheel_period_ns * 9 // 10
        ):
            return
        self._wheel_ns = t_ns
        speed_mmps = max(-MAX_SPEED_MMPS, min(MAX_SPEED_MMPS, round(speed_mps * 1e3)))
        measurement = EsfMeas(
            t_ns // 1_000_000 & 0xFFFF_FFFF, 0, 0, ((SPEED, speed_mmps & 0xFF_FFFF),)
        )
        self._tx.add((Send(encode(measurement), now_ns + self._wheel_period_ns),))

    def next_due_ns(self) -> int:
        due = min(self._configuration.next_due_ns(), self._silence_due_ns(), self._absence_due_ns())
        epoch_due = self._reception.next_due_ns()
        if epoch_due is not None and epoch_due < due:
            due = epoch_due
        if self._framer.buffered_bytes and self._bytes_ns + STALE_NS < due:
            due = self._bytes_ns + STALE_NS
        return due

    def on_time(self, now_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        if self._framer.buffered_bytes and now_ns >= self._bytes_ns + STALE_NS:
            for protocol, frame in self._framer.flush():
                self._on_frame(protocol, frame, self._bytes_ns, messages)
        messages += self._reception.on_time(now_ns)
        if now_ns >= self._configuration.next_due_ns():
            self._configuration.on_time(now_ns)
            messages += self._after_configuration(now_ns)
        if now_ns >= self._silence_due_ns():
            messages += self._on_silence(now_ns)
        if now_ns >= self._absence_due_ns():
            messages += self._on_absence(now_ns)
        if self.usage.news:
            messages += self.usage.take_events(now_ns, ORIGIN)
        return messages

    def take_tx(self) -> Sequence[Action]:
        return self._tx.take()

    # ---------------------------------------------------------------- frames

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        if protocol == NMEA and not has_checksum(frame):
            # No sign of life: it may be noise at another line rate.
            self.usage.refuse(nmea.name_of(frame), Unused.NO_CHECKSUM)
        else:
            self._on_sound_frame(protocol, frame, t_rx_ns, messages)
        if self.usage.news:
            messages += self.usage.take_events(t_rx_ns, ORIGIN)

    def _on_sound_frame(
        self, protocol: str, frame: bytes, t_rx_ns: int, messages: list[Message]
    ) -> None:
        self._last_rx_ns = t_rx_ns
        if self._silent_since_ns is not None:
            messages.append(
                event(
                    t_rx_ns,
                    "info",
                    "receiver_heard",
                    silent_s=(t_rx_ns - self._silent_since_ns) * 1e-9,
                )
            )
            self._silent_since_ns = None
            self._silence_timeout_ns = self._silence_ns
        self.figures.frames[protocol] += 1
        if protocol == RTCM:
            self._on_rtcm(frame, t_rx_ns, messages)
        elif protocol == NMEA:
            self._on_line(frame, t_rx_ns, messages)
        else:
            self._on_ubx(frame, t_rx_ns, messages)
        if self._configuration.phase is Phase.SEARCH:
            self._configuration.on_frame(t_rx_ns)
            messages += self._after_configuration(t_rx_ns)

    def _on_rtcm(self, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        name = str(rtcm_number(frame))
        self.figures.frames[name] += 1
        if Corrections in self._wanted:
            self.usage.use(name)
            messages.append(Corrections(t_rx_ns, t_rx_ns, ORIGIN, frame))
        else:
            self.usage.refuse(name, Unused.NOT_WANTED)

    def _on_line(self, line: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        name = nmea.name_of(line)
        if self._params.protocol != "nmea":
            self.usage.refuse(name, Unused.OTHER_PROTOCOL)
            return
        read = nmea.parse(line)
        if read is None:
            self.usage.refuse(name, Unused.NOT_READ)
        else:
            messages += self._reception.on_message(name, read.sentence, t_rx_ns, read.lost)

    def _on_ubx(self, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        name = ubx_name(frame[2:4])
        self.figures.frames[name] += 1
        message = parse_ubx(frame)
        match message:
            case None:
                # A poll of another host has the number of the message that it asks for, and no
                # content.
                unreadable = has_layout(frame) and len(frame) > UBX_OVERHEAD_BYTES
                length = len(frame) - UBX_OVERHEAD_BYTES
                self.usage.refuse(
                    name,
                    *((Unused.UNREADABLE, "length", length) if unreadable else (Unused.NOT_READ,)),
                )
                return
            case Ack() | Nak():
                self._configuration.on_answer(message, t_rx_ns)
                messages += self._after_configuration(t_rx_ns)
            case CfgValget():
                self._configuration.on_values(message, t_rx_ns)
                messages += self._after_configuration(t_rx_ns)
            case MonVer():
                self.version = message
                self.identity = identify(message)
                self._configuration.on_version(self.identity)
            case _:
                messages += self._reception.on_message(name, message, t_rx_ns)
                return
        self.usage.use(name)

    # ---------------------------------------------------------------- configuration

    def _take_actions(self) -> None:
        self._tx.add(self._configuration.take_tx())
        if self._configuration.take_rate_changed():
            self._framer.clear()

    def _after_configuration(self, now_ns: int) -> Sequence[Message]:
        self._take_actions()
        outcome = self._configuration.take_outcome()
        if outcome is None:
            return ()
        messages = list(self._configuration_fault.set("; ".join(outcome.problems), now_ns))
        if outcome.lacking and outcome.lacking != self._lacking:
            self._lacking = outcome.lacking
            reason = (
                "rejected: receivers of standard precision and older firmware lack them; the "
                "driver works without them"
            )
            messages.append(
                event(
                    now_ns, "info", "gnss_items_unavailable", items=outcome.lacking, reason=reason
                )
            )
        if outcome.answered:
            self._keys_sent = False
            self._reception.expect(period_ms(self._params))
            self._absent_since_ns = now_ns
            version = self.version
            messages.append(
                event(
                    now_ns,
                    "info",
                    "gnss_configured",
                    problems=len(outcome.problems),
                    software=version.software if version else "",
                    firmware=" ".join(version.extensions[:3]) if version else "",
                    **(
                        {"model": self.identity.model}
                        if self.identity and self.identity.newer
                        else {}
                    ),
                )
            )
        return messages

    # ---------------------------------------------------------------- silence

    def _silence_due_ns(self) -> int:
        """Return the time of the silence timeout, which runs once data has arrived."""
        return (
            self._last_rx_ns + self._silence_timeout_ns
            if self._open and self._last_rx_ns is not None
            else NEVER_NS
        )

    def _on_silence(self, now_ns: int) -> Sequence[Message]:
        last_rx_ns = self._last_rx_ns
        assert last_rx_ns is not None
        messages: list[Message] = []
        silent_s = (now_ns - last_rx_ns) * 1e-9
        if self._silent_since_ns is None:
            self._silent_since_ns = last_rx_ns
            messages.append(event(now_ns, "warning", "receiver_silent", silent_s=silent_s))
            messages += self._reception.lost(now_ns, "receiver silent")
        self._tx.add((Reopen(f"receiver silent for {silent_s:.1f} s"),))
        self._silence_timeout_ns = min(
            2 * self._silence_timeout_ns, now_ns - last_rx_ns + MAX_TIMEOUT_NS
        )
        return messages

    def _absence_due_ns(self) -> int:
        """Return the time of the timeout for positions of a configured receiver, which may have
        lost power and settings."""
        if not self._open or self._absent_since_ns is None or not self.configured:
            return NEVER_NS
        epoch_ns = self._reception.epoch_rx_ns
        if epoch_ns is not None and epoch_ns >= self._absent_since_ns:
            return epoch_ns + self._silence_ns
        return self._absent_since_ns + self._absence_timeout_ns

    def _on_absence(self, now_ns: int) -> Sequence[Message]:
        since_ns, epoch_ns = self._absent_since_ns, self._reception.epoch_rx_ns
        assert since_ns is not None
        if epoch_ns is not None and epoch_ns >= since_ns:
            since_ns, self._absence_timeout_ns = epoch_ns, self._silence_ns
        self._absence_timeout_ns = min(2 * self._absence_timeout_ns, MAX_TIMEOUT_NS)
        messages = [event(now_ns, "warning", "epochs_absent", absent_s=(now_ns - since_ns) * 1e-9)]
        self._configuration.start(now_ns)
        self._take_actions()
        return messages
