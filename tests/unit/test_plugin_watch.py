"""The watch over plugins leaves a daemon without plugins alone."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.busy_computer import wait_until
from vehicled.profile import plugins
from vehicled.runtime.plugin_watch import MOST_CALLS, PluginWatch


@pytest.mark.parametrize("loaded", [False, True])
def test_the_stack_is_looked_at_only_for_the_sake_of_a_plugin(
    loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    frames = sys._current_frames

    def counted() -> object:
        looks.append(1)
        return frames()

    monkeypatch.setattr(
        plugins, "files", lambda: frozenset([str(tmp_path / "law.py")] if loaded else [])
    )
    monkeypatch.setattr(sys, "_current_frames", counted)
    with PluginWatch(0.02):
        if loaded:
            wait_until(lambda: looks)
        else:
            time.sleep(0.05)
    assert bool(looks) is loaded


def test_a_plugin_does_not_raise_the_limit_of_calls_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "law.py")
    code = "import sys\ndef step():\n    sys.setrecursionlimit(10**9)\n    again()\n"
    law: dict[str, Any] = {"__name__": "law"}
    exec(compile(code + "def again():\n    again()\n", file, "exec"), law)
    monkeypatch.setattr(plugins, "files", lambda: frozenset([file]))
    limit = sys.getrecursionlimit()
    try:
        with PluginWatch(60.0), pytest.raises(RecursionError):
            law["step"]()
        assert sys.getrecursionlimit() == MOST_CALLS
    finally:
        sys.setrecursionlimit(limit)


def test_a_plugin_does_not_end_the_process_and_the_code_of_others_and_its_children_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ended = str(tmp_path / "law.py"), list[int]()
    code = """
import os
def step():
    os._exit(0)
def forks():
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitpid(child, 0)[1]
"""
    law: dict[str, Any] = {"__name__": "law"}
    exec(compile(code, file, "exec"), law)
    monkeypatch.setattr(plugins, "files", lambda: frozenset([file]))
    outside = os._exit
    with PluginWatch(60.0):
        with pytest.raises(SystemExit, match=r"os\._exit\(0\)"):
            law["step"]()
        assert os.waitstatus_to_exitcode(law["forks"]()) == 7
    assert os._exit is outside
    monkeypatch.setattr(os, "_exit", ended.append)
    with PluginWatch(60.0):
        os._exit(3)
    assert ended == [3]


@pytest.mark.parametrize(
    "left",
    [
        "threading.Thread(target=time.sleep, args=(1000,)).start()",
        "atexit.register(time.sleep, 1000)",
    ],
)
def test_what_a_plugin_leaves_behind_does_not_keep_the_process_alive(left: str) -> None:
    code = f"""
import atexit, sys, threading, time
from vehicled.profile import plugins
from vehicled.runtime import plugin_watch
plugins.files = lambda: frozenset(["law.py"])
plugin_watch.EXIT_LIMIT_S = 0.1
{left}
plugin_watch.end_without_plugins(3)
sys.exit(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr.strip()[:16]) == (3, "vehicled: a plug")
