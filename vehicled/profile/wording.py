"""Descriptions of the profile's types: allowed values, and advice for values that are not
allowed."""

import math
import re
from datetime import date
from typing import Any

import msgspec.inspect as mi

from vehicled.profile.problems import nearest
from vehicled.profile.schema import Choice


def describe(kind: mi.Type) -> str:
    """Return a text of the allowed values: "a number > 0 and <= 100", "one of "skip",
    "catch_up""."""
    match kind:
        case mi.Metadata(type=inner):
            return (kind.extra_json_schema or {}).get("description") or describe(inner)
        case mi.BoolType():
            return "true or false"
        case mi.FloatType():
            return f"a number{_bounds(kind)}"
        case mi.IntType():
            return f"a whole number{_bounds(kind)}"
        case mi.StrType():
            form = f" of the form {kind.pattern}" if kind.pattern else ""
            return f"text{_lengths(kind, 'characters')}{form}"
        case mi.LiteralType(values=values):
            shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in values]
            return f"one of {', '.join(shown)}" if len(shown) > 1 else shown[0]
        case mi.EnumType(cls=enum):
            return f"one of {', '.join(str(member.value) for member in enum)}"
        case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType():
            return f"a list{_lengths(kind, 'elements')}, each {describe(kind.item_type)}"
        case mi.TupleType(item_types=items):
            return f"a list of {len(items)} elements: {', '.join(map(describe, items))}"
        case mi.UnionType(types=types):
            return " or ".join(
                describe(option) for option in types if not isinstance(option, mi.NoneType)
            )
        case mi.StructType(fields=fields):
            return f"a table with the keys {', '.join(field.encode_name for field in fields)}"
        case mi.DictType():
            return "a table"
    return "any value"


def _bounds(kind: Any) -> str:
    signs = ((">", kind.gt), (">=", kind.ge), ("<", kind.lt), ("<=", kind.le))
    parts = [f"{sign} {bound:g}" for sign, bound in signs if bound is not None]
    if kind.multiple_of is not None:
        parts.append(f"a multiple of {kind.multiple_of:g}")
    return f" {' and '.join(parts)}" if parts else ""


def _lengths(kind: Any, what: str) -> str:
    low, high = kind.min_length, kind.max_length
    if low is not None and low == high:
        return f" of {low} {what}"
    parts = [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None)
    return f" of {' and '.join(parts)} {what}" if parts else ""


def missing(kind: mi.Type) -> str:
    """Return the message for a missing required key."""
    inner = kind
    while isinstance(inner, mi.Metadata):
        inner = inner.type
    if isinstance(inner, mi.StructType):
        needed = ", ".join(
            field.encode_name
            for field in inner.fields
            if field.required and inner.cls is not Choice
        )
        return f"missing table{f' (it needs {needed})' if needed else ''}"
    return f"missing; it is {describe(kind)}"


def cure(kind: mi.Type, raw: Any) -> str:
    """Return advice for common mistakes of type; else empty."""
    match kind:
        case mi.FloatType() if isinstance(raw, float) and not math.isfinite(raw):
            return "; nan and inf are not allowed"
        case mi.FloatType() | mi.IntType() if isinstance(raw, str) and re.fullmatch(
            r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", raw
        ):
            return "; remove the quotes"
        case mi.BoolType() if isinstance(raw, str) and raw.lower() in ("true", "false"):
            return f"; write {raw.lower()} without quotes"
        case mi.BoolType() if not isinstance(raw, (bool, str)) and raw in (0, 1):
            return f"; write {'true' if raw else 'false'}"
        case mi.IntType() if isinstance(raw, float) and raw.is_integer():
            return f"; write {raw:.0f}" if abs(raw) < 1e15 else ""
        case mi.StrType() if isinstance(raw, (bool, int, float, date)):
            return "; put it in quotes"
        case mi.LiteralType(values=values) if isinstance(raw, str):
            close = nearest(raw, [value for value in values if isinstance(value, str)])
            return f'; did you mean "{close}"?' if close else ""
        case mi.StructType() | mi.DictType() if isinstance(raw, list):
            return "; a table's header has single brackets: [name], not [[name]]"
    return ""
