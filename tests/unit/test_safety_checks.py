"""Every arming check by itself: what passes at its limit, and what fails just beyond it."""

from collections.abc import Callable
from math import inf, nan, nextafter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_rules import LIMITS, Still, set_fields
from tests.unit.test_safety_supervisor import ESTIMATE
from vehicled.core.messages import (
    EstimatorStatus,
    Fault,
    GnssFix,
    Heading,
    HeadingKind,
    HostHealth,
    ImuSample,
    MapMatch,
    Mode,
    MotorStatus,
    OperatorAction,
    Reaction,
)
from vehicled.core.ports import NEVER_NS
from vehicled.core.rc import Handset, RcAxis, RcMap, RcParams
from vehicled.core.wire.channels import TICKS
from vehicled.safety.arming import CHECKS, missing, waits_for_heading
from vehicled.safety.entry import Entry
from vehicled.safety.monitors.rc import RcMonitor
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.monitors.speed import StandstillEvidence
from vehicled.safety.rule import RuleInputs

NOW = 100 * 10**9
S = 10**9
SURE = replace(ESTIMATE, covariance=(1e-4, *(0.0,) * 15))
Put = Callable[[Still], dict[str, Any] | None]
ALL = OperatorAction.DRIVE
HAND = OperatorAction.TELEOP
ALIGN = OperatorAction.ALIGN
OFFBOARD = OperatorAction.OFFBOARD


def inputs(put: Put, *, telemetry: bool = True) -> RuleInputs:
    """A vehicle that may be armed, but for what ``put`` changes."""
    sources = [
        MonitoredSource(name="imu", message=ImuSample, silence_ns=50_000_000),
        MonitoredSource(name="vesc", message=MotorStatus, silence_ns=100_000_000),
    ]
    m = Still(LIMITS, VEHICLE, sources, telemetry=telemetry)
    for kind in (ImuSample, MotorStatus):
        m.sources.received(kind, NOW)
    set_fields(m.speed, standstill=lambda *_: StandstillEvidence.STANDS)
    m.alignment.antenna_m = (0.0, 0.0)
    m.inertial.has_samples = m.inertial.has_force = True
    m.host.health = HostHealth(NOW, wall_clock_s=1.8e9)
    values: dict[str, Any] = {"limits": LIMITS, "estimate": SURE}
    values.update(put(m) or {})
    return RuleInputs(now_ns=NOW, mode=Mode.STANDBY, monitors=m, **values)


def estimate(**change: Any) -> Put:
    return lambda m: {"estimate": replace(SURE, **change)}


def fields(monitor: str, **values: Any) -> Put:
    return lambda m: set_fields(getattr(m, monitor), **values)


def turned(aside_rad: float) -> Put:
    """Beside the heading of two antennas, which is asked for more."""
    return fields("yaw", estimate_aside_rad=aside_rad, _kind=HeadingKind.MOVING_BASE)


def value(**values: Any) -> Put:
    return lambda m: values


def variance(place: int, sigma: float) -> Put:
    return estimate(covariance=tuple(sigma**2 if k == place else 0.0 for k in range(16)))


def health(**change: Any) -> Put:
    return lambda m: setattr(m.host, "health", HostHealth(NOW, **{"wall_clock_s": 1.8e9, **change}))


def reported(reaction: Reaction) -> Put:
    return lambda m: m.device_faults.update(
        {("drive", "hot"): Fault(0, "hot", "drive", reaction, True, "too hot")}
    )


def evidence(found: StandstillEvidence) -> Put:
    return fields("speed", standstill=lambda *_: found)


def received(kind: Any, age_ns: int) -> Put:
    def put(m: Still) -> None:
        m.sources._received_ns[kind] = NOW - age_ns

    return put


def no_imu(m: Still) -> None:
    set_fields(m.sources, _promised=frozenset())
    set_fields(m.inertial, stuck=True)


def silent(m: Still) -> None:
    del m.sources._received_ns[MotorStatus]


def ground(age_ns: int, *, expected: bool, stops: bool = True) -> Put:
    def put(m: Still) -> dict[str, Any]:
        if age_ns < NEVER_NS:
            m.ground._received_ns = NOW - age_ns
        return {"limits": replace(LIMITS, ground_expected=expected, stop_without_ground=stops)}

    return put


