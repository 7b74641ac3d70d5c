"""Writes numbers into the text of a profile; spelling, comments and order of everything else
stay."""

import json
import tomllib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from vehicled.offline.twin.calibration.quantity import CalibratedNumber
from vehicled.profile import Problem, ProfileError

ORIGIN = "the profile"


def written_profile(source: str, figures: Sequence[CalibratedNumber], text: str) -> str:
    """Return ``source`` with each number replaced, marked as calibrated with its standard
    deviation. Raises ProfileError."""
    shown = {
        figure.key: f"{figure.value:.7g}  # calibrated, sigma {figure.sigma:.2g}"
        for figure in figures
    }
    return f"# Numbers marked calibrated: {text}\n" + with_values(source, shown)


def with_values(source: str, values: Mapping[str, str]) -> str:
    """Return the text of a profile with values by dotted key replaced or added.

    A value is TOML; a comment behind it takes the place of the one in the text, where there is
    room. Raises ProfileError if the text is no TOML, or if a table of a key is something else in
    this profile.
    """
    try:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError
    except ImportError:
        raise ProfileError(
            [Problem("", "to write it needs tomlkit: pip install 'vehicled[calibrate]'")], ORIGIN
        ) from None
    try:
        document, wanted = tomlkit.parse(source), tomllib.loads(source)
    except (TOMLKitError, tomllib.TOMLDecodeError) as error:
        raise ProfileError([Problem("", f"not valid TOML: {error}")], ORIGIN) from None
    for key, text in values.items():
        name, line = key.rpartition(".")[2], f"value = {text}\n"
        _table(wanted, key, dict)[name] = tomllib.loads(line)["value"]
        table, value = _table(document, key, tomlkit.table), tomlkit.parse(line).item("value")
        assert isinstance(value, tomlkit.items.Item)
        before = table.get(name)
        if isinstance(table, tomlkit.items.InlineTable):
            value.trivia.comment_ws = value.trivia.comment = ""
        elif not value.trivia.comment and isinstance(before, tomlkit.items.Item):
            value.trivia.comment_ws = before.trivia.comment_ws
            value.trivia.comment = before.trivia.comment
        table[name] = value
    written = tomlkit.dumps(document)
    if tomllib.loads(written) != wanted:
        raise ProfileError(
            [
                Problem(
                    next(iter(values)),
                    "cannot be changed in this spelling; give its table a header",
                )
            ],
            ORIGIN,
        )
    return written


def moved(source: str, file: Path, target: Path) -> str:
    """Return the text of the profile ``file`` for the place ``target``: a base that counts from its
    folder gets its whole path."""
    base = tomllib.loads(source).get("base")
    if (
        isinstance(base, str)
        and ("/" in base or base.endswith(".toml"))
        and file.parent.resolve() != target.parent.resolve()
    ):
        return with_values(
            source, {"base": json.dumps(str((file.parent / Path(base).expanduser()).resolve()))}
        )
    return source


def _table(
    root: MutableMapping[str, Any], key: str, new: Callable[[], Any]
) -> MutableMapping[str, Any]:
    """Return the table of a dotted key; what is missing on the way is made."""
    table, path = root, key.split(".")[:-1]
    for k, step in enumerate(path, start=1):
        if step not in table:
            table[step] = new()
        table = table[step]
        if not isinstance(table, MutableMapping):
            raise ProfileError(
                [Problem(".".join(path[:k]), f"is no table here, and {key} needs one")], ORIGIN
            )
    return table
