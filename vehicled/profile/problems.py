"""Problems of a profile and their texts: the place, the value found, the allowed values, the
probable intention."""

import json
from collections.abc import Iterable, Sequence
from datetime import date, time
from difflib import get_close_matches
from typing import Any, Literal

from msgspec import Struct

from vehicled.core import plain_text
from vehicled.core.errors import UserError

KeyPath = tuple[str | int, ...]
"""Keys from the top of the file down; a number is an index into a list."""
ANY_KEY = "<name>"
"""Stands for a key that the user chooses."""
_SHOWN = 60
_LISTED = 100


class Problem(Struct, frozen=True):
    """One mistake. ``path`` is the dotted key, empty for the file as a whole."""

    path: str
    message: str
    place: str = ""
    """Place in the user's input: "line 12", "--set tasks.control.rate_hz=x", or empty."""

    def __str__(self) -> str:
        where = (
            f"{self.path or self.place} ({self.place})"
            if self.path and self.place
            else self.path or self.place
        )
        return f"{where}: {self.message}" if where else self.message


Level = Literal["error", "warning", "note"]


class Note(Problem, frozen=True):
    """A finding in a profile that can be read: an error is impossible or surely dangerous, a
    warning unusual, a note informs."""

    level: Level = "note"


def by_line(problem: Problem) -> float:
    """Return the sort key for the order of the file; problems without a line come last."""
    kind, _, number = problem.place.partition(" ")
    return int(number) if kind == "line" else float("inf")


class ProfileError(UserError):
    """The profile cannot be used. ``problems`` holds every mistake found, in the order of the file;
    ``str()`` lists them."""

    def __init__(self, problems: Sequence[Problem], origin: str = "profile") -> None:
        self.problems = list(problems)
        self.origin = origin
        super().__init__(origin, self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [f"{self.origin}: {count} problem{'s' if count != 1 else ''}"]
        lines += [
            f"  {str(problem).replace(chr(10), chr(10) + '    ')}"
            for problem in self.problems[:_LISTED]
        ]
        if count > _LISTED:
            lines.append(f"  ... and {count - _LISTED} more")
        return "\n".join(lines)


def printable(text: str, limit: int = _SHOWN) -> str:
    """Return a text safe for a terminal: control characters escaped, cut to ``limit``."""
    return plain_text.printable(text, limit)


def dotted(path: KeyPath) -> str:
    """Return a key path in TOML syntax, keys quoted where needed."""
    return "".join(map(_step, path)).removeprefix(".")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part == ANY_KEY or is_bare(part) else f'."{printable(part)}"'


def is_bare(key: str) -> bool:
    """True if TOML allows the key without quotes."""
    return key != "" and key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()


def found(value: Any) -> str:
    """Return a value of the file in TOML syntax."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {printable(json.dumps(value, ensure_ascii=False))}"
        case int() if value.bit_length() > 128:
            return "a number beyond all bounds"
        case int() | float():
            return repr(value)
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "a table"
        case date() | time():
            return f"the date or time {value.isoformat()}"
        case _:
            return type(value).__name__


def choices(names: Iterable[str]) -> str:
    """Return the allowed names as a list in quotes."""
    return ", ".join(f'"{name}"' for name in names)


def nearest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the candidate that was probably meant, or None."""
    names = {candidate.casefold(): candidate for candidate in candidates}
    close = get_close_matches(name[:64].casefold(), names, n=1, cutoff=cutoff)
    if close:
        return names[close[0]]
    begun = [
        whole
        for folded, whole in names.items()
        if len(name) > 2 and folded.startswith(name.casefold())
    ]
    return begun[0] if len(begun) == 1 else None
