"""UDP object stream of Vicon Tracker: the codec in both directions, and the driver. See NOTES.md.

``frame u32 | items u8``, then for each item ``id u8 | size u16 | name 24 bytes | translation 3
double, mm | rotation 3 double, rad``; little-endian, in a block of fixed size.
"""

from collections.abc import Iterator, Sequence
from math import cos, sin
from struct import Struct as Layout
from typing import Any, ClassVar, NamedTuple

from drivers.mocap.base import BodySighting, MocapDevice, MocapParams, Quaternion, Up, Vector, z_up
from vehicled.core.messages import Message
from vehicled.core.ports import Transport
from vehicled.core.wire.datagram import datagram_reader
from vehicled.core.wire.usage import Unused

HEAD, ITEM, OBJECT_DATA = Layout("<IB"), Layout("<BH"), Layout("<24s6d")
OBJECT = 0
"""Item id of an object."""
BLOCK_BYTES = 256
"""Smallest block; others have 512 and 1024 bytes."""
NAME = "Objects"


class ViconObject(NamedTuple):
    """Object of a block, in the axes of the system."""

    name: str
    position_m: Vector
    rotation_rad: Vector
    """Angles about x, y and z, in this order, about the turned axes."""


class ObjectBlock(NamedTuple):
    """One datagram."""

    number: int
    objects: tuple[ViconObject, ...]


class ViconError(ValueError):
    """A datagram that is no block of objects."""


def read(data: bytes) -> ObjectBlock:
    """Return the objects of a datagram. Raises :class:`ViconError` for one that is cut."""
    if len(data) < HEAD.size:
        raise ViconError(f"a block of {len(data)} bytes")
    number, count = HEAD.unpack_from(data)
    at, found = HEAD.size, []
    for _ in range(count):
        if at + ITEM.size > len(data):
            raise ViconError(f"{count} items in {len(data)} bytes")
        kind, size = ITEM.unpack_from(data, at)
        at += ITEM.size
        if at + size > len(data):
            raise ViconError(f"an item of {size} bytes at byte {at} of {len(data)}")
        if kind == OBJECT and size >= OBJECT_DATA.size:
            name, x, y, z, a, b, c = OBJECT_DATA.unpack_from(data, at)
            text = name.partition(b"\0")[0].decode("utf-8", "replace")
            found.append(ViconObject(text, (x * 1e-3, y * 1e-3, z * 1e-3), (a, b, c)))
        at += size
    return ObjectBlock(number, tuple(found))


def write(block: ObjectBlock) -> bytes:
    """Return the datagram of a block, filled up to its size."""
    parts = [HEAD.pack(block.number & 0xFFFF_FFFF, len(block.objects))]
    for each in block.objects:
        x, y, z = each.position_m
        parts.append(ITEM.pack(OBJECT, OBJECT_DATA.size))
        parts.append(
            OBJECT_DATA.pack(each.name.encode()[:24], x * 1e3, y * 1e3, z * 1e3, *each.rotation_rad)
        )
    data = b"".join(parts)
    size = BLOCK_BYTES
    while size < len(data):
        size *= 2
    return data.ljust(size, b"\0")


def quaternion(rotation_rad: Vector) -> Quaternion:
    """Return the attitude of angles about the turned axes x, y and z."""
    a, b, c = (0.5 * each for each in rotation_rad)
    ca, sa, cb, sb, cc, sc = cos(a), sin(a), cos(b), sin(b), cos(c), sin(c)
    return (
        sa * cb * cc + ca * sb * sc,
        ca * sb * cc - sa * cb * sc,
        ca * cb * sc + sa * sb * cc,
        ca * cb * cc - sa * sb * sc,
    )


class ViconParams(MocapParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a Vicon Tracker. ``body`` is the name of the object."""

    up_axis: Up = "z"
    """Vertical axis of the stream."""


class ViconDevice(MocapDevice):
    """Driver of a Vicon Tracker that sends its UDP object stream to this computer. It asks
    nothing."""

    name: ClassVar[str] = "vicon"
    transport: ClassVar[Transport] = "datagrams"
    cure: ClassVar[str] = (
        "in Tracker enable the UDP object stream with the address of this computer and the port "
        "after listen=, and let a firewall pass it"
    )
    Params: ClassVar[type[ViconParams]] = ViconParams
    params: ViconParams

    def __init__(
        self, params: ViconParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader = self._datagrams = datagram_reader()
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self, now_ns: int) -> None:
        """Drop a begun record."""
        self._datagrams.clear()

    def sightings(self, data: bytes, t_rx_ns: int) -> Sequence[BodySighting]:
        found = []
        for datagram in self._datagrams.feed(data):
            try:
                found.append(self._sighting(read(datagram), t_rx_ns))
            except ViconError as error:
                self.usage.refuse(NAME, Unused.UNREADABLE, value=str(error))
        return found

    def _sighting(self, block: ObjectBlock, t_rx_ns: int) -> BodySighting:
        t_ns = t_rx_ns - self._latency_ns
        wanted = [
            each for each in block.objects if each.name == self.params.body or not self.params.body
        ]
        if len(wanted) != 1:
            names = ", ".join(f'"{each.name}"' for each in block.objects[:10]) or "none"
            what = f'no object "{self.params.body}"' if self.params.body else "body is not stated"
            return BodySighting(
                NAME, t_ns, block.number, missing=f"{what}; the system sends {names}"
            )
        x, y, z, w = quaternion(wanted[0].rotation_rad)
        up = self.params.up_axis
        return BodySighting(
            NAME, t_ns, block.number, z_up(wanted[0].position_m, up), (*z_up((x, y, z), up), w)
        )


def decode(data: bytes) -> Iterator[tuple[str, Any]]:
    """Iterate over the objects in the records of a UDP port."""
    for datagram in datagram_reader().feed(data):
        try:
            block = read(datagram)
        except ViconError:
            continue
        if block.objects and all(each.name.isprintable() for each in block.objects):
            yield NAME, block
