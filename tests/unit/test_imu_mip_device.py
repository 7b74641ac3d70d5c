"""The MicroStrain host side: its dialogue with a device of our making, new and old, and how packets
become samples."""

import json
from collections.abc import Sequence
from math import pi
from typing import Any

import msgspec
import pytest

from drivers.imu import mip
from drivers.imu.base import Sample
from vehicled.core.messages import Event, Fault, Heading, ImuSample, Message, PortState
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.usage import Unused

MS = 1_000_000
S = 1_000_000_000


class FakeMip:
    """Answers commands as the manual says. An old one does not know the commands with a descriptor
    set in them."""

    def __init__(
        self, *, old: bool = False, fields: Sequence[int] = (0xD5, 0x12, 0x04, 0x05, 0x0C, 0x18)
    ) -> None:
        self.old = old
        self.fields = set(fields)
        self.format = b""
        self.filter_format = b""
        self.idle = False
        self.deaf: set[tuple[int, int]] = set()
        self.asked: list[tuple[int, int]] = []

    def _obey(self, kind: int, command: int, data: bytes) -> tuple[int, bytes, int]:
        """(error code, data of the reply, its descriptor)"""
        if kind == mip.BASE:
            self.idle = command == mip.IDLE
            return 0, b"", 0
        known = (
            {mip.IMU_BASE_RATE, mip.IMU_MESSAGE_FORMAT}
            if self.old
            else {mip.BASE_RATE, mip.MESSAGE_FORMAT, mip.STREAM}
        )
        if command not in known:
            return 1, b"", 0
        if command == mip.STREAM:
            return 0, b"", 0
        if command in (mip.BASE_RATE, mip.IMU_BASE_RATE):
            return 0, (data + b"\x01\xf4"), 0x83 if self.old else 0x8E
        scope = 0 if self.old else 1
        if data[0] == mip.READ and not self.old and data[1] == mip.FILTER:
            return 0, self.filter_format, 0x8F
        if data[0] == mip.READ:
            return 0, self.format, 0x80 if self.old else 0x8F
        rows = data[2 + scope :]
        if scope and data[1] == mip.FILTER:
            self.filter_format = data[1:]
            return 0, b"", 0
        if not {rows[i] for i in range(0, len(rows), 3)} <= self.fields:
            return 3, b"", 0
        assert data[1 + scope] * 3 == len(rows)
        self.format = data[1:]
        return 0, b"", 0

    def answer(self, data: bytes) -> bytes:
        answers = b""
        for _, found in mip.decode(data):
            if not isinstance(found, mip.Packet):
                continue
            ((command, body),) = found.fields
            self.asked.append((found.kind, command))
            if (found.kind, command) in self.deaf:
                continue
            code, reply, descriptor = self._obey(found.kind, command, body)
            fields = [(mip.REPLY, bytes((command, code)))]
            if reply:
                fields.append((descriptor, reply))
            answers += mip.encode(found.kind, *fields)
        return answers


def make(messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any) -> mip.MipDevice:
    return mip.MipDevice(msgspec.convert(params, mip.MipDevice.Params), messages, 50 * MS)


def pump(device: mip.MipDevice, fake: FakeMip, now_ns: int, until_ns: int) -> list[Message]:
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


def sensor(**fields: Any) -> bytes:
    names = {"time": 0xD5, "delta": 0xD6, "force": 0x04, "rate": 0x05, "theta": 0x07,
        "velocity": 0x08, "euler": 0x0C, "gps": 0x12,
             "internal": 0x0E, "temperature": 0x14, "overrange": 0x18, "quaternion": 0x0A,
             "matrix": 0x09}  # fmt: skip
    return mip.encode(
        mip.SENSOR, *(mip.write(mip.SENSOR, names[name], value) for name, value in fields.items())
    )


def filtered(**fields: Any) -> bytes:
    names = {"time": 0xD5, "euler": 0x05, "quaternion": 0x03, "gps": 0x11}
    return mip.encode(
        mip.FILTER, *(mip.write(mip.FILTER, names[name], value) for name, value in fields.items())
    )


def feed(*frames: bytes) -> list[Sample]:
    codec = mip.MipCodec()
    return [sample for frame in frames for sample in codec.decode("MIP", frame)]


def row(field: int, decimation: int) -> bytes:
    return bytes((field,)) + decimation.to_bytes(2, "big")


def test_sets_a_new_device_up() -> None:
    device, fake = make(rate_hz=100), FakeMip()
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, S)
    assert device.configured
    assert not fake.idle
    assert fake.format == b"\x80\x05" + b"".join(
        row(field, 5) for field in (0xD5, 0x04, 0x05, 0x0C, 0x18)
    )
    assert fake.asked == [(1, 0x02), (0xC, 0x0E), (0xC, 0x0F), (0xC, 0x0F), (0xC, 0x11), (1, 0x06)]
    (event,) = [message for message in got if isinstance(message, Event)]
    assert json.loads(event.fields) == {
        "device": "mip",
        "fields": ["D5", "04", "05", "0C", "18"],
        "rate_hz": 100.0,
    }


