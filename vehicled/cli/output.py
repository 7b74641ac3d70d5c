"""Files that a command writes: looked at before the work, and written whole or not at all."""

import os
from importlib.util import find_spec
from pathlib import Path

from vehicled.app import SetupError

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def check_output(option: str, file: Path) -> None:
    """Before the work, not after it: whether the file that ``option`` names can be written. Raises :class:`SetupError`."""
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise SetupError(f"{option} {file}: cannot be written; name a file in a folder that is there and can be written to")


def check_plot_file(file: Path) -> None:
    """The same of ``--plot``, which must be a picture besides. Raises :class:`SetupError`."""
    if file.suffix.lower() not in PLOT_SUFFIXES:
        raise SetupError(f"--plot {file}: the name must end in {', '.join(PLOT_SUFFIXES)}")
    check_output("--plot", file)
    if find_spec("matplotlib") is None:
        raise SetupError("--plot needs matplotlib: pip install matplotlib")


def write_output(file: Path, text: str) -> None:
    """Write a file, and its folder where there is none: all of it, or nothing. Raises :class:`SetupError`."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            # A pipe or a terminal is not put in place of anything.
            file.write_text(text, encoding="utf-8")
        else:
            _put(file.resolve(), text)
    except OSError as error:
        cure = "run it with sudo, or choose another place" if isinstance(error, PermissionError) else "choose another place"
        raise SetupError(f"{file} cannot be written ({error.strerror}): {cure}") from None


def _put(file: Path, text: str) -> None:
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
