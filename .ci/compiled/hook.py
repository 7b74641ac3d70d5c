"""Build hook of hatchling: the modules that ``pyproject.toml`` lists as machine code, made by mypyc
from a copy of the source.

``make compiled`` switches it on. The checkout is not touched and stays plain Python.

mypyc ignores the keyword arguments of a class, so a ``msgspec.Struct`` would lose ``frozen`` and
``forbid_unknown_fields``, and its protocols, enumerations, dataclasses and exceptions are not quite
Python's. Therefore each module of the copy is divided: a class stays in it, and is compiled, only
if all its bases are compiled; every other class moves, with what its definition reads, to a plain
module beside it and keeps its ``__module__``. Classes that are not compiled may extend compiled
ones.
"""

import ast
import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("vehicled", "drivers", "sim_backend")
LIBRARY = "vehicled"
"""Name of the shared library, without the ending that mypyc gives it."""
MYPY_OPTIONS = (
    "--strict", "--implicit-reexport", "--follow-imports=silent", "--ignore-missing-imports",
    "--explicit-package-bases",
)  # fmt: skip
C_OPTIONS = ("-ffp-contract=off",)
"""A product and a sum must not become one rounding, as on 64-bit ARM: the bits would differ from
plain Python's."""
NATIVE_BASES = {"Generic"}
EXTENSIBLE = "@mypyc_attr(allow_interpreted_subclasses=True)\n"


class DivisionError(ValueError):
    """A module that cannot be divided, and what to do."""


@dataclass(frozen=True)
class Division:
    """The two modules that one becomes; ``plain`` is empty if nothing moves."""

    native: str
    plain: str
    moved: tuple[str, ...]
    """Names that the plain module defines and the native one imports."""


class Divider:
    """Divides the modules to compile. All are read at once: a class is native only if its bases in
    other modules are."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._texts = {_name(path): (root / path).read_text(encoding="utf-8") for path in paths}
        self._trees = {name: ast.parse(text) for name, text in self._texts.items()}

    def _is_native(self, module: str, name: str) -> bool:
        """Return whether a name in a module is a class that is compiled."""
        for node in self._trees[module].body if module in self._trees else ():
            if isinstance(node, ast.ClassDef) and node.name == name:
                bases = [
                    base.value if isinstance(base, ast.Subscript) else base for base in node.bases
                ]
                return not (node.keywords or node.decorator_list) and all(
                    isinstance(base, ast.Name)
                    and (base.id in NATIVE_BASES or self._is_native(module, base.id))
                    for base in bases
                )
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self._is_native(node.module, alias.name)
        return False

    def divide(self, path: str) -> Division:
        """Return the two modules that one becomes. Raises :class:`DivisionError`."""
        module, plain_module = _name(path), _name(str(plain_path(path)))
        tree, lines = self._trees[module], self._texts[module].splitlines(keepends=True)
        imports = [node for node in tree.body if _is_import(node)]
        statements = [node for node in tree.body if not _is_import(node) and not _is_text(node)]
        bound = [name for node in statements for name in _bound(node)]
        definer = {name: node for node in statements for name in _bound(node)}
        moving: list[ast.stmt] = [
            node
            for node in statements
            if isinstance(node, ast.ClassDef) and not self._is_native(module, node.name)
        ]
        for node in moving:
            # The list grows as it is walked: what a definition reads moves with it, and so on.
            for name in _read(node):
                if name in definer and definer[name] not in moving:
                    moving.append(definer[name])
        moved = tuple(name for node in statements if node in moving for name in _bound(node))
        # Functions of the plain classes read these as they run.
        given = {
            name for node in moving for name in _read(node, bodies=True) if name in definer
        } - set(moved)
        rebound = {
            name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
        }
        for name in sorted(given | set(moved)):
            if name in rebound or bound.count(name) > 1:
                raise DivisionError(
                    f"{path}: {name} is bound more than once, and a class that stays plain reads "
                    "it: the two halves of the module would see different values. Bind it once, "
                    "or take the module off the list in pyproject.toml."
                )
        native = list(lines)
        for node in statements:
            first, last = _first_line(node) - 1, node.end_lineno or node.lineno
            if node in moving:
                native[first:last] = [""] * (last - first)
                continue
            if isinstance(node, ast.ClassDef):
                native[first] = EXTENSIBLE + native[first]
            native[last - 1] += "".join(
                f"setattr(_plain, {name!r}, {name})\n" for name in _bound(node) if name in given
            )
        head = (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mypy_extensions "
            "import mypyc_attr\n"
        )
        head += "".join(f"from {plain_module} import {name} as {name}\n" for name in moved)
        head += f"import sys as _sys\n_plain = _sys.modules[{plain_module!r}]\n" if given else ""
        native.insert(
            max((node.end_lineno or 0 for node in imports), default=_first_line(statements[0]) - 1),
            head,
        )
        plain = [
            "".join(lines[_first_line(node) - 1 : node.end_lineno])
            for node in (*imports, *statements)
            if node in imports + moving
        ]
        plain.insert(len(imports), f"__name__ = {module!r}\n")
        return Division("".join(native), "".join(plain) if moving else "", moved)


def plain_path(path: str) -> Path:
    """Return the file of the plain module beside a compiled one."""
    place = Path(path).parent if path.endswith("__init__.py") else Path(path).with_suffix("")
    return place.with_name(f"_{place.name}_plain.py")


def _name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def _is_import(node: ast.stmt) -> bool:
    """Return whether a statement only imports, always or for the type checker."""
    if isinstance(node, ast.If):
        return all(_is_import(inner) for inner in node.body + node.orelse)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _bound(node: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a module binds."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    return [
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    ]


def _read(node: ast.AST, *, bodies: bool = False) -> Iterator[str]:
    """Yield the names that a statement reads as it is executed; with ``bodies``, those in the
    bodies of functions too."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    body = node.body if isinstance(node, ast.FunctionDef | ast.Lambda) and not bodies else []
    skipped = body if isinstance(body, list) else [body]
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield from _read(child, bodies=bodies)


