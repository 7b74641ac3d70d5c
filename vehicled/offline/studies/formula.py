"""Arithmetic formulas of a study file, such as ``= 1000 / rate_hz``."""

import ast
import operator
from collections.abc import Callable, Mapping
from math import ceil, floor, isfinite
from typing import Any

MAX_CHARACTERS = 200

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "round": round,
    "abs": abs,
    "ceil": ceil,
    "floor": floor,
}
_ALLOWED = f"use numbers, names of factors, + - * / ( ) and {', '.join(_FUNCTIONS)}"


class FormulaError(ValueError):
    """A formula cannot be evaluated. The text says why."""


def is_formula(value: object) -> bool:
    """Return True if a value of a study file is a formula: a text that begins with an equals
    sign."""
    return isinstance(value, str) and value.startswith("=")


def evaluate(text: str, names: Mapping[str, Any]) -> float | int:
    """Return the value of a formula over numbers by name. Raises :class:`FormulaError`."""
    if len(text) > MAX_CHARACTERS:
        raise FormulaError(f"the formula is longer than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text.removeprefix("=").strip(), mode="eval")
        value = _value(tree.body, names)
    except SyntaxError:
        raise FormulaError(f"{text!r} is not a formula: {_ALLOWED}") from None
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, FormulaError):
            raise
        raise FormulaError(f"{text!r} cannot be evaluated: {error}") from None
    if not isfinite(value):
        raise FormulaError(f"{text!r} is not finite")
    number: float | int = value
    return number


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name(id=name):
            found = names.get(name)
            if isinstance(found, int | float) and not isinstance(found, bool):
                return found
            numbers = [key for key, each in names.items() if isinstance(each, int | float)]
            why = "is not a number" if name in names else "is unknown"
            raise FormulaError(f"{name} {why}; numbers here are {', '.join(numbers) or 'none'}")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(each, names) for each in arguments))
    raise FormulaError(_ALLOWED)
