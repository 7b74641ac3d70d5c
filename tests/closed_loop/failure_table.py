"""Effect of each device failure on a drive: the rows of ``docs/failsafe_tests.md`` and the
expectations of the tests.

``ROWS`` in lockstep by ``test_failures.py``, ``PULLED`` in wall time by ``test_run_own_ports.py``.
Print the tables of the document with ``python -m tests.closed_loop.failure_table``.
"""

import sys
from collections.abc import Sequence
from math import inf, isfinite

from msgspec import Struct

VEHICLE = ("drives on", "halts unnoticed", "capped", "controlled stop", "brakes", "drive disabled")
"""Strongest reaction. ``halts unnoticed``: standstill without a request of the daemon."""
RECOVERS = ("by itself", "after re-arming", "lasts", "no")
"""Recovery. ``lasts``: the failure has no end, and the vehicle still drives."""
GATE = ("estimator ALIGNING", "rejected by the gate")
"""Traces of a wrong measurement: the gate rejects five in a row, accepts the sixth, and the filter
is no longer sure."""


class Row(Struct, frozen=True, kw_only=True):
    """One failure of one device and its expected effects."""

    profile: str = "art_published"
    failure: str
    """Failure in the syntax of ``--fail``."""
    injected: str
    """Kind and magnitude, for the document."""
    named: tuple[str, ...] = ()
    """Exact codes of faults and names of events in the log; sorted."""
    counted: tuple[str, ...] = ()
    """Exact counters that grow, of the estimates or the device; sorted. They stop nothing."""
    vehicle: str
    """One of ``VEHICLE``."""
    within_s: float = inf
    """Longest time from the failure to the first reacting frame."""
    off_course_m: float = 0.05
    """Largest distance of the true vehicle from the course. Above 0.1 it also gets at least half as
    far."""
    stands_s: tuple[float, float] | None = None
    """Earliest and latest standstill of the true vehicle after the failure began; None if it does
    not matter."""
    recovers: str = "by itself"
    """One of ``RECOVERS``."""
    bound: int | None = None
    """Row of the failsafe matrix that bounds a failure no fault names."""
    remark: str = ""
    watch_s: float = 4.0
    """Time watched if the failure has no end."""
    stop_s: float | None = None
    """Time of the operator's stop request."""

    @property
    def key(self) -> str:
        """Return the identity of the row."""
        return f"{self.profile} {self.failure}"


_REARM = "after re-arming"
_FIVE = "the gate rejects five fixes in a row; the stop begins before it accepts the sixth"
_SILENT = "no fix for 0.5 s: the filter predicts, speed cap 0.5 m/s"
_NOT_BELIEVED = "the driver withholds the poses; capped after 0.2 s, stopped after 1 s"
_IMU_LOST = "silence of 50 ms"
_NO_TELEMETRY = "the board sends no telemetry"
_VESC_BACK = ("actuator_lost", "vesc_ready", "vesc_silent")

