"""The notebook of the documentation runs, and says what the file shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebook import NOTEBOOK, run


def kinds(outputs: list[Any]) -> list[str]:
    """Return what a cell shows: text and figures."""
    return [output["output_type"] for output in outputs]


@pytest.mark.soak  # make test: test_api.py runs the same calls from docs/python.md
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    shown = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    # Fewer seeds and a shorter course: what the cells do is the same.
    short = "straight_run:length_m=4,run_up_m=1,run_out_m=1,speed_mps=1.2"
    run(notebook, tmp_path, {"SEEDS = range(1, 21)": "SEEDS = range(1, 2)", "circle_r5_ccw": short})
    made = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert list(map(kinds, made)) == list(map(kinds, shown))
    assert made[0][0]["text"].startswith("True the course is finished")
    assert made[4][0]["text"] == "identical\n"
