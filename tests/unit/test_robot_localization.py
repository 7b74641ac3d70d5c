"""The filter of robot_localization: its equations, its modes, its parameter file, and what the
judge feeds it."""

from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.transform import Rotation

from tests import recordings_bench as bench
from vehicled.core.messages import GnssFix, Heading, ImuSample, WheelSpeed
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.robot_localization.frames import (
    FramePose,
    Frames,
    of_angles,
    of_quaternion,
)
from vehicled.offline.gap.robot_localization.motion import (
    ATTITUDE,
    PITCH,
    RATES,
    ROLL,
    VELOCITY,
    YAW,
    transfer,
)
from vehicled.offline.gap.robot_localization.node import ImuMessage, Node, PoseMessage, TwistMessage
from vehicled.offline.gap.robot_localization.settings import NodeSettings, load, of
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import Recording

STATES = hnp.arrays(np.float64, 15, elements=st.floats(-1.4, 1.4))
NO_TURN = (0.0, 0.0, 0.0, 1.0)
SECOND = 1_000_000_000


def masks(*used: int) -> list[bool]:
    return [part in used for part in range(15)]


def settings(**more: Any) -> NodeSettings:
    table = {
        "frequency": 50.0,
        "pose0": "/gnss",
        "pose0_config": masks(0, 1),
        "odom0": "/wheel",
        "odom0_config": masks(6),
    }
    return of(table | more, "test")


def pose(
    t_s: float,
    x: float = 0.0,
    y: float = 0.0,
    yaw: float = 0.0,
    sigma: float = 0.1,
    frame: str = "",
) -> PoseMessage:
    turned = (0.0, 0.0, float(np.sin(yaw / 2)), float(np.cos(yaw / 2)))
    return PoseMessage(
        round(t_s * SECOND), np.array((x, y, 0.0)), turned, np.eye(6) * sigma**2, frame
    )


def twist(t_s: float, vx: float, sigma: float = 0.1, frame: str = "") -> TwistMessage:
    return TwistMessage(
        round(t_s * SECOND), np.array((vx, 0.0, 0.0, 0.0, 0.0, 0.0)), np.eye(6) * sigma**2, frame
    )


# -------------------------------------------------------------------- equations


def moved(x: np.ndarray, dt: float) -> np.ndarray:
    """Return the next state by the published equations, with rotations of scipy."""
    turn = Rotation.from_euler("ZYX", [x[5], x[4], x[3]])
    roll, pitch = x[3], x[4]
    rates = np.array(
        (
            (1.0, np.sin(roll) * np.tan(pitch), np.cos(roll) * np.tan(pitch)),
            (0.0, np.cos(roll), -np.sin(roll)),
            (0.0, np.sin(roll) / np.cos(pitch), np.cos(roll) / np.cos(pitch)),
        )
    )
    v, w, a = x[6:9], x[9:12], x[12:15]
    return np.concatenate(
        [x[:3] + turn.apply(v * dt + a * dt**2 / 2), x[3:6] + rates @ w * dt, v + a * dt, w, a]
    )


@given(STATES, st.floats(0.001, 0.5))
def test_the_prediction_is_the_published_one(x: np.ndarray, dt: float) -> None:
    matrix, _ = transfer(x, dt)
    assert matrix @ x == pytest.approx(moved(x, dt), abs=1e-12)


@given(STATES, st.floats(0.001, 0.5))
def test_the_jacobian_is_that_of_the_prediction_but_for_one_sign(x: np.ndarray, dt: float) -> None:
    _, jacobian = transfer(x, dt)
    step = 1e-6
    numerical = np.column_stack(
        [(moved(x + step * e, dt) - moved(x - step * e, dt)) / (2 * step) for e in np.eye(15)]
    )
    # The package subtracts the part of the yaw rate here, and so do we.
    part = np.cos(x[ROLL]) * np.sin(x[PITCH]) / np.cos(x[PITCH]) ** 2 * x[RATES][2] * dt
    numerical[YAW, PITCH] -= 2 * part
    assert jacobian == pytest.approx(numerical, abs=1e-6 * max(1.0, np.abs(numerical).max()))


