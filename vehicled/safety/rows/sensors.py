"""Rows of the failsafe matrix about what is sensed: GNSS, IMU, the estimate, obstacles."""

from math import isfinite, nan

from vehicled.messages import EstimatorStatus, GnssFix, ImuSample, LaserScan, Message, ObstacleRange, Reaction, StateEstimate
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.yaw import FIXES, READINGS
from vehicled.safety.rule import Clear, Row, Rule
from vehicled.vehicle import STANDSTILL_MPS


def is_finite(estimate: StateEstimate) -> bool:
    """Whether pose, speed and variance of the position are numbers."""
    covariance = estimate.covariance
    return isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps + covariance[0] + covariance[5])


def _not_started(s: SafetyInputs) -> bool:
    """Whether the estimator waits for a heading, and the drive does not rest on it."""
    waits = s.estimate is not None and s.estimate.status is EstimatorStatus.UNINITIALISED
    return waits and s.watch.alignment.without_heading


def _silent(s: SafetyInputs, kind: type[Message], limit_s: float) -> bool:
    """Whether a stream that the profile promises has been silent for too long."""
    sources = s.watch.sources
    return sources.promised(kind) and sources.age_ns(kind, s.now_ns) > limit_s * 1e9


def _sigma_m(s: SafetyInputs) -> float:
    """Larger horizontal standard deviation of the estimate; NaN without one."""
    if s.estimate is None:
        return nan
    variance = max(s.estimate.covariance[0], s.estimate.covariance[5])
    return variance**0.5 if variance >= 0.0 else nan


def _cap_by_sigma_mps(s: SafetyInputs) -> float:
    """Speed that shrinks to the walking pace as the position's sigma grows to a third of the corridor."""
    sigma, third = _sigma_m(s), s.limits.corridor_m / 3.0
    room = 0.0 if not isfinite(sigma) else max(0.0, 1.0 - sigma / third)
    return max(s.limits.capped_speed_mps, s.limits.max_speed_mps * room)


