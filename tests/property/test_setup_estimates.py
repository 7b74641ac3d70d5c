"""Estimators of the set-up: drawn mountings, gains, signs and noise are found within the stated
standard deviations."""

from math import atan, cos, degrees, hypot, isnan, pi, remainder, sin, tan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2 as G
from vehicled.live.setup import estimates
from vehicled.live.setup.estimates import (
    LEVEL_RAD,
    LIFT_RAD,
    STRAIGHT_RAD,
    NotMeasuredError,
    angles,
    rotation,
)
from vehicled.live.setup.recording import Array, StepRecording

HZ = 100.0
SIGMAS = 4.5
SEEDS = st.integers(0, 10_000)
ANGLE = st.floats(-pi, pi)


def recording(**columns: Any) -> StepRecording:
    """Return a recording of some columns, with the others empty."""
    empty: dict[str, Any] = {name: np.empty(0) for name in StepRecording.__struct_fields__}
    empty |= {
        "force_mps2": np.empty((0, 3)),
        "rate_radps": np.empty((0, 3)),
        "east_north_m": np.empty((0, 2)),
    }
    empty |= {"commands": np.empty((0, 3)), "gnss_sigma_m": float("inf"), "magnetic": False}
    return StepRecording(**(empty | columns))


def eased(t: Array, begin_s: float, end_s: float) -> Array:
    """Return 0 before, 1 after and a smooth way between, with no jump of its second derivative."""
    u = np.clip((t - begin_s) / (end_s - begin_s), 0.0, 1.0)
    return u**3 * (10.0 - 15.0 * u + 6.0 * u**2)


