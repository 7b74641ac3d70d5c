"""Profiles: one TOML file per vehicle, validated as a whole with every mistake reported at once.

``load_profile`` gives the profile, ``load`` also its text and digest for the log, ``parse`` reads
that text again. All raise :class:`ProfileError` and nothing else for whatever a file may hold.
``check`` remarks on a valid profile.
"""

from typing import Any

from vehicled.profile.loading import (
    Loaded,
    ProfileSummary,
    describe,
    load,
    load_profile,
    names,
    parse,
    profile_in,
)
from vehicled.profile.notes import check
from vehicled.profile.problems import Note, Problem, ProfileError
from vehicled.profile.schema import Profile

__all__ = [
    "Loaded",
    "Note",
    "Problem",
    "Profile",
    "ProfileError",
    "ProfileSummary",
    "check",
    "describe",
    "json_schema",
    "load",
    "load_profile",
    "names",
    "parse",
    "profile_in",
]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a profile; see
    :func:`vehicled.profile.export.json_schema`."""
    from vehicled.profile import export  # reads source files, which no run of the daemon needs

    return export.json_schema()
