"""Checksums of frames anywhere in a buffer, each byte of which is summed a fixed number of times.

A false start of a frame claims bytes that later candidates claim again. Summing each claim anew costs the square of the length, so
the value of a span is derived from *running values* at its two ends: a difference of sums, or of the states of a CRC with the first
one shifted over the length of the span. :class:`RunningChecksum` keeps them for the candidates of one protocol, one after the
other; :meth:`Checksum.running` and :meth:`Checksum.fit` examine many candidates together, as arrays.
"""

from abc import ABC, abstractmethod
from binascii import crc_hqx
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vehicled.wire.crc import BIT_REVERSED, Buffer, crc24q, fletcher8, sum8

Integers = NDArray[np.int64]

ROW = 256
"""Bytes of a row of the running values of a CRC."""


class Checksum(ABC):
    """Kind of checksum. A running value is a number from which the value of any span with that end follows."""

    size: ClassVar[int]
    """Bytes of the value on the wire."""

    @abstractmethod
    def of(self, data: Buffer) -> int:
        """Return the value of ``data``."""

    @abstractmethod
    def advance(self, value: int, data: Buffer) -> Iterator[int]:
        """Iterate over the running values behind each byte of ``data``, after ``value``. The first of all is 0."""

    @abstractmethod
    def between(self, first: int, last: int, count: int) -> int:
        """Return the value of the ``count`` bytes between two running values."""

    @abstractmethod
    def running(self, data: bytes, before: Any = None) -> Any:
        """Return the running values of ``data`` for :meth:`fit`, behind those that ``before`` holds already."""

    @abstractmethod
    def without(self, running: Any, count: int) -> Any:
        """Return running values without those of the first ``count`` bytes, a multiple of ``ROW``."""

    @abstractmethod
    def fit(self, running: Any, first: Integers, last: Integers, stored: Integers) -> NDArray[np.bool_]:
        """Return whether the spans from ``first`` to ``last`` have the values ``stored``. All are arrays (n,)."""

    def prepare(self) -> None:  # noqa: B027 - sums need no tables
        """Make the tables that ``between`` and ``fit`` need, so that the first damage costs no time."""


class Sum8(Checksum):
    """Sum of the bytes modulo 256."""

    size = 1

    def of(self, data: Buffer) -> int:
        return sum8(data)

    def advance(self, value: int, data: Buffer) -> Iterator[int]:
        return islice(accumulate(data, initial=value), 1, None)

    def between(self, first: int, last: int, count: int) -> int:
        return last - first & 0xFF

    def running(self, data: bytes, before: Integers | None = None) -> Integers:
        sums = _sums(data)
        return sums if before is None else np.append(before, before[-1] + sums[1:])

    def without(self, running: Integers, count: int) -> Integers:
        return running[count:]

    def fit(self, running: Integers, first: Integers, last: Integers, stored: Integers) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = running[last] - running[first] & 0xFF == stored
        return fits


class Fletcher8(Checksum):
    """The bytes CK_A and CK_B of UBX and MIP, as a little-endian number. A running value has the sum in its lower half, and the
    sum of the sums above it."""

    size = 2

    def of(self, data: Buffer) -> int:
        return int.from_bytes(fletcher8(data), "little")

    def advance(self, value: int, data: Buffer) -> Iterator[int]:
        def step(value: int, byte: int) -> int:
            value += byte
            return value + ((value & 0xFFFF_FFFF) << 32)

        return islice(accumulate(data, step, initial=value), 1, None)

    def between(self, first: int, last: int, count: int) -> int:
        total = first & 0xFFFF_FFFF
        return last - total & 0xFF | ((last >> 32) - (first >> 32) - count * total & 0xFF) << 8

    def running(self, data: bytes, before: tuple[Integers, Integers] | None = None) -> tuple[Integers, Integers]:
        totals = _sums(data)
        if before is None:
            return totals, np.cumsum(totals)
        totals = before[0][-1] + totals[1:]
        return np.append(before[0], totals), np.append(before[1], before[1][-1] + np.cumsum(totals))

    def without(self, running: tuple[Integers, Integers], count: int) -> tuple[Integers, Integers]:
        return running[0][count:], running[1][count:]

    def fit(self, running: tuple[Integers, Integers], first: Integers, last: Integers, stored: Integers) -> NDArray[np.bool_]:
        totals, sums = running
        before = totals[first]
        low = totals[last] - before & 0xFF
        high = sums[last] - sums[first] - (last - first) * before & 0xFF
        fits: NDArray[np.bool_] = low | high << 8 == stored
        return fits


_LONGEST = 1 << 16
"""Longest span with a CRC, bytes."""
_DIGIT = 4
"""Bits of a digit of a number of bytes."""


