"""Keeps the log folder below its quota by removing the oldest logs.

Only regular files with our naming pattern are counted and removed, never a file being written: its
writer holds a lock.
"""

import fcntl
import os

from vehicled.log.schema import age_key, is_log_name


def lock(fd: int) -> bool:
    """Mark an open file as being written. Return False if another process holds the lock or the
    file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_being_written(path: str) -> bool:
    """True if a living writer holds the file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Closing the descriptor releases the lock.
        return not lock(fd)
    finally:
        os.close(fd)


def enforce(folder: str, quota_bytes: int, keep: str) -> list[str]:
    """Remove the oldest logs of ``folder`` until the total is below the quota. Return the names
    removed.

    ``keep`` is the name of the caller's own open file. Files that cannot be removed are skipped
    without an error.
    """
    sizes: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_log_name(entry.name) and entry.is_file(follow_symlinks=False):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    except OSError:
        return []
    total = sum(sizes.values())
    removed: list[str] = []
    for name in sorted(sizes, key=age_key):
        if total <= quota_bytes:
            break
        path = os.path.join(folder, name)
        if name == keep or is_being_written(path):
            continue
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= sizes[name]
        removed.append(name)
    return removed
