"""Recorded runs with a simulated sensor: what changes, what stays, and what is refused."""

from dataclasses import replace
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests import recordings_bench as bench
from vehicled.cli import main
from vehicled.core.messages import GnssFix, Heading, ImuSample
from vehicled.offline.recordings import mcap
from vehicled.offline.recordings.recording import Recording, arrival_ns
from vehicled.offline.sensors.simulate import TYPES, motion_of, simulated, write
from vehicled.profile import Profile, load_profile
from vehicled.profile.loading import load


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return a drive with plain fixes, a heading and a yaw rate, and RTK as the truth."""
    return bench.load(bench.outdoor(tmp_path_factory.mktemp("drive") / "run.csv"), ("plain",))[0]


def profile(*overrides: str) -> Profile:
    return load_profile("art", list(overrides))


def off_m(recording: Recording, messages: list[Any]) -> np.ndarray:
    """Return east and north of fixes (n, 2) against the truth."""
    fixes = [m for m in messages if isinstance(m, GnssFix)]
    places = np.array(
        [recording.datum.to_enu(m.latitude_rad, m.longitude_rad, m.height_m)[:2] for m in fixes]
    )
    motion = motion_of(recording)
    true = [motion(m.t_ns) for m in fixes]
    off: np.ndarray = places - np.array([(m.x_m, m.y_m) for m in true if m is not None])
    return off


def test_only_the_chosen_sensor_changes(recording: Recording) -> None:
    found = simulated(recording, profile("sim.gnss.model=gauss"), ["gnss"], 1)
    for kind in (Heading, ImuSample):
        before, after = (
            [str(m) for m in inputs if isinstance(m, kind)] for inputs in (recording.inputs, found)
        )
        assert before == after
    stamps, again = (
        [(m.t_ns, m.t_rx_ns) for m in inputs if isinstance(m, GnssFix)]
        for inputs in (recording.inputs, found)
    )
    assert len(again) > 0.9 * len(stamps)
    assert set(again) <= set(stamps)
    assert [arrival_ns(m) for m in found] == sorted(arrival_ns(m) for m in found)


@pytest.mark.parametrize(
    ("model", "sigma", "seeds"), [("gauss", 0.03, 4), ("recorded", 1.4, 20), ("airsim", 0.0, 2)]
)
def test_the_fixes_have_the_error_of_the_model(
    recording: Recording, model: str, sigma: float, seeds: int
) -> None:
    rows = [
        off_m(recording, simulated(recording, profile(f"sim.gnss.model={model}"), ["gnss"], seed))
        for seed in range(seeds)
    ]
    assert np.concatenate(rows).std() == pytest.approx(sigma, rel=0.2, abs=1e-4)
    assert not np.array_equal(rows[0], rows[1]) or sigma == 0.0


def test_the_same_seed_gives_the_same_run(recording: Recording) -> None:
    first, second = (
        simulated(recording, profile("sim.gnss.model=recorded"), list(TYPES), 3) for _ in range(2)
    )
    assert [str(m) for m in first] == [str(m) for m in second]


def test_the_first_fix_can_be_without_error(recording: Recording) -> None:
    found = off_m(
        recording,
        simulated(recording, profile("sim.gnss.model=recorded"), ["gnss"], 1, from_first_fix=True),
    )
    assert np.abs(found[0]).max() < 0.01
    assert np.abs(found).max() > 0.1


def test_what_the_recorded_message_leaves_open_stays_open(recording: Recording) -> None:
    found = simulated(recording, profile(), ["gnss", "imu"], 1)
    fix = next(m for m in found if isinstance(m, GnssFix))
    sample = next(m for m in found if isinstance(m, ImuSample))
    assert all(map(isnan, fix.velocity_enu_mps))
    assert all(map(isnan, sample.specific_force_mps2))
    assert not isnan(sample.angular_rate_radps[2])


def test_a_simulated_unit_turns_with_the_truth(recording: Recording) -> None:
    quiet = [f"sim.imu.gyro_{name}=0" for name in ("density", "bias_radps", "bias_walk")]
    found = [
        m for m in simulated(recording, profile(*quiet), ["imu"], 1) if isinstance(m, ImuSample)
    ]
    turned = np.trapezoid(
        [m.angular_rate_radps[2] for m in found], np.array([m.t_ns for m in found]) * 1e-9
    )
    motion = motion_of(recording)
    first, last = motion(found[0].t_ns), motion(found[-1].t_ns)
    assert first is not None
    assert last is not None
    assert turned == pytest.approx(last.yaw_rad - first.yaw_rad, abs=0.03)


def test_the_command_writes_logs_that_the_gap_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drives, out = tmp_path / "drives", tmp_path / "sim"
    bench.outdoor(drives / "lap" / "run.csv")
    words = ["sensors", "simulate", str(drives), "--sensor", "gnss", "--runs", "4", "-o", str(out)]
    assert main([*words, "--set", "sim.gnss.model=recorded"]) == 0
    assert f"vehicled gap --real {drives} --kind plain --sim {out}" in capsys.readouterr().out
    logs = sorted(out.iterdir())
    assert [log.name for log in logs] == ["lap"]
    logs = sorted(logs[0].iterdir())
    assert [log.name for log in logs] == [f"run_plain_{seed}.mcap" for seed in (1, 2, 3, 4)]
    read = mcap.load(logs[0])
    original = bench.load(drives / "lap" / "run.csv", ("plain",))[0]
    known = np.isfinite(original.truth.speed_mps)
    assert np.isfinite(read.truth.speed_mps).sum() > known.sum()
    ends = slice(None, None, max(1, known.sum() // 7))
    again = np.interp(original.truth.t_ns[known][ends], read.truth.t_ns, read.truth.x_m)
    assert again == pytest.approx(original.truth.x_m[known][ends], abs=0.05)
    gap = ["gap", "--real", str(drives), "--sim", str(out), "--kind", "plain", "--jobs", "1"]
    assert main(gap) in (0, 1, 2)
    text = capsys.readouterr().out
    assert "simulated against 1 real runs" in text
    assert "no manoeuvre is named alike" not in text
    assert main(words) == 2
    assert "not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("course", ["circle", ""])
def test_the_course_of_a_run_stays_known(tmp_path: Path, recording: Recording, course: str) -> None:
    """``vehicled gap`` sorts runs by it."""
    path = tmp_path / "run.mcap"
    write(path, [*recording.inputs], replace(recording, course=course), load("art"), ["gnss"], 1)
    assert mcap.load(path).course == course


def test_outages_of_the_recording_are_not_doubled(recording: Recording) -> None:
    settings = ("sim.gnss.model=recorded", "sim.gnss.recorded.outages_per_hour=3000")
    fixes = [
        m for m in simulated(recording, profile(*settings), ["gnss"], 1) if isinstance(m, GnssFix)
    ]
    assert not any(isnan(m.latitude_rad) for m in fixes)


def test_a_receiver_without_velocity_sends_none(recording: Recording) -> None:
    inputs = [
        msgspec.structs.replace(m, velocity_enu_mps=(1.0, 0.0, 0.0))
        if isinstance(m, GnssFix)
        else m
        for m in recording.inputs
    ]
    for velocity in (True, False):
        found = simulated(
            replace(recording, inputs=inputs), profile(), ["gnss"], 1, velocity=velocity
        )
        known = {isfinite(m.velocity_enu_mps[0]) for m in found if isinstance(m, GnssFix)}
        assert known == {velocity}


def test_nothing_is_left_behind_where_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outdoor(tmp_path / "run.csv")
    words = ["sensors", "simulate", str(tmp_path / "run.csv"), "--sensor", "gnss", "-o"]
    assert main([*words, str(tmp_path / "out"), "--kind", "mocap"]) == 2
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert main([*words, str(tmp_path / "run.csv")]) == 2
    assert "choose another folder" in capsys.readouterr().err


def test_what_cannot_be_simulated_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outdoor(tmp_path / "run.csv", gyro=False)
    base = ["sensors", "simulate", str(tmp_path / "run.csv"), "-o", str(tmp_path / "out")]
    assert main([*base, "--sensor", "imu"]) == 2
    assert "holds no ImuSample" in capsys.readouterr().err
    assert main([*base, "--sensor", "gnss", "--set", "sim.gnss.model=gaus"]) == 2
    assert "gaus" in capsys.readouterr().err
    assert main([*base, "--sensor", "gnss", "--kind", "mocap"]) == 2
    assert "no recording of the kinds mocap" in capsys.readouterr().err
