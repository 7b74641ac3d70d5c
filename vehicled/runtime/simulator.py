"""Options of the simulator, and the simulator as a child process on a socket pair, without an
address or a file."""

import socket
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup
from collections.abc import Sequence
from types import TracebackType

_QUIT_S = 0.1
"""Grace period at the end, s: a simulator without a link ends at once, unless it is stopped or
stuck."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of ``vehicled simulator``, which are also those of ``python -m
    sim_backend``."""
    parser.add_argument(
        "--profile",
        default="art",
        metavar="P",
        help="profile: a name or a .toml file (default art)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a key of the profile; repeatable",
    )
    parser.add_argument(
        "--course", metavar="C", help="course: a name or a path file (default: the profile's)"
    )
    add_world_options(parser)
    parser.add_argument(
        "--by-hand",
        action="store_true",
        help="the simulator does not arm the vehicle or start the drive",
    )
    parser.add_argument(
        "--hand",
        action="store_true",
        help="with --ptys: move the vehicle by hand, by lines on standard input: push 5 (m), "
        "turn 90 (degrees, to the left), "
        "pitch -25 (front up), roll 90, block (wheels off the ground), floor, wait 2 (s)",
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--listen",
        metavar="URL",
        help="wait for a daemon at unix:PATH, tcp:HOST:PORT, or fd:N for an open socket",
    )
    place.add_argument(
        "--ptys",
        metavar="DIR",
        help=(
            "no link: offer every device as a pseudo-terminal under its name in this folder, "
            "and print the addresses"
        ),
    )
    place.add_argument(
        "--port",
        action="append",
        metavar="NAME=ADDRESS",
        help="no link: play this device on a real port of this computer "
        "(gnss=serial:/dev/ttyUSB0, drive=can:can1), for a daemon "
        "at the other end of the cable; repeatable; see docs/hardware_in_the_loop.md",
    )


def add_world_options(parser: "ArgumentParser | _ArgumentGroup") -> None:
    """Add what simulator and simulated drive have in common."""
    parser.add_argument(
        "--scene",
        metavar="SCENE",
        help="what stands and moves round the course: a name of 'vehicled scenes' or a file; its "
        "first course is driven unless "
        "--course names another; SCENE@0.1 builds it a tenth as large",
    )
    parser.add_argument(
        "--end-on-contact",
        action="store_true",
        help="end the run when the vehicle touches something of the scene",
    )
    add_seed(parser)
    parser.add_argument(
        "--link",
        choices=("messages", "wires"),
        default="messages",
        help=(
            "what the simulated devices send: vehicled's messages (default), or the byte "
            "protocols of the real devices"
        ),
    )
    parser.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="FAILURE",
        help=(
            "inject a fault: port:kind[=value]@start[+duration], in s (gnss:stuck@20+5); "
            "repeatable; kinds: docs/devices.md"
        ),
    )
    parser.add_argument(
        "--latency",
        type=_latency,
        metavar="L",
        help="delay the data of the devices and the commands to the actuator: 20ms, 5..200ms "
        "(drawn for each), or "
        "sensing=20ms,actuation=50ms; see docs/computers.md",
    )
    parser.add_argument(
        "--start",
        choices=("stand", "align", "push"),
        help="how the vehicle finds its initial heading: measured at standstill, by driving "
        "straight ahead, or by pushing "
        "it 3 m by hand (default: stand, or align if the profile has no heading device)",
    )


def add_seed(parser: "ArgumentParser | _ArgumentGroup") -> None:
    """Add the option of the random seed."""
    parser.add_argument(
        "--seed",
        type=_seed,
        default=1,
        metavar="N",
        help="random seed of the sensor noise (default 1)",
    )


def _seed(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) <= 20):
        raise ArgumentTypeError(f"expected a whole number from 0 up, not {text[:40]!r}")
    return int(text)


def _latency(text: str) -> str:
    from vehicled.profile.latency import latency_overrides  # late, because profiles bring numpy

    try:
        latency_overrides(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    return text


class SimulatorProcess:
    """Context that starts ``python -m sim_backend`` and ends it."""

    def __init__(
        self,
        profile: str,
        overrides: Sequence[str],
        course: str,
        seed: int,
        link: str = "messages",
        failures: Sequence[str] = (),
        *,
        scenario: bool = True,
        start: str = "",
    ) -> None:
        """Start the process; without ``scenario`` the simulator does not arm the vehicle. Raises
        OSError."""
        self.sock, theirs = socket.socketpair()
        with theirs:
            arguments = [
                "--profile",
                profile,
                "--course",
                course,
                "--seed",
                str(seed),
                "--link",
                link,
            ]
            arguments += ["--listen", f"fd:{theirs.fileno()}"]
            if not scenario:
                arguments.append("--by-hand")
            if start:
                arguments += ["--start", start]
            for failure in failures:
                arguments += ["--fail", failure]
            for override in overrides:
                arguments += ["--set", override]
            # Pass on the interpreter's flags and path, so that the simulator belongs to this
            # daemon's installation.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sim_backend", *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    @property
    def pid(self) -> int:
        """Process id, for signals and tracing."""
        return self._process.pid

    def __enter__(self) -> "SimulatorProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()
        try:
            self._process.wait(_QUIT_S)
        except subprocess.TimeoutExpired:
            # The process is stopped or stuck; its link is gone, so it can be killed.
            self._process.kill()
            self._process.wait()
