"""JSON Schema of a profile, for editors that complete and check while one types."""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from vehicled.profile import registry
from vehicled.profile.schema import Choice, DeviceTable, Profile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a profile, with the parameters of every registered
    estimator, controller and driver.

    It cannot express relations between keys (:mod:`vehicled.profile.contradictions`), so that a
    file it accepts may still be refused.
    """
    kinds: tuple[registry.Kind, ...] = ("estimator", "controller", "driver")
    params = [
        (kind, name, registry.resolve(kind, name).Params)
        for kind in kinds
        for name in registry.names(kind)
    ]
    structs = [Profile, *(struct for _, _, struct in params)]
    (root, *references), definitions = msgspec.json.schema_components(
        structs, ref_template="#/$defs/{name}"
    )
    for struct in _structs_of(structs):
        _describe_fields(definitions, struct)
    for kind in kinds:
        tables = {
            name: reference
            for (where, name, _), reference in zip(params, references, strict=True)
            if where == kind
        }
        names = list(registry.names(kind))
        table = {
            "type": "object",
            "properties": {"name": {"enum": names, "description": "The one that is used."}}
            | tables,
            "required": ["name"],
            "additionalProperties": False,
        }
        owner = definitions[(DeviceTable if kind == "driver" else Profile).__name__]
        owner["properties"][kind] = {
            "description": (
                f"The {kind}: its name, or a table with the name and the parameters of any of them."
            ),
            "anyOf": [{"enum": names}, table],
        }
    definitions.pop(Choice.__name__, None)
    _require_unless_inherited(definitions)
    return {"$schema": DIALECT, "title": "vehicled profile", **root, "$defs": definitions}


def _require_unless_inherited(definitions: dict[str, Any]) -> None:
    """Let a profile with a base leave out any key: the schema of a table does not know whether the
    base has it."""
    needed = definitions[Profile.__name__]["required"]
    for definition in definitions.values():
        definition.pop("required", None)
    definitions[Profile.__name__]["anyOf"] = [{"required": needed}, {"required": ["name", "base"]}]


def _structs_of(roots: list[type[Struct]]) -> list[type[Struct]]:
    """Return every struct type reachable from the roots."""
    seen: dict[type[Struct], None] = {}

    def visit(kind: Any) -> None:
        match kind:
            case msgspec.inspect.StructType(cls=cls, fields=fields):
                if cls not in seen:
                    seen[cls] = None
                    for field in fields:
                        visit(field.type)
            case msgspec.inspect.Metadata(type=inner):
                visit(inner)
            case msgspec.inspect.UnionType(types=types):
                for option in types:
                    visit(option)
            case (
                msgspec.inspect.DictType(value_type=inner)
                | msgspec.inspect.ListType(item_type=inner)
            ):
                visit(inner)
            case msgspec.inspect.VarTupleType(item_type=inner):
                visit(inner)

    for root in roots:
        visit(msgspec.inspect.type_info(root))
    return list(seen)


def _describe_fields(definitions: dict[str, Any], struct: type[Struct]) -> None:
    # msgspec writes the full name where two structs share the short one.
    definition = (
        definitions.get(f"{struct.__module__}.{struct.__qualname__}")
        or definitions[struct.__name__]
    )
    for each in struct.__mro__:
        for field, text in _field_texts(each).items() if issubclass(each, Struct) else ():
            if field in definition["properties"]:
                definition["properties"][field].setdefault("description", text)


@cache
def _field_texts(struct: type[Struct]) -> dict[str, str]:
    """Return the docstrings under the fields, from the source, because Python does not keep them.
    Empty without sources."""
    try:
        file = Path(inspect.getfile(sys.modules[struct.__module__]))
        # A compiled module lies beside its source.
        source = (
            file if file.suffix == ".py" else file.with_name(f"{file.name.partition('.')[0]}.py")
        )
        body: list[ast.stmt] = ast.parse(source.read_text(encoding="utf-8")).body
    except (OSError, KeyError):
        return {}
    for name in struct.__qualname__.split("."):
        body = next(
            (node.body for node in body if isinstance(node, ast.ClassDef) and node.name == name), []
        )
    texts: dict[str, str] = {}
    for field, after in pairwise(body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str() as text)
            ):
                texts[name] = inspect.cleandoc(text)
    return texts
