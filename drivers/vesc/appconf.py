"""Read-back of the application configuration: timeout, brake current, CAN mode, status messages,
servo output.

The configuration has no field names and its layout changes with the firmware, so only verified
layouts are read. Others give :class:`Unreadable`, because a plausible number from the wrong place
would be dangerous.
"""

import struct
from math import isfinite

from msgspec import Struct

UNREAD = -1


class AppConf(Struct, frozen=True, kw_only=True, gc=False):
    """Beginning of the application configuration. ``UNREAD`` (-1) if a firmware lacks a field."""

    signature: int
    controller_id: int
    timeout_ms: int
    """Command timeout, ms; 0: none at all."""
    timeout_brake_current_a: float
    """Brake current at the timeout, A; 0: the vehicle coasts."""
    status_rate_hz: int
    """Rate of STATUS frames, Hz; from 6.0 on that of the first of two groups."""
    status_rate_2_hz: int = UNREAD
    status_mode: int = UNREAD
    """Status frames before 6.0: 0 off, n: STATUS to STATUS_n."""
    status_mask: int = UNREAD
    """Status frames from 6.0 on: bit n-1 for STATUS_n at the first rate."""
    status_mask_2: int = UNREAD
    can_mode: int
    """CAN mode: 0 VESC, 1 UAVCAN, 2 bridge, 3 unused."""
    servo_output: int = UNREAD
    """Servo output: 0 off, 1 on; -1 before 5.3, where the build decided."""
    app: int
    """Active application: 0 none, 3 UART; others read input devices."""
    can_baud: int = UNREAD
    """Number of the CAN bit rate, see ``CAN_BAUDS``."""
    uart_baud: int = UNREAD
    """Line rate of the UART, baud."""

    @property
    def sends_status(self) -> bool:
        """True if the plain STATUS frame (speed, current, duty) is enabled."""
        if self.status_mode != UNREAD:
            return self.status_mode >= 1 and self.status_rate_hz > 0
        return bool(self.status_mask & 1 and self.status_rate_hz > 0) or bool(
            self.status_mask_2 & 1 and self.status_rate_2_hz > 0
        )


class RawAppConf(Struct, frozen=True, gc=False):
    """Raw configuration, for :func:`read_appconf` once the firmware is known."""

    data: bytes


class Unreadable(Struct, frozen=True, gc=False):
    """Reason why the configuration of a firmware is unreadable."""

    reason: str


_HEAD_FIELDS = ("signature", "controller_id", "timeout_ms", "timeout_brake_current_a")
# Fields named _ are on the wire but unused.
_LAYOUTS: dict[str, tuple[struct.Struct, tuple[str, ...]]] = {
    "5.0": (
        struct.Struct(">IBIf BHBBBBB B B 114x I"),
        (*_HEAD_FIELDS, "status_mode", "status_rate_hz", "can_baud", "_", "_", "_", "can_mode",
         "_", "app", "uart_baud"),
    ),
    "5.2": (
        struct.Struct(">IBIf BHBBBBB B B B 114x I"),
        (*_HEAD_FIELDS, "status_mode", "status_rate_hz", "can_baud", "_", "_", "_", "can_mode",
         "_", "_", "app", "uart_baud"),
    ),
    "5.3": (
        struct.Struct(">IBIf BHBBBBB BBf B B B 112x I"),
        (*_HEAD_FIELDS, "status_mode", "status_rate_hz", "can_baud", "_", "_", "_", "can_mode",
         "_", "_", "_", "servo_output", "_", "app", "uart_baud"),
    ),
    "6.0": (
        struct.Struct(">IBIf HHBB BBBBB BBfB B B B 105x I"),
        (
            *_HEAD_FIELDS, "status_rate_hz", "status_rate_2_hz", "status_mask", "status_mask_2",
            "can_baud", "_", "_", "_", "can_mode", "_", "_", "_", "_", "servo_output", "_", "app",
            "uart_baud",
        ),
    ),
}  # fmt: skip
_LAYOUT_OF: dict[tuple[int, int], str] = {
    (5, 1): "5.0",
    (5, 2): "5.2",
    (5, 3): "5.3",
    (6, 0): "6.0",
    (6, 2): "6.0",
    (6, 5): "6.0",
    (6, 6): "6.0",
    (7, 0): "6.0",
}
SIGNATURES: dict[tuple[int, int], int] = {
    (5, 1): 2_460_147_246,
    (5, 2): 3_264_926_020,
    (5, 3): 3_733_512_279,
    (6, 0): 486_554_156,
    (6, 2): 486_554_156,
    (6, 5): 2_099_347_128,
    (6, 6): 2_099_347_128,
    (7, 0): 2_384_027_283,
}
"""Configuration signature of the releases; another one means other fields under the same version
number."""
CAN_BAUDS = (125, 250, 500, 1000, 10, 20, 50, 75, 100)
"""CAN bit rates by their number, kbit/s."""

MAX_PLAUSIBLE_TIMEOUT_MS = 3_600_000
MAX_PLAUSIBLE_BRAKE_A = 1_000.0


def readable_firmwares() -> tuple[tuple[int, int], ...]:
    """Return the firmware versions (major, minor) with a verified layout."""
    return tuple(sorted(_LAYOUT_OF))


def read_appconf(
    raw: RawAppConf, firmware: tuple[int, int], *, test_build: bool = False
) -> AppConf | Unreadable:
    """Return the configuration, or why it is unreadable. Never raises, never guesses."""
    version = f"{firmware[0]}.{firmware[1]:02d}"
    name = _LAYOUT_OF.get(firmware)
    if name is None:
        known = ", ".join(f"{major}.{minor:02d}" for major, minor in readable_firmwares())
        return Unreadable(
            f"the configuration layout is unknown for firmware {version} (known: {known})"
        )
    if test_build:
        return Unreadable(
            f"firmware {version} is a test build, whose configuration may be laid out differently"
        )
    layout, fields = _LAYOUTS[name]
    if len(raw.data) < layout.size:
        return Unreadable(
            f"the configuration is {len(raw.data)} bytes, too short for firmware {version}"
        )
    found = dict(zip(fields, layout.unpack_from(raw.data), strict=True))
    found.pop("_", None)
    signature = SIGNATURES[firmware]
    if found["signature"] != signature:
        return Unreadable(
            f"signature {found['signature']} is not that of firmware {version} ({signature}): "
            "a modified build"
        )
    conf = AppConf(**found)
    plausible = (
        conf.timeout_ms <= MAX_PLAUSIBLE_TIMEOUT_MS
        and isfinite(conf.timeout_brake_current_a)
        and 0.0 <= conf.timeout_brake_current_a <= MAX_PLAUSIBLE_BRAKE_A
        and conf.servo_output in (UNREAD, 0, 1)
    )
    if not plausible:
        return Unreadable(f"the values are implausible for firmware {version}: a modified build")
    return conf


def encode_appconf(conf: AppConf, firmware: tuple[int, int], length: int = 400) -> bytes:
    """Return the configuration as a firmware serialises it, zero-padded to ``length``. Raises
    KeyError without a known layout."""
    layout, fields = _LAYOUTS[_LAYOUT_OF[firmware]]
    values = [0 if name == "_" else max(0, getattr(conf, name)) for name in fields]
    return layout.pack(*values).ljust(length, b"\0")
