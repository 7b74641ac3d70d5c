"""A sample of ``python -m tests.random_drives``, and its judge notices what it is there for."""

from pathlib import Path

import pytest
from msgspec import json as msgjson
from msgspec.structs import replace

from bench.false_alarms import PROFILES, drive_of, read_results
from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from tests.closed_loop.fault_judge import SECOND_NS
from tests.grid import sampled
from tests.random_drives import (
    COURSE_S,
    STANDS_S,
    Outcome,
    RandomDrive,
    TruthJudge,
    driven,
    main,
    random_drive,
    run,
)
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    GroundTruth,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
)
from vehicled.profile import load_profile
from vehicled.run.plan import course_of
from vehicled.safety.supervisor import Supervisor

SAMPLE = (
    (
        "husky_a200",
        0,
        "planar",
        ("heading:delayed=0.19@4.36+0.3", "host:ground_lost@5.09+0.3", "gnss:no_fix@5.20+6"),
    ),
    # A stop without an estimate ended at 0.5 m/s, because every other fix was false and read 0.
    (
        "art",
        7,
        "ins",
        ("heading:brownout@5.04", "host:disk_full@5.06+0.3", "says:gnss_no_covariance@6.02+3"),
    ),
    # A look-ahead of 0.2 wheelbases turned the wheels to the stop at standstill, and the vehicle
    # swung out of its corridor.
    (
        "hmmwv",
        9,
        "ekf4",
        ("says:imu_nan@1.72+0.3", "heading:slow=40@5.70+6", "imu:intermittent=0.16@8.52+3"),
    ),
    # GNSS was lost while it accelerated, and nothing else measures the speed of a drive that is
    # stronger than its model.
    ("opencav", 25, "planar", ("gnss:usb@1.79+3",)),
    # The published estimate was 30 m elsewhere, and its filter had refused nothing.
    (
        "hmmwv",
        25,
        "ekf4",
        ("host:clock_back@5.27+3", "heading:slow=40@5.93", "spoils:estimate_jumps@9.56+6"),
    ),
)
SHORT = (
    # A drive that ran away at 16 m/s was said to stand: the estimate trusted the brake, and its
    # filter refused a live receiver.
    ("opencav", 40012, "planar", ("drive:runaway=-0.94@2.50", "says:gnss_future@3.44+0.3")),
    # A stuck gyro held its yaw rate, the estimate turned on while the vehicle stopped, and it was
    # armed again so.
    ("roboracer", 40024, "ekf4", ("host:throttled@3.41+3", "imu:stuck@3.46+6")),
)


@pytest.mark.parametrize(
    ("name", "number", "estimator", "failures"),
    sampled(SAMPLE, lambda case: case[:2] != ("hmmwv", 9)),
)
def test_the_rules_hold_in_drives_that_once_broke_one(
    name: str, number: int, estimator: str, failures: tuple[str, ...]
) -> None:
    outcome = driven(RandomDrive(drive_of(name, number), estimator, failures, 5.0, 17.0))
    assert not outcome.broken
    assert outcome.simulated_s > 2.0


@pytest.mark.parametrize(("name", "number", "estimator", "failures"), SHORT)
def test_the_rules_hold_in_short_drives_that_once_broke_one(
    name: str, number: int, estimator: str, failures: tuple[str, ...]
) -> None:
    assert not driven(
        RandomDrive(drive_of(name, number, *COURSE_S), estimator, failures, 5.0, 5.0)
    ).broken


@pytest.mark.parametrize("number", sampled((0, 1, 2), lambda number: number == 0))
def test_the_rules_hold_in_a_random_drive(number: int) -> None:
    outcome = run(("nigel", number))
    assert not outcome.broken, random_drive("nigel", number).again
    assert outcome.simulated_s > 2.0


def test_a_number_names_one_drive_and_the_numbers_differ() -> None:
    drives = {random_drive(name, number) for name in PROFILES for number in range(6)}
    assert len(drives) == 6 * len(PROFILES)
    assert random_drive("art", 3) == random_drive("art", 3)
    assert {len(drive.failures) for drive in drives} == {0, 1, 2, 3}
    for drive in drives:
        assert all(parse_failure(text).start_s < drive.healthy.limit_s for text in drive.failures)
        assert 0.0 < drive.watched_s <= drive.lasting_s


def test_a_campaign_goes_on_where_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.jsonl"
    broken = Outcome(
        "nigel",
        0,
        ("drive:off@3",),
        ("at 4.00 s: left its corridor",),
        "AUTO: drives",
        1,
        1.2,
        9.0,
        1.0,
    )
    calls = []

    def drive(_work: object, jobs: list[tuple[str, int]], *_: object) -> list[Outcome]:
        calls.append(jobs)
        return [
            Outcome(*job, (), (), "STANDBY: the course is finished", 1, 0.2, 9.0, 1.0)
            for job in jobs
        ]

    file.write_bytes(msgjson.encode(broken) + b'\n{"half": ')
    monkeypatch.setattr("tests.random_drives.run_jobs", drive)
    assert main(["--profile", "nigel", "--drives", "3", "--jobs", "1", "--out", str(file)]) == 1
    assert calls == [[("nigel", 1), ("nigel", 2)]]
    said = capsys.readouterr().out
    assert "left its corridor" in said
    assert "again: python -m tests.random_drives --profile nigel --first 0 --drives 1" in said
    assert "| all | 3 |" in said
    assert read_results(file, Outcome) == [broken]


