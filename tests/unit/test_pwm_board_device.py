"""The PWM board: always a frame, the right pulses, nothing driven after a reconnect."""

from itertools import pairwise

import pytest

from drivers.pwm_board.codec import BOARD_STALE_NS, Pulses, PwmDecoder, encode
from drivers.pwm_board.device import PwmBoard, PwmParams
from vehicled.core.messages import ActuatorCommand, Fault, Mode, PortState, WheelSpeed
from vehicled.core.ports import NEVER_NS, Send

MS = 1_000_000
NEUTRAL = Pulses(1450, 1500)


def command(
    throttle: float = 0.0, brake: float = 0.0, steering: float = 0.0, mode: Mode = Mode.AUTO
) -> ActuatorCommand:
    return ActuatorCommand(0, 0, throttle, brake, steering, 0.0, mode)


STANDBY = command(brake=1.0, mode=Mode.STANDBY)


class Bench:
    """A device with its clock; what it sends, with the time of each frame."""

    def __init__(self, **params) -> None:
        self.device = PwmBoard(PwmParams(**params), (), 50 * MS)
        self.board = PwmDecoder()
        self.now = 0
        self.frames: list[tuple[int, Pulses]] = []
        self.faults: list[Fault] = []

    def note(self, messages) -> None:
        self.faults += [message for message in messages if isinstance(message, Fault)]
        for action in self.device.take_tx():
            assert isinstance(action, Send)
            assert action.deadline_ns == self.now + 50 * MS
            self.frames += [(self.now, pulses) for pulses in self.board.feed(action.data)]

    def open(self) -> "Bench":
        self.note(self.device.on_port(PortState.OPENED, "", self.now))
        return self

    def say(self, message) -> None:
        self.device.on_command(message, self.now)
        self.note(())

    def run(self, duration_ms: int, message=None) -> list[Pulses]:
        """Let time pass with a command every 10 ms; returns the pulses sent."""
        before = len(self.frames)
        for _ in range(duration_ms // 10):
            self.now += 10 * MS
            if message is not None:
                self.say(message)
            if self.now >= self.device.next_due_ns():
                self.note(self.device.on_time(self.now))
        return [pulses for _, pulses in self.frames[before:]]


def test_the_frame_is_the_published_one() -> None:
    assert encode(Pulses(1500, 1400)) == bytes.fromhex("04 dc05 7805")
    assert encode(Pulses(1250, 1980), 4) == bytes.fromhex("00000000 04 e204 bc07")
    assert PwmDecoder().feed(bytes.fromhex("04 dc05 7805")) == [Pulses(1500, 1400)]
    for pulses in (Pulses(999, 1500), Pulses(1500, 1981)):
        with pytest.raises(ValueError, match="the board ignores a pulse"):
            encode(pulses)


def test_an_opened_port_gets_neutral_frames_at_once_and_for_ever() -> None:
    bench = Bench().open()
    assert bench.frames == [(0, NEUTRAL)]
    assert bench.run(1000) == [NEUTRAL] * 20
    times = [at for at, _ in bench.frames]
    assert max(b - a for a, b in pairwise(times)) <= 50 * MS < BOARD_STALE_NS


@pytest.mark.parametrize(
    ("params", "message", "pulses"),
    [
        ({}, command(), NEUTRAL),
        ({}, command(throttle=1.0), Pulses(1450, 1400)),
        ({}, command(throttle=0.25, steering=1.0), Pulses(1650, 1475)),
        ({}, command(throttle=0.25, steering=-0.5), Pulses(1350, 1475)),
        ({}, command(brake=1.0), NEUTRAL),
        ({"brake_range_us": 100.0}, command(brake=0.5), Pulses(1450, 1550)),
        ({"brake_range_us": 100.0}, command(throttle=1.0, brake=0.5), Pulses(1450, 1550)),
        ({}, command(throttle=1.0, brake=0.5), NEUTRAL),
        ({}, command(throttle=9.0, steering=9.0), Pulses(1650, 1400)),
        ({}, command(throttle=float("nan"), steering=float("nan")), NEUTRAL),
        (
            {"steering_center_us": 1900.0, "steering_range_us": 500.0},
            command(steering=1.0),
            Pulses(1980, 1500),
        ),
    ],
)
def test_commands_become_pulses(params, message, pulses) -> None:
    bench = Bench(**params).open()
    bench.run(100, STANDBY)
    assert bench.run(200, message)[-1] == pulses


def test_frames_keep_their_rate_whatever_the_rate_of_commands() -> None:
    bench = Bench().open()
    bench.run(100, STANDBY)
    assert len(bench.run(1000, command(throttle=0.5))) == 20


def test_taking_drive_away_does_not_wait_for_its_turn() -> None:
    bench = Bench().open()
    bench.run(100, STANDBY)
    bench.run(100, command(throttle=0.5))
    sent = bench.now = bench.frames[-1][0] + 10 * MS
    bench.say(command())
    assert bench.frames[-1] == (sent, NEUTRAL)
    # More drive does wait.
    bench.now += 10 * MS
    bench.say(command(throttle=0.5))
    assert bench.frames[-1] == (sent, NEUTRAL)


def test_when_commands_stop_the_drive_goes_to_neutral_and_the_steering_stays() -> None:
    bench = Bench().open()
    bench.run(100, STANDBY)
    bench.run(200, command(throttle=0.5, steering=0.5))
    pulses = bench.run(1000)
    assert pulses[0] == Pulses(1550, 1450)
    assert pulses[-10:] == [Pulses(1550, 1500)] * 10
    assert len(pulses) == 20


def test_a_reconnect_comes_back_disarmed() -> None:
    bench = Bench().open()
    assert bench.run(100, command(throttle=1.0)) == [NEUTRAL] * 2
    assert [(fault.code, fault.active) for fault in bench.faults] == [("pwm_drive_refused", True)]
    bench.run(20, STANDBY)
    assert bench.run(100, command(throttle=1.0))[-1] == Pulses(1450, 1400)
    bench.note(bench.device.on_port(PortState.LOST, "unplugged", bench.now))
    assert bench.device.next_due_ns() == NEVER_NS
    assert bench.run(100, command(throttle=1.0)) == []
    bench.open()
    assert set(bench.run(300, command(throttle=1.0))) == {NEUTRAL}
    bench.run(20, STANDBY)
    assert bench.run(100, command(throttle=1.0))[-1] == Pulses(1450, 1400)
    assert [(fault.code, fault.active) for fault in bench.faults] == [
        ("pwm_drive_refused", active) for active in (True, False)
    ] * 2


def test_slew_holds_back_steering_and_throttle_but_never_their_release() -> None:
    bench = Bench(slew_us_per_s=500.0).open()
    bench.run(100, STANDBY)
    rising = bench.run(250, command(throttle=1.0, steering=1.0))
    assert [pulses.drive_us for pulses in rising] == [1475, 1450, 1425, 1400, 1400]
    assert [pulses.servo_us for pulses in rising] == [1475, 1500, 1525, 1550, 1575]
    assert bench.run(50, command(steering=1.0))[0].drive_us == 1500


def test_the_board_is_not_expected_to_speak() -> None:
    bench = Bench().open()
    assert list(bench.device.on_rx(b"Tick. Stale = 1\r\n", 5)) == []
    assert bench.device.dropped_bytes == 17
    bench.device.on_command(WheelSpeed(0, 0, 1.0, 1.0), 5)
    assert bench.device.next_due_ns() == 50 * MS
