"""Connection between a world and the ptys and sockets of its devices: bytes both ways, line rates,
unplugging."""

import selectors
from collections.abc import Iterable, Sequence

from sim_backend.emulators.caster import Caster
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.ptys import Ptys
from sim_backend.sockets import Sockets
from sim_backend.world import World


def absent(world: World, names: Sequence[str], now_ns: int) -> list[str]:
    """Return the ports that are unplugged at ``now_ns``."""
    devices = [(name, world.emulator(number)) for number, name in enumerate(names)]
    return [
        name
        for name, device in devices
        if isinstance(device, FailingEmulator) and not device.plugged(now_ns)
    ]


class Terminals:
    """Carries data between ptys, sockets and world. ``names`` are the ports of the world by
    number."""

    def __init__(
        self,
        ptys: Ptys,
        sockets: Sockets,
        world: World,
        names: Sequence[str],
        selector: selectors.BaseSelector,
    ) -> None:
        self._ptys = ptys
        self._sockets = sockets
        self._world = world
        self._selector = selector
        self._server = {number: name for number, name in enumerate(names) if name in sockets.urls}
        for number in self._server:
            device = world.emulator(number)
            sound = device.emulator if isinstance(device, FailingEmulator) else device
            if isinstance(sound, Caster):
                sound.hangs_up = True
        sockets.register(selector)
        self._name = {number: name for number, name in enumerate(names) if name in ptys.urls}
        self._number = {name: number for number, name in (self._name | self._server).items()}
        self._pulled = {}
        for number, name in self._name.items():
            device = world.emulator(number)
            if isinstance(device, FailingEmulator):
                self._pulled[name] = device
        for descriptor in ptys.descriptors:
            selector.register(descriptor, selectors.EVENT_READ)

    def follow(self, now_ns: int) -> None:
        """Plug and unplug the ports as the failures require now. Raises OSError if no pty can be
        made."""
        for name, device in self._pulled.items():
            if device.plugged(now_ns) is self._ptys.plugged(name):
                continue
            if self._ptys.plugged(name):
                # Unregister before closing, because the number may be reused at once.
                if (descriptor := self._ptys.descriptor(name)) in self._ptys.descriptors:
                    self._selector.unregister(descriptor)
                self._ptys.unplug(name)
            else:
                self._ptys.plug(name)
                if (descriptor := self._ptys.descriptor(name)) in self._ptys.descriptors:
                    self._selector.register(descriptor, selectors.EVENT_READ)
                self._world.on_line(self._number[name], now_ns, 0)

    def write(self, number: int, data: bytes) -> bool:
        """Write a device's bytes; return False if the port is behind no pty and no socket."""
        if number in self._server:
            self._sockets.write(self._server[number], data)
            return True
        name = self._name.get(number)
        if name is None:
            return False
        self._ptys.write(name, data)
        return True

    def read(self, ready: Iterable[int], now_ns: int) -> None:
        """Read the daemon's bytes and pass them to the world."""
        for name, data in self._sockets.read(ready):
            if data is None:
                self._world.on_line(self._number[name], now_ns, 0)
            else:
                self._world.on_frame(self._number[name], now_ns, data)
        for descriptor in set(self._ptys.descriptors).intersection(ready):
            name, data, baud = self._ptys.read(descriptor)
            if baud is not None:
                self._world.on_line(self._number[name], now_ns, baud)
            if data:
                self._world.on_frame(self._number[name], now_ns, data)
