"""The monitor of the RC operator by itself: frames, switches, sticks and silence, at their
limits."""

from typing import Any

import pytest

from tests.rc_bench import HIGH, LOW, MIDDLE, channels, params
from vehicled.core.messages import OperatorAction, RcChannels, TeleopCommand
from vehicled.core.ports import NEVER_NS
from vehicled.core.rc import RcAxis, RcMap, RcModeSwitch
from vehicled.core.wire.channels import TICKS
from vehicled.safety.monitors.rc import RcMonitor

MS = 10**6
SILENCE_NS = 1000 * MS
USES = RcModeSwitch(channel=5, low="stop", middle="auto", high="manual")
FIVE_PERCENT = RcAxis(channel=2, min=900.0, trim=1000.0, max=1100.0, dead_zone=0.0)
"""A throttle that is at exactly 0.05 at 1005: 5 of 100."""


class Receiver:
    """A monitor with a receiver that sends a frame every 10 ms."""

    def __init__(self, *, checked: bool = True, **change: Any) -> None:
        self.monitor = RcMonitor(RcMap(params(**change), TICKS, checked=checked))
        self.now_ns = 50 * SILENCE_NS
        self.hands: dict[str, float] = {}
        self.raw: tuple[float, ...] | None = None

    def send(self, times: int = 1, **hands: float) -> TeleopCommand | None:
        self.hands |= hands
        reading = None
        for _ in range(times):
            reading = self.frame(channels(**self.hands))
        return reading

    def frame(
        self, values: tuple[float, ...], after_ns: int = 10 * MS, ahead_ns: int = 0, **fields: Any
    ) -> TeleopCommand | None:
        """Send one frame, whose time is ahead of its receipt."""
        self.now_ns += after_ns
        t_ns = self.now_ns + ahead_ns
        return self.monitor.on_message(RcChannels(t_ns, t_ns, values, **fields), self.now_ns)

    def throttle(self, raw: float) -> TeleopCommand | None:
        """Send a frame with a raw throttle."""
        return self.frame((MIDDLE, raw, *channels()[2:]))

    @property
    def holds(self) -> bool:
        return self.monitor.holds(self.now_ns)

    @property
    def alive(self) -> bool:
        return self.monitor.alive(self.now_ns)


# ---------------------------------------------------------------- frames


def test_five_usable_frames_in_a_row_bring_a_handset_to_life() -> None:
    receiver = Receiver()
    receiver.send(4)
    assert (receiver.alive, receiver.monitor.trouble_now(receiver.now_ns)) == (
        False,
        "its first frames arrive",
    )
    receiver.frame(channels(), failsafe=True)
    assert receiver.monitor.trouble_now(receiver.now_ns) == "the receiver reports failsafe"
    receiver.send(4)
    assert not receiver.alive
    receiver.send(1)
    assert (receiver.alive, receiver.monitor.trouble_now(receiver.now_ns)) == (True, "")


def test_the_age_is_that_of_the_last_usable_frame() -> None:
    receiver = Receiver()
    monitor = receiver.monitor
    assert monitor.age_ns(receiver.now_ns) == NEVER_NS
    receiver.send(5)
    assert monitor.age_ns(receiver.now_ns) == 0
    receiver.frame(channels(), ahead_ns=-20 * MS)
    assert monitor.age_ns(receiver.now_ns) == 20 * MS
    receiver.frame(channels(), failsafe=True)
    assert monitor.age_ns(receiver.now_ns) == 30 * MS
    receiver.frame(channels(), ahead_ns=SILENCE_NS)
    assert monitor.age_ns(receiver.now_ns) == 0, "a time in the future keeps no handset alive"


@pytest.mark.parametrize(("silent_ns", "alive"), [(SILENCE_NS, True), (SILENCE_NS + 1, False)])
def test_a_handset_is_lost_after_its_silence(silent_ns: int, alive: bool) -> None:
    receiver = Receiver()
    receiver.send(5, throttle=0.5)
    at_ns = receiver.now_ns + silent_ns
    assert receiver.monitor.alive(at_ns) is alive
    assert (receiver.monitor.throttle(at_ns) > 0.4) is alive
    assert receiver.monitor.trouble_now(at_ns) == ("" if alive else "its receiver sends nothing")
    status = receiver.monitor.status(at_ns)
    assert status is not None
    shown = [status[name] is not None for name in ("steering", "throttle", "mode", "armed")]
    assert shown == [alive] * 4
    receiver.frame(channels(throttle=0.5), after_ns=silent_ns)
    assert receiver.alive is alive, "one frame after a loss is not enough"


