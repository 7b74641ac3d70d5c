"""Recorded runs that the machine must still drive alike: bit for bit where numbers are computed
alike, within 1e-9 elsewhere.

A change that is meant to act otherwise renews them: ``python -m tests.golden.renew_replay``.
"""

from pathlib import Path

import pytest

from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal
from vehicled.offline.replay.setup import same_numbers

FOLDER = Path(__file__).resolve().parent / "replay"
TOLERANCE = 1e-9
HINT = "where the machine is meant to act otherwise now: python -m tests.golden.renew_replay"


@pytest.mark.parametrize("name", ["messages", "wires", "wall"])
def test_recorded_runs_are_driven_alike(name: str) -> None:
    with Journal(str(FOLDER / f"{name}.mcap")) as journal:
        exact = same_numbers(journal.header)
        result = Replay(journal).run()
    said = f"{result.first.to_text() if result.first else result.incomplete}\n{HINT}"
    assert result.incomplete == "", said
    assert result.frames > 80
    assert result.ticks > 500
    if exact:
        assert result.verdict == "identical", said
        assert result.digest == result.digest_in_log
    elif result.numbers is not None:
        found = result.numbers
        assert found.other_mode == 0, said
        for spread in (found.wheel_angle_rad, found.throttle, found.brake, found.steering):
            assert not spread.n or spread.max <= TOLERANCE, said


def test_golden_logs_are_small_and_say_nothing_of_where_they_were_made() -> None:
    for path in FOLDER.glob("*.mcap"):
        assert path.stat().st_size < 600_000
        with Journal(str(path)) as journal:
            header = journal.header
        assert header.host == "golden"
        assert not any("/" in word for word in header.argv)
