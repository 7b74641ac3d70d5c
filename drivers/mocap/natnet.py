"""NatNet of OptiTrack Motive, versions 2.0 to 4.x: the codec in both directions. Sources: NOTES.md.

A packet is one datagram: message number u16, bytes of its payload u16, payload; little-endian. The
layout of a frame depends on the version, which only the server's answer to a connect request
states. Of a stream whose version is unknown, the layout is the one that consumes a frame exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from struct import Struct as Layout
from typing import Any, NamedTuple, TypeVar

Version = tuple[int, int]
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Item = TypeVar("Item")


class MessageId(IntEnum):
    """Message numbers."""

    CONNECT = 0
    SERVER_INFO = 1
    REQUEST = 2
    RESPONSE = 3
    REQUEST_DESCRIPTIONS = 4
    DESCRIPTIONS = 5
    REQUEST_FRAME = 6
    FRAME = 7
    TEXT = 8
    DISCONNECT = 9
    KEEP_ALIVE = 10
    ECHO_REQUEST = 12
    ECHO_RESPONSE = 13
    DISCOVERY = 14
    UNRECOGNIZED = 100


HEAD = Layout("<HH")
_INT, _SHORT, _FLOAT, _DOUBLE = Layout("<i"), Layout("<h"), Layout("<f"), Layout("<d")
_FLOATS3, _BODY, _TICKS = Layout("<3f"), Layout("<i7f"), Layout("<3Q")
_LABELLED = (Layout("<i4f"), Layout("<i4fh"), Layout("<i4fhf"))
_ASSET_BODY, _ASSET_MARKER = Layout("<i7ffh"), Layout("<i4fhf")
_MARK = Layout("<4B")
_SENDER = Layout("<256s4B4B")
_CONNECTION = Layout("<QHB4B")
NAME_BYTES = 256
"""Longest name, with its end."""
MOST_BYTES = 65_507

LAYOUTS: tuple[Version, ...] = (
    (4, 1), (4, 0), (3, 0), (2, 11), (2, 9), (2, 7), (2, 6), (2, 3), (2, 1), (2, 0),
)  # fmt: skip
"""Versions that changed the layout of frames, newest first. A version between two has the older
layout."""
LATEST_S = 1e9
"""Time stamps are below: the server's software counts from its start."""
TRACKED = 1
"""Bit of a body's parameters: it is tracked in this frame."""


class NatNetError(ValueError):
    """A packet that its layout cannot read."""


class TrackedBody(NamedTuple):
    """Rigid body in a frame: its pivot, and its attitude as a quaternion x, y, z, w."""

    number: int
    """Streaming ID."""
    position_m: Vector
    attitude: Quaternion
    marker_error_m: float = 0.0
    """Mean error of its markers."""
    tracked: bool | None = None
    """False: the pose is the last one that was tracked; None before version 2.6, which does not
    say."""


class Marker(NamedTuple):
    """Labelled marker."""

    model: int
    """Number of its body or skeleton; 0 for none."""
    number: int
    position_m: Vector
    size_m: float
    params: int = 0
    residual_m: float = 0.0


class Bones(NamedTuple):
    """Skeleton, or another asset of several bodies."""

    number: int
    bodies: tuple[TrackedBody, ...]
    markers: int = 0
    """Number of its markers, of an asset."""


class ChannelSamples(NamedTuple):
    """Samples of a force plate or another device, by channel."""

    number: int
    samples: tuple[tuple[float, ...], ...]


class Frame(NamedTuple):
    """Frame of motion capture data."""

    number: int
    bodies: tuple[TrackedBody, ...] = ()
    timestamp_s: float = 0.0
    """Time since the start of the server's software; 0 if the version states none."""
    ticks: tuple[int, int, int] = (0, 0, 0)
    """Counter of the server's clock: middle of the exposure, reception of the camera data, and
    transmission; 0 before version 3."""
    latency_s: float = 0.0
    """Latency of the server's software, before version 3."""
    params: int = 0
    """Bit 0: recording. Bit 1: the tracked models changed."""
    marker_sets: tuple[tuple[str, tuple[Vector, ...]], ...] = ()
    other_markers: tuple[Vector, ...] = ()
    markers: tuple[Marker, ...] = ()
    skeletons: tuple[Bones, ...] = ()
    assets: tuple[Bones, ...] = ()
    force_plates: tuple[ChannelSamples, ...] = ()
    devices: tuple[ChannelSamples, ...] = ()
    version: Version = (0, 0)
    """Layout by which it was read."""


