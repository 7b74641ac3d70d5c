"""Common part of all inertial sensor drivers: clock, mounting, saturation, and detection of a stuck
sensor.

A codec converts the frames of one device to :class:`Sample`, in SI units and REP-103 axes of the
sensor's case (forward, left, up; yaw counter-clockwise from east). :class:`ImuDevice` does the
rest. Silence is judged by the daemon, which knows the other sensors.
"""

from collections.abc import Iterable, Sequence
from math import atan2, cos, isfinite, pi, sin
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.core.messages import (
    NAN,
    NAN3,
    Event,
    Fault,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    PortState,
    Reaction,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.episodes import FaultEpisode, StateEpisodes
from vehicled.core.wire.framing import Framer
from vehicled.core.wire.framing import Protocol as FrameProtocol
from vehicled.core.wire.usage import MessageUsage, Unused

Vector = tuple[float, ...]
Rotation = tuple[Vector, Vector, Vector]

Angle = Annotated[float, Meta(ge=-pi, le=pi)]
Positive = Annotated[float, Meta(gt=0)]
Scale = Annotated[float, Meta(ge=0.5, le=2.0)]
Triple = tuple[float, float, float]

STUCK_PERIODS = 20
RATE_WINDOW_NS = 2_000_000_000
RATE_WINDOW_PERIODS = 20
RATE_TOLERANCE = 0.1
RANGE_SHARE = 0.99
"""Fraction of the range that counts as saturated, because calibration moves the end of the range by
up to 1 %."""
FRAME_LIMIT_BYTES = 4096
MAX_FORCE_MPS2, MAX_RATE_RADPS = 2e4, 1e3
"""Limits beyond the range of any sensor for vehicles: 2000 g, 57,000 degrees per second."""
TEMPERATURE_K = 173.0, 473.0
"""Temperatures at which electronics work, with a margin."""
STANDING_SAMPLES = 8
"""Inertial samples in a row with one and the same device time, after which that clock stands."""


class Sample(Struct, frozen=True, gc=False):
    """Content of one frame, or one set of frames, of a device. ``None``: not measured. Axes of the
    case: FLU; world: ENU."""

    counter: int | None = None
    """Time of validity on the device clock, in ``ImuDevice.tick_ns``."""
    specific_force_mps2: Vector | None = None
    """Specific force (3,), m/s2; z is +9.81 when level and still."""
    angular_rate_radps: Vector | None = None
    """Angular rate (3,), rad/s."""
    yaw_rad: float | None = None
    """Yaw of the case's x axis, rad, counter-clockwise from east, or from an arbitrary zero without
    a compass."""
    temperature_k: float | None = None
    saturated: bool = False
    """Saturation flag of the device."""


class Codec(Protocol):
    """Codec of one kind of device: frames to samples. May keep a half-assembled sample; never
    raises on wire input."""

    usage: MessageUsage
    """Account of the messages by the names of the module's ``decode``."""
    wants_heading: bool
    """Set by the device: True if an attitude is asked for."""

    @property
    def protocols(self) -> Sequence[FrameProtocol]:
        """Protocols to find in the byte stream."""
        ...

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return the samples completed by one valid frame of protocol ``name``."""
        ...

    def reset(self) -> None:
        """Drop half-assembled samples because the stream restarts. Counters are kept."""
        ...


class ImuParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of every inertial sensor. Mounting: the rotation from the axes of the case to
    those of the body, about z last."""

    rate_hz: Annotated[float, Meta(gt=0, le=4000)] = 100.0
    """Sample rate set in the device, Hz. A measured rate off by more than 10 % is an event."""
    latency_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    """Least time from validity to the arrival of the frame's last byte, s: filter delay plus
    transmission."""
    mounting_roll_rad: Angle = 0.0
    """Roll from the axes of the case to those of the body, rad."""
    mounting_pitch_rad: Angle = 0.0
    """Pitch from the axes of the case to those of the body, rad."""
    mounting_yaw_rad: Angle = 0.0
    """Yaw from the axes of the case to those of the body, rad."""
    accelerometer_bias_mps2: Triple = (0.0, 0.0, 0.0)
    """Bias of the accelerometer, axes of the case, m/s2: what is passed on is ``scale (measured -
    bias)``."""
    accelerometer_scale: tuple[Scale, Scale, Scale] = (1.0, 1.0, 1.0)
    """Factor for each axis of the accelerometer, axes of the case."""
    compass_deviation_rad: tuple[Angle, Angle, Angle, Angle] = (0.0, 0.0, 0.0, 0.0)
    """Error of the yaw that iron of the vehicle causes: factors of sin, cos of the yaw (hard iron)
    and of twice the yaw (soft iron), rad. The yaw is that of the body before ``yaw_offset_rad``."""
    accelerometer_range_mps2: Positive = 16 * STANDARD_GRAVITY_MPS2
    """Range of the accelerometer, m/s2; samples at its limit count as saturated."""
    gyro_range_radps: Positive = 2000 * pi / 180
    """Range of the gyro, rad/s; samples at its limit count as saturated."""
    stuck_s: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    """Longest time with unchanged accelerometer and gyro values, s; at least 20 periods."""
    yaw_offset_rad: Angle = 0.0
    """Angle added to the device's yaw, rad: magnetic declination, or the direction of its zero."""
    heading_sigma_rad: Annotated[float, Meta(gt=0, le=pi)] = 0.2
    """Sigma of the heading, rad, if the device reports none."""


class ImuDevice(Device):
    """Driver of a free-running inertial sensor. A subclass defines the constants and provides the
    codec.

    A sensor that needs commands first overrides ``on_port``, ``on_rx`` and ``on_time``, calls the
    base methods, and uses :meth:`send`.
    """

    name: ClassVar[str] = "imu"
    """Origin of its faults and events."""
    tick_ns: ClassVar[float | None] = None
    """Duration of one count of ``Sample.counter``, ns; None without a device clock: samples then
    have their arrival time."""
    counter_bits: ClassVar[int | None] = None
    """Width after which the counter wraps; None if it does not wrap, or has ``counter_modulus``."""
    counter_modulus: ClassVar[int | None] = None
    """Modulus of a counter that does not wrap at a power of two."""
    heading_kind: ClassVar[HeadingKind] = HeadingKind.INERTIAL

    Params: ClassVar[type[ImuParams]] = ImuParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (ImuSample, Heading, Fault, Event)
    consumes: tuple[type[Message], ...] = ()

    def __init__(
        self,
        params: ImuParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
        codec: Codec,
    ) -> None:
        """Produce those of ImuSample and Heading that are in ``messages``; queued bytes expire
        after ``command_lifetime_ns``."""
        self.params = params
        self.codec = codec
        self._wants_imu = ImuSample in messages
        self._wants_heading = codec.wants_heading = Heading in messages
        self.usage = codec.usage
        self._lifetime_ns = command_lifetime_ns
        self._latency_ns = round(params.latency_s * 1e9)
        self._rotation = mounting(
            params.mounting_roll_rad, params.mounting_pitch_rad, params.mounting_yaw_rad
        )
        identity = not (
            params.mounting_roll_rad or params.mounting_pitch_rad or params.mounting_yaw_rad
        )
        self._turned = not identity
        # The yaw of a device is that of its x axis, so subtract the direction of that axis in the
        # level body.
        self._yaw_shift_rad = params.yaw_offset_rad - atan2(
            self._rotation[1][0], self._rotation[0][0]
        )
        self._deviates = any(params.compass_deviation_rad)
        self._corrects = any(params.accelerometer_bias_mps2) or params.accelerometer_scale != (
            1.0,
            1.0,
            1.0,
        )
        self._force_limit = RANGE_SHARE * params.accelerometer_range_mps2
        self._rate_limit = RANGE_SHARE * params.gyro_range_radps
        period_ns = 1e9 / params.rate_hz
        self._stuck_ns = round(max(params.stuck_s * 1e9, STUCK_PERIODS * period_ns))
        self._window_ns = round(max(RATE_WINDOW_NS, RATE_WINDOW_PERIODS * period_ns))
        self._gap_ns = self._window_ns // 2
        self._framer = Framer(codec.protocols, FRAME_LIMIT_BYTES)
        self._tx: list[Action] = []
        self.samples = 0
        """Inertial samples decoded, including those not passed on."""
        self.saturated_samples = 0
        self.stuck_samples = 0
        """Samples withheld because the sensor was stuck."""
        self.stuck = False
        """True while a stuck sensor is reported and its samples are withheld."""
        self.rate_off = False
        """True while the measured rate differs from ``Params.rate_hz``."""
        self._stuck_fault = FaultEpisode("imu_stuck", self.name)
        self._rate_episodes = StateEpisodes("")
        self._clock_episodes = StateEpisodes("")
        self._begin()

    def _begin(self) -> None:
        self._clock: DeviceClock | None = None
        if self.tick_ns is not None:
            bits, modulus = self.counter_bits, self.counter_modulus
            self._clock = DeviceClock(
                tick_ns=self.tick_ns, bits=bits, latency_ns=self._latency_ns, modulus=modulus
            )
        self._values: tuple[Vector | None, Vector | None, float | None] = (None, None, None)
        self._moved_ns = 0
        self._last_ns = 0
        self._window_start_ns = 0
        self._window_samples = -1
        self._resets_reported = 0
        self._counter: int | None = None
        self._same_counters = 0

    @property
    def bad_frames(self) -> int:
        """Frames with a sync but a wrong shape or checksum, since start."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames, since start."""
        return self._framer.dropped_bytes

    @property
    def clock(self) -> DeviceClock | None:
        """Clock of the device, with its offset, rate and resets."""
        return self._clock

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Reset codec and clock on a new connection, because the device may have restarted."""
        messages: list[Message] = []
        self._tx.clear()
        if state is PortState.OPENED:
            self._framer.clear()
            self.codec.reset()
            self._begin()
            if self.stuck:
                self._report_stuck(False, now_ns, "", messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        decode, usage = self.codec.decode, self.usage
        for name, frame in self._framer.feed(data):
            for sample in decode(name, frame):
                self._take(sample, t_rx_ns, messages)
            # After each frame, so that the order does not depend on how the bytes arrive.
            if usage.news:
                messages += usage.take_events(t_rx_ns, self.name)
        return messages

    def on_command(self, command: Message, now_ns: int) -> None:
        """Ignore commands."""

    def next_due_ns(self) -> int:
        return NEVER_NS

    def on_time(self, now_ns: int) -> Sequence[Message]:
        return ()

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    def send(self, data: bytes, now_ns: int) -> None:
        self._tx.append(Send(data, now_ns + self._lifetime_ns))

    def event(self, now_ns: int, level: str, name: str, **fields: object) -> Event:
        """Return an event log entry with the device's name."""
        return Event.of(now_ns, level, name, device=self.name, **fields)

    def _take(self, sample: Sample, t_rx_ns: int, messages: list[Message]) -> None:
        force, rate, yaw = sample.specific_force_mps2, sample.angular_rate_radps, sample.yaw_rad
        inertial = force is not None or rate is not None
        # All frames of a device share one clock, which tolerates reordering within one step.
        clock = self._clock
        if (
            clock is None
            or sample.counter is None
            or (inertial and self._clock_stands(sample.counter, t_rx_ns, messages))
        ):
            t_ns = t_rx_ns - self._latency_ns
        else:
            t_ns = clock.update(sample.counter, t_rx_ns)
        if inertial:
            self.samples += 1
            self._watch_stream(t_rx_ns, messages)
            # Without a gyro, yaw serves as the second quantity. Otherwise it is left out, because a
            # filter may hold it.
            self._watch_values((force, rate, yaw if rate is None else None), t_rx_ns, messages)
            if self.stuck:
                self.stuck_samples += 1
                return
            if self._wants_imu:
                messages.append(self._imu_sample(sample, t_ns, t_rx_ns))
        if yaw is not None and self._wants_heading:
            yaw += self._yaw_shift_rad
            if self._deviates:
                yaw -= deviation(
                    self.params.compass_deviation_rad, yaw - self.params.yaw_offset_rad
                )
            yaw_rad = (yaw + pi) % (2 * pi) - pi
            messages.append(
                Heading(t_ns, t_rx_ns, yaw_rad, self.params.heading_sigma_rad, self.heading_kind)
            )

    def _clock_stands(self, counter: int, t_rx_ns: int, messages: list[Message]) -> bool:
        """True while the device time of the inertial samples does not move: then the arrival is the
        better time."""
        episodes = self._clock_episodes
        if counter != self._counter and not (episodes.state or episodes.changes):
            self._counter, self._same_counters = counter, 0
            return False
        self._same_counters = self._same_counters + 1 if counter == self._counter else 0
        self._counter = counter
        stands = self._same_counters >= STANDING_SAMPLES
        change = episodes.update("stands" if stands else "", t_rx_ns)
        if change is not None and not change.unsteady:
            level, active = ("warning", True) if change.now else ("info", False)
            messages.append(self.event(t_rx_ns, level, "imu_clock_stands", active=active))
        return stands

    def _imu_sample(self, sample: Sample, t_ns: int, t_rx_ns: int) -> ImuSample:
        force = sample.specific_force_mps2
        rate = sample.angular_rate_radps
        saturated = sample.saturated
        if force is None:
            force = NAN3
        else:
            limit = self._force_limit
            saturated = saturated or not (-limit < min(force) and max(force) < limit)
            if self._corrects:
                params = self.params
                force = tuple(
                    [
                        k * (f - b)
                        for f, b, k in zip(
                            force, params.accelerometer_bias_mps2, params.accelerometer_scale
                        )
                    ]
                )
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
        return ImuSample(
            t_ns, t_rx_ns, force, rate, NAN if temperature is None else temperature, saturated
        )

    def _watch_values(
        self,
        values: tuple[Vector | None, Vector | None, float | None],
        t_rx_ns: int,
        messages: list[Message],
    ) -> None:
        """Report a stuck sensor if all values repeat for too long. One field alone may be constant:
        coarse, or not fitted."""
        if values != self._values or t_rx_ns - self._last_ns > self._stuck_ns:
            if self.stuck and values != self._values:
                self._report_stuck(False, t_rx_ns, "", messages)
            elif not self.stuck and self._stuck_fault.reason:
                # A sensor that hangs again and again is one episode, which ends when its values
                # have moved for long enough.
                messages += self._stuck_fault.set("", t_rx_ns)
            self._values = values
            self._moved_ns = t_rx_ns
        elif not self.stuck and t_rx_ns - self._moved_ns > self._stuck_ns:
            held_s = (t_rx_ns - self._moved_ns) / 1e9
            self._report_stuck(True, t_rx_ns, f"all values unchanged for {held_s:.2f} s", messages)
        self._last_ns = t_rx_ns

    def _report_stuck(
        self, active: bool, now_ns: int, reason: str, messages: list[Message]
    ) -> None:
        self.stuck = active
        messages += self._stuck_fault.set(
            reason if active else "", now_ns, Reaction.CONTROLLED_STOP
        )

    def _watch_stream(self, t_rx_ns: int, messages: list[Message]) -> None:
        """Check rate and clock over windows of at least 2 s and 20 periods. A pause starts a new
        window; the daemon judges silence."""
        self._window_samples += 1
        if self._window_samples == 0 or t_rx_ns - self._last_ns > self._gap_ns:
            self._window_start_ns, self._window_samples = t_rx_ns, 0
            return
        elapsed_ns = t_rx_ns - self._window_start_ns
        if elapsed_ns < self._window_ns:
            return
        expected = self.params.rate_hz
        measured = self._window_samples * 1e9 / elapsed_ns
        # Hysteresis, so that a rate at the limit is one episode.
        off = abs(measured - expected) > RATE_TOLERANCE * expected * (0.8 if self.rate_off else 1.0)
        self.rate_off = off
        change = self._rate_episodes.update("off" if off else "", t_rx_ns)
        if change is not None and not change.unsteady:
            fields = {"active": off, "measured_hz": round(measured, 2), "expected_hz": expected}
            messages.append(self.event(t_rx_ns, "warning" if off else "info", "imu_rate", **fields))
        if self._clock is not None and self._clock.resets != self._resets_reported:
            # The device restarted, its clock was set, or the host fell behind permanently.
            self._resets_reported = self._clock.resets
            messages.append(
                self.event(t_rx_ns, "warning", "imu_clock", resets=self._resets_reported)
            )
        self._window_start_ns, self._window_samples = t_rx_ns, 0


def sound(usage: MessageUsage, name: str, sample: Sample) -> tuple[Sample, ...]:
    """Return the sample of a message if its values are possible, and account for the message.

    Nothing beside an impossible value is trusted either, a counter least of all. An impossible
    temperature costs only itself.
    """
    force, rate, yaw = sample.specific_force_mps2, sample.angular_rate_radps, sample.yaw_rad
    for field, values, limit in (
        ("specific force", force, MAX_FORCE_MPS2),
        ("angular rate", rate, MAX_RATE_RADPS),
    ):
        if values is None:
            continue
        x, y, z = values
        # Not by abs and max, whose calls cost more than all else here. NaN is within no limit.
        if -limit <= x <= limit and -limit <= y <= limit and -limit <= z <= limit:
            continue
        if isfinite(x + y + z):
            usage.refuse(name, Unused.OUT_OF_RANGE, field, f"{max(values, key=abs):.3g}")
        else:
            usage.refuse(name, Unused.NOT_FINITE, field)
        return ()
    if force is not None and force[0] == force[1] == force[2] == 0.0:
        # An accelerometer on the earth feels its weight.
        usage.refuse(name, Unused.ALL_ZERO, "specific force")
        return ()
    if yaw is not None and yaw - yaw != 0.0:
        usage.refuse(name, Unused.NOT_FINITE, "attitude")
        return ()
    kelvin = sample.temperature_k
    if kelvin is not None and not TEMPERATURE_K[0] <= kelvin <= TEMPERATURE_K[1]:
        usage.lose(name, Unused.OUT_OF_RANGE, "temperature", f"{kelvin:.0f} K")
        sample = replace(sample, temperature_k=None)
    usage.use(name)
    return (sample,)


def mounting(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Rotation:
    """Return the rows of the rotation from case to body, Rz(yaw) Ry(pitch) Rx(roll), for
    :func:`turn`."""
    cr = cos(roll_rad)
    sr = sin(roll_rad)
    cp = cos(pitch_rad)
    sp = sin(pitch_rad)
    cy = cos(yaw_rad)
    sy = sin(yaw_rad)
    return (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )


def deviation(factors: Sequence[float], yaw_rad: float) -> float:
    """Return the error of a compass at a yaw that it shows; see
    ``ImuParams.compass_deviation_rad``."""
    b, c, d, e = factors
    return b * sin(yaw_rad) + c * cos(yaw_rad) + d * sin(2.0 * yaw_rad) + e * cos(2.0 * yaw_rad)


def turn(rotation: Rotation, vector: Vector) -> Vector:
    """Return the product of a rotation, given by rows, and a vector (3,)."""
    x, y, z = vector
    (a, b, c), (d, e, f), (g, h, i) = rotation
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z


def frames(protocols: Sequence[FrameProtocol], data: bytes) -> Iterable[tuple[str, bytes]]:
    """Iterate over the valid frames of a recording, in order."""
    framer = Framer(protocols, FRAME_LIMIT_BYTES)
    yield from framer.feed(data)
    yield from framer.flush()
