"""Readings of the host."""

import threading
import time
from math import isnan
from pathlib import Path

import pytest

from vehicled.runtime import health
from vehicled.runtime.health import HealthSampler, LogHealth

pytestmark = pytest.mark.anyio


async def test_a_reading_is_of_this_world(tmp_path: Path) -> None:
    reading = await HealthSampler(
        tmp_path, lambda: LogHealth(0.25, 3, "disk full", "x was deleted")
    ).read()
    assert 0.0 <= reading.disk_free_share <= 1.0
    assert 0.0 < reading.memory_free_share <= 1.0
    assert (reading.log_backlog_share, reading.log_dropped, reading.log_failure) == (
        0.25,
        3,
        "disk full",
    )
    assert reading.log_lost == "x was deleted"
    assert (reading.clock_step_s, reading.suspended_s) == (0.0, 0.0)
    assert abs(reading.t_ns - time.monotonic_ns()) < 60 * 10**9


async def test_a_folder_that_is_not_there_yet_lies_on_the_disk_of_its_parent(
    tmp_path: Path,
) -> None:
    assert (await HealthSampler(tmp_path / "not" / "yet").read()).disk_free_share > 0.0


async def test_a_step_of_the_wall_clock_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = HealthSampler(tmp_path)
    offset_ns = health._clock_offset_ns()
    monkeypatch.setattr(health, "_clock_offset_ns", lambda: offset_ns + 86_400 * 10**9)
    assert (await sampler.read()).clock_step_s == pytest.approx(86_400.0, abs=0.1)
    assert (await sampler.read()).clock_step_s == 0.0


async def test_sleep_is_no_step_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = HealthSampler(tmp_path)
    offset_ns, asleep_ns = health._clock_offset_ns(), health._asleep_ns()
    monkeypatch.setattr(health, "_clock_offset_ns", lambda: offset_ns + 5 * 10**9)
    monkeypatch.setattr(health, "_asleep_ns", lambda: asleep_ns + 5 * 10**9)
    reading = await sampler.read()
    assert reading.suspended_s == pytest.approx(5.0, abs=0.1)
    assert reading.clock_step_s == 0.0


async def test_a_disk_that_hangs_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "READ_TIMEOUT_S", 0.05)
    sampler = HealthSampler(tmp_path)

    answers = threading.Event()

    def hang() -> float:
        answers.wait()
        return 1.0

    monkeypatch.setattr(sampler, "_disk", hang)
    try:
        reading = await sampler.read()
        assert isnan(reading.disk_free_share)
        assert reading.unread_s == 0.05
    finally:
        answers.set()
    monkeypatch.setattr(sampler, "_disk", lambda: 0.5)
    monkeypatch.setattr(health, "READ_TIMEOUT_S", 5.0)
    reading = await sampler.read()
    assert (reading.disk_free_share, reading.unread_s) == (0.5, 0.0)
