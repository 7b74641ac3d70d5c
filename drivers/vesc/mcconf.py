"""Read-back of the motor configuration (GET_MCCONF): motor, gear, wheel and limits.

The firmware sends the parameters without names, in an order that its signature identifies: the
CRC-32C of the names, types and options of all parameters in that order. Only configurations of
known signatures are read; their places follow from the parameter files of VESC Tool.
"""

import struct
from math import isfinite

from msgspec import Struct

from drivers.vesc.appconf import Unreadable


class McConf(Struct, frozen=True, kw_only=True, gc=False):
    """Parts of the motor configuration."""

    signature: int
    motor_type: int
    """Motor type: 0 BLDC, 1 DC, 2 FOC."""
    motor_current_max_a: float
    motor_current_min_a: float
    """Largest braking current of the motor, A; negative."""
    input_current_max_a: float
    input_current_min_a: float
    """Largest current back into the battery, A; negative."""
    absolute_current_max_a: float
    min_erpm: float
    max_erpm: float
    max_duty: float
    inverted: bool
    """True if VESC Tool's "Invert Motor Direction" is on."""
    motor_poles: int
    """Poles of the motor, twice the pole pairs."""
    gear_ratio: float
    """Turns of the motor for one of the wheel."""
    wheel_diameter_m: float
    battery_cells: int


class RawMcConf(Struct, frozen=True, gc=False):
    """Raw configuration, for :func:`read_mcconf`."""

    data: bytes


class _Layout(Struct, frozen=True):
    """Places of the parameters, in bytes from the beginning."""

    length: int
    absolute_at: int
    """Place of the absolute limit; the limits of speed follow it."""
    duty: tuple[int, str, float]
    """Place, format and scale of the largest duty."""
    inverted_at: int
    poles_at: int
    """Place of the poles; gear, wheel, battery type and cells follow them."""


_SIGNATURE = struct.Struct(">I")
_TYPE_AT = 6
_CURRENTS_AT, _CURRENTS = 8, struct.Struct(">4f")
_LIMITS = struct.Struct(">3f")
_SETUP = struct.Struct(">BffBB")
_OLD_DUTY, _MIDDLE_DUTY, _NEW_DUTY = (89, ">f", 1.0), (75, ">h", 1e4), (71, ">h", 1e4)
_LAYOUTS: dict[int, _Layout] = {
    3_698_540_221: _Layout(437, 24, _OLD_DUTY, 397, 422),
    2_211_848_314: _Layout(457, 24, _OLD_DUTY, 407, 433),
    2_525_666_056: _Layout(484, 24, _MIDDLE_DUTY, 429, 455),
    776_184_161: _Layout(481, 24, _MIDDLE_DUTY, 420, 451),
    1_065_524_471: _Layout(477, 28, _NEW_DUTY, 410, 441),
    788_332_866: _Layout(483, 28, _NEW_DUTY, 416, 447),
    1_470_992_211: _Layout(488, 28, _NEW_DUTY, 421, 452),
}
MCCONF_SIGNATURES: dict[tuple[int, int], int] = {
    (5, 0): 3_698_540_221,
    (5, 1): 3_698_540_221,
    (5, 2): 2_211_848_314,
    (5, 3): 2_525_666_056,
    (6, 0): 776_184_161,
    (6, 2): 776_184_161,
    (6, 5): 1_065_524_471,
    (6, 6): 788_332_866,
    (7, 0): 1_470_992_211,
}
"""Signature of the motor configuration of the releases, by firmware."""
CURE = "export the motor configuration as XML in VESC Tool, and give it with --vesc"


def read_mcconf(raw: RawMcConf) -> McConf | Unreadable:
    """Return the configuration, or why it is unreadable. Never raises, never guesses."""
    data = raw.data
    if len(data) < _SIGNATURE.size:
        return Unreadable(f"the motor configuration is {len(data)} bytes: {CURE}")
    (signature,) = _SIGNATURE.unpack_from(data)
    layout = _LAYOUTS.get(signature)
    if layout is None:
        return Unreadable(f"the motor configuration has the unknown signature {signature}: {CURE}")
    if len(data) != layout.length:
        return Unreadable(
            f"the motor configuration is {len(data)} bytes, and its signature has "
            f"{layout.length}: {CURE}"
        )
    currents = _CURRENTS.unpack_from(data, _CURRENTS_AT)
    absolute, min_erpm, max_erpm = _LIMITS.unpack_from(data, layout.absolute_at)
    at, form, scale = layout.duty
    poles, gear, wheel, _, cells = _SETUP.unpack_from(data, layout.poles_at)
    conf = McConf(
        signature=signature,
        motor_type=data[_TYPE_AT],
        motor_current_max_a=currents[0],
        motor_current_min_a=currents[1],
        input_current_max_a=currents[2],
        input_current_min_a=currents[3],
        absolute_current_max_a=absolute,
        min_erpm=min_erpm,
        max_erpm=max_erpm,
        max_duty=struct.unpack_from(form, data, at)[0] / scale,
        inverted=bool(data[layout.inverted_at]),
        motor_poles=poles,
        gear_ratio=gear,
        wheel_diameter_m=wheel,
        battery_cells=cells,
    )
    numbers = (*currents, absolute, min_erpm, max_erpm, conf.max_duty, gear, wheel)
    plausible = (
        all(map(isfinite, numbers))
        and conf.motor_current_max_a >= 0.0 >= conf.motor_current_min_a
        and conf.input_current_max_a >= 0.0 >= conf.input_current_min_a
        and max(map(abs, currents)) <= 10_000.0
        and 0.0 <= conf.max_duty <= 1.0
        and gear > 0.0
        and wheel > 0.0
    )
    if not plausible:
        return Unreadable(f"the values of the motor configuration are implausible: {CURE}")
    return conf


def encode_mcconf(conf: McConf) -> bytes:
    """Return the configuration as a firmware serialises it, with zeros for what is not in it.
    Raises KeyError for an unknown signature."""
    layout = _LAYOUTS[conf.signature]
    data = bytearray(layout.length)
    _SIGNATURE.pack_into(data, 0, conf.signature)
    data[_TYPE_AT] = conf.motor_type
    _CURRENTS.pack_into(
        data,
        _CURRENTS_AT,
        conf.motor_current_max_a,
        conf.motor_current_min_a,
        conf.input_current_max_a,
        conf.input_current_min_a,
    )
    _LIMITS.pack_into(
        data, layout.absolute_at, conf.absolute_current_max_a, conf.min_erpm, conf.max_erpm
    )
    at, form, scale = layout.duty
    value = conf.max_duty * scale
    struct.pack_into(form, data, at, value if form == ">f" else round(value))
    data[layout.inverted_at] = conf.inverted
    _SETUP.pack_into(
        data,
        layout.poles_at,
        conf.motor_poles,
        conf.gear_ratio,
        conf.wheel_diameter_m,
        0,
        conf.battery_cells,
    )
    return bytes(data)