def test_a_failsafe_frame_is_named_until_frames_are_missing() -> None:
    receiver = Receiver()
    receiver.frame(channels(), failsafe=True)
    assert (
        receiver.monitor.trouble_now(receiver.now_ns + SILENCE_NS)
        == "the receiver reports failsafe"
    )
    assert (
        receiver.monitor.trouble_now(receiver.now_ns + SILENCE_NS + 1)
        == "its receiver sends nothing"
    )


@pytest.mark.parametrize(("still_ns", "repeats"), [(500 * MS, False), (500 * MS + 1, True)])
def test_a_receiver_that_repeats_its_last_frame(still_ns: int, repeats: bool) -> None:
    receiver = Receiver(still_s=0.5)
    receiver.send(6)
    receiver.frame(channels(steering=0.1))
    receiver.frame(channels(steering=0.1), after_ns=still_ns)
    assert ("has changed for 0.5 s" in receiver.monitor.trouble) is repeats
    assert receiver.monitor.unusable["repeated"] == repeats


def test_readings_leave_it_only_while_he_has_control_and_once_as_he_gives_it_back() -> None:
    receiver = Receiver()
    assert receiver.send(6) is None
    reading = receiver.send(1, mode=HIGH, throttle=0.5)
    assert reading is not None
    assert (reading.deadman, reading.origin, reading.throttle > 0.4) == (True, "rc", True)
    back = receiver.send(1, mode=LOW)
    assert back is not None
    assert not back.deadman
    assert receiver.send(3) is None


def test_without_a_receiver_in_the_profile_there_is_nothing() -> None:
    monitor = RcMonitor()
    frame = RcChannels(MS, MS, channels(mode=HIGH), link_quality=0.3)
    for _ in range(9):
        assert monitor.on_message(frame, MS) is None
    assert (monitor.newest, monitor.link_quality) == (frame, 0.3)
    assert (monitor.fitted, monitor.required, monitor.least_link_quality, monitor.status(MS)) == (
        False,
        False,
        0.0,
        None,
    )
    assert (monitor.alive(MS), monitor.holds(MS), monitor.throttle(MS)) == (False, False, 0.0)


def test_the_state_shows_the_switch_for_arming_only_where_there_is_one() -> None:
    for receiver, before, after in ((Receiver(), False, True), (Receiver(arm=None), None, None)):
        for at, armed in ((LOW, before), (HIGH, after)):
            receiver.send(6, arm=at)
            status = receiver.monitor.status(receiver.now_ns)
            assert status is not None
            assert status["armed"] is armed


# ---------------------------------------------------------------- switches


@pytest.mark.parametrize(
    ("begin", "to", "requests", "takes"),
    [
        (LOW, MIDDLE, [OperatorAction.DRIVE], False), (HIGH, MIDDLE, [OperatorAction.DRIVE], False),
        (MIDDLE, LOW, [OperatorAction.STOP], False), (HIGH, LOW, [OperatorAction.STOP], False),
        (LOW, HIGH, [], True), (MIDDLE, HIGH, [], True), (MIDDLE, MIDDLE, [], False),
    ],
)  # fmt: skip
def test_the_mode_switch_asks_as_it_is_moved(
    begin: float, to: float, requests: list[OperatorAction], takes: bool
) -> None:
    receiver = Receiver(mode=USES)
    receiver.send(6, mode=begin)
    assert (receiver.monitor.take_requests(), receiver.monitor.take_takeover()) == ([], False), (
        "where it is found is no request"
    )
    receiver.send(2, mode=to)
    assert (receiver.monitor.take_requests(), receiver.monitor.take_takeover()) == (requests, takes)
    receiver.send(2)
    assert (receiver.monitor.take_requests(), receiver.monitor.take_takeover()) == ([], False), (
        "once"
    )


