"""VRPN trackers over TCP: the codec in both directions, and the driver. See NOTES.md.

Both ends send a cookie of 24 bytes, then messages: ``length u32 | seconds u32 | microseconds u32 |
sender i32 | type i32 | sequence u32``, big-endian, and a payload that is filled up to eight bytes.
Names of senders and types are described by messages of negative types.
"""

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta

from drivers.mocap.base import BodySighting, MocapDevice, MocapParams, Quaternion, Up, Vector, z_up
from vehicled.core.messages import Message
from vehicled.core.ports import Reopen, Transport
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.usage import Unused

MAGIC = b"vrpn: ver. 07."
COOKIE_BYTES = 24
HEAD = Layout(">IIIiiI")
POSE, _LENGTH = Layout(">ii7d"), Layout(">i")
SENDER, TYPE, UDP = -1, -2, -3
"""Types of the messages that describe a sender, a type, and a UDP port."""
POSE_TYPE = "vrpn_Tracker Pos_Quat"
MOST_BYTES = 65_536
"""Longest message that is believed."""
MOST_NAMES = 2_000
"""Most names that are kept, of senders and of types."""
NAME_BYTES = 100
STANDS_NS = 50_000_000
"""Time after which equal stamps are those of a clock that stands; that of Windows moves every
16 ms."""


class VrpnMessage(NamedTuple):
    """Message, with the names of its sender and its type."""

    sender: str
    kind: str
    time_us: int
    payload: bytes


class TrackerPose(NamedTuple):
    """Pose of a tracker's sensor."""

    sensor: int
    position_m: Vector
    attitude: Quaternion
    """Quaternion x, y, z, w."""


def cookie(minor: int = 35) -> bytes:
    """Return the cookie of an end of a version 7."""
    return (MAGIC + b"%02d  0" % minor).ljust(COOKIE_BYTES, b"\0")


def encode(time_us: int, sender: int, kind: int, payload: bytes, sequence: int = 0) -> bytes:
    """Return a message."""
    seconds, rest = divmod(time_us, 1_000_000)
    head = HEAD.pack(HEAD.size + len(payload), seconds, rest, sender, kind, sequence)
    return head + payload + bytes(-len(payload) % 8)


def described(what: int, number: int, name: str, time_us: int = 0) -> bytes:
    """Return the message that describes a sender or a type."""
    text = name.encode()[: NAME_BYTES - 1] + b"\0"
    return encode(time_us, number, what, _LENGTH.pack(len(text)) + text)


def encode_pose(pose: TrackerPose) -> bytes:
    """Return the payload of a pose."""
    return POSE.pack(pose.sensor, 0, *pose.position_m, *pose.attitude)


def read_pose(payload: bytes) -> TrackerPose | None:
    """Return the pose in a payload; None for one that is too short."""
    if len(payload) < POSE.size:
        return None
    sensor, _, x, y, z, *attitude = POSE.unpack_from(payload)
    return TrackerPose(sensor, (x, y, z), tuple(attitude))


class VrpnReader:
    """Reader of one connection's stream, cut anywhere. It has no checksums, so after a message
    that cannot be it is broken until it is cleared."""

    def __init__(self) -> None:
        self.bad_frames = 0
        self.dropped_bytes = 0
        self.clear()

    def clear(self) -> None:
        """Begin with a new connection."""
        self._held = bytearray()
        self._begun = False
        self.broken = False
        """True if the stream cannot be read."""
        self.senders: dict[int, str] = {}
        self._types: dict[int, str] = {}

    def feed(self, data: bytes) -> list[VrpnMessage]:
        """Return the messages that the bytes complete."""
        if self.broken:
            self.dropped_bytes += len(data)
            return []
        self._held += data
        found: list[VrpnMessage] = []
        held, at, end = self._held, 0, len(self._held)
        if not self._begun:
            if end < COOKIE_BYTES:
                if not MAGIC.startswith(bytes(held[: len(MAGIC)])):
                    self._fail(end)
                return found
            if not held.startswith(MAGIC):
                self._fail(end)
                return found
            self._begun, at = True, COOKIE_BYTES
        while end - at >= HEAD.size:
            size, seconds, micro, sender, kind, _ = HEAD.unpack_from(held, at)
            if not HEAD.size <= size <= MOST_BYTES or micro >= 1_000_000:
                self._fail(end - at)
                return found
            if at + size + -size % 8 > end:
                break
            payload = bytes(held[at + HEAD.size : at + size])
            at += size + -size % 8
            message = self._message(kind, sender, seconds * 1_000_000 + micro, payload)
            if message is not None:
                found.append(message)
        del held[:at]
        return found

    def _fail(self, left: int) -> None:
        self.broken = True
        self.bad_frames += 1
        self.dropped_bytes += left
        self._held.clear()

    def _message(self, kind: int, sender: int, time_us: int, payload: bytes) -> VrpnMessage | None:
        if kind in (SENDER, TYPE):
            names = self.senders if kind == SENDER else self._types
            if len(payload) > _LENGTH.size and len(names) < MOST_NAMES:
                text = payload[_LENGTH.size :].partition(b"\0")[0][:NAME_BYTES]
                names[sender] = text.decode("utf-8", "replace")
            return None
        if kind < 0:
            return None
        name = self.senders.get(sender, str(sender))
        return VrpnMessage(name, self._types.get(kind, f"type {kind}"), time_us, payload)


