"""The emulated caster: the NTRIP driver reads it in both versions, by TCP and TLS, and says what
each of its failures is."""

import selectors
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from drivers.rtcm.codec import FrameReader
from sim_backend.emulators.caster import Caster
from sim_backend.sockets import Sockets
from tests.busy_computer import DEADLINE_S
from tests.ntrip_caster import crc24q
from vehicled.core.messages import Corrections, Fault, FixType, GnssFix, Message, PortState
from vehicled.core.ports import Pause, Reopen, Send
from vehicled.profile.loading import load
from vehicled.profile.schema import DeviceTable as DeviceTable
from vehicled.runtime.ports import make_port

MS = 1_000_000
FIX = GnssFix(1, 1, 0.75, -1.5, 100.0, fix_type=FixType.FIX_3D)


def table(mountpoint: str = "NEAR") -> DeviceTable:
    driver = f'{{ name = "ntrip", ntrip = {{ mountpoint = "{mountpoint}" }} }}'
    port = 'devices.corrections.port="tcp:caster.example:2101"'
    profile = load(
        "art",
        [
            f"devices.corrections.driver={driver}",
            port,
            'devices.corrections.messages=["Corrections"]',
        ],
    )
    return profile.profile.devices["corrections"]


class Pair:
    """The driver and the emulator, joined in virtual time. The connection is opened anew after the
    pause that the driver asks."""

    def __init__(
        self, version: str = "auto", mountpoint: str = "NEAR", *, position: bool = True
    ) -> None:
        params = NtripParams(mountpoint=mountpoint, version=version)  # type: ignore[arg-type]
        self.device = NtripDevice(params, [Corrections], 10**9)
        self.caster = Caster("corrections", table(), 1, 0)
        self.caster.hangs_up = True
        self.now_ns = 0
        self.connections: list[int] = []
        self.messages: list[Message] = []
        self.open = False
        self._open_ns = 0
        self._pause_ns = 100 * MS
        if position:
            self.device.on_command(FIX, 0)

    def run(self, seconds: float) -> None:
        end_ns = self.now_ns + round(seconds * 1e9)
        while self.now_ns < end_ns:
            self.now_ns += 10 * MS
            self._step(self.now_ns)

    def _step(self, now_ns: int) -> None:
        if not self.open and now_ns >= self._open_ns:
            self.open = True
            self.connections.append(now_ns)
            self.caster.on_line(0, now_ns)
            self.messages += self.device.on_port(PortState.OPENED, "tcp:127.0.0.1:2101", now_ns)
        if self.caster.next_due_ns() <= now_ns:
            self.caster.on_time(now_ns)
        for _, data in sorted(self.caster.take_tx(), key=lambda each: each[0]):
            if not self.open:
                break
            if data:
                self.messages += self.device.on_rx(data, now_ns)
            else:
                self._close(now_ns)
        if self.device.next_due_ns() <= now_ns:
            self.messages += self.device.on_time(now_ns)
        for action in self.device.take_tx():
            if isinstance(action, Send) and self.open:
                self.caster.on_rx(action.data, now_ns)
            elif isinstance(action, Reopen) and self.open:
                self._close(now_ns)
            elif isinstance(action, Pause):
                self._pause(now_ns, action)

    def _close(self, now_ns: int) -> None:
        self.open, self._open_ns = False, now_ns + 100 * MS
        self.messages += self.device.on_port(PortState.LOST, "closed", now_ns)
        for action in self.device.take_tx():
            if isinstance(action, Pause):
                self._pause(now_ns, action)

    def _pause(self, now_ns: int, pause: Pause) -> None:
        self._open_ns = now_ns + round(pause.least_s * 1e9)

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.messages if type(message) is kind]


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_versions_bring_sound_corrections_once_a_second(version: str) -> None:
    pair = Pair(version)
    pair.run(20.0)
    got = [message.data for message in pair.of(Corrections)]  # type: ignore[attr-defined]
    assert 75 <= len(got) <= 90
    assert all(crc24q(frame[:-3]) == int.from_bytes(frame[-3:], "big") for frame in got), (
        "by a CRC written apart"
    )
    assert not pair.of(Fault)
    assert len(pair.connections) == 1


def test_the_station_stands_where_the_receiver_said() -> None:
    pyrtcm = pytest.importorskip("pyrtcm")
    pair = Pair()
    pair.run(8.0)
    frames = [message.data for message in pair.of(Corrections)]  # type: ignore[attr-defined]
    station = next(pyrtcm.RTCMReader.parse(frame) for frame in frames if frame[3:5] == b"\x3e\xd0")
    # pyproj: 0.75 rad north, 1.5 rad west, 100 m on WGS 84.
    for name, expected_m in (("DF025", 330_637.0), ("DF026", -4_662_451.0), ("DF027", 4_325_281.0)):
        assert getattr(station, name) == pytest.approx(expected_m, abs=1.0), name


