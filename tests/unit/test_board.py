"""Board verdict: measured truly, judged by the rule, and shown to the operator before arming."""

import hashlib
import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.cli import main
from vehicled.profile import Loaded, load
from vehicled.runtime.board import facts, measure, setup_fault
from vehicled.runtime.board.claim import BoardCalibration, claim, judge
from vehicled.runtime.board.measure import BoardMeasurements, Lateness, TimeSpread

GOOD = BoardCalibration(
    board="b1",
    fifo=False,
    lateness_p99_ns=60_000,
    lateness_max_ns=500_000,
    round_trip_p99_ns=100_000,
    disk_max_ns=10**8,
)
MS = 1_000_000


def changed(**values: object) -> BoardCalibration:
    return msgspec.structs.replace(GOOD, **values)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A board of the name b1 with settings of its own."""
    monkeypatch.setattr(facts, "identity", lambda: "b1")
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", str(tmp_path / "settings"))
    (tmp_path / "settings").mkdir()
    return tmp_path / "settings"


def store(folder: Path, found: BoardCalibration) -> None:
    (folder / setup_fault.CALIBRATION).write_bytes(msgspec.json.encode(found))


# ---------------------------------------------------------------- measuring


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_percentiles_are_values_that_occurred(values: list[int]) -> None:
    spread = TimeSpread.of(values)
    assert spread.n == len(values)
    assert spread.max_ns == max(values)
    for share, found in ((0.5, spread.p50_ns), (0.99, spread.p99_ns)):
        assert found in values
        assert sum(value <= found for value in values) >= share * len(values)
        assert sum(value < found for value in values) < share * len(values) or found == min(values)


def test_lateness_is_that_of_the_loops_own_timer() -> None:
    begin_ns = time.monotonic_ns()
    rows = measure.lateness(0.16, fifo=False)
    assert time.monotonic_ns() - begin_ns > 0.12e9
    assert [(row.rate_hz, row.fifo) for row in rows] == [(200, False), (400, False)]
    assert [row.spread.n for row in rows] == [16, 32]
    assert all(0 <= row.spread.p50_ns <= row.spread.p99_ns <= row.spread.max_ns for row in rows)


def test_real_time_priority_ends_with_the_measurement() -> None:
    if not facts.may_use_fifo():
        pytest.skip("no real-time priority for this user")
    before = os.sched_getscheduler(0)
    assert all(row.fifo for row in measure.lateness(0.04, fifo=True))
    assert os.sched_getscheduler(0) == before


def test_what_was_sent_comes_back_through_the_pair() -> None:
    spread = measure.serial_round_trip(20)
    assert spread.n == 20
    assert 0 < spread.p50_ns <= spread.max_ns


def test_a_disk_that_stalls_is_seen_and_leaves_no_file(tmp_path: Path) -> None:
    calls = iter([0.06, *[0.0] * 100_000])
    spread = measure.disk_stall(tmp_path, 0.1, fsync=lambda fd: time.sleep(next(calls)))
    assert spread.max_ns >= 60 * MS
    assert list(tmp_path.iterdir()) == []


def test_values_that_cannot_be_measured_are_reported(tmp_path: Path) -> None:
    found = measure.measure(tmp_path / "none", 0.02, fifo=False)
    assert found.disk is None
    assert "(No such file or directory)" in found.troubles[0]
    assert found.worst(fifo=True) is None
    assert found.worst(fifo=False) is not None


# ---------------------------------------------------------------- the rule


def test_the_claim_is_by_the_worst_rate_at_the_best_priority() -> None:
    rows = [
        Lateness(200, False, TimeSpread(9, 1, 9 * MS, 20 * MS)),
        Lateness(200, True, TimeSpread(9, 1, 1 * MS, 3 * MS)),
        Lateness(400, True, TimeSpread(9, 1, 2 * MS, 2 * MS)),
    ]
    found = claim(
        BoardMeasurements(lateness=rows, round_trip=TimeSpread(9, 1, 4 * MS, 5 * MS)), board="b1"
    )
    assert found is not None
    assert (found.fifo, found.lateness_p99_ns, found.lateness_max_ns) == (True, 2 * MS, 3 * MS)
    assert (found.task_hz, found.serial_hz) == (125, 125)
    assert claim(BoardMeasurements(lateness=[]), board="b1") is None
    assert GOOD.task_hz == 1000


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        (GOOD, []),
        # art: ingestion 400 Hz and 2.5 ms, fusion 200 Hz and 4 ms, control and actuation 100 Hz, 6
        # and 8 ms.
        (changed(lateness_p99_ns=625_000), []),
        (changed(lateness_p99_ns=626_000), ["tasks.ingestion.rate_hz"]),
        (
            changed(lateness_p99_ns=1_100_000),
            ["tasks.ingestion.rate_hz", "tasks.fusion.deadline_ms"],
        ),
        (changed(lateness_max_ns=12 * MS), []),
        (changed(lateness_max_ns=13 * MS), ["limits.estimate_silence_s"]),
        # The IMU: 400 Hz on a serial port. CAN and the network have no such line.
        (changed(round_trip_p99_ns=1_300_000), ["devices.imu.rate_hz"]),
        (changed(disk_max_ns=3 * 10**9), ["log.folder"]),
        (changed(disk_max_ns=0, round_trip_p99_ns=0), []),
    ],
)
def test_the_rule(found: BoardCalibration, keys: list[str]) -> None:
    shortfalls = judge(load("art_vesc").profile, found)
    assert [each.what for each in shortfalls] == keys
    assert all(each.cure and "the profile needs" in str(each) for each in shortfalls)
    assert [each.refuses for each in shortfalls] == [key != "log.folder" for key in keys]


@given(st.integers(0, 50 * MS), st.integers(0, 50 * MS))
def test_a_later_board_never_keeps_more(p99_ns: int, worse_ns: int) -> None:
    profile = load("art").profile
    better, worse = changed(lateness_p99_ns=p99_ns), changed(lateness_p99_ns=p99_ns + worse_ns)
    assert {each.what.split(".")[1] for each in judge(profile, better)} <= {
        each.what.split(".")[1] for each in judge(profile, worse)
    }


# ---------------------------------------------------------------- before arming


def installed(folder: Path) -> Loaded:
    profile = folder / "art.toml"
    profile.write_bytes(Path(load("art").path).read_bytes())
    digest = hashlib.sha256(profile.read_bytes()).hexdigest()
    setup_fault.hash_file(profile).write_text(f"{digest}  art.toml\n")
    return load(str(profile))


def test_a_profile_that_changed_since_it_was_checked_is_refused(board: Path) -> None:
    assert setup_fault.setup_fault(installed(board)) == ""
    profile = board / "art.toml"
    profile.write_text(profile.read_text() + "\n# mended at night\n")
    fault = setup_fault.setup_fault(load(str(profile)))
    assert fault == (
        f"{profile} has changed since it was checked: sudo vehicled service install --profile "
        f"{profile}, then restart"
    )
    setup_fault.hash_file(profile).unlink()
    assert setup_fault.setup_fault(load(str(profile))) == "", (
        "nobody has checked it, nobody has vouched for it"
    )


def test_a_profile_or_a_calibration_of_another_board_is_refused(board: Path) -> None:
    assert setup_fault.setup_fault(load("art", ["host.board=b1"])) == ""
    assert "the profile is for board b2, this is b1" in setup_fault.setup_fault(
        load("art", ["host.board=b2"])
    )
    store(board, changed(board="b2"))
    assert (
        "is for board b2, this is b1; measure this board: sudo vehicled doctor --save"
        in setup_fault.setup_fault(load("art"))
    )
    (board / setup_fault.CALIBRATION).write_text("{]")
    assert "is not a valid calibration" in setup_fault.setup_fault(load("art"))


def test_more_than_the_board_keeps_is_refused_unless_the_profile_accepts_it(board: Path) -> None:
    assert setup_fault.setup_fault(load("art")) == "", (
        "nothing is known of a board that was not measured"
    )
    store(board, GOOD)
    assert setup_fault.setup_fault(load("art")) == ""
    store(board, changed(lateness_p99_ns=3 * MS, lateness_max_ns=40 * MS))
    fault = setup_fault.setup_fault(load("art"))
    assert (
        "tasks.ingestion.rate_hz: the profile needs 400 Hz, this board has wake-up lateness "
        "3.00 ms (99 %), enough for 83 Hz"
    ) in fault
    assert "3 more" in fault
    assert "host.allow_shortfall = true" in fault
    assert setup_fault.setup_fault(load("art", ["host.allow_shortfall=true"])) == ""
    # A slow disk is reported by the doctor; the log's writer copes.
    store(board, changed(disk_max_ns=5 * 10**9))
    assert setup_fault.setup_fault(load("art")) == ""


def test_rates_measured_at_a_priority_that_this_process_lacks_do_not_count(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(board, changed(fifo=True))
    for may, fault in (
        (True, ""),
        (False, "measured at real-time priority, which this process is not permitted to use"),
    ):
        monkeypatch.setattr(facts, "may_use_fifo", lambda may=may: may)
        assert fault in setup_fault.setup_fault(load("art"))
        assert bool(setup_fault.setup_fault(load("art"))) is not may


# ---------------------------------------------------------------- the command


def test_every_point_of_the_board_has_a_cure_where_it_falls_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "may_use_fifo", lambda: False)
    rows = {row.what: row for row in facts.state(tmp_path / "not/there/yet")}
    assert set(rows) >= {
        "Python",
        "kernel",
        "preemption",
        "CPU governor",
        "clock source",
        "RT priority",
        "locked memory",
        "swap",
    }
    assert set(rows) >= {"temperature", "throttling", "disk of the log"}
    assert "rtprio 40" in rows["RT priority"].cure
    assert all(row.got for row in rows.values())


@pytest.mark.parametrize(
    ("register", "since"), [("0x0", "never"), ("0x50005", "now"), ("0x50000", "since power-on")]
)
def test_a_raspberry_reports_its_power_supply(
    register: str, since: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "get_throttled"
    file.write_text(f"{register}\n")
    monkeypatch.setattr(facts, "_THROTTLED", file)
    row = next(row for row in facts.state(tmp_path) if row.what == "throttling")
    assert row.got.startswith(since)
    assert ("power supply" in row.cure) is (register != "0x0")


def test_the_report_is_complete_and_holds_no_secrets(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VEHICLED_OPTIONS", "hunter2")
    profile = tmp_path / "mine.toml"
    ntrip = (
        '[devices.corrections]\nport = "tcp:caster.example:2101"\nmessages = ["Corrections"]\n'
        'driver = { name = "ntrip", ntrip = { mountpoint = "NEAR", user = "hunter2", '
        'password_file = "hunter2" } }\n\n'
    )
    profile.write_text(
        Path(load("art").path)
        .read_text()
        .replace("[devices.operator]", f"{ntrip}[devices.operator]")
    )
    file = tmp_path / "report.txt"
    words = [
        "doctor",
        "--profile",
        str(profile),
        "--seconds",
        "0.04",
        "--report",
        str(file),
        "--json",
        "--save",
    ]
    assert main(words) in (0, 1), "a busy machine may well fall short"
    report = json.loads(capsys.readouterr().out)
    assert report["claim"]["lateness_p99_ns"] > 0
    assert report["profile_digest"] == load(str(profile)).digest
    assert {row["what"] for row in report["state"]} >= {"preemption", "swap"}
    text = file.read_text()
    assert "wake-up lateness, 400 Hz" in text
    assert "sustains: tasks up to" in text
    assert "hunter2" not in text + json.dumps(report)
    assert setup_fault.read_calibration(board / setup_fault.CALIBRATION) == msgspec.convert(
        report["claim"], BoardCalibration
    )


@pytest.mark.parametrize(("accepts", "status"), [("false", 1), ("true", 0)])
def test_the_status_says_whether_the_board_keeps_the_profile(
    accepts: str,
    status: int,
    board: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = BoardMeasurements(lateness=[Lateness(400, False, TimeSpread(9, MS, 3 * MS, 40 * MS))])
    monkeypatch.setattr("vehicled.cli.doctor.measure", lambda place, seconds, fifo: slow)
    profile = tmp_path / "mine.toml"
    text = Path(load("art").path).read_text()
    assert "allow_shortfall = false" in text
    profile.write_text(text.replace("allow_shortfall = false", f"allow_shortfall = {accepts}"))
    assert main(["doctor", "--profile", str(profile)]) == status
    said = capsys.readouterr().out
    assert "NO tasks.ingestion.rate_hz: the profile needs 400 Hz" in said
    assert "needs more than this board sustains" in said


def test_nothing_can_be_saved_that_was_not_measured(
    board: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--save", "--seconds", "0"]) == 2
    assert "--save needs a measurement" in capsys.readouterr().err
