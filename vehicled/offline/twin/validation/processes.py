"""Map over tasks, in this process or in several."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def mapped(do: Callable[[Task], Outcome], tasks: Sequence[Task], jobs: int) -> Iterable[Outcome]:
    """Return the outcomes in the order of the tasks; the number of processes does not change
    them."""
    return (
        map(do, tasks)
        if jobs == 1 or len(tasks) < 2
        else _in_processes(do, tasks, min(jobs, len(tasks)))
    )


def _in_processes(
    do: Callable[[Task], Outcome], tasks: Sequence[Task], jobs: int
) -> Iterator[Outcome]:
    # Spawn, because a fork of a process with numpy threads may hang.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(do, tasks, chunksize=4)
