"""Equations with one vehicle's numbers written into them: the same arithmetic in the same order, in half the time.

On floats a step would spend most of its time on looking up constants. So the text of the equations is transformed once per vehicle:
constants replace their names, branches that a constant decides are removed, the state is unpacked once, and calls are inlined.
Python compiles the result.
"""

import ast
import copy
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any, TypeGuard

from sim_backend.plant.double_track.constants import Constants
from sim_backend.plant.double_track.flatten import copied, inline_calls

NUMBER = "number"
"""Kind of a constant that is neither 0, 1 nor a flag, so that the text does not depend on its value."""


def specialised(listed: list[tuple[ModuleType, str]], drive: str, c: Constants) -> Callable[..., Any]:
    """Return ``step`` of the listed functions (callees before callers) for the constants ``c``; its first argument is unused."""
    namespace = {key: value for module, _ in listed for key, value in vars(module).items()}
    for function in bodies(listed, drive, c).values():
        code = compile(ast.Module([function], []), f"<{function.name} of one vehicle>", "exec")
        exec(code, namespace)  # noqa: S102 - our own text
    step: Callable[..., Any] = namespace["step"]
    return step


def affects_text(value: Any) -> bool:
    """True if the text depends on a constant: a flag, or a number whose addition or multiplication can be left out."""
    return isinstance(value, bool) or value in (0.0, 1.0)


def bodies(listed: list[tuple[ModuleType, str]], drive: str, c: Constants, *, named: bool = False) -> dict[str, ast.FunctionDef]:
    """Return the functions for the constants ``c`` by name, callees before callers.

    ``named``: numbers stay names, ``c_front_arm_m`` for ``c.front.arm_m``. The text then suits every vehicle of the kind with the
    same arithmetic, because simplification does not depend on the numbers.
    """
    written: dict[str, ast.FunctionDef] = {}
    for module, name in listed:
        tree = _parsed(module, name)
        for suffix, own, path in (("", c, "c"), ("_front", c.front, "c_front"), ("_rear", c.rear, "c_rear")):
            if (own is not c) != _takes(tree, "AxleConstants"):
                continue
            known: dict[str, Any] = {"c": (own, path), "f": (c.front, "c_front"), "r": (c.rear, "c_rear")}
            if name == drive:
                known |= {argument.arg: (c.drive, "c_drive") for argument in tree.args.args[1:2]}
            function = copied(tree)
            function.name = ("drive" if name == drive else name) + suffix
            known |= {key: (value, "") for key, value in vars(module).items() if key.isupper() and isinstance(value, float)}
            function = _Writer(known, suffix, written, named=named).visit(function)
            if name == "step":
                inline_calls(function, written, _bundles(module for module, _ in listed))
                _unpack_state(function)
            ast.fix_missing_locations(function)
            written[function.name] = function
    return written


