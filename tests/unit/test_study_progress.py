"""The progress of a study names the compiled wheel where it would save hours."""

import pytest

from vehicled.cli.study import _StudyProgress
from vehicled.offline.studies.campaign import StudyState
from vehicled.run.terminal import Progress


@pytest.mark.parametrize(("size", "jobs", "hints"), [(4000, 2, 1), (40, 2, 0), (4000, 0, 0)])
def test_a_study_of_hours_names_the_compiled_wheel_once(
    size: int,
    jobs: int,
    hints: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(Progress, "due", lambda self: True)
    monkeypatch.setattr(Progress, "elapsed_s", 100.0)
    line = _StudyProgress()
    if jobs:
        line.set_jobs(jobs)
    for done in (4, 5):
        line.show(StudyState(done=done, size=size, failed=0, driven=done))
    said = capsys.readouterr().err
    assert said.count("make compiled") == hints
    if hints:
        assert "55.5 hours of processor time left" in said
