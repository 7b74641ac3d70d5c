"""Backends of the equations: one source text that runs on floats, compiled, and on arrays.

- Floats: the vehicle's constants are written into the text, see :mod:`.specialise`.
- Compiled: the same functions, by numba if installed. No fast-math, so the order of operations stays.
- Arrays of vehicles: a transformation of the syntax tree turns conditional expressions and boolean operators into numpy calls; all
  other arithmetic works on arrays.
"""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_backend.plant.double_track import equations, powertrain, tables, tyre
from sim_backend.plant.double_track.c_source import c_source
from sim_backend.plant.double_track.constants import AccelerationConstants, Constants, EngineConstants, MotorConstants, Table
from sim_backend.plant.double_track.specialise import bodies, specialised

_DRIVES: dict[type, str] = {MotorConstants: "motor", EngineConstants: "engine", AccelerationConstants: "acceleration"}
_NAMES = {
    tyre: ("adhesion", "beyond_peak", "contact", "deflected"),
    powertrain: (
        "bias_nms",
        "coupling",
        "shaft",
        "left_speed",
        "right_speed",
        "rubbed",
        "settled",
    ),
    equations: ("clipped", "loads", "corner", "effective_inertia", "momentum", "step"),
}
"""Functions in call order; the vehicle's powertrain precedes the equations."""

Step = Callable[..., Any]


def drive_name(c: Constants) -> str:
    """Return the name of the powertrain that the constants belong to."""
    return _DRIVES[type(c.drive)]


@lru_cache(maxsize=64)
def scalar_step(c: Constants) -> Step:
    """Return the step on floats, for one vehicle."""
    drive = drive_name(c)
    return specialised(_listed(drive), drive, c)


def c_text(c: Constants) -> str:
    """Return the C source of the step on floats, for this kind of vehicle."""
    drive = drive_name(c)
    return c_source(bodies(_listed(drive), drive, c, named=True), c)


def compiled() -> bool:
    """True if the compiled equations are available."""
    return find_spec("numba") is not None


@cache
def compiled_functions(drive: str) -> tuple[Step, Step]:
    """Return the compiled step and its loop for a powertrain. The first call with constants takes seconds."""
    import numba

    namespace: dict[str, Any] = {}
    jit = numba.njit(fastmath=False, error_model="numpy")
    namespace["bisect_right"] = jit(_searched)
    for module, name in [(tables, "lookup"), (tables, "pick"), *_listed(drive)]:
        function = getattr(module, name)
        rebound = FunctionType(function.__code__, _shared(module, namespace), name, function.__defaults__)
        namespace["drive" if name == drive else name] = jit(rebound)
    rebound = FunctionType(_loop.__code__, {**globals(), "step": namespace["step"]}, "loop")
    return namespace["step"], jit(rebound)


@cache
def batch_step(drive: str) -> Step:
    """Return the step on arrays (n,), for a powertrain."""
    namespace: dict[str, Any] = {"lookup": _batch_lookup, "pick": _batch_pick}
    for module, name in _listed(drive):
        tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(module, name))))
        tree = ast.fix_missing_locations(_Elementwise().visit(tree))
        place = {**_shared(module, namespace), **_ARRAY_MATHS}
        exec(compile(tree, f"<{module.__name__}.{name} on arrays>", "exec", dont_inherit=True), place)  # noqa: S102 - our own text
        namespace["drive" if name == drive else name] = place[name]
    step: Step = namespace["step"]
    return step


def _listed(drive: str) -> list[tuple[Any, str]]:
    listed = [(module, name) for module in (tyre, powertrain) for name in _NAMES[module]]
    return [*listed, (powertrain, drive), *((equations, name) for name in _NAMES[equations])]


