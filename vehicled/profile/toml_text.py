"""The text of a profile: parsing with helpful syntax errors, the line of every key, overrides, and
writing back.

``tomllib`` gives values but no places, and the standard library cannot write TOML; both gaps are
small and are filled here.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from vehicled.profile.problems import KeyPath, Problem, ProfileError, found, is_bare, printable

_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_HINTS = (
    (re.compile(r"[=\[,]\s*[-+]?\d+,\d+\s*(#|$)"), "a decimal point is wanted, not a comma"),
    (re.compile(r"[=\[,]\s*[-+]?\.\d"), "write the digit before the decimal point: 0.5, not .5"),
    (
        re.compile(r"[=\[,]\s*[-+]?\d+\.(?!\d)"),
        "write a digit after the decimal point: 1.0, not 1.",
    ),
    (re.compile(r"[=\[,]\s*[-+]?0\d"), "a number must not start with a zero"),
    (
        re.compile(r"=\s*(True|False|yes|no|on|off)\b", re.IGNORECASE),
        "write true or false, in lower case",
    ),
    (re.compile(r"^\s*[\w.-]+\s*:"), "a key and its value are joined by =, not by a colon"),
    (re.compile(r"^\s*[\w.-]+\s*=\s*[A-Za-z~/]"), "text needs quotes"),
    (re.compile(r"^\s*[\w.-]+\s*=\s*(#|$)"), "the value is missing"),
    (re.compile(r"^\s*\[[^\]]*$"), "the table's closing bracket is missing"),
)
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_STATEMENT = re.compile(
    rf"[ \t]*(?:\[\[?[ \t]*(?P<table>{_DOTTED})[ \t]*\]|(?P<key>{_DOTTED})[ \t]*=)"
)
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'{3}.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[\]{}\n]''',
    re.DOTALL | re.VERBOSE,
)
_BARE_WORDS = re.compile(r"[^\"'\[\]{}=#,]+")
_ADDRESS = re.compile(r"[a-z]+:[^\s\"'{}#,]+")
"""Address of a port, with its options: ``serial:/dev/ttyUSB0?baud=9600``."""


def parse(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML to plain values. Raises ProfileError with line, column, text of the line and, for
    common mistakes, the cure."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ProfileError([Problem("", "lists or tables are nested too deeply")], origin) from None
    except (
        ValueError
    ) as error:  # TOMLDecodeError, or the interpreter's own refusal of an endless integer
        raise ProfileError([_syntax_problem(str(error), text)], origin) from None


def _syntax_problem(message: str, text: str) -> Problem:
    # The message carries the position in every version; attributes exist only from Python 3.14.
    lines = text.replace("\r", "").split(
        "\n"
    )  # not splitlines(): it breaks at characters that are no line ends in TOML
    at = _AT.search(message)
    if at is None:
        return Problem("", f"not valid TOML: {message}")
    number, column = (int(at[1]), int(at[2])) if at[1] else (len(lines), len(lines[-1]) + 1)
    reason = message[: at.start()]
    shown = _around(lines[number - 1] if number <= len(lines) else "", column)
    if reason.startswith(("Cannot declare", "Cannot overwrite", "Cannot mutate")):
        hint = "\na table or key of that name is in the file already"
    else:
        hint = next((f"\n{hint}" for pattern, hint in _HINTS if pattern.search(shown[0])), "")
    return Problem(
        "",
        f"not valid TOML: {reason}\n{shown[0]}\n{shown[1]}{hint}",
        f"line {number}, column {column}",
    )


def _around(line: str, column: int) -> tuple[str, str]:
    start = max(0, column - 80)
    cut = printable(line[start : start + 120].replace("\t", " "), 120)
    return cut, " " * min(column - 1 - start, len(cut)) + "^"


class Override(Struct, frozen=True):
    """One ``--set key=value`` of the command line."""

    path: KeyPath
    value: Any
    text: str


def parse_override(text: str) -> Override | Problem:
    """Parse ``dotted.key=value``. The value is TOML; bare words and addresses are text, because a
    shell removes the quotes."""
    place = f"--set {printable(text)}"
    key, equals, value = text.partition("=")
    parts = tuple(part.strip() for part in key.split("."))
    value = value.strip()
    if not equals:
        return Problem("", "write --set table.key=value", place)
    if not all(is_bare(part) for part in parts):
        return Problem("", f'"{printable(key)}" is not a key: write --set table.key=value', place)
    if not text.isprintable():
        return Problem(key, "the value holds control characters or bytes that are no text", place)
    if not value:
        return Problem(
            key, 'the value is missing; write "" (quoted for the shell) for empty text', place
        )
    try:
        return Override(parts, tomllib.loads(f"value = {_with_digits(value)}")["value"], text)
    except (ValueError, RecursionError):
        if _BARE_WORDS.fullmatch(value) or _ADDRESS.fullmatch(value):
            return Override(parts, value, text)
        return Problem(key, f"{found(value)} is neither a TOML value nor plain words", place)


def _with_digits(value: str) -> str:
    # Accept .5 and 5. on a command line, although TOML requires 0.5 and 5.0.
    return re.sub(r"^([-+]?)(\d*)\.(\d*)$", lambda m: f"{m[1]}{m[2] or 0}.{m[3] or 0}", value)


def apply(data: dict[str, Any], overrides: Iterable[Override]) -> list[Problem]:
    """Write overrides into parsed data, in order; tables on the way are made. Returns what could
    not be written."""
    problems = []
    for override in overrides:
        *tables, last = override.path
        here: Any = data
        for depth, part in enumerate(tables):
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                above = ".".join(map(str, override.path[: depth + 1]))
                problems.append(
                    Problem(
                        ".".join(map(str, override.path)),
                        f"{above} is {found(here)}, not a table",
                        f"--set {override.text}",
                    )
                )
                break
        else:
            here[last] = override.value
    return problems


class Places:
    """Place where each key was written: a line of the file or an override."""

    def __init__(self, text: str, overrides: Sequence[Override]) -> None:
        self._lines = dict(_key_lines(text))
        self._overrides = overrides

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a key, else of the nearest enclosing table; None if the file has
        neither."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def of(self, path: KeyPath) -> str:
        """Return the place as text, empty if unknown."""
        for override in reversed(self._overrides):
            inside = path[: len(override.path)] == override.path
            made = path == override.path[: len(path)] and path not in self._lines
            if path and (inside or made):
                return f"--set {printable(override.text)}"
        line = self.line(path)
        return f"line {line}" if line else ""


def _key_lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Return (key path, line number) of every table header and key of a valid TOML text."""
    table: KeyPath = ()
    position = 0
    number = 1
    while position < len(text):
        end = _line_end(text, position)
        if statement := _STATEMENT.match(text, position):
            path = _split(statement["table"] or statement["key"])
            if statement["table"]:
                table = path
                yield table, number
            else:
                yield from ((table + path[:depth], number) for depth in range(1, len(path) + 1))
                end = _value_end(text, statement.end())
        number += text.count("\n", position, end)
        position = end


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline + 1