def handset_at(
    *, throttle: float = 0.0, kill: bool = False, age_ns: int = 0, required: bool = False
) -> Put:
    """Put an RC handset that is there, or has been."""

    def put(m: Still) -> None:
        params = RcParams(
            steering=RcAxis(channel=1), throttle=RcAxis(channel=3), silence_s=1.0, required=required
        )
        m.rc = RcMonitor(RcMap(params, TICKS))
        hands = Handset(0.0, throttle, 0.0, None, None, kill)
        received_ns = -NEVER_NS if age_ns == NEVER_NS else NOW - age_ns
        set_fields(m.rc, _switches=hands, _received_ns=received_ns, killed=kill)

    return put


ARMS = LIMITS.corridor_m / 3.0
SILENT_NS = round(LIMITS.ground_silence_s * 1e9)
TELEMETRY_NS = round(LIMITS.telemetry_silence_s * 1e9)
CONTROL_NS = round(LIMITS.control_silence_s * 1e9)
CLIMB_RAD = Still(LIMITS, VEHICLE).motion.climb_rad


def obstacle(beyond_m: float) -> Put:
    """Obstacle beyond the gap that a vehicle keeps which stops from its capped speed."""

    def put(m: Still) -> None:
        m.obstacle.free_m = (
            LIMITS.obstacle_gap_m + m.stopping.way_m(LIMITS.capped_speed_mps) + beyond_m
        )

    return put


def cases(code: str, passes: list[Put], fails: list[tuple[Put, str]]) -> list[Any]:
    return [(code, put, "") for put in passes] + [(code, put, said) for put, said in fails]


