"""Rows of the failsafe matrix about sensors: GNSS, IMU, the state estimate, obstacles."""

from math import degrees, hypot, isfinite, nan

from vehicled.core.messages import (
    EstimatorStatus,
    GnssFix,
    ImuSample,
    LaserScan,
    Message,
    Mode,
    ObstacleRange,
    Reaction,
    StateEstimate,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.climb import FIXES as CLIMBS
from vehicled.safety.monitors.consistency import BEYOND_REFUSALS
from vehicled.safety.monitors.felt import WHEEL_DOUBT
from vehicled.safety.monitors.yaw import FIXES, READINGS
from vehicled.safety.rule import Clear, Row, Rule, RuleInputs, Sense, seconds

UNMEASURED = "speed_unmeasured"
"""Rule under which the command gate holds the throttle."""


def is_finite(estimate: StateEstimate) -> bool:
    """Return True if pose, speed and their covariance are finite."""
    return isfinite(
        estimate.x_m
        + estimate.y_m
        + estimate.yaw_rad
        + estimate.speed_mps
        + sum(estimate.covariance)
    )


def _not_started(s: RuleInputs) -> bool:
    """Return True if the estimator still waits for a heading and the present drive does not use
    one."""
    waits = s.estimate is not None and s.estimate.status is EstimatorStatus.UNINITIALISED
    return waits and s.monitors.alignment.without_heading


def _silence_s(s: RuleInputs, *kinds: type[Message]) -> float:
    """Return the longest age among the streams that the profile declares, s; NaN if it declares
    none of them."""
    sources = s.monitors.sources
    ages_s = [seconds(sources.age_ns(kind, s.now_ns)) for kind in kinds if sources.promised(kind)]
    return max(ages_s, default=nan)


def _seen(s: RuleInputs, value: float) -> float:
    """Return a value of the obstacle monitor: infinite if the lane is clear, NaN if no sensor sees
    it."""
    return value if isfinite(value) or s.monitors.obstacle.sees else nan


def _cap_by_sigma_mps(s: RuleInputs) -> float:
    """Return the speed cap, m/s: it falls to ``capped_speed_mps`` as sigma grows to a third of the
    corridor."""
    sigma, third = s.position_sigma_m, s.limits.corridor_m / 3.0
    room = 0.0 if not isfinite(sigma) else max(0.0, 1.0 - sigma / third)
    return max(s.limits.capped_speed_mps, s.limits.max_speed_mps * room)


def _position_doubt_m(s: RuleInputs) -> float:
    """Return the standard deviation of the position, m, with that of the way by the wheels since
    the last fix: a filter believes in their scale."""
    return hypot(s.position_sigma_m, WHEEL_DOUBT * s.monitors.motion.felt.unplaced_m)


ROWS: tuple[Row, ...] = (
    Row(
        number=8,
        fault="GNSS is silent",
        detector="age of the last fix, and of the last speed that anything measured",
        reaction=(
            "the estimate goes on by prediction, the speed is capped; row 11 limits how far; "
            "without a measured speed the last one is not exceeded, the throttle is at most what "
            "holds it, and later a controlled stop"
        ),
        rules=(
            Rule(
                code="gnss_silent",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: _silence_s(s, GnssFix),
                limit=lambda s: s.limits.gnss_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no GNSS fix for {s.limits.gnss_silence_s:.1f} s"
                    f"{s.monitors.sources.trouble(GnssFix)}: predicting"
                ),
                detect_ms=500.0,
                persist_ms=50.0,
                react_ms=600.0,
                clear=Clear.ITSELF,
                # Twice the timeout that trips it: a receiver with sparse fixes then causes one cap
                # and not many.
                clear_ms=1000.0,
            ),
            Rule(
                code=UNMEASURED,
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.speed.unmeasured,
                reason=lambda s: (
                    "neither wheels nor GNSS measure the speed: not faster than "
                    f"{s.monitors.speed.held_mps:.2f} m/s, and no more throttle than that needs"
                ),
                detect_ms=500.0,
                persist_ms=50.0,
                react_ms=600.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
                modes=DRIVING - {Mode.TELEOP},
                cap_mps=lambda s: min(s.limits.capped_speed_mps, s.monitors.speed.held_mps),
            ),
            Rule(
                code="speed_unmeasured_long",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.speed.doubt_m,
                limit=lambda s: s.limits.corridor_m,
                unit="m",
                reason=lambda s: (
                    "without a measured speed the place along the course may be wrong by "
                    f"{s.monitors.speed.doubt_m:.2f} m (limit {s.limits.corridor_m:.2f} m)"
                ),
                # At half a metre per second; a faster vehicle stops earlier.
                detect_ms=9000.0,
                persist_ms=10.0,
                react_ms=9100.0,
                modes=DRIVING - {Mode.TELEOP},
            ),
        ),
    ),
    Row(
        number=9,
        fault="RTK falls from fixed to float or single",
        detector="carrier solution of the fixes",
        reaction=(
            "the speed is capped as the estimate's sigma grows; after the profile's time a "
            "controlled stop"
        ),
        rules=(
            Rule(
                code="rtk_lost",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.gnss.degraded_since_ns is not None,
                reason=lambda s: (
                    f"RTK is {s.monitors.gnss.carrier.name.lower().replace('none', 'lost')}, "
                    "it was fixed"
                ),
                detect_ms=150.0,
                persist_ms=300.0,
                react_ms=600.0,
                clear=Clear.ITSELF,
                cap_mps=_cap_by_sigma_mps,
            ),
            Rule(
                code="rtk_lost_long",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.gnss.degraded_s(s.now_ns),
                limit=lambda s: s.limits.rtk_lost_stop_s,
                unit="s",
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
        reaction=(
            "refused fixes do not enter; five in a row stop the vehicle; what is believed "
            "later is slewed to"
        ),
        rules=(
            Rule(
                code="gnss_refused",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.gnss.rejected_in_a_row,
                limit=lambda s: s.limits.gnss_refusals,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"{s.monitors.gnss.rejected_in_a_row} fixes in a row contradict the estimate"
                ),
                detect_ms=500.0,
                persist_ms=10.0,
                react_ms=700.0,
            ),
            Rule(
                code="gnss_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.gnss.same_in_a_row,
                limit=lambda s: s.limits.gnss_refusals,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"{s.monitors.gnss.same_in_a_row} fixes in a row repeat one position while "
                    "the vehicle moves"
                ),
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
        detector=(
            "covariance and finiteness of the estimate; its place and speed against the raw "
            "fixes, its place against its own motion; heading, gyro and course over ground "
            "against each other"
        ),
        reaction="controlled stop; NaN brakes in the same tick",
        rules=(
            Rule(
                code="estimate_not_finite",
                reaction=Reaction.BRAKE,
                value=lambda s: (
                    s.estimate is not None and not is_finite(s.estimate) and not _not_started(s)
                ),
                reason=lambda s: "the state estimate is not finite",
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=20.0,
            ),
            Rule(
                code="estimator_diverged",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: (
                    s.estimate is not None
                    and s.estimate.status is EstimatorStatus.DIVERGED
                    # An old heading may be as uncertain as none; the alignment drive is there to
                    # find it.
                    and not (s.monitors.alignment.active and s.monitors.alignment.without_heading)
                ),
                reason=lambda s: "the estimator has diverged",
                detect_ms=0.0,
                persist_ms=50.0,
                react_ms=100.0,
            ),
            Rule(
                code="position_uncertain",
                reaction=Reaction.CONTROLLED_STOP,
                value=_position_doubt_m,
                limit=lambda s: s.limits.corridor_m / 3.0,
                unit="m",
                reason=lambda s: (
                    f"position known to {_position_doubt_m(s):.2f} m only (limit "
                    f"{s.limits.corridor_m / 3.0:.2f} m)"
                ),
                detect_ms=0.0,
                persist_ms=100.0,
                react_ms=200.0,
            ),
            Rule(
                code="place_against_gnss",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.consistency.places_in_a_row,
                limit=lambda s: s.limits.gnss_refusals + BEYOND_REFUSALS,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"fixes are {s.monitors.consistency.apart_m:.2f} m from the estimate, more "
                    "than both declare of their errors"
                ),
                detect_ms=900.0,
                persist_ms=10.0,
                react_ms=1100.0,
            ),
            Rule(
                code="place_jumped",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.consistency.jumped_m,
                limit=lambda s: s.limits.corridor_m / 3.0,
                unit="m",
                reason=lambda s: (
                    f"the place has jumped by {s.monitors.consistency.jumped_m:.2f} m against "
                    "the motion"
                ),
                detect_ms=0.0,
                persist_ms=50.0,
                react_ms=100.0,
                # Driven by hand the place is not used.
                modes=frozenset({Mode.AUTO, Mode.OFFBOARD, Mode.STOPPING}),
            ),
            Rule(
                code="speed_against_gnss",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.consistency.speeds_in_a_row,
                limit=lambda s: s.limits.gnss_refusals + BEYOND_REFUSALS,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"the speed of the fixes is {s.monitors.consistency.apart_mps:+.2f} m/s off "
                    "the estimate, more than noise and latency explain"
                ),
                detect_ms=900.0,
                persist_ms=10.0,
                react_ms=1100.0,
            ),
            Rule(
                code="heading_against_gyro",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.yaw.parted_in_a_row,
                limit=lambda s: READINGS,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: f"heading and gyro differ by {s.monitors.yaw.parted_rad:+.2f} rad",
                detect_ms=700.0,
                persist_ms=10.0,
                react_ms=1000.0,
            ),
            Rule(
                code="heading_against_course",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.yaw.aside_in_a_row,
                limit=lambda s: FIXES,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"the heading is {s.monitors.yaw.aside_rad:+.2f} rad off the course over ground"
                ),
                detect_ms=600.0,
                persist_ms=10.0,
                react_ms=800.0,
            ),
            Rule(
                code="heading_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.yaw.heading_stuck,
                reason=lambda s: "the heading repeats itself while the vehicle turns",
                detect_ms=600.0,
                persist_ms=10.0,
                react_ms=800.0,
            ),
        ),
    ),
    Row(
        number=12,
        fault="the IMU is silent, stuck, saturated, biased or turned",
        detector=(
            "age, change and range of its samples; the course over ground, or while there is "
            "none speed and wheel angle; the way that the fixes climb; mean rate and direction "
            "of gravity at rest before arming"
        ),
        reaction="controlled stop",
        rules=(
            Rule(
                code="imu_silent",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: _silence_s(s, ImuSample),
                limit=lambda s: s.limits.imu_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no IMU sample for {s.limits.imu_silence_s * 1e3:.0f} ms"
                    f"{s.monitors.sources.trouble(ImuSample)}"
                ),
                detect_ms=50.0,
                persist_ms=30.0,
                react_ms=150.0,
            ),
            Rule(
                code="imu_stuck",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.inertial.stuck,
                reason=lambda s: "accelerometer and gyro have not changed for 0.5 s",
                detect_ms=500.0,
                persist_ms=10.0,
                react_ms=600.0,
            ),
            Rule(
                code="imu_saturated",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: seconds(s.monitors.inertial.saturated_ns(s.now_ns)),
                limit=lambda s: s.limits.imu_silence_s,
                unit="s",
                reason=lambda s: (
                    "the IMU has been at the end of its range for "
                    f"{s.limits.imu_silence_s * 1e3:.0f} ms"
                ),
                detect_ms=50.0,
                persist_ms=50.0,
                react_ms=150.0,
            ),
            Rule(
                code="imu_tilted",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.climb.tilted_in_a_row,
                limit=lambda s: CLIMBS,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"the IMU points {degrees(s.monitors.climb.tilted_rad):+.0f} degrees off the "
                    f"way that the heights of the fixes climb: {s.monitors.climb.remedy}"
                ),
                # After 5 m and five more fixes, at half a metre per second.
                detect_ms=12_500.0,
                persist_ms=10.0,
                react_ms=12_700.0,
            ),
            Rule(
                code="gyro_against_course",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.yaw.gyro_aside_in_a_row,
                limit=lambda s: FIXES,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    "course over ground and gyro differ by "
                    f"{s.monitors.yaw.gyro_aside_rad:+.2f} rad"
                ),
                detect_ms=1200.0,
                persist_ms=10.0,
                react_ms=1500.0,
            ),
            Rule(
                code="gyro_against_steering",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: seconds(s.monitors.yaw.steering_aside_ns),
                limit=lambda s: 0.0,
                unit="s",
                reason=lambda s: (
                    f"gyro and steering differ by {s.monitors.yaw.steering_aside_rad:+.2f} rad, "
                    "and neither a heading nor a course over ground shows which is right"
                ),
                # The last course over ground counts for a second.
                detect_ms=2800.0,
                persist_ms=300.0,
                react_ms=3300.0,
            ),
        ),
        devices=("imu_stuck",),
    ),
    Row(
        number=30,
        fault="the vehicle is lost on its map",
        detector=(
            "age of the last scan that fits the map where the vehicle should be, or of the last "
            "pose of a device that does not repeat itself"
        ),
        reaction=(
            "the estimate goes on by prediction, the speed is capped; then a controlled stop; "
            "standing it searches its place"
        ),
        rules=(
            Rule(
                code="map_lost",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.localisation.lost_s,
                limit=lambda s: s.limits.map_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no scan fits the map for {s.limits.map_silence_s:.1f} s: predicting"
                    if s.monitors.localisation.mapped
                    else s.monitors.localisation.why
                ),
                detect_ms=350.0,
                persist_ms=10.0,
                react_ms=450.0,
                clear=Clear.ITSELF,
                clear_ms=500.0,
                modes=MOVING - {Mode.TELEOP},
            ),
            Rule(
                code="map_lost_long",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.localisation.lost_s,
                limit=lambda s: s.limits.map_lost_stop_s,
                unit="s",
                reason=lambda s: f"lost on the map: {s.monitors.localisation.why}",
                detect_ms=1050.0,
                persist_ms=10.0,
                react_ms=1150.0,
                modes=MOVING - {Mode.TELEOP},
            ),
        ),
    ),
    Row(
        number=23,
        fault="something stands in the lane or enters it, or its sensor is silent",
        detector=(
            "ranges and scans, and moving bodies where they will be during a stop, against the "
            "lane that the vehicle will sweep; their age"
        ),
        reaction=(
            "speed capped while there is room to roll out, then a controlled stop before it; "
            "silence counts as an obstacle"
        ),
        rules=(
            Rule(
                code="obstacle_in_sight",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: _seen(s, s.monitors.obstacle.cap_mps),
                limit=lambda s: min(abs(s.speed_mps) + 0.3, s.limits.max_speed_mps),
                sense=Sense.UNDER,
                unit="m/s",
                reason=lambda s: (
                    f"{s.monitors.obstacle.what} {s.monitors.obstacle.does} "
                    f"{s.monitors.obstacle.free_m:.1f} m ahead: slower"
                ),
                # Two readings at 20 Hz, one sweep of the scanner, and its latency.
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
                clear=Clear.ITSELF,
                clear_ms=500.0,
                cap_mps=lambda s: s.monitors.obstacle.cap_mps,
            ),
            Rule(
                code="obstacle_ahead",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: (
                    _seen(s, s.monitors.obstacle.free_m) if s.monitors.obstacle.drives(s) else nan
                ),
                limit=lambda s: s.monitors.stopping.distance_m + s.limits.obstacle_gap_m,
                sense=Sense.WITHIN,
                unit="m",
                reason=lambda s: (
                    f"obstacle ahead: {s.monitors.obstacle.what} {s.monitors.obstacle.does} "
                    f"{s.monitors.obstacle.free_m:.2f} m before the vehicle, and a stop takes "
                    f"{s.monitors.stopping.distance_m:.2f} m"
                ),
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
            ),
            Rule(
                code="obstacle_too_near",
                reaction=Reaction.BRAKE,
                value=lambda s: (
                    _seen(s, s.monitors.obstacle.free_m)
                    if abs(s.speed_mps) > STANDSTILL_MPS
                    else nan
                ),
                limit=lambda s: s.monitors.stopping.distance_m,
                sense=Sense.UNDER,
                unit="m",
                reason=lambda s: (
                    f"obstacle ahead: {s.monitors.obstacle.what} {s.monitors.obstacle.does} "
                    f"{s.monitors.obstacle.free_m:.2f} m before the vehicle, nearer than the "
                    f"{s.monitors.stopping.distance_m:.2f} m of a controlled stop"
                ),
                detect_ms=150.0,
                persist_ms=10.0,
                react_ms=300.0,
            ),
            Rule(
                code="obstacle_sensor_silent",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: _silence_s(s, ObstacleRange, LaserScan),
                limit=lambda s: s.limits.obstacle_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no reading of the obstacle sensor for {s.limits.obstacle_silence_s:.1f} "
                    "s: taken as an obstacle"
                ),
                detect_ms=300.0,
                persist_ms=10.0,
                react_ms=400.0,
            ),
            Rule(
                code="obstacle_sensor_blind",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: bool(s.monitors.obstacle.blind),
                reason=lambda s: f"{s.monitors.obstacle.blind}: taken as an obstacle",
                # Three scans at 20 Hz.
                detect_ms=200.0,
                persist_ms=10.0,
                react_ms=350.0,
            ),
        ),
    ),
)