class CrcStates(NamedTuple):
    """Running values of a CRC."""

    begin: int
    """State at the beginning of the last row."""
    tail: bytes
    """Bytes of the last row, which is not complete."""
    carried: Integers
    """State before each byte and behind the last, carried to the end of its row of ``ROW`` bytes: an array (n + 1,)."""


class Crc(Checksum):
    """CRC with the most significant bit first: a polynomial in x. Over n more bytes it is multiplied by x^8n.

    Source: R. N. Williams, "A Painless Guide to CRC Error Detection Algorithms", 1993.
    """

    bits: ClassVar[int]
    polynomial: ClassVar[int]

    def __init__(self, initial: int = 0) -> None:
        """Take the state before the first byte of a span."""
        self.initial = initial

    def advance(self, value: int, data: Buffer) -> Iterator[int]:
        one_byte, shift = self._multipliers[0][1], self.bits - 8
        top = one_byte.middle if shift == 8 else one_byte.high
        mask = (1 << shift) - 1

        def step(state: int, byte: int) -> int:
            return (state & mask) << 8 ^ top[state >> shift ^ byte]

        return islice(accumulate(data, step, initial=value), 1, None)

    def between(self, first: int, last: int, count: int) -> int:
        state = first ^ self.initial
        for multipliers in self._multipliers:
            digit = count & 0xF
            if digit:
                state = multipliers[digit].of(state)
            count >>= _DIGIT
            if not count:
                break
        return last ^ state

    def running(self, data: bytes, before: CrcStates | None = None) -> CrcStates:
        begin, head, known = (0, b"", np.zeros(0, np.int64)) if before is None else before
        data = head + data
        rows = len(data) // ROW + 1
        octets = np.zeros(rows * ROW, np.uint8)
        octets[: len(data)] = np.frombuffer(data, np.uint8)
        carried = np.zeros((rows, ROW + 1), np.int64)
        np.bitwise_xor.accumulate(self._carried[_PLACES, octets.reshape(rows, ROW)], axis=1, out=carried[:, 1:])
        over_row = self._multipliers[ROW.bit_length() // _DIGIT][1]
        for row, content in enumerate(carried[:, ROW].tolist()):
            moved = over_row.of(begin)
            carried[row] ^= moved
            if row < rows - 1:
                begin = moved ^ content
        states = carried[:, :ROW].reshape(-1)[: len(data) + 1]
        return CrcStates(
            begin, data[(rows - 1) * ROW :], np.append(known[: len(known) - len(head) - 1], states) if before else states
        )

    def without(self, running: CrcStates, count: int) -> CrcStates:
        return running._replace(carried=running.carried[count:])

    def fit(self, running: CrcStates, first: Integers, last: Integers, stored: Integers) -> NDArray[np.bool_]:
        # All is carried to the end of the row of ``last``.
        state = running.carried[first]
        if self.initial:
            state = state ^ self._carry(np.full_like(first, self.initial), ROW - first % ROW)
        rows = last // ROW - first // ROW
        for multipliers in self._multipliers[ROW.bit_length() // _DIGIT :]:
            for bit in range(_DIGIT):
                if not rows.any():
                    break
                state = np.where(rows & 1, multipliers[1 << bit].of_many(state), state)
                rows >>= 1
        fits: NDArray[np.bool_] = running.carried[last] ^ self._carry(stored, ROW - last % ROW) == state
        return fits

    def prepare(self) -> None:
        _ = self._multipliers, self._carried

    def _carry(self, states: Integers, count: Integers) -> Integers:
        """Return the states ``count`` zero bytes later, at most a row."""
        carried = np.zeros_like(states)
        for place in range(self.bits // 8):
            carried ^= self._carried[ROW + self.bits // 8 - 1 - place - count, states >> 8 * place & 0xFF]
        return carried

    @property
    def _multipliers(self) -> list[list["_Multiplier"]]:
        return _multipliers(self.bits, self.polynomial)

    @property
    def _carried(self) -> Integers:
        return _carried(self.bits, self.polynomial)


class _Multiplier:
    """Multiplication of states of a CRC by one polynomial: a table for each of their bytes, and of a state of two bytes 0."""

    def __init__(self, images: list[int]) -> None:
        """``images`` are the products of the single bits."""
        tables = []
        for at in (0, 8, 16):
            table = [0]
            for image in images[at : at + 8] or (0,) * 8:
                table += [entry ^ image for entry in table]
            tables.append(table)
        self.low, self.middle, self.high = tables
        self.arrays = [np.array(table, np.int64) for table in tables]

    def of(self, state: int) -> int:
        return self.low[state & 0xFF] ^ self.middle[state >> 8 & 0xFF] ^ self.high[state >> 16]

    def of_many(self, states: Integers) -> Integers:
        low, middle, high = self.arrays
        product: Integers = low[states & 0xFF] ^ middle[states >> 8 & 0xFF] ^ high[states >> 16]
        return product


@cache
def _multipliers(bits: int, polynomial: int) -> list[list[_Multiplier]]:
    """Return multiplications by x^8n for each digit of n, by its place and value."""
    single, top = [1 << bit for bit in range(bits)], 1 << bits
    images = single
    for _ in range(8):
        images = [image << 1 if image << 1 < top else image << 1 ^ polynomial ^ top for image in images]
    found: list[list[_Multiplier]] = []
    while 1 << _DIGIT * len(found) < _LONGEST:
        unit = _Multiplier(images)
        digits = [_Multiplier(single)]
        for _ in range(1 << _DIGIT):
            digits.append(_Multiplier([unit.of(digits[-1].of(bit)) for bit in single]))
        images = [digits[-1].of(bit) for bit in single]
        found.append(digits[:-1])
    return found


@cache
def _carried(bits: int, polynomial: int) -> Integers:
    """Return the states at the end of a row that is zero but for one byte, by the place of the byte and its value.

    As many rows follow as a state has bytes, for bytes that are part of the state already.
    """
    table = np.empty((ROW + bits // 8, 256), np.int64)
    table[-1] = np.arange(256)
    one_byte, mask = _multipliers(bits, polynomial)[0][1], (1 << bits) - 1
    for row in range(len(table) - 2, -1, -1):
        later = table[row + 1]
        table[row] = (later << 8 & mask) ^ one_byte.arrays[bits // 8 - 1][later >> bits - 8]
    return table


class Crc16(Crc):
    """CRC-16 with the polynomial 0x1021: XMODEM, and IBM-3740 (``initial`` 0xFFFF)."""

    size = 2
    bits = 16
    polynomial = 0x1021

    def of(self, data: Buffer) -> int:
        return crc_hqx(data, self.initial)


class Crc16Kermit(Crc16):
    """CRC-16/KERMIT: XMODEM of bytes with their bits reversed, and so is its value."""

    def of(self, data: Buffer) -> int:
        return self._turned(crc_hqx(bytes(data).translate(BIT_REVERSED), 0))

    def advance(self, value: int, data: Buffer) -> Iterator[int]:
        return super().advance(value, bytes(data).translate(BIT_REVERSED))

    def between(self, first: int, last: int, count: int) -> int:
        return self._turned(super().between(first, last, count))

    def running(self, data: bytes, before: CrcStates | None = None) -> CrcStates:
        return super().running(data.translate(BIT_REVERSED), before)

    def fit(self, running: CrcStates, first: Integers, last: Integers, stored: Integers) -> NDArray[np.bool_]:
        turned = _TURNED[stored >> 8] | _TURNED[stored & 0xFF] << 8
        return super().fit(running, first, last, turned)

    @staticmethod
    def _turned(state: int) -> int:
        return BIT_REVERSED[state >> 8] | BIT_REVERSED[state & 0xFF] << 8


class Crc24q(Crc):
    """CRC-24Q of RTCM 3."""

    size = 3
    bits = 24
    polynomial = 0x864CFB

    def of(self, data: Buffer) -> int:
        return crc24q(data)


class RunningChecksum:
    """Checksum of the candidates of one protocol in one buffer, whose places only grow. Bytes seen for the first time are summed
    directly, others by running values."""

    def __init__(self, checksum: Checksum) -> None:
        checksum.prepare()
        self._checksum = checksum
        self._base = self._covered = 0
        self._values: list[int] = []

    def reset(self) -> None:
        """Forget the buffer."""
        self._covered = 0
        self._values.clear()

    def of(self, buffer: bytes | bytearray, first: int, last: int) -> int:
        """Return the value of ``buffer[first:last]``."""
        values = self._values
        if first >= self._covered:
            self._covered = last
            values.clear()
            return self._checksum.of(buffer[first:last])
        if not values:
            self._base = first
            values.append(0)
        self._covered = max(self._covered, last)
        base = self._base
        if (known := base + len(values) - 1) < last:
            values.extend(self._checksum.advance(values[-1], buffer[known:last]))
        return self._checksum.between(values[first - base], values[last - base], last - first)


def _sums(data: bytes) -> Integers:
    totals = np.zeros(len(data) + 1, np.int64)
    np.cumsum(np.frombuffer(data, np.uint8), out=totals[1:])
    return totals


_PLACES = np.arange(ROW)
_TURNED = np.frombuffer(BIT_REVERSED, np.uint8).astype(np.int64)
SUM8, FLETCHER8, CRC16_XMODEM, CRC16_IBM_3740 = Sum8(), Fletcher8(), Crc16(), Crc16(0xFFFF)
CRC16_KERMIT, CRC24Q = Crc16Kermit(), Crc24q()
