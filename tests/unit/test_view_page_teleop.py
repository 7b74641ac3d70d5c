"""Driving from the page: who has the wheel, which readings are passed on, and that none is passed
on late or twice."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.live.control_socket.client import ControlError, HungUpError
from vehicled.live.control_socket.protocol import Request
from vehicled.live.view.page_teleop import (
    IDLE_MS,
    PageDriver,
    PageReading,
    PageRequest,
    PageTeleop,
    parse_message,
)


class Line:
    """A connection to a daemon that takes everything, unless a test sets it not to."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.open = True
        self.broken = False

    def hurry(self) -> None: ...

    def offer(self, request: Request) -> bool:
        if self.broken:
            raise HungUpError("the daemon hung up")
        self.sent.append(msgspec.to_builtins(request))
        return True

    def arrived(self) -> list[dict[str, Any]]:
        answers, self.answers = self.answers, []
        return answers

    def __exit__(self, *_: object) -> None:
        self.open = False


class Bench:
    """A wheel and what has gone down its lines."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.refuses = ""
        self.wheel = PageTeleop(self._connect, 0.5, 0.2)  # type: ignore[arg-type]

    def _connect(self) -> Line:
        if self.refuses:
            raise ControlError(self.refuses)
        self.lines.append(Line())
        return self.lines[-1]

    def driver(self, name: str = "page") -> PageDriver:
        driver = PageDriver(self.wheel, name)
        driver.on_message({"mode": "STANDBY", "why": "waiting to be armed"}, 0)
        return driver

    @property
    def teleop_requests(self) -> list[dict[str, Any]]:
        return [
            request for line in self.lines for request in line.sent if request["do"] == "teleop"
        ]

    @property
    def actions(self) -> list[str]:
        return [
            request["action"]
            for line in self.lines
            for request in line.sent
            if request["do"] == "request"
        ]


def page_reading(n: int, beat: int, throttle: float = 0.0, *, deadman: bool = True) -> PageReading:
    return PageReading(0.0, throttle, 0.0, deadman, n, beat)


def in_control(bench: Bench) -> PageDriver:
    driver = bench.driver()
    assert driver.on_page_message(PageRequest("teleop"), 1000) == ""
    assert driver.in_control
    return driver


def test_taking_the_wheel_arms_and_asks_for_it_and_only_then_readings_count() -> None:
    bench = Bench()
    driver = bench.driver()
    driver.on_page_message(page_reading(1, 1000), 1000)
    assert bench.lines == []
    driver.on_page_message(PageRequest("teleop"), 1000)
    assert bench.actions == ["arm", "teleop"]
    driver.on_page_message(page_reading(2, 1000, 0.8), 1050)
    (reading,) = bench.teleop_requests
    assert reading["throttle"] == pytest.approx(0.4)  # Half of it is what this page may ask for.
    assert reading["origin"] == "page"


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2000), st.integers(0, 2000)), max_size=40)
)
def test_no_reading_is_passed_on_that_is_older_than_it_may_be_or_was_seen_before(
    readings: list[tuple[int, int, int]],
) -> None:
    bench = Bench()
    driver = in_control(bench)
    passed: list[tuple[int, int, int]] = []
    now = 1000
    for n, beat, later in readings:
        now += later // 10
        before = len(bench.teleop_requests)
        driver.on_page_message(page_reading(n, beat), now)
        if len(bench.teleop_requests) > before:
            passed.append((n, beat, now))
    assert [n for n, _, _ in passed] == sorted({n for n, _, _ in passed})
    assert all(0 <= now - beat <= 200 for _, beat, now in passed)
    sequences = [request["sequence"] for request in bench.teleop_requests]
    assert sequences == list(range(1, len(sequences) + 1))


def test_what_waited_in_the_network_is_thrown_away_and_counted() -> None:
    bench = Bench()
    driver = in_control(bench)
    driver.on_page_message(page_reading(1, 1000), 1100)
    for n in range(2, 12):
        driver.on_page_message(page_reading(n, 1000, 1.0), 1500)
    assert len(bench.teleop_requests) == 1
    assert driver.late == 10


def test_one_page_has_the_wheel_and_the_others_may_only_stop() -> None:
    bench = Bench()
    first, second = in_control(bench), bench.driver("another page")
    assert second.on_page_message(PageRequest("teleop"), 1000) == "page is in control"
    second.on_page_message(page_reading(1, 1000, 1.0), 1000)
    assert bench.teleop_requests == []
    second.on_page_message(PageRequest("stop"), 1000)
    assert bench.actions[-1] == "stop"
    assert first.in_control


@pytest.mark.parametrize("end", ["gone", "stop", "emergency_stop", "disarm"])
def test_whoever_leaves_the_wheel_hangs_up_so_that_the_daemon_takes_the_stick_for_unplugged(
    end: str,
) -> None:
    bench = Bench()
    driver = in_control(bench)
    driver.on_page_message(page_reading(1, 1000), 1000)
    reading_line = next(
        line for line in bench.lines if any(request["do"] == "teleop" for request in line.sent)
    )
    if end == "gone":
        driver.release()
    else:
        driver.on_page_message(PageRequest(end), 1010)  # type: ignore[arg-type]
    assert not driver.in_control
    assert not reading_line.open
    before = len(bench.teleop_requests)
    driver.on_page_message(page_reading(2, 1000), 1010)
    assert len(bench.teleop_requests) == before


def test_a_drive_that_the_daemon_ended_is_over() -> None:
    bench = Bench()
    driver = in_control(bench)
    driver.on_page_message(page_reading(1, 1000), 1000)
    driver.on_message({"mode": "TELEOP", "why": "driven by hand: page", "driver": "page"}, 1000)
    assert driver.in_control
    driver.on_message({"mode": "STOPPING", "why": "the deadman was released"}, 1000)
    assert not driver.in_control


def test_a_page_that_took_the_wheel_and_fell_silent_has_lost_it() -> None:
    bench = Bench()
    driver = in_control(bench)
    driver.on_message({"mode": "ARMED", "why": "armed"}, 1000 + IDLE_MS)
    assert driver.in_control
    driver.on_message({"mode": "ARMED", "why": "armed"}, 1001 + IDLE_MS)
    assert not driver.in_control


def test_a_lost_daemon_is_reported_and_does_not_keep_the_wheel() -> None:
    bench = Bench()
    driver = in_control(bench)
    for line in bench.lines:
        line.broken = True
    assert "hung up" in driver.on_page_message(page_reading(1, 1000), 1000)
    assert not driver.in_control
    bench.refuses = "no daemon answers"
    assert driver.on_page_message(PageRequest("teleop"), 1000) == "no daemon answers"
    assert driver.on_page_message(PageRequest("stop"), 1000) == "no daemon answers"


def test_a_line_for_requests_that_broke_is_opened_anew() -> None:
    bench = Bench()
    driver = bench.driver()
    driver.on_page_message(PageRequest("stop"), 0)
    bench.lines[0].broken = True
    assert driver.on_page_message(PageRequest("emergency_stop"), 0) == ""
    assert bench.actions == ["stop", "emergency_stop"]


def test_refusals_of_the_daemon_reach_the_page() -> None:
    bench = Bench()
    driver = in_control(bench)
    bench.lines[0].answers.append({"ok": False, "why": "not like this"})
    assert driver.on_page_message(page_reading(1, 1000), 1000) == "not like this"
    bench.lines[1].answers.append({"ok": False, "why": "ask again when it stands"})
    assert driver.on_page_message(page_reading(2, 1000), 1000) == "ask again when it stands"
    bench.lines[1].broken = True
    assert driver.on_page_message(page_reading(3, 1000), 1000) == "", (
        "the line for requests is opened anew when it is needed"
    )


@given(
    st.one_of(
        st.text(),
        st.binary(),
        st.recursive(st.none() | st.floats() | st.text(), lambda x: st.lists(x)).map(json.dumps),
    )
)
def test_garbage_is_understood_as_nothing(text: str | bytes) -> None:
    assert parse_message(text) is None


@pytest.mark.parametrize(
    "change",
    [
        {"steering": 1.5}, {"throttle": float("nan")}, {"throttle": float("inf")}, {"brake": -0.1},
        {"n": -1}, {"beat": 2**60}, {"deadman": 1}, {"do": "drive"}, {"more": 1},
        {"steering": None},
    ],
)  # fmt: skip
def test_a_reading_that_no_input_device_makes_is_refused(change: dict[str, Any]) -> None:
    good = {
        "do": "teleop",
        "steering": 0.1,
        "throttle": 0.2,
        "brake": 0.0,
        "deadman": True,
        "n": 1,
        "beat": 5,
    }
    assert parse_message(json.dumps(good)) == PageReading(0.1, 0.2, 0.0, True, 1, 5)
    assert parse_message(json.dumps(good | change)) is None