ROWS: tuple[Row, ...] = (
    Row(
        number=8,
        fault="GNSS is silent",
        detector="age of the last fix",
        reaction="the estimate goes on by prediction, the speed is capped; row 11 limits how far",
        rules=(
            Rule(
                code="gnss_silent",
                reaction=Reaction.CAP_SPEED,
                holds=lambda s: _silent(s, GnssFix, s.limits.gnss_silence_s),
                reason=lambda s: f"no GNSS fix for {s.limits.gnss_silence_s:.1f} s: predicting",
                detect_ms=500.0,
                persist_ms=50.0,
                react_ms=600.0,
                clear=Clear.ITSELF,
                # Twice the silence that trips it: a receiver that gives a fix now and then is one episode, and one cap.
                clear_ms=1000.0,
            ),
        ),
    ),
    Row(
        number=9,
        fault="RTK falls from fixed to float or single",
        detector="carrier solution of the fixes",
        reaction="the speed is capped as the estimate's sigma grows; after the profile's time a controlled stop",
        rules=(
            Rule(
                code="rtk_lost",
                reaction=Reaction.CAP_SPEED,
                holds=lambda s: s.watch.gnss.degraded_since_ns is not None,
                reason=lambda s: f"RTK is {s.watch.gnss.carrier.name.lower().replace('none', 'lost')}, it was fixed",
                detect_ms=150.0,
                persist_ms=300.0,
                react_ms=600.0,
                clear=Clear.ITSELF,
                cap_mps=_cap_by_sigma_mps,
            ),
            Rule(
                code="rtk_lost_long",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.gnss.degraded_s(s.now_ns) > s.limits.rtk_lost_stop_s,
                reason=lambda s: f"RTK has not been fixed for {s.limits.rtk_lost_stop_s:.0f} s",
                detect_ms=0.0,
                persist_ms=100.0,
                react_ms=300.0,
            ),
        ),
    ),
    Row(
        number=10,
        fault="GNSS jumps or is jammed",
        detector="the estimator's gate; positions that repeat themselves",
        reaction="refused fixes do not enter; five in a row stop the vehicle; what is believed later is slewed to",
        rules=(
            Rule(
                code="gnss_refused",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.gnss.rejected_in_a_row >= s.limits.gnss_refusals,
                reason=lambda s: f"{s.watch.gnss.rejected_in_a_row} fixes in a row contradict the estimate",
                detect_ms=500.0,
                persist_ms=10.0,
                react_ms=700.0,
            ),
            Rule(
                code="gnss_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.gnss.same_in_a_row >= s.limits.gnss_refusals,
                reason=lambda s: f"{s.watch.gnss.same_in_a_row} fixes in a row say the same place, and the vehicle moves",
                detect_ms=500.0,
                persist_ms=10.0,
                react_ms=700.0,
            ),
        ),
        devices=("gnss_jamming",),
    ),
    Row(
        number=11,
        fault="the estimator diverges, or is not finite",
        detector="covariance and finiteness of the estimate; heading, gyro and course over ground against each other",
        reaction="controlled stop; NaN brakes in the same tick",
        rules=(
            Rule(
                code="estimate_not_finite",
                reaction=Reaction.BRAKE,
                holds=lambda s: s.estimate is not None and not is_finite(s.estimate) and not _not_started(s),
                reason=lambda s: "the state estimate is not finite",
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=20.0,
            ),
            Rule(
                code="estimator_diverged",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: (
                    s.estimate is not None
                    and s.estimate.status is EstimatorStatus.DIVERGED
                    # An old heading may be as unknown as none: this drive is to find it.
                    and not (s.watch.alignment.active and s.watch.alignment.without_heading)
                ),
                reason=lambda s: "the estimator has diverged",
                detect_ms=0.0,
                persist_ms=50.0,
                react_ms=100.0,
            ),
            Rule(
                code="position_uncertain",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: _sigma_m(s) > s.limits.corridor_m / 3.0,
                reason=lambda s: f"position known to {_sigma_m(s):.2f} m only (limit {s.limits.corridor_m / 3.0:.2f} m)",
                detect_ms=0.0,
                persist_ms=100.0,
                react_ms=200.0,
            ),
            Rule(
                code="heading_against_gyro",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.yaw.parted_in_a_row >= READINGS,
                reason=lambda s: f"heading and gyro have parted by {s.watch.yaw.parted_rad:+.2f} rad",
                detect_ms=700.0,
                persist_ms=10.0,
                react_ms=1000.0,
            ),
            Rule(
                code="heading_against_course",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.yaw.aside_in_a_row >= FIXES,
                reason=lambda s: f"the heading is {s.watch.yaw.aside_rad:+.2f} rad off the course over ground",
                detect_ms=600.0,
                persist_ms=10.0,
                react_ms=800.0,
            ),
            Rule(
                code="heading_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.yaw.heading_stuck,
                reason=lambda s: "the heading repeats itself while the vehicle turns",
                detect_ms=600.0,
                persist_ms=10.0,
                react_ms=800.0,
            ),
        ),
    ),
    Row(
        number=12,
        fault="the IMU is silent, stuck, saturated or biased",
        detector="age, change and range of its samples; the course over ground; mean rate at rest before arming",
        reaction="controlled stop",
        rules=(
            Rule(
                code="imu_silent",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: _silent(s, ImuSample, s.limits.imu_silence_s),
                reason=lambda s: f"no IMU sample for {s.limits.imu_silence_s * 1e3:.0f} ms",
                detect_ms=50.0,
                persist_ms=30.0,
                react_ms=150.0,
            ),
            Rule(
                code="imu_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.inertial.stuck,
                reason=lambda s: "accelerometer and gyro have not changed for 0.5 s",
                detect_ms=500.0,
                persist_ms=10.0,
                react_ms=600.0,
            ),
            Rule(
                code="imu_saturated",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.inertial.saturated_ns(s.now_ns) > s.limits.imu_silence_s * 1e9,
                reason=lambda s: f"the IMU has been at the end of its range for {s.limits.imu_silence_s * 1e3:.0f} ms",
                detect_ms=50.0,
                persist_ms=50.0,
                react_ms=150.0,
            ),
            Rule(
                code="gyro_against_course",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: s.watch.yaw.gyro_aside_in_a_row >= FIXES,
                reason=lambda s: f"course over ground and gyro have parted by {s.watch.yaw.gyro_aside_rad:+.2f} rad",
                detect_ms=1200.0,
                persist_ms=10.0,
                react_ms=1500.0,
            ),
        ),
        devices=("imu_stuck",),
    ),
    Row(
        number=23,
        fault="something stands in the lane, or the sensor of obstacles is silent",
        detector="ranges and scans against the lane that the vehicle will sweep; their age",
        reaction="speed capped while there is room to roll out, then a controlled stop before it; silence counts as an obstacle",
        rules=(
            Rule(
                code="obstacle_in_sight",
                reaction=Reaction.CAP_SPEED,
                holds=lambda s: s.watch.obstacle.cap_mps < min(abs(s.speed_mps) + 0.3, s.limits.max_speed_mps),
                reason=lambda s: f"something stands {s.watch.obstacle.free_m:.1f} m ahead: slower",
                # Two readings of 20 Hz, the sweep of the scanner and its latency.
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
                clear=Clear.ITSELF,
                clear_ms=500.0,
                cap_mps=lambda s: s.watch.obstacle.cap_mps,
            ),
            Rule(
                code="obstacle_ahead",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: (
                    s.watch.stopping.distance_m >= s.watch.obstacle.free_m - s.limits.obstacle_gap_m and s.watch.obstacle.drives(s)
                ),
                reason=lambda s: (
                    f"obstacle ahead: something stands {s.watch.obstacle.free_m:.2f} m before the vehicle, "
                    f"and a stop takes {s.watch.stopping.distance_m:.2f} m"
                ),
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
            ),
            Rule(
                code="obstacle_too_near",
                reaction=Reaction.BRAKE,
                holds=lambda s: s.watch.stopping.distance_m > s.watch.obstacle.free_m and abs(s.speed_mps) > STANDSTILL_MPS,
                reason=lambda s: (
                    f"obstacle ahead: something stands {s.watch.obstacle.free_m:.2f} m before the vehicle, "
                    f"nearer than the {s.watch.stopping.distance_m:.2f} m of a controlled stop"
                ),
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
            ),
            Rule(
                code="obstacle_sensor_silent",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: any(_silent(s, kind, s.limits.obstacle_silence_s) for kind in (ObstacleRange, LaserScan)),
                reason=lambda s: f"nothing heard of obstacles for {s.limits.obstacle_silence_s:.1f} s: taken as one",
                detect_ms=300.0,
                persist_ms=10.0,
                react_ms=400.0,
            ),
            Rule(
                code="obstacle_sensor_blind",
                reaction=Reaction.CONTROLLED_STOP,
                holds=lambda s: bool(s.watch.obstacle.blind),
                reason=lambda s: f"{s.watch.obstacle.blind}: taken as an obstacle",
                # Three scans of 20 Hz.
                detect_ms=200.0,
                persist_ms=10.0,
                react_ms=350.0,
            ),
        ),
    ),
)
