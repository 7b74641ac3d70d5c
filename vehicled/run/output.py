"""Output files of the commands: checked before the work, and written completely or not at all."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.core.errors import SetupError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def check_output(option: str, file: Path) -> None:
    """Raise :class:`SetupError` before the work if the file of ``option`` cannot be written."""
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise SetupError(
            f"{option} {file}: cannot be written; choose a file in an existing, writable folder"
        )


def check_plot_file(file: Path, option: str = "--plot") -> None:
    """Raise :class:`SetupError` before the work if the file of an option cannot be written or is
    not a picture."""
    if file.suffix.lower() not in PLOT_SUFFIXES:
        raise SetupError(f"{option} {file}: the name must end in {', '.join(PLOT_SUFFIXES)}")
    check_output(option, file)
    if find_spec("matplotlib") is None:
        raise SetupError(f"{option} needs matplotlib: pip install matplotlib")


def new_figure(width_in: float, height_in: float) -> "Figure":
    """Return an empty figure. It is imported here, so that a command without a picture does not
    load matplotlib."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), dpi=120, layout="constrained")


def save_figure(figure: "Figure", file: str | os.PathLike[str]) -> None:
    """Write a figure in the format of the file name's ending. Raises :class:`SetupError`."""
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot write the plot to {os.fspath(file)}: {error}") from error


def write_output(file: Path, text: str) -> None:
    """Write a file completely or not at all; create its folder. Raises :class:`SetupError`."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            # Pipes and terminals cannot be replaced by a rename.
            file.write_text(text, encoding="utf-8")
        else:
            _put(file.resolve(), text)
    except OSError as error:
        raise write_failed(file, error) from None


def write_failed(file: Path, error: OSError) -> SetupError:
    """Return the error for a file that cannot be written, with its cure."""
    cure = (
        "run it with sudo, or choose another place"
        if isinstance(error, PermissionError)
        else "choose another place"
    )
    return SetupError(f"cannot write {file} ({error.strerror}): {cure}")


def _put(file: Path, text: str) -> None:
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
