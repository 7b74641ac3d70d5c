"""Configuration storage of a ZED-F9P: factory defaults, layers above them, CFG-VALSET and CFG-VALGET.

Defaults and limits: interface description UBX-21023318 (HPG 1.13), chapter on configuration.
"""

from collections.abc import Callable

from drivers.ublox import keys
from drivers.ublox.keys import CfgValget, CfgValgetPoll, CfgValset

BAUDS = (9_600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600)
DEFAULT_BAUD = 38_400
LEAST_PERIOD_MS = 25

# Items that other software sets, so that the receiver must know them.
_OTHERS = {
    "CFG-NAVSPG-FIXMODE": (0x20110011, 3),
    "CFG-NAVSPG-INFIL_MINELEV": (0x201100A4, 10),
    "CFG-NAVSPG-WKNROLLOVER": (0x30110017, 2099),
    "CFG-NAVHPG-DGNSSMODE": (0x20140011, 3),
}
_OTHER_MESSAGES = {
    "RXM_RAWX": 0x209102A4,
    "MON_COMMS": 0x2091034F,
    "TIM_TM2": 0x20910178,
}
_DEFAULTS = {
    "CFG-RATE-MEAS": 1000,
    "CFG-RATE-NAV": 1,
    "CFG-RATE-TIMEREF": 1,
    "CFG-NAVSPG-DYNMODEL": 0,
    "CFG-NAVSPG-CONSTR_DGNSSTO": 60,
    "CFG-UART1-BAUDRATE": DEFAULT_BAUD,
    "CFG-UART2-BAUDRATE": DEFAULT_BAUD,
}
_ON = ("CFG-SIGNAL-", "PROT-")
"""Name prefixes of items enabled by default: all constellations, all protocols on all ports."""
_SENTENCES = ("GGA", "GLL", "GSA", "GSV", "RMC", "VTG")
_EVERYTHING = 0x0FFF_FFFF
_GROUP = 0xFFFF

_RANGES = {
    "CFG-RATE-MEAS": range(LEAST_PERIOD_MS, 65_536),
    "CFG-RATE-NAV": range(1, 128),
    "CFG-RATE-TIMEREF": range(5),
    "CFG-NAVSPG-DYNMODEL": (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "CFG-NAVSPG-CONSTR_DGNSSTO": range(1, 256),
    "CFG-UART1-BAUDRATE": BAUDS,
    "CFG-UART2-BAUDRATE": BAUDS,
    "CFG-TMODE-MODE": range(3),
    "CFG-TMODE-POS_TYPE": range(2),
    "CFG-RTCM-DF003_OUT": range(4096),
}


def _factory() -> dict[int, int]:
    found = {}
    for name, key in keys.KEYS.items():
        sentence = name.startswith("CFG-MSGOUT-NMEA_ID_") and name.removeprefix("CFG-MSGOUT-NMEA_ID_").startswith(_SENTENCES)
        found[key] = _DEFAULTS.get(name, int(sentence or any(part in name for part in _ON)))
    found |= dict(_OTHERS.values())
    # On I2C, UART1, UART2, USB and SPI.
    found |= {key + port: 0 for key in _OTHER_MESSAGES.values() for port in range(5)}
    return found


_FACTORY = _factory()
_LIMITS = {keys.KEYS[name]: allowed for name, allowed in _RANGES.items()}


class ReceiverSettings:
    """Items by key in RAM, and those that survive a restart."""

    def __init__(self, lacks: Callable[[str], bool] = lambda name: False) -> None:
        """``lacks``: true for the name of an item that this receiver does not have."""
        self._lacks = lacks
        self._flash: dict[int, int] = {}
        self._bbr: dict[int, int] = {}
        self._ram = dict(_FACTORY)

    def value(self, name: str) -> int:
        """Return the active value. Raises KeyError for an unknown name."""
        return self._ram[keys.KEYS[name]]

    def restart(self) -> None:
        """Rebuild RAM from the layers below it."""
        self._ram = _FACTORY | self._flash | self._bbr

    def store(self, order: CfgValset) -> bool:
        """Write all items, or none if one is impossible; False is a refusal that does not name the item."""
        if not 0 < order.layers <= keys.RAM | keys.BBR | keys.FLASH or len(order.items) > keys.MAX_ITEMS:
            return False
        if not all(self._has(key) and _possible(key, value) for key, value in order.items):
            return False
        for bit, layer in ((keys.RAM, self._ram), (keys.BBR, self._bbr), (keys.FLASH, self._flash)):
            if order.layers & bit:
                layer.update(order.items)
        return True

    def _has(self, key: int) -> bool:
        return key in _FACTORY and not self._lacks(keys.key_name(key))

    def read(self, question: CfgValgetPoll) -> CfgValget | None:
        """Return the requested items by number, group or all; None is a refusal: one is unknown or not kept in that layer."""
        layers = {keys.LAYER_RAM: self._ram, keys.LAYER_BBR: self._bbr, keys.LAYER_FLASH: self._flash, keys.LAYER_DEFAULT: _FACTORY}
        layer = layers.get(question.layer)
        if layer is None:
            return None
        found: list[int] = []
        for key in question.keys:
            if key == _EVERYTHING:
                found += sorted(layer)
            elif key & _GROUP == _GROUP:
                found += sorted(each for each in layer if each >> 16 & 0xFF == key >> 16 & 0xFF)
            elif key in layer and self._has(key):
                found.append(key)
            else:
                return None
        found = [key for key in found if self._has(key)]
        part = found[question.position : question.position + keys.MAX_ITEMS]
        if not part:
            return None
        return CfgValget(tuple((key, layer[key]) for key in part), question.layer, question.position)


def _possible(key: int, value: int) -> bool:
    allowed = _LIMITS.get(key)
    if allowed is not None:
        return value in allowed
    # Bits occupy a byte.
    return value <= 1 if key >> 28 & 7 == 1 else True
