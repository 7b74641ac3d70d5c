"""UDP payloads in a network capture (pcap, pcapng), as tcpdump and Wireshark write them."""

from collections.abc import Iterator
from struct import unpack_from

PCAPNG, PCAPS = b"\x0a\x0d\x0d\x0a", (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
_PACKET_BLOCK, _IPV4, _UDP = 6, 0x0800, 17
_LINKS = {1: 14, 113: 16, 276: 20, 101: 0, 228: 0}
"""Bytes of the link's header by its type: Ethernet, Linux cooked 1 and 2, raw IP."""


def is_capture(data: bytes) -> bool:
    """True for the beginning of a capture, little-endian."""
    return data[:4] == PCAPNG or data[:4] in PCAPS


def payloads(data: bytes) -> Iterator[bytes]:
    """Iterate over the UDP payloads. Parts of datagrams that were cut on the way are left out."""
    for link, frame in _frames(data):
        at = _LINKS.get(link)
        if at is None or len(frame) < at + 28:
            continue
        if link == 1 and unpack_from(">H", frame, 12)[0] != _IPV4:
            continue
        size, fragment = 4 * (frame[at] & 15), unpack_from(">H", frame, at + 6)[0] & 0x3FFF
        if frame[at] >> 4 != 4 or frame[at + 9] != _UDP or fragment or size < 20:
            continue
        begin = at + size
        if len(frame) >= begin + 8:
            length = unpack_from(">H", frame, begin + 4)[0]
            yield frame[begin + 8 : begin + max(length, 8)]


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    if data[:4] in PCAPS:
        if len(data) < 24:
            return
        link, at = unpack_from("<I", data, 20)[0] & 0xFFFF, 24
        while at + 16 <= len(data):
            size = unpack_from("<I", data, at + 8)[0]
            yield link, data[at + 16 : at + 16 + size]
            at += 16 + size
        return
    at, links = 0, list[int]()
    while at + 12 <= len(data):
        kind, size = unpack_from("<II", data, at)
        if size < 12:
            return
        if kind == 1 and at + 16 <= len(data):
            links.append(unpack_from("<H", data, at + 8)[0])
        elif kind == _PACKET_BLOCK and at + 28 <= len(data):
            number, _, _, captured = unpack_from("<IIII", data, at + 8)
            if number < len(links):
                yield links[number], data[at + 28 : at + 28 + captured]
        at += size
