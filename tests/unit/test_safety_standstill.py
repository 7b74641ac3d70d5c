"""The standstill detector: each condition by itself, at its limit, and what it says while a stop
does not end."""

from math import inf, nan
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_rules import Still, set_fields
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import ImuSample, Mode, MotorStatus, StateEstimate
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.monitors.speed import SpeedMeasurement, StandstillEvidence
from vehicled.safety.rule import RuleInputs
from vehicled.safety.standstill import MOVED_NS, StandstillDetector

NOW = 50 * 10**9
S = 10**9
NONE, MOVES, UNCONFIRMED, STANDS = StandstillEvidence
FRESH_NS = round(LIMITS.estimate_silence_s * 1e9)
SILENCE_NS = round(LIMITS.telemetry_silence_s * 1e9)


class Stop:
    """A detector that is asked at times after ``NOW``."""

    def __init__(self, *, telemetry: bool = False) -> None:
        self.detector = StandstillDetector()
        self.monitors = Still(
            LIMITS,
            VEHICLE,
            (MonitoredSource(name="vesc", message=MotorStatus, silence_ns=SILENCE_NS),),
            telemetry=telemetry,
        )
        self.monitors.sources.received(MotorStatus, NOW)

    def inputs(
        self,
        after_ns: int,
        *,
        evidence: StandstillEvidence = STANDS,
        speed: float = 0.0,
        ceiling: float = 3.0,
        mode: Mode = Mode.STOPPING,
        estimate: StateEstimate | None = ESTIMATE,
        **values: Any,
    ) -> RuleInputs:
        set_fields(self.monitors.speed, standstill=lambda *_: evidence)
        self.monitors.motion.ceiling_mps = ceiling
        return RuleInputs(
            now_ns=NOW + after_ns, mode=mode, limits=LIMITS, monitors=self.monitors,
            estimate=None if estimate is None else replace(estimate, speed_mps=speed), **values,
        )  # fmt: skip

    def stands(
        self, after_ns: int = 0, *, stuck: bool = False, brake_fails: bool = False, **values: Any
    ) -> bool:
        s = self.inputs(after_ns, **values)
        return self.detector.stands(s, gnss_stuck=stuck, brake_fails=brake_fails)

    def unrest(self, after_ns: int, **values: Any) -> str:
        return "".join(self.detector.unrest(self.inputs(after_ns, **values)))


@pytest.mark.parametrize(
    ("values", "stands"),
    [
        ({}, True), ({"speed": 0.0499}, True), ({"speed": -0.0499}, True), ({"speed": 0.05}, False),
        ({"speed": -0.05}, False), ({"estimate": None}, False),
        ({"estimate_age_ns": FRESH_NS}, True), ({"estimate_age_ns": FRESH_NS + 1}, False),
        ({"evidence": MOVES}, False), ({"evidence": UNCONFIRMED}, False),
        ({"evidence": NONE}, False), ({"speed": nan}, False), ({"speed": inf}, False),
        ({"speed": nan, "mode": Mode.STANDBY}, True), ({"speed": nan, "mode": Mode.FAULT}, False),
    ],
)  # fmt: skip
def test_what_is_standstill_at_once(values: dict[str, Any], stands: bool) -> None:
    stop = Stop()
    assert stop.stands(**values) is stands
    assert stop.detector.assumed_s == 0.0


@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.FAULT])
def test_without_a_number_from_the_estimate_it_must_be_seen_for_a_second(mode: Mode) -> None:
    stop = Stop()
    for after_ns, evidence, stands in (
        (0, STANDS, False), (S - 1, STANDS, False), (S, STANDS, True), (S + 1, MOVES, False),
        (S + 2, STANDS, False), (2 * S + 1, STANDS, False), (2 * S + 2, STANDS, True),
    ):  # fmt: skip
        assert stop.stands(after_ns, speed=nan, evidence=evidence, mode=mode) is stands
    assert not stop.stands(3 * S, speed=0.1, mode=mode)
    assert not stop.stands(3 * S + 1, speed=nan, mode=mode), "it moved meanwhile"
    assert stop.stands(4 * S + 1, speed=nan, mode=mode)