class BodyDescription(NamedTuple):
    """Description of a rigid body."""

    name: str
    number: int
    parent: int = -1
    offset_m: Vector = (0.0, 0.0, 0.0)
    markers: tuple[Vector, ...] = ()
    """Places of its markers in the body, since version 3."""


class OtherDescription(NamedTuple):
    """Description of anything else: its kind, name and number."""

    kind: str
    name: str
    number: int = 0
    bodies: tuple[BodyDescription, ...] = ()


class ServerInfo(NamedTuple):
    """Answer to a connect request."""

    application: str
    application_version: tuple[int, int, int, int]
    version: tuple[int, int, int, int]
    tick_hz: int = 0
    """Frequency of the server's clock, Hz; 0 before version 3."""
    data_port: int = 0
    multicast: bool | None = None
    """True: frames go to a multicast group; None: not stated."""
    group: str = ""


class NatNetPacket(NamedTuple):
    """NatNetPacket that is read no further."""

    message: int
    payload: bytes


# -------------------------------------------------------------------- reading


def layout_of(version: Sequence[int]) -> Version:
    """Return the layout of frames of a version."""
    wanted = version[0], version[1]
    return next((each for each in LAYOUTS if each <= wanted), LAYOUTS[-1])


def split(data: bytes) -> NatNetPacket:
    """Return message number and payload of a packet. Raises :class:`NatNetError` for a truncated
    one."""
    if len(data) < HEAD.size:
        raise NatNetError(f"a packet of {len(data)} bytes")
    message, size = HEAD.unpack_from(data)
    if len(data) < HEAD.size + size:
        raise NatNetError(f"{len(data) - HEAD.size} bytes of {size}: the packet is truncated")
    return NatNetPacket(message, data[HEAD.size : HEAD.size + size])


class _Reader:
    """Cursor over a payload. Every count is checked against the bytes that are left."""

    def __init__(self, data: bytes, version: Version, *, guessed: bool = False) -> None:
        """``guessed``: the version is tried, so a section that cannot be read refutes it. Of a
        version that is known, it is one that a newer server writes differently."""
        self.data, self.at, self.end, self.version = data, 0, len(data), version
        self._guessed = guessed
        self.marked = False
        """True if a frame has ended with its mark of zeros."""

    def take(self, layout: Layout) -> tuple[float, ...]:
        at = self.at
        self.at = at + layout.size
        if self.at > self.end:
            raise NatNetError(f"ends after {self.end} bytes")
        return layout.unpack_from(self.data, at)

    def integer(self) -> int:
        return int(self.take(_INT)[0])

    def count(self, least_bytes: int) -> int:
        """Read a number of items that have ``least_bytes`` each at least."""
        count = self.integer()
        if not 0 <= count * least_bytes <= self.end - self.at or count < 0:
            raise NatNetError(f"{count} items at byte {self.at}")
        return count

    def many(self, layout: Layout, count: int) -> list[tuple[float, ...]]:
        size = count * layout.size
        begin = self.at
        self.skip(size)
        return list(layout.iter_unpack(self.data[begin : begin + size]))

    def skip(self, size: int) -> None:
        if not 0 <= size <= self.end - self.at:
            raise NatNetError(f"{size} bytes at byte {self.at} of {self.end}")
        self.at += size

    def text(self) -> str:
        stop = self.data.find(b"\0", self.at, min(self.end, self.at + NAME_BYTES))
        if stop < 0:
            raise NatNetError(f"a name without an end at byte {self.at}")
        begin, self.at = self.at, stop + 1
        return self.data[begin:stop].decode("utf-8", "replace")

    def section(self, least_bytes: int) -> tuple[int, int | None]:
        """Read the head of a section: its count, and where it ends, since version 4.1."""
        count = self.integer()
        stop = None
        if self.version >= (4, 1):
            size = self.integer()
            if not 0 <= size <= self.end - self.at:
                raise NatNetError(f"a section of {size} bytes at byte {self.at}")
            stop = self.at + size
        room = (self.end if stop is None else stop) - self.at
        if not 0 <= count * least_bytes <= room or count < 0:
            raise NatNetError(f"{count} items at byte {self.at}")
        return count, stop

    def leave(self, stop: int | None) -> None:
        """Go to the end of a section; a newer version may have appended to its items."""
        if stop is not None:
            if self.at > stop:
                raise NatNetError(f"a section ends at byte {stop}, not {self.at}")
            self.at = stop

    def pass_over(self, stop: int | None) -> bool:
        """Go to the end of a section that cannot be read; return False where its end is not
        known."""
        if stop is None or self._guessed:
            return False
        self.at = stop
        return True


