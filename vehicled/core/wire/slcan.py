"""Codec of serial CAN adapters: Lawicel's ASCII protocol, known as slcan. Pure, both directions.

A line ends with CR; BEL (command refused) is a line of its own. Frames are ``t`` id(3) length data
and ``T`` id(8) length data, remote frames ``r`` and ``R`` without data, in hexadecimal digits.
Adapters with error reports add ``s`` state (a active, w warning, p passive, b bus-off) and two
counters of three digits, reception first, and ``e`` number of errors and their letters: both become
error frames of SocketCAN. Other lines are commands or replies. The protocol has no checksum, so the
decoder rejects a line with any invalid character. Source: Lawicel CAN232 manual, version 3;
``drivers/net/can/slcan`` of Linux.
"""

import re

from msgspec import Struct

from vehicled.core.wire.can import EXTENDED_MASK, MAX_DATA_BYTES, STANDARD_MASK, CanError, CanFrame

BITRATES: dict[int, bytes] = {
    10_000: b"S0",
    20_000: b"S1",
    50_000: b"S2",
    100_000: b"S3",
    125_000: b"S4",
    250_000: b"S5",
    500_000: b"S6",
    800_000: b"S7",  # python-can takes this for 750 kbit/s
    1_000_000: b"S8",
}
"""Commands that set the bit rate, by bit/s."""

END = b"\r"
REFUSED = b"\a"
LINE_LIMIT = 128
"""Longest line accepted: a frame has at most 34 characters, but version replies can be long."""

_END = re.compile(rb"[\r\a]")
_FRAME = re.compile(rb"[tTrRx][0-9A-Fa-f]+")
_TEXT = re.compile(rb"[ -~]*")
_FD_FRAMES = b"dDbB"
_STATE = re.compile(rb"s([awpb])([0-9]{3})([0-9]{3})")
_ERRORS = re.compile(rb"e([0-8])([abBcfoOs]*)")
_ERROR_BITS = {
    ord("b"): (CanError.PROTOCOL, 2, 0x08),
    ord("B"): (CanError.PROTOCOL, 2, 0x10),
    ord("f"): (CanError.PROTOCOL, 2, 0x02),
    ord("o"): (CanError.CONTROLLER, 1, 0x01),
    ord("O"): (CanError.CONTROLLER, 1, 0x02),
    ord("s"): (CanError.PROTOCOL, 2, 0x04),
}
"""Class, byte and bit of the errors that are one bit; ``a`` is a missing acknowledgement, ``c`` a
wrong CRC."""
_CRC_SEQUENCE = 0x08
"""Location of a protocol error, in byte 3."""


class SlcanLine(Struct, frozen=True, gc=False):
    """Line that is not a frame, without its CR: a command or a reply. Empty is OK, ``REFUSED`` is
    an error."""

    text: bytes


def encode(frame: CanFrame) -> bytes:
    """Return the line of a frame. Raises ValueError for an error that has none, or an invalid id or
    data."""
    can_id, data, size = frame.can_id, frame.data, len(frame.data)
    if frame.error:
        return _encode_error(frame)
    if size > MAX_DATA_BYTES or not 0 <= can_id <= (
        EXTENDED_MASK if frame.extended else STANDARD_MASK
    ):
        raise ValueError(f"slcan cannot express this: {frame}")
    if frame.remote:
        return b"R%08X%d\r" % (can_id, size) if frame.extended else b"r%03X%d\r" % (can_id, size)
    digits = data.hex().upper().encode()
    return (
        b"T%08X%d%s\r" % (can_id, size, digits)
        if frame.extended
        else b"t%03X%d%s\r" % (can_id, size, digits)
    )


def _encode_error(frame: CanFrame) -> bytes:
    data = frame.data.ljust(8, b"\0")
    state = b""
    if frame.can_id & CanError.BUS_OFF:
        state = b"b"
    elif frame.can_id & CanError.CONTROLLER:
        state = next(
            (
                letter
                for letter, bits in ((b"p", 0x30), (b"w", 0x0C), (b"a", 0x40))
                if data[1] & bits
            ),
            b"",
        )
    if state:
        return b"s%b%03d%03d\r" % (state, data[7], data[6])
    letters = bytes(
        letter
        for letter, (kind, at, bit) in _ERROR_BITS.items()
        if frame.can_id & kind and data[at] & bit
    )
    letters = (b"a" if frame.can_id & CanError.NO_ACK else b"") + letters
    if frame.can_id & CanError.PROTOCOL and data[3] == _CRC_SEQUENCE:
        letters += b"c"
    if not letters:
        raise ValueError(f"slcan cannot express this: {frame}")
    return b"e%d%b\r" % (len(letters), letters)


def opening(bitrate: int, listen_only: bool = False) -> bytes:
    """Return the commands that open an adapter in any state: end a partial line, close, set the bit
    rate, open.

    The adapter answers each, and refuses to close when closed. Raises ValueError for an unsupported
    bit rate.
    """
    try:
        rate = BITRATES[bitrate]
    except KeyError:
        raise ValueError(
            f"slcan has no bit rate {bitrate}; it has {', '.join(map(str, BITRATES))}"
        ) from None
    return b"\rC\r" + rate + (b"\rL\r" if listen_only else b"\rO\r")