@pytest.mark.parametrize(
    ("values", "telemetry", "silent_ns", "stands"),
    [
        ({}, False, 0, True), ({"brake_fails": True}, False, 0, False),
        ({"actuator_lost": "unplugged"}, False, 0, False), ({}, True, SILENCE_NS, True),
        ({}, True, SILENCE_NS + 1, False), ({}, False, SILENCE_NS + 1, True),
    ],
)  # fmt: skip
def test_what_half_of_the_brake_has_taken_counts_only_for_one_that_obeys(
    values: dict[str, Any], telemetry: bool, silent_ns: int, stands: bool
) -> None:
    """Wheels, or a receiver that repeats itself, read 0."""
    stop = Stop(telemetry=telemetry)
    s = stop.inputs(
        silent_ns,
        ceiling=0.0,
        **{key: value for key, value in values.items() if key != "brake_fails"},
    )
    asked: list[float] = []

    def standstill(_now_ns: int, ceiling_mps: float) -> StandstillEvidence:
        asked.append(ceiling_mps)
        return STANDS

    set_fields(stop.monitors.speed, standstill=standstill)
    stop.detector.stands(s, gnss_stuck=False, brake_fails=bool(values.get("brake_fails")))
    assert asked == [0.0 if stands else inf]


@pytest.mark.parametrize("evidence", [NONE, UNCONFIRMED, MOVES])
@pytest.mark.parametrize(
    ("values", "stopped"),
    [
        ({}, True), ({"ceiling": 1e-9}, False), ({"brake_fails": True}, False),
        ({"actuator_lost": "unplugged"}, False),
    ],
)  # fmt: skip
def test_half_of_the_brake_and_a_second_stand_for_a_speed_that_nothing_measures(
    evidence: StandstillEvidence, values: dict[str, Any], stopped: bool
) -> None:
    given: dict[str, Any] = {"ceiling": 0.0, "evidence": evidence} | values
    stop = Stop()
    stands = stopped and evidence is NONE
    for after_ns, seen in ((0, False), (S - 1, False), (S, stands), (9 * S, stands)):
        assert stop.stands(after_ns, **given) is seen
        assert stop.detector.assumed_s == (pytest.approx(after_ns * 1e-9) if seen else 0.0)
    # It is measured, and is not any more: then the second begins again only if the brake was in
    # doubt.
    assert stop.stands(9 * S, **given | {"evidence": STANDS})
    assert stop.detector.assumed_s == 0.0
    assert stop.stands(9 * S, **given) is False or stands
    stop.stands(10 * S, **given | {"ceiling": 0.5})
    assert not stop.stands(11 * S - 1, **given)
    assert not stop.stands(11 * S, **given)


@pytest.mark.parametrize(
    ("ago_ns", "ignored", "moves"),
    [(MOVED_NS - 1, False, True), (S, False, True), (MOVED_NS, False, False), (0, True, False)],
)
def test_no_standstill_is_assumed_shortly_after_a_fix_that_showed_motion(
    ago_ns: int, ignored: bool, moves: bool
) -> None:
    """A late fix measures no speed. It shows that the brake, by which a standstill is assumed, does
    not act."""
    stop = Stop()
    for after_ns in (0, S):
        stop.monitors.speed.moved_ns = NOW + after_ns - ago_ns
        set_fields(stop.detector, _ignored=lambda *_, **__: ignored)
        stands = stop.stands(after_ns, evidence=NONE, ceiling=0.0)
    assert stands is not moves
    stop.unrest(0, evidence=NONE, ceiling=0.0)
    stop.monitors.speed.moved_ns = NOW + 4 * S - ago_ns
    assert (
        f"late readings showed motion {ago_ns * 1e-9:.1f} s ago"
        in stop.unrest(4 * S, evidence=NONE, ceiling=0.0)
    ) is moves


def test_an_assumed_standstill_counts_from_the_beginning_of_its_stop() -> None:
    stop = Stop()
    assert stop.unrest(0, evidence=NONE) == ""
    stop.stands(2 * S, ceiling=0.0, evidence=NONE)
    assert stop.stands(3 * S, ceiling=0.0, evidence=NONE)
    assert stop.detector.assumed_s == pytest.approx(3.0)
    stop.detector.ended()
    assert stop.stands(4 * S, ceiling=0.0, evidence=NONE)
    assert stop.detector.assumed_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("telemetry", "late_ns", "stands"), [(True, 0, True), (True, 1, False), (False, 1, True)]
)
def test_a_silent_actuator_is_not_known_to_brake(
    telemetry: bool, late_ns: int, stands: bool
) -> None:
    stop = Stop(telemetry=telemetry)
    stop.stands(0, ceiling=0.0, evidence=NONE)
    stop.monitors.sources.received(MotorStatus, NOW + S - SILENCE_NS - late_ns)
    assert stop.stands(S, ceiling=0.0, evidence=NONE) is stands