def _body(r: _Reader) -> TrackedBody:
    number, x, y, z, qx, qy, qz, qw = r.take(_BODY)
    error = 0.0
    if r.version < (3, 0):
        r.skip(r.count(20 if r.version >= (2, 0) else 12) * (20 if r.version >= (2, 0) else 12))
    if r.version >= (2, 0):
        (error,) = r.take(_FLOAT)
    tracked = bool(int(r.take(_SHORT)[0]) & TRACKED) if r.version >= (2, 6) else None
    return TrackedBody(int(number), (x, y, z), (qx, qy, qz, qw), error, tracked)


def _bodies(r: _Reader) -> tuple[TrackedBody, ...]:
    count, stop = r.section(32)
    if stop is None or not count:
        found = tuple([_body(r) for _ in range(count)])
    else:
        # A newer version may have longer items.
        begin, size = r.at, (stop - r.at) // count
        if size * count != stop - r.at or size < 38:
            raise NatNetError(f"{count} bodies in {stop - r.at} bytes")
        items = []
        for i in range(count):
            r.at = begin + i * size
            items.append(_body(r))
        found = tuple(items)
    r.leave(stop)
    return found


def _skeleton(r: _Reader) -> Bones:
    number = r.integer()
    return Bones(number, tuple([_body(r) for _ in range(r.count(32))]))


def _asset(r: _Reader) -> Bones:
    number = r.integer()
    bodies = tuple(
        [
            TrackedBody(int(n), (x, y, z), (qx, qy, qz, qw), error, bool(int(params) & TRACKED))
            for n, x, y, z, qx, qy, qz, qw, error, params in r.many(
                _ASSET_BODY, r.count(_ASSET_BODY.size)
            )
        ]
    )
    markers = r.count(_ASSET_MARKER.size)
    r.skip(markers * _ASSET_MARKER.size)
    return Bones(number, bodies, markers)


def _channels(r: _Reader) -> ChannelSamples:
    number = r.integer()
    samples = [tuple([each[0] for each in r.many(_FLOAT, r.count(4))]) for _ in range(r.count(4))]
    return ChannelSamples(number, tuple(samples))


def _section(r: _Reader, read: Callable[[_Reader], Item], least_bytes: int) -> tuple[Item, ...]:
    count, stop = r.section(least_bytes)
    try:
        found = tuple([read(r) for _ in range(count)])
        r.leave(stop)
    except NatNetError:
        if not r.pass_over(stop):
            raise
        return ()
    return found


def _vectors(found: list[tuple[float, ...]]) -> tuple[Vector, ...]:
    return tuple([(x, y, z) for x, y, z in found])


def _marker_set(r: _Reader) -> tuple[str, tuple[Vector, ...]]:
    name = r.text()
    return name, _vectors(r.many(_FLOATS3, r.count(12)))


def _labelled(r: _Reader) -> tuple[Marker, ...]:
    layout = _LABELLED[(r.version >= (2, 6)) + (r.version >= (3, 0))]
    count, stop = r.section(layout.size)
    found = []
    for number, x, y, z, size, *rest in r.many(layout, count):
        model, own = divmod(int(number) & 0xFFFF_FFFF, 1 << 16)
        found.append(Marker(model, own, (x, y, z), size, int(rest[0]) if rest else 0, *rest[1:]))
    r.leave(stop)
    return tuple(found)


