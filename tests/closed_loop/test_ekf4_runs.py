"""The 4-DOF filter on simulated drives: outage, latency, outliers, alignment, standing still."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.vehicles import DRIVE, make_vehicle
from vehicled.core.messages import (
    NAN3,
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    StateEstimate,
)
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(drive=DRIVE)
DATUM = Datum(0.7517, -1.5605, 260.0)
MS = 1_000_000
SIGMA_M = 0.015


@dataclass
class Drive20s:
    """A weaving drive at 1.2 m/s, simulated at 1 ms with the true delays, slew and sensor
    latencies."""

    params: Ekf4Params = field(default_factory=Ekf4Params)
    seconds: float = 20.0
    fix_latency_ms: int = 60
    gyro_bias: float = 0.0
    with_gyro: bool = True
    with_heading: bool = True
    with_velocity: bool = True
    starts_after_s: float = 1.0
    fix: Callable[[float, float, float], tuple[float, float] | None] = lambda t, e, n: (e, n)
    throttle_share: float = 1.0
    """True drive over believed drive."""
    estimates: list[StateEstimate] = field(default_factory=list)
    truths: list[tuple[float, float, float, float]] = field(default_factory=list)

    def run(self) -> "Drive20s":
        rng = np.random.default_rng(5)
        ekf = self.ekf = Ekf4(self.params, VEHICLE, DATUM, (0.2, 0.0, 0.3))
        x, y, yaw, v, wheel = 2.0, 1.0, 0.4, 0.0, 0.0
        due: list[tuple[int, Message]] = []
        sent: list[tuple[float, float]] = [(0.0, 0.0)]
        for ms in range(int(self.seconds * 1000)):
            t = ms * 1e-3
            command = sent[max(0, (ms - 400) // 20)] if ms >= 400 else (0.0, 0.0)
            drive = sent[max(0, (ms - 100) // 20)] if ms >= 100 else (0.0, 0.0)
            wheel += min(max(command[1] - wheel, -0.67e-3), 0.67e-3)
            rate = v * math.tan(wheel) / 0.5
            x = x + v * math.cos(yaw) * 1e-3
            y = y + v * math.sin(yaw) * 1e-3
            yaw = yaw + rate * 1e-3
            v = max(0.0, v + 1e-3 * DRIVE.acceleration_mps2(drive[0] * self.throttle_share, v))
            stamp = (ms + 1) * MS
            if ms % 5 == 4 and self.with_gyro:
                gyro = rate + self.gyro_bias + 0.002 * rng.standard_normal()
                due.append((stamp, ImuSample(stamp, stamp, (0.0, 0.0, 9.81), (0.0, 0.0, gyro))))
            if ms % 50 == 9 and self.with_heading:
                measured = yaw + 0.01 * rng.standard_normal()
                due.append((stamp + 5 * MS, Heading(stamp, stamp + 5 * MS, measured, 0.01)))
            if ms % 100 == 19:
                arm_x, arm_y = 0.2 * math.cos(yaw), 0.2 * math.sin(yaw)
                place = self.fix(
                    t,
                    x + arm_x + SIGMA_M * rng.standard_normal(),
                    y + arm_y + SIGMA_M * rng.standard_normal(),
                )
                if place is not None:
                    lat, lon, h = DATUM.to_geodetic(*place, 0.3)
                    noise = 0.03 * rng.standard_normal(2)
                    velocity = (
                        v * math.cos(yaw) - rate * arm_y + noise[0],
                        v * math.sin(yaw) + rate * arm_x + noise[1],
                        0.0,
                    )
                    cov = (SIGMA_M**2, 0.0, 0.0, 0.0, SIGMA_M**2, 0.0, 0.0, 0.0, 1.0)
                    arrives = stamp + self.fix_latency_ms * MS
                    spread = (9e-4, 0.0, 0.0, 0.0, 9e-4, 0.0, 0.0, 0.0, 1.0)
                    moved = velocity if self.with_velocity else NAN3
                    due.append(
                        (
                            arrives,
                            GnssFix(
                                stamp,
                                arrives,
                                lat,
                                lon,
                                h,
                                moved,
                                cov,
                                spread,
                                FixType.FIX_3D,
                                CarrierSolution.FIXED,
                            ),
                        )
                    )
            if ms % 5 == 4:
                due.sort(key=lambda entry: entry[0])
                while due and due[0][0] <= stamp:
                    ekf.observe(due.pop(0)[1])
                self.estimates.append(ekf.step(stamp))
                self.truths.append((x, y, yaw, v))
            if ms % 20 == 19:
                moving = t > self.starts_after_s
                throttle = DRIVE.steady_throttle(1.2) if moving else 0.0
                sent.append((throttle, 0.25 * math.sin(0.8 * t) if moving else 0.0))
                ekf.command(ActuatorCommand(stamp, stamp, sent[-1][0], 0.0, 0.0, sent[-1][1]))
        return self

    def errors(
        self, since_s: float, until_s: float = math.inf
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Rows: distance, yaw, speed error in absolute value."""
        rows = []
        for k, (e, q) in enumerate(zip(self.estimates, self.truths, strict=True)):
            if since_s <= k * 0.005 < until_s:
                yaw = abs(math.remainder(e.yaw_rad - q[2], math.tau))
                rows.append((math.hypot(e.x_m - q[0], e.y_m - q[1]), yaw, abs(e.speed_mps - q[3])))
        return np.array(rows).T