TABLE = [
    *cases(
        "setup", [value(setup_fault="")], [(value(setup_fault="another board"), "another board")]
    ),
    *cases(
        "estimator",
        [estimate()],
        [
            (value(estimate=None), "the estimator"),
            (estimate(x_m=nan), "finite"),
            (estimate(status=EstimatorStatus.ALIGNING), "the estimator is not running (aligning)"),
        ],
    ),
    *cases(
        "heading",
        [variance(10, 0.2), value(estimate=None), estimate(x_m=nan)],
        [
            (variance(10, 0.2001), "known to 11 degrees only (limit 11)"),
            (variance(10, 1.0), "57 degrees"),
        ],
    ),
    *cases(
        "yaw",
        [
            fields("yaw", estimate_aside_rad=0.5),
            fields("yaw", estimate_aside_rad=-0.5),
            turned(-0.25),
        ],
        [
            (
                fields("yaw", estimate_aside_rad=0.501),
                "the heading is +0.50 rad off the yaw of the estimate (limit 0.50)",
            ),
            (fields("yaw", estimate_aside_rad=-0.501), "the heading is -0.50 rad off"),
            (turned(-0.251), "-0.25 rad off the yaw of the estimate (limit 0.25)"),
        ],
    ),
    *cases(
        "certainty",
        [variance(0, ARMS - 1e-9), value(estimate=None), estimate(x_m=nan)],
        [
            (variance(0, ARMS + 1e-4), "known to 0.50 m only"),
            (estimate(covariance=(-1.0, *(0.0,) * 15)), "only"),
        ],
    ),
    *cases(
        "controller",
        [value(control_age_ns=CONTROL_NS), value(control_age_ns=NEVER_NS, estimate=None)],
        [
            (value(control_age_ns=CONTROL_NS + 1), "gives no command"),
            (value(control_age_ns=NEVER_NS, task_raised="ValueError"), "no command: ValueError"),
        ],
    ),
    *cases(
        "place",
        [fields("place", choose=lambda _: Entry(3.0))],
        [(fields("place", choose=lambda _: Entry(refused="far away")), "far away")],
    ),
    *cases(
        "fence",
        [fields("stopping", outside="")],
        [(fields("stopping", outside="outside the yard"), "is outside the yard: drive it out")],
    ),
    *cases(
        "standstill",
        [estimate(speed_mps=0.2), estimate(speed_mps=-0.2), estimate(speed_mps=nan)],
        [
            (estimate(speed_mps=0.201), "moves at 0.20 m/s"),
            (estimate(speed_mps=-0.201), "moves at -0.20"),
            (evidence(StandstillEvidence.NONE), "not known to stand"),
            (evidence(StandstillEvidence.MOVES), "wheels or GNSS measure"),
            (evidence(StandstillEvidence.UNCONFIRMED), "only wheels"),
        ],
    ),
    *cases(
        "doubts",
        [
            fields("gnss", rejected_in_a_row=5),
            fields("consistency", places_in_a_row=7),
            fields("yaw", parted_in_a_row=2),
        ],
        [
            (fields("gnss", rejected_in_a_row=6), "the last 6 fixes contradict"),
            (fields("consistency", places_in_a_row=8, apart_m=3.0), "3.00 m from the estimate"),
            (fields("yaw", heading_stuck=True), "heading repeats itself"),
            (fields("yaw", parted_in_a_row=3, parted_rad=-0.3), "parted by -0.30 rad"),
        ],
    ),
    *cases(
        "jump",
        [fields("consistency", _jump_m=(0.4999, 0.0)), fields("consistency", _jump_m=(0.0, 0.0))],
        [(fields("consistency", _jump_m=(0.3, -0.401)), "has jumped by 0.50 m against the motion")],
    ),
    *cases(
        "localisation",
        [
            fields("localisation", mapped=False),
            fields(
                "localisation",
                mapped=True,
                outcome=MapMatch.MATCHED,
                _matched_ns=0,
                lost_s=LIMITS.map_lost_stop_s,
            ),
        ],
        [
            (
                fields(
                    "localisation",
                    mapped=True,
                    outcome=MapMatch.MATCHED,
                    _matched_ns=0,
                    lost_s=LIMITS.map_lost_stop_s + 0.001,
                ),
                "not located on its map: no scan arrives",
            ),
            (
                fields(
                    "localisation",
                    mapped=True,
                    outcome=MapMatch.AMBIGUOUS,
                    _matched_ns=0,
                    lost_s=0.0,
                ),
                "like several places",
            ),
            (
                fields(
                    "localisation",
                    mapped=True,
                    outcome=MapMatch.MATCHED,
                    _matched_ns=None,
                    lost_s=0.0,
                ),
                "not located",
            ),
        ],
    ),
    *cases(
        "imu",
        [
            fields("inertial", mean_rate_radps=LIMITS.still_rate_radps),
            fields("inertial", stuck=True, has_samples=False),
            fields("inertial", mean_force_mps2=9.80665 + 0.599),
            fields("inertial", mean_force_mps2=9.80665 - 0.599),
            fields("inertial", mean_force_mps2=0.0, has_force=False),
            fields("inertial", tilt_rad=LIMITS.still_tilt_rad),
            fields("inertial", tilt_rad=3.0, has_force=False),
            fields("inertial", roll_rad=0.3),
            fields("inertial", roll_rad=-0.3),
            fields("inertial", pitch_rad=CLIMB_RAD),
            fields("inertial", pitch_rad=-CLIMB_RAD),
            no_imu,
        ],
        [
            (fields("inertial", stuck=True), "repeats the same sample"),
            (
                fields("inertial", mean_rate_radps=nextafter(LIMITS.still_rate_radps, inf)),
                "turns at 0.030 rad/s",
            ),
            (
                fields("inertial", mean_force_mps2=9.80665 + 0.601),
                "feels 10.41 m/s2 at rest, 0.60 off",
            ),
            (fields("inertial", mean_force_mps2=9.80665 - 0.601), "0.60 off"),
            (
                fields("inertial", tilt_rad=LIMITS.still_tilt_rad + 1e-9, upward="-z"),
                "-z axis points up",
            ),
            (fields("inertial", roll_rad=0.301), "17 degrees off its vertical across it, limit 17"),
            (fields("inertial", roll_rad=-0.301), "across it"),
            (fields("inertial", pitch_rad=CLIMB_RAD + 1e-9), "off its vertical along the vehicle"),
            (fields("inertial", pitch_rad=-CLIMB_RAD - 1e-9), "along the vehicle"),
        ],
    ),
    *cases(
        "actuator",
        [value(actuator_lost="")],
        [(value(actuator_lost="unplugged"), "cannot be reached: unplugged")],
    ),
    *cases(
        "telemetry",
        [received(MotorStatus, TELEMETRY_NS)],
        [
            (received(MotorStatus, TELEMETRY_NS + 1), "for 0.1 s"),
            (silent, "no telemetry yet"),
        ],
    ),
    *cases(
        "motor",
        [
            fields("motor", hottest_k=LIMITS.motor_hot_k),
            fields("motor", rest_v=LIMITS.battery_empty_v),
            fields("motor", hottest_k=nan, rest_v=nan),
        ],
        [
            (fields("motor", hottest_k=LIMITS.motor_hot_k + 0.1), "at 77 degrees (limit 77)"),
            (fields("motor", rest_v=LIMITS.battery_empty_v - 0.01), "at 8.99 V (empty: 9.00 V)"),
        ],
    ),
    *cases(
        "devices",
        [reported(Reaction.WARN), reported(Reaction.CAP_SPEED)],
        [
            (reported(reaction), "drive: too hot")
            for reaction in (Reaction.CONTROLLED_STOP, Reaction.BRAKE, Reaction.DISABLE)
        ],
    ),
    *cases(
        "ground",
        [
            ground(NEVER_NS, expected=False),
            ground(SILENT_NS, expected=True),
            ground(SILENT_NS + 1, expected=False, stops=False),
        ],
        [
            (ground(NEVER_NS, expected=True), "no ground station has sent a heartbeat"),
            (
                ground(NEVER_NS, expected=True, stops=False),
                "no ground station has sent a heartbeat",
            ),
            (ground(SILENT_NS + 1, expected=True, stops=False), "silent for 1.1 s"),
            (ground(SILENT_NS + 1, expected=False), "silent for 1.1 s"),
        ],
    ),
    *cases(
        "rc",
        [
            handset_at(required=True),
            handset_at(throttle=0.05),
            handset_at(throttle=-0.05),
            handset_at(age_ns=S, required=True),
            handset_at(age_ns=S + 1, throttle=1.0),
            handset_at(age_ns=NEVER_NS),
        ],
        [
            (
                handset_at(throttle=nextafter(0.05, 1.0)),
                "the throttle of the RC handset is at +5 %",
            ),
            (handset_at(throttle=-1.0), "the throttle of the RC handset is at -100 %"),
            (handset_at(kill=True), "the kill switch of the RC handset is on"),
            (
                handset_at(kill=True, age_ns=S + 1),
                "the kill switch of the RC handset was on: switch the handset on",
            ),
            (handset_at(age_ns=S, throttle=1.0), "the throttle of the RC handset is at +100 %"),
            (handset_at(age_ns=S + 1, required=True), "the RC handset is not there"),
            (handset_at(age_ns=NEVER_NS, required=True), "the RC handset is not there"),
        ],
    ),
    *cases(
        "deadlines",
        [fields("deadlines", share=LIMITS.arming_missed_share)],
        [
            (
                fields("deadlines", share=LIMITS.arming_missed_share + 1e-3, share_task="fuse"),
                "5.1 % of the deadlines of fuse",
            )
        ],
    ),
    *cases(
        "lane",
        [obstacle(1e-6), fields("obstacle", free_m=inf)],
        [
            (obstacle(-1e-6), "stands"),
            (fields("obstacle", blind="the scanner is dirty"), "the scanner is dirty: clean it"),
        ],
    ),
    *cases(
        "host",
        [
            health(disk_free_share=0.05),
            health(temperature_k=368.0),
            health(memory_free_share=0.05),
            health(),
            fields("host", health=None),
        ],
        [
            (health(log_failure="disk full"), "not written any more (disk full)"),
            (health(disk_free_share=0.0499), "5 % of the log's disk"),
            (health(unread_s=5.0), "was not read within 5 s: look at the disk"),
            (health(temperature_k=368.1), "at 95 degrees (limit 95)"),
            (health(memory_free_share=0.0499), "5 % of the memory"),
        ],
    ),
    *cases(
        "clock",
        [
            fields("host", health=None),
            health(wall_clock_s=1_767_225_600.0),
            health(wall_clock_s=nan),
            fields("host", stepped_ns=NOW - 5 * S, last_step_s=3.0),
        ],
        [
            (health(wall_clock_s=1_767_225_599.0), "in the year 20"),
            (health(wall_clock_s=-5.0), "in the year 1970"),
            (
                fields("host", stepped_ns=NOW - 5 * S + 1, last_step_s=3.0),
                "moved by +3.0 s 5 s ago",
            ),
        ],
    ),
]