@given(
    st.lists(
        st.tuples(st.sampled_from("pt"), st.floats(-5, 5), st.floats(0, 3), st.floats(0, 0.2)),
        min_size=1,
        max_size=40,
    )
)
def test_the_covariance_stays_symmetric_and_positive(
    events: list[tuple[str, float, float, float]],
) -> None:
    node = Node(settings(dynamic_process_noise_covariance=True))
    t = 1.0
    for kind, value, sigma, dt in events:
        t += dt
        if kind == "p":
            node.on_odometry("pose0", pose(t, value, -value, value, sigma), None)
        else:
            node.on_odometry("odom0", None, twist(t, value, sigma))
        node.step(round(t * SECOND))
        P = node.filter.P
        assert np.isfinite(node.filter.x).all()
        assert pytest.approx(P.T, rel=1e-6, abs=1e-12) == P
        assert np.linalg.eigvalsh((P + P.T) / 2).min() > -1e-9
        assert np.abs(node.filter.x[ATTITUDE]).max() <= pi


def test_one_correction_is_that_of_the_textbook() -> None:
    node = Node(settings(initial_estimate_covariance=[0.5] * 15))
    node.on_odometry("pose0", pose(0.0, 1.0, 2.0, sigma=2.0), None)
    node.step(0)
    assert node.filter.x[:2] == pytest.approx((1.0, 2.0))  # the first one sets the state
    before = np.diag(node.filter.P)[:2].copy()
    assert before == pytest.approx((4.0, 4.0))
    node.on_odometry("pose0", pose(0.0, 2.0, 2.0, sigma=1.0), None)
    node.step(0)
    assert node.filter.x[0] == pytest.approx(1.0 + 4.0 / 5.0)
    assert node.filter.P[0, 0] == pytest.approx(4.0 * 1.0 / 5.0)
    assert node.filter.nis == pytest.approx(1.0 / 5.0)


def test_a_measurement_beyond_the_threshold_is_rejected() -> None:
    node = Node(settings(pose0_pose_rejection_threshold=3.0))
    for t, x in ((0.0, 0.0), (0.02, 0.0), (0.04, 50.0)):
        node.on_odometry("pose0", pose(t, x), None)
        node.step(round(t * SECOND))
    assert node.filter.rejected == 1
    assert abs(node.filter.x[0]) < 0.1
    assert node.filter.nis > 9.0


def test_parts_that_are_no_number_are_left_out() -> None:
    node = Node(settings())
    node.on_odometry("pose0", pose(0.0, 1.0, np.nan), None)
    node.step(0)
    assert node.filter.x[:2].tolist() == [1.0, 0.0]
    node.on_odometry("pose0", pose(0.1, np.nan, 3.0), None)
    node.step(SECOND)
    assert np.isfinite(node.filter.x).all()
    assert node.filter.x[1] > 0.5


def test_two_d_mode_holds_what_is_not_in_the_plane_at_zero() -> None:
    node = Node(settings(two_d_mode=True, pose0_config=masks(0, 1, 2, 3, 4, 5)))
    for k in range(20):
        message = pose(0.1 * k, 1.0, 2.0, 0.5)
        node.on_odometry("pose0", message._replace(position=np.array((1.0, 2.0, 3.0))), None)
        node.step(round(0.1 * k * SECOND))
    assert np.abs(node.filter.x[[2, 3, 4, 8, 9, 10, 14]]).max() < 1e-6
    assert node.filter.x[YAW] == pytest.approx(0.5, abs=0.01)


