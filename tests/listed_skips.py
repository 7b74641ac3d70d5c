"""Reasons for which a machine may skip a test. Where ``CI`` is set, a skip with any other reason
fails the run: a library that is missing would hide its tests without a word.
"""

import os
import re

import pytest

LISTED = (
    # The machine.
    (r"netem is not possible here", "a kernel without the module sch_netem"),
    (r"network namespaces are not allowed here|making a network interface needs root",
     "a container"),
    (r"not allowed here: |no real-time priority for this user",
     "a user or a container without real-time priority"),
    (r"no multicast here|no CAN in this kernel|needs vcan0",
     "a network without multicast, a kernel without CAN"),
    (r"mounting a small file system needs root|this user reads everything",
     "a test for root, and one for all others"),
    ((r"abstract names are of Linux|has neither epoll nor timerfd|timeouts are rounded up|no "
        r"interval timers"), "another system"),
    ((r"the system gives no boot id|no /proc|needs the program ip|not installed: "
        r".*\(util-linux, iproute2\)"), "a small system"),
    (r"one processor gets one BLAS thread", "a small computer"),
    (r"this machine is too busy", "it measures the computer, and cannot while others use it"),
    (r"no package index can be reached|this lock file has passed here before",
     "the lock is checked where it can be"),
    (r"not a git checkout", "an archive of the sources"),
    # Programs that .ci/run installs where it may.
    (r"program \S+ is not installed|no C compiler|no Chromium", "a user without root"),
    (r"needs Fast DDS|needs ss: apt-get|udev is not installed", "a user without root"),
    ((r"udevadm verify came with systemd 254|systemd-analyze does not work here|this systemd "
        r"judges no files"), "an older systemd"),
    # Libraries that would pull other versions of those that are tested.
    (r"No module named 'filterpy'|needs pygnssutils|pandas is not installed",
     "pip install them to compare with"),
    # Recordings that are not ours to publish.
    ((r"there are none in |needs the bags in |not among the shared captures|^no /|needs the "
        r"published table"), "no recordings"),
    (r"reference runs are not on this machine|the recorded training data are not here",
     "no recordings"),
    (r"needs the recordings in ", "no recordings"),
    # Cases of a table that do not apply.
    (r"it sends again at once|this vehicle reverses|nothing to unplug",
     "a case that a device or a vehicle does not have"),
    (r"needs workers: pytest -n 2", "a run in one process"),
)  # fmt: skip
"""Pattern of the reason, and where it is right."""


def unlisted(reason: str) -> bool:
    """Return True if a test is skipped for a reason that no list has."""
    text = reason.removeprefix("Skipped: ")
    return not any(re.search(pattern, text) for pattern, _ in LISTED)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for skips that are not listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None:
        return
    skips = [
        report.longrepr
        for report in reporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    ]
    found = sorted({f"{file}:{line}: {reason}" for file, line, reason in skips if unlisted(reason)})
    if found:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("")
        reporter.write_line(
            "skipped for a reason that tests/listed_skips.py does not list:", red=True
        )
        for each in found:
            reporter.write_line(f"  {each}")