def _suffix(r: _Reader) -> dict[str, Any]:
    """Read what follows the data: latency, time code, time stamps, parameters, end mark."""
    found: dict[str, Any] = {}
    if r.version < (3, 0):
        (found["latency_s"],) = r.take(_FLOAT)
    r.skip(8)  # time code
    if r.version >= (2, 7):
        (found["timestamp_s"],) = r.take(_DOUBLE)
    elif r.version >= (2, 6):
        (found["timestamp_s"],) = r.take(_FLOAT)
    if r.version >= (3, 0):
        found["ticks"] = tuple(map(int, r.take(_TICKS)))
    if r.version >= (4, 0):
        r.skip(8)  # time by an external clock, seconds and their fraction
    if r.version >= (2, 6):
        found["params"] = int(r.take(_SHORT)[0])
    if r.end - r.at:
        r.marked = not any(r.take(_MARK))
    return found


def read_frame(payload: bytes, version: Version) -> Frame:
    """Return a frame in the layout of a version. Raises :class:`NatNetError` if it has another
    one."""
    return _read_frame(_Reader(payload, version))


def _read_frame(r: _Reader) -> Frame:
    version, number = r.version, r.integer()
    sets = _section(r, _marker_set, 5)
    count, stop = r.section(12)
    others = r.many(_FLOATS3, count)
    r.leave(stop)
    bodies = _bodies(r)
    skeletons = _section(r, _skeleton, 8) if version > (2, 0) else ()
    assets = _section(r, _asset, 12) if version >= (4, 1) else ()
    markers = _labelled(r) if version >= (2, 3) else ()
    plates = _section(r, _channels, 8) if version >= (2, 9) else ()
    devices = _section(r, _channels, 8) if version >= (2, 11) else ()
    suffix = _suffix(r)
    if r.at != r.end and version < (4, 1):
        raise NatNetError(f"{r.end - r.at} bytes are left")
    return Frame(
        number, bodies, marker_sets=sets, other_markers=_vectors(others), markers=markers,
        skeletons=skeletons, assets=assets, force_plates=plates, devices=devices,
        version=version, **suffix,
    )  # fmt: skip


def guess_frame(payload: bytes) -> Frame:
    """Return a frame of an unknown version: of the layouts that consume it exactly the one whose
    attitudes are rotations and whose times are times, newest first. Raises :class:`NatNetError` if
    none does.

    Servers end a frame with a mark of zeros. A layout that leaves none would take the mark, or
    another field, for part of its times.
    """
    without_mark = None
    for version in LAYOUTS:
        r = _Reader(payload, version, guessed=True)
        try:
            frame = _read_frame(r)
        except NatNetError:
            continue
        bodies = (*frame.bodies, *(body for bones in frame.skeletons for body in bones.bodies))
        if not all(is_rotation(body.attitude) for body in bodies) or not _is_time(frame):
            continue
        if r.marked:
            return frame
        without_mark = without_mark or frame
    if without_mark is None:
        raise NatNetError("no known layout of a frame")
    return without_mark


def _is_time(frame: Frame) -> bool:
    """True for times that a server may state: seconds of a run, or ticks since its start."""
    stated = frame.timestamp_s, frame.latency_s
    return all(0.0 <= each < LATEST_S for each in stated)


def is_rotation(attitude: Quaternion) -> bool:
    """True for a quaternion of length one, or of zeros, as for a body that was never tracked."""
    square = sum(each * each for each in attitude)
    return abs(square - 1.0) < 0.02 or square == 0.0


def _body_description(r: _Reader) -> BodyDescription:
    name = r.text() if r.version >= (2, 0) else ""
    number, parent = r.integer(), r.integer()
    offset = r.take(_FLOATS3)
    markers: list[tuple[float, ...]] = []
    if r.version >= (3, 0):
        count = r.count(16)
        markers = r.many(_FLOATS3, count)
        r.skip(4 * count)  # active labels
        if r.version >= (4, 0):
            for _ in range(count):
                r.text()
    return BodyDescription(name, number, parent, offset, tuple(markers))  # type: ignore[arg-type]


def _names(r: _Reader, count: int) -> None:
    for _ in range(count):
        r.text()


def _marker_set_description(r: _Reader) -> OtherDescription:
    name = r.text()
    _names(r, r.count(1))
    return OtherDescription("marker set", name)


