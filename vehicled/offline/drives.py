"""Many drives of the Python interface at once."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from vehicled.offline.processes import WorkerPool
from vehicled.run.judge import TracePoint
from vehicled.run.plan import Plan
from vehicled.run.result import Result
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec


class DriveRequest(Struct, frozen=True):
    """A drive to simulate."""

    run: RunSpec
    simulation: SimulationSpec


class Driven(Struct, frozen=True):
    """A simulated drive without the machine that drove it."""

    result: Result
    trace: Sequence[TracePoint]


def drive_all(
    requests: Sequence[DriveRequest], jobs: int | None, progress: Callable[[int, int], None]
) -> list[Driven]:
    """Drive on all cores, or in ``jobs`` processes, and return the drives in the order of the
    requests.

    ``progress`` is called with the numbers of finished and of all drives. Raises the errors of
    :meth:`vehicled.offline.processes.WorkerPool.map`.
    """
    with WorkerPool(jobs) as processes:
        return processes.map(_driven, requests, lambda done: progress(done, len(requests)))


def _driven(shared: None, request: DriveRequest) -> Driven:
    simulated = simulate(
        Plan.of(request.run), request.simulation, keep_trace=True, keeps_signal=True
    )
    return Driven(simulated.result, simulated.trace)
