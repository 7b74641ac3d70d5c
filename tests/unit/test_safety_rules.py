"""Every rule of the failsafe matrix by itself: the limit at which it trips, its reaction, its
modes, its durations, and NaN.

The numbers stand here a second time, so that a changed rule is seen as well as a broken one; a rule
without a case fails.
"""

from collections.abc import Callable
from math import inf, nan, nextafter
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    GnssFix,
    ImuSample,
    LaserScan,
    Mode,
    MotorStatus,
    ObstacleRange,
    Reaction,
    StateEstimate,
    TeleopCommand,
)
from vehicled.core.messages.decisions import Setpoint
from vehicled.core.ports import NEVER_NS
from vehicled.core.rc import Handset, RcAxis, RcMap, RcParams
from vehicled.core.vehicle import Limits
from vehicled.core.wire.channels import TICKS
from vehicled.safety.matrix import RULES
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.rc import RcMonitor
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.rule import RuleInputs
from vehicled.safety.supervisor import Supervisor

# No two limits are equal, so that none can stand for another.
LIMITS = Limits(
    max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=1.5, capped_speed_mps=0.7,
    gnss_silence_s=0.51, imu_silence_s=0.052, estimate_silence_s=0.053, control_silence_s=0.104,
    loop_silence_s=0.155, telemetry_silence_s=0.106, teleop_silence_s=0.207, ground_silence_s=1.08,
    obstacle_silence_s=0.32, obstacle_gap_m=0.6, rtk_lost_stop_s=9.0, gnss_refusals=6,
    speed_mismatch_s=0.4, not_moving_s=2.2, no_progress_s=8.0, roll_back_m=0.35, uncommanded_s=0.31,
    overspeed_mps=0.4, motor_hot_k=350.0, battery_low_v=10.0, battery_empty_v=9.0,
)  # fmt: skip
COVARIANCE = (1e-4, *(0.0,) * 4, 1e-4, *(0.0,) * 10)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 1.0, 0.0, COVARIANCE, EstimatorStatus.RUNNING)
CONTROL = ControlCommand(0, 0, 0.0, 0.3, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0)
BEGIN_NS = 100 * 10**9
S1, S2, S3, S4 = Reaction.CAP_SPEED, Reaction.CONTROLLED_STOP, Reaction.BRAKE, Reaction.DISABLE
DRIVING = frozenset({Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD})
MOVING = DRIVING | {Mode.STOPPING}
AUTO = frozenset({Mode.AUTO})
TELEOP = frozenset({Mode.TELEOP})
OFFBOARD = frozenset({Mode.OFFBOARD})
NS = 1e-9
"""Resolution of an age."""

Put = Callable[[Monitors, Any, int], dict[str, Any] | None]
"""Function that gives the inputs of a rule a value at an instant, and returns those that no monitor
holds."""


class Still(Monitors):
    """Monitors that keep what a test has put into them."""

    def update(self, s: Any) -> None:
        """Do nothing."""


class Case(Struct, frozen=True):
    """Reaction, limits and durations of one rule, as they must be."""

    code: str
    reaction: Reaction
    put: Put
    quiet: tuple[Any, ...]
    """Values that must not trip the rule: those at its limit, those on its safe side, and unknown
    ones."""
    holds: tuple[Any, ...]
    """Values that must trip it: those nearest to its limit, and those far beyond."""
    persist_ms: float = 0.0
    clears_ms: float | None = None
    """Time after which it clears by itself, ms; None if only arming clears it."""
    modes: frozenset[Mode] = MOVING
    cap_mps: float = 0.7
    releases_brake: bool = False


def set_fields(monitor: object, **fields: Any) -> None:
    """Set fields of a monitor, and override its properties."""
    for name, value in fields.items():
        assert hasattr(monitor, name), name
        if isinstance(getattr(type(monitor), name, None), property):
            monitor.__class__ = type("Fixed", (type(monitor),), {name: value})
        else:
            setattr(monitor, name, value)


def field(monitor: str, name: str, **others: Any) -> Put:
    """Put the value into a field of a monitor."""
    return lambda m, value, _: set_fields(getattr(m, monitor), **{name: value}, **others)


def lasting(monitor: str, name: str) -> Put:
    """Put seconds into a field that holds ns."""
    return lambda m, value, _: set_fields(getattr(m, monitor), **{name: round(value * 1e9)})


