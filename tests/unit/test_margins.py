"""The rules as numbers, and the table of their states on the page."""

from math import inf, isnan, nan
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import near
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    Fault,
    GnssFix,
    HostHealth,
    ImuSample,
    LaserScan,
    Mode,
    MotorStatus,
    ObstacleRange,
    Reaction,
    StateEstimate,
    TeleopCommand,
)
from vehicled.profile import load_profile
from vehicled.safety import rule as rules
from vehicled.safety.margins import rows, standings
from vehicled.safety.matrix import MATRIX, RULES, substitutes
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.obstacle import ObstacleMonitor
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.rule import RuleInputs, Sense
from vehicled.safety.supervisor import Supervisor

PROFILE = load_profile("art")
LIMITS = replace(PROFILE.limits, corridor_m=2.0, battery_low_v=10.0, battery_empty_v=9.0)
PROMISED = (GnssFix, ImuSample, LaserScan, ObstacleRange)
KINDS = (*PROMISED, MotorStatus)
SOURCES = [MonitoredSource(name=kind.__name__, message=kind, silence_ns=10**8) for kind in PROMISED]

SILENCES_S = (
    0.1, LIMITS.gnss_silence_s, LIMITS.imu_silence_s, LIMITS.estimate_silence_s,
    LIMITS.control_silence_s, LIMITS.loop_silence_s, LIMITS.telemetry_silence_s,
    LIMITS.teleop_silence_s, LIMITS.ground_silence_s, LIMITS.rtk_lost_stop_s,
)  # fmt: skip
seconds = st.one_of(st.none(), near(*SILENCES_S, low=0.0, high=30.0))
nanoseconds = near(*SILENCES_S, low=0.0, high=10.0).map(lambda value: round(value * 1e9))
counts = st.integers(0, 12)
numbers = near(
    0.0,
    LIMITS.max_speed_mps,
    LIMITS.max_speed_mps + LIMITS.overspeed_mps,
    LIMITS.corridor_m,
    signed=True,
    garbage=True,
)


def see(monitors: Monitors, free_m: float, cap_mps: float = inf) -> None:
    """A sensor of obstacles that sees so far."""
    assert isinstance(monitors.obstacle, ObstacleMonitor)
    monitors.obstacle._read_ns[0.0, 0.0] = 0
    monitors.obstacle.free_m, monitors.obstacle.cap_mps = free_m, cap_mps


@st.composite
def situations(draw: Any) -> RuleInputs:
    """Anything that detectors may have come to, whether or not it can be so all at once."""
    now_ns = 100 * 10**9
    monitors = Monitors(LIMITS, PROFILE.vehicle, SOURCES)
    for kind in KINDS:
        age_s = draw(seconds)
        if age_s is not None:
            monitors.sources.received(kind, now_ns - round(age_s * 1e9))
    monitors.deadlines.in_a_row, monitors.deadlines.share = draw(counts), draw(st.floats(0.0, 0.1))
    monitors.gnss.rejected_in_a_row, monitors.gnss.same_in_a_row = draw(counts), draw(counts)
    lost_s = draw(seconds)
    monitors.gnss.degraded_since_ns = None if lost_s is None else now_ns - round(lost_s * 1e9)
    monitors.yaw.parted_in_a_row = draw(counts)
    monitors.yaw.aside_in_a_row = draw(counts)
    monitors.yaw.gyro_aside_in_a_row = draw(counts)
    saturated_s = draw(seconds)
    monitors.inertial.saturated_since_ns = (
        None if saturated_s is None else now_ns - round(saturated_s * 1e9)
    )
    for name in ("mismatch_ns", "not_moving_ns", "uncommanded_ns", "unbraked_ns"):
        setattr(
            monitors.motion,
            name,
            round(
                1e9
                * draw(
                    near(
                        LIMITS.speed_mismatch_s, LIMITS.not_moving_s, LIMITS.uncommanded_s, low=0.0
                    )
                )
            ),
        )
    monitors.motor.hottest_k = draw(near(LIMITS.motor_hot_k, LIMITS.motor_hot_k + 15.0))
    monitors.motor.rest_v = draw(near(9.0, 10.0, low=0.0))
    monitors.control.stop_level_in_a_row = draw(counts)
    monitors.control.clipped_in_a_row = draw(counts)
    monitors.host.clock_step_s = draw(st.floats(-5.0, 5.0))
    monitors.stopping.distance_m = draw(st.floats(0.0, 5.0))
    if draw(st.booleans()):
        see(
            monitors,
            draw(st.one_of(st.just(inf), st.floats(0.0, 20.0))),
            draw(st.one_of(st.just(inf), st.floats(0.3, 5.0))),
        )
    teleop_s, ground_s = draw(seconds), draw(seconds)
    if teleop_s is not None:
        t_ns = now_ns - round(teleop_s * 1e9)
        monitors.teleop.on_message(TeleopCommand(t_ns, t_ns, 0.0, 0.0, 0.0, True, "pad", 1), now_ns)
    if ground_s is not None:
        monitors.ground._received_ns = now_ns - round(ground_s * 1e9)
    covariance = (draw(st.floats(0.0, 4.0)), *(0.0,) * 4, draw(st.floats(0.0, 4.0)), *(0.0,) * 10)
    return RuleInputs(
        now_ns=now_ns,
        mode=Mode.AUTO,
        limits=LIMITS,
        monitors=monitors,
        estimate=StateEstimate(
            0, 0, 0.0, 0.0, 0.0, draw(numbers), 0.0, covariance, EstimatorStatus.RUNNING
        ),
        estimate_age_ns=draw(nanoseconds),
        control=ControlCommand(0, 0, 0.0, 0.0, 0.0, cross_track_m=draw(numbers)),
        control_age_ns=draw(nanoseconds),
        sent=ActuatorCommand(
            now_ns - draw(nanoseconds), 0, draw(st.sampled_from((0.0, 0.3))), 0.0, 0.0, 0.0
        ),
    )


