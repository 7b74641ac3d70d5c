"""Account of what arrived: counted by reason, said once, bounded, shown; and episodes of states and
faults that come and go."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.ublox.codec import encode
from drivers.ublox.nmea import Gga
from vehicled.cli import main
from vehicled.cli.control import _show
from vehicled.core.messages import Event, Fault, Reaction
from vehicled.core.wire.datagram import pack
from vehicled.core.wire.episodes import QUIET_NS, FaultEpisode, StateEpisodes
from vehicled.core.wire.usage import (
    MAX_EVENTS,
    MAX_NAMES,
    Loss,
    MessageUsage,
    Unused,
    decode_rows,
    encode_rows,
    rows,
    usage_lines,
    warning_of,
)
from vehicled.offline.recordings.listening import transport_of, usage_of
from vehicled.profile.registry import DECODERS, LISTENERS
from vehicled.runtime.events import EventLog

S = 1_000_000_000


def account() -> MessageUsage:
    usage = MessageUsage()
    for _ in range(3):
        usage.use("GGA")
        usage.refuse("GSV", Unused.NOT_READ)
    usage.refuse("GGA", Unused.OUT_OF_RANGE, "latitude", "9999.9")
    usage.lose("GGA", Unused.UNREADABLE, "station", "4095x")
    return usage


def test_counts_and_words() -> None:
    usage = account()
    gga = usage.of("GGA")
    assert (gga.arrived, gga.used) == (4, 3)
    assert gga.text() == (
        "1 not used (latitude: it is outside its possible range); station of 1 not used (it "
        "cannot be read)"
    )
    assert usage.of("GSV").text() == "3 not used (the driver does not read it)"
    assert usage.of("RMC").arrived == 0
    usage.use("HDT")
    usage.remark("HDT", "its error is taken to be 1 degree")
    assert usage.of("HDT").text() == "its error is taken to be 1 degree"
    assert [row.text() for row in decode_rows(encode_rows(rows("gnss", usage)))][-1] == usage.of(
        "HDT"
    ).text()
    usage = account()
    for _ in range(3):
        usage.refuse("GLL", Unused.NOT_READ)
    assert usage_lines(rows("gnss", usage)) == [
        f"gnss: GGA: {gga.text()}; GSV, GLL: each {usage.of('GSV').text()}"
    ]


def test_every_reason_has_words() -> None:
    assert all(Loss(reason).text() for reason in Unused)


def test_each_defect_is_said_once() -> None:
    usage = account()
    events = [event for event in usage.take_events(5, "ublox") if isinstance(event, Event)]
    assert [json.loads(event.fields)["field"] for event in events] == ["latitude", "station"], (
        "GSV is not read, which is no defect"
    )
    usage.refuse("GSV", Unused.NOT_READ)
    assert usage.take_events(6, "ublox") == []
    usage.refuse("GSV", Unused.NO_CHECKSUM, reported=True)
    assert usage.take_events(7, "ublox") == [], "the driver has an event of its own"
    assert warning_of(events[0]) == (
        "ublox: GGA is not used as it should be: latitude: it is outside its possible range "
        "(9999.9)"
    )
    assert warning_of(Event(5, "warning", "imu_rate", "{}")) == ""


def test_warnings_reach_the_terminal(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        log = EventLog(stream, json=True)
        for event in account().take_events(5, "ublox"):
            log.record(event, 5)
    text = (tmp_path / "log").read_text()
    assert "latitude" in text
    assert "GSV" not in text


@given(st.lists(st.text(max_size=8), min_size=MAX_NAMES, max_size=3 * MAX_NAMES, unique=True))
def test_damaged_names_do_not_grow_the_account(names: list[str]) -> None:
    usage = MessageUsage()
    for name in names:
        usage.refuse(name, Unused.UNREADABLE, value="x" * 1000)
    assert len(list(usage)) <= MAX_NAMES + 1
    assert sum(use.arrived for _, use in usage) == len(names)
    assert len(usage.take_events(1, "x")) <= MAX_EVENTS


def test_rows_survive_the_log() -> None:
    found = rows("gnss", account())
    assert decode_rows(encode_rows(found)) == found
    assert decode_rows("") == []
    assert (
        decode_rows(
            '[{"port": "gnss", "message": "x", "arrived": 1, "used": 0, "unused": '
            '[["reason_of_2030", "", 1]]}]'
        )
        == []
    )


# ---------------------------------------------------------------- episodes


def test_a_change_is_reported_at_once_and_one_return_too() -> None:
    state = StateEpisodes("none")
    found = [
        state.update(each, k * S)
        for k, each in enumerate(["none", "float", "fixed", "fixed", "float", "fixed"])
    ]
    assert [(change.before, change.now) for change in found if change] == [
        ("none", "float"), ("float", "fixed"), ("fixed", "float"), ("float", "fixed"),
    ]  # fmt: skip


def test_a_state_that_comes_and_goes_is_reported_at_both_ends() -> None:
    state = StateEpisodes("a")
    found = [state.update("ab"[k % 2] if k < 900 else "b", k * S // 10) for k in range(1000)]
    changes = [change for change in found if change]
    assert [change.unsteady for change in changes] == [False, False, False, True, False]
    assert (changes[-1].now, state.state) == ("b", "b")
    assert sum(change.changes for change in changes) >= 890


def test_a_device_that_starts_and_soon_fails_once_is_steady() -> None:
    state = StateEpisodes("none")
    found = [
        state.update(each, k * S)
        for k, each in enumerate(["none", "fixed", "none", "fixed", "fixed"])
    ]
    assert [(change.now, change.unsteady) for change in found if change] == [
        ("fixed", False),
        ("none", False),
        ("fixed", False),
    ]


def test_a_fault_that_comes_and_goes_ends_when_it_has_been_absent() -> None:
    fault, out = FaultEpisode("x", "y"), []
    for k in range(200):
        out += [
            (k, message) for message in fault.set("bad" if k < 100 and k % 2 else "", k * S // 10)
        ]
    faults = [(k, message.active) for k, message in out if isinstance(message, Fault)]
    assert faults == [(1, True), (2, False), (3, True), (99 + 10 * QUIET_NS // S, False)]


def test_a_stronger_reaction_does_not_wait_and_a_weaker_one_does() -> None:
    fault = FaultEpisode("x", "y")
    steps = [
        (0, Reaction.WARN),
        (1, Reaction.BRAKE),
        (2, Reaction.WARN),
        (3, Reaction.BRAKE),
        (9, Reaction.WARN),
    ]
    got = [
        [message.reaction for message in fault.set(f"{reaction.name}", at * S, reaction)]  # type: ignore[attr-defined]
        for at, reaction in steps
    ]
    assert got == [[Reaction.WARN], [Reaction.BRAKE], [], [], [Reaction.WARN]]


# ---------------------------------------------------------------- where it is shown


def gga(time_ms: int = 1000) -> bytes:
    return encode(Gga("GN", time_ms, 45.0, 7.0, 4, 12, 0.8, 200.0, 47.0, 1.0, 41))


def test_a_recording_is_judged_by_its_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.nmea"
    bad = gga(time_ms=2000).replace(b",N,", b",n,")
    bad = bad[:-5] + b"*%02X\r\n" % (int(bad[-4:-2], 16) ^ ord("N") ^ ord("n"))
    file.write_bytes(gga() + bad + gga(time_ms=3000)[:-5] + b"\r\n" + b"$GPGSV,1,1,00*79\r\n")
    assert main(["devices", "decode", str(file), "--type", "nmea"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "GNGGA 3 1 1 not used (hemisphere of latitude: it cannot be read); 1 not used (it has "
        "no checksum"
    ) in shown
    assert "GPGSV 1 0 1 not used (the driver does not read it)" in shown


def test_every_recording_format_has_its_driver() -> None:
    assert LISTENERS.keys() == DECODERS.keys()
    assert usage_of("a plugin's", b"") is None
    for kind, (driver, _) in LISTENERS.items():
        datagrams = transport_of(driver) == "datagrams"
        assert usage_of(kind, pack(b"\xff" * 300)) is not None
        assert (usage_of(kind, b"\xff" * 300) is None) is datagrams, "no port received it"


def test_a_recording_of_sentences_among_ubx_is_read_as_sentences() -> None:
    usage = usage_of("ublox", gga() + gga(time_ms=2000))
    assert usage is not None
    assert usage.of("GNGGA").used == 2


def test_the_status_names_what_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    import msgspec

    state = {
        "mode": "STANDBY", "why": "", "reaction": "NONE", "speed_cap_mps": None, "course": "x",
        "progress_m": None, "course_m": 1.0, "controller": "c", "cross_track_m": None,
        "estimate": None, "target_speed_mps": None, "ports": [], "deadlines": [],
        "clipped": {"commands": 0, "by_kind": {}}, "log": "", "waiting_for": [], "profile": "art",
        "version": "1", "up_s": 1.0, "messages": msgspec.to_builtins(rows("gnss", account())),
    }  # fmt: skip
    _show(state, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "gnss 3 of 7 used" in shown
    assert "GSV: 3 not used (the driver does not read it)" in shown