def since(monitor: str, name: str) -> Put:
    """Put seconds into a field that holds the instant at which they began; None: nothing has
    begun."""
    return lambda m, value, now_ns: set_fields(
        getattr(m, monitor), **{name: None if value is None else now_ns - ns(value)}
    )


def given(**fields: Any) -> Put:
    """Give the value to the inputs that no monitor holds, by functions of value and instant."""
    return lambda _m, value, now_ns: {
        name: function(value, now_ns) for name, function in fields.items()
    }


def silent(*kinds: type[Any]) -> Put:
    """Let the newest message of every kind be so old; None: the profile declares none."""

    def put(m: Monitors, value: float | None, now_ns: int) -> None:
        m.sources = type(m.sources)(
            [
                MonitoredSource(name=kind.__name__, message=kind, silence_ns=1)
                for kind in kinds
                if value is not None
            ]
        )
        for kind in kinds:
            if value is not None and value < inf:
                m.sources.received(kind, now_ns - ns(value))

    return put


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def over(limit: float, *, step: float = 0.0) -> dict[str, Any]:
    """Values round a limit that must not be exceeded."""
    return {
        "quiet": (limit, 0.5 * limit, nan),
        "holds": (limit + step if step else nextafter(limit, inf), 3.0 * limit, inf),
    }


def age(limit_s: float) -> dict[str, Any]:
    """Values round the limit of an age, which has no NaN."""
    return {"quiet": (limit_s, 0.0), "holds": (limit_s + NS, 3.0 * limit_s)}


def count(limit: int) -> dict[str, Any]:
    """Values round a number that must not be reached."""
    return {"quiet": (limit - 1, 0), "holds": (limit, limit + 1)}


FLAG: dict[str, Any] = {"quiet": (False,), "holds": (True,)}
TEXT: dict[str, Any] = {"quiet": ("",), "holds": ("broken",)}


def sent(age_s: float | None, now_ns: int) -> ActuatorCommand | None:
    return None if age_s is None else ActuatorCommand(now_ns - ns(age_s), 0, 0.0, 0.0, 0.0, 0.0)


def estimate(**functions: Any) -> Put:
    return given(
        estimate=lambda value, _: replace(
            ESTIMATE, **{name: make(value) for name, make in functions.items()}
        )
    )


def not_finite(m: Monitors, value: tuple[str, float], _: int) -> dict[str, Any]:
    name, number = value
    return {
        "estimate": replace(
            ESTIMATE, **{name: (number, *COVARIANCE[1:]) if name == "covariance" else number}
        )
    }


def status(m: Monitors, value: tuple[EstimatorStatus, bool, bool], _: int) -> dict[str, Any]:
    set_fields(m.alignment, active=value[1], without_heading=value[2])
    return {"estimate": replace(ESTIMATE, status=value[0])}


def sigma(value: float) -> tuple[float, ...]:
    return (value * value, *COVARIANCE[1:])


def telemetry(m: Monitors, value: float | str | None, now_ns: int) -> dict[str, Any]:
    m.sources = type(m.sources)(())
    if isinstance(value, str):
        return {"actuator_lost": value}
    if value is not None:
        m.sources.received(MotorStatus, now_ns - ns(value))
    return {}


def teleop_age(m: Monitors, value: float, now_ns: int) -> None:
    m.teleop.command = None
    m.teleop.on_message(
        TeleopCommand(
            now_ns - ns(value),
            now_ns - ns(value),
            0.0,
            0.0,
            0.0,
            True,
            "pad",
            m.teleop._seen_ns.get("", 0),
        ),
        now_ns,
    )
    m.teleop._counted.clear()


def deadman(m: Monitors, value: bool, now_ns: int) -> None:
    m.teleop.command = TeleopCommand(now_ns, now_ns, 0.0, 0.0, 0.0, value, "pad", 1)


def setpoint(m: Monitors, value: float, now_ns: int) -> None:
    set_fields(
        m.setpoints,
        newest=Setpoint(now_ns, now_ns, speed_mps=1.0, wheel_angle_rad=0.0, origin="program"),
    )
    m.setpoints._arrived_ns = now_ns - ns(value)


def handset(**change: Any) -> RcMonitor:
    """Return the monitor of a handset that is there, with changes of its state."""
    params = RcParams(
        steering=RcAxis(channel=1),
        throttle=RcAxis(channel=3),
        silence_s=1.09,
        required=True,
        least_link_quality=0.4,
    )
    monitor = RcMonitor(RcMap(params, TICKS))
    monitor._switches = Handset(0.0, 0.0, 0.0, None, None, False)
    set_fields(monitor, **{"_received_ns": BEGIN_NS, **change})
    return monitor


