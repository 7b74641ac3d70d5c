"""Reasons: every code has a text, and a chain of reasons begins with the first."""

from string import Formatter

import pytest

from vehicled.safety.matrix import RULES
from vehicled.safety.reason import REFUSED, TEXTS, WITHDRAWN, Reason, ReasonCode, TrippedValue


@pytest.mark.parametrize("code", ReasonCode)
def test_every_code_renders_its_arguments(code: ReasonCode) -> None:
    text = Reason(code, "pad", ("one", "two")).text()
    names = {name for _, name, _, _ in Formatter().parse(TEXTS[code]) if name}
    assert ("pad" in text) is ("by" in names)
    assert ("one" in text and "two" in text) is bool(names & {"details", "appended"})


def test_no_code_is_also_that_of_a_rule() -> None:
    assert not {rule.code for rule in RULES} & set(ReasonCode)
    assert not REFUSED & WITHDRAWN


def test_an_earlier_reason_comes_first() -> None:
    stop = (
        Reason(ReasonCode.COURSE_FINISHED)
        .then(Reason(ReasonCode.STOP_REQUESTED, "pad"))
        .then(Reason("imu_silent", "", ("late",)))
    )
    assert stop.text() == "the course is finished; then stopped by pad; then late"
    assert stop.text("programme").startswith("the programme is finished; ")
    assert [part.code for part in stop.parts()] == [
        "imu_silent",
        ReasonCode.STOP_REQUESTED,
        ReasonCode.COURSE_FINISHED,
    ]


def test_a_fault_of_a_device_names_it_and_an_unknown_code_is_shown_as_it_is() -> None:
    assert Reason("vesc_overheat", "drive", ("too hot",)).text() == "drive: too hot"
    assert Reason("of_a_later_version", details=("as it is",)).text() == "as it is"


def test_a_comparison_names_its_unit_if_it_has_one() -> None:
    assert str(TrippedValue(1.23456, 1.0, "m", ">")) == "1.235 > 1 m"
    assert str(TrippedValue(3.0, 3.0, "", ">=")) == "3 >= 3"