def test_sets_an_old_device_up_with_the_commands_it_has() -> None:
    device = make(messages=[ImuSample], rate_hz=250)
    fake = FakeMip(old=True, fields=(0x12, 0x04, 0x05))
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    assert device.configured
    assert fake.format == b"\x03" + b"".join(row(field, 2) for field in (0x12, 0x04, 0x05))


def test_a_device_without_an_attitude_of_its_own_gives_that_of_its_filter() -> None:
    device, fake = make(rate_hz=100), FakeMip(fields=(0xD5, 0x04, 0x05, 0x18))
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    assert device.configured
    assert fake.filter_format == b"\x82\x02" + row(0xD5, 5) + row(0x05, 5)
    assert fake.asked.count((0xC, 0x11)) == 2, "both streams are switched on"


def test_a_device_that_can_give_no_heading_is_reported() -> None:
    device, fake = make(rate_hz=100), FakeMip(old=True, fields=(0x12, 0x04, 0x05))
    device.on_port(PortState.OPENED, "", 0)
    (fault,) = [message for message in pump(device, fake, 0, S) if isinstance(message, Fault)]
    assert "no heading" in fault.reason
    assert not fake.idle


@pytest.mark.parametrize(
    ("frame", "field", "reason"),
    [
        (sensor(euler=(0.0, 0.0, 0.0)), "field 80/0C", Unused.ALL_ZERO),
        (sensor(euler=(0.0, 2.0, 0.0)), "field 80/0C", Unused.OUT_OF_RANGE),
        (sensor(quaternion=(0.0, 0.0, 0.0, 0.0)), "field 80/0A", Unused.ALL_ZERO),
        (sensor(quaternion=(0.5, 0.5, 0.5, 0.6)), "field 80/0A", Unused.NOT_A_ROTATION),
        (sensor(matrix=(0.0,) * 9), "field 80/09", Unused.ALL_ZERO),
        (filtered(euler=(0.1, 0.0, 0.0, 0)), "field 82/05", Unused.INVALID),
        (filtered(quaternion=(0.0, 0.0, 0.0, 0.0, 1)), "field 82/03", Unused.ALL_ZERO),
    ],
)
def test_an_attitude_that_is_none_is_no_heading(frame: bytes, field: str, reason: Unused) -> None:
    device = make()
    got = device.on_rx(frame, S)
    assert not any(isinstance(message, Heading) for message in got)
    assert [loss.reason for loss in device.usage.of(field).refused] == [reason]
    assert len(got) == 1, "it is said"


def test_a_device_that_takes_no_format_is_left_resumed_and_reported() -> None:
    device, fake = make(), FakeMip(fields=(0x06,))
    device.on_port(PortState.OPENED, "", 0)
    (fault,) = [message for message in pump(device, fake, 0, S) if isinstance(message, Fault)]
    assert fault.reason == "the device cannot be set up: message format: invalid parameter"
    assert not fake.idle
    assert fake.asked.count((0xC, 0x0F)) == 3


def test_no_answer_is_reported_once_and_asked_again() -> None:
    device, fake = make(answer_timeout_s=0.2, tries=4, retry_s=1.0), FakeMip()
    fake.deaf = {(1, 0x06)}
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, 3 * S)
    assert [message.reason for message in got if isinstance(message, Fault)] == [
        "no answer to the request to resume"
    ]
    assert fake.asked[5:9] == [(1, 0x06)] * 4
    fake.deaf = set()
    got = pump(device, fake, 3 * S, 5 * S)
    assert [message.active for message in got if isinstance(message, Fault)] == [False]
    assert not fake.idle


def test_an_acknowledgement_of_the_write_is_no_answer_to_the_read() -> None:
    """A repeated question is answered twice; the second answer comes when the next question is
    asked already."""
    device, fake = make(), FakeMip()
    device.on_port(PortState.OPENED, "", 0)
    asked: list[bytes] = []
    for _ in range(3):
        (action,) = device.take_tx()
        assert isinstance(action, Send)
        asked.append(action.data)
        device.on_rx(fake.answer(action.data), 5)
    (read,) = device.take_tx()
    assert isinstance(read, Send)
    device.on_rx(fake.answer(asked[2]), 6)
    assert not device.take_tx()
    device.on_rx(fake.answer(read.data), 7)
    assert len(device.take_tx()) == 1


def test_only_listens_if_not_to_configure() -> None:
    device = make(configure=False)
    device.on_port(PortState.OPENED, "", 0)
    assert device.next_due_ns() == NEVER_NS
    assert not device.take_tx()


