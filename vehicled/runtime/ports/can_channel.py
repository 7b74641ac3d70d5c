"""CAN channels on python-can: SocketCAN, and UDP multicast for computers without CAN.

The bus is drained from its file descriptor with ``recv(0)``, not with python-can's ``Notifier``,
which spins silently when the bus dies. Frames go to the host as the 16-byte records of
:mod:`vehicled.core.wire.can`, all of one wake-up together; error frames, too, as such. A storm of
equal error frames is thinned out.
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

from vehicled.core.wire.can import RECORD_BYTES, CanError, CanFrame, pack, unpack_all
from vehicled.runtime.ports.address import SocketCanAddress, UdpCanAddress
from vehicled.runtime.ports.can_errors import ErrorFrames, bus_off
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.read_budget import ReadBudget
from vehicled.runtime.readable import while_readable

FRAMES_PER_WAKE = 64
_FRAMES_PER_S = 20_000
"""More than 1 Mbit/s carries of the shortest frames."""
_FULL = {errno.ENOBUFS, errno.EAGAIN, None}
"""Error codes of a full queue. None: python-can gives no code for the queue of the socket."""
_RETRY_S = 0.001
_ECHOES = 512


class CanChannel:
    """Open bus of python-can with a descriptor."""

    # A full transmit queue leaves the descriptor writable, so the only way is to retry.
    retry_s: float | None = _RETRY_S
    owes = False

    def __init__(
        self, bus: can.BusABC, detail: str, counts: PortCounts, *, echoes: bool = False
    ) -> None:
        """Take ownership of the bus. ``echoes``: the bus returns sent frames, which must be
        skipped."""
        self.detail = detail
        self._bus = bus
        self._counts = counts
        self._sent: deque[bytes] | None = deque(maxlen=_ECHOES) if echoes else None
        self._open = True
        self._budget = ReadBudget(RECORD_BYTES * _FRAMES_PER_S, RECORD_BYTES * FRAMES_PER_WAKE)
        self._errors = ErrorFrames(counts)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._bus.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver the frames of each wake-up together."""
        await while_readable(self._bus.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """Write records; return the number of bytes accepted, in whole records."""
        for at in range(0, len(data), RECORD_BYTES):
            record = data[at : at + RECORD_BYTES]
            for frame in unpack_all(record):
                try:
                    self._bus.send(_message(frame), timeout=0)
                except (can.CanError, OSError) as error:
                    if _code(error) in _FULL:
                        return at
                    raise LostError(f"the CAN bus is gone ({error})") from None
                if self._sent is not None:
                    self._sent.append(record)
        return len(data)

    async def change_baud(self, baud: int) -> None:
        """Do nothing: the system sets the bit rate of a bus for all its users."""

    async def aclose(self, *, drain: bool) -> None:
        """Close. Frames in the interface's queue are still sent."""
        if self._open:
            self._open = False
            with suppress(can.CanError, OSError):
                self._bus.shutdown()

    def _drain(self, deliver: Deliver) -> float | None:
        records: list[bytes] = []
        lost: LostError | None = None
        errors = 0
        taken = 0
        for _ in range(max(1, self._budget.allowance() // RECORD_BYTES)):
            try:
                message = self._bus.recv(0)
            except (can.CanError, OSError) as error:
                errors += 1
                if _code(error) is None and errors < FRAMES_PER_WAKE:
                    self._counts.bad_frames += (
                        1  # a datagram that is not a frame: the bus itself works
                    )
                    continue
                lost = LostError(f"the CAN bus is gone ({error})")
                break
            if message is None:
                break
            taken += RECORD_BYTES
            if message.is_error_frame:
                frame = CanFrame(
                    message.arbitration_id, bytes(message.data[:8]), False, False, True
                )
                if self._errors.pass_on(frame, time.monotonic_ns()):
                    records.append(pack(frame))
                if frame.can_id & CanError.BUS_OFF:
                    lost = LostError(bus_off(frame))
                    break
                continue
            record = self._record(message)
            if record is not None:
                records.append(record)
        if records:
            deliver(b"".join(records), time.monotonic_ns())
        if lost is not None:
            raise lost
        pause_s = self._budget.spend(taken)
        self._counts.throttled += pause_s > 0.0
        return pause_s or None

    def _record(self, message: can.Message) -> bytes | None:
        data = bytes(message.dlc) if message.is_remote_frame else bytes(message.data)
        try:
            record = pack(
                CanFrame(
                    message.arbitration_id, data, message.is_extended_id, message.is_remote_frame
                )
            )
        except ValueError:
            self._counts.bad_frames += 1  # CAN FD
            return None
        sent = self._sent
        if sent and record in sent:
            # Echoes come in order, so all frames sent before this one are lost or were echoed.
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
    """Return the system's error number, which python-can stores in different places."""
    for cause in (error, error.__cause__):
        code = getattr(cause, "error_code", None) or getattr(cause, "errno", None)
        if isinstance(code, int):
            return code
    return None


def _silence() -> None:
    """Silence python-can's logging, because the host reports the same errors."""
    logging.getLogger("can").setLevel(logging.CRITICAL + 1)


async def open_socketcan(
    address: SocketCanAddress, counts: PortCounts, sysfs: Path = Path("/sys")
) -> CanChannel:
    """Open an interface of the kernel. Raises :class:`OpenError`, also if it is down or bus-off."""
    name = address.interface
    if why := _not_ready(name, sysfs):
        raise OpenError(why)
    _silence()
    try:
        bus = await anyio.to_thread.run_sync(partial(SocketcanBus, channel=name))
    except (can.CanError, OSError) as error:
        code = _code(error)
        if code == errno.EAFNOSUPPORT:
            raise OpenError(
                f"{name}: this kernel does not support CAN; use can:slcan:/dev/... or "
                "can:udp:GROUP:PORT"
            ) from None
        if code == errno.ENODEV:
            raise OpenError(
                f"{name} does not exist: plug the adapter in, or use an interface that "
                "'vehicled doctor' lists"
            ) from None
        raise OpenError(f"cannot open {name} ({error})") from None
    return CanChannel(bus, f"SocketCAN {name}", counts)


def _not_ready(name: str, sysfs: Path) -> str:
    """Return why an existing interface is not usable; empty if it is, or if that is unknown."""
    folder = sysfs / "class" / "net" / name
    with suppress(OSError, ValueError):
        if int((folder / "type").read_text()) != 280:
            return f"{name} is not a CAN interface: use one that 'vehicled doctor' lists"
        if not int((folder / "flags").read_text(), 16) & 1:
            return f"{name} is down: ip link set {name} up type can bitrate 500000 restart-ms 100"
        if int((folder / "carrier").read_text()) == 0:
            return (
                f"{name} is bus-off: check wiring and bit rate, then ip link set {name} type "
                "can restart-ms 100"
            )
    return ""


async def open_udp_can(address: UdpCanAddress, counts: PortCounts) -> CanChannel:
    """Join a multicast group. Raises :class:`OpenError`."""
    place = f"can:udp:{address.group}:{address.port}"
    _silence()
    try:
        bus = await anyio.to_thread.run_sync(
            partial(
                UdpMulticastBus,
                channel=address.group,
                port=address.port,
                hop_limit=address.hop_limit,
                fd=False,
            )
        )
    except can.CanError as error:
        raise OpenError(
            f"cannot join {place} ({error.__cause__ or error}); does an interface have a "
            "multicast route?"
        ) from None
    except OSError as error:
        raise OpenError(
            f"cannot join {place} ({error}); is the group a multicast address?"
        ) from None
    return CanChannel(
        bus,
        f"{place}, {'only this computer' if address.hop_limit == 0 else 'local network'}",
        counts,
        echoes=True,
    )
