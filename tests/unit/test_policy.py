"""Policies: what is refused before it drives, and what drives."""

import json
from math import cos, inf, nan, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.policy_bench import layers, policy_bytes, write_policy
from tests.vehicles import VEHICLE, make_drive, make_vehicle
from vehicled.control.linear import Linear, LinearParams
from vehicled.control.policy.controller import Policy, PolicyParams, policy_class
from vehicled.control.policy.features import FeatureError, FeatureVector, sector_ranges
from vehicled.control.policy.network import PolicyError
from vehicled.core import shipped
from vehicled.core.messages import EstimatorStatus, LaserScan, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, load

onnx: Any = pytest.importorskip("onnx")

LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=3.0, corridor_m=2.0)
COURSE = load_course("circle_r5_ccw")
WIDE = (
    "cross_track_m", "heading_error_rad", "speed_mps", "yaw_rate_radps", "target_speed_mps",
    "curvature_per_m[1.5]", "course_left_m[0.5]", "course_heading_rad[2]", "scan_m[3]",
    "previous_throttle", "previous_steering",
)  # fmt: skip
EVERYTHING = (
    *WIDE,
    "reference_ahead_m",
    "reference_left_m",
    "reference_heading_rad",
    "reference_speed_mps",
)


def make(file: Path, params: PolicyParams | None = None, vehicle: Vehicle = VEHICLE) -> Policy:
    return policy_class(file)(params or PolicyParams(), vehicle, LIMITS, COURSE, 0.01)


def estimate(
    x: float, y: float, yaw: float, speed: float, yaw_rate: float = 0.0, t_ns: int = 10**9
) -> StateEstimate:
    return StateEstimate(
        t_ns, t_ns, x, y, yaw, speed, yaw_rate, (0.0,) * 16, EstimatorStatus.RUNNING
    )


def edited(change: Any) -> bytes:
    model = onnx.load_from_string(policy_bytes())
    change(model)
    data: bytes = model.SerializeToString()
    return data


def described(**fields: Any) -> bytes:
    def change(model: Any) -> None:
        text = json.loads(model.metadata_props[0].value)
        model.metadata_props[0].value = json.dumps(text | fields)

    return edited(change)


def nan_weight(model: Any) -> None:
    values = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    values[0, 0] = nan
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(values, "weights0"))


def newer(model: Any) -> None:
    model.opset_import[0].version = 999


def two_inputs(model: Any) -> None:
    model.graph.input.append(
        onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [1, 2])
    )


