"""Decisions of the supervisor one by one: the rules are switched by the test, and the monitors keep
what it puts into them."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_rules import Still, set_fields
from tests.unit.test_safety_supervisor import CONTROL, ESTIMATE, LIMITS, MOVING, MS
from vehicled.core.messages import (
    EstimatorStatus,
    Fault,
    HostHealth,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    TeleopCommand,
)
from vehicled.safety.entry import Entry
from vehicled.safety.reason import Reason
from vehicled.safety.rule import Clear, Rule, RuleInputs
from vehicled.safety.supervisor import Supervisor
from vehicled.safety.trip import Trip

S0 = Reaction.WARN
S1 = Reaction.CAP_SPEED
S2 = Reaction.CONTROLLED_STOP
S3 = Reaction.BRAKE
S4 = Reaction.DISABLE
DRIVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD)
LIMIT_NS = 10_000_000_000
"""Time for which a request waits for its checks, ns."""


class Decisions:
    """A supervisor with one rule for each reaction, and a moving vehicle."""

    def __init__(
        self,
        mode: Mode,
        *,
        seen: Mode | None = None,
        clear: Clear = Clear.ITSELF,
        clear_ms: float = 0.0,
    ) -> None:
        self.holding: set[Reaction] = set()
        rules = [self._rule(reaction, clear, clear_ms) for reaction in (S0, S1, S2, S3, S4)]
        self.supervisor = Supervisor(rules)
        self.monitors = Still(LIMITS, VEHICLE)
        self.supervisor.mode = mode
        self.supervisor._seen = mode if seen is None else seen
        self.now_ns = 50 * 10**9
        self.estimate = MOVING

    def _rule(self, reaction: Reaction, clear: Clear, clear_ms: float) -> Rule:
        return Rule(
            code=reaction.name, reaction=reaction, value=lambda _: reaction in self.holding,
            reason=lambda _: f"{reaction} holds", detect_ms=0.0, persist_ms=0.0, react_ms=0.0,
            modes=frozenset(Mode), clear=clear, clear_ms=clear_ms, releases_brake=reaction is S4,
        )  # fmt: skip

    def step(self, *holding: Reaction, after_ns: int = 10 * MS, **values: Any) -> None:
        self.holding.clear()
        self.holding.update(holding)
        self.now_ns += after_ns
        given: dict[str, Any] = {"estimate": self.estimate, "control": CONTROL, **values}
        self.supervisor.step(
            RuleInputs(
                now_ns=self.now_ns,
                mode=self.supervisor.mode,
                limits=LIMITS,
                monitors=self.monitors,
                **given,
            )
        )

    def ask(self, action: OperatorAction) -> None:
        self.supervisor.on_operator(
            OperatorCommand(self.now_ns, self.now_ns, action, "test"), self.now_ns
        )

    def stand(self) -> None:
        """Let the vehicle stand, for certain."""
        self.estimate = ESTIMATE
        set_fields(
            self.supervisor._rest,
            stands=lambda *_, **__: True,
            unrest=lambda _: ["it does not stand"],
        )

    @property
    def state(self) -> tuple[Mode, Reaction]:
        return self.supervisor.mode, self.supervisor.reaction

    def chain(self) -> list[tuple[str, Reaction]]:
        return [(str(link.code), link.reaction) for link in self.supervisor.chain]

    def records(self) -> list[tuple[str, Reaction, bool]]:
        return [
            (fault.code, fault.reaction, fault.active) for fault in self.supervisor.take_faults()
        ]


def test_a_rule_compares_with_the_limits_of_its_tick() -> None:
    far = Rule(
        code="far", reaction=S2, value=lambda _: 1.0, limit=lambda s: s.limits.corridor_m, unit="m",
        reason=lambda _: "it is far", detect_ms=0.0, persist_ms=0.0, react_ms=0.0,
        modes=frozenset(Mode),
    )  # fmt: skip
    supervisor, monitors = Supervisor([far]), Still(LIMITS, VEHICLE)
    for number, corridor_m in enumerate((1.0, 2.0, 0.9)):
        supervisor.step(
            RuleInputs(
                now_ns=number * 10 * MS,
                mode=supervisor.mode,
                limits=replace(LIMITS, corridor_m=corridor_m),
                monitors=monitors,
                estimate=MOVING,
                control=CONTROL,
            )
        )
        assert (supervisor.in_force("far") is not None) == (corridor_m < 1.0), corridor_m


# ---------------------------------------------------------------------------------------- reactions


@pytest.mark.parametrize("mode", DRIVING, ids=lambda mode: mode.name)
def test_a_drive_is_stopped_from_s2_on_and_disabled_by_s4(mode: Mode) -> None:
    for reaction in (S0, S1, S2, S3, S4):
        d = Decisions(mode)
        d.step(reaction)
        assert d.state == (
            mode if reaction < S2 else Mode.FAULT if reaction is S4 else Mode.STOPPING,
            reaction,
        )
        assert d.supervisor.releases_brake is (reaction is S4)
        assert d.supervisor.reason.code == ("must_stand" if reaction < S2 else reaction.name)
        assert d.records() == [(reaction.name, reaction, True)]
        d.step()
        assert d.records() == [(reaction.name, reaction, False)]
        assert d.supervisor.reaction is (Reaction.NONE if reaction < S2 else reaction), (
            "a stop goes on when its cause is gone"
        )


def test_armed_it_is_disarmed_from_s2_on_and_shows_every_reaction() -> None:
    for reaction in (S0, S1, S2, S3, S4):
        d = Decisions(Mode.ARMED)
        d.step(reaction)
        assert d.state == (Mode.ARMED if reaction < S2 else Mode.STANDBY, reaction)
        assert (d.supervisor.reason.code == "disarmed_by_fault") is (reaction >= S2)


def test_in_a_stop_only_a_harder_reaction_counts() -> None:
    for first in (S2, S3):
        for second in (S0, S1, S2, S3, S4):
            d = Decisions(Mode.AUTO)
            d.step(first)
            before = d.supervisor.reason
            d.step(second)
            harder = second > first
            assert d.state == (Mode.FAULT if second is S4 else Mode.STOPPING, max(first, second))
            assert d.supervisor.releases_brake is (second is S4)
            assert (d.supervisor.reason.after == before) is harder
            assert d.supervisor.reason == before or harder
            assert d.chain() == [(each.name, each) for each in dict.fromkeys((first, second))]


def test_a_fault_that_a_device_reports_is_in_the_chain_like_the_trip_of_a_rule() -> None:
    for mode in (Mode.ARMED, *DRIVING):
        for first in (S0, S1, S2, S3, S4):
            for second in (S2, S3, S4):
                d = Decisions(mode)
                stops = [first] if first >= S2 else []
                if second > first and not (mode is Mode.ARMED and stops) and first is not S4:
                    stops.append(second)
                for reaction in (first, first, second, second):
                    d.monitors.device_faults = {
                        ("drive", "hot"): Fault(0, "hot", "drive", reaction, True, f"{d.now_ns}")
                    }
                    d.step()
                assert d.chain() == [("hot", each) for each in dict.fromkeys(stops)], (
                    mode,
                    first,
                    second,
                )
    d = Decisions(Mode.AUTO)
    d.monitors.device_faults = {("drive", "hot"): Fault(0, "hot", "drive", S2, True, "")}
    d.step()
    d.monitors.device_faults |= {("steering", "hot"): Fault(0, "hot", "steering", S3, True, "")}
    d.step()
    assert [(link.reason.by, link.reaction) for link in d.supervisor.chain] == [
        ("drive", S2),
        ("steering", S3),
    ]


def test_the_worst_of_several_counts_and_every_cap() -> None:
    d = Decisions(Mode.AUTO)
    d.monitors.stopping.cap_mps = 0.9
    d.step(S0, S1)
    assert d.state == (Mode.AUTO, S1)
    assert d.supervisor.speed_cap_mps == min(0.9, LIMITS.capped_speed_mps)
    d.step(S0)
    assert d.state == (Mode.AUTO, S0)
    assert d.supervisor.speed_cap_mps == 0.9
    d = Decisions(Mode.TELEOP)
    d.monitors.stopping.cap_mps = 0.9
    d.step()
    assert d.supervisor.speed_cap_mps == inf, "the way along the course limits AUTO alone"
    fault = Fault(0, "hot", "drive", S1, True, "")
    d.monitors.device_faults = {
        ("drive", "hot"): fault,
        ("drive", "b"): replace(fault, reaction=S0),
    }
    d.step()
    assert d.supervisor.speed_cap_mps == LIMITS.capped_speed_mps
    assert d.state == (Mode.TELEOP, S1)
    d.monitors.device_faults = {("drive", "b"): replace(fault, reaction=S0)}
    d.step()
    assert d.supervisor.speed_cap_mps == inf
    d.monitors.device_faults = {
        ("drive", "hot"): replace(fault, reaction=S3),
        ("drive", "b"): replace(fault, reaction=S2),
    }
    d.step(S0, S1)
    assert d.state == (Mode.STOPPING, S3)


@pytest.mark.parametrize(
    ("uncommanded_ns", "rolled_m", "brakes"),
    [
        (0, 0.0, False),
        (300 * MS, 0.3, False),
        (300 * MS + 1, 0.0, True),
        (0, 0.301, True),
        (0, -0.3, False),
        (0, -0.301, True),
    ],
)
def test_a_released_vehicle_that_rolls_is_braked(
    uncommanded_ns: int, rolled_m: float, brakes: bool
) -> None:
    assert (LIMITS.uncommanded_s, LIMITS.roll_back_m) == (0.3, 0.3)
    d = Decisions(Mode.AUTO)
    d.step(S4)
    d.supervisor.take_faults()
    d.monitors.motion.uncommanded_ns, d.monitors.progress.rolled_m = uncommanded_ns, rolled_m
    d.step(S4)
    assert d.supervisor.releases_brake is not brakes
    assert d.state == (Mode.FAULT, S4)
    assert d.chain()[1:] == [("rolls_released", S3)] * brakes
    assert d.records() == [("rolls_released", S3, True)] * brakes
    # A vehicle whose brake holds already is not braked once more.
    d.step(S4)
    assert d.records() == []


def test_without_a_rule_a_fault_of_a_device_does_not_release_the_brake() -> None:
    d = Decisions(Mode.AUTO)
    d.monitors.device_faults = {("drive", "hot"): Fault(0, "hot", "drive", S4, True, "")}
    d.step()
    assert d.state == (Mode.FAULT, S4)
    assert not d.supervisor.releases_brake


# ----------------------------------------------------------------------------------- ends of drives


@pytest.mark.parametrize("mode", DRIVING, ids=lambda mode: mode.name)
@pytest.mark.parametrize("seen", [Mode.ARMED, None])
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("finished", [False, True])
def test_a_course_is_finished_at_its_end_in_auto(
    mode: Mode, seen: Mode | None, ended: bool, finished: bool
) -> None:
    d = Decisions(mode, seen=seen)
    set_fields(d.monitors.place, ended=ended)
    d.step(controller_finished=finished)
    stops = mode is Mode.AUTO and seen is None and ended and finished
    assert d.state == ((Mode.STOPPING, S2) if stops else (mode, Reaction.NONE))
    assert d.supervisor.course_driven is stops
    assert d.chain() == [("course_finished", S2)] * stops


@pytest.mark.parametrize("mode", DRIVING, ids=lambda mode: mode.name)
@pytest.mark.parametrize("seen", [Mode.ARMED, None])
@pytest.mark.parametrize("result", ["", "known", "failed"])
def test_an_alignment_drive_ends_with_its_result(
    mode: Mode, seen: Mode | None, result: str
) -> None:
    d = Decisions(mode, seen=seen)
    if result:
        set_fields(d.monitors.alignment, **{result: "because"})
    d.step()
    stops = mode is Mode.ALIGN and seen is None and bool(result)
    code = {"known": "heading_known", "failed": "alignment_failed"}.get(result, "")
    assert d.state == ((Mode.STOPPING, S2) if stops else (mode, Reaction.NONE))
    assert d.chain() == [(code, S2)] * stops
    assert d.records() == [(code, S2, True)] * (stops and result == "failed")
    if stops:
        d.stand()
        d.step()
        assert d.supervisor.mode is Mode.STANDBY
        assert d.supervisor.stopped is (result == "failed"), "a heading that is known is no end"


def test_a_stop_that_ends_late_says_what_it_waits_for_and_only_then() -> None:
    for mode in Mode:
        d = Decisions(mode)
        set_fields(d.supervisor._rest, unrest=lambda _: ["it does not stand"])
        d.step()
        assert d.supervisor.waiting == ["it does not stand"] * (mode is Mode.STOPPING)


def test_at_standstill_stop_init_and_fault_end() -> None:
    ends = (
        (Mode.INIT, Mode.STANDBY, False),
        (Mode.STOPPING, Mode.STANDBY, True),
        (Mode.FAULT, Mode.FAULT, True),
    )
    for mode, after, stopped in ends:
        d = Decisions(mode)
        d.stand()
        d.step()
        assert (d.supervisor.mode, d.supervisor.stopped) == (after, stopped)
        assert d.records() == []
        d = Decisions(mode)
        d.stand()
        d.supervisor._rest.assumed_s = 2.5
        d.step()
        assert d.supervisor.reason.code == "standstill_assumed"
        assert d.records() == [("standstill_assumed", S0, True)]
        assert d.chain() == [("standstill_assumed", S0)]
        d.step()
        assert d.records() == [], "it is marked once"
    d = Decisions(Mode.INIT)
    d.supervisor.reason = Reason("arming_refused", details=("no fix",))
    d.stand()
    d.step()
    assert d.supervisor.reason.code == "arming_refused"
    for mode in (*DRIVING, Mode.ARMED, Mode.STANDBY):
        d = Decisions(mode)
        d.stand()
        d.step()
        assert (d.supervisor.mode, d.supervisor.stopped) == (mode, False)


# ----------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_an_emergency_stop_disables_at_once_in_every_mode_and_is_recorded(mode: Mode) -> None:
    d = Decisions(mode)
    d.supervisor.releases_brake = True
    d.supervisor._arm_requested_ns, d.supervisor._wanted = d.now_ns, OperatorAction.DRIVE
    d.ask(OperatorAction.EMERGENCY_STOP)
    assert d.state == (Mode.FAULT, S4)
    assert not d.supervisor.releases_brake
    assert (d.supervisor.reason.code, d.supervisor.reason.by) == ("emergency_stop", "test")
    assert d.chain() == [("emergency_stop", S4)]
    assert d.records() == [("emergency_stop", S4, True)]
    d.stand()
    d.step()
    assert d.state == (Mode.FAULT, S4), "what was asked for before does not come true"


@pytest.mark.parametrize("action", [OperatorAction.STOP, OperatorAction.DISARM])
def test_stop_and_disarm_brake_every_drive(action: OperatorAction) -> None:
    codes = {OperatorAction.STOP: "stop_requested", OperatorAction.DISARM: "disarm_requested"}
    for mode in DRIVING:
        d = Decisions(mode)
        d.ask(action)
        assert d.state == (Mode.STOPPING, S3)
        assert d.chain() == [(codes[action], S3)]
        assert d.supervisor.disarmed_by == ("test" if action is OperatorAction.DISARM else "")
    d = Decisions(Mode.AUTO)
    d.step(S2)
    d.ask(action)
    assert d.state == (Mode.STOPPING, S3), "it makes a gentle stop a hard one"
    assert d.chain() == [("CONTROLLED_STOP", S2), (codes[action], S3)]
    d = Decisions(Mode.AUTO)
    d.step(S3)
    d.ask(action)
    assert d.chain() == [("BRAKE", S3)], "and goes on with a hard one"
    d = Decisions(Mode.ARMED)
    d.ask(action)
    assert d.supervisor.mode is (Mode.STANDBY if action is OperatorAction.DISARM else Mode.ARMED)
    for mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
        d = Decisions(mode)
        d.ask(action)
        assert d.state == (mode, Reaction.NONE)


def test_a_refused_request_is_recorded_once_as_an_answer() -> None:
    d = Decisions(Mode.STOPPING)
    d.ask(OperatorAction.DRIVE)
    d.ask(OperatorAction.DRIVE)
    assert d.records() == [("request_refused", Reaction.NONE, True)]
    d.ask(OperatorAction.ARM)
    assert d.records() == [("request_refused", Reaction.NONE, True)]


def test_a_request_is_called_off_only_where_there_is_one() -> None:
    for mode, wanted, code in (
        (Mode.STANDBY, None, "must_stand"),
        (Mode.STANDBY, OperatorAction.ARM, "arming_withdrawn"),
        (Mode.ARMED, OperatorAction.DRIVE, "driving_withdrawn"),
        (Mode.ARMED, None, "must_stand"),
        (Mode.INIT, OperatorAction.ARM, "must_stand"),
    ):
        d = Decisions(mode)
        d.supervisor._arm_requested_ns = d.now_ns if wanted is OperatorAction.ARM else None
        d.supervisor._wanted = wanted
        d.ask(OperatorAction.STOP)
        assert d.supervisor.reason.code == code, (mode, wanted)
        assert d.supervisor._arm_requested_ns is None
        assert d.supervisor._wanted is None


@pytest.mark.parametrize("mode", [Mode.INIT, Mode.FAULT])
def test_an_arming_request_waits_ten_seconds_and_no_longer(mode: Mode) -> None:
    d = Decisions(mode)
    d.ask(OperatorAction.ARM)
    d.step(after_ns=LIMIT_NS)
    assert d.supervisor._arm_requested_ns is not None
    d.step(after_ns=1)
    assert d.supervisor._arm_requested_ns is None
    assert d.records() == [("arming_refused", S0, True)]
    assert d.supervisor.reason.code == ("arming_refused" if mode is Mode.INIT else "must_stand")


def test_a_drive_request_waits_ten_seconds_and_no_longer() -> None:
    d = Decisions(Mode.ARMED)
    d.estimate = replace(ESTIMATE, status=EstimatorStatus.DIVERGED)
    d.ask(OperatorAction.DRIVE)
    d.step(after_ns=LIMIT_NS)
    assert d.supervisor.waiting
    assert d.supervisor.reason.code == "driving_waits"
    d.step(after_ns=1)
    assert d.supervisor._wanted is None
    assert d.supervisor.reason.code == "driving_refused"
    assert d.records() == [("driving_refused", Reaction.NONE, True)]


def test_after_a_suspend_nothing_that_was_asked_for_before_is_done() -> None:
    d = Decisions(Mode.ARMED)
    d.ask(OperatorAction.DRIVE)
    d.monitors.host.on_message(HostHealth(d.now_ns, suspended_s=0.5), d.now_ns)
    d.step()
    assert d.supervisor._wanted is None
    assert d.monitors.host.woke_s == 0.0, "one suspend counts once"


def test_a_fault_forgets_what_was_asked_for_before_it() -> None:
    for rule in (True, False):
        d = Decisions(Mode.AUTO)
        d.ask(OperatorAction.TELEOP)
        if rule:
            d.step(S4)
        else:
            d.ask(OperatorAction.EMERGENCY_STOP)
        assert d.supervisor._wanted is None


# ------------------------------------------------------------------------ requests and their checks

ASKS = {
    OperatorAction.DRIVE: (Mode.AUTO, {Mode.ARMED}),
    OperatorAction.ALIGN: (Mode.ALIGN, {Mode.ARMED}),
    OperatorAction.TELEOP: (Mode.TELEOP, {Mode.ARMED, Mode.AUTO, Mode.ALIGN, Mode.OFFBOARD}),
    OperatorAction.OFFBOARD: (Mode.OFFBOARD, {Mode.ARMED, Mode.AUTO}),
}
"""Mode that a request leads to, and the modes from which it does."""


class Checks:
    """Arming checks of the test: what is lacking, and for which drives they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lacking: list[str] = []
        self.asked: list[OperatorAction | None] = []
        monkeypatch.setattr("vehicled.safety.supervisor.missing", self)

    def __call__(self, s: RuleInputs, drive: OperatorAction | None = None) -> list[str]:
        self.asked.append(drive)
        return list(self.lacking)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    return Checks(monkeypatch)


