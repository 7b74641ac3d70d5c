"""A twin file with new numbers: what calibration found goes into the text, and everything else in it stays, comments too."""

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


class Found(Struct, frozen=True):
    """What was found for one number, or one list of numbers."""

    value: Any
    """A number, or a list shaped as in the file."""
    sigma: float
    """One standard deviation in the number's own unit; of a list, of each of its elements."""


def write_twin(
    twin: Twin, numbers: Mapping[str, Found], origin: str, text: str, *, status: Status = "calibrated", name: str = ""
) -> str:
    """The file of ``twin`` with ``numbers`` by dotted key in it, each with that status and the origin ``origin``: ``text``.

    With ``name`` the vehicle goes by that name. The result was read again: it is a valid twin file that holds these numbers.
    Raises ProfileError for a key that the file does not have, a number out of its range, or an origin that says something else
    already.
    """
    problems = [Problem(key, "no such parameter") for key in numbers if key not in twin.provenance]
    problems += [Problem(key, "its sigma is not a number") for key, found in numbers.items() if not isfinite(found.sigma)]
    if not _BARE.match(origin):
        problems.append(Problem("origins", f'"{origin}" is no key: letters, digits, - and _ only'))
    elif twin.origins.get(origin, text) != text:
        problems.append(Problem(f"origins.{origin}", "is there already and says something else; choose another key"))
    if problems:
        raise ProfileError(problems, twin.path)
    lines = twin.source.split("\n")
    places = Places(twin.source, ())
    for key, found in numbers.items():
        line = places.line(tuple(key.split(".")))
        assert line is not None, "a number of a valid file stands somewhere in it"
        record = (
            f'{{ value = {_toml(found.value)}, status = "{status}", origin = "{origin}", spread_abs = {_number(found.sigma)} }}'
        )
        _replace(lines, line - 1, record)
    if name:
        line = places.line(("identity", "name"))
        assert line is not None, "every twin has a name"
        lines[line - 1] = f"name = {_text(name)}"
    if origin not in twin.origins:
        header = places.line(("origins",))
        assert header is not None, "it has an origin for each of its numbers"
        lines.insert(header, f"{origin} = {_text(text)}")
    written = "\n".join(lines)
    again = twin_file.parse(written, twin.path)
    assert all(again.provenance[key].origin == origin for key in numbers)
    return written


def _replace(lines: list[str], first: int, record: str) -> None:
    """Put a record in the place of the one that begins on a line; a comment after it stays. Line numbers stay as they are."""
    opening = lines[first].index("{")
    head, rest = lines[first][:opening], "\n".join([lines[first][opening:], *lines[first + 1 :]])
    depth = 0
    for token in _TOKEN.finditer(rest):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            taken = rest[: token.end()].count("\n")
            tail = lines[first + taken][len(rest[: token.end()].rsplit("\n", 1)[-1]) + (opening if taken == 0 else 0) :]
            lines[first] = head + record + tail
            lines[first + 1 : first + 1 + taken] = [""] * taken
            return
    raise AssertionError("a record of a valid file ends")


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return _number(value)


def _number(value: float) -> str:
    """Seven digits: no calibration knows more."""
    if isinstance(value, int):
        return str(value)
    shown = f"{float(value):.7g}"
    return shown if any(mark in shown for mark in ".en") else f"{shown}.0"


def _text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
