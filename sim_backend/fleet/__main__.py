"""Entry point of ``python -m sim_backend.fleet``, the simulator of a fleet.

It reads :class:`FleetOrder` as a line of JSON from standard input, writes :class:`FleetReady` once
all worlds are built, then serves the daemons at the inherited sockets, and writes
:class:`FleetProgress` and at last :class:`FleetReport`, each as one line. The end of standard input
ends the run. Exit status: 0 when all daemons have ended, 2 with the reason for unusable options,
143 when terminated.
"""

import argparse
import gc
import select
import signal
import sys
import time
from contextlib import ExitStack
from types import FrameType
from typing import Any

import msgspec
from msgspec.structs import replace

from sim_backend.connection import START_NS, Goodbye, Listener, Peer
from sim_backend.fleet.fleet import Fleet, FleetMember, check_members
from sim_backend.fleet.lockstep import FleetLockstep, Member
from sim_backend.fleet.member import FleetDaemon
from sim_backend.fleet.order import (
    FleetOrder,
    FleetProgress,
    FleetReady,
    FleetReport,
    VehicleReport,
)
from sim_backend.fleet.radio import RadioChannel
from sim_backend.fleet.wall import FleetWall, PatientPeer, WallMember
from sim_backend.options import world_setup
from sim_backend.plant.registry import prepare
from sim_backend.server import device_files
from sim_backend.world import SIMULATED_UTC_NS, WorldSetup, contact_message, port_names
from vehicled import __version__
from vehicled.core.errors import UserError
from vehicled.core.link import Hello, LinkError
from vehicled.core.plain_text import printable
from vehicled.runtime.loop import PreciseSelector
from vehicled.runtime.simulator import add_options

REPORT_S, WATCHED_REPORT_S = 0.5, 0.1
"""Interval of the progress lines, s, and where a page shows the other traffic."""
TERMINATED = 128 + signal.SIGTERM
BAD_INPUT = 2


class FleetTerminated(BaseException):
    """SIGTERM, or the end of the command."""

    def __str__(self) -> str:
        return "terminated"


def main(_: list[str] | None = None) -> int:
    """Run the simulator of a fleet and return its exit status."""
    # Ctrl-C and hang-up are for the daemons, which stop their vehicles first.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        order = msgspec.json.decode(sys.stdin.buffer.readline(), type=FleetOrder)
        try:
            members, listeners = _members(order)
            check_members(members)
            for member in members:
                prepare(member.setup.profile.sim)
            # Both clocks refuse here what cannot be simulated.
            fleet = _fleet(members, order, START_NS, SIMULATED_UTC_NS)
        except UserError as error:
            _say(str(error))
            return BAD_INPUT
        _write(FleetReady())
        if order.clock == "wall":
            _serve_in_wall_time(members, listeners, order)
        else:
            _serve(fleet, members, listeners, order)
    except FleetTerminated:
        return TERMINATED
    return 0


