"""The identifier finds what a vehicle is, and leaves alone what it cannot see."""

import random
from itertools import pairwise
from math import isfinite, nan, sin, tau

import pytest

from tests.grid import sampled
from tests.identification_bench import BELIEVED, Drill, Truth, identifier, weave
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.identification.identifier import SingleTrackIdentifier

CALM = (1e-4, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 0.0, 1e-4)


@pytest.mark.parametrize(
    ("gain", "delay", "offset"),
    sampled(
        [
            (0.15, 0.6, 0.0),
            (0.225, 0.1, 0.02),
            (0.225, 0.3, -0.03),
            (0.225, 0.6, 0.02),
            (0.335, 0.1, -0.03),
            (0.6, 0.3, 0.0),
        ],
        lambda case: case[0] != 0.225 or case[1] == 0.1,
    ),
)
def test_steering_converges(gain, delay, offset):
    drill = Drill(Truth(gain_rad=gain, delay_s=delay, offset_rad=offset), identifier())
    drill.drive(30.0, weave)
    found = drill.known
    assert found.steering_gain_rad == pytest.approx(gain, rel=0.04)
    assert found.steering_delay_s == pytest.approx(delay, abs=0.03)
    assert found.steering_offset_rad == pytest.approx(offset, abs=0.008)
    # A mean over the bank, whose smallest dead zone is 0.03: less than half of that means none.
    assert found.steering_dead_zone < 0.015


def test_gain_is_known_after_the_first_corners():
    drill = Drill(Truth(gain_rad=0.18), identifier())
    drill.drive(4.0, lambda t: 0.0)
    drill.drive(8.0, lambda t: 0.8 * sin(tau * t / 8.0))
    assert drill.known.steering_gain_rad == pytest.approx(0.18, rel=0.12)


def test_dead_zone_is_found_where_it_is_clear():
    drill = Drill(Truth(gain_rad=0.3, dead_zone=0.2), identifier())
    drill.drive(120.0, lambda t: weave(t) * (0.4 + 0.6 * (t % 20.0 > 10.0)))
    assert drill.known.steering_dead_zone == pytest.approx(0.2, abs=0.06)
    assert drill.known.steering_gain_rad == pytest.approx(0.3, rel=0.08)


def test_nothing_drifts_on_a_straight():
    drill = Drill(Truth(gain_rad=0.225), identifier())
    drill.drive(30.0, weave)
    before = drill.known
    drill.drive(60.0, lambda t: 0.0)
    after = drill.known
    assert after.steering_gain_rad == pytest.approx(before.steering_gain_rad, rel=0.02)
    assert after.steering_delay_s == pytest.approx(before.steering_delay_s, abs=0.01)
    assert after.steering_offset_rad == pytest.approx(0.01, abs=0.005)


def test_a_straight_shows_nothing_of_gain_and_delay():
    drill = Drill(Truth(gain_rad=0.225, delay_s=0.6), identifier())
    drill.drive(60.0, lambda t: 0.0)
    assert drill.known.steering_gain_rad == pytest.approx(BELIEVED.steering.gain_rad, rel=0.01)
    assert drill.known.steering_delay_s == pytest.approx(BELIEVED.steering.delay_s, abs=0.01)
    assert drill.known.steering_gain_sigma_rad > 0.1


def test_standstill_shows_nothing():
    drill = Drill(Truth(gain_rad=0.2), identifier())
    drill.drive(30.0, weave, throttle=lambda t, v: 0.0)
    assert drill.results == []


def test_rest_after_a_drive_changes_nothing():
    drill = Drill(Truth(gain_rad=0.225), identifier())
    drill.drive(30.0, weave)
    drill.drive(5.0, lambda t: 0.0, throttle=lambda t, v: 0.0)
    before = len(drill.results)
    drill.drive(30.0, weave, throttle=lambda t, v: 0.0)
    assert len(drill.results) <= before + 1


