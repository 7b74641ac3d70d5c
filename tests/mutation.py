"""``python -m tests.mutation``: mutation testing of ``vehicled/safety`` by the tests below the
closed loop.

    python -m tests.mutation [FILE...] [--sample N] [--seed 0] [--jobs 2] [--results FILE]

FILE: ``supervisor.py``, ``rows/sensors.py``; all by default. ``--sample``: only so many mutants of
each file, drawn by the seed. ``--results``: file to which each outcome is written at once, and with
which an interrupted run goes on.

Every mutant of :mod:`tests.mutants` runs in a process of its own, against those tests that execute
the changed lines and do not drive for long. The process is forked after the collection of the
tests, and gives functions their changed code, or exchanges what the module holds
(:mod:`tests.exchange`). Where neither is possible, as for the fields of a class or a function that
ran at import, it is forked before the changed module and all that import it are imported. A mutant
that no test notices is listed in ``mutation_survivors.toml`` with the reason why it neither
lengthens a reaction nor removes a stop. The exit status is 1 if another one survives, if a listed
one is noticed or gone, or if a child crashes. A mutant that does not end is noticed, and counted
apart.
"""

import argparse
import contextlib
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import CO_OPTIMIZED
from math import ceil, inf, isfinite
from pathlib import Path
from random import Random
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest
from msgspec import Struct

from tests.exchange import (
    ASSIGNMENTS,
    CannotExchangeError,
    ModuleExchange,
    assignments,
    exchange_defaults,
    sources,
)
from tests.mutants import Mutant, enumerations, mutants

ROOT = Path(__file__).resolve().parent.parent
SAFETY = ROOT / "vehicled" / "safety"
FILES = sorted(str(path.relative_to(SAFETY)) for path in SAFETY.rglob("*.py"))
SOURCES = "vehicled", "drivers", "sim_backend", "tests"
SURVIVORS = Path(__file__).with_name("mutation_survivors.toml")
TESTS = (
    *sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "unit").glob("test_safety_*.py")
    ),
    "tests/unit/test_gate_mutations.py::test_the_gate_passes",
    "tests/unit/test_margins.py",
    "tests/unit/test_observers.py",
    "tests/unit/test_rc_operator.py",
    "tests/unit/test_teleop_daemon.py",
    "tests/property/test_rc_authority.py",
    "tests/property/test_safety_gate.py",
    "tests/property/test_fence_bodies.py",
    "tests/closed_loop/test_failsafe_matrix.py::test_the_document_is_the_matrix",
)
MEMORY = 4 << 30
CPU_S = 5
"""Processor time of a mutant beyond that of its tests while they are traced, s."""
MOST_LINES = 300_000
"""Lines of ``vehicled/safety`` that a test executes at most. A longer one drives: a limit is
noticed by a test of that limit."""
NEAR = 15
"""Lines of a rule about the changed one: the tests that execute them come first."""
ELSEWHERE = 98
"""Exit status of a child that cannot judge the mutant."""
NOTICED, SURVIVED, ENDLESS, CRASHED = "noticed", "survived", "endless", "crashed"
Key = tuple[str, str, str]
"""File, function and text of a mutant."""


class Coverage(Struct):
    """Lines that the tests of the unchanged source execute."""

    tests: dict[str, dict[int, list[str]]]
    """Tests by file of ``vehicled/safety`` and line."""
    took_s: dict[str, float]
    modules: list[str]
    """Modules that the tests import."""
    at_import: dict[str, list[int]]
    """Lines of functions by file that run before the first test."""


