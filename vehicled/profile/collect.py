"""Validated structs from plain values, with every mistake reported instead of the first one.

msgspec validates while it builds and stops at the first error, which is right for messages and
wrong for people. This walk goes by the same type information (``msgspec.inspect``) and by the same
rules, with four more for files written by hand: numbers are finite, whole numbers fit 64 bits,
unknown keys are mistakes in every table, and names are looked up in the registry.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec.inspect as mi
from msgspec import NODEFAULT, Struct

from vehicled.profile import plugins, registry
from vehicled.profile.problems import (
    ANY_KEY,
    KeyPath,
    Problem,
    choices,
    dotted,
    found,
    nearest,
    printable,
)
from vehicled.profile.schema import Choice
from vehicled.profile.units import did_you_mean
from vehicled.profile.wording import cure, describe, missing

INVALID: Any = object()
"""Stands for a value that could not be built; the reason is among the problems."""
MAX_PROBLEMS = 300
"""No honest file has more; the limit keeps hostile ones cheap."""


def build_table(struct: type[Struct], data: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return the struct of a table outside a profile, and the mistakes with their keys. With
    mistakes the struct is of no use."""
    collector = Collector(lambda _: "", {})
    return collector.build(struct, data), [str(each) for each in collector.problems]


class TableView:
    """One table as a rule sees it: what is valid by itself, so that one wrong key does not hide a
    contradiction of two others."""

    def __init__(
        self,
        written: Mapping[str, Any],
        valid: Mapping[KeyPath, Any],
        path: KeyPath,
        defaults: Mapping[KeyPath, Any] | None = None,
    ) -> None:
        self.written = written
        """Plain values as in the file, valid or not."""
        self._valid = valid
        self._path = path
        self._defaults = defaults or {}

    def get(self, *keys: str) -> Any:
        """Return the value or list at a key path in the table, with defaults; None if it is missing
        or invalid."""
        return self._valid.get((*self._path, *keys))

    def names(self, table: str) -> list[str]:
        """Return the keys written in a nested table."""
        written = self.written.get(table)
        return list(written) if isinstance(written, dict) else []

    def numbers(self) -> Iterator[tuple[KeyPath, float, float | None]]:
        """Iterate over the valid numbers that the file writes: key path, value, and the schema's
        default or None."""
        for path, default in self._defaults.items():
            value = self._valid.get(path)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                known = isinstance(default, (int, float)) and not isinstance(default, bool)
                yield path, float(value), float(default) if known else None


Rule = Callable[[TableView], Iterator[tuple[KeyPath, str]]]
"""Checks between the keys of one table: (key path inside the table, message) of every
contradiction."""


class _TooManyError(Exception):
    """MAX_PROBLEMS reached."""


@cache
def type_of(struct: type) -> mi.StructType | mi.DataclassType:
    """Return the type information of a struct, or of the dataclass that a plugin may use."""
    info = mi.type_info(struct)
    assert isinstance(info, mi.StructType | mi.DataclassType)
    return info


