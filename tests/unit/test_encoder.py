"""Wheel encoders on a serial line: lines, counters that wrap round, boards that begin anew, and
encoders that stand, turn the other way or are missing."""

from collections.abc import Sequence
from math import pi
from typing import Any

import pytest

from drivers.encoder.codec import EncoderCounts, encode, encode_request, parse
from drivers.encoder.device import EncoderDevice, EncoderParams
from sim_backend.connection import START_NS
from sim_backend.emulators.encoder import EncoderBoard
from vehicled.core.messages import Event, Fault, Message, PortState, WheelSpeed
from vehicled.core.ports import Send
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.course import course_from_waypoints
from vehicled.profile import ProfileError, load_profile
from vehicled.run.judge import Judge

MS = 1_000_000
TICKS, RADIUS_M = 1000.0, 0.1
TICK_M = 2.0 * pi * RADIUS_M / TICKS


class Bench:
    """A driver that gets a line of counts every 50 ms."""

    def __init__(self, **params: Any) -> None:
        self.device = EncoderDevice(
            EncoderParams(ticks_per_revolution=TICKS, wheel_radius_m=RADIUS_M, **params),
            [WheelSpeed],
            50 * MS,
        )
        self.now_ns = 10**9
        self.device.on_port(PortState.OPENED, "", self.now_ns)
        self.clock_ms = 3000

    def asked(self) -> list[bytes]:
        self.device.on_time(self.now_ns)
        return [each.data for each in self.device.take_tx() if isinstance(each, Send)]

    def line(self, *ticks: int, after_ms: int = 50) -> list[Message]:
        self.now_ns += after_ms * MS
        self.clock_ms += after_ms
        clock = None if self.device.params.dialect == "ros_arduino_bridge" else self.clock_ms
        counts = EncoderCounts(ticks, clock)
        return [*self.device.on_rx(encode(counts, self.device.params.dialect), self.now_ns)]

    def drive(self, *steps: int, lines: int) -> list[Message]:
        found = []
        ticks = [0] * len(steps)
        for _ in range(lines):
            found += self.line(*ticks)
            ticks = [each + step for each, step in zip(ticks, steps, strict=True)]
        return found


def speeds(messages: Sequence[Message]) -> list[float]:
    return [each.speed_mps for each in messages if isinstance(each, WheelSpeed)]


def faults(messages: Sequence[Message]) -> list[tuple[str, bool, str]]:
    return [(each.code, each.active, each.reason) for each in messages if isinstance(each, Fault)]


@pytest.mark.parametrize(
    ("line", "dialect", "counts"),
    [
        (b"12,3456", "donkeycar", EncoderCounts((12,), 3456)),
        (b"-12,3456;7,3456\r", "donkeycar", EncoderCounts((-12, 7), 3456)),
        (b"12", "donkeycar", None),
        (b"12,", "donkeycar", None),
        (b"1,5;2", "donkeycar", None),
        (b"1,5;2,6", "donkeycar", None),
        (b";".join([b"1,5"] * 5), "donkeycar", None),
        (b"1" * 30 + b",5", "donkeycar", None),
        (b"2 -3259", "ros_arduino_bridge", EncoderCounts((2, -3259))),
        (b"OK", "ros_arduino_bridge", None),
        (b"Invalid Command", "ros_arduino_bridge", None),
        (b"1,5", "ros_arduino_bridge", None),
    ],
)
def test_lines(line: bytes, dialect: Any, counts: EncoderCounts | None) -> None:
    assert parse(line, dialect) == counts
    if counts is not None:
        assert parse(encode(counts, dialect), dialect) == counts


@pytest.mark.parametrize(("step", "mps"), [(80, 1600 * TICK_M), (-80, -1600 * TICK_M), (0, 0.0)])
@pytest.mark.parametrize("dialect", ["donkeycar", "ros_arduino_bridge"])
def test_the_speed_of_the_interval_stands_in_its_middle(
    dialect: str, step: int, mps: float
) -> None:
    bench = Bench(dialect=dialect, signs=(1, -1), latency_ms=2.0)
    found = bench.drive(step, -step, lines=3)
    assert speeds(found) == pytest.approx([mps, mps])
    assert isinstance(found[-1], WheelSpeed)
    assert bench.now_ns - found[-1].t_ns == 27 * MS
    assert 0.02 < found[-1].sigma_mps < 0.03


