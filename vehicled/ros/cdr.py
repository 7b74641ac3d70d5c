"""CDR bytes of our messages: plain CDR version 1, little-endian, as ROS 2 writes it.

A record is the encapsulation header ``00 01 00 00`` and the fields in order, each primitive aligned
to its own size counted from behind the header (OMG DDS-XTypes 1.3, 7.4.1 and 7.6.3.1.2). Strings
carry a uint32 length that includes their NUL, an empty sequence has no alignment gap behind its
length, a struct without fields is one zero byte.

Packers and unpackers are generated per type: the fields between two values of variable size form
one precompiled :class:`struct.Struct`, eight of them where the position before it varies, one for
each alignment.

Fields are only ever appended to a message. Bytes of a newer writer are longer and what follows is
ignored; for bytes of an older writer, :func:`known_fields` finds in the definition stored beside
them how many fields they have.
"""

from collections.abc import Callable
from functools import cache, partial
from struct import Struct as Layout
from struct import error as LayoutError
from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vehicled.core.messages import Message
from vehicled.ros.definition import SEPARATOR
from vehicled.ros.fields import PRIMITIVES, SCALAR, Field, fields_of

if TYPE_CHECKING:
    import numpy as np

M = TypeVar("M", bound=Message)
Token = tuple[str, int, int]
"""(``struct`` code, size in bytes, count)."""

HEADER = b"\x00\x01\x00\x00"
HEADER_SIZE = 4
ENCAPSULATION = 256
"""The header's first half, read as little-endian uint16; its second half, the options, is
ignored."""

_DUMMY = Field("structure_needs_at_least_one_member", "uint8")

_FAILURES = (LayoutError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


class CdrError(ValueError):
    """Error for bytes that are no valid record of the type, or a message whose values do not fit
    its fields."""

    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(f"{type_name}: {reason}")
        self.type_name = type_name
        self.reason = reason


def packer(message_type: type[Message]) -> Callable[[Message], bytes]:
    """Return a function from a message of this type to its CDR record. It raises CdrError for
    values that do not fit the fields.

    Text that UTF-8 cannot encode (lone surrogates, as in undecodable file names) is written as
    backslash escapes, so that a strange name does not lose the record.
    """
    return _packer(message_type)


def unpacker(message_type: type[M], fields: int | None = None) -> Callable[[bytes | memoryview], M]:
    """Return a function from a CDR record to the message. Extra bytes at the end are ignored; any
    error raises CdrError.

    ``fields``: number of leading fields in records of an older version; the others get their
    defaults.
    """
    return cast(Callable[[bytes | memoryview], M], _unpacker(message_type, fields))


def known_fields(message_type: type[Message], text: str) -> int:
    """Return the number of leading fields common to a stored definition (``ros2msg`` text) and the
    struct.

    Raises CdrError if they disagree, or if a field without a default is missing: not a version of
    the same message.
    """
    stored = _stored_fields(text)
    ours = fields_of(message_type)
    shared = min(len(stored), len(ours))
    for field, (type_text, name) in zip(ours, stored, strict=False):
        if (type_text, name) != (field.type_text, field.name):
            reason = (
                f"the stored definition has `{type_text} {name}` in the place of "
                f"`{field.type_text} {field.name}`"
            )
            raise CdrError(message_type.__name__, reason)
    for field in ours[shared:]:
        if not field.optional:
            raise CdrError(
                message_type.__name__,
                f"the stored definition lacks {field.name}, which has no default",
            )
    return shared


def numpy_dtype(message_type: type[Message], fields: int | None = None) -> "np.dtype[np.void]":
    """Return the structured dtype of a record with header, so that joined records are one array:
    ``np.frombuffer(joined, dtype)``.

    Enumerations are uint8. ``fields`` as for :func:`unpacker`; records must then be exactly that
    long. Raises TypeError for a type with strings or sequences.
    """
    import numpy as np  # here: the log writer's process packs without it

    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    position = 0
    for field in fields_of(message_type)[:fields]:
        if not field.is_fixed:
            raise TypeError(f"{message_type.__name__}.{field.name} has no fixed size")
        code, size, count = _token(field)
        position += -position % size
        element = np.dtype(code).newbyteorder("<")
        names.append(field.name)
        formats.append(element if field.length == SCALAR else (element, (count,)))
        offsets.append(HEADER_SIZE + position)
        position += size * count
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": offsets,
            "itemsize": HEADER_SIZE + max(position, 1),
        }
    )


