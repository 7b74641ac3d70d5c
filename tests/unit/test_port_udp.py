"""UDP ports: datagrams as records, hosts that nobody asked, multicast groups, addresses."""

import socket
from collections.abc import Iterator

import anyio
import pytest

from tests.conformance.port_kit import now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.datagram import (
    HEAD_BYTES,
    MAX_DATA_BYTES,
    datagram_reader,
    pack,
    unpack,
)
from vehicled.profile import load_profile
from vehicled.runtime.ports import AddressError, make_port
from vehicled.runtime.ports.address import UdpAddress, parse
from vehicled.runtime.ports.sharing import judge_ports

pytestmark = pytest.mark.anyio

OPENED, ERROR = PortState.OPENED, PortState.ERROR
GROUP = "239.255.42.99"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A host that takes requests."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# -------------------------------------------------------------------- records


@pytest.mark.parametrize("size", [0, 1, 1400, MAX_DATA_BYTES])
def test_a_datagram_is_a_record(size: int) -> None:
    data = bytes(i & 0xFF for i in range(size))
    assert unpack(pack(data)) == ([data], HEAD_BYTES + size)
    assert datagram_reader().feed(pack(data)) == [data]


def test_a_record_that_is_cut_or_damaged_costs_itself() -> None:
    one, two = pack(b"one"), pack(b"two")
    assert unpack(one + two[:-1]) == ([b"one"], len(one))
    assert datagram_reader().feed(one[:4] + b"\0\0\0\0" + one[HEAD_BYTES:] + two) == [b"two"]
    with pytest.raises(ValueError, match="65507"):
        pack(bytes(MAX_DATA_BYTES + 1))


# -------------------------------------------------------------------- channel


async def test_requests_leave_whole_and_answers_come_as_records(server: socket.socket) -> None:
    port = make_port("mocap", f"udp:127.0.0.1:{server.getsockname()[1]}")
    got: list[tuple[bytes, tuple[str, int]]] = []

    def asked() -> bool:
        try:
            got.append(server.recvfrom(2048))
        except BlockingIOError:
            pass
        return len(got) == 2

    async with serving(port) as host:
        await host.reached(OPENED)
        assert "127.0.0.1" in host.details[0]
        assert port.send(pack(b"first") + pack(b"second"), NEVER_NS, now_ns())
        await until(asked)
        assert [data for data, _ in got] == [b"first", b"second"]
        server.sendto(b"answer", got[0][1])
        server.sendto(b"", got[0][1])
        server.sendto(bytes(60_000), got[0][1])
        await until(lambda: len(unpack(host.received)[0]) == 3)
        assert unpack(host.received)[0] == [b"answer", b"", bytes(60_000)]


async def test_datagrams_of_other_hosts_are_left_out_unless_all_are_wanted() -> None:
    for source, wanted in (("host", [b"theirs"]), ("any", [b"stranger", b"theirs"])):
        listen = free_port()
        port = make_port("mocap", f"udp:127.0.0.1:9?listen={listen}&source={source}")
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as theirs,
        ):
            stranger.bind(("127.0.0.2", 0))
            theirs.bind(("127.0.0.1", 0))
            async with serving(port) as host:
                await host.reached(OPENED)
                stranger.sendto(b"stranger", ("127.0.0.1", listen))
                theirs.sendto(b"theirs", ("127.0.0.1", listen))
                await until(lambda: b"theirs" in host.received)
                assert unpack(host.received)[0] == wanted
                assert port.counts.bad_frames == (source == "host")


async def test_a_host_that_does_not_listen_loses_nothing_but_the_request() -> None:
    """The kernel reports the refusal of an earlier datagram; the port stays open."""
    port = make_port("mocap", f"udp:127.0.0.1:{free_port()}")
    async with serving(port) as host:
        await host.reached(OPENED)
        for _ in range(5):
            port.send(pack(b"anyone?"), NEVER_NS, now_ns())
            await anyio.sleep(0.002)
        assert host.states == [OPENED]


async def test_a_port_that_another_program_has_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", 0))
        port = make_port("mocap", f"udp:127.0.0.1:1510?listen={other.getsockname()[1]}")
        async with serving(port) as host:
            await host.reached(ERROR)
            assert "another program" in host.details[0]


async def test_an_interface_that_this_computer_has_not_is_named() -> None:
    port = make_port("mocap", f"udp:127.0.0.1:1510?listen={free_port()}&interface=192.0.2.77")
    async with serving(port) as host:
        await host.reached(ERROR)
        assert "ip -4 addr" in host.details[0]


async def test_a_group_is_joined_on_the_interface_that_is_named() -> None:
    listen = free_port()
    place = f"udp:127.0.0.1:1510?listen={listen}&group={GROUP}&interface=127.0.0.1"
    port = make_port("mocap", place)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        async with serving(port) as host:
            await until(lambda: host.states)
            if host.states != [OPENED]:
                pytest.skip("no multicast here")
            try:
                sender.sendto(b"frame", (GROUP, listen))
            except OSError:
                pytest.skip("no multicast here")
            await until(lambda: host.received)
            assert unpack(host.received)[0] == [b"frame"]


# -------------------------------------------------------------------- addresses


def test_addresses_of_motion_capture() -> None:
    assert parse("udp:10.0.0.5:1510") == UdpAddress(host="10.0.0.5", port=1510)
    found = parse(f"udp:10.0.0.5:1510?listen=1511&group={GROUP}&interface=10.0.0.7")
    assert isinstance(found, UdpAddress)
    assert (found.listen, found.group, found.interface) == (1511, GROUP, "10.0.0.7")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("udp:10.0.0.5", "needs a host and a port"),
        (f"udp:10.0.0.5:1510?group={GROUP}", "listen=1511"),
        ("udp:10.0.0.5:1510?listen=1511&group=10.0.0.9", "not a multicast address"),
        ("udp:10.0.0.5:1510?interface=eth0", "IPv4 address of this computer"),
        ("udp:10.0.0.5:1510?interface=0.0.0.0", "no address of an interface"),
        ("udp:10.0.0.5:1510?listen=99999", "listen"),
        ("udp:10.0.0.5:1510?grup=1", "did you mean 'group'"),
    ],
)
def test_wrong_addresses_are_named(url: str, said: str) -> None:
    with pytest.raises(AddressError, match=said):
        parse(url)


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ("tcp:192.0.2.1:1510", "needs datagrams: write udp:HOST:PORT"),
        ("serial:/dev/serial/by-id/x", "carries a byte stream"),
        ("can:can0", "carries frames of a CAN bus"),
    ],
)
def test_a_port_that_carries_no_datagrams_is_refused(port: str, said: str) -> None:
    profile = load_profile("f1tenth_mocap", [f'devices.mocap.port="{port}"'])
    assert any(said in note.message for note in judge_ports(profile.devices))


def test_a_serial_device_on_datagrams_is_refused() -> None:
    profile = load_profile("f1tenth_mocap", ['devices.imu.port="udp:192.0.2.1:1510"'])
    (note,) = [each for each in judge_ports(profile.devices) if each.path == "devices.imu.port"]
    assert "needs a byte stream" in note.message


def test_two_devices_cannot_listen_at_one_port() -> None:
    same = 'devices.{}.port="udp:192.0.2.1:51001?listen=51001"'
    extra = ["devices.second.driver=vicon", 'devices.second.messages=["ReferenceState"]']
    profile = load_profile(
        "f1tenth_mocap", [same.format("mocap"), *extra, "devices.second.rate_hz=100",
        same.format("second")],
    )  # fmt: skip
    assert any("same port" in note.message for note in judge_ports(profile.devices))
