"""Names of files within a log, which may be a stranger's: they stay inside the folder that they are
written to."""

from pathlib import Path, PurePosixPath

from vehicled.log.errors import LogError

LONGEST_NAME = 200


def safe_member(folder: Path, name: str, log: str) -> Path:
    """Return the path of a file of a log below ``folder``. Raises :class:`LogError` for a name that
    leads elsewhere."""
    parts = PurePosixPath(name).parts
    unsafe = (
        not parts
        or name.startswith(("/", "~"))
        or "\\" in name
        or ":" in name
        or len(name) > LONGEST_NAME
        or not name.isprintable()
        or any(part in ("", ".", "..") for part in parts)
    )
    if unsafe:
        shown = ascii(name[:LONGEST_NAME])
        raise LogError(
            f"{log}: the log holds a file named {shown}, which leads out of the folder: it is "
            "not written"
        )
    return folder.joinpath(*parts)
