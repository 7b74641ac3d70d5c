"""C source of the equations for one kind of vehicle: the same operations in the same order, so that results are bit-identical.

A kind comprises what the text depends on, see :func:`sim_backend.plant.double_track.specialise.affects_text`: flags, constants that
are 0 or 1, and table lengths. All other numbers are passed as one array.
"""

import ast
from collections.abc import Iterator
from functools import partial
from typing import Any

from sim_backend.plant.double_track.constants import Constants
from sim_backend.plant.double_track.specialise import affects_text
from sim_backend.plant.double_track.state import Outputs, State, Surface

ENTRY = "advance"
FINE, DIVERGED, ROLLED_OVER, REFUSED = 0, 1, 2, 3
"""Result codes of a step. ``DIVERGED`` and ``REFUSED`` (commands that are not finite) leave the state unchanged."""

_HEAD = """\
#include <float.h>
#include <math.h>
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "intermediate results must be rounded as doubles"
#endif
static double lookup(int points, const double *at, const double *values, double x, double *slope) {
  int i = 0;
  while (i < points && !(x < at[i])) i++;
  *slope = 0.0;
  if (i == 0) return values[0];
  if (i == points) return values[i - 1];
  *slope = (values[i] - values[i - 1]) / (at[i] - at[i - 1]);
  return values[i - 1] + *slope * (x - at[i - 1]);
}
"""
_ENTRY = """\
int {entry}(double *block, double steer_rad, double throttle, double brake) {{
  const double *limits = block + {limits_at}, *k = limits + 2;
  double *s = block, after[{surface_at}];
  if (!isfinite(steer_rad + throttle + brake)) return {refused};
  step(k, s, block + {surface_at}, steer_rad, throttle, brake, after);
  double speed = fabs(after[{forward_mps}]) + fabs(after[{lateral_mps}]) + fabs(after[{yaw_rate_radps}]);
  if (!(speed + fabs(after[{roll_rate_radps}]) < limits[0])) return {diverged};
  for (int i = 0; i < {surface_at}; i++) s[i] = after[i];
  return fabs(s[{roll_rad}] + s[{tip_rad}]) >= limits[1] ? {rolled_over} : {fine};
}}
"""
SURFACE_AT = len(State._fields) + len(Outputs._fields)
LIMITS_AT = SURFACE_AT + len(Surface._fields)


def block(c: Constants, state: State, surface: Surface, speed_limit_mps: float, roll_limit_rad: float) -> list[float]:
    """Return the array that a step works on: state, outputs, the surface under the vehicle at ``SURFACE_AT``, the two limits at
    ``LIMITS_AT``, the vehicle's numbers.
    """
    return [*state, *(0.0,) * len(Outputs._fields), *surface, speed_limit_mps, roll_limit_rad, *numbers(c)]


def numbers(c: Constants) -> list[float]:
    """Return the vehicle's numbers that are not part of its kind, in the order of the text."""
    return [value for _, values in _paths(c, "c") if not _is_written(values) for value in _listed(values)]


def kind(c: Constants) -> str:
    """Return the key of a vehicle's kind; vehicles with equal keys share a text."""
    shape = (f"{path}={v!r}" if _is_written(v) else f"{path}[{len(_listed(v))}]" for path, v in _paths(c, "c"))
    return " ".join((type(c.drive).__name__, *shape))


def c_source(functions: dict[str, ast.FunctionDef], c: Constants) -> str:
    """Return the C source of the functions that :func:`sim_backend.plant.double_track.specialise.bodies` named for ``c``."""
    lines, lengths, at = [_HEAD], dict[str, int](), 0
    for path, values in _paths(c, "c"):
        if not _is_written(values):
            lines.append(f"#define {path} " + (f"(k + {at})" if isinstance(values, tuple) else f"k[{at}]"))
            lengths[path] = len(_listed(values))
            at += lengths[path]
    lines += [f"#define s_{name} s[{index}]" for index, name in enumerate(State._fields)]
    step = functions["step"]
    called = {name for name in functions if _calls(step, name)}
    lines += [_function(function, lengths) for name, function in functions.items() if name in called]
    lines.append(_step(step, lengths))
    places = {name: State._fields.index(name) for name in _CHECKED}
    ends = {"fine": FINE, "diverged": DIVERGED, "rolled_over": ROLLED_OVER, "refused": REFUSED}
    lines.append(_ENTRY.format(entry=ENTRY, surface_at=SURFACE_AT, limits_at=LIMITS_AT, **places, **ends))
    return "\n".join(lines)