def doubles(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def broken_metadata(model: Any) -> None:
    model.metadata_props[0].value = '{"features": 3}'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["no ONNX file"]),
        (b"\x00\xff garbage" * 50, ["no ONNX file"]),
        (edited(newer), ["opset 999", "export it again"]),
        (edited(nan_weight), ["weights0", "not all finite"]),
        (edited(two_inputs), ["2 inputs", "a policy has one"]),
        (edited(doubles), ["cannot run it"]),
        (edited(broken_metadata), ["metadata", "features"]),
        (described(features=["reference_ahead_m"]), ["4 inputs", "1 numbers"]),
        (described(features=["reference_ahead"]), ['did you mean "reference_ahead_m"']),
        (described(features=["scan_m[0]"]), ["whole number from 1"]),
        (described(features=["reference_ahead_m"] * 4), ["named twice"]),
        (described(commands=["throttle"]), ["give steering or wheel_angle_rad"]),
        (described(commands=["steering", "wheel_angle_rad"]), ["give steering or wheel_angle_rad"]),
        (described(commands=["steering"]), ["2 outputs for 1 commands"]),
        (described(scale=[1.0]), ["scale", "4 finite numbers"]),
        (described(look_ahead_m=-1.0), ["look_ahead_m"]),
    ],
)
def test_a_file_that_cannot_drive_is_refused_with_the_reason(
    data: bytes, words: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "policy.onnx"
    file.write_bytes(data)
    with pytest.raises(PolicyError) as refused:
        policy_class(file)
    assert "policy.onnx" in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_the_profile_is_refused_with_the_same_reason(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(edited(nan_weight))
    with pytest.raises(ProfileError, match="not all finite"):
        load("art", [f"controller.name={tmp_path}/policy.onnx"])
    with pytest.raises(ProfileError, match="no such file"):
        load("art", [f"controller.name={tmp_path}/other.onnx"])


def test_a_network_without_description_needs_its_features_named(tmp_path: Path) -> None:
    file = tmp_path / "policy.onnx"
    file.write_bytes(edited(lambda model: model.ClearField("metadata_props")))
    with pytest.raises(PolicyError, match="does not say what its inputs are"):
        make(file)
    named = make(
        file,
        PolicyParams(
            features=[
                "reference_ahead_m",
                "reference_left_m",
                "reference_heading_rad",
                "reference_speed_mps",
            ]
        ),
    )
    named.step(estimate(5.0, 0.0, pi / 2, 1.0), 10**9)


@examples(60)
@given(
    x=st.floats(-8, 8), y=st.floats(-8, 8), yaw=st.floats(-7, 7), speed=st.floats(0, 3),
    rate=st.floats(-2, 2)
)  # fmt: skip
def test_the_linear_law_as_a_network_is_the_linear_law(
    x: float, y: float, yaw: float, speed: float, rate: float, linear_file: Path
) -> None:
    ours, theirs = make(linear_file), Linear(LinearParams(), VEHICLE, LIMITS, COURSE, 0.01)
    start, there = estimate(5.0, 0.0, pi / 2, 1.0), estimate(x, y, yaw, speed, rate, 10**9 + 10**7)
    for controller in (ours, theirs):
        controller.step(start, start.t_ns)
    a, b = ours.step(there, there.t_ns), theirs.step(there, there.t_ns)
    assert a.wheel_angle_rad == pytest.approx(b.wheel_angle_rad, abs=1e-5)
    # The network brakes where its throttle is negative; the published law never does.
    assert a.throttle == pytest.approx(b.throttle, abs=1e-5)


@pytest.fixture(scope="module")
def linear_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("policy") / "linear.onnx")


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    width = FeatureVector(EVERYTHING).width
    return write_policy(
        tmp_path_factory.mktemp("policy") / "wide.onnx", layers(width, 8, 2),
        features=list(EVERYTHING), predicts=True, commands=["throttle", "wheel_angle_rad"],
    )  # fmt: skip


_ANY = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([nan, inf, -inf, 0.0, 1e300])
)


@examples(80)
@given(
    states=st.lists(
        st.tuples(_ANY, _ANY, _ANY, _ANY, _ANY, st.integers(0, 10**8)), min_size=1, max_size=5
    )
)
def test_commands_are_finite_and_within_their_limits_for_any_state(
    states: list[Any], wide_file: Path
) -> None:
    controller, now_ns = make(wide_file, PolicyParams(steering_factor=10.0)), 10**9
    lock = VEHICLE.steering.max_wheel_rad
    for x, y, yaw, speed, rate, dt_ns in states:
        now_ns += dt_ns
        command = controller.step(estimate(x, y, yaw, speed, rate, now_ns), now_ns)
        assert abs(command.wheel_angle_rad) <= lock
        assert abs(command.throttle) <= 1.0
        assert 0.0 <= command.brake <= 1.0


def test_a_network_that_returns_nan_brakes(tmp_path: Path) -> None:
    huge = [
        layer._replace(weights=layer.weights * 1e38, bias=layer.bias * 1e38)
        for layer in layers(4, 8, 16, 2)
    ]
    controller = make(write_policy(tmp_path / "huge.onnx", huge))
    command = controller.step(estimate(5.0, 0.5, 2.0, 1.0), 10**9)
    assert (command.throttle, command.brake) == (0.0, 1.0)


def test_the_same_state_gives_the_same_bits_in_every_controller(wide_file: Path) -> None:
    commands = [make(wide_file).step(estimate(5.1, 0.3, 1.7, 0.9, 0.2), 10**9) for _ in range(3)]
    assert commands[0] == commands[1] == commands[2]


def test_negative_throttle_brakes_and_the_factor_multiplies_the_steering(tmp_path: Path) -> None:
    constant = [
        layer._replace(weights=0.0 * layer.weights, bias=np.array([-0.4, 0.2]))
        for layer in layers(4, 2)
    ]
    file = write_policy(tmp_path / "constant.onnx", constant)
    plain, scaled = make(file), make(file, PolicyParams(steering_factor=1.75))
    state = estimate(5.0, 0.0, pi / 2, 1.0)
    a, b = plain.step(state, 10**9), scaled.step(state, 10**9)
    assert (a.throttle, a.brake) == (0.0, pytest.approx(0.4))
    assert b.wheel_angle_rad == pytest.approx(1.75 * a.wheel_angle_rad, rel=1e-6)


