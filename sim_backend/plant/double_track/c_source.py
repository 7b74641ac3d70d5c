"""C source of the equations, translated from their Python text: the same operations in the same
order, so the same bits.

The text depends on the *kind* of vehicle: its powertrain and the lengths of its curves. The numbers
of a vehicle are passed in one array of doubles, which the C code reads as structs with the fields
of the NamedTuples.
"""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from sim_backend.plant.double_track import equations, powertrain, tyre
from sim_backend.plant.double_track.constants import AxleConstants, Constants
from sim_backend.plant.double_track.state import Outputs, PlantState, Stepped, Surface

FINE, DIVERGED, ROLLED_OVER, REFUSED = 0, 1, 2, 3
"""Result codes of a step. ``DIVERGED`` and ``REFUSED`` (commands that are not finite) leave the
state unchanged."""
SURFACE_AT = len(PlantState._fields) + len(Outputs._fields)
LIMITS_AT = SURFACE_AT + len(Surface._fields)

_HEAD = """\
#include <float.h>
#include <math.h>
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "intermediate results must be rounded as doubles"
#endif
#define lookup(points, values, x, slope) \\
  looked_up(sizeof(points) / sizeof(double), points, values, x, slope)
#define pick(values, index) values[(int)(index)]
static double looked_up(
    int points, const double *at, const double *values, double x, double *slope) {
  int i = 0;
  while (i < points && !(x < at[i])) i++;
  *slope = 0.0;
  if (i == 0) return values[0];
  if (i == points) return values[i - 1];
  *slope = (values[i] - values[i - 1]) / (at[i] - at[i - 1]);
  return values[i - 1] + *slope * (x - at[i - 1]);
}
"""
# The names of the entries carry a prefix, because the C library has an ``advance`` that a call from
# here would reach.
_ENTRIES = """\
typedef struct {
  Stepped after;
  Surface surface;
  double speed_limit_mps;
  double roll_limit_rad;
  Constants constants;
} Block;
int twin_advance(Block *block, double steer_rad, double throttle, double brake) {
  if (!isfinite(steer_rad + throttle + brake)) return REFUSED;
  Stepped after = step(
      &block->constants, &block->after.state, &block->surface, steer_rad, throttle, brake);
  PlantState s = after.state;
  double speed = fabs(s.forward_mps) + fabs(s.lateral_mps) + fabs(s.yaw_rate_radps)
      + fabs(s.roll_rate_radps);
  if (!(speed < block->speed_limit_mps)) return DIVERGED;
  block->after = after;
  return fabs(s.roll_rad + s.tip_rad) >= block->roll_limit_rad ? ROLLED_OVER : FINE;
}
long twin_run(Block *block, const double *commands, long count, long every, Stepped *rows) {
  for (long i = 0; i < count; i++, commands += 3) {
    PlantState before = block->after.state;
    if (twin_advance(block, commands[0], commands[1], commands[2]) == DIVERGED) return i;
    if (i % every == 0) *rows++ = (Stepped){before, block->after.outputs};
  }
  return count;
}
"""


def block(
    c: Constants, state: PlantState, surface: Surface, speed_limit_mps: float, roll_limit_rad: float
) -> list[float]:
    """Return the array that a step works on: state, outputs, the surface under the vehicle at
    ``SURFACE_AT``, the two limits at ``LIMITS_AT``, the vehicle's numbers.
    """
    return [
        *state,
        *(0.0,) * len(Outputs._fields),
        *surface,
        speed_limit_mps,
        roll_limit_rad,
        *numbers(c),
    ]


def numbers(bundle: Any) -> Iterator[float]:
    """Iterate over the numbers of nested tuples."""
    for value in bundle:
        if isinstance(value, tuple):
            yield from numbers(value)
        else:
            yield value


def kind(c: Constants) -> str:
    """Return the key of a vehicle's kind; vehicles with equal keys share a text."""
    return " ".join(
        [type(c.drive).__name__, *(f"{field}[{size}]" for field, size in _sizes(c).items())]
    )


def c_source(c: Constants) -> str:
    """Return the C source for the kind of vehicle of ``c``."""
    structs = [
        PlantState,
        Outputs,
        Stepped,
        Surface,
        AxleConstants,
        type(c.drive),
        Constants,
        tyre.Contact,
    ]
    structs += [
        powertrain.ShaftDrive,
        powertrain.Shaft,
        powertrain.Wheels,
        equations.Loads,
        equations.Corner,
    ]
    others = {
        function.__name__
        for drive, function in powertrain.DRIVES.items()
        if drive is not type(c.drive)
    }
    functions = [
        node
        for module in (tyre, powertrain, equations)
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef)
        and node.name not in {"lookup", "pick", "drive", *others}
    ]
    translator = _Translator(c, {struct.__name__: struct for struct in structs}, functions)
    codes = (
        f"enum {{ FINE = {FINE}, DIVERGED = {DIVERGED}, ROLLED_OVER = {ROLLED_OVER}, REFUSED = "
        f"{REFUSED} }};"
    )
    heads = (f"{translator.head(function)};" for function in functions)
    return "\n".join(
        [
            _HEAD,
            codes,
            *translator.typedefs(),
            *heads,
            *map(translator.function, functions),
            _ENTRIES,
        ]
    )


def _sizes(c: Constants) -> dict[str, int]:
    return {
        field: len(value) for field, value in c.drive._asdict().items() if isinstance(value, tuple)
    }


_OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.USub: "-", ast.Not: "!",
    ast.And: "&&", ast.Or: "||", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class _Translator:
    """Translates functions that consist of assignments and one return. Bundles are structs, passed
    by address."""

    def __init__(
        self, c: Constants, structs: dict[str, Any], functions: list[ast.FunctionDef]
    ) -> None:
        self._structs = structs
        self._sizes = _sizes(c)
        self._drive = type(c.drive).__name__
        chosen = powertrain.DRIVES[type(c.drive)].__name__
        for function in functions:
            if function.name == chosen:
                function.name = "drive"
        self._returns = {
            function.name: ast.unparse(function.returns or ast.Constant(None))
            for function in functions
        }
        self._constants = {
            name: value
            for module in (tyre, powertrain, equations)
            for name, value in vars(module).items()
            if isinstance(value, float)
        }
        self._types: dict[str, str] = {}
        """Type of each name of the function at hand: the name of a struct, or "double"."""
        self._arguments: set[str] = set()

    def typedefs(self) -> Iterator[str]:
        """Iterate over the declarations of the structs."""
        for name, struct in self._structs.items():
            sizes = self._sizes if name == self._drive else {}
            fields = (
                f"{self._field(name, field)} {field}"
                + (f"[{sizes[field]}];" if field in sizes else ";")
                for field in struct._fields
            )
            yield f"typedef struct {{ {' '.join(fields)} }} {name};"

    def head(self, function: ast.FunctionDef) -> str:
        """Return the declaration of a function."""
        arguments = [
            (argument.arg, ast.unparse(argument.annotation or ast.Constant(None)))
            for argument in function.args.args
        ]
        listed = (
            f"const {kind} *{name}" if kind in self._structs else f"double {name}"
            for name, kind in arguments
        )
        self._types = {
            name: kind if kind in self._structs else "double" for name, kind in arguments
        }
        self._arguments = set(self._types)
        return (
            f"static {self._type_named(self._returns[function.name])} "
            f"{function.name}({', '.join(listed)})"
        )

    def function(self, function: ast.FunctionDef) -> str:
        """Return the definition of a function."""
        lines = [f"{self.head(function)} {{"]
        for line in function.body:
            if isinstance(line, ast.Assign):
                lines += self._assigned(line.targets[0], line.value)
            elif isinstance(line, ast.Return) and line.value is not None:
                lines.append(f"  return {self._written(line.value)};")
        return "\n".join([*lines, "}"])

    def _assigned(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, part in zip(target.elts, value.elts, strict=True):
                yield from self._assigned(one, part)
        elif isinstance(target, ast.Tuple):
            # lookup is the only function that returns two numbers.
            assert isinstance(value, ast.Call), ast.unparse(value)
            found, slope = (self._declared(one, "double") for one in target.elts)
            yield f"  {slope} = 0.0; {found} = {self._call(value, '&' + slope.split()[-1])};"
        else:
            kind = self._type(value)
            yield f"  {self._declared(target, kind)} = {self._written(value)};"

    def _declared(self, target: ast.expr, kind: str) -> str:
        assert isinstance(target, ast.Name), ast.unparse(target)
        new = target.id not in self._types
        self._types[target.id] = kind
        return f"{kind} {target.id}" if new else target.id

    def _type_named(self, name: str) -> str:
        return name if name in self._structs else "double"

    def _field(self, struct: str, field: str) -> str:
        annotation = self._structs[struct].__annotations__[field]
        return (
            self._drive
            if field == "drive"
            else self._type_named(getattr(annotation, "__name__", ""))
        )

    def _type(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self._types.get(name, "double")
            case ast.Attribute(value=value, attr=field):
                return self._field(self._type(value), field)
            case ast.IfExp(body=body):
                return self._type(body)
            case ast.Call(func=ast.Name(id=name)):
                return self._type_named(self._returns.get(name, name))
        return "double"

    def _written(self, node: ast.expr) -> str:
        """Translate an expression, with parentheses everywhere to keep Python's grouping."""
        match node:
            case ast.Constant(value=float() | int() as value):
                return f"({float(value).hex()})"
            case ast.Name(id=name) if name in self._types:
                return (
                    f"(*{name})"
                    if name in self._arguments and self._types[name] != "double"
                    else name
                )
            case ast.Name(id=name):
                return f"({self._constants[name].hex()})"
            case ast.Attribute(value=value, attr=field):
                return f"{self._written(value)}.{field}"
            case ast.UnaryOp(op=op, operand=operand):
                return f"({_OPERATORS[type(op)]}{self._written(operand)})"
            case (
                ast.BinOp(left=left, op=op, right=right)
                | ast.Compare(left=left, ops=[op], comparators=[right])
            ):
                return f"({self._written(left)} {_OPERATORS[type(op)]} {self._written(right)})"
            case ast.BoolOp(op=op, values=values):
                return "(" + f" {_OPERATORS[type(op)]} ".join(map(self._written, values)) + ")"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self._written(test)} ? {self._written(body)} : {self._written(orelse)})"
            case ast.Call():
                return self._call(node)
        raise AssertionError(f"no C for {ast.unparse(node)}")

    def _call(self, node: ast.Call, *more: str) -> str:
        assert isinstance(node.func, ast.Name), ast.unparse(node)
        name, given = node.func.id, [self._written(one) for one in node.args]
        if name in self._structs:
            return f"({name}){{{', '.join(given)}}}"
        addressed = [
            "&" + text if self._type(one) in self._structs else text
            for one, text in zip(node.args, given, strict=True)
        ]
        return f"{name}({', '.join([*addressed, *more])})"
