"""CAN ports: python-can's buses drained without its notifier, error frames, full queues, dead
buses, serial adapters."""

import errno
import os
import select
import socket
import sys
import tty
from collections import deque

import can
import pytest
from can.interfaces.slcan import slcanBus
from can.interfaces.udp_multicast import UdpMulticastBus

from tests.conformance.port_kit import now_ns, read, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.can import CanFrame, error_texts, pack, unpack_all
from vehicled.core.wire.slcan import SlcanDecoder, encode, opening
from vehicled.runtime.ports import make_port
from vehicled.runtime.ports.address import SocketCanAddress
from vehicled.runtime.ports.can_channel import FRAMES_PER_WAKE, CanChannel, open_socketcan
from vehicled.runtime.ports.contract import LostError, OpenError, PortCounts
from vehicled.runtime.ports.supervised import SupervisedPort

OPENED, LOST, ERROR = PortState.OPENED, PortState.LOST, PortState.ERROR
FAST = "retry_min_s=0.001&retry_max_s=0.005"
FRAMES = [
    CanFrame(0x901, bytes.fromhex("00000bb8007b00fa")),
    CanFrame(0x123, b"", extended=False),
    CanFrame(0x7FF, b"\1\2\3", extended=False),
    CanFrame(0x1FFFFFFF, b"\xff" * 8),
    CanFrame(0x321, bytes(5), extended=False, remote=True),
]
RECORDS = b"".join(map(pack, FRAMES))
TEXT = b"".join(map(encode, FRAMES))


