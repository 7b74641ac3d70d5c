"""Facts of events: those that a program reads come back as they were, and any other text is none of
them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core import events
from vehicled.core.events import EventFacts
from vehicled.core.messages import Event

KINDS = sorted(EventFacts.__subclasses__(), key=lambda kind: kind.__name__)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
FIELDS = {
    str: st.text(max_size=20),
    float: NUMBERS,
    float | None: st.none() | NUMBERS,
    int | None: st.none() | st.integers(0, 2**62),
}


@st.composite
def facts(draw: st.DrawFn) -> EventFacts:
    """Facts of any kind."""
    kind = draw(st.sampled_from(KINDS))
    types = {
        name: each for name, each in kind.__annotations__.items() if name in kind.__struct_fields__
    }
    return kind(**{name: draw(FIELDS[each]) for name, each in types.items()})


@given(facts())
def test_facts_come_back_from_each_of_their_events(given_facts: EventFacts) -> None:
    for name in given_facts.names:
        event = given_facts.event(7, name)
        assert (event.t_ns, event.name, event.level) == (7, name, given_facts.level)
        found = [kind.read(event) for kind in KINDS]
        assert [each for each in found if each is not None] == [given_facts]


@given(
    st.sampled_from(KINDS),
    st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps),
)
def test_text_of_strangers_is_no_fact(kind: type[EventFacts], text: str) -> None:
    found = kind.read(Event(0, "info", kind.names[0], text))
    assert found is None or isinstance(found, kind)


def test_names_are_of_one_kind_each() -> None:
    names = [name for kind in KINDS for name in kind.names]
    assert len(set(names)) == len(names) == len([name for name in names if name])
    assert {events.WAIT_ENDED, events.INJECTED} <= set(names)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float64(1.5), 1.5),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (float("nan"), None),
        (np.float64("nan"), None),
        (1j, "1j"),
    ],
)
def test_an_event_for_people_takes_whatever_a_program_counts(value: Any, shown: Any) -> None:
    event = Event.of(5, "info", "anything", name="a fact of this name", value=value)
    assert json.loads(event.fields) == {"name": "a fact of this name", "value": shown}
