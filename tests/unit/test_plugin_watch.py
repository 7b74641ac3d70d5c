"""The watch over plugins leaves a daemon without plugins alone."""

import sys
import time
from pathlib import Path

import pytest

from tests.busy_computer import wait_until
from vehicled import plugins
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
