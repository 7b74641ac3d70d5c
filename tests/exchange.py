"""Exchange of module-level values in a running process, as if a module had been imported from other
code.

The assignments of the other code run in a copy of the module's namespace, and what they make is
compared with what there is. Fields of structs and entries of dictionaries are changed in place.
What cannot change, such as a number, is bound anew in the module and in all that imported it by
name. Modules that computed something from it at import run their assignments again, and are
compared in the same way.
"""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

ROOT = Path(__file__).resolve().parent.parent
OWN = (str(ROOT / "vehicled"), str(ROOT / "tests"))
Edit = Callable[[], object]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign)
PLAIN = (bool, int, float, str, type(None), Enum, frozenset)


class CannotExchangeError(Exception):
    """A difference that cannot be written into the objects of a running process."""


class _ReplaceError(Exception):
    """The value itself must be replaced where it is held."""


def _edits(old: Any, new: Any) -> list[Edit]:
    """Return what makes the old object like the new one. ``_ReplaceError``: its holder must take
    another one."""
    if old is new:
        return []
    if (
        isinstance(old, FunctionType)
        and isinstance(new, FunctionType)
        and old.__code__ == new.__code__
    ):
        return []
    if (
        isinstance(old, Struct)
        and isinstance(new, Struct)
        and type(old).__qualname__ == type(new).__qualname__
    ):
        return [
            edit
            for name in old.__struct_fields__
            for edit in _held(
                getattr(old, name),
                getattr(new, name),
                lambda value, name=name: force_setattr(old, name, value),  # type: ignore[misc]
            )
        ]
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) == list(new):
            return [
                edit
                for key in old
                for edit in _held(
                    old[key],
                    new[key],
                    lambda value, key=key: old.__setitem__(key, value),  # type: ignore[misc]
                )
            ]
        entries = {key: _adopted(old.get(key), value) for key, value in new.items()}
        return [old.clear, lambda: old.update(entries)]
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        return [edit for pair in zip(old, new, strict=True) for edit in _edits(*pair)]
    if (
        type(old) is type(new)
        and not isinstance(old, FunctionType)
        and (old == new or (old != old and new != new))
    ):
        return []
    raise _ReplaceError


def _held(old: Any, new: Any, hold: Callable[[Any], object]) -> list[Edit]:
    """Return what makes a held value like the new one; ``hold`` replaces it."""
    try:
        return _edits(old, new)
    except _ReplaceError:
        value = _adopted(old, new)
        return [lambda: hold(value)]


def _same(old: Any, new: Any) -> bool:
    try:
        return not _edits(old, new)
    except (_ReplaceError, CannotExchangeError):
        return False


def _adopted(old: Any, new: Any) -> Any:
    """Return the new value; a tuple takes its elements from the old one where they are as before,
    because others know them."""
    if isinstance(new, tuple):
        left, found = list(old) if isinstance(old, tuple) else [], []
        for each in new:
            mine = next((one for one in left if _same(one, each)), None)
            found.append(_adopted(None, each) if mine is None else mine)
            left = [one for one in left if one is not mine]
        return tuple(found)
    if not isinstance(new, PLAIN):
        raise CannotExchangeError(f"{new} in the place of {old}")
    return new


def plain(value: Any) -> bool:
    """Return True for a value that cannot change, nor be known by its identity."""
    return all(map(plain, value)) if isinstance(value, tuple) else isinstance(value, PLAIN)


