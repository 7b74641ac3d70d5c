"""A reference system beside a drive: it judges, and nothing that the daemon does depends on it."""

import pytest

from sim_backend.emulators.failures import parse_failure
from vehicled.core.messages import Fault, GroundTruth, Message, Reaction, ReferenceState
from vehicled.daemon.reference import ReferenceFrame
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

ARM_M = [0.3, 0.1, 0.2]
REFERENCE = [
    "devices.ins.driver.name=sbg",
    'devices.ins.messages=["ReferenceState"]',
    "devices.ins.rate_hz=50",
    f"devices.ins.lever_arm_m={ARM_M}",
]
LIMIT_NS = 8_000_000_000
EXACT = [
    f"sim.reference.{key}=0"
    for key in ("position_sigma_m", "position_drift_m", "velocity_sigma_mps")
]


class Journal:
    """Journal listener that keeps the truth of both sources, and the faults."""

    def __init__(self) -> None:
        self.truths: list[GroundTruth] = []
        self.states: list[ReferenceState] = []
        self.faults: list[str] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, GroundTruth):
            self.truths.append(message)
        elif isinstance(message, ReferenceState):
            self.states.append(message)
        elif isinstance(message, Fault) and message.reaction > Reaction.WARN:
            self.faults.append(message.code)


def drive(overrides: list[str], *, fail: str = "", link: str = "messages") -> tuple[str, Journal]:
    """Drive for some seconds: digest of all frames of the daemon."""
    journal, course = Journal(), load_course("circle_r5_ccw")
    pair = WrappedPair(
        load_profile("art", overrides),
        course,
        [parse_failure(fail)] if fail else [],
        journal,
        7,
        link=link,
    )
    start_ns = pair.now_ns
    while pair.now_ns < start_ns + LIMIT_NS:
        pair.grant()
        pair.reply()
    return pair.machine.digest.hexdigest(), journal


def test_a_drive_does_not_depend_on_its_judge() -> None:
    alone, _ = drive([])
    judged, journal = drive(REFERENCE)
    blind, lost = drive(REFERENCE, fail="ins:off@3")
    wrong, _ = drive(REFERENCE, fail="ins:wrong=25@3")
    assert alone == judged == blind == wrong
    assert journal.faults == lost.faults == []
    assert len(journal.states) > 2 * len(lost.states) > 100


@pytest.mark.parametrize("link", ["messages", "wires"])
def test_the_reference_is_where_the_simulator_is(link: str) -> None:
    _, journal = drive(
        [
            *REFERENCE,
            *EXACT,
            "devices.ins.driver.sbg.rate_hz=50",
            "devices.ins.driver.sbg.latency_s=0.006",
        ],
        link=link,
    )
    frame = ReferenceFrame(load_course("circle_r5_ccw").datum, ARM_M)
    assert {truth.position_sigma_m for truth in journal.truths} == {0.0}, (
        "the simulator's own truth is in the log, and no other"
    )
    by_time = {truth.t_ns: truth for truth in journal.truths}
    seen = 0
    for state in journal.states[50:]:
        mine = frame.truth(state)
        true = by_time[min(by_time, key=lambda t_ns: abs(t_ns - state.t_ns))]
        late_s = (state.t_ns - true.t_ns) * 1e-9
        assert abs(late_s) < 0.006
        assert abs(mine.x_m - true.x_m) < 0.01 + 2.0 * abs(late_s)
        assert abs(mine.y_m - true.y_m) < 0.01 + 2.0 * abs(late_s)
        assert abs(mine.speed_mps - true.speed_mps) < 0.03
        seen += 1
    assert seen > 250
