"""Requests are met, or refused with the reason: slow courses, blocked wheels, slopes, standstill
without sensors, a turned IMU."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import vehicled as v
from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from vehicled.core.messages import (
    Fault,
    GroundTruth,
    Message,
    Mode,
    ModeChange,
    OperatorAction,
    OperatorCommand,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.profile import load
from vehicled.run.plan import course_of
from vehicled.safety.matrix import MATRIX, RULES
from vehicled.safety.supervisor import Supervisor

SECOND_NS = 10**9
STARTS = (Mode.INIT, Mode.STANDBY, Mode.ARMED)


class Trace:
    """Truth, mode changes and faults of a drive."""

    def __init__(self) -> None:
        self.truth: list[GroundTruth] = []
        self.changes: list[tuple[ModeChange, float]] = []
        """Each with the true speed at that moment, m/s."""
        self.codes: list[str] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, GroundTruth):
            self.truth.append(message)
        elif isinstance(message, ModeChange):
            self.changes.append((message, self.truth[-1].speed_mps if self.truth else 0.0))
        elif isinstance(message, Fault) and message.active:
            self.codes.append(message.code)


class Drive:
    """One drive in lockstep, in this process."""

    def __init__(
        self,
        profile: str,
        course: str | Course,
        *overrides: str,
        failures: Iterable[str] = (),
        seed: int = 5,
    ) -> None:
        loaded = load(profile, list(overrides)).profile
        self.trace = Trace()
        line = course if isinstance(course, Course) else course_of(loaded, course)
        self.pair = WrappedPair(
            loaded,
            line,
            [parse_failure(text) for text in failures],
            self.trace,
            seed,
            link="messages",
        )
        self.machine = self.pair.machine

    def until(self, at_s: float, *, modes: Iterable[Mode] = tuple(Mode)) -> float:
        """Drive up to a time, or as long as the mode is one of ``modes``; return the time."""
        allowed = frozenset(modes)
        while self.pair.now_ns < START_NS + at_s * SECOND_NS:
            self.pair.grant()
            if self.machine.mode not in allowed:
                break
            self.pair.reply()
        return (self.pair.now_ns - START_NS) / SECOND_NS

    def begin(self) -> None:
        """Arm and begin to drive."""
        self.until(5.0, modes=STARTS)
        assert self.machine.mode is Mode.AUTO, self.machine.why

    def speeds(self, from_s: float = 0.0) -> list[float]:
        return [
            truth.speed_mps
            for truth in self.trace.truth
            if truth.t_ns >= START_NS + from_s * SECOND_NS
        ]

    def ask(self, action: OperatorAction) -> None:
        self.machine.on_message(
            OperatorCommand(self.pair.now_ns, self.pair.now_ns, action, "test"), self.pair.now_ns
        )


def line(speed_mps: float, length_m: float = 8.0) -> Course:
    return course_from_waypoints("line", [0.0, length_m], [0.0, 0.0], speed=[speed_mps, speed_mps])


# --------------------------------------------------------------------------------------- standstill


@pytest.mark.parametrize(
    ("profile", "failures", "assumed"),
    [
        ("husky_a200", ["gnss:delayed=0.6@4"], False),
        ("hunter_se", ["gnss:off@4", "drive:slip=-1@5.9"], False),
        pytest.param("hunter_se", ["gnss:delayed@4"], False, marks=pytest.mark.soak),
        ("rzr", ["gnss:brownout@5.2"], True),
        pytest.param("art", ["gnss:off@5.8"], True, marks=pytest.mark.soak),
        pytest.param("rzr", ["gnss:stuck@5.8", "heading:off@3"], True, marks=pytest.mark.soak),
    ],
)
def test_a_stop_ends_at_standstill_whatever_measures_it(
    profile: str, failures: list[str], assumed: bool
) -> None:
    """Wheels that a brake locks, receivers that are late, silent or repeat themselves, and no speed
    at all."""
    drive = Drive(
        profile, "circle_r25_ccw" if profile == "rzr" else "circle_r5_ccw", failures=failures
    )
    drive.begin()
    drive.until(6.0, modes=(Mode.AUTO,))
    assert abs(drive.trace.truth[-1].speed_mps) > 0.5
    drive.ask(OperatorAction.STOP)
    drive.until(25.0, modes=(Mode.AUTO, Mode.STOPPING))
    (change, speed_mps) = drive.trace.changes[-1]
    assert (change.before, change.after) == (Mode.STOPPING, Mode.STANDBY)
    assert abs(speed_mps) < 0.1
    assert (change.code == "standstill_assumed") is assumed
    assert ("standstill_assumed" in drive.trace.codes) is assumed
    assert change.first_code != "standstill_assumed", "the cause of the stop stays the cause"
    assert not assumed or "no fresh wheel or GNSS speed" in drive.machine.why


def test_a_run_whose_stop_cannot_be_seen_does_not_say_that_it_stands() -> None:
    """The link to the actuator is gone as well, so its brake is not known to act."""
    run = v.simulate(
        "hunter_se", "circle_r5_ccw", seed=5, failures=["gnss:off@3", "drive:off@4"], duration_s=5.0
    )
    assert not run.metrics.finished
    assert "it is not known to stand: no wheel or GNSS speed is fresh" in run.metrics.why


# ------------------------------------------------------------------------------ slow, blocked, held


@pytest.mark.parametrize(
    ("profile", "speed_mps"), [("nigel", 0.06), ("nigel", 0.14), ("roboracer", 0.1)]
)
def test_a_small_vehicle_is_slow_and_moves(profile: str, speed_mps: float) -> None:
    """The motor of the second one is strong, and its friction four times what the daemon
    believes."""
    sim = v.Simulation(profile, "straight_30m", seed=1)
    for _ in range(600):
        seen = sim.step(v.Action(speed_mps, curvature_per_m=0.0))
    assert seen.mode is Mode.OFFBOARD
    assert seen.truth is not None
    assert seen.truth.speed_mps == pytest.approx(speed_mps, rel=0.3)


@pytest.mark.parametrize(
    ("profile", "speed_mps"),
    [
        ("nigel", 0.05),
        ("art", 0.1),
        ("hunter_se", 0.25),
        pytest.param("husky_a200", 0.1, marks=pytest.mark.soak),
        pytest.param("art_vesc", 0.28, marks=pytest.mark.soak),
        pytest.param("f1tenth", 0.15, marks=pytest.mark.soak),
        pytest.param("roboracer", 1.0, marks=pytest.mark.soak),
        pytest.param("opencav", 0.3, marks=pytest.mark.soak),
        pytest.param("hmmwv", 1.0, marks=pytest.mark.soak),
    ],
)
def test_blocked_wheels_end_the_drive_at_any_speed(profile: str, speed_mps: float) -> None:
    drive = Drive(profile, line(speed_mps), failures=["drive:blocked@5"])
    drive.begin()
    drive.until(5.0, modes=(Mode.AUTO,))
    assert drive.trace.truth[-1].speed_mps > 0.3 * speed_mps
    ended_s = drive.until(20.0, modes=(Mode.AUTO,))
    moved_ns = max(truth.t_ns for truth in drive.trace.truth if truth.speed_mps > 0.2 * speed_mps)
    row = next(row for row in MATRIX if row.number == 14)
    beyond_s = next(rule for rule in row.rules if rule.code == "not_moving").react_ms / 1000.0 - 2.0
    limit_s = drive.machine.supervisor.inputs.limits.not_moving_s  # type: ignore[union-attr]
    assert ended_s - (moved_ns - START_NS) / SECOND_NS < limit_s + beyond_s
    assert drive.trace.codes[-1] in ("stalled", "not_moving")


@pytest.mark.parametrize(
    ("profile", "most_mps"),
    # The drive of `art` gives nothing at 0.39 of the throttle and a third of its torque at 0.41.
    [
        ("art", 0.6),
        ("art_published", 0.42),
        ("f1tenth", 0.42),
        pytest.param("hunter_se", 0.42, marks=pytest.mark.soak),
    ],
)
def test_wheels_that_come_free_do_not_surge(profile: str, most_mps: float) -> None:
    """Blocked for as long as the drive goes on."""
    drive = Drive(
        profile, line(0.28), "limits.not_moving_s=10", failures=["drive:blocked@0.01+2.4"]
    )
    drive.until(7.0)
    assert drive.machine.mode is Mode.AUTO
    # While nothing measures the speed of `art`, its filter takes the block for friction, and
    # unlearns that as it drives.
    assert 0.2 < max(drive.speeds()) < most_mps


def test_a_law_with_too_little_throttle_is_stopped() -> None:
    """The linear law, with less than moves this vehicle: what helps it to move does not keep it
    moving."""
    drive = Drive(
        "art", line(1.0), "controller.name=linear", "controller.linear.throttle=[0.1,0.0,0.0,0.05]"
    )
    drive.begin()
    assert drive.until(20.0, modes=(Mode.AUTO,)) < 12.0
    assert drive.trace.codes[-1] in ("stalled", "no_progress")


def test_a_law_of_its_own_throttle_is_helped_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vehicle that was pulled aside turns its wheels to the lock, where the law's throttle is too
    little for it."""
    # The rule would end the drive while it is pulled.
    others = [rule for rule in RULES if rule.code != "steering_unfollowed"]
    monkeypatch.setattr("vehicled.daemon.app.Supervisor", lambda: Supervisor(others))
    drive = Drive(
        "art_twin", line(0.43, 5.0), "controller.name=linear", failures=["drive:pull=1.71@4+5"]
    )
    drive.begin()
    drive.until(20.0, modes=(Mode.AUTO,))
    assert drive.trace.codes == []


