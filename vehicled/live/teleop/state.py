"""State of a teleop session: turns requests of the driver into actions for the daemon. Pure."""

from collections.abc import Sequence
from typing import Any

from vehicled.live.control_socket.protocol import Action, TeleopRequest
from vehicled.live.teleop.reading import Reading, TeleopRequestKind

STALL_NS = 250_000_000
"""Longest pause of the front end; after a longer one the deadman must be pressed again, because its
state was not observed."""


class TeleopState:
    """Decides which readings and requests are sent from a source to the daemon."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.active = False
        """True while readings are sent: only after a request to drive, so that an observer does not
        interfere."""
        self.leaving = False
        self._was_driving = False
        self._sequence = 0
        self.mode = ""
        self.why = ""

    def actions_for(self, requests: Sequence[TeleopRequestKind]) -> list[Action]:
        """Return the actions to request from the daemon, in order."""
        actions: list[Action] = []
        for request in requests:
            match request:
                case TeleopRequestKind.TAKE:
                    self.active = True
                    if self.mode in ("INIT", "STANDBY", "FAULT", ""):
                        actions.append("arm")
                    actions.append("teleop")
                case TeleopRequestKind.STOP:
                    self.active = False
                    actions.append("stop")
                case TeleopRequestKind.EMERGENCY:
                    self.active = False
                    actions.append("emergency_stop")
                case TeleopRequestKind.LEAVE:
                    self.leaving = True
                    actions.append("disarm")
        return actions

    def on_message(self, status: dict[str, Any]) -> None:
        """Process the daemon's state. If the daemon ended the drive, it must be requested again."""
        self.mode, self.why = str(status["mode"]), str(status["why"])
        ours = self.mode == "TELEOP" and status.get("driver") == self.origin
        if self._was_driving and not ours:
            self.active = False
        self._was_driving = ours

    def request(self, reading: Reading) -> TeleopRequest | None:
        """Return a reading as a numbered request; None while not driving."""
        if not self.active:
            return None
        self._sequence = (self._sequence + 1) % 2**32
        return TeleopRequest(
            steering=reading.steering,
            throttle=reading.throttle,
            brake=reading.brake,
            deadman=reading.deadman,
            sequence=self._sequence,
            origin=self.origin,
        )

    def unplugged(self) -> TeleopRequest | None:
        """Return the final request of a lost input device; None if no reading was ever sent."""
        if self._sequence == 0:
            return None
        self.active = False
        return TeleopRequest(
            steering=0.0,
            throttle=0.0,
            brake=1.0,
            deadman=False,
            sequence=self._sequence,
            origin=self.origin,
            unplugged=True,
        )
