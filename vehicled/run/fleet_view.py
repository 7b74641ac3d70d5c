"""Live view of a fleet: one page for all vehicles, and the page of each."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from vehicled.core.errors import SetupError
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.control_socket.socket_path import answers, socket_path
from vehicled.live.view.access import new_token
from vehicled.live.view.fleet_wire import FleetVehicleFacts, FleetViewConfig
from vehicled.run.bridges import announce_page, check_view, course_facts
from vehicled.run.fleet import FleetPlan


class FleetView(Struct, frozen=True):
    """Addresses of all pages of a fleet, with one token."""

    host: str
    port: int
    vehicle_ports: dict[str, int]
    names: list[str]
    token: str
    token_file: Path
    taken: list[str]
    """Vehicles whose names other daemons have already."""

    @classmethod
    def of(cls, plan: FleetPlan, address: str, folder: Path) -> "FleetView":
        """Choose addresses: the pages of the vehicles are on the ports after that of the fleet.
        ``folder`` takes the token. Raises :class:`SetupError`."""
        view = plan.vehicles[0].plan.loaded.profile.view
        host, port, token = check_view(view, address)
        names = [each.entry.name for each in plan.vehicles]
        if port + len(names) > 65535:
            raise SetupError(
                f"--view: the pages of {len(names)} vehicles are on the ports after {port}: "
                f"choose one up to {65535 - len(names)}"
            )
        ports = [port + k for k in range(len(names) + 1)] if port else _free(host, len(names) + 1)
        token, file = token or new_token(), folder / "token"
        file.touch(mode=0o600)
        file.write_text(token)
        return cls(
            host,
            ports[0],
            dict(zip(names, ports[1:], strict=True)),
            view.names,
            token,
            file,
            [name for name in names if answers(socket_path(name))],
        )

    def arguments(self, name: str) -> list[str]:
        """Return the arguments for the daemon of a vehicle."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return [
            "--view", f"{host}:{self.vehicle_ports[name]}",
            "--set", f"view.token_file={self.token_file}", "--set", 'view.token_credential=""',
        ]  # fmt: skip

    def start(self, plan: FleetPlan, pids: Mapping[str, int]) -> BridgeProcess:
        """Start the process of the page and print its address. ``pids``: those of the daemons.
        Raises BridgeError."""
        facts = [
            FleetVehicleFacts(
                name=each.entry.name,
                control_socket=str(self._socket(each.entry.name, pids[each.entry.name])),
                view_port=self.vehicle_ports[each.entry.name],
                course=course_facts(each.plan.course),
                outline_m=each.plan.loaded.profile.vehicle.outline,
            )
            for each in plan.vehicles
        ]
        config = FleetViewConfig(
            host=self.host, port=self.port, token=self.token, names=self.names, vehicles=facts
        )
        process = BridgeProcess.start(
            "the live view of the fleet", "vehicled.live.view.fleet_server", config
        )
        announce_page("live view of the fleet", self.host, process.port, self.token)
        return process

    def _socket(self, name: str, pid: int) -> Path:
        # As the daemon chooses it.
        return socket_path(f"{name}-{pid}" if name in self.taken else name)


def _free(host: str, count: int) -> list[int]:
    """Return free ports."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(family)) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return [int(each.getsockname()[1]) for each in sockets]
