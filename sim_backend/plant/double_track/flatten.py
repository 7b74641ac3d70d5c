"""Inlining of calls: a call is replaced by the function's assignments, and a returned bundle by local variables."""

import ast
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)


def inline_calls(function: ast.FunctionDef, bodies: dict[str, ast.FunctionDef], bundles: dict[str, tuple[str, ...]]) -> None:
    """Inline calls of ``bodies`` in the statements of a function. ``bundles``: fields by the name of a NamedTuple."""
    function.body = _Flat(bodies, bundles).statements(function.body)


class _Flat:
    def __init__(self, bodies: dict[str, ast.FunctionDef], bundles: dict[str, tuple[str, ...]]) -> None:
        self._bodies = bodies
        self._bundles = bundles
        self._open: dict[str, dict[str, ast.expr]] = {}
        """Fields by name of a local that would have been a bundle."""

    def statements(self, lines: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for line in lines:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                before, value = self._value(line.value)
                done += before
                name = line.targets[0].id
                if isinstance(value, dict):
                    for field, expression in value.items():
                        done.append(_assign(f"{name}__{field}", expression))
                    self._open[name] = {field: ast.Name(id=f"{name}__{field}", ctx=ast.Load()) for field in value}
                else:
                    done.append(_assign(name, value))
            else:
                done.append(self._fields(line))
        return done

    def _value(self, node: ast.expr) -> tuple[list[ast.stmt], Any]:
        """Return the statements that must precede, and an expression or the fields of a bundle."""
        if isinstance(node, ast.Name) and node.id in self._open:
            return [], dict(self._open[node.id])
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return [], self._fields(node)
        name, before, given = node.func.id, list[ast.stmt](), list[Any]()
        if name not in self._bodies and name not in self._bundles:
            return [], self._fields(node)
        for argument in node.args:
            lines, value = self._value(argument)
            before += lines
            given.append(value)
        if name in self._bundles:
            return before, dict(zip(self._bundles[name], given, strict=True))
        lines, value = self._inside(self._bodies[name], given)
        return before + lines, value

    def _inside(self, function: ast.FunctionDef, given: list[Any]) -> tuple[list[ast.stmt], Any]:
        # All calls of a function share locals: beyond 256 of them Python's instructions get longer.
        mark = "_" + function.name.removesuffix("_front").removesuffix("_rear")
        names: dict[str, ast.expr] = {}
        before: list[ast.stmt] = []
        for argument, value in zip(function.args.args, given, strict=True):
            own = argument.arg + mark
            if isinstance(value, dict):
                self._open[own] = value
            elif not isinstance(value, ast.Name | ast.Constant):
                before.append(_assign(own, value))
            names[argument.arg] = value if isinstance(value, ast.Name | ast.Constant) else ast.Name(id=own, ctx=ast.Load())
        rename = _Rename(names, mark)
        renamed = [rename.visit(copied(line)) for line in function.body]
        last = renamed.pop()
        before += self.statements(renamed)
        lines, value = self._value(last.value)
        return before + lines, value

    def _fields(self, node: Any) -> Any:
        opened = self._open

        class Fields(ast.NodeTransformer):
            def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
                if isinstance(node.value, ast.Name) and node.value.id in opened:
                    return copied(opened[node.value.id][node.attr])
                return node

        return Fields().visit(node)


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr], mark: str) -> None:
        self._names = names
        self._mark = mark

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.visit(node.value)
        node.targets = [self.visit(target) for target in node.targets]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Store):
            self._names[node.id] = ast.Name(id=node.id + self._mark, ctx=ast.Load())
            return ast.Name(id=node.id + self._mark, ctx=ast.Store())
        return copied(self._names.get(node.id, node))


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(id=name, ctx=ast.Store())], value)


def copied(node: Node) -> Node:
    """Return a deep copy of a syntax tree, without the bookkeeping of ``copy.deepcopy``, which every start of a twin would pay."""
    if not node.__dict__:
        return node
    twin = type(node)()
    for name, value in node.__dict__.items():
        if isinstance(value, list):
            value = [copied(one) if isinstance(one, ast.AST) else one for one in value]
        elif isinstance(value, ast.AST):
            value = copied(value)
        setattr(twin, name, value)
    return twin
