"""Twin files: every number of a vehicle with its status, origin and uncertainty.

    mass_kg = { value = 2376.0, status = "derived", origin = "lfdm", spread = 0.05 }

A file holds the whole tree of :class:`sim_backend.plant.double_track.parameters.TwinParameters`; a
missing number is an error, never a default. ``spread`` is one standard deviation relative to the
value, ``spread_abs`` the same in the number's unit.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec.inspect as mi
from msgspec import Struct

from sim_backend.plant.double_track.checks import check
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.scene.anchor import expanded
from vehicled.profile import Problem, ProfileError, profile_files, toml_text
from vehicled.profile.collect import MAX_PROBLEMS, Collector
from vehicled.profile.problems import KeyPath, by_line, choices, dotted, found, nearest, printable
from vehicled.profile.schema import Profile, Table

Status = Literal["published", "calibrated", "derived", "assumed"]
STATUSES: tuple[Status, ...] = ("published", "calibrated", "derived", "assumed")
CHANGED = "changes"
"""Origin of values that the profile changes."""
MAX_SPREAD = 10.0
MAX_SPREAD_ABS = 1e12
_DEEPEST = 8
"""Deepest nesting of tables in changes; the parameters have fewer levels."""
_RECORD = ("value", "status", "origin", "spread", "spread_abs")
_EXAMPLE = '{ value = %s, status = "...", origin = "...", spread = ... }'


class Provenance(Struct, frozen=True):
    """Origin of one number, or of one list of numbers."""

    status: Status
    origin: str
    """Key in :attr:`Twin.origins`."""
    spread: float
    """One standard deviation, relative to the value, or with ``absolute`` in its unit. It applies
    to each element of a list."""
    absolute: bool


class Twin(Struct, frozen=True):
    """One vehicle for the double-track plant."""

    parameters: TwinParameters
    provenance: dict[str, Provenance]
    """Provenance by dotted key, such as "body.mass_kg"; complete for ``parameters``."""
    origins: dict[str, str]
    source: str
    """Text of the file, without changes."""
    digest: str
    """SHA-256 of the text and of the changes, hex."""
    path: str


class Header(Table, frozen=True, kw_only=True):
    """Keys of a twin file beside the parameters."""

    schema: Literal[1]
    origins: dict[str, str]


def load_twin(name_or_file: str, changes: Mapping[str, Any] | None = None) -> Twin:
    """Load the twin of that name, or from a file if the name has a slash or ends in ``.toml``.

    ``changes`` maps dotted keys to plain values that replace those of the file; nested tables
    extend the key. Raises ProfileError with all mistakes.
    """
    path = find(name_or_file)
    return parse(profile_files.read(path), str(path), changes)


def parse(text: str, origin: str, changes: Mapping[str, Any] | None = None) -> Twin:
    """Read a twin from text, like :func:`load_twin`; ``origin`` names the text in errors."""
    if not changes:
        return _unchanged(text, origin)
    data = toml_text.parse(text, printable(origin, 300))
    return _build(data, text, origin, dict(_flat(changes, "")))


@lru_cache(8)
def _unchanged(text: str, origin: str) -> Twin:
    """Return the twin of a text. Each drive of a study reads it several times, and nobody writes to
    it."""
    return _build(toml_text.parse(text, printable(origin, 300)), text, origin, {})


def anchored(profile: Profile, path: str) -> Profile:
    """Return the profile read from ``path`` with its relative twin path resolved against that
    file."""
    from msgspec.structs import replace

    twin = profile.sim.twin
    if twin is None or not path or not _is_file(twin.vehicle):
        return profile
    file = Path(path).parent / expanded(twin.vehicle)
    return replace(profile, sim=replace(profile.sim, twin=replace(twin, vehicle=str(file))))


def names() -> list[str]:
    """Return the names that :func:`load_twin` knows, sorted."""
    return sorted(_files())


def find(name_or_file: str) -> Path:
    """Return the file of a twin. Raises ProfileError for an unknown name, with the nearest known
    one."""
    if _is_file(name_or_file):
        return profile_files.find(name_or_file)
    files = _files()
    if name_or_file in files:
        return files[name_or_file]
    close = nearest(name_or_file, files, cutoff=0.5)
    hint = f'did you mean "{close}"? ' if close else ""
    message = (
        f"no twin of that name; {hint}There are {choices(sorted(files)) or 'none'}. To load a "
        "file, give its path: ./my.toml"
    )
    raise ProfileError([Problem("", message)], f'twin "{printable(name_or_file)}"')


def _is_file(name_or_file: str) -> bool:
    return "/" in name_or_file or name_or_file.endswith(".toml")


def _files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in reversed(profile_files.folders()):
        try:
            files |= {path.stem: path for path in (folder / "twins").glob("*.toml")}
        except OSError:  # An unreadable user folder must not hide the shipped twins.
            continue
    return files


def _build(data: dict[str, Any], text: str, origin: str, changes: dict[str, Any]) -> Twin:
    places: toml_text.Places | None = None

    def place(key: KeyPath) -> str:
        nonlocal places
        if dotted(key) in changes:
            return CHANGED
        places = places or toml_text.Places(text, ())
        return places.of(key)

    header_keys = Header.__struct_fields__
    head, body = Collector(place, {}), Collector(place, {})
    header: Any = head.build(
        Header, {key: value for key, value in data.items() if key in header_keys}
    )
    origins = data.get("origins")
    records = _Records(set(origins) if isinstance(origins, dict) else set(), place)
    tree = {key: value for key, value in data.items() if key not in header_keys}
    kind = mi.type_info(TwinParameters)
    plain: dict[str, Any] = records.plain(kind, tree, ())
    unknown = list(_changed(plain, changes))
    parameters: Any = body.build(TwinParameters, plain)
    problems = [*head.problems, *records.problems, *body.problems]
    if not problems:
        problems = [
            Problem(key, reason, place(tuple(key.split(".")))) for key, reason in check(parameters)
        ]
    problems = sorted(problems, key=by_line) + unknown
    if problems:
        if len(problems) >= MAX_PROBLEMS:
            problems = [
                *problems[:MAX_PROBLEMS],
                Problem("", "... and more; check that this is a twin file"),
            ]
        raise ProfileError(problems, printable(origin, 300))
    provenance = records.provenance
    listed = dict(header.origins)
    if changes:
        listed[CHANGED] = "changed for this run"
        provenance |= {
            key: Provenance("assumed", CHANGED, 0.0, absolute=True)
            for key in changes
            if key in provenance
        }
    digest = hashlib.sha256(text.encode())
    digest.update("".join(f"{key} = {changes[key]!r}\n" for key in sorted(changes)).encode())
    return Twin(parameters, provenance, listed, text, digest.hexdigest(), origin)


def _flat(changes: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in changes.items():
        if isinstance(value, dict) and prefix.count(".") < _DEEPEST:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _changed(plain: dict[str, Any], changes: Mapping[str, Any]) -> Iterator[Problem]:
    """Write the changes into the tree; yield a problem for each unknown key."""
    leaves = dict(_leaves(plain, ""))
    for key, value in changes.items():
        if key in leaves:
            table, last = leaves[key]
            table[last] = value
            continue
        close = nearest(key, leaves, cutoff=0.5)
        hint = f'; did you mean "{close}"?' if close else "; see the file for its keys"
        yield Problem(printable(key), f"no such parameter{hint}", CHANGED)


def _leaves(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", (table, key)


class _Records:
    """Walk over the tree that separates the values from their provenance."""

    def __init__(self, origins: set[str], place: Callable[[KeyPath], str]) -> None:
        self.problems: list[Problem] = []
        self.provenance: dict[str, Provenance] = {}
        self._origins = origins
        self._place = place

    def plain(self, kind: mi.Type, raw: Any, path: KeyPath) -> Any:
        """Return ``raw`` with records replaced by their values; types are checked afterwards."""
        while isinstance(kind, mi.Metadata):
            kind = kind.type
        if _is_numbers(kind):
            return self._value(raw, path)
        if not isinstance(raw, dict):
            return raw
        fields = {field.encode_name: field.type for field in _struct_of(kind, raw)}
        built = {}
        for key, value in raw.items():
            if key not in fields:
                # The key is already reported; its content may be nested without end.
                built[key] = type(value)() if isinstance(value, (dict, list)) else value
            elif not (
                _is_numbers(fields[key]) and isinstance(value, dict) and "value" not in value
            ):
                built[key] = self.plain(fields[key], value, (*path, key))
            else:
                self._report((*path, key), f"has no value; write {_EXAMPLE % '...'}")
                built[key] = 1.0
        return built

    def _report(self, path: KeyPath, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(dotted(path), message, self._place(path)))

    def _value(self, raw: Any, path: KeyPath) -> Any:
        if not isinstance(raw, dict):
            if isinstance(raw, (int, float, list)) and not isinstance(raw, bool):
                shown = found(raw) if not isinstance(raw, list) else "[...]"
                self._report(path, f"a bare number has no origin; write {_EXAMPLE % shown}")
            return raw
        value = raw["value"]
        before = len(self.problems)
        for key in raw:
            if key not in _RECORD:
                close = nearest(key, _RECORD)
                hint = (
                    f'; did you mean "{close}"?' if close else f"; known here: {', '.join(_RECORD)}"
                )
                self._report((*path, key), f"unknown key{hint}")
        status, origin = raw.get("status"), raw.get("origin")
        if status not in STATUSES:
            given = f", found {found(status)}" if "status" in raw else ""
            self._report(
                (*path, "status"),
                f"{'must be' if given else 'missing;'} one of {choices(STATUSES)}{given}",
            )
        if not isinstance(origin, str) or origin not in self._origins:
            given = f", found {found(origin)}" if "origin" in raw else ""
            listed = choices(sorted(self._origins)) or "none yet"
            self._report(
                (*path, "origin"),
                (
                    f"{'must be' if given else 'missing;'} a key of the table [origins] "
                    f"({listed}){given}"
                ),
            )
        spread = self._spread(raw, value, path)
        if len(self.problems) == before and isinstance(origin, str):
            self.provenance[dotted(path)] = Provenance(status, origin, spread, "spread_abs" in raw)  # type: ignore[arg-type]
        return value

    def _spread(self, raw: dict[str, Any], value: Any, path: KeyPath) -> float:
        given = [key for key in ("spread", "spread_abs") if key in raw]
        if len(given) != 1:
            why = (
                "give it once"
                if given
                else "missing: one standard deviation, relative to the value (0.05), or spread_abs"
            )
            self._report((*path, "spread"), why)
            return 0.0
        key = given[0]
        spread = raw[key]
        limit = MAX_SPREAD if key == "spread" else MAX_SPREAD_ABS
        if not (
            isinstance(spread, (int, float))
            and not isinstance(spread, bool)
            and 0.0 <= spread <= limit
        ):
            self._report(
                (*path, key), f"must be a number >= 0 and <= {limit:g}, found {found(spread)}"
            )
            return 0.0
        if key == "spread" and spread > 0 and value == 0:
            self._report(
                (*path, key), "a fraction of 0 is 0; write spread_abs in the unit of the number"
            )
        return float(spread)


def _struct_of(kind: mi.Type, raw: dict[str, Any]) -> tuple[mi.Field, ...]:
    """Return the fields of the table type that ``raw`` matches; empty if ambiguous."""
    match kind:
        case mi.StructType(fields=fields):
            return fields
        case mi.UnionType(types=types):
            for option in types:
                # A table that may be left out has no tag.
                if isinstance(option, mi.StructType) and (
                    option.tag_field is None or raw.get(option.tag_field) == option.tag
                ):
                    return option.fields
    return ()


def _is_numbers(kind: mi.Type) -> bool:
    """True if a type is a number or a list of numbers."""
    match kind:
        case mi.Metadata(type=inner):
            return _is_numbers(inner)
        case mi.FloatType() | mi.IntType():
            return True
        case mi.ListType(item_type=item) | mi.VarTupleType(item_type=item):
            return _is_numbers(item)
        case mi.TupleType(item_types=items):
            return all(map(_is_numbers, items))
    return False
