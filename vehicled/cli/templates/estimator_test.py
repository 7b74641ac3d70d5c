"""Test of template_file.py: it locates a vehicle that drives a circle. Run it: ``python -m pytest test_template_file.py``."""

from pathlib import Path

from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec

ESTIMATOR = f"{Path(__file__).with_name('template_file.py')}:TemplateClass"


def test_it_knows_where_the_vehicle_is() -> None:
    """The vehicle finishes the course, and the estimate is never wrong by more than 0.2 m and 5 degrees."""
    spec = RunSpec(profile="art", course="circle_r5_ccw", estimator=ESTIMATOR, seed=1, log_folder=None)
    result = simulate(Plan.of(spec), SimulationSpec()).result
    assert result.finished, result.why
    assert result.estimate_position_m.max < 0.2
    assert result.estimate_yaw_rad.max < 0.09