@pytest.mark.parametrize(
    ("mode", "requests"),
    [
        (LOW, [OperatorAction.ARM]), (HIGH, [OperatorAction.ARM]),
        (MIDDLE, [OperatorAction.ARM, OperatorAction.DRIVE]),
    ],
)  # fmt: skip
def test_the_arming_switch_asks_to_drive_only_where_the_mode_switch_says_auto(
    mode: float, requests: list[OperatorAction]
) -> None:
    receiver = Receiver(mode=RcModeSwitch(channel=5, middle="auto"))
    receiver.send(6, mode=mode)
    receiver.send(2, arm=HIGH)
    assert receiver.monitor.take_requests() == requests
    receiver.send(2, arm=LOW)
    assert receiver.monitor.take_requests() == [OperatorAction.DISARM]


def test_without_a_checksum_an_unusable_frame_lies_between_two_that_would_agree() -> None:
    receiver = Receiver(checked=False)
    receiver.send(8)
    receiver.send(1, mode=HIGH)
    receiver.frame(channels(mode=HIGH), frame_lost=True)
    receiver.send(1)
    assert not receiver.holds
    receiver.send(1)
    assert receiver.holds


# ---------------------------------------------------------------- sticks


@pytest.mark.parametrize(
    ("name", "value"),
    [("throttle", 0.5), ("throttle", -0.5), ("steering", 0.5), ("steering", -0.5)],
)
def test_a_stick_pushed_to_any_side_takes_over(name: str, value: float) -> None:
    receiver = Receiver(takeover_stick=0.3)
    receiver.send(6, mode=MIDDLE)
    receiver.send(2, **{name: value})
    assert receiver.holds
    assert receiver.monitor.take_takeover()
    receiver.monitor.disarmed()
    assert receiver.holds, "it is pushed still"
    receiver.send(1, **{name: 0.0})
    assert receiver.holds
    receiver.monitor.disarmed()
    assert not receiver.holds


def test_a_stick_must_be_pushed_beyond_the_threshold() -> None:
    receiver = Receiver(takeover_stick=1.0)
    receiver.send(6)
    receiver.throttle(HIGH)
    assert receiver.monitor.throttle(receiver.now_ns) == 1.0
    assert not receiver.holds


def test_a_stick_at_five_percent_is_at_rest() -> None:
    receiver = Receiver(takeover_stick=0.3, throttle=FIVE_PERCENT)
    for raw in (*[1100.0] * 6, 1005.0):
        receiver.throttle(raw)
    assert receiver.monitor.throttle(receiver.now_ns) == 0.05
    receiver.throttle(1100.0)
    assert receiver.holds, "it was seen at rest"
    receiver.throttle(1005.0)
    receiver.monitor.disarmed()
    assert not receiver.holds


def test_without_a_checksum_two_frames_must_show_rest_and_push() -> None:
    receiver = Receiver(takeover_stick=0.3, checked=False)
    receiver.send(8, throttle=0.6)
    receiver.send(1, throttle=0.0)
    receiver.send(3, throttle=0.6)
    assert not receiver.holds, "one odd frame at rest"
    receiver.send(3, throttle=0.0)
    receiver.send(1, throttle=0.6)
    receiver.send(3, throttle=0.0)
    assert not receiver.holds, "one odd frame pushed"
    receiver.send(2, throttle=0.6)
    assert receiver.holds


def test_moving_the_mode_switch_ends_the_control_of_a_stick_that_must_rest_before_the_next() -> (
    None
):
    receiver = Receiver(takeover_stick=0.3, mode=USES)
    receiver.send(6, mode=MIDDLE)
    receiver.send(2, throttle=0.6)
    assert receiver.holds
    receiver.send(3, mode=LOW)
    assert not receiver.holds
    receiver.send(1, throttle=0.0)
    receiver.send(2, throttle=0.6)
    assert receiver.holds


def test_a_stick_that_is_pushed_as_the_handset_returns_takes_nothing() -> None:
    receiver = Receiver(takeover_stick=0.3)
    receiver.send(6)
    receiver.send(2, throttle=0.6)
    assert receiver.holds
    receiver.now_ns += SILENCE_NS
    receiver.send(9)
    assert (receiver.alive, receiver.holds) == (True, False)
    receiver.send(1, throttle=0.0)
    receiver.send(1, throttle=0.6)
    assert receiver.holds
