"""Stepwise simulation: the same drive as a whole run, steered by the caller, begun again and
again."""

import gc
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vehicled as v
from vehicled.core.errors import SetupError
from vehicled.core.messages import Mode

COURSE = "circle_r5_ccw"


def test_a_drive_that_is_only_watched_is_that_of_a_run() -> None:
    course = "straight_run:length_m=2,run_up_m=1,run_out_m=1,speed_mps=1.5"
    run = v.simulate("art", course, seed=3, overrides={"limits.max_speed_mps": 3})
    sim = v.Simulation("art", course, seed=3, overrides={"limits.max_speed_mps": 3})
    seen = sim.observe()
    steps = 0
    while not seen.over:
        seen = sim.step()
        steps += 1
    assert (sim.digest, seen.finished, seen.mode) == (
        run.metrics.digest,
        run.metrics.finished,
        Mode.STANDBY,
    )
    assert steps == pytest.approx(run.metrics.driving_s / sim.period_s, rel=0.2)
    with pytest.raises(SetupError, match=r"the course is finished.*call reset\(\)"):
        sim.step()


def test_the_caller_steers_and_the_gate_stands_between() -> None:
    sim = v.Simulation("art", COURSE, seed=3)
    # In a bend the differentials of this vehicle take half of its drive, so the speed settles
    # slowly.
    for _ in range(500):
        seen = sim.step(v.Action(0.8, curvature_per_m=-0.2))
    assert seen.mode is Mode.OFFBOARD
    assert seen.truth is not None
    assert seen.truth.speed_mps == pytest.approx(0.8, abs=0.1)
    assert seen.truth.yaw_rate_radps == pytest.approx(-0.16, abs=0.04)
    for _ in range(50):
        seen = sim.step(v.Action(100.0, wheel_angle_rad=1.6))
    assert seen.command is not None
    assert abs(seen.command.steering) <= 1.0
    seen = sim.step(until_s=seen.time_s + 1.0)
    assert (seen.mode, seen.why) == (Mode.STOPPING, "no setpoint from the script for 0.2 s")


WRONG = [
    nan, inf, -inf, 1e308, -101.0, 2**70, "1", "", b"1", True, None, [], {}, object(),
    np.float64(nan), np.ones(2), "\ud800",
]  # fmt: skip
"""Values that are no speed."""


def test_a_value_that_is_no_number_in_its_range_is_refused_and_changes_nothing() -> None:
    sim, untouched = v.Simulation("art", COURSE, seed=3), v.Simulation("art", COURSE, seed=3)
    calls: list[Callable[[Any], object]] = [
        lambda wrong: sim.step(v.Action(wrong, curvature_per_m=0.1)),
        lambda wrong: sim.step((wrong, 0.1)),  # type: ignore[arg-type]
        lambda wrong: sim.step(until_s=-1.0 if wrong is None else wrong),
        lambda wrong: sim.reset(-1 if wrong is None else wrong),
        lambda wrong: sim.reset(1, begin="yes" if wrong is True else wrong),  # type: ignore[arg-type]
        lambda _: sim.step(v.Action(0.5)),
        lambda _: sim.step(v.Action(0.5, 0.1, 0.1)),
    ]
    turns: list[Callable[[Any], object]] = [
        lambda wrong: sim.step(v.Action(0.5, wheel_angle_rad=wrong)),
        lambda wrong: sim.step(v.Action(0.5, curvature_per_m=wrong)),
    ]
    for wrong in WRONG:
        for call in [*calls, *turns] if wrong is not None else calls:
            with pytest.raises(SetupError):
                call(wrong)
    for each in (sim, untouched):
        for _ in range(20):
            each.step(v.Action(np.float32(0.5), curvature_per_m=np.float64(0.2)))  # type: ignore[arg-type]
    assert sim.digest == untouched.digest


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    sim = v.Simulation("art", COURSE, seed=1)
    digests = []
    for seed in (5, 6, 5):
        sim.reset(seed)
        for k in range(120):
            sim.step(v.Action(0.7, 0.1 * (k % 3)))
        digests.append(sim.digest)
    assert digests[0] == digests[2] != digests[1]


def test_it_begins_again_without_leaving_anything_behind() -> None:
    sim = v.Simulation("art", COURSE)
    sim.reset(begin=False)
    gc.collect()
    before = len(gc.get_objects())
    for seed in range(5):
        assert sim.reset(seed, begin=False).time_s == 0.0
    gc.collect()
    assert len(gc.get_objects()) < 1.1 * before


def test_a_drive_that_cannot_begin_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vehicled.run.stepwise.LONGEST_START_S", 3.0)
    with pytest.raises(
        SetupError, match=r"the drive does not begin: arming .*the position is known to"
    ):
        v.Simulation("art", COURSE, overrides={"limits.corridor_m": 0.01})


def test_files_of_the_simulation_are_relative_to_the_profile(
    tmp_path: Path, project_root: Path
) -> None:
    profile = (project_root / "profiles/art.toml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(profile.replace('scene = "" ', 'scene = "post.toml" '), encoding="utf-8")
    with pytest.raises(SetupError, match=r"post\.toml: cannot be read"):
        v.Simulation(str(mine), COURSE)
    (tmp_path / "post.toml").write_text(
        "[[circle]]\nat = { s_m = 12.0 }\nradius_m = 0.2\n", encoding="utf-8"
    )
    assert v.Simulation(str(mine), COURSE).observe().mode is Mode.AUTO
    with pytest.raises(SetupError, match='"nothing" is not known'):
        v.Simulation("art", COURSE, overrides={"sim.plant": "nothing"})
