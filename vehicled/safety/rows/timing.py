"""Rows of the failsafe matrix about the daemon: its event loop, its deadlines, its controller."""

from math import nan

from vehicled.core.messages import Mode, Reaction
from vehicled.safety.rule import Clear, Row, Rule, RuleInputs, Sense, seconds

AUTO = frozenset({Mode.AUTO})


def _because(s: RuleInputs) -> str:
    return "" if s.control is None else f": {s.control.reason.name.lower().replace('_', ' ')}"


ROWS: tuple[Row, ...] = (
    Row(
        number=1,
        fault="the event loop is frozen",
        detector="the motor controller's own time-out; systemd's watchdog",
        reaction=(
            "the motor controller brakes; systemd restarts the daemon, which starts disarmed; "
            "a loop that wakes up brakes"
        ),
        rules=(
            Rule(
                code="loop_frozen",
                reaction=Reaction.BRAKE,
                value=lambda s: nan if s.sent is None else seconds(s.now_ns - s.sent.t_ns),
                limit=lambda s: s.limits.loop_silence_s,
                unit="s",
                reason=lambda s: (
                    "no command went out for "
                    f"{0 if s.sent is None else (s.now_ns - s.sent.t_ns) / 1e6:.0f} ms"
                ),
                detect_ms=0.0,
                persist_ms=0.0,
                # Counted from the moment at which the loop runs again.
                react_ms=20.0,
            ),
        ),
        outside="motor controller (read back at arming), systemd WatchdogSec",
        outside_ms=300.0,
        substitute={
            "brake": "its time-out ends the drive, and it coasts",
            "readable_timeout": (
                "its time-out is compiled in and believed: measure it once, wheels off the ground"
            ),
        },
        unobeyed="a motor controller without a working time-out repeats the last command",
    ),
    Row(
        number=2,
        fault="deadlines are missed, sustained",
        detector="the executive's account of every release",
        reaction=(
            "one miss is recorded; three in a row or 1 % of ten seconds cap the speed; an "
            "estimate five periods old brakes"
        ),
        rules=(
            Rule(
                code="deadlines_missed",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.deadlines.in_a_row,
                limit=lambda s: 3,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: (
                    f"{s.monitors.deadlines.task} missed {s.monitors.deadlines.in_a_row} "
                    "deadlines in a row"
                ),
                detect_ms=30.0,
                persist_ms=0.0,
                react_ms=100.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
            ),
            Rule(
                code="deadlines_share",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: 100.0 * s.monitors.deadlines.share,
                limit=lambda s: 1.0,
                unit="%",
                reason=lambda s: (
                    f"{100 * s.monitors.deadlines.share:.1f} % of the deadlines of ten seconds "
                    "missed (limit 1 %)"
                ),
                # The ratio is updated once a second, so a fault just before an update may count
                # only in the next.
                detect_ms=2000.0,
                persist_ms=0.0,
                react_ms=2100.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
            ),
            Rule(
                code="estimate_stale",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.estimate_age_ns),
                limit=lambda s: s.limits.estimate_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no state estimate for {s.estimate_age_ns / 1e6:.0f} ms (limit "
                    f"{s.limits.estimate_silence_s * 1e3:.0f} ms)"
                ),
                detect_ms=25.0,
                persist_ms=0.0,
                react_ms=50.0,
            ),
            Rule(
                code="control_stale",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.control_age_ns),
                limit=lambda s: s.limits.control_silence_s,
                unit="s",
                reason=lambda s: (
                    f"no control command for {s.control_age_ns / 1e6:.0f} ms"
                    if s.control is not None
                    else "no control command yet"
                ),
                detect_ms=50.0,
                persist_ms=0.0,
                react_ms=75.0,
                modes=AUTO,
            ),
        ),
    ),
    Row(
        number=3,
        fault="a task raised",
        detector="the machine, round each task",
        reaction=(
            "the command is the brake for that tick, and the vehicle stops; the third exception "
            "of ingestion or actuation in ten seconds ends the run braked"
        ),
        rules=(
            Rule(
                code="task_raised",
                reaction=Reaction.BRAKE,
                value=lambda s: bool(s.task_raised),
                reason=lambda s: s.task_raised,
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=20.0,
            ),
        ),
    ),
    Row(
        number=20,
        fault="the controller raised, the solver failed or was late",
        detector="the controller's fallback chain; level and reason of every command",
        reaction="the last plan shifted, then pure pursuit, then the brake",
        rules=(
            Rule(
                code="controller_failed",
                reaction=Reaction.BRAKE,
                value=lambda s: s.monitors.control.stop_level_in_a_row,
                limit=lambda s: 2,
                sense=Sense.REACHES,
                unit="in a row",
                reason=lambda s: f"the controller has no command but the stop{_because(s)}",
                detect_ms=20.0,
                persist_ms=0.0,
                react_ms=50.0,
                modes=AUTO,
            ),
        ),
    ),
    Row(
        number=21,
        fault="commands over the limits",
        detector="the command gate",
        reaction="clipped, counted and published; more than five ticks in a row cap the speed",
        rules=(
            Rule(
                code="commands_clipped",
                reaction=Reaction.CAP_SPEED,
                value=lambda s: s.monitors.control.clipped_in_a_row,
                limit=lambda s: 5,
                unit="in a row",
                reason=lambda s: (
                    f"{s.monitors.control.clipped_in_a_row} commands in a row were over the limits"
                ),
                detect_ms=60.0,
                persist_ms=0.0,
                react_ms=100.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
                # In TELEOP full deflection is the vehicle's limit, so a clipped command is no
                # fault.
                modes=frozenset({Mode.AUTO, Mode.STOPPING}),
            ),
        ),
    ),
)
