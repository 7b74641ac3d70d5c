"""The child's end of every helper process: it must take no time from the daemon's loop, and end
after it."""

import os
import signal
from contextlib import suppress

EXPENDABLE = 500
"""Value of ``oom_score_adj``: without memory the kernel ends a child before the daemon."""


def be_modest(niceness: int) -> None:
    """Lower the priority, which is the daemon's real-time one, and ignore the signals that end the
    daemon's group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        if hasattr(os, "sched_setscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.nice(niceness)


def be_expendable() -> None:
    """Let the kernel end this process before others if the memory is full."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(str(EXPENDABLE))