class Requests(Decisions):
    """Decisions with teleop and a program that are ready, and with notes of what begins."""

    def __init__(self, mode: Mode) -> None:
        super().__init__(mode)
        self.begun: list[str] = []
        m, note = self.monitors, self.begun.append
        m.teleop.on_message(
            TeleopCommand(self.now_ns, self.now_ns, 0.0, 0.0, 0.0, True, "pad", 1), self.now_ns
        )
        set_fields(m.teleop, missing=lambda *_: "")
        set_fields(m.setpoints, missing=lambda *_: "", holder="program")
        for name in ("reset", "begin", "begin_by_hand"):
            set_fields(m.alignment, **{name: lambda *_, n=name: note(f"alignment.{n}")})
        set_fields(
            m.place,
            begin=lambda entry, _estimate: note(f"place.begin {entry.said}"),
            choose=lambda _: Entry(said="here"),
        )
        set_fields(m, reset=lambda: note("monitors.reset"))


def test_each_request_begins_its_drive_from_its_modes_alone(checks: Checks) -> None:
    begins = {
        OperatorAction.DRIVE: ["alignment.reset", "place.begin here"],
        OperatorAction.ALIGN: ["alignment.begin"],
        OperatorAction.TELEOP: ["alignment.begin_by_hand"],
        OperatorAction.OFFBOARD: ["alignment.reset"],
    }
    for action, (leads_to, modes) in ASKS.items():
        for mode in Mode:
            d = Requests(mode)
            d.supervisor._wanted, d.supervisor._wanted_ns = action, d.now_ns
            checks.asked.clear()
            d.step()
            begun = mode in modes
            assert d.supervisor.mode is (leads_to if begun else mode), (action, mode)
            assert d.begun == (begins[action] if begun else [])
            drivers = {OperatorAction.TELEOP: "pad", OperatorAction.OFFBOARD: "program"}
            assert d.supervisor.driver == (drivers.get(action, "") if begun else "")
            assert d.monitors.setpoints.drives is (begun and action is OperatorAction.OFFBOARD)
            assert d.monitors.teleop.driver == (
                "pad" if begun and action is OperatorAction.TELEOP else None
            )
            assert checks.asked == (
                [None if action is OperatorAction.DRIVE else action] if mode is Mode.ARMED else []
            )
            # A request that this mode does not allow is forgotten at once.
            waits = mode in (Mode.ARMED, Mode.AUTO, Mode.ALIGN, Mode.OFFBOARD) and not begun
            assert d.supervisor._wanted is (action if waits else None), (action, mode)


