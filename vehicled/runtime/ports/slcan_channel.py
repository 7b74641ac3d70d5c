"""Serial CAN adapters: the text protocol of :mod:`vehicled.core.wire.slcan` on a serial channel, as
a frame port.

A silent adapter is noticed by the device behind the port, as on any line.
"""

from functools import partial

from vehicled.core.wire.can import RECORD_BYTES, CanError, CanFrame, pack, unpack_all
from vehicled.core.wire.slcan import REFUSED, SlcanDecoder, encode, opening
from vehicled.runtime.ports.address import SerialAddress, SlcanAddress
from vehicled.runtime.ports.can_errors import ErrorFrames, bus_off
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.serial_channel import SerialChannel, open_serial


class SlcanChannel:
    """Open adapter. The next opening closes its bus, because an adapter that is being closed may no
    longer accept commands."""

    retry_s: float | None = None
    owes = False

    def __init__(self, line: SerialChannel, bitrate: int, counts: PortCounts) -> None:
        """Put the adapter on the bus. Raises :class:`LostError`."""
        self.detail = f"{line.detail}, CAN at {bitrate} bit/s"
        self._line = line
        self._counts = counts
        self._decoder = SlcanDecoder()
        self._errors = ErrorFrames(counts)
        self._owed = opening(bitrate)
        self.write(b"")

    def fileno(self) -> int:
        """Return the descriptor of the line."""
        return self._line.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver the frames of each read together."""
        await self._line.receive(partial(self._decode, deliver))

    def write(self, data: bytes) -> int:
        """Write records; return the number of bytes accepted, in whole records. A line of text that
        was begun is finished later."""
        if self._owed:
            self._owed = self._owed[self._line.write(self._owed) :]
            self.owes = bool(self._owed)
        if self._owed:
            return 0
        for at in range(0, len(data), RECORD_BYTES):
            text = self._text(data[at : at + RECORD_BYTES])
            if not text:
                continue
            taken = self._line.write(text)
            if taken == 0:
                return at
            if taken < len(text):
                self._owed, self.owes = text[taken:], True
                return min(at + RECORD_BYTES, len(data))
        return len(data)

    async def change_baud(self, baud: int) -> None:
        """Do nothing: the bit rate belongs to all nodes and is set in the address."""

    async def aclose(self, *, drain: bool) -> None:
        """Close the line."""
        await self._line.aclose(drain=drain)

    def _text(self, record: bytes) -> bytes:
        frames = unpack_all(record)
        sendable = [frame for frame in frames if not frame.error]
        self._counts.bad_frames += len(frames) - len(sendable)  # a node cannot send an error frame
        return b"".join(map(encode, sendable))

    def _decode(self, deliver: Deliver, data: bytes, t_rx_ns: int) -> None:
        decoder = self._decoder
        bad = decoder.bad_lines
        records = []
        lost: CanFrame | None = None
        for item in decoder.feed(data):
            if isinstance(item, CanFrame):
                if not item.error or self._errors.pass_on(item, t_rx_ns):
                    records.append(pack(item))
                if item.error and item.can_id & CanError.BUS_OFF:
                    lost = item
                    break
            elif item.text == REFUSED:
                self._counts.nacks += 1
        self._counts.bad_frames += decoder.bad_lines - bad
        if records:
            deliver(b"".join(records), t_rx_ns)
        if lost is not None:
            raise LostError(bus_off(lost))


async def open_slcan(address: SlcanAddress, counts: PortCounts) -> SlcanChannel:
    """Open the line and put the adapter on the bus. Raises :class:`OpenError`."""
    line = await open_serial(SerialAddress(path=address.path, baud=address.baud), counts)
    try:
        return SlcanChannel(line, address.bitrate, counts)
    except LostError as error:
        await line.aclose(drain=False)
        raise OpenError(f"{address.path}: {error}") from None