class Collector:
    """One walk over one file. ``place`` returns where a key path was written, ``rules`` are applied
    per struct type.

    ``derived`` holds the key paths of values that no file writes.
    """

    def __init__(
        self,
        place: Callable[[KeyPath], str],
        rules: Mapping[type, Rule],
        derived: Collection[KeyPath] = frozenset(),
    ) -> None:
        self.problems: list[Problem] = []
        self.wrong: set[KeyPath] = set()
        """Key paths of the problems."""
        self._place = place
        self._rules = rules
        self._derived = derived
        self._valid: dict[KeyPath, Any] = {}
        self._defaults: dict[KeyPath, Any] = {}
        self._root: mi.StructType | mi.DataclassType | None = None
        self._chosen: dict[str, dict[str, type[Struct]]] = {}

    def build(self, struct: type[Struct], data: Any) -> Any:
        """Return the struct, or INVALID with at least one entry in ``problems``. Never raises on
        data."""
        self._root = type_of(struct)
        try:
            return self._value(self._root, data, ())
        except _TooManyError:
            return INVALID

    def view(self, written: Mapping[str, Any]) -> TableView:
        """Return the whole file as rules see it, after :meth:`build`."""
        return TableView(written, self._valid, (), self._defaults)

    def _report(self, path: KeyPath, message: str, place: str | None = None) -> Any:
        if len(self.problems) >= MAX_PROBLEMS:
            raise _TooManyError
        self.wrong.add(path)
        self.problems.append(
            Problem(dotted(path), message, self._place(path) if place is None else place)
        )
        return INVALID

    def _value(self, kind: mi.Type, raw: Any, path: KeyPath) -> Any:
        extra: dict[str, Any] = {}
        hint: Any = None
        while isinstance(kind, mi.Metadata):
            extra |= kind.extra or {}
            hint = (kind.extra_json_schema or {}).get("description")
            kind = kind.type
        match kind:
            case mi.StructType(cls=cls) if cls is Choice:
                return self._choice(raw, path, extra["registered"])
            case mi.StructType() | mi.DataclassType():
                return self._struct(kind, raw, path)
            case mi.DictType():
                return self._dict(kind, raw, path)
            case (
                mi.ListType()
                | mi.VarTupleType()
                | mi.SetType()
                | mi.FrozenSetType()
                | mi.TupleType()
            ):
                return self._keep(path, self._list(kind, raw, path))
            case mi.UnionType():
                return self._union(kind, raw, path)
            case mi.AnyType():
                return raw
            case mi.EnumType(cls=enum):
                members = {member.value: member for member in enum}
                allowed = (
                    isinstance(raw, (str, int)) and not isinstance(raw, bool) and raw in members
                )
                return members[raw] if allowed else self._refuse(kind, raw, path, hint)
        value = _scalar(kind, raw)
        if value is INVALID:
            return self._refuse(kind, raw, path, hint)
        return self._keep(path, value)

    def _keep(self, path: KeyPath, value: Any) -> Any:
        if value is not INVALID:
            self._valid[path] = value
        return value

    def _refuse(self, kind: mi.Type, raw: Any, path: KeyPath, hint: str | None = None) -> Any:
        wanted = hint if hint and isinstance(raw, str) else describe(kind)
        advice = cure(kind, raw)
        if (
            not advice
            and isinstance(kind, mi.FloatType)
            and isinstance(raw, (int, float))
            and not isinstance(raw, bool)
        ):
            names = [part for part in path if isinstance(part, str)]
            advice = did_you_mean(
                names[-1] if names else "",
                float(min(max(raw, -1e300), 1e300)),
                lambda value: _in_range(kind, value),
            ) or (f"; it is {hint}" if hint else "")
        return self._report(path, f"must be {wanted}, found {found(raw)}{advice}")

    def _struct(self, kind: mi.StructType | mi.DataclassType, raw: Any, path: KeyPath) -> Any:
        if not isinstance(raw, dict):
            return self._refuse(kind, raw, path)
        before = len(self.problems)
        fields = {field.encode_name: field for field in kind.fields}
        written = {key: value for key, value in raw.items() if (*path, key) not in self._derived}
        meant = {self._unknown_key(key, fields, written, path) for key in raw if key not in fields}
        built: dict[str, Any] = {}
        for key, field in fields.items():
            if key in raw:
                self._defaults[(*path, key)] = field.default
                value = self._value(field.type, raw[key], (*path, key))
                if value is not INVALID:
                    built[field.name] = value
            elif field.required and key not in meant:
                self._report((*path, key), missing(field.type))
            elif field.default is not NODEFAULT:
                self._valid[(*path, key)] = field.default
        if rule := self._rules.get(kind.cls):
            for inside, message in rule(TableView(raw, self._valid, path)):
                self._report((*path, *inside), message)
        return self._finish(kind.cls, built, path) if len(self.problems) == before else INVALID

    def _finish(self, cls: type, built: Mapping[str, Any], path: KeyPath) -> Any:
        try:
            return cls(**built)
        except Exception as error:  # noqa: BLE001 - a check of the struct's own, in __post_init__, which may be a plugin's
            return self._report(path, str(error))

    def _unknown_key(
        self, key: str, fields: Mapping[str, mi.Field], raw: Mapping[str, Any], path: KeyPath
    ) -> str | None:
        """Report an unknown key. Return the missing key that was probably meant, which is then not
        reported as well."""
        meant = nearest(key, fields)
        # A key that is set already was hardly meant, unless no other is as close.
        close = (
            meant
            if meant not in raw
            else nearest(key, [name for name in fields if name not in raw], cutoff=0.85)
        )
        elsewhere = (
            []
            if close and fields[close].required
            else [place for place in self._places_of(key) if place[:-1] != path]
        )
        if tables := _tables_meant(key, raw[key], fields):
            text, elsewhere = (
                (
                    "unknown table; did you mean "
                    f"{_or([f'[{dotted((*path, *table))}]' for table in tables])}?"
                ),
                [],
            )
        elif close:
            text = f'unknown key; did you mean "{close}"?'
        elif meant:
            text = f'unknown key; did you mean "{meant}", which is also set here?'
        elif elsewhere:
            text = "unknown key here"
        elif far := nearest(key, {str(place[-1]) for place in self._places()}, cutoff=0.75):
            text = (
                "unknown key; did you mean "
                f"{_or([dotted(place) for place in self._places_of(far)])}?"
            )
        else:
            text = f"unknown key; known here: {', '.join(fields)}"
        if elsewhere:
            # Tables of a device or a task are meant more often than those inside them.
            places = sorted(elsewhere, key=lambda place: max(len(place), 3))
            text += (
                " (a key of that name belongs in "
                f"{_or([dotted(place[:-1]) or 'the top' for place in places])})"
            )
        self._report((*path, key), text, self._written_at((*path, key), raw[key]))
        return close

    def _written_at(self, path: KeyPath, value: Any) -> str:
        """Return the place of a key; of a table without a line of its own, that of its first
        key."""
        place = self._place(path)
        while not place and isinstance(value, dict) and value:
            key, value = next(iter(value.items()))
            path = (*path, key)
            place = self._place(path)
        return place

    def _dict(self, kind: mi.DictType, raw: Any, path: KeyPath) -> Any:
        if not isinstance(raw, dict):
            return self._refuse(kind, raw, path)
        before = len(self.problems)
        built = {}
        for key, value in raw.items():
            # A wrong name is reported at its own place, which is the key itself.
            name = self._value(kind.key_type, key, (*path, key))
            built[name] = self._value(kind.value_type, value, (*path, key))
        if not _length_fits(kind, len(raw)):
            self._refuse(kind, raw, path)
        return built if len(self.problems) == before else INVALID

    def _list(self, kind: Any, raw: Any, path: KeyPath) -> Any:
        if not isinstance(raw, list):
            return self._refuse(kind, raw, path)
        before = len(self.problems)
        if isinstance(kind, mi.TupleType):
            kinds = kind.item_types
            fits = len(raw) == len(kinds)
        else:
            kinds = (kind.item_type,) * len(raw)
            fits = _length_fits(kind, len(raw))
        if not fits:
            return self._refuse(kind, raw, path)
        built = [self._value(kinds[i], item, (*path, i)) for i, item in enumerate(raw)]
        if len(self.problems) > before:
            return INVALID
        match kind:
            case mi.ListType():
                return built
            case mi.SetType():
                return set(built)
            case mi.FrozenSetType():
                return frozenset(built)
        return tuple(built)

    def _union(self, kind: mi.UnionType, raw: Any, path: KeyPath) -> Any:
        options = [
            option for option in kind.types if not isinstance(option, mi.NoneType)
        ]  # TOML has no null
        if len(options) == 1:
            return self._value(options[0], raw, path)
        tagged = {
            str(option.tag): option
            for option in options
            if isinstance(option, mi.StructType) and option.tag is not None
        }
        if len(tagged) == len(options):
            return self._tagged(tagged, raw, path)
        for option in options:
            trial = Collector(self._place, self._rules)
            trial._root = self._root
            value = trial._value(option, raw, path)
            if not trial.problems:
                self._valid |= trial._valid
                return value
        return self._refuse(kind, raw, path)

    def _tagged(self, options: Mapping[str, mi.StructType], raw: Any, path: KeyPath) -> Any:
        """Return one of several tables, chosen by the text of one key."""
        key = next(iter(options.values())).tag_field or "type"
        if not isinstance(raw, dict):
            return self._report(path, f"must be a table with the key {key}, found {found(raw)}")
        if key not in raw:
            return self._report((*path, key), f"missing; one of {choices(options)}")
        tag = raw[key]
        if not isinstance(tag, str) or tag not in options:
            close = nearest(tag, options) if isinstance(tag, str) else None
            hint = f'; did you mean "{close}"?' if close else ""
            return self._report(
                (*path, key), f"must be one of {choices(options)}, found {found(tag)}{hint}"
            )
        return self._struct(
            options[tag], {name: value for name, value in raw.items() if name != key}, path
        )

    def _choice(self, raw: Any, path: KeyPath, kind: registry.Kind) -> Any:
        """Return the chosen implementation: ``name`` chooses it, every other key is the table of
        one registered implementation, validated by its ``Params``."""
        name_at = (*path, "name")
        if isinstance(raw, str):
            # The name alone: the defaults of that implementation.
            raw, name_at = {"name": raw}, path
        if not isinstance(raw, dict):
            return self._report(
                path,
                (
                    "must be a name, or a table with a name and tables of parameters, found "
                    f"{found(raw)}"
                ),
            )
        before = len(self.problems)
        name = raw.get("name")
        tables = {known: known for known in registry.names(kind)}
        """Implementation by the key of its parameters."""
        if "name" not in raw:
            self._report(name_at, f"missing; one of {choices(tables)}")
        elif not isinstance(name, str):
            self._report(name_at, f"must be one of {choices(tables)}, found {found(name)}")
        else:
            self._valid[(*path, "name")] = name
            tables.setdefault(plugins.table_name(name), name)
        mentioned = [key for key in raw if key != "name"]
        types = {
            key: self._params_type(kind, tables[key], (*path, key))
            for key in mentioned
            if key in tables
        }
        if isinstance(name, str) and (key := plugins.table_name(name)) not in types:
            types[key] = self._params_type(kind, name, name_at)
        self._chosen[str(path[-1])] = {
            key: params for key, params in types.items() if params is not INVALID
        }
        for key in mentioned:
            if key not in tables:
                self._unknown_table(key, tuple(tables), path, kind)
        built = {
            key: self._params(params, self._extended(kind, raw, key), (*path, key))
            for key, params in types.items() if params is not INVALID
        }  # fmt: skip
        return Choice(name=str(name), params=built) if len(self.problems) == before else INVALID

    def _extended(self, kind: registry.Kind, raw: dict[str, Any], key: str) -> Any:
        """Return the table of an implementation, with the keys of the one that it extends."""
        own, base = raw.get(key, {}), raw.get(registry.EXTENDS.get(key, ""), {})
        return (
            _merged(base, own)
            if kind == "controller" and isinstance(own, dict) and isinstance(base, dict)
            else own
        )

    def _params(self, params: type, raw: Any, path: KeyPath) -> Any:
        try:
            return self._value(type_of(params), raw, path)
        except BaseException as error:
            if plugins.place_of(error) and not plugins.is_interrupt(error):
                return self._report(path, plugins.describe(error))
            if not isinstance(error, TypeError):
                raise
            # A plugin's parameters may have a type that no file can hold.
            return self._report(path, printable(str(error), 400))

    def _params_type(self, kind: registry.Kind, name: str, path: KeyPath) -> Any:
        try:
            return registry.resolve(kind, name, fresh=True).Params
        except (registry.UnknownNameError, plugins.PluginError) as error:
            return self._report(path, str(error))
        except ImportError as error:
            return self._report(
                path, f'the {kind} "{name}" cannot be loaded: {printable(str(error), 200)}'
            )

    def _unknown_table(
        self, key: str, known: tuple[str, ...], path: KeyPath, kind: registry.Kind
    ) -> None:
        if close := nearest(key, known):
            self._report((*path, key), f'unknown {kind}; did you mean "{close}"?')
            return
        inside = [place for place in self._places_of(key) if place[: len(path)] == path]
        where = f"; it belongs in {_or([dotted(place[:-1]) for place in inside])}" if inside else ""
        self._report(
            (*path, key), f"unknown key{where} (known here: name and the tables {', '.join(known)})"
        )

    def _places(self) -> Iterator[KeyPath]:
        """Return every key path of the file's type, with ANY_KEY for keys that are free."""
        if self._root is not None:
            yield from self._paths_in(self._root, ())

    def _places_of(self, key: str) -> list[KeyPath]:
        return [place for place in self._places() if place[-1] == key]

    def _paths_in(self, kind: mi.Type, path: KeyPath) -> Iterator[KeyPath]:
        match kind:
            case mi.Metadata():
                yield from self._paths_in(kind.type, path)
            case mi.UnionType():
                for option in kind.types:
                    yield from self._paths_in(option, path)
            case mi.DictType():
                yield from self._paths_in(kind.value_type, (*path, ANY_KEY))
            case mi.StructType(cls=cls) if cls is Choice:
                yield (*path, "name")
                for name, params in self._chosen.get(str(path[-1]), {}).items():
                    yield from self._paths_in(type_of(params), (*path, name))
            case mi.StructType() | mi.DataclassType():
                for field in kind.fields:
                    here = (*path, field.encode_name)
                    yield here
                    yield from self._paths_in(field.type, here)


