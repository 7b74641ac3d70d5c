"""COMM_ packets: the payloads of the serial line and of long CAN packets. Both directions, pure."""

import struct
from enum import IntEnum

from msgspec import Struct

from drivers.vesc.appconf import RawAppConf
from drivers.vesc.fields import setpoint
from drivers.vesc.mcconf import RawMcConf
from drivers.vesc.values import (
    Values,
    ValuesLayout,
    decode_selective,
    decode_values,
    encode_selective,
    encode_values,
)

MAX_PAYLOAD_BYTES = 512
"""Longest packet of the firmware."""


class Comm(IntEnum):
    """Command bytes since firmware 3.2. Earlier firmware differs from 10 on."""

    FW_VERSION = 0
    GET_VALUES = 4
    SET_DUTY = 5
    SET_CURRENT = 6
    SET_CURRENT_BRAKE = 7
    SET_RPM = 8
    SET_POS = 9
    SET_HANDBRAKE = 10
    SET_SERVO_POS = 12
    GET_MCCONF = 14
    GET_APPCONF = 17
    REBOOT = 29
    ALIVE = 30
    FORWARD_CAN = 34
    GET_VALUES_SELECTIVE = 50
    PING_CAN = 62
    SET_CURRENT_REL = 84
    GET_MCCONF_TEMP = 91


class Request(Struct, frozen=True, gc=False):
    """Command without arguments: a query, REBOOT or ALIVE."""

    command: int


class SelectiveRequest(Struct, frozen=True, gc=False):
    """Request for some fields of GET_VALUES."""

    mask: int


class SetCommand(Struct, frozen=True, gc=False):
    """Command with one number: duty (fraction), current (A), speed (ERPM), position (deg), servo
    position (0 to 1)."""

    command: int
    value: float


class FwVersion(Struct, frozen=True, gc=False):
    """Firmware version of a controller. Fields missing in old firmware keep their defaults."""

    major: int
    minor: int
    hardware: str = ""
    uuid: bytes = b""
    paired: int = -1
    test_version: int = -1
    """Test version; not 0 in test builds."""
    hardware_type: int = -1


class Selective(Struct, frozen=True, gc=False):
    """Reply to a :class:`SelectiveRequest`; fields outside the mask are NaN or -1."""

    mask: int
    values: Values


class Forward(Struct, frozen=True, gc=False):
    """Packet to pass on over CAN."""

    controller_id: int
    payload: bytes


class PingCanReply(Struct, frozen=True, gc=False):
    """Ids of the controllers on CAN."""

    controller_ids: bytes


class MotorSetup(Struct, frozen=True, kw_only=True, gc=False):
    """Reply to GET_MCCONF_TEMP, since firmware 5.2: limits of the motor configuration, and what its
    speed is computed with."""

    current_min_scale: float = 1.0
    current_max_scale: float = 1.0
    min_erpm: float
    max_erpm: float
    min_duty: float = 0.005
    max_duty: float = 0.95
    watt_min: float = -1.5e6
    watt_max: float = 1.5e6
    in_current_min_a: float = -60.0
    in_current_max_a: float = 99.0
    motor_poles: int
    """Poles of the motor, twice the pole pairs."""
    gear_ratio: float
    """Turns of the motor for one of the wheel."""
    wheel_diameter_m: float


class Unknown(Struct, frozen=True, gc=False):
    """Valid packet with an unknown command, or with content that does not fit its command."""

    payload: bytes


CommMessage = (
    Request
    | SelectiveRequest
    | SetCommand
    | FwVersion
    | Values
    | Selective
    | Forward
    | PingCanReply
    | RawAppConf
    | RawMcConf
    | MotorSetup
    | Unknown
)

_SCALES: dict[int, tuple[str, float]] = {
    Comm.SET_DUTY: ("i", 1e5),
    Comm.SET_CURRENT: ("i", 1e3),
    Comm.SET_CURRENT_BRAKE: ("i", 1e3),
    Comm.SET_RPM: ("i", 1.0),
    Comm.SET_POS: ("i", 1e6),
    Comm.SET_HANDBRAKE: ("i", 1e3),
    Comm.SET_SERVO_POS: ("h", 1e3),
    Comm.SET_CURRENT_REL: ("i", 1e5),
}
_LAYOUTS = {code: (struct.Struct(f">B{kind}"), scale) for code, (kind, scale) in _SCALES.items()}
_MASK = struct.Struct(">BI")
_SETUP = struct.Struct(">10fB2f")
_NAMES = {int(each): each.name for each in Comm}
_BARE = frozenset(
    {
        Comm.FW_VERSION,
        Comm.GET_VALUES,
        Comm.GET_MCCONF,
        Comm.GET_APPCONF,
        Comm.REBOOT,
        Comm.ALIVE,
        Comm.PING_CAN,
        Comm.GET_MCCONF_TEMP,
    }
)  # packets that consist of the command byte alone