def rc_age(m: Monitors, value: float | None, now_ns: int) -> None:
    m.rc = (
        RcMonitor()
        if value is None
        else handset(_received_ns=now_ns - ns(value) if value < inf else -NEVER_NS)
    )


def rc_link(m: Monitors, value: float, now_ns: int) -> None:
    m.rc = handset(_received_ns=now_ns, link_quality=value / 100.0)


def rc_killed(m: Monitors, value: bool, now_ns: int) -> None:
    m.rc = handset(_received_ns=now_ns, killed=value)


def ground(m: Monitors, value: float | None, now_ns: int) -> None:
    m.ground._received_ns = None if value is None else now_ns - ns(value)


def sees(m: Monitors, free_m: float, cap_mps: float) -> None:
    set_fields(m.obstacle, sees=True, free_m=free_m, cap_mps=cap_mps)
    m.stopping.distance_m = 2.0


def driven_at_obstacle(m: Monitors, value: float, _: int) -> None:
    sees(m, value, inf)
    set_fields(m.obstacle, drives=lambda _s: True)


def moving_at_obstacle(m: Monitors, value: tuple[float, float], _: int) -> dict[str, Any]:
    sees(m, value[0], inf)
    return {"estimate": replace(ESTIMATE, speed_mps=value[1])}


def speeds(m: Monitors, value: tuple[float, float], _: int) -> dict[str, Any]:
    """Set the speed of the estimate, and that which the fixes prove."""
    set_fields(m.motion, proven_mps=lambda _now_ns: value[1])
    return {"estimate": replace(ESTIMATE, speed_mps=value[0])}


def jumps(m: Monitors, value: float, _: int) -> None:
    set_fields(m.consistency, _jump_m=(0.0, value))


def lost_path(_m: Monitors, value: tuple[float, float], _: int) -> dict[str, Any]:
    return {
        "control": replace(CONTROL, cross_track_m=value[0]),
        "estimate": replace(ESTIMATE, speed_mps=value[1]),
    }


def cut_short(m: Monitors, value: tuple[bool, bool], _: int) -> dict[str, Any]:
    set_fields(m.place, ended=value[1])
    return {"controller_finished": value[0]}


def corridor(m: Monitors, value: tuple[float, bool], _: int) -> None:
    set_fields(m.place, off_m=value[0], driving=value[1])


def turn_ratio(m: Monitors, value: float, _: int) -> None:
    m.yaw.adapt(replace(VEHICLE, rear_steering_ratio=-1.0))
    set_fields(m.yaw, turn_ratio=value)


