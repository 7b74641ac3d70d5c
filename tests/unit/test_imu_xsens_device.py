"""The Xsens host side: its dialogue with a device of our making, its clock, and what it does with
what the device says."""

import json
from collections.abc import Sequence
from math import pi
from typing import Any

import msgspec
import pytest

from drivers.imu import xsens
from drivers.imu.base import Sample
from drivers.imu.xsens_time import WRAPS
from vehicled.core.messages import Event, Fault, Heading, ImuSample, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.usage import Loss, Unused

MS = 1_000_000
S = 1_000_000_000


class FakeXsens:
    """Answers as the manual says, at once; can be deaf, refuse, give other rates, and restart."""

    def __init__(self) -> None:
        self.outputs = [(0x1020, 0xFFFF), (0x4022, 400)]
        self.measuring = True
        self.deaf: set[int] = set()
        self.refuses = False
        self.other_rate: int | None = None
        self.writes = 0
        self.asked: list[int] = []

    def answer(self, data: bytes) -> bytes:
        answers = b""
        for _, message in xsens.decode(data):
            assert isinstance(message, xsens.XbusMessage)
            self.asked.append(message.mid)
            if message.mid in self.deaf:
                continue
            if message.mid in (xsens.GO_TO_CONFIG, xsens.GO_TO_MEASUREMENT):
                self.measuring = message.mid == xsens.GO_TO_MEASUREMENT
                answers += xsens.encode(message.mid + 1)
            elif message.mid == xsens.OUTPUT_CONFIGURATION and not self.measuring:
                if message.data and self.refuses:
                    answers += xsens.encode(xsens.ERROR, b"\x21")
                    continue
                if message.data:
                    self.writes += 1
                    self.outputs = xsens.unpack_outputs(message.data)
                    if self.other_rate is not None:
                        self.outputs = [
                            (xdi, self.other_rate if rate != 0xFFFF else rate)
                            for xdi, rate in self.outputs
                        ]
                answers += xsens.encode(message.mid + 1, xsens.pack_outputs(self.outputs))
        return answers


def make(
    messages: Sequence[type[Message]] = (ImuSample, Heading), **params: Any
) -> xsens.XsensDevice:
    return xsens.XsensDevice(msgspec.convert(params, xsens.XsensParams), messages, 50 * MS)


def packet(
    i: int,
    *,
    fine: int | None = None,
    status: int = 7,
    count: int | None = None,
    more: Sequence[Any] = (),
) -> bytes:
    return xsens.encode_mtdata2(
        [
            (0x1020, (i if count is None else count) & 0xFFFF),
            (0x1060, 100 * i if fine is None else fine), (0xE020, status),
            (0x4020, (0.001 * (i % 7), 0.0, 9.81)), (0x8020, (0.0, 0.0, 0.1)), *more,
        ]
    )  # fmt: skip


def pump(device: xsens.XsensDevice, fake: FakeXsens, now_ns: int, until_ns: int) -> list[Message]:
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


def events(messages: Sequence[Message]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (message.name, json.loads(message.fields))
        for message in messages
        if isinstance(message, Event)
    ]


def faults(messages: Sequence[Message]) -> list[Fault]:
    return [message for message in messages if isinstance(message, Fault)]


def test_sets_the_outputs_and_starts_the_device() -> None:
    device, fake = make(rate_hz=200), FakeXsens()
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, S)
    assert device.configured
    assert fake.measuring
    assert fake.outputs == [
        (0x1020, 0xFFFF),
        (0x1060, 0xFFFF),
        (0xE020, 0xFFFF),
        (0x2010, 200),
        (0x4020, 200),
        (0x8020, 200),
    ]
    ((name, fields),) = events(got)
    assert name == "imu_configured"
    assert fields == {
        "device": "xsens", "outputs": ["1020", "1060", "E020", "2010", "4020", "8020"],
        "rate_hz": 200, "written": True,
    }  # fmt: skip