def _members(order: FleetOrder) -> tuple[list[FleetMember], dict[str, Listener]]:
    """Load and check each vehicle by itself. Raises :class:`UserError` with its name."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_options(parser)
    members, listeners = list[FleetMember](), dict[str, Listener]()
    for vehicle in order.vehicles:
        options = parser.parse_args(vehicle.arguments)
        listeners[vehicle.name] = Listener(options.listen)
        try:
            members.append(FleetMember(vehicle.name, world_setup(options), vehicle.delay_s))
        except UserError as error:
            raise UserError(f"vehicle {vehicle.name}: {error}") from error
    return members, listeners


def _fleet(members: list[FleetMember], order: FleetOrder, start_ns: int, utc_ns: int) -> Fleet:
    channel = RadioChannel(order.radio, order.seed)
    lags = order.clock == "wall"
    return Fleet(members, start_ns, utc_ns, channel, traced=order.trace, lags=lags, seed=order.seed)


def _serve(
    fleet: Fleet, members: list[FleetMember], listeners: dict[str, Listener], order: FleetOrder
) -> None:
    setups = {member.name: member.setup for member in members}
    served = list[Member]()
    for vehicle in fleet.vehicles:
        member = Member(vehicle, Peer(listeners[vehicle.name].accept()), START_NS)
        try:
            _greet(member.peer, setups[vehicle.name], order)
        except (LinkError, Goodbye) as error:
            member.end(f"its daemon did not start: {error}", START_NS, "absent")
        served.append(member)
    run = FleetLockstep(fleet, served, START_NS, order.timeout_s)
    # Virtual time waits for a collection, so none is made ahead of it.
    gc.freeze()
    _drive(run, fleet, START_NS, order)


def _serve_in_wall_time(
    members: list[FleetMember], listeners: dict[str, Listener], order: FleetOrder
) -> None:
    members = sorted(members, key=lambda member: member.name)
    with ExitStack() as stack, PreciseSelector() as selector:
        served = list[WallMember]()
        for member in members:
            peer = PatientPeer(listeners[member.name].accept())
            files = device_files(member.setup, stack) if member.setup.wires else None
            one = WallMember(peer, port_names(member.setup.profile), files)
            served.append(one)
            try:
                urls = None if files is None else files[0].urls | files[1].urls
                one.shared = _greet(peer, member.setup, order, urls).shared_clock
            except (LinkError, Goodbye) as error:
                one.absent = f"its daemon did not start: {error}"
        for one in served:
            one.await_start(order.greeting_s)
        start_ns = time.monotonic_ns()
        fleet = _fleet(members, order, start_ns, time.time_ns())
        for one, vehicle in zip(served, fleet.vehicles, strict=True):
            one.begin(vehicle, selector)
        run = FleetWall(fleet, served, selector, start_ns, order.timeout_s)
        gc.collect()
        gc.freeze()
        _drive(run, fleet, start_ns, order)


def _drive(run: FleetLockstep | FleetWall, fleet: Fleet, start_ns: int, order: FleetOrder) -> None:
    """Drive until no daemon runs, and write the report."""
    try:
        _turn(run, fleet, start_ns, watched=order.watched and fleet.traffic is not None)
    except BaseException as error:
        # Send the cause; otherwise the daemons would only see their streams end.
        for member in run.running:
            member.peer.goodbye(f"the simulator ends: {str(error) or type(error).__name__}")
        raise
    cars = [[msgspec.structs.astuple(each) for each in trace] for trace in fleet.car_traces]
    reports = [_report(member, start_ns) for member in run.members]
    _write(FleetReport(reports, cars, _car_outline_m(fleet)))


def _car_outline_m(fleet: Fleet) -> tuple[float, float, float]:
    return fleet.traffic.outline if fleet.traffic is not None else (0.0, 0.0, 0.0)


def _turn(run: FleetLockstep | FleetWall, fleet: Fleet, start_ns: int, *, watched: bool) -> None:
    report_s = WATCHED_REPORT_S if watched else REPORT_S
    said_s = time.monotonic()
    while run.turn():
        if time.monotonic() - said_s >= report_s:
            said_s = time.monotonic()
            if select.select([sys.stdin], [], [], 0.0)[0]:
                # The command is gone, and nobody waits for the result.
                raise FleetTerminated
            driven_m = {vehicle.name: vehicle.driven_m for vehicle in fleet.vehicles}
            news = FleetProgress((run.now_ns - start_ns) * 1e-9, len(run.running), driven_m)
            if watched:
                cars = [(each.x_m, each.y_m, each.yaw_rad) for each in fleet.cars]
                news = replace(news, cars=cars, car_outline_m=_car_outline_m(fleet))
            _write(news)


def _greet(
    peer: Peer, setup: WorldSetup, order: FleetOrder, urls: dict[str, str] | None = None
) -> Hello:
    """Exchange greetings. Raises :class:`LinkError` and Goodbye."""
    peer.socket.settimeout(order.greeting_s)
    identity = f"vehicled sim_backend {__version__}"
    hello = peer.greet(port_names(setup.profile), identity, setup.named, urls)
    if hello.clock != order.clock:
        peer.goodbye(f"this fleet drives on the clock {order.clock}")
        raise LinkError(f'it wants the clock "{hello.clock}" in a fleet with "{order.clock}"')
    peer.socket.setblocking(True)
    return hello


def _report(member: FleetDaemon, start_ns: int) -> VehicleReport:
    vehicle = member.vehicle
    assert member.ended_ns is not None
    return VehicleReport(
        name=vehicle.name,
        driven_m=vehicle.driven_m,
        contacts=[contact_message(each, start_ns) for each in vehicle.contacts],
        ended_s=(member.ended_ns - start_ns) * 1e-9,
        why=member.why,
        ending=member.ending,
        awaited_s=member.awaited_s,
        speed_mps=vehicle.motion.speed_mps,
        trace=[msgspec.structs.astuple(each) for each in vehicle.trace],
    )


def _write(what: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise FleetTerminated


def _say(text: str) -> None:
    lines = (printable(line, len(line)) for line in text.splitlines())
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
