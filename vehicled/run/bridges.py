"""Options ``--view``, ``--ros2`` and ``--mavlink``: checks them and starts the processes that pass
a run on to other programs."""

import os
import socket
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from math import ceil
from pathlib import Path

import numpy as np

from vehicled import __version__
from vehicled.core.errors import SetupError
from vehicled.core.journal import Router
from vehicled.core.messages import GnssFix, ImuSample, LaserScan
from vehicled.core.tasks import PIPELINE
from vehicled.live.bridges.feed import QUICK_RECORDS_NS, RECORDS_NS, Feed, LockstepFeed
from vehicled.live.bridges.mavlink.config import MavlinkAddressError, MavlinkConfig
from vehicled.live.bridges.mavlink.config import parse_address as parse_mavlink
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.bridges.ros2.config import LOOPBACK, MAX_DOMAIN, Ros2Config
from vehicled.live.control_socket.console import Console, RunFacts
from vehicled.live.view.access import is_loopback, new_token, parse_address, url_of
from vehicled.live.view.wire import CourseFacts, RingFacts, TaskFacts, ViewConfig
from vehicled.log.sink import LogSink
from vehicled.paths.course import Course
from vehicled.profile.schema import ViewTable
from vehicled.ros.projections import GNSS_LINK, IMU_LINK, LASER_LINK
from vehicled.run.plan import Plan
from vehicled.run.secret import read_secret
from vehicled.run.spec import RunSpec
from vehicled.safety.margins import rows

MOST_POINTS = 3_000
"""Largest number of course points sent to the page."""
LEAST_TOKEN = 8
_FRAMES = {GNSS_LINK: GnssFix, IMU_LINK: ImuSample, LASER_LINK: LaserScan}


def check_bridges(spec: RunSpec, view: ViewTable) -> None:
    """Check the options before anything is started. Raises :class:`SetupError`."""
    if spec.view is not None:
        check_view(view, spec.view)
    if spec.asks_ros2:
        check_ros2(spec)
    check_mavlink(spec)


def open_bridges(
    plan: Plan,
    console: Console,
    router: Router,
    sink: LogSink,
    control_socket: Path | None,
    *,
    simulated: bool,
) -> Feed | LockstepFeed:
    """Start the processes, which get the records that ``sink`` packs. Raises :class:`SetupError`
    and BridgeError."""
    sink.copy_records()
    spec, facts, offset_ns = plan.spec, console.facts, sink.offset_ns
    children: list[BridgeProcess] = []
    if spec.view is not None and control_socket is not None:
        children.append(
            _open_view(
                plan,
                spec.view,
                facts,
                offset_ns=offset_ns,
                control_socket=control_socket,
                simulated=simulated,
            )
        )
    if spec.ros2 is not None:
        children.append(_open_ros2(plan, offset_ns=offset_ns, control_socket=control_socket))
    if spec.mavlink is not None and control_socket is not None:
        children.append(
            _open_mavlink(
                plan, spec.mavlink, facts, offset_ns=offset_ns, control_socket=control_socket
            )
        )
    if spec.clock == "lockstep":
        return LockstepFeed(children, sink, router.record)
    return Feed(
        children,
        sink,
        console,
        router.record,
        records_ns=RECORDS_NS if spec.ros2 is None else QUICK_RECORDS_NS,
    )


# ---------------------------------------------------------------- live view


def _open_view(
    plan: Plan,
    address: str,
    facts: RunFacts,
    *,
    offset_ns: int,
    control_socket: Path,
    simulated: bool,
) -> BridgeProcess:
    """Start the live view and print its address; empty ``address``: the profile's. Raises
    :class:`SetupError` and BridgeError."""
    profile = plan.loaded.profile
    view = profile.view
    host, port, token = check_view(view, address)
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
            tasks=[
                TaskFacts(name, rates[name].rate_hz, rates[name].deadline_ns * 1e-6)
                for name in PIPELINE
            ],
            course=course_facts(plan.course),
            mixed=facts.mixed,
            fence=[
                RingFacts([(float(x), float(y)) for x, y in ring.corners], ring.keep_out)
                for ring in (plan.fence.polygons if plan.fence is not None else ())
            ],
        ),
    )
    what = "live view and teleoperation" if view.teleop else "live view"
    announce_page(what, host, process.port, token)
    return process


def check_view(view: ViewTable, address: str) -> tuple[str, int, str]:
    """Return (host, port, token) before anything is started. Raises :class:`SetupError`."""
    return check_page(view, address, "--view", moves=view.teleop)


def check_page(view: ViewTable, address: str, option: str, *, moves: bool) -> tuple[str, int, str]:
    """Return (host, port, token) of a page that an option asks for; one that ``moves`` the vehicle
    has a token at every address. Raises :class:`SetupError`."""
    if find_spec("websockets") is None:
        raise SetupError(f"{option} needs the package websockets: pip install 'vehicled[view]'")
    try:
        host, port = parse_address(address or view.address)
    except ValueError as error:
        raise SetupError(f"{option if address else 'view.address'}: {error}") from None
    return host, port, _token(view, needed=moves or not is_loopback(host))


def course_facts(course: Course) -> CourseFacts:
    """Return the line of a course for a page."""
    step = max(1, ceil(len(course.x_m) / MOST_POINTS))
    x_m, y_m = (
        [round(float(value), 3) for value in line[::step]] for line in (course.x_m, course.y_m)
    )
    return CourseFacts(course.name, course.length_m, course.closed, x_m, y_m)


