"""Driver of OptiTrack Motive by NatNet, unicast and multicast. See NOTES.md."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from drivers.mocap import natnet
from drivers.mocap.base import BodySighting, MocapDevice, MocapParams, Up, z_up
from drivers.mocap.capture import is_capture, payloads
from drivers.mocap.natnet import (
    BodyDescription,
    Frame,
    NatNetError,
    ServerInfo,
    TrackedBody,
    Version,
)
from vehicled.core.messages import Message
from vehicled.core.ports import Transport
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.datagram import datagram_reader, pack
from vehicled.core.wire.usage import Unused

ASK_NS = 1_000_000_000
"""Pause between two requests that are not answered, and between two signs of life."""
REFRESH_NS = 5_000_000_000
"""Pause between two requests for descriptions while the body is not among them."""
QUIET_NS = 2_000_000_000
"""Silence after which the connection is made anew: Motive may have been restarted."""
LONGEST_DELAY_S = 1.0
"""Longest time from exposure to transmission that is believed."""
MODELS_CHANGED = 2
FRAME = natnet.NAMES[natnet.MessageId.FRAME]


class NatNetParams(MocapParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of OptiTrack Motive. ``body`` is the name of the rigid body in Motive, or its
    streaming ID."""

    up_axis: Up = "y"
    """Vertical axis of the stream: ``y`` as Motive is delivered, ``z`` if its setting Up Axis says
    so."""
    configure: bool = True
    """Ask the server for its version and the names of the bodies, and stay connected. False only
    listens to a multicast group; then ``body`` is a streaming ID."""
    version: Annotated[list[int], Meta(min_length=2, max_length=2)] | None = None
    """Version of the stream, where it is not that of the server. Default: what the server says,
    else the one that fits."""