def test_armed_each_request_waits_for_its_checks(checks: Checks) -> None:
    checks.lacking = ["no fix"]
    for action, (leads_to, _) in ASKS.items():
        d = Requests(Mode.ARMED)
        d.ask(action)
        assert d.supervisor.reason.code == "driving_checks"
        d.step()
        assert (d.supervisor.mode, d.supervisor.waiting) == (Mode.ARMED, ["no fix"])
        assert (d.supervisor.reason.code, d.supervisor.reason.details) == (
            "driving_waits",
            ("no fix",),
        )
        assert d.begun == []
        checks.lacking = []
        d.step()
        assert d.supervisor.mode is leads_to
        d.supervisor.mode = Mode.ARMED
        d.step()
        assert d.supervisor.mode is Mode.ARMED, "one request is one drive"
        checks.lacking = ["no fix"]


@pytest.mark.parametrize("action", [OperatorAction.TELEOP, OperatorAction.OFFBOARD])
def test_hand_and_program_must_be_there_whatever_drives(
    action: OperatorAction, checks: Checks
) -> None:
    leads_to, modes = ASKS[action]
    for mode in modes:
        d = Requests(mode)
        set_fields(d.monitors.teleop, missing=lambda *_: "hold it")
        set_fields(d.monitors.setpoints, missing=lambda *_: "send some")
        d.ask(action)
        d.step()
        assert d.supervisor.mode is mode
        assert d.supervisor.waiting == [
            {OperatorAction.TELEOP: "driving by hand waits: hold it"}.get(action, "send some")
        ]
        set_fields(d.monitors.teleop, missing=lambda *_: "")
        set_fields(d.monitors.setpoints, missing=lambda *_: "")
        # From a drive they take over at once, whatever the checks of arming say.
        checks.lacking = ["no fix"]
        d.step()
        assert d.supervisor.mode is (mode if mode is Mode.ARMED else leads_to)
        checks.lacking = []