@pytest.mark.parametrize(
    ("code", "put", "said"),
    TABLE,
    ids=[f"{code}-{said or 'passes'}-{k}" for k, (code, _, said) in enumerate(TABLE)],
)
def test_a_check_at_its_limit(code: str, put: Put, said: str) -> None:
    s = inputs(put)
    check = next(check for check in CHECKS if check.code == code)
    found = check.missing(s)
    assert (found == "") is (said == "")
    assert said in found


def test_every_check_has_its_cases() -> None:
    assert {check.code for check in CHECKS} - {code for code, _, _ in TABLE} == {"inputs"}
    assert missing(inputs(value())) == []
    for drive in (HAND, OFFBOARD):
        assert missing(inputs(value()), drive) == []


SPARED = {
    ALL: set(),
    HAND: {"place", "fence", "lane", "heading", "yaw", "controller", "jump", "localisation"},
    ALIGN: {"place", "fence", "estimator", "heading", "yaw", "controller", "jump"},
    OFFBOARD: {"place", "controller"},
}


@pytest.mark.parametrize("drive", SPARED, ids=lambda drive: drive.name)
def test_what_is_not_asked_of_which_drive(drive: OperatorAction) -> None:
    for code, put, said in TABLE:
        if said:
            found = [text for text in missing(inputs(put), drive) if said in text]
            assert bool(found) is (code not in SPARED[drive]), (code, said)