@examples(50)
@given(situations())
def test_no_rule_raises_and_none_holds_without_a_value(s: RuleInputs) -> None:
    for rule in RULES:
        value = rule.value(s)
        assert rule.holds(s) in (True, False), rule.code
        assert not (rule.limit is not None and isnan(value) and rule.holds(s)), rule.code
        constant = rule.constant_limit(s.limits)
        assert constant is None or (rule.limit is not None and constant == rule.limit(s)), rule.code


def test_a_limit_that_reads_a_value_of_the_tick_is_not_constant() -> None:
    moving = {rule.code for rule in RULES if rule.limit and rule.constant_limit(LIMITS) is None}
    assert moving == {
        "rc_lost", "rc_link_poor", "rear_steering", "obstacle_in_sight", "obstacle_ahead",
        "obstacle_too_near",
    }  # fmt: skip


@pytest.mark.parametrize("status", EstimatorStatus)
def test_the_speed_of_a_tick_follows_from_estimate_and_measurement(status: EstimatorStatus) -> None:
    estimate = StateEstimate(0, 0, 0.0, 0.0, 0.0, 1.5, 0.0, (0.0,) * 16, status)
    s = RuleInputs(
        now_ns=0, mode=Mode.AUTO, limits=LIMITS, monitors=Monitors(LIMITS, PROFILE.vehicle),
        estimate=estimate, measured_speed_mps=0.5, speed_mps=9.0,
    )  # fmt: skip
    assert s.speed_mps == (0.5 if status is EstimatorStatus.UNINITIALISED else 1.5)
    assert isnan(replace(s, estimate=None).speed_mps)


def test_a_limit_has_a_unit_and_a_flag_has_none() -> None:
    for rule in RULES:
        assert (rule.limit is None) == (rule.unit == ""), rule.code
        assert rule.limit is not None or rule.sense is Sense.OVER, rule.code


@pytest.mark.parametrize(
    ("sense", "below", "at", "above"),
    [
        (Sense.OVER, False, False, True),
        (Sense.REACHES, False, True, True),
        (Sense.UNDER, True, False, False),
        (Sense.WITHIN, True, True, False),
    ],
)
def test_the_sense_decides_at_the_limit(sense: Sense, below: bool, at: bool, above: bool) -> None:
    monitors = Monitors(LIMITS, PROFILE.vehicle)
    s = RuleInputs(now_ns=0, mode=Mode.AUTO, limits=LIMITS, monitors=monitors)
    for value, expected in ((0.29, below), (0.3, at), (0.31, above), (nan, False)):
        rule = replace(
            RULES[0], value=lambda _, value=value: value, limit=lambda _: 0.3, sense=sense
        )
        assert rule.holds(s) is expected, value


def test_a_silence_of_just_its_limit_does_not_trip() -> None:
    # Limits are decimal fractions of a second and ages are whole ns: the division must round to the
    # same number.
    for limit_s in {round(ms / 1e3, 3) for ms in range(1, 5001)}:
        assert not Sense.OVER.compare(rules.seconds(round(limit_s * 1e9)), limit_s), limit_s
        assert Sense.OVER.compare(rules.seconds(round(limit_s * 1e9) + 1), limit_s), limit_s


