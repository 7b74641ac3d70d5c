"""Harms to the bytes of a file: some are gone, overwritten, there twice, or in another order."""

from collections.abc import Callable
from typing import Final

Harm = Callable[[bytes, int, int], bytes]
"""Harms ``size`` bytes at a place."""


def strips(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + data[at + size :]


def zeroes(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]


def flips(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << size % 8)]) + data[at + 1 :]


def doubles(data: bytes, at: int, size: int) -> bytes:
    return data[: at + size] + data[at:]


def swaps(data: bytes, at: int, size: int) -> bytes:
    a, b, rest = data[at : at + size], data[at + size : at + 2 * size], data[at + 2 * size :]
    return data[:at] + b + a + rest


HARMS: Final[tuple[Harm, ...]] = (strips, zeroes, flips, doubles, swaps)
