"""Fields of ROS 2 messages, shared by the definitions and the CDR layouts.

A field is a scalar, a fixed array or a sequence of a base type; a base type is a primitive,
``string`` or another message. CDR aligns every primitive to its own size (OMG DDS-XTypes 1.3,
7.4.1, plain CDR version 1).
"""

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields as struct_fields

from vehicled.core.messages import Message

PRIMITIVES: Mapping[str, tuple[str, int]] = {
    "bool": ("?", 1), "byte": ("B", 1), "int8": ("b", 1), "uint8": ("B", 1), "int16": ("h", 2),
    "uint16": ("H", 2), "int32": ("i", 4), "uint32": ("I", 4), "int64": ("q", 8),
    "uint64": ("Q", 8), "float32": ("f", 4), "float64": ("d", 8),
}  # fmt: skip
"""ROS 2 name of each primitive -> (code of the ``struct`` module, size and alignment in bytes)."""

SCALAR = -1
"""``Field.length`` of a plain value."""
SEQUENCE = 0
"""``Field.length`` of an unbounded sequence."""

# ROS 2 accepts only these spellings (design.ros2.org, "Interface definition"): no double, leading
# or trailing underscores.
_FIELD_NAME = re.compile(r"[a-z](?:_?[a-z0-9]+)*")
_CONSTANT_NAME = re.compile(r"[A-Z](?:_?[A-Z0-9]+)*")
_TYPE = re.compile(r"(?P<base>[A-Za-z0-9_/]+)(?P<array>\[(?P<length>[0-9]*)\])?")


class Field(Struct, frozen=True):
    """One field: ``length`` is ``SCALAR``, ``SEQUENCE`` or the size of a fixed array; ``enum``
    names its values."""

    name: str
    base: str
    length: int = SCALAR
    enum: type[IntEnum] | None = None
    optional: bool = False
    """True if the struct has a default, so that older records without the field can be read."""
    comment: str = ""

    @property
    def type_text(self) -> str:
        """Type as in a .msg file."""
        if self.length == SCALAR:
            return self.base
        return f"{self.base}[{self.length or ''}]"

    @property
    def is_fixed(self) -> bool:
        """True if the CDR size does not depend on the value; only known for primitives and
        strings."""
        return self.base in PRIMITIVES and self.length != SEQUENCE


class Constant(Struct, frozen=True):
    """Named constant in a .msg file."""

    name: str
    base: str
    value: int
    comment: str = ""


def parse_type(text: str) -> tuple[str, int]:
    """Split a .msg type such as ``float64[9]`` into (base, length). Raises ValueError on anything
    else, bounds included."""
    match = _TYPE.fullmatch(text)
    if match is None or match["length"] == "0":
        raise ValueError(f"{text!r} is no ROS 2 type this package can lay out")
    if match["array"] is None:
        return match["base"], SCALAR
    return match["base"], int(match["length"] or SEQUENCE)


@cache
def fields_of(message_type: type[Message]) -> tuple[Field, ...]:
    """Return the fields of a message struct in wire order. Raises TypeError, naming the field, for
    a type without a ROS 2 counterpart.
    """
    comments = _source_comments(message_type)
    found = []
    for info in struct_fields(message_type):
        where = f"{message_type.__name__}.{info.name}"
        if not _FIELD_NAME.fullmatch(info.name):
            raise TypeError(
                f"{where}: ROS 2 field names are lower case words joined by single underscores"
            )
        base, length, enum = _ros_type(info.type, where)
        optional = info.default is not NODEFAULT or info.default_factory is not NODEFAULT
        found.append(Field(info.name, base, length, enum, optional, comments.get(info.name, "")))
    return tuple(found)


def constants_of(message_type: type[Message]) -> dict[str, tuple[Constant, ...]]:
    """Return the constants of the enumerated fields, by field name.

    Names consist of field and member (``FIX_TYPE_FIX_3D``): two enumerations of one message may
    share a member such as NONE, and a name must not change when a field is appended. Raises
    TypeError for a value beyond uint8 and for names that collide.
    """
    found: dict[str, tuple[Constant, ...]] = {}
    taken: set[str] = set()
    for field in fields_of(message_type):
        if field.enum is None:
            continue
        comments = _source_comments(field.enum)
        constants = tuple(
            Constant(
                f"{field.name.upper()}_{member.name}",
                "uint8",
                int(member),
                comments.get(member.name, ""),
            )
            for member in field.enum
        )
        for constant in constants:
            where = f"{message_type.__name__}.{field.name}: constant {constant.name}"
            if not _CONSTANT_NAME.fullmatch(constant.name):
                raise TypeError(f"{where} is not upper case words joined by single underscores")
            if not 0 <= constant.value <= 255:
                raise TypeError(f"{where} = {constant.value} does not fit uint8")
            if constant.name in taken:
                raise TypeError(f"{where} collides with one of another field")
            taken.add(constant.name)
        found[field.name] = constants
    return found


def _ros_type(annotation: Any, where: str) -> tuple[str, int, type[IntEnum] | None]:
    """Return (base, length, enum) of an annotation."""
    if get_origin(annotation) is Annotated:
        for meta in get_args(annotation)[1:]:
            if isinstance(meta, Meta) and meta.extra and "ros" in meta.extra:
                base, length = parse_type(meta.extra["ros"])
                if base not in PRIMITIVES or (length == SEQUENCE and base != "float64"):
                    raise TypeError(
                        f"{where}: messages have no fields of ROS type {meta.extra['ros']}"
                    )
                return base, length, None
        annotation = get_args(annotation)[0]
    if annotation is bool:
        return "bool", SCALAR, None
    if annotation is float:
        return "float64", SCALAR, None
    if annotation is str:
        return "string", SCALAR, None
    if annotation is bytes:
        return "uint8", SEQUENCE, None
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return "uint8", SCALAR, annotation
    raise TypeError(
        f'{where}: {annotation} has no ROS 2 width; annotate it with Meta(extra={{"ros": ...}})'
    )


def _source_comments(described: type) -> dict[str, str]:
    """Return the docstrings after the fields or members of a class in its source; empty if the
    source is not available."""
    return _module_comments(described.__module__).get(described.__qualname__, {})


@cache
def _module_comments(module_name: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of attributes, by top-level class and attribute."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module_name]))
    except (OSError, TypeError, KeyError):
        return {}
    found: dict[str, dict[str, str]] = {}
    for described in tree.body:
        if not isinstance(described, ast.ClassDef):
            continue
        for attribute, text in pairwise(described.body):
            target: ast.expr | None = None
            if isinstance(attribute, ast.AnnAssign):
                target = attribute.target
            elif isinstance(attribute, ast.Assign):
                target = attribute.targets[0]
            if (
                isinstance(target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found.setdefault(described.name, {})[target.id] = inspect.cleandoc(
                    str(text.value.value)
                )
    return found
