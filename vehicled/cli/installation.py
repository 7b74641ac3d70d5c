"""What an installation of the service consists of, and the hands that put it there: every file and command is told.

Only the standard library, and nothing newer than Python 3.10: it runs on boards whose own Python is too old for the daemon.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

SETTINGS = "/etc/vehicled"
MANIFEST = f"{SETTINGS}/.installed.json"
PATIENCE_S = 900.0
"""Of one command: a slow board on a slow line installs packages for minutes."""


class InstallError(Exception):
    """The installation cannot be done, or a command of it failed; the text names the cure."""


class Hands:
    """Writes, removes and runs below a prefix, or only says what would be done."""

    def __init__(self, prefix: str, *, dry: bool, say: Callable[[str], None] = print) -> None:
        """``prefix`` other than ``/`` is an image of another system: files go below it, and no command is run for it."""
        self.prefix = Path(prefix)
        self.dry = dry
        self.for_this_system = self.prefix.resolve() == Path("/")
        self.say = say
        self._owned = _manifest(self.place(MANIFEST))

    # ---------------------------------------------------------------- what is there

    def place(self, path: str) -> Path:
        """Where a path of the installed system is now."""
        return self.prefix / path.lstrip("/")

    @property
    def profiles(self) -> list[str]:
        """Profiles that are installed."""
        return sorted({name for entry in self._owned.values() for name in entry["for"] if name})

    def owned(self, profile: str) -> list[str]:
        """Files installed for a profile alone; for ``""`` those that all share."""
        return sorted(path for path, entry in self._owned.items() if entry["for"] == [profile])

    def is_ours(self, path: str) -> bool:
        """The file is as it was installed."""
        entry, data = self._owned.get(path), _read(self.place(path))
        return entry is not None and data is not None and entry["sha256"] == _hash(data)

    def must_be_writable(self, folders: Sequence[str], command: str) -> None:
        """Raise :class:`InstallError` before anything is done, naming the first folder that may not be written."""
        for name in folders:
            place = self.place(name)
            while not place.exists() and place != place.parent:
                place = place.parent
            if not os.access(place, os.W_OK | os.X_OK):
                raise InstallError(f"{place} may not be written by this user: sudo {command}")

    # ---------------------------------------------------------------- what is done

    def write(self, path: str, data: bytes, *, profile: str = "", mode: int = 0o644, always: bool = False) -> bool:
        """Put a file there; one that somebody edited stays, unless ``always``. Whether it now is what was wanted."""
        place = self.place(path)
        there = _read(place)
        if there == data:
            self.say(f"as is   {place}")
            if path in self._owned:
                self._own(path, data, profile)
            return True
        if there is not None and not always and not self.is_ours(path):
            self.say(f"keep    {place} (edited, or not ours: remove it first to have the one that comes with vehicled)")
            return False
        self.say(f"write   {place}")
        if not self.dry:
            place.parent.mkdir(parents=True, exist_ok=True)
            # Beside it and then in its place: a power cut must not leave half a unit.
            new = place.with_name(f".{place.name}.new")
            new.write_bytes(data)
            new.chmod(mode)
            new.replace(place)
        self._own(path, data, profile)
        return True

    def remove(self, path: str) -> None:
        """Take away what was installed; what was edited since stays."""
        place = self.place(path)
        if _read(place) is None:
            self.say(f"gone    {place}")
        elif not self.is_ours(path):
            self.say(f"keep    {place} (edited since it was installed)")
        else:
            self.say(f"remove  {place}")
            if not self.dry:
                place.unlink()
        self._owned.pop(path, None)

    def remove_folder(self, path: str) -> None:
        """Take an empty folder away; one with something in it stays."""
        place = self.place(path)
        left = [each for each in place.iterdir() if each != self.place(MANIFEST)] if place.is_dir() else []
        if place.is_dir() and not left:
            self.say(f"remove  {place}")
            if not self.dry:
                place.rmdir()

    def remove_tree(self, path: str) -> None:
        """Take a folder away with everything in it."""
        place = self.place(path)
        if place.is_dir():
            self.say(f"remove  {place} and all in it")
            if not self.dry:
                shutil.rmtree(place)

    def run(self, argv: Sequence[str], why: str = "", *, environ: Mapping[str, str] | None = None, needs: str = "") -> None:
        """Run a command of the installed system. ``needs``: a path without which it has nothing to talk to.

        Raises :class:`InstallError` with what it said when it fails; ``why`` is the cure.
        """
        text = " ".join([*(f"{name}={value}" for name, value in (environ or {}).items()), shlex.join(argv)])
        if not self.for_this_system:
            self.say(f"skip    {text} (another system's files: run it there)")
            return
        if needs and not Path(needs).exists() and not self.dry:
            self.say(f"skip    {text} (nothing to tell: no {needs})")
            return
        self.say(f"run     {text}")
        if self.dry:
            return
        cure = f"; {why}" if why else ""
        try:
            done = subprocess.run(
                list(argv), env={**os.environ, **(environ or {})}, capture_output=True, text=True, check=False, timeout=PATIENCE_S
            )
        except FileNotFoundError:
            raise InstallError(f"{argv[0]} is not installed here{cure}") from None
        except subprocess.TimeoutExpired:
            raise InstallError(f"{text}: no end after {PATIENCE_S / 60:.0f} minutes{cure}") from None
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no word of why")[-600:]
            raise InstallError(f"{text}: status {done.returncode}: {said}{cure}")

    def keep_account(self) -> None:
        """Write down what is installed now, or take the account away when nothing is."""
        place = self.place(MANIFEST)
        if self.dry:
            return
        if self._owned:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(self._owned, indent=1, sort_keys=True) + "\n")
        else:
            place.unlink(missing_ok=True)

    def own_tree(self, path: str) -> None:
        """Note a folder that was made as a whole."""
        self._owned[path] = {"sha256": "tree", "for": []}

    def owns_tree(self, path: str) -> bool:
        """Whether :meth:`own_tree` noted it."""
        return self._owned.get(path, {}).get("sha256") == "tree"

    def disown(self, path: str) -> None:
        """Forget a path."""
        self._owned.pop(path, None)

    def _own(self, path: str, data: bytes, profile: str) -> None:
        self._owned[path] = {"sha256": _hash(data), "for": [profile]}


def _manifest(place: Path) -> dict[str, dict[str, Any]]:
    data = _read(place)
    if data is None:
        return {}
    try:
        found: dict[str, dict[str, Any]] = json.loads(data)
    except ValueError:
        raise InstallError(f"{place} is damaged: remove it; files of an earlier installation then stay where they are") from None
    return found


def _read(place: Path) -> bytes | None:
    try:
        return place.read_bytes()
    except OSError:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
