"""Our logs and ROS bags as recordings, and what a folder of everything holds."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests import recordings_bench as bench
from vehicled.core import shipped
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    GroundTruth,
    Heading,
    HeadingKind,
    ImuSample,
    StateEstimate,
)
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import Attachment, RunHeader, TaskRow
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.runs import judge_run
from vehicled.offline.recordings import loading, mcap, rosbag, runner, scores
from vehicled.offline.recordings.errors import RecordingError
from vehicled.paths.datum import LOT_17

SPEED_MPS, RADIUS_M, LEVER_M = 1.5, 8.0, 0.25
START_NS = 2_000_000_000
COURSE = (
    f'{{"datum": {{"latitude_rad": {LOT_17.latitude_rad!r}, "longitude_rad": '
    f'{LOT_17.longitude_rad!r}, "height_m": {LOT_17.height_m!r}}}, "name": "circle"}}'
)


def pose(t_ns: int) -> tuple[float, float, float]:
    yaw = SPEED_MPS / RADIUS_M * (t_ns - START_NS) * 1e-9
    return RADIUS_M * math.sin(yaw), RADIUS_M * (1.0 - math.cos(yaw)), yaw


def write_log(
    folder: Path,
    *,
    truth: bool,
    course: str = COURSE,
    moving: bool = True,
    sigmas: Sequence[float] = (0.0, 0.0, 0.0),
    stated: bool = True,
) -> Path:
    """A log of 12 s on a circle: RTK at 10 Hz with 60 ms latency, gyro and commands at 50 Hz,
    estimates 0.1 m beside the truth."""
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=START_NS, profile="art", course="circle",
        tasks=[TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)],
    )  # fmt: skip
    profile = (shipped.folder("profiles") / "art.toml").read_bytes()
    attachments = [
        Attachment("profile.toml", "application/toml", profile),
        Attachment("course.json", "application/json", course.encode()),
    ]  # fmt: skip
    writer = WriterProcess.start(header, folder=str(folder), blocking=True, attachments=attachments)
    covariance = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 16e-4) if stated else NAN9
    for n in range(1200):
        t_ns = START_NS + 10_000_000 * n
        x, y, yaw = pose(t_ns if moving else START_NS)
        if n % 10 == 0:
            at = LOT_17.to_geodetic(x + LEVER_M * math.cos(yaw), y + LEVER_M * math.sin(yaw), 0.0)
            fix = GnssFix(
                t_ns, t_ns + 60_000_000, *at, position_covariance_m2=covariance,
                fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED, differential=True,
            )  # fmt: skip
            writer.sink.record(fix, t_ns + 60_000_000)
            writer.sink.record(
                Heading(t_ns, t_ns + 60_000_000, yaw, 0.01, HeadingKind.MOVING_BASE),
                t_ns + 60_000_000,
            )
        if n % 2 == 0:
            rate = SPEED_MPS / RADIUS_M
            writer.sink.record(ImuSample(t_ns, t_ns, (0.0, 0.0, 9.81), (0.0, 0.0, rate)), t_ns)
            writer.sink.record(
                ActuatorCommand(t_ns, t_ns, 0.5, 0.0, 0.1, math.atan(0.5 / RADIUS_M)), t_ns
            )
        estimate = StateEstimate(
            t_ns, t_ns, x + 0.1, y, yaw, SPEED_MPS, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING
        )
        writer.sink.record(estimate, t_ns)
        if truth:
            true = GroundTruth(
                t_ns,
                t_ns,
                x,
                y,
                math.remainder(yaw, math.tau),
                SPEED_MPS,
                0.0,
                0.0,
                math.nan,
                *sigmas,
            )
            writer.sink.record(true, t_ns)
        writer.pump(t_ns)
    assert writer.close({"reason": "done"}, 10**11).finished
    (file,) = folder.glob("*.mcap")
    return file


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("simulated"), truth=True)


@pytest.fixture(scope="module")
def road_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("road"), truth=False)


def test_a_log_is_a_recording_with_the_simulators_truth(log_file: Path) -> None:
    recording = mcap.load(log_file)
    assert recording.kind == "log"
    assert recording.lever_arm_m == (0.25, 0.0, 0.30)
    assert set(np.diff(recording.steps_ns)) == {20_000_000}
    expected = np.array([pose(t_ns) for t_ns in recording.steps_ns])
    assert np.abs(recording.truth.x_m - expected[:, 0]).max() < 1e-6
    assert np.abs(recording.truth.yaw_rad - expected[:, 2]).max() < 1e-6, (
        "turned on past pi, not wrapped"
    )
    assert {type(m).__name__ for m in recording.inputs} == {
        "GnssFix",
        "Heading",
        "ImuSample",
        "ActuatorCommand",
    }
    assert recording.raw_x_m[3] == pytest.approx(0.25, abs=1e-6), (
        "the first fix, once it has arrived"
    )
    assert np.isnan(recording.raw_x_m[2])


def test_what_a_reference_claims_goes_with_the_recording(log_file: Path, tmp_path: Path) -> None:
    assert mcap.load(log_file).truth_sigma == (0.0, 0.0, 0.0)
    recording = mcap.load(write_log(tmp_path, truth=True, sigmas=(0.1, math.nan, 0.3)))
    assert recording.truth_sigma == (0.1, math.inf, 0.3)
    found = judge_run(recording, make_judge("ekf4"))
    assert found.truth_sigmas == {
        "E": 0.3,
        "position": pytest.approx(0.1 * math.sqrt(2.0)),
        "heading": math.inf,
    }


def test_an_estimator_runs_anew_over_a_log(log_file: Path) -> None:
    recording = mcap.load(log_file)
    track = runner.run(recording, runner.make_estimator("ekf4", (), recording))
    found = scores.score(recording, track, "ekf4")
    assert found.published.position_m is not None
    assert found.published.position_m.mean == pytest.approx(0.1, abs=1e-6)
    assert found.estimate.position_m is not None
    assert found.estimate.position_m.mean < 0.05
    assert found.raw.position_m is not None
    assert found.raw.position_m.mean > 0.08, "lever arm and latency"


def test_without_a_simulator_rtk_is_the_truth_brought_to_the_axle(road_file: Path) -> None:
    recording = mcap.load(road_file)
    expected = np.array([pose(t_ns) for t_ns in recording.steps_ns])
    known = np.isfinite(recording.truth.x_m)
    assert known.mean() > 0.85
    off = np.hypot(recording.truth.x_m - expected[:, 0], recording.truth.y_m - expected[:, 1])
    # The course of the antenna is that of the axle turned by lever over radius.
    assert np.nanmax(off) < 0.02
    assert np.nanmax(np.abs(recording.truth.speed_mps - SPEED_MPS)) < 0.02


def test_a_log_without_fixes_or_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"course\.json says no datum"):
        mcap.load(write_log(tmp_path / "a", truth=True, course="{}"))


# --------------------------------------------------------------------------------------------- bags


def test_a_log_read_as_a_ros_bag_is_the_same_drive(log_file: Path) -> None:
    pytest.importorskip("rosbags")
    ours, bag = mcap.load(log_file), rosbag.load(log_file)
    assert bag.kind == "rosbag"
    fixes = [m for m in bag.inputs if isinstance(m, GnssFix)]
    assert [m.latitude_rad for m in fixes] == pytest.approx(
        [m.latitude_rad for m in ours.inputs if isinstance(m, GnssFix)], abs=1e-12
    )
    assert {m.carrier for m in fixes} == {CarrierSolution.FIXED}
    assert fixes[0].t_rx_ns - fixes[0].t_ns == 60_000_000
    assert sum(isinstance(m, ImuSample) for m in bag.inputs) == 600
    commands = [m for m in bag.inputs if isinstance(m, ActuatorCommand)]
    assert len(commands) == 600
    assert commands[0].wheel_angle_rad == pytest.approx(math.atan(0.5 / RADIUS_M), abs=1e-6)
    # What was published is laid onto the truth as a whole: its 0.1 m were constant.
    off = np.hypot(bag.published.x_m - bag.truth.x_m, bag.published.y_m - bag.truth.y_m)
    assert np.nanmax(off) < 0.05


def test_velocities_of_another_frame_are_no_wheel_speeds() -> None:
    class Vector:
        def __init__(self, x: float, y: float) -> None:
            self.x, self.y = x, y

    class Stamped:
        def __init__(self, x: float, y: float) -> None:
            class Stamp:
                sec, nanosec = 5, 0

            self.header = type("Header", (), {"stamp": Stamp})
            self.twist = type("Twist", (), {"linear": Vector(x, y)})

    (forward,) = rosbag._speed(Stamped(1.2, 0.0), 6_000_000_000)
    assert (forward.t_ns, forward.speed_mps) == (5_000_000_000, 1.2)  # type: ignore[attr-defined]
    assert list(rosbag._speed(Stamped(0.7, 0.7), 6_000_000_000)) == []


def test_without_the_library_a_bag_says_what_to_install(
    log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == "rosbags" or name.startswith("rosbags.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rosbags", None)
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(RecordingError, match=r'pip install "vehicled\[ros\]"'):
        rosbag.load(log_file)


def test_what_is_no_bag_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V2.0\n" + bytes(100))
    with pytest.raises(RecordingError, match=r"x\.bag: cannot be read as a ROS bag"):
        rosbag.load(tmp_path / "x.bag")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "metadata.yaml").write_text("rosbag2_bagfile_information: {}\n")
    with pytest.raises(RecordingError, match="cannot be read as a ROS bag"):
        rosbag.load(tmp_path / "folder")


# ------------------------------------------------------------------------------------------ folders


def test_a_folder_is_searched_for_all_formats(tmp_path: Path, log_file: Path) -> None:
    bench.mocap(tmp_path / "csv" / "run.csv")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "drive.mcap").symlink_to(log_file)
    (tmp_path / "logs" / "drive_part2.mcap").symlink_to(log_file)
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text("x\n")
    (tmp_path / "bag" / "data_0.mcap").symlink_to(log_file)
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "csv" / "back").symlink_to(tmp_path)
    found = {source.name: source.kinds for source in loading.sources(tmp_path)}
    assert found == {"bag": ("rosbag",), "csv/run": ("mocap",), "logs/drive": ("log",)}
    assert [source.name for source in loading.sources(tmp_path / "logs" / "drive.mcap")] == [
        "drive"
    ]


def test_folders_without_recordings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="holds no recording"):
        loading.sources(tmp_path)
    with pytest.raises(RecordingError, match="no such file or folder"):
        loading.sources(tmp_path / "nowhere")
    (tmp_path / "a.csv").write_text("x,y\n0,0\n")
    with pytest.raises(RecordingError, match="columns of no recording"):
        loading.sources(tmp_path / "a.csv")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(RecordingError):
        loading.sources(tmp_path / "a.txt")
    with pytest.raises(RecordingError, match=r"unknown kind 'moon': there are mocap, rtk"):
        loading.known_kinds(["moon"])


def test_a_fix_that_says_nothing_of_its_error_has_no_covariance(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    fix = next(
        m
        for m in rosbag.load(write_log(tmp_path, truth=True, stated=False)).inputs
        if isinstance(m, GnssFix)
    )
    assert all(math.isnan(value) for value in fix.position_covariance_m2)
