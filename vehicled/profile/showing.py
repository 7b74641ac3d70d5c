"""The whole of a profile as TOML, each value with where it comes from."""

import dataclasses
from collections.abc import Iterator
from enum import Enum
from typing import Any

from msgspec import Struct, structs

from vehicled.profile import toml_text
from vehicled.profile.loading import Loaded
from vehicled.profile.problems import KeyPath
from vehicled.profile.schema import Choice

_COLUMN = 44


class ShownValue(Struct, frozen=True):
    """One value of a profile."""

    path: KeyPath
    value: Any
    origin: str
    """File and line, override, key from which it is derived, or ``default``."""


def shown(loaded: Loaded) -> list[ShownValue]:
    """Return every value of a profile that is set, with defaults, in the order of the schema."""
    return [
        ShownValue(path, value, _origin(loaded, path))
        for path, value in _leaves(loaded.profile, ())
    ]


def text_of(loaded: Loaded) -> str:
    """Return the profile as TOML that loads as the same profile, with the origin of each value in a
    comment."""
    lines: list[str] = []
    table: KeyPath | None = None
    for each in sorted(shown(loaded), key=lambda value: len(value.path) > 1):
        if each.path[:-1] != table:
            table = each.path[:-1]
            lines += (
                ["", f"[{'.'.join(toml_text.key_text(str(part)) for part in table)}]"]
                if table
                else []
            )
        line = f"{toml_text.key_text(str(each.path[-1]))} = {toml_text.value_text(each.value)}"
        lines.append(f"{line:{_COLUMN}}  # {each.origin}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    match value:
        case None:
            return
        case _ if (table := _table(value)) is not None and (table or path == ()):
            # A table of TOML ends where the next one begins, so that its own values come first.
            for nested in (False, True):
                for key, inside in table.items():
                    if nested == bool(_table(inside)) and not (
                        path == () and key in ("base", "without")
                    ):
                        yield from _leaves(inside, (*path, key))
        case _:
            yield path, _plain(value)


def _table(value: Any) -> dict[str, Any] | None:
    """Return a struct, a plugin's dataclass or a dictionary by key, without what is None; None for
    another value."""
    if isinstance(value, Choice):
        return {"name": value.name} | {
            key: params for key, params in value.params.items() if _table(params)
        }
    if isinstance(value, Struct):
        config = value.__struct_config__
        table: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}
        table |= {field.encode_name: getattr(value, field.name) for field in structs.fields(value)}
    elif dataclasses.is_dataclass(value):
        table = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, dict):
        table = value
    else:
        return None
    return {key: inside for key, inside in table.items() if inside is not None}


def _plain(value: Any) -> Any:
    """Return a value as TOML has it: structs as tables, sets and tuples as lists."""
    if (table := _table(value)) is not None:
        return {key: _plain(inside) for key, inside in table.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(inside) for inside in value)
    return value


def _origin(loaded: Loaded, path: KeyPath) -> str:
    if path in loaded.derived:
        source = loaded.derived[path]
        return f"as {'.'.join(map(str, source))}, {_origin(loaded, source)}"
    origins = loaded.origins
    if origins is None:
        return ""
    place = origins.of(path)
    if place.startswith("--set"):
        return place
    number = origins.layer(path)
    if number is None:
        # A twin file takes [sim.steering] as changes of its own.
        return "sim.steering" if path[:3] == ("sim", "twin", "changes") else "default"
    return place if number else f"{origins.file(0)}, {place}"