@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.FAULT, Mode.STANDBY, Mode.AUTO])
def test_a_receiver_counts_until_it_has_repeated_itself_for_three_seconds(mode: Mode) -> None:
    stops = mode in (Mode.STOPPING, Mode.FAULT)
    stop = Stop()
    stop.monitors.gnss.rejected_in_a_row = 9  # which says nothing against a live receiver
    set_fields(stop.monitors.speed, gnss_repeats=True)
    for after_ns, ignored in ((0, False), (3 * S - 1, False), (3 * S, stops)):
        stop.stands(after_ns, mode=mode)
        assert stop.monitors.speed.gnss_ignored is ignored
    set_fields(stop.monitors.speed, gnss_repeats=False)
    stop.stands(4 * S, mode=mode)
    assert not stop.monitors.speed.gnss_ignored, "it lives again"
    set_fields(stop.monitors.speed, gnss_repeats=True)
    stop.stands(5 * S, mode=mode)
    assert not stop.monitors.speed.gnss_ignored


@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.FAULT, Mode.STANDBY, Mode.AUTO])
@pytest.mark.parametrize("repeats", [False, True])
def test_a_stuck_receiver_does_not_count_while_its_place_repeats(mode: Mode, repeats: bool) -> None:
    stop = Stop()
    set_fields(stop.monitors.gnss, repeats=repeats)
    stop.stands(0, stuck=True, mode=mode)
    assert stop.monitors.speed.gnss_ignored is (repeats and mode in (Mode.STOPPING, Mode.FAULT))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"estimate": None}, "no fresh estimate"),
        ({"estimate_age_ns": FRESH_NS + 1}, "no fresh estimate"),
        ({"estimate_age_ns": FRESH_NS, "speed": 0.05}, "the estimate says 0.05 m/s"),
        ({"speed": -0.5}, "the estimate says -0.50 m/s"),
        ({"evidence": MOVES, "speed": 0.0499}, "wheels or GNSS measure"),
        ({"evidence": UNCONFIRMED}, "once half the brake"),
        ({"evidence": NONE, "actuator_lost": "unplugged"}, "cannot be reached (unplugged)"),
        ({"evidence": UNCONFIRMED, "actuator_lost": "unplugged"},
         "has stopped it (the actuator cannot be reached (unplugged))"),
        ({"evidence": NONE}, "braked until half of the brake"),
    ],
)  # fmt: skip
def test_why_a_stop_does_not_end(values: dict[str, Any], said: str) -> None:
    stop = Stop()
    stop.stands(**values)
    assert stop.unrest(0, **values) == ""
    assert stop.unrest(3 * S - 1, **values) == ""
    assert said in stop.unrest(3 * S, **values)
    stop.detector.ended()
    assert stop.unrest(4 * S, **values) == ""
    assert stop.unrest(7 * S - 1, **values) == ""


def test_a_silent_actuator_is_named() -> None:
    stop = Stop(telemetry=True)
    stop.stands(evidence=NONE)
    stop.unrest(0)
    assert "the actuator sends no telemetry" in stop.unrest(4 * S)


# ------------------------------------------------------------------------------------ accelerometer


class Felt(Stop):
    """A stop from 2 m/s that nothing measures, with an accelerometer; the brake certainly gives 1
    m/s^2."""

    def __init__(self, *, speed: float = 2.0, rest: float = 0.5, sense: float = 1.0) -> None:
        super().__init__()
        set_fields(self.monitors.inertial, has_force=True, rest_mps2=rest, forward_mps2=rest)
        set_fields(self.monitors.motion, sense=sense, braking_mps2=1.0)
        self.rest = rest
        self.stands(0, evidence=NONE, speed=speed, mode=Mode.AUTO)

    def brake(
        self,
        felt_mps2: float,
        seconds: float,
        from_s: float = 0.0,
        *,
        ceiling: float = 0.0,
        mode: Mode = Mode.STOPPING,
    ) -> bool:
        """Feel a deceleration for a time, and return whether the vehicle is taken to stand at its
        end."""
        stands = False
        for k in range(1, round(seconds * 100) + 1):
            after_ns = round(from_s * S) + k * S // 100
            self.monitors.sources.received(ImuSample, NOW + after_ns)
            self.monitors.inertial.forward_mps2 = self.rest - felt_mps2
            stands = self.stands(after_ns, ceiling=ceiling, evidence=NONE, mode=mode)
        return stands


