"""Reads secrets that a profile names: a file, or a credential that systemd passes to the
service."""

import os
from collections.abc import Iterator
from pathlib import Path

from vehicled.core.errors import SetupError
from vehicled.core.ports import SecretRef
from vehicled.profile.schema import Profile


def device_secrets(profile: Profile) -> Iterator[tuple[str, str, SecretRef]]:
    """Iterate over the passwords that devices need: device, name of its driver, reference."""
    for name, device in profile.devices.items():
        ref = getattr(device.driver.selected, "secret_ref", None)
        if isinstance(ref, SecretRef):
            yield name, device.driver.name, ref


def read_secret(name: str, *, key: str, file: str, credential: str) -> tuple[str, Path]:
    """Return the content and path of a secret.

    Raises :class:`SetupError` with the ``key`` of the profile, the ``name`` of the secret and its
    path, never the secret.
    """
    path = (
        Path(file).expanduser()
        if file
        else Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), credential)
    )
    try:
        content = path.read_text()
        if not content.strip():
            raise SetupError(f"{key}: {path} is empty; write the {name} into it")
        return content, path
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SetupError(f"{key}: cannot read the {name} from {path} ({reason})") from None