UNKNOWN = EstimatorStatus.UNINITIALISED
RUNNING = EstimatorStatus.RUNNING
DIVERGED = EstimatorStatus.DIVERGED
UP = nextafter(1.5, inf)
STOP: dict[str, Any] = {"modes": frozenset({Mode.AUTO, Mode.STOPPING})}
OVERRUN_M = 0.75
"""Half the corridor."""
WARN: dict[str, Any] = {"modes": frozenset(Mode)}
CASES = (
    Case("loop_frozen", S3, given(sent=sent), quiet=(None, 0.155), holds=(0.155 + NS, 5.0)),
    Case("deadlines_missed", S1, field("deadlines", "in_a_row"), **count(3), clears_ms=1000.0),
    Case(
        "deadlines_share", S1, field("deadlines", "share"), quiet=(0.01, 0.0, nan),
        holds=(0.01 + NS, 1.0), clears_ms=1000.0,
    ),
    Case("estimate_stale", S3, given(estimate_age_ns=lambda value, _: ns(value)), **age(0.053)),
    Case(
        "control_stale", S3, given(control_age_ns=lambda value, _: ns(value)), **age(0.104),
        modes=AUTO,
    ),
    Case("task_raised", S3, given(task_raised=lambda value, _: value), **TEXT),
    Case("controller_failed", S3, field("control", "stop_level_in_a_row"), **count(2), modes=AUTO),
    Case(
        "commands_clipped", S1, field("control", "clipped_in_a_row"), **count(6), clears_ms=1000.0,
        **STOP,
    ),
    Case(
        "gnss_silent", S1, silent(GnssFix), quiet=(None, 0.51, 0.0), holds=(0.51 + NS, inf),
        persist_ms=50.0, clears_ms=1000.0,
    ),
    Case(
        "speed_unmeasured", S1, field("speed", "unmeasured", held_mps=0.45), **FLAG,
        persist_ms=50.0, clears_ms=1000.0, modes=DRIVING - TELEOP, cap_mps=0.45,
    ),
    Case(
        "speed_unmeasured_long", S2, field("speed", "doubt_m"), **over(1.5), persist_ms=10.0,
        modes=DRIVING - TELEOP,
    ),
    Case(
        "rtk_lost", S1, field("gnss", "degraded_since_ns"), quiet=(None,), holds=(0, BEGIN_NS),
        persist_ms=300.0, clears_ms=0.0,
        # Sigma is 0.01 m, and a third of the corridor 0.5 m.
        cap_mps=3.0 * (1.0 - 0.01 / 0.5),
    ),
    Case(
        "rtk_lost_long", S2, since("gnss", "degraded_since_ns"),
        quiet=(None, 9.0, 0.0), holds=(9.0 + NS, 60.0), persist_ms=100.0,
    ),
    Case("gnss_refused", S2, field("gnss", "rejected_in_a_row"), **count(6), persist_ms=10.0),
    Case("gnss_stuck", S2, field("gnss", "same_in_a_row"), **count(6), persist_ms=10.0),
    Case(
        "estimate_not_finite", S3, not_finite, quiet=(("x_m", 0.0), ("yaw_rate_radps", nan)),
        holds=(("x_m", nan), ("y_m", inf), ("yaw_rad", nan), ("speed_mps", -inf),
            ("covariance", nan)),
    ),
    Case(
        "estimator_diverged", S2, status,
        quiet=((RUNNING, False, False), (UNKNOWN, False, False), (DIVERGED, True, True)),
        holds=((DIVERGED, False, False), (DIVERGED, True, False), (DIVERGED, False, True)),
        persist_ms=50.0,
    ),
    Case(
        "position_uncertain", S2, estimate(covariance=sigma), quiet=(0.5 - NS, 0.01, nan),
        holds=(0.5 + NS, inf), persist_ms=100.0
    ),
    Case(
        "place_against_gnss", S2, field("consistency", "places_in_a_row"), **count(8),
        persist_ms=10.0,
    ),
    Case(
        "place_jumped", S2, jumps, quiet=(0.5 - NS, 0.01), holds=(0.5 + NS, inf), persist_ms=50.0,
        modes=frozenset({Mode.AUTO, Mode.OFFBOARD, Mode.STOPPING}),
    ),
    Case(
        "speed_against_gnss", S2, field("consistency", "speeds_in_a_row"), **count(8),
        persist_ms=10.0,
    ),
    Case("heading_against_gyro", S2, field("yaw", "parted_in_a_row"), **count(3), persist_ms=10.0),
    Case("heading_against_course", S2, field("yaw", "aside_in_a_row"), **count(5), persist_ms=10.0),
    Case("heading_stuck", S2, field("yaw", "heading_stuck"), **FLAG, persist_ms=10.0),
    Case(
        "imu_silent", S2, silent(ImuSample), quiet=(None, 0.052, 0.0), holds=(0.052 + NS, inf),
        persist_ms=30.0,
    ),
    Case("imu_stuck", S2, field("inertial", "stuck"), **FLAG, persist_ms=10.0),
    Case(
        "imu_saturated", S2, since("inertial", "saturated_since_ns"),
        quiet=(None, 0.052), holds=(0.052 + NS, 2.0), persist_ms=50.0,
    ),
    Case("imu_tilted", S2, field("climb", "tilted_in_a_row"), **count(5), persist_ms=10.0),
    Case(
        "gyro_against_course", S2, field("yaw", "gyro_aside_in_a_row"), **count(5), persist_ms=10.0,
    ),
    Case(
        "gyro_against_steering", S2, lasting("yaw", "steering_aside_ns"), quiet=(0.0,),
        holds=(NS, 1.0), persist_ms=300.0,
    ),
    Case("speed_mismatch", S2, lasting("motion", "mismatch_ns"), **age(0.4), persist_ms=10.0),
    Case(
        "not_moving", S4, lasting("motion", "not_moving_ns"), **age(2.2), persist_ms=10.0,
        releases_brake=True,
    ),
    Case(
        "stalled", S3, lasting("motion", "stalled_ns"), quiet=(0.0,), holds=(NS, 1.0),
        persist_ms=200.0, modes=AUTO,
    ),
    Case(
        "no_progress", S2, lasting("progress", "standing_ns"), **age(8.0), persist_ms=10.0,
        modes=DRIVING,
    ),
    Case(
        "uncommanded_motion", S3, lasting("motion", "uncommanded_ns"), **age(0.31), persist_ms=10.0,
    ),
    Case(
        "uncommanded_motion_lasts", S4, lasting("motion", "unbraked_ns"), **age(0.31),
        persist_ms=10.0,
    ),
    Case(
        "rollaway", Reaction.WARN, lasting("motion", "rolling_ns"), **age(1.0), persist_ms=10.0,
        clears_ms=1000.0, modes=frozenset(Mode) - MOVING,
    ),
    Case(
        "faster_than_asked", S2, lasting("motion", "faster_ns"), **age(1.5), persist_ms=10.0,
        modes=DRIVING,
    ),
    Case(
        "rolling_back", S3, field("progress", "rolled_back_m"), **over(0.35), persist_ms=10.0,
        modes=DRIVING,
    ),
    Case(
        "overspeed", S3, speeds, quiet=((3.4, 0.0), (-3.4, 3.4), (0.0, 0.0), (nan, 3.4)),
        holds=(
            (nextafter(3.4, inf), 0.0), (-nextafter(3.4, inf), 3.0), (9.0, 0.0),
            (0.0, nextafter(3.4, inf)), (nan, 9.0),
        ),
        persist_ms=300.0,
    ),
    Case(
        "motor_fault", S4, field("motor", "fault_code"), quiet=(0,), holds=(1, 255),
        persist_ms=10.0,
    ),
    Case(
        "motor_hot", S1, field("motor", "hottest_k"), **over(350.0, step=1e-6), persist_ms=500.0,
        clears_ms=5000.0,
    ),
    Case(
        "motor_too_hot", S2, field("motor", "hottest_k"), **over(365.0, step=1e-6),
        persist_ms=500.0,
    ),
    Case(
        "actuator_lost", S3, telemetry, quiet=(None, 0.106, 0.0),
        holds=(0.106 + NS, 3.0, "port is gone"), persist_ms=20.0,
    ),
    Case(
        "battery_low", S1, field("motor", "rest_v"), quiet=(10.0, 12.0, nan),
        holds=(nextafter(10.0, 0.0), 0.0), persist_ms=2000.0, clears_ms=5000.0,
    ),
    Case(
        "battery_empty", S2, field("motor", "rest_v"), quiet=(9.0, 12.0, nan),
        holds=(nextafter(9.0, 0.0), 0.0), persist_ms=2e3,
    ),
    Case("teleop_lost", S3, teleop_age, quiet=(0.207, 0.0), holds=(0.207 + NS, 3.0), modes=TELEOP),
    Case("deadman_released", S3, deadman, quiet=(True,), holds=(False,), modes=TELEOP),
    Case("setpoint_stale", S3, setpoint, quiet=(0.2, 0.0), holds=(0.2 + NS, 3.0), modes=OFFBOARD),
    Case("setpoints_ended", S2, field("setpoints", "released"), **FLAG, modes=OFFBOARD),
    Case("teleop_unplugged", S3, field("teleop", "unplugged"), **FLAG, modes=TELEOP),
    Case(
        "ground_lost", S2, ground, quiet=(None, 1.08, 0.0), holds=(1.08 + NS, 9.0), persist_ms=10.0,
    ),
    Case(
        "rc_killed", S4, rc_killed, quiet=(False,), holds=(True,),
        modes=MOVING | {Mode.ARMED, Mode.FAULT},
    ),
    Case(
        "rc_lost", S2, rc_age, quiet=(None, 1.09, 0.0), holds=(1.09 + NS, 9.0, inf),
        persist_ms=10.0, modes=DRIVING,
    ),
    Case(
        "rc_link_poor", Reaction.WARN, rc_link, quiet=(40.0, 100.0, nan), holds=(40.0 - 1e-9, 0.0),
        persist_ms=500.0, clears_ms=2000.0, **WARN,
    ),
    Case("fence_ahead", S2, field("stopping", "leaves"), **TEXT, persist_ms=30.0),
    Case(
        "fence_left", S3, field("stopping", "outside"), **TEXT, persist_ms=50.0,
        modes=AUTO | OFFBOARD,
    ),
    Case(
        "corridor_left", S3, corridor, quiet=((1.5, True), (-1.5, True), (9.0, False), (nan, True)),
        holds=((UP, True), (-UP, True), (9.0, True)), persist_ms=50.0, **STOP,
    ),
    Case(
        "steering_unfollowed", S3, lasting("yaw", "unfollowed_ns"), quiet=(0.0,), holds=(NS, 1.0),
        persist_ms=200.0, modes=frozenset({Mode.AUTO, Mode.OFFBOARD, Mode.STOPPING}),
    ),
    Case(
        "rear_steering", Reaction.WARN, turn_ratio, quiet=(nan, 1.0, 0.75, 1.25),
        holds=(0.75 - 1e-9, 0.0, -1.0, 1.25 + 1e-9), persist_ms=500.0, clears_ms=1000.0,
    ),
    Case(
        "path_lost", S2, lost_path, quiet=((0.0, 1.0), (nan, nan)), holds=((nan, 1.0), (inf, 0.0)),
        persist_ms=50.0, modes=AUTO
    ),
    Case(
        "course_cut_short", S2, cut_short, quiet=((False, False), (True, True), (False, True)),
        holds=((True, False),), persist_ms=50.0, modes=AUTO,
    ),
    Case(
        "course_overrun", S2, field("place", "beyond_m"), **over(OVERRUN_M), persist_ms=50.0,
        modes=AUTO,
    ),
    Case(
        "course_backward", S3, field("place", "backward_m"), **over(1.5), persist_ms=50.0,
        modes=AUTO,
    ),
    Case(
        # The vehicle drives at 1.0 m/s, and 0.3 m/s more are left alone.
        "obstacle_in_sight", S1, lambda m, value, _: sees(m, 5.0, value),
        quiet=(1.3, 3.0, inf, nan), holds=(nextafter(1.3, 0.0), 0.2), persist_ms=10.0,
        clears_ms=500.0, cap_mps=nextafter(1.3, 0.0),
    ),
    Case(
        "obstacle_ahead", S2, driven_at_obstacle, quiet=(nextafter(2.6, inf), inf, nan),
        holds=(2.6, 0.0), persist_ms=10.0,
    ),
    Case(
        "obstacle_too_near", S3, moving_at_obstacle,
        quiet=((2.0, 1.0), (0.0, 0.02), (0.0, nan), (nan, 1.0), (inf, 1.0)),
        holds=((nextafter(2.0, 0.0), 1.0), (0.0, -1.0)), persist_ms=10.0,
    ),
    Case(
        "obstacle_sensor_silent", S2, silent(ObstacleRange, LaserScan), quiet=(None, 0.32, 0.0),
        holds=(0.32 + NS, inf), persist_ms=10.0,
    ),
    Case("obstacle_sensor_blind", S2, field("obstacle", "blind"), **TEXT, persist_ms=10.0),
    Case(
        "map_lost", S1, field("localisation", "lost_s"), **age(0.3), persist_ms=10.0,
        clears_ms=500.0, modes=MOVING - TELEOP
    ),
    Case(
        "map_lost_long", S2, field("localisation", "lost_s"), **age(1.0), persist_ms=10.0,
        modes=MOVING - TELEOP,
    ),
    Case(
        "log_failing", Reaction.WARN, field("host", "log_trouble"), **TEXT, clears_ms=2000.0,
        **WARN,
    ),
    Case(
        "host_strained", Reaction.WARN, field("host", "strain"), **TEXT, persist_ms=1000.0,
        clears_ms=5000.0, **WARN,
    ),
    Case(
        "clock_stepped", Reaction.WARN, field("host", "clock_step_s"), quiet=(0.5, -0.5, 0.0, nan),
        holds=(nextafter(0.5, 2.0), -nextafter(0.5, 2.0)), clears_ms=0.0, **WARN,
    ),
    Case(
        "woke_up", S3, field("host", "woke_s"), quiet=(0.0, nan), holds=(5e-324, 60.0),
        modes=DRIVING | {Mode.ARMED},
    ),
)  # fmt: skip
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)


