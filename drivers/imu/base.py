"""What all inertial sensors have in common: clock, mounting, saturation, and the watch over a sensor that lies.

A codec turns the frames of one device into :class:`Sample`, already in SI units and in REP-103 axes of the sensor's case (forward,
left, up; yaw counter-clockwise from east). :class:`ImuDevice` does the rest. A sensor that has fallen silent is not judged here:
only the daemon knows what else it still has.
"""

from collections.abc import Iterable, Sequence
from math import atan2, cos, pi, sin
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct, json

from vehicled.messages import NAN, NAN3, Event, Fault, Heading, HeadingKind, ImuSample, Message, PortState, Reaction
from vehicled.ports import NEVER_NS, Action, Send
from vehicled.wire.clock import DeviceClock
from vehicled.wire.framing import Framer
from vehicled.wire.framing import Protocol as FrameProtocol

STANDARD_GRAVITY_MPS2 = 9.80665
"""What a device means when it says "g"."""
ZERO_CELSIUS_K = 273.15

Vector = tuple[float, ...]
Rotation = tuple[Vector, Vector, Vector]

Angle = Annotated[float, Meta(ge=-pi, le=pi)]
Positive = Annotated[float, Meta(gt=0)]

STUCK_PERIODS = 20
RATE_WINDOW_NS = 2_000_000_000
RATE_WINDOW_PERIODS = 20
RATE_TOLERANCE = 0.1
RANGE_SHARE = 0.99
"""Calibration moves the end of the range a little to either side, so the last hundredth counts as the end already."""
FRAME_LIMIT_BYTES = 4096


class Sample(Struct, frozen=True, gc=False):
    """What one frame, or one set of frames, of a device says. ``None`` where it says nothing. Axes of the case: FLU; world ENU."""

    counter: int | None = None
    """Time of validity on the device's own clock, in ``ImuDevice.tick_ns``."""
    specific_force_mps2: Vector | None = None
    """(3,); +9.81 upwards at rest."""
    angular_rate_radps: Vector | None = None
    """(3,)"""
    yaw_rad: float | None = None
    """Of the x axis of the case, counter-clockwise from east, or from an arbitrary zero if the device has no compass."""
    temperature_k: float | None = None
    saturated: bool = False
    """The device itself says that it was at the end of its range."""


class Codec(Protocol):
    """Frames of one kind of device to samples. May hold a half-assembled sample; never raises on wire input."""

    @property
    def protocols(self) -> Sequence[FrameProtocol]:
        """What to look for in the stream."""
        ...

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Samples completed by one sound frame of protocol ``name``."""
        ...

    def reset(self) -> None:
        """Forget what was half assembled: the stream begins anew. Counters are kept."""
        ...


class ImuParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of every inertial sensor. Mounting: the rotation from the axes of the case to those of the body, about z last."""

    rate_hz: Annotated[float, Meta(gt=0, le=4000)] = 100.0
    """Samples per second the device is set to. A measured rate that differs by more than a tenth is an event."""
    latency_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    """From validity to the arrival of the frame's last byte, at the least: filter delay of the device and time on the wire."""
    mounting_roll_rad: Angle = 0.0
    mounting_pitch_rad: Angle = 0.0
    mounting_yaw_rad: Angle = 0.0
    accelerometer_range_mps2: Positive = 16 * STANDARD_GRAVITY_MPS2
    gyro_range_radps: Positive = 2000 * pi / 180
    stuck_s: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    """How long accelerometer and gyro may repeat the same values, and never less than 20 periods."""
    yaw_offset_rad: Angle = 0.0
    """Added to the yaw of the device: magnetic declination, or where its zero lies."""
    heading_sigma_rad: Annotated[float, Meta(gt=0, le=pi)] = 0.2


