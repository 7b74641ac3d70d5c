"""Pages of the set-up: control, stop, and the time for which a button is held."""

import pytest

from vehicled.live.setup.checklist import CheckItem
from vehicled.live.setup.pages import (
    Choose,
    Hold,
    SetupPages,
    StopAll,
    TakeControl,
    parse_message,
)
from vehicled.live.setup.session import PERIOD_NS, Stage, StepChoice, StepSession
from vehicled.live.setup.steps import BY_NAME
from vehicled.live.teleop.keyboard import RELEASE_NS
from vehicled.profile import load_profile

MS = 1_000_000
FIRST, SECOND = object(), object()


class Drive:
    """The step ``circle`` without devices, recording, with a page in control."""

    def __init__(self, step: str = "circle") -> None:
        self.now_ns = 10_000 * MS
        self.session = StepSession(BY_NAME[step], load_profile("f1tenth_gnss"), "2026-11-28")
        self.pages = SetupPages(lambda step, measured: "")
        self.pages.begin(self.session)
        self.take(FIRST)
        self.n = 0
        self.begin()

    def take(self, page: object) -> None:
        self.pages.on_message(page, TakeControl(), self.now_ns)

    def begin(self, page: object = FIRST) -> None:
        turn = self.pages.state(self.now_ns)["turn"]
        assert self.pages.on_message(page, Choose(StepChoice.BEGIN, turn), self.now_ns) == ""
        self.throttle(0)

    def hold(self, press: int, key: str = "drive", *, age_ms: int = 0, page: object = FIRST) -> str:
        self.n += 1
        reading = Hold(key, press, self.n, self.now_ns // MS - age_ms)  # type: ignore[arg-type]
        return self.pages.on_message(page, reading, self.now_ns)

    def throttle(self, ns: int = PERIOD_NS) -> float:
        """Return the command after some time of ticks."""
        for _ in range(max(ns // PERIOD_NS, 1)):
            self.now_ns += PERIOD_NS
            command = self.session.tick(self.now_ns)
        return command.throttle


def test_a_held_button_moves_and_a_released_one_does_not() -> None:
    drive = Drive()
    assert drive.throttle() == 0.0
    drive.hold(1)
    assert drive.throttle() > 0.0
    drive.hold(1, "")
    assert drive.throttle() == 0.0


def test_a_button_counts_no_longer_than_a_key() -> None:
    drive = Drive()
    drive.hold(1)
    assert drive.throttle(RELEASE_NS - PERIOD_NS) > 0.0
    assert drive.throttle() == 0.0
    # The press has ended, whatever arrives late; a new press moves again.
    drive.hold(1)
    assert drive.throttle() == 0.0
    drive.hold(2)
    assert drive.throttle() > 0.0


@pytest.mark.parametrize("age_ms", [300, 5_000, -50])
def test_a_reading_that_a_network_kept_back_moves_nothing(age_ms: int) -> None:
    drive = Drive()
    drive.hold(1, age_ms=age_ms)
    assert drive.throttle() == 0.0


def test_the_age_of_a_reading_shortens_its_time() -> None:
    drive = Drive()
    drive.hold(1, age_ms=200)
    assert drive.throttle(60 * MS) > 0.0
    assert drive.throttle(60 * MS) == 0.0


def test_readings_out_of_order_are_dropped() -> None:
    drive = Drive()
    drive.n = 5
    drive.hold(1, "")
    drive.n = 3
    drive.hold(1)
    assert drive.throttle() == 0.0


def test_every_page_may_stop_and_only_one_moves() -> None:
    drive = Drive()
    drive.hold(1)
    drive.throttle()
    drive.hold(7, page=SECOND)
    assert drive.throttle() > 0.0
    drive.pages.on_message(SECOND, StopAll(), drive.now_ns)
    assert drive.session.stage is Stage.READY
    assert drive.throttle() == 0.0
    assert drive.pages.holder is FIRST


def test_a_press_does_not_outlast_a_stop() -> None:
    drive = Drive()
    drive.hold(1)
    drive.pages.on_message(FIRST, StopAll(), drive.now_ns)
    drive.begin()
    drive.hold(1)
    assert drive.throttle() == 0.0
    drive.hold(2)
    assert drive.throttle() > 0.0


def test_another_page_stops_what_moves() -> None:
    for opened in (True, False):
        drive = Drive()
        drive.hold(1)
        assert drive.throttle() > 0.0
        if opened:
            drive.pages.on_open()
        else:
            drive.take(SECOND)
        drive.hold(1)
        assert drive.throttle() == 0.0
        assert drive.session.stage is Stage.READY


def test_the_connection_of_the_page_in_control_is_a_deadman_of_its_own() -> None:
    drive = Drive()
    drive.hold(1)
    drive.throttle()
    drive.pages.on_close(SECOND)
    assert drive.throttle() > 0.0
    drive.pages.on_close(FIRST)
    assert drive.throttle() == 0.0
    assert drive.pages.holder is None


def test_a_recording_by_hand_goes_on_while_the_phone_is_in_a_pocket() -> None:
    drive = Drive("push")
    drive.pages.on_close(FIRST)
    drive.pages.on_open()
    drive.throttle()
    assert drive.session.stage is Stage.RECORDING


def test_a_button_of_a_state_that_is_over_does_nothing() -> None:
    drive = Drive("push")
    old = drive.pages.state(drive.now_ns)["turn"]
    drive.pages.on_message(FIRST, StopAll(), drive.now_ns)
    assert "moved on" in drive.pages.on_message(FIRST, Choose(StepChoice.SKIP, old), drive.now_ns)
    assert drive.session.stage is Stage.READY
    assert "in control" in drive.pages.on_message(
        SECOND, Choose(StepChoice.SKIP, old), drive.now_ns
    )


def test_the_page_ends_after_the_checklist() -> None:
    drive = Drive("push")
    drive.pages.finish([CheckItem("the battery", "ask")], ["vehicled run"])
    state = drive.pages.state(drive.now_ns)
    assert state["checklist"] == [{"text": "the battery", "state": "ask"}]
    drive.pages.on_message(FIRST, Choose(StepChoice.QUIT, state["turn"]), drive.now_ns)
    assert drive.pages.over


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[" * 5000, '{"do":"fly"}', '{"do":"hold","key":"up","press":1,"n":1,"beat":1}',
     '{"do":"hold","key":"drive","press":-1,"n":1,"beat":1}', '{"do":"stop","more":1}',
     '{"do":"choose","choice":"write"}', b"\xff\xfe",
     '{"do":"answer","text":"' + "9" * 21 + '","turn":1}'],
)  # fmt: skip
def test_what_no_page_sends_is_not_understood(text: str | bytes) -> None:
    assert parse_message(text) is None
