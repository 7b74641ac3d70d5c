"""Records of older logs: what they say is what a log says today, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.messages import Fault, Mode, ModeChange, Reaction
from vehicled.log.older import as_before, renewed

modes = st.sampled_from(Mode)


@given(modes, modes, st.sampled_from(Reaction), st.text())
def test_a_change_of_mode_survives_the_old_form(
    before: Mode, after: Mode, reaction: Reaction, reason: str
) -> None:
    change = ModeChange(7, before, after, reaction, "", "", "", reason)
    back = renewed(as_before(change))
    assert isinstance(back, ModeChange)
    assert (back.t_ns, back.before, back.after, back.reaction, back.reason) == (
        7,
        before,
        after,
        reaction,
        reason,
    )
    assert as_before(back) == as_before(change)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(1, "imu_silent", "", Reaction.BRAKE, True, "AUTO -> STOPPING: no"),
        Fault(
            1,
            "mode",
            "imu",
            Reaction.BRAKE,
            True,
            "AUTO -> STOPPING: a device with a code of this name",
        ),
        Fault(1, "mode", "supervisor", Reaction.BRAKE, True, "AUTO -> NOWHERE: no"),
        Fault(1, "mode", "supervisor", Reaction.BRAKE, True, ""),
    ],
)
def test_every_other_fault_stays_what_it_is(fault: Fault) -> None:
    assert renewed(fault) is fault
