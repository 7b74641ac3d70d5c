"""Checksums of the supported protocols. Each function takes a bytes-like object and returns the
value on the wire.

Check values are over ``b"123456789"``; names follow Greg Cook's catalogue of parametrised CRC
algorithms.
"""

from binascii import crc_hqx
from zlib import crc32

Buffer = bytes | bytearray | memoryview

CRC24Q_WEIGHT = 10
"""Bytes of the other checksums that cost as much as a byte of CRC-24Q, which has no function in
C."""
_FLETCHER_BLOCK = 362
_FLETCHER_BASE = (1 << 24) - 1
_FLETCHER_MODULUS = _FLETCHER_BASE**2


def fletcher8(data: Buffer) -> bytes:
    """Return the bytes CK_A, CK_B of UBX and MIP: sum of the bytes, and sum of the sums, modulo
    256.

    With the bytes as digits of a number N in base X, N = sum(d_i X^i) = sum(d_i) + (X - 1) sum(i
    d_i) modulo (X - 1)^2, so one long division in C replaces a Python loop. X exceeds the sums of
    one block.
    """
    total = sums = 0
    for at in range(0, len(data), _FLETCHER_BLOCK):
        block = data[at : at + _FLETCHER_BLOCK]
        size = len(block)
        digits = bytearray(3 * size)
        digits[::3] = block
        weighted, part = divmod(
            int.from_bytes(digits, "little") % _FLETCHER_MODULUS, _FLETCHER_BASE
        )
        sums += size * (total + part) - weighted
        total += part
    return bytes((total & 255, sums & 255))


def fletcher8_number(data: Buffer) -> int:
    """Return CK_A and CK_B as a little-endian number."""
    return int.from_bytes(fletcher8(data), "little")


def sum8(data: Buffer) -> int:
    """Return the sum of the bytes modulo 256."""
    return sum(data) & 255


def xor8(data: Buffer) -> int:
    """Return the exclusive or of all bytes, as in NMEA 0183 between ``$`` and ``*``; 0 for none."""
    folded = int.from_bytes(data, "little")
    width = 8 << max(len(data) - 1, 0).bit_length()
    while width > 8:
        width >>= 1
        folded = (folded >> width) ^ (folded & (1 << width) - 1)
    return folded


def crc16_xmodem(data: Buffer) -> int:
    """Return CRC-16/XMODEM, used by VESC, VectorNav and FDILink. Check value 0x31C3."""
    return crc_hqx(data, 0)


def crc16_kermit(data: Buffer) -> int:
    """Return CRC-16/KERMIT (polynomial 0x1021 reflected, that is 0x8408), used by sbgECom. Check
    value 0x2189.

    It is CRC-16/XMODEM of the bytes with their bits reversed, and that one runs in C.
    """
    crc = crc_hqx(bytes(data).translate(BIT_REVERSED), 0)
    return BIT_REVERSED[crc >> 8] | BIT_REVERSED[crc & 0xFF] << 8


def crc32_plain(data: Buffer) -> int:
    """Return the CRC-32 that begins with 0 and is not inverted, used by Unicore, NovAtel and
    ComNav. Check value 0x2DFD2D88."""
    return crc32(data, 0xFFFFFFFF) ^ 0xFFFFFFFF


def crc8(data: Buffer, start: int = 0) -> int:
    """Return CRC-8/MAXIM-DOW (polynomial 0x31, reflected), used in FDILink headers. Check value
    0xA1."""
    crc = start
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def crc8_d5(data: Buffer) -> int:
    """Return CRC-8/DVB-S2 (polynomial 0xD5), used in CRSF. Check value 0xBC; zero over bytes with
    their CRC."""
    crc = 0
    for byte in data:
        crc = _CRC8_D5[crc ^ byte]
    return crc


def crc24q(data: Buffer, start: int = 0) -> int:
    """Return CRC-24Q (polynomial 0x1864CFB), used in RTCM 3. Zero over a frame with its CRC. Check
    value 0xCDE703."""
    crc = start
    for byte in data:
        crc = (crc << 8 & 0xFFFFFF) ^ _CRC24Q[crc >> 16 ^ byte]
    return crc


def _table8() -> bytes:
    """Return the lookup table of the reflected CRC-8."""
    table = bytearray()
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8C if crc & 1 else 0)
        table.append(crc)
    return bytes(table)


def table8(polynomial: int) -> bytes:
    """Return the lookup table of a CRC-8 whose bits are not reflected."""
    table = bytearray()
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc << 1 ^ (polynomial if crc & 0x80 else 0)) & 0xFF
        table.append(crc)
    return bytes(table)


def _table24() -> tuple[int, ...]:
    """Return the lookup table of CRC-24Q."""
    table = []
    for byte in range(256):
        crc = byte << 16
        for _ in range(8):
            crc = crc << 1 ^ (0x1864CFB if crc & 0x800000 else 0)
        table.append(crc)
    return tuple(table)


BIT_REVERSED = bytes([int(f"{byte:08b}"[::-1], 2) for byte in range(256)])
"""Bytes with their bits in reverse order."""
_CRC8 = _table8()
_CRC8_D5 = table8(0xD5)
_CRC24Q = _table24()
