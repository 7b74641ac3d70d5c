"""A scanner on a table: driver and emulator with the line between them, and a scene around, without
a vehicle."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim_backend.emulators.failures import parse_failure
from sim_backend.emulators.lidar import sweep
from sim_backend.emulators.point_lidar import point_sweep
from sim_backend.emulators.registry import emulator
from sim_backend.plant.interface import Motion
from sim_backend.scene.reading import load_scene
from sim_backend.sensors.lidar import Lidar
from sim_backend.sensors.point_lidar import PointLidarSensor
from sim_backend.terrain.reading import load_terrain
from vehicled.core.messages import Event, Fault, HeightMap, LaserScan, Message, PortState
from vehicled.core.ports import Send
from vehicled.daemon.app import COMMAND_LIFETIME_NS
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.profile.registry import resolve

MS = 1_000_000
SECOND = 1_000_000_000
STILL = Motion(*(0.0,) * 10)
ROOM = "[[wall]]\npoints = [[-3, -2], [4, -2], [4, 2], [-3, 2]]\nclosed = true\n"
"""Walls 4 m ahead, 3 m behind, 2 m on both sides of the rear axle."""

FAMILIES: dict[str, tuple[str, str]] = {
    "rplidar": ("a1", "serial:/dev/ttyUSB9?baud=115200&dtr=off"),
    "ydlidar": ("g4", "serial:/dev/ttyUSB9?baud=230400"),
    "ldrobot": ("ld19", "serial:/dev/ttyUSB9?baud=230400"),
    "hokuyo": ("urg04lx", "serial:/dev/ttyACM9"),
    "sick": ("tim571", "tcp:192.168.0.1:2112"),
}
"""A model and its address of each family of scanners."""
RATES_HZ = {"rplidar": 5.5, "ydlidar": 7.0, "ldrobot": 10.0, "hokuyo": 10.0, "sick": 15.0}
MODELS: dict[str, dict[str, int]] = {
    family: {name: model.baud for name, model in resolve("driver", family).models.items()}
    for family in FAMILIES
}
"""Models of each family, with their line rates."""


POINT_FAMILIES = {
    "velodyne": ("vlp16", "udp:192.168.1.201:2368?listen=2368"),
    "ouster": ("os1", "udp:169.254.1.2:7502?listen=7502"),
}
"""The same of 3-D scanners."""


def scanner(family: str, model: str = "", port: str = "", **params: object) -> list[str]:
    """Overrides of a profile that put a scanner at its front. ``params`` are those of its
    driver."""
    first, address = (FAMILIES | POINT_FAMILIES)[family]
    model = model or first
    baud = MODELS.get(family, {}).get(model, 0)
    table = f"devices.scanner.driver.{family}"
    rate_hz = resolve("driver", family).models[model].rate_hz
    address = port or (f"serial:/dev/ttyUSB9?baud={baud}" if baud else address)
    return [
        f'devices.scanner.port="{address}"', f"devices.scanner.driver.name={family}",
        f"{table}.model={model}",
        *[f"{table}.{key}={value}" for key, value in params.items()],
        'devices.scanner.messages=["LaserScan"]',
        f"devices.scanner.rate_hz={params.get('rate_hz', rate_hz)}",
        "devices.scanner.lever_arm_m=[0.45, 0.0, 0.15]",
    ]  # fmt: skip


class Bench:
    """Driver and emulator of one scanner in a scene."""

    def __init__(
        self,
        tmp_path: Path,
        overrides: Sequence[str],
        failures: Sequence[str] = (),
        scene: str = ROOM,
        motion: Motion = STILL,
        more: Sequence[type[Message]] = (),
    ) -> None:
        """``more``: messages that the driver gives beside scans."""
        profile = load_profile("art_vesc", [*overrides, "sim.lidar.drop_share=0.0"])
        table = profile.devices["scanner"]
        file = tmp_path / "room.toml"
        file.write_text(scene)
        forward, left, up = arm = table.lever_arm_m
        surroundings = load_scene(str(file), load_course("lot17"))
        self.sensor: Any
        if points := point_sweep(table, profile.sim.lidar):
            terrain = load_terrain(profile.sim.terrain)
            place = (forward, left, up)
            self.sensor = PointLidarSensor(points, place, surroundings, terrain, 1, "scanner", 0)
        else:
            model, parts = sweep(table, profile.sim.lidar)
            self.sensor = Lidar(model, (forward, left, up), surroundings, 1, "scanner", 0, parts)
        self.emulator: Any = emulator(
            "scanner", table, 1, 0, wires=True, failures=[parse_failure(each) for each in failures]
        )
        self.device = resolve("driver", table.driver.name)(
            table.driver.selected, [LaserScan, *more], COMMAND_LIFETIME_NS
        )
        self.device.mount(arm)
        self.motion = motion
        self.scans: list[LaserScan] = []
        self.faults: list[Fault] = []
        self.events: list[Event] = []
        self.maps: list[HeightMap] = []
        self.now_ns = 0
        self._samples = 0
        self._arriving: list[tuple[int, bytes]] = []
        self._take(self.device.on_port(PortState.OPENED, "", 0))

    @property
    def unit(self) -> Any:
        """Emulated device itself."""
        line = getattr(self.emulator, "emulator", self.emulator)
        return line.device

    def open(self) -> None:
        """Lose the port, and open it again."""
        self._take(self.device.on_port(PortState.LOST, "unplugged", self.now_ns))
        self._take(self.device.on_port(PortState.OPENED, "again", self.now_ns))
        self.emulator.on_line(0, self.now_ns)

    def run(self, seconds: float) -> "Bench":
        """Go on for so long, in steps of a millisecond."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while self.now_ns < end_ns:
            self.now_ns += MS
            now_ns = self.now_ns
            while (due_ns := round((self._samples + 1) * SECOND / self.sensor.rate_hz)) <= now_ns:
                self._samples += 1
                ready_ns, scan = self.sensor.sample(due_ns, self.motion)
                self.emulator.on_message(scan, ready_ns)
            self.emulator.on_time(now_ns)
            self._arriving += self.emulator.take_tx()
            while self._arriving and self._arriving[0][0] <= now_ns:
                t_ns, data = self._arriving.pop(0)
                self._take(self.device.on_rx(data, t_ns))
            if self.device.next_due_ns() <= now_ns:
                self._take(self.device.on_time(now_ns))
            for action in self.device.take_tx():
                if isinstance(action, Send):
                    self.emulator.on_rx(action.data, now_ns)
        return self

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, LaserScan):
                self.scans.append(message)
            elif isinstance(message, Fault):
                self.faults.append(message)
            elif isinstance(message, Event):
                self.events.append(message)
            elif isinstance(message, HeightMap):
                self.maps.append(message)
