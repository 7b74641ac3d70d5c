"""Reference clock for chrony and ntpd: shared memory of ntpd's driver 28 (``refclock SHM``), and
the socket of chrony (``refclock SOCK``).

Layouts: ``struct shmTime`` and ``struct sock_sample`` of chrony 4 (``refclock_shm.c``,
``refclock_sock.c``) and gpsd (``ntpshm.h``, ``timehint.c``). Both have the native sizes and
alignment of the computer.
"""

import ctypes
import errno
import socket
from struct import Struct as Layout

from vehicled.core.wire.pps import RefclockSample

SECOND_NS = 1_000_000_000
SHM_KEY = 0x4E54_5030
"""Key of unit 0: ``NTP0``."""
ROOT_UNITS = 2
"""Units below are root's alone, as ntpd and gpsd make them."""
IPC_CREAT = 0o1000
SOCK_MAGIC = 0x534F_434B
_SOCK = Layout("@lldiiii")
_TIME = ctypes.c_long
"""``time_t``."""


class ShmTime(ctypes.Structure):
    """Segment of shared memory. ``clock`` is the reference's time, ``receive`` the computer's."""

    _fields_ = (
        ("mode", ctypes.c_int),
        ("count", ctypes.c_int),
        ("clock_s", _TIME),
        ("clock_us", ctypes.c_int),
        ("receive_s", _TIME),
        ("receive_us", ctypes.c_int),
        ("leap", ctypes.c_int),
        ("precision", ctypes.c_int),
        ("samples", ctypes.c_int),
        ("valid", ctypes.c_int),
        ("clock_ns", ctypes.c_uint),
        ("receive_ns", ctypes.c_uint),
        ("dummy", ctypes.c_int * 8),
    )


def encode_sock(sample: RefclockSample) -> bytes:
    """Return chrony's ``struct sock_sample``. The time stamp has microseconds, and the offset
    counts from what is left of it."""
    seconds, rest_ns = divmod(sample.clock_ns, SECOND_NS)
    micros = rest_ns // 1000
    offset_s = (sample.utc_ns - seconds * SECOND_NS - micros * 1000) * 1e-9
    return _SOCK.pack(seconds, micros, offset_s, 0, 0, 0, SOCK_MAGIC)


def write_shm(segment: ShmTime, sample: RefclockSample) -> None:
    """Write a sample by mode 1 of the protocol: readers discard it if the count changes."""
    segment.valid = 0
    segment.mode = 1
    segment.count += 1
    segment.clock_s, clock_ns = divmod(sample.utc_ns, SECOND_NS)
    segment.receive_s, receive_ns = divmod(sample.clock_ns, SECOND_NS)
    segment.clock_us, segment.receive_us = clock_ns // 1000, receive_ns // 1000
    segment.clock_ns, segment.receive_ns = clock_ns, receive_ns
    segment.leap, segment.precision = 0, sample.precision
    segment.count += 1
    segment.valid = 1


class ShmOutput:
    """Segment of one unit, made if chronyd or ntpd has not made it."""

    def __init__(self, unit: int) -> None:
        """Attach the segment. Raises OSError."""
        self._libc = libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        libc.shmdt.argtypes = (ctypes.c_void_p,)
        access = 0o600 if unit < ROOT_UNITS else 0o666
        number = libc.shmget(SHM_KEY + unit, ctypes.sizeof(ShmTime), IPC_CREAT | access)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"shared memory of unit {unit}")
        address = libc.shmat(number, None, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"shared memory of unit {unit}")
        self._address = address
        self._segment = ShmTime.from_address(address)

    def write(self, sample: RefclockSample) -> None:
        """Write a sample."""
        write_shm(self._segment, sample)

    def close(self) -> None:
        """Detach the segment."""
        self._libc.shmdt(self._address)


class SockOutput:
    """Socket of chrony. chronyd makes it anew when it starts, so each sample names its path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def write(self, sample: RefclockSample) -> None:
        """Send a sample. Raises OSError while chronyd does not listen."""
        self._socket.sendto(encode_sock(sample), self._path)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def error_number(error: OSError) -> int:
    """Return the number of an error, never 0."""
    return (error.errno or errno.EIO) & 0xFFFF


def attached_units(table: str = "/proc/sysvipc/shm") -> dict[int, int]:
    """Return the units of reference clocks in shared memory, with the number of processes that
    have attached each."""
    try:
        with open(table, encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for row in rows:
        unit = (int(row[0]) & 0xFFFF_FFFF) - SHM_KEY
        if 0 <= unit < 256 and len(row) > 6:
            found[unit] = int(row[6])
    return found
