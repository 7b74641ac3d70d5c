"""Command-line option ``--view``: builds and starts the live view of a run."""

import socket
import sys
from importlib.util import find_spec
from math import ceil
from pathlib import Path

from vehicled import __version__
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.app import SetupError
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.control_socket.console import RunFacts
from vehicled.live.view.access import is_loopback, new_token
from vehicled.live.view.address import parse_address, url_of
from vehicled.live.view.wire import CourseFacts, RingFacts, TaskFacts, ViewConfig
from vehicled.paths.course import Course
from vehicled.profile.schema import ViewTable
from vehicled.run.plan import Plan
from vehicled.run.secret import read_secret
from vehicled.safety.margins import rows

MOST_POINTS = 3_000
"""Largest number of course points sent to the page."""
LEAST_TOKEN = 8


def open_view(plan: Plan, address: str, facts: RunFacts, *, offset_ns: int, control_socket: Path, simulated: bool) -> BridgeProcess:
    """Start the live view and print its address; empty ``address``: the profile's. Raises :class:`SetupError` and BridgeError."""
    profile = plan.loaded.profile
    view = profile.view
    host, port, token = check_view(view, address)
    course = plan.course
    step = max(1, ceil(len(course.x_m) / MOST_POINTS))
    rates = plan.wiring.rates
    process = BridgeProcess.start(
        "the live view",
        "vehicled.live.view.server",
        ViewConfig(
            host=host,
            port=port,
            token=token,
            names=view.names,
            foxglove=view.foxglove,
            teleop=view.teleop,
            control_socket=str(control_socket) if view.teleop else "",
            most_throttle=view.most_throttle,
            silence_s=profile.limits.teleop_silence_s,
            started_ns=facts.started_ns,
            offset_ns=offset_ns,
            session=f"{offset_ns + facts.started_ns:x}",
            profile=profile.name,
            estimator=profile.estimator.label,
            controller=profile.controller.label,
            simulated=simulated,
            version=__version__,
            log=facts.log,
            max_speed_mps=profile.limits.max_speed_mps,
            corridor_m=profile.limits.corridor_m,
            max_wheel_rad=profile.vehicle.steering.max_wheel_rad,
            wheelbase_m=profile.vehicle.wheelbase_m,
            matrix=rows(),
            tasks=[TaskFacts(name, rates[name].rate_hz, rates[name].deadline_ns * 1e-6) for name in PIPELINE],
            course=_course(course, step),
            fence=[
                RingFacts([(float(x), float(y)) for x, y in ring.corners], ring.keep_out)
                for ring in (plan.fence.polygons if plan.fence is not None else ())
            ],
        ),
    )
    _announce(host, process.port, token, teleop=view.teleop)
    return process


def check_view(view: ViewTable, address: str) -> tuple[str, int, str]:
    """Return (host, port, token) before anything is started. Raises :class:`SetupError`."""
    if find_spec("websockets") is None:
        raise SetupError("--view needs the package websockets: pip install 'vehicled[view]'")
    try:
        host, port = parse_address(address or view.address)
    except ValueError as error:
        raise SetupError(f"{'--view' if address else 'view.address'}: {error}") from None
    return host, port, _token(view, needed=view.teleop or not is_loopback(host))


def _course(course: Course, step: int) -> CourseFacts:
    x_m, y_m = ([round(float(value), 3) for value in line[::step]] for line in (course.x_m, course.y_m))
    return CourseFacts(course.name, course.length_m, course.closed, x_m, y_m)


def _token(view: ViewTable, *, needed: bool) -> str:
    """Return the profile's token, a new one if needed, else empty."""
    if not view.token_file and not view.token_credential:
        return new_token() if needed else ""
    content, file = read_secret("token", key="view", file=view.token_file, credential=view.token_credential)
    token = content.strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SetupError(f"view: the token in {file} must be one line of at least {LEAST_TOKEN} letters and digits")
    return token


def _announce(host: str, port: int, token: str, *, teleop: bool) -> None:
    """Print the address of the page. The token follows a #, because browsers never send that part."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host)
    places = [url_of(host if here is None else here, port)]
    if here is not None:
        places.append(url_of(_own_address() if host == "0.0.0.0" else socket.gethostname(), port))
    what = "live view and teleoperation" if teleop else "live view"
    shown = f"#{token}" if token else ""
    for place in dict.fromkeys(places):
        print(f"{what}: {place}{shown}", file=sys.stderr, flush=True)


def _own_address() -> str:
    """Return this computer's address in its network, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