class NatNetDevice(MocapDevice):
    """Driver of a Motive server on a UDP port."""

    name: ClassVar[str] = "natnet"
    transport: ClassVar[Transport] = "datagrams"
    cure: ClassVar[str] = (
        "in Motive switch on Broadcast Frame Data, choose the local interface of this network "
        "(never loopback), and compare transmission type and multicast address with the port; a "
        "firewall must let UDP 1510 and 1511 pass"
    )
    Params: ClassVar[type[NatNetParams]] = NatNetParams
    params: NatNetParams

    def __init__(
        self, params: NatNetParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader = self._datagrams = datagram_reader()
        self._number_given = int(params.body) if params.body.lstrip("+-").isdecimal() else None
        self._forget_server()
        super().__init__(params, messages, command_lifetime_ns)

    def _forget_server(self) -> None:
        self.server: ServerInfo | None = None
        """Answer of the server to the connect request; None before it."""
        self._version: Version | None = None
        self._clock: DeviceClock | None = None
        self._by_ticks = False
        self._names: dict[str, int] = {}
        self._asked_ns = self._received_ns = self._alive_ns = self._described_ns = 0
        self._stale = True

    def restart(self, now_ns: int) -> None:
        """Ask for the server anew."""
        self._datagrams.clear()
        self._forget_server()
        self._received_ns = now_ns
        if self.params.version is not None:
            self._version = natnet.layout_of(self.params.version)

    def keep_up(self, now_ns: int) -> None:
        """Connect, ask for names, and send signs of life, which a unicast server drops a client
        without."""
        if not self.params.configure:
            return
        if now_ns - self._received_ns > QUIET_NS:
            self.server = None
        if self.server is None:
            if now_ns - self._asked_ns >= ASK_NS or not self._asked_ns:
                self._asked_ns = now_ns
                self._request(natnet.connect(), now_ns)
            return
        if self._stale and now_ns - self._described_ns >= (REFRESH_NS if self._names else ASK_NS):
            self._described_ns = now_ns
            self._request(natnet.packet(natnet.MessageId.REQUEST_DESCRIPTIONS), now_ns)
        if self.server.multicast is not True and now_ns - self._alive_ns >= ASK_NS:
            self._alive_ns = now_ns
            self._request(natnet.packet(natnet.MessageId.KEEP_ALIVE), now_ns)

    def _request(self, data: bytes, now_ns: int) -> None:
        self.send(pack(data), now_ns)

    # ---------------------------------------------------------------- packets

    def sightings(self, data: bytes, t_rx_ns: int) -> Sequence[BodySighting]:
        found = []
        for datagram in self._datagrams.feed(data):
            try:
                packet = natnet.split(datagram)
                sighting = self._take_packet(packet, t_rx_ns)
            except NatNetError as error:
                kind = int.from_bytes(datagram[:2], "little")
                self.usage.refuse(natnet.name_of(kind), Unused.UNREADABLE, value=str(error))
                continue
            if sighting is not None:
                found.append(sighting)
        return found

    def _take_packet(self, packet: natnet.NatNetPacket, t_rx_ns: int) -> BodySighting | None:
        name = natnet.name_of(packet.message)
        if packet.message == natnet.MessageId.FRAME:
            self._received_ns = t_rx_ns
            return self._take_frame(self._read(packet.payload), t_rx_ns)
        if packet.message == natnet.MessageId.SERVER_INFO:
            self._take_server(natnet.read_server_info(packet.payload))
            self._received_ns = t_rx_ns
        elif packet.message == natnet.MessageId.DESCRIPTIONS:
            self._take_descriptions(packet.payload)
        else:
            self.usage.refuse(name, Unused.NOT_READ)
            return None
        self.usage.use(name)
        return None

    def _take_server(self, info: ServerInfo) -> None:
        before, self.server = self.server, info
        if before is None or before.tick_hz != info.tick_hz:
            self._clock = None
        if self.params.version is None:
            self._version = natnet.layout_of(info.version)

    def _take_descriptions(self, payload: bytes) -> None:
        if self._version is None:
            found = natnet.guess_descriptions(payload)
        else:
            found = natnet.read_descriptions(payload, self._version)
        self._names = {
            each.name: each.number for each in found if isinstance(each, BodyDescription)
        }
        self._stale = self.params.body != "" and self._wanted_number() is None

    def _read(self, payload: bytes) -> Frame:
        """Return a frame; the layout that fits takes the place of one that does not."""
        if self._version is not None:
            try:
                return natnet.read_frame(payload, self._version)
            except NatNetError:
                if self.params.version is not None:
                    raise
        frame = natnet.guess_frame(payload)
        self._version = frame.version
        return frame

    # ---------------------------------------------------------------- frames

    def _wanted_number(self) -> int | None:
        if self.params.body in self._names:
            return self._names[self.params.body]
        return self._number_given

    def _take_frame(self, frame: Frame, t_rx_ns: int) -> BodySighting:
        if frame.params & MODELS_CHANGED:
            self._stale = True
        t_ns = self._time_of(frame, t_rx_ns)
        body, missing = self._body(frame)
        if body is None:
            self._stale = True
            return BodySighting(FRAME, t_ns, frame.number, missing=missing)
        x, y, z = z_up(body.attitude[:3], self.params.up_axis)
        return BodySighting(
            FRAME,
            t_ns,
            frame.number,
            z_up(body.position_m, self.params.up_axis),
            (x, y, z, body.attitude[3]),
            body.tracked is not False,
            body.marker_error_m,
        )

    def _body(self, frame: Frame) -> tuple[TrackedBody | None, str]:
        if not self.params.body:
            if len(frame.bodies) == 1:
                return frame.bodies[0], ""
            return None, f"body is not stated, and the system streams {self._seen(frame)}"
        number = self._wanted_number()
        for body in frame.bodies:
            if body.number == number:
                return body, ""
        return None, (
            f'no rigid body "{self.params.body}"; the system streams {self._seen(frame)}: write '
            "its name or its streaming ID, and select it in Motive"
        )

    def _seen(self, frame: Frame) -> str:
        names = {number: name for name, number in self._names.items()}
        found = [
            f'"{names[each.number]}" ({each.number})' if each.number in names else str(each.number)
            for each in frame.bodies[:10]
        ]
        return ", ".join(found) or "none"

    def _time_of(self, frame: Frame, t_rx_ns: int) -> int:
        """Return the time of exposure: by the server's clock, its own latency included."""
        exposed, _, sent = frame.ticks
        tick_hz = 0 if self.server is None else self.server.tick_hz
        by_ticks = bool(sent and exposed and 1_000 <= tick_hz <= 10**12)
        stamp_s = frame.timestamp_s or frame.latency_s
        if self._clock is None or by_ticks is not self._by_ticks:
            self._by_ticks = by_ticks
            self._clock = DeviceClock(
                tick_ns=1e9 / tick_hz if by_ticks else 1e3,
                bits=None,
                latency_ns=0 if by_ticks else self._latency_ns,
            )
        if by_ticks:
            delay_s = (sent - exposed) / tick_hz
            own_ns = round(delay_s * 1e9) if 0.0 <= delay_s <= LONGEST_DELAY_S else self._latency_ns
            return self._clock.update(sent, t_rx_ns) - own_ns
        if not 0.0 < stamp_s < 1e9:
            return t_rx_ns - self._latency_ns
        return self._clock.update(round(stamp_s * 1e6), t_rx_ns)


def decode(data: bytes) -> Iterator[tuple[str, Any]]:
    """Iterate over the packets of a recording: a network capture, records of a UDP port, or bare
    packets."""
    version: Version | None = None
    for packet in _packets(data):
        content = _content(packet, version)
        if isinstance(content, ServerInfo):
            version = natnet.layout_of(content.version)
        name = natnet.name_of(packet.message)
        for each in content if isinstance(content, list) else [content]:
            yield name, each


def _content(packet: natnet.NatNetPacket, version: Version | None) -> natnet.Content:
    """Return the content of a packet, by the version or by the layout that fits; the packet itself
    if none does."""
    for layout in dict.fromkeys((version, None)):
        try:
            return natnet.read(natnet.packet(*packet), layout)
        except NatNetError:
            continue
    return packet


def _packets(data: bytes) -> Iterator[natnet.NatNetPacket]:
    datagrams = payloads(data) if is_capture(data) else datagram_reader().feed(data)
    found = False
    for datagram in datagrams:
        found = True
        try:
            packet = natnet.split(datagram)
        except NatNetError:
            continue
        if packet.message in natnet.NAMES:
            yield packet
    if not found:
        yield from natnet.packets(data)
