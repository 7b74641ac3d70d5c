"""Two ends of a wire in memory: a VESC of the simulator and the real driver, on one clock."""

from collections.abc import Callable
from typing import Any

from drivers.vesc.device import VescCan, VescUart
from drivers.vesc.params import CanParams, UartParams
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.vesc import VescCanEmulator, VescUartEmulator
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Message,
    Mode,
    MotorStatus,
    PortState,
    WheelSpeed,
)
from vehicled.core.ports import Send
from vehicled.profile.schema import Choice, DeviceTable

MS = 1_000_000
START_NS = 1_000_000_000
LATENCY_NS = 4 * MS
WANTED = (MotorStatus, WheelSpeed)


def device(driver: str, port: str = "", rate_hz: float = 50.0, **params: Any) -> DeviceTable:
    """The table of a VESC in a profile, with its driver's parameters."""
    made = CanParams(**params) if driver == "vesc_can" else UartParams(**params)
    return DeviceTable(
        driver=Choice(name=driver, params={driver: made}),
        port=port,
        messages=["ActuatorCommand", "MotorStatus", "WheelSpeed"],
        rate_hz=rate_hz,
    )


def moving(t_ns: int) -> MotorStatus:
    """A motor that turns steadily."""
    return MotorStatus(t_ns, 0, 100.0, 5.0, 2.5, 11.1, 0.5, 320.0, 330.0)


def standing(t_ns: int) -> MotorStatus:
    """A motor at standstill."""
    return MotorStatus(t_ns, 0, 0.0, 0.0, 0.0, 11.7, 0.0)


class Bench:
    """Runs both in steps of a millisecond, the daemon commanding every 10 ms, the motor sampled
    every 20 ms."""

    def __init__(self, table: DeviceTable, seed: int = 1, **emulated: Any) -> None:
        params = table.driver.selected
        self.driver: VescCan | VescUart
        self.emulator: VescCanEmulator | VescUartEmulator
        if table.driver.name == "vesc_can":
            self.driver = VescCan(params, WANTED, 50 * MS)
            self.emulator = VescCanEmulator("drive", table, seed, START_NS, **emulated)
        else:
            self.driver = VescUart(params, WANTED, 50 * MS)
            self.emulator = VescUartEmulator("drive", table, seed, START_NS, **emulated)
        self.now_ns = START_NS
        self.messages: list[Message] = []
        self.commands: list[DriveCommand] = []
        self.wire: list[tuple[int, bytes]] = []
        """Arrival and bytes of the emulator's output."""
        self._pending: list[tuple[int, bytes]] = []
        self.messages += self.driver.on_port(PortState.OPENED, "", self.now_ns)

    def run(
        self,
        duration_ms: int,
        throttle: float | None = None,
        brake: float = 0.0,
        steering: float = 0.0,
        mode: Mode = Mode.AUTO,
        sample: Callable[[int], MotorStatus] | None = standing,
    ) -> list[Message]:
        """Run for this time and return the driver's messages. No throttle: no commands; no sample:
        a silent motor."""
        begun = len(self.messages)
        for _ in range(duration_ms):
            self.now_ns += MS
            now_ns = self.now_ns
            since_ms = (now_ns - START_NS) // MS
            if sample is not None and since_ms % 20 == 0:
                self.emulator.on_message(sample(now_ns), now_ns + LATENCY_NS)
            if throttle is not None and since_ms % 10 == 0:
                self.driver.on_command(
                    ActuatorCommand(now_ns, now_ns, throttle, brake, steering, 0.0, mode), now_ns
                )
            if self.driver.next_due_ns() <= now_ns:
                self.messages += self.driver.on_time(now_ns)
            for action in self.driver.take_tx():
                assert isinstance(action, Send)
                self.emulator.on_rx(action.data, now_ns)
            if self.emulator.next_due_ns() <= now_ns:
                self.emulator.on_time(now_ns)
            sent = self.emulator.take_tx()
            self.wire += sent
            self._pending += sent
            self.commands += self.emulator.take_commands()
            while self._pending and self._pending[0][0] <= now_ns:
                t_rx_ns, data = self._pending.pop(0)
                self.messages += self.driver.on_rx(data, t_rx_ns)
        return self.messages[begun:]

    def arm(self) -> None:
        """Run the handshake, and the disarmed commands without which nothing may be driven."""
        self.run(400, throttle=0.0, mode=Mode.STANDBY)
        assert self.driver.ready, self.faults
        assert not self.driver.refusal, self.driver.refusal

    @property
    def last(self) -> DriveCommand:
        """Last command that the emulator understood."""
        return self.commands[-1]

    @property
    def faults(self) -> list[tuple[str, bool]]:
        """Starts and ends of faults so far."""
        return [(each.code, each.active) for each in self.messages if isinstance(each, Fault)]

    @property
    def events(self) -> list[Event]:
        """Events so far."""
        return [each for each in self.messages if isinstance(each, Event)]