@pytest.mark.parametrize(
    ("kind", "value", "code", "words"),
    [
        ("caster_status", 401.0, "ntrip_credentials", "requires a password"),
        ("caster_status", 503.0, "ntrip_refused", "503 Service Unavailable"),
        ("caster_status", 429.0, "ntrip_refused", "429 Too Many Requests"),
        ("caster_closes", 1.0, "ntrip_refused", "closed the connection without a reply"),
        (
            "caster_closes",
            2.0,
            "ntrip_refused",
            "200 OK and closed the connection before its first RTCM 3 message",
        ),
        ("caster_table", 1.0, "ntrip_mountpoint", "does not know mountpoint NEAR (it lists 1)"),
        ("caster_page", 1.0, "ntrip_protocol", "web page"),
        ("caster_mute", 1.0, "corrections_stalled", ""),
        ("caster_flood", 1.0, "ntrip_protocol", "sends faster than its data can be read"),
    ],
)
def test_each_failure_is_one_fault_with_the_answer_and_few_connections(
    kind: str, value: float, code: str, words: str
) -> None:
    pair = Pair()
    pair.caster.inject(kind, value, active=True, now_ns=0)
    pair.run(100.0)
    faults = [message for message in pair.of(Fault) if message.active]  # type: ignore[attr-defined]
    assert [fault.code for fault in faults] == [code]  # type: ignore[attr-defined]
    assert words in faults[0].reason  # type: ignore[attr-defined]
    assert len(pair.connections) <= 6
    pair.caster.inject(kind, value, active=False, now_ns=pair.now_ns)
    pair.run(320.0)
    assert pair.of(Corrections), "it comes back by itself"
    assert not pair.of(Fault)[-1].active  # type: ignore[attr-defined]


def test_pauses_double_from_ten_seconds_to_five_minutes() -> None:
    pair = Pair(version="2")
    pair.caster.inject("caster_closes", 1.0, active=True, now_ns=0)
    pair.run(1500.0)
    pauses = [
        (after - before) * 1e-9
        for before, after in zip(pair.connections, pair.connections[1:], strict=False)
    ]
    assert min(pauses) >= 10.0
    assert max(pauses) <= 310.0
    assert len(pair.connections) <= 11
    assert pauses[3] > 2.5 * pauses[0]


def test_a_network_caster_waits_for_the_position() -> None:
    pair = Pair(position=False)
    pair.caster.inject("caster_needs_position", 1.0, active=True, now_ns=0)
    pair.run(10.0)
    assert not pair.of(Corrections)
    pair.device.on_command(FIX, pair.now_ns)
    pair.run(3.0)
    assert pair.of(Corrections)


@contextmanager
def served(port: str, *, secure: bool) -> Iterator[str]:
    """A thread that carries bytes between a socket and an emulator, as the simulator does."""
    caster = Caster(port, table(), 1, 0)
    caster.hangs_up = True
    over = threading.Event()
    with Sockets({port: secure}) as sockets, selectors.DefaultSelector() as selector:
        sockets.register(selector)

        def carry() -> None:
            while not over.is_set():
                ready = [key.fd for key, _ in selector.select(0.01)]
                now_ns = time.monotonic_ns()
                for _, data in sockets.read(ready):
                    if data is None:
                        caster.on_line(0, now_ns)
                    else:
                        caster.on_rx(data, now_ns)
                if caster.next_due_ns() <= now_ns:
                    caster.on_time(now_ns)
                for _, data in caster.take_tx():
                    sockets.write(port, data)

        thread = threading.Thread(target=carry)
        thread.start()
        try:
            yield sockets.urls[port]
        finally:
            over.set()
            thread.join()


class Host:
    """Runtime of one device and its port."""

    def __init__(self, url: str) -> None:
        self.device = NtripDevice(NtripParams(mountpoint="NEAR"), [Corrections], 10**9)
        self.device.on_command(FIX, time.monotonic_ns())
        self.port = make_port("corrections", url)
        self.messages: list[Message] = []
        self.details: list[str] = []

    def on_port(self, name: str, state: PortState, detail: str, now_ns: int) -> None:
        self.details.append(detail)
        self.messages += self.device.on_port(state, detail, now_ns)
        self._send()

    def on_rx(self, name: str, data: bytes, t_rx_ns: int) -> None:
        self.messages += self.device.on_rx(data, t_rx_ns)
        self._send()

    def _send(self) -> None:
        for action in self.device.take_tx():
            if isinstance(action, Send):
                self.port.send(action.data, 2**62, time.monotonic_ns())


@pytest.mark.anyio
@pytest.mark.parametrize("secure", [False, True])
async def test_the_daemons_port_reaches_it_by_tcp_and_tls(*, secure: bool) -> None:
    with served("corrections", secure=secure) as url:
        host = Host(url)
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(host.port.serve, host)
                while not any(isinstance(message, Corrections) for message in host.messages):  # noqa: ASYNC110 - a device has no event
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        await host.port.aclose()
    assert ("TLS" in host.details[0]) is secure
    assert FrameReader().feed(next(m.data for m in host.messages if isinstance(m, Corrections)))
