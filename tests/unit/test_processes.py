"""Worker processes: outcomes in order, what is shared, errors, and processes that die."""

import os

import pytest

from vehicled.core.errors import SetupError
from vehicled.offline.processes import WorkerPool


def scaled(factor: int, task: int) -> tuple[int, int]:
    return factor * task, os.getpid()


def refused(shared: None, task: int) -> int:
    if task == 1:
        raise SetupError("one is no drive: take two")
    return task


def dies(shared: None, task: int) -> int:
    if task == 1:
        os._exit(3)
    return task


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_are_in_the_order_of_the_tasks(jobs: int):
    seen: list[int] = []
    with WorkerPool(jobs) as processes:
        processes.share(10)
        found = processes.map(scaled, range(7), seen.append)
        processes.share(100)
        again = processes.map(scaled, [1, 2])
    assert [value for value, _ in found] == [0, 10, 20, 30, 40, 50, 60]
    assert [value for value, _ in again] == [100, 200]
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert ({pid for _, pid in found} == {os.getpid()}) is (jobs == 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_error_of_a_task_reaches_the_caller(jobs: int):
    with WorkerPool(jobs) as processes:
        with pytest.raises(SetupError, match="one is no drive"):
            processes.map(refused, [0, 1, 2])
        # WorkerPool that were in the middle of a task are not asked for the next answer.
        assert processes.map(refused, [5, 6, 7]) == [5, 6, 7]


def test_a_process_that_dies_twice_is_an_error_that_says_how():
    with (
        WorkerPool(2) as processes,
        pytest.raises(SetupError, match=r"task 2 of 3: .*status 3.*2 times"),
    ):
        processes.map(dies, [0, 1, 2])