def _layout_text(tokens: list[Token], position: int) -> str:
    """Return the :mod:`struct` format of tokens ``position`` bytes after the encapsulation header,
    with gaps as pad bytes."""
    parts = ["<"]
    for code, size, count in tokens:
        gap = -position % size
        parts.append(f"{gap}x{count}{code}" if gap else f"{count}{code}")
        position += gap + size * count
    return "".join(parts)


class _FixedRun:
    """Consecutive fields of fixed size up to the next field of variable size, whose count is
    included."""

    def __init__(self, fields: list[Field], variable: Field | None) -> None:
        self.fields = fields
        self.variable = variable
        self.tokens = [_token(field) for field in fields]
        if variable is not None:
            self.tokens.append(("I", 4, 1))

    def first_layout(self) -> Layout:
        """Return the layout of the run at the start of a record, header included."""
        return Layout("<H2x" + _layout_text(self.tokens, 0)[1:])

    def layouts(self) -> list[Layout]:
        """Return the layouts of a later run, by the lowest three bits of its position in the
        record."""
        return [Layout(_layout_text(self.tokens, (low - HEADER_SIZE) % 8)) for low in range(8)]


def _token(field: Field) -> Token:
    code, size = PRIMITIVES[field.base]
    return code, size, max(field.length, 1)


def _runs(fields: tuple[Field, ...]) -> list[_FixedRun]:
    """Split the fields after each one of variable size; no run is empty."""
    runs: list[_FixedRun] = []
    fixed: list[Field] = []
    for field in fields or (_DUMMY,):
        if field.is_fixed:
            fixed.append(field)
        else:
            runs.append(_FixedRun(fixed, field))
            fixed = []
    if fixed:
        runs.append(_FixedRun(fixed, None))
    return runs


@cache
def _packer(message_type: type[Message]) -> Callable[[Message], bytes]:
    """Write and compile ``run(m)``. Parts t0, s0, t1, s1 ...: packed runs and the values of
    variable size behind them."""
    lines: list[str] = []
    parts: list[str] = []
    namespace: dict[str, Any] = {"pack_doubles": _pack_doubles}
    for number, run in enumerate(_runs(fields_of(message_type))):
        values = [] if number else [str(ENCAPSULATION)]
        for field in run.fields:
            if field is _DUMMY:
                values.append("0")
            elif field.length == SCALAR:
                values.append(f"m.{field.name}")
            else:
                # Unpack into names instead of `*m.field`: an array of the wrong length must not
                # shift its neighbours.
                names = [f"{field.name}_{index}" for index in range(field.length)]
                lines.append(f"{', '.join(names)}, = m.{field.name}")
                values += names
        variable = run.variable
        if variable is not None:
            value = f"m.{variable.name}"
            if variable.base == "string":
                value += '.encode("utf-8", "backslashreplace") + b"\\0"'
            lines.append(f"s{number} = {value}")
            values.append(f"len(s{number})")
        namespace[f"pack{number}"] = (
            [layout.pack for layout in run.layouts()] if number else run.first_layout().pack
        )
        lines.append(f"t{number} = pack{number}{'[p & 7]' if number else ''}({', '.join(values)})")
        parts.append(f"t{number}")
        if variable is not None:
            lines.append(f"p {'+=' if number else '='} len(t{number})")
            if variable.base == "float64":
                lines.append(f"s{number} = pack_doubles(s{number}, p)")
            lines.append(f"p += len(s{number})")
            parts.append(f"s{number}")
    lines.append(
        f"return {parts[0]}" if len(parts) == 1 else f'return b"".join(({", ".join(parts)}))'
    )
    return _compile(message_type, "m", lines, namespace)