def test_units_and_axes() -> None:
    (sample,) = feed(
        sensor(
            time=5 * S,
            force=(0.1, 0.2, -1.0),
            rate=(0.1, 0.2, 0.3),
            temperature=(20.0, 30.0, 26.85),
            overrange=0,
        )
    )
    assert sample.counter == 5 * S
    assert sample.specific_force_mps2 == pytest.approx((0.980665, -1.96133, 9.80665))
    assert sample.angular_rate_radps == pytest.approx((0.1, -0.2, -0.3))
    assert sample.temperature_k == pytest.approx(300.0)
    for bit, saturated in ((0, True), (3, False), (6, True), (8, False), (12, False)):
        (sample,) = feed(sensor(force=(0.0, 0.0, -1.0), rate=(0.0,) * 3, overrange=1 << bit))
        assert sample.saturated is saturated


def test_two_packets_of_one_instant_are_one_sample() -> None:
    force, rate = (0.0, 0.0, -1.0), (0.1, 0.0, 0.0)
    (sample,) = feed(sensor(time=100, force=force), sensor(time=100, rate=rate, overrange=1))
    assert sample.counter == 100
    assert sample.specific_force_mps2 is not None
    assert sample.angular_rate_radps is not None
    assert sample.saturated
    # The other half was lost: the half there is comes by itself, once it is known to be alone.
    alone, whole = feed(
        sensor(time=100, force=force), sensor(time=200, force=force), sensor(time=200, rate=rate)
    )
    assert (alone.counter, alone.angular_rate_radps) == (100, None)
    assert (whole.counter, whole.angular_rate_radps is None) == (200, False)
    # Halves of two instants do not make a whole.
    (alone,) = feed(sensor(time=100, force=force), sensor(time=200, rate=rate))
    assert (alone.counter, alone.angular_rate_radps) == (100, None)


def test_increments_over_their_interval() -> None:
    theta, velocity = (0.002, 0.0, 0.001), (0.0, 0.0, -0.01)
    (sample,) = feed(sensor(time=5 * S, delta=10 * MS, theta=theta, velocity=velocity))
    assert sample.angular_rate_radps == pytest.approx((0.2, 0.0, -0.1))
    assert sample.specific_force_mps2 == pytest.approx((0.0, 0.0, 9.80665))
    assert not feed(sensor(theta=theta, velocity=velocity))
    (sample,) = feed(
        sensor(time=5 * S, force=(0.0, 0.0, -1.0), rate=theta),
        sensor(time=5 * S + 20 * MS, theta=theta, velocity=velocity),
    )[1:]
    assert sample.angular_rate_radps == pytest.approx((0.1, 0.0, -0.05))


def test_every_kind_of_time() -> None:
    still: dict[str, Any] = {"force": (0.0, 0.0, -1.0), "rate": (0.0,) * 3}
    assert [s.counter for s in feed(sensor(gps=(12.5, 2000, 0x1F), **still))] == [
        2000 * 604_800 * S + 12_500 * MS
    ]
    ticks = [
        s.counter for s in feed(*(sensor(internal=tick, **still) for tick in (2**32 - 625, 0, 625)))
    ]
    assert ticks == [(2**32 - 625) * 16_000, 2**32 * 16_000, (2**32 + 625) * 16_000]
    assert [s.counter for s in feed(sensor(**still))] == [None]
    # Of a filter with another time than the sensor only the arrival counts.
    got = feed(sensor(time=5, **still), filtered(gps=(12.5, 2000, 1), euler=(0.0, 0.1, 0.0, 1)))
    assert [s.counter for s in got] == [5, None]


def test_yaw_from_every_form_and_the_filter_first() -> None:
    half = 0.5**0.5
    for fields in (
        {"euler": (0.0, 0.0, pi / 2)},
        {"quaternion": (half, 0.0, 0.0, half)},
        {"matrix": (0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0)},
    ):
        (sample,) = feed(sensor(**fields))
        assert sample.yaw_rad == pytest.approx(0.0, abs=1e-7)  # due east
    codec = mip.MipCodec()

    def yaws(frame: bytes) -> list[float | None]:
        return [sample.yaw_rad for sample in codec.decode("MIP", frame)]

    own = sensor(euler=(0.0, 0.0, 0.5))
    valid = filtered(euler=(0.0, 0.0, 0.7, 1))
    invalid = filtered(euler=(0.0, 0.0, 0.9, 0))
    assert yaws(own) == [pytest.approx(pi / 2 - 0.5)]
    assert yaws(valid) == [pytest.approx(pi / 2 - 0.7)]
    assert yaws(own) == []
    assert yaws(invalid) == []
    assert yaws(own) == [pytest.approx(pi / 2 - 0.5)]


def test_fields_of_another_length_are_left_out() -> None:
    codec = mip.MipCodec()
    assert not codec.decode("MIP", mip.encode(mip.SENSOR, (mip.ACCEL, bytes(11)), (0x77, b"")))
