"""Codecs of motor controllers beside tables and bytes that others published, and another
implementation of the checksum."""

import csv
import struct
from binascii import crc_hqx
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.motor import maestro, odrive, pca9685, roboclaw, sabertooth
from vehicled.core.wire import i2c
from vehicled.core.wire.can import CanFrame
from vehicled.core.wire.i2c import I2cRequest

TABLE = Path(__file__).parents[1] / "golden" / "motor" / "odrive_can_protocol.csv"
KINDS = {
    ("Unsigned Int", 32): "I",
    ("Unsigned Int", 8): "B",
    ("IEEE 754 Float", 32): "f",
    ("Signed Int", 32): "i",
}


def published() -> dict[int, dict[str, str]]:
    with TABLE.open(newline="") as file:
        return {int(row["CMD ID"], 16): row for row in csv.DictReader(file)}


# Temperatures came with firmware 0.6: in the table of 0.5 their number is that of the sensorless
# estimate.
@pytest.mark.parametrize(
    "command", [each for each in odrive.LAYOUTS if each != odrive.CanSimple.TEMPERATURE]
)
def test_cansimple_has_the_published_fields(command: int) -> None:
    row = published()[command]
    if row["Start byte"] == "-":
        assert odrive.LAYOUTS[command][0].size == 0
        return
    starts, kinds, bits = (row[key].split("\n") for key in ("Start byte", "Signal Type", "Bits"))
    bits = bits * len(starts) if len(bits) == 1 else bits
    fields = odrive.LAYOUTS[command][0].format.lstrip("<")
    for i, field in enumerate(fields.replace("3s", "")):
        assert float(starts[i]) == struct.calcsize("<" + fields[:i])
        assert KINDS[kinds[i], int(bits[i])].lower() == field.lower()


def test_cansimple_as_others_write_it() -> None:
    """The example of the crate odrive_can_driver, and that of ODrive's own can_simple.py."""
    frame = odrive.encode_can(odrive.OdriveFrame(1, odrive.CanSimple.SET_INPUT_VEL, (-2.5, 0.25)))
    assert frame == CanFrame(0x02D, struct.pack("<ff", -2.5, 0.25), extended=False)
    name, message = odrive.decode_can(
        CanFrame(5 << 5 | 0x09, struct.pack("<ff", 3.0, 1.5), extended=False)
    )
    assert (name, message) == ("ENCODER_ESTIMATES", odrive.OdriveFrame(5, 9, (3.0, 1.5)))
    asks = odrive.encode_can(odrive.OdriveFrame(1, odrive.CanSimple.ENCODER_ESTIMATES, asks=True))
    assert (asks.can_id, asks.remote) == (0x29, True)


@given(
    st.integers(0, 63), st.sampled_from(sorted(odrive.LAYOUTS)), st.binary(min_size=8, max_size=8)
)
def test_every_frame_of_cansimple_survives_both_directions(
    node: int, command: int, data: bytes
) -> None:
    size = odrive.LAYOUTS[command][0].size
    frame = CanFrame(node << 5 | command, data[:size], extended=False)
    message = odrive.decode_can(frame)[1]
    assert message is not None
    if not message.asks and not any(value != value for value in message.values):
        assert odrive.encode_can(message) == frame


def test_the_checksum_of_the_ascii_protocol_is_the_xor_of_all_before_the_star() -> None:
    """ "M-code" checksum as in the firmware's parser."""
    check = 0
    for byte in b"v 0 1.5000":
        check ^= byte
    assert odrive.encode_line("v 0 1.5000") == b"v 0 1.5000*%d\n" % check
    assert odrive.decode_line(b"v 0 1.5000*%d" % check) == "v 0 1.5000"
    assert odrive.decode_line(b"v 0 1.5000") is None
    assert odrive.decode_line(b"v 0 1.5001*%d" % check) is None


@given(st.integers(0x80, 0x87), st.integers(-32767, 32767), st.integers(-32767, 32767))
def test_packet_serial_has_the_crc_of_another_implementation(
    address: int, first: int, second: int
) -> None:
    packet = roboclaw.encode(address, roboclaw.DUTIES, first, second)
    assert packet[:6] == struct.pack(">BBhh", address, 34, first, second)
    assert int.from_bytes(packet[6:], "big") == crc_hqx(packet[:6], 0)
    assert roboclaw.RoboclawReader(address).feed(packet) == [(34, (first, second))]


