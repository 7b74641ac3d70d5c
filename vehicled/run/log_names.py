"""Short names of logs: ``latest``, ``latest:2`` for the one before, or the beginning of a file
name."""

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ENDING = ".mcap"
LATEST = "latest"
LOG_HELP = "log: a file, latest, latest:2 for the one before, or the beginning of its name"
_LATER_PART = re.compile(r"_part\d+\.mcap$")


def log_name(text: str) -> str:
    """Argument type: return the path of the named log, or ``text`` itself if no known log matches.

    Raises ArgumentTypeError for ``latest`` if no log exists, and for a beginning that several logs
    share.
    """
    if os.path.exists(text):
        return text
    head, name = os.path.split(text)
    which, colon, number = name.partition(":")
    if which == LATEST:
        if colon and not (
            number.isdecimal() and number.isascii() and 1 <= len(number) <= 6 and int(number) > 0
        ):
            raise ArgumentTypeError(f"{text!r}: use latest, or latest:2 for the run before it")
        n = int(number) if colon else 1
        logs = _logs([Path(head)] if head else folders())
        if len(logs) < n:
            places = head or ", ".join(map(str, folders()))
            raise ArgumentTypeError(
                f"{text!r}: found {len(logs) or 'no'} logs in {places}; give the file of a log"
            )
        return str(logs[n - 1])
    if head or text.endswith(ENDING) or not text:
        return text
    found = [log for log in _logs(folders()) if log.name.startswith(text)]
    if len(found) > 1:
        raise ArgumentTypeError(
            f"{text!r} begins the names of {len(found)} logs, such as {found[0].name}: give "
            "more letters"
        )
    return str(found[0]) if found else text


def folders() -> list[Path]:
    """Return the folders searched for logs: the current one and the default log folder of the
    profiles."""
    from vehicled.profile.schema import LogTable

    places = [Path()]
    # A user may have no home directory.
    with suppress(RuntimeError):
        places.append(Path(LogTable().folder).expanduser())
    return places


def names() -> list[str]:
    """Return the names of the logs, newest first."""
    return [log.name for log in _logs(folders())]


def _logs(places: list[Path]) -> list[Path]:
    """Return the first file of each run, newest first."""
    return sorted(
        {path for place in places for path in _files(place)},
        key=lambda path: (_changed_ns(path), path.name),
        reverse=True,
    )


def _files(place: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in place.glob(f"*{ENDING}") if not _LATER_PART.search(path.name))


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