def test_a_program_that_no_longer_drives_gets_the_reason(checks: Checks) -> None:
    for reaction, after in ((S3, Mode.STOPPING), (S4, Mode.FAULT)):
        d = Requests(Mode.ARMED)
        d.ask(OperatorAction.OFFBOARD)
        d.step()
        assert d.monitors.setpoints.drives
        d.step(reaction)
        assert (d.supervisor.mode, d.monitors.setpoints.drives, d.supervisor.driver) == (
            after,
            False,
            "",
        )


def test_arming_begins_anew(checks: Checks) -> None:
    for mode in Mode:
        d = Requests(mode)
        supervisor = d.supervisor
        supervisor.stopped = supervisor.course_driven = True
        supervisor.disarmed_by, supervisor.reaction = "somebody", S3
        supervisor._chain(0, S3, Reason("old"))
        supervisor._trips["gone"] = Trip(0)
        supervisor._arm_requested_ns = d.now_ns
        d.step()
        armed = mode is Mode.STANDBY
        assert (supervisor.mode is Mode.ARMED) is (armed or mode is Mode.ARMED)
        if armed:
            assert (supervisor.stopped, supervisor.course_driven, supervisor.disarmed_by) == (
                False,
                False,
                "",
            )
            assert (supervisor.reaction, supervisor.chain, d.begun) == (
                Reaction.NONE,
                [],
                ["monitors.reset"],
            )
            assert supervisor._arm_requested_ns is None
            assert not supervisor._trips
        else:
            assert (supervisor.stopped, d.begun) == (True, [])


