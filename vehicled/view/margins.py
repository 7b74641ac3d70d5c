"""Distance of each failsafe rule from tripping: value and limit. Pure.

The rules themselves decide; these numbers show what they compare. Rules without a number, such as the deadman's, hold or do not
hold.
"""

from collections.abc import Callable
from enum import Enum
from math import inf, isfinite
from typing import Any

from msgspec import Struct

from vehicled.messages import GnssFix, ImuSample, LaserScan, Message, MotorStatus, ObstacleRange, Reaction
from vehicled.messages.units import ZERO_CELSIUS_K
from vehicled.ports import NEVER_NS
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.matrix import MATRIX
from vehicled.safety.monitors.yaw import FIXES, READINGS
from vehicled.safety.supervisor import Supervisor
from vehicled.vehicle import STANDSTILL_MPS

MILLI = 1e-6
"""Milliseconds per nanosecond."""


class Sense(Enum):
    """Comparison of value and limit for which a rule holds."""

    OVER = "over"
    """Value > limit."""
    REACHES = "reaches"
    """Value >= limit, for counts."""
    UNDER = "under"
    """Value < limit."""
    WITHIN = "within"
    """Value <= limit, for free distances."""


class Margin(Struct, frozen=True):
    """Value and limit of a rule."""

    value: Callable[[SafetyInputs], float | None]
    """Function that returns the value; None while unknown, infinite if the lane is clear."""
    limit: Callable[[SafetyInputs], float]
    unit: str
    sense: Sense = Sense.OVER


class RuleState(Struct, frozen=True, array_like=True):
    """State of one rule. It is an array in JSON, because some fifty of them are sent several times a second."""

    code: str
    state: str
    """State: ``idle`` if not monitored in this mode, ``quiet``, ``holds`` but not long enough yet, or in ``force``."""
    value: float | None
    limit: float | None
    said: str
    """Reason as text, while the rule holds or is in force."""
    reaction: str
    """Reaction, ``S0`` to ``S4``."""
    words: str = ""
    """Text in place of a value without a number: ``clear`` if the lane is free."""


def _age_ms(*kinds: type[Message]) -> Callable[[SafetyInputs], float | None]:
    """Return a function for the age of the oldest of the promised inputs."""

    def age(s: SafetyInputs) -> float | None:
        sources = s.watch.sources
        ages_ns = [sources.age_ns(kind, s.now_ns) for kind in kinds if sources.promised(kind)]
        return _known_ms(max(ages_ns)) if ages_ns else None

    return age


def _known_ms(age_ns: int) -> float | None:
    # An input may be newer than the supervisor's last step.
    return None if age_ns >= NEVER_NS else max(age_ns, 0) * MILLI


def _sigma_m(s: SafetyInputs) -> float | None:
    if s.estimate is None:
        return None
    variance = max(s.estimate.covariance[0], s.estimate.covariance[5])
    return variance**0.5 if variance >= 0.0 else None


def _telemetry_ms(s: SafetyInputs) -> float | None:
    return _known_ms(s.watch.sources.age_ns(MotorStatus, s.now_ns))


def _free_m(s: SafetyInputs) -> float | None:
    """Return the free distance ahead; None without an obstacle sensor."""
    obstacle = s.watch.obstacle
    return obstacle.free_m if obstacle.sees or isfinite(obstacle.free_m) else None


def _cap_mps(s: SafetyInputs) -> float | None:
    obstacle = s.watch.obstacle
    return obstacle.cap_mps if obstacle.sees or isfinite(obstacle.cap_mps) else None


def _limit_ms(name: str) -> Callable[[SafetyInputs], float]:
    return lambda s: getattr(s.limits, name) * 1e3


