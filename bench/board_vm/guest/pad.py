"""A gamepad of the kernel, made by uinput: takes lines such as ``BTN_START 1`` from a named pipe, and ``unplug``.

It has name, axes and buttons of an Xbox 360 pad. Needs only the standard library.
"""

import fcntl
import os
import struct
import sys
import time

SYN, KEY, ABS = 0, 1, 3
BUTTONS = {"BTN_SOUTH": 0x130, "BTN_EAST": 0x131, "BTN_NORTH": 0x133, "BTN_WEST": 0x134, "BTN_TL": 0x136, "BTN_TR": 0x137,
           "BTN_SELECT": 0x13A, "BTN_START": 0x13B, "BTN_MODE": 0x13C, "BTN_THUMBL": 0x13D, "BTN_THUMBR": 0x13E}  # fmt: skip
STICK, TRIGGER, HAT = (-32768, 32767), (0, 255), (-1, 1)
AXES = {"ABS_X": (0, STICK), "ABS_Y": (1, STICK), "ABS_Z": (2, TRIGGER), "ABS_RX": (3, STICK), "ABS_RY": (4, STICK),
        "ABS_RZ": (5, TRIGGER), "ABS_HAT0X": (16, HAT), "ABS_HAT0Y": (17, HAT)}  # fmt: skip
# linux/uinput.h: UI_SET_EVBIT, UI_SET_KEYBIT, UI_SET_ABSBIT, UI_ABS_SETUP, UI_DEV_SETUP, UI_DEV_CREATE, UI_DEV_DESTROY
SET_EV, SET_KEY, SET_ABS, ABS_SETUP, SETUP, CREATE, DESTROY = (
    0x40045564, 0x40045565, 0x40045567, 0x401C5504, 0x405C5503, 0x5501, 0x5502,
)  # fmt: skip
USB, MICROSOFT, PAD_360 = 3, 0x045E, 0x028E
PRESS_S = 0.1


def make() -> int:
    """Plug the gamepad in; return the descriptor that holds it."""
    pad = os.open("/dev/uinput", os.O_WRONLY)
    for kind in (KEY, ABS):
        fcntl.ioctl(pad, SET_EV, kind)
    for code in BUTTONS.values():
        fcntl.ioctl(pad, SET_KEY, code)
    for code, (low, high) in AXES.values():
        fcntl.ioctl(pad, SET_ABS, code)
        fcntl.ioctl(pad, ABS_SETUP, struct.pack("<HHiiiiii", code, 0, 0, low, high, 0, 0, 0))
    fcntl.ioctl(pad, SETUP, struct.pack("<HHHH80sI", USB, MICROSOFT, PAD_360, 0x0114, b"Microsoft X-Box 360 pad", 0))
    fcntl.ioctl(pad, CREATE)
    return pad


def main(pipe: str) -> None:
    """Do what is written to the pipe until the gamepad is unplugged."""
    pad = make()
    os.mkfifo(pipe)
    try:
        while True:
            with open(pipe) as lines:
                for line in lines:
                    name, _, value = line.strip().partition(" ")
                    if name == "unplug":
                        fcntl.ioctl(pad, DESTROY)
                        return
                    kind, code = (KEY, BUTTONS[name]) if name in BUTTONS else (ABS, AXES[name][0])
                    os.write(pad, struct.pack("<qqHHi", 0, 0, kind, code, int(value)))
                    os.write(pad, struct.pack("<qqHHi", 0, 0, SYN, 0, 0))
                    time.sleep(PRESS_S)
    finally:
        os.unlink(pipe)


if __name__ == "__main__":
    main(sys.argv[1])