def write_divided(root: Path, modules: Iterable[str], work: Path) -> list[Path]:
    """Copy the packages of a checkout into a folder, divided; return the plain modules, relative to
    it."""
    for package in PACKAGES:
        shutil.copytree(
            root / package, work / package, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    divider = Divider(root, modules)
    added = []
    for path in modules:
        division = divider.divide(path)
        (work / path).write_text(division.native, encoding="utf-8")
        if division.plain:
            added.append(plain_path(path))
            (work / added[-1]).write_text(division.plain, encoding="utf-8")
    return added


def compile_modules(root: Path, modules: list[str], work: Path) -> list[Path]:
    """Compile modules of a checkout in an empty folder; return the files to ship beside the source,
    relative to that folder."""
    # These are in the environment of a build only.
    from mypyc.build import mypycify
    from setuptools import setup

    added = write_divided(root, modules, work)
    with contextlib.chdir(work):
        extensions = mypycify(
            [*MYPY_OPTIONS, *modules], opt_level="1", debug_level="0", group_name=LIBRARY
        )
        generated = Path("build", f"__native_{LIBRARY}.c")
        # The last include: the run-time library of mypyc, which defines what this replaces, is
        # before it.
        include, text = (
            f'#include "__native_internal_{LIBRARY}.h"\n',
            generated.read_text(encoding="utf-8"),
        )
        if text.count(include) != 1:
            raise RuntimeError(
                f"mypyc's {generated} no longer has the line {include.strip()}: adapt "
                ".ci/compiled/hook.py"
            )
        lookups = Path(__file__).with_name("lookups.h").read_text(encoding="utf-8")
        generated.write_text(text.replace(include, include + lookups), encoding="utf-8")
        for extension in extensions:
            extension.extra_compile_args.extend(C_OPTIONS)
        setup(
            name=LIBRARY,
            packages=[],
            py_modules=[],
            ext_modules=extensions,
            script_args=["--quiet", "build_ext", "--inplace"],
        )
    # The folder build/ has some of them again.
    libraries = [
        *work.glob("*.so"),
        *(file for package in PACKAGES for file in (work / package).rglob("*.so")),
    ]
    return added + [file.relative_to(work) for file in libraries]


class CompiledHook(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, and the plain modules that they import."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel named for this computer and Python."""
        self._work = Path(tempfile.mkdtemp())
        made = compile_modules(Path(self.root), self.config["modules"], self._work)
        build_data["force_include"].update({str(self._work / path): str(path) for path in made})
        build_data.update(pure_python=False, infer_tag=True)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the compiler."""
        shutil.rmtree(self._work)