class Hand:
    """A unit that is turned by hand: rotation vectors over time, one after the other, about axes of
    the level vehicle."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.moves: list[tuple[Array, float, float]] = []
        self.now_s = 2.0

    def turn(
        self,
        axis: tuple[float, float, float],
        angle: float,
        seconds: float = 1.5,
        rest_s: float = 1.5,
    ) -> "Hand":
        vector = np.array(axis) / np.linalg.norm(axis) * angle
        self.moves.append((vector, self.now_s, self.now_s + seconds))
        self.now_s += seconds + rest_s
        return self

    def felt(self, mounting: Array, floor: Array | None = None) -> tuple[Array, Array, Array]:
        """Return times, forces and rates in the axes of a case that ``mounting`` turns to those of
        the body."""
        t = np.arange(0.0, self.now_s, 1.0 / HZ)
        attitudes = [np.eye(3) if floor is None else floor for _ in t]
        for vector, begin, end in self.moves:
            share = eased(t, begin, end)
            attitudes = [
                attitude @ rotation(each * vector)
                for attitude, each in zip(attitudes, share, strict=True)
            ]
        force = np.array([attitude.T @ [0.0, 0.0, G] for attitude in attitudes])
        rate = np.zeros((len(t), 3))
        for k in range(1, len(t)):
            step = attitudes[k - 1].T @ attitudes[k]
            rate[k] = (
                0.5
                * HZ
                * np.array(
                    [step[2, 1] - step[1, 2], step[0, 2] - step[2, 0], step[1, 0] - step[0, 1]]
                )
            )
        force, rate = force @ mounting, rate @ mounting
        return (
            t,
            force + self.noise(force, 0.05),
            rate + self.noise(rate, 0.003) + self.chance.normal(0.0, 0.005, 3),
        )

    def noise(self, like: Array, sigma: float) -> Array:
        return self.chance.normal(0.0, sigma, like.shape)


def lifted_and_turned(
    seed: int, mounting: Array, *, lift: float = 0.5, turn: float = 1.6
) -> StepRecording:
    hand = Hand(seed)
    skew = hand.chance.normal(0.0, LIFT_RAD)
    floor = rotation(np.array([*hand.chance.normal(0.0, LEVEL_RAD, 2), 0.0]))
    axis = (sin(skew), -cos(skew), 0.0)
    hand.turn(axis, lift, rest_s=0.5).turn(axis, -lift).turn((0.0, 0.0, 1.0), turn)
    t, force, rate = hand.felt(mounting, floor)
    return recording(imu_s=t, force_mps2=force, rate_radps=rate)


def of_angles(roll: float, pitch: float, yaw: float) -> Array:
    return (
        rotation(np.array([0.0, 0.0, yaw]))
        @ rotation(np.array([0.0, pitch, 0.0]))
        @ rotation(np.array([roll, 0.0, 0.0]))
    )


@given(ANGLE, st.floats(-1.5, 1.5), ANGLE, st.floats(0.25, 1.0), SEEDS)
@examples(25)
def test_any_mounting_is_found_by_a_lift_and_a_turn(
    roll: float, pitch: float, yaw: float, lift: float, seed: int
) -> None:
    mounting = of_angles(roll, pitch, yaw)
    found = estimates.axes(lifted_and_turned(seed, mounting, lift=lift))
    error = of_angles(*found.value) @ mounting.T
    assert np.abs(angles(error)[:2]).max() < SIGMAS * found.sigma[0]
    assert abs(angles(error)[2]) < SIGMAS * found.sigma[2]


@given(st.permutations([0, 1, 2]), st.tuples(*[st.sampled_from([1.0, -1.0])] * 3), SEEDS)
@examples(25)
def test_axes_that_are_exchanged_are_named_and_mirrored_ones_refused(
    order: list[int], signs: tuple[float, ...], seed: int
) -> None:
    matrix = np.eye(3)[order] * np.array(signs)[:, None]
    rec = lifted_and_turned(seed, matrix)
    if np.linalg.det(matrix) < 0.0:
        with pytest.raises(NotMeasuredError, match="contradict each other"):
            estimates.axes(rec)
        return
    found = estimates.axes(rec)
    assert found.wrong is not bool(np.allclose(matrix, np.eye(3)))
    assert np.allclose(of_angles(*found.value), matrix, atol=SIGMAS * LIFT_RAD)
    names = [("forward", "back"), ("left", "right"), ("up", "down")]
    if found.wrong:
        for axis, letter in enumerate("xyz"):
            k = int(np.argmax(np.abs(matrix[:, axis])))
            assert (
                f"{letter} axis points" in found.verdict
                if letter == "x"
                else f"{letter} " in found.verdict
            )
            assert names[k][int(matrix[k, axis] < 0.0)] in found.verdict


def test_what_was_done_wrong_is_said() -> None:
    for lift, turn, text in (
        (0.05, 1.6, "lift it by 20 to 40"),
        (0.5, 0.1, "it was not turned"),
        (0.5, -1.6, "turned to the right"),
    ):
        with pytest.raises(NotMeasuredError, match=text):
            estimates.axes(lifted_and_turned(1, np.eye(3), lift=lift, turn=turn))
    # An accelerometer that shows gravity instead of its opposite: the turn to the left is one to
    # the right for it.
    rec = lifted_and_turned(2, np.eye(3))
    with pytest.raises(NotMeasuredError, match="opposite sign"):
        estimates.axes(
            recording(imu_s=rec.imu_s, force_mps2=-rec.force_mps2, rate_radps=rec.rate_radps)
        )


BIAS = st.floats(-0.8, 0.8)
FACTOR = st.floats(0.95, 1.05)


def six_sides(seed: int, to_body: Array, bias: Array, factor: Array) -> StepRecording:
    hand = Hand(seed)
    for axis, angle in (
        ((0, 1, 0), -1.57),
        ((0, 1, 0), 1.57),
        ((1, 0, 0), 1.57),
        ((1, 0, 0), -1.57),
        ((1, 0, 0), 3.1),
    ):
        there = angle + hand.chance.normal(0.0, 0.08)
        hand.turn(axis, there, rest_s=2.0).turn(axis, -there, rest_s=0.3)
    hand.turn((0, 0, 1), 0.1, rest_s=2.0)
    t, force, rate = hand.felt(np.eye(3))
    case = force @ to_body
    return recording(imu_s=t, force_mps2=(case / factor + bias) @ to_body.T, rate_radps=rate)


@given(
    st.tuples(BIAS, BIAS, BIAS),
    st.tuples(FACTOR, FACTOR, FACTOR),
    st.sampled_from([0.0, pi / 2, pi]),
    SEEDS,
)
@examples(15)
def test_bias_and_scale_are_found_on_six_sides(
    bias: tuple[float, ...], factor: tuple[float, ...], yaw: float, seed: int
) -> None:
    to_body = of_angles(0.0, 0.0, yaw)
    found = estimates.accelerometer(
        six_sides(seed, to_body, np.array(bias), np.array(factor)), to_body.T
    )
    for value, sigma, truth in zip(found.value, found.sigma, (*bias, *factor), strict=True):
        assert abs(value - truth) < SIGMAS * sigma
    assert max(found.sigma[:3]) < 0.03
    assert max(found.sigma[3:]) < 0.005


def test_a_side_that_was_left_out_is_named() -> None:
    rec = six_sides(3, np.eye(3), np.zeros(3), np.ones(3))
    early = rec.imu_s < 18.0
    with pytest.raises(NotMeasuredError, match="upside down"):
        estimates.accelerometer(
            recording(
                imu_s=rec.imu_s[early],
                force_mps2=rec.force_mps2[early],
                rate_radps=rec.rate_radps[early],
            ),
            np.eye(3),
        )


def a_push(
    seed: int, ratio: float, *, backward: bool = False, top_mps: float = 1.2
) -> StepRecording:
    """Return 5 m by hand, seen by an odometry that counts ``ratio`` times the distance."""
    chance = np.random.default_rng(seed)
    t = np.arange(0.0, 12.0, 0.02)
    way = 5.0 * eased(t, 2.0, 2.0 + 5.0 * 1.875 / top_mps) * (-1.0 if backward else 1.0)
    tape = 1.0 + chance.normal(0.0, estimates.TAPE_M / 5.0)
    speed = np.gradient(way, t) * tape * ratio
    imu_s = np.arange(0.0, 12.0, 0.01)
    pushes = np.interp(imu_s, t, np.gradient(np.gradient(way, t), t))
    force = np.column_stack(
        (pushes, np.zeros_like(pushes), np.full_like(pushes, G))
    ) + chance.normal(0.0, 0.1, (len(pushes), 3))
    rate = chance.normal(0.0, 0.003, (len(pushes), 3))
    return recording(
        imu_s=imu_s, force_mps2=force, rate_radps=rate, speed_s=t, speed_mps=np.round(speed, 3)
    )


@given(st.floats(0.4, 4.0), st.sampled_from([1.0, -1.0]), SEEDS)
def test_the_scale_of_the_odometry_is_found_by_a_push(size: float, sign: float, seed: int) -> None:
    found = estimates.pushed(a_push(seed, sign * size), 5.0, 2)
    assert abs(found.value[0] - sign * size) < SIGMAS * found.sigma[0]
    assert found.sigma[0] < 0.01 * size
    assert ("reversed" in found.verdict) is (sign < 0.0)
    assert found.wrong is (sign < 0.0 or not 0.85 <= size <= 1.15 or "pole pairs" in found.verdict)


@given(st.integers(1, 7), st.integers(1, 7), SEEDS)
def test_wrong_pole_pairs_are_named(true: int, assumed: int, seed: int) -> None:
    found = estimates.pushed(a_push(seed, true / assumed), 5.0, assumed)
    assert (f"{true} pole pairs" in found.verdict) is (true != assumed)


def test_a_push_backward_and_a_blind_controller_are_no_reversed_motor() -> None:
    for ratio in (1.0, -1.0):
        with pytest.raises(NotMeasuredError, match="pushed backward"):
            estimates.pushed(a_push(1, ratio, backward=True), 5.0, 2)
    with pytest.raises(NotMeasuredError, match="saw no motion"):
        estimates.pushed(a_push(1, 0.0), 5.0, 2)


def circles(
    seed: int,
    gain: float,
    straight: float,
    delay_s: float,
    *,
    wheelbase_m: float = 0.33,
    speed_mps: float = 0.8,
    rate: float = 3.0,
) -> StepRecording:
    chance = np.random.default_rng(seed)
    plan = (0.0, 0.6, -0.6, 0.3, -0.3, 0.0)
    command_s = np.arange(0.0, 2.0 + 2.2 * len(plan), 0.02)
    index = np.clip(((command_s - 2.0) / 2.2).astype(int), 0, len(plan) - 1)
    steering = np.where(command_s < 2.0, 0.0, np.array(plan)[index])
    throttle = np.where(command_s < 2.0, 0.0, 0.1)
    t = np.arange(0.0, command_s[-1], 0.01)
    wanted = gain * (
        steering[np.clip(np.searchsorted(command_s, t - delay_s, "right") - 1, 0, None)] - straight
    )
    angle = np.zeros_like(t)
    for k in range(1, len(t)):
        angle[k] = angle[k - 1] + np.clip(wanted[k] - angle[k - 1], -rate * 0.01, rate * 0.01)
    speed = speed_mps * eased(t, 2.1, 3.0)
    yaw = speed * np.tan(angle) / wheelbase_m
    gyro = np.column_stack((np.zeros_like(t), np.zeros_like(t), yaw)) + chance.normal(
        0.0, 0.02, (len(t), 3)
    ) * (t[:, None] > 2.1)
    force = np.tile([0.0, 0.0, G], (len(t), 1)) + chance.normal(0.0, 0.05, (len(t), 3))
    return recording(
        imu_s=t, force_mps2=force, rate_radps=gyro + chance.normal(0.0, 0.005, 3), speed_s=t[::2],
        speed_mps=speed[::2] * (1.0 + chance.normal(0.0, 0.003)), command_s=command_s,
        commands=np.column_stack((throttle, np.zeros_like(throttle), steering)),
    )  # fmt: skip


@given(
    st.floats(0.15, 0.6),
    st.sampled_from([1.0, -1.0]),
    st.floats(-0.3, 0.3),
    st.floats(0.0, 0.2),
    SEEDS,
)
@examples(25)
def test_gain_sign_centre_and_delay_of_the_steering_are_found_by_circles(
    size: float, sign: float, straight: float, delay_s: float, seed: int
) -> None:
    found = estimates.steering(circles(seed, sign * size, straight, delay_s), 0.33)
    assert abs(found.value[0] - sign * size) < SIGMAS * found.sigma[0]
    assert abs(found.value[1] - straight) < SIGMAS * found.sigma[1]
    assert abs(found.value[2] - delay_s) < SIGMAS * found.sigma[2] + 0.02
    assert ("reversed" in found.verdict) is (sign < 0.0)
    assert found.sigma[0] < 0.06 * size


@given(st.floats(0.2, 0.5), st.sampled_from([1.0, -1.0]), st.floats(-0.2, 0.2), SEEDS)
def test_measured_turning_circles_give_gain_and_centre(
    size: float, sign: float, straight: float, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    measured = []
    for command in (0.7, -0.7):
        diameter = 2.0 * 0.33 / tan(sign * size * (command - straight))
        measured.append((command, diameter + chance.normal(0.0, 2.0 * estimates.TAPE_M)))
    found = estimates.steering_of_circles(measured, 0.33)
    assert abs(found.value[0] - sign * size) < SIGMAS * found.sigma[0]
    assert abs(found.value[1] - straight) < SIGMAS * found.sigma[1]
    assert isnan(found.value[2])
    assert estimates.turning_diameter_m(atan(0.5), 0.33) == pytest.approx(4.0 * 0.33)


def test_a_vehicle_that_does_not_turn_or_is_not_driven_is_refused() -> None:
    with pytest.raises(NotMeasuredError, match="did not follow"):
        estimates.steering(circles(1, 1e-4, 0.0, 0.02), 0.33)
    with pytest.raises(NotMeasuredError, match="on both sides"):
        estimates.steering(circles(1, 0.4, 0.0, 0.02, speed_mps=0.1), 0.33)


def start_and_stop(
    seed: int, delay_s: float, brake_mps2: float, start_mps2: float = 1.5
) -> StepRecording:
    chance = np.random.default_rng(seed)
    command_s = np.arange(0.0, 8.0, 0.02)
    t = np.arange(0.0, 8.0, 0.001)
    speed, stop_s = np.zeros_like(t), 1.0 + delay_s + 1.5 / start_mps2
    for k in range(1, len(t)):
        acceleration = (
            start_mps2
            if 1.0 + delay_s < t[k] < stop_s + delay_s
            else -brake_mps2
            if t[k] > stop_s + delay_s
            else 0.0
        )
        speed[k] = max(0.0, speed[k - 1] + 0.001 * acceleration)
    throttle, brake = ((command_s >= 1.0) & (command_s < stop_s)) * 0.2, (command_s >= stop_s) * 1.0
    seen = np.arange(0.01 * chance.uniform(), 7.9, 0.02)
    return recording(
        speed_s=seen, speed_mps=np.round(np.interp(seen, t, speed), 3), command_s=command_s,
        commands=np.column_stack((throttle, brake, np.zeros_like(brake))),
    )  # fmt: skip


@given(st.floats(0.0, 0.3), st.floats(0.5, 8.0), SEEDS)
def test_delay_and_brake_are_found_by_a_start_and_a_stop(
    delay_s: float, brake_mps2: float, seed: int
) -> None:
    start, brake = estimates.straight_run(start_and_stop(seed, delay_s, brake_mps2), 0.02)
    # The command falls between two samples of a grid of 20 ms.
    assert abs(start.value[0] - delay_s) < SIGMAS * start.sigma[0]
    assert abs(brake.value[0] - (brake_mps2 - 0.02)) < SIGMAS * brake.sigma[0]


def test_a_brake_that_does_nothing_is_named() -> None:
    assert "coasts" in estimates.straight_run(start_and_stop(1, 0.05, 0.3), 0.3)[1].verdict


@pytest.mark.parametrize(("drive", "odometry"), [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)])
def test_the_direction_of_motor_and_odometry_is_found_by_eyes_and_counts(
    drive: float, odometry: float
) -> None:
    command_s = np.arange(0.0, 3.0, 0.02)
    throttle = (command_s > 1.0) * 0.1
    rec = recording(
        speed_s=command_s, speed_mps=odometry * throttle * 5.0, command_s=command_s,
        commands=np.column_stack((throttle, 0.0 * throttle, 0.0 * throttle)),
    )  # fmt: skip
    found = estimates.direction(rec, drive > 0.0)
    assert found.value == (drive, odometry)
    assert found.wrong is (min(drive, odometry) < 0.0)


def once_round(
    seed: int, arm: complex, begin: float, factors: tuple[float, ...], constant: float
) -> StepRecording:
    """Return a turn on the spot and a push of 3 m, with an antenna at ``arm`` and a compass with a
    deviation."""
    chance = np.random.default_rng(seed)
    t = np.arange(0.0, 26.0, 0.01)
    turn = 6.5 * eased(t, 2.0, 17.0)
    way = 3.2 * eased(t, 19.0, 24.5)
    yaw = begin + turn
    gnss_s = np.arange(0.0, 26.0, 0.1)
    psi, bent = np.interp(gnss_s, t, yaw), chance.normal(0.0, STRAIGHT_RAD)
    fixes = arm * np.exp(1j * psi) + np.interp(gnss_s, t, way) * np.exp(1j * (yaw[-1] + bent))
    fixes = (
        fixes + chance.normal(0.0, 0.008, len(fixes)) + 1j * chance.normal(0.0, 0.008, len(fixes))
    )
    rate = np.column_stack((0.0 * t, 0.0 * t, np.gradient(turn, t))) + chance.normal(
        0.0, 0.003, (len(t), 3)
    )
    heading_s = np.arange(0.0, 26.0, 0.05)
    shown = truth = np.interp(heading_s, t, yaw)
    for _ in range(40):
        b, c, d, e = factors
        shown = (
            truth
            + constant
            + b * np.sin(shown)
            + c * np.cos(shown)
            + d * np.sin(2 * shown)
            + e * np.cos(2 * shown)
        )
    shown = (shown + chance.normal(0.0, 0.01, len(shown)) + pi) % (2 * pi) - pi
    force = np.tile([0.0, 0.0, G], (len(t), 1)) + chance.normal(0.0, 0.05, (len(t), 3))
    return recording(
        imu_s=t, force_mps2=force, rate_radps=rate + chance.normal(0.0, 0.005, 3), gnss_s=gnss_s,
        gnss_sigma_m=0.011, east_north_m=np.column_stack((fixes.real, fixes.imag)),
        heading_s=heading_s, yaw_rad=shown, magnetic=True,
    )  # fmt: skip


@given(st.floats(-0.5, 0.5), st.floats(-0.3, 0.3), ANGLE, SEEDS)
@examples(15)
def test_the_antenna_is_found_by_a_turn_and_a_push(
    forward: float, left: float, begin: float, seed: int
) -> None:
    found, yaw = estimates.antenna(once_round(seed, complex(forward, left), begin, (0.0,) * 4, 0.0))
    assert abs(found.value[0] - forward) < SIGMAS * found.sigma[0]
    assert abs(found.value[1] - left) < SIGMAS * found.sigma[1]
    assert abs(remainder(yaw - begin, 2 * pi)) < SIGMAS * STRAIGHT_RAD
    assert max(found.sigma) < 0.02


@given(
    st.tuples(*[st.floats(-0.25, 0.25)] * 2),
    st.tuples(*[st.floats(-0.08, 0.08)] * 2),
    st.floats(-0.4, 0.4),
    ANGLE,
    SEEDS,
)
@examples(15)
def test_the_deviation_of_a_compass_is_found_by_a_turn(
    hard: tuple[float, ...], soft: tuple[float, ...], constant: float, begin: float, seed: int
) -> None:
    rec = once_round(seed, 0.1 + 0.0j, begin, (*hard, *soft), constant)
    found = estimates.compass(rec, begin)
    for value, sigma, truth in zip(found.value, found.sigma, (*hard, *soft, constant), strict=True):
        assert abs(value - truth) < SIGMAS * sigma
    assert isnan(estimates.compass(rec, None).value[4])
    assert f"{degrees(hypot(*found.value[:2])):.1f} degrees" in found.verdict