def _skeleton_description(r: _Reader) -> OtherDescription:
    name, number = r.text(), r.integer()
    bones = tuple([_body_description(r) for _ in range(r.count(20))])
    return OtherDescription("skeleton", name, number, bones)


def _plate_description(r: _Reader) -> OtherDescription:
    number, serial = r.integer(), r.text()
    r.skip(8 + 12 + 144 * 4 + 48 + 8)
    _names(r, r.count(1))
    return OtherDescription("force plate", serial, number)


def _device_description(r: _Reader) -> OtherDescription:
    number, name = r.integer(), r.text()
    r.text()
    r.skip(8)
    _names(r, r.count(1))
    return OtherDescription("device", name, number)


def _camera_description(r: _Reader) -> OtherDescription:
    name = r.text()
    r.skip(28)
    return OtherDescription("camera", name)


def _asset_description(r: _Reader) -> OtherDescription:
    name, _, number = r.text(), r.integer(), r.integer()
    bones = tuple([_body_description(r) for _ in range(r.count(20))])
    for _ in range(r.count(23)):
        r.text()
        r.skip(22)
    return OtherDescription("asset", name, number, bones)


_DESCRIPTIONS: tuple[Callable[[_Reader], BodyDescription | OtherDescription], ...] = (
    _marker_set_description, _body_description, _skeleton_description, _plate_description,
    _device_description, _camera_description, _asset_description,
)  # fmt: skip
_RIGID_BODY = _DESCRIPTIONS.index(_body_description)


def read_descriptions(payload: bytes, version: Version) -> list[BodyDescription | OtherDescription]:
    """Return the descriptions of everything that is streamed, in the server's order. Raises
    :class:`NatNetError`."""
    return _read_descriptions(_Reader(payload, version))


def guess_descriptions(payload: bytes) -> list[BodyDescription | OtherDescription]:
    """Return descriptions of an unknown version: by the layout that consumes them exactly. Raises
    :class:`NatNetError`."""
    for version in ((4, 1), (4, 0), (3, 0), (2, 11)):
        r = _Reader(payload, version, guessed=True)
        try:
            found = _read_descriptions(r)
        except NatNetError:
            continue
        if r.at == r.end:
            return found
    raise NatNetError("no known layout of descriptions")


def _read_descriptions(r: _Reader) -> list[BodyDescription | OtherDescription]:
    found: list[BodyDescription | OtherDescription] = []
    for _ in range(r.count(5)):
        kind = r.integer()
        stop = None
        if r.version >= (4, 1):
            size = r.integer()
            if not 0 <= size <= r.end - r.at:
                raise NatNetError(f"a description of {size} bytes at byte {r.at}")
            stop = r.at + size
        try:
            if 0 <= kind < len(_DESCRIPTIONS):
                found.append(_DESCRIPTIONS[kind](r))
            elif stop is None:
                raise NatNetError(f"a description of kind {kind} at byte {r.at}")
            r.leave(stop)
        except NatNetError:
            if kind == _RIGID_BODY or not r.pass_over(stop):
                raise
    return found


def read_server_info(payload: bytes) -> ServerInfo:
    """Return what a server says of itself. Raises :class:`NatNetError` for a truncated answer."""
    if len(payload) < _SENDER.size:
        raise NatNetError(f"a server's answer of {len(payload)} bytes")
    name, *versions = _SENDER.unpack_from(payload)
    application, version = tuple(versions[:4]), tuple(versions[4:])
    text = name.partition(b"\0")[0].decode("utf-8", "replace")
    if len(payload) < _SENDER.size + _CONNECTION.size:
        return ServerInfo(text, application, version)
    tick_hz, port, multicast, *group = _CONNECTION.unpack_from(payload, _SENDER.size)
    return ServerInfo(
        text, application, version, tick_hz, port, bool(multicast), ".".join(map(str, group))
    )


Content = Frame | ServerInfo | list[BodyDescription | OtherDescription] | NatNetPacket


def read(data: bytes, version: Version | None = None) -> Content:
    """Return the content of a packet. Raises :class:`NatNetError` for one that cannot be read."""
    packet = split(data)
    if packet.message == MessageId.FRAME:
        return (
            guess_frame(packet.payload) if version is None else read_frame(packet.payload, version)
        )
    if packet.message == MessageId.DESCRIPTIONS:
        if version is None:
            return guess_descriptions(packet.payload)
        return read_descriptions(packet.payload, version)
    if packet.message == MessageId.SERVER_INFO:
        return read_server_info(packet.payload)
    return packet


