"""Commands ``vehicled serve simulation | control``, for programs in other languages."""

import socket
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.cli.drive_options import add_profile
from vehicled.core.errors import SetupError
from vehicled.run.argument_types import CONTROLLER, ESTIMATOR, PROFILE, SCENE, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.runtime.simulator import add_seed

if TYPE_CHECKING:
    from vehicled.live.control_socket.access import ServerAddress

CONTROL_PORT, STEP_PORT = 7714, 7715


def declare_serve_simulation(parser: CommandParser) -> None:
    """Let a program step a simulated drive over a socket: reset, step, observe. Time stands still
    between two steps."""
    parser.describe(
        examples=(
            "vehicled serve simulation --course circle_r5_ccw",
            "vehicled serve simulation --profile f1tenth --listen unix:/tmp/step.sock",
        ),
        epilog="One program at a time; Ctrl-C ends the server. See docs/control_protocol.md.",
    )
    add_profile(parser)
    parser.add_argument(
        "--scene", type=SCENE, metavar="SCENE", help="what stands and moves round the course"
    )
    parser.add_argument(
        "--controller", type=CONTROLLER, metavar="NAME", help="controller of steps without setpoint"
    )
    parser.add_argument("--estimator", type=ESTIMATOR, metavar="NAME", help="estimator")
    add_seed(parser)
    _add_listen(parser, STEP_PORT, ", or unix:PATH")
    parser.set_defaults(run=serve_simulation)


def declare_serve_control(parser: CommandParser) -> None:
    """Relay a TCP port of this computer to the control socket of a running daemon, for programs
    that cannot open a Unix socket, such as MATLAB."""
    parser.describe(
        examples=(
            "vehicled serve control                       any running daemon, a new token",
            "vehicled serve control --token-file ~/.vehicled-token",
        ),
        epilog=(
            "A daemon may be started and ended meanwhile; Ctrl-C ends the relay. See "
            "docs/control_protocol.md."
        ),
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        metavar="P",
        help="daemon to talk to, by the name of its profile (default: the only one)",
    )
    _add_listen(parser, CONTROL_PORT, "")
    parser.set_defaults(run=serve_control)


def _add_listen(parser: CommandParser, port: int, others: str) -> None:
    parser.add_argument(
        "--listen",
        type=TEXT,
        default=f"tcp:127.0.0.1:{port}",
        metavar="ADDRESS",
        help=f"tcp:127.0.0.1:PORT (default {port}; 0: any free one){others}",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        default="",
        help="file with the token that programs send over TCP; made if there is none (default: a "
        "new token, which is printed)",
    )


def serve_simulation(arguments: Namespace) -> int:
    """Serve one simulation until interrupted."""
    from vehicled.live.control_socket.access import ServerAddress, token_in
    from vehicled.run.findings import print_warnings
    from vehicled.run.plan import Plan
    from vehicled.run.spec import RunSpec
    from vehicled.run.step_server import StepServer

    address = ServerAddress.of(arguments.listen)
    token = "" if address.path else token_in(arguments.token_file)
    plan = Plan.of(
        RunSpec(
            profile=arguments.profile,
            overrides=tuple(arguments.set),
            controller=arguments.controller or "",
            estimator=arguments.estimator or "",
            course=arguments.course or "",
            scene=arguments.scene or "",
            laps=arguments.laps,
            seed=arguments.seed,
            log_folder=None,
        )
    )
    print_warnings(plan.findings)
    with _listening(address) as listener:
        server = StepServer(plan, listener, token)
        profile = plan.loaded.profile.name
        found = address.of_socket(listener)
        _announce(f"simulation of {profile} on {plan.course.name}", found, token)
        server.serve(lambda text: print(text, file=sys.stderr, flush=True))
    return 0


def serve_control(arguments: Namespace) -> int:
    """Relay until interrupted."""
    import anyio

    from vehicled.live.control_socket.access import ServerAddress, token_in
    from vehicled.live.control_socket.relay import Relay
    from vehicled.live.control_socket.socket_path import find

    address = ServerAddress.of(arguments.listen)
    if address.path:
        raise SetupError("--listen: the daemon has a Unix socket already; give tcp:127.0.0.1:PORT")
    token = token_in(arguments.token_file)
    relay = Relay(address, token, lambda: find(arguments.profile))
    anyio.run(relay.serve, lambda found: _announce("control socket", found, token))
    return 0


@contextmanager
def _listening(address: "ServerAddress") -> Iterator[socket.socket]:
    with address.listen() as listener:
        try:
            yield listener
        finally:
            if address.path:
                with suppress(OSError):
                    Path(address.path).unlink()


def _announce(what: str, address: "ServerAddress", token: str) -> None:
    print(f"{what}: {address}")
    if token:
        print(f"token: {token}")
    sys.stdout.flush()
