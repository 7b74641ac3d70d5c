"""A short part of the measured figures, again: what the pages say still holds. ``make figures``
measures all of them."""

import pytest

from tests.figures import at, load, names, output, sample_differences

SAMPLES = {name: sample for name in names() if (sample := load(name).sample) is not None}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_figures_of_the_pages_hold(name: str) -> None:
    sample = SAMPLES[name]
    found = output(sample.command)
    now = {place: at(found, place) for place in sample.figures}
    assert sample_differences(sample, now) == [], "if it changed on purpose: make figures WRITE=1"