def decode_comm(payload: bytes) -> tuple[str, CommMessage]:
    """Return name and content of a packet. Never raises; others are ``Unknown`` under the name of
    their command byte."""
    if not payload:
        return "EMPTY", Unknown(b"")
    code = payload[0]
    name = _NAMES.get(code) or f"COMM_{code}"
    return name, _content(code, payload) or Unknown(payload)


def _content(code: int, payload: bytes) -> CommMessage | None:
    scaled = _LAYOUTS.get(code)
    if scaled is not None:
        layout, scale = scaled
        return (
            SetCommand(code, layout.unpack_from(payload)[1] / scale)
            if len(payload) >= layout.size
            else None
        )
    if len(payload) == 1:
        return Request(code) if code in _BARE else None
    if code == Comm.GET_VALUES:
        return decode_values(payload[1:])
    if code == Comm.GET_VALUES_SELECTIVE:
        if len(payload) == _MASK.size:
            return SelectiveRequest(_MASK.unpack(payload)[1])
        selective = decode_selective(payload[1:])
        return Selective(*selective) if selective else None
    if code == Comm.FW_VERSION:
        return _decode_version(payload)
    if code == Comm.GET_APPCONF:
        return RawAppConf(payload[1:])
    if code == Comm.GET_MCCONF:
        return RawMcConf(payload[1:])
    if code == Comm.GET_MCCONF_TEMP:
        return _decode_setup(payload)
    if code == Comm.FORWARD_CAN:
        return Forward(payload[1], payload[2:])
    if code == Comm.PING_CAN:
        return PingCanReply(payload[1:])
    return None


def _decode_setup(payload: bytes) -> MotorSetup | None:
    if len(payload) < 1 + _SETUP.size:
        return None
    return MotorSetup(
        **dict(zip(MotorSetup.__struct_fields__, _SETUP.unpack_from(payload, 1), strict=True))
    )


def _decode_version(payload: bytes) -> FwVersion | None:
    if len(payload) < 3:
        return None
    hardware, _, rest = payload[3:].partition(b"\0")
    return FwVersion(
        payload[1],
        payload[2],
        hardware.decode("ascii", "replace"),
        rest[:12],
        rest[12] if len(rest) > 12 else -1,
        rest[13] if len(rest) > 13 else -1,
        rest[14] if len(rest) > 14 else -1,
    )


def encode_comm(message: CommMessage, layout: ValuesLayout = ValuesLayout.STATUS) -> bytes:
    """Return the payload of a packet; ``layout`` is for telemetry. Raises ValueError for an invalid
    set-point."""
    match message:
        case SetCommand(command, value):
            scaled = _LAYOUTS.get(command)
            if scaled is None:
                raise ValueError(f"command {command} takes no set-point")
            number = setpoint(value, scaled[1])
            if command == Comm.SET_SERVO_POS:
                number = min(32_767, max(-32_768, number))
            return scaled[0].pack(command, number)
        case Request(command):
            return bytes((command,))
        case SelectiveRequest(mask):
            return _MASK.pack(Comm.GET_VALUES_SELECTIVE, mask & 0xFFFF_FFFF)
        case Values():
            return bytes((Comm.GET_VALUES,)) + encode_values(message, layout)
        case Selective(mask, values):
            return bytes((Comm.GET_VALUES_SELECTIVE,)) + encode_selective(mask, values)
        case FwVersion():
            return _encode_version(message)
        case RawAppConf(data):
            return bytes((Comm.GET_APPCONF,)) + data
        case RawMcConf(data):
            return bytes((Comm.GET_MCCONF,)) + data
        case MotorSetup():
            return bytes((Comm.GET_MCCONF_TEMP,)) + _SETUP.pack(
                *(getattr(message, name) for name in MotorSetup.__struct_fields__)
            )
        case Forward(controller_id, payload):
            return bytes((Comm.FORWARD_CAN, controller_id)) + payload
        case PingCanReply(controller_ids):
            return bytes((Comm.PING_CAN,)) + controller_ids
        case Unknown(payload):
            return payload


def _encode_version(version: FwVersion) -> bytes:
    head = bytes((Comm.FW_VERSION, version.major, version.minor))
    if not version.hardware and not version.uuid:
        return head
    head += version.hardware.encode("ascii", "replace") + b"\0" + version.uuid[:12].ljust(12, b"\0")
    for each in (version.paired, version.test_version, version.hardware_type):
        if each < 0:
            break
        head += bytes((each,))
    return head
