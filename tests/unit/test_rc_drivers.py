"""Drivers of RC receivers beyond their frames: link statistics, telemetry, the sensor bus, and
pauses between frames."""

from math import isnan, nan, pi

import pytest

from drivers.rc import crsf, ibus, sbus
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Mode,
    MotorStatus,
    RcChannels,
    StateEstimate,
)
from vehicled.core.ports import Send

MS = 1_000_000
MIDDLE = (992.0,) * 16
CHANNELS = crsf.encode(crsf.Channels(MIDDLE))


def crsf_device(telemetry_hz: float = 10.0) -> crsf.CrsfDevice:
    return crsf.CrsfDevice(crsf.CrsfParams(telemetry_hz=telemetry_hz), [RcChannels], 50 * MS)


def frames(
    device: crsf.CrsfDevice | sbus.SbusDevice | ibus.IbusDevice, data: bytes, t_ns: int
) -> list[RcChannels]:
    return [each for each in device.on_rx(data, t_ns) if isinstance(each, RcChannels)]


def sent(device: crsf.CrsfDevice | ibus.IbusDevice) -> bytes:
    return b"".join(each.data for each in device.take_tx() if isinstance(each, Send))


# ---------------------------------------------------------------- CRSF


def test_link_statistics_are_with_the_channels_while_they_are_fresh() -> None:
    device = crsf_device()
    (alone,) = frames(device, CHANNELS, MS)
    assert isnan(alone.link_quality)
    (known,) = frames(device, crsf.encode(crsf.LinkStatistics(-61, 87, -4)) + CHANNELS, 2 * MS)
    assert (known.link_quality, known.rssi_dbm, known.snr_db, known.failsafe) == (
        0.87,
        -61.0,
        -4.0,
        False,
    )
    (stale,) = frames(device, CHANNELS, 3_000 * MS)
    assert isnan(stale.link_quality)


def test_a_link_quality_of_zero_is_failsafe_with_and_without_channels() -> None:
    device = crsf_device()
    lost = crsf.encode(crsf.LinkStatistics(-120, 0, -10))
    first, second = frames(device, lost + CHANNELS, MS)
    assert first.failsafe
    assert all(map(isnan, first.channels))
    assert second.failsafe, "a receiver that holds its last frame"
    (again,) = frames(device, crsf.encode(crsf.LinkStatistics(-60, 300, 9)) + CHANNELS, 2 * MS)
    assert (again.failsafe, again.link_quality) == (False, 1.0)


def test_the_better_of_two_antennas_counts_and_an_absent_one_does_not() -> None:
    body = bytes((crsf.LINK, 90, 60, 99, 5, 1, 2, 3, 70, 98, 7))
    content = crsf.parse(crsf.frame(body[0], body[1:]))
    assert isinstance(content, crsf.LinkStatistics)
    assert content.rssi_dbm == -60
    content = crsf.parse(crsf.frame(crsf.LINK, bytes((0, 75, 99, 5, 1, 2, 3, 70, 98, 7))))
    assert isinstance(content, crsf.LinkStatistics)
    assert content.rssi_dbm == -75


def test_a_longer_frame_of_a_newer_version_is_read() -> None:
    data = crsf.encode(crsf.Channels(MIDDLE))
    longer = crsf.frame(crsf.RC, data[3:-1] + b"\1")
    assert [each.channels for each in frames(crsf_device(), longer, MS)] == [MIDDLE]


def test_subsets_keep_what_came_lately_and_forget_the_rest() -> None:
    device = crsf_device()
    (first,) = frames(device, crsf.encode(crsf.Subset(0, (172.8, 992.0))), MS)
    assert first.channels[:2] == pytest.approx((172.8, 992.0), abs=0.5)
    assert all(map(isnan, first.channels[2:]))
    (second,) = frames(device, crsf.encode(crsf.Subset(15, (1000.0, 1100.0, 1200.0))), 100 * MS)
    assert second.channels[:2] == first.channels[:2]
    assert second.channels[15] == pytest.approx(1000.0, abs=0.5)
    (late,) = frames(device, crsf.encode(crsf.Subset(2, (500.0,))), 700 * MS)
    assert isnan(late.channels[0])