class ScriptedBus:
    """A scripted bus of python-can. Readable while there is something to receive."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.script: deque[can.Message | Exception] = deque()
        self.sent: list[can.Message] = []
        self.refuse: Exception | None = None
        self.shut = 0

    def put(self, *items: can.Message | Exception) -> None:
        self.script.extend(items)
        self.far.send(b"x" * len(items))

    def fileno(self) -> int:
        return self.near.fileno()

    def recv(self, timeout: float) -> can.Message | None:
        assert timeout == 0
        if not self.script:
            return None
        self.near.recv(1)
        item = self.script.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def send(self, message: can.Message, timeout: float) -> None:
        assert timeout == 0
        if self.refuse is not None:
            raise self.refuse
        self.sent.append(message)

    def shutdown(self) -> None:
        self.shut += 1
        self.near.close()
        self.far.close()


@pytest.fixture
def bus():
    bus = ScriptedBus()
    yield bus
    bus.shutdown()


def _port(*buses: ScriptedBus) -> SupervisedPort:
    left = list(buses)

    async def opener(counts: PortCounts) -> CanChannel:
        if not left:
            raise OpenError("no more")
        return CanChannel(left.pop(0), "scripted", counts)  # type: ignore[arg-type]

    return SupervisedPort("drive", opener)


def _message(frame: CanFrame) -> can.Message:
    return can.Message(
        arbitration_id=frame.can_id,
        is_extended_id=frame.extended,
        is_remote_frame=frame.remote,
        is_error_frame=frame.error,
        dlc=len(frame.data),
        data=None if frame.remote else frame.data,
    )


@pytest.mark.anyio
async def test_frames_of_one_wake_up_come_together_as_records(bus):
    async with serving(_port(bus)) as host:
        await host.reached(OPENED)
        bus.put(*map(_message, FRAMES))
        await until(lambda: host.chunks)
        assert [data for _, data in host.chunks] == [RECORDS]
        assert unpack_all(host.received) == FRAMES


@pytest.mark.anyio
async def test_records_become_messages(bus):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        assert port.send(RECORDS, NEVER_NS, now_ns())
        assert len(bus.sent) == len(FRAMES)
        assert all(
            sent.equals(_message(frame), timestamp_delta=None)
            for sent, frame in zip(bus.sent, FRAMES)
        )


@pytest.mark.anyio
async def test_error_frames_are_delivered_as_such_once_and_all_counted(bus):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        passive = CanFrame(0x04, b"\0\x10" + bytes(6), extended=False, error=True)
        active = CanFrame(0x04, b"\0\x40" + bytes(6), extended=False, error=True)
        fd = can.Message(is_fd=True, arbitration_id=1, data=bytes(12))
        bus.put(
            _message(passive),
            _message(FRAMES[0]),
            *[_message(passive)] * 20,
            fd,
            _message(FRAMES[1]),
            _message(active),
        )
        await until(lambda: len(host.received) == 64)
        assert unpack_all(host.received) == [passive, FRAMES[0], FRAMES[1], active]
        assert (port.counts.error_frames, port.counts.bad_frames) == (22, 1)
        assert host.states == [OPENED]


@pytest.mark.anyio
async def test_bus_off_is_a_loss_after_what_came_before(bus):
    second = ScriptedBus()
    port = _port(bus, second)
    async with serving(port) as host:
        await host.reached(OPENED)
        off = can.Message(
            is_error_frame=True, arbitration_id=0x40, is_extended_id=False, data=bytes(8)
        )
        bus.put(_message(FRAMES[0]), off, _message(FRAMES[1]))
        await host.reached(OPENED, LOST, OPENED)
        assert unpack_all(host.received) == [
            FRAMES[0],
            CanFrame(0x40, bytes(8), extended=False, error=True),
        ]
        assert "bus-off" in host.details[1]
        assert bus.shut == 1
    assert second.shut == 1


@pytest.mark.anyio
async def test_a_dead_bus_is_a_loss_and_does_not_spin(bus):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        bus.put(*[can.CanOperationError("Failed to receive: Network is down", errno.ENETDOWN)] * 5)
        await host.reached(OPENED, LOST)
        assert "Network is down" in host.details[1]
        assert len(bus.script) == 4


@pytest.mark.anyio
async def test_an_error_without_end_is_a_loss_too(bus):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        bus.put(
            *[can.CanOperationError("could not unpack received message")] * (FRAMES_PER_WAKE + 1)
        )
        await host.reached(OPENED, LOST)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "refusal",
    [
        can.CanOperationError("Failed to transmit: No buffer space available", errno.ENOBUFS),
        can.CanOperationError("Transmit buffer full"),
        can.CanTimeoutError(),
    ],
)
async def test_a_full_queue_is_tried_again_until_the_deadline(bus, refusal):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        bus.refuse = refusal
        assert port.send(pack(FRAMES[0]), now_ns() + 5_000_000, now_ns())
        assert port.send(pack(FRAMES[1]), NEVER_NS, now_ns())
        await until(lambda: port.counts.expired == 1)
        bus.refuse = None
        await until(lambda: bus.sent)
        assert [message.arbitration_id for message in bus.sent] == [FRAMES[1].can_id]
        assert host.states == [OPENED]


@pytest.mark.anyio
async def test_a_refusal_for_good_is_a_loss(bus):
    port = _port(bus)
    async with serving(port) as host:
        await host.reached(OPENED)
        bus.refuse = can.CanOperationError("Failed to transmit: Network is down", errno.ENETDOWN)
        assert not port.send(pack(FRAMES[0]), NEVER_NS, now_ns())
        await host.reached(OPENED, LOST)


@pytest.mark.anyio
async def test_junk_in_the_multicast_group_costs_only_itself():
    number = 20_000 + os.getpid() % 20_000
    try:
        other = UdpMulticastBus("239.74.163.2", number, hop_limit=0, fd=False)
    except can.CanError as error:
        pytest.skip(f"no multicast here: {error}")
    port = make_port("drive", f"can:udp:239.74.163.2:{number}")
    try:
        async with serving(port) as host:
            await host.reached(OPENED)
            other._multicast.send(b"junk", 0)
            other.send(_message(FRAMES[0]), timeout=0)
            await until(lambda: len(host.received) == 16)
            assert port.counts.bad_frames == 1
            assert host.states == [OPENED]
    finally:
        other.shutdown()


def _interface(root, name: str, **files: str) -> None:
    folder = root / "class" / "net" / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(text)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"type": "280\n", "flags": "0x40080\n"}, "ip link set can9 up type can bitrate"),
        ({"type": "280\n", "flags": "0x40081\n", "carrier": "0\n"}, "bus-off"),
        ({"type": "1\n", "flags": "0x1\n"}, "not a CAN interface"),
    ],
)
async def test_an_interface_that_carries_nothing_says_why(tmp_path, files, words):
    _interface(tmp_path, "can9", **files)
    with pytest.raises(OpenError, match="can9") as caught:
        await open_socketcan(SocketCanAddress(interface="can9"), PortCounts(), tmp_path)
    assert words in str(caught.value)


@pytest.mark.anyio
async def test_an_interface_that_is_not_there(tmp_path):
    with pytest.raises(OpenError) as caught:
        await open_socketcan(SocketCanAddress(interface="can9"), PortCounts(), tmp_path)
    assert any(
        words in str(caught.value)
        for words in ("does not exist", "this kernel does not support CAN")
    )


@pytest.mark.anyio
async def test_socketcan_on_a_virtual_interface():
    try:
        socket.socket(socket.PF_CAN, socket.SOCK_RAW, socket.CAN_RAW).close()
    except (OSError, AttributeError) as error:
        pytest.skip(f"no CAN in this kernel: {error}")
    if "vcan0" not in (name for _, name in socket.if_nameindex()):
        pytest.skip("needs vcan0: ip link add vcan0 type vcan; ip link set vcan0 up")
    with can.Bus("vcan0", interface="socketcan") as other:
        port = make_port("drive", "can:vcan0")
        async with serving(port) as host:
            await host.reached(OPENED)
            for frame in FRAMES:
                other.send(_message(frame))
            await until(lambda: len(host.received) == len(RECORDS))
            assert unpack_all(host.received) == FRAMES
            assert port.send(RECORDS, NEVER_NS, now_ns())
            got = [other.recv(1) for _ in FRAMES]
            assert all(
                m is not None and m.equals(_message(f), timestamp_delta=None)
                for m, f in zip(got, FRAMES)
            )


@pytest.fixture
def adapter():
    """Both ends of a pty, to stand in for a serial CAN adapter."""
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


def _available(master: int) -> bytes:
    return os.read(master, 65536) if select.select([master], [], [], 0)[0] else b""


@pytest.mark.anyio
async def test_an_adapter_is_opened_at_its_bit_rate_and_its_damage_is_counted(adapter):
    master, path = adapter
    port = make_port("drive", f"can:slcan:{path}?bitrate=250000")
    async with serving(port) as host:
        await host.reached(OPENED)
        assert "250000 bit/s" in host.details[0]
        commands = [
            command
            for command in (await read(master, len(b"\rC\rS5\rO\r"))).split(b"\r")
            if command
        ]
        assert commands == [b"C", b"S5", b"O"]
        os.write(
            master,
            b"\a\r\r" + b"T00000901800000BB8007B00FA\r" + b"Tzzzz\r\xff\xfe\r" + b"t1230\rr3215\r",
        )
        await until(lambda: len(host.received) == 48)
        assert unpack_all(host.received) == [FRAMES[0], FRAMES[1], FRAMES[4]]
        os.write(master, b"sp128003\re1a\r")
        await until(lambda: len(host.received) == 80)
        passive, unacknowledged = unpack_all(host.received)[3:]
        assert error_texts(passive) == [
            "error-passive (reception)",
            "error counters 3 sent, 128 received",
        ]
        assert error_texts(unacknowledged) == ["no acknowledgement", "protocol violation"]
        assert port.counts.error_frames == 2
        assert port.counts.nacks == 1
        assert port.counts.bad_frames == 2
        # No node can send an error frame; the others of the same call go.
        assert port.send(pack(CanFrame(4, bytes(8), error=True)) + RECORDS, NEVER_NS, now_ns())
        assert SlcanDecoder().feed(await read(master, len(TEXT))) == FRAMES
        assert port.counts.bad_frames == 3


@pytest.mark.anyio
async def test_frames_wait_whole_for_a_slow_adapter(adapter):
    master, path = adapter
    port = make_port("drive", f"can:slcan:{path}?{FAST}")
    sent = [CanFrame(k, bytes([k % 256]) * (k % 9)) for k in range(3_000)]
    got = bytearray()
    async with serving(port) as host:
        await host.reached(OPENED)
        for frame in sent:
            assert port.send(pack(frame), NEVER_NS, now_ns())
        assert port.counts.overflowed

        def all_there() -> bool:
            got.extend(_available(master)[:500_000])
            return (
                got.endswith(b"\r")
                and len(SlcanDecoder().feed(bytes(got))) >= len(sent) - port.counts.overflowed
            )

        await until(all_there)
    decoder = SlcanDecoder()
    frames = [item for item in decoder.feed(bytes(got)) if isinstance(item, CanFrame)]
    assert decoder.bad_lines == 0
    assert len(frames) == len(sent) - port.counts.overflowed
    assert frames[-1] == sent[-1]
    assert [frame.can_id for frame in frames] == sorted({frame.can_id for frame in frames})


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform != "linux", reason="two ptys back to back")
async def test_python_can_reads_and_writes_the_same_text(adapter):
    """The independent judge of our end of the wire: python-can as the adapter."""
    master, path = adapter
    far_master, far_slave = os.openpty()
    tty.setraw(far_slave)
    os.set_blocking(far_master, False)
    port = make_port("drive", f"can:slcan:{path}")
    other = slcanBus(os.ttyname(far_slave), sleep_after_open=0)
    try:
        async with serving(port) as host:
            await host.reached(OPENED)
            await read(master, len(opening(500_000)))
            await read(far_master, len(b"O\r"))
            assert port.send(RECORDS, NEVER_NS, now_ns())
            os.write(far_master, await read(master, len(TEXT)))
            got = [other.recv(1) for _ in FRAMES]
            assert all(
                m is not None and m.equals(_message(f), timestamp_delta=None)
                for m, f in zip(got, FRAMES)
            )
            for frame in FRAMES:
                other.send(_message(frame))
            os.write(master, await read(far_master, len(TEXT)))
            await until(lambda: len(host.received) == len(RECORDS))
            assert unpack_all(host.received) == FRAMES
    finally:
        other.shutdown()
        os.close(far_slave)
        os.close(far_master)


def test_a_loss_names_the_bus(bus):
    bus.refuse = can.CanOperationError("Failed to transmit: No such device", errno.ENODEV)
    with pytest.raises(LostError, match="No such device"):
        CanChannel(bus, "scripted", PortCounts()).write(pack(FRAMES[0]))
