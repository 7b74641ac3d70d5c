"""Commented blocks of the shipped profiles: each is found by its form, uncommented, and judged like
a profile of one's own."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from vehicled.cli import main

PROFILES = Path(__file__).parents[2] / "profiles"
LINE = re.compile(r"# ?(\[\[?[\w.]+\]\]?|[\w.]+ = .*)$")


def recipes(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over the commented blocks, as first line and line behind."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and LINE.match(lines[end]):
            end += 1
        if end > at:
            yield at, end
        at = end + 1


def uncommented(text: str, block: tuple[int, int]) -> str:
    lines = text.splitlines()
    lines[slice(*block)] = [
        line.removeprefix("#").removeprefix(" ") for line in lines[slice(*block)]
    ]
    return "\n".join(lines) + "\n"


FOUND = [
    (file, block) for file in sorted(PROFILES.glob("*.toml")) for block in recipes(file.read_text())
]


def own(file: Path, block: tuple[int, int], folder: Path) -> Path:
    """Write the profile with the block uncommented; what it names relative to itself is found by
    its full path."""
    text = uncommented(file.read_text(), block)
    tomllib.loads(text)
    mine = folder / file.name
    mine.write_text(re.sub(r'"(twins|courses|policies)/', rf'"{PROFILES}/\1/', text))
    return mine


def test_there_are_some() -> None:
    assert any(file.stem == "f1tenth_gnss" for file, _ in FOUND)


@pytest.mark.parametrize(
    ("file", "block"),
    FOUND,
    ids=lambda each: each.stem if isinstance(each, Path) else str(each[0] + 1),
)
def test_each_is_valid_and_drives(
    file: Path,
    block: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    mine = own(file, block, tmp_path)
    secrets = re.findall(r'^[^#\n]*password_file = "~/([^"]+)"', mine.read_text(), re.MULTILINE)
    if secrets:
        assert main(["check", str(mine)]) == 1
        assert "cannot read the password" in capsys.readouterr().out
    for secret in secrets:
        (tmp_path / secret).parent.mkdir(parents=True)
        (tmp_path / secret).write_text("secret\n")
    assert main(["check", str(mine)]) == 0
    capsys.readouterr()
    main(
        [
            "sim",
            "--profile",
            str(mine),
            "--link",
            "wires",
            "--duration",
            "10",
            "--quiet",
            "--no-log",
            "--json",
        ]
    )
    result = json.loads(capsys.readouterr().out)
    assert result["driven_m"] > 2.0
