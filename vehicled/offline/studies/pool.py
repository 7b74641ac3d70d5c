"""Worker processes on this computer that drive runs of studies."""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from vehicled.offline.processes import WorkerProcess, answered, processors
from vehicled.offline.studies.conduct import RunRequest, RunRow, crashed

STUDIES = "vehicled.offline.studies.worker"
"""Module of the processes that drive runs of studies."""


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
    """A worker process that drives runs of studies."""

    def __init__(self) -> None:
        self._process = WorkerProcess(STUDIES)

    def send(self, request: RunRequest) -> None:
        """Submit a request."""
        self._process.send(msgspec.msgpack.encode(request))

    def receive(self) -> RunRow | str:
        """Wait for the row; return the reason if the process died instead."""
        answer = self._process.receive()
        return answer if isinstance(answer, str) else msgspec.msgpack.decode(answer, type=RunRow)

    def close(self) -> None:
        """End the process."""
        self._process.close()


class LocalPool:
    """Workers on all cores of this computer."""

    def __init__(self, jobs: int | None = None) -> None:
        self.size = jobs or processors()
        self._workers = [WorkerProcess(STUDIES) for _ in range(self.size)]

    def run(self, requests: Iterable[RunRequest]) -> Iterator[RunRow]:
        """Drive all requests; yield the rows as they come."""
        asked: dict[int, RunRequest] = {}

        def messages() -> Iterator[bytes]:
            for number, request in enumerate(requests):
                asked[number] = request
                yield msgspec.msgpack.encode(request)

        for number, answer in answered(self._workers, messages()):
            request = asked.pop(number)
            yield (
                crashed(request, answer)
                if isinstance(answer, str)
                else msgspec.msgpack.decode(answer, type=RunRow)
            )

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