def test_does_not_write_what_is_set_already() -> None:
    """Each write goes to the flash of the device."""
    fake = FakeXsens()
    for start in (0, 10 * S):
        device = make(messages=[ImuSample])
        device.on_port(PortState.OPENED, "", start)
        pump(device, fake, start, start + S)
        assert device.configured
    assert fake.writes == 1
    assert 0x2010 not in dict(fake.outputs)


def test_only_listens_if_not_to_configure() -> None:
    device = make(configure=False)
    device.on_port(PortState.OPENED, "", 0)
    assert not device.take_tx()
    assert device.next_due_ns() == NEVER_NS
    assert not device.on_rx(xsens.encode(xsens.WAKE_UP) + xsens.encode(0x31), 5)
    assert not device.take_tx()
    assert len(device.on_rx(packet(0), S)) == 1


def test_repeats_a_question_then_gives_up_then_tries_again() -> None:
    device, fake = make(config_timeout_s=2.5, tries=3, retry_s=5.0), FakeXsens()
    fake.deaf = {xsens.GO_TO_CONFIG}
    device.on_port(PortState.OPENED, "", 0)
    got = pump(device, fake, 0, 7_400 * MS)
    assert fake.asked == [xsens.GO_TO_CONFIG] * 3
    assert not got
    got = pump(device, fake, 7_400 * MS, 12_400 * MS)
    (fault,) = faults(got)
    assert (fault.code, fault.origin, fault.active, fault.reaction) == (
        "imu_configuration",
        "xsens",
        True,
        Reaction.WARN,
    )
    assert fault.reason == "no answer to the request to enter the configuration state"
    assert fault.t_ns == 7_500 * MS
    # A second failure is the same episode; an answer ends it.
    assert not faults(pump(device, fake, 12_400 * MS, 24_000 * MS))
    assert device.attempts == 2
    fake.deaf = set()
    (fault,) = faults(pump(device, fake, 24_000 * MS, 27_000 * MS))
    assert not fault.active
    assert device.configured


def test_samples_pass_while_the_device_does_not_answer() -> None:
    device = make()
    device.on_port(PortState.OPENED, "", 0)
    assert [type(message) for message in device.on_rx(packet(0), 5)] == [ImuSample]


def test_a_late_acknowledgement_is_waited_for() -> None:
    device, fake = make(), FakeXsens()
    device.on_port(PortState.OPENED, "", 0)
    (action,) = device.take_tx()
    assert isinstance(action, Send)
    assert action.deadline_ns == 50 * MS
    assert device.next_due_ns() == 2_500 * MS
    device.on_rx(fake.answer(action.data), 1_700 * MS)
    assert [send.data for send in device.take_tx() if isinstance(send, Send)] == [
        xsens.encode(xsens.OUTPUT_CONFIGURATION)
    ]


@pytest.mark.parametrize(
    ("refuses", "reason"),
    [(True, "refuses the outputs: error 21"), (False, "4020 at 50 instead of 100 Hz")],
)
def test_a_device_that_refuses_is_left_measuring_and_reported(refuses: bool, reason: str) -> None:
    device, fake = make(), FakeXsens()
    fake.refuses, fake.other_rate = refuses, 50
    device.on_port(PortState.OPENED, "", 0)
    (fault,) = faults(pump(device, fake, 0, S))
    assert fault.active
    assert reason in fault.reason
    assert fake.measuring
    # As long as it gives samples nobody bothers it again, for each attempt interrupts them.
    for i in range(1000):
        device.on_rx(packet(i), S + i * 10 * MS)
        device.on_time(S + i * 10 * MS)
    assert device.attempts == 1


def test_a_device_that_has_fallen_silent_is_set_up_again() -> None:
    device, fake = make(silence_s=2.0), FakeXsens()
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    for i in range(300):
        device.on_rx(packet(i), S + i * 10 * MS)
        pump(device, fake, S + i * 10 * MS, S + i * 10 * MS)
    assert device.attempts == 1
    pump(device, fake, 4 * S, 6 * S)
    assert device.attempts == 2
    assert device.configured