CLOSING = b"C\r"
"""Command that closes the adapter."""


_DONE = SlcanLine(b"")
_BLANK = (b"", b"\n")


def _state(state: bytes, tx_errors: int, rx_errors: int) -> CanFrame:
    """Return the error frame of a state of the controller. The side with more errors is named."""
    data = bytearray(8)
    data[6], data[7] = min(tx_errors, 0xFF), min(rx_errors, 0xFF)
    if state == b"b":
        return CanFrame(int(CanError.BUS_OFF | CanError.COUNTERS), bytes(data), False, False, True)
    rx_bit, tx_bit = {b"a": (0x40, 0x40), b"w": (0x04, 0x08), b"p": (0x10, 0x20)}[state]
    data[1] = (tx_bit if data[6] >= data[7] else 0) | (rx_bit if data[7] >= data[6] else 0)
    return CanFrame(int(CanError.CONTROLLER | CanError.COUNTERS), bytes(data), False, False, True)


def _errors(letters: bytes) -> CanFrame:
    """Return the error frame of a list of errors."""
    data = bytearray(8)
    can_id = CanError.PROTOCOL | CanError.BUS_ERROR
    for letter in letters:
        if letter == ord("a"):
            can_id |= CanError.NO_ACK
        elif letter == ord("c"):
            data[3] = _CRC_SEQUENCE
        else:
            kind, at, bit = _ERROR_BITS[letter]
            can_id |= kind
            data[at] |= bit
    return CanFrame(int(can_id), bytes(data), False, False, True)


class SlcanDecoder:
    """Incremental decoder of either direction, from a stream cut anywhere. Never raises on wire
    input.

    A damaged character costs its line, and the next one too if it was the CR between them.
    """

    def __init__(self, timestamp_digits: int = 0) -> None:
        """Ignore ``timestamp_digits`` hexadecimal digits after each frame; 4 after the command
        ``Z1``."""
        self._tail_digits = timestamp_digits
        self._rest = b""
        self._overlong = False
        self.bad_lines = 0
        """Lines that are neither a frame nor plain text, CAN FD included."""
        self.dropped_bytes = 0
        """Bytes of bad lines, with their ends."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an incomplete line; at most ``LINE_LIMIT``."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[CanFrame | SlcanLine]:
        """Return the frames and other lines completed by ``data``, in order."""
        if self._rest:
            data = self._rest + data
        found: list[CanFrame | SlcanLine] = []
        at = 0
        for match in _END.finditer(data):
            stop, begin = match.start(), at
            at = stop + 1
            if data[begin:stop] in _BLANK and not self._overlong and data[stop] == END[0]:
                found.append(_DONE)
                continue
            line, end = data[begin:stop], data[stop : stop + 1]
            item = None if self._overlong else self._parse(line)
            self._overlong = False
            if item is None:
                self.bad_lines += 1
                self.dropped_bytes += len(line)
                if end == END:
                    self.dropped_bytes += 1
            elif line or end == END:
                found.append(item)
            if end == REFUSED:
                found.append(SlcanLine(REFUSED))
        rest = data[at:]
        if len(rest) > LINE_LIMIT or self._overlong:
            self._overlong = True
            self.dropped_bytes += len(rest)
            rest = b""
        self._rest = rest
        return found

    def _parse(self, line: bytes) -> CanFrame | SlcanLine | None:
        """Return the content of a line; None if it has none."""
        if len(line) > LINE_LIMIT:
            return None
        line = line.lstrip(b"\n")
        if _FRAME.fullmatch(line):
            return self._parse_frame(line)
        if match := _STATE.fullmatch(line):
            return _state(match[1], tx_errors=int(match[3]), rx_errors=int(match[2]))
        if (match := _ERRORS.fullmatch(line)) and int(match[1]) == len(match[2]) > 0:
            return _errors(match[2])
        # A frame letter alone is a query in some dialects; with digits it would have been a frame.
        if not _TEXT.fullmatch(line) or (len(line) > 1 and line[:1] in b"tTrRx" + _FD_FRAMES):
            return None
        return SlcanLine(line)

    def _parse_frame(self, line: bytes) -> CanFrame | None:
        """Return a frame if lengths and id are valid."""
        kind = line[:1]
        extended = kind in b"TRx"
        at = 9 if extended else 4
        size = line[at] - 0x30 if len(line) > at else -1
        if not 0 <= size <= MAX_DATA_BYTES:
            return None
        can_id = int(line[1:at], 16)
        remote = kind in b"rR"
        stop = at + 1 + (0 if remote else 2 * size)
        if len(line) != stop + self._tail_digits or can_id > (
            EXTENDED_MASK if extended else STANDARD_MASK
        ):
            return None
        data = bytes(size) if remote else bytes.fromhex(line[at + 1 : stop].decode("ascii"))
        return CanFrame(can_id, data, extended, remote)
