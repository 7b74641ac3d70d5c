"""The notebook of the documentation: its cells run, and its stored outputs are those of its cells, but for the numbers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MARK = "--- end of cell ---"
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def text_of(cell: dict[str, Any]) -> str:
    """Return what the cell printed when the notebook was saved."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def test_the_cells_run_and_print_what_is_stored(tmp_path: Path, project_root: Path) -> None:
    """Run the cells in order as one script, with fewer and shorter drives of the study."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    notebook = json.loads((project_root / "docs/first_study.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output.get("name", "figure") for cell in cells for output in cell["outputs"]} == {"stdout", "figure"}
    script = ["import matplotlib", "matplotlib.use('svg')"]
    for cell in cells:
        source = "".join(cell["source"])
        if source.startswith("%%writefile "):
            name, _, content = source.removeprefix("%%writefile ").partition("\n")
            source = f"import pathlib\npathlib.Path({name!r}).write_text({content!r}, encoding='utf-8')\nprint('Writing {name}')"
        assert ("plt.show()" in source) == any("image/png" in output.get("data", {}) for output in cell["outputs"])
        short = source.replace("range(1, 21)", "range(1, 3)").replace("seed=seed", "seed=seed, duration_s=2")
        script += [short.replace("plt.show()", ""), f"print({MARK!r})"]
    (tmp_path / "cells.py").write_text("\n".join(script), encoding="utf-8")
    done = subprocess.run([sys.executable, "cells.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = [NUMBER.sub("#", text).strip() for text in done.stdout.split(MARK)[:-1]]
    assert printed == [NUMBER.sub("#", text_of(cell)).strip() for cell in cells]
