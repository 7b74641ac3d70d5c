"""Argument types shared by commands: numbers in a range, and names, which the shell completes."""

import os
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from math import nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vehicled.profile.registry import Kind

Candidates = Callable[[str, Namespace], Iterable[str]]
"""Gives the names that could stand for a text, by the arguments before it; those that do not begin
with it are left out."""


class NameType:
    """Argument type of a name that can be completed."""

    def __init__(
        self, candidates: Candidates, *, parse: Callable[[str], str] = str, or_file: bool = False
    ) -> None:
        """``or_file``: the path of a file may stand in the place of a name."""
        self._candidates = candidates
        self._parse = parse
        self._or_file = or_file

    def __call__(self, text: str) -> str:
        """Return the value of an argument."""
        return self._parse(text)

    def candidates(self, text: str, before: Namespace) -> list[str]:
        """Return the names, and files if they are allowed, that begin with ``text``."""
        found = [name for name in self._candidates(text, before) if name.startswith(text)]
        return [*found, *files(text)] if self._or_file else found


def between(least: float, most: float, what: str) -> Callable[[str], float]:
    """Return the argument type of a number in a range; ``what`` begins its error message."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not least <= value <= most:
            raise ArgumentTypeError(f"{what}, not {text!r}")
        return value

    return parse


def whole(least: int, most: int, what: str) -> Callable[[str], int]:
    """Return the argument type of a whole number in a range; ``what`` begins its error message."""

    def parse(text: str) -> int:
        if not (
            text.isdecimal()
            and text.isascii()
            and len(text) <= len(str(most))
            and least <= int(text) <= most
        ):
            raise ArgumentTypeError(f"{what}, not {text!r}")
        return int(text)

    return parse


def log_folder(text: str) -> str:
    """Return the folder of a log. A name for the log itself is refused: it would become a folder of
    that name."""
    if text.endswith((".mcap", ".mcap/")) and not os.path.isdir(text):
        folder = os.path.dirname(text.rstrip("/")) or "."
        raise ArgumentTypeError(
            f"expected a folder, in which the log gets a name of its own, such as {folder}, "
            f"not {text!r}"
        )
    return text


def files(text: str) -> list[str]:
    """Return the files and folders whose path begins with ``text``."""
    folder, name = os.path.split(text)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [
                (entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(name)
            ]
    except OSError:
        return []
    shown = sorted(row for row in found if name.startswith(".") or not row[0].startswith("."))
    return [os.path.join(folder, file) + ("/" if is_folder else "") for file, is_folder in shown]


def _profiles(text: str, before: Namespace) -> list[str]:
    from vehicled.profile import names

    return list(names())


def _courses(text: str, before: Namespace) -> list[str]:
    from vehicled.paths.catalog import names, parameters

    head, colon, given = text.partition(":")
    if not colon:
        return list(names())
    done, comma, _ = given.rpartition(",")
    return [f"{head}:{done}{comma}{key}=" for key in parameters(head)]


def _failures(text: str, before: Namespace) -> list[str]:
    from sim_backend.emulators.failures import KINDS

    port, colon, _ = text.partition(":")
    return (
        [f"{port}:{kind}@" for kind in KINDS]
        if colon
        else [f"{name}:" for name in _profile(before).devices]
    )


def _keys(text: str, before: Namespace) -> list[str]:
    from msgspec import Struct
    from msgspec.structs import fields

    path = text.split(".")[:-1]
    table: object = _profile(before)
    for name in path:
        table = table.get(name) if isinstance(table, dict) else getattr(table, name, None)
    if isinstance(table, dict):
        items = dict(table)
    elif isinstance(table, Struct):
        items = {field.name: getattr(table, field.name) for field in fields(table)}
    else:
        return []
    ends = {name: "." if isinstance(value, Struct | dict) else "=" for name, value in items.items()}
    return [".".join([*path, f"{name}{ends[name]}"]) for name in items]


def _profile(before: Namespace):  # type: ignore[no-untyped-def]  # a Profile, whose type is loaded late
    """Return the profile named before, or the default one if that cannot be read."""
    from vehicled.profile import ProfileError, load_profile

    for name in (getattr(before, "profile", None), "art"):
        try:
            return load_profile(name or "art")
        except ProfileError:
            continue
    raise AssertionError("the built-in profile art cannot be read")


def _registered(*kinds: "Kind") -> Candidates:
    def names_of(text: str, before: Namespace) -> list[str]:
        from vehicled.profile.registry import names

        return sorted({name for kind in kinds for name in names(kind)})

    return names_of


def _programmes(text: str, before: Namespace) -> list[str]:
    from vehicled.control.programmes import PROGRAMMES

    return list(PROGRAMMES)


def _logs(text: str, before: Namespace) -> list[str]:
    from vehicled.run.log_names import LATEST, names

    return [LATEST, *names()]


def _log(text: str) -> str:
    from vehicled.run.log_names import log_name

    return log_name(text)


def _topics(text: str, before: Namespace) -> list[str]:
    from vehicled.core.messages import ALL
    from vehicled.log.schema import topic_of

    return [topic_of(kind).rpartition("/")[2] for kind in ALL]


def _twins(text: str, before: Namespace) -> list[str]:
    from sim_backend.plant.twin_file import names

    return list(names())


def _scenes(text: str, before: Namespace) -> list[str]:
    from vehicled.paths.scenes import names

    return names()


def _studies(text: str, before: Namespace) -> list[str]:
    from vehicled.core.shipped import folder

    return sorted(path.stem for path in folder("profiles/studies").glob("*.toml"))


JOBS = whole(1, 1024, "expected a number of processes from 1 to 1024")
PROFILE = NameType(_profiles, or_file=True)
COURSE = NameType(_courses, or_file=True)
PROFILE_OR_COURSE = NameType(
    lambda text, before: [*_profiles(text, before), *_courses(text, before)], or_file=True
)
PROGRAMME = NameType(_programmes, or_file=True)
LOG = NameType(_logs, parse=_log, or_file=True)
CONTROLLER = NameType(_registered("controller"), or_file=True)
ESTIMATOR = NameType(_registered("estimator"), or_file=True)
IDENTIFIER = NameType(_registered("identifier"), or_file=True)
DECODER = NameType(_registered("decoder", "CAN decoder"), or_file=True)
SCENE = NameType(_scenes, or_file=True)
TWIN = NameType(_twins, or_file=True)
STUDY = NameType(_studies, or_file=True)
KEY = NameType(_keys)
FAILURE = NameType(_failures)
TOPIC = NameType(_topics)
FILE = NameType(lambda text, before: (), or_file=True)
TEXT = NameType(lambda text, before: ())
"""A text that nothing completes, in the place of a file."""
