"""Where the files that come with the package are: profiles, courses, systemd units."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Folder ``name`` ("profiles", "profiles/courses", "systemd") of an installed wheel, else of the checkout.

    A wheel carries the project's data folders below ``vehicled/_data``; in a checkout they stand beside the package. The folder
    is not checked for existence in the second case: the reader reports the missing file with its full path.
    """
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