@cache
def _parsed(module: ModuleType, name: str) -> ast.FunctionDef:
    """Parse a function once; vehicles work on copies."""
    tree = ast.parse(inspect.getsource(getattr(module, name))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.body = [line for line in tree.body if not _is_docstring(line)]
    return tree


def _bundles(modules: Iterable[ModuleType]) -> dict[str, tuple[str, ...]]:
    found = {kind.__name__: kind._fields for module in modules for kind in vars(module).values() if hasattr(kind, "_fields")}
    return {name: fields for name, fields in found.items() if name not in ("State", "Outputs")}


def _takes(function: ast.FunctionDef, kind: str) -> bool:
    first = function.args.args[0] if function.args.args else None
    return first is not None and isinstance(first.annotation, ast.Name) and first.annotation.id == kind


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _unpack_state(function: ast.FunctionDef) -> None:
    """Replace ``s.x_m`` by a local name, for all fields."""
    from sim_backend.plant.double_track.state import State

    class Local(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.value, ast.Name) and node.value.id == "s":
                return ast.Name(id=f"s_{node.attr}", ctx=ast.Load())
            return node

    Local().visit(function)
    names = ast.Tuple([ast.Name(id=f"s_{field}", ctx=ast.Store()) for field in State._fields], ast.Store())
    function.body.insert(0, ast.Assign([names], ast.Name(id="s", ctx=ast.Load())))


class _Writer(ast.NodeTransformer):
    """Replaces names by constants, and removes what they decide."""

    def __init__(self, known: dict[str, Any], suffix: str, bodies: dict[str, ast.FunctionDef], *, named: bool) -> None:
        """``known``: value by name with its path in the vehicle's constants; the path is "" for a value shared by all vehicles."""
        self._known = known
        self._suffix = suffix
        self._bodies = bodies
        self._named = named
        self._local: dict[str, ast.Constant] = {}
        self._once: set[str] = set()
        """Names that are assigned in one place only."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        self._known = {key: value for key, value in self._known.items() if key in {"f", "r"} or key.isupper() or _has(node, key)}
        stored = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        self._once = {name for name in stored if stored.count(name) == 1}
        node.body = [line for line in (self.visit(line) for line in node.body) if line is not None]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and self._are_tables(value):
            # "f, r, dt = c.front, c.rear, c.step_s": the axles are known, the rest stays.
            pairs = [(t, v) for t, v in zip(target.elts, value.elts, strict=True) if not self._are_tables(ast.Tuple([v]))]
            node.targets, node.value = [ast.Tuple([t for t, _ in pairs], ast.Store())], ast.Tuple([v for _, v in pairs], ast.Load())
            if not pairs:
                return None
        self.generic_visit(node)
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant) and target.id in self._once:
            self._local[target.id] = node.value
            return None
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return node
        if node.id in self._local:
            return copy.copy(self._local[node.id])
        return self._written(node) or node

    def _are_tables(self, value: ast.Tuple) -> bool:
        return any(isinstance(one, ast.Attribute) and one.attr in ("front", "rear") for one in value.elts)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        written = self._written(node)
        if written is not None:
            return written
        self.generic_visit(node)
        return node

    def _written(self, node: ast.expr) -> ast.expr | None:
        """Return the replacement of a known number or table; None for everything else, including bundles."""
        found = self._value(node)
        if found is None or hasattr(found[0], "_fields"):
            return None
        value, path = found
        if not path or affects_text(value):
            return ast.Constant(value)
        return ast.Name(id=path, ctx=ast.Load()) if self._named else ast.Constant(value, NUMBER)

    def _value(self, node: ast.expr) -> tuple[Any, str] | None:
        if isinstance(node, ast.Name):
            return self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            found = self._value(node.value)
            if found is not None:
                return getattr(found[0], node.attr), f"{found[1]}_{node.attr}"
        return None

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test = self.visit(node.test)
        if _is_settled(test):
            return self._rewritten(node.body if test.value else node.orelse)
        node.test, node.body, node.orelse = test, self.visit(node.body), self.visit(node.orelse)
        return node

    def _rewritten(self, node: ast.expr) -> ast.AST:
        rewritten: ast.AST = self.visit(node)
        return rewritten

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Apply exact identities only; the sign of a zero may differ."""
        left: ast.expr = self.visit(node.left)
        right: ast.expr = self.visit(node.right)
        node.left, node.right = left, right
        settled = _is_settled(left) and _is_settled(right)
        if not settled and isinstance(node.op, ast.Mult):
            for one, other in ((left, right), (right, left)):
                if _is_settled(one) and one.value in (0.0, 1.0):
                    return ast.Constant(0.0) if one.value == 0.0 else other
        if not settled and isinstance(node.op, ast.Add | ast.Sub) and _is_settled(right) and right.value == 0.0:
            return left
        if not settled and isinstance(node.op, ast.Add) and _is_settled(left) and left.value == 0.0:
            return right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            value = eval(ast.unparse(node), {"__builtins__": {}})  # noqa: S307 - two numbers of our own
            return ast.Constant(value) if settled else ast.Constant(value, NUMBER)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        deciding = isinstance(node.op, ast.Or)
        values = []
        for value in (self.visit(one) for one in node.values):
            if _is_settled(value) and isinstance(value.value, bool):
                if value.value is deciding:
                    return ast.Constant(deciding)
                continue
            values.append(value)
        if len(values) < 2:
            return values[0] if values else ast.Constant(not deciding)
        node.values = values
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name):
            return node
        name = node.func.id
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id in ("f", "r", "c"):
            end = {"f": "_front", "r": "_rear", "c": self._suffix}[node.args[0].id]
            if f"{name}{end}" in self._bodies:
                node.func = ast.Name(id=f"{name}{end}", ctx=ast.Load())
        node.args = [ast.Constant(None) if self._is_whole(argument) else self.visit(argument) for argument in node.args]
        body = self._bodies.get(node.func.id)
        if body is not None and len(body.body) == 1 and isinstance(body.body[0], ast.Return):
            names = [argument.arg for argument in body.args.args]
            expression = body.body[0].value
            assert expression is not None
            uses = {name: sum(isinstance(n, ast.Name) and n.id == name for n in ast.walk(expression)) for name in names}
            given = dict(zip(names, node.args, strict=True))
            if all(uses[name] < 2 or isinstance(given[name], ast.Name | ast.Constant | ast.Attribute) for name in names):
                return _Substitute(given).visit(copied(expression))  # type: ignore[no-any-return]
        return node

    def _is_whole(self, node: ast.expr) -> bool:
        """True for a bundle of constants passed as an argument: the called function has its own already."""
        found = self._value(node)
        return found is not None and hasattr(found[0], "_fields")


class _Substitute(ast.NodeTransformer):
    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copied(self._given.get(node.id, node))


def _is_settled(node: ast.expr) -> TypeGuard[ast.Constant]:
    """True for a constant that the text depends on."""
    return isinstance(node, ast.Constant) and node.kind != NUMBER


def _has(node: ast.FunctionDef, name: str) -> bool:
    return any(argument.arg == name for argument in node.args.args)