def test_a_change_of_gain_is_followed():
    drill = Drill(Truth(gain_rad=0.3), identifier())
    drill.drive(40.0, weave)
    assert drill.known.steering_gain_rad == pytest.approx(0.3, rel=0.04)
    drill.truth.gain_rad = 0.24
    drill.drive(60.0, weave)
    assert drill.known.steering_gain_rad == pytest.approx(0.24, rel=0.05)


def test_outliers_do_little():
    drill = Drill(Truth(gain_rad=0.225), identifier())
    drill.drive(40.0, weave)
    before = drill.known.steering_gain_rad
    for _ in range(10):
        drill.drive(0.1, weave, noise=100.0)
        drill.drive(2.0, weave)
    assert drill.known.steering_gain_rad == pytest.approx(before, rel=0.1)


def test_speed_response_converges():
    truth = Truth(authority_mps2=1.6, damping_per_s=0.5, friction_mps2=0.4)
    drill = Drill(truth, identifier())
    drill.drive(80.0, weave, throttle=lambda t, v: 0.55 + 0.35 * sin(tau * t / 9.0))
    found = drill.known
    # What matters is the acceleration predicted, over the speeds and throttles driven.
    for throttle, speed in ((0.3, 0.8), (0.6, 1.0), (0.9, 1.5)):
        wanted = 1.6 * throttle - 0.5 * speed - 0.4
        got = (
            found.drive_authority_mps2 * throttle
            - found.drive_damping_per_s * speed
            - found.drive_friction_mps2
        )
        assert got == pytest.approx(wanted, abs=0.15)


def test_wheel_scale_and_misalignment_converge():
    drill = Drill(Truth(wheel_scale=0.9, misalignment_rad=0.12), identifier())
    drill.drive(60.0, lambda t: 0.5 * sin(tau * t / 12.0))
    assert drill.known.wheel_scale == pytest.approx(0.9, abs=0.01)
    assert drill.known.heading_misalignment_rad == pytest.approx(0.12, abs=0.015)
    assert drill.known.wheel_scale_sigma < 0.02
    assert BELIEVED.identified(drill.known).drive.wheel_radius_m == pytest.approx(
        0.9 * BELIEVED.drive.wheel_radius_m, rel=0.01
    )


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_wheel_scale_converges_on_gnss_velocity_where_positions_say_nothing(sense):
    vague = (4.0, 0.0, 0.0, 0.0, 0.0, 4.0, *CALM[6:])
    identified = identifier(steering=False, drive=False)
    found, said = None, random.Random(1)
    for k in range(1, 3001):
        now = 1_000_000_000 + k * 20_000_000
        identified.observe(WheelSpeed(now, now, sense * (1.0 + 0.01 * said.gauss()) / 0.85, 0.02))
        if k % 5 == 0:
            then = now - 60_000_000
            velocity = (sense * (1.0 + 0.05 * said.gauss()), 0.05 * said.gauss(), 0.0)
            identified.observe(
                GnssFix(
                    then,
                    now,
                    0.7,
                    0.1,
                    0.0,
                    velocity,
                    velocity_covariance_m2ps2=(0.0025, 0, 0, 0, 0.0025, 0, 0, 0, 0.01),
                )
            )
        x = 0.02 * sense * k / 0.85  # the estimator goes by the wheels
        estimate = StateEstimate(
            now, now, x, 0.0, 0.0, sense / 0.85, 0.0, vague, EstimatorStatus.RUNNING
        )
        found = identified.step(estimate, now) or found
    assert found is not None
    assert found.wheel_scale == pytest.approx(0.85, abs=0.01)
    assert found.wheel_scale_sigma < 0.02


def test_steering_is_learnt_from_headings_without_a_gyro():
    class Deaf(SingleTrackIdentifier):
        """Receives everything but the gyro."""

        def observe(self, message: Message) -> None:
            if not isinstance(message, ImuSample):
                super().observe(message)

    deaf = Deaf(SingleTrackIdentifier.Params(), BELIEVED)
    drill = Drill(Truth(gain_rad=0.225, misalignment_rad=0.12), deaf)
    drill.drive(40.0, weave)
    assert drill.known.steering_gain_rad == pytest.approx(0.225, rel=0.06)
    assert drill.known.steering_delay_s == pytest.approx(0.3, abs=0.05)


