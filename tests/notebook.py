"""Runs the notebook of the documentation and keeps what its cells print and draw: ``python -m
tests.notebook`` renews the file."""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "docs/first_study.ipynb"
WRITE = "%%writefile "


def run(notebook: dict[str, Any], folder: Path, replacements: dict[str, str]) -> None:
    """Run all cells in order, as a notebook does, in a folder; put their outputs into the
    notebook."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    space: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for number, cell in enumerate(
            (cell for cell in notebook["cells"] if cell["cell_type"] == "code"), 1
        ):
            text = "".join(cell["source"])
            for old, new in replacements.items():
                text = text.replace(old, new)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if text.startswith(WRITE):
                    name, _, content = text.removeprefix(WRITE).partition("\n")
                    Path(name).write_text(content)
                    printed.write(f"Writing {name}\n")
                else:
                    exec(compile(text, f"cell {number}", "exec"), space)
            cell["execution_count"], cell["outputs"] = number, []
            if printed.getvalue():
                cell["outputs"].append(
                    {"output_type": "stream", "name": "stdout", "text": printed.getvalue()}
                )
            for figure in map(pyplot.figure, pyplot.get_fignums()):
                image = io.BytesIO()
                figure.savefig(image, dpi=60)
                drawn = base64.b64encode(image.getvalue()).decode()
                cell["outputs"].append(
                    {"output_type": "display_data", "metadata": {}, "data": {"image/png": drawn}}
                )
            pyplot.close("all")
    finally:
        os.chdir(before)


def main() -> int:
    """Renew the outputs in the file."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        run(notebook, Path(folder), {})
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