ROWS: tuple[Row, ...] = (
    # Position.
    Row(
        failure="gnss:off@3+2", injected="no data passes for 2 s", vehicle="capped", within_s=0.6,
        named=("epochs_missing", "gnss_silent", "speed_unmeasured"), remark=_SILENT,
    ),
    Row(
        failure="gnss:stuck@3+2",
        injected="the same position for 2 s, fresh stamps, 2 m from the truth at the end",
        vehicle="controlled stop", within_s=0.6, named=("gnss_refused", "gnss_stuck"), counted=GATE,
        recovers=_REARM,
        remark="fixes of a moving vehicle never repeat; the gate also rejects them",
    ),
    Row(
        failure="gnss:stuck@3", injected="the same for ever", vehicle="drive disabled",
        within_s=0.6, counted=GATE, recovers="no", watch_s=8.0,
        named=("gnss_refused", "gnss_stuck", "uncommanded_motion", "uncommanded_motion_lasts"),
        remark="after the stop the filter starts anew on fixes that repeat the speed of before",
    ),
    Row(
        failure="gnss:garbage@3+2", injected="random bytes for 2 s", vehicle="capped", within_s=0.6,
        named=("epochs_missing", "gnss_silent", "speed_unmeasured"), counted=("gnss.bad_frames",),
        remark=_SILENT,
    ),
    Row(
        failure="gnss:wrong=10@3+2", injected="10 m sideways for 2 s, reported as fixed",
        vehicle="brakes", within_s=0.6, counted=GATE, recovers=_REARM,
        named=("corridor_left", "gnss_refused", "place_jumped"),
        remark=f"{_FIVE}; the place that jumps then is named, and braked for",
    ),
    Row(
        failure="gnss:slow=5@3+2", injected="every fifth fix, 2 Hz, for 2 s", vehicle="drives on",
        named=("epochs_missing",), remark="just below the limit of silence",
    ),
    Row(
        failure="gnss:delayed=0.5@3+2", injected="0.5 s late for 2 s", vehicle="capped",
        within_s=0.6, named=("gnss_silent", "speed_unmeasured"),
        off_course_m=0.1,
        remark="the first late fix ends the cap; the filter fuses each fix at its time of validity",
    ),
    Row(
        failure="gnss:intermittent=0.4@3+3", injected="a loose contact for 3 s, intervals of 0.4 s",
        vehicle="capped", within_s=2.0, named=("epochs_missing", "gnss_silent", "speed_unmeasured"),
    ),
    Row(
        failure="gnss:no_fix@3+2", injected="a tunnel of 2 s", vehicle="capped", within_s=0.6,
        named=("gnss_silent", "rtk_state", "speed_unmeasured"),
        counted=("not finite",), remark=_SILENT,
    ),
    Row(
        failure="gnss:cold_start@3+2", injected="restart, no position for 2 s, settings forgotten",
        vehicle="capped", within_s=0.6,
        named=("epochs_absent", "gnss_configured", "gnss_silent", "speed_unmeasured"),
        remark="reconfigured after 3 s without an epoch",
    ),
    Row(
        failure="gnss:brownout@3+1", injected="no power for 1 s, settings forgotten",
        vehicle="capped", within_s=0.6,
        named=("epochs_absent", "gnss_configured", "gnss_silent", "speed_unmeasured"),
        remark="as a cold start",
    ),
    Row(
        failure="gnss:float=0.4@3+2",
        injected="fixed to float, drift to 0.4 m with correct sigma, for 2 s", vehicle="capped",
        within_s=0.6, named=("rtk_lost", "rtk_state"),
        remark="the cap falls as sigma grows; it ends 3 s after the fix returns",
    ),
    Row(
        failure="gnss:multipath=1.5@3+2", injected="1.5 m sideways for 2 s, reported as fixed",
        vehicle="controlled stop", within_s=0.6, named=("gnss_refused", "place_jumped"),
        counted=GATE, recovers=_REARM, remark=_FIVE,
    ),
    # Motion capture.
    Row(
        profile="f1tenth_mocap", failure="mocap:off@3+2", injected="no frame arrives for 2 s",
        vehicle="controlled stop", within_s=0.3, named=("mocap_frames_lost", "mocap_lost"),
        recovers=_REARM, remark="capped after 0.2 s, stopped after 1 s",
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:garbage@3+2", injected="random bytes for 2 s",
        vehicle="controlled stop", within_s=0.3, named=("mocap_frames_lost", "mocap_lost"),
        recovers=_REARM,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:stuck@3+2",
        injected="the same pose for 2 s, fresh stamps", vehicle="controlled stop", within_s=0.3,
        named=("map_lost", "map_lost_long", "message_unused", "mocap_frozen"), recovers=_REARM,
        remark=_NOT_BELIEVED,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:wrong@3+2", injected="1 m sideways for 2 s",
        vehicle="controlled stop", within_s=0.3, named=("message_unused", "mocap_jumped"),
        recovers=_REARM, remark=_NOT_BELIEVED,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:mocap_flip@3+2",
        injected="the body flips by half a turn for 2 s", vehicle="controlled stop", within_s=0.3,
        named=("message_unused", "mocap_flipped"), recovers=_REARM, remark=_NOT_BELIEVED,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:mocap_exchange@3+2",
        injected="another body is taken for the vehicle's for 2 s", vehicle="controlled stop",
        within_s=0.3, named=("message_unused", "mocap_jumped"), recovers=_REARM,
        remark=_NOT_BELIEVED,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:mocap_occluded@3+2",
        injected="the cameras do not see the body for 2 s", vehicle="controlled stop",
        within_s=0.3, named=("mocap_lost",), recovers=_REARM,
        remark="less than 0.2 s is driven through",
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:mocap_frozen@3+2",
        injected="the last pose is repeated for 2 s, and nothing says so",
        vehicle="controlled stop", within_s=0.3,
        named=("map_lost", "map_lost_long", "message_unused", "mocap_frozen"), recovers=_REARM,
        remark=_NOT_BELIEVED,
    ),
    Row(
        profile="f1tenth_mocap", failure="mocap:mocap_loses_frames@3+2",
        injected="30 % of the frames are lost for 2 s", vehicle="drives on", within_s=0.6,
        named=("mocap_frames_lost",),
    ),
    # Heading.
    Row(
        failure="heading:off@3+3", injected="no data passes for 3 s", vehicle="drives on",
        named=("epochs_absent", "epochs_missing", "gnss_configured", "receiver_heard",
            "receiver_silent"),
        remark="gyro and course over ground provide the yaw",
    ),
    Row(
        failure="heading:stuck@3+3", injected="the same heading for 3 s", vehicle="controlled stop",
        within_s=0.8, counted=GATE[1:], named=("heading_against_gyro", "heading_stuck"),
        recovers=_REARM, remark="the heading repeats while the gyro turns",
    ),
    Row(
        failure="heading:stuck@3", injected="the same for ever", vehicle="controlled stop",
        within_s=0.8, named=("heading_against_gyro", "heading_stuck"), recovers="no",
        watch_s=7.0,
    ),
    Row(
        failure="heading:garbage@3+3", injected="random bytes for 3 s", vehicle="drives on",
        named=("epochs_absent", "epochs_missing", "gnss_configured", "receiver_heard",
            "receiver_silent"),
        counted=("heading.bad_frames",), remark="as off",
    ),
    Row(
        failure="heading:wrong=0.5@3+3", injected="0.5 rad off for 3 s", vehicle="controlled stop",
        within_s=0.5, counted=GATE[1:], recovers=_REARM,
        named=("heading_against_course", "heading_against_gyro"),
        remark="three readings in a row contradict the gyro, and five fixes the heading",
    ),
    Row(
        failure="heading:slow=5@3+2", injected="every fifth heading, 2 Hz, for 2 s",
        vehicle="drives on", named=("epochs_missing",),
    ),
    Row(
        failure="heading:delayed=0.5@3+2", injected="0.5 s late for 2 s", vehicle="drives on",
        bound=11,
        remark=(
            "not observable and without effect: the filter fuses each heading at its time of "
            "validity"
        ),
    ),
    Row(
        failure="heading:intermittent=0.2@3+2",
        injected="a loose contact for 2 s, intervals of 0.2 s", vehicle="drives on",
        named=("epochs_missing",),
    ),
    # Inertial unit.
    Row(
        failure="imu:off@3+2", injected="no data passes for 2 s", vehicle="controlled stop",
        within_s=0.1, named=("imu_silent",), recovers="after re-arming", remark=_IMU_LOST,
    ),
    Row(
        failure="imu:stuck@3+2", injected="the same sample for 2 s, fresh stamps",
        vehicle="controlled stop", within_s=0.6, named=("imu_silent", "imu_stuck"),
        counted=("imu.stuck_samples",), recovers="after re-arming",
        remark="accelerometer and gyro repeat for 0.5 s; then the driver drops the samples",
    ),
    Row(
        failure="imu:garbage@3+2", injected="random bytes for 2 s", vehicle="controlled stop",
        within_s=0.1, named=("imu_silent",), counted=("imu.bad_frames",),
        recovers="after re-arming", remark=_IMU_LOST,
    ),
    Row(
        failure="imu:wrong=0.5@3+3", injected="yaw rate 0.5 rad/s too high for 3 s",
        vehicle="controlled stop", within_s=0.9, counted=GATE[1:],
        named=("gyro_against_course", "heading_against_gyro"), off_course_m=0.1, recovers="no",
        remark="heading and course over ground both contradict the gyro",
    ),
    Row(
        failure="imu:slow=5@3+3", injected="every fifth sample, 80 Hz, for 3 s",
        vehicle="drives on", named=("imu_rate",),
        remark="the low rate is reported; the samples suffice",
    ),
    Row(
        failure="imu:delayed=0.2@3+2", injected="0.2 s late for 2 s", vehicle="controlled stop",
        within_s=0.1, named=("imu_silent",), recovers="after re-arming",
        remark="the gap at the beginning stops the vehicle",
    ),
    Row(
        failure="imu:intermittent=0.2@3+2", injected="a loose contact for 2 s, intervals of 0.2 s",
        vehicle="controlled stop", within_s=0.8, named=("imu_silent",), recovers="after re-arming",
        remark=_IMU_LOST,
    ),
    Row(
        failure="imu:saturation=1@3+2", injected="x and yaw saturated for 2 s, flagged",
        vehicle="controlled stop", within_s=0.15, named=("imu_saturated",),
        counted=("imu.saturated_samples",), recovers=_REARM,
        remark="flagged samples are not used: a bump has no effect, 50 ms count as silence",
    ),
    Row(
        failure="imu:brownout@3+1", injected="no power for 1 s", vehicle="controlled stop",
        within_s=0.1, named=("imu_silent",), recovers="after re-arming", remark=_IMU_LOST,
    ),
    Row(
        failure="imu:baud=460800@3+2", injected="half the line rate for 2 s",
        vehicle="controlled stop", within_s=0.1, named=("imu_silent",), counted=("imu.bad_frames",),
        recovers="after re-arming", remark=_IMU_LOST,
    ),
    # The PWM board, which sends no telemetry.
    Row(
        failure="drive:off@3+4", injected="no frame passes for 4 s", vehicle="brakes", within_s=2.2,
        named=("stalled",), stands_s=(1.0, 3.0), recovers=_REARM,
        remark=f"{_NO_TELEMETRY}; it goes to neutral after 0.2 s and the vehicle coasts. "
        "GNSS shows standstill under a drive command: disarmed before the contact returns",
    ),
    Row(
        failure="drive:stuck@3+6",
        injected="the last pulses for 6 s; the operator requests a stop after 1 s",
        vehicle="brakes", stop_s=4.0, watch_s=9.0, within_s=1.1, named=("uncommanded_motion",),
        stands_s=(6.0, 8.0), off_course_m=0.3, recovers="after re-arming",
        remark=f"{_NO_TELEMETRY}: **the stop has no effect** until the pulses change again, "
        "which is reported 3.7 s later; only an independent stop covers this",
    ),
    Row(
        failure="drive:garbage@3+2", injected="random bytes for 2 s", vehicle="brakes",
        within_s=2.2, named=("stalled",), stands_s=(1.0, 3.0), recovers=_REARM,
        remark="as off: random bytes hardly ever form a frame",
    ),
    Row(
        failure="drive:wrong=0.3@3+3", injected="0.3 of full steering to the left for 3 s",
        vehicle="drives on", off_course_m=0.3, bound=19,
        remark="pursuit settles beside the course; no wheel angle is measured for comparison",
    ),
    Row(
        failure="drive:slow=5@3+2", injected="every fifth frame, 4 Hz, for 2 s",
        vehicle="drives on", bound=14, remark=_NO_TELEMETRY,
    ),
    Row(
        failure="drive:delayed=0.5@3+3", injected="0.5 s late for 3 s", vehicle="drives on",
        off_course_m=0.09, bound=19, remark=_NO_TELEMETRY,
    ),
    Row(
        failure="drive:intermittent=0.2@3+2",
        injected="a loose contact for 2 s, intervals of 0.2 s", vehicle="drives on", bound=14,
        remark=_NO_TELEMETRY,
    ),
    Row(
        failure="drive:brownout@3+2", injected="no power for 2 s", vehicle="brakes", within_s=2.2,
        named=("stalled",), stands_s=(1.0, 3.0), recovers=_REARM, remark="as off",
    ),
    # The VESC.
    Row(
        profile="art_vesc", failure="drive:fault=4@3+1", injected="fault 4, over-current, for 1 s",
        vehicle="drive disabled", within_s=0.05, named=("vesc_abs_over_current",),
        stands_s=(0.2, 1.5), recovers="after re-arming",
    ),
    Row(
        profile="art_vesc", failure="drive:own_timeout@3+1",
        injected="motor commands are lost for 1 s, telemetry continues", vehicle="brakes",
        within_s=0.25, named=("actuator_lost", "vesc_timed_out"), stands_s=(0.2, 1.5),
        recovers="after re-arming",
        remark="the controller brakes on its own after 0.2 s and reports it",
    ),
    Row(
        profile="art_vesc", failure="drive:bus_off@3+1", injected="no frame on CAN for 1 s",
        vehicle="brakes", within_s=0.12, counted=GATE[1:], named=_VESC_BACK, stands_s=(0.2, 1.5),
        recovers="after re-arming", remark="the controller's own timeout brakes",
    ),
    Row(
        profile="art_vesc", failure="drive:brownout@3+1", injected="no power for 1 s",
        vehicle="brakes", within_s=0.12, counted=GATE[1:],
        named=("actuator_lost", "vesc_ready", "vesc_restarted", "vesc_silent"), stands_s=(0.2, 1.5),
        recovers="after re-arming",
        remark="the daemon reads its configuration back before driving again",
    ),
    Row(
        profile="art_vesc", failure="drive:off@3+1", injected="no data passes for 1 s",
        vehicle="brakes", within_s=0.12, named=_VESC_BACK, counted=GATE[1:], stands_s=(0.2, 1.5),
        recovers="after re-arming",
    ),
    Row(
        profile="art_vesc", failure="drive:stuck@3+3", vehicle="drive disabled", stop_s=4.0,
        within_s=1.1,
        injected="the last command and telemetry for 3 s; the operator requests a stop after 1 s",
        named=("rollaway", "uncommanded_motion", "uncommanded_motion_lasts"), stands_s=(3.0, 4.0),
        counted=GATE[1:], recovers=_REARM,
        remark="valid frames with old values: **the stop has no effect** until they change again, "
        "which is reported 0.9 s later; only an independent stop covers this",
    ),
    Row(
        profile="art_vesc", failure="drive:garbage@3+1", injected="random bytes for 1 s",
        vehicle="brakes", within_s=0.12, named=_VESC_BACK, counted=GATE[1:], stands_s=(0.2, 1.5),
        recovers="after re-arming", remark="the controller accepts no random frame",
    ),
    Row(
        profile="art_vesc", failure="drive:steering_reversed@3",
        injected="the wheels turn the other way for ever", vehicle="brakes", within_s=2.3,
        named=("steering_unfollowed",), off_course_m=0.5, recovers="no",
        remark="the gyro turns against the wheel angles, and heading and course confirm the gyro",
    ),
    Row(
        profile="art_vesc", failure="drive:wrong=0.3@3+3",
        injected="0.3 of full steering to the left; reported speed 0.3 too high",
        vehicle="drives on", off_course_m=0.3, bound=19,
        remark=(
            "the servo sends no feedback; GNSS velocity outweighs the reported speed in the "
            "filter"
        ),
    ),
    Row(
        profile="art_vesc", failure="drive:slow=5@3+2",
        injected="every fifth command and value for 2 s", vehicle="drives on", bound=17,
        remark="20 Hz of commands suffice for the controller's timeout",
    ),
    Row(
        profile="art_vesc", failure="drive:delayed=0.5@3+1", injected="0.5 s late for 1 s",
        vehicle="brakes", within_s=0.12, counted=GATE,
        named=("actuator_lost", "speed_mismatch", "uncommanded_motion", "vesc_ready",
            "vesc_silent"), stands_s=(0.2, 1.5),
        recovers="after re-arming", remark="for half a second it still follows old commands",
    ),
    Row(
        profile="art_vesc", failure="drive:intermittent=0.2@3+1",
        injected="a loose contact for 1 s, intervals of 0.2 s", vehicle="brakes", within_s=0.8,
        named=_VESC_BACK, stands_s=(0.2, 1.5), recovers="after re-arming",
    ),
    # An autopilot with ArduPilot, which also has the receiver and the inertial unit.
    Row(
        profile="autopilot", failure="drive:autopilot_mode=4@3+2",
        injected="somebody else changes its mode to HOLD for 2 s", vehicle="brakes",
        within_s=0.15, named=("actuator_lost", "autopilot_mode_hold"), stands_s=(0.5, 2.5),
        recovers=_REARM, remark="the sticks are given back at once",
    ),
    Row(
        profile="autopilot", failure="drive:autopilot_sticks@3+2",
        injected="it acts on the sticks of a transmitter for 2 s", vehicle="brakes",
        within_s=0.6, named=("actuator_lost", "autopilot_other_sticks"), stands_s=(0.5, 2.5),
        recovers=_REARM, remark="seen by the channels that it reports",
    ),
    Row(
        profile="autopilot", failure="drive:off@3+2", injected="no data passes for 2 s",
        vehicle="brakes", within_s=0.7, off_course_m=0.07,
        named=("actuator_lost", "autopilot_mode_hold", "autopilot_ready", "autopilot_silent"),
        stands_s=(2.5, 5.0), recovers=_REARM, remark="its own failsafe holds meanwhile",
    ),
    # Wheel encoders at a microcontroller.
    Row(
        profile="encoders", failure="encoder:encoder_stands@3+3",
        injected="the left encoder counts no more for 3 s", vehicle="controlled stop",
        within_s=0.8, named=("encoder_wrong", "gnss_refused", "message_unused", "speed_mismatch"),
        counted=GATE, stands_s=(1.0, 3.0), recovers=_REARM,
        remark="the mean speed is wrong by half until a metre shows which encoder stands",
    ),
    Row(
        profile="encoders", failure="encoder:encoder_turned@3+3",
        injected="the left encoder counts the other way for 3 s", vehicle="controlled stop",
        within_s=0.8, named=("speed_mismatch",), counted=("rejected by the gate",),
        stands_s=(1.0, 3.0), recovers=_REARM,
        remark="a mean speed of 0 against that of GNSS: the filter leaves it out",
    ),
    Row(
        profile="encoders", failure="encoder:encoder_missing@3+2",
        injected="the right encoder is not on the line for 2 s", vehicle="drives on",
        within_s=0.1, named=("encoder_wrong", "message_unused"),
    ),
    Row(
        profile="encoders", failure="encoder:encoder_jumps@3+1",
        injected="the count of the left encoder jumps by 100000", vehicle="drives on",
        within_s=0.1, named=("encoder_wrong", "message_unused"),
    ),
    Row(
        profile="encoders", failure="encoder:encoder_resets@3+1",
        injected="the board restarts", vehicle="drives on", within_s=0.6,
        named=("encoder_silent",), remark="it is asked for counts again",
    ),
    Row(
        profile="encoders", failure="encoder:off@3+2", injected="no data passes for 2 s",
        vehicle="drives on", within_s=0.6, named=("encoder_silent",),
        remark="the speed is that of GNSS",
    ),
)  # fmt: skip
"""All rows, in the order of the document."""

