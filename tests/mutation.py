"""``python -m tests.mutation``: every small change of a module of ``vehicled.safety`` must be noticed by a test of it.

Each mutant runs in a fork of this process, which has imported what does not depend on the module, and only with the tests that call
the changed function, the quickest first. A mutant that no test notices must be listed in ``tests/mutation_survivors.toml`` with the
reason why it may: any other fails the run. A module without a section there is not judged yet: it runs only where it is named, and
its survivors are printed.

The command gate has checks of its own, and ``tests/unit/test_gate_mutations.py`` all its mutants.

Exit status: 0 all is well, 1 something is not.
"""

import argparse
import ast
import importlib
import os
import pickle
import re
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
SAFETY = ROOT / "vehicled" / "safety"
SURVIVORS = ROOT / "tests" / "mutation_survivors.toml"
TESTS = (*sorted((ROOT / "tests" / "unit").glob("test_safety_*.py")), ROOT / "tests" / "unit" / "test_margins.py")
OWN = ("drivers", "sim_backend", "tests", "vehicled")
GATE = "gate.py"
OPTIONS = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--assert=plain")
LONGEST_S = 60
"""Processor time of one mutant, s: more is an endless loop, which is noticed."""

Place = tuple[str, int]
"""File, and first line of a function in it."""


class Calls(ast.NodeTransformer):
    """Plugin of pytest that keeps which functions of ``vehicled.safety`` each test calls, and how long it takes.

    It adds a note of its call to every function. A tracer would see all functions of the process, ten times as slowly.
    """

    def __init__(self) -> None:
        self.places: dict[str, set[Place]] = {}
        self.duration_s: dict[str, float] = {}
        self.called = set[Place]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.called.clear()
        began_s = time.process_time()
        try:
            return (yield)
        finally:
            self.duration_s[item.nodeid] = time.process_time() - began_s
            self.places[item.nodeid] = set(self.called)

    def code(self, path: Path) -> CodeType:
        """Compile a file with its notes."""
        tree = self.visit(ast.parse(path.read_text(encoding="utf-8")))
        return compile(ast.fix_missing_locations(tree), str(path), "exec")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(1 if ast.get_docstring(node) else 0, ast.Expr(note(node.lineno)))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [note(node.lineno), node.body])
        return node


def note(line: int) -> ast.expr:
    """Return the call, which returns None, that notes a function's line."""
    return ast.parse(f"__called__((__file__, {line}))", mode="eval").body


class Changed(MetaPathFinder, InspectLoader):
    """Finder and loader of modules that run other code than their files have."""

    def __init__(self, files: Mapping[str, tuple[Path, CodeType]], called: Callable[[Place], None] | None = None) -> None:
        self._files, self._called = files, called

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        path, _ = self._files[fullname]
        package = path.name == "__init__.py"
        spec = spec_from_loader(fullname, self, origin=str(path), is_package=package)
        if spec is not None and package:
            spec.submodule_search_locations = [str(path.parent)]
        return spec

    def get_source(self, fullname: str) -> str:
        return self._files[fullname][0].read_text(encoding="utf-8")

    def exec_module(self, module: ModuleType) -> None:
        path, code = self._files[module.__name__]
        module.__dict__.update(__file__=str(path), __called__=self._called)
        exec(code, module.__dict__)


def forked(work: Callable[[], bytes]) -> tuple[int, int]:
    """Start a function in a child without output; return its process and the pipe that its result comes through."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        with suppress(BaseException):
            os.close(read)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            with open(write, "wb") as pipe:
                pipe.write(work())
            status = 0
        os._exit(status)
    os.close(write)
    return process, read


def result(process: int, read: int) -> bytes:
    """Return what a child wrote; empty if it was ended."""
    with open(read, "rb") as pipe:
        found = pipe.read()
    os.waitpid(process, 0)
    return found


def calls() -> bytes:
    """Run all tests once, with their calls."""
    plugin = Calls()
    files = {module_name(path): (path, plugin.code(path)) for path in SAFETY.rglob("*.py")}
    sys.meta_path.insert(0, Changed(files, plugin.called.add))
    status = pytest.main([*map(str, TESTS), *OPTIONS], plugins=[plugin])
    return pickle.dumps((int(status), plugin.places, plugin.duration_s))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def module_name(path: Path) -> str:
    """Return the name under which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def dependents(name: str) -> list[str]:
    """Return the imported modules of the project that import a module, directly or not, and the module itself."""
    imports = {}
    for own, module in list(sys.modules.items()):
        if own.split(".")[0] in OWN and (file := getattr(module, "__file__", None)):
            text = Path(file).read_text(encoding="utf-8")
            imports[own] = {
                f"{source}.{member}" if f"{source}.{member}" in sys.modules else source
                for source, members in re.findall(r"^\s*from ([\w.]+) import \(?([\w, \n]+)", text, re.MULTILINE)
                for member in re.split(r"[,\s]+", members)
            } | set(re.findall(r"^\s*import ([\w.]+)", text, re.MULTILINE))
    found, new = set[str](), {name}
    while new:
        found |= new
        new = {own for own, sources in imports.items() if sources & found} - found
    return sorted(found)


