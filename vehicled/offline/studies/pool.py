"""Worker processes on this computer. A process that dies costs one run, which another repeats."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import IO, Protocol

import msgspec

from vehicled.offline.studies.conduct import RunRequest, RunRow, crashed

ATTEMPTS = 2
"""Times that a run is tried whose process died."""
_KEPT = 400
"""Characters of a dead worker's last output that are kept."""


class Pool(Protocol):
    """Computers that drive runs."""

    size: int
    """Runs at a time."""

    def run(self, requests: Iterable[RunRequest]) -> Iterator[RunRow]:
        """Drive all requests; yield the rows as they come."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


class Worker:
    """One worker process, started at the first request and after each death."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.connection: Connection
        self._errors: IO[bytes]

    def send(self, request: RunRequest) -> None:
        """Submit a request."""
        if self._process is None:
            self._start()
        self.connection.send_bytes(msgspec.msgpack.encode(request))

    def receive(self) -> RunRow | str:
        """Wait for the row; return the reason if the process died instead."""
        try:
            return msgspec.msgpack.decode(self.connection.recv_bytes(), type=RunRow)
        except (EOFError, OSError):
            return self._bury()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "vehicled.offline.studies.worker", str(theirs.fileno())],
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


class LocalPool:
    """Workers on all cores of this computer."""

    def __init__(self, jobs: int | None = None) -> None:
        self.size = jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else jobs or os.cpu_count() or 1
        self._workers = [Worker() for _ in range(self.size)]

    def run(self, requests: Iterable[RunRequest]) -> Iterator[RunRow]:
        """Drive all requests; yield the rows as they come."""
        waiting, repeated = iter(requests), deque[tuple[RunRequest, int]]()
        busy: dict[Connection, tuple[Worker, RunRequest, int]] = {}
        idle = list(self._workers)
        while True:
            while idle:
                following = repeated.popleft() if repeated else next(((each, 1) for each in waiting), None)
                if following is None:
                    break
                worker = idle.pop()
                with suppress(OSError):  # dead already, which reading its answer reports
                    worker.send(following[0])
                busy[worker.connection] = (worker, *following)
            if not busy:
                return
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                worker, request, attempt = busy.pop(ready)
                answer = worker.receive()
                idle.append(worker)
                if isinstance(answer, RunRow):
                    yield answer
                elif attempt < ATTEMPTS:
                    repeated.append((request, attempt + 1))
                else:
                    yield crashed(request, f"{answer} ({ATTEMPTS} times)")

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
