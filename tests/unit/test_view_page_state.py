"""Data for the page, made from the records of the log."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.view_facts import STARTED_NS, estimate, opening, packed, tick
from vehicled.core.messages import (
    ActuatorCommand,
    Cause,
    Event,
    Fault,
    Mode,
    ModeChange,
    MotorStatus,
    OperatorAction,
    OperatorCommand,
    PortEvent,
    PortState,
    Reaction,
    StateEstimate,
)
from vehicled.live.view.page_state import MOST_TRAIL, PageState, ellipse

STALLS = (("simulator", 60.0), ("daemon", 400.0), ("simulator", 30.0))
SECOND = 10**9


def test_a_page_gets_the_newest_values_and_what_is_new() -> None:
    picture = PageState(opening())
    picture.records(packed((estimate(0.1 * k), STARTED_NS + k * SECOND // 10) for k in range(11)))
    picture_sent = json.loads(picture.tick(0.02))
    assert picture_sent["t"] == pytest.approx(1.0)
    assert picture_sent["now"]["estimate"]["x"] == pytest.approx(1.0)
    assert picture_sent["now"]["estimate"]["ellipse"] == [0.03, 0.01, 0.0]
    assert picture_sent["trail"] == [[1.0, 0.0]]
    assert picture_sent["silent_s"] == 0.02
    assert json.loads(picture.tick(0.1))["trail"] == []


def test_ages_are_those_of_gnss_imu_and_wheels_in_ms() -> None:
    picture = PageState(opening())
    command = ActuatorCommand(
        0,
        0,
        0.1,
        0.0,
        0.0,
        0.0,
        estimate_age_ns=SECOND,
        gnss_age_ns=120_040_000,
        imu_age_ns=4_000_000,
    )
    picture.records(packed([(command, STARTED_NS)]))
    assert json.loads(picture.tick(0.0))["now"]["actuator"]["ages"] == [120.0, 4.0, None]


def test_a_page_that_comes_later_gets_the_history() -> None:
    picture = PageState(opening())
    for k in range(5):
        picture.records(packed([(estimate(0.2 * k), STARTED_NS + k * SECOND)]))
        picture.tick(0.0)
    picture.records(
        packed(
            [
                (
                    Event(
                        STARTED_NS,
                        "warning",
                        "loop_blocked",
                        '{"where": "a.py:3", "after_ms": 5.5}',
                    ),
                    STARTED_NS,
                )
            ]
        )
    )
    hello = json.loads(picture.hello(teleop=False))
    assert [x for x, _ in hello["history"]["trail"]] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert [sample[0] for sample in hello["history"]["plot"]] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert hello["history"]["log"] == [
        [1, 0.0, "warning", "loop blocked: where a.py:3, after_ms 5.5", ""]
    ]
    assert hello["facts"]["course"]["name"] == "line"
    assert any(rule["code"] == "overspeed" for row in hello["matrix"] for rule in row["rules"])


def test_the_log_says_in_words_what_happened() -> None:
    picture = PageState(opening())
    t = STARTED_NS
    messages = [
        ModeChange(
            t,
            Mode.STANDBY,
            Mode.AUTO,
            Reaction.NONE,
            "drives_course",
            "",
            "drives_course",
            "driving the course",
        ),
        Fault(t, "imu_silent", "", Reaction.CONTROLLED_STOP, True, "no IMU sample"),
        Fault(t, "gnss_silent", "", Reaction.CAP_SPEED, False, "no GNSS fix"),
        PortEvent(t, "imu", PortState.LOST, "unplugged"),
        OperatorCommand(t, t, OperatorAction.EMERGENCY_STOP, "web page 1"),
        Event(t, "info", "odd", "no json"),
        Event(
            t,
            "info",
            "substitutes",
            json.dumps(
                {"stands_in": ["row 1, no brake: it coasts", "row 14, no telemetry: later"]}
            ),
        ),
        Event(t, "warning", "gone", json.dumps({"ports": ["imu", "gnss"]})),
        Event(t, "info", "long", json.dumps({"story": "words " * 100})),
        Event(t, "info", "named", json.dumps({"by": "\x1b[2Jroot\u202e"})),
    ]
    picture.records(packed((message, t + k) for k, message in enumerate(messages)))
    picture_sent = json.loads(picture.tick(0.0))["log"]
    assert [(level, text) for _, _, level, text, _ in picture_sent] == [
        ("mode", "STANDBY -> AUTO: driving the course"),
        ("error", "imu_silent: no IMU sample"),
        ("info", "gnss_silent ended: no GNSS fix"),
        ("warning", "port imu lost: unplugged"),
        ("info", "emergency stop requested by web page 1"),
        ("info", "odd: no json"),
        ("info", "2 substitutes, see the status"),
        ("warning", "gone: ports imu, gnss"),
        ("info", f"long: story {'words ' * 37}…"),
        ("info", "named: by \\u001b[2Jroot\\u202e"),
    ]


def test_the_stalls_of_a_busy_computer_are_one_line_that_counts() -> None:
    picture = PageState(opening())
    fields = [
        json.dumps({"process": process, "duration_ms": duration_ms})
        for process, duration_ms in STALLS
    ]
    stalls = [Event(STARTED_NS, "warning", "simulation_stall", each) for each in fields]
    picture.records(packed((stall, STARTED_NS + k) for k, stall in enumerate(stalls)))
    ((_, _, level, text, key),) = json.loads(picture.tick(0.0))["log"]
    assert (level, key) == ("warning", "simulation_stall")
    assert text.startswith(
        "this computer stalled 3 times, 0.5 s together, the longest time the daemon did not "
        "run for 400 ms"
    )
    other = Event(STARTED_NS, "info", "odd", "no json")
    picture.records(packed((message, STARTED_NS) for message in (other, stalls[0], stalls[1])))
    assert [line[3][:25] for line in json.loads(picture.tick(0.0))["log"]] == [
        "odd: no json",
        "this computer stalled 2 t",
    ]


def test_deadlines_are_those_of_the_last_ten_seconds() -> None:
    picture = PageState(opening())
    old = [(tick(STARTED_NS, 9.0, missed=True, cause=Cause.QUEUED, holder=1), STARTED_NS)]
    new = [
        (tick(t, 1.0 + 0.01 * k), t)
        for k in range(100)
        if (t := STARTED_NS + 20 * SECOND + k * SECOND // 100)
    ]
    picture.records(packed(old))
    assert json.loads(picture.tick(0.0))["tasks"][0]["max_ms"] == pytest.approx(9.0)
    picture.records(packed(new))
    for _ in range(4):
        picture.tick(0.0)
    row, idle = json.loads(picture.tick(0.0))["tasks"]
    assert row["max_ms"] == pytest.approx(1.99)
    assert row["p50_ms"] == pytest.approx(
        float(np.quantile([1.0 + 0.01 * k for k in range(100)], 0.5, method="higher")), abs=0.011
    )
    assert row["cause"] == "queued behind actuation"
    assert idle["max_ms"] is None


def test_unknown_values_are_reported_as_unknown() -> None:
    picture = PageState(opening())
    lost = StateEstimate(0, 0, *(math.nan,) * 5, (math.nan,) * 16)
    picture.records(packed([(lost, STARTED_NS), (MotorStatus(0, 0), STARTED_NS)]))
    now = json.loads(picture.tick(0.0))["now"]
    assert now["estimate"]["x"] is None
    assert now["estimate"]["ellipse"] is None
    assert now["motor"] == {"volts": None, "amperes": None, "fault": 0, "celsius": None}


@given(st.binary(max_size=300), st.integers(0, 400))
def test_garbage_and_torn_records_cost_themselves_only(garbage: bytes, cut: int) -> None:
    picture = PageState(opening())
    good = packed([(estimate(1.0), STARTED_NS)])
    picture.records(good[: min(cut, len(good) - 1)])
    picture.records(garbage)
    picture.snapshot(garbage)
    picture.records(good)
    assert json.loads(picture.tick(0.0))["now"]["estimate"]["x"] == 1.0


def test_the_way_is_bounded() -> None:
    picture = PageState(opening())
    for k in range(MOST_TRAIL + 100):
        picture.records(packed([(estimate(0.06 * k), STARTED_NS)]))
    assert len(json.loads(picture.hello())["history"]["trail"]) == MOST_TRAIL


@given(st.floats(1e-3, 3.0), st.floats(1e-3, 3.0), st.floats(-1.5, 1.5))
def test_the_ellipse_is_that_of_the_covariance(a: float, b: float, turn: float) -> None:
    a, b = max(a, b), min(a, b)
    c, s = math.cos(turn), math.sin(turn)
    rotation = np.array([[c, -s], [s, c]])
    covariance = rotation @ np.diag([a * a, b * b]) @ rotation.T
    found = ellipse(covariance[0, 0], covariance[0, 1], covariance[1, 1])
    assert found is not None
    values, vectors = np.linalg.eigh(covariance)
    assert found[:2] == pytest.approx((math.sqrt(values[1]), math.sqrt(values[0])), abs=2e-4)
    if a - b > 0.05:
        along = abs(vectors[0, 1] * math.cos(found[2]) + vectors[1, 1] * math.sin(found[2]))
        assert along == pytest.approx(1.0, abs=1e-3)