def test_arming_waits_for_its_checks_and_is_refused_when_it_comes_late(checks: Checks) -> None:
    checks.lacking = ["no fix"]
    d = Requests(Mode.STANDBY)
    d.ask(OperatorAction.ARM)
    assert d.supervisor.reason.code == "arming_checks"
    d.step(after_ns=LIMIT_NS)
    assert (d.supervisor.reason.code, d.supervisor.waiting, d.records()) == (
        "arming_waits",
        ["no fix"],
        [],
    )
    d.step(after_ns=1)
    assert (d.supervisor.mode, d.supervisor.reason.code) == (Mode.STANDBY, "arming_refused")
    assert d.records() == [("arming_refused", S0, True)]
    checks.lacking = []
    d.step()
    assert d.supervisor.mode is Mode.STANDBY
    # All checks pass by now, and the daemon stood still: that request was made in another
    # situation.
    for after_ns, mode in ((LIMIT_NS, Mode.ARMED), (LIMIT_NS + 1, Mode.STANDBY)):
        d = Requests(Mode.STANDBY)
        d.ask(OperatorAction.ARM)
        d.step(after_ns=after_ns)
        assert d.supervisor.mode is mode
    assert d.supervisor.waiting == ["the daemon stood still meanwhile: ask again"]
    d.records()
    d.step()
    assert d.records() == [], "it is refused once"


