"""Configuration items of generation 9: keys, and the messages CFG-VALSET and CFG-VALGET.

An item is a 32-bit key, whose bits 28 to 30 give the width of the value, and a value, kept here as
unsigned integer.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

Items = tuple[tuple[int, int], ...]

RAM, BBR, FLASH = 1, 2, 4
"""Bits of ``CfgValset.layers``."""
LAYER_RAM, LAYER_BBR, LAYER_FLASH, LAYER_DEFAULT = 0, 1, 2, 7
"""Values of ``layer`` in CFG-VALGET."""
MAX_ITEMS = 64
"""Most items in one message."""

_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}
_KEY = struct.Struct("<I")
_SET_HEAD = struct.Struct("<3Bx")
_GET_HEAD = struct.Struct("<2BH")

PORTS = ("uart1", "uart2", "usb")
Names = dict[str, int]

KEYS: Names = {
    "CFG-RATE-MEAS": 0x30210001,
    "CFG-RATE-NAV": 0x30210002,
    "CFG-RATE-TIMEREF": 0x20210003,
    "CFG-NAVSPG-DYNMODEL": 0x20110021,
    "CFG-NAVSPG-CONSTR_DGNSSTO": 0x201100C4,
    "CFG-ITFM-ENABLE": 0x1041000D,
    "CFG-SIGNAL-GPS_ENA": 0x1031001F,
    "CFG-SIGNAL-GAL_ENA": 0x10310021,
    "CFG-SIGNAL-BDS_ENA": 0x10310022,
    "CFG-SIGNAL-GLO_ENA": 0x10310025,
    "CFG-SIGNAL-BDS_B1_ENA": 0x1031000D,
    "CFG-SIGNAL-BDS_B1C_ENA": 0x1031000F,
    "CFG-SFCORE-USE_SF": 0x10080001,
    "CFG-SPARTN-USE_SOURCE": 0x20A70001,
    "CFG-SFODO-USE_SPEED": 0x10070003,
    "CFG-NMEA-HIGHPREC": 0x10930006,
    "CFG-UART1-BAUDRATE": 0x40520001,
    "CFG-UART2-BAUDRATE": 0x40530001,
    "CFG-TMODE-MODE": 0x20030001,
    "CFG-TMODE-POS_TYPE": 0x20030002,
    "CFG-TMODE-ECEF_X": 0x40030003,
    "CFG-TMODE-ECEF_Y": 0x40030004,
    "CFG-TMODE-ECEF_Z": 0x40030005,
    "CFG-TMODE-ECEF_X_HP": 0x20030006,
    "CFG-TMODE-ECEF_Y_HP": 0x20030007,
    "CFG-TMODE-ECEF_Z_HP": 0x20030008,
    "CFG-TMODE-FIXED_POS_ACC": 0x4003000F,
    "CFG-TMODE-SVIN_MIN_DUR": 0x40030010,
    "CFG-TMODE-SVIN_ACC_LIMIT": 0x40030011,
    "CFG-RTCM-DF003_OUT": 0x30090001,
}
"""Key by name, as in the interface description. Items per port are added below."""

_PROTOCOLS = {"UBX": 1, "NMEA": 2, "RTCM3X": 4, "SPARTN": 5}
_INPUT_ONLY = ("SPARTN",)
_PORT_GROUPS = {
    "uart1": (0x10730000, 0x10740000),
    "uart2": (0x10750000, 0x10760000),
    "usb": (0x10770000, 0x10780000),
}
# Key of the message on I2C; the others follow in the order I2C, UART1, UART2, USB, SPI.
_MESSAGES = {
    "UBX_NAV_PVT": 0x20910006,
    "UBX_NAV_HPPOSLLH": 0x20910033,
    "UBX_NAV_COV": 0x20910083,
    "UBX_NAV_RELPOSNED": 0x2091008D,
    "UBX_NAV_DOP": 0x20910038,
    "UBX_NAV_STATUS": 0x2091001A,
    "UBX_NAV_EOE": 0x2091015F,
    "UBX_NAV_TIMELS": 0x20910060,
    "UBX_NAV_SVIN": 0x20910088,
    "UBX_NAV_ATT": 0x2091001F,
    "UBX_ESF_STATUS": 0x20910105,
    "UBX_SEC_SIG": 0x20910634,
    "UBX_RXM_COR": 0x209106B6,
    "UBX_RXM_RTCM": 0x20910268,
    "UBX_MON_RF": 0x20910359,
    "UBX_TIM_TP": 0x2091017D,
    "RTCM_3X_TYPE1005": 0x209102BD,
    "RTCM_3X_TYPE1074": 0x2091035E,
    "RTCM_3X_TYPE1077": 0x209102CC,
    "RTCM_3X_TYPE1084": 0x20910363,
    "RTCM_3X_TYPE1087": 0x209102D1,
    "RTCM_3X_TYPE1094": 0x20910368,
    "RTCM_3X_TYPE1097": 0x20910318,
    "RTCM_3X_TYPE1124": 0x2091036D,
    "RTCM_3X_TYPE1127": 0x209102D6,
    "RTCM_3X_TYPE1230": 0x20910303,
    "RTCM_3X_TYPE4072_0": 0x209102FE,
    "NMEA_ID_GGA": 0x209100BA,
    "NMEA_ID_RMC": 0x209100AB,
    "NMEA_ID_VTG": 0x209100B0,
    "NMEA_ID_GST": 0x209100D3,
    "NMEA_ID_THS": 0x209100E2,
    "NMEA_ID_GSA": 0x209100BF,
    "NMEA_ID_GSV": 0x209100C4,
    "NMEA_ID_GLL": 0x209100C9,
}
_PORT_OFFSETS = {"uart1": 1, "uart2": 2, "usb": 3}


def _per_port() -> Iterable[tuple[str, int]]:
    for port in PORTS:
        upper = port.upper()
        for protocol, number in _PROTOCOLS.items():
            for direction, group in zip(("IN", "OUT"), _PORT_GROUPS[port]):
                if direction == "OUT" and protocol in _INPUT_ONLY:
                    continue
                yield f"CFG-{upper}{direction}PROT-{protocol}", group + number
        for message, key in _MESSAGES.items():
            yield f"CFG-MSGOUT-{message}_{upper}", key + _PORT_OFFSETS[port]


KEYS.update(_per_port())
KEY_NAMES: dict[int, str] = {key: name for name, key in KEYS.items()}


def key_name(key: int) -> str:
    """Return the name of a key; its number if unknown."""
    return KEY_NAMES.get(key) or f"{key:#010x}"


def width_bytes(key: int) -> int:
    """Return the width of the value on the wire. Raises ValueError for an undefined width code."""
    try:
        return _WIDTHS[key >> 28 & 7]
    except KeyError:
        raise ValueError(f"key {key:#010x} has no width") from None


class CfgValset(NamedTuple):
    """CFG-VALSET (06 8A): write items. ``transaction`` is 0 in version 0."""

    items: Items
    layers: int = RAM
    version: int = 0
    transaction: int = 0


class CfgValgetPoll(NamedTuple):
    """CFG-VALGET (06 8B) to the receiver: read items."""

    keys: tuple[int, ...]
    layer: int = LAYER_RAM
    position: int = 0
    """Items to skip, because a reply holds 64 at most."""
    version: int = 0


class CfgValget(NamedTuple):
    """CFG-VALGET (06 8B) from the receiver: the items read."""

    items: Items
    layer: int = LAYER_RAM
    position: int = 0
    version: int = 1


def _pack_items(items: Items) -> bytes:
    if len(items) > MAX_ITEMS:
        raise ValueError(f"{len(items)} items in one message, {MAX_ITEMS} are possible")
    return b"".join(
        _KEY.pack(key) + value.to_bytes(width_bytes(key), "little") for key, value in items
    )


def _unpack_items(payload: bytes, at: int) -> Items:
    items = []
    end = len(payload)
    while at < end:
        (key,) = _KEY.unpack_from(payload, at)
        at += 4
        stop = at + width_bytes(key)
        if stop > end:
            raise ValueError("value cut off")
        items.append((key, int.from_bytes(payload[at:stop], "little")))
        at = stop
    return tuple(items)


def pack_valset(message: CfgValset) -> bytes:
    """Return the payload. Raises ValueError or OverflowError if the values do not fit."""
    return _SET_HEAD.pack(message.version, message.layers, message.transaction) + _pack_items(
        message.items
    )


def parse_valset(payload: bytes) -> CfgValset:
    """Parse a payload. Raises ValueError or struct.error if it does not fit."""
    version, layers, transaction = _SET_HEAD.unpack_from(payload)
    return CfgValset(_unpack_items(payload, 4), layers, version, transaction)


def pack_valget(message: CfgValget | CfgValgetPoll) -> bytes:
    """Return the payload of either direction. Raises ValueError or OverflowError if the values do
    not fit."""
    head = _GET_HEAD.pack(message.version, message.layer, message.position)
    if isinstance(message, CfgValget):
        return head + _pack_items(message.items)
    if len(message.keys) > MAX_ITEMS:
        raise ValueError(f"{len(message.keys)} keys in one message, {MAX_ITEMS} are possible")
    return head + b"".join(map(_KEY.pack, message.keys))


def parse_valget(payload: bytes) -> CfgValget | CfgValgetPoll:
    """Parse a payload: version 0 is the request, 1 the reply. Raises ValueError or struct.error if
    it does not fit."""
    version, layer, position = _GET_HEAD.unpack_from(payload)
    if version == 0:
        return CfgValgetPoll(
            tuple(key for (key,) in _KEY.iter_unpack(payload[4:])), layer, position, version
        )
    return CfgValget(_unpack_items(payload, 4), layer, position, version)
