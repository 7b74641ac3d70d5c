"""Creates the service's Python environment in /opt, where neither home directories nor system
upgrades affect it.

Uses the system's Python if it is new enough, else one installed by uv and pinned. Only the standard
library and Python 3.10 syntax are allowed here.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from vehicled.cli.installation import Installer, InstallError

PLACE = "/opt/vehicled"
PYTHONS = "/opt/vehicled-python"
"""Folder of the Python that uv installs."""
PINNED = "3.12"
OLDEST = (3, 11)
HIDDEN = ("/home", "/root", "/run/user", "/tmp")  # noqa: S108
"""Folders that the systemd unit hides from the service."""
_OFFLINE = (
    "without a network: create /opt/vehicled on another board of the same kind and copy it, or "
    "install Python 3.11"
)


def settle(
    installer: Installer,
    root: Path,
    version: str,
    *,
    base: Path | None = None,
    python: Sequence[int] | None = None,
) -> None:
    """Create the environment or update it to this version. Does nothing if it is up to date or if
    this process runs from it.

    ``root`` is the checkout or the folder of the installed package, ``base`` the interpreter to
    build on, ``python`` its version; the defaults are those of this process. Raises
    :class:`InstallError` if Python is too old and uv is missing.
    """
    place = Path(PLACE)
    if not installer.for_this_system:
        installer.say(f"skip    {PLACE} (belongs to another system: create it there)")
        return
    if Path(sys.prefix).resolve() == place.resolve():
        return
    command = place / "bin" / "vehicled"
    if command.exists():
        there = _version_of(command)
        if there == version:
            return
        if not installer.owns_tree(PLACE):
            raise InstallError(
                f"{command} is {there or 'broken'}, this is {version}, and this command did "
                f"not create it: remove {place}"
            )
    else:
        base = base or Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        running = tuple(python or sys.version_info)[:2]
        if running < OLDEST:
            _bring_python(
                installer, f"{base} is Python {running[0]}.{running[1]}, vehicled needs 3.11"
            )
        elif str(base).startswith(tuple(f"{each}/" for each in HIDDEN)):
            _bring_python(installer, f"{base} is in a home directory, which the service cannot see")
        else:
            installer.run(
                [str(base), "-m", "venv", PLACE], "Debian, Ubuntu: apt install python3-venv"
            )
    interpreter = str(place / "bin" / "python")
    lock = root / "requirements.lock"
    uv = shutil.which("uv")
    # uv creates environments without pip.
    pip = (
        [uv, "pip", "install", "--python", interpreter]
        if installer.owns_tree(PYTHONS) and uv
        else [interpreter, "-m", "pip", "install"]
    )
    if lock.exists():
        installer.run([*pip, "--require-hashes", "-r", str(lock)], _OFFLINE)
        installer.run([*pip, "--no-deps", "--no-build-isolation", str(root)], _OFFLINE)
    else:
        installer.run([*pip, f"vehicled=={version}"], _OFFLINE)
    installer.own_tree(PLACE)


def take_away(installer: Installer) -> None:
    """Remove the environment that :func:`settle` created."""
    for path in (PLACE, PYTHONS):
        if installer.owns_tree(path):
            installer.remove_tree(path)
            installer.disown(path)


def _bring_python(installer: Installer, why: str) -> None:
    uv = shutil.which("uv")
    if uv is None:
        raise InstallError(
            f"{why}, and uv is not installed: sudo python3 -m pip install uv, or apt install "
            "python3.11"
        )
    environ = {"UV_PYTHON_INSTALL_DIR": PYTHONS}
    installer.run([uv, "python", "install", PINNED], _OFFLINE, environ=environ)
    installer.own_tree(PYTHONS)
    installer.run(
        [uv, "venv", "--python-preference", "only-managed", "--python", PINNED, PLACE],
        _OFFLINE,
        environ=environ,
    )


def _version_of(command: Path) -> str:
    try:
        done = subprocess.run(
            [str(command), "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().rpartition(" ")[2]
