"""The serial line: how long bytes take, how they are cut, and what line rates that do not fit make
of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import (
    LONGEST_CHUNK_BYTES,
    USB_BAUD,
    LineDevice,
    SerialLine,
    baud_of,
)
from tests.emulator_bench import MS, SECOND, START
from vehicled.core.messages import Event, Message


class Echo(LineDevice):
    """Sends every message's name as bytes, and everything back that it receives."""

    def __init__(self, baud: int = 9600) -> None:
        super().__init__(baud)
        self.received: list[tuple[int, bytes]] = []
        self.restarts = 0

    def on_message(self, message: Message, now_ns: int) -> None:
        assert isinstance(message, Event)
        self._tx.append(message.name.encode())

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        self.received.append((now_ns, data))
        self._tx.append(data)

    def on_time(self, now_ns: int) -> None:
        raise AssertionError("has no duties")

    def restart(self, now_ns: int) -> None:
        self.restarts += 1
        self._commands.append(DriveCommand(now_ns, 0.0, 0.0, 0.0))


def event(t_ns: int, text: str) -> Event:
    return Event(t_ns, "info", text, "")


def line(device: Echo, **options: int) -> SerialLine:
    return SerialLine(device, "port", 5, START, **options)


def run(emulator: SerialLine, until_ns: int) -> list[tuple[int, bytes]]:
    got: list[tuple[int, bytes]] = []
    while (due_ns := emulator.next_due_ns()) <= until_ns:
        emulator.on_time(due_ns)
        got += emulator.take_tx()
    return got


def test_every_byte_takes_ten_bits() -> None:
    emulator = line(Echo(9600))
    emulator.on_message(event(START, "x" * 200), START + 5 * MS)
    got = run(emulator, START + SECOND)
    assert b"".join(data for _, data in got) == b"x" * 200
    sent = 0
    for t_ns, data in got:
        sent += len(data)
        assert len(data) <= LONGEST_CHUNK_BYTES
        assert t_ns == START + 5 * MS + sent * 10 * SECOND // 9600


def test_what_follows_waits_for_what_is_being_sent() -> None:
    emulator = line(Echo(9600))
    emulator.on_message(event(START, "a" * 96), START)
    emulator.on_message(event(START, "b" * 96), START + MS)
    got = run(emulator, START + SECOND)
    assert b"".join(data for _, data in got) == b"a" * 96 + b"b" * 96
    assert [t_ns for t_ns, _ in got] == sorted(t_ns for t_ns, _ in got)
    assert got[-1][0] == START + 200 * MS


def test_bytes_of_the_daemon_take_their_time_too() -> None:
    device = Echo(9600)
    emulator = line(device)
    emulator.on_rx(b"1" * 48, START)
    emulator.on_rx(b"2" * 48, START)
    run(emulator, START + SECOND)
    assert device.received == [(START + 50 * MS, b"1" * 48), (START + 100 * MS, b"2" * 48)]


