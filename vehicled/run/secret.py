"""Reads secrets that a profile names: a file, or a credential that systemd passes to the service."""

import os
from pathlib import Path

from vehicled.app import SetupError


def read_secret(name: str, *, key: str, file: str, credential: str) -> tuple[str, Path]:
    """Return the content and path of a secret.

    Raises :class:`SetupError` with the ``key`` of the profile, the ``name`` of the secret and its path, never the secret.
    """
    path = Path(file).expanduser() if file else Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), credential)
    try:
        return path.read_text(), path
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SetupError(f"{key}: cannot read the {name} from {path} ({reason})") from None
