"""Hostile bytes cost each reader at most three times as many operations as data, in pieces of any
size."""

import re
from functools import cache

import pytest

from tests.conformance.test_device_contract import DEVICES, SILENT
from tests.hostile_bytes import LONGEST, Cost, cost, filled, inputs, subjects
from vehicled.profile.registry import names

SUBJECTS = subjects()
PIECE = 1_024
"""Most bytes that a port delivers at once."""
SIZE = 2 * PIECE
RATIO = 3.0
LEAST_OPCODES = 3.5
"""Operations per byte of data that count at least: readers of whole columns take less than one, and
what cuts their datagrams out of a stream goes byte by byte."""


def summed_limit(size: int) -> float:
    """Return the most bytes given to checksums per byte of a stream: 24, and five of the longest
    frames, which come in lumps."""
    return 24.0 + 5 * 16_400 / size


@cache
def opcodes_limit(name: str, piece: int) -> float:
    data: Cost = cost(SUBJECTS[name], filled(SUBJECTS[name].valid, SIZE), piece)
    return RATIO * max(data.opcodes, LEAST_OPCODES)


def test_every_driver_is_among_them() -> None:
    """Enter a new driver in ``DEVICES`` and in ``LONGEST``."""
    drivers = {
        re.sub("_(reference|dense|nodes|intensity|text|spartn)$", "", name) for name in DEVICES
    }
    assert drivers == set(names("driver"))
    assert set(LONGEST) == set(DEVICES) - SILENT


@pytest.mark.parametrize("name", SUBJECTS)
def test_hostile_bytes_cost_little_more_than_data(name: str) -> None:
    limit = opcodes_limit(name, PIECE)
    for kind, stream in inputs(SUBJECTS[name], SIZE).items():
        found = cost(SUBJECTS[name], stream, PIECE)
        assert found.opcodes <= limit, kind
        assert found.summed <= summed_limit(len(stream)), kind


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("piece", [1, 64])
def test_small_pieces_cost_no_more_either(name: str, piece: int) -> None:
    limit = opcodes_limit(name, piece)
    streams = inputs(SUBJECTS[name], 800)
    for kind in (
        "repeated first byte",
        "sync with the longest length",
        "sync and zeros",
        "sync and ones",
        "nested heads",
        "a long line",
    ):
        found = cost(SUBJECTS[name], streams[kind], piece)
        assert found.opcodes <= limit, kind
        assert found.summed <= summed_limit(800), kind


@pytest.mark.parametrize("name", SUBJECTS)
def test_much_at_once_costs_no_more_per_byte(name: str) -> None:
    """The longest frames of one reader have 16 KiB, so the streams are longer."""
    limit = opcodes_limit(name, PIECE)
    for kind in ("sync with the longest length", "nested heads"):
        found = cost(SUBJECTS[name], inputs(SUBJECTS[name], 20_000)[kind], 20_000)
        assert found.opcodes <= limit, kind
        assert found.summed <= summed_limit(20_000), kind