def _value_end(text: str, position: int) -> int:
    """Return the end of the line on which a value ends; texts and lists may have several lines."""
    depth = 0
    for token in _TOKEN.finditer(text, position):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth <= 0:
                return token.end()
    return len(text)


def _split(key: str) -> KeyPath:
    """Return the parts of a valid TOML key."""
    if '"' not in key and "'" not in key:
        return tuple(part.strip() for part in key.split("."))
    parts: list[str] = []
    node: Any = tomllib.loads(f"{key} = 0")
    while isinstance(node, dict):
        parts += node
        node = next(iter(node.values()))
    return tuple(parts)


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of everything in nested tables that is no table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def write(data: Mapping[str, Any]) -> str:
    """Write plain values as TOML that reads back to the same values. Comments are lost."""
    return "\n".join(_table(data, ())) + "\n"


def _table(data: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    if path and (len(tables) < len(data) or not tables):
        yield f"\n[{'.'.join(map(key_text, path))}]"
    for key, value in data.items():
        if key not in tables:
            yield f"{key_text(key)} = {value_text(value)}"
    for key, value in tables.items():
        yield from _table(value, (*path, key))


def key_text(key: str) -> str:
    """Return a key as TOML, in quotes where needed."""
    return key if is_bare(key) else _text(key)


def assignment(key: str, value: Any) -> str:
    """Return an override ``dotted.key=value``, text in quotes, so that "12" stays a text."""
    return f"{key}={value_text(value)}"


def value_text(value: Any) -> str:
    """Return a plain value as TOML, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case dict():
            return (
                "{"
                + ", ".join(f"{key_text(key)} = {value_text(item)}" for key, item in value.items())
                + "}"
            )
        case _:
            return str(value)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
