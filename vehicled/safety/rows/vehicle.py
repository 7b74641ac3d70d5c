"""Rows of the failsafe matrix about the vehicle: motion, motor, battery, links."""

from math import inf, isfinite, nan

from vehicled.core.messages import Mode, MotorStatus, Reaction
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.motion import FASTER_S
from vehicled.safety.rule import Clear, Row, Rule, RuleInputs, Sense, seconds


def _actuator_silence_s(s: RuleInputs) -> float:
    """Return the age of the telemetry, s: infinite if the port cannot be written, NaN if none has
    been received yet."""
    age_s = seconds(s.monitors.sources.age_ns(MotorStatus, s.now_ns))
    return inf if s.actuator_lost else age_s if age_s < inf else nan


def _measured_mps(s: RuleInputs) -> float:
    return s.monitors.speed.measured_mps(s.now_ns)


def _silent(s: RuleInputs) -> str:
    return f"{s.monitors.motor.awaited or 'it'} sends no telemetry any more"


AUTO = frozenset({Mode.AUTO})
AT_REST = frozenset(Mode) - MOVING
"""Modes in which the vehicle is braked and should stand."""
ROLLAWAY_S = 1.0
"""Time for which a vehicle that should stand may move, s: somebody may rock it."""


def _fastest_mps(s: RuleInputs) -> float:
    """Return the speed of the estimate, or that which the fixes prove if it is higher: the estimate
    believes in a brake that the drive may not obey."""
    return max(s.monitors.motion.proven_mps(s.now_ns), abs(s.speed_mps))


def _speeds_apart(s: RuleInputs) -> str:
    felt_mps = s.monitors.motion.felt.mps
    felt = f", and the accelerometer makes {felt_mps:.2f} m/s of it" if isfinite(felt_mps) else ""
    return (
        f"wheels say {s.monitors.speed.wheel_mps:.2f} m/s, the estimate {s.speed_mps:.2f} m/s{felt}"
    )