def test_a_board_that_streams_is_asked_until_it_does() -> None:
    bench = Bench()
    assert bench.asked() == [encode_request("donkeycar", 50)] == [b"c50\n"]
    assert bench.device.next_due_ns() == bench.now_ns + 500 * MS
    bench.line(0)
    bench.line(5)
    assert bench.device.next_due_ns() == bench.now_ns + 500 * MS, "silence"
    assert bench.asked() == []


def test_a_board_that_answers_is_asked_each_time() -> None:
    bench = Bench(dialect="ros_arduino_bridge", signs=(1, 1))
    assert bench.asked() == [b"e\r"]
    for k in range(3):
        bench.line(k, k)
        bench.now_ns += 50 * MS
        assert bench.asked() == [b"e\r"]


def test_silence_is_named_and_asked_again() -> None:
    bench = Bench()
    bench.asked()
    bench.now_ns += 4_000 * MS
    [(code, active, _)] = faults(bench.device.on_time(bench.now_ns))
    assert (code, active) == ("encoder_silent", True)
    bench.device.take_tx()
    assert faults(bench.line(0)) == [("encoder_silent", False, faults_text())]
    bench.now_ns += 500 * MS
    [(code, active, _)] = faults(bench.device.on_time(bench.now_ns))
    assert (code, active) == ("encoder_silent", True)
    assert len(bench.device.take_tx()) == 1
    assert speeds(bench.line(70)) == [], "the interval of the silence counts for nothing"


def faults_text() -> str:
    return "no counts arrive: check the program of the board, dialect, line rate and power"


@pytest.mark.parametrize(
    ("bits", "ticks"), [(32, [2**31 - 40, -(2**31) + 40]), (16, [32_730, -32_726])]
)
def test_a_counter_wraps_round(bits: int, ticks: list[int]) -> None:
    bench = Bench(counter_bits=bits)
    bench.line(ticks[0])
    assert speeds(bench.line(ticks[1])) == pytest.approx([1600 * TICK_M])


def test_the_clock_wraps_round() -> None:
    bench = Bench()
    bench.clock_ms = 2**32 - 70
    bench.line(0)
    bench.clock_ms -= 2**32
    assert speeds(bench.line(80)) == pytest.approx([1600 * TICK_M])


def test_a_board_that_begins_anew_costs_one_interval() -> None:
    bench = Bench()
    bench.drive(80, lines=3)
    bench.clock_ms = 0
    found = bench.line(0)
    assert next(each.name for each in found if isinstance(each, Event)) == "encoder_restarted"
    assert speeds(found) == []
    assert speeds(bench.line(80)) == pytest.approx([1600 * TICK_M])


@pytest.mark.parametrize("count", [1, 2])
def test_a_jump_is_no_motion(count: int) -> None:
    bench = Bench(signs=(1,) * count)
    bench.drive(*(80,) * count, lines=3)
    found = bench.line(*(100_000,) * count)
    assert speeds(found) == []
    [(code, active, text)] = faults(found)
    assert (code, active) == ("encoder_wrong", True)
    assert "jump" in text
    found = bench.line(*(100_080,) * count)
    assert speeds(found) == pytest.approx([1600 * TICK_M])
    assert [each[:2] for each in faults(found)] == [("encoder_wrong", False)]


@pytest.mark.parametrize(
    ("steps", "text"),
    [((0, 80), "encoder 1 stands while encoder 2 turns"), ((80, -80), "turns against")],
)
def test_an_encoder_that_contradicts_the_other(steps: tuple[int, int], text: str) -> None:
    bench = Bench(signs=(1, 1))
    found = bench.drive(*steps, lines=25)
    [(code, active, reason)] = faults(found)
    assert (code, active) == ("encoder_wrong", True)
    assert text in reason
    assert len(speeds(found)) == 19, "withheld after a metre"
    assert speeds(Bench(signs=(1, 1)).drive(80, 40, lines=25))[-1] == pytest.approx(
        1200 * TICK_M
    ), "a bend"


def test_a_contradiction_ends_when_both_turn() -> None:
    bench = Bench(signs=(1, 1))
    bench.drive(0, 80, lines=25)
    found = bench.drive(80, 80, lines=45)
    assert [each[:2] for each in faults(found)][-1] == ("encoder_wrong", False)
    assert speeds(found)


