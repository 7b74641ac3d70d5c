"""Every row of ``docs/failsafe_tests.md``, injected into a drive on wires and measured."""

from collections.abc import Callable, Hashable
from math import isfinite

import pytest

from sim_backend.emulators.failures import KINDS, parse_failure
from tests.closed_loop.conftest import ROOT, Daemon
from tests.closed_loop.failure_bench import COURSE, inject
from tests.closed_loop.failure_table import PULLED, RECOVERS, ROWS, VEHICLE, Row, markdown
from tests.grid import covering
from vehicled.core.messages import Fault
from vehicled.log.reader import LogReader

pytestmark = pytest.mark.xdist_group("failures")  # the way to the failures is driven once

GENERIC = ("off", "stuck", "garbage", "wrong", "slow", "delayed", "intermittent")


def features(row: Row) -> set[Hashable]:
    """Return the kind of failure and the device of a row; rules and events have rows in the
    failsafe matrix, too."""
    failure = parse_failure(row.failure)
    return {failure.kind, (row.profile, failure.port)}


@pytest.mark.parametrize("row", covering(ROWS, features), ids=[row.key for row in ROWS])
def test_a_failure_does_what_the_table_says(row: Row) -> None:
    found = inject(row.profile, row.failure, watch_s=row.watch_s, stop_s=row.stop_s)
    assert found.named == set(row.named)
    assert found.counted == set(row.counted)
    assert found.vehicle == row.vehicle
    assert found.recovers == row.recovers
    assert isfinite(found.after_s) is isfinite(row.within_s)
    assert not isfinite(row.within_s) or found.after_s <= row.within_s
    assert found.off_course_m <= row.off_course_m
    assert row.off_course_m <= 0.1 or found.off_course_m >= row.off_course_m / 2
    if row.stands_s is not None:
        assert row.stands_s[0] <= found.stands_after_s <= row.stands_s[1]


def test_the_document_holds_exactly_these_rows() -> None:
    text = (ROOT / "docs" / "failsafe_tests.md").read_text()
    table = [
        line for line in text.splitlines() if line.startswith("|") and "`" in line and "@" in line
    ]
    assert table == markdown().splitlines()[2:] + markdown(PULLED).splitlines()[2:]


def test_every_device_has_the_seven_kinds_of_px4_in_the_table() -> None:
    listed = {
        (row.profile, parse_failure(row.failure).port, parse_failure(row.failure).kind)
        for row in ROWS
    }
    devices = [
        ("art_published", "gnss"),
        ("art_published", "heading"),
        ("art_published", "imu"),
        ("art_published", "drive"),
        ("art_vesc", "drive"),
    ]
    assert {(*device, kind) for device in devices for kind in GENERIC} <= listed
    assert set(GENERIC) <= set(KINDS)
    assert all(row.vehicle in VEHICLE and row.recovers in RECOVERS for row in ROWS)
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_what_nothing_names_has_a_row_of_the_matrix() -> None:
    assert [row.key for row in ROWS if not row.named and row.bound is None] == []


def test_the_bench_is_the_command_line_byte_for_byte(start: Callable[..., Daemon]) -> None:
    bench = inject("art", "imu:stuck@3+2")
    daemon = start(
        "--course", COURSE, "--link", "wires", "--seed", "0", "--quiet", "--fail", "imu:stuck@3+2"
    )
    status, result, said = daemon.end()
    assert status == 1, said
    assert "unchanged" in result["why"]
    assert result["digest"] == bench.digest_until_stop
    with LogReader(daemon.log()) as log:
        faults = [record.message for record in log.messages(Fault)]
    assert "imu_stuck" in {fault.code for fault in faults}
    # By text, because NaN is not equal to itself.
    assert list(map(repr, faults)) == list(map(repr, bench.faults[: len(faults)]))
