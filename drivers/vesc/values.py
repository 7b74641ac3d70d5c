"""GET_VALUES and GET_VALUES_SELECTIVE: telemetry, whose length depends on the firmware.

Firmware only appended fields, so the length of the reply gives its layout. The 56-byte reply of
firmware 2.x has another order, and is recognised by its length alone.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from drivers.vesc.fields import Field, decode_fields, encode_fields, i16

NAN = float("nan")


class ValuesLayout(IntEnum):
    """Length of a GET_VALUES reply with command byte, by its last field."""

    FAULT = 54
    """Firmware 3.8 to 3.33."""
    LEGACY = 56
    """Firmware 2.x: seven temperatures first, no d and q currents; the layout of pyvesc 1.0.5."""
    PID_POSITION = 58
    """Firmware 3.34 to 3.39."""
    CONTROLLER_ID = 59
    """Firmware 3.40 on."""
    MOS_TEMPERATURES = 65
    """Firmware later 3.x, 4.x."""
    DQ_VOLTAGES = 73
    """Firmware 5.x."""
    STATUS = 74
    """Firmware 6.x on."""


class Values(Struct, frozen=True, kw_only=True, gc=False):
    """Telemetry of one controller. NaN (-1 for integers) if the firmware did not send a field."""

    fet_temperature_c: float = NAN
    motor_temperature_c: float = NAN
    motor_current_a: float = NAN
    input_current_a: float = NAN
    d_current_a: float = NAN
    q_current_a: float = NAN
    duty: float = NAN
    erpm: float = NAN
    input_voltage_v: float = NAN
    used_ah: float = NAN
    charged_ah: float = NAN
    used_wh: float = NAN
    charged_wh: float = NAN
    tachometer: int = -1
    """Signed count, six per electrical revolution; -1 also if not sent, which
    ``absolute_tachometer`` distinguishes."""
    absolute_tachometer: int = -1
    fault_code: int = -1
    pid_position_deg: float = NAN
    controller_id: int = -1
    mos_temperatures_c: tuple[float, float, float] = (NAN, NAN, NAN)
    d_voltage_v: float = NAN
    q_voltage_v: float = NAN
    status: int = -1
    """Status bits: 0 command timeout passed, 1 kill switch."""


TIMED_OUT = 1
KILL_SWITCH = 2

_FIELDS: tuple[Field, ...] = (
    ("fet_temperature_c", "h", 10.0),
    ("motor_temperature_c", "h", 10.0),
    ("motor_current_a", "i", 100.0),
    ("input_current_a", "i", 100.0),
    ("d_current_a", "i", 100.0),
    ("q_current_a", "i", 100.0),
    ("duty", "h", 1000.0),
    ("erpm", "i", 1.0),
    ("input_voltage_v", "h", 10.0),
    ("used_ah", "i", 1e4),
    ("charged_ah", "i", 1e4),
    ("used_wh", "i", 1e4),
    ("charged_wh", "i", 1e4),
    ("tachometer", "i", 0.0),
    ("absolute_tachometer", "i", 0.0),
    ("fault_code", "B", 0.0),
    ("pid_position_deg", "i", 1e6),
    ("controller_id", "B", 0.0),
    ("mos_temperatures_c", "hhh", 10.0),
    ("d_voltage_v", "i", 1e3),
    ("q_voltage_v", "i", 1e3),
    ("status", "B", 0.0),
)
"""Fields in wire order, which is also the bit order of a selective request."""

_APPENDED = {
    ValuesLayout.FAULT: _FIELDS[:16],
    ValuesLayout.PID_POSITION: _FIELDS[:17],
    ValuesLayout.CONTROLLER_ID: _FIELDS[:18],
    ValuesLayout.MOS_TEMPERATURES: _FIELDS[:19],
    ValuesLayout.DQ_VOLTAGES: _FIELDS[:21],
    ValuesLayout.STATUS: _FIELDS,
}
"""Fields of each layout whose order is that of the newest."""

_LEGACY_HEAD = struct.Struct(">7h")
"""Six temperatures and an unused number."""
_LEGACY_FIELDS = (*_FIELDS[2:4], *_FIELDS[6:16])

ALL_FIELDS = (1 << len(_FIELDS)) - 1


def decode_values(data: bytes) -> Values | None:
    """Return the values of a GET_VALUES reply without its command byte; None if too short for any
    firmware."""
    if len(data) + 1 == ValuesLayout.LEGACY:
        return _decode_legacy(data)
    fitting = [each for each in _APPENDED if each <= len(data) + 1]
    return _values(data, _APPENDED[fitting[-1]]) if fitting else None


def _values(data: bytes, fields: Sequence[Field]) -> Values | None:
    found = decode_fields(data, fields)
    return None if found is None else Values(**found)


def _decode_legacy(data: bytes) -> Values:
    temperatures_c = [value / 10.0 for value in _LEGACY_HEAD.unpack_from(data)[:6]]
    values = _values(data[_LEGACY_HEAD.size :], _LEGACY_FIELDS)
    assert values is not None, "the length was checked"
    first, second, third = temperatures_c[:3]
    return replace(
        values, fet_temperature_c=max(temperatures_c), mos_temperatures_c=(first, second, third)
    )


def encode_values(values: Values, layout: ValuesLayout = ValuesLayout.STATUS) -> bytes:
    """Return a GET_VALUES reply without its command byte, in a firmware's layout; unknown fields
    become 0."""
    if layout is ValuesLayout.LEGACY:
        head = _LEGACY_HEAD.pack(*(i16(values.fet_temperature_c, 10.0),) * 6, 0)
        return head + encode_fields(values, _LEGACY_FIELDS)
    return encode_fields(values, _FIELDS)[: layout - 1]


def _chosen(mask: int) -> list[Field]:
    return [each for bit, each in enumerate(_FIELDS) if mask >> bit & 1]


def decode_selective(data: bytes) -> tuple[int, Values] | None:
    """Return mask and values of a GET_VALUES_SELECTIVE reply without its command byte. None if
    damaged, or with unknown fields.

    An unknown mask bit makes everything after it unreadable.
    """
    if len(data) < 4:
        return None
    (mask,) = struct.unpack_from(">I", data)
    if mask & ~ALL_FIELDS:
        return None
    values = _values(data[4:], _chosen(mask))
    return None if values is None else (mask, values)


def encode_selective(mask: int, values: Values) -> bytes:
    """Return a GET_VALUES_SELECTIVE reply without its command byte. Unknown bits are omitted."""
    mask &= ALL_FIELDS
    return struct.pack(">I", mask) + encode_fields(values, _chosen(mask))
