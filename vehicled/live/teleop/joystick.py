"""Joystick devices of the kernel, ``/dev/input/js*``: name, axes and buttons, and non-blocking
events."""

import fcntl
import os
import stat
import struct
from pathlib import Path
from typing import Protocol

from vehicled.live.teleop.js_event import JsDecoder, JsEvent
from vehicled.live.teleop.mapping import XPAD, MappingError, PadLayout

FOLDER = Path("/dev/input")
MOST_BYTES = 4096
"""Most bytes of events that are read at once."""
# _IOR('j', ...) of linux/joystick.h.
_AXES, _BUTTONS, _NAME = 0x80016A11, 0x80016A12, 0x80006A13
_AXIS_MAP, _BUTTON_MAP = 0x80406A32, 0x84006A34
_BTN_MISC = 0x100

_ABS = dict(
    enumerate(
        (
            "ABS_X",
            "ABS_Y",
            "ABS_Z",
            "ABS_RX",
            "ABS_RY",
            "ABS_RZ",
            "ABS_THROTTLE",
            "ABS_RUDDER",
            "ABS_WHEEL",
        )
    )
)
_ABS |= {9: "ABS_GAS", 10: "ABS_BRAKE"}
_ABS |= {16 + k: f"ABS_HAT{k // 2}{'XY'[k % 2]}" for k in range(8)}
_JOYSTICK = (
    "TRIGGER",
    "THUMB",
    "THUMB2",
    "TOP",
    "TOP2",
    "PINKIE",
    "BASE",
    "BASE2",
    "BASE3",
    "BASE4",
    "BASE5",
    "BASE6",
)
_GAMEPAD = (
    "SOUTH",
    "EAST",
    "C",
    "NORTH",
    "WEST",
    "Z",
    "TL",
    "TR",
    "TL2",
    "TR2",
    "SELECT",
    "START",
    "MODE",
    "THUMBL",
    "THUMBR",
)
_BTN = {0x120 + k: f"BTN_{name}" for k, name in enumerate(_JOYSTICK)}
_BTN |= {0x130 + k: f"BTN_{name}" for k, name in enumerate(_GAMEPAD)}


class JoystickSource(Protocol):
    """Device that delivers joystick events."""

    name: str
    layout: PadLayout

    def fileno(self) -> int:
        """Return the file descriptor, for select."""
        ...

    def events(self) -> list[JsEvent]:
        """Return the waiting events. Raises EOFError if the device is gone."""
        ...


class JoystickDevice:
    """Open joystick device. A pipe or file of recorded events also works, as a pad with the layout
    of :data:`XPAD`."""

    def __init__(self, path: Path) -> None:
        """Open the device. Raises :class:`MappingError` if that fails or if it is not a
        joystick."""
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            raise MappingError(
                f"{path}: no permission to read it; ask an administrator to add you to the "
                "group input"
            ) from None
        except OSError as error:
            raise MappingError(
                f"{path}: cannot open it: {error.strerror}; check that the device is plugged in"
            ) from None
        self._decoder = JsDecoder()
        if stat.S_ISCHR(os.fstat(self._fd).st_mode):
            try:
                self.name, self.layout = _describe(self._fd)
            except OSError:
                os.close(self._fd)
                raise MappingError(f"{path} is not a joystick device") from None
        else:
            self.name, self.layout = "X-Box pad, recorded", XPAD

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def events(self) -> list[JsEvent]:
        """Return waiting events, so many at once that a flood does not hold up the readings. Raises
        EOFError if the device is gone.
        """
        try:
            data = os.read(self._fd, MOST_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError(f"it was unplugged: {error.strerror}") from None
        if not data:
            raise EOFError("its recorded events have ended")
        return self._decoder.feed(data)

    def close(self) -> None:
        """Close the device."""
        os.close(self._fd)

    def __enter__(self) -> "JoystickDevice":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def devices(folder: Path = FOLDER) -> list[Path]:
    """Return the joystick devices of this computer, ordered by number."""
    found = [path for path in folder.glob("js*") if path.name[2:].isdecimal()]
    return sorted(found, key=lambda path: int(path.name[2:]))


def _describe(fd: int) -> tuple[str, PadLayout]:
    """Return name and layout. Raises OSError if the device is not a joystick."""
    axes = fcntl.ioctl(fd, _AXES, b"\0")[0]
    buttons = fcntl.ioctl(fd, _BUTTONS, b"\0")[0]
    name = fcntl.ioctl(fd, _NAME + (128 << 16), bytes(128)).split(b"\0")[0].decode(errors="replace")
    axis_map = fcntl.ioctl(fd, _AXIS_MAP, bytes(64))
    button_map = struct.unpack("=512H", fcntl.ioctl(fd, _BUTTON_MAP, bytes(1024)))
    return name, PadLayout(
        [_ABS.get(code, f"ABS_{code}") for code in axis_map[:axes]],
        [_BTN.get(code, f"BTN_{code - _BTN_MISC}") for code in button_map[:buttons]],
    )
