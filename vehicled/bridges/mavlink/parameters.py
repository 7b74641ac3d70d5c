"""Names of the daemon's parameters for MAVLink, which allows 16 characters. Pure."""

from collections.abc import Iterable

MOST = 16


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the parameter keys by their MAVLink names: upper case, words shortened evenly, numbered where two would be equal."""
    found: dict[str, str] = {}
    for key in keys:
        name = _short(key)
        number = 2
        while name in found:
            name = f"{_short(key)[: MOST - 2]}_{number}"
            number += 1
        found[name] = key
    return found


def _short(key: str) -> str:
    words = [word for part in key.upper().split(".") for word in part.split("_") if word]
    length = max(map(len, words), default=1)
    while len(name := "_".join(word[:length] for word in words)) > MOST and length > 1:
        length -= 1
    return name[:MOST]
