"""Run vehicled with host clocks that jump on a signal: ``python -m
vehicled.offline.failsafe.lying_clock ...``.

Tests cannot step the clock of a development machine or suspend it. SIGUSR1 sets the wall clock an
hour ahead, SIGUSR2 the boot clock 20 s, as after a suspend; only the daemon's readings of the host
change.
"""

import runpy
import signal
from types import FrameType

from vehicled.runtime import health

STEP_NS = 3600 * 10**9
SLEEP_NS = 20 * 10**9


def lie() -> None:
    """Install the signal handlers that move the clocks."""
    offsets = {"wall": 0, "boot": 0}
    sound_wall, sound_boot = health._clock_offset_ns, health._asleep_ns

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            offsets["wall"] += STEP_NS
        else:
            # The wall clock also advances while the computer sleeps.
            offsets["boot"] += SLEEP_NS
            offsets["wall"] += SLEEP_NS

    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, on_signal)
    health._clock_offset_ns = lambda: sound_wall() + offsets["wall"]
    health._asleep_ns = lambda: sound_boot() + offsets["boot"]


if __name__ == "__main__":
    lie()
    runpy.run_module("vehicled", run_name="__main__")
