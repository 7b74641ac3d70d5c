"""Small changes of a source file, one at a time: what the checks of that file must notice.

A mutant replaces one comparison, operator, number, truth value, ``nan`` or ``inf``, one member of
an enumeration by its neighbour, or one condition by its opposite; or it deletes one statement, one
element of a table, or one argument of a rule. Texts stay, and so do the declared times of a rule
(``detect_ms``, ``react_ms``), which the drives of the failsafe matrix measure.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

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
FUNCTIONS = {
    "min": "max",
    "max": "min",
    "abs": "float",
    "any": "all",
    "all": "any",
    "nan": "0.0",
    "inf": "0.0",
}
NEGATED = {"isfinite", "isnan"}
EXPLAINS = {
    "reason",
    "fault",
    "detector",
    "unit",
    "said",
    "refused",
    "details",
    "substitute",
    "outside",
    "unobeyed",
}
"""Keyword arguments that only explain."""
MEASURED_BY_DRIVES = {"detect_ms", "react_ms", "outside_ms", "number"}
EXPLAINING_ENUMERATIONS = {"ReasonCode", "ControlReason", "Cause"}
REAL = re.compile(r"_(m|mps|mps2|rad|radps|per_m|k|v|a|s|ratio|share|mps\(.*\)|m\(.*\))$")
"""End of the name of a real quantity."""
FEW = 1000
"""Whole numbers from here on are durations and the like, which one more or less does not change."""

Change = tuple[str, ast.AST, dict[str, Any]]
"""Text of a change, the node with the changed lines, and the new fields of the node that is
changed."""


class Mutant(NamedTuple):
    """A change of a source file."""

    where: str
    """Function, class or rule that is changed."""
    what: str
    """Line, and the text before and after."""
    lines: tuple[int, int]
    """First and last line of what is changed."""
    inside: bool
    """True if the changed code runs in a function, False if it runs at import."""
    tree: ast.Module
    node: ast.AST
    fields: dict[str, Any]
    """New fields of the node."""

    def compile(self) -> CodeType:
        """Return the changed file as code."""
        with self.changed() as tree:
            return compile(tree, "mutant", "exec")

    @contextmanager
    def changed(self) -> Iterator[ast.Module]:
        """Return the changed file, which is as before afterwards."""
        before = {name: getattr(self.node, name) for name in self.fields}
        self.node.__dict__.update(self.fields)
        try:
            yield ast.fix_missing_locations(self.tree)
        finally:
            self.node.__dict__.update(before)


def enumerations(*files: Path) -> dict[str, list[str]]:
    """Return the members of every enumeration in some files, without those that only explain."""
    found: dict[str, list[str]] = {}
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(base).endswith("Enum") for base in node.bases
            ):
                members = (item.targets[0] for item in node.body if isinstance(item, ast.Assign))
                found[node.name] = [target.id for target in members if isinstance(target, ast.Name)]
    return {name: members for name, members in found.items() if name not in EXPLAINING_ENUMERATIONS}


def expressions(
    node: ast.AST, members: Mapping[str, list[str]]
) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every small change of an expression, as a pair of before and after."""
    match node:
        case ast.Compare():
            sides = (node.left, *node.comparators)
            for place, operator in enumerate(node.ops):
                others = COMPARISONS[type(operator)]
                # A real quantity meets its limit by chance only, but 0 on purpose.
                pair = sides[place : place + 2]
                real = any(map(_measured, pair)) and not any(
                    isinstance(side, ast.Constant) for side in pair
                )
                for other in others[-1:] if real else others:
                    ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                    yield node, ast.Compare(node.left, ops, node.comparators)
        case ast.BinOp() if type(node.op) in OPERATORS:
            yield node, ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.BoolOp():
            yield (
                node,
                ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values),
            )
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield (
                node,
                ast.UnaryOp(ast.UAdd(), node.operand)
                if isinstance(node.op, ast.USub)
                else node.operand,
            )
        case ast.Constant(value=bool()):
            yield node, ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield (
                node,
                ast.Constant(
                    2 * number
                    if number and (isinstance(number, float) or number >= FEW)
                    else number + 1
                ),
            )
        case ast.Name(id=name, ctx=ast.Load()) if name in FUNCTIONS:
            yield node, ast.parse(FUNCTIONS[name], mode="eval").body
        case ast.Call(func=ast.Name(id=name)) if name in NEGATED:
            yield node, ast.UnaryOp(ast.Not(), node)
        case ast.Attribute(value=ast.Name(id=name) as owner, attr=member) if member in members.get(
            name, ()
        ):
            place = members[name].index(member)
            for neighbour in (
                members[name][max(place - 1, 0) : place] + members[name][place + 1 : place + 2]
            ):
                yield node, ast.Attribute(owner, neighbour, ast.Load())


