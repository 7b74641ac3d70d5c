"""Open-loop programmes: files, names, and the controller that drives them."""

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.control.programme import Programme, ProgrammeParams
from vehicled.control.programme_file import ProgrammeError, read_programme
from vehicled.control.programmes import PROGRAMMES, named
from vehicled.core.errors import SetupError
from vehicled.core.messages import ControlLevel, EstimatorStatus, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.run.manoeuvre import load_programme

PROFILE = load_profile("art")
VEHICLE, LIMITS = PROFILE.vehicle, PROFILE.limits
STEP_NS = 20_000_000


def _estimate(
    t_ns: int, speed: float = 0.0, yaw: float = 0.0, x: float = 0.0, y: float = 0.0
) -> StateEstimate:
    return StateEstimate(t_ns, t_ns, x, y, yaw, speed, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING)


def _controller(params: ProgrammeParams) -> Programme:
    return Programme(params, VEHICLE, LIMITS, load_course("straight_20m"), 0.02)


FILE = b"""# name: weave
# entry_speed_mps: 0
t_s,speed_mps,throttle,brake,wheel_angle_rad
0,1.0,,,0
1,2.0,,,0.2
2,,0.5,,0.2
3,,,0.3,0
"""


def test_a_file_is_read_as_it_is_written() -> None:
    programme = read_programme(b"\xef\xbb\xbf" + FILE.replace(b"\n", b"\r\n"), "folder/x.csv")
    assert programme.name == "weave"
    assert programme.t_s == [0.0, 1.0, 2.0, 3.0]
    assert programme.holds_speed == [True, True, False, False]
    assert programme.throttle == [0.0, 0.0, 0.5, 0.0]
    assert programme.brake == [0.0, 0.0, 0.0, 0.3]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 row"),
        (b"t_s,speed_mps\n0,1\n", "1 row"),
        (b"speed_mps\n1\n2\n", "line 1: no column t_s"),
        (b"t_s,steering\n0,0\n1,0\n", "neither speed_mps nor throttle"),
        (b"t_s,speed\n0,1\n1,1\n", 'line 1, column 2: "speed" is not a column'),
        (b"t_s,t_s,throttle\n0,0,1\n", "column 2: t_s is given twice"),
        (b"t_s,throttle,steering,wheel_angle_rad\n", "remove one"),
        (b"t_s,throttle\n0,1\n0,1\n", "line 3, column t_s: 0 is not later than 0"),
        (b"t_s,throttle\n0,1\n1,1.5\n", "line 3, column throttle: 1.5 is outside -1 to 1"),
        (b"t_s,throttle\n0,1\n1,x\n", 'line 3, column throttle: "x" is not a number'),
        (b"t_s,throttle\n0,1\n1,nan\n", "line 3, column throttle: throttle is nan"),
        (b"t_s,throttle\n0,1\n1\n", "line 3: 1 values for 2 columns"),
        (b"# entry_sped_mps: 3\nt_s,throttle\n0,0\n1,0\n", 'line 1: no setting "entry_sped_mps"'),
        (b"# interpolation: cubic\nt_s,throttle\n0,0\n1,0\n", "linear or hold"),
        (b"# entry_s: 0\nt_s,throttle\n0,0\n1,0\n", "entry_s is 0"),
        (b"t_s,throttle\n0,\xff\n", "line 2: not UTF-8"),
        (b"\n" * 3_000_000, "at most 2 MB"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(ProgrammeError) as caught:
        read_programme(data, "bad.csv")
    assert said in str(caught.value)
    assert str(caught.value).startswith("bad.csv")


@given(st.binary(max_size=120), st.integers(0, len(FILE)), st.integers(0, len(FILE)))
def test_whatever_the_bytes_a_programme_or_its_error(junk: bytes, start: int, stop: int) -> None:
    for data in (junk, FILE[:start] + junk + FILE[stop:]):
        with suppress(ProgrammeError):
            assert read_programme(data, "x.csv").t_s


@pytest.mark.parametrize("name", sorted(PROGRAMMES))
@pytest.mark.parametrize("profile", ["art", "hmmwv", "nigel"])
def test_every_named_programme_fits_every_vehicle(name: str, profile: str) -> None:
    vehicle = load_profile(profile)
    programme = named(name, vehicle.vehicle, vehicle.limits)
    lock = vehicle.vehicle.steering.max_wheel_rad
    assert max(abs(wheel) for wheel in programme.wheel_angle_rad) <= lock + 1e-9
    assert programme.entry_speed_mps <= vehicle.limits.max_speed_mps
    assert programme.name == name


def test_named_programmes_are_what_their_standards_say() -> None:
    step = named("step_steer:speed_mps=2,ay_mps2=1,rise_s=0.3", VEHICLE, LIMITS)
    assert step.wheel_angle_rad[-1] == pytest.approx(math.atan(VEHICLE.wheelbase_m * 1.0 / 4.0))
    assert step.t_s[2] - step.t_s[1] == pytest.approx(0.3)
    dwell = named("sine_with_dwell:speed_mps=2", VEHICLE, LIMITS)
    lowest = min(dwell.wheel_angle_rad)
    held = [t for t, wheel in zip(dwell.t_s, dwell.wheel_angle_rad, strict=True) if wheel == lowest]
    assert held[-1] - held[0] == pytest.approx(0.5)
    assert held[0] == pytest.approx(0.75 / 0.7)
    assert max(dwell.wheel_angle_rad) == pytest.approx(-lowest, rel=0.01)
    chirp = named("chirp:speed_mps=2,from_hz=0.1,to_hz=2,sweep_s=20", VEHICLE, LIMITS)
    crossings = [
        t
        for t, a, b in zip(
            chirp.t_s, chirp.wheel_angle_rad, chirp.wheel_angle_rad[1:], strict=False
        )
        if a < 0 <= b
    ]
    assert 1.0 / (crossings[-1] - crossings[-2]) == pytest.approx(2.0, rel=0.12)
    right = named("step_steer:ay_mps2=-1", VEHICLE, LIMITS)
    assert right.wheel_angle_rad[-1] < 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_ster", 'did you mean "step_steer"'),
        ("step_steer:speed=3", "known: speed_mps"),
        ("step_steer:speed_mps=x", "must be a number"),
        ("step_steer:speed_mps=-1", "above 0"),
        ("step_steer:ay_mps2=0", "other than 0"),
        ("chirp:sweep_s=9999", "at most 20000"),
        ("no/such.csv", "file not found"),
    ],
)
def test_a_programme_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(SetupError, match="--programme: ") as caught:
        load_programme(text, PROFILE)
    assert said in str(caught.value)