def test_a_policy_that_only_steers_leaves_the_speed_to_the_speed_control(tmp_path: Path) -> None:
    file = write_policy(tmp_path / "steers.onnx", layers(4, 1), commands=["steering"])
    command = make(file).step(estimate(5.0, 0.0, pi / 2, 0.2), 10**9)
    assert command.throttle > 0.1


def test_a_reverse_leg_is_driven_as_its_mirror_image(linear_file: Path) -> None:
    course = load_course("parallel_parking")
    vehicle = make_vehicle(drive=make_drive(reverse_share=1.0))
    controller = policy_class(linear_file)(PolicyParams(), vehicle, LIMITS, course, 0.01)
    linear = Linear(LinearParams(), vehicle, LIMITS, course, 0.01)
    cusp_m = float(course.s_m[course.cusps[0]])
    for each in (controller, linear):
        each.reset(cusp_m + 0.5)
    point = linear.tracker.point_at(cusp_m + 0.5)
    state = estimate(point.x_m + 0.05, point.y_m - 0.05, point.yaw_rad + 0.1, -0.2)
    a, b = controller.step(state, 10**9), linear.step(state, 10**9)
    assert a.wheel_angle_rad == pytest.approx(b.wheel_angle_rad, abs=1e-5)
    assert a.throttle == pytest.approx(b.throttle, abs=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "speed",
        "scan_m",
        "scan_m[]",
        "scan_m[1.5]",
        "curvature_per_m[.]",
        "curvature_per_m[1e9]",
        "x" * 999,
    ],
)
def test_an_unknown_feature_is_refused(name: str) -> None:
    with pytest.raises(FeatureError):
        FeatureVector([name])


def test_too_many_numbers_are_refused() -> None:
    with pytest.raises(FeatureError, match="at most"):
        FeatureVector([f"scan_m[{n}]" for n in range(1000, 1010)])


@examples(200)
@given(
    ranges=st.lists(st.one_of(st.floats(0, 20), st.sampled_from([nan, inf, -inf])), max_size=40),
    count=st.integers(1, 12),
    increment=st.sampled_from([0.01, -0.01]),
)
def test_every_sector_holds_its_smallest_valid_range(
    ranges: list[float], count: int, increment: float
) -> None:
    found = sector_ranges(np.array(ranges), increment, 0.1, 10.0, count)
    ordered = ranges if increment > 0.0 else ranges[::-1]
    for sector in range(count):
        inside = [r for k, r in enumerate(ordered) if k * count // len(ordered) == sector]
        clipped = [min(max(r, 0.1), 10.0) for r in inside if r == r]
        assert found[sector] == (min([10.0, *clipped]))


def test_a_scan_reaches_the_features(tmp_path: Path) -> None:
    weights = [
        layer._replace(weights=np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.01]]), bias=np.zeros(2))
        for layer in layers(3, 2)
    ]
    controller = make(write_policy(tmp_path / "scan.onnx", weights, features=["scan_m[3]"]))
    state = estimate(5.0, 0.0, pi / 2, 1.0)
    scan = LaserScan(0, 0, -1.0, 0.5, 0.0, 0.1, 0.1, 8.0, 0.0, 0.0, (1.0, 2.0, 3.0))
    controller.on_scan(scan)
    seen = controller.step(state, 10**9).wheel_angle_rad
    assert seen == pytest.approx(VEHICLE.steering.wheel_angle_rad(0.03), rel=1e-5)


@pytest.mark.parametrize(
    "file", sorted(shipped.folder("profiles/policies").glob("*.onnx")), ids=lambda file: file.stem
)
def test_the_shipped_policies_can_drive(file: Path) -> None:
    controller = make(file)
    x, y, yaw = (float(column[0]) for column in (COURSE.x_m, COURSE.y_m, COURSE.yaw_rad))
    for step in range(30):  # the wheels are slewed
        t_ns = 10**9 + step * 10**7
        command = controller.step(
            estimate(x + 0.01 * step * cos(yaw), y + 0.01 * step * sin(yaw), yaw, 1.0, 0.0, t_ns),
            t_ns,
        )
    assert 0.03 < command.wheel_angle_rad < VEHICLE.steering.max_wheel_rad  # a left circle
    about = controller.network.description
    assert about is not None
    assert (about.profile, about.expert) == (
        "art_published",
        "driver_model" if file.stem == "art_person" else "mpc",
    )