NAMES = {
    MessageId.FRAME: "FrameOfData", MessageId.DESCRIPTIONS: "ModelDef",
    MessageId.SERVER_INFO: "ServerInfo", MessageId.CONNECT: "Connect",
    MessageId.TEXT: "MessageString",
    MessageId.RESPONSE: "Response", MessageId.ECHO_REQUEST: "EchoRequest",
    MessageId.ECHO_RESPONSE: "EchoResponse", MessageId.DISCOVERY: "Discovery",
    MessageId.KEEP_ALIVE: "KeepAlive", MessageId.REQUEST: "Request",
    MessageId.REQUEST_DESCRIPTIONS: "RequestModelDef", MessageId.REQUEST_FRAME: "RequestFrame",
    MessageId.DISCONNECT: "Disconnect", MessageId.UNRECOGNIZED: "UnrecognizedRequest",
}  # fmt: skip


_NAMES: dict[int, str] = {int(number): name for number, name in NAMES.items()}


def name_of(message: int) -> str:
    """Return the name of a message."""
    return _NAMES.get(message, f"message {message}")


# -------------------------------------------------------------------- writing


def packet(message: int, payload: bytes = b"") -> bytes:
    """Return a packet."""
    return HEAD.pack(message, len(payload)) + payload


def connect(version: Sequence[int] = (4, 1, 0, 0), message: int = MessageId.CONNECT) -> bytes:
    """Return a connect or discovery request of a client of a version."""
    four = (*version, 0, 0, 0, 0)[:4]
    return packet(message, _SENDER.pack(b"NatNetLib", *four, *four))


def write_server_info(info: ServerInfo) -> bytes:
    """Return the packet of a server's answer."""
    payload = _SENDER.pack(
        info.application.encode()[:255], *info.application_version, *info.version
    )
    if info.tick_hz:
        group = [int(each) for each in (info.group or "0.0.0.0").split(".")]
        payload += _CONNECTION.pack(info.tick_hz, info.data_port, bool(info.multicast), *group)
    return packet(MessageId.SERVER_INFO, payload)


class _FrameWriter:
    """Sections of a payload in the layout of a version."""

    def __init__(self, version: Version) -> None:
        self.version, self.parts = version, bytearray()

    def section(self, items: Sequence[bytes]) -> None:
        content = b"".join(items)
        self.parts += _INT.pack(len(items))
        if self.version >= (4, 1):
            self.parts += _INT.pack(len(content))
        self.parts += content


def _text(name: str) -> bytes:
    return name.encode()[: NAME_BYTES - 1] + b"\0"


def _written_body(body: TrackedBody, version: Version) -> bytes:
    found = _BODY.pack(body.number, *body.position_m, *body.attitude)
    if version < (3, 0):
        found += _INT.pack(0)
    if version >= (2, 0):
        found += _FLOAT.pack(body.marker_error_m)
    if version >= (2, 6):
        found += _SHORT.pack(TRACKED if body.tracked else 0)
    return found


def _written_channels(each: ChannelSamples) -> bytes:
    return (
        _INT.pack(each.number)
        + _INT.pack(len(each.samples))
        + b"".join(
            _INT.pack(len(samples)) + b"".join(map(_FLOAT.pack, samples))
            for samples in each.samples
        )
    )