@given(st.sampled_from(sorted(roboclaw.READS)), st.integers(0, 100), st.integers(0, 3))
def test_an_answer_is_read_behind_acknowledgements_and_nothing_else(
    command: int, value: int, acks: int
) -> None:
    for i, layout in enumerate(roboclaw.READS[command][1]):
        values = (value,) * len(layout.unpack(bytes(layout.size)))
        answer = roboclaw.encode_answer(0x80, command, values, i)
        assert int.from_bytes(answer[-2:], "big") == crc_hqx(
            bytes((0x80, command)) + answer[:-2], 0
        )
        assert roboclaw.decode_answer(0x80, command, roboclaw.ACK * acks + answer) == (
            values,
            layout.size,
        )
        assert roboclaw.decode_answer(0x81, command, answer) is None
        assert roboclaw.decode_answer(0x80, command, b"\x01" + answer) is None


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_hostile_packets_never_raise_and_are_not_kept(chunks: list[bytes]) -> None:
    reader = roboclaw.RoboclawReader(0x80)
    for chunk in chunks:
        reader.feed(chunk)
        assert len(reader._held) < 12


def test_packet_serial_of_the_sabertooth_as_its_maker_describes_it() -> None:
    """Address 130, motor 1 forward at 64: the checksum is the sum of all, of which seven bits
    count."""
    packet = sabertooth.SabertoothPacket(130, 0, 64)
    assert (
        sabertooth.encode(packet)
        == bytes((130, 0, 64, (130 + 0 + 64) & 0b0111_1111))
        == b"\x82\x00\x40\x42"
    )
    reader = sabertooth.SabertoothReader()
    assert reader.feed(b"\xaa\xaa" + sabertooth.encode(packet)) == [packet]
    assert reader.feed(b"\x82\x00\x40\x43") == []
    assert reader.bad_frames == 1


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_hostile_bytes_leave_no_packet_of_a_sabertooth_behind(chunks: list[bytes]) -> None:
    reader = sabertooth.SabertoothReader()
    for chunk in chunks:
        reader.feed(chunk)
        assert len(reader._held) < sabertooth.PACKET_BYTES


@pytest.mark.parametrize(
    ("device", "data"), [(None, b"\x84\x02\x70\x2e"), (12, b"\xaa\x0c\x04\x02\x70\x2e")]
)
def test_the_target_of_pololus_guide(device: int | None, data: bytes) -> None:
    """Channel 2 to 1500 us: 6000 quarters are 0x70 and 0x2E in seven bits each."""
    target = maestro.MaestroTarget(2, 1500.0)
    assert maestro.encode(target, device) == data
    reader = maestro.CommandReader(device)
    assert reader.feed(b"\x00" + data + maestro.encode(None, device)) == [target, None]


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from([None, 12]))
def test_hostile_bytes_leave_no_command_of_a_maestro_behind(
    chunks: list[bytes], device: int | None
) -> None:
    reader = maestro.CommandReader(device)
    for chunk in chunks:
        reader.feed(chunk)
        assert len(reader._held) < 6


@pytest.mark.parametrize(
    ("hz", "prescale"),
    # 200 Hz: the example of the data sheet, 7.3.5. 50 and 60 Hz: what Adafruit's library writes.
    [(200.0, 0x1E), (60.0, 101), (50.0, 121), (400.0, 14)],
)
def test_the_prescaler_of_a_pca9685(hz: float, prescale: int) -> None:
    params = pca9685.Pca9685Params(pwm_hz=hz)
    assert params.prescale == prescale
    assert pca9685.set_up(prescale)[1].written == bytes((0xFE, prescale))


def test_the_pulses_of_a_pca9685() -> None:
    """Donkeycar's neutral of 370 ticks at 60 Hz, on channel 0, as its library writes it."""
    params = pca9685.Pca9685Params()
    assert round(1510.0 * params.ticks_per_us) == 370
    pulse = pca9685.Pca9685Pulse(0, 370)
    request = pca9685.set_pulse(pulse)
    assert request.written == bytes((0x06, 0x00, 0x00, 0x72, 0x01))
    assert pca9685.pulse_of(request) == pulse
    last = pca9685.set_pulse(pca9685.Pca9685Pulse(15, 4095))
    assert last.written == bytes((0x42, 0x00, 0x00, 0xFF, 0x0F))
    for other in (b"", b"\x00\x20", b"\x05\0\0\0\0", b"\x46\0\0\0\0", b"\x07\0\0\0\0"):
        assert pca9685.pulse_of(I2cRequest(other)) is None


@given(
    requests=st.lists(
        st.builds(I2cRequest, st.binary(max_size=255), st.integers(0, 255)), max_size=9
    ),
    size=st.integers(1, 40),
)
def test_requests_on_an_i2c_bus_in_any_chunks(requests: list[I2cRequest], size: int) -> None:
    data = i2c.encode(*requests)
    reader, found = i2c.I2cRequestReader(), list[I2cRequest]()
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    assert found == requests
