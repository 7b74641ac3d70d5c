"""Children of a drive in the test process: forked from it, since it has imported what a new
interpreter would import anew.

Simulator, log writer and the workers of a study are processes with pipes, signals and an exit
status as in a real run; each costs some milliseconds instead of half a second of processor time.
Tests of the processes themselves start them as users do.

Tests that differ only after the vehicle drives share the way there: :func:`branch` goes on in a
copy of the process.
"""

import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

import sim_backend.__main__
import sim_backend.fleet.__main__
from vehicled import cli
from vehicled.log import pipe, writer
from vehicled.offline import processes
from vehicled.offline.studies import worker
from vehicled.run import fleet_processes, session
from vehicled.runtime import realtime, simulator

State = TypeVar("State")
Result = TypeVar("Result")

PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "sim_backend": sim_backend.__main__.main,
    "sim_backend.fleet": sim_backend.fleet.__main__.main,
    "vehicled": cli.main,
    "vehicled.log.writer": lambda _: writer.main(),
    "vehicled.offline.studies.worker": lambda arguments: _work(int(arguments[0])),
    "vehicled.offline.processes": lambda arguments: processes.serve(int(arguments[0])),
}


def _work(descriptor: int) -> int:
    worker.main(descriptor)
    return 0


class Forked(subprocess.Popen[bytes]):
    """Child that runs one of ``PROGRAMS``, with the handle and the pipes of a started one."""

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        """Take the place of the method of CPython 3.11 and later that forks and executes."""
        given = inspect.signature(subprocess.Popen._execute_child).bind(self, args, *more).arguments  # type: ignore[attr-defined]
        ends = [
            given[end]
            for end in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        ]
        name, *arguments = args[args.index("-m") + 1 :]
        with warnings.catch_warnings():
            # The other threads of a test process hold no lock that a child takes.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                # The child must not look for garbage in the whole copy.
                gc.freeze()
                _take_over(
                    (ends[0], ends[3], ends[5]),
                    given["pass_fds"],
                    given["env"],
                    new_session=given["start_new_session"],
                )
                status = PROGRAMS[name](arguments)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
            except BaseException:  # noqa: BLE001 - nothing of the tests may run in the child
                traceback.print_exc()
            finally:
                with suppress(BaseException):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def _take_over(
    streams: Sequence[int],
    kept: Sequence[int],
    environment: dict[str, str] | None,
    *,
    new_session: bool,
) -> None:
    """Make the copy of a test process a new process: its own streams, no other descriptors, default
    signals."""
    for number, descriptor in enumerate(streams):
        if descriptor != -1:
            os.dup2(descriptor, number)
    above = 3
    for descriptor in sorted(kept):
        os.closerange(above, descriptor)
        above = descriptor + 1
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
    )
    for number in (signal.SIGTERM, signal.SIGVTALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if new_session:
        os.setsid()
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)


@contextmanager
def children() -> Iterator[None]:
    """Let the drives of this process fork their children, where that is safe."""
    if sys.platform != "linux":
        yield
        return
    modules = SimpleNamespace(**{**vars(subprocess), "Popen": Forked})
    with pytest.MonkeyPatch.context() as patch:
        for module in (simulator, pipe, processes, fleet_processes):
            patch.setattr(module, "subprocess", modules)
        patch.setattr(session, "_one_processor", _one_processor)
        # A drive looks for the garbage of its set-up, and would look for that of all tests before
        # it.
        patch.setattr(realtime, "gc", SimpleNamespace(**{**vars(gc), "collect": lambda: 0}))
        yield


@contextmanager
def _one_processor(simulator_pid: int | None) -> Iterator[None]:
    """Keep both on one processor as a drive does, but on another one in each xdist worker, whose
    process ids say nothing."""
    allowed = os.sched_getaffinity(0)
    chosen = {sorted(allowed)[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(allowed)]}
    for pid in (simulator_pid, 0):
        if pid is not None:
            with suppress(OSError):
                os.sched_setaffinity(pid, chosen)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


_BEGUN: dict[Any, Any] = {}
"""Drives that are under way, by the function that began them and its arguments."""


def branch(
    begin: Callable[..., State], arguments: tuple[Any, ...], go_on: Callable[[State], Result]
) -> Result:
    """Return ``go_on(begin(*arguments))``: ``begin`` runs once for all calls with the same
    arguments, ``go_on`` in a copy.

    The copy is one of this process. The result must be picklable. If ``go_on`` raises, the caller
    fails with its traceback as text.
    """
    if sys.platform != "linux":
        return go_on(begin(*arguments))
    key = (begin, *arguments)
    if key not in _BEGUN:
        _BEGUN[key] = begin(*arguments)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            gc.freeze()
            os.close(reader)
            try:
                outcome = pickle.dumps((go_on(_BEGUN[key]), None))
            except BaseException:  # noqa: BLE001 - nothing of the tests may run in the child
                outcome = pickle.dumps((None, traceback.format_exc()))
            with os.fdopen(writer, "wb") as file:
                file.write(outcome)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        outcome = file.read()
    os.waitpid(pid, 0)
    assert outcome, "the copy of the process ended without a result"
    result: Result
    result, failure = pickle.loads(outcome)
    assert failure is None, failure
    return result
