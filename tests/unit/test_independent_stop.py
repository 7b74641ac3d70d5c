"""The stop that does not pass through the daemon: declared in the profile, said at arming, reckoned
by ``check``."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vehicled.cli import main
from vehicled.daemon.app import build, declared_stopwatch, wire
from vehicled.daemon.machine import Machine
from vehicled.offline.failsafe.document import plain
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, check, load_profile
from vehicled.profile.independent_stop import NOTICE, IndependentStop
from vehicled.safety.matrix import MATRIX

RADIO = [
    "safety.independent_stop.kind=radio_kill_switch",
    "safety.independent_stop.cuts=supply of the motor controller",
    "safety.independent_stop.reaction_s=0.5",
    "safety.independent_stop.range_m=80",
    "safety.independent_stop.deceleration_mps2=1.5",
    "safety.independent_stop.last_tested='2026-11-02'",
]


class _Discard:
    def record(self, message: object, log_time_ns: int) -> None:
        """Nobody listens."""


def machine(*overrides: str) -> Machine:
    profile = load_profile("art_vesc", overrides)
    wiring = wire(profile, "messages")
    return build(
        profile,
        load_course("circle_r5_ccw"),
        wiring,
        declared_stopwatch(wiring),
        _Discard(),
        virtual=True,
    )


def test_the_distance_is_that_of_the_reaction_and_of_the_braking() -> None:
    stop = IndependentStop(kind="relay", cuts="drive", reaction_s=0.5, deceleration_mps2=1.5)
    assert stop.stop_distance_m(load_profile("art").vehicle.drive, 3.0) == pytest.approx(
        0.5 * 3.0 + 9.0 / 3.0
    )


def test_without_a_brake_the_vehicle_coasts_by_its_friction() -> None:
    drive = load_profile("art").vehicle.drive
    stop = IndependentStop(kind="relay", cuts="drive", reaction_s=0.1)
    friction = -drive.acceleration_mps2(0.0, 1e-9)
    assert stop.stop_distance_m(drive, 2.0) == pytest.approx(0.2 + 4.0 / (2.0 * friction), rel=1e-6)
    assert math.isinf(
        stop.stop_distance_m(
            load_profile("art", ["vehicle.drive.friction_nm=0"]).vehicle.drive, 2.0
        )
    )


@pytest.mark.parametrize("key", ["cuts", "reaction_s", "range_m"])
def test_what_a_declared_stop_must_say(key: str) -> None:
    with pytest.raises(ProfileError, match=f"{key} is missing"):
        load_profile(
            "art",
            [override for override in RADIO if f".{key}=" not in override]
            + ([f"safety.independent_stop.{key}=0"] if key != "cuts" else []),
        )


def test_check_states_the_stopping_distance_at_top_speed() -> None:
    (note,) = [note for note in check(load_profile("art", RADIO)) if note.path.startswith("safety")]
    assert (
        note.message
        == "from 3 m/s the vehicle stops within 4.5 m (0.5 s to the cut, then 1.5 m/s2)"
    )


def test_a_stop_that_is_slow_or_untested_is_a_warning() -> None:
    overrides = [
        *RADIO,
        "safety.independent_stop.reaction_s=2",
        "safety.independent_stop.last_tested=''",
    ]
    found = {note.path: note for note in check(load_profile("art", overrides))}
    assert found["safety.independent_stop.reaction_s"].message.startswith("2 s is slow: 6.0 m pass")
    assert found["safety.independent_stop.last_tested"].level == "warning"


def test_arming_without_one_says_so_and_with_one_does_not() -> None:
    assert NOTICE in machine().pipeline.substitutes
    assert machine().pipeline.independent_stop == "none declared"
    declared = machine(*RADIO)
    assert NOTICE not in declared.pipeline.substitutes
    assert declared.pipeline.independent_stop == (
        "radio kill switch, cuts supply of the motor controller within 0.5 s, works to 80 m, "
        "last tested 2026-11-02"
    )


def test_a_profile_can_demand_one() -> None:
    demanding = machine("safety.independent_stop.required=true")
    assert any("demands an independent stop" in text for text in demanding.waiting_for(0))
    assert not any(
        "independent stop" in text
        for text in machine(*RADIO, "safety.independent_stop.required=true").waiting_for(0)
    )


def test_the_rows_that_a_disobedient_drive_defeats_are_marked() -> None:
    assert {row.number for row in MATRIX if row.unobeyed} == {1, 4, 15, 17, 19}
    document = (Path(__file__).parents[2] / "docs" / "failsafe.md").read_text()
    assert "## Faults that only an independent stop covers" in document
    assert document.count("| independent stop |") == 5


def test_check_states_the_age_of_the_last_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "profiles" / "art.toml").read_text()
    head, _, tail = text.partition("[safety.independent_stop]")
    table = (
        'kind = "relay"\ncuts = "drive"\nreaction_s = 0.2\ndeceleration_mps2 = 2.0\nlast_tested = '
    )
    rest = tail[tail.index("\n\n") :]
    for day, part in (
        (datetime.now(UTC).date() - timedelta(days=500), "500 days ago"),
        (datetime.now(UTC).date() + timedelta(days=5), "is in the future"),
    ):
        file = tmp_path / "mine.toml"
        file.write_text(f'{head}[safety.independent_stop]\n{table}"{day.isoformat()}"\n{rest}')
        main(["check", str(file)])
        assert part in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120, 300])
def test_the_list_of_rows_fits_the_terminal(width: int) -> None:
    text = plain(width)
    assert max(map(len, text.splitlines())) <= min(width, 120)
    assert all(f"{row.number:>2}  {row.fault}" in text for row in MATRIX)
    assert "None" not in text