@pytest.mark.parametrize("action", [OperatorAction.ARM, OperatorAction.RESET, OperatorAction.ALIGN])
@pytest.mark.parametrize("stands", [False, True])
def test_a_fault_is_reset_at_standstill_by_a_request_after_it(
    action: OperatorAction, stands: bool, checks: Checks
) -> None:
    d = Requests(Mode.FAULT)
    if stands:
        d.stand()
    d.supervisor.releases_brake, d.supervisor.reaction = True, S4
    d.ask(action)
    d.step()
    assert d.supervisor.releases_brake is not stands
    if not stands:
        assert d.state == (Mode.FAULT, S4)
    elif action is OperatorAction.RESET:
        assert d.state == (Mode.STANDBY, Reaction.NONE)
        assert d.supervisor._wanted is None
    else:
        assert d.state == (
            Mode.ALIGN if action is OperatorAction.ALIGN else Mode.ARMED,
            Reaction.NONE,
        )
    d = Requests(Mode.FAULT)
    d.stand()
    d.supervisor._seen = Mode.AUTO
    d.ask(action)
    d.step()
    assert d.supervisor.mode is Mode.FAULT, "the request was made before the fault was acted upon"


def test_a_fault_whose_cause_lasts_is_not_reset(checks: Checks) -> None:
    for reaction in (S0, S1, S2, S3, S4):
        d = Requests(Mode.FAULT)
        d.stand()
        d.supervisor.reaction = S4
        d.ask(OperatorAction.ARM)
        d.ask(OperatorAction.RESET)
        d.step(reaction)
        lasts = reaction is S4
        assert d.supervisor.mode is (
            Mode.FAULT if lasts else Mode.STANDBY if reaction >= S2 else Mode.ARMED
        )
        assert (("reset_refused", S0, True) in d.records()) is lasts
        assert d.supervisor.releases_brake is False
        assert d.supervisor._wanted is None


