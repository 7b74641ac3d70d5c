"""Error of the log package, and texts for errors of the operating system."""

import errno
import os

from vehicled.core.errors import UserError


class LogError(UserError):
    """Error raised when a log cannot be read or written. The message names the file, the problem
    and, if known, the remedy."""


_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota of this user is used up",
    errno.EFBIG: "the file may not grow any further (limit of the process or of the file system)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EIO: "the medium reports an input/output error",
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EISDIR: "this is a folder, not a log",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EEXIST: "there is such a file already",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.ENOMEM: "the system has no memory left",
}
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Errors of a disk without space."""


def why(error: OSError) -> str:
    """Return a sentence for an error of the operating system, with the file it is about."""
    number = error.errno if error.errno is not None else 0
    reason = _REASONS.get(number) or os.strerror(number)
    return f"{error.filename}: {reason}" if error.filename else reason