def test_a_folder_is_no_programme(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="file not found"):
        load_programme(str(tmp_path / "x.csv"), PROFILE)


def test_rows_are_driven_by_time_between_them_linear_or_held() -> None:
    columns: dict[str, Any] = {
        "t_s": [0.0, 1.0, 2.0],
        "throttle": [0.0, 0.4, 0.4],
        "wheel_angle_rad": [0.0, 0.2, 0.1],
        "brake": [0.0, 0.0, 0.0],
    }
    linear, held = (
        _controller(ProgrammeParams(interpolation=kind, **columns)) for kind in ("linear", "hold")
    )
    for controller, wheel, throttle in ((linear, 0.1, 0.2), (held, 0.0, 0.0)):
        controller.step(_estimate(0), 0)
        command = controller.step(_estimate(500_000_000), 500_000_000)
        assert (command.wheel_angle_rad, command.throttle, command.brake) == pytest.approx(
            (wheel, throttle, 0.0)
        )
        assert command.cross_track_m == 0.0
        end = controller.step(_estimate(2_020_000_000), 2_020_000_000)
        assert controller.finished
        assert end.throttle == 0.0
        assert end.brake > 0.0
        assert end.wheel_angle_rad == command.wheel_angle_rad
        controller.reset(3.0, 0.0)
        assert not controller.finished
        assert controller.step(_estimate(3_000_000_000), 3_000_000_000).wheel_angle_rad == 0.0


def test_steering_is_a_share_of_the_mechanical_stop() -> None:
    controller = _controller(
        ProgrammeParams(t_s=[0.0, 1.0], throttle=[0.1, 0.1], steering=[-0.5, -0.5])
    )
    assert controller.step(_estimate(0), 0).wheel_angle_rad == pytest.approx(
        -0.5 * VEHICLE.steering.max_wheel_rad
    )