def changes(node: Any, members: Mapping[str, list[str]], *, inside: bool) -> Iterator[Change]:
    """Every small change of a node, in its own fields or in one of its children."""
    for name, value in ast.iter_fields(node):
        if (name == "value" and _nanosecond(node)) or _finite(node):
            continue
        for place, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.expr) or name in (
                "annotation",
                "returns",
                "decorator_list",
            ):
                continue
            after = [(child, new) for _, new in expressions(child, members)]
            if name == "test" and not after and not _deletable(node):
                after.append((child, ast.UnaryOp(ast.Not(), child)))
            for old, new in after:
                fields = (
                    [*value[:place], new, *value[place + 1 :]] if isinstance(value, list) else new
                )
                yield f"{ast.unparse(old)} -> {ast.unparse(new)}", old, {name: fields}
    if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        other = OPERATORS[type(node.op)]()
        changed = ast.unparse(ast.AugAssign(node.target, other, node.value))
        yield f"{ast.unparse(node)} -> {changed}", node, {"op": other}
    for name in ("body", "orelse", "finalbody"):
        for place, child in enumerate(statements := _children(node, name) if inside else []):
            if _deletable(child):
                yield (
                    "deleted",
                    child,
                    {name: [*statements[:place], ast.Pass(), *statements[place + 1 :]]},
                )
    for name in ("elts", "args"):
        for place, child in enumerate(elements := _children(node, name)):
            if _row(child) or _member(child, members):
                yield (
                    f"{_title(child)} deleted",
                    child,
                    {name: elements[:place] + elements[place + 1 :]},
                )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule":
        for place, keyword in enumerate(node.keywords):
            if keyword.arg not in EXPLAINS | MEASURED_BY_DRIVES | {"code", "value"}:
                yield (
                    f"{keyword.arg}= deleted",
                    keyword,
                    {"keywords": node.keywords[:place] + node.keywords[place + 1 :]},
                )


def _measured(node: ast.expr) -> bool:
    """Return True for a real quantity: by the unit at the end of its name, or a product or quotient
    that is no time in ns."""
    if (
        isinstance(node, ast.Call)
        and node.args
        and ast.unparse(node.func) in ("abs", "min", "max", "float")
    ):
        return any(map(_measured, node.args))
    if isinstance(node, ast.BinOp):
        if any(isinstance(part, ast.Constant) and part.value == 1e9 for part in ast.walk(node)):
            return False
        return (
            isinstance(node.op, ast.Mult | ast.Div) or _measured(node.left) or _measured(node.right)
        )
    return bool(REAL.search(ast.unparse(node).lower()))


def _finite(node: ast.AST) -> bool:
    """Return True for a question whether numbers are finite: a sum is as finite as a difference."""
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NEGATED
    )


def _nanosecond(node: ast.AST) -> bool:
    """Return True for the assignment of a number below ``FEW`` to a time or duration: a nanosecond
    more changes nothing."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return False
    return all(ast.unparse(target).endswith("_ns") for target in node.targets)


def _children(node: ast.AST, name: str) -> list[Any]:
    value = getattr(node, name, None)
    return value if isinstance(value, list) else []


def _row(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Rule", "Row", "_way")
    )


def _member(node: ast.AST, members: Mapping[str, list[str]]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in members.get(node.value.id, ())
    )


def _deletable(node: ast.AST) -> bool:
    """Return True unless the deletion is another mutant too, or leaves a local variable without a
    value."""
    match node:
        case ast.Expr():
            return not isinstance(node.value, ast.Constant)
        case ast.Assign():
            return not all(
                isinstance(name, ast.Name)
                for target in node.targets
                for name in getattr(target, "elts", [target])
            )
        case ast.If():
            return not node.orelse
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Raise | ast.Delete)


def _title(node: ast.AST) -> str:
    """Return how an element of a table is called: the code of a rule, the number of a row, or its
    text."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg in ("code", "number"):
                return (
                    str(keyword.value.value)
                    if isinstance(keyword.value, ast.Constant)
                    else ast.unparse(keyword.value)
                )
    return ast.unparse(node)[:60]


def nodes(node: Any, where: str, *, inside: bool) -> Iterator[tuple[Any, str, bool]]:
    """Nodes that run, with the name of their function, class or rule: no documentation,
    annotations, texts or assertions."""
    outer = inside
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".removeprefix(".")
        inside = isinstance(node, ast.FunctionDef) or inside
    elif isinstance(node, ast.Lambda):
        inside = True
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Rule", "Row")
    ):
        where = _title(node)
    yield node, where, inside
    if _finite(node):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            explains = isinstance(child, ast.keyword) and child.arg in EXPLAINS | MEASURED_BY_DRIVES
            silent = isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert)
            # How a struct is stored, not what it says.
            silent = silent or (isinstance(node, ast.ClassDef) and name == "keywords")
            if isinstance(child, ast.AST) and not explains and not silent:
                # Defaults are made where the function is defined.
                yield from nodes(
                    child, where, inside=outer if isinstance(child, ast.arguments) else inside
                )


def mutants(source: str, members: Mapping[str, list[str]]) -> Iterator[Mutant]:
    """Yield every mutant of a source file. Equal changes of equal lines in one function are
    numbered."""
    tree, lines = ast.parse(source), source.splitlines()
    seen: Counter[tuple[str, str]] = Counter()
    for node, where, inside in list(nodes(tree, "", inside=False)):
        for text, changed, fields in list(changes(node, members, inside=inside)):
            first: int = changed.lineno  # type: ignore[attr-defined]
            last: int = (changed.test if isinstance(changed, ast.If) else changed).end_lineno  # type: ignore[attr-defined]
            what = f"{lines[first - 1].strip()}: {text}"
            seen[where, what] += 1
            if (number := seen[where, what]) > 1:
                what = f"{what} ({number})"
            yield Mutant(where, what, (first, last), inside, tree, node, fields)
