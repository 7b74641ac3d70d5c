"""One table of failures: the parser, the emulators and docs/devices.md agree, and a run says when
one begins and ends."""

import sys
from pathlib import Path

import pytest

from sim_backend.emulators import (
    autopilot,
    can_bus,
    caster,
    encoder,
    lidar,
    mocap,
    point_lidar,
    pps,
    rc,
    ublox,
    vesc,
)
from sim_backend.emulators.failures import (
    DEVICE_KINDS,
    KINDS,
    FailureError,
    markdown,
    parse_failure,
    value_of,
)
from vehicled.core.events import INJECTED, OVER
from vehicled.offline.replay.compare import RUNTIME_EVENTS
from vehicled.run.injected import InjectedFailures, announce

DOCUMENT = Path(__file__).parents[2] / "docs" / "devices.md"


def test_the_document_holds_the_table() -> None:
    assert markdown() in DOCUMENT.read_text(encoding="utf-8")


def test_every_kind_that_a_device_adds_is_in_the_table() -> None:
    own = {
        *autopilot.AutopilotUnit.kinds,
        *ublox.UbloxReceiver.kinds,
        *vesc.VescUnit.kinds,
        can_bus.BUS_OFF,
        *caster.KINDS,
        *encoder.KINDS,
        *lidar.KINDS,
        *mocap.KINDS,
        *point_lidar.KINDS,
        *pps.KINDS,
        *rc.KINDS,
    }
    assert own == set(DEVICE_KINDS)
    assert not own & set(KINDS)


def test_an_unknown_kind_is_answered_with_every_known_one() -> None:
    with pytest.raises(FailureError) as caught:
        value_of(parse_failure("gnss:sulking@1"), ["GnssFix"], object())
    assert all(kind in str(caught.value) for kind in KINDS)


def test_beginnings_and_ends_come_once_in_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    injected = InjectedFailures(["gnss:jamming@20+5", "imu:off@21"])
    assert list(injected.due(19_999_999_999, 7)) == []
    assert [event.name for event in injected.due(21_000_000_000, 8)] == [INJECTED, INJECTED]
    (over,) = injected.due(10**15, 9)
    assert over.name == OVER
    announce(sys.stderr, over)
    assert capsys.readouterr().err == "t = 25.0 s: failure gnss:jamming@20+5 ends\n"
    assert list(injected.due(10**16, 10)) == []


def test_a_replay_does_not_expect_them_of_the_machine() -> None:
    assert {INJECTED, OVER} <= RUNTIME_EVENTS
