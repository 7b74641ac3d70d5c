"""Domain, writers and readers of Cyclone DDS for records that are CDR bytes already."""

import os
import socket
from functools import cache
from typing import Any
from xml.sax.saxutils import quoteattr

from cyclonedds._clayer import ddspy_write
from cyclonedds.core import DDSException, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.internal import DDS
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from vehicled.live.bridges.ros2.config import LOOPBACK
from vehicled.live.bridges.ros2.topics import DEPTH, dds_name, dds_type_name
from vehicled.ros.fields import SCALAR, SEQUENCE
from vehicled.ros.standard import standard_fields

# Cyclone DDS 0.10 has none of its own.
_octet: Any = getattr(types, "byte", types.uint8)
_PRIMITIVES: dict[str, Any] = {
    "bool": bool, "byte": _octet, "int8": types.int8, "uint8": types.uint8, "int16": types.int16,
    "uint16": types.uint16, "int32": types.int32, "uint32": types.uint32, "int64": types.int64,
    "uint64": types.uint64, "float32": types.float32, "float64": types.float64, "string": str,
}  # fmt: skip
# Typed as plain classes, but indexed.
_sequence: Any = types.sequence
_array: Any = types.array

PATIENT_S = 15
"""Longest wait of a lossless writer. DDS forgets a silent reader after 10 s, so that one frozen
node cannot hold a run for ever."""
IMPATIENT_MS = 10
_FATAL = 1
MAX_SAMPLE = "8 MB"
"""Largest message that is put together from packets: a path of 100 000 poses."""


class DdsError(Exception):
    """DDS cannot start; the text gives the reason."""


class DdsParticipant:
    """This process in one domain, on one interface."""

    def __init__(self, domain: int, interface: str) -> None:
        # Strangers' packets must not write on the driver's terminal. Masked are all levels but the
        # fatal one.
        DDS._dll_handle.dds_set_log_mask(_FATAL)
        try:
            self._domain = Domain(domain, configuration(interface))
            self._participant = DomainParticipant(domain)
        except Exception as error:
            raise DdsError(
                f"DDS cannot use the interface {interface} in the domain {domain}: {error}"
            ) from error
        if is_loopback(interface):
            try:
                _confine_to_loopback()
            except (OSError, AttributeError) as error:
                # Linux before 5.7 asks for privileges, and other systems do not know it.
                raise DdsError(
                    f"this system cannot keep other computers out: {error}; name an interface: "
                    "--ros2 eth0"
                ) from None

    def writer(
        self, topic: str, type_name: str, *, latched: bool = False, lossless: bool = False
    ) -> "RecordWriter":
        """Create a writer that both reliable and best-effort readers accept, as REP-2003 asks of
        the publishers of sensor data.

        ``latched``: the newest sample also goes to readers that join later. ``lossless``: a slow
        reader makes the writer wait.
        """
        history = (
            Policy.History.KeepAll
            if lossless and not latched
            else Policy.History.KeepLast(1 if latched else DEPTH)
        )
        wait = duration(seconds=PATIENT_S) if lossless else duration(milliseconds=IMPATIENT_MS)
        qos = Qos(
            Policy.Reliability.Reliable(wait),
            Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile,
            history,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        return RecordWriter(DataWriter(self._participant, self._topic(topic, type_name), qos))

    def reader(self, topic: str, type_name: str, *, latched: bool = False) -> "DataReader[Any]":
        """Create a reader of the newest sample, which accepts every writer. ``latched``: accept
        those that keep their newest sample, and get it."""
        qos = Qos(
            # Only reliable readers get what was written before they joined.
            Policy.Reliability.Reliable(0) if latched else Policy.Reliability.BestEffort,
            Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile,
            Policy.History.KeepLast(1),
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        return DataReader(self._participant, self._topic(topic, type_name), qos)

    def _topic(self, topic: str, type_name: str) -> "Topic[Any]":
        return Topic(self._participant, dds_name(topic, type_name).topic, idl_type(type_name))


class RecordWriter:
    """Writer of CDR records."""

    def __init__(self, writer: "DataWriter[Any]") -> None:
        self._writer = writer

    def write(self, record: bytes) -> bool:
        """Write a record; False if a reader did not make room for it."""
        # Payloads of RTPS are multiples of 4 bytes.
        return bool(
            ddspy_write(self._writer._ref, record.ljust(-(-len(record) // 4) * 4, b"\0")) >= 0
        )

    def wait_for_readers(self, timeout_s: float) -> bool:
        """Wait until all reliable readers have what was written; False if one has not after this
        time, s."""
        try:
            return bool(self._writer.wait_for_acks(max(int(timeout_s * 1e9), 0)))
        except DDSException:
            return False


@cache
def idl_type(type_name: str) -> type[IdlStruct]:
    """Return Cyclone's class of a standard type, from the definitions that the log uses."""
    members: dict[str, Any] = {}
    for field in standard_fields(type_name):
        base: Any = _PRIMITIVES.get(field.base) or idl_type(field.base)
        if field.length == SEQUENCE:
            base = _sequence[base]
        elif field.length != SCALAR:
            base = _array[base, field.length]
        members[field.name] = base
    dds_type = dds_type_name(type_name)
    return make_idl_struct(dds_type.rpartition("::")[2], dds_type.replace("::", "."), members)


def configuration(interface: str) -> str:
    """Return Cyclone's configuration, which takes the place of ``CYCLONEDDS_URI``: one
    interface."""
    how = "address" if _is_address(interface) else "name"
    # Linux does not list loopback as able to multicast, but it is. Others on this computer may not
    # listen there: ask them singly.
    multicast = ' multicast="true"' if is_loopback(interface) else ""
    peers = f'<Peers><Peer address="{LOOPBACK}"/></Peers>' if is_loopback(interface) else ""
    return (
        "<CycloneDDS><Domain>"
        "<General><Interfaces><NetworkInterface "
        f"{how}={quoteattr(interface)}{multicast}/></Interfaces></General>"
        f"<Discovery><ParticipantIndex>auto</ParticipantIndex>{peers}</Discovery>"
        f"<Internal><MaxSampleSize>{MAX_SAMPLE}</MaxSampleSize></Internal>"
        "</Domain></CycloneDDS>"
    )


def is_loopback(interface: str) -> bool:
    """True for the interface that only programs on this computer reach."""
    return interface in ("lo", "lo0", "::1") or interface.startswith("127.")


def _confine_to_loopback() -> None:
    """Bind the sockets of DDS to the device: Cyclone listens on all addresses, whichever interface
    its configuration names."""
    for number in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(number)))
        except OSError:
            continue  # no socket, or the listing itself
        with found:
            if found.type is socket.SOCK_DGRAM and found.family is not socket.AF_UNIX:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")


def _is_address(interface: str) -> bool:
    return ":" in interface or interface.replace(".", "").isdigit()
