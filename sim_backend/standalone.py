"""World behind ptys alone, for a daemon that is not in simulation mode: its profile names the ptys
as devices.

The devices run from the start, as on a vehicle with its battery on. The operator arms the vehicle
and starts the drive each time the operator's port is opened. Runs until it is stopped.
"""

import os
import selectors
import sys
import time
from collections.abc import Callable
from math import hypot
from pathlib import Path

from msgspec.structs import replace

from sim_backend.emulators.registry import datagram_ports, network_ports, wired_ports
from sim_backend.hand import HandError, parse_move
from sim_backend.ptys import Ptys
from sim_backend.sockets import Sockets
from sim_backend.terminals import Terminals, absent
from sim_backend.wall import SLICE_NS
from sim_backend.world import OPERATOR_PORT, WorldSetup, port_names
from vehicled.core.plain_text import printable
from vehicled.runtime.loop import PreciseSelector

CHECK_INTERVAL_NS = 50_000_000
"""Interval between checks of the operator's port, ns."""


class Standalone:
    """One vehicle behind ptys in a folder; a context manager."""

    def __init__(self, setup: WorldSetup, folder: Path, moves: int | None = None) -> None:
        """Open the ports. ``moves``: descriptor from which a person's moves are read, a line each.
        Raises OSError if a pty or the folder is unusable, and :class:`sim_backend.hand.HandError`.
        """
        profile = setup.profile
        self._names = port_names(profile)
        operator = profile.devices.get(OPERATOR_PORT)
        self._has_operator = (
            setup.scenario and operator is not None and operator.driver.name == "msglink"
        )
        rates, can_ports = wired_ports(profile)
        watched = [OPERATOR_PORT] if self._has_operator else []
        now_ns = time.monotonic_ns()
        self._world = replace(setup, scenario=False).world(now_ns, time.time_ns())
        self._ptys = Ptys(
            rates | dict.fromkeys(watched, 0),
            can_ports,
            folder,
            watched=watched,
            absent=absent(self._world, self._names, now_ns),
        )
        self._sockets = Sockets(network_ports(profile), datagram_ports(profile))
        self._moves = moves
        self._unread = b""
        if moves is not None:
            self._world.by_hand()
        self._reached_ns = now_ns
        self._attended = False
        self.driven_m = 0.0
        """Distance driven by the true vehicle."""

    @property
    def settings(self) -> list[str]:
        """Lines for the daemon's profile or its ``--set``: the address of each device."""
        return [
            f'devices.{port}.port="{url}"'
            for port, url in (self._ptys.urls | self._sockets.urls).items()
        ]

    def run(self, over: Callable[[], bool] = lambda: False) -> None:
        """Run in real time until ``over()``, which is called at least every
        ``CHECK_INTERVAL_NS``."""
        world = self._world
        with PreciseSelector() as selector:
            terminals = Terminals(self._ptys, self._sockets, world, self._names, selector)
            if self._moves is not None:
                selector.register(self._moves, selectors.EVENT_READ)
            look_ns = 0
            while not over():
                now_ns = time.monotonic_ns()
                if now_ns >= look_ns:
                    look_ns = now_ns + CHECK_INTERVAL_NS
                    self._check_operator_port(now_ns)
                # A late simulator catches up in slices and reads the commands in between.
                self._reached_ns = min(now_ns, self._reached_ns + SLICE_NS)
                before = world.motion
                for _, port, payload in world.advance(self._reached_ns):
                    terminals.write(port, payload)
                after = world.motion
                self.driven_m += hypot(after.x_m - before.x_m, after.y_m - before.y_m)
                terminals.follow(self._reached_ns)
                wait_ns = (
                    0
                    if self._reached_ns < now_ns
                    else min(world.next_wake_ns(), look_ns) - time.monotonic_ns()
                )
                ready = [key.fd for key, _ in selector.select(max(0, wait_ns) * 1e-9)]
                terminals.read(ready, time.monotonic_ns())
                if self._moves in ready:
                    self._read_moves(selector)

    def _read_moves(self, selector: selectors.BaseSelector) -> None:
        """Read the lines of the person who moves the vehicle, and say which are none."""
        assert self._moves is not None
        data = os.read(self._moves, 4096)
        if not data:
            selector.unregister(self._moves)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in filter(bytes.strip, lines):
            try:
                self._world.by_hand().do(parse_move(line.decode("ascii", "replace")))
            except HandError as error:
                sys.stderr.write(f"simulator: {printable(str(error))}\n")

    def _check_operator_port(self, now_ns: int) -> None:
        attended = (
            self._has_operator
            and self._ptys.plugged(OPERATOR_PORT)
            and self._ptys.opened(OPERATOR_PORT)
        )
        if attended and not self._attended:
            self._world.begin_scenario(now_ns)
        self._attended = attended

    def close(self) -> None:
        """Close ptys and sockets, and remove the links. Idempotent."""
        self._ptys.close()
        self._sockets.close()

    def __enter__(self) -> "Standalone":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