def test_a_requested_halt_is_no_lack_of_progress() -> None:
    sim = v.Simulation("art", "straight_30m", seed=1)
    for _ in range(1300):
        seen = sim.step(v.Action(0.0, curvature_per_m=0.0))
    assert seen.mode is Mode.OFFBOARD


# ------------------------------------------------------------------------------------------- slopes


def hill(folder: Path, slope: float) -> str:
    """Write an even slope along x; return the override that drives on it."""
    file = folder / "hill.csv"
    row = ",".join(f"{slope * (column - 10.0):.4f}" for column in range(41))
    file.write_text("\n".join([row] * 41) + "\n", encoding="utf-8")
    file.with_name("hill.csv.toml").write_text(
        "step_m = 1.0\nx_m = -10.0\ny_m = -20.0\n", encoding="utf-8"
    )
    return f"sim.terrain.height={file}"


@pytest.mark.parametrize(
    ("profile", "slope", "speed_mps", "most_mps"),
    [
        ("f1tenth", -0.15, 0.28, 0.65),
        ("hmmwv", -0.15, 1.0, 1.8),
        ("rzr", -0.15, 0.28, 0.95),
        pytest.param("hmmwv", -0.15, 0.28, 0.85, marks=pytest.mark.soak),
        pytest.param("rzr", -0.35, 0.5, 1.8, marks=pytest.mark.soak),
        pytest.param("rzr", -0.15, 1.0, 1.7, marks=pytest.mark.soak),
        pytest.param("hunter_se", -0.15, 1.0, 1.4, marks=pytest.mark.soak),
        pytest.param("f1tenth", -0.35, 1.0, 1.7, marks=pytest.mark.soak),
        ("hunter_se", 0.1, 0.28, 0.4),
        pytest.param("f1tenth", 0.25, 0.28, 0.4, marks=pytest.mark.soak),
        pytest.param("rzr", 0.2, 1.0, 1.2, marks=pytest.mark.soak),
    ],
)
def test_a_slope_is_driven(
    profile: str, slope: float, speed_mps: float, most_mps: float, tmp_path: Path
) -> None:
    drive = Drive(profile, line(speed_mps), hill(tmp_path, slope), seed=3)
    drive.begin()
    drive.until(9.0, modes=(Mode.AUTO,))
    assert drive.trace.codes == []
    assert drive.trace.truth[-1].x_m > 3.0 * speed_mps
    assert max(drive.speeds()) < most_mps
    settled = drive.speeds(7.0)
    assert 0.6 * speed_mps < sum(settled) / len(settled) < 1.3 * speed_mps
    assert min(truth.x_m for truth in drive.trace.truth) > -0.5