def test_usb_has_no_line_rate() -> None:
    device = Echo(0)
    emulator = line(device)
    emulator.on_line(9600, START)
    emulator.on_rx(b"order", START)
    got = run(emulator, START + SECOND)
    assert b"".join(data for _, data in got) == b"order"
    assert got[-1][0] == START + 2 * (5 * 10 * SECOND // USB_BAUD)


def test_line_rates_that_differ_are_noise_in_both_directions_until_they_fit() -> None:
    device = Echo(38400)
    emulator = line(device)
    emulator.on_line(115200, START)
    emulator.on_rx(b"\xb5\x62" * 10, START)
    got = run(emulator, START + SECOND)
    ((_, received),) = device.received
    # The device is the slower one: it takes three of our bytes for one.
    assert len(received) == 6
    assert received not in b"".join(data for _, data in got)
    emulator.on_line(38400, START + SECOND)
    emulator.on_rx(b"hello", START + SECOND)
    got = run(emulator, START + 2 * SECOND)
    assert device.received[-1][1] == b"hello"
    assert b"".join(data for _, data in got) == b"hello"


def test_a_reopened_port_has_the_rate_of_its_address_again() -> None:
    device = Echo(38400)
    emulator = line(device, host_baud=115200)
    emulator.on_line(38400, START)
    emulator.on_line(0, START + MS)
    emulator.on_rx(b"hello", START + 2 * MS)
    run(emulator, START + SECOND)
    assert device.received[0][1] != b"hello"


def test_a_crystal_that_is_off_a_little_is_understood() -> None:
    device = Echo(250_000)
    emulator = line(device)
    emulator.on_line(256_000, START)
    emulator.on_rx(b"hello", START)
    run(emulator, START + SECOND)
    assert device.received[0][1] == b"hello"


def test_a_forced_rate_holds_until_it_is_lifted() -> None:
    device = Echo(38400)
    emulator = line(device, host_baud=38400)
    emulator.force_baud(9600)
    emulator.on_rx(b"hello", START)
    emulator.force_baud(9600)
    run(emulator, START + SECOND)
    emulator.force_baud(0)
    emulator.on_rx(b"hello", START + SECOND)
    run(emulator, START + 2 * SECOND)
    assert device.received[0][1] != b"hello"
    assert device.received[1][1] == b"hello"


def test_what_was_sent_at_a_forced_rate_is_not_in_the_way_of_what_follows() -> None:
    device = Echo(115_200)
    emulator = line(device, host_baud=115_200)
    emulator.force_baud(9600)
    # Ten times what the slow line carries, for a second.
    for k in range(100):
        emulator.on_message(event(START + k * 10 * MS, "x" * 100), START + k * 10 * MS)
    noise = run(emulator, START + SECOND)
    emulator.force_baud(0)
    emulator.on_message(event(START + SECOND, "hello"), START + SECOND)
    got = run(emulator, START + 3 * SECOND)
    assert len(b"".join(data for _, data in noise)) > 5000, (
        "at twelve times the line rate everything is noise"
    )
    assert b"".join(data for _, data in got).endswith(b"hello")
    assert got[-1][0] < START + SECOND + 150 * MS


def test_a_full_buffer_loses_whole_frames() -> None:
    emulator = line(Echo(9600), buffer_bytes=250)
    for name in "abcdef":
        emulator.on_message(event(START, name * 100), START)
    data = b"".join(piece for _, piece in run(emulator, START + SECOND))
    assert data == b"a" * 100 + b"b" * 100


def test_a_restart_forgets_what_was_on_its_way_to_the_device() -> None:
    device = Echo(9600)
    emulator = line(device)
    emulator.on_rx(b"x" * 100, START)
    emulator.on_message(event(START, "later"), START + 200 * MS)
    emulator.restart(START + 10 * MS)
    got = run(emulator, START + SECOND)
    assert device.restarts == 1
    assert device.received == []
    assert b"".join(data for _, data in got) == b"later"


def test_what_the_device_does_to_the_actuators_at_a_restart_is_known_at_once() -> None:
    emulator = line(Echo(9600))
    emulator.restart(START + 10 * MS)
    assert emulator.take_commands() == [DriveCommand(START + 10 * MS, 0.0, 0.0, 0.0)]
    assert emulator.take_commands() == ()


@pytest.mark.parametrize(
    ("address", "baud"),
    [
        ("serial:/dev/ttyUSB0?baud=921600", 921600),
        ("serial:/dev/ttyUSB0?retry_max_s=2&baud=9600", 9600),
        ("pty:/tmp/x?baud=9600&retry_max_s=2", 9600),
        ("serial:/dev/ttyUSB0", 115200),
        ("tcp:host:2000?baud=1", 0),
        ("", 0),
    ],
)
def test_the_rate_of_an_address(address: str, baud: int) -> None:
    assert baud_of(address) == baud


@given(
    sent=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 150)), max_size=12),
    received=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 150)), max_size=12),
    looks=st.lists(st.integers(0, 400), max_size=20),
)
def test_the_bytes_do_not_depend_on_when_it_is_called(
    sent: list[tuple[int, int]], received: list[tuple[int, int]], looks: list[int]
) -> None:
    things = sorted([(at, 0, size) for at, size in sent] + [(at, 1, size) for at, size in received])

    def all_of(instants: list[int]) -> list[tuple[int, bytes]]:
        emulator = line(Echo(9600))
        got: list[tuple[int, bytes]] = []
        for at, what, size in things:
            while instants and instants[0] <= at:
                emulator.on_time(START + instants.pop(0) * MS)
                got += emulator.take_tx()
            if what:
                emulator.on_rx(bytes(range(size)), START + at * MS)
            else:
                emulator.on_message(event(START, "m" * size), START + at * MS)
        emulator.on_time(START + 10 * SECOND)
        return got + list(emulator.take_tx())

    # Instants before something that is still to come at the same time would be a step back.
    instants = sorted(at for at in looks if at not in {at for at, _, _ in things})
    assert all_of(instants) == all_of([])