class Alone:
    """One rule in a supervisor, fed with values in one mode."""

    def __init__(self, case: Case, mode: Mode = Mode.AUTO) -> None:
        self.case = case
        self.rule = next(rule for rule in RULES if rule.code == case.code)
        self.supervisor = Supervisor((self.rule,))
        self.mode = mode
        self.monitors = Still(LIMITS, VEHICLE)

    def inputs(self, value: Any, now_ns: int) -> RuleInputs:
        values: dict[str, Any] = {"estimate": ESTIMATE, "control": CONTROL}
        values.update(self.case.put(self.monitors, value, now_ns) or {})
        return RuleInputs(
            now_ns=now_ns, mode=self.mode, limits=LIMITS, monitors=self.monitors, **values
        )

    def step(self, value: Any, after_ms: float) -> bool:
        """Step in the mode, and return whether the rule is in force."""
        self.supervisor.mode = self.mode
        self.supervisor.step(self.inputs(value, BEGIN_NS + round(after_ms * 1e6)))
        return self.supervisor.in_force(self.case.code) is not None


def acting_mode(case: Case) -> Mode:
    acting = (Mode.AUTO, Mode.ARMED, *DRIVING)
    return next(mode for mode in acting if mode in case.modes)


def test_every_rule_has_a_case() -> None:
    assert sorted(case.code for case in CASES) == sorted(rule.code for rule in RULES)


