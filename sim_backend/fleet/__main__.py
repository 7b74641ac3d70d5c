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
from types import FrameType
from typing import Any

import msgspec

from sim_backend.connection import START_NS, Goodbye, Listener, Peer
from sim_backend.fleet.fleet import Fleet, FleetMember, check_members
from sim_backend.fleet.lockstep import FleetLockstep, Member
from sim_backend.fleet.order import (
    FleetOrder,
    FleetProgress,
    FleetReady,
    FleetReport,
    VehicleReport,
)
from sim_backend.fleet.radio import RadioChannel
from sim_backend.options import world_setup
from sim_backend.plant.registry import prepare
from sim_backend.world import SIMULATED_UTC_NS, WorldSetup, contact_message, port_names
from vehicled import __version__
from vehicled.core.errors import UserError
from vehicled.core.link import LinkError
from vehicled.core.plain_text import printable
from vehicled.runtime.simulator import add_options

REPORT_S = 0.5
"""Interval of the progress lines, s."""
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
            channel = RadioChannel(order.radio, order.seed)
            fleet = Fleet(members, START_NS, SIMULATED_UTC_NS, channel, traced=order.trace)
        except UserError as error:
            _say(str(error))
            return BAD_INPUT
        _write(FleetReady())
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


def _serve(
    fleet: Fleet, members: list[FleetMember], listeners: dict[str, Listener], order: FleetOrder
) -> None:
    setups = {member.name: member.setup for member in members}
    served = list[Member]()
    for vehicle in fleet.vehicles:
        member = Member(vehicle, Peer(listeners[vehicle.name].accept()), START_NS)
        member.peer.socket.settimeout(order.greeting_s)
        try:
            _greet(member.peer, setups[vehicle.name])
        except (LinkError, Goodbye) as error:
            member.end(f"its daemon did not start: {error}", START_NS, "absent")
        served.append(member)
    run = FleetLockstep(fleet, served, START_NS, order.timeout_s)
    # Virtual time waits for a collection, so none is made ahead of it.
    gc.freeze()
    try:
        _drive(run, fleet)
    except BaseException as error:
        # Send the cause; otherwise the daemons would only see their streams end.
        for member in run.running:
            member.peer.goodbye(f"the simulator ends: {str(error) or type(error).__name__}")
        raise
    _write(FleetReport([_report(member) for member in run.members]))


def _drive(run: FleetLockstep, fleet: Fleet) -> None:
    said_s = time.monotonic()
    while run.turn():
        if time.monotonic() - said_s >= REPORT_S:
            said_s = time.monotonic()
            if select.select([sys.stdin], [], [], 0.0)[0]:
                # The command is gone, and nobody waits for the result.
                raise FleetTerminated
            driven_m = {vehicle.name: vehicle.driven_m for vehicle in fleet.vehicles}
            _write(FleetProgress((run.now_ns - START_NS) * 1e-9, len(run.running), driven_m))


def _greet(peer: Peer, setup: WorldSetup) -> None:
    profile = setup.profile
    world = {
        "profile": profile.name,
        "plant": profile.sim.plant,
        "course": setup.course.name,
        "seed": str(setup.seed),
        "link": "wires" if setup.wires else "messages",
    }
    if latency := str(profile.sim.latency):
        world["latency"] = latency
    hello = peer.greet(port_names(profile), f"vehicled sim_backend {__version__}", world)
    if hello.clock != "lockstep":
        peer.goodbye("a fleet drives in lockstep")
        raise LinkError(f'it wants the clock "{hello.clock}"; a fleet drives in lockstep')
    peer.socket.setblocking(True)


def _report(member: Member) -> VehicleReport:
    vehicle = member.vehicle
    assert member.ended_ns is not None
    return VehicleReport(
        name=vehicle.name,
        driven_m=vehicle.driven_m,
        contacts=[contact_message(each, START_NS) for each in vehicle.contacts],
        ended_s=(member.ended_ns - START_NS) * 1e-9,
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
