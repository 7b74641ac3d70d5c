"""Files of profiles: the folders that hold them by name, and the text of one."""

import os
import stat
from collections.abc import Collection
from pathlib import Path

from vehicled.core import shipped
from vehicled.profile.problems import Problem, ProfileError, choices, nearest, printable

MAX_BYTES = 256 * 1024
"""A profile is a page or two of text; something larger is another file."""


def folders() -> tuple[Path, ...]:
    """Return the folders that are searched for names, the user's own first."""
    shipped_folder = shipped.folder("profiles")
    try:
        return (Path.home() / ".config" / "vehicled" / "profiles", shipped_folder)
    except RuntimeError:  # an account without a home, as a service may have
        return (shipped_folder,)


def names() -> list[str]:
    """Return the names that :func:`load_profile` knows, sorted."""
    return sorted(files())


def find(name_or_file: str, below: Collection[Path] = ()) -> Path:
    """Return the file of a profile. Raises ProfileError for an unknown name, with the nearest one.

    A name that stands in a file of ``below`` means the next file of that name: the shipped one
    under one of the user's own.
    """
    if "\0" in name_or_file or not name_or_file.strip():
        raise ProfileError([Problem("", "a profile needs a name or a file")])
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        try:
            return Path(name_or_file).expanduser()
        except RuntimeError as error:
            raise ProfileError([Problem("", str(error))], printable(name_or_file)) from None
    known = files(below)
    if name_or_file in known:
        return known[name_or_file]
    close = nearest(name_or_file, known, cutoff=0.5)
    hint = f'did you mean "{close}"? There' if close else "there"
    message = (
        f"no profile of that name; {hint} are {choices(sorted(known)) or 'none'}. A file is "
        "given with its path: ./my.toml"
    )
    raise ProfileError([Problem("", message)], f'profile "{printable(name_or_file)}"')


def files(below: Collection[Path] = ()) -> dict[str, Path]:
    """Return the profiles by name, the user's own before shipped ones, without those of
    ``below``."""
    found: dict[str, Path] = {}
    for folder in reversed(folders()):
        try:
            found |= {
                path.stem: path
                for path in folder.glob("*.toml")
                if not below or path.resolve() not in below
            }
        except OSError:  # an unreadable folder of the user must not hide the shipped profiles
            continue
    return found


def read(path: Path) -> str:
    """Return the text of a file. Raises ProfileError if it is unreadable, too large or no text."""

    def refuse(message: str) -> ProfileError:
        return ProfileError([Problem("", message)], printable(str(path), 300))

    try:
        # Check the type first: opening a pipe without a writer would block for ever.
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise refuse("is a folder; name the .toml file inside it")
        if not stat.S_ISREG(mode):
            raise refuse("is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = nearest(path.name, _siblings(path))
        raise refuse(f"no such file{f'; did you mean {near}?' if near else ''}") from None
    except PermissionError:
        raise refuse(
            f"may not be read by this user; try: chmod a+r {printable(path.name)}"
        ) from None
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise refuse(f"is larger than {MAX_BYTES // 1024} KiB; this is not a profile")
    try:
        return data.decode("utf-8-sig")  # some editors begin the file with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        kind = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "not UTF-8"
        raise refuse(f"is {kind} text (line {line}); save it as UTF-8") from None


def _siblings(path: Path) -> list[str]:
    try:
        return os.listdir(path.parent)
    except OSError:
        return []
