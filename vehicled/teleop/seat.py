"""Who sits at the stick, and what becomes of its wishes: taking the vehicle, stopping, leaving. Pure."""

from collections.abc import Sequence
from typing import Any

from vehicled.teleop.reading import Reading, Wish

STALL_NS = 250_000_000
"""A front end that slept longer than this has not watched the hand: what is held must be held anew."""


class Seat:
    """Between a source and the daemon: which readings are sent, and which requests."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.seated = False
        """Readings are sent. Not before somebody asks to drive, so that a front end that only looks on disturbs nobody."""
        self.leaving = False
        self._drove = False
        self._sequence = 0
        self.mode = ""
        self.why = ""

    def wish(self, wishes: Sequence[Wish]) -> list[str]:
        """Actions to ask the daemon for, in this order."""
        actions: list[str] = []
        for wish in wishes:
            match wish:
                case Wish.TAKE:
                    self.seated = True
                    if self.mode in ("INIT", "STANDBY", "FAULT", ""):
                        actions.append("arm")
                    actions.append("teleop")
                case Wish.STOP:
                    self.seated = False
                    actions.append("stop")
                case Wish.EMERGENCY:
                    self.seated = False
                    actions.append("emergency_stop")
                case Wish.LEAVE:
                    self.leaving = True
                    actions.append("disarm")
        return actions

    def hear(self, status: dict[str, Any]) -> None:
        """The daemon's state. A drive that it ended is over: to drive again is to ask again."""
        self.mode, self.why = str(status["mode"]), str(status["why"])
        ours = self.mode == "TELEOP" and self.why.endswith(self.origin)
        if self._drove and not ours:
            self.seated = False
        self._drove = ours

    def request(self, reading: Reading) -> dict[str, Any] | None:
        """A reading as a request, each with a number of its own; None while nobody is seated."""
        if not self.seated:
            return None
        self._sequence = (self._sequence + 1) % 2**32
        return {
            "do": "hand",
            "steering": reading.steering,
            "throttle": reading.throttle,
            "brake": reading.brake,
            "deadman": reading.deadman,
            "sequence": self._sequence,
            "origin": self.origin,
        }

    def unplugged(self) -> dict[str, Any] | None:
        """The last that is to be heard of a stick; None when nothing was ever heard of it."""
        if self._sequence == 0:
            return None
        self.seated = False
        last = {"steering": 0.0, "throttle": 0.0, "brake": 1.0, "deadman": False, "unplugged": True}
        return {"do": "hand", **last, "sequence": self._sequence, "origin": self.origin}
