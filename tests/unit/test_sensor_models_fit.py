"""The published numbers of the fitted receiver are what the fitting script finds in the recordings."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vehicled.profile.gnss import RecordedError

SCRIPT = Path(__file__).parents[2] / "bench" / "gnss_fit.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("gnss_fit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fit_finds_the_numbers_that_made_the_laps(script: ModuleType):
    """Simulated laps in place of recorded ones: many, so that chance is small."""
    true = np.array([0.05, 0.6, 100.0, 1.2, 12.0])
    laps = script.simulated(true, [700] * 150, 4)
    found = script.fit(script.increments(laps), 100.0)
    assert found == pytest.approx(true, rel=0.15)


def test_the_recordings_give_the_published_numbers(script: ModuleType, real_data: Path):
    files = sorted((real_data / "lot17_rtk_gps_2023").rglob("*.csv"))
    found = [script.errors(script.read(file), 0.15) for file in files]
    published = RecordedError()
    form = script.fit(script.increments(found), published.wander_time_s)
    given = [getattr(published, name) for name in published.__struct_fields__]
    assert form == pytest.approx(np.array(given), rel=0.03)


def test_without_recordings_it_says_so(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["gnss_fit.py", "--data", str(tmp_path)])
    script.main()
    assert capsys.readouterr().out == f"skipped: no recordings in {tmp_path}: vehicled data fetch lot17_rtk_gps_2023\n"
