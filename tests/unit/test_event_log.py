"""Events for people go through structlog: as configured by the program around us, or as text or
JSON of our own."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from tests.busy_computer import DEADLINE_S
from vehicled.core.messages import Event, Fault, PortEvent, PortState, Reaction
from vehicled.runtime.events import EventLog

LOST = PortEvent(0, "gnss", PortState.LOST, "the device is gone")
S = 1_000_000_000


@pytest.fixture
def configured() -> Iterator[list[Any]]:
    """Lines of a program that has configured structlog."""
    capture = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture.entries
    structlog.reset_defaults()


def test_the_configuration_of_the_program_around_us_is_honoured(configured: list[Any]) -> None:
    with structlog.contextvars.bound_contextvars(vehicle="art 7"):
        EventLog().record(LOST, 0)
    (line,) = configured
    assert line == {
        "event": "port gnss lost",
        "detail": "the device is gone",
        "log_level": "warning",
        "vehicle": "art 7",
    }


def test_a_stream_of_its_own_is_not_redirected(configured: list[Any]) -> None:
    stream = io.StringIO()
    EventLog(stream, json=False).record(LOST, 0)
    assert configured == []


def lines(folder: Path, *messages: Any, every: bool) -> list[dict[str, Any]]:
    """Return the lines about some messages."""
    with (folder / "lines").open("w+") as stream:
        log = EventLog(stream, json=True, every=every)
        for message in messages:
            log.record(message, 0)
        stream.seek(0)
        return [json.loads(line) for line in stream]


def test_every_event_is_a_line_at_its_level_but_none_floods_the_journal(tmp_path: Path) -> None:
    ready = Event(0, "info", "vesc_ready", '{"firmware": "6.05", "event": "x"}')
    floods = [Event(k * S // 4, "warning", "port_floods", '{"port": "imu"}') for k in range(9)]
    torn = Event(0, "notice", "odd", "{torn")
    found = lines(tmp_path, ready, *floods, torn, every=True)
    assert [(line["event"], line["level"]) for line in found] == [
        ("vesc_ready", "info"), *3 * [("port_floods", "warning")], ("odd", "info"),
    ]  # fmt: skip
    assert (found[0]["firmware"], found[0]["event_"]) == ("6.05", "x")
    assert found[-1]["fields"] == "{torn"
    assert lines(tmp_path, ready, *floods, torn, every=False) == []


def test_faults_and_ports_are_json_lines(tmp_path: Path) -> None:
    fault = Fault(0, "gnss_silent", "safety", Reaction.BRAKE, True, "the GNSS is silent")
    found = lines(tmp_path, fault, LOST, every=False)
    assert [(line["event"], line["level"]) for line in found] == [
        ("the GNSS is silent", "warning"), ("port gnss lost", "warning"),
    ]  # fmt: skip


def test_own_code_in_a_daemon_writes_as_the_daemon_does() -> None:
    code = (
        "from vehicled.runtime.events import configure; configure(); import structlog; "
        "structlog.get_logger().info('hi', n=1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    line = json.loads(done.stderr)
    assert (line["event"], line["n"], line["level"]) == ("hi", 1, "info")
    assert "timestamp" in line