def test_a_vehicle_without_telemetry_is_not_asked_for_any() -> None:
    for telemetry in (True, False):
        found = missing(inputs(received(MotorStatus, 10 * S), telemetry=telemetry))
        assert (
            any("the motor controller has sent no telemetry" in text for text in found) is telemetry
        )


@pytest.mark.parametrize(
    ("status", "antenna", "device", "waits"),
    [
        (EstimatorStatus.UNINITIALISED, True, False, True),
        (EstimatorStatus.ALIGNING, True, False, False),
        (EstimatorStatus.RUNNING, True, False, False),
        (EstimatorStatus.UNINITIALISED, False, False, False),
        (EstimatorStatus.UNINITIALISED, True, True, False),
    ],
)  # fmt: skip
def test_only_motion_gives_a_heading_where_no_device_does(
    status: EstimatorStatus, antenna: bool, device: bool, waits: bool
) -> None:
    def put(m: Still) -> dict[str, Any]:
        m.alignment.antenna_m = (0.0, 0.0) if antenna else None
        m.sources._promised = frozenset({Heading, GnssFix} if device else {GnssFix})
        return {"estimate": replace(ESTIMATE, status=status)}

    s = inputs(put)
    assert waits_for_heading(s) is waits
    assert not waits_for_heading(inputs(value(estimate=None)))
    running = status is EstimatorStatus.RUNNING
    assert any("estimat" in text for text in missing(s, HAND)) is not (waits or running)


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (value(), ""),
        (lambda m: setattr(m.alignment, "antenna_m", None), "no position yet"),
        (estimate(speed_mps=nan), "measure a speed"),
        (
            lambda m: setattr(m.alignment, "params", replace(m.alignment.params, allowed=False)),
            "not allowed",
        ),
        (
            fields("stopping", room_around=lambda *_: "the fence is near"),
            "in any direction, and the fence is near",
        ),
    ],
)
def test_where_an_alignment_may_begin(put: Put, said: str) -> None:
    found = missing(inputs(put), ALIGN)
    assert (found == []) is (said == "")
    assert any(said in text for text in found) is bool(said)


def test_an_alignment_needs_its_way_and_its_stop_all_round() -> None:
    asked: list[tuple[Any, float]] = []

    def room(antenna_m: Any, radius_m: float) -> str:
        asked.append((antenna_m, radius_m))
        return ""

    s = inputs(fields("stopping", room_around=room))
    missing(s, ALIGN)
    stopping, params = s.monitors.stopping, s.monitors.alignment.params
    reach_m = s.monitors.alignment.reach_m(VEHICLE.outline.reach_m)
    assert asked == [
        ((0.0, 0.0), pytest.approx(params.distance_m + stopping.way_m(params.speed_mps) + reach_m))
    ]


def test_a_vehicle_that_is_lost_on_its_map_may_be_driven_by_hand() -> None:
    """Its estimator waits for the map, which says what is missing; a person sees where it is."""
    put = fields(
        "localisation", mapped=True, outcome=MapMatch.AMBIGUOUS, _matched_ns=None, lost_s=0.0
    )
    s = replace(inputs(put), estimate=replace(SURE, status=EstimatorStatus.UNINITIALISED))
    assert not any("several places" in text for text in missing(s, HAND))
    assert any("several places" in text for text in missing(s, ALL))
    for drive in (HAND, ALL):
        assert not any("estimator" in text for text in missing(s, drive))
