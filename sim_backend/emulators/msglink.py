"""A device that speaks our own messages: what every device is on the message link."""

from drivers.msglink.codec import Decoder, encode
from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.outbox import Outbox
from vehicled.messages import ActuatorCommand, Message


class MsgLinkEmulator(Outbox):
    """Sends messages as they are, without delay; an actuator understands commands."""

    def __init__(self, *, actuator: bool) -> None:
        super().__init__()
        self._actuator = actuator
        self._decoder = Decoder()
        self.unexpected = 0
        """Messages of the daemon that mean nothing to a device."""

    @property
    def dropped_bytes(self) -> int:
        """Bytes of the daemon that belonged to no sound frame."""
        return self._decoder.dropped_bytes

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Send it."""
        self._tx.append((ready_ns, encode(message)))

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Take commands."""
        for message in self._decoder.feed(data):
            if self._actuator and isinstance(message, ActuatorCommand):
                self._commands.append(DriveCommand(t_ns, message.throttle, message.brake, message.steering))
            else:
                self.unexpected += 1

    def on_line(self, baud: int, t_ns: int) -> None:
        """A link has no line rate."""

    def next_due_ns(self) -> int:
        """No duties."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> None:
        """Nothing to do."""