def _read_at_import(
    node: ast.AST, by: type[ast.AST] = ast.Module
) -> Iterator[tuple[str, type[ast.AST]]]:
    """Yield the names that are read when a module is imported, each with the kind of what reads it:
    module, class or function."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or (isinstance(node, FUNCTIONS) and name == "body"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                yield child.id, by
            elif isinstance(child, ast.AST):
                keeps = (
                    ast.FunctionDef
                    if isinstance(child, FUNCTIONS)
                    else ast.ClassDef
                    if isinstance(child, ast.ClassDef)
                    else by
                )
                yield from _read_at_import(child, keeps)


def assignments(tree: ast.Module) -> CodeType:
    """Return the code of the assignments of a module."""
    return compile(
        ast.Module([each for each in tree.body if isinstance(each, ASSIGNMENTS)], []),
        "mutant",
        "exec",
    )


def exchange_defaults(module: ModuleType, tree: ast.Module) -> list[FunctionType]:
    """Give the functions of a module the defaults that they have in a changed one, and return those
    whose defaults differ."""
    namespace = dict(vars(module))
    exec(compile(tree, "mutant", "exec"), namespace)
    old, new = (dict(_functions(module.__name__, values)) for values in (vars(module), namespace))
    changed = []
    for name, function in old.items():
        defaults = new[name].__defaults__, new[name].__kwdefaults__
        if not _same((function.__defaults__, function.__kwdefaults__), defaults):
            function.__defaults__, function.__kwdefaults__ = defaults
            changed.append(function)
    return changed


def _functions(module: str, values: Mapping[str, Any]) -> Iterator[tuple[str, FunctionType]]:
    """Yield functions and methods that a module defines, each with its name."""
    for value in list(values.values()):
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value.__qualname__, value
        elif isinstance(value, type) and value.__module__ == module:
            for name, attribute in vars(value).items():
                part = getattr(attribute, "__func__", attribute)
                if isinstance(part, FunctionType):
                    yield f"{value.__qualname__}.{name}", part


class _Source:
    """Names that a source file assigns, imports, and reads at import."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        targets = [
            target
            for each in self.tree.body
            if isinstance(each, ast.Assign)
            for target in each.targets
        ]
        targets += [
            each.target for each in self.tree.body if isinstance(each, ast.AnnAssign) and each.value
        ]
        self.assigned = {
            name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
        }
        self.at_import = set(_read_at_import(self.tree))
        self.imported: dict[str, tuple[str, str]] = {}
        """Module and name by the name here; without a name a module as a whole."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    self.imported[alias.asname or alias.name] = (
                        (whole, "") if whole in sys.modules else (node.module, alias.name)
                    )

    def lines_of(self, names: set[str]) -> set[int]:
        """Return the lines that read one of some names, or an attribute of that name."""
        found = (
            (node.id if isinstance(node, ast.Name) else node.attr, node.lineno)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        return {line for name, line in found if name in names}


@cache
def sources() -> dict[str, _Source]:
    """Return the source of every module of the project that is imported when this is first
    called."""
    return {
        name: _Source(file)
        for name, each in list(sys.modules.items())
        if (file := getattr(each, "__file__", None) or "").endswith(".py") and file.startswith(OWN)
    }


class ModuleExchange:
    """Exchange of the values of one module in this process for those that other code makes."""

    def __init__(self, module: ModuleType, code: CodeType) -> None:
        """``code``: the assignments of the module, changed."""
        self.differs: set[tuple[str, str]] = set()
        """Module and name of the values that differ."""
        self.plain = True
        """True if only plain values differ, such as numbers: they act where their names are
        read."""
        self.stale: set[str] = set()
        """Files of tests that made something of a value at import, and so know the old one."""
        self.sources = sources()
        self._compare(module, code)
        if self._made_of_it(module.__name__) - {ast.Module}:
            raise CannotExchangeError(f"{module.__name__} made a class or a function of it")
        waiting = self.sources.keys() - {module.__name__}
        while ready := [
            name for name in self.sources if name in waiting and self._made_of_it(name)
        ]:
            waiting -= set(ready)
            for name in ready:
                self._follow(name)

    def read(self, name: str) -> set[str]:
        """Return the names by which a module knows values that differ."""
        own = {value for module, value in self.differs if module == name}
        concerned = self.differs | {(module, "") for module, _ in self.differs}
        return own | {
            mine for mine, origin in self.sources[name].imported.items() if origin in concerned
        }

    def _made_of_it(self, name: str) -> set[type[ast.AST]]:
        """Return what of a module was made of the values that differ, at import: values, classes,
        functions."""
        source, read = self.sources[name], self.read(name)
        stale = any(
            self.sources[module].file in self.stale
            for module, _ in source.imported.values()
            if module in self.sources
        )
        return {kind for mine, kind in source.at_import if mine in read} | (
            {ast.Module} if stale else set()
        )

    def _follow(self, name: str) -> None:
        """Exchange the values that a module made of those that differ."""
        source, made = self.sources[name], self._made_of_it(name)
        if source.file.startswith(OWN[1]):
            self.stale.add(source.file)
        elif (
            not name.startswith("vehicled.safety.")
            or ast.ClassDef in made
            or (self.plain and ast.FunctionDef in made)
        ):
            raise CannotExchangeError(f"{name} made a class or a function of it")
        elif ast.Module in made:
            self._compare(sys.modules[name], assignments(source.tree))

    def _compare(self, module: ModuleType, code: CodeType) -> None:
        """Make the values of a module those that its code makes now."""
        namespace = dict(vars(module))
        exec(code, namespace)
        for name in sorted(self.sources[module.__name__].assigned):
            old = getattr(module, name)
            edits = _held(
                old,
                namespace[name],
                lambda value, name=name: self._bind(module, name, value),  # type: ignore[misc]
            )
            if edits:
                self.differs.add((module.__name__, name))
                self.plain = self.plain and plain(old)
            for edit in edits:
                edit()

    def _bind(self, module: ModuleType, name: str, value: Any) -> None:
        old = getattr(module, name)
        setattr(module, name, value)
        for other, source in self.sources.items():
            for mine, origin in source.imported.items():
                if origin == (module.__name__, name) and hasattr(sys.modules[other], mine):
                    setattr(sys.modules[other], mine, value)
        if not plain(old):
            for other in self.sources:
                for _, function in _functions(other, vars(sys.modules[other])):
                    if any(each is old for each in function.__defaults__ or ()):
                        function.__defaults__ = tuple(
                            value if each is old else each for each in function.__defaults__ or ()
                        )
