"""The VectorNav host side: its dialogue with a device of our making, and the many ways in which a
frame may say the same."""

import json
from collections.abc import Sequence
from math import pi, radians
from typing import Any

import msgspec
import pytest

from drivers.imu import vectornav
from drivers.imu.vectornav_fields import masks
from vehicled.core.messages import Event, Fault, Heading, ImuSample, Message, PortState
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.usage import Unused

MS = 1_000_000
S = 1_000_000_000


class FakeVectorNav:
    """Keeps registers as a device does, echoes writes; can be deaf and refuse masks it does not
    know."""

    def __init__(self) -> None:
        self.registers = {1: "VN-100S-0000", 6: "14", 75: "0,8,00", 76: "0,8,00"}
        self.deaf = False
        self.refuses_imu_group = self.refuses_attitude_group = False
        self.locked = False
        self.lines: list[str] = []

    def answer(self, data: bytes) -> bytes:
        answers = b""
        for _, line in vectornav.decode(data):
            assert isinstance(line, str)
            self.lines.append(line)
            command, number, *values = line.split(",")
            if self.deaf:
                continue
            if command == "VNWRG":
                masks_refused = ("05",) * self.refuses_imu_group + (
                    "15",
                    "11",
                ) * self.refuses_attitude_group
                if number == "75" and values[2] in masks_refused:
                    answers += vectornav.encode_line("VNERR,07")
                    continue
                if not self.locked or number == "06":
                    self.registers[int(number)] = ",".join(values)
                answers += vectornav.encode_line(line)
            else:
                answers += b"noise\r\n" + vectornav.encode_line(
                    f"VNRRG,{number},{self.registers[int(number)]}"
                )
        return answers


def make(
    messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any
) -> vectornav.VectorNavDevice:
    return vectornav.VectorNavDevice(
        msgspec.convert(params, vectornav.VectorNavParams), messages, 50 * MS
    )


def pump(
    device: vectornav.VectorNavDevice, fake: FakeVectorNav, now_ns: int, until_ns: int
) -> list[Message]:
    """Lets the two talk, time passing only when the device waits."""
    got: list[Message] = []
    while True:
        sent = b"".join(action.data for action in device.take_tx() if isinstance(action, Send))
        if sent:
            got += device.on_rx(fake.answer(sent), now_ns)
            continue
        due_ns = device.next_due_ns()
        if due_ns > until_ns:
            return got
        now_ns = max(now_ns, due_ns)
        got += device.on_time(now_ns)


def samples(
    device: vectornav.VectorNavDevice, values: dict[str, Any], now_ns: int = S
) -> list[Message]:
    return list(device.on_rx(vectornav.encode(values), now_ns))


def test_sets_the_binary_output_and_reads_it_back() -> None:
    device, fake = make(rate_hz=200, serial_port=1), FakeVectorNav()
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, S)
    assert fake.lines[0] == "VNRRG,01"
    assert fake.registers[6] == "0"
    # Start-up time, yaw pitch roll, rate, acceleration; temperature, saturation; status of the
    # attitude.
    assert fake.registers[75] == "1,4,15,0129,0810,0001"
    assert fake.registers[76] == "0,8,00"
    (event,) = [message for message in got if isinstance(message, Event)]
    fields = json.loads(event.fields)
    assert event.name == "imu_configured"
    assert (fields["model"], fields["rate_hz"], fields["device"]) == (
        "VN-100S-0000",
        200.0,
        "vectornav",
    )
    assert device.configured


def test_does_without_the_fields_an_old_firmware_refuses() -> None:
    device, fake = make(messages=[ImuSample], output=1), FakeVectorNav()
    fake.refuses_imu_group = True
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    assert device.configured
    assert fake.registers[75] == "3,8,01,0121"


@pytest.mark.parametrize("model", ["VN-200T-CR", "VN-300-0000", "VN-310"])
def test_an_inertial_navigation_system_is_asked_for_the_status_of_its_filter(model: str) -> None:
    device, fake = make(rate_hz=200), FakeVectorNav()
    fake.registers[1] = model
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    assert device.configured
    assert "ins.status" in device.fields(True)
    assert fake.registers[75] == f"3,4,{masks(device.fields(True))}"


