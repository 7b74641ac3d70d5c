"""Licences of the packages that the lock files name, from the metadata of those that are
installed."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = (
    "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "EPL-2.0", "MIT",
    "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib",
)  # fmt: skip
"""Licences under which a program under MIT may use and ship a library unchanged."""
EXCEPTIONS = {
    "apsw": ("any-OSI", "any licence of the Open Source Initiative, as the user chooses"),
    "pymavlink": (
        "LGPL-3.0",
        "imported unchanged and from its own package, as the licence asks; an extra",
    ),
    "python-can": (
        "LGPL-3.0",
        "imported unchanged and from its own package, as the licence asks; only CAN needs it",
    ),
}
"""Packages under another licence, and why they may be used."""
_NAMES = {
    "MIT License": "MIT", "The MIT License (MIT)": "MIT", "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause", "3-Clause BSD License": "BSD-3-Clause",
    "BSD 2-Clause License": "BSD-2-Clause", "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0", "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0", "LGPL-3.0-only": "LGPL-3.0",
    "LGPLv3": "LGPL-3.0",
}  # fmt: skip
_SPDX = re.compile(r"[A-Za-z0-9.-]+( (AND|OR) [A-Za-z0-9.-]+)*")


def locked(*locks: str) -> list[str]:
    """Return the names of all packages of the lock files."""
    texts = [(ROOT / lock).read_text() for lock in locks]
    return sorted(
        {
            name
            for text in texts
            for name in re.findall(r"^([a-z0-9][a-z0-9.-]*)==", text, re.MULTILINE)
        }
    )


def licence(package: str) -> str | None:
    """Return the licence of a package as an SPDX expression, None where it is not installed.

    Older metadata have classifiers of which some name a family only ("BSD"), or free text.
    """
    try:
        about = metadata.metadata(package).json
    except metadata.PackageNotFoundError:
        return None
    if expression := str(about.get("license_expression", "")):
        return _NAMES.get(expression, expression)
    text = str(about.get("license", "")).split("\n")[0].strip()
    text = _NAMES.get(text, text.replace(", ", " OR "))
    classified = [
        line.rpartition(" :: ")[2]
        for line in about.get("classifier", ())
        if line.startswith("License :: ")
    ]
    found = " OR ".join(_NAMES.get(each, each) for each in classified)
    return text if _SPDX.fullmatch(text) and (not found or found == "BSD") else found or text


def permitted(expression: str) -> bool:
    """Return whether every part of an SPDX expression, or one of its alternatives, is allowed."""
    return any(
        all(part.strip() in ALLOWED for part in choice.split(" AND "))
        for choice in expression.split(" OR ")
    )


def installed_by() -> dict[str, list[str]]:
    """Return the packages that each way of installation names itself: ``""`` for the daemon alone,
    then the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: [re.split(r"[^A-Za-z0-9.-]", each, maxsplit=1)[0] for each in names]
        for extra, names in groups.items()
    }