PULLED: tuple[Row, ...] = (
    Row(
        profile="art_vesc", failure="gnss:usb@6+2", injected="unplugged for 2 s", vehicle="capped",
        within_s=0.9, named=("gnss_configured", "gnss_silent", "rtk_state"),
        remark="no fix for 0.5 s; reconfigured, in case it lost power",
    ),
    Row(
        profile="art_vesc", failure="imu:usb@11+3", injected="unplugged for 3 s",
        vehicle="controlled stop", within_s=1.4, named=("imu_silent",), recovers="after re-arming",
        remark=(
            "limit 1 s here, so that a stall of the test machine does not count; 50 ms as "
            "shipped"
        ),
    ),
    Row(
        profile="art_vesc", failure="drive:usb@20+3", injected="the CAN adapter unplugged for 3 s",
        vehicle="brakes", within_s=0.2, named=("actuator_lost", "vesc_ready"),
        recovers="after re-arming",
        remark=(
            "detected at once, not by silence; the daemon reads it back before driving again "
            "and stays disarmed"
        ),
    ),
)  # fmt: skip
"""Pulled plugs of one drive, in order. Times are the devices'; distances from the course are the
daemon's estimate."""


def markdown(rows: Sequence[Row] = ROWS) -> str:
    """Return a table of the document."""
    heads = (
        "profile", "failure", "injected", "noticed by", "vehicle", "reacts within",
        "off the course", "recovers", "remark",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "| " + " | ".join("---" for _ in heads) + " |"]
    for row in rows:
        cells = (
            row.profile,
            f"`{row.failure}`",
            row.injected,
            _noticed(row),
            row.vehicle,
            _seconds(row.within_s),
            f"{row.off_course_m:g} m",
            row.recovers,
            row.remark,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _noticed(row: Row) -> str:
    found = [", ".join(f"`{name}`" for name in row.named)] if row.named else ["nothing"]
    if row.counted:
        found.append(f"counted: {', '.join(row.counted)}")
    if row.bound is not None:
        found.append(f"row {row.bound}")
    return "; ".join(found)


def _seconds(value_s: float) -> str:
    return f"{value_s:g} s" if isfinite(value_s) else "-"


if __name__ == "__main__":
    sys.stdout.write(f"{markdown()}\n\n{markdown(PULLED)}\n")
