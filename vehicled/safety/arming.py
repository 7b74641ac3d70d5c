"""Arming checks: the conditions that must hold before the vehicle is armed. Each failure names its
cause and its cure."""

from collections.abc import Callable
from math import degrees, isfinite

from msgspec import Struct

from vehicled.core.messages import (
    EstimatorStatus,
    GnssFix,
    Heading,
    ImuSample,
    MotorStatus,
    OperatorAction,
    Reaction,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.safety.monitors.alignment import heading_sigma_rad
from vehicled.safety.monitors.consistency import BEYOND_REFUSALS
from vehicled.safety.monitors.host import (
    CLOCK_SETTLES_NS,
    FIRST_WALL_CLOCK_S,
    MAX_TEMPERATURE_K,
    MIN_DISK,
    MIN_MEMORY,
)
from vehicled.safety.monitors.speed import StandstillEvidence
from vehicled.safety.monitors.teleop import NEUTRAL
from vehicled.safety.monitors.yaw import READINGS
from vehicled.safety.rows.sensors import is_finite
from vehicled.safety.rule import RuleInputs

ACROSS_RAD = 0.3
"""Steepest slope that a vehicle may stand across to be armed, rad: 31 %."""
YEAR_S = 31_556_952.0


class ArmingCheck(Struct, frozen=True):
    """One condition of arming."""

    code: str
    missing: Callable[[RuleInputs], str]
    """Function that returns the failure and its cure as a text; empty if the check passes."""
    wants: str
    """Text that names the condition."""


def _inputs(s: RuleInputs) -> str:
    # A device may be the source of several messages.
    silent = list(dict.fromkeys(s.monitors.sources.silent(s.now_ns)))
    if silent:
        unread = s.monitors.sources.unread
        described = {
            name: text for name in silent if name in unread and (text := unread[name].described())
        }
        parts = [f"{name}: {text}" for name, text in described.items()]
        mute = [name for name in silent if name not in described]
        if mute:
            parts.insert(
                0,
                (
                    f"{', '.join(mute)} {'is' if len(mute) == 1 else 'are'} silent: check cable, "
                    "power and port"
                ),
            )
        return "; ".join(parts)
    slow = s.monitors.sources.slow()
    return (
        f"{'; '.join(slow)}: look at its settings and its line, or write the rate_hz that it has"
        if slow
        else ""
    )


def _estimator(s: RuleInputs) -> str:
    estimate = s.estimate
    if estimate is None or estimate.status is not EstimatorStatus.RUNNING:
        if _located(s):
            return ""
        if estimate is not None and waits_for_heading(s):
            return (
                "the estimator has a position and no heading "
                f"({estimate.status.name.lower()}): {ALIGN_CURE}"
            )
        status = "has not started" if estimate is None else estimate.status.name.lower()
        return (
            f"the estimator is not running ({status}): give it a fix and a heading, or move "
            "the vehicle by hand"
        )
    if not is_finite(estimate):
        return "the state estimate is not finite: restart the daemon and keep its log"
    return ""


ALIGN_CURE = "align it by driving (vehicled mode align), push it 3 m forward, or drive it by hand"


def waits_for_heading(s: RuleInputs) -> bool:
    """Return True if only motion can give the estimator a heading: fixes arrive, and no device
    measures heading."""
    waits = s.estimate is not None and s.estimate.status is EstimatorStatus.UNINITIALISED
    return (
        waits
        and s.monitors.alignment.antenna_m is not None
        and not s.monitors.sources.promised(Heading)
    )


def _located(s: RuleInputs) -> str:
    localisation = s.monitors.localisation
    if not localisation.mapped or (
        localisation.located and localisation.lost_s <= s.limits.map_lost_stop_s
    ):
        return ""
    return f"the vehicle is not located on its map: {localisation.why}"


def _placeless(s: RuleInputs) -> bool:
    """Return True if nothing on the vehicle measures its place: a person may still drive it, such
    as to map the place."""
    waits = s.estimate is not None and s.estimate.status is EstimatorStatus.UNINITIALISED
    return waits and not s.monitors.sources.promised(GnssFix)


def _estimator_by_hand(s: RuleInputs) -> str:
    return "" if waits_for_heading(s) or _placeless(s) else _estimator(s)


def _controller(s: RuleInputs) -> str:
    if s.estimate is None or s.control_age_ns <= s.limits.control_silence_s * 1e9:
        return ""
    return f"the controller gives no command{f': {s.task_raised}' if s.task_raised else ''}"


def _heading(s: RuleInputs) -> str:
    estimate, limit = s.estimate, s.monitors.alignment.params.arming_sigma_rad
    if estimate is None or not is_finite(estimate) or heading_sigma_rad(estimate) <= limit:
        return ""
    known = f"{degrees(heading_sigma_rad(estimate)):.0f} degrees"
    return f"the heading is known to {known} only (limit {degrees(limit):.0f}): {ALIGN_CURE}"


def _yaw(s: RuleInputs) -> str:
    """Return how far the estimate's yaw is from the heading, beyond what a drive tolerates between
    heading and course."""
    estimate, off, limit = (
        s.estimate,
        s.monitors.yaw.estimate_aside_rad,
        s.monitors.yaw.aside_limit_rad,
    )
    if estimate is None or estimate.status is not EstimatorStatus.RUNNING or abs(off) <= limit:
        return ""
    cure = "look at its mounting, or restart the daemon"
    return f"the heading is {off:+.2f} rad off the yaw of the estimate (limit {limit:.2f}): {cure}"


def _alignment(s: RuleInputs) -> str:
    """Return why an alignment drive may not begin; empty if it may. This check replaces those of
    the estimate."""
    alignment, stopping = s.monitors.alignment, s.monitors.stopping
    params = alignment.params
    if not params.allowed:
        return (
            "alignment by driving is not allowed: push the vehicle 3 m forward, or write "
            "[alignment] allowed = true"
        )
    if alignment.antenna_m is None:
        return "GNSS has given no position yet: wait for a fix"
    if not isfinite(s.speed_mps):
        return "neither wheels nor GNSS measure a speed: wait for fixes with a velocity"
    circle_m = (
        params.distance_m + stopping.way_m(params.speed_mps) + alignment.reach_m(stopping.body_m)
    )
    near = stopping.room_around(alignment.antenna_m, circle_m)
    return (
        f"the alignment may drive in any direction, and {near}: take the vehicle to the middle"
        if near
        else ""
    )


def _certainty(s: RuleInputs) -> str:
    estimate, limit = s.estimate, s.limits.corridor_m / 3.0
    if estimate is None or not is_finite(estimate):
        return ""
    sigma = estimate.position_sigma_m
    return (
        ""
        if sigma <= limit
        else (
            f"the position is known to {sigma:.2f} m only (limit {limit:.2f} m): wait for a better "
            "fix"
        )
    )


def off_course(s: RuleInputs) -> str:
    """Return why the course cannot be driven from here; empty if it can."""
    return s.monitors.place.choose(s.estimate).refused


def _fence(s: RuleInputs) -> str:
    outside = s.monitors.stopping.outside
    return f"the vehicle is {outside}: drive it out by hand" if outside else ""


def _still(s: RuleInputs) -> str:
    speed = s.speed_mps
    if isfinite(speed) and abs(speed) > STANDSTILL_MPS * 4:
        return f"the vehicle moves at {speed:.2f} m/s: let it stand"
    monitor = s.monitors.speed
    match monitor.standstill(s.now_ns, s.monitors.motion.ceiling_mps):
        case StandstillEvidence.NONE:
            return (
                "neither wheels nor GNSS measure a speed, so it is not known to stand: wait "
                "for fixes"
            )
        case StandstillEvidence.MOVES:
            return (
                f"wheels or GNSS measure {monitor.measured_mps(s.now_ns):.2f} m/s: let it "
                "stand, or look at both"
            )
        case StandstillEvidence.UNCONFIRMED:
            return (
                "only wheels, or a receiver that repeats itself, say that it stands: wait for "
                "live fixes"
            )
        case StandstillEvidence.STANDS:
            return ""


def _imu(s: RuleInputs) -> str:
    inertial, limits = s.monitors.inertial, s.limits
    if not inertial.has_samples or not s.monitors.sources.promised(ImuSample):
        return ""
    if inertial.stuck:
        return "the IMU repeats the same sample: power it off and on"
    if inertial.mean_rate_radps > limits.still_rate_radps:
        rate = f"{inertial.mean_rate_radps:.3f} rad/s at rest (limit {limits.still_rate_radps})"
        return f"the IMU turns at {rate}: let it stand, calibrate it"
    off = abs(inertial.mean_force_mps2 - STANDARD_GRAVITY_MPS2)
    if inertial.has_force and off > limits.still_force_mps2:
        return (
            f"the IMU feels {inertial.mean_force_mps2:.2f} m/s2 at rest, {off:.2f} off "
            "gravity: calibrate or remount it"
        )
    if not inertial.has_force:
        return ""
    # A vehicle stands along a slope as steep as it can climb, and across one less steep.
    tilts = (
        (inertial.tilt_rad, limits.still_tilt_rad, ""),
        (
            abs(inertial.pitch_rad),
            min(s.monitors.motion.climb_rad, limits.still_tilt_rad),
            " along the vehicle",
        ),
        (abs(inertial.roll_rad), min(ACROSS_RAD, limits.still_tilt_rad), " across it"),
    )
    for tilt_rad, limit_rad, which in tilts:
        if tilt_rad > limit_rad:
            tilt = (
                f"gravity is {degrees(tilt_rad):.0f} degrees off its vertical{which}, limit "
                f"{degrees(limit_rad):.0f}"
            )
            return (
                f"the IMU's {inertial.upward} axis points up ({tilt}): {inertial.remedy}, which "
                "leaves the yaw to you, or take the vehicle to level ground"
            )
    return ""


def _actuator(s: RuleInputs) -> str:
    return f"the actuator cannot be reached: {s.actuator_lost}" if s.actuator_lost else ""


def _telemetry(s: RuleInputs) -> str:
    if not s.monitors.telemetry:
        return ""
    age_ns = s.monitors.sources.age_ns(MotorStatus, s.now_ns)
    if age_ns <= s.limits.telemetry_silence_s * 1e9:
        return ""
    since = (
        "has sent no telemetry yet"
        if age_ns >= NEVER_NS
        else f"has sent no telemetry for {age_ns * 1e-9:.1f} s"
    )
    which = s.monitors.motor.awaited or "the motor controller"
    return (
        f"{which} {since}: check its power and line, or write telemetry = false where it has none"
    )


def _motor(s: RuleInputs) -> str:
    motor, limits = s.monitors.motor, s.limits
    found = []
    if motor.hottest_k > limits.motor_hot_k:
        hot = (
            f"{motor.hottest_k - ZERO_CELSIUS_K:.0f} degrees (limit "
            f"{limits.motor_hot_k - ZERO_CELSIUS_K:.0f})"
        )
        found.append(f"motor or controller at {hot}: let it cool")
    if motor.rest_v < limits.battery_empty_v:
        found.append(
            f"the battery is at {motor.rest_v:.2f} V (empty: {limits.battery_empty_v:.2f} V): "
            "charge it"
        )
    return "; ".join(found)


def _ground(s: RuleInputs) -> str:
    limits, age_ns = s.limits, s.monitors.ground.age_ns(s.now_ns)
    if age_ns >= NEVER_NS:
        expected = (
            "no ground station has sent a heartbeat: start it, or write ground_expected = false"
        )
        return expected if limits.ground_expected else ""
    if age_ns <= limits.ground_silence_s * 1e9 or not (
        limits.ground_expected or limits.stop_without_ground
    ):
        return ""
    return f"the ground station has been silent for {age_ns * 1e-9:.1f} s: bring it back into reach"


def _rc(s: RuleInputs) -> str:
    rc = s.monitors.rc
    alive = rc.alive(s.now_ns)
    if rc.killed:
        was = "is" if alive else "was"
        cure = "switch it off" if alive else "switch the handset on, and the switch off"
        return f"the kill switch of the RC handset {was} on: {cure}"
    if not alive:
        return (
            f"the RC handset is not there ({rc.trouble_now(s.now_ns)}): switch it on"
            if rc.required
            else ""
        )
    throttle = rc.throttle(s.now_ns)
    if abs(throttle) > NEUTRAL:
        return (
            f"the throttle of the RC handset is at {100 * throttle:+.0f} %: let it go, or "
            "correct its trim in [rc.throttle]"
        )
    return ""


def _deadlines(s: RuleInputs) -> str:
    deadlines, limit = s.monitors.deadlines, s.limits.arming_missed_share
    if not deadlines.share > limit:
        return ""
    missed = (
        f"{100 * deadlines.share:.1f} % of the deadlines of {deadlines.share_task} in the last "
        "ten seconds were missed"
    )
    return f"{missed} (limit {100 * limit:g} %): end other programs, or lower its rate"


def _devices(s: RuleInputs) -> str:
    stopping = [
        fault
        for fault in s.monitors.device_faults.values()
        if fault.reaction >= Reaction.CONTROLLED_STOP
    ]
    return "; ".join(f"{fault.origin}: {fault.reason}" for fault in stopping)


def _setup(s: RuleInputs) -> str:
    return s.setup_fault


def _doubts(s: RuleInputs) -> str:
    """Return the contradictions between sensors that would stop the drive at once; empty if
    none."""
    gnss, yaw, limit = s.monitors.gnss, s.monitors.yaw, s.limits.gnss_refusals
    found = []
    if gnss.rejected_in_a_row >= limit:
        found.append(
            f"the last {gnss.rejected_in_a_row} fixes contradict the estimate: wait, or look "
            "for what reflects or jams"
        )
    elif s.monitors.consistency.places_in_a_row >= limit + BEYOND_REFUSALS:
        found.append(
            f"the fixes are {s.monitors.consistency.apart_m:.2f} m from the estimate, which "
            "does not follow them: restart"
        )
    if yaw.heading_stuck:
        found.append("the heading repeats itself: power its receiver off and on")
    if yaw.parted_in_a_row >= READINGS:
        found.append(
            f"heading and gyro have just parted by {yaw.parted_rad:+.2f} rad: wait, or look at "
            "the antennas"
        )
    return "; ".join(found)


def _jump(s: RuleInputs) -> str:
    """Return how far the place has jumped. Nothing on board shows which one is right, so a person
    must say it."""
    consistency = s.monitors.consistency
    if not consistency.jumped:
        return ""
    return (
        f"the place has jumped by {consistency.jumped_m:.2f} m against the motion, so it is "
        "wrong now or was before: wait until it is back, or look where the vehicle stands and "
        "accept the place (vehicled mode reset)"
    )


def blocked(s: RuleInputs) -> str:
    """Return what blocks the lane ahead; empty if the vehicle can start without being stopped at
    once."""
    obstacle = s.monitors.obstacle
    if obstacle.blind:
        return f"{obstacle.blind}: clean it, and look at its cable and its mounting"
    least_m = s.limits.obstacle_gap_m + s.monitors.stopping.way_m(s.limits.capped_speed_mps)
    if obstacle.free_m > least_m:
        return ""
    return (
        f"{obstacle.what} {obstacle.does} {obstacle.free_m:.2f} m ahead "
        f"(it takes {least_m:.2f} m to move off): clear the lane"
    )


def _host(s: RuleInputs) -> str:
    health = s.monitors.host.health
    if health is None:
        return ""
    if health.log_failure:
        return (
            f"the log is not written any more ({health.log_failure}): make room for it, and "
            "start the daemon anew"
        )
    if health.unread_s > 0.0:
        return (
            f"the disk of the log was not read within {health.unread_s:.0f} s: look at the "
            "disk, or end other programs"
        )
    if health.disk_free_share < MIN_DISK:
        return (
            f"{100 * health.disk_free_share:.0f} % of the log's disk is free (limit "
            f"{100 * MIN_DISK:.0f} %): make room for the log"
        )
    if health.temperature_k > MAX_TEMPERATURE_K:
        hot = (
            f"{health.temperature_k - ZERO_CELSIUS_K:.0f} degrees (limit "
            f"{MAX_TEMPERATURE_K - ZERO_CELSIUS_K:.0f})"
        )
        return f"the processor is at {hot}: give it air, and let it cool"
    if health.memory_free_share < MIN_MEMORY:
        return (
            f"{100 * health.memory_free_share:.0f} % of the memory is free (limit "
            f"{100 * MIN_MEMORY:.0f} %): end other programs"
        )
    return ""


def _clock(s: RuleInputs) -> str:
    host = s.monitors.host
    health, since_ns = host.health, s.now_ns - host.stepped_ns
    if health is not None and health.wall_clock_s < FIRST_WALL_CLOCK_S:
        year = 1970 + int(max(health.wall_clock_s, 0.0) / YEAR_S)
        return (
            f"the wall clock stands in the year {year}, and so would the log: set it, or let "
            "it be set from the network"
        )
    if since_ns < CLOCK_SETTLES_NS:
        return (
            f"the wall clock was moved by {host.last_step_s:+.1f} s {since_ns * 1e-9:.0f} s "
            "ago: wait until it has settled"
        )
    return ""


CHECKS: tuple[ArmingCheck, ...] = (
    ArmingCheck(
        "setup", _setup, "profile and calibration are those of this vehicle and this board"
    ),
    ArmingCheck("devices", _devices, "no device reports a fault that stops"),
    ArmingCheck(
        "inputs",
        _inputs,
        (
            "every input that the profile promises is alive, within its age, and at 80 % of "
            "its rate or more"
        ),
    ),
    ArmingCheck(
        "imu",
        _imu,
        "the IMU is still at rest, and feels gravity alone, along the vertical of its mounting",
    ),
    ArmingCheck("estimator", _estimator, "the estimator runs, and its state is finite"),
    ArmingCheck(
        "localisation", _located, "a vehicle that has a map is located on it; not for teleop"
    ),
    ArmingCheck(
        "heading", _heading, "the heading is known to `alignment.arming_sigma_rad`; not for teleop"
    ),
    ArmingCheck(
        "yaw",
        _yaw,
        "a measured heading is as near to the estimate's yaw as a drive asks for; not for teleop",
    ),
    ArmingCheck("certainty", _certainty, "the position is known to a third of the corridor"),
    ArmingCheck("controller", _controller, "the controller gives commands; not for teleop"),
    ArmingCheck(
        "place", off_course, "the vehicle stands where a drive can begin: see below; not for teleop"
    ),
    ArmingCheck(
        "fence",
        _fence,
        "the body is inside the fence and outside its keep-out zones; not for teleop",
    ),
    ArmingCheck(
        "standstill",
        _still,
        "it is seen to stand, by the estimate and every fresh speed of wheels and GNSS: see below",
    ),
    ArmingCheck("doubts", _doubts, "fixes, heading and gyro do not contradict each other"),
    ArmingCheck(
        "jump",
        _jump,
        (
            "the estimated place has not jumped against its own motion, or a reset has "
            "accepted it; not for teleop"
        ),
    ),
    ArmingCheck("actuator", _actuator, "the actuator can be reached and has proven its time-out"),
    ArmingCheck("telemetry", _telemetry, "an actuator that has telemetry sends it"),
    ArmingCheck(
        "motor",
        _motor,
        (
            "motor and motor controller are cool enough to drive without a cap; the battery is not "
            "empty"
        ),
    ),
    ArmingCheck(
        "ground",
        _ground,
        (
            "heartbeats of the ground station arrive, if `limits.ground_expected` asks for one or "
            "one has been received"
        ),
    ),
    ArmingCheck(
        "rc",
        _rc,
        (
            "the throttle of an RC handset is at rest and its kill switch off; the handset is "
            "there, if `rc.required` asks for it"
        ),
    ),
    ArmingCheck(
        "deadlines",
        _deadlines,
        (
            "no task has missed more than `limits.arming_missed_share` of its deadlines in the "
            "last ten seconds"
        ),
    ),
    ArmingCheck("lane", blocked, "nothing stands in the lane; not for teleop"),
    ArmingCheck("host", _host, "disk, memory and temperature of the computer; the log is written"),
    ArmingCheck(
        "clock",
        _clock,
        "the wall clock has been set, and was not moved within the last five seconds",
    ),
)
"""All checks, in the order in which their failures are reported: devices before what is computed
from them, so that the cause comes first."""


SPARED: dict[OperatorAction | None, frozenset[Callable[[RuleInputs], str]]] = {
    OperatorAction.TELEOP: frozenset(
        {off_course, _fence, blocked, _heading, _yaw, _controller, _jump, _located}
    ),
    OperatorAction.ALIGN: frozenset(
        {off_course, _fence, _estimator, _heading, _yaw, _controller, _jump}
    ),
    OperatorAction.OFFBOARD: frozenset({off_course, _controller}),
}
"""Checks that are skipped: a person sees and steers, an alignment drive has yet to find the
heading, setpoints follow no course."""


def missing(s: RuleInputs, drive: OperatorAction | None = OperatorAction.DRIVE) -> list[str]:
    """Return the failures that still prevent arming for a drive; empty if arming may proceed.

    A person (TELEOP) may drive from any place, away from obstacles, and without a heading if no
    device measures one.
    """
    spared = SPARED.get(drive, frozenset())
    checks = [check.missing for check in CHECKS if check.missing not in spared]
    if drive is OperatorAction.TELEOP:
        checks = [_estimator_by_hand if check is _estimator else check for check in checks]
    elif drive is OperatorAction.ALIGN:
        checks.append(_alignment)
    return [text for check in checks if (text := check(s))]
