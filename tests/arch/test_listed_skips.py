"""Every reason for which a test skips itself stands in a list; a library that is missing does
not."""

import ast
from pathlib import Path

from tests.listed_skips import unlisted


def _text(node: ast.expr) -> str | None:
    """Return a literal text; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "/x" for part in node.values
        )
    return None


def test_every_reason_is_listed(project_root: Path) -> None:
    found = []
    for path in sorted(project_root.glob("tests/**/*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.skip" and call.args:
                reason = _text(call.args[0])
                found.append((reason, f"{path.name}:{call.lineno}: {reason}"))
    assert len(found) > 40
    assert [place for reason, place in found if reason is not None and unlisted(reason)] == []


def test_a_library_that_is_missing_is_not_listed() -> None:
    assert unlisted("could not import 'pyproj': No module named 'pyproj'")
    assert unlisted("Skipped: needs cyclonedds: pip install 'vehicled[ros2]'")
    assert unlisted("Skipped: the extra gym is not installed")
    assert not unlisted("Skipped: the program zsh is not installed")
    assert not unlisted("Skipped: no Chromium on this machine")
