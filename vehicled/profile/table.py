"""Base class of the tables of a profile, and types that several of them share."""

from typing import Annotated

from msgspec import Meta, Struct

Vector3 = Annotated[list[float], Meta(min_length=3, max_length=3)]
Rate = Annotated[float, Meta(gt=0.0, le=10_000.0)]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the profile: immutable, and an unknown key is an error.

    Keyword-only is not inherited, frozen not in the eyes of type checkers: hence both are repeated.
    """
