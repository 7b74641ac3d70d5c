"""The table of modes and the answers to requests, written a second time: a changed transition or
refusal is seen."""

import pytest

from vehicled.core.messages import Mode, OperatorAction
from vehicled.safety.modes import DRIVING, MOVING, Trigger, after, refusal

INIT, STANDBY, ARMED, AUTO, TELEOP = Mode.INIT, Mode.STANDBY, Mode.ARMED, Mode.AUTO, Mode.TELEOP
STOPPING, FAULT, ALIGN, OFFBOARD = Mode.STOPPING, Mode.FAULT, Mode.ALIGN, Mode.OFFBOARD
TABLE = {
    Trigger.STANDS: {INIT: STANDBY, STOPPING: STANDBY},
    Trigger.ARM: {STANDBY: ARMED},
    Trigger.DRIVE: {ARMED: AUTO},
    Trigger.ALIGN: {ARMED: ALIGN},
    Trigger.TELEOP: dict.fromkeys((ARMED, AUTO, ALIGN, OFFBOARD), TELEOP),
    Trigger.OFFBOARD: dict.fromkeys((ARMED, AUTO), OFFBOARD),
    Trigger.DISARM: {ARMED: STANDBY, **dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD), STOPPING)},
    Trigger.STOP: dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD), STOPPING),
    Trigger.REACTION: {ARMED: STANDBY, **dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD), STOPPING)},
    Trigger.RC: dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD, STOPPING), TELEOP),
    Trigger.DISABLE: dict.fromkeys(
        (INIT, STANDBY, ARMED, AUTO, TELEOP, STOPPING, ALIGN, OFFBOARD), FAULT
    ),
    Trigger.RESET: {FAULT: STANDBY},
}
DRIVES = "drives already"
MANUAL = "driven by hand"
LEARNS = "learns its heading"
PROGRAM = "setpoints of a program"
STOPS, UNARMED = "being stopped", "not armed"
REFUSALS = {
    OperatorAction.ARM: {STOPPING: STOPS, **dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD), DRIVES)},
    OperatorAction.ALIGN: {STOPPING: STOPS,
        **dict.fromkeys((AUTO, TELEOP, ALIGN, OFFBOARD), DRIVES)},
    OperatorAction.DRIVE: {
        STOPPING: STOPS, TELEOP: MANUAL, ALIGN: LEARNS, OFFBOARD: PROGRAM, INIT: UNARMED,
        STANDBY: UNARMED, FAULT: UNARMED,
    },
    OperatorAction.OFFBOARD: {STOPPING: STOPS, TELEOP: MANUAL, ALIGN: LEARNS, INIT: UNARMED,
        STANDBY: UNARMED, FAULT: UNARMED},
    OperatorAction.TELEOP: {STOPPING: STOPS, INIT: UNARMED, STANDBY: UNARMED, FAULT: UNARMED},
}  # fmt: skip


def test_the_modes_in_which_the_vehicle_moves() -> None:
    assert {AUTO, TELEOP, ALIGN, OFFBOARD} == DRIVING
    assert {AUTO, TELEOP, ALIGN, OFFBOARD, STOPPING} == MOVING


@pytest.mark.parametrize("trigger", Trigger, ids=lambda trigger: trigger.name)
def test_every_transition_and_no_other(trigger: Trigger) -> None:
    assert {
        mode: after(mode, trigger) for mode in Mode if after(mode, trigger) is not None
    } == TABLE[trigger]


@pytest.mark.parametrize("action", OperatorAction, ids=lambda action: action.name)
def test_every_refusal_and_no_other(action: OperatorAction) -> None:
    for mode in Mode:
        said = refusal(action, mode, "why", arms=False)
        expected = REFUSALS.get(action, {}).get(mode, "")
        assert expected in said if expected else not said, (mode, said)
        # A pending arming request makes it wait.
        waits = refusal(action, mode, "why", arms=True)
        assert waits == ("" if expected == UNARMED else said), mode


@pytest.mark.parametrize("action", OperatorAction, ids=lambda action: action.name)
def test_in_fault_arming_and_reset_are_refused_while_the_cause_lasts(
    action: OperatorAction,
) -> None:
    for mode in Mode:
        said = refusal(action, mode, "why", arms=False, lasts="overheated")
        lasts = mode is FAULT and action in (OperatorAction.ARM, OperatorAction.RESET)
        assert ("overheated" in said) is lasts
