"""The keyboard as a stick: a deadman made of key repeats, and throttle and wheel that are forgotten
with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.live.teleop.keyboard import LONGEST_DELAY_NS, RELEASE_NS, Keyboard
from vehicled.live.teleop.keys import Key, KeyDecoder
from vehicled.live.teleop.reading import RELEASED, Reading, TeleopRequestKind

MS = 1_000_000
DELAY, EVERY = 500, 33
"""Milliseconds until a held key repeats, and between its repeats: what most terminals do."""


class Human:
    """Presses keys of a keyboard that repeats, and watches what is read 30 times a second."""

    def __init__(self, delay_ms: int = DELAY, every_ms: int = EVERY) -> None:
        self.keyboard = Keyboard(1.0)
        self.now_ns = 10**9
        self.delay_ms, self.every_ms = delay_ms, every_ms
        self.readings: list[tuple[int, Reading]] = []

    def tap(self, data: bytes) -> Reading:
        self.keyboard.feed(data, self.now_ns)
        return self.read()

    def read(self) -> Reading:
        self.readings.append((self.now_ns, self.keyboard.read(self.now_ns)))
        return self.readings[-1][1]

    def wait(self, ms: int) -> Reading:
        """No key is pressed."""
        end_ns = self.now_ns + ms * MS
        while self.now_ns < end_ns:
            self.now_ns = min(end_ns, self.now_ns + 10 * MS)
            self.read()
        return self.readings[-1][1]

    def hold(self, data: bytes, ms: int) -> Reading:
        """One key, pressed and held."""
        end_ns = self.now_ns + ms * MS
        self.tap(data)
        wait_ms = self.delay_ms
        while self.now_ns + wait_ms * MS <= end_ns:
            self.wait(wait_ms)
            self.tap(data)
            wait_ms = self.every_ms
        return self.readings[-1][1]


@pytest.fixture
def human() -> Human:
    return Human()


def test_a_press_holds_nothing_and_a_key_that_repeats_does(human: Human) -> None:
    assert human.tap(b" ") == RELEASED
    assert human.wait(DELAY) == RELEASED
    assert human.tap(b" ") == RELEASED, "it may have been pressed twice"
    human.wait(EVERY)
    assert human.tap(b" ") == Reading(deadman=True)


def test_the_end_of_the_repeats_lets_go_and_forgets_what_was_set(human: Human) -> None:
    human.hold(b" ", 900)
    driving = human.hold(b"w", 1500)
    assert driving.deadman
    assert driving.throttle > 0.4
    last_ns = human.now_ns
    human.wait(600)
    held = [
        t_ns - last_ns for t_ns, reading in human.readings if t_ns > last_ns and reading.deadman
    ]
    assert RELEASE_NS - 20 * MS <= max(held) <= RELEASE_NS
    human.hold(b" ", 900)
    assert human.read() == Reading(deadman=True), "held anew it is neutral"


@pytest.mark.parametrize("delay_ms", [250, 500, 660])
def test_changing_the_key_keeps_it_held_over_the_delay_but_takes_the_throttle_away(
    delay_ms: int,
) -> None:
    human = Human(delay_ms=delay_ms)
    human.hold(b" ", delay_ms + 300)
    human.hold(b"w", delay_ms + 600)
    changed_ns = human.now_ns
    human.hold(b"a", delay_ms + 300)
    after = [(t_ns - changed_ns, reading) for t_ns, reading in human.readings if t_ns > changed_ns]
    assert all(reading.deadman for _, reading in after)
    silent = [reading.throttle for t_ns, reading in after if RELEASE_NS < t_ns < delay_ms * MS]
    assert set(silent) <= {0.0}
    assert after[-1][1].throttle > 0.3
    assert after[-1][1].steering > 0.2


def test_a_key_pressed_and_let_go_is_let_go_after_the_delay_of_this_terminal() -> None:
    human = Human(delay_ms=250)
    human.hold(b" ", 600)
    human.tap(b"w")
    pressed_ns = human.now_ns
    human.wait(1000)
    held = [
        t_ns - pressed_ns
        for t_ns, reading in human.readings
        if t_ns > pressed_ns and reading.deadman
    ]
    assert max(held) <= 350 * MS, "250 ms were measured, 100 ms are granted"


@given(st.integers(100, 5000), st.integers(15, 140))
def test_silence_lets_go_whatever_the_terminal_does(delay_ms: int, every_ms: int) -> None:
    human = Human(delay_ms=delay_ms, every_ms=every_ms)
    human.hold(b" ", 1500)
    human.hold(b"w", 1500)
    human.tap(b"d")
    human.wait(LONGEST_DELAY_NS // MS + 110)
    assert human.read() == RELEASED


@pytest.mark.parametrize(
    "data", [b"p", b"\x1b[I\x1b[O", b"\x1b[M abc", b"\xc3\xa4", b"\x1b[200~"], ids=repr
)
def test_what_is_no_driving_key_lets_go_at_once(human: Human, data: bytes) -> None:
    human.hold(b" ", 900)
    assert human.read().deadman
    assert human.tap(data) == RELEASED
    assert human.wait(50) == RELEASED


def test_a_lone_escape_lets_go(human: Human) -> None:
    human.hold(b" ", 900)
    human.tap(b"\x1b")
    assert human.wait(100) == RELEASED


def test_a_burst_after_a_stall_is_one_press(human: Human) -> None:
    assert human.tap(b" " * 40) == RELEASED
    human.wait(700)
    assert human.tap(b" " * 40) == RELEASED


def test_keys_that_ask_are_requests_and_those_that_stop_let_go(human: Human) -> None:
    human.hold(b" ", 900)
    human.tap(b"\r")
    assert human.read().deadman, "asking to drive lets nothing go"
    assert human.keyboard.drain_requests() == [TeleopRequestKind.TAKE]
    assert human.tap(b"x") == RELEASED
    human.tap(b"X")
    human.tap(b"q")
    assert human.keyboard.drain_requests() == [
        TeleopRequestKind.STOP,
        TeleopRequestKind.EMERGENCY,
        TeleopRequestKind.LEAVE,
    ]
    assert human.keyboard.drain_requests() == []


def test_throttle_brake_wheel_and_direction(human: Human) -> None:
    human.hold(b" ", 900)
    assert human.tap(b"\x1b[A").throttle == pytest.approx(0.1)
    assert human.tap(b"\x1b[B") == Reading(0.0, 0.0, 0.3, True)
    assert human.hold(b"s", 800).brake == 1.0
    assert human.tap(b" ").brake == 0.0
    assert human.tap(b"a").steering == pytest.approx(0.15)
    assert human.tap(b" ").steering == pytest.approx(0.15), "the wheel stays"
    assert human.tap(b"\x1b[C").steering == 0.0, "the first press to the other side straightens it"
    assert human.hold(b"d", 3000).steering == -1.0
    assert human.tap(b"c").steering == 0.0
    human.tap(b"r")
    assert human.tap(b"w").throttle == pytest.approx(-0.1)
    human.tap(b"r")
    assert human.read().throttle == pytest.approx(-0.1), "not turned round under way"


def test_the_throttle_is_a_share_of_what_is_allowed() -> None:
    human = Human()
    human.keyboard = Keyboard(0.4)
    human.hold(b" ", 900)
    assert human.hold(b"w", 4000).throttle == pytest.approx(0.4)


def test_a_terminal_that_is_gone_lets_go(human: Human) -> None:
    human.hold(b" ", 900)
    human.keyboard.lost("lost the terminal")
    assert human.read() == RELEASED
    assert human.keyboard.trouble == "lost the terminal"


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
def test_keys_do_not_depend_on_where_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    whole = KeyDecoder()
    expected = whole.feed(data)
    decoder, found, at = KeyDecoder(), list[Key](), 0
    for size in [*cuts, len(data)]:
        found += decoder.feed(data[at : at + size])
        at += size
    assert found == expected
    assert decoder.waits == whole.waits


@given(st.lists(st.tuples(st.binary(max_size=8), st.integers(0, 10**9)), max_size=40))
def test_random_keys_give_readings_within_their_range(presses: list[tuple[bytes, int]]) -> None:
    keyboard, now_ns = Keyboard(1.0), 0
    for data, wait_ns in presses:
        now_ns += wait_ns
        keyboard.feed(data, now_ns)
        reading = keyboard.read(now_ns)
        assert -1.0 <= reading.steering <= 1.0
        assert -1.0 <= reading.throttle <= 1.0
        assert 0.0 <= reading.brake <= 1.0
        assert reading.deadman or reading == RELEASED
