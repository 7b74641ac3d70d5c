"""Two ends of a wire in memory: a motor controller of the simulator and its driver, on one
clock."""

from typing import Any

from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.registry import emulator
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
from vehicled.core.mixing import Mix, Mixing
from vehicled.core.ports import Send
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Choice, DeviceTable

MS = 1_000_000
START_NS = 1_000_000_000
SAMPLE_MS, COMMAND_MS = 10, 10
TURN_RAD = 6.283185307179586


class Bench:
    """Runs both in steps of a millisecond, with a command every 10 ms and a motor at
    ``turns_per_s``."""

    def __init__(
        self, driver: str, *, mix: dict[str, Mix] | None = None, port: str = "", **params: Any
    ) -> None:
        kind = resolve("driver", driver)
        made = kind.Params(**params)
        self.table = DeviceTable(
            driver=Choice(name=driver, params={driver: made}),
            port=port or "serial:/dev/null?baud=115200",
            messages=["ActuatorCommand", "MotorStatus", "WheelSpeed"],
            rate_hz=50.0,
            mix=mix or {},
        )
        self.driver = kind(made, (MotorStatus, WheelSpeed), 50 * MS)
        if mix:
            self.driver.mix(Mixing([mix.get(name, Mix()) for name in kind.actuator_outputs]))
        self.emulator: Any = emulator("drive", self.table, 1, START_NS, wires=True)
        self.now_ns = START_NS
        self.messages: list[Message] = []
        self.commands: list[DriveCommand] = []
        self.sent: list[bytes] = []
        self.turns_per_s = 0.0
        self.connected = True
        self._pending: list[tuple[int, bytes]] = []
        self.messages += self.driver.on_port(PortState.OPENED, "", self.now_ns)

    def run(
        self,
        duration_ms: int,
        throttle: float | None = 0.0,
        *,
        brake: float = 0.0,
        mode: Mode = Mode.STANDBY,
    ) -> list[Message]:
        """Run for this time and return the driver's messages. No throttle: no commands."""
        begun = len(self.messages)
        for _ in range(duration_ms):
            self.now_ns += MS
            now_ns, since_ms = self.now_ns, (self.now_ns - START_NS) // MS
            if since_ms % SAMPLE_MS == 0:
                sample = MotorStatus(now_ns, 0, TURN_RAD * self.turns_per_s, 3.0, 1.5, 24.0, 0.1)
                self.emulator.on_message(sample, now_ns)
            if throttle is not None and since_ms % COMMAND_MS == 0:
                self.driver.on_command(
                    ActuatorCommand(now_ns, now_ns, throttle, brake, 0.0, 0.0, mode), now_ns
                )
            self.emulator.on_time(now_ns)
            self._pending += self.emulator.take_tx()
            for t_ns, data in [each for each in self._pending if each[0] <= now_ns]:
                if self.connected:
                    self.messages += self.driver.on_rx(data, t_ns)
            self._pending = [each for each in self._pending if each[0] > now_ns]
            if self.driver.next_due_ns() <= now_ns:
                self.messages += self.driver.on_time(now_ns)
            for action in self.driver.take_tx():
                assert isinstance(action, Send)
                self.sent.append(action.data)
                if self.connected:
                    self.emulator.on_rx(action.data, now_ns)
            self.commands += self.emulator.take_commands()
        return self.messages[begun:]

    @property
    def faults(self) -> list[str]:
        """Codes of the faults that are active."""
        active: dict[str, bool] = {}
        for message in self.messages:
            if isinstance(message, Fault):
                active[message.code] = message.active
        return [code for code, is_active in active.items() if is_active]

    @property
    def events(self) -> list[str]:
        return [message.name for message in self.messages if isinstance(message, Event)]

    def newest(self, kind: type[Message]) -> Any:
        return next(message for message in reversed(self.messages) if isinstance(message, kind))
