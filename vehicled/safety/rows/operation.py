"""Rows of the failsafe matrix about the operator and the host computer."""

from math import inf, isfinite, nan

from vehicled.core.messages import Mode, Reaction
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.host import STEP_S
from vehicled.safety.monitors.place import OVERRUN_M, OVERRUN_SHARE
from vehicled.safety.monitors.setpoints import SILENCE_S
from vehicled.safety.rule import Clear, Row, Rule, RuleInputs, Sense, seconds

ANY = frozenset(Mode)
TELEOP = frozenset({Mode.TELEOP})
OFFBOARD = frozenset({Mode.OFFBOARD})
AUTO = frozenset({Mode.AUTO})


def _rc_silence_s(s: RuleInputs) -> float:
    """Return the time without the RC handset, s; NaN if the profile does not require it."""
    return seconds(s.monitors.rc.age_ns(s.now_ns)) if s.monitors.rc.required else nan


def _rc_link_percent(s: RuleInputs) -> float:
    rc = s.monitors.rc
    return 100.0 * rc.link_quality if rc.alive(s.now_ns) else nan


def _stick_silence(s: RuleInputs) -> str:
    rc, teleop = s.monitors.rc, s.monitors.teleop
    trouble = f" ({rc.trouble})" if teleop.by_rc and rc.trouble else ""
    return f"no teleop reading for {s.limits.teleop_silence_s:.1f} s{trouble}"


def _ground_silence_s(s: RuleInputs) -> float:
    """Return the age of the ground station's heartbeat, s; NaN before the first, or if the profile
    does not stop for it."""
    age_s = seconds(s.monitors.ground.age_ns(s.now_ns))
    return age_s if s.limits.stop_without_ground and age_s < inf else nan