def write_frame(frame: Frame, version: Version) -> bytes:
    """Return the packet of a frame in the layout of a version; parts that it does not have are
    left out."""
    w = _FrameWriter(version)
    w.parts += _INT.pack(frame.number)
    w.section(
        [
            _text(name) + _INT.pack(len(places)) + b"".join(_FLOATS3.pack(*each) for each in places)
            for name, places in frame.marker_sets
        ]
    )
    w.section([_FLOATS3.pack(*each) for each in frame.other_markers])
    w.section([_written_body(each, version) for each in frame.bodies])
    if version > (2, 0):
        w.section(
            [
                _INT.pack(each.number)
                + _INT.pack(len(each.bodies))
                + b"".join(_written_body(body, version) for body in each.bodies)
                for each in frame.skeletons
            ]
        )
    if version >= (4, 1):
        w.section(
            [
                _INT.pack(each.number)
                + _INT.pack(len(each.bodies))
                + b"".join(_written_body(body, version) for body in each.bodies)
                + _INT.pack(0)
                for each in frame.assets
            ]
        )
    if version >= (2, 3):
        layout = _LABELLED[(version >= (2, 6)) + (version >= (3, 0))]
        width = len(layout.unpack(bytes(layout.size)))
        items = []
        for each in frame.markers:
            number = (each.model << 16 | each.number) & 0xFFFF_FFFF
            signed = number - (number >> 31 << 32)
            values = (signed, *each.position_m, each.size_m, each.params, each.residual_m)
            items.append(layout.pack(*values[:width]))
        w.section(items)
    if version >= (2, 9):
        w.section([_written_channels(each) for each in frame.force_plates])
    if version >= (2, 11):
        w.section([_written_channels(each) for each in frame.devices])
    if version < (3, 0):
        w.parts += _FLOAT.pack(frame.latency_s)
    w.parts += bytes(8)
    if version >= (2, 7):
        w.parts += _DOUBLE.pack(frame.timestamp_s)
    elif version >= (2, 6):
        w.parts += _FLOAT.pack(frame.timestamp_s)
    if version >= (3, 0):
        w.parts += _TICKS.pack(*frame.ticks)
    if version >= (4, 0):
        w.parts += bytes(8)
    if version >= (2, 6):
        w.parts += _SHORT.pack(frame.params)
    return packet(MessageId.FRAME, bytes(w.parts) + bytes(4))


def write_descriptions(
    bodies: Sequence[BodyDescription | OtherDescription], version: Version
) -> bytes:
    """Return the payload of the descriptions of rigid bodies."""
    parts = [_INT.pack(len(bodies))]
    for body in bodies:
        if not isinstance(body, BodyDescription):
            raise NatNetError(f"descriptions of a {body.kind} are only read")
        own = (
            _text(body.name)
            + _INT.pack(body.number)
            + _INT.pack(body.parent)
            + _FLOATS3.pack(*body.offset_m)
        )
        if version >= (3, 0):
            own += _INT.pack(len(body.markers))
            own += b"".join(_FLOATS3.pack(*each) for each in body.markers)
            own += bytes(4 * len(body.markers))
            if version >= (4, 0):
                own += bytes(len(body.markers))
        parts.append(_INT.pack(1) + (_INT.pack(len(own)) if version >= (4, 1) else b"") + own)
    return b"".join(parts)


# -------------------------------------------------------------------- recordings


def packets(data: bytes) -> Iterator[NatNetPacket]:
    """Iterate over the packets of a recording without datagram bounds; what is none is skipped."""
    try:
        packet = split(data)
        if HEAD.size + len(packet.payload) == len(data):
            yield packet
            return
    except NatNetError:
        pass
    at, end, left = 0, len(data), SEARCHED_PER_BYTE * len(data)
    while end - at >= HEAD.size and left > 0:
        message, size = HEAD.unpack_from(data, at)
        least = _LEAST_BYTES.get(message, MOST_BYTES)
        if least <= size <= end - at - HEAD.size:
            left -= size
            found = NatNetPacket(message, data[at + HEAD.size : at + HEAD.size + size])
            if _is_sound(found):
                yield found
                at += HEAD.size + size
                continue
        at += 1


SEARCHED_PER_BYTE = 24
"""Bytes of packets that are tried per byte of a recording."""
_LEAST_BYTES = {
    MessageId.FRAME: 28, MessageId.DESCRIPTIONS: 8, MessageId.SERVER_INFO: 264,
    MessageId.CONNECT: 264,
}  # fmt: skip
"""Fewest bytes of the packets that are recognised in a stream without bounds."""


def _is_sound(found: NatNetPacket) -> bool:
    if found.message == MessageId.CONNECT:
        return found.payload[:1].isalpha() and len(found.payload) == _SENDER.size
    try:
        content = read(packet(*found))
    except NatNetError:
        return False
    if isinstance(content, ServerInfo):
        return content.application.isprintable() and content.application != ""
    return isinstance(content, Frame | list) and bool(content)