def test_the_table_says_what_is_in_force_what_holds_and_what_is_not_watched() -> None:
    supervisor = Supervisor()
    assert standings(supervisor) == []
    monitors = Monitors(LIMITS, PROFILE.vehicle)
    monitors.host.on_message(HostHealth(0, throttled=True), 0)
    estimate = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)

    def step(now_ms: int) -> dict[str, Any]:
        supervisor.step(
            RuleInputs(
                now_ns=now_ms * 10**6,
                mode=supervisor.mode,
                limits=LIMITS,
                monitors=monitors,
                estimate=estimate,
            )
        )
        return {standing.code: standing for standing in standings(supervisor)}

    first = step(0)
    assert list(first) == [rule.code for rule in RULES]
    assert first["host_strained"].state == "holds"
    assert first["host_strained"].said == "the processor is throttled"
    assert first["overspeed"].state == "idle"
    assert first["clock_stepped"].state == "quiet"
    monitors.on_message(Fault(0, "vesc_overheat", "drive", Reaction.DISABLE, True, "too hot"), 0)
    later = step(2000)
    assert later["host_strained"].state == "force"
    assert later["host_strained"].reaction == "S0"
    assert later["vesc_overheat"].said == "drive: too hot"
    assert later["vesc_overheat"].reaction == "S4"


@pytest.mark.parametrize(
    ("free_m", "shown", "words"),
    [(None, None, ""), (inf, None, "clear"), (2.0, 2.0, ""), (0.2, 0.2, "")],
)
def test_the_way_ahead_is_shown_as_a_number_or_as_clear(
    free_m: float | None, shown: float | None, words: str
) -> None:
    supervisor = Supervisor()
    monitors = Monitors(
        LIMITS,
        PROFILE.vehicle,
        [source for source in SOURCES if source.message is ObstacleRange],
    )
    estimate = StateEstimate(0, 0, 0.0, 0.0, 0.0, 1.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
    situation = RuleInputs(
        now_ns=10**9, mode=Mode.AUTO, limits=LIMITS, monitors=monitors, estimate=estimate
    )
    supervisor.step(situation)
    if free_m is not None:
        see(monitors, free_m)
    monitors.stopping.distance_m = 0.5
    found = {standing.code: standing for standing in standings(supervisor)}
    for code, limit in (
        ("obstacle_ahead", 0.5 + LIMITS.obstacle_gap_m),
        ("obstacle_too_near", 0.5),
    ):
        assert (found[code].value, found[code].words) == (shown, words)
        assert found[code].limit == pytest.approx(limit)
    assert b"nfinity" not in msgspec.json.encode(list(found.values()))
    assert all(
        rule["under"]
        for row in rows()
        for rule in row["rules"]
        if rule["code"] in ("obstacle_ahead", "obstacle_too_near")
    )


def test_the_page_gets_every_row() -> None:
    assert [row["row"] for row in rows()] == [row.number for row in MATRIX]
    for row in rows():
        assert row["rules"] or row["outside"]
        for rule in row["rules"]:
            assert rule["reaction"] in ("S0", "S1", "S2", "S3", "S4")


def test_values_are_rounded_and_an_age_from_the_future_is_none() -> None:
    monitors, supervisor = Monitors(LIMITS, PROFILE.vehicle, SOURCES), Supervisor()
    estimate = StateEstimate(
        0, 0, 0.0, 0.0, 0.0, 1.23456789, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING
    )
    control = ControlCommand(0, 0, 0.0, 0.0, 0.0, cross_track_m=0.0)
    monitors.host.clock_step_s = -1.0
    s = RuleInputs(
        now_ns=10**9, mode=Mode.AUTO, limits=LIMITS, monitors=monitors, estimate=estimate,
        control=control, estimate_age_ns=-5_000_000, control_age_ns=12_345_678,
    )  # fmt: skip
    supervisor.step(s)
    found = {standing.code: standing for standing in standings(supervisor)}
    assert found["estimate_stale"].value == 0.0, "newer than the last step"
    assert found["control_stale"].value == 0.0123
    monitors.deadlines.share = -0.5
    assert {standing.code: standing for standing in standings(supervisor)}[
        "deadlines_share"
    ].value == -50.0, "no age"


def test_what_replaces_a_missing_capability_is_said_for_that_one() -> None:
    for lacking in (
        frozenset({"brake"}),
        frozenset({"telemetry"}),
        frozenset({"brake", "telemetry"}),
    ):
        names = {text.partition(", no ")[2].partition(":")[0] for text in substitutes(lacking)}
        assert names == lacking
    assert len(substitutes(frozenset({"brake"}))) == sum(
        "brake" in row.substitute for row in MATRIX
    )
