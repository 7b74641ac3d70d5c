"""Learning through real drives: what a policy saw is what a data set holds, and the commands lead
from drives to a policy."""

from pathlib import Path

import numpy as np
import pytest

import vehicled as v
from tests.grid import sampled
from tests.policy_bench import layers, write_policy
from vehicled.cli import main
from vehicled.control.policy.features import FeatureVector
from vehicled.control.policy.network import read_network
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    Mode,
    ModeChange,
    Reaction,
    StateEstimate,
)
from vehicled.offline.learning.dataset import Meaning, load, read_drives
from vehicled.offline.learning.exploring import REFERENCE
from vehicled.offline.learning.recorder import StepRecorder
from vehicled.paths.catalog import load_course

for module in ("onnx", "onnxruntime", "sklearn", "pyarrow"):
    pytest.importorskip(module)

pytestmark = pytest.mark.xdist_group("learning")  # the drive of the policy is driven once

FEATURES = ["reference_ahead_m", "reference_left_m", "reference_heading_rad", "reference_speed_mps",
    "yaw_rate_radps",
            "course_left_m[1.0]", "curvature_per_m[1.0]", "previous_throttle", "previous_steering",
            "target_speed_mps"]  # fmt: skip


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that drives: the linear law, with small weights on everything else."""
    network = layers(len(FEATURES), 2)[0]
    weights = 0.02 * network.weights
    weights[:4] = np.array([[0.37, 0.02], [0.005, 0.73], [0.15, 0.78], [1.02, -0.01]])
    made = network._replace(weights=weights, bias=0.0 * network.bias)
    return write_policy(
        tmp_path_factory.mktemp("policy") / "policy.onnx", [made], features=FEATURES, predicts=True
    )


@pytest.fixture(scope="module")
def run(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> v.Run:
    return v.simulate(
        "art",
        "circle_r5_ccw",
        controller=str(policy),
        duration_s=5.0,
        log=tmp_path_factory.mktemp("logs"),
    )


def test_a_data_set_holds_the_very_features_that_the_policy_saw(run: v.Run, policy: Path) -> None:
    data, notes = read_drives([run.path], Meaning(features=FEATURES, period_s=0.0))
    assert not notes
    assert data.meaning.drives[0].driver == "policy.onnx"
    network = read_network(policy)
    computed = np.array([network.run(row[None].astype(np.float32))[0] for row in data.features])
    assert len(computed) > 200
    wanted = np.column_stack([data.commands["throttle"], data.commands["steering"]])
    # All but the steps in which the base class held the start or slewed the wheels.
    same = np.abs(np.clip(computed, [0.0, -1.0], 1.0) - wanted).max(axis=1) < 1e-6
    assert same.mean() > 0.8


def test_a_replay_repeats_the_policy_and_refuses_another_file(run: v.Run, policy: Path) -> None:
    assert v.replay(run.path).ok
    before = policy.read_bytes()
    policy.write_bytes(before + b"\n")
    try:
        with pytest.raises(Exception, match="has been changed since"):
            v.replay(run.path)
        assert v.replay(run.path, code="log").ok
    finally:
        policy.write_bytes(before)
    row = run.header.plugins[0]
    assert (row.kind, Path(row.reference).name) == ("controller", "policy.onnx")
    assert len(row.hashes["policy.onnx"]) == 64


def test_of_a_disturbed_drive_the_data_hold_what_the_disturbed_controller_wanted(
    tmp_path: Path,
) -> None:
    overrides = {"controller.Exploring.controller": "pure_pursuit",
        "controller.Exploring.disturbance_rad": 0.2,
                 "controller.Exploring.pause_s": 1.0}  # fmt: skip
    run = v.simulate(
        "art",
        "straight_30m",
        controller=REFERENCE,
        overrides=overrides,
        duration_s=12.0,
        log=tmp_path,
    )
    data, _ = read_drives([run.path], Meaning())
    note = data.meaning.drives[0]
    assert (note.driver, note.expert) == ("pure_pursuit", "pure_pursuit")
    left_m, wheel = data.features[:, 1], data.commands["wheel_angle_rad"]
    # It left the line, and the rows say how to come back to it.
    assert np.abs(left_m).max() > 0.1
    away = np.abs(left_m) > 0.05
    assert np.corrcoef(left_m[away], wheel[away])[0, 1] > 0.3


def test_a_person_is_recorded_from_what_was_sent() -> None:
    course = load_course("straight_30m")
    profile = v.load_profile("art").profile
    vector = FeatureVector(["cross_track_m"])
    recorder = StepRecorder(profile, course, vector, period_s=0.1)
    # The person starts in the middle of the course.
    start = course.x_m[len(course.x_m) // 2]
    yaw, side_m = float(course.yaw_rad[0]), 0.3
    recorder.record(ModeChange(0, Mode.ARMED, Mode.TELEOP, Reaction.NONE, "", "", "", ""), 0)
    for step in range(400):
        t_ns = step * 10**7
        x = start + 0.01 * step
        place = (
            (x, course.y_m[0] + side_m) if abs(np.cos(yaw)) > 0.9 else (course.x_m[0] - side_m, x)
        )
        recorder.record(
            StateEstimate(t_ns, t_ns, *place, yaw, 1.0, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING),
            t_ns,
        )
        recorder.record(ControlCommand(t_ns, t_ns, 0.0, 0.0, 1.0), t_ns)
        recorder.record(
            ActuatorCommand(
                t_ns, t_ns, 0.4, 0.0, 0.25, 0.08, Mode.TELEOP if step < 300 else Mode.STOPPING
            ),
            t_ns,
        )
    assert recorder.by_hand
    assert 28 <= len(recorder.rows) <= 31  # ten a second, none of the stop
    assert all(row.throttle == 0.4 for row in recorder.rows)
    assert recorder.rows[5].wheel_angle_rad == pytest.approx(0.08)
    assert abs(recorder.rows[5].features[0]) == pytest.approx(side_m, abs=0.05)


@pytest.mark.parametrize(
    ("first", "second", "epochs", "drives"),
    sampled(
        [
            (
                "straight_run:length_m=2,run_up_m=1,run_out_m=1",
                "straight_run:length_m=1,run_up_m=1,run_out_m=1",
                10,
                False,
            ),
            ("circle_r2_ccw", "circle_r2_cw", 60, True),
        ],
        lambda case: not case[3],
    ),
)
def test_from_nothing_to_a_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, first: str,
    second: str, epochs: int, drives: bool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    courses = ["--course", first, "--course", second, "--disturb", "0.1"]
    assert (
        main(
            [
                "learn",
                "collect",
                "-o",
                "drives",
                *courses,
                "--controller",
                "pure_pursuit",
                "--jobs",
                "1",
            ]
        )
        == 0
    )
    assert main(["learn", "dataset", "drives", "-o", "data.parquet"]) == 0
    data = load(Path("data.parquet"))
    assert len({note.course for note in data.meaning.drives}) == 2
    dagger = [
        "--dagger",
        "1",
        "--disturb",
        "0.1",
        "--course",
        second,
        "--expert",
        "pure_pursuit",
        *([] if drives else ["--duration", "4"]),
    ]
    arguments = [
        "--epochs",
        str(epochs),
        "--validation",
        "0",
        *dagger,
        "--save-data",
        "all.parquet",
    ]
    assert (
        main(
            [
                "learn",
                "train",
                "data.parquet",
                "-o",
                "policy.onnx",
                *arguments,
                "--plot",
                "curve.png",
            ]
        )
        == 0
    )
    assert Path("curve.png").stat().st_size > 10_000
    assert len(load(Path("all.parquet"))) > len(data)
    assert "drive 1, " in capsys.readouterr().out
    metrics = v.simulate(
        "art_published", first, controller="./policy.onnx", duration_s=60.0 if drives else 3.0
    ).metrics
    assert metrics.driven_m > 0.1
    if drives:
        assert metrics.finished
        assert metrics.cross_track_m.mean < 0.25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "missing.parquet", "-o", "policy.onnx"], "no such file"),
        (["train", "missing.parquet", "-o", "policy.txt"], "must end in .onnx"),
        (["dataset", "nowhere", "-o", "data.parquet"], "no such file or folder"),
        (["dataset", ".", "-o", "data.parquet"], "holds no log"),
        (["dataset", ".", "-o", "data.parquet", "--features", "speed"], "unknown feature"),
        (["collect", "-o", "drives", "--course", "nowhere", "--jobs", "1"], "nowhere"),
        (["collect", "-o", "drives", "--set", "x", "--jobs", "1"], "--set x"),
    ],
)
def test_mistakes_are_reported(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["learn", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_network_without_description_is_refused_with_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(policy)
    model.ClearField("metadata_props")
    onnx.save(model, tmp_path / "bare.onnx")
    assert (
        main(
            [
                "sim",
                "--controller",
                str(tmp_path / "bare.onnx"),
                "--duration",
                "1",
                "--log",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "controller.policy.features" in capsys.readouterr().err


def test_a_policy_that_reads_scans_needs_a_scanner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_policy(tmp_path / "scan.onnx", layers(3, 2), features=["scan_m[3]"])
    drive = ["sim", "--controller", str(file), "--duration", "3", "--log", str(tmp_path), "--quiet"]
    assert main(drive) == 2
    assert "no device has the message LaserScan" in capsys.readouterr().err
    scanner = [
        "--set",
        "devices.scanner.driver=msglink",
        "--set",
        'devices.scanner.messages=["LaserScan"]',
    ]
    assert main([*drive, *scanner]) == 1  # ended by the time limit
    assert "no device" not in capsys.readouterr().err


def test_the_features_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "features"]) == 0
    said = capsys.readouterr().out
    assert "reference_left_m" in said
    assert "scan_m[N]" in said