def first_line(tree: ast.Module, line: int) -> int:
    """Return the first line of the innermost function round a line; 0 outside of every function."""
    inner = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node.lineno <= line <= (node.end_lineno or 0):
            inner = max(inner, node.lineno)
    return inner


def survives(name: str, path: Path, mutant: Mutant, tests: Sequence[str], stale: Sequence[str]) -> bytes:
    """Return ``b"survives"`` if no test notices a mutant."""
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))
    for module in stale:
        sys.modules.pop(module, None)
    sys.meta_path.insert(0, Changed({name: (path, mutant.code)}))
    return b"survives" if pytest.main([*tests, *OPTIONS]) == 0 else b"noticed"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help="files, as monitors/yaw.py; without any, those in the list of survivors")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N random mutants of each module")
    parser.add_argument("--seed", type=int, default=7, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    arguments = parser.parse_args(argv)
    os.chdir(ROOT)
    judged: dict[str, dict[str, str]] = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    found = sorted(str(path.relative_to(SAFETY)) for path in SAFETY.rglob("*.py") if path.name != GATE)
    wrong = {*arguments.modules, *judged} - set(found)
    if wrong:
        parser.error(f"not a module of vehicled/safety with mutants: {', '.join(sorted(wrong))}")
    began_s = time.monotonic()
    status, places, duration_s = pickle.loads(result(*forked(calls)))
    if status:
        say("the tests fail without any mutant")
        return 1
    for test in TESTS:
        importlib.import_module(module_name(test))
    say(f"{len(places)} tests, {sum(duration_s.values()):.0f} s; {time.monotonic() - began_s:.0f} s to find what they call")
    margins = SAFETY / "margins.py"
    name, unchanged = module_name(margins), compile(margins.read_text(encoding="utf-8"), str(margins), "exec")
    control = partial(survives, name, margins, Mutant("", 0, unchanged), list(places), dependents(name))
    if result(*forked(control)) != b"survives":
        say("the tests fail in a fork without any mutant")
        return 1
    fails = False
    for file in arguments.modules or judged:
        fails |= not check(file, arguments, judged.get(file), places, duration_s)
    return int(fails)


def check(
    file: str,
    arguments: argparse.Namespace,
    judged: dict[str, str] | None,
    places: dict[str, set[Place]],
    duration_s: dict[str, float],
) -> bool:
    """Run the mutants of one module, print its line and its survivors, and return True if all survivors were judged."""
    path = SAFETY / file
    name, source = module_name(path), path.read_text(encoding="utf-8")
    module = importlib.import_module(name)
    enums = {word: kind for word, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Enum)}
    tree, stale = ast.parse(source), dependents(name)
    chosen = list(mutants(source, str(path), enums))
    if arguments.sample is not None and arguments.sample < len(chosen):
        chosen = Random(f"{arguments.seed} {file}").sample(chosen, arguments.sample)
    of_module = [test for test, called in places.items() if any(where == str(path) for where, _ in called)] or list(places)
    running: list[tuple[Mutant, int, int]] = []
    survivors = Counter[str]()
    began_s = time.monotonic()

    def collect() -> None:
        mutant, process, read = running.pop(0)
        if result(process, read) == b"survives":
            survivors[mutant.what] += 1

    for mutant in chosen:
        line = first_line(tree, mutant.line)
        callers = [test for test, called in places.items() if (str(path), line) in called] if line else []
        tests = sorted(callers or of_module, key=lambda test: duration_s[test])
        if len(running) >= arguments.jobs:
            collect()
        running.append((mutant, *forked(partial(survives, name, path, mutant, tests, stale))))
    while running:
        collect()
    new = sorted(what for what in survivors if judged is not None and what not in judged)
    say(
        f"{file}: {len(chosen)} mutants, {len(chosen) - survivors.total()} noticed, {survivors.total()} survive"
        f"{'' if judged is not None else ', not judged'}; {time.monotonic() - began_s:.0f} s"
    )
    for what in sorted(survivors) if judged is None else new:
        say(f"  {file}: {what}")
    return not new


if __name__ == "__main__":
    sys.exit(main())