def _shared(module: Any, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the names a module's function sees: its globals, overridden by the backend's functions."""
    return {**vars(module), **namespace}


def _loop(c: Any, s: Any, g: Any, commands: Any, every: Any, speed_limit_mps: Any, out: Any) -> Any:
    """Run steps along commands (n, 3); store the state before each ``every``-th step and its outputs in ``out``. Return the last
    state and the number of steps, fewer than n if the next one diverges.
    """
    outputs = None
    states = len(s)
    for index in range(len(commands)):
        before = s
        s, outputs = step(c, s, g, commands[index, 0], commands[index, 1], commands[index, 2])  # type: ignore[name-defined]  # noqa: F821
        speed = abs(s.forward_mps) + abs(s.lateral_mps) + abs(s.yaw_rate_radps) + abs(s.roll_rate_radps)
        if not speed < speed_limit_mps:
            return before, index
        if index % every == 0:
            row = index // every
            for column in range(states):
                out[row, column] = before[column]
            for column in range(len(outputs)):
                out[row, states + column] = outputs[column]
    return s, len(commands)


def scalar_loop(step: Step) -> Step:
    """Return the loop over a step on floats."""
    return FunctionType(_loop.__code__, {**globals(), "step": step}, "loop")


def _searched(points: Any, at: Any) -> Any:
    # Replaces bisect_right, which numba lacks.
    return np.searchsorted(points, at, side="right")


def _batch_lookup(points: Table, values: Table, at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Look up in batches: rows of ``points`` are padded with infinity, rows of ``values`` with their last value."""
    index = np.sum(points <= at[:, None], axis=1)
    last = points.shape[1] - 1
    low = np.clip(index - 1, 0, last)
    high = np.clip(index, 0, last)
    rows = np.arange(len(points))
    x0, x1, y0, y1 = points[rows, low], points[rows, high], values[rows, low], values[rows, high]
    inside = (index > 0) & (index <= last) & np.isfinite(x1)
    slope = np.where(inside, (y1 - y0) / np.where(inside, x1 - x0, 1.0), 0.0)
    return np.where(inside, y0 + slope * (at - x0), y0), slope


def _batch_pick(values: Table, index: NDArray[np.float64]) -> NDArray[np.float64]:
    picked: NDArray[np.float64] = values[np.arange(len(values)), index.astype(np.int64)]
    return picked


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(yes, tuple):
        return type(yes)(*(np.where(condition, a, b) for a, b in zip(yes, no, strict=True)))
    return np.where(condition, yes, no)


_ARRAY_MATHS: dict[str, Any] = {
    "sqrt": np.sqrt,
    "fabs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "_where": _where,
    "_both": np.logical_and,
    "_either": np.logical_or,
}


class _Elementwise(ast.NodeTransformer):
    """Rewrites conditional expressions to ``_where``, ``and`` to ``_both``, ``or`` to ``_either``."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return _call("_where", node.test, node.body, node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        name = "_both" if isinstance(node.op, ast.And) else "_either"
        joined = node.values[0]
        for value in node.values[1:]:
            joined = _call(name, joined, value)
        return joined


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])


def compiled_constants(c: Constants) -> Constants:
    """Return the constants with their tables as arrays, for the compiled functions."""
    return c._replace(drive=type(c.drive)(*(np.array(v) if isinstance(v, tuple) else v for v in c.drive)))


def batch_constants(many: list[Constants]) -> Constants:
    """Return the constants of many vehicles as arrays (n,), tables as (n, points)."""
    stacked: Constants = _stack(many)
    return stacked


def _stack(many: Any, name: str = "") -> Any:
    first = many[0]
    if hasattr(first, "_fields"):
        return type(first)(*(_stack([one[k] for one in many], field) for k, field in enumerate(first._fields)))
    if isinstance(first, tuple):
        size = max(len(one) for one in many)
        grows = name in ("curve_speed", "loss_speed", "map_speed", "converter_speed_ratio")
        return np.array([[*one, *[math.inf if grows else one[-1]] * (size - len(one))] for one in many])
    return np.array(many)
