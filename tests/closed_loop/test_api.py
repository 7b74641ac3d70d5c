"""The Python interface: a run, its messages, its replay, and the examples of the page."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vehicled as v
from vehicled.core.errors import SetupError
from vehicled.core.messages import Mode
from vehicled.profile import ProfileError

pytestmark = pytest.mark.xdist_group("api")  # one drive is driven once

SCRIPT = """
import vehicled as v
from vehicled.control.stanley import Stanley

class Mine(Stanley):
    pass

if __name__ == "__main__":
    run = v.simulate("art", "circle_r5_ccw", controller=Mine, duration_s=1.5)
    print(run.header.controller, len(run.messages(v.ControlCommand)) > 20)
"""


@pytest.fixture(scope="module")
def run() -> v.Run:
    """Return a short drive."""
    return v.simulate(
        "art",
        "circle_r5_ccw",
        seed=3,
        duration_s=4,
        overrides={"limits.max_speed_mps": 2, "controller.name": "stanley"},
    )


def test_messages_are_arrays_of_their_fields(run: v.Run) -> None:
    estimates = run.messages(v.StateEstimate)
    assert estimates["covariance"].shape == (len(estimates), 16)
    assert (np.diff(estimates["time_s"]) >= 0.0).all()
    assert estimates["time_s"][-1] == pytest.approx(
        (estimates["t_ns"][-1] - run.header.start_monotonic_ns) * 1e-9, abs=0.02
    )
    assert np.nanmax(estimates["speed_mps"]) > 0.5
    changes = run.messages(v.ModeChange)
    assert Mode.AUTO in changes["after"]
    assert "drives_course" in changes["code"]
    assert len(run.messages(v.LaserScan)) == 0


def test_metrics_are_those_of_the_command(run: v.Run) -> None:
    assert (run.metrics.controller, run.metrics.seed, run.metrics.finished) == ("stanley", 3, False)
    assert run.metrics.digest == run.end["digest"]


def test_many_drives_are_the_single_ones_in_their_order(run: v.Run) -> None:
    same = {
        "course": "circle_r5_ccw",
        "duration_s": 4,
        "overrides": {"limits.max_speed_mps": 2, "controller.name": "stanley"},
    }
    seen: list[tuple[int, int]] = []
    found = v.simulate_many(
        [same | {"seed": seed} for seed in (4, 3)],
        jobs=2,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [each.metrics.seed for each in found] == [4, 3]
    assert found[1].metrics.digest == run.metrics.digest
    assert found[1].messages(v.StateEstimate).tobytes() == run.messages(v.StateEstimate).tobytes()
    assert seen == [(1, 2), (2, 2)]
    path = found[0].path
    del found
    assert not Path(path).exists()


def test_many_drives_without_logs_have_metrics_alone(run: v.Run) -> None:
    (alone,) = v.simulate_many(
        [
            {
                "course": "circle_r5_ccw",
                "seed": 3,
                "duration_s": 4,
                "overrides": {"limits.max_speed_mps": 2},
            }
        ],
        logs=False,
    )
    assert alone.metrics.driven_m > 1.0
    with pytest.raises(SetupError, match="without its log"):
        alone.messages(v.StateEstimate)


def test_many_drives_are_refused_as_a_single_one_is(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="wheelbase_m"):
        v.simulate_many([{"seed": 1, "overrides": {"vehicle.wheelbase_m": -1}}])
    with pytest.raises(SetupError, match=r"run 2: .*sead"):
        v.simulate_many([{"seed": 1}, {"sead": 1}])
    assert v.simulate_many([]) == []


def test_a_replay_is_identical_and_a_change_is_a_what_if(run: v.Run) -> None:
    assert v.replay(run.path).ok
    assert v.replay(run.path, overrides={"controller.name": "pure_pursuit"}).verdict == "what-if"


def test_the_log_ends_with_the_run_unless_it_is_kept(tmp_path: Path) -> None:
    kept = v.simulate("art", "circle_r5_ccw", duration_s=1, log=str(tmp_path))
    path = kept.path
    del kept
    assert v.open_log(path).header.seed == 1
    lost = v.simulate("art", "circle_r5_ccw", duration_s=1)
    path = lost.path
    del lost
    assert not Path(path).exists()


def test_frames_have_a_column_for_each_element(run: v.Run) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = run.frame(v.StateEstimate, "pandas")
    assert isinstance(frame, pandas.DataFrame)
    assert "covariance_15" in frame.columns


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="gain_per_s"):
        v.simulate("art", overrides={"controller.stanley.gain_per_second": 1})
    with pytest.raises(SetupError, match="not defined in a file"):
        v.simulate("art", controller=eval("type('Made', (), {'__module__': 'builtins'})"))
    with pytest.raises(SetupError, match="give the class itself"):
        v.simulate("art", controller=3)  # type: ignore[arg-type]
    for wrong, place in (
        ({"link": "serial"}, "link = 'serial': use one of 'messages', 'wires'"),
        ({"start": "sideways"}, "start = 'sideways': use one of '', 'stand', 'align', 'push'"),
        ({"seed": -1}, "seed = -1: Expected `int` >= 0"),
        ({"laps": "2"}, "laps = '2': Expected `int`, got `str`"),
        ({"duration_s": 0.0}, "duration_s = 0.0: Expected `float` > 0.0"),
    ):
        with pytest.raises(SetupError, match=re.escape(place)):
            v.simulate("art", **wrong)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        v.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_programme_is_driven_with_an_identifier(tmp_path: Path) -> None:
    run = v.simulate(
        "art",
        programme="step_steer",
        identifier="single_track",
        seed=np.arange(3)[2],
        duration_s=4.0,
        log=tmp_path,
    )
    assert (run.metrics.programme, run.metrics.seed) == ("step_steer", 2)
    assert run.metrics.identified is not None


def test_a_drive_that_does_not_start_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vehicled.offline.api.START_TIMEOUT_S", 4.0)
    run = v.simulate("art", "circle_r5_ccw", overrides={"limits.corridor_m": 0.01})
    assert run.metrics.why.startswith(
        "the drive did not start: arming waits: the position is known to"
    )


def test_a_class_of_the_script_itself(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("script.py:Mine True\n", 0), done.stderr
    (tmp_path / "script.py").write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'write what follows below if __name__ == "__main__"' in done.stderr


def test_the_examples_of_the_page_run(
    tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run every Python block, on a shorter course with fewer seeds."""
    blocks = re.findall(
        r"```python\n(.*?)```", (project_root / "docs/python.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for block in blocks:
        if "matplotlib" in block:
            pytest.importorskip("matplotlib", reason="matplotlib is not installed")
        short = (
            block.replace("range(1, 21)", "range(1, 3)")
            .replace("seed=seed", "seed=seed, duration_s=2")
            .replace("seed=3, over", "seed=3, duration_s=2, over")
        )
        exec(compile(short, "docs/python.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "seeds.png").stat().st_size > 10_000
