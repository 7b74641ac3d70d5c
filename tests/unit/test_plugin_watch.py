"""The watch over plugins leaves a daemon without plugins alone."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.busy_computer import wait_until
from vehicled.profile import plugins
from vehicled.runtime.plugin_watch import PluginWatch


@pytest.mark.parametrize("loaded", [False, True])
def test_the_stack_is_looked_at_only_for_the_sake_of_a_plugin(
    loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    frames = sys._current_frames

    def counted() -> object:
        looks.append(1)
        return frames()

    monkeypatch.setattr(plugins, "files", lambda: frozenset([str(tmp_path / "law.py")] if loaded else []))
    monkeypatch.setattr(sys, "_current_frames", counted)
    with PluginWatch(0.02):
        if loaded:
            wait_until(lambda: looks)
        else:
            time.sleep(0.05)
    assert bool(looks) is loaded


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