_CHECKED = ("forward_mps", "lateral_mps", "yaw_rate_radps", "roll_rad", "roll_rate_radps", "tip_rad")


def _paths(bundle: Any, path: str) -> Iterator[tuple[str, Any]]:
    for field, value in zip(bundle._fields, bundle, strict=True):
        if hasattr(value, "_fields"):
            yield from _paths(value, f"{path}_{field}")
        else:
            yield f"{path}_{field}", value


def _is_written(value: Any) -> bool:
    return not isinstance(value, tuple) and affects_text(value)


def _listed(value: Any) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _calls(function: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == name for one in ast.walk(function))


def _function(function: ast.FunctionDef, lengths: dict[str, int]) -> str:
    """Translate a function of floats that returns a float."""
    # Constants are passed as the array k.
    names = [argument.arg for argument in function.args.args if argument.arg != "c"]
    *lines, last = function.body
    assert isinstance(last, ast.Return)
    assert last.value is not None
    args = "".join(f", double {name}" for name in names)
    body = _statements(lines, lengths, set(names))
    return f"static double {function.name}(const double *k{args}) {{\n{body}  return {_expression(last.value, lengths)};\n}}\n"


def _step(function: ast.FunctionDef, lengths: dict[str, int]) -> str:
    *lines, last = function.body[1:]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Tuple)
    values = [value for bundle in last.value.elts if isinstance(bundle, ast.Call) for value in bundle.args]
    code = "".join(f"  after[{index}] = {_expression(value, lengths)};\n" for index, value in enumerate(values))
    args = "double steer_rad, double throttle, double brake, double *after"
    return (
        f"static void step(const double *k, const double *s, const double *g, {args}) {{\n{_statements(lines, lengths)}{code}}}\n"
    )


def _statements(lines: list[ast.stmt], lengths: dict[str, int], known: set[str] | None = None) -> str:
    assigned = list[tuple[str, str]]()
    for line in lines:
        assert isinstance(line, ast.Assign), ast.unparse(line)
        target, value = line.targets[0], line.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            assigned += [(_name(one), _expression(v, lengths)) for one, v in zip(target.elts, value.elts, strict=True)]
        elif isinstance(target, ast.Tuple):
            # lookup is the only function that returns two values.
            first, second = (_name(one) for one in target.elts)
            assert isinstance(value, ast.Call), ast.unparse(line)
            assigned += [(second, "0.0"), (first, _call(value, lengths, f", &{second}"))]
        else:
            assigned.append((_name(target), _expression(value, lengths)))
    declared = sorted({name for name, _ in assigned} - (known or set()))
    head = f"  double {', '.join(declared)};\n" if declared else ""
    return head + "".join(f"  {name} = {value};\n" for name, value in assigned)


def _name(node: ast.expr) -> str:
    assert isinstance(node, ast.Name), ast.unparse(node)
    return node.id


_OPERATORS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.And: "&&",
    ast.Or: "||",
    ast.USub: "-",
    ast.Not: "!",
}


def _expression(node: ast.expr, lengths: dict[str, int]) -> str:
    """Translate an expression, with parentheses everywhere to keep Python's grouping."""
    written = partial(_expression, lengths=lengths)
    match node:
        case ast.Constant(value=bool() as value):
            return str(int(value))
        case ast.Constant(value=float() | int() as value):
            return f"({float(value).hex()})"
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="g"), attr=field):
            return f"g[{Surface._fields.index(field)}]"
        case ast.UnaryOp(op=op, operand=operand):
            return f"({_OPERATORS[type(op)]}{written(operand)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({written(left)} {_OPERATORS[type(op)]} {written(right)})"
        case ast.BoolOp(op=op, values=values):
            return "(" + f" {_OPERATORS[type(op)]} ".join(map(written, values)) + ")"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({written(left)} {_OPERATORS[type(op)]} {written(right)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({written(test)} ? {written(body)} : {written(orelse)})"
        case ast.Call():
            return _call(node, lengths)
    raise AssertionError(f"no C for {ast.unparse(node)}")


def _call(node: ast.Call, lengths: dict[str, int], more: str = "") -> str:
    name = _name(node.func)
    if name == "pick":
        return f"{_name(node.args[0])}[(int){_expression(node.args[1], lengths)}]"
    given = [_expression(one, lengths) for one in node.args if not (isinstance(one, ast.Constant) and one.value is None)]
    if name == "lookup":
        given.insert(0, str(lengths[_name(node.args[0])]))
    elif name not in ("sqrt", "fabs", "sin", "cos", "tan"):
        given.insert(0, "k")
    return f"{name}({', '.join(given)}{more})"
