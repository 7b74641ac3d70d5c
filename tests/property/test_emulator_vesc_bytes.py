"""Whatever the daemon sends, and however it is cut, the simulated VESC lives on and answers the
next sound question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.vesc.canbus import Can, split_comm
from drivers.vesc.comm import Comm, Request, SetCommand, encode_comm
from drivers.vesc.uart import frame_uart
from sim_backend.emulators.vesc import VescCanEmulator, VescUartEmulator
from tests.vesc_bench import MS, START_NS, device
from vehicled.core.wire.can import CanFrame, pack, unpack_all

FRAMES = st.builds(
    lambda packet, target, data: pack(CanFrame(packet << 8 | target, data)),
    st.one_of(st.sampled_from([int(each) for each in Can]), st.integers(0, 255)),
    st.sampled_from([1, 254, 255, 9]),
    st.binary(max_size=8),
)


def _check_commands(emulator: VescCanEmulator | VescUartEmulator) -> None:
    for command in emulator.take_commands():
        assert 0.0 <= command.throttle <= 1.0
        assert 0.0 <= command.brake <= 1.0
        assert -1.0 <= command.steering <= 1.0


@given(chunks=st.lists(st.binary(max_size=80), max_size=30))
def test_hostile_bytes_on_the_serial_line(chunks: list[bytes]) -> None:
    emulator = VescUartEmulator("drive", device("vesc_uart"), 1, START_NS)
    for i, chunk in enumerate(chunks):
        emulator.on_rx(chunk, START_NS + i * MS)
        emulator.on_time(START_NS + i * MS)
    emulator.on_time(START_NS + 1000 * MS)
    _check_commands(emulator)
    emulator.take_tx()
    emulator.on_rx(frame_uart(encode_comm(Request(Comm.GET_VALUES))), START_NS + 1100 * MS)
    emulator.on_time(START_NS + 1200 * MS)
    assert len(b"".join(data for _, data in emulator.take_tx())) == 74 + 5


@given(payloads=st.lists(st.binary(min_size=1, max_size=40), max_size=20))
def test_hostile_packets_on_the_serial_line(payloads: list[bytes]) -> None:
    emulator = VescUartEmulator("drive", device("vesc_uart"), 1, START_NS)
    for payload in payloads:
        emulator.on_rx(frame_uart(payload), START_NS)
    emulator.on_time(START_NS + 10_000 * MS)
    _check_commands(emulator)


@given(frames=st.lists(FRAMES, max_size=60), junk=st.binary(max_size=40))
def test_hostile_frames_on_the_bus(frames: list[bytes], junk: bytes) -> None:
    emulator = VescCanEmulator("drive", device("vesc_can"), 1, START_NS)
    emulator.on_rx(b"".join(frames) + junk, START_NS)
    emulator.on_line(0, START_NS)
    emulator.on_time(START_NS + 1000 * MS)
    _check_commands(emulator)
    emulator.take_tx()
    for frame in split_comm(1, 254, encode_comm(Request(Comm.GET_VALUES))):
        emulator.on_rx(pack(frame), START_NS + 1100 * MS)
    emulator.on_time(START_NS + 1200 * MS)
    assert len(emulator.take_tx()) == 12


@pytest.mark.parametrize("wire", ["vesc_can", "vesc_uart"])
@given(data=st.data())
def test_any_cut_gives_the_same_commands(wire: str, data: st.DataObject) -> None:
    duty, position = SetCommand(Comm.SET_DUTY, 0.1), SetCommand(Comm.SET_SERVO_POS, 0.6)
    if wire == "vesc_uart":
        stream = b"".join(frame_uart(encode_comm(each)) for each in (duty, position, duty))
    else:
        stream = b"".join(
            pack(frame)
            for each in (duty, position, duty)
            for frame in split_comm(1, 254, encode_comm(each), 2)
        )
    outcomes = []
    for cut in (False, True):
        make = VescUartEmulator if wire == "vesc_uart" else VescCanEmulator
        emulator = make("drive", device(wire), 1, START_NS)
        rest = stream
        while rest:
            size = data.draw(st.integers(1, len(rest))) if cut else len(rest)
            emulator.on_rx(rest[:size], START_NS)
            rest = rest[size:]
        emulator.on_time(START_NS + 20 * MS)
        outcomes.append(
            [(each.throttle, each.brake, each.steering) for each in emulator.take_commands()]
        )
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][-1] == (0.5, 0.0, pytest.approx(-0.1 / 0.35))


def test_a_bus_without_time_loses_frames_instead_of_hoarding_them() -> None:
    emulator = VescCanEmulator("drive", device("vesc_can"), 1, START_NS)
    ping = pack(CanFrame(Can.PING << 8 | 1, b"\xfe"))
    emulator.on_rx(ping * 5000, START_NS)
    emulator.on_time(START_NS + 1000 * MS)
    answers = [unpack_all(data)[0] for _, data in emulator.take_tx()]
    assert 0 < len(answers) < 5000
    assert emulator.lost_frames > 3000
    assert {frame.can_id for frame in answers} == {Can.PONG << 8 | 254}
