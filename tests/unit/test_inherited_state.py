"""State inherited from the parent process: ignored signals, closed descriptors, an empty
environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy_computer import DEADLINE_S

PRINTS_DISPOSITIONS = (
    "import signal; print(*(int(signal.getsignal(n) is signal.SIG_IGN) for n in (signal.SIGHUP, "
    "signal.SIGQUIT, signal.SIGTERM)), len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
)


def test_a_program_started_by_a_test_run_under_nohup_ignores_nothing(project_root: Path) -> None:
    program = f"""
import os, signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.close(0)
import tests.conftest
os.kill(os.getpid(), signal.SIGHUP)  # still ignored here, as nohup promises
subprocess.run([sys.executable, "-c", {PRINTS_DISPOSITIONS!r}], check=True)
print(os.read(0, 1))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["0 0 0 0", "b''"]


@pytest.mark.parametrize(
    ("environment", "closed"),
    [
        ({}, ()),
        (
            {
                "LC_ALL": "C",
                "LANG": "C",
                "TZ": "Asia/Kathmandu",
                "TERM": "dumb",
                "COLUMNS": "1",
                "LINES": "1",
            },
            (0,),
        ),
        (
            {
                "LC_ALL": "xx_YY.nonsense",
                "COLUMNS": "many",
                "TZ": "Nowhere",
                "TERM": "none-such",
                "HOME": "/nonexistent",
            },
            (0,),
        ),
    ],
)
def test_commands_work_in_an_odd_environment(
    project_root: Path, environment: dict[str, str], closed: tuple[int, ...], tmp_path: Path
) -> None:
    """Commands run without HOME, PATH, terminal, standard input or a known locale, as in a cron job
    or a service."""
    become = "os.execv(sys.executable, [sys.executable, '-m', 'vehicled', 'courses'])"
    done = subprocess.run(
        [sys.executable, "-c", f"import os, sys; [os.close(n) for n in {closed!r}]; {become}"],
        cwd=project_root,
        env={"XDG_CACHE_HOME": str(tmp_path), **environment},
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert b"lot17" in done.stdout