@EACH
def test_it_holds_beyond_its_limit_and_neither_at_it_nor_without_a_value(case: Case) -> None:
    for value in (*case.quiet, *case.holds):
        alone = Alone(case)
        s = alone.inputs(value, BEGIN_NS)
        assert alone.rule.holds(s) is (value in case.holds), value
        measured = alone.rule.measured(s)
        assert measured is None or measured.value == measured.value
        assert alone.rule.reason(s) or case.code in ("log_failing", "host_strained", "task_raised")


@EACH
def test_it_acts_in_its_modes_alone(case: Case) -> None:
    for mode in Mode:
        alone = Alone(case, mode)
        alone.step(case.holds[0], 0.0)
        assert alone.step(case.holds[0], case.persist_ms) is (mode in case.modes), mode


@EACH
def test_it_needs_its_duration_and_clears_as_it_should(case: Case) -> None:
    alone = Alone(case, acting_mode(case))
    assert alone.step(case.holds[0], 0.0) is (case.persist_ms == 0.0)
    if case.persist_ms:
        assert not alone.step(case.holds[0], case.persist_ms - 1e-6)
        assert not alone.step(case.quiet[0], case.persist_ms - 1e-6)
        assert not alone.step(case.holds[0], case.persist_ms)
    assert alone.step(case.holds[0], 2.0 * case.persist_ms)
    quiet_ms = 2.0 * case.persist_ms + 1.0
    clears_ms = case.clears_ms
    assert alone.step(case.quiet[0], quiet_ms) is (clears_ms != 0.0)
    if clears_ms is None:
        assert alone.step(case.quiet[0], quiet_ms + 1e6)
    elif clears_ms:
        assert alone.step(case.quiet[0], quiet_ms + clears_ms - 1e-6)
        assert not alone.step(case.quiet[0], quiet_ms + clears_ms)