class VrpnParams(MocapParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a VRPN server. ``body`` is the name of the tracker."""

    up_axis: Up = "z"
    """Vertical axis of the stream: ``y`` for Motive as it is delivered."""
    sensor: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Number of the sensor in the tracker."""


class VrpnDevice(MocapDevice):
    """Driver of a tracker of a VRPN server on a TCP port."""

    name: ClassVar[str] = "vrpn"
    transport: ClassVar[Transport] = "stream"
    Params: ClassVar[type[VrpnParams]] = VrpnParams
    params: VrpnParams

    def __init__(
        self, params: VrpnParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader = self._stream = VrpnReader()
        self._others: set[str] = set()
        self._stamp_us, self._stamped_ns = -1, 0
        self._clock = DeviceClock(tick_ns=1e3, bits=None, latency_ns=round(params.latency_s * 1e9))
        super().__init__(params, messages, command_lifetime_ns)

    @property
    def advice(self) -> str:
        """Advice where nothing arrives."""
        others = ", ".join(f'"{name}"' for name in sorted(self._others)[:10])
        if others:
            return f'the server tracks {others}, and "{self.params.body}" is asked for'
        return (
            "look whether the server streams by VRPN, and whether it sees the body: some send "
            "nothing without it"
        )

    def restart(self, now_ns: int) -> None:
        """Greet the server."""
        self._stream.clear()
        self._others.clear()
        self._stamp_us = -1
        self._clock = DeviceClock(tick_ns=1e3, bits=None, latency_ns=self._latency_ns)
        self.send(cookie(), now_ns)

    def sightings(self, data: bytes, t_rx_ns: int) -> Sequence[BodySighting]:
        before = self._stream.broken
        found = []
        for message in self._stream.feed(data):
            sighting = self._sighting(message, t_rx_ns)
            if sighting is not None:
                found.append(sighting)
        if self._stream.broken and not before:
            self._tx.append(Reopen("the stream is no VRPN of version 7"))
        return found

    def _time_ns(self, time_us: int, t_rx_ns: int) -> int:
        """Return the time of a pose; that of its arrival from a server whose stamps stand still."""
        t_ns = self._clock.update(time_us, t_rx_ns)
        if time_us != self._stamp_us:
            self._stamp_us, self._stamped_ns = time_us, t_rx_ns
        elif t_rx_ns - self._stamped_ns > STANDS_NS:
            self.usage.lose(POSE_TYPE, Unused.STUCK, "time", time_us)
            return t_rx_ns - self._latency_ns
        return t_ns

    def _sighting(self, message: VrpnMessage, t_rx_ns: int) -> BodySighting | None:
        if message.kind != POSE_TYPE:
            self.usage.refuse(message.kind, Unused.NOT_READ)
            return None
        pose = read_pose(message.payload)
        if pose is None:
            self.usage.refuse(POSE_TYPE, Unused.UNREADABLE, value=len(message.payload))
            return None
        if message.sender != (self.params.body or message.sender) or (
            pose.sensor != self.params.sensor
        ):
            if len(self._others) < MOST_NAMES:
                self._others.add(message.sender)
            self.usage.refuse(POSE_TYPE, Unused.FOREIGN)
            return None
        t_ns = self._time_ns(message.time_us, t_rx_ns)
        up = self.params.up_axis
        x, y, z = z_up(pose.attitude[:3], up)
        return BodySighting(
            POSE_TYPE, t_ns, None, z_up(pose.position_m, up), (x, y, z, pose.attitude[3])
        )


def decode(data: bytes) -> Iterator[tuple[str, Any]]:
    """Iterate over the messages of a recorded stream."""
    for message in VrpnReader().feed(data):
        pose = read_pose(message.payload) if message.kind == POSE_TYPE else None
        yield message.kind, message if pose is None else (message.sender, *pose)
