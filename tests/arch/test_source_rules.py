"""Rules of the source text that no linter knows."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

PACKAGES = ("vehicled", "drivers", "sim_backend")
RUNTIME_LINES = 1_750
# Leaves of the runtime that speak to one thing of the operating system each, and that no pump depends on.
RUNTIME_LEAVES = {"health.py", "realtime.py", "sd_notify.py"}


def _modules(root: Path, *packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (root / package).rglob("*.py"))


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_the_runtime_stays_thin(project_root: Path) -> None:
    # The ports are a package of their own beside the pumps: one module for each kind of wire.
    core = [path for path in (project_root / "vehicled/runtime").glob("*.py") if path.name not in RUNTIME_LEAVES]
    assert 0 < sum(map(_lines, core)) < RUNTIME_LINES


@pytest.mark.parametrize("package", PACKAGES)
def test_public_things_say_what_they_are(project_root: Path, package: str) -> None:
    """Modules, public classes and functions have docstrings; methods need none where they keep a documented contract."""
    silent = []
    for path in _modules(project_root, package):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = str(path.relative_to(project_root))
        if ast.get_docstring(tree) is None and tree.body:
            silent.append(where)
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                silent.append(f"{where}:{node.lineno} {node.name}")
    assert silent == []


def test_nothing_is_left_for_later(project_root: Path) -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [
        f"{path.relative_to(project_root)}:{number}"
        for path in _modules(project_root, *PACKAGES, "bench")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if later.search(line)
    ]
    assert found == []


def test_no_file_depends_on_where_it_was_written(project_root: Path) -> None:
    """No home or workplace of an author, no address of a package index, no reference to a tracker that readers may not have."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=project_root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    foreign = re.compile(
        r"(?<![\w.~$}%])/(?:home|root|work|Users)/[\w.]"
        r"|--(?:extra-)?index-url[ =]\S|--find-links[ =]\S|python[h]osted|/simpl[e]\b"
        r"|\bissues? +\d|\b(?:issues?|PRs?|fix(?:es)?|closes?|see) +#\d"
    )
    found = []
    for name in filter(None, listing.stdout.split("\0")):
        path = project_root / name
        if not path.is_file() or path.suffix in {".png", ".mcap", ".bin", ".ubx"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if foreign.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []
