"""Identity of the software that drives: a run of other code is another run."""

import hashlib
from functools import cache
from pathlib import Path

import vehicled
from vehicled.log.fingerprint import numeric_fingerprint

_PACKAGES = ("vehicled", "drivers", "sim_backend")


@cache
def software_digest() -> str:
    """Return a digest of all source files that may decide a drive, and of the numeric libraries."""
    root = Path(vehicled.__file__).resolve().parent.parent
    digest = hashlib.sha256(numeric_fingerprint()[0].encode())
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