def test_after_a_standstill_encoders_that_contradicted_each_other_are_judged_anew() -> None:
    """They were withheld until a metre was driven, and without them nothing is driven."""
    bench = Bench(signs=(1, 1))
    bench.drive(0, 80, lines=25)
    found = [message for _ in range(30) for message in bench.line(0, 1920)]
    assert [each[:2] for each in faults(found)] == [("encoder_wrong", False)]
    assert set(speeds(found)) == {0.0}


def test_a_missing_encoder_is_named() -> None:
    bench = Bench(signs=(1, 1))
    [(code, _, reason)] = faults(bench.line(5))
    assert (code, reason) == ("encoder_wrong", "1 encoders are on the line, signs names 2")
    assert speeds(bench.line(9)) == []


def test_no_encoder_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="signs"):
        EncoderParams(ticks_per_revolution=1.0, wheel_radius_m=1.0, signs=(0, 0))


# ----------------------------------------------------------------------------- on wires

ENCODER = [
    "devices.encoder.port='serial:/dev/ttyACM9?baud=115200'",
    "devices.encoder.messages=['WheelSpeed']",
    "devices.encoder.rate_hz=20",
    "devices.encoder.driver.name='encoder'",
    "devices.encoder.driver.encoder.ticks_per_revolution=2048.0",
    "devices.encoder.driver.encoder.wheel_radius_m=0.0845",
    "devices.encoder.driver.encoder.signs=[1, -1]",
    "sim.wheel_encoders.wheel_radius_m=0.0845",
    "sim.wheel_encoders.rate_hz=100",
]


@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        ("encoder_stands", "encoder_wrong", "encoder 1 stands"),
        ("encoder_turned", "encoder_wrong", "turns against"),
        ("encoder_missing", "encoder_wrong", "1 encoders are on the line"),
        ("encoder_jumps", "encoder_wrong", "jump"),
        ("encoder_resets", "encoder_silent", "no counts arrive"),
    ],
)
def test_failures_of_the_board_are_named(failure: str, code: str, text: str) -> None:
    profile = load_profile("art_published", ENCODER)
    board = EncoderBoard("encoder", profile.devices["encoder"], 1, 10**9)
    device = EncoderDevice(profile.devices["encoder"].driver.selected, [WheelSpeed], 50 * MS)
    now_ns = 10**9
    device.on_port(PortState.OPENED, "", now_ns)
    seen: list[Message] = []
    for k in range(600):
        now_ns += 10 * MS
        if k == 200:
            before = list(seen)
            board.inject(failure, board.kinds[failure], True, now_ns)
        board.on_message(WheelSpeed(now_ns, 0, 1.0, 0.01), now_ns)
        board.on_time(now_ns)
        for data in board.take_tx():
            seen += device.on_rx(data, now_ns)
        if now_ns >= device.next_due_ns():
            seen += device.on_time(now_ns)
        for each in device.take_tx():
            assert isinstance(each, Send)
            board.on_bytes(each.data, now_ns)
    assert speeds(before)[5:] == pytest.approx([1.0] * len(speeds(before)[5:]), abs=0.02)
    assert not faults(before)
    first = faults(seen)[0]
    assert first[:2] == (code, True)
    assert text in first[2]


@pytest.mark.parametrize("dialect", ["donkeycar", "ros_arduino_bridge"])
def test_a_drive_with_encoders(dialect: str) -> None:
    course = course_from_waypoints(
        "straight", [0.0, 6.0, 14.0], [0.0, 0.0, 0.0], default_speed_mps=1.0, closed=False
    )
    profile = load_profile(
        "art_published", [*ENCODER, f"devices.encoder.driver.encoder.dialect='{dialect}'"]
    )
    pair = WrappedPair(profile, course, (), Judge(course), seed=1, link="wires")
    while pair.now_ns < START_NS + 6e9:
        pair.grant()
        pair.reply()
    assert pair.machine.pipeline.monitors.speed.wheel_mps == pytest.approx(1.0, abs=0.15)


def test_ticks_have_no_default() -> None:
    with pytest.raises(ProfileError, match="ticks_per_revolution"):
        load_profile("art_published", ENCODER[:4])
