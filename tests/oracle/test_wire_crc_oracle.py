"""Check sums against libraries that others wrote."""

from crccheck.crc import Crc8Maxim, Crc16Kermit, Crc16Xmodem, Crc24
from hypothesis import given
from hypothesis import strategies as st
from pynmeagps import calc_checksum as nmea_checksum
from pyrtcm import calc_crc24q
from pyubx2 import calc_checksum as ubx_checksum

from vehicled.core.wire.crc import crc8, crc16_kermit, crc16_xmodem, crc24q, fletcher8, xor8


class Crc24Q(Crc24):  # type: ignore[misc]  # crccheck has no types
    """CRC-24Q differs from the library's CRC-24 in its initial value only."""

    _initvalue = 0


@given(st.binary(max_size=1100))
def test_crcs_of_crccheck(data: bytes) -> None:
    assert crc8(data) == Crc8Maxim.calc(data)
    assert crc16_xmodem(data) == Crc16Xmodem.calc(data)
    assert crc16_kermit(data) == Crc16Kermit.calc(data)
    assert crc24q(data) == Crc24Q.calc(data)


@given(st.binary(max_size=1100))
def test_sums_of_the_gnss_libraries(data: bytes) -> None:
    assert crc24q(data) == calc_crc24q(data)
    assert fletcher8(data) == ubx_checksum(data)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=90))
def test_sum_of_the_nmea_library(content: str) -> None:
    assert f"{xor8(content.encode()):02X}" == nmea_checksum(content)
