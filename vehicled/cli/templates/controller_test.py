"""Test of template_file.py: it drives a circle in simulation. Run it with ``python -m pytest test_template_file.py``."""

from pathlib import Path

from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec

CONTROLLER = f"{Path(__file__).with_name('template_file.py')}:TemplateClass"


def test_it_drives_a_circle() -> None:
    """The vehicle reaches the end of the course and never leaves it by more than 0.2 m."""
    spec = RunSpec(profile="art", course="circle_r5_ccw", controller=CONTROLLER, seed=1, log_folder=None)
    result = simulate(Plan.of(spec), SimulationSpec()).result
    assert result.finished, result.why
    assert result.cross_track_m.max < 0.2