MARGINS: dict[str, Margin] = {
    "loop_frozen": Margin(
        lambda s: None if s.sent is None else (s.now_ns - s.sent.t_ns) * MILLI, _limit_ms("loop_silence_s"), "ms"
    ),
    "deadlines_missed": Margin(lambda s: s.watch.deadlines.in_a_row, lambda s: 3, "in a row", Sense.REACHES),
    "deadlines_share": Margin(lambda s: 100.0 * s.watch.deadlines.share, lambda s: 1.0, "%"),
    "estimate_stale": Margin(lambda s: _known_ms(s.estimate_age_ns), _limit_ms("estimate_silence_s"), "ms"),
    "control_stale": Margin(lambda s: _known_ms(s.control_age_ns), _limit_ms("control_silence_s"), "ms"),
    "hand_gone": Margin(lambda s: _known_ms(s.watch.hand.age_ns(s.now_ns)), _limit_ms("teleop_silence_s"), "ms"),
    "ground_lost": Margin(
        lambda s: _known_ms(s.watch.ground.age_ns(s.now_ns)) if s.limits.stop_without_ground else None,
        _limit_ms("ground_silence_s"),
        "ms",
    ),
    "gnss_silent": Margin(_age_ms(GnssFix), _limit_ms("gnss_silence_s"), "ms"),
    "rtk_lost_long": Margin(lambda s: s.watch.gnss.degraded_s(s.now_ns), lambda s: s.limits.rtk_lost_stop_s, "s"),
    "gnss_refused": Margin(lambda s: s.watch.gnss.rejected_in_a_row, lambda s: s.limits.gnss_refusals, "in a row", Sense.REACHES),
    "gnss_stuck": Margin(lambda s: s.watch.gnss.same_in_a_row, lambda s: s.limits.gnss_refusals, "in a row", Sense.REACHES),
    "position_uncertain": Margin(_sigma_m, lambda s: s.limits.corridor_m / 3.0, "m"),
    "heading_against_gyro": Margin(lambda s: s.watch.yaw.parted_in_a_row, lambda s: READINGS, "in a row", Sense.REACHES),
    "heading_against_course": Margin(lambda s: s.watch.yaw.aside_in_a_row, lambda s: FIXES, "in a row", Sense.REACHES),
    "imu_silent": Margin(_age_ms(ImuSample), _limit_ms("imu_silence_s"), "ms"),
    "imu_saturated": Margin(lambda s: s.watch.inertial.saturated_ns(s.now_ns) * MILLI, _limit_ms("imu_silence_s"), "ms"),
    "gyro_against_course": Margin(lambda s: s.watch.yaw.gyro_aside_in_a_row, lambda s: FIXES, "in a row", Sense.REACHES),
    "speed_mismatch": Margin(lambda s: s.watch.motion.mismatch_ns * MILLI, _limit_ms("speed_mismatch_s"), "ms"),
    "not_moving": Margin(lambda s: s.watch.motion.not_moving_ns * MILLI, _limit_ms("not_moving_s"), "ms"),
    "uncommanded_motion": Margin(lambda s: s.watch.motion.uncommanded_ns * MILLI, _limit_ms("uncommanded_s"), "ms"),
    "uncommanded_motion_lasts": Margin(lambda s: s.watch.motion.unbraked_ns * MILLI, _limit_ms("uncommanded_s"), "ms"),
    "overspeed": Margin(lambda s: abs(s.speed_mps), lambda s: s.limits.max_speed_mps + s.limits.overspeed_mps, "m/s"),
    "motor_hot": Margin(lambda s: s.watch.motor.hottest_k - ZERO_CELSIUS_K, lambda s: s.limits.motor_hot_k - ZERO_CELSIUS_K, "°C"),
    "motor_too_hot": Margin(
        lambda s: s.watch.motor.hottest_k - ZERO_CELSIUS_K, lambda s: s.limits.motor_hot_k + 15.0 - ZERO_CELSIUS_K, "°C"
    ),
    "actuator_lost": Margin(_telemetry_ms, _limit_ms("telemetry_silence_s"), "ms"),
    "battery_low": Margin(lambda s: s.watch.motor.rest_v, lambda s: s.limits.battery_low_v, "V", Sense.UNDER),
    "battery_empty": Margin(lambda s: s.watch.motor.rest_v, lambda s: s.limits.battery_empty_v, "V", Sense.UNDER),
    "corridor_left": Margin(lambda s: abs(s.cross_track_m), lambda s: s.limits.corridor_m, "m"),
    "controller_failed": Margin(lambda s: s.watch.control.stop_level_in_a_row, lambda s: 2, "in a row", Sense.REACHES),
    "commands_clipped": Margin(lambda s: s.watch.control.clipped_in_a_row, lambda s: 5, "in a row"),
    "obstacle_in_sight": Margin(_cap_mps, lambda s: min(abs(s.speed_mps) + 0.3, s.limits.max_speed_mps), "m/s", Sense.UNDER),
    "obstacle_ahead": Margin(
        lambda s: _free_m(s) if s.watch.obstacle.drives(s) else None,
        lambda s: s.watch.stopping.distance_m + s.limits.obstacle_gap_m,
        "m",
        Sense.WITHIN,
    ),
    "obstacle_too_near": Margin(
        lambda s: _free_m(s) if abs(s.speed_mps) > STANDSTILL_MPS else None,
        lambda s: s.watch.stopping.distance_m,
        "m",
        Sense.UNDER,
    ),
    "obstacle_sensor_silent": Margin(_age_ms(ObstacleRange, LaserScan), _limit_ms("obstacle_silence_s"), "ms"),
    "clock_stepped": Margin(lambda s: abs(s.watch.host.clock_step_s), lambda s: 0.5, "s"),
}
"""Margins by rule code."""


def standings(supervisor: Supervisor) -> list[RuleState]:
    """Return the state of every rule in matrix order, and of the devices' faults, at the supervisor's last step; empty
    before it.
    """
    s = supervisor.situation
    if s is None:
        return []
    found = []
    for row in MATRIX:
        for rule in row.rules:
            margin = MARGINS.get(rule.code)
            value = margin.value(s) if margin is not None else None
            known = value is not None and isfinite(value)
            said = supervisor.in_force(rule.code)
            if said:
                state = "force"
            elif supervisor.mode not in rule.modes:
                state = "idle"
            elif rule.holds(s):
                state, said = "holds", rule.reason(s)
            else:
                state = "quiet"
            limit = margin.limit(s) if margin is not None else None
            shown = round(value, 4) if known and value is not None else None
            words = "clear" if value == inf else ""
            found.append(RuleState(rule.code, state, shown, limit, said, _grade(rule.reaction), words))
    told = s.watch.told.values()
    return found + [RuleState(f.code, "force", None, None, f"{f.origin}: {f.reason}", _grade(f.reaction)) for f in told]


def _grade(reaction: Reaction) -> str:
    return f"S{int(reaction) - 1}" if reaction else ""


def rows() -> list[dict[str, Any]]:
    """Return the constant part of the matrix for the page."""
    return [
        {
            "row": row.number,
            "fault": row.fault,
            "outside": row.outside,
            "rules": [
                {
                    "code": rule.code,
                    "reaction": _grade(rule.reaction),
                    "unit": MARGINS[rule.code].unit if rule.code in MARGINS else "",
                    "under": rule.code in MARGINS and MARGINS[rule.code].sense in (Sense.UNDER, Sense.WITHIN),
                }
                for rule in row.rules
            ],
        }
        for row in MATRIX
    ]
