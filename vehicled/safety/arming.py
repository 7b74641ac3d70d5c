"""What must be right before the vehicle is armed. Each check names what is wrong and what would cure it."""

from collections.abc import Callable
from math import isfinite

from msgspec import Struct

from vehicled.messages import EstimatorStatus, ImuSample, Reaction
from vehicled.safety.monitors.host import MIN_DISK, MIN_MEMORY
from vehicled.safety.monitors.inertial import GRAVITY_MPS2
from vehicled.safety.monitors.yaw import READINGS
from vehicled.safety.rows.sensors import is_finite
from vehicled.safety.situation import Situation

STANDSTILL_MPS = 0.05


class Check(Struct, frozen=True):
    """One condition of arming."""

    code: str
    missing: Callable[[Situation], str]
    """What is wrong and what to do, in words; empty when it is right."""


def _inputs(s: Situation) -> str:
    silent = s.watch.sources.silent(s.now_ns)
    return f"{', '.join(silent)} {'is' if len(silent) == 1 else 'are'} silent: check cable, power and port" if silent else ""


def _estimator(s: Situation) -> str:
    estimate = s.estimate
    if estimate is None or estimate.status is not EstimatorStatus.RUNNING:
        status = "has not started" if estimate is None else estimate.status.name.lower()
        return f"the estimator is not running ({status}): give it a fix and a heading, or move the vehicle by hand"
    if not is_finite(estimate):
        return "the state estimate is not finite: restart the daemon and keep its log"
    return ""


def _certainty(s: Situation) -> str:
    estimate, limit = s.estimate, s.limits.corridor_m / 3.0
    if estimate is None or not is_finite(estimate):
        return ""
    sigma = max(estimate.covariance[0], estimate.covariance[5], 0.0) ** 0.5
    return "" if sigma <= limit else f"the position is known to {sigma:.2f} m only (limit {limit:.2f} m): wait for a better fix"


def off_course(s: Situation) -> str:
    """Why the course cannot be driven from here, in words; empty when it can."""
    if abs(s.cross_track_m) > s.limits.corridor_m:
        return f"the vehicle stands {abs(s.cross_track_m):.1f} m off the course: move it into the corridor"
    if abs(s.heading_error_rad) > 1.6:
        return "the vehicle points backwards along the course: turn it round"
    return ""


def _still(s: Situation) -> str:
    speed = s.speed_mps
    return "" if not isfinite(speed) or abs(speed) <= STANDSTILL_MPS * 4 else f"the vehicle moves at {speed:.2f} m/s: let it stand"


def _imu(s: Situation) -> str:
    inertial, limits = s.watch.inertial, s.limits
    if not inertial.has_samples or not s.watch.sources.promised(ImuSample):
        return ""
    if inertial.stuck:
        return "the IMU repeats the same sample: power it off and on"
    if inertial.mean_rate_radps > limits.still_rate_radps:
        rate = f"{inertial.mean_rate_radps:.3f} rad/s at rest (limit {limits.still_rate_radps})"
        return f"the IMU turns at {rate}: let it stand, calibrate it"
    off = abs(inertial.mean_force_mps2 - GRAVITY_MPS2)
    if inertial.has_force and off > limits.still_force_mps2:
        return f"the IMU feels {inertial.mean_force_mps2:.2f} m/s2 at rest, {off:.2f} off gravity: calibrate or remount it"
    return ""


def _actuator(s: Situation) -> str:
    return f"the actuator cannot be reached: {s.actuator_lost}" if s.actuator_lost else ""


def _devices(s: Situation) -> str:
    stopping = [fault for fault in s.watch.told.values() if fault.reaction >= Reaction.CONTROLLED_STOP]
    return "; ".join(f"{fault.origin}: {fault.reason}" for fault in stopping)


def _setup(s: Situation) -> str:
    return s.setup_fault


def _doubts(s: Situation) -> str:
    """What would stop the drive as soon as it began."""
    gnss, yaw, limit = s.watch.gnss, s.watch.yaw, s.limits.gnss_refusals
    found = []
    if gnss.rejected_in_a_row >= limit:
        found.append(f"the last {gnss.rejected_in_a_row} fixes contradict the estimate: wait, or look for what reflects or jams")
    if yaw.heading_stuck:
        found.append("the heading repeats itself: power its receiver off and on")
    if yaw.parted_in_a_row >= READINGS:
        found.append(f"heading and gyro have just parted by {yaw.parted_rad:+.2f} rad: wait, or look at the antennas")
    return "; ".join(found)


def _host(s: Situation) -> str:
    health = s.watch.host.health
    if health is None:
        return ""
    if health.disk_free_share < MIN_DISK:
        return (
            f"{100 * health.disk_free_share:.0f} % of the log's disk is free (limit {100 * MIN_DISK:.0f} %): make room for the log"
        )
    if health.memory_free_share < MIN_MEMORY:
        return f"{100 * health.memory_free_share:.0f} % of the memory is free (limit {100 * MIN_MEMORY:.0f} %): end other programs"
    return ""


CHECKS: tuple[Check, ...] = (
    Check("setup", _setup),
    Check("inputs", _inputs),
    Check("estimator", _estimator),
    Check("certainty", _certainty),
    Check("place", off_course),
    Check("standstill", _still),
    Check("doubts", _doubts),
    Check("imu", _imu),
    Check("actuator", _actuator),
    Check("devices", _devices),
    Check("host", _host),
)
"""Every check, in the order in which they are told."""


def missing(s: Situation, *, by_hand: bool = False) -> list[str]:
    """What arming still waits for, in words; empty when it may proceed. ``by_hand``: a hand drives from any place."""
    return [text for check in CHECKS if not (by_hand and check.missing is off_course) and (text := check.missing(s))]
