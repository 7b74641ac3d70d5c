"""Tests that share the way to where they differ."""

import os
import sys

import pytest

from tests.forked import branch

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere every test goes the whole way"
)

begun: list[int] = []


def count_to(last: int) -> list[int]:
    begun.append(last)
    return list(range(last))


def add(counted: list[int]) -> list[int]:
    counted.append(7)
    return counted


def test_each_branch_goes_on_from_the_same_state() -> None:
    assert branch(count_to, (3,), add) == [0, 1, 2, 7]
    assert branch(count_to, (3,), lambda counted: counted) == [0, 1, 2]
    assert branch(count_to, (2,), lambda counted: counted) == [0, 1]
    assert begun == [3, 2]


def test_what_fails_in_a_branch_fails_the_test() -> None:
    def go_on(counted: list[int]) -> None:
        assert counted == ["something else"]

    with pytest.raises(AssertionError, match="something else"):
        branch(count_to, (3,), go_on)
    with pytest.raises(AssertionError, match="without a result"):
        branch(count_to, (3,), lambda _: os._exit(0))