ROWS: tuple[Row, ...] = (
    Row(
        number=13,
        fault="wheels and the rest disagree about the speed",
        detector=(
            "speed of wheels or motor against the estimate and the fixes; while GNSS is silent, "
            "its changes against the accelerometer"
        ),
        reaction="controlled stop",
        rules=(
            Rule(
                code="speed_mismatch",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: seconds(s.monitors.motion.mismatch_ns),
                limit=lambda s: s.limits.speed_mismatch_s,
                unit="s",
                reason=_speeds_apart,
                detect_ms=500.0,
                persist_ms=10.0,
                # Longer than the half second for which the drive may oscillate about a speed that
                # the wheels do not report.
                react_ms=1000.0,
            ),
        ),
        substitute={
            "telemetry": (
                "no speed of motor or wheels to compare: rows 14, 15 and 19 bound what the drive "
                "does wrong"
            )
        },
    ),
    Row(
        number=14,
        fault="commanded, not moving",
        detector=(
            "speed and distance, relative to what is asked for, and the place on the course; "
            "drive commanded"
        ),
        reaction=(
            "drive disabled, no current: the motor would only heat; braked after all if it "
            "rolls, and at once where it was under way and came to rest; a drive that does not "
            "move on for other reasons, controlled stop"
        ),
        rules=(
            Rule(
                code="not_moving",
                reaction=Reaction.DISABLE,
                value=lambda s: seconds(s.monitors.motion.not_moving_ns),
                limit=lambda s: s.limits.not_moving_s,
                unit="s",
                reason=lambda s: (
                    f"commanded to drive for {s.limits.not_moving_s:.1f} s, and it stands"
                ),
                # A creep of a vehicle without wheel speeds is separated from standstill by some
                # fixes.
                detect_ms=2500.0,
                persist_ms=10.0,
                react_ms=2800.0,
                releases_brake=True,
            ),
            Rule(
                code="stalled",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.monitors.motion.stalled_ns),
                limit=lambda s: 0.0,
                unit="s",
                reason=lambda s: "it came to rest although it is commanded to drive",
                # The stop is latched, since an actuator that recovers would drive off.
                detect_ms=10.0,
                persist_ms=200.0,
                # Without wheel speeds, or with wrong ones, the estimate shows a standstill late.
                react_ms=700.0,
                modes=AUTO,
            ),
            Rule(
                code="no_progress",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: seconds(s.monitors.progress.standing_ns),
                limit=lambda s: s.limits.no_progress_s,
                unit="s",
                reason=lambda s: (
                    f"asked to go on{f' at {s.asked_mps:.2f} m/s' if s.asked_mps > 0.0 else ''}, "
                    f"and it has not moved on for {s.limits.no_progress_s:.0f} s"
                ),
                detect_ms=10_000.0,
                persist_ms=10.0,
                react_ms=10_200.0,
                modes=DRIVING,
            ),
        ),
        substitute={
            "telemetry": (
                "judged by the estimate and the speed of GNSS alone, later by a fraction of a "
                "second"
            )
        },
    ),
    Row(
        number=15,
        fault="moving uncommanded, rolling back, too fast",
        detector=(
            "speed against what the commands of the past explain, and what is asked for; "
            "distance against the drive"
        ),
        reaction=(
            "brake after 0.3 s, or 0.3 m of rolling back; drive disabled when that does not "
            "help; faster than asked for, stop; "
            "a warning where it should stand"
        ),
        rules=(
            Rule(
                code="uncommanded_motion",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.monitors.motion.uncommanded_ns),
                limit=lambda s: s.limits.uncommanded_s,
                unit="s",
                reason=lambda s: f"it moves at {s.speed_mps:.2f} m/s without a command",
                detect_ms=300.0,
                persist_ms=10.0,
                react_ms=500.0,
            ),
            Rule(
                code="uncommanded_motion_lasts",
                reaction=Reaction.DISABLE,
                value=lambda s: seconds(s.monitors.motion.unbraked_ns),
                limit=lambda s: s.limits.uncommanded_s,
                unit="s",
                reason=lambda s: f"it moves at {s.speed_mps:.2f} m/s although it is braked",
                detect_ms=1300.0,
                persist_ms=10.0,
                react_ms=1500.0,
            ),
            Rule(
                code="rollaway",
                reaction=Reaction.WARN,
                value=lambda s: seconds(s.monitors.motion.rolling_ns),
                limit=lambda s: ROLLAWAY_S,
                unit="s",
                reason=lambda s: (
                    f"it moves at {_measured_mps(s):.2f} m/s in {s.mode.name}, although it is "
                    "braked: "
                    "someone pushes it, it rolls out, or the brake does not hold it here (chock it)"
                ),
                # Positions without a velocity give a speed after two seconds.
                detect_ms=3000.0,
                persist_ms=10.0,
                react_ms=3200.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
                modes=AT_REST,
            ),
            Rule(
                code="faster_than_asked",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: seconds(s.monitors.motion.faster_ns),
                limit=lambda s: FASTER_S,
                unit="s",
                reason=lambda s: (
                    f"it moves at {s.speed_mps:.2f} m/s, and {s.asked_mps:.2f} m/s is asked for"
                ),
                # After a lower speed is asked for it first gets the time to slow down.
                detect_ms=2500.0,
                persist_ms=10.0,
                react_ms=2700.0,
                modes=DRIVING,
            ),
            Rule(
                code="rolling_back",
                reaction=Reaction.BRAKE,
                value=lambda s: s.monitors.progress.rolled_back_m,
                limit=lambda s: s.limits.roll_back_m,
                unit="m",
                reason=lambda s: (
                    f"it has rolled back by {s.monitors.progress.rolled_back_m:.2f} m against "
                    "its drive"
                ),
                # Fixes arrive late, and their mean later; without them the estimate follows within
                # a second.
                detect_ms=1000.0,
                persist_ms=10.0,
                react_ms=1200.0,
                modes=DRIVING,
            ),
            Rule(
                code="overspeed",
                reaction=Reaction.BRAKE,
                value=_fastest_mps,
                limit=lambda s: s.limits.max_speed_mps + s.limits.overspeed_mps,
                unit="m/s",
                reason=lambda s: (
                    f"{_fastest_mps(s):.2f} m/s, the limit is {s.limits.max_speed_mps:.2f} m/s"
                ),
                detect_ms=200.0,
                persist_ms=300.0,
                react_ms=650.0,
            ),
        ),
        substitute={
            "brake": (
                "nothing to brake with: the drive is released and the vehicle coasts; plan the "
                "course for that way"
            )
        },
        unobeyed=(
            "a drive that runs away, or keeps its last command, ignores the brake too: it is "
            "named, and the vehicle goes on"
        ),
    ),
    Row(
        number=16,
        fault="the motor controller reports a fault, heat or low voltage",
        detector="its telemetry",
        reaction="a fault disables the drive; heat caps the speed, then stops",
        rules=(
            Rule(
                code="motor_fault",
                reaction=Reaction.DISABLE,
                value=lambda s: s.monitors.motor.fault_code != 0,
                reason=lambda s: (
                    f"the motor controller reports fault {s.monitors.motor.fault_code}"
                ),
                # Fault codes are polled: one polling period plus the transfer of the answer.
                detect_ms=60.0,
                persist_ms=10.0,
                react_ms=100.0,
            ),
            Rule(
                code="motor_hot",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.motor.hottest_k - ZERO_CELSIUS_K,
                limit=lambda s: s.limits.motor_hot_k - ZERO_CELSIUS_K,
                unit="°C",
                reason=lambda s: (
                    f"motor or controller at {s.monitors.motor.hottest_k - ZERO_CELSIUS_K:.0f} "
                    "degrees"
                ),
                detect_ms=20.0,
                persist_ms=500.0,
                react_ms=700.0,
                clear=Clear.ITSELF,
                clear_ms=5000.0,
            ),
            Rule(
                code="motor_too_hot",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.motor.hottest_k - ZERO_CELSIUS_K,
                limit=lambda s: s.limits.motor_hot_k + 15.0 - ZERO_CELSIUS_K,
                unit="°C",
                reason=lambda s: (
                    f"motor or controller at {s.monitors.motor.hottest_k - ZERO_CELSIUS_K:.0f} "
                    "degrees"
                ),
                detect_ms=20.0,
                persist_ms=500.0,
                react_ms=700.0,
            ),
        ),
        devices=(
            "vesc_<name of the fault>",
            "odrive_<name of the error>",
            "roboclaw_<name of the error>",
        ),
        substitute={
            "telemetry": (
                "faults and heat are not reported: a drive that gives up for them ends at row 14"
            )
        },
    ),
    Row(
        number=17,
        fault="the link to the motor controller is lost",
        detector="port events and the age of telemetry",
        reaction="brake; the controller comes back disarmed",
        rules=(
            Rule(
                code="actuator_lost",
                reaction=Reaction.BRAKE,
                value=_actuator_silence_s,
                limit=lambda s: s.limits.telemetry_silence_s,
                unit="s",
                reason=lambda s: f"the actuator cannot be reached: {s.actuator_lost or _silent(s)}",
                detect_ms=100.0,
                # Two ticks, because after a stall the loop has not yet read what has arrived.
                persist_ms=20.0,
                react_ms=150.0,
            ),
        ),
        substitute={
            "telemetry": (
                "only a port that goes away is noticed: a cable that is cut further on ends at "
                "row 14"
            )
        },
        unobeyed=(
            "no command arrives; a board without a time-out, or with a stuck output, drives on"
        ),
    ),
    Row(
        number=18,
        fault="the battery is low",
        detector="voltage with the drop of the load added back",
        reaction="cap, then controlled stop",
        rules=(
            Rule(
                code="battery_low",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.motor.rest_v,
                limit=lambda s: s.limits.battery_low_v,
                sense=Sense.UNDER,
                unit="V",
                reason=lambda s: (
                    f"battery at {s.monitors.motor.rest_v:.2f} V without load (low: "
                    f"{s.limits.battery_low_v:.2f} V)"
                ),
                detect_ms=2000.0,
                persist_ms=2000.0,
                react_ms=6000.0,
                clear=Clear.ITSELF,
                clear_ms=5000.0,
            ),
            Rule(
                code="battery_empty",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.motor.rest_v,
                limit=lambda s: s.limits.battery_empty_v,
                sense=Sense.UNDER,
                unit="V",
                reason=lambda s: (
                    f"battery at {s.monitors.motor.rest_v:.2f} V without load (empty: "
                    f"{s.limits.battery_empty_v:.2f} V)"
                ),
                detect_ms=2000.0,
                persist_ms=2000.0,
                react_ms=6000.0,
            ),
        ),
        substitute={
            "telemetry": (
                "no voltage is reported: limits.battery_low_v has no effect, time the drive instead"
            )
        },
    ),
)