def test_tracks_position_yaw_and_speed_better_than_the_sensors_do() -> None:
    drive = Drive20s().run()
    distance, yaw, speed = drive.errors(3.0)
    assert math.sqrt((distance**2).mean()) < SIGMA_M * math.sqrt(2.0)
    assert math.sqrt((yaw**2).mean()) < 0.01
    assert math.sqrt((speed**2).mean()) < 0.03
    assert drive.estimates[-1].status is EstimatorStatus.RUNNING
    assert drive.ekf.late == drive.ekf.ignored == 0
    assert drive.estimates[-1].rejected <= 3


def test_speed_is_known_without_wheel_sensor_when_the_drive_is_believed_wrong() -> None:
    drive = Drive20s(throttle_share=0.8).run()
    assert math.sqrt((drive.errors(4.0)[2] ** 2).mean()) < 0.1


def test_latency_does_not_become_a_lag() -> None:
    """Three fixes overlap at 0.3 s latency and 10 Hz: neither a lag of 0.36 m nor a double
    correction may result."""
    drive = Drive20s(fix_latency_ms=300).run()
    distance = drive.errors(3.0)[0]
    assert math.sqrt((distance**2).mean()) < 2.5 * SIGMA_M


def test_fixes_older_than_the_history_are_refused_and_counted() -> None:
    drive = Drive20s(fix_latency_ms=600, seconds=3.0).run()
    assert drive.ekf.late > 15
    assert drive.estimates[-1].status is EstimatorStatus.UNINITIALISED
    assert math.isnan(drive.estimates[-1].x_m)


def test_three_seconds_without_gnss_are_bridged() -> None:
    def outage(t: float, e: float, n: float) -> tuple[float, float] | None:
        return None if 10.0 <= t < 13.0 else (e, n)

    drive = Drive20s(fix=outage).run()
    during = drive.estimates[int(12.9 / 0.005)]
    assert during.status is EstimatorStatus.RUNNING
    distance = drive.errors(10.0, 13.0)[0]
    assert distance.max() < 0.25
    sigma = math.sqrt(during.covariance[0] + during.covariance[5])
    assert 0.5 * distance.max() < 3.0 * sigma, "the filter knows that it knows less"
    assert drive.errors(14.0)[0].max() < 0.06
    assert drive.estimates[-1].rejected <= 3


def test_without_gyro_and_heading_the_course_over_ground_aligns_and_holds() -> None:
    """The weave turns at up to 0.6 rad/s while the wheel angle is known only as a command."""
    drive = Drive20s(with_gyro=False, with_heading=False).run()
    statuses = [e.status for e in drive.estimates]
    assert statuses[100] is EstimatorStatus.UNINITIALISED
    order = [s for k, s in enumerate(statuses) if k == 0 or s is not statuses[k - 1]]
    assert order == [
        EstimatorStatus.UNINITIALISED,
        EstimatorStatus.ALIGNING,
        EstimatorStatus.RUNNING,
    ]
    distance, yaw, _ = drive.errors(5.0)
    assert math.sqrt((distance**2).mean()) < 0.04
    assert math.sqrt((yaw**2).mean()) < 0.05


