"""The checks of the command gate, checked: every small change of its source must be noticed by one of them."""

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import vehicled.safety
from tests.gate_bench import CHECKS
from vehicled.safety import gate

SOURCE = Path(vehicled.safety.__file__).with_name("gate.py")

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

EQUIVALENT = {
    "wheel_rad = held + (step if wheel_rad > held else -step): wheel_rad > held -> wheel_rad >= held": "they differ there",
    "wheel_rad = limit if wheel_rad > 0.0 else -limit: wheel_rad > 0.0 -> wheel_rad >= 0.0": "its size is above the limit there",
    "sign = 1.0 if throttle > 0.0 else -1.0: throttle > 0.0 -> throttle >= 0.0": "zero has returned before",
    "if beyond_mps < room_mps:: beyond_mps < room_mps -> beyond_mps <= room_mps": "nothing is left there",
    "self._throttle = 0.0: 0.0 -> 1.0": "the first command is measured from nothing",
    "self._throttle = 0.0: 0.0 -> -1.0": "the first command is measured from nothing",
}
"""Mutants that behave as the gate does, each with the reason."""


def variants(node: Any) -> Iterator[ast.AST]:
    """Every small change of one node, as a node of the same class."""
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
        case ast.Constant(value=str() as text):
            yield changed(node, value=text + "?")
        case ast.Call(func=ast.Name(id="min" | "max" | "abs" as name)):
            yield changed(node, func=ast.Name({"min": "max", "max": "min", "abs": "float"}[name], ast.Load()))
        case ast.IfExp() | ast.If():
            yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))


def changed(node: ast.AST, **fields: Any) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def code(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run: neither documentation nor annotations."""
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
                if isinstance(child, ast.AST) and not documents and not isinstance(child, ast.Import | ast.ImportFrom):
                    stack.append(child)


def mutants(source: str) -> Iterator[tuple[str, CodeType]]:
    """Yield each mutation as text, with its line before and after, and as code."""
    tree, lines = ast.parse(source), source.splitlines()
    found: Any
    for found in list(code(tree)):
        before, written = dict(found.__dict__), ""
        for variant in list(variants(found)):
            written = written or ast.unparse(found)
            what = f"{lines[found.lineno - 1].strip()}: {written} -> {ast.unparse(variant)}"
            found.__dict__.update(variant.__dict__)
            yield what, compile(ast.fix_missing_locations(tree), "mutant", "exec")
            found.__dict__.update(before)


def survives(mutant: CodeType) -> bool:
    module = ModuleType("mutant")
    try:
        exec(mutant, module.__dict__)
        for check in CHECKS:
            check(module)
    except Exception:  # noqa: BLE001 - whatever a mutant does wrong, it was noticed
        return False
    return True


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_gate_passes(check: Callable[[ModuleType], None]) -> None:
    check(gate)


def test_every_mutant_of_the_gate_is_noticed() -> None:
    found = list(mutants(SOURCE.read_text(encoding="utf-8")))
    assert len(found) > 200
    assert sorted(what for what, mutant in found if survives(mutant)) == sorted(EQUIVALENT)
