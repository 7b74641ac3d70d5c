"""Plays a recording to its driver, to learn what the driver would use of it, and why not the
rest."""

from collections.abc import Iterable
from typing import Any

from msgspec import convert

from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS, Device, Transport
from vehicled.core.wire.datagram import unpack
from vehicled.core.wire.usage import MessageUsage
from vehicled.profile.registry import LISTENERS, resolve

START_NS = 1_000_000_000
PIECE_BYTES = 64
PIECE_NS = 50_000
"""Duration of a piece. A recording has no times, so it is played faster than any line, and no
timeout of an epoch matters."""
FRAME_NS = 250_000
"""Duration of a frame on a CAN bus of 500 kbit/s."""
REST_NS = 1_000_000_000
"""Silence after the end, so that the driver gives up what it waits for."""


def usage_of(kind: str, data: bytes) -> MessageUsage | None:
    """Return what the driver of a recording format uses of ``data``; None for a format without a
    driver, and for datagrams that no port has received, such as a capture of the network."""
    if kind not in LISTENERS:
        return None
    if transport_of(LISTENERS[kind][0]) == "datagrams" and not unpack(data)[0]:
        return None
    pieces = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
    usage = _played(_device(*LISTENERS[kind]), pieces, PIECE_NS)
    if kind == "ublox" and not any(name in ("NAV-PVT", "NAV-PVAT") for name, _ in usage):
        # A receiver whose positions come as sentences, with UBX beside them.
        return _played(_device(*LISTENERS["nmea"]), pieces, PIECE_NS)
    return usage


def usage_on_can(controller_id: int, records: Iterable[bytes]) -> MessageUsage:
    """Return what the driver of a VESC uses of the frames of a bus."""
    return _played(_device("vesc_can", {"controller_id": controller_id}), records, FRAME_NS)


def transport_of(driver: str) -> Transport:
    """Return what the port of a driver carries."""
    found: Transport = resolve("driver", driver).transport
    return found


def _device(driver: str, params: dict[str, Any]) -> Device:
    """Return a driver that is asked for all that it can produce."""
    cls = resolve("driver", driver)
    found: Device = cls(convert(params, cls.Params), cls.produces, 0)
    return found


def _played(device: Device, pieces: Iterable[bytes], piece_ns: int) -> MessageUsage:
    now_ns = START_NS
    device.on_port(PortState.OPENED, "recording", now_ns)
    for piece in pieces:
        now_ns += piece_ns
        _pass_time(device, now_ns)
        device.on_rx(piece, now_ns)
        device.take_tx()
    _pass_time(device, now_ns + REST_NS)
    return device.usage


def _pass_time(device: Device, now_ns: int) -> None:
    before = 0
    while before < (due_ns := device.next_due_ns()) <= min(now_ns, NEVER_NS - 1):
        before = due_ns
        device.on_time(due_ns)
        device.take_tx()