@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.FAULT])
@pytest.mark.parametrize(
    ("felt_mps2", "seconds", "stands"),
    [(2.0, 0.59, False), (2.0, 0.61, True), (1.01, 1.3, True), (0.99, 9.0, False)],
)
def test_a_standstill_is_assumed_only_if_the_brake_was_felt(
    felt_mps2: float, seconds: float, stands: bool, mode: Mode
) -> None:
    """It must have felt 1.2 of the 2 m/s, and only what the brake certainly gives counts: a vehicle
    that rolls out feels less."""
    stop = Felt()
    stop.brake(felt_mps2, seconds, mode=mode)
    assert stop.brake(0.0, 1.1, seconds, mode=mode) is stands
    assert stop.unrest(9 * S, evidence=NONE) == ""
    stop.monitors.sources.received(ImuSample, NOW + 12 * S)
    assert ("the accelerometer has felt" in stop.unrest(12 * S, evidence=NONE)) is not stands


@pytest.mark.parametrize(
    ("sense", "felt_mps2", "stands"),
    [(1.0, -2.0, False), (-1.0, -2.0, True), (-1.0, 2.0, False), (0.0, -2.0, True)],
)
def test_what_is_felt_has_a_direction(sense: float, felt_mps2: float, stands: bool) -> None:
    stop = Felt(sense=sense)
    stop.brake(felt_mps2, 1.0)
    assert stop.brake(0.0, 1.1, 1.0) is stands


def test_without_an_accelerometer_or_at_a_crawl_the_model_alone_counts() -> None:
    for spoil in ({"has_force": False}, {"rest_mps2": nan}, {}):
        stop = Felt()
        set_fields(stop.monitors.inertial, **spoil)
        if not spoil:
            stop.brake(0.0, 1.1)
            stop.monitors.sources.received(ImuSample, NOW - 9 * S)
            assert not stop.stands(2 * S, ceiling=0.0, evidence=NONE)
            assert stop.stands(4 * S, ceiling=0.0, evidence=NONE)
        else:
            assert stop.brake(0.0, 1.1)
    crawl = Felt().monitors.speed.moving_mps
    assert Felt(speed=crawl).brake(0.0, 1.1)
    assert not Felt(speed=crawl + 0.01).brake(0.0, 1.1)
    assert not Felt(speed=-crawl - 0.01).brake(0.0, 1.1)


