"""Allowed imports between packages: the contracts of pyproject.toml hold, and a broken one is
noticed."""

import subprocess
import sys
from pathlib import Path

LINT_IMPORTS = (
    "import sys; from importlinter.cli import lint_imports; "
    "sys.exit(lint_imports(cache_dir=None, no_logo=True))"
)


def test_every_import_contract_is_kept(project_root: Path) -> None:
    # A process of its own: the linter imports its configuration and plug-ins by the current folder.
    run = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 broken" in run.stdout


def test_an_import_that_is_not_allowed_breaks_its_contract(
    tmp_path: Path, project_root: Path
) -> None:
    """The contract type written here is itself code that can be wrong."""
    (tmp_path / "upper").mkdir()
    (tmp_path / "upper" / "__init__.py").write_text("import lower.open\n")
    (tmp_path / "lower").mkdir()
    (tmp_path / "lower" / "__init__.py").write_text("")
    (tmp_path / "lower" / "open.py").write_text("")
    (tmp_path / "lower" / "closed.py").write_text("")
    (tmp_path / "contracts.py").write_text(
        (project_root / "tests" / "arch" / "contracts.py").read_text()
    )
    (tmp_path / ".importlinter").write_text(
        "[importlinter]\nroot_packages =\n    upper\n    lower\ncontract_types =\n    "
        "allow_list: contracts.AllowList\n"
        "[importlinter:contract:one]\nname = one\ntype = allow_list\npackage = upper\nallowed "
        "=\n    lower\n    lower.o*\n"
    )

    def lint() -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {LINT_IMPORTS}",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    kept = lint()
    assert kept.returncode == 0, kept.stdout + kept.stderr
    (tmp_path / "upper" / "more.py").write_text("from lower import closed\n")
    broken = lint()
    assert broken.returncode == 1
    assert "upper.more imports lower.closed" in broken.stdout
