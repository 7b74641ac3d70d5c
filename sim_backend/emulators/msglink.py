"""Emulator of devices that send the daemon's own messages; all devices of a message link use it."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from drivers.msglink.codec import MsglinkDecoder, encode
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.outbox import EmulatorOutbox
from vehicled.core.messages import ActuatorCommand, Message, MotorStatus, NeighbourState

FAULT, OWN_TIMEOUT = "fault", "own_timeout"
MOTOR_KINDS: Mapping[str, float] = MappingProxyType({FAULT: 4.0, OWN_TIMEOUT: 1.0})
"""Failures of a motor controller: a fault code, which releases the motor; motor commands lost
inside it."""


class MsgLinkEmulator(EmulatorOutbox):
    """Sends messages unchanged, without delay; an actuator accepts commands."""

    def __init__(self, *, actuator: bool) -> None:
        super().__init__()
        self._actuator = actuator
        self._fault_code = 0
        self._deaf = False
        self._decoder = MsglinkDecoder()
        self.broadcasts: list[tuple[int, NeighbourState]] = []
        """States that a radio has sent, with the times at which its port took them."""

    @property
    def dropped_bytes(self) -> int:
        """Number of the daemon's bytes outside valid frames."""
        return self._decoder.dropped_bytes

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Send the message."""
        if self._fault_code and isinstance(message, MotorStatus):
            message = replace(message, fault_code=self._fault_code)
        self._tx.append((ready_ns, encode(message)))

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Decode commands, and what a radio broadcasts."""
        for message in self._decoder.feed(data):
            if isinstance(message, NeighbourState):
                self.broadcasts.append((t_ns, message))
            if not self._actuator or not isinstance(message, ActuatorCommand):
                continue
            if self._fault_code:
                self._commands.append(DriveCommand(t_ns, 0.0, 0.0, message.steering))
            elif not self._deaf:
                self._commands.append(
                    DriveCommand(t_ns, message.throttle, message.brake, message.steering)
                )

    @property
    def kinds(self) -> Mapping[str, float]:
        """Failures with default values, see
        :class:`sim_backend.emulators.failures.FailureInjectable`."""
        return MOTOR_KINDS if self._actuator else {}

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Set a fault code, or start losing commands."""
        if kind == FAULT:
            self._fault_code = min(255, max(0, round(value))) if active else 0
        elif kind == OWN_TIMEOUT:
            self._deaf = active