def _token(view: ViewTable, *, needed: bool) -> str:
    """Return the profile's token, a new one if needed, else empty."""
    if not view.token_file and not view.token_credential:
        return new_token() if needed else ""
    content, file = read_secret(
        "token", key="view", file=view.token_file, credential=view.token_credential
    )
    token = content.strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SetupError(
            f"view: the token in {file} must be one line of at least {LEAST_TOKEN} letters and "
            "digits"
        )
    return token


def announce_page(what: str, host: str, port: int, token: str) -> None:
    """Print the address of the page. The token follows a #, because browsers never send that
    part."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host)
    places = [url_of(host if here is None else here, port)]
    if here is not None:
        places.append(url_of(_own_address() if host == "0.0.0.0" else socket.gethostname(), port))
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


# ---------------------------------------------------------------- ROS 2


def _open_ros2(plan: Plan, *, offset_ns: int, control_socket: Path | None) -> BridgeProcess:
    """Start the bridge to ROS 2 and print where it publishes. Raises :class:`SetupError` and
    BridgeError."""
    spec, profile = plan.spec, plan.loaded.profile
    domain = check_ros2(spec)
    interface = spec.ros2 or LOOPBACK
    arms = {frame: profile.lever_arm_m(kind.__name__) for frame, kind in _FRAMES.items()}
    sensors = {frame: arm for frame, arm in arms.items() if arm is not None}
    commands = spec.ros2_commands and control_socket is not None
    process = BridgeProcess.start(
        "ROS 2",
        "vehicled.live.bridges.ros2.server",
        Ros2Config(
            domain=domain,
            interface=interface,
            offset_ns=offset_ns,
            simulated_time=spec.clock == "lockstep",
            sensors=sensors,
            datum=(
                plan.course.datum.latitude_rad,
                plan.course.datum.longitude_rad,
                plan.course.datum.height_m,
            ),
            wheelbase_m=profile.vehicle.wheelbase_m,
            max_wheel_rad=profile.vehicle.steering.max_wheel_rad,
            control_socket=str(control_socket) if commands else "",
            autoware=spec.ros2_autoware,
            autoware_auto=spec.ros2_autoware_auto,
        ),
    )
    name = "ROS 2 with Autoware's topics" if spec.ros2_autoware else "ROS 2"
    what = f"{name} and commands from it" if commands else name
    where = "this computer alone" if interface == LOOPBACK else interface
    print(f"{what}: domain {domain}, {where}", file=sys.stderr, flush=True)
    return process


def check_ros2(spec: RunSpec) -> int:
    """Return the domain, before anything is started. Raises :class:`SetupError`."""
    if spec.ros2_commands and spec.ros2 is None:
        raise SetupError("--ros2-commands needs --ros2")
    if spec.ros2_autoware and spec.ros2 is None:
        raise SetupError("--ros2-autoware needs --ros2")
    if spec.ros2_autoware_auto and not spec.ros2_autoware:
        raise SetupError("--ros2-autoware-auto needs --ros2-autoware")
    if spec.ros2_commands and spec.clock == "lockstep":
        raise SetupError("--ros2-commands needs --clock wall: a lockstep drive takes no requests")
    if find_spec("cyclonedds") is None:
        raise SetupError(
            "--ros2 needs the package cyclonedds: pip install 'vehicled[ros2]' (64-bit ARM "
            "Linux: see docs/ros2.md)"
        )
    names = {name for _, name in socket.if_nameindex()}
    interface = spec.ros2
    if interface and interface not in names:
        try:
            ip_address(interface)
        except ValueError:
            raise SetupError(
                f"--ros2: no network interface {interface}; this computer has "
                f"{', '.join(sorted(names))}"
            ) from None
    text = os.environ.get("ROS_DOMAIN_ID", "") or "0"
    if not text.isdecimal() or int(text) > MAX_DOMAIN:
        raise SetupError(f"ROS_DOMAIN_ID is {text}: use a number from 0 to {MAX_DOMAIN}")
    return int(text)


# ---------------------------------------------------------------- MAVLink


def _open_mavlink(
    plan: Plan, address: str, facts: RunFacts, *, offset_ns: int, control_socket: Path
) -> BridgeProcess:
    """Start the bridge and print its address. Raises :class:`SetupError` and BridgeError."""
    spec, profile, datum = plan.spec, plan.loaded.profile, plan.course.datum
    check_mavlink(spec)
    process = BridgeProcess.start(
        "MAVLink",
        "vehicled.live.bridges.mavlink.server",
        MavlinkConfig(
            address=address,
            offset_ns=offset_ns,
            started_ns=facts.started_ns,
            datum=(datum.latitude_rad, datum.longitude_rad, datum.height_m),
            turn_radius_m=profile.vehicle.min_turn_radius_m,
            usual_speed_mps=min(
                float(np.median(np.abs(plan.course.speed_mps))), profile.limits.max_speed_mps
            ),
            control_socket=str(control_socket) if spec.mavlink_commands else "",
            version=__version__,
            system_id=spec.mavlink_id,
        ),
    )
    what = "MAVLink and commands from it" if spec.mavlink_commands else "MAVLink"
    print(f"{what}: {address}", file=sys.stderr, flush=True)
    return process


def check_mavlink(spec: RunSpec) -> None:
    """Check the options before anything is started. Raises :class:`SetupError`."""
    if spec.mavlink is None:
        if spec.mavlink_commands:
            raise SetupError("--mavlink-commands needs --mavlink")
        return
    if spec.clock == "lockstep":
        raise SetupError("--mavlink needs --clock wall: ground stations live in real time")
    if find_spec("pymavlink") is None:
        raise SetupError("--mavlink needs the package pymavlink: pip install 'vehicled[mavlink]'")
    try:
        parse_mavlink(spec.mavlink)
    except MavlinkAddressError as error:
        raise SetupError(f"--mavlink: {error}") from None