@pytest.mark.parametrize(
    ("profile", "slope", "codes"),
    [
        ("rzr", 0.5, {"rolling_back", "gnss_refused", "heading_against_course"}),
    ],
)
def test_what_cannot_be_held_is_said_and_stopped(
    profile: str, slope: float, codes: set[str], tmp_path: Path
) -> None:
    drive = Drive(profile, line(1.0, 20.0), hill(tmp_path, slope), seed=3)
    drive.begin()
    ended_s = drive.until(20.0, modes=(Mode.AUTO,))
    assert ended_s < 12.0
    assert set(drive.trace.codes) & codes, drive.trace.codes


@pytest.mark.parametrize(
    ("profile", "slope", "modes"),
    [("hunter_se", -0.25, {Mode.INIT}), ("hunter_se", -0.05, {Mode.INIT, Mode.STANDBY})],
)
def test_a_vehicle_that_rolls_away_undriven_is_named(
    profile: str, slope: float, modes: set[Mode], tmp_path: Path
) -> None:
    """A slope that its brake does not hold moves it from the start; one that it holds does not."""
    drive = Drive(profile, line(1.0, 20.0), hill(tmp_path, slope), seed=3)
    drive.until(4.0, modes=(Mode.INIT, Mode.STANDBY, Mode.ARMED))
    moved = abs(drive.speeds()[-1]) > 0.3 and drive.machine.mode in modes
    assert ("rollaway" in drive.trace.codes) is (slope < -0.2) is moved, drive.trace.codes
    inputs = drive.machine.supervisor.inputs
    assert inputs is not None
    # The brake locks the rear wheels, which read 0.
    assert inputs.speed_mps == pytest.approx(drive.speeds()[-1], abs=0.2)


