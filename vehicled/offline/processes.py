"""Worker processes on this computer, for what takes minutes on one core: ``python -m
vehicled.offline.processes FD``.

A process that dies costs one task, which another repeats.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import IO, Any, Self, TypeVar, cast

from vehicled.core.error_text import message as error_message
from vehicled.core.errors import SetupError, UserError

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

ATTEMPTS = 2
"""Times that a task is tried whose process died."""
_KEPT = 400
"""Characters of a dead worker's last output that are kept."""


class WorkerProcess:
    """One worker process, started at the first message and after each death."""

    def __init__(self, module: str) -> None:
        """``module`` is run with the descriptor of its connection, and answers each message."""
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection
        self._errors: IO[bytes]

    def send(self, message: bytes) -> None:
        """Submit a message."""
        if self._process is None:
            self._start()
        self.connection.send_bytes(message)

    def receive(self) -> bytes | str:
        """Wait for the answer; return the reason if the process died instead."""
        try:
            return self.connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        environment = os.environ | {
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
            )
        self.connection = Connection(ours.detach())

    def _bury(self) -> str:
        """Return why the process died, with its last output."""
        assert self._process is not None
        status = self._process.wait()
        self._errors.seek(0)
        words = " ".join(self._errors.read().decode(errors="replace").split())[-_KEPT:]
        self.close()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return f"the process of the run died with {how}{f': {words}' if words else ''}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self.connection.close()
            self._process.kill()
            self._process.wait()
            self._errors.close()
            self._process = None


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def answered(
    workers: Sequence[WorkerProcess], messages: Iterable[bytes]
) -> Iterator[tuple[int, bytes | str]]:
    """Yield the number of each message and its answer as they come: the reason, where its process
    died every time."""
    waiting, repeated = enumerate(messages), deque[tuple[int, bytes, int]]()
    busy: dict[Connection, tuple[WorkerProcess, int, bytes, int]] = {}
    idle = list(workers)
    while True:
        while idle:
            following = (
                repeated.popleft() if repeated else next(((*each, 1) for each in waiting), None)
            )
            if following is None:
                break
            worker = idle.pop()
            with suppress(OSError):  # dead already, which reading its answer reports
                worker.send(following[1])
            busy[worker.connection] = (worker, *following)
        if not busy:
            return
        for ready in wait(list(busy)):
            assert isinstance(ready, Connection)
            worker, number, message, attempt = busy.pop(ready)
            answer = worker.receive()
            idle.append(worker)
            if isinstance(answer, bytes):
                yield number, answer
            elif attempt < ATTEMPTS:
                repeated.append((number, message, attempt + 1))
            else:
                yield number, f"{answer} ({ATTEMPTS} times)"


class WorkerPool:
    """Processes that call a function with many tasks, and with one large thing that all of them
    share. Use as a context manager.

    Outcomes do not depend on the number of processes: with one, the function runs in this process.
    """

    def __init__(self, jobs: int | None = None) -> None:
        """Use ``jobs`` processes, by default one for each processor."""
        self._workers = [WorkerProcess(__name__) for _ in range(jobs or processors())]
        self._shared: Any = None
        self._data = b""
        self._informed: set[WorkerProcess] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def share(self, thing: object) -> None:
        """Give all processes a thing that can be pickled, in the place of the last one."""
        self._shared = thing
        self._data = pickle.dumps((None, thing)) if len(self._workers) > 1 else b""
        self._informed.clear()

    def map(
        self,
        do: Callable[[Any, Task], Outcome],
        tasks: Sequence[Task],
        done: Callable[[int], None] = lambda number: None,
    ) -> list[Outcome]:
        """Return ``do(shared, task)`` of each task, in order. ``do`` is a function of a module.
        ``done`` is called with the number of outcomes so far. Raises the first :class:`UserError`
        of a task, and :class:`SetupError` where a process dies twice.
        """
        found: dict[int, Outcome] = {}
        try:
            for number, outcome in self._outcomes(do, tasks):
                found[number] = outcome
                done(len(found))
        except BaseException:
            # What the others still compute is not wanted.
            self.close()
            raise
        return [found[number] for number in range(len(tasks))]

    def close(self) -> None:
        """End all processes; the next call starts new ones."""
        self._informed.clear()
        for worker in self._workers:
            worker.close()

    def _outcomes(
        self, do: Callable[[Any, Task], Outcome], tasks: Sequence[Task]
    ) -> Iterator[tuple[int, Outcome]]:
        if len(self._workers) == 1 or len(tasks) == 1:
            for number, task in enumerate(tasks):
                yield number, do(self._shared, task)
            return
        workers = self._workers[: len(tasks)]
        if self._data:
            for worker in set(workers) - self._informed:
                worker.send(self._data)
                if isinstance(answer := worker.receive(), str):
                    raise SetupError(answer)
                self._informed.add(worker)
        for number, data in answered(workers, (pickle.dumps((do, task)) for task in tasks)):
            if isinstance(data, str):
                raise SetupError(f"task {number + 1} of {len(tasks)}: {data}")
            outcome = pickle.loads(data)  # noqa: S301 - from our own process
            if isinstance(outcome, UserError):
                raise outcome
            yield number, cast(Outcome, outcome)


def _answer(shared: Any, do: Callable[[Any, Any], Any], task: Any) -> bytes:
    try:
        return pickle.dumps(do(shared, task))
    except UserError as error:
        return _pickled(error)


def _pickled(error: UserError) -> bytes:
    """Return an error as it is, or as its text where its class needs more than that to be made."""
    data = pickle.dumps(SetupError(error_message(error)))
    with suppress(Exception):
        own = pickle.dumps(error)
        if str(pickle.loads(own)) == str(error):  # noqa: S301 - written in the line above
            data = own
    return data


def serve(descriptor: int) -> int:
    """Answer every message on the connection, and return the exit status."""
    # Ctrl-C is for the caller, who ends the processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
    from vehicled.profile import plugins
    from vehicled.runtime.plugin_watch import watch_import

    plugins.guard = watch_import
    connection, shared = Connection(descriptor), None
    with suppress(EOFError, OSError):
        while True:
            do, task = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own process
            if do is None:
                shared = task
            connection.send_bytes(b"" if do is None else _answer(shared, do, task))
    return 0


if __name__ == "__main__":
    sys.exit(serve(int(sys.argv[1])))
