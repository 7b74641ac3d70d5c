"""One run: wait for the daemon, greet it, run the world on the clock that it wants, and end when it ends."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sim_backend.connection import START_NS, Goodbye, Listener, Peer, boot_id
from sim_backend.emulators.failures import Failure
from sim_backend.emulators.registry import CAN_DRIVERS
from sim_backend.lockstep import run_lockstep
from sim_backend.plant.interface import VehicleLostError
from sim_backend.plant.registry import prepare
from sim_backend.scenario import Start
from sim_backend.world import SIMULATED_UTC_NS, World, port_names
from vehicled import __version__
from vehicled.link import LinkError
from vehicled.paths.course import Course
from vehicled.profile.schema import Profile

_BAUD = re.compile(r"[?&]baud=(\d{1,8})(?:&|$)")

if TYPE_CHECKING:
    # Loads the terminal code, which lockstep has no use for.
    from sim_backend.ptys import Ptys


def serve(
    listener: Listener,
    profile: Profile,
    course: Course,
    seed: int,
    *,
    wires: bool = False,
    failures: Sequence[Failure] = (),
    scenario: bool = True,
    start: Start | None = None,
) -> str:
    """Serve one daemon; returns its reason for ending, or the vehicle's. Without ``scenario`` nobody in here arms the vehicle.

    Raises :class:`vehicled.link.LinkError` for a disorderly end.
    """
    connection = listener.accept()
    with connection:
        peer = Peer(connection)
        try:
            with ExitStack() as stack:
                ptys = _ptys(profile, failures, stack) if wires and listener.inherited else None
                return _run(peer, profile, course, seed, wires, failures, ptys, scenario, start)
        except Goodbye as goodbye:
            return str(goodbye)
        except VehicleLostError as error:
            peer.goodbye(str(error))
            return str(error)
        except LinkError as error:
            peer.goodbye(str(error))
            raise
        # The daemon is told before this process ends, whatever the cause; it would otherwise only see the stream end.
        except Exception as error:
            peer.goodbye(f"the simulator failed: {type(error).__name__}: {error}")
            raise
        except BaseException as ending:
            peer.goodbye(f"the simulator ends: {str(ending) or type(ending).__name__}")
            raise


def _ptys(profile: Profile, failures: Sequence[Failure], stack: ExitStack) -> Ptys:
    """Terminals for every device that has a wire. Only for a daemon that we share a machine with: it opens them in wall time."""
    from tempfile import TemporaryDirectory

    from sim_backend.ptys import Ptys

    folder = None
    if any(failure.kind == "usb" for failure in failures):
        # What is plugged in again has another number, and the daemon must find it.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vehicled-")))
    wired = {name: device for name, device in profile.devices.items() if device.driver.name != "msglink"}
    # Without a rate in the address there is none: the device is on USB.
    rates = {name: int(rate[1]) if (rate := _BAUD.search(device.port)) else 0 for name, device in wired.items()}
    can_ports = [name for name, device in wired.items() if device.driver.name in CAN_DRIVERS]
    return stack.enter_context(Ptys(rates, can_ports, folder))


def _run(
    peer: Peer,
    profile: Profile,
    course: Course,
    seed: int,
    wires: bool,
    failures: Sequence[Failure],
    ptys: Ptys | None,
    scenario: bool,
    start: Start | None,
) -> str:
    link = "wires" if wires else "messages"
    twin = {"profile": profile.name, "plant": profile.sim.plant, "course": course.name, "seed": str(seed), "link": link}
    urls = ptys.urls if ptys is not None else None
    # From the greeting on the daemon counts on an answer within its timeout.
    prepare(profile.sim)
    hello = peer.greet(port_names(profile), f"vehicled sim_backend {__version__}", twin, urls)
    if hello.clock == "lockstep":
        world = World(
            profile, course, seed, START_NS, SIMULATED_UTC_NS, wires=wires, failures=failures, scenario=scenario, start=start
        )
        _settle()
        return run_lockstep(peer, world, START_NS)
    # Loads the event loop's selector, which lockstep has no use for.
    from sim_backend.wall import run_wall, synchronise

    clock = synchronise(peer, same_boot=hello.boot_id != "" and hello.boot_id == boot_id())
    world = World(
        profile, course, seed, clock.now_ns(), time.time_ns(), wires=wires, failures=failures, scenario=scenario, start=start
    )
    _settle()
    return run_wall(peer, world, clock, port_names(profile), ptys, paced=hello.paced)


def _settle() -> None:
    """Take what lives until the end out of the garbage collector's sight: a full collection would stall the run."""
    gc.collect()
    gc.freeze()
