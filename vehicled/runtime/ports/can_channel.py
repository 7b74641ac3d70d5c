"""CAN by python-can's buses: SocketCAN, and its UDP multicast for a laptop without CAN.

The bus is drained from its file descriptor with ``recv(0)``, never by python-can's ``Notifier``: when the bus dies that one spins
and wakes nobody. Frames go to the host as the 16-byte records of :mod:`vehicled.wire.can`, all of one wake-up together.
"""

import errno
import logging
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
import can
from can.interfaces.socketcan import SocketcanBus
from can.interfaces.udp_multicast import UdpMulticastBus

from vehicled.runtime.ports.address import SocketCanAddress, UdpCanAddress
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.readiness import while_readable
from vehicled.wire.can import RECORD_BYTES, CanFrame, pack, unpack_all

FRAMES_PER_WAKE = 256
_BUS_OFF = 0x40
"""Class bit of an error frame, ``linux/can/error.h``."""
_FULL = {errno.ENOBUFS, errno.EAGAIN, None}
"""What a full queue says. None: python-can gives no code for the queue of the socket."""
_RETRY_S = 0.001
_ECHOES = 512


class CanChannel:
    """An open bus of python-can that has a descriptor."""

    # A full transmit queue does not show on the descriptor, which stays writable: trying again is all there is.
    retry_s: float | None = _RETRY_S
    owes = False

    def __init__(self, bus: can.BusABC, detail: str, counts: PortCounts, *, echoes: bool = False) -> None:
        """The bus belongs to the channel from now on. ``echoes``: it gives back what it sent, which is to be left out."""
        self.detail = detail
        self._bus = bus
        self._counts = counts
        self._sent: deque[bytes] | None = deque(maxlen=_ECHOES) if echoes else None
        self._open = True

    def fileno(self) -> int:
        """The descriptor."""
        return self._bus.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Hand over the data frames of each wake-up, together."""
        await while_readable(self._bus.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """How many bytes, in whole records, the queue took."""
        for at in range(0, len(data), RECORD_BYTES):
            record = data[at : at + RECORD_BYTES]
            for frame in unpack_all(record):
                try:
                    self._bus.send(_message(frame), timeout=0)
                except (can.CanError, OSError) as error:
                    if _code(error) in _FULL:
                        return at
                    raise LostError(f"the bus is gone ({error})") from None
                if self._sent is not None:
                    self._sent.append(record)
        return len(data)

    async def change_baud(self, baud: int) -> None:
        """The rate of a bus is set by the system, for all its users."""

    async def aclose(self, *, drain: bool) -> None:
        """Close. Frames in the queue of the interface still leave either way."""
        if self._open:
            self._open = False
            with suppress(can.CanError, OSError):
                self._bus.shutdown()

    def _drain(self, deliver: Deliver) -> None:
        records: list[bytes] = []
        lost: LostError | None = None
        errors = 0
        for _ in range(FRAMES_PER_WAKE):
            try:
                message = self._bus.recv(0)
            except (can.CanError, OSError) as error:
                errors += 1
                if _code(error) is None and errors < FRAMES_PER_WAKE:
                    self._counts.bad_frames += 1  # a datagram that is no frame: the bus lives
                    continue
                lost = LostError(f"the bus is gone ({error})")
                break
            if message is None:
                break
            if message.is_error_frame:
                self._counts.error_frames += 1
                if message.arbitration_id & _BUS_OFF:
                    lost = LostError("bus-off: no one acknowledges, or the bit rates differ; see its wiring and 'restart-ms'")
                    break
                continue
            record = self._record(message)
            if record is not None:
                records.append(record)
        if records:
            deliver(b"".join(records), time.monotonic_ns())
        if lost is not None:
            raise lost

    def _record(self, message: can.Message) -> bytes | None:
        data = bytes(message.dlc) if message.is_remote_frame else bytes(message.data)
        try:
            record = pack(CanFrame(message.arbitration_id, data, message.is_extended_id, message.is_remote_frame))
        except ValueError:
            self._counts.bad_frames += 1  # CAN FD
            return None
        sent = self._sent
        if sent and record in sent:
            # Own frames come back in order, so all that were sent before this one are lost or have come.
            while sent.popleft() != record:
                pass
            return None
        return record


def _message(frame: CanFrame) -> can.Message:
    return can.Message(
        arbitration_id=frame.can_id,
        is_extended_id=frame.extended,
        is_remote_frame=frame.remote,
        is_error_frame=frame.error,
        dlc=len(frame.data),
        data=None if frame.remote else frame.data,
    )


def _code(error: BaseException) -> int | None:
    """The system's number of an error, which python-can hands on in different ways."""
    for cause in (error, error.__cause__):
        code = getattr(cause, "error_code", None) or getattr(cause, "errno", None)
        if isinstance(code, int):
            return code
    return None


def _silence() -> None:
    """python-can prints what it raises as well; here the host is told."""
    logging.getLogger("can").setLevel(logging.CRITICAL + 1)


async def open_socketcan(address: SocketCanAddress, counts: PortCounts, sysfs: Path = Path("/sys")) -> CanChannel:
    """Open an interface of the kernel. Raises :class:`OpenError`, also when it is down or off the bus."""
    name = address.interface
    if why := _not_ready(name, sysfs):
        raise OpenError(why)
    _silence()
    try:
        bus = await anyio.to_thread.run_sync(partial(SocketcanBus, channel=name))
    except (can.CanError, OSError) as error:
        code = _code(error)
        if code == errno.EAFNOSUPPORT:
            raise OpenError(f"{name}: this kernel has no CAN; use can:slcan:/dev/... or can:udp:GROUP:PORT") from None
        if code == errno.ENODEV:
            raise OpenError(f"{name} does not exist: plug the adapter in, or name one that 'vehicled doctor' lists") from None
        raise OpenError(f"{name} cannot be opened ({error})") from None
    return CanChannel(bus, f"SocketCAN {name}", counts)


def _not_ready(name: str, sysfs: Path) -> str:
    """Why an interface that exists carries nothing; empty when it does, or nobody knows."""
    folder = sysfs / "class" / "net" / name
    with suppress(OSError, ValueError):
        if int((folder / "type").read_text()) != 280:
            return f"{name} is not a CAN interface: name one that 'vehicled doctor' lists"
        if not int((folder / "flags").read_text(), 16) & 1:
            return f"{name} is down: ip link set {name} up type can bitrate 500000 restart-ms 100"
        if int((folder / "carrier").read_text()) == 0:
            return f"{name} is bus-off: check wiring and bit rate; ip link set {name} type can restart-ms 100 lets it come back"
    return ""


async def open_udp_can(address: UdpCanAddress, counts: PortCounts) -> CanChannel:
    """Join a multicast group. Raises :class:`OpenError`."""
    place = f"can:udp:{address.group}:{address.port}"
    _silence()
    try:
        bus = await anyio.to_thread.run_sync(
            partial(UdpMulticastBus, channel=address.group, port=address.port, hop_limit=address.hop_limit, fd=False)
        )
    except can.CanError as error:
        raise OpenError(f"{place} cannot be joined ({error.__cause__ or error}); has an interface got a multicast route?") from None
    except OSError as error:
        raise OpenError(f"{place} cannot be joined ({error}); is the group a multicast address?") from None
    return CanChannel(bus, f"{place}, {'this machine only' if address.hop_limit == 0 else 'local network'}", counts, echoes=True)