def test_a_device_that_does_not_send_the_status_gives_force_and_rate() -> None:
    device, fake = make(), FakeVectorNav()
    fake.refuses_attitude_group = True
    device.on_port(PortState.OPENED, "", 0)
    (fault,) = [message for message in pump(device, fake, 0, S) if isinstance(message, Fault)]
    assert "no heading" in fault.reason
    assert fake.registers[75] == "3,8,01,0121"


YPR = {"common.ypr": (45.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({**YPR}, Unused.STATUS_MISSING),
        ({**YPR, "attitude.status": 3}, Unused.INVALID),
        ({**YPR, "attitude.status": 0}, None),
        ({**YPR, "ins.status": 0}, Unused.INVALID),
        ({**YPR, "ins.status": 1}, Unused.INVALID),
        ({**YPR, "ins.status": 2}, None),
        ({**YPR, "ins.status": 3}, None),
        ({**YPR, "ins.status": 2, "attitude.status": 3}, Unused.INVALID),
        ({"attitude.ypr": (0.0, 0.0, 0.0), "attitude.status": 0}, Unused.ALL_ZERO),
        ({"attitude.ypr": (0.0, 120.0, 0.0), "attitude.status": 0}, Unused.OUT_OF_RANGE),
        ({"attitude.quaternion": (0.0,) * 4, "attitude.status": 0}, Unused.ALL_ZERO),
        (
            {"attitude.quaternion": (0.0, 0.0, 0.0, 1.1), "attitude.status": 0},
            Unused.NOT_A_ROTATION,
        ),
        (
            {"attitude.dcm": (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5), "attitude.status": 0},
            Unused.NOT_A_ROTATION,
        ),
    ],
)
def test_a_heading_needs_an_attitude_that_the_device_vouches_for(
    values: dict[str, Any], reason: Unused | None
) -> None:
    device = make()
    inertial = {"common.acceleration": (0.0, 0.0, -9.8), "common.angular_rate": (0.0, 0.0, 0.1)}
    got = samples(device, {**inertial, **values})
    assert [type(message) for message in got if not isinstance(message, Event)] == (
        [ImuSample] if reason else [ImuSample, Heading]
    )
    ((_, use),) = device.usage
    assert [loss.reason for loss in use.lost] == ([reason] if reason else [])
    assert use.used == 1


def test_a_unit_that_does_not_reach_its_sensors_measures_nothing() -> None:
    device = make()
    values = {
        "common.acceleration": (0.0, 0.0, -9.8),
        "common.angular_rate": (0.0, 0.0, 0.1),
        "ins.status": 2 | 1 << 4,
    }
    assert not any(isinstance(message, ImuSample) for message in samples(device, values))
    ((_, use),) = device.usage
    assert [loss.reason for loss in use.refused] == [Unused.SELF_TEST]


def test_a_device_that_keeps_its_own_setting_is_reported() -> None:
    device, fake = make(), FakeVectorNav()
    fake.locked = True
    device.on_port(PortState.OPENED, "", 0)
    (fault,) = [message for message in pump(device, fake, 0, S) if isinstance(message, Fault)]
    assert (fault.code, fault.active) == ("imu_configuration", True)
    assert fault.reason == "the device does not take the binary output: it is set to 0,8,00"


def test_no_answer_is_reported_once_and_asked_again() -> None:
    device, fake = make(answer_timeout_s=0.5, tries=2, retry_s=3.0), FakeVectorNav()
    fake.deaf = True
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, 6 * S)
    assert fake.lines == ["VNRRG,01"] * 4
    assert [message.reason for message in got if isinstance(message, Fault)] == [
        "no answer to the request to report its model"
    ]
    fake.deaf = False
    got = pump(device, fake, 6 * S, 9 * S)
    assert [message.active for message in got if isinstance(message, Fault)] == [False]


def test_only_listens_if_not_to_configure() -> None:
    device = make(configure=False)
    device.on_port(PortState.OPENED, "", 0)
    assert device.next_due_ns() == NEVER_NS
    assert not device.take_tx()