def _tables_meant(key: str, value: Any, fields: Mapping[str, mi.Field]) -> list[KeyPath]:
    """Return the tables that a misspelt table stands for, such as [devices.gnss] for [device.gnss]
    or [gnss]."""
    if not isinstance(value, dict) or not value:
        return []
    for name, field in fields.items():
        kind = field.type
        while isinstance(kind, mi.Metadata):
            kind = kind.type
        is_table = isinstance(kind, mi.StructType | mi.DictType)
        if (
            is_table
            and name == nearest(key, fields)
            and all(isinstance(inside, dict) for inside in value.values())
        ):
            return [(name, inside) for inside in list(value)[:3]]
        if not isinstance(kind, mi.DictType) or not isinstance(kind.value_type, mi.StructType):
            continue
        known = {inside.encode_name for inside in kind.value_type.fields}
        if len(known & value.keys()) > 1 and 2 * len(known & value.keys()) > len(value):
            # As in [devices_gnss].
            return [(name, re.sub(f"^{re.escape(name.removesuffix('s'))}s?[_-]*", "", key) or key)]
    return []


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the keys of another that it leaves out; tables in both are merged."""
    both = {key: _merged(base[key], own[key]) for key in base.keys() & own.keys()
        if isinstance(base[key], dict)
            and isinstance(own[key], dict)}  # fmt: skip
    return {**base, **own, **both}


def _or(places: list[str]) -> str:
    more = [f"{len(places) - 6} others"] if len(places) > 6 else []
    return " or ".join(places[:6] + more)


def _scalar(kind: mi.Type, raw: Any) -> Any:
    """Return the value, converted only from whole number to float; INVALID for another type."""
    match kind:
        case mi.BoolType():
            return raw if isinstance(raw, bool) else INVALID
        case mi.FloatType() if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            try:
                number = float(raw)
            except OverflowError:
                return INVALID
            return number if math.isfinite(number) and _in_range(kind, number) else INVALID
        case mi.IntType() if isinstance(raw, int) and not isinstance(raw, bool):
            return raw if raw.bit_length() < 64 and _in_range(kind, raw) else INVALID
        case mi.StrType() if isinstance(raw, str):
            return (
                raw
                if "\0" not in raw and _length_fits(kind, len(raw)) and _matches(kind.pattern, raw)
                else INVALID
            )
        case mi.LiteralType(values=values):
            return (
                raw
                if any(raw == value and type(raw) is type(value) for value in values)
                else INVALID
            )
        case mi.FloatType() | mi.IntType() | mi.StrType():
            return INVALID
        case mi.NoneType():
            return INVALID
    raise TypeError(f"a profile cannot hold {kind}: TOML has no such value")


def _matches(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return True
    # fullmatch, because "$" also matches before a line end, which no name may have
    anchored = pattern.startswith("^") and pattern.endswith("$")
    return (re.fullmatch if anchored else re.search)(pattern, text) is not None


def _in_range(kind: Any, number: float) -> bool:
    return (
        (kind.gt is None or number > kind.gt)
        and (kind.ge is None or number >= kind.ge)
        and (kind.lt is None or number < kind.lt)
        and (kind.le is None or number <= kind.le)
        and (kind.multiple_of is None or number % kind.multiple_of == 0)
    )


def _length_fits(kind: Any, length: int) -> bool:
    return (kind.min_length is None or length >= kind.min_length) and (
        kind.max_length is None or length <= kind.max_length
    )