@EACH
def test_its_reaction(case: Case) -> None:
    alone = Alone(case, acting_mode(case))
    supervisor = alone.supervisor
    alone.step(case.holds[0], 0.0)
    alone.step(case.holds[0], case.persist_ms)
    assert [(fault.code, fault.reaction) for fault in supervisor.take_faults()] == [
        (case.code, case.reaction)
    ]
    assert supervisor.reaction is case.reaction
    stops = Mode.FAULT if case.reaction is S4 else Mode.STOPPING
    assert supervisor.mode is (stops if case.reaction >= S2 else alone.mode)
    assert supervisor.speed_cap_mps == pytest.approx(
        case.cap_mps if case.reaction is S1 else inf, rel=1e-12
    )
    assert supervisor.releases_brake is case.releases_brake


def test_the_ground_station_may_stay_silent_where_the_profile_says_so() -> None:
    case = next(case for case in CASES if case.code == "ground_lost")
    alone = Alone(case)
    s = alone.inputs(9.0, BEGIN_NS)
    assert not alone.rule.holds(replace(s, limits=replace(LIMITS, stop_without_ground=False)))


@pytest.mark.parametrize(
    ("waits", "without_heading", "holds"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_an_estimate_that_has_not_started_may_have_no_heading(
    waits: bool, without_heading: bool, holds: bool
) -> None:
    alone = Alone(next(case for case in CASES if case.code == "estimate_not_finite"))
    set_fields(alone.monitors.alignment, without_heading=without_heading)
    s = alone.inputs(("yaw_rad", nan), BEGIN_NS)
    assert s.estimate is not None
    assert (
        alone.rule.holds(
            replace(s, estimate=replace(s.estimate, status=UNKNOWN if waits else RUNNING))
        )
        is holds
    )
    assert not alone.rule.holds(replace(s, estimate=None))


@pytest.mark.parametrize(
    ("sigma_m", "cap_mps"),
    [(0.0, 3.0), (0.25, 1.5), (0.4, 0.7), (0.5, 0.7), (2.0, 0.7), (nan, 0.7), (inf, 0.7)],
)
def test_without_rtk_the_cap_falls_as_sigma_grows(sigma_m: float, cap_mps: float) -> None:
    alone = Alone(next(case for case in CASES if case.code == "rtk_lost"))
    s = replace(
        alone.inputs(0, BEGIN_NS),
        estimate=replace(ESTIMATE, covariance=(sigma_m * sigma_m, *(0.0,) * 15)),
    )
    assert alone.rule.cap_mps(s) == pytest.approx(cap_mps)


@pytest.mark.parametrize(
    ("sigma_m", "way_m", "holds"),
    [(0.3, 13.3, False), (0.3, 13.4, True), (0.0, 16.6, False), (0.0, 16.7, True)],
)
def test_a_way_by_the_wheels_makes_the_place_uncertain(
    sigma_m: float, way_m: float, holds: bool
) -> None:
    """Three metres of a hundred, beside what the filter says of itself; half a metre is allowed."""
    alone = Alone(next(case for case in CASES if case.code == "position_uncertain"))
    set_fields(alone.monitors.motion.felt, unplaced_m=way_m)
    assert alone.rule.holds(alone.inputs(sigma_m, BEGIN_NS)) is holds


def test_the_obstacle_that_no_sensor_sees_is_unknown_and_does_not_stop_a_parked_vehicle() -> None:
    for code in ("obstacle_in_sight", "obstacle_ahead", "obstacle_too_near"):
        case = next(case for case in CASES if case.code == code)
        alone = Alone(case)
        s = alone.inputs(case.holds[0], BEGIN_NS)
        set_fields(alone.monitors.obstacle, sees=False, free_m=inf, cap_mps=inf)
        assert alone.rule.value(s) != alone.rule.value(s)
        set_fields(alone.monitors.obstacle, sees=True)
        assert alone.rule.value(s) == inf
    alone = Alone(next(case for case in CASES if case.code == "obstacle_ahead"))
    s = alone.inputs(0.0, BEGIN_NS)
    set_fields(alone.monitors.obstacle, drives=lambda _s: False)
    assert not alone.rule.holds(s)
    # Two sensors of obstacles are promised: the older one counts.
    case = next(case for case in CASES if case.code == "obstacle_sensor_silent")
    alone = Alone(case)
    s = alone.inputs(0.0, BEGIN_NS)
    alone.monitors.sources._received_ns[LaserScan] = BEGIN_NS - 10**9
    assert alone.rule.holds(s)


@pytest.mark.parametrize(
    ("speed_mps", "limit_mps"), [(1.0, 1.3), (-1.0, 1.3), (0.0, 0.3), (2.9, 3.0), (-2.9, 3.0)]
)
def test_an_obstacle_in_sight_caps_the_speed_in_either_direction(
    speed_mps: float, limit_mps: float
) -> None:
    alone = Alone(next(case for case in CASES if case.code == "obstacle_in_sight"))
    s = replace(alone.inputs(0.2, BEGIN_NS), estimate=replace(ESTIMATE, speed_mps=speed_mps))
    assert alone.rule.limit is not None
    assert alone.rule.limit(s) == pytest.approx(limit_mps)


def test_a_handset_that_is_not_there_has_no_poor_link_and_no_part_in_the_loss_of_another() -> None:
    rules = {rule.code: rule for rule in RULES}
    m = Still(LIMITS, VEHICLE)
    m.rc = handset(_received_ns=-NEVER_NS, link_quality=0.1)
    s = RuleInputs(now_ns=BEGIN_NS, mode=Mode.TELEOP, limits=LIMITS, monitors=m)
    assert not rules["rc_link_poor"].holds(s)
    m.rc = handset(link_quality=0.1, trouble="the receiver reports failsafe")
    assert rules["rc_link_poor"].holds(s)
    assert "failsafe" not in rules["teleop_lost"].reason(s)
    m.teleop.by_rc = True
    assert "(the receiver reports failsafe)" in rules["teleop_lost"].reason(s)
    m.rc.trouble = ""
    assert "(" not in rules["teleop_lost"].reason(s)