def test_speed_is_held_until_a_row_leaves_it_to_the_throttle() -> None:
    controller = _controller(
        ProgrammeParams(
            t_s=[0.0, 1.0, 2.0],
            speed_mps=[1.0, 0.0, 0.0],
            throttle=[0.0, 0.3, 0.3],
            holds_speed=[True, False, False],
        )
    )
    controller.step(_estimate(0, 1.0), 0)
    first = controller.step(_estimate(900_000_000, 1.0), 900_000_000)
    assert first.target_speed_mps == 1.0
    assert 0.0 < first.throttle < 1.0
    assert controller.step(_estimate(1_500_000_000, 1.0), 1_500_000_000).throttle == pytest.approx(
        0.3
    )


def test_the_programme_begins_when_its_entry_speed_has_settled_on_a_straight_line() -> None:
    params = ProgrammeParams(
        t_s=[0.0, 9.0],
        speed_mps=[1.0, 1.0],
        wheel_angle_rad=[0.2, 0.2],
        entry_speed_mps=1.0,
        settle_s=0.5,
    )
    controller = _controller(params)
    early = controller.step(_estimate(0, 0.2), 0)
    assert early.wheel_angle_rad == 0.0
    assert early.throttle > 0.0
    # Left of its line it steers right.
    assert controller.step(_estimate(STEP_NS, 0.5, y=0.3), STEP_NS).wheel_angle_rad < 0.0
    t_ns = 10 * STEP_NS
    while controller.step(_estimate(t_ns, 1.0), t_ns).wheel_angle_rad != 0.2:
        t_ns += STEP_NS
    assert t_ns == 10 * STEP_NS + 500_000_000


def test_an_entry_speed_that_does_not_come_is_given_up() -> None:
    controller = _controller(
        ProgrammeParams(t_s=[0.0, 1.0], speed_mps=[9.0, 9.0], entry_speed_mps=9.0, entry_s=2.0)
    )
    controller.step(_estimate(0, 1.0), 0)
    command = controller.step(_estimate(2_020_000_000, 1.0), 2_020_000_000)
    assert command.level is ControlLevel.STOP
    assert (command.throttle, command.brake) == (0.0, 1.0)
    assert not controller.finished


def test_a_turn_ends_a_programme_wherever_the_yaw_wraps() -> None:
    controller = _controller(
        ProgrammeParams(t_s=[0.0, 99.0], throttle=[0.2, 0.2], end_turn_rad=math.pi)
    )
    turned, t_ns = 0.0, 0
    while not controller.finished and turned < 4.0:
        controller.step(_estimate(t_ns, 1.0, math.remainder(2.5 + turned, math.tau)), t_ns)
        turned += 0.1
        t_ns += STEP_NS
    assert turned == pytest.approx(math.pi + 0.1, abs=0.1)


@given(
    st.lists(st.tuples(*[st.floats(width=32)] * 4), min_size=1, max_size=12),
    st.lists(st.integers(0, 2_000_000_000), min_size=1, max_size=12),
)
def test_every_command_is_finite_and_within_its_limits(
    poses: list[tuple[float, float, float, float]], gaps: list[int]
) -> None:
    controller = _controller(named("brake_in_turn", VEHICLE, LIMITS))
    t_ns = 0
    for (x, y, yaw, speed), gap in zip(poses, gaps, strict=False):
        t_ns += gap
        command = controller.step(_estimate(t_ns, speed, yaw, x, y), t_ns)
        assert abs(command.wheel_angle_rad) <= VEHICLE.steering.max_wheel_rad + 1e-9
        assert -VEHICLE.drive.reverse_share <= command.throttle <= 1.0
        assert 0.0 <= command.brake <= 1.0


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"t_s": [0.0, 1.0], "throttle": [0.1]}, "1 rows, t_s has 2"),
        ({"t_s": [1.0, 0.0], "throttle": [0.1, 0.1]}, "increase"),
        ({"t_s": [0.0, 1.0]}, "neither speed_mps nor throttle"),
        ({"t_s": [0.0], "throttle": [math.inf]}, "not finite"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ProgrammeParams(**columns)
