"""Means by which a test judges the program and not the computer, which may be busy with something
else.

A test waits for a condition, not for a duration, and for at most :data:`DEADLINE_S`. A drive in
wall time that is not about a limit of silence widens all of them by :data:`WIDE_LIMITS`.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DEADLINE_S = 120.0
"""Upper bound of a wait for a condition; not a measure of speed."""

WIDE_LIMITS = tuple(
    word
    for limit in (
        "imu_silence_s=4", "estimate_silence_s=2.5", "control_silence_s=2.5", "loop_silence_s=5",
        "telemetry_silence_s=5", "arming_missed_share=1",
    )
    for word in ("--set", f"limits.{limit}")
)  # fmt: skip
"""Options with which a stall of the computer stops no drive."""


def wait_until(
    holds: Callable[[], object], otherwise: Callable[[], object] = lambda: "", every_s: float = 0.02
) -> None:
    """Wait until a condition holds. ``otherwise`` returns what to show if it never does, and may
    raise if it cannot any more."""
    end_s = time.monotonic() + DEADLINE_S
    while not holds():
        shown = otherwise()
        assert time.monotonic() < end_s, f"not within {DEADLINE_S:g} s: {shown}"
        time.sleep(every_s)


def fill_up(folder: Path) -> Path:
    """Take all space of a file system; return the file to remove."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast
