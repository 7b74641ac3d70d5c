"""Texts that others chose are shown as they are, and obeyed by nobody: terminal, page, report,
log."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_machine import START, Rig
from vehicled.core.messages import (
    ALL,
    Event,
    Fault,
    Message,
    PortEvent,
    PortState,
    Reaction,
    TeleopCommand,
)
from vehicled.core.plain_text import escape, printable, printable_lines
from vehicled.core.simulation_events import REPORT_PERIOD_S
from vehicled.daemon.machine import _TEXTS, _shown
from vehicled.live.control_socket.client import _decoded
from vehicled.run.terminal import print_table
from vehicled.runtime.events import EventLog

HOSTILE = "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>[red][/x]\u202ereversed\x9b"


@given(st.text())
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) is text.isprintable()
    assert len(printable(text, 20).encode("ascii", "replace")) <= 20 * 12
    assert all(
        line.isprintable()
        for part in printable_lines(text).split("\n")
        for line in part.split("\t")
    )
    assert "<" not in escape(text)


@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_keeps_its_values(value: object) -> None:
    shown = printable(json.dumps(value, ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == value


def test_every_text_of_a_device_is_made_printable_before_anybody_sees_it() -> None:
    fault = _shown(Fault(1, HOSTILE, HOSTILE, Reaction.WARN, True, HOSTILE, unit=HOSTILE))
    assert isinstance(fault, Fault)
    assert all(text.isprintable() for text in (fault.code, fault.origin, fault.reason, fault.unit))
    plain = TeleopCommand(1, 1, 0.0, 0.0, 0.0, True, "pad", 1)
    assert _shown(plain) is plain
    assert set(_TEXTS) < set(ALL)


def test_a_name_from_the_wire_is_printable_in_the_log() -> None:
    rig = Rig()
    rig.machine._dispatch(
        "operator", [Fault(START, "odd", "", Reaction.WARN, True, HOSTILE)], START
    )
    (fault,) = [
        message
        for message in rig.log.of(Fault)
        if isinstance(message, Fault) and message.code == "odd"
    ]
    assert fault.reason == printable(HOSTILE)


def test_a_table_shows_names_in_brackets_and_obeys_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("a \x1b[2Jtitle", ["", ""], [["row", HOSTILE], ["two\nlines", "[/closed]"]])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red][/x]" in out
    assert "[/closed]" in out
    assert "<script>" in out


def test_an_answer_of_the_daemon_is_printable_in_all_its_parts() -> None:
    line = json.dumps(
        {
            "ok": True,
            "status": {"why": HOSTILE, "chain": [{"reason": HOSTILE, "ago_s": 1.0}], "n": 3},
        }
    ).encode()
    reply = _decoded(line)
    assert reply["status"]["why"] == reply["status"]["chain"][0]["reason"] == printable(HOSTILE)
    assert reply["status"]["n"] == 3


class Terminal(io.StringIO):
    """A stream that can always be written."""

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ is not None else 1


def said(*messages: Message) -> list[str]:
    stream = Terminal()
    log = EventLog(stream, json=False)
    log._made = SimpleNamespace(
        warning=lambda text, **facts: stream.write(f"{text} {facts}\n"),
        info=lambda text, **facts: stream.write(f"{text} {facts}\n"),
    )
    for message in messages:
        log.record(message, 0)
    return stream.getvalue().splitlines()


def stall(t_s: float, process: str, duration_ms: float) -> Event:
    fields = json.dumps({"process": process, "duration_ms": duration_ms})
    return Event(round(t_s * 1e9), "warning", "simulation_stall", fields)


def test_the_lines_of_the_daemon_are_printable() -> None:
    (line,) = said(PortEvent(1, "gnss", PortState.LOST, HOSTILE))
    assert line.isprintable()


def test_stalls_of_some_seconds_are_one_line_for_each_process() -> None:
    many = [stall(1.0 + 0.1 * k, "simulator", 150.0) for k in range(50)]
    lines = said(
        *many,
        stall(6.0, "daemon", 300.0),
        stall(7.0, "daemon", 50.0),
        stall(2.0 + REPORT_PERIOD_S, "simulator", 400.0),
    )
    assert [line.partition(";")[0].partition(": ")[0] for line in lines] == [
        "this computer stalled", "this computer stalled",
        (
            "this computer stalled 50 times, 7.8 s together, the longest time the simulator did "
            "not run for 400 ms"
        ),
    ]  # fmt: skip
