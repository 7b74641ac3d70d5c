"""A drive in one process is the drive of two processes, frame by frame."""

from pathlib import Path
from typing import Any

import pytest

import vehicled as v
from tests.grid import sampled
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec


@pytest.mark.parametrize(
    ("spec", "failures"),
    sampled(
        [
            ({"profile": "art", "link": "wires"}, ("gnss:off@1+1",)),
            ({"profile": "hmmwv", "course": "thesis_left10"}, ()),
            ({"profile": "roboracer", "controller": "mpc"}, ("operator:off@1",)),
        ],
        lambda case: case[0]["profile"] == "art",
    ),
)
def test_the_digest_is_that_of_two_processes(
    spec: dict[str, Any], failures: tuple[str, ...], tmp_path: Path
) -> None:
    plan = Plan.of(RunSpec(seed=5, duration_s=2, log_folder=str(tmp_path), **spec))
    inside, beside = (
        simulate(plan, SimulationSpec(failures=failures, in_process=alone))
        for alone in (True, False)
    )
    assert inside.result.frames > 80
    assert inside.result.digest == beside.result.digest
    assert inside.result.why == beside.result.why
    assert v.replay(inside.result.log).ok


def test_a_lost_vehicle_ends_the_drive_with_the_reason_of_the_simulator(tmp_path: Path) -> None:
    plant = tmp_path / "plant.py"
    plant.write_text(
        "from sim_backend.plant.four_dof import FourDof\n"
        "class Breaks(FourDof):\n"
        "    steps = 0\n"
        "    def step(self, *arguments):\n"
        "        self.steps += 1\n"
        "        if self.steps > 2500:\n"
        "            raise ValueError('the axle broke')\n"
        "        return super().step(*arguments)\n"
    )
    plan = Plan.of(
        RunSpec(
            profile="art_published",
            seed=5,
            duration_s=4,
            log_folder=None,
            overrides=(f"sim.plant={plant}:Breaks",),
        )
    )
    reasons = [
        simulate(plan, SimulationSpec(in_process=alone)).result.why for alone in (True, False)
    ]
    assert "the axle broke" in reasons[0]
    assert reasons[0] == reasons[1]
