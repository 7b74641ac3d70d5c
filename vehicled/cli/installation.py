"""File and command operations of the service installation. Every change is printed and recorded.

Only the standard library and Python 3.10 syntax are allowed: this runs on boards whose Python is
too old for the daemon.
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

from vehicled.core.errors import UserError

SETTINGS = "/etc/vehicled"
MANIFEST = f"{SETTINGS}/.installed.json"
TIMEOUT_S = 900.0
"""Timeout of one command, s; a slow board may install packages for minutes."""


class InstallError(UserError):
    """The installation is impossible, or a command failed; the text gives the remedy."""


class Installer:
    """Writes and removes files and runs commands below a prefix, or only prints these actions."""

    def __init__(self, prefix: str, *, dry: bool, say: Callable[[str], None] = print) -> None:
        """Take the prefix. A ``prefix`` other than ``/`` is the image of another system: files go
        there, no command is run."""
        self.prefix = Path(prefix)
        self.dry = dry
        self.for_this_system = self.prefix.resolve() == Path("/")
        self.say = say
        self._owned = _manifest(self.place(MANIFEST))

    # # ---------------------------------------------------------------- state

    def place(self, path: str) -> Path:
        """Return the present place of a path of the installed system."""
        return self.prefix / path.lstrip("/")

    @property
    def profiles(self) -> list[str]:
        return sorted({name for entry in self._owned.values() for name in entry["for"] if name})

    def owned(self, profile: str) -> list[str]:
        """Return the files installed for one profile; for ``""`` those shared by all."""
        return sorted(path for path, entry in self._owned.items() if entry["for"] == [profile])

    def is_ours(self, path: str) -> bool:
        """Return True if the file is unchanged since its installation."""
        entry, data = self._owned.get(path), _read(self.place(path))
        return entry is not None and data is not None and entry["sha256"] == _hash(data)

    def must_be_writable(self, folders: Sequence[str], command: str) -> None:
        """Raise :class:`InstallError` if a folder is not writable, before anything is changed."""
        for name in folders:
            place = self.place(name)
            while not place.exists() and place != place.parent:
                place = place.parent
            if not os.access(place, os.W_OK | os.X_OK):
                raise InstallError(f"cannot write to {place} as this user: sudo {command}")

    # # ---------------------------------------------------------------- changes

    def write(
        self, path: str, data: bytes, *, profile: str = "", mode: int = 0o644, always: bool = False
    ) -> bool:
        """Write a file, but keep an edited one unless ``always``. Return True if it now has the
        wanted content."""
        place = self.place(path)
        there = _read(place)
        if there == data:
            self.say(f"same    {place}")
            if path in self._owned:
                self._own(path, data, profile)
            return True
        if there is not None and not always and not self.is_ours(path):
            self.say(
                f"keep    {place} (edited, or not from vehicled: remove it and repeat to "
                "install vehicled's own)"
            )
            return False
        self.say(f"write   {place}")
        if not self.dry:
            place.parent.mkdir(parents=True, exist_ok=True)
            # Write beside the file, then rename, so that a power cut cannot leave half a unit.
            new = place.with_name(f".{place.name}.new")
            new.write_bytes(data)
            new.chmod(mode)
            new.replace(place)
        self._own(path, data, profile)
        return True

    def remove(self, path: str) -> None:
        """Remove an installed file, but keep an edited one."""
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
        place = self.place(path)
        left = (
            [each for each in place.iterdir() if each != self.place(MANIFEST)]
            if place.is_dir()
            else []
        )
        if place.is_dir() and not left:
            self.say(f"remove  {place}")
            if not self.dry:
                place.rmdir()

    def remove_tree(self, path: str) -> None:
        """Remove a folder with its content."""
        place = self.place(path)
        if place.is_dir():
            self.say(f"remove  {place} and its content")
            if not self.dry:
                shutil.rmtree(place)

    def run(
        self,
        argv: Sequence[str],
        why: str = "",
        *,
        environ: Mapping[str, str] | None = None,
        needs: str = "",
    ) -> None:
        """Run a command on the installed system; skip it if the path ``needs`` does not exist.

        Raises :class:`InstallError` with the command's output if it fails; ``why`` is the remedy.
        """
        text = " ".join(
            [*(f"{name}={value}" for name, value in (environ or {}).items()), shlex.join(argv)]
        )
        if not self.for_this_system:
            self.say(f"skip    {text} (another system's files: run it there)")
            return
        if needs and not Path(needs).exists() and not self.dry:
            self.say(f"skip    {text} (not needed: no {needs})")
            return
        self.say(f"run     {text}")
        if self.dry:
            return
        cure = f"; {why}" if why else ""
        try:
            done = subprocess.run(
                list(argv),
                env={**os.environ, **(environ or {})},
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except FileNotFoundError:
            raise InstallError(f"{argv[0]} is not installed{cure}") from None
        except subprocess.TimeoutExpired:
            raise InstallError(
                f"{text}: not finished after {TIMEOUT_S / 60:.0f} minutes{cure}"
            ) from None
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "no output")[-600:]
            raise InstallError(f"{text}: failed with status {done.returncode}: {said}{cure}")

    def keep_account(self) -> None:
        """Write the list of installed files, or remove it if none is left."""
        place = self.place(MANIFEST)
        if self.dry:
            return
        if self._owned:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(self._owned, indent=1, sort_keys=True) + "\n")
        else:
            place.unlink(missing_ok=True)

    def own_tree(self, path: str) -> None:
        """Record a folder that was created as a whole."""
        self._owned[path] = {"sha256": "tree", "for": []}

    def owns_tree(self, path: str) -> bool:
        """Return True if :meth:`own_tree` recorded the folder."""
        return self._owned.get(path, {}).get("sha256") == "tree"

    def disown(self, path: str) -> None:
        """Remove a path from the record."""
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
        raise InstallError(
            f"{place} is damaged: remove it; the files of the earlier installation are then kept"
        ) from None
    return found


def _read(place: Path) -> bytes | None:
    try:
        return place.read_bytes()
    except OSError:
        return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
