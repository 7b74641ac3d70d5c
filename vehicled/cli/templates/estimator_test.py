"""Test of template_file.py: it locates a vehicle that drives a circle. Run it: ``python -m pytest
test_template_file.py``."""

from pathlib import Path

import vehicled as v

ESTIMATOR = f"{Path(__file__).with_name('template_file.py')}:TemplateClass"


def test_it_knows_where_the_vehicle_is() -> None:
    """The vehicle finishes the course, and the estimate is never wrong by more than 0.2 m and 5
    degrees."""
    result = v.simulate("art", "circle_r5_ccw", estimator=ESTIMATOR, seed=1).metrics
    assert result.finished, result.why
    assert result.estimate_position_m.max < 0.2
    assert result.estimate_yaw_rad.max < 0.09
