"""Writer of calibrated twin files: replaces numbers in the text and keeps everything else,
including comments."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

from sim_backend.plant import twin_file
from sim_backend.plant.twin_file import Status, Twin
from vehicled.profile import Problem, ProfileError
from vehicled.profile.toml_text import Places

_TOKEN = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[{}])""")
_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


class NewValue(Struct, frozen=True):
    """New value of one number, or one list of numbers."""

    value: Any
    """Number, or list in the shape of the file."""
    sigma: float
    """One standard deviation in the number's unit; for a list, of each element."""


def write_twin(
    twin: Twin,
    numbers: Mapping[str, NewValue],
    origin: str,
    text: str,
    *,
    status: Status = "calibrated",
    name: str = "",
) -> str:
    """Return the text of ``twin`` with ``numbers`` (by dotted key) replaced, with that status and
    the origin ``origin``: ``text``.

    ``name`` renames the vehicle. The result is read back: it is a valid twin file that holds these
    numbers. Raises ProfileError for a key that the file lacks or writes in another form than a
    record on one line, for a number out of range, and for an origin that exists with another text.
    """
    problems = [Problem(key, "no such parameter") for key in numbers if key not in twin.provenance]
    problems += [
        Problem(key, "its sigma is not a number")
        for key, found in numbers.items()
        if not isfinite(found.sigma)
    ]
    if not _BARE.match(origin):
        problems.append(
            Problem("origins", f'"{origin}" is not a valid key; use letters, digits, - and _')
        )
    elif twin.origins.get(origin, text) != text:
        problems.append(
            Problem(f"origins.{origin}", "already exists with another text; choose another key")
        )
    lines = _Lines(twin.source)
    records = {
        key: lines.value_of(key, "{", "{ value = ..., ... }")
        for key in numbers
        if key in twin.provenance
    }
    name_at = lines.value_of("identity.name", "[\"']", '"..."') if name else (0, 0)
    origins_at = 0 if origin in twin.origins else lines.header_of("origins")
    problems += lines.problems
    if problems:
        raise ProfileError(problems, twin.path)
    for key, found in numbers.items():
        record = (
            f'{{ value = {_toml(found.value)}, status = "{status}", origin = "{origin}", '
            f"spread_abs = {_number(found.sigma)} }}"
        )
        _replace(lines.text, *records[key], record)
    if name:
        line, begin = name_at
        lines.text[line] = lines.text[line][:begin] + _text(name)
    if origin not in twin.origins:
        lines.text.insert(origins_at + 1, f"{origin} = {_text(text)}")
    written = "\n".join(lines.text)
    again = twin_file.parse(written, twin.path)
    assert all(again.provenance[key].origin == origin for key in numbers)
    return written


class _Lines:
    """Lines of a valid twin file and the positions of its keys; keys in another form become
    problems."""

    def __init__(self, source: str) -> None:
        self.text = source.split("\n")
        self.problems: list[Problem] = []
        self._places = Places(source, ())

    def value_of(self, key: str, opening: str, shown: str) -> tuple[int, int]:
        """Return the line index of ``name = value`` and the column where the value begins."""
        name = key.rpartition(".")[2]
        return self._at(
            key,
            rf"""[^#=]*\b{re.escape(name)}["']?\s*=\s*(?={opening})""",
            f"{name} = {shown} on a line",
        )

    def header_of(self, table: str) -> int:
        return self._at(
            table, rf"""\s*\[\s*["']?{re.escape(table)}["']?\s*\]""", f"a table below [{table}]"
        )[0]

    def _at(self, key: str, shape: str, shown: str) -> tuple[int, int]:
        line = self._places.line(tuple(key.split(".")))
        assert line is not None, "what a valid file must have stands somewhere in it"
        match = re.match(shape, self.text[line - 1])
        if match is None:
            self.problems.append(
                Problem(key, f"is not written as {shown}; write it so", f"line {line}")
            )
        return line - 1, match.end() if match else 0


def _replace(lines: list[str], first: int, opening: int, record: str) -> None:
    """Replace the record that begins on a line, keeping a comment after it. Line numbers do not
    change."""
    head, rest = lines[first][:opening], "\n".join([lines[first][opening:], *lines[first + 1 :]])
    depth = 0
    for token in _TOKEN.finditer(rest):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            taken = rest[: token.end()].count("\n")
            tail = lines[first + taken][
                len(rest[: token.end()].rsplit("\n", 1)[-1]) + (opening if taken == 0 else 0) :
            ]
            lines[first] = head + record + tail
            lines[first + 1 : first + 1 + taken] = [""] * taken
            return
    raise AssertionError("a record of a valid file ends")


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return _number(value)


def _number(value: float) -> str:
    """Format with seven digits, the most a calibration can know."""
    if isinstance(value, int):
        return str(value)
    shown = f"{float(value):.7g}"
    return shown if any(mark in shown for mark in ".en") else f"{shown}.0"


def _text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