@cache
def _unpacker(
    message_type: type[Message], count: int | None
) -> Callable[[bytes | memoryview], Message]:
    """Write and compile ``run(b)``. v0, v1 ...: unpacked runs; s0, s1 ...: the values of variable
    size behind them."""
    fields = fields_of(message_type)[:count]
    lines: list[str] = []
    arguments: list[str] = []
    namespace: dict[str, Any] = {
        "unpack_uint8": _unpack_octets,
        "unpack_string": _unpack_text,
        "unpack_float64": _unpack_doubles,
    }
    for number, run in enumerate(_runs(fields)):
        if number:
            layouts = run.layouts()
            namespace[f"unpack{number}"] = [layout.unpack_from for layout in layouts]
            namespace[f"size{number}"] = [layout.size for layout in layouts]
            lines += [f"v{number} = unpack{number}[p & 7](b, p)", f"p += size{number}[p & 7]"]
        else:
            layout = run.first_layout()
            namespace["unpack0"] = layout.unpack_from
            lines += [
                "v0 = unpack0(b, 0)",
                f"if v0[0] != {ENCAPSULATION}:",
                "    raise error('is not little-endian plain CDR')",
            ]
            lines.append(f"p = {layout.size}")
        index = 0 if number else 1
        for field in run.fields:
            value = f"v{number}[{index}]"
            if field.length != SCALAR:
                value = f"v{number}[{index}:{index + field.length}]"
            elif field.enum is not None:
                namespace[f"of_{field.name}"] = {int(member): member for member in field.enum}
                value = f"of_{field.name}[{value}]"
            if field is not _DUMMY:
                arguments.append(value)
            index += max(field.length, 1)
        if run.variable is not None:
            lines.append(f"s{number}, p = unpack_{run.variable.base}(b, p, v{number}[{index}])")
            arguments.append(f"s{number}")
    namespace["message_type"] = message_type
    namespace["error"] = partial(CdrError, message_type.__name__)
    lines.append(f"return message_type({', '.join(arguments)})")
    return _compile(message_type, "b", lines, namespace)


def _compile(
    message_type: type[Message], argument: str, lines: list[str], namespace: dict[str, Any]
) -> Callable[[Any], Any]:
    """Return a function of one argument from the lines of its body; every exception inside becomes
    a CdrError."""

    def fail(error: Exception) -> CdrError:
        return (
            error
            if isinstance(error, CdrError)
            else CdrError(message_type.__name__, f"{type(error).__name__}: {error}")
        )

    body = "\n".join(f"        {line}" for line in lines)
    source = (
        f"def run({argument}):\n    try:\n{body}\n    except failures as failure:\n        "
        "raise fail(failure) from None\n"
    )
    namespace |= {"failures": _FAILURES, "fail": fail}
    exec(compile(source, f"<cdr of {message_type.__name__}>", "exec"), namespace)  # noqa: S102 - from our own structs only, no data
    return cast(Callable[[Any], Any], namespace["run"])


def _pack_doubles(values: tuple[float, ...], position: int) -> bytes:
    """Return the encoded elements of a sequence at a position in the record, with the gap before
    the first."""
    if not values:
        return b""
    gap = (HEADER_SIZE - position) % 8
    return pack(f"<{gap}x{len(values)}d", *values)


def _unpack_doubles(
    data: bytes | memoryview, position: int, count: int
) -> tuple[tuple[float, ...], int]:
    """Return (values, position after them)."""
    if count == 0:
        return (), position
    position += (HEADER_SIZE - position) % 8
    end = position + 8 * count
    _check_end(data, end)
    return unpack_from(f"<{count}d", data, position), end


def _unpack_octets(data: bytes | memoryview, position: int, count: int) -> tuple[bytes, int]:
    """Return (bytes, position after them)."""
    end = position + count
    _check_end(data, end)
    return bytes(data[position:end]), end


def _unpack_text(data: bytes | memoryview, position: int, count: int) -> tuple[str, int]:
    """Return (text, position after its NUL). Accepts a count of 0, which some writers use for the
    empty string."""
    if count == 0:
        return "", position
    end = position + count
    _check_end(data, end)
    if data[end - 1] != 0:
        raise ValueError("a string does not end in NUL")
    return str(data[position : end - 1], "utf-8"), end


def _check_end(data: bytes | memoryview, end: int) -> None:
    if end > len(data):
        raise ValueError(f"a value ends at byte {end} of {len(data)}")


def _stored_fields(text: str) -> list[tuple[str, str]]:
    """Return (type, name) of the fields in the first message of a ``ros2msg`` text."""
    found = []
    for line in text.split(SEPARATOR, 1)[0].splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) >= 2 and "=" not in "".join(words[1:]):
            found.append((words[0], words[1]))
    return found