class Results:
    """File of outcomes, one line each, that a run goes on with. It belongs to the code that it was
    made of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        digest = hashlib.sha256()
        for source in sorted(each for folder in SOURCES for each in (ROOT / folder).rglob("*.py")):
            digest.update(source.read_bytes())
        self._code = digest.hexdigest()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and lines[0] != json.dumps(self._code):
            sys.exit(f"{path}: results of other code, or of no mutants. Take a new file.")
        with path.open("a", encoding="utf-8") as file:
            # The last line may have been cut.
            file.write("\n" if lines else json.dumps(self._code) + "\n")

    def read(self) -> dict[Key, str]:
        """Return the outcomes so far. The rest of a line that was cut is passed over."""
        found: dict[Key, str] = {}
        for line in self._path.read_text(encoding="utf-8").splitlines()[1:]:
            with contextlib.suppress(ValueError):
                file, where, what, outcome = json.loads(line)
                found[file, where, what] = outcome
        return found

    def add(self, file: str, mutant: Mutant, outcome: str) -> None:
        """Append the outcome of a mutant."""
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([file, mutant.where, mutant.what, outcome]) + "\n")


class Recorder:
    """Plugin of pytest that notes for every test its time and the lines of ``vehicled/safety`` that
    it executes."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.at_import: set[tuple[str, int]] | None = None
        self._count = 0
        self.tests: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self.took_s: dict[str, float] = {}
        self._files = {str(SAFETY / file): file for file in FILES}

    def trace(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        """Trace the frames of ``vehicled/safety`` line by line."""
        file = self._files.get(frame.f_code.co_filename)
        if file is None or not frame.f_code.co_flags & CO_OPTIMIZED:
            return None
        caller = frame.f_back
        if frame.f_code.co_name.startswith("<") and caller and caller.f_code.co_name == "<module>":
            # Part of an assignment, which runs once more.
            return None
        self.lines.add((file, frame.f_lineno))

        def lines(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line":
                self.lines.add((file, frame.f_lineno))
                self._count += 1
                if self._count > MOST_LINES:
                    sys.settrace(None)
            return lines

        return lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Trace one test with its fixtures."""
        if self.at_import is None:
            self.at_import = set(self.lines)
        self.lines.clear()
        self._count = 0
        began_s = time.process_time()
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            if self._count <= MOST_LINES:
                self.took_s[item.nodeid] = time.process_time() - began_s
                for line in self.lines:
                    self.tests[line].append(item.nodeid)


class Selected:
    """Plugin of pytest that runs some tests, in the order of their names in ``chosen``."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self._place = {name: place for place, name in enumerate(chosen)}
        self._files = {str(ROOT / name.partition("::")[0]) for name in chosen}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Pass over the other files of a folder."""
        return str(collection_path) not in self._files if collection_path.suffix == ".py" else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what was chosen. A mutant that changes the names of the cases is noticed."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place),
            key=lambda item: self._place[item.nodeid],
        )
        if len(items) < len(self._place):
            os._exit(pytest.ExitCode.TESTS_FAILED)


class Changed(importlib.machinery.SourceFileLoader):
    """Loader of a module from other code than that of its file."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """Return the code that takes the place of the source."""
        return self._code


class Hook(importlib.abc.MetaPathFinder):
    """Importer of one module from other code; without code, the module cannot be imported."""

    def __init__(self, name: str, path: Path, code: CodeType | None) -> None:
        self._name, self._path, self._code = name, str(path), code

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the module's own specification with the other loader."""
        if fullname != self._name:
            return None
        if self._code is None:
            raise ImportError(fullname)
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=Changed(fullname, self._path, self._code)
        )


def run_pytest(
    arguments: Iterable[str], *plugins: object, quiet: bool = True, output: str = os.devnull
) -> int:
    """Run tests in this process, which has no other use afterwards. ``output``: file that takes
    what quiet ones print."""
    if quiet:
        file = os.open(output, os.O_RDWR | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(file, stream)
    os.chdir(ROOT)
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    # Nobody reads why a mutant was noticed.
    options += ["--assert=plain", "--tb=no"] if quiet and output == os.devnull else []
    return int(pytest.main([*options, *arguments], plugins=list(plugins)))


def fork(child: Callable[[], int]) -> int:
    """Return the process of a child that ends with the status that the function returns."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = child()
        except SystemExit as end:
            _print(str(end))
        except BaseException:  # noqa: BLE001 - nothing of the parent may run in the child
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    return pid


def in_child(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a child."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"

        def child() -> int:
            result.write_text(json.dumps(function()))
            return 0

        if os.waitpid(fork(child), 0)[1]:
            sys.exit("the process that runs the mutants failed")
        return json.loads(result.read_text())


def coverage() -> Coverage:
    """Run all tests on the unchanged source, and return what they execute. A failing test ends the
    program."""

    def run() -> list[Any]:
        recorder = Recorder()
        sys.settrace(recorder.trace)
        if run_pytest(TESTS, recorder, quiet=False):
            sys.exit("The tests fail without a mutant: mend them first.")
        by_file: dict[str, dict[int, list[str]]] = {}
        for (file, line), tests in recorder.tests.items():
            by_file.setdefault(file, {})[line] = tests
        at_import: dict[str, list[int]] = {}
        for file, line in recorder.at_import or ():
            at_import.setdefault(file, []).append(line)
        return [list(by_file.items()), recorder.took_s, list(sys.modules), at_import]

    by_file, took_s, modules, at_import = in_child(run)
    tests = {file: {int(line): names for line, names in lines.items()} for file, lines in by_file}
    return Coverage(tests, took_s, modules, at_import)


def tests_of(mutant: Mutant, file: str, covered: Coverage) -> list[str]:
    """Return the tests that execute the changed lines, quick ones first; what runs only at import
    concerns every test."""
    first, last = mutant.lines
    chosen = {
        test
        for line, tests in covered.tests.get(file, {}).items()
        if first <= line <= last
        for test in tests
    }
    ran_at_import = any(first <= line <= last for line in covered.at_import.get(file, ()))
    if not mutant.inside or (ran_at_import and not chosen):
        chosen = set(covered.took_s)
    return sorted(chosen, key=lambda test: (covered.took_s[test], test))


def preload(name: str, path: Path, modules: Iterable[str]) -> None:
    """Import all that the tests import, but for the module and what imports it, and the tests
    themselves."""
    barrier = Hook(name, path, None)
    sys.meta_path.insert(0, barrier)
    for other in modules:
        if ".test_" not in other and other not in sys.modules:
            try:
                importlib.import_module(other)
            except Exception:  # noqa: BLE001 - it imports the module, or is none of its own
                continue
    sys.meta_path.remove(barrier)
    for other in [
        each
        for each in sys.modules
        if (parent := each.rpartition(".")[0]) and parent not in sys.modules
    ]:
        # The package could not be imported, and would not know a part of it that is imported
        # before.
        del sys.modules[other]
    gc.collect()
    gc.freeze()


def limit(seconds: float) -> None:
    """Limit processor time and memory of this process, a child."""
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds),) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def judge(
    code: CodeType,
    name: str,
    path: Path,
    tests: Sequence[str],
    limit_s: float,
    output: str = os.devnull,
) -> int:
    """Run tests with other code for a module, in a child."""
    if isfinite(limit_s):
        limit(limit_s)
    sys.meta_path.insert(0, Hook(name, path, code))
    return run_pytest(
        sorted({test.partition("::")[0] for test in tests}), Selected(tests), output=output
    )


def changed_functions(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the code of every function that differs, before and after. What else differs raises
    ``ValueError``."""
    if before == after:
        return
    function = before.co_flags & CO_OPTIMIZED
    inner = [
        [part for part in code.co_consts if isinstance(part, CodeType)] for code in (before, after)
    ]
    if function:
        yield before, after
        if len(inner[0]) != len(inner[1]):
            return
    else:
        own = [
            (
                code.co_code,
                code.co_names,
                [part for part in code.co_consts if not isinstance(part, CodeType)],
                len(parts),
            )
            for code, parts in zip((before, after), inner, strict=True)
        ]
        if own[0] != own[1]:
            raise ValueError(before.co_name)
    for pair in zip(*inner, strict=True):
        yield from changed_functions(*pair)


class Exchange:
    """Plugin of pytest that runs no test, but forks a child for each mutant once all tests are
    collected."""

    def __init__(
        self, chosen: Sequence[tuple[str, Mutant]], covered: Coverage, jobs: int, results: Results
    ) -> None:
        self._chosen, self._covered, self._jobs, self._results = chosen, covered, jobs, results
        self._functions: defaultdict[CodeType, list[FunctionType]] = defaultdict(list)
        self._items: dict[str, pytest.Item] = {}
        self._failed = False
        self._noticed_by: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Number of mutants that each test has noticed, by file: the best tests run first."""
        self._names = os.pipe()
        """Pipe for the names of these tests."""

    def pytest_sessionstart(self) -> None:
        """Spare the search for the simplest example: nobody reads it."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the functions of ``vehicled/safety``, before the garbage collector forgets them."""
        self._items = {item.nodeid: item for item in items}
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(
                str(SAFETY)
            ):
                self._functions[function.__code__].append(function)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self) -> bool:
        """Run every mutant that can run in this way."""
        running, codes = dict[int, tuple[str, Mutant]](), dict[str, CodeType]()
        # Read before the first fork.
        sources()
        os.set_blocking(self._names[0], False)

        def end_one() -> None:
            pid, status = os.wait()
            file, mutant = running.pop(pid)
            with contextlib.suppress(BlockingIOError):
                self._noticed_by[file].update(
                    os.read(self._names[0], 1 << 16).decode().splitlines()
                )
            if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != ELSEWHERE:
                self._results.add(file, mutant, outcome(status))

        for file, mutant in self._chosen:
            if file not in codes:
                path = SAFETY / file
                codes[file] = compile(path.read_text(encoding="utf-8"), str(path), "exec")
            if (run := self._way(file, codes[file], mutant)) is None:
                continue
            while len(running) >= self._jobs:
                end_one()
            running[fork(run)] = file, mutant
        while running:
            end_one()
        return True

    def _changes(self, source: CodeType, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
        """Return functions with their new code; nothing if there are none, or if more than
        functions changes."""
        changes: list[tuple[FunctionType, CodeType]] = []
        try:
            pairs = list(changed_functions(source, mutant.compile()))
        except ValueError:
            return []
        if len({before for before, _ in pairs}) < len(pairs):
            return []
        for before, after in pairs:
            if before.co_freevars != after.co_freevars:
                return []
            changes += ((function, after) for function in self._functions.get(before, ()))
        # Inner functions are part of the code of the outer one, which must exist.
        return changes if pairs and pairs[0][0] in self._functions else []

    def _way(self, file: str, source: CodeType, mutant: Mutant) -> Callable[[], int] | None:
        """Return what a child does to judge a mutant; None if it cannot."""
        first, last = mutant.lines
        if not mutant.inside:
            return lambda: self._run_module(file, mutant)
        if any(first <= line <= last for line in self._covered.at_import.get(file, ())):
            return None
        tests, changes = tests_of(mutant, file, self._covered), self._changes(source, mutant)
        return (lambda: self._run(file, tests, changes)) if changes or not tests else None

    def _run(
        self, file: str, tests: Iterable[str], changes: Iterable[tuple[FunctionType, CodeType]] = ()
    ) -> int:
        tests = sorted(tests, key=lambda test: -self._noticed_by[file][test])
        limit(CPU_S + sum(self._covered.took_s[test] for test in tests))
        for function, code in changes:
            function.__code__ = code
        for test, following in zip(tests, [*tests[1:], None], strict=False):
            item, after = self._items[test], None if following is None else self._items[following]
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                os.write(self._names[1], f"{test}\n".encode())
                return pytest.ExitCode.TESTS_FAILED
        return 0

    def _run_module(self, file: str, mutant: Mutant) -> int:
        """Judge a mutant of what a module holds. ``ELSEWHERE`` if only a process that imports it
        anew can."""
        top = next(
            each
            for each in mutant.tree.body
            if each.lineno <= mutant.lines[0] <= (each.end_lineno or 0)
        )
        module = sys.modules[module_of(file)]
        with mutant.changed() as tree:
            if not isinstance(top, ASSIGNMENTS):
                return self._run_defaults(file, exchange_defaults(module, tree))
            code = assignments(tree)
        try:
            exchange = ModuleExchange(module, code)
        except CannotExchangeError:
            return ELSEWHERE
        except Exception:  # noqa: BLE001 - the module cannot be imported
            return pytest.ExitCode.INTERRUPTED
        if self._ran_at_import(exchange):
            return ELSEWHERE
        tests = self._concerned(file, mutant, exchange)
        known = [
            test for test in tests if str(ROOT / test.partition("::")[0]) not in exchange.stale
        ]
        return self._run(file, known) or (
            0 if exchange.differs and len(known) == len(tests) else ELSEWHERE
        )

    def _ran_at_import(self, exchange: ModuleExchange) -> bool:
        """Return True if a function that reads a changed value ran before the first test, and may
        have kept something of it."""
        ran = {str(SAFETY / file): set(lines) for file, lines in self._covered.at_import.items()}
        return any(
            ran[source.file] & source.lines_of(exchange.read(name))
            for name, source in exchange.sources.items()
            if source.file in ran
        )

    def _run_defaults(self, file: str, functions: Sequence[FunctionType]) -> int:
        """Judge other defaults of functions."""
        lines = {line for function in functions for *_, line in function.__code__.co_lines()}
        if not functions or lines & set(self._covered.at_import.get(file, ())):
            return ELSEWHERE
        chosen = {
            test for line in lines for test in self._covered.tests.get(file, {}).get(line or 0, ())
        }
        if any(function.__code__.co_filename != str(SAFETY / file) for function in functions):
            # Made for a named tuple, and in no line of the file.
            chosen = set(self._covered.took_s)
        return self._run(file, sorted(chosen, key=lambda test: (self._covered.took_s[test], test)))

    def _concerned(self, file: str, mutant: Mutant, exchange: ModuleExchange) -> list[str]:
        """Return the tests that a changed value concerns, those of its rule first: of plain ones,
        those that read it by name."""
        covered, (first, last) = self._covered.tests, mutant.lines
        near = {
            test
            for line, some in covered.get(file, {}).items()
            if first - NEAR <= line <= last + NEAR
            for test in some
        }
        chosen = set(self._covered.took_s)
        if exchange.plain:
            readers = {
                name: exchange.sources[name] for name in exchange.sources if exchange.read(name)
            }
            if all(name.startswith(("vehicled.safety.", "tests.")) for name in readers):
                lines = {
                    (source.file, line)
                    for name, source in readers.items()
                    for line in source.lines_of(exchange.read(name))
                }
                near = {
                    test
                    for path, line in lines
                    for test in covered.get(path.removeprefix(f"{SAFETY}/"), {}).get(line, ())
                }
                files = {source.file for source in readers.values()}
                chosen = near | {
                    test for test in chosen if str(ROOT / test.partition("::")[0]) in files
                }
        return sorted(chosen, key=lambda test: (test not in near, self._covered.took_s[test], test))


def run_exchanged(
    chosen: Sequence[tuple[str, Mutant]], covered: Coverage, jobs: int, results: Results
) -> int:
    """Run every mutant that only changes functions, in a process that has collected the tests."""
    if status := run_pytest(["--capture=no", *TESTS], Exchange(chosen, covered, jobs, results)):
        sys.exit(f"the tests cannot be collected: pytest ends with {status}")
    return 0


def outcome(status: int) -> str:
    """Return the name of the status of a child."""
    if os.WIFSIGNALED(status):
        return ENDLESS if os.WTERMSIG(status) in (9, 24) else CRASHED
    code = os.WEXITSTATUS(status)
    # A module that cannot be imported interrupts the collection, or makes a conftest unusable.
    noticed = (
        pytest.ExitCode.TESTS_FAILED,
        pytest.ExitCode.INTERRUPTED,
        pytest.ExitCode.USAGE_ERROR,
    )
    return SURVIVED if code == 0 else NOTICED if code in noticed else CRASHED


def module_of(file: str) -> str:
    """Return the name of the module of a file of ``vehicled/safety``."""
    return ".".join(("vehicled", "safety", *Path(file).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def run_file(
    file: str, chosen: Sequence[Mutant], covered: Coverage, jobs: int, results: Results
) -> int:
    """Run mutants of a file in a process that has imported all but this file."""
    path = SAFETY / file
    name = module_of(file)
    preload(name, path, covered.modules)
    control = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output.txt"
        if os.waitpid(
            fork(lambda: judge(control, name, path, list(covered.took_s), inf, str(output))), 0
        )[1]:
            said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            sys.exit(
                f"{file}: its tests fail without a mutant, in a process that has imported the "
                f"other modules:\n{said[-5000:]}"
            )
    running: dict[int, Mutant] = {}

    def end_one() -> None:
        pid, status = os.wait()
        results.add(file, running.pop(pid), outcome(status))

    for mutant in chosen:
        tests = tests_of(mutant, file, covered)
        if not tests:
            results.add(file, mutant, SURVIVED)
            continue
        while len(running) >= jobs:
            end_one()
        limit_s = CPU_S + sum(covered.took_s[test] for test in tests)
        running[fork(lambda m=mutant, t=tests, s=limit_s: judge(m.compile(), name, path, t, s))] = (  # type: ignore[misc]
            mutant
        )
    while running:
        end_one()
    return 0


def listed() -> dict[Key, str]:
    """Return the survivors that the project accepts, each with its verdict."""
    entries = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get("survivor", ())
    return {
        (entry["file"], entry["where"], what): entry["verdict"]
        for entry in entries
        for what in entry["mutants"]
    }


def all_mutants(file: str) -> list[Mutant]:
    """Return every mutant of a file of ``vehicled/safety``."""
    members = enumerations(
        *(ROOT / "vehicled" / "core" / "messages").glob("*.py"), *SAFETY.rglob("*.py")
    )
    return list(mutants((SAFETY / file).read_text(encoding="utf-8"), members))


def left_of(chosen: Iterable[tuple[str, Mutant]], results: Results) -> list[tuple[str, Mutant]]:
    """Return the mutants that have no outcome yet."""
    done = results.read()
    return [
        (file, mutant) for file, mutant in chosen if (file, mutant.where, mutant.what) not in done
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="path in vehicled/safety; all by default"
    )
    parser.add_argument("--sample", type=int, help="number of mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="file of results, to go on with")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.files) - set(FILES)):
        parser.error(f"no file of vehicled/safety: {', '.join(unknown)}")
    with contextlib.ExitStack() as stack:
        folder = None if options.results else stack.enter_context(tempfile.TemporaryDirectory())
        return run(options, Results(options.results or Path(folder or "") / "mutants.jsonl"))


def run(options: argparse.Namespace, results: Results) -> int:
    """Run the chosen mutants, print what is wrong, and return the exit status."""
    covered, accepted, totals, broken = coverage(), listed(), Counter[str](), 0
    every = {file: all_mutants(file) for file in options.files or FILES}
    chosen = every
    if options.sample is not None:
        chosen = {
            file: Random(options.seed).sample(some, min(options.sample, len(some)))
            for file, some in every.items()
        }
    pairs = [(file, mutant) for file, some in chosen.items() for mutant in some]
    in_child(lambda: run_exchanged(left_of(pairs, results), covered, options.jobs, results))
    for file, some in chosen.items():
        if left := [mutant for _, mutant in left_of([(file, mutant) for mutant in some], results)]:
            in_child(lambda f=file, m=left: run_file(f, m, covered, options.jobs, results))  # type: ignore[misc]
        found = results.read()
        outcomes = [found[file, mutant.where, mutant.what] for mutant in some]
        totals.update(outcomes)
        _print(f"{file}: {_counts(Counter(outcomes))}")
        known, problems = {key for key in accepted if key[0] == file}, []
        for mutant, what in zip(some, outcomes, strict=True):
            key = (file, mutant.where, mutant.what)
            if what in (SURVIVED, CRASHED) and key not in known:
                problems.append(
                    f"{what}: {file}:{mutant.lines[0]} {mutant.where}\n    {mutant.what}"
                )
            elif what in (NOTICED, ENDLESS) and key in known:
                problems.append(
                    f"listed as a survivor, and noticed: {file}:{mutant.lines[0]} "
                    f"{mutant.where}\n    {mutant.what}"
                )
        gone = known - {(file, mutant.where, mutant.what) for mutant in every[file]}
        problems += [
            f"listed as a survivor, and no mutant any more: {' '.join(key)}" for key in sorted(gone)
        ]
        _print(*problems)
        broken += len(problems)
    _print(
        f"{sum(totals.values())} mutants: {_counts(totals)}",
        f"{broken} problems" if broken else "every survivor is listed",
    )
    return bool(broken)


def _counts(outcomes: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(outcomes.items()))


def _print(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
