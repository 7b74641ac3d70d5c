"""One simulator run: wait for the daemon, greet it, run the world on the requested clock, end with
the daemon."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sim_backend.connection import START_NS, Goodbye, Listener, Peer, boot_id
from sim_backend.emulators.registry import datagram_ports, network_ports, wired_ports
from sim_backend.lockstep import run_lockstep
from sim_backend.plant.interface import VehicleLostError
from sim_backend.plant.registry import prepare
from sim_backend.world import SIMULATED_UTC_NS, WorldSetup, port_names
from vehicled import __version__
from vehicled.core.link import LinkError
from vehicled.profile import plugins

if TYPE_CHECKING:
    # Imported late, because lockstep needs no terminal code.
    from sim_backend.ptys import Ptys
    from sim_backend.sockets import Sockets


def serve(listener: Listener, setup: WorldSetup) -> str:
    """Serve one daemon; return its reason for ending, or that of the vehicle. Raises
    :class:`vehicled.core.link.LinkError`."""
    connection = listener.accept()
    with connection:
        peer = Peer(connection)
        try:
            with ExitStack() as stack:
                if not setup.wires or not listener.inherited:
                    return _run(peer, setup)
                return _run(peer, setup, *device_files(setup, stack))
        except Goodbye as goodbye:
            return str(goodbye)
        except VehicleLostError as error:
            peer.goodbye(str(error))
            return str(error)
        except LinkError as error:
            peer.goodbye(str(error))
            raise
        # Send the cause; otherwise the daemon would only see the stream end.
        except BaseException as error:
            if plugins.place_of(error):
                text = f"the simulator failed: {plugins.describe(error)}"
                peer.goodbye(text)
                raise LinkError(text) from error
            if isinstance(error, Exception):
                peer.goodbye(f"the simulator failed: {plugins.describe(error)}")
            else:
                peer.goodbye(f"the simulator ends: {str(error) or type(error).__name__}")
            raise


def device_files(setup: WorldSetup, stack: ExitStack) -> tuple[Ptys, Sockets]:
    """Return ptys for all devices with a wire, and servers for those that connect to one. Only for
    a daemon on this machine: it opens them in wall time."""
    from tempfile import TemporaryDirectory

    from sim_backend.ptys import Ptys
    from sim_backend.sockets import Sockets

    folder = None
    if any(failure.kind == "usb" for failure in setup.failures):
        # A replugged pty has a new number; the link in the folder keeps its name.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vehicled-")))
    profile = setup.profile
    ptys = stack.enter_context(Ptys(*wired_ports(profile), folder))
    sockets = Sockets(network_ports(profile), datagram_ports(profile))
    return ptys, stack.enter_context(sockets)


def _run(
    peer: Peer, setup: WorldSetup, ptys: Ptys | None = None, sockets: Sockets | None = None
) -> str:
    profile = setup.profile
    urls = None if ptys is None or sockets is None else ptys.urls | sockets.urls
    # Prepare first: after the greeting the daemon expects answers within its timeout.
    prepare(profile.sim)
    hello = peer.greet(
        port_names(profile), f"vehicled sim_backend {__version__}", setup.named, urls
    )
    if hello.clock == "lockstep":
        world = setup.world(START_NS, SIMULATED_UTC_NS)
        # Virtual time waits for a collection, so none is made ahead of it.
        gc.freeze()
        return run_lockstep(peer, world, START_NS)
    # Imported late, because lockstep needs no selector.
    from sim_backend.wall import run_wall, synchronise

    clock = synchronise(peer, same_boot=hello.boot_id != "" and hello.boot_id == boot_id())
    world = setup.world(clock.now_ns(), time.time_ns())
    _settle()
    return run_wall(
        peer, world, clock, port_names(profile), ptys, sockets, shared=hello.shared_clock
    )


def _settle() -> None:
    """Keep long-lived objects out of the garbage collector: a full collection would stall the
    run."""
    gc.collect()
    gc.freeze()
