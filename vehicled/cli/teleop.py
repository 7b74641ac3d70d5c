"""Command ``vehicled teleop``: drive manually with a keyboard, gamepad or steering wheel."""

import os
import sys
import termios
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

from vehicled.daemon.app import SetupError
from vehicled.live.control_socket.socket_path import find
from vehicled.live.teleop.joystick import JoystickDevice, devices
from vehicled.live.teleop.keyboard import Keyboard
from vehicled.live.teleop.mapping import PadMap, choose, load, resolve
from vehicled.live.teleop.pad import Pad
from vehicled.live.teleop.screen import KEYS, PAD_KEYS
from vehicled.live.teleop.session import TeleopSession
from vehicled.live.teleop.terminal import Terminal

INTERRUPTED = 130


def teleop(arguments: Namespace) -> int:
    """Drive manually until the driver quits."""
    daemon = find(arguments.profile)
    path = _device(arguments.device)
    user = os.environ.get("USER", "")
    keyboard = Keyboard(arguments.throttle, f"keyboard of {user}" if user else "keyboard")
    with ExitStack() as stack:
        pad = None
        keys = KEYS
        if path is not None:
            joystick = stack.enter_context(JoystickDevice(path))
            mapping = resolve(load(Path(arguments.map)), joystick.layout, joystick.name) if arguments.map else None
            if mapping is None:
                _, mapping = choose(joystick.name, joystick.layout)
            pad = Pad(mapping, f"{joystick.name} ({path.name})", arguments.throttle), joystick
            keys = PAD_KEYS.format(**_names(mapping, joystick))
        elif arguments.map:
            raise SetupError("--map needs a gamepad or steering wheel: plug one in, or give it with --device")
        print(keys, flush=True)
        terminal = _terminal(stack, needed=pad is None)
        session = TeleopSession(
            daemon,
            keyboard,
            pad,
            terminal,
            period_ns=round(1e9 / arguments.hz),
            clock=time.monotonic_ns,
            say=lambda text: print(text, flush=True),
        )
        why = session.run()
    if why:
        print(f"vehicled: teleop ended: {why}", file=sys.stderr)
    return INTERRUPTED if why else 0


def _device(wanted: str) -> Path | None:
    """Return the path of a joystick device; None for the keyboard."""
    if wanted == "keyboard":
        return None
    if wanted != "auto":
        return Path(wanted)
    found = devices()
    return found[0] if found else None


def _terminal(stack: ExitStack, *, needed: bool) -> Terminal | None:
    try:
        return stack.enter_context(Terminal(sys.stdin.fileno(), sys.stdout.fileno()))
    except (OSError, ValueError, termios.error):
        if needed:
            raise SetupError("the keyboard needs a terminal: start it in a terminal, or give a gamepad with --device") from None
        return None


def _names(mapping: PadMap, joystick: JoystickDevice) -> dict[str, str]:
    """Return the kernel names of the pad's buttons."""

    def name(ref: str | int | None) -> str:
        return "nothing" if ref is None else joystick.layout.buttons[int(ref)].removeprefix("BTN_").lower()

    return {"deadman": " or ".join(map(name, mapping.deadman)), "take": name(mapping.take), "stop": name(mapping.stop)}
