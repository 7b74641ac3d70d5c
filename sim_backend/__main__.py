"""Entry point of ``python -m sim_backend``, the simulator process.

It ends with the daemon. Exit status: 0 after the daemon's goodbye, 1 with a one-line reason if the
link fails, 2 for unusable arguments, 143 when terminated. With ``--ptys`` or ``--port`` it has no
link and runs until it is terminated.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from vehicled.core.plain_text import printable
from vehicled.runtime.simulator import add_options

if TYPE_CHECKING:
    # Imported late, see _main.
    from sim_backend.world import WorldSetup

TERMINATED = 128 + signal.SIGTERM


class Terminated(BaseException):
    """SIGTERM, or Ctrl-C if the simulator was started from a shell."""

    def __str__(self) -> str:
        return "terminated"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _say(f"{message}; see python -m sim_backend --help")
        raise SystemExit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulator and return its exit status."""
    return _guarded(lambda: _parse(arguments))


def command(options: argparse.Namespace) -> int:
    """Run the simulator as ``vehicled simulator``, with the options of
    :func:`vehicled.runtime.simulator.add_options`."""
    return _guarded(lambda: options)


def _guarded(options: Callable[[], argparse.Namespace]) -> int:
    # As the daemon's child we share its terminal: Ctrl-C and hang-up are for the daemon, which
    # wants to stop the vehicle first.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _simulate(options())
    except Terminated as terminated:
        _say(str(terminated))
        return TERMINATED


def _simulate(options: argparse.Namespace) -> int:
    # Imported late, so that Ctrl-C and --help do not wait for numpy.
    from sim_backend.connection import Listener
    from sim_backend.options import world_setup
    from sim_backend.server import serve
    from vehicled.core.errors import SetupError, UserError
    from vehicled.core.link import LinkError

    try:
        setup = world_setup(options)
        if options.hand and options.ptys is None:
            raise SetupError(
                "--hand needs --ptys DIR: a person moves a vehicle that runs by itself"
            )
        if options.ptys is not None:
            return _behind_ptys(
                Path(options.ptys), setup, sys.stdin.fileno() if options.hand else None
            )
        if options.port is not None:
            return _on_ports(options.port, setup)
        listener = Listener(options.listen)
    except UserError as error:
        _say(str(error))
        return 2
    with listener:
        if not listener.inherited:
            signal.signal(signal.SIGINT, _terminate)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            sys.stdout.write(f"listening on {listener.address}\n")
            sys.stdout.flush()
        try:
            serve(listener, setup)
        except LinkError as error:
            _say(str(error))
            return 1
    return 0


def _behind_ptys(folder: Path, setup: "WorldSetup", moves: int | None) -> int:
    """Run until terminated, also by Ctrl-C: no daemon reports the end."""
    from sim_backend.plant.interface import VehicleLostError
    from sim_backend.standalone import Standalone

    try:
        standalone = Standalone(setup, folder.absolute(), moves)
    except OSError as error:
        _say(f"cannot make ptys in {folder}: {error.strerror}")
        return 2
    with standalone:
        signal.signal(signal.SIGINT, _terminate)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        sys.stdout.write("".join(f"{line}\n" for line in [*standalone.settings, "ready"]))
        sys.stdout.flush()
        try:
            standalone.run()
        except VehicleLostError as error:
            _say(str(error))
            return 1
        finally:
            _say(f"the vehicle drove {standalone.driven_m:.2f} m")
    return 0


def _on_ports(ports: Sequence[str], setup: "WorldSetup") -> int:
    """Run on real ports until terminated."""
    from sim_backend import hardware
    from sim_backend.plant.interface import VehicleLostError

    def say(text: str) -> None:
        sys.stdout.write(f"{printable(text)}\n")
        sys.stdout.flush()

    try:
        hardware.run(setup, ports, say)
    except VehicleLostError as error:
        _say(str(error))
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m sim_backend",
        description="Simulates vehicle, sensors and operator for one daemon.",
        allow_abbrev=False,
    )
    add_options(parser)
    return parser.parse_args(arguments)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


def _say(text: str) -> None:
    try:
        # Texts of a profile or of the daemon may hold control characters.
        sys.stderr.write(
            "simulator: "
            + "\n".join(printable(line, len(line)) for line in text.splitlines())
            + "\n"
        )
        sys.stderr.flush()
    except OSError:
        pass  # The terminal was closed together with the daemon.


if __name__ == "__main__":
    sys.exit(main())
