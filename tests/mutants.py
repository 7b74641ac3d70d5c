"""Mutants of a module: each has one small change of its source, as a slip of the keyboard would make it.

They are made out of the syntax tree, and never written into a file.
"""

import ast
from collections.abc import Iterator, Mapping
from copy import deepcopy
from enum import Enum
from types import CodeType
from typing import Any

from msgspec import Struct

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
DECLARED = frozenset({"detect_ms", "react_ms", "outside_ms", "reason", "unit"})
"""Arguments of a rule that no reaction depends on: text, and times that the closed loop measures."""


class Mutant(Struct, frozen=True):
    """One changed module."""

    what: str
    """Line of the source, and the change."""
    line: int
    code: CodeType


def variants(node: Any, *, texts: bool = True, enums: Mapping[str, type[Enum]] | None = None) -> Iterator[ast.AST]:
    """Yield every small change of one node, as a node of the same class.

    ``texts``: change literal texts. ``enums``: classes, by name, whose members are exchanged for neighbours; arguments of rules
    that have a default are then left out, too, and calls whose result is not used.
    """
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    yield changed(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in OPERATORS:
            yield changed(node, op=OPERATORS[type(node.op)]())
        case ast.BoolOp():
            yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub()):
            yield changed(node, op=ast.UAdd())
        case ast.UnaryOp(op=ast.Not()):
            yield changed(node, operand=ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool()):
            yield changed(node, value=not node.value)
        case ast.Constant(value=int() | float() as number):
            yield changed(node, value=number + 1)
            yield changed(node, value=0.5 * number if isinstance(number, float) and number else number - 1)
        case ast.Constant(value=str() as text) if texts:
            yield changed(node, value=text + "?")
        case ast.Call(func=ast.Name(id="min" | "max" | "abs" as name)):
            yield changed(node, func=ast.Name({"min": "max", "max": "min", "abs": "float"}[name], ast.Load()))
        case ast.IfExp() | ast.If():
            yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Attribute(value=ast.Name(id=name), attr=member) if enums and member in getattr(enums.get(name), "__members__", ()):
            members = list(enums[name].__members__)
            place = members.index(member)
            yield from (changed(node, attr=members[other % len(members)]) for other in {place - 1, place + 1})
        case ast.Call(func=ast.Name(id="Rule")) if enums:
            # What has a default is left out, one after the other.
            for argument in node.keywords:
                if argument.arg in ("sense", "clear", "clear_ms", "modes", "cap_mps", "releases_brake"):
                    yield changed(node, keywords=[other for other in node.keywords if other is not argument])
        case ast.Expr(value=ast.Call()) if enums:
            yield changed(node, value=ast.Constant(None))


def changed(node: ast.AST, **fields: Any) -> ast.AST:
    """Return a copy of a node with other fields."""
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def code(tree: ast.Module, leave: frozenset[str] = frozenset()) -> Iterator[ast.AST]:
    """Yield the nodes that run: neither documentation nor annotations, nor arguments whose names are to be left as they are."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            children = value if isinstance(value, list) else [value]
            for child in children:
                documents = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                left = bool(leave) and (isinstance(child, ast.JoinedStr) or (isinstance(child, ast.keyword) and child.arg in leave))
                if isinstance(child, ast.AST) and not documents and not left and not isinstance(child, ast.Import | ast.ImportFrom):
                    stack.append(child)


def mutants(source: str, path: str = "mutant", enums: Mapping[str, type[Enum]] | None = None) -> Iterator[Mutant]:
    """Yield the mutants of a source; with ``enums`` those of a module whose texts do not matter."""
    tree, lines = ast.parse(source), source.splitlines()
    found: Any
    for found in list(code(tree, DECLARED if enums is not None else frozenset())):
        before, written = dict(found.__dict__), ""
        for variant in list(variants(found, texts=enums is None, enums=enums)):
            written = written or ast.unparse(found)
            what = f"{lines[found.lineno - 1].strip()}: {written} -> {ast.unparse(variant)}"
            found.__dict__.update(variant.__dict__)
            yield Mutant(what, found.lineno, compile(ast.fix_missing_locations(tree), path, "exec"))
            found.__dict__.update(before)
