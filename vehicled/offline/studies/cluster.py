"""Runs of a study on a Dask cluster. Dask itself repeats the runs of a worker that dies."""

import atexit
import threading
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from vehicled.offline.studies.conduct import RunRequest, RunRow, crashed
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.pool import Worker
from vehicled.offline.studies.software import software_digest

_CONNECT_S = 10
_AHEAD = 4
"""Runs per thread of the cluster that are submitted ahead."""
_local = threading.local()


def conduct_remotely(request: bytes, software: str) -> bytes:
    """Drive a run on a worker of the cluster, in a process of its own: a drive needs the main
    thread of a process.

    Raises RuntimeError if the worker has other software, or if the process of the run died.
    """
    if software_digest() != software:
        raise RuntimeError(
            "this worker has another version of vehicled or of its libraries: install the same "
            "on all computers"
        )
    worker = getattr(_local, "worker", None)
    if worker is None:
        worker = _local.worker = Worker()
        atexit.register(worker.close)
    worker.send(msgspec.msgpack.decode(request, type=RunRequest))
    answer = worker.receive()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return msgspec.msgpack.encode(answer)


class DaskPool:
    """Workers of a Dask cluster."""

    def __init__(self, where: str) -> None:
        """Connect to ``dask://HOST:PORT``, or to the scheduler of a file. Raises
        :class:`StudyError`."""
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            raise StudyError("--on", ["needs dask: pip install 'vehicled[dask]'"]) from None
        if not where.startswith("dask://") and not Path(where).is_file():
            # Dask would wait for the file for ever.
            raise StudyError(
                f"--on {where}",
                [
                    (
                        "no such file; 'dask scheduler --scheduler-file FILE' writes it, or give "
                        "dask://HOST:PORT"
                    )
                ],
            )
        try:
            if where.startswith("dask://"):
                client = distributed.Client(
                    f"tcp://{where.removeprefix('dask://')}", timeout=_CONNECT_S
                )
            else:
                client = distributed.Client(scheduler_file=where, timeout=_CONNECT_S)
        except (OSError, TimeoutError, ValueError) as error:
            reason = f"no Dask scheduler answers ({type(error).__name__}: {error})"
            raise StudyError(
                f"--on {where}",
                [f"{reason}; start one with 'dask scheduler', and workers with 'dask worker'"],
            ) from None
        self._client = client
        self.size = sum(client.nthreads().values()) or 1
        self.notice = (
            ""
            if client.nthreads()
            else f"waiting for workers: start one with 'dask worker {client.scheduler.address}'"
        )
        """Text for the user if no worker can begin yet; else empty."""

    def run(self, requests: Iterable[RunRequest]) -> Iterator[RunRow]:
        """Drive all requests; yield the rows as they come."""
        software, waiting = software_digest(), iter(requests)
        running: dict[str, RunRequest] = {}

        def submit(request: RunRequest) -> Any:
            future = self._client.submit(
                conduct_remotely, msgspec.msgpack.encode(request), software, pure=False, retries=1
            )
            running[future.key] = request
            return future

        done = import_module("distributed").as_completed(
            [submit(each) for each in islice(waiting, _AHEAD * self.size)]
        )
        for future in done:
            request = running.pop(future.key)
            if future.status == "finished":
                yield msgspec.msgpack.decode(future.result(), type=RunRow)
            else:
                error = future.exception()
                yield crashed(request, f"{type(error).__name__}: {error}")
            following = next(waiting, None)
            if following is not None:
                done.add(submit(following))

    def close(self) -> None:
        """Leave the cluster; it goes on."""
        self._client.close()