# ---------------------------------------------------------------------------------------------- IMU


@pytest.mark.parametrize(
    ("profile", "roll_pitch", "words"),
    [
        (
            "art",
            (3.14159, 0.0),
            (
                "-z axis points up .* mounting_roll_rad = 3.1415, mounting_pitch_rad = 0.0000, "
                ".*devices.imu.driver.n100"
            ),
        ),
        (
            "hunter_se",
            (0.0, 1.5708),
            "x axis points up .* turn its samples where they are sent, by roll 0.0000 rad, pitch",
        ),
        (
            "hmmwv",
            (0.35, 0.0),
            "across it, limit 17.* turn its samples where they are sent, by roll 0.3[45]",
        ),
        ("art", (0.0, -0.35), "along the vehicle, limit 11.* mounting_pitch_rad = -0.3[45]"),
    ],
)
def test_a_turned_imu_is_not_armed_and_the_user_gets_its_mounting(
    profile: str, roll_pitch: tuple[float, float], words: str
) -> None:
    roll, pitch = roll_pitch
    drive = Drive(profile, "circle_r5_ccw", f"sim.imu.mounting_error_rad=[{roll},{pitch},0.0]")
    drive.until(2.0)
    assert drive.machine.mode is Mode.STANDBY
    (said,) = [
        text for text in drive.machine.waiting_for(drive.pair.now_ns) if "axis points up" in text
    ]
    assert re.search(words, said), said


def test_a_turned_imu_comes_before_the_filter_that_it_makes_diverge() -> None:
    drive = Drive("hmmwv", "circle_r5_ccw", "sim.imu.mounting_error_rad=[3.14159,0.0,0.0]")
    drive.until(2.0)
    first, *others = drive.machine.waiting_for(drive.pair.now_ns)
    assert "axis points up" in first
    assert any("estimator is not running" in text for text in others)


def test_an_imu_that_looks_aside_lets_no_drive_run_away() -> None:
    """The filter feels no acceleration, and the speed control gives more and more throttle."""
    drive = Drive("hmmwv", line(1.0, 20.0), "sim.imu.mounting_error_rad=[0.0,0.0,1.5708]", seed=3)
    drive.until(4.0)
    assert drive.machine.mode is Mode.STANDBY
    assert drive.trace.codes == ["gnss_refused"]
    assert 0.5 < max(drive.speeds()) < 2.0


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_a_tilt_that_may_be_a_slope_shows_on_the_way(slope: float, tmp_path: Path) -> None:
    drive = Drive(
        "hunter_se",
        line(1.0, 12.0),
        hill(tmp_path, slope),
        "sim.imu.mounting_error_rad=[0.0,0.35,0.0]",
    )
    drive.begin()
    drive.until(14.0, modes=(Mode.AUTO,))
    assert drive.trace.codes == ["imu_tilted"]
    assert re.search("by roll 0.0000 rad, pitch 0.3[3-7]", drive.machine.why), drive.machine.why
    assert drive.trace.truth[-1].x_m < 8.0


def test_a_steep_but_sane_slope_is_armed_on(tmp_path: Path) -> None:
    drive = Drive("hunter_se", line(1.0), hill(tmp_path, 0.3))
    drive.until(1.5)
    assert drive.machine.mode is Mode.AUTO
