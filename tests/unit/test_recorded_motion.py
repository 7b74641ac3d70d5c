"""Values of a recording at other times: held, on straight lines, and nothing where nothing is
known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.messages import GroundTruth
from vehicled.offline.recordings.recording import (
    MAX_GAP_S,
    RecordedMotion,
    between,
    held,
    unwrapped,
)

STAMPS = st.lists(st.integers(0, 10**10), min_size=1, max_size=20, unique=True).map(sorted)
WANTED = st.lists(st.integers(-(10**9), 11 * 10**9), min_size=1, max_size=20)


@given(STAMPS, WANTED)
def test_a_held_value_is_the_newest_that_had_come(stamps: list[int], wanted: list[int]) -> None:
    found = held(np.array(wanted), stamps, np.array(stamps, dtype=np.float64))
    for t_ns, value in zip(wanted, found, strict=True):
        come = [stamp for stamp in stamps if stamp <= t_ns]
        assert value == come[-1] if come else np.isnan(value)
    assert held(np.array([-1]), stamps, np.ones(len(stamps)), 0.0)[0] == 0.0


@given(STAMPS, WANTED)
def test_between_samples_lies_a_line_and_in_gaps_nothing(
    stamps: list[int], wanted: list[int]
) -> None:
    t_s = np.array(stamps) * 1e-9
    found = between(np.array(wanted) * 1e-9, t_s, 2.0 * t_s + 1.0)
    for at_s, value in zip(np.array(wanted) * 1e-9, found, strict=True):
        after = int(np.searchsorted(t_s, at_s))
        near = (
            len(t_s) > 1
            and t_s[0] <= at_s <= t_s[-1]
            and t_s[max(after, 1)] - t_s[max(after, 1) - 1] <= MAX_GAP_S
        )
        assert value == pytest.approx(2.0 * at_s + 1.0) if near else np.isnan(value)


@given(st.lists(st.one_of(st.floats(-20.0, 20.0), st.just(np.nan)), max_size=20))
def test_a_continuous_yaw_keeps_directions_and_what_is_not_known(yaw: list[float]) -> None:
    given_yaw = np.array(yaw, dtype=np.float64)
    found = unwrapped(given_yaw)
    assert np.array_equal(np.isnan(found), np.isnan(given_yaw))
    known = ~np.isnan(found)
    assert np.cos(found[known]) == pytest.approx(np.cos(given_yaw[known]), abs=1e-6)
    assert np.all(np.abs(np.diff(found[known])) <= np.pi + 1e-9)


def test_one_unknown_yaw_does_not_spoil_the_rest() -> None:
    yaws = [3.1, np.nan, -3.1, -3.0]
    messages = [
        GroundTruth(k * 10**8, k * 10**8, 1.0 * k, 0.0, yaw, 1.0, 0.0, 0.0)
        for k, yaw in enumerate(yaws)
    ]
    motion = RecordedMotion.of(messages)
    assert motion.yaw_rad[2:] == pytest.approx([2.0 * np.pi - 3.1, 2.0 * np.pi - 3.0])
    there = motion.at(np.array([5 * 10**7, 25 * 10**7]))
    assert there.x_m == pytest.approx([0.5, 2.5])
    assert np.isnan(there.yaw_rad[0])
    assert not RecordedMotion.partly(motion.t_ns, speed_mps=motion.speed_mps).known