def test_wake_up_is_answered_and_begins_the_dialogue_anew() -> None:
    device, fake = make(), FakeXsens()
    device.on_port(PortState.OPENED, "", 0)
    pump(device, fake, 0, S)
    device.on_rx(xsens.encode(xsens.WAKE_UP), S)
    (action,) = device.take_tx()
    assert isinstance(action, Send)
    assert action.data == xsens.encode(xsens.WAKE_UP_ACK) + xsens.encode(xsens.GO_TO_CONFIG)


def test_losing_the_port_ends_the_dialogue() -> None:
    device = make()
    device.on_port(PortState.OPENED, "", 0)
    device.on_port(PortState.LOST, "unplugged", 10)
    assert device.next_due_ns() == NEVER_NS
    assert not device.take_tx()
    device.on_port(PortState.OPENED, "", 20)
    assert len(device.take_tx()) == 1


def test_heading_counter_clockwise_from_east_and_only_if_valid() -> None:
    device = make(yaw_offset_rad=0.25)
    north = (0x2030, (0.0, 0.0, 90.0))
    got = device.on_rx(packet(0, more=[north]), S)
    (heading,) = [message for message in got if isinstance(message, Heading)]
    assert heading.yaw_rad == pytest.approx(pi / 2 + 0.25)
    assert not [
        m
        for m in device.on_rx(packet(1, status=5, more=[north]), S + 10 * MS)
        if isinstance(m, Heading)
    ]
    without_status = xsens.encode_mtdata2([(0x1020, 2), (0x1060, 200), north])
    assert not [m for m in device.on_rx(without_status, S + 20 * MS) if isinstance(m, Heading)]
    assert device.usage.of("XDI 2030").refused == {
        Loss(Unused.INVALID, "filter valid"): 1,
        Loss(Unused.STATUS_MISSING): 1,
    }


def test_clipping_by_the_status_word() -> None:
    device = make()
    for bit, saturated in ((8, True), (13, True), (14, False), (19, False)):
        (sample,) = device.on_rx(packet(bit, status=7 | 1 << bit), S + bit * MS)
        assert isinstance(sample, ImuSample)
        assert sample.saturated is saturated


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_clock_survives_both_wraps(wrap: int) -> None:
    codec = xsens.XsensCodec()
    counters = [
        codec.decode("", packet(i, fine=(wrap - 500 + 100 * i) % wrap))[0].counter
        for i in range(10)
    ]
    assert counters == [wrap - 500 + 100 * i for i in range(10)]


def test_a_jump_that_the_packet_counter_denies_is_none() -> None:
    codec = xsens.XsensCodec()
    fines = [100 * i + (25_000 if i >= 10 else 0) - (500 if i >= 20 else 0) for i in range(30)]
    counters = [codec.decode("", packet(i, fine=fine))[0].counter for i, fine in enumerate(fines)]
    assert counters == [100 * i for i in range(30)]


def test_a_gap_that_the_packet_counter_confirms_is_time() -> None:
    codec = xsens.XsensCodec()
    counters = [codec.decode("", packet(i))[0].counter for i in (0, 1, 2, 302, 303)]
    assert counters == [0, 100, 200, 30_200, 30_300]
    assert codec.time.lost_packets == 299


def test_increments_of_a_lost_packet_are_not_spread_over_the_gap() -> None:
    codec = xsens.XsensCodec()
    got: list[Sample] = []
    for i in (0, 1, 2, 5, 6):
        values: list[tuple[int, xsens.Value]] = [
            (0x1020, i), (0x1060, 100 * i), (0x4010, (0.0, 0.0, 0.0981)),
            (0x8030, (0.99998, 0.0, 0.0, 0.005)),
        ]  # fmt: skip
        got += codec.decode("", xsens.encode_mtdata2(values))
    assert len(got) == 4  # the first has no interval yet
    for sample in got:
        assert sample.specific_force_mps2 == pytest.approx((0.0, 0.0, 9.81))
        assert sample.angular_rate_radps == pytest.approx((0.0, 0.0, 1.0), rel=1e-3)