def test_telemetry_reaches_the_handset_in_turn_and_no_faster_than_asked() -> None:
    device = crsf_device(10.0)
    assert sent(device) == b""
    device.on_rx(CHANNELS, 150 * MS)
    assert sent(device) == b"", "nothing is known"
    yaw_rad = pi / 2 - 1.0
    device.on_command(MotorStatus(0, 0, input_voltage_v=16.25, input_current_a=3.4), 0)
    device.on_command(GnssFix(0, 0, 0.75, -1.5, 260.4, (0.0, 2.0, 0.0), satellites=14), 0)
    device.on_command(
        StateEstimate(0, 0, 0.0, 0.0, yaw_rad, 0.0, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING), 0
    )
    device.on_command(ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0, Mode.AUTO), 0)
    shown: dict[str, crsf.Content] = {}
    for step in range(8):
        t_ns = (200 + 100 * step) * MS
        device.on_rx(CHANNELS * 2, t_ns)
        ((name, content),) = crsf.decode(sent(device))
        shown[name] = content  # type: ignore[assignment]
    assert shown["BATTERY"] == crsf.BatterySensor(16.2, 3.4)
    assert shown["FLIGHT_MODE"] == crsf.FlightMode("AUTO")
    assert tuple(shown["ATTITUDE"]) == pytest.approx((0.0, 0.0, 1.0), abs=1e-4)
    assert tuple(shown["GPS"]) == pytest.approx(
        (42.9718346, -85.9436693, 7.2, 0.0, 260, 14), abs=1e-7
    )
    device.on_rx(CHANNELS, 4_000 * MS)
    assert [name for name, _ in crsf.decode(sent(device))] == ["FLIGHT_MODE"], (
        "old values are not shown"
    )


def test_no_telemetry_where_none_is_wanted() -> None:
    device = crsf_device(0.0)
    device.on_command(ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0, Mode.AUTO), 0)
    device.on_rx(CHANNELS, 10**9)
    assert sent(device) == b""


@pytest.mark.parametrize("value", [nan, float("inf"), -1e9, 1e9])
def test_no_value_breaks_a_telemetry_frame(value: float) -> None:
    for content in (
        crsf.BatterySensor(value, value), crsf.Gps(value, value, value, value, 0, 0),
        crsf.CrsfAttitude(value, value, value)
        if abs(value) < 1e9 else crsf.CrsfAttitude(0.0, 0.0, 1e9), crsf.Channels((value,) * 16),
    ):  # fmt: skip
        assert list(crsf.decode(crsf.encode(content)))


# ---------------------------------------------------------------- SBUS


def sbus_frame(steering: float = 992.0, **flags: bool) -> bytes:
    return sbus.encode(sbus.SbusFrame((steering, *MIDDLE[1:]), **flags))  # type: ignore[arg-type]


def test_marks_of_sbus_and_its_digital_channels() -> None:
    device = sbus.SbusDevice(sbus.SbusParams(), [RcChannels], 0)
    data = sbus_frame() + sbus_frame(frame_lost=True) + sbus_frame(failsafe=True, frame_lost=True)
    found = frames(device, data + sbus.encode(sbus.SbusFrame(MIDDLE, (True, False))), MS)
    assert [(each.frame_lost, each.failsafe) for each in found] == [
        (False, False),
        (True, False),
        (True, True),
        (False, False),
    ]
    assert found[-1].channels[16:] == (1811.0, 172.0)
    assert found[-1].link_quality == 0.5