def test_answers_about_other_registers_are_passed_over() -> None:
    device = make()
    device.on_port(PortState.OPENED, "", 0)
    device.take_tx()
    for line in ("VNRRG,08,1,2,3", "VNYPR,1,2,3", "VNRRG", "VNRRG,x", "GPGGA,1"):
        device.on_rx(vectornav.encode_line(line), 5)
    assert not device.take_tx()
    device.on_rx(vectornav.encode_line("VNRRG,1,VN-300"), 6)
    assert len(device.take_tx()) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"common.acceleration": (0.5, 1.0, -9.8), "common.angular_rate": (0.1, 0.2, 0.3)},
        {"imu.acceleration": (0.5, 1.0, -9.8), "imu.angular_rate": (0.1, 0.2, 0.3)},
        {"imu.raw_acceleration": (0.5, 1.0, -9.8), "imu.raw_gyro": (0.1, 0.2, 0.3)},
        {"common.imu": (0.5, 1.0, -9.8, 0.1, 0.2, 0.3)},
        {
            "common.deltas": (
                0.5,
                *(50 * v * 180 / pi / 100 for v in (0.1, 0.2, 0.3)),
                0.25,
                0.5,
                -4.9,
            )
        },
        {
            "imu.delta_theta": (0.5, *(0.5 * v * 180 / pi for v in (0.1, 0.2, 0.3))),
            "imu.delta_velocity": (0.25, 0.5, -4.9),
        },
        # Compensated values come first, whatever else there is.
        {
            "common.acceleration": (0.5, 1.0, -9.8),
            "imu.angular_rate": (0.1, 0.2, 0.3),
            "common.imu": (9.0,) * 6,
        },
    ],
)
def test_every_form_of_inertial_values_gives_the_same_sample(values: dict[str, Any]) -> None:
    (sample,) = samples(make(), values)
    assert isinstance(sample, ImuSample)
    assert sample.specific_force_mps2 == pytest.approx((0.5, -1.0, 9.8), rel=1e-6)
    assert sample.angular_rate_radps == pytest.approx((0.1, -0.2, -0.3), rel=1e-6)


def test_temperature_saturation_and_time() -> None:
    device = make()
    base = {"common.acceleration": (0.0, 0.0, -9.8), "common.angular_rate": (0.0, 0.0, 0.0)}
    (sample,) = samples(
        device,
        {**base, "imu.temperature": 26.85, "imu.saturation": 1 << 3, "time.startup": 5 * S},
        20 * S,
    )
    assert isinstance(sample, ImuSample)
    assert sample.temperature_k == pytest.approx(300.0)
    assert sample.saturated
    (sample,) = samples(device,
     {**base, "common.mag_pres": (0.0, 0.0, 0.0, 26.85, 101.0), "imu.saturation": 0b1_0000_0111,
                                 "common.time_startup": 5 * S + 10 * MS},
                                 20 * S + 10 * MS)  # fmt: skip
    assert isinstance(sample, ImuSample)
    assert sample.temperature_k == pytest.approx(300.0)
    assert sample.saturated  # the gyro's z axis
    (sample,) = samples(
        device,
        {**base, "imu.saturation": 0b10_0000_0111, "common.time_startup": 5 * S + 20 * MS},
        21 * S,
    )
    assert isinstance(sample, ImuSample)
    assert not sample.saturated  # magnetometer and barometer
    assert sample.t_ns < 21 * S  # late on the way: the device's clock shows it


def test_heading_clockwise_from_north_becomes_counter_clockwise_from_east() -> None:
    device = make()
    for yaw_deg, expected in ((360.0, pi / 2), (90.0, 0.0), (-90.0, -pi), (30.0, radians(60.0))):
        (heading,) = samples(device, {"attitude.status": 0, "attitude.ypr": (yaw_deg, 0.0, 0.0)})
        assert isinstance(heading, Heading)
        assert heading.yaw_rad == pytest.approx(expected)
    assert samples(device, {"attitude.status": 2, "attitude.ypr": (10.0, 0.0, 0.0)})


def test_a_mask_that_is_not_in_the_table_is_a_bad_frame() -> None:
    device = make()
    body = b"\x01\x00\x40" + bytes(8)
    good = b"\xfa" + body + crc16_xmodem(body).to_bytes(2, "big")
    device.on_rx(good, S)
    assert device.bad_frames == 0
    # One that is known with one that is not, sound if the latter had no length; no field at all;
    # and a group that is no head.
    for body, bad in (
        (b"\x02\x01\x20" + bytes(8), 1),
        (b"\x02\x00\x00", 2),
        (b"\x81\x01\x01\x00" + bytes(8), 2),
    ):
        device.on_rx(b"\xfa" + body + crc16_xmodem(body).to_bytes(2, "big"), S)
        assert device.bad_frames == bad
    assert device.dropped_bytes == 14 + 6 + 15
