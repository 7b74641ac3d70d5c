"""Fingerprint of the code that drives, so that a study does not reuse runs of other code."""

import hashlib
from functools import cache
from pathlib import Path

import vehicled
from vehicled.core import shipped
from vehicled.log.fingerprint import numeric_fingerprint

_PACKAGES = ("vehicled", "drivers", "sim_backend")


@cache
def software_digest() -> str:
    """Return a digest of all source and data files that may decide a drive, and of the numeric
    libraries."""
    root = Path(vehicled.__file__).resolve().parent.parent
    digest = hashlib.sha256(numeric_fingerprint()[0].encode())
    data = shipped.folder("profiles")
    files = [
        (path.relative_to(root), path)
        for package in _PACKAGES
        for path in (root / package).rglob("*.py")
    ]
    # Twins and courses, which profiles name without a path. A study file is compared by itself.
    files += [
        (path.relative_to(data), path)
        for path in data.rglob("*.*")
        if path.parent.name != "studies" and path.is_file()
    ]
    for name, path in sorted(files):
        digest.update(str(name).encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
