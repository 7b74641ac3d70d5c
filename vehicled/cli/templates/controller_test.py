"""Test of template_file.py: it drives a circle in simulation. Run it with ``python -m pytest
test_template_file.py``."""

from pathlib import Path

import vehicled as v

CONTROLLER = f"{Path(__file__).with_name('template_file.py')}:TemplateClass"


def test_it_drives_a_circle() -> None:
    """The vehicle reaches the end of the course and never leaves it by more than 0.2 m."""
    result = v.simulate("art", "circle_r5_ccw", controller=CONTROLLER, seed=1).metrics
    assert result.finished, result.why
    assert result.cross_track_m.max < 0.2