class ImuDevice:
    """Host side of an inertial sensor that talks by itself. A device class names its constants and brings its codec.

    A device that has to be spoken to first overrides ``on_port``, ``on_rx`` and ``on_time``, calls these ones, and queues by
    :meth:`send`.
    """

    name: ClassVar[str] = "imu"
    """Origin of its faults and events."""
    tick_ns: ClassVar[float | None] = None
    """Length of one count of ``Sample.counter``; None for a device without a clock, whose samples are stamped by arrival."""
    counter_bits: ClassVar[int | None] = None
    """Width after which the counter wraps; None if it does not, or wraps elsewhere."""
    counter_modulus: ClassVar[int | None] = None
    """Where a counter wraps that does not do so at a power of two."""
    heading_kind: ClassVar[HeadingKind] = HeadingKind.INERTIAL

    Params: ClassVar[type[ImuParams]] = ImuParams
    produces: ClassVar[tuple[type[Message], ...]] = (ImuSample, Heading, Fault, Event)
    consumes: tuple[type[Message], ...] = ()

    def __init__(self, params: ImuParams, messages: Sequence[type[Message]], command_lifetime_ns: int, codec: Codec) -> None:
        """Of ImuSample and Heading only those in ``messages`` are produced; bytes queued expire after ``command_lifetime_ns``."""
        self.params = params
        self.codec = codec
        self._wants_imu = ImuSample in messages
        self._wants_heading = Heading in messages
        self._lifetime_ns = command_lifetime_ns
        self._latency_ns = round(params.latency_s * 1e9)
        self._rotation = mounting(params.mounting_roll_rad, params.mounting_pitch_rad, params.mounting_yaw_rad)
        identity = not (params.mounting_roll_rad or params.mounting_pitch_rad or params.mounting_yaw_rad)
        self._turned = not identity
        # The yaw of a device is that of its x axis; in a level body that axis points to where the mounting has turned it.
        self._yaw_shift_rad = params.yaw_offset_rad - atan2(self._rotation[1][0], self._rotation[0][0])
        self._force_limit = RANGE_SHARE * params.accelerometer_range_mps2
        self._rate_limit = RANGE_SHARE * params.gyro_range_radps
        period_ns = 1e9 / params.rate_hz
        self._stuck_ns = round(max(params.stuck_s * 1e9, STUCK_PERIODS * period_ns))
        self._window_ns = round(max(RATE_WINDOW_NS, RATE_WINDOW_PERIODS * period_ns))
        self._gap_ns = self._window_ns // 2
        self._framer = Framer(codec.protocols, FRAME_LIMIT_BYTES)
        self._tx: list[Action] = []
        self.samples = 0
        """Inertial samples decoded, whether passed on or not."""
        self.not_finite = 0
        """Samples refused for NaN or infinite values."""
        self.saturated_samples = 0
        self.stuck_samples = 0
        """Samples withheld because the sensor was stuck."""
        self.stuck = False
        """An episode is on: a fault was told, and samples are withheld until values move again."""
        self.rate_off = False
        """An episode is on: the measured rate differs from ``Params.rate_hz``."""
        self.measured_rate_hz = NAN
        """Over the last full window."""
        self._begin()

    def _begin(self) -> None:
        self._clock: DeviceClock | None = None
        if self.tick_ns is not None:
            bits, modulus = self.counter_bits, self.counter_modulus
            self._clock = DeviceClock(tick_ns=self.tick_ns, bits=bits, latency_ns=self._latency_ns, modulus=modulus)
        self._values: tuple[Vector | None, Vector | None, float | None] = (None, None, None)
        self._moved_ns = 0
        self._last_ns = 0
        self._window_start_ns = 0
        self._window_samples = -1
        self._resets_told = 0

    @property
    def bad_frames(self) -> int:
        """Syncs that were no frame or had a wrong check sum, since start."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes that belonged to no sound frame, since start."""
        return self._framer.dropped_bytes

    @property
    def clock(self) -> DeviceClock | None:
        """Clock of the device, for its offset, rate and resets."""
        return self._clock

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """A new connection starts clean, clock included: the device may have restarted behind our back."""
        messages: list[Message] = []
        self._tx.clear()
        if state is PortState.OPENED:
            self._framer.clear()
            self.codec.reset()
            self._begin()
            if self.stuck:
                self._tell_stuck(False, now_ns, "port opened again", messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Samples completed by ``data``, and what there is to tell about the sensor."""
        messages: list[Message] = []
        decode = self.codec.decode
        for name, frame in self._framer.feed(data):
            for sample in decode(name, frame):
                self._take(sample, t_rx_ns, messages)
        return messages

    def on_command(self, command: Message, now_ns: int) -> None:
        """Takes no commands."""

    def next_due_ns(self) -> int:
        """Has no duties of its own."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Nothing to do."""
        return ()

    def take_tx(self) -> Sequence[Action]:
        """What was queued since the last call."""
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    def send(self, data: bytes, now_ns: int) -> None:
        """Queue bytes for the device."""
        self._tx.append(Send(data, now_ns + self._lifetime_ns))

    def event(self, now_ns: int, level: str, name: str, **fields: object) -> Event:
        """A line for the event log, with the name of the device in its fields."""
        return Event(now_ns, level, name, json.encode({"device": self.name, **fields}).decode())

    def _take(self, sample: Sample, t_rx_ns: int, messages: list[Message]) -> None:
        force, rate, yaw = sample.specific_force_mps2, sample.angular_rate_radps, sample.yaw_rad
        total = yaw or 0.0
        if force is not None:
            total += force[0] + force[1] + force[2]
        if rate is not None:
            total += rate[0] + rate[1] + rate[2]
        if total - total != 0.0:  # only of NaN and infinities; a sound counter beside them is not believed either
            self.not_finite += 1
            return
        # All frames of a device carry one clock; that they overtake each other by less than its step is no matter to it.
        clock = self._clock
        t_ns = t_rx_ns - self._latency_ns if clock is None or sample.counter is None else clock.update(sample.counter, t_rx_ns)
        if force is not None or rate is not None:
            self.samples += 1
            self._watch_stream(t_rx_ns, messages)
            # Without a gyro the yaw has to do as the second witness. Yaw is left out otherwise: a filter may well hold it.
            self._watch_values((force, rate, yaw if rate is None else None), t_rx_ns, messages)
            if self.stuck:
                self.stuck_samples += 1
                return
            if self._wants_imu:
                messages.append(self._imu_sample(sample, t_ns, t_rx_ns))
        if yaw is not None and self._wants_heading:
            yaw_rad = (yaw + self._yaw_shift_rad + pi) % (2 * pi) - pi
            messages.append(Heading(t_ns, t_rx_ns, yaw_rad, self.params.heading_sigma_rad, self.heading_kind))

    def _imu_sample(self, sample: Sample, t_ns: int, t_rx_ns: int) -> ImuSample:
        force, rate, saturated = sample.specific_force_mps2, sample.angular_rate_radps, sample.saturated
        if force is None:
            force = NAN3
        else:
            limit = self._force_limit
            saturated = saturated or not (-limit < min(force) and max(force) < limit)
            if self._turned:
                force = turn(self._rotation, force)
        if rate is None:
            rate = NAN3
        else:
            limit = self._rate_limit
            saturated = saturated or not (-limit < min(rate) and max(rate) < limit)
            if self._turned:
                rate = turn(self._rotation, rate)
        if saturated:
            self.saturated_samples += 1
        temperature = sample.temperature_k
        return ImuSample(t_ns, t_rx_ns, force, rate, NAN if temperature is None else temperature, saturated)

    def _watch_values(
        self, values: tuple[Vector | None, Vector | None, float | None], t_rx_ns: int, messages: list[Message]
    ) -> None:
        """All of it repeated for too long is a stuck sensor. One field alone may stand still: quantised, or not fitted at all."""
        if values != self._values or t_rx_ns - self._last_ns > self._stuck_ns:
            if self.stuck and values != self._values:
                self._tell_stuck(False, t_rx_ns, "values move again", messages)
            self._values = values
            self._moved_ns = t_rx_ns
        elif not self.stuck and t_rx_ns - self._moved_ns > self._stuck_ns:
            held_s = (t_rx_ns - self._moved_ns) / 1e9
            self._tell_stuck(True, t_rx_ns, f"all values unchanged for {held_s:.2f} s", messages)
        self._last_ns = t_rx_ns

    def _tell_stuck(self, active: bool, now_ns: int, reason: str, messages: list[Message]) -> None:
        self.stuck = active
        messages.append(Fault(now_ns, "imu_stuck", self.name, Reaction.CONTROLLED_STOP, active, reason))

    def _watch_stream(self, t_rx_ns: int, messages: list[Message]) -> None:
        """Rate and clock, over windows of 2 s and 20 periods at least. A pause begins a new one: silence is the daemon's affair."""
        self._window_samples += 1
        if self._window_samples == 0 or t_rx_ns - self._last_ns > self._gap_ns:
            self._window_start_ns, self._window_samples = t_rx_ns, 0
            return
        elapsed_ns = t_rx_ns - self._window_start_ns
        if elapsed_ns < self._window_ns:
            return
        expected = self.params.rate_hz
        self.measured_rate_hz = measured = self._window_samples * 1e9 / elapsed_ns
        # Harder to leave than to enter, so that a rate at the very edge is one episode and not one per window.
        off = abs(measured - expected) > RATE_TOLERANCE * expected * (0.8 if self.rate_off else 1.0)
        if off != self.rate_off:
            self.rate_off = off
            level = "warning" if off else "info"
            fields = {"active": off, "measured_hz": round(measured, 2), "expected_hz": expected}
            messages.append(self.event(t_rx_ns, level, "imu_rate", **fields))
        if self._clock is not None and self._clock.resets != self._resets_told:
            # The device restarted or its clock was set, or else our reading has fallen behind for good.
            self._resets_told = self._clock.resets
            messages.append(self.event(t_rx_ns, "warning", "imu_clock", resets=self._resets_told))
        self._window_start_ns, self._window_samples = t_rx_ns, 0


def mounting(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Rotation:
    """Rows of the rotation from case to body: Rz(yaw) Ry(pitch) Rx(roll), so that ``turn(rotation, vector)`` is in body axes."""
    cr, sr, cp, sp, cy, sy = cos(roll_rad), sin(roll_rad), cos(pitch_rad), sin(pitch_rad), cos(yaw_rad), sin(yaw_rad)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def turn(rotation: Rotation, vector: Vector) -> Vector:
    """Product of a rotation, by rows, and a vector (3,)."""
    x, y, z = vector
    (a, b, c), (d, e, f), (g, h, i) = rotation
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z


def frames(protocols: Sequence[FrameProtocol], data: bytes) -> Iterable[tuple[str, bytes]]:
    """Sound frames of a whole recording, in order, a last one behind a damaged candidate included."""
    framer = Framer(protocols, FRAME_LIMIT_BYTES)
    yield from framer.feed(data)
    yield from framer.flush()