def test_a_futaba_r7003sb_ends_its_frames_with_08_and_five_bytes_of_a_slot() -> None:
    """Bytes of bolderflight/sbus#79, where it could not be read: with the handset, and off."""
    head, tail = "0f011c20a8", "086a4003108090852c000108400002108000080003c0330000"
    on = bytes.fromhex(f"{head}05{tail}")[:30]
    off = bytes.fromhex(f"{head}03{tail.replace('80000800', '800c0800')}")[:30]
    assert off[23:25] == b"\x0c\x08"
    device = sbus.SbusDevice(sbus.SbusParams(), [RcChannels], 0)
    t_ns, found = 0, []
    for each in (on, on, off, off):
        t_ns += 15 * MS
        found += frames(device, each, t_ns)
    assert [(each.failsafe, each.frame_lost) for each in found] == [(False, False)] * 2 + [
        (True, True)
    ] * 2
    assert found[0].channels[0] == 1025.0
    assert 172.0 < found[0].channels[1] < 1811.0


def test_a_wrong_begin_that_repeats_does_not_outlast_the_pause_between_two_frames() -> None:
    # The channels hold 0F where a frame could begin, and 00 before it.
    values = [992.0] * 16
    packed = bytearray(sbus.encode(sbus.SbusFrame(tuple(values))))
    packed[8:11] = bytes((0x03, 0x00, 0x0F))
    whole = bytes(packed)
    right, wrong = sbus.parse(whole).channels, sbus.parse(whole[10:] + whole[:10]).channels
    assert right != wrong
    without = sbus.SbusReader()
    assert all(sbus.parse(each).channels == wrong for each in without.feed(whole[10:] + whole * 9))
    device = sbus.SbusDevice(sbus.SbusParams(), [RcChannels], 0)
    t_ns, found = 0, []
    for piece in (whole[10:], *[whole] * 9):
        t_ns += 7 * MS
        for part, after_ns in ((piece[:12], 0), (piece[12:], MS)):
            found += frames(device, part, t_ns + after_ns)
    assert {each.channels[:16] for each in found} == {right}


def test_random_bytes_give_no_frames() -> None:
    import random

    noise = random.Random(4).randbytes(1_000_000)
    assert len(sbus.SbusReader().feed(noise)) <= 1
    reader = sbus.SbusReader()
    reader.feed(noise[:1000])
    assert reader.feed(sbus_frame() * 3)[-1] == sbus_frame()


# ---------------------------------------------------------------- iBUS


def test_the_sensor_bus_is_answered_with_the_voltage_and_not_at_its_echo() -> None:
    device = ibus.IbusDevice(ibus.IbusParams(), [RcChannels], 50 * MS)
    ask = [
        ibus.encode_request(ibus.SensorRequest(kind, 1))
        for kind in (ibus.DISCOVER, ibus.TYPE, ibus.VALUE)
    ]
    assert ask[0].hex() == "04817aff"
    device.on_rx(ask[0], MS)
    assert sent(device) == b"", "no voltage is known"
    device.on_command(MotorStatus(0, 0, input_voltage_v=11.87), 0)
    answers = []
    for i, request in enumerate(ask):
        t_ns = (10 + 7 * i) * MS
        device.on_rx(request, t_ns)
        answers.append(sent(device))
        device.on_rx(answers[-1], t_ns + MS)
        assert sent(device) == b"", "its own bytes on the one wire"
    assert answers[0] == ask[0]
    assert [each.hex() for each in answers[1:]] == ["0691030263ff", "06a1a304b1fe"]
    device.on_rx(ibus.encode_request(ibus.SensorRequest(ibus.DISCOVER, 2)), 100 * MS)
    assert sent(device) == b"", "another sensor's address"


def test_eighteen_channels_are_in_the_upper_bits() -> None:
    channels = tuple(1000.0 + 50.0 * i for i in range(18))
    ((_, content),) = ibus.decode(ibus.encode(ibus.IbusFrame(channels)))
    assert content == ibus.IbusFrame(channels)
