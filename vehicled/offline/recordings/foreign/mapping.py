"""The mapping file of a CSV import: TOML, validated as a whole before a row is read."""

import tomllib
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from vehicled.core.messages import ALL, Message
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.units import SIGMA_OF, converter, dimension_of
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.profile.collect import build_table
from vehicled.profile.problems import nearest
from vehicled.ros.fields import SCALAR, SEQUENCE, Field, fields_of

_TYPES = {kind.__name__: kind for kind in ALL}
STAMPS = ("t_ns", "t_rx_ns", "newest_input_ns")
"""Fields that come from the time of a row."""
POSITION = Field("position_m", "float64", length=3)
"""Place in metres east, north and up of the datum, instead of latitude, longitude and height."""
GEODETIC = ("latitude_rad", "longitude_rad", "height_m")
CsvRow = dict[str, str]


class MapTime(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Location and unit of the stamps."""

    column: str
    unit: Literal["s", "ms", "us", "ns", "iso8601", "hhmmss"] = "s"
    """``hhmmss``: a time of day, with or without colons, which goes on after midnight."""
    arrival_column: str = ""
    """Column of the arrival time, in the same unit; by default the stamp."""
    clock: Literal["file", "utc"] = "file"
    """``utc``: the stamps count from 1970."""


class MappedMessage(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message that is made from a row."""

    type: str
    fields: dict[str, Any]
    file: str = ""
    """Pattern of the files that have it, as ``gps*.csv``; empty for all."""
    time: MapTime | None = None
    when_changed: list[str] = []
    """Make one only where one of these columns differs from the row before."""
    mapped: dict[str, "MappedField"] = field(default_factory=dict)
    """Made from ``fields``; not for the file."""


class Mapping(Struct, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    time: MapTime
    message: list[MappedMessage]
    datum_deg: list[float] = []
    """Latitude, longitude (degrees) and height (m) of the origin of local coordinates; empty: the
    first fix."""
    delimiter: str = ","
    comment: str = ""
    """Lines that begin so are skipped."""
    columns: list[str] = []
    """Names of the columns, of files without a head line."""


class _Cell(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column made into a value: ``(number * scale + offset)`` in ``unit``, or one of
    ``names``."""

    column: str
    unit: str = ""
    scale: float = 1.0
    offset: float = 0.0
    names: dict[str, str | float] = {}
    default: str | float | None = None
    """Value for an empty cell, or for a text missing in ``names``."""


class EmptyCellError(ValueError):
    """A cell is empty, or no number."""


class MappedField:
    """A field of a message and where its value is."""

    def __init__(self, spec: Field, value: Any, place: str) -> None:
        """Raises ``ValueError`` for what cannot be the field."""
        self._columns: list[str] = []
        dimension = dimension_of(spec.name)
        if spec.length not in (SCALAR, SEQUENCE) and _is_nan(value):
            unknown = (nan,) * spec.length
            self._read = lambda row: unknown
            return
        if spec.length == SCALAR:
            self._read = self._one(spec, value, dimension, place)
            return
        if isinstance(value, dict) and set(value) == {"sigma"} and spec.length == 9:
            self._read = self._diagonal(spec, value["sigma"], SIGMA_OF.get(dimension, ""), place)
            return
        if not isinstance(value, list) or len(value) != spec.length:
            raise ValueError(
                f"{place}: takes a list of {spec.length}"
                + (" or { sigma = [...] }" if spec.length == 9 else "")
            )
        parts = [self._one(spec, item, dimension, place) for item in value]
        self._read = lambda row: tuple(_or_nan(part, row) for part in parts)

    def columns(self) -> list[str]:
        """Return the names of the required columns."""
        return self._columns

    def reader(self) -> Callable[[CsvRow], Any]:
        """Function from a row to the value. It raises ``ValueError`` where there is none."""
        return self._read

    def _one(self, spec: Field, value: Any, dimension: str, place: str) -> Callable[[CsvRow], Any]:
        if isinstance(value, dict):
            unknown = _is_nan(value.get("default"))
            cell, mistakes = build_table(
                _Cell,
                {key: item for key, item in value.items() if not (unknown and key == "default")},
            )
            if mistakes:
                raise ValueError(f"{place}: {'; '.join(mistakes)}")
            self._columns.append(cell.column)
            if cell.names or spec.enum is not None:
                named = {text: _literal(spec, item, place) for text, item in cell.names.items()}
                other = _literal(spec, cell.default, place) if cell.default is not None else None
                return lambda row: _named(spec, row[cell.column].strip(), named, other)
            convert = converter(dimension, cell.unit or dimension)
            fallback = nan if unknown else None if cell.default is None else float(cell.default)
            finish = _finisher(spec)
            return lambda row: finish(_number(row[cell.column], cell, convert, fallback))
        found = _literal(spec, value, place)
        return lambda row: found

    def _diagonal(
        self, spec: Field, value: Any, dimension: str, place: str
    ) -> Callable[[CsvRow], Any]:
        if not dimension or not isinstance(value, list) or len(value) != 3:
            raise ValueError(
                f"{place}: sigma takes a list of three standard deviations (east, north, up)"
            )
        sigma = Field(spec.name, "float64")
        parts = [self._one(sigma, item, dimension, place) for item in value]

        def read(row: CsvRow) -> tuple[float, ...]:
            e, n, u = (_or_nan(part, row) for part in parts)
            return e * e, 0.0, 0.0, 0.0, n * n, 0.0, 0.0, 0.0, u * u

        return read


def load_mapping(file: Path) -> Mapping:
    """The mapping, checked against the messages. Raises :class:`RecordingError`."""
    try:
        mapping, mistakes = build_table(Mapping, tomllib.loads(file.read_text()))
    except OSError as error:
        raise RecordingError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{file}: is no mapping: {error}") from error
    problems = mistakes or list(_problems(mapping))
    if problems:
        raise RecordingError(f"{file}: " + "\n  ".join(problems))
    assert isinstance(mapping, Mapping)
    return mapping


def _problems(mapping: Mapping) -> Iterator[str]:
    if len(mapping.delimiter) != 1:
        yield f"delimiter {mapping.delimiter!r} is not one character"
    if not mapping.message:
        yield "there is no [[message]] in it"
    try:
        datum_of(mapping)
    except ValueError as error:
        yield f"datum_deg: {error}"
    for number, message in enumerate(mapping.message, start=1):
        kind = _TYPES.get(message.type)
        if kind is None:
            yield (
                f'message {number}: no message type "{message.type}"; '
                f"{_meant(message.type, sorted(_TYPES))}"
            )
            continue
        message.mapped = {}
        known = {spec.name: spec for spec in fields_of(kind)}
        if set(GEODETIC) <= known.keys():
            known[POSITION.name] = POSITION
            if POSITION.name in message.fields and not mapping.datum_deg:
                yield (
                    f"message {number} ({message.type}): position_m needs datum_deg = "
                    "[latitude, longitude, height] at the top"
                )
        for name, value in message.fields.items():
            place = f"message {number} ({message.type}), {name}"
            spec = known.get(name)
            if spec is None:
                yield f"{place}: there is no such field; {_meant(name, known)}"
                continue
            try:
                message.mapped[name] = MappedField(spec, value, place)
            except (ValueError, TypeError) as error:
                text = str(error)
                yield text if text.startswith(place) else f"{place}: {text}"
        for missing in _missing(kind, message):
            unknown = (
                "; nan stands for an unknown number" if missing.base.startswith("float") else ""
            )
            yield (
                f"message {number} ({message.type}): {missing.name} has no default and is not "
                f"mapped{unknown}"
            )


def _meant(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"did you mean {near}?" if near else f"there are {', '.join(known)}"


def _missing(kind: type[Message], message: MappedMessage) -> Iterator[Field]:
    given = {*message.fields, *STAMPS, *(GEODETIC if POSITION.name in message.fields else ())}
    for spec in fields_of(kind):
        if not spec.optional and spec.name not in given:
            yield spec


def datum_of(mapping: Mapping) -> Datum | None:
    """Return the origin of local coordinates; None if the mapping names none. Raises
    ``ValueError``."""
    if not mapping.datum_deg:
        return None
    if len(mapping.datum_deg) not in (2, 3):
        raise ValueError(
            "write [latitude, longitude] or [latitude, longitude, height], in degrees and metres"
        )
    try:
        return Datum.from_degrees(*mapping.datum_deg)
    except CourseError as error:
        raise ValueError(str(error)) from None


def _is_nan(value: Any) -> bool:
    return (isinstance(value, float) and isnan(value)) or (
        isinstance(value, str) and value.lower() == "nan"
    )


def _literal(spec: Field, value: Any, place: str) -> Any:
    """A value as the mapping gives it: a name of an enumeration, a number, a text, a truth."""
    if spec.enum is not None:
        return _member(spec.enum, value, place)
    if spec.base == "string":
        return str(value)
    if spec.base == "bool":
        if not isinstance(value, bool):
            raise ValueError(f"{place}: {value!r} is neither true nor false")
        return value
    if spec.base.startswith("float") and _is_nan(value):
        return nan
    if isinstance(value, bool | str | list | dict):
        raise ValueError(f"{place}: {value!r} is no number")
    if spec.base.startswith("float"):
        return float(value)
    if not isfinite(value) or value != int(value):
        raise ValueError(f"{place}: {value!r} is no whole number")
    return int(value)


def _member(enum: type[IntEnum], value: Any, place: str) -> IntEnum:
    try:
        return enum[value] if isinstance(value, str) and not value.isdecimal() else enum(int(value))
    except (KeyError, ValueError, TypeError):
        raise ValueError(
            f"{place}: {value!r} is not one of {', '.join(enum.__members__)}"
        ) from None


def _named(spec: Field, text: str, named: dict[str, Any], other: Any) -> Any:
    if text in named:
        return named[text]
    if other is not None:
        return other
    if spec.enum is not None and text:
        return _member(spec.enum, text, spec.name)
    raise EmptyCellError(text)


def _number(
    text: str, cell: _Cell, convert: Callable[[float], float], fallback: float | None
) -> float:
    text = text.strip()
    value = nan
    if text:
        try:
            value = float(text)
        except ValueError:
            value = {"true": 1.0, "false": 0.0}.get(text.lower(), nan)
    if not isfinite(value):
        if fallback is not None:
            return fallback
        raise EmptyCellError(text)
    return convert(value * cell.scale + cell.offset)


def _finisher(spec: Field) -> Callable[[float], Any]:
    if spec.base == "bool":
        return bool
    if spec.base == "string":
        return str
    return float if spec.base.startswith("float") else round


def _or_nan(part: Callable[[CsvRow], Any], row: CsvRow) -> float:
    try:
        return float(part(row))
    except EmptyCellError:
        return nan