def test_a_request_to_align_arms_as_well_and_no_other_drive_does() -> None:
    for action in ASKS:
        for mode in Mode:
            d = Decisions(mode)
            d.ask(action)
            aligns = action is OperatorAction.ALIGN and mode in (
                Mode.INIT,
                Mode.STANDBY,
                Mode.FAULT,
            )
            assert (d.supervisor._arm_requested_ns is not None) is aligns, (action, mode)
            checked = mode is Mode.ARMED or (aligns and mode is Mode.STANDBY)
            assert (d.supervisor.reason.code == "driving_checks") is checked, (action, mode)


def test_a_refused_arming_request_names_what_lacks(checks: Checks) -> None:
    checks.lacking = ["no fix"]
    for mode, text in ((Mode.INIT, "no fix"), (Mode.FAULT, "the vehicle does not stand")):
        d = Decisions(mode)
        d.ask(OperatorAction.ARM)
        d.step(after_ns=LIMIT_NS + 1)
        assert [fault.reason for fault in d.supervisor.take_faults()] == [f"arming refused: {text}"]


def test_every_stop_has_its_own_time() -> None:
    d = Decisions(Mode.STOPPING)
    d.step()
    began_ns = d.supervisor._rest._moves_since_ns
    assert began_ns == d.now_ns
    d.step()
    assert d.supervisor._rest._moves_since_ns == began_ns
    d.supervisor.mode = Mode.FAULT
    d.step()
    assert d.supervisor._rest._moves_since_ns is None


