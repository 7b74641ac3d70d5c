"""The emulated board and the real driver: commands become pulses, and pulses commands."""

import pytest

from drivers.pwm_board.codec import BAUD, Pulses, encode
from drivers.pwm_board.device import PwmBoard, PwmParams
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.pwm_board import PwmBoardUnit, pwm_board
from tests.emulator_bench import MS, SECOND, START, Bench, table
from vehicled.core.messages import ActuatorCommand, Mode

PARAMS = PwmParams(brake_range_us=100.0)


def bench(params: PwmParams = PARAMS, port: str = "") -> Bench:
    return Bench(
        pwm_board("drive", table("pwm_board", params, ("ActuatorCommand",), port), 3, START),
        PwmBoard(params, [], SECOND),
    )


def unit(found: Bench) -> PwmBoardUnit:
    assert isinstance(found.emulator, SerialLine)
    assert isinstance(found.emulator.device, PwmBoardUnit)
    return found.emulator.device


def command(
    t_ns: int, throttle: float, brake: float, steering: float, mode: Mode = Mode.AUTO
) -> ActuatorCommand:
    return ActuatorCommand(t_ns, 0, throttle, brake, steering, 0.0, mode)


def drive(found: Bench, throttle: float, brake: float, steering: float) -> None:
    """Arm as the daemon does, then send one command and wait for the frame."""
    found.run(found.now_ns + MS)
    found.command(command(found.now_ns, 0.0, 0.0, 0.0, Mode.STANDBY))
    found.run(found.now_ns + 100 * MS)
    found.command(command(found.now_ns, throttle, brake, steering))
    found.run(found.now_ns + 100 * MS)


@pytest.mark.parametrize(
    ("throttle", "brake", "steering"),
    [(0.5, 0.0, 0.25), (1.0, 0.0, -1.0), (0.0, 0.7, 1.0), (0.0, 0.0, -0.33)],
)
def test_commands_come_through_to_the_width_of_a_microsecond(
    throttle: float, brake: float, steering: float
) -> None:
    found = bench()
    drive(found, throttle, brake, steering)
    last = found.commands[-1]
    assert (last.throttle, last.brake) == pytest.approx((throttle, brake), abs=0.5 / 100)
    assert last.steering == pytest.approx(steering, abs=0.5 / 200)


def test_a_frame_takes_its_time_on_the_line() -> None:
    found = bench()
    found.run(START + MS)
    assert found.commands[0].t_ns == START + 9 * 10 * SECOND // BAUD
    assert unit(found).frames == 1


def test_frames_keep_coming_while_commands_stay_away() -> None:
    found = bench()
    drive(found, 0.5, 0.0, 0.1)
    before = len(found.commands)
    found.run(found.now_ns + SECOND)
    assert len(found.commands) - before == 20
    assert found.commands[-1].throttle == 0.0


def test_a_width_that_the_board_ignores_leaves_that_output_where_it_was() -> None:
    found = Bench(pwm_board("drive", table("pwm_board", PARAMS), 3, START))
    found.send(encode(Pulses(1550, 1450)))
    found.send(b"\x04" + (2500).to_bytes(2, "little") + (1400).to_bytes(2, "little"))
    found.run(START + SECOND)
    assert [(c.throttle, c.steering) for c in found.commands] == [(0.5, 0.5), (1.0, 0.5)]


def test_without_a_brake_pulse_there_is_no_brake() -> None:
    found = bench(PwmParams())
    drive(found, 0.0, 1.0, 0.0)
    assert found.commands[-1][1:4] == (0.0, 0.0, 0.0)


def test_at_another_line_rate_the_board_understands_something_else() -> None:
    found = bench(port="serial:/dev/ttyUSB0?baud=115200")
    drive(found, 0.0, 0.0, 0.5)
    sound = bench(port=f"serial:/dev/ttyUSB0?baud={BAUD}")
    drive(sound, 0.0, 0.0, 0.5)
    assert sound.commands[-1].steering == pytest.approx(0.5)
    assert [c[1:] for c in found.commands] != [c[1:] for c in sound.commands]


def test_any_bytes_give_commands_within_their_range() -> None:
    found = Bench(pwm_board("drive", table("pwm_board", PARAMS), 3, START))
    for k in range(200):
        found.send(bytes((4, 7 * k % 256, k % 8, 11 * k % 256, k % 9, k % 5)))
    found.run(START + SECOND)
    assert len(found.commands) > 100
    for one in found.commands:
        assert 0.0 <= one.throttle <= 1.0
        assert 0.0 <= one.brake <= 1.0
        assert -1.0 <= one.steering <= 1.0


def test_a_restarted_board_has_forgotten_half_a_frame() -> None:
    found = Bench(pwm_board("drive", table("pwm_board", PARAMS), 3, START))
    found.send(encode(Pulses(1550, 1450))[:3])
    found.run(START + MS)
    assert isinstance(found.emulator, SerialLine)
    found.emulator.restart(found.now_ns)
    found.send(encode(Pulses(1450, 1400)))
    found.run(START + SECOND)
    assert [(c.throttle, c.steering) for c in found.commands] == [(1.0, 0.0)]
