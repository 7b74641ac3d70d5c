"""The files of docs/examples run by the commands in their heads."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
COMMAND = re.compile(r"^(?:#     |    )?((?:vehicled|python) (?:.*\\\n)*.*)$", re.MULTILINE)
FILES = [path for path in sorted(EXAMPLES.iterdir()) if path.is_file()]
COMMANDS = [
    (path.name, found)
    for path in FILES
    for found in COMMAND.findall(path.read_text(encoding="utf-8"))
]


def test_each_file_has_a_command() -> None:
    assert {name for name, _ in COMMANDS} == {path.name for path in FILES}
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=lambda text: text[:40])
def test_it_runs(name: str, command: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))
    environment = os.environ | {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    shell = re.sub(r"\\\n#?\s*", "", command)
    done = subprocess.run(
        ["sh", "-c", shell],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
