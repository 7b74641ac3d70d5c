"""Command ``vehicled teleop``: drive manually with a keyboard, gamepad or steering wheel."""

import os
import sys
import termios
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

from vehicled.core.errors import SetupError
from vehicled.live.control_socket.socket_path import find
from vehicled.live.teleop.joystick import JoystickDevice, devices
from vehicled.live.teleop.keyboard import Keyboard
from vehicled.live.teleop.mapping import PadMap, choose, load, resolve
from vehicled.live.teleop.pad import Pad
from vehicled.live.teleop.screen import KEYS, PAD_KEYS
from vehicled.live.teleop.session import TeleopSession
from vehicled.live.teleop.terminal import Terminal
from vehicled.run.argument_types import FILE, PROFILE, between
from vehicled.run.command_line import CommandParser

INTERRUPTED = 130
_RATE = between(10.0, 60.0, "expected a rate from 10 to 60 Hz")
_RATIO = between(0.01, 1.0, "expected a fraction from 0.01 to 1")


def declare_teleop(parser: CommandParser) -> None:
    """Drive a running daemon manually. Enter arms it and starts teleop. It drives while the deadman
    is held and brakes when the deadman is released, the input device is unplugged, or its readings
    stop for 0.2 s.
    """
    parser.describe(
        epilog="Exit status: 0 ended with q; 130 ended by a signal, or the input device or "
        "terminal was lost; 2 invalid "
        "arguments, or no daemon answers. See docs/driving_by_hand.md."
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        metavar="P",
        help="profile of the daemon, or its socket (default: the only running daemon)",
    )
    parser.add_argument(
        "--device",
        type=FILE,
        default="auto",
        metavar="D",
        help="keyboard, a joystick device such as /dev/input/js0, or auto (default)",
    )
    parser.add_argument(
        "--map", metavar="TOML", help="mapping of axes and buttons, for an unknown pad"
    )
    parser.add_argument(
        "--throttle",
        type=_RATIO,
        default=0.5,
        metavar="RATIO",
        help="largest throttle as a fraction of full throttle, 0.01 to 1 (default 0.5)",
    )
    parser.add_argument(
        "--hz",
        type=_RATE,
        default=30.0,
        metavar="HZ",
        help="readings per second, 10 to 60 (default 30)",
    )
    parser.set_defaults(run=teleop)


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
            mapping = (
                resolve(load(Path(arguments.map)), joystick.layout, joystick.name)
                if arguments.map
                else None
            )
            if mapping is None:
                _, mapping = choose(joystick.name, joystick.layout)
            pad = Pad(mapping, f"{joystick.name} ({path.name})", arguments.throttle), joystick
            keys = PAD_KEYS.format(**_names(mapping, joystick))
        elif arguments.map:
            raise SetupError(
                "--map needs a gamepad or steering wheel: plug one in, or give it with --device"
            )
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
            raise SetupError(
                "the keyboard needs a terminal: start it in a terminal, or give a gamepad with "
                "--device"
            ) from None
        return None


def _names(mapping: PadMap, joystick: JoystickDevice) -> dict[str, str]:
    """Return the kernel names of the pad's buttons."""

    def name(ref: str | int | None) -> str:
        return (
            "nothing"
            if ref is None
            else joystick.layout.buttons[int(ref)].removeprefix("BTN_").lower()
        )

    return {
        "deadman": " or ".join(map(name, mapping.deadman)),
        "take": name(mapping.take),
        "stop": name(mapping.stop),
    }