def test_the_believed_yaw_rate_is_not_believed():
    """The estimate's yaw rate rests on the assumed steering without gyro and heading, and would
    confirm any assumption."""
    identified = identifier()
    for k in range(1000):
        now = 1_000_000_000 + 20_000_000 * k
        wheel = 0.3 * sin(0.02 * k)
        identified.command(ActuatorCommand(now, now, 0.5, 0.0, wheel / 0.335, wheel))
        estimate = StateEstimate(
            now, now, 0.02 * k, 0.0, 0.0, 1.0, wheel, CALM, EstimatorStatus.RUNNING
        )
        found = identified.step(estimate, now)
        assert found is None or not isfinite(found.steering_gain_sigma_rad)


def test_reports_at_most_twice_a_second_and_only_changes():
    drill = Drill(Truth(gain_rad=0.2), identifier())
    drill.drive(60.0, weave)
    times = [found.t_ns for found in drill.results]
    assert all(b - a >= 500_000_000 for a, b in pairwise(times))
    results = len(drill.results)
    drill.drive(30.0, lambda t: 0.0)
    assert len(drill.results) - results < 40


def test_starts_warm():
    drill = Drill(Truth(), identifier())
    drill.drive(2.0, weave)
    first = drill.results[0]
    assert first.steering_gain_rad == pytest.approx(BELIEVED.steering.gain_rad, rel=0.25)
    assert first.steering_delay_s == pytest.approx(BELIEVED.steering.delay_s, abs=0.05)
    assert first.heading_misalignment_rad == 0.0
    assert not isfinite(first.wheel_scale_sigma)


def test_a_right_profile_is_left_alone():
    drill = Drill(
        Truth(authority_mps2=2.536, damping_per_s=0.658, friction_mps2=0.563), identifier()
    )
    drill.drive(60.0, weave)
    vehicle = BELIEVED.identified(drill.known)
    for command in (-0.8, -0.3, 0.3, 0.8):
        believed = BELIEVED.steering.wheel_angle_rad(command)
        assert vehicle.steering.wheel_angle_rad(command) == pytest.approx(believed, abs=0.012)
    assert vehicle.drive.steady_throttle(1.2) == pytest.approx(
        BELIEVED.drive.steady_throttle(1.2), abs=0.05
    )


def test_switched_off_is_not_identified():
    drill = Drill(Truth(gain_rad=0.2), identifier(steering=False, drive=False))
    drill.drive(30.0, weave)
    assert not isfinite(drill.known.steering_gain_sigma_rad)
    assert not isfinite(drill.known.drive_authority_sigma_mps2)
    vehicle = BELIEVED.identified(drill.known)
    assert vehicle.steering == BELIEVED.steering
    assert vehicle.drive.stall_torque_nm == BELIEVED.drive.stall_torque_nm


def test_stamps_from_the_future_do_not_lock_out_the_rest():
    drill = Drill(Truth(gain_rad=0.225), identifier())
    drill.drive(2.0, weave)
    far = 10**15
    drill.identifier.observe(ImuSample(far, far, (nan, nan, nan), (0.0, 0.0, 0.1)))
    drill.identifier.observe(Heading(far, far, 0.0, NAN))
    drill.identifier.command(ActuatorCommand(far, far, 0.5, 0.0, 0.5, 0.1))
    drill.drive(40.0, weave)
    assert drill.known.steering_gain_rad == pytest.approx(0.225, rel=0.05)


def test_the_identified_vehicle_has_the_learnt_wheel_angle():
    drill = Drill(Truth(gain_rad=0.2), identifier())
    drill.drive(30.0, weave)
    vehicle = BELIEVED.identified(drill.known)
    assert vehicle.steering.max_wheel_rad == pytest.approx(0.2, abs=0.03)
    # The full command stays within reach on both sides.
    assert vehicle.steering.command(vehicle.steering.max_wheel_rad) == pytest.approx(1.0, abs=0.15)
    assert vehicle.steering.command(-vehicle.steering.max_wheel_rad) == -1.0
