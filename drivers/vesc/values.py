"""GET_VALUES and GET_VALUES_SELECTIVE: telemetry, whose length depends on the firmware.

Firmware only appended fields, so the length of the reply gives its layout. The 56-byte reply of firmware 2.x has another order, and
is recognised by its length alone.
"""

import struct
from enum import IntEnum

from msgspec import Struct

from drivers.vesc.fields import i16, i32

NAN = float("nan")


class Layout(IntEnum):
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
    """Signed count, six per electrical revolution; -1 also if not sent, which ``absolute_tachometer`` distinguishes."""
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

_FIELDS: tuple[tuple[str, str, float], ...] = (
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
"""Name, format and scale (0: integer) in wire order, which is also the bit order of a selective request."""

ALL_FIELDS = (1 << len(_FIELDS)) - 1


def mask_of(*names: str) -> int:
    """Return the selection mask of fields of :class:`Values`."""
    order = [name for name, _, _ in _FIELDS]
    return sum(1 << order.index(name) for name in set(names))


_HEAD = struct.Struct(">hhiiiihihiiiiiiB")
_TAILS = {
    Layout.FAULT: struct.Struct(">"),
    Layout.PID_POSITION: struct.Struct(">i"),
    Layout.CONTROLLER_ID: struct.Struct(">iB"),
    Layout.MOS_TEMPERATURES: struct.Struct(">iBhhh"),
    Layout.DQ_VOLTAGES: struct.Struct(">iBhhhii"),
    Layout.STATUS: struct.Struct(">iBhhhiiB"),
}
_LEGACY = struct.Struct(">7hiihihiiiiiiB")
_FULL = _TAILS[Layout.STATUS]


def _layout(length: int) -> Layout | None:
    if length == Layout.LEGACY:
        return Layout.LEGACY
    fitting = [each for each in _TAILS if each <= length]
    return max(fitting) if fitting else None


def decode_values(data: bytes) -> Values | None:
    """Return the values of a GET_VALUES reply without its command byte; None if too short for any firmware."""
    layout = _layout(len(data) + 1)
    if layout is None:
        return None
    if layout is Layout.LEGACY:
        return _decode_legacy(data)
    fet, motor, i_motor, i_in, i_d, i_q, duty, erpm, v_in, ah, ah_in, wh, wh_in, tacho, tacho_abs, fault = _HEAD.unpack_from(data)
    # Missing fields are zero here and replaced below.
    tail = data[_HEAD.size : layout - 1] + bytes(Layout.STATUS - layout)
    position, controller, mos1, mos2, mos3, v_d, v_q, status = _FULL.unpack(tail)
    return Values(
        fet_temperature_c=fet / 10.0,
        motor_temperature_c=motor / 10.0,
        motor_current_a=i_motor / 100.0,
        input_current_a=i_in / 100.0,
        d_current_a=i_d / 100.0,
        q_current_a=i_q / 100.0,
        duty=duty / 1000.0,
        erpm=float(erpm),
        input_voltage_v=v_in / 10.0,
        used_ah=ah / 1e4,
        charged_ah=ah_in / 1e4,
        used_wh=wh / 1e4,
        charged_wh=wh_in / 1e4,
        tachometer=tacho,
        absolute_tachometer=tacho_abs,
        fault_code=fault,
        pid_position_deg=position / 1e6 if layout >= Layout.PID_POSITION else NAN,
        controller_id=controller if layout >= Layout.CONTROLLER_ID else -1,
        mos_temperatures_c=(mos1 / 10.0, mos2 / 10.0, mos3 / 10.0) if layout >= Layout.MOS_TEMPERATURES else (NAN, NAN, NAN),
        d_voltage_v=v_d / 1e3 if layout >= Layout.DQ_VOLTAGES else NAN,
        q_voltage_v=v_q / 1e3 if layout >= Layout.DQ_VOLTAGES else NAN,
        status=status if layout >= Layout.STATUS else -1,
    )


def _decode_legacy(data: bytes) -> Values:
    t1, t2, t3, t4, t5, t6, _, i_motor, i_in, duty, erpm, v_in, ah, ah_in, wh, wh_in, tacho, tacho_abs, fault = _LEGACY.unpack(data)
    return Values(
        fet_temperature_c=max(t1, t2, t3, t4, t5, t6) / 10.0,
        mos_temperatures_c=(t1 / 10.0, t2 / 10.0, t3 / 10.0),
        motor_current_a=i_motor / 100.0,
        input_current_a=i_in / 100.0,
        duty=duty / 1000.0,
        erpm=float(erpm),
        input_voltage_v=v_in / 10.0,
        used_ah=ah / 1e4,
        charged_ah=ah_in / 1e4,
        used_wh=wh / 1e4,
        charged_wh=wh_in / 1e4,
        tachometer=tacho,
        absolute_tachometer=tacho_abs,
        fault_code=fault,
    )


def encode_values(values: Values, layout: Layout = Layout.STATUS) -> bytes:
    """Return a GET_VALUES reply without its command byte, in a firmware's layout; unknown fields become 0."""
    if layout is Layout.LEGACY:
        return _LEGACY.pack(
            *(i16(values.fet_temperature_c, 10.0),) * 6, 0, i32(values.motor_current_a, 100.0), i32(values.input_current_a, 100.0),
            i16(values.duty, 1000.0), i32(values.erpm, 1.0), i16(values.input_voltage_v, 10.0), i32(values.used_ah, 1e4),
            i32(values.charged_ah, 1e4), i32(values.used_wh, 1e4), i32(values.charged_wh, 1e4), i32(values.tachometer, 1.0),
            i32(values.absolute_tachometer, 1.0), max(0, values.fault_code) & 0xFF,
        )  # fmt: skip
    return b"".join(_encode_field(values, each) for each in _FIELDS)[: layout - 1]


def _encode_field(values: Values, field: tuple[str, str, float]) -> bytes:
    name, code, scale = field
    value = getattr(values, name)
    if code == "hhh":
        return struct.pack(">hhh", *(i16(each, scale) for each in value))
    if code == "h":
        return struct.pack(">h", i16(value, scale))
    if code == "B":
        return struct.pack(">B", max(0, value) & 0xFF)
    return struct.pack(">i", i32(value, scale or 1.0))


def decode_selective(data: bytes) -> tuple[int, Values] | None:
    """Return mask and values of a GET_VALUES_SELECTIVE reply without its command byte. None if damaged, or with unknown fields.

    An unknown mask bit makes everything after it unreadable.
    """
    if len(data) < 4:
        return None
    (mask,) = struct.unpack_from(">I", data)
    if mask & ~ALL_FIELDS:
        return None
    wanted = [each for bit, each in enumerate(_FIELDS) if mask >> bit & 1]
    layout = struct.Struct(">I" + "".join(code for _, code, _ in wanted))
    if len(data) < layout.size:
        return None
    numbers = iter(layout.unpack_from(data)[1:])
    found: dict[str, object] = {}
    for name, code, scale in wanted:
        if code == "hhh":
            found[name] = tuple(next(numbers) / scale for _ in code)
        else:
            found[name] = next(numbers) / scale if scale else next(numbers)
    return mask, Values(**found)  # type: ignore[arg-type]  # names and types are those of _FIELDS


def encode_selective(mask: int, values: Values) -> bytes:
    """Return a GET_VALUES_SELECTIVE reply without its command byte. Unknown bits are omitted."""
    mask &= ALL_FIELDS
    return struct.pack(">I", mask) + b"".join(_encode_field(values, each) for bit, each in enumerate(_FIELDS) if mask >> bit & 1)