def test_a_rule_that_arming_clears_is_cleared_by_a_reset_too() -> None:
    d = Decisions(Mode.AUTO, clear=Clear.REARM)
    d.step(S4)
    d.step()
    assert d.supervisor.in_force("DISABLE")
    d.stand()
    d.ask(OperatorAction.RESET)
    d.step()
    assert d.state == (Mode.STANDBY, Reaction.NONE)
    assert d.supervisor.in_force("DISABLE") is None


def test_a_rule_clears_after_a_time_without_a_break() -> None:
    d = Decisions(Mode.AUTO, clear_ms=100.0)
    d.step(S1)
    d.step(after_ns=10 * MS)
    d.step(S1, after_ns=10 * MS)
    d.step(after_ns=10 * MS)
    d.step(after_ns=100 * MS - 1)
    assert d.supervisor.in_force("CAP_SPEED")
    d.step(after_ns=1)
    assert d.supervisor.in_force("CAP_SPEED") is None
    assert d.records() == [("CAP_SPEED", S1, True), ("CAP_SPEED", S1, False)]


def test_of_equal_reactions_the_first_is_the_reason() -> None:
    d = Decisions(Mode.AUTO)
    fault = Fault(0, "hot", "drive", S3, True, "hot")
    d.monitors.device_faults = {
        ("drive", "hot"): fault,
        ("drive", "wet"): replace(fault, code="wet"),
    }
    d.step()
    assert d.supervisor.reason.code == "hot"
    d = Decisions(Mode.AUTO)
    d.monitors.device_faults = {("drive", "hot"): fault}
    d.step(S3)
    assert d.supervisor.reason.code == "BRAKE"
    d = Decisions(Mode.AUTO)
    d.supervisor._rules = tuple(
        replace(rule, reaction=S2) if rule.reaction is S3 else rule for rule in d.supervisor._rules
    )
    d.step(S2, S3)
    assert d.supervisor.reason.code == "CONTROLLED_STOP"


def test_a_full_chain_gives_up_the_oldest_of_its_mildest_links() -> None:
    supervisor = Decisions(Mode.AUTO).supervisor
    for k in range(16):
        supervisor._chain(k, S2 if k != 5 else S3, Reason(str(k)))
    supervisor._chain(16, S1, Reason("milder"))
    assert [link.code for link in supervisor.chain] == [str(k) for k in range(16)]
    supervisor._chain(17, S2, Reason("equal"))
    assert [link.code for link in supervisor.chain] == [*(str(k) for k in range(1, 16)), "equal"]


def test_before_its_first_step_it_neither_drives_nor_knows_anything() -> None:
    supervisor = Supervisor()
    assert (supervisor.mode, supervisor.reaction, supervisor.speed_cap_mps) == (
        Mode.INIT,
        Reaction.NONE,
        inf,
    )
    assert (supervisor.entry, supervisor.inputs, supervisor.chain, supervisor.faults) == (
        Entry(),
        None,
        [],
        [],
    )
    assert (supervisor.driver, supervisor.disarmed_by, supervisor.waiting) == ("", "", [])
    assert (supervisor.stopped, supervisor.course_driven, supervisor.releases_brake) == (
        False,
        False,
        False,
    )