class Course:
    """Judge of a straight drive of the ART vehicle."""

    def __init__(self, *failures: str) -> None:
        profile = load_profile("art")
        self.judge = TruthJudge(
            profile, course_of(profile, "straight_20m"), [parse_failure(text) for text in failures]
        )
        self.judge.supervisor = Supervisor()
        self.now_ns = START_NS
        for action in (OperatorAction.ARM, OperatorAction.DRIVE):
            self.judge.record(OperatorCommand(START_NS, START_NS, action, "the test"), START_NS)

    def go(
        self,
        mode: Mode,
        seconds: float,
        *,
        x_m: float = 1.0,
        y_m: float = 0.0,
        speed_mps: float = 0.0,
    ) -> "Course":
        """Stay in a mode at a place."""
        for _ in range(max(round(10 * seconds), 1)):
            self.now_ns += SECOND_NS // 10
            self.judge.record(
                GroundTruth(self.now_ns, self.now_ns, x_m, y_m, 0.0, speed_mps, 0.0, 0.0),
                self.now_ns,
            )
            brake = 0.0 if mode is Mode.AUTO else 1.0
            self.judge.record(
                ActuatorCommand(
                    self.now_ns, self.now_ns, 0.0, brake, 0.0, 0.0, mode, Reaction.NONE
                ),
                self.now_ns,
            )
        return self

    @property
    def said(self) -> str:
        """Return the broken rules."""
        return "; ".join(self.judge.broken)


def test_it_notices_an_obedient_vehicle_outside_its_corridor() -> None:
    begun = Course("gnss:wrong@0.1").go(Mode.ARMED, 0.1).go(Mode.AUTO, 0.2, speed_mps=1.0)
    assert "corridor" not in begun.said
    assert "left its corridor" in begun.go(Mode.AUTO, 0.2, y_m=2.5, speed_mps=1.0).said


def test_a_vehicle_that_does_not_obey_may_be_anywhere() -> None:
    pulled = Course("drive:pull=2@0.1").go(Mode.ARMED, 0.1).go(Mode.AUTO, 0.2, speed_mps=1.0)
    assert "corridor" not in pulled.go(Mode.AUTO, 0.2, y_m=2.5, speed_mps=1.0).said


def test_it_notices_a_standstill_that_is_none() -> None:
    drive = Course("imu:off@0.1").go(Mode.ARMED, 0.1).go(Mode.AUTO, 0.2, speed_mps=0.2)
    assert "is said to stand at 0.3 m/s" in drive.go(Mode.STANDBY, 0.3, speed_mps=0.3).said


def test_it_notices_a_vehicle_that_stands_in_auto() -> None:
    drive = Course("imu:off@0.1").go(Mode.ARMED, 0.1).go(Mode.AUTO, STANDS_S - 1.0)
    assert "stands in AUTO" not in drive.said
    assert "stands in AUTO" in drive.go(Mode.AUTO, 2.0).said


def test_a_vehicle_that_creeps_does_not_stand() -> None:
    drive = Course("imu:off@0.1").go(Mode.ARMED, 0.1)
    for k in range(round(STANDS_S) + 5):
        drive.go(Mode.AUTO, 1.0, x_m=1.0 + 0.04 * k, speed_mps=0.04)
    assert "stands in AUTO" not in drive.said


def test_it_notices_a_false_alarm_and_a_stop_without_a_misfortune() -> None:
    healthy, late = Course(), Course("imu:off@0.1+0.1").go(Mode.ARMED, 0.1)
    for drive in (healthy, late.go(Mode.AUTO, 14.0, speed_mps=1.0)):
        fault = Fault(
            drive.now_ns, "gnss_stuck", "", Reaction.CONTROLLED_STOP, True, "for a reason"
        )
        drive.judge.record(fault, drive.now_ns)
    assert "a false alarm: CONTROLLED_STOP gnss_stuck" in healthy.said
    assert "false alarm" not in late.said
    late.go(Mode.STOPPING, 0.1).judge.explain()
    assert "a stop without a misfortune" in late.said


def test_what_is_raised_is_a_broken_rule() -> None:
    drive = random_drive("nigel", 0)
    outcome = driven(replace(drive, estimator="no_such_estimator"))
    assert "raised" in outcome.broken[0]
    assert "no_such_estimator" in outcome.broken[0]
