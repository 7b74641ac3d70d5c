"""Checks before arming that profile and calibration belong to this vehicle.

Reads a few small files and measures nothing.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from vehicled.profile.loading import Loaded
from vehicled.runtime.board import facts
from vehicled.runtime.board.claim import BoardCalibration, judge
from vehicled.runtime.realtime import FIFO_PRIORITY

DEFAULT_FOLDER = Path("/etc/vehicled")
CALIBRATION = "board.json"
NAMED_SHORTFALLS = 2
"""Number of shortfalls named in the message; the others are counted."""


def folder() -> Path:
    """Return the folder of the service's settings: from systemd, else ``/etc/vehicled``."""
    named = os.environ.get("CONFIGURATION_DIRECTORY", "")
    return Path(named.split(":")[0]) if named else DEFAULT_FOLDER


def hash_file(profile: Path) -> Path:
    """Return the hash file of a checked profile, in ``sha256sum`` format beside the profile."""
    return profile.with_suffix(".sha256")


def read_calibration(file: Path) -> BoardCalibration | None:
    """Return the stored calibration of a board; None if there is none. Raises ValueError for an
    invalid file."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    try:
        return msgspec.json.decode(data, type=BoardCalibration)
    except msgspec.DecodeError as error:
        raise ValueError(f"{file} is not a valid calibration ({error})") from None


def setup_fault(loaded: Loaded, settings: Path | None = None) -> str:
    """Return the reason why this profile must not be armed on this board, with its remedy; empty if
    it may. Never raises."""
    settings = settings or folder()
    return _changed(loaded) or _other_board(loaded) or _too_much(loaded, settings / CALIBRATION)


def _changed(loaded: Loaded) -> str:
    if not loaded.path:
        return ""
    profile = Path(loaded.path)
    try:
        words = hash_file(profile).read_text().split()
    except (OSError, UnicodeDecodeError):
        return ""
    try:
        now = hashlib.sha256(profile.read_bytes()).hexdigest()
    except OSError as error:
        return f"cannot read {profile} ({error.strerror})"
    if words[:1] == [now]:
        return ""
    return (
        f"{profile} has changed since it was checked: sudo vehicled service install --profile "
        f"{profile}, then restart"
    )


def _other_board(loaded: Loaded) -> str:
    wanted, here = loaded.profile.host.board, facts.identity()
    if not wanted or wanted == here:
        return ""
    return (
        f"the profile is for board {wanted}, this is {here or 'a board without a name'}: use "
        "its own profile, or correct host.board"
    )


def _too_much(loaded: Loaded, file: Path) -> str:
    again = "measure this board: sudo vehicled doctor --save"
    try:
        found = read_calibration(file)
    except ValueError as error:
        return f"{error}; {again}"
    if found is None or loaded.profile.host.allow_shortfall:
        return ""
    here = facts.identity()
    if found.board != here:
        return (
            f"the calibration {file} is for board {found.board}, this is "
            f"{here or 'a board without a name'}; {again}"
        )
    if found.fifo and not facts.may_use_fifo():
        return (
            "the rates of this board were measured at real-time priority, which this process is "
            "not permitted to use: start it as the service, or raise its limit (ulimit -r "
            f"{FIFO_PRIORITY})"
        )
    refusing = [shortfall for shortfall in judge(loaded.profile, found) if shortfall.refuses]
    if not refusing:
        return ""
    more = (
        f"; {len(refusing) - NAMED_SHORTFALLS} more, see vehicled doctor --profile"
        if len(refusing) > NAMED_SHORTFALLS
        else ""
    )
    shortfalls = "; ".join(map(str, refusing[:NAMED_SHORTFALLS]))
    return (
        f"this board does not meet the profile's requirements: {shortfalls}{more}. To arm "
        "anyway, set host.allow_shortfall = true"
    )