def test_a_speed_that_is_measured_meanwhile_is_the_one_that_must_go() -> None:
    stop = Felt()
    stop.brake(2.0, 0.2)
    set_fields(stop.monitors.speed, ground=lambda _: SpeedMeasurement("GNSS", 1.0, 0.1, True, NOW))
    stop.stands(S // 4, evidence=MOVES)
    # From now on it repeats itself.
    set_fields(stop.monitors.speed, ground=lambda _: SpeedMeasurement("GNSS", 1.0, 0.1, False, NOW))
    stop.brake(2.0, 0.29, 0.25)
    assert not stop.brake(0.0, 1.1, 0.54)
    stop.brake(2.0, 0.02, 1.64)
    assert stop.brake(0.0, 1.1, 1.66)


def test_what_was_felt_before_the_stop_counts_too() -> None:
    """It rolls out from 2 to 0.4 m/s while it drives on without a measured speed; then the brake
    has little left to take."""
    for felt_mps2, stands in ((1.6, True), (0.8, False), (-1.0, False)):
        stop = Felt()
        for k in range(1, 101):
            stop.monitors.inertial.forward_mps2 = stop.rest - felt_mps2
            stop.stands(k * S // 100, evidence=NONE, mode=Mode.AUTO, speed=1.0)
        assert stop.brake(0.0, 1.1, 1.0) is stands


@pytest.mark.parametrize(("seconds", "stands"), [(0.88, False), (0.92, True)])
def test_a_speed_that_is_gained_without_being_measured_must_go_too(
    seconds: float, stands: bool
) -> None:
    """It gains 1 m/s on its 2 m/s while it drives on, so the brake must be felt to take 1.8 m/s."""
    stop = Felt()
    for k in range(1, 101):
        stop.monitors.inertial.forward_mps2 = stop.rest + 1.0
        stop.stands(k * S // 100, evidence=NONE, mode=Mode.AUTO, speed=1.0)
    stop.brake(2.0, seconds, 1.0)
    assert stop.brake(0.0, 1.1, 1.0 + seconds) is stands


@pytest.mark.parametrize(("late_ns", "feels"), [(0, True), (1, False)])
def test_an_accelerometer_feels_until_it_is_silent(late_ns: int, feels: bool) -> None:
    stop = Felt()
    stop.brake(0.0, 1.1)
    stop.unrest(2 * S, evidence=NONE)
    stop.monitors.sources.received(
        ImuSample, NOW + 6 * S - round(LIMITS.imu_silence_s * 1e9) - late_ns
    )
    assert ("the accelerometer has felt" in stop.unrest(6 * S, evidence=NONE)) is feels


@pytest.mark.parametrize("gained_mode", [Mode.AUTO, Mode.TELEOP, Mode.STANDBY])
@pytest.mark.parametrize(("ratio", "feels"), [(0.9, True), (1.1, True), (1.1, False)])
def test_a_receiver_that_repeats_a_standstill_does_not_count_against_a_speed_that_was_felt(
    gained_mode: Mode, ratio: float, feels: bool
) -> None:
    """Its velocity has been 0 since before the start; the accelerometer has felt the vehicle set
    off."""
    stop = Felt(speed=0.0)
    stop.monitors.inertial.has_force = feels
    gained_mps = ratio * stop.monitors.speed.moving_mps
    set_fields(stop.monitors.speed, ground=lambda _: SpeedMeasurement("GNSS", 0.0, 0.1, False, NOW))

    def after(k: int, felt_mps2: float, mode: Mode) -> bool:
        now_ns = k * S // 100
        stop.monitors.sources.received(ImuSample, NOW + now_ns)
        stop.monitors.inertial.forward_mps2 = stop.rest - felt_mps2
        return stop.stands(now_ns, ceiling=0.0, evidence=STANDS, mode=mode)

    for k in range(1, 101):
        after(k, -gained_mps, gained_mode)
    contradicted = ratio > 1.0 and feels and gained_mode is not Mode.STANDBY
    for k, mode in ((101, Mode.STOPPING), (102, Mode.FAULT), (300, Mode.STOPPING)):
        assert after(k, 0.0, mode) is not contradicted, "the accelerometer has not felt it go"
        assert stop.detector.assumed_s == 0.0
    if contradicted:
        for k in range(301, 401):
            after(k, 1.0, Mode.STOPPING)
        assert after(500, 0.0, Mode.STOPPING)
        assert stop.detector.assumed_s > 0.0
    set_fields(stop.monitors.speed, ground=lambda _: SpeedMeasurement("GNSS", 0.0, 0.1, True, NOW))
    assert after(501, 0.0, Mode.STOPPING)
    assert stop.detector.assumed_s == 0.0, "a live receiver counts"


def test_a_speed_that_was_felt_is_forgotten_by_a_vehicle_that_waits() -> None:
    stop = Felt(speed=0.0)
    moving_mps = stop.monitors.speed.moving_mps
    set_fields(stop.monitors.speed, ground=lambda _: SpeedMeasurement("GNSS", 0.0, 0.1, False, NOW))

    def after(k: int, felt_mps2: float, mode: Mode) -> bool:
        stop.monitors.sources.received(ImuSample, NOW + k * S // 100)
        stop.monitors.inertial.forward_mps2 = stop.rest - felt_mps2
        return stop.stands(k * S // 100, ceiling=0.0, evidence=STANDS, mode=mode)

    for k in range(1, 101):
        after(k, -2.0 * moving_mps, Mode.AUTO)
    assert not after(101, 0.0, Mode.STOPPING)
    assert after(102, -2.0 * moving_mps, Mode.STANDBY)
    assert after(103, 0.0, Mode.STOPPING)
    assert stop.detector.assumed_s == 0.0
    # What is felt while it waits, pushed or leant on, neither counts nor hides what comes.
    after(104, -2.0 * moving_mps, Mode.STANDBY)
    for k in range(105, 205):
        after(k, -1.1 * moving_mps, Mode.AUTO)
    assert not after(205, 0.0, Mode.STOPPING)