ROWS: tuple[Row, ...] = (
    Row(
        number=4,
        fault="emergency stop",
        detector=(
            "request of the operator: button, key, web page, signal; the kill switch of an RC "
            "handset"
        ),
        reaction="drive disabled and latched, brake applied; armed anew on purpose only",
        rules=(
            Rule(
                code="rc_killed",
                reaction=Reaction.DISABLE,
                value=lambda s: s.monitors.rc.killed,
                reason=lambda s: "the kill switch of the RC handset is on",
                # One frame, or two of SBUS, which has no checksum; at 50 frames per second or more.
                detect_ms=40.0,
                persist_ms=0.0,
                react_ms=50.0,
                modes=MOVING | {Mode.ARMED, Mode.FAULT},
            ),
        ),
        outside="supervisor, on the request itself",
        outside_ms=50.0,
        unobeyed=(
            "the request passes through this computer and the actuator's wire: it stops "
            "nothing that they do not stop"
        ),
    ),
    Row(
        number=5,
        fault="deadman released, stick or setpoint stale",
        detector=(
            "age and deadman of the readings; age of the setpoints of another program; a frame "
            "that an RC receiver marks as its failsafe or as a repetition, or that no handset "
            "can send, is no reading"
        ),
        reaction="brake",
        rules=(
            Rule(
                code="teleop_lost",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.monitors.teleop.age_ns(s.now_ns)),
                limit=lambda s: s.limits.teleop_silence_s,
                unit="s",
                reason=_stick_silence,
                detect_ms=200.0,
                persist_ms=0.0,
                react_ms=250.0,
                modes=TELEOP,
            ),
            Rule(
                code="deadman_released",
                reaction=Reaction.BRAKE,
                value=lambda s: not s.monitors.teleop.held,
                reason=lambda s: "the deadman was released",
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=50.0,
                modes=TELEOP,
            ),
            Rule(
                code="setpoint_stale",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.monitors.setpoints.age_ns(s.now_ns)),
                limit=lambda s: SILENCE_S,
                unit="s",
                reason=lambda s: (
                    f"no setpoint from {s.monitors.setpoints.holder} for {SILENCE_S:.1f} s"
                ),
                detect_ms=200.0,
                persist_ms=0.0,
                react_ms=250.0,
                modes=OFFBOARD,
            ),
            Rule(
                code="setpoints_ended",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.setpoints.released,
                reason=lambda s: f"{s.monitors.setpoints.holder} has stopped sending setpoints",
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=50.0,
                modes=OFFBOARD,
            ),
        ),
    ),
    Row(
        number=6,
        fault="stick unplugged, or not neutral at the start",
        detector="the stick's own port; its first readings",
        reaction=(
            "as row 5 in the same tick; nothing drives before the stick was neutral; no "
            "reading is ever repeated"
        ),
        rules=(
            Rule(
                code="teleop_unplugged",
                reaction=Reaction.BRAKE,
                value=lambda s: s.monitors.teleop.unplugged,
                reason=lambda s: (
                    "the stick was unplugged, or the connection of its program has ended"
                ),
                detect_ms=0.0,
                persist_ms=0.0,
                react_ms=50.0,
                modes=TELEOP,
            ),
        ),
    ),
    Row(
        number=7,
        fault="the ground station or the RC handset is lost",
        detector=(
            "age of its heartbeat, from the first one on; age of the handset's usable frames, "
            "if the profile requires it"
        ),
        reaction="controlled stop, or nothing by the profile; a warning for a poor radio link",
        rules=(
            Rule(
                code="ground_lost",
                reaction=Reaction.CONTROLLED_STOP,
                value=_ground_silence_s,
                limit=lambda s: s.limits.ground_silence_s,
                unit="s",
                reason=lambda s: (
                    f"the ground station has been silent for {s.limits.ground_silence_s:.1f} s"
                ),
                detect_ms=2000.0,
                persist_ms=10.0,
                react_ms=2200.0,
            ),
            Rule(
                code="rc_lost",
                reaction=Reaction.CONTROLLED_STOP,
                value=_rc_silence_s,
                limit=lambda s: s.monitors.rc.silence_s,
                unit="s",
                reason=lambda s: (
                    "the RC handset is lost: "
                    f"{s.monitors.rc.trouble_now(s.now_ns) or 'its frames are not usable'}"
                ),
                detect_ms=1000.0,
                persist_ms=10.0,
                react_ms=1200.0,
                modes=DRIVING,
            ),
            Rule(
                code="rc_link_poor",
                reaction=Reaction.WARN,
                value=_rc_link_percent,
                limit=lambda s: 100.0 * s.monitors.rc.least_link_quality,
                sense=Sense.UNDER,
                unit="%",
                reason=lambda s: (
                    "the radio link of the RC handset is poor: "
                    f"{100.0 * s.monitors.rc.link_quality:.0f} % arrive"
                ),
                detect_ms=1000.0,
                persist_ms=500.0,
                react_ms=2000.0,
                clear=Clear.ITSELF,
                clear_ms=2000.0,
                modes=ANY,
            ),
        ),
    ),
    Row(
        number=19,
        fault="the vehicle leaves its corridor or a fence",
        detector=(
            "its place on the course, which safety tracks itself; its body where it is, and "
            "where a stop would take it"
        ),
        reaction="cap, controlled stop before the edge, brake beyond it",
        rules=(
            Rule(
                code="fence_ahead",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: bool(s.monitors.stopping.leaves),
                reason=lambda s: (
                    f"a stop takes {s.monitors.stopping.distance_m:.1f} m from here and would "
                    f"end {s.monitors.stopping.leaves}"
                ),
                detect_ms=10.0,
                persist_ms=30.0,
                react_ms=100.0,
            ),
            Rule(
                code="fence_left",
                reaction=Reaction.BRAKE,
                value=lambda s: bool(s.monitors.stopping.outside),
                reason=lambda s: f"the vehicle is {s.monitors.stopping.outside}",
                detect_ms=10.0,
                persist_ms=50.0,
                react_ms=100.0,
                # Teleop is exempt, so that a person can drive the vehicle back in.
                modes=frozenset({Mode.AUTO, Mode.OFFBOARD}),
            ),
            Rule(
                code="corridor_left",
                reaction=Reaction.BRAKE,
                # Only a drive along the course, and the stop after it, has a corridor to leave.
                value=lambda s: abs(s.monitors.place.off_m) if s.monitors.place.driving else nan,
                limit=lambda s: s.limits.corridor_m,
                unit="m",
                reason=lambda s: (
                    f"{s.monitors.place.off_m:+.2f} m off the course (corridor "
                    f"{s.limits.corridor_m:.2f} m)"
                ),
                # The place is known to centimetres, and a vehicle moves aside by as much in this
                # time.
                detect_ms=50.0,
                persist_ms=50.0,
                react_ms=150.0,
                modes=frozenset({Mode.AUTO, Mode.STOPPING}),
            ),
            Rule(
                code="steering_unfollowed",
                reaction=Reaction.BRAKE,
                value=lambda s: seconds(s.monitors.yaw.unfollowed_ns),
                limit=lambda s: 0.0,
                unit="s",
                reason=lambda s: (
                    f"the vehicle turns by {s.monitors.yaw.unfollowed_rad:+.2f} rad beside its "
                    "wheel angles: the steering is reversed or stuck, its servo, motors or "
                    "linkage have failed, or the wheels slide"
                ),
                # From where half of what the wheels do wrong is a turn of 0.2 rad.
                detect_ms=2000.0,
                persist_ms=200.0,
                react_ms=2300.0,
                # A person who drives sees it, and may drift on purpose.
                modes=frozenset({Mode.AUTO, Mode.OFFBOARD, Mode.STOPPING}),
            ),
            Rule(
                code="rear_steering",
                reaction=Reaction.WARN,
                value=lambda s: 100.0 * abs(s.monitors.yaw.turn_ratio - 1.0),
                limit=lambda s: 100.0 * s.monitors.yaw.unfollowed_limit,
                unit="%",
                reason=lambda s: (
                    f"it turns {s.monitors.yaw.turn_ratio:.0%} of what its wheel angles make: "
                    "the rear wheels do not follow the front wheels, or "
                    "vehicle.steering.gain_rad is wrong"
                ),
                # A radian of turn, which a bend of the course has to ask for.
                detect_ms=6000.0,
                persist_ms=500.0,
                react_ms=7000.0,
                clear=Clear.ITSELF,
                clear_ms=1000.0,
            ),
        ),
        unobeyed=(
            "the reaction is a command: with a fault of the drive beside it the vehicle leaves "
            "the corridor all the same"
        ),
    ),
    Row(
        number=22,
        fault="the controller loses its path, drives it backward, or ends elsewhere",
        detector=(
            "finiteness of its reference; its end and its way against the place on the course "
            "that safety tracks"
        ),
        reaction=(
            "controlled stop, brake when backward; only at the end of the course the drive "
            "counts as finished"
        ),
        rules=(
            Rule(
                code="path_lost",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: (
                    s.control is not None
                    and not isfinite(s.control.cross_track_m)
                    and isfinite(s.speed_mps)
                ),
                reason=lambda s: "the controller does not know its place on the path",
                detect_ms=10.0,
                persist_ms=50.0,
                react_ms=100.0,
                modes=AUTO,
            ),
            Rule(
                code="course_cut_short",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.controller_finished and not s.monitors.place.ended,
                reason=lambda s: (
                    f"the controller ends the drive {s.monitors.place.remaining_m:.1f} m "
                    "before the end of the course"
                ),
                detect_ms=10.0,
                # The end of the last drive may still be reported when the next begins.
                persist_ms=50.0,
                react_ms=100.0,
                modes=AUTO,
            ),
            Rule(
                code="course_overrun",
                reaction=Reaction.CONTROLLED_STOP,
                value=lambda s: s.monitors.place.beyond_m,
                limit=lambda s: min(OVERRUN_SHARE * s.limits.corridor_m, OVERRUN_M),
                unit="m",
                reason=lambda s: (
                    f"{s.monitors.place.beyond_m:.2f} m beyond the end of the course, and the "
                    "controller drives on"
                ),
                detect_ms=10.0,
                persist_ms=50.0,
                react_ms=100.0,
                modes=AUTO,
            ),
            Rule(
                code="course_backward",
                reaction=Reaction.BRAKE,
                value=lambda s: s.monitors.place.backward_m,
                limit=lambda s: s.limits.corridor_m,
                unit="m",
                reason=lambda s: (
                    f"{s.monitors.place.backward_m:.2f} m back along the course: driven "
                    "against it, or rolled back"
                ),
                detect_ms=10.0,
                persist_ms=50.0,
                react_ms=100.0,
                modes=AUTO,
            ),
        ),
    ),
    Row(
        number=24,
        fault="disk full, log records dropped or deleted, writer slow",
        detector="the log's own account, its file's place and the free space",
        reaction="warning; nothing waits for the disk; below 5 % free nothing is armed",
        rules=(
            Rule(
                code="log_failing",
                reaction=Reaction.WARN,
                value=lambda s: s.monitors.host.log_trouble != "",
                reason=lambda s: s.monitors.host.log_trouble,
                # The writer tries its disk once a second, and its state is polled once a second.
                detect_ms=2000.0,
                persist_ms=0.0,
                react_ms=2500.0,
                clear=Clear.ITSELF,
                clear_ms=2000.0,
                modes=ANY,
            ),
        ),
    ),
    Row(
        number=25,
        fault="memory, processor, throttling",
        detector="readings of the host",
        reaction="warning; the speed is capped when deadlines suffer (row 2)",
        rules=(
            Rule(
                code="host_strained",
                reaction=Reaction.WARN,
                value=lambda s: s.monitors.host.strain != "",
                reason=lambda s: s.monitors.host.strain,
                # Load is a mean over one second: load that begins within one mean shows only in the
                # next.
                detect_ms=2000.0,
                persist_ms=1000.0,
                react_ms=3500.0,
                clear=Clear.ITSELF,
                clear_ms=5000.0,
                modes=ANY,
            ),
        ),
    ),
    Row(
        number=26,
        fault="the wall clock steps, the machine sleeps",
        detector="wall and boot clock against the monotonic one",
        reaction=(
            "only the monotonic clock counts; a step is a warning, and nothing is armed within "
            "five seconds of it; waking up stops, disarms, and forgets what was asked for"
        ),
        rules=(
            Rule(
                code="clock_stepped",
                reaction=Reaction.WARN,
                value=lambda s: abs(s.monitors.host.clock_step_s),
                limit=lambda s: STEP_S,
                unit="s",
                reason=lambda s: (
                    f"the wall clock was moved by {s.monitors.host.clock_step_s:+.1f} s"
                ),
                detect_ms=1000.0,
                persist_ms=0.0,
                react_ms=1500.0,
                clear=Clear.ITSELF,
                modes=ANY,
            ),
            Rule(
                code="woke_up",
                reaction=Reaction.BRAKE,
                value=lambda s: s.monitors.host.woke_s,
                limit=lambda s: 0.0,
                unit="s",
                reason=lambda s: f"the machine slept for {s.monitors.host.woke_s:.1f} s",
                detect_ms=1000.0,
                persist_ms=0.0,
                react_ms=1200.0,
                modes=DRIVING | {Mode.ARMED},
            ),
        ),
    ),
    Row(
        number=27,
        fault="profile or calibration do not fit",
        detector="hashes and checks at the start",
        reaction="arming is refused",
        outside="check before arming",
        outside_ms=0.0,
    ),
    Row(
        number=28,
        fault="restart while moving",
        detector="mode INIT",
        reaction="starts disarmed, and braked to a standstill first",
        outside="mode table",
        outside_ms=100.0,
    ),
    Row(
        number=29,
        fault="the simulator is lost",
        detector="end of the link, or its silence",
        reaction="brake; the run ends with the reason",
        outside="runtime",
        outside_ms=500.0,
    ),
)