def test_without_measurements_the_state_moves_on_after_the_timeout() -> None:
    node = Node(settings(sensor_timeout=0.1))
    node.on_odometry("odom0", None, twist(0.0, 2.0))
    node.step(0)
    node.step(SECOND // 20)
    assert node.filter.t_ns == 0
    node.step(SECOND)
    assert node.filter.t_ns == SECOND
    assert node.filter.x[0] == pytest.approx(2.0)


def test_predict_to_current_time_brings_every_step_to_its_time() -> None:
    node = Node(settings(sensor_timeout=10.0, predict_to_current_time=True))
    node.on_odometry("odom0", None, twist(0.0, 2.0))
    node.step(SECOND // 2)
    assert node.filter.t_ns == SECOND // 2
    assert node.filter.x[0] == pytest.approx(1.0)


@given(st.permutations(range(6)), st.floats(0.56, 2.0))
def test_smoothed_late_measurements_count_as_if_they_had_come_in_time(
    order: list[int], length: float
) -> None:
    """A filter with ``smooth_lagged_data`` ends like one whose measurements came in order, if its
    history is long enough."""
    events = [(0.1 * (k + 1), float(k)) for k in range(6)]

    def end(arrivals: list[int], **more: Any) -> np.ndarray:
        both = {"pose1": "/late", "pose1_config": masks(0, 1)}
        node = Node(settings(**both, **more))
        node.on_odometry("pose0", pose(0.05, 0.0, 0.0), None)
        node.step(SECOND // 10)
        for k in arrivals:
            # A message that is older than the one before from the same sensor is dropped: these
            # come from two.
            name, (t, x) = ("pose0", "pose1")[k % 2], events[k]
            node._newest_ns.clear()
            node.on_odometry(name, pose(t, x), None)
            node.step(SECOND)
        return node.filter.x

    smoothed = end(order, smooth_lagged_data=True, history_length=length)
    assert smoothed == pytest.approx(end(sorted(order)), abs=1e-9)


def test_control_accelerates_towards_the_command_within_its_limits() -> None:
    node = Node(
        settings(
            use_control=True, control_timeout=5.0,
            control_config=[True, False, False, False, False, False], acceleration_limits=[1.0] * 6,
            acceleration_gains=[10.0] * 6,
        )
    )  # fmt: skip
    node.on_odometry("odom0", None, twist(0.0, 0.0))
    node.step(0)
    node.on_control(0, np.array((3.0, 0.0, 0.0, 0.0, 0.0, 0.0)))
    for k in range(1, 21):
        node.step(k * SECOND // 10)
    assert node.filter.x[6] == pytest.approx(2.0, abs=0.15)  # 1 m/s2 for 2 s
    node.on_control(2 * SECOND, np.zeros(6))
    for k in range(21, 120):
        node.step(k * SECOND // 10)
    assert node.filter.x[6] == pytest.approx(0.0, abs=0.1)


# -------------------------------------------------------------------- frames


@given(st.floats(-3, 3), st.floats(-1.5, 1.5), st.floats(-3, 3))
def test_angles_and_quaternions_are_those_of_scipy(roll: float, pitch: float, yaw: float) -> None:
    theirs = Rotation.from_euler("ZYX", [yaw, pitch, roll])
    ours = of_angles(0.0, 0.0, 0.0, roll, pitch, yaw)
    assert ours.rotation == pytest.approx(theirs.as_matrix(), abs=1e-12)
    assert ours.angles == pytest.approx((roll, pitch, yaw), abs=1e-7)
    assert of_quaternion(*theirs.as_quat()) == pytest.approx(theirs.as_matrix(), abs=1e-12)


def test_frames_are_found_through_their_common_root() -> None:
    frames = Frames(
        {
            ("base", "imu"): of_angles(1, 2, 3, 0, 0, pi / 2),
            ("/base", "/gps"): of_angles(0, 0, 1, 0, 0, 0),
        }
    )
    found = frames.find("gps", "imu")
    assert found is not None
    assert found.origin == pytest.approx((1.0, 2.0, 2.0))
    assert frames.find("base", "camera") is None
    with pytest.raises(GapError, match="round in a circle"):
        Frames(
            {("a", "b"): of_angles(0, 0, 0, 0, 0, 0), ("b", "a"): of_angles(0, 0, 0, 0, 0, 0)}
        ).find("a", ["c", "b"][1])


def test_a_message_of_an_unknown_frame_is_dropped_and_named() -> None:
    node = Node(settings())
    node.on_odometry("odom0", None, twist(0.0, 1.0, frame="wheel"))
    node.step(SECOND)
    assert node.unconnected == {"wheel"}
    assert not node.filter.initialised


def test_a_turned_imu_measures_in_the_axes_of_the_vehicle() -> None:
    frames = Frames({("base_link", "imu"): of_angles(0, 0, 0, 0, 0, pi / 2)})
    node = Node(
        of(
            {
                "imu0": "/imu",
                "imu0_config": masks(10, 13),
                "imu0_remove_gravitational_acceleration": True,
            },
            "test",
        ),
        frames,
    )
    none = np.eye(3) * 0.01
    # What is used is said in the axes of the sensor. Turned by 90 degrees, its y axis looks
    # backward along the vehicle's x axis.
    force = np.array((0.0, -2.0, 9.80665))
    for k in range(1, 30):
        node.on_imu(
            "imu0",
            ImuMessage(
                k * SECOND // 50,
                NO_TURN,
                none,
                np.array((0.0, -0.5, 0.0)),
                none,
                force,
                none,
                "imu",
            ),
        )
        node.step(k * SECOND // 50)
    assert node.filter.x[9] == pytest.approx(0.5, abs=0.01)
    assert node.filter.x[12] == pytest.approx(2.0, abs=0.1)


def test_a_differential_pose_is_a_velocity() -> None:
    node = Node(settings(pose0_differential=True, pose0_config=masks(0, 1, 5)))
    for k in range(50):
        node.on_odometry("pose0", pose(0.1 * k, 100.0 + 0.1 * k, sigma=0.001), None)
        node.step(round(0.1 * k * SECOND))
    assert node.filter.x[VELOCITY][0] == pytest.approx(1.0, abs=0.05)
    assert node.filter.x[0] < 10.0  # where it began does not matter


def test_a_relative_pose_begins_at_the_origin() -> None:
    node = Node(settings(pose0_relative=True, pose0_config=masks(0, 1, 5)))
    for k in range(50):
        node.on_odometry(
            "pose0", pose(0.1 * k, 100.0, 50.0 + 0.1 * k, yaw=pi / 2, sigma=0.001), None
        )
        node.step(round(0.1 * k * SECOND))
    assert node.filter.x[:2] == pytest.approx((4.9, 0.0), abs=0.05)


# -------------------------------------------------------------------- parameter file


def test_the_parameters_of_ros_1_and_ros_2_read_alike(tmp_path: Path) -> None:
    inner = (
        "frequency: 35.0\npose0: /gps\npose0_config: ["
        + ", ".join(["true"] * 2 + ["false"] * 13)
        + "]\n"
    )
    one, two = tmp_path / "ros1.yaml", tmp_path / "ros2.yaml"
    one.write_text(inner)
    two.write_text(
        "ekf_filter_node:\n  ros__parameters:\n"
        + "".join(f"    {line}\n" for line in inner.splitlines())
    )
    a, b = load(one), load(two)
    assert (a.frequency_hz, a.sensors[0].topic, a.sensors[0].used.tolist()) == (
        35.0,
        "/gps",
        masks(0, 1),
    )
    assert (b.frequency_hz, b.sensors[0].used.tolist()) == (35.0, masks(0, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is no YAML"),
        ("7", "holds no parameters"),
        ("frequency: 30", "names no input"),
        ("odom0: /o", "has no odom0_config"),
        ("odom0: /o\nodom0_config: [true]", "has 1 values; 15 are expected"),
        ("odom0: /o\nodom0_config: 3", "is no list of 15"),
        ("odom0: /o\nodom0_config: [" + "1, " * 15 + "]", "is neither true nor false"),
        (
            "odom0: /o\nodom0_config: [" + "true, " * 15 + "]\nfrequency: 0",
            "frequency: 0 is not above 0",
        ),
        ("odom0: /o\nodom0_config: [" + "true, " * 15 + "]\nfrequency: .nan", "not above 0"),
        (
            "odom0: /o\nodom0_config: [" + "true, " * 15 + "]\nprocess_noise_covariance: [1, 2]",
            "is no list of 225",
        ),
        (
            "odom0: /o\nodom0_config: ["
            + "true, " * 15
            + "]\nprocess_noise_covariance: ["
            + ".inf, " * 15
            + "]",
            "is not finite",
        ),
        (
            "odom0: /o\nodom0_config: [" + "true, " * 15 + "]\ntwo_d_mod: true",
            "has no parameter two_d_mod",
        ),
        (
            "imu0: /i\nimu0_config: [" + "true, " * 3 + "false, " * 12 + "]",
            "no input takes what a run of ours holds",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "ekf.yaml"
    file.write_text(text)
    with pytest.raises(GapError, match=message) as found:
        make_judge(f"robot_localization={file}")
    assert str(file) in str(found.value)


def test_the_judge_needs_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(GapError, match=r"robot_localization=FILE\.yaml"):
        make_judge("robot_localization")
    with pytest.raises(GapError, match="cannot be read"):
        make_judge(f"robot_localization={tmp_path / 'none.yaml'}")
    with pytest.raises(RecordingError, match="has no parameter frequency"):
        make_judge(f"robot_localization={example(tmp_path)}", ["frequency=3"])


# -------------------------------------------------------------------- judge


def example(tmp_path: Path) -> Path:
    """Write the parameter file of the manual."""
    manual = (Path(__file__).parents[2] / "docs" / "gap.md").read_text()
    file = tmp_path / "ekf.yaml"
    file.write_text(manual.split("```yaml\n")[1].split("```")[0])
    return file


def recorded(tmp_path: Path) -> Recording:
    return bench.load(bench.outdoor(tmp_path / "run.csv"), ("rtk",))[0]


def test_the_file_of_the_manual_judges_a_run(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    found = make_judge(f"robot_localization={example(tmp_path)}").track(recording)
    truth = recording.truth
    settled = found.t_ns > truth.t_ns[0] + 5 * SECOND
    x = np.interp(found.t_ns, truth.t_ns, truth.x_m)
    y = np.interp(found.t_ns, truth.t_ns, truth.y_m)
    off = np.hypot(found.x_m - x, found.y_m - y)[settled]
    assert np.sqrt(np.mean(off**2)) < 0.5
    assert np.isfinite(found.nis[settled]).all()


def test_every_kind_of_input_is_fed(tmp_path: Path) -> None:
    table = {
        "pose0": "/p", "pose0_config": masks(0, 1, 5), "imu0": "/i",
        "imu0_config": masks(5, 11, 12), "twist0": "/t", "twist0_config": masks(6, 7),
        "frequency": 30.0,
    }  # fmt: skip
    file = tmp_path / "ekf.yaml"
    file.write_text("".join(f"{key}: {str(value).lower()}\n" for key, value in table.items()))
    judge = make_judge(f"robot_localization={file}")
    fed = judge._fed  # type: ignore[attr-defined]
    assert {kind: [np.flatnonzero(s.used).tolist() for s in sensors] for kind,
        sensors in fed.items()} == {
        GnssFix: [[0, 1, 5]], Heading: [[5]], ImuSample: [[11, 12]], WheelSpeed: [[6, 7]],
    }  # fmt: skip


def test_a_run_without_its_inputs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ekf.yaml"
    file.write_text("twist0: /t\ntwist0_config: " + str(masks(6)).lower() + "\n")
    with pytest.raises(GapError, match="holds no WheelSpeed"):
        make_judge(f"robot_localization={file}").track(recorded(tmp_path))


def test_the_identity_leaves_a_pose_as_it_is() -> None:
    turned = FramePose(np.eye(3), np.zeros(3)) @ of_angles(1, 2, 3, 0.1, 0.2, 0.3)
    assert turned.angles == pytest.approx((0.1, 0.2, 0.3))
    assert (turned.inverse() @ turned).origin == pytest.approx((0.0, 0.0, 0.0))
