"""A drive whose receiver has a PPS pin: its epochs get their true time, and a bad pulse is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vehicled.core.messages import Fault, GnssFix, TimePulse
from vehicled.log.reader import LogReader

Drive = Callable[..., tuple[int, dict[str, Any], str]]
PULSES = (
    "--profile", "art_vesc", "--set", 'devices.pps.port="pps:/sys/class/pps/pps0"',
    "--set", "devices.pps.driver=pps", "--set", 'devices.pps.messages=["TimePulse"]',
    "--course", "circle_r5_ccw", "--link", "wires", "--quiet", "--duration", "9",
)  # fmt: skip


def test_epochs_are_dated_by_the_pulse(drive: Drive, tmp_path: Path) -> None:
    _, result, said = drive(
        *PULSES, "--set", "devices.gnss.driver.ublox.latency_ms=10", "--fail",
        "pps:pps_shifted=9000@7.5",
    )  # fmt: skip
    assert "time limit" in result["why"], said
    with LogReader(next(tmp_path.glob("*.mcap"))) as log:
        pulses = [record.message for record in log.messages(TimePulse)]
        fixes = [record.message for record in log.messages(GnssFix)]
        faults = [record.message for record in log.messages(Fault)]
    named = [pulse for pulse in pulses if pulse.utc_ns]
    assert len(named) >= 2
    assert all(pulse.clock_offset_s == pytest.approx(0.0123, abs=1e-4) for pulse in named)
    # The simulation begins with a whole second, so this is the error of each stamp.
    late_ms = [(fix.t_ns - fix.utc_ns) % 10**9 * 1e-6 for fix in fixes if fix.utc_ns]
    assert late_ms[5] > 20.0
    assert all(abs(late) < 0.2 for late in late_ms[-8:])
    assert any("us beside its second" in fault.reason for fault in faults)
