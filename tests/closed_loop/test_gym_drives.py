"""A policy drives in the daemon as in the environment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vehicled as v
from tests.policy_bench import write_policy
from vehicled.control.policy.network import read_network

gymnasium: Any = pytest.importorskip("gymnasium", reason="the extra gym is not installed")
for module in ("onnx", "onnxruntime"):
    pytest.importorskip(module, reason="the extra policy is not installed")

COURSE = "circle_r2_ccw"


@pytest.mark.soak  # make test: test_gym.py compares the features with those of the daemon
def test_a_policy_drives_in_the_daemon_as_in_the_environment(tmp_path: Path) -> None:
    """The daemon has wires, estimates, a command gate and ten times the rate; the vehicle goes the
    same way."""
    file = write_policy(tmp_path / "policy.onnx")
    network = read_network(file)
    env = gymnasium.make("vehicled.gym:vehicled/PathTracking-v0", course=COURSE)
    observation, ended, cross_track_m, info = env.reset(seed=0)[0], False, [], dict[str, Any]()
    while not ended:
        observation, _, terminated, truncated, info = env.step(
            network.run(observation[None])[0].clip(-1.0, 1.0)
        )
        cross_track_m.append(info["cross_track_m"])
        ended = terminated or truncated
    assert info["finished"]
    run = v.simulate("art", COURSE, controller=str(file), link="wires", seed=3)
    assert run.metrics.finished
    assert run.metrics.cross_track_m.mean == pytest.approx(np.abs(cross_track_m).mean(), abs=0.05)
    assert run.metrics.driving_s == pytest.approx(info["time_s"], rel=0.1)