def test_single_outliers_are_rejected() -> None:
    def outlier(t: float, e: float, n: float) -> tuple[float, float] | None:
        return (e + 3.0, n) if round(t * 10) % 20 == 0 and t > 5.0 else (e, n)

    drive = Drive20s(fix=outlier).run()
    assert drive.errors(3.0)[0].max() < 0.1
    assert 7 <= drive.estimates[-1].rejected <= 12


def test_a_lasting_jump_is_believed_in_the_end_and_reported_meanwhile() -> None:
    def jump(t: float, e: float, n: float) -> tuple[float, float] | None:
        return (e + 2.0, n) if t > 10.0 else (e, n)

    drive = Drive20s(fix=jump, params=Ekf4Params(max_rejections=5)).run()
    assert drive.errors(10.2, 10.5)[0].max() < 0.2, "not at once"
    settled = drive.errors(12.0)[0]
    assert abs(settled - 2.0).max() < 0.15
    statuses = [e.status for e in drive.estimates]
    doubted = [
        k * 0.005 for k, s in enumerate(statuses) if s is not EstimatorStatus.RUNNING and k > 1000
    ]
    assert 10.4 < min(doubted) < 10.9
    assert statuses[-1] is EstimatorStatus.RUNNING


def test_without_the_gate_an_outlier_goes_through() -> None:
    def outlier(t: float, e: float, n: float) -> tuple[float, float] | None:
        return (e + 3.0, n) if 10.0 <= t < 10.1 else (e, n)

    assert (
        Drive20s(fix=outlier, seconds=11.0, params=Ekf4Params(gate=False))
        .run()
        .errors(10.0)[0]
        .max()
        > 0.3
    )


def test_gyro_bias_is_learnt_while_standing() -> None:
    drive = Drive20s(gyro_bias=0.02, starts_after_s=5.0, seconds=12.0).run()
    assert drive.ekf.gyro_bias_radps == pytest.approx(0.02, abs=0.001)
    assert drive.errors(7.0)[1].max() < 0.03


def test_stands_still_at_rest() -> None:
    drive = Drive20s(starts_after_s=1e9, seconds=8.0).run()
    distance, yaw, speed = drive.errors(2.0)
    assert speed.max() < 0.1
    assert distance.max() < 4 * SIGMA_M
    assert yaw.max() < 0.05, (
        "the noise of one heading, because more of a drifting one count for nothing"
    )


def test_lost_gnss_ends_in_diverged_and_a_long_pause_in_a_new_start() -> None:
    drive = Drive20s(
        fix=lambda t, e, n: (e, n) if t < 5.0 else None, with_gyro=False, seconds=19.0
    ).run()
    ekf = drive.ekf
    limit = Ekf4Params().max_position_sigma_m
    for estimate in drive.estimates:
        sigma = math.sqrt(estimate.covariance[0] + estimate.covariance[5])
        assert (estimate.status is EstimatorStatus.DIVERGED) == (sigma > limit)
    now_ns = drive.estimates[-1].t_ns
    while ekf.step(now_ns).status is EstimatorStatus.RUNNING:
        now_ns += 20 * MS
        assert now_ns < drive.estimates[-1].t_ns + 200_000 * MS
    assert ekf.step(now_ns).status is EstimatorStatus.DIVERGED
    assert ekf.step(now_ns + 2_000 * MS).status is EstimatorStatus.UNINITIALISED
    assert ekf.restarts == 1


def test_newest_input_is_the_newest_measurement_that_entered() -> None:
    drive = Drive20s(with_gyro=False, with_heading=True, seconds=4.0).run()
    for estimate in drive.estimates[100:]:
        assert 0 <= estimate.t_ns - estimate.newest_input_ns <= 60 * MS
    ages = {estimate.t_ns - estimate.newest_input_ns for estimate in drive.estimates[100:]}
    assert max(ages) >= 40 * MS, "without the gyro, age grows between headings"
