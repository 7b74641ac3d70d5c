"""Location of the data files that ship with the package: profiles, courses, systemd units."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def folder(name: str) -> Path:
    """Return the folder ``name`` ("profiles", "profiles/courses", "systemd") of an installed wheel,
    else of the checkout.

    A wheel holds the data folders in ``vehicled/_data``; a checkout holds them beside the package.
    A missing folder is reported by the reader of the file, with its full path.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
