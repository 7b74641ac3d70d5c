"""Monitor of the RC operator: is the handset alive, does it have control, and what was switched.

It reads frames as what a person does (:mod:`vehicled.core.rc`). A frame that the receiver marks as
its failsafe or as a repetition, and one that no handset can send, is no reading: the handset counts
as silent. Of a receiver without a checksum, two frames in a row must say that a switch has moved or
a stick takes over.
"""

from math import isfinite
from typing import Any

from vehicled.core.messages import OperatorAction, RcChannels, TeleopCommand
from vehicled.core.ports import NEVER_NS
from vehicled.core.rc import Handset, RcMap
from vehicled.safety.monitors.teleop import NEUTRAL

ORIGIN = "rc"
_REQUESTS = {"auto": OperatorAction.DRIVE, "stop": OperatorAction.STOP}
"""Requests of the mode switch, by the use of the position that it is moved to."""
FRAMES = 5
"""Usable frames in a row after which the handset is alive again: a receiver that finds its handset
sends a few odd ones."""


class RcMonitor:
    """Monitor of one receiver, or of none."""

    def __init__(self, channels: RcMap | None = None) -> None:
        self._map = channels
        self._silence_ns = NEVER_NS if channels is None else round(channels.params.silence_s * 1e9)
        self._still_ns = 0 if channels is None else round(channels.params.still_s * 1e9)
        self._received_ns = self._frame_ns = -NEVER_NS
        self._in_a_row = 0
        self._before: Handset | None = None
        self._switches: Handset | None = None
        """Switch positions that two frames agreed on, of a handset that is alive; None while it is
        not."""
        self._pushed = False
        """True while a stick that took over keeps control."""
        self._rested = False
        """True once the sticks were seen at rest, so that pushing one takes over."""
        self._requests: list[OperatorAction] = []
        self._taken = False
        self._values: tuple[float, ...] = ()
        self._changed_ns = -NEVER_NS
        self.killed = False
        """True while the kill switch is on, and after a loss of the handset until it was seen
        off."""
        self.trouble = ""
        """Why the newest frame was not usable; empty if it was."""
        self.link_quality = float("nan")
        """Fraction of packets that arrive, 0 to 1; NaN if the receiver does not say."""
        self.newest: RcChannels | None = None
        """Newest frame, usable or not, for display."""
        self.unusable = {"failsafe": 0, "repeated": 0, "impossible": 0}
        """Number of frames that were not usable, by reason."""

    # ---------------------------------------------------------------- frames

    def on_message(self, frame: RcChannels, now_ns: int) -> TeleopCommand | None:
        """Take a frame. Return the reading for teleop: while the operator has control, and once
        when he gives it back."""
        self.newest, self._frame_ns = frame, now_ns
        self.link_quality = frame.link_quality
        if self._map is None:
            return None
        if self.age_ns(now_ns) > self._silence_ns:
            self._forget()
        kind, self.trouble = self._problem(frame, now_ns)
        if kind:
            self.unusable[kind] += 1
            self._in_a_row, self._before = 0, None
            return None
        hands = self._map.read(frame.channels)
        before, self._before = self._before, hands
        self._received_ns = min(frame.t_rx_ns, now_ns)
        self._in_a_row += 1
        if self._in_a_row < FRAMES and self._switches is None:
            return None
        held = self.holds(now_ns)
        if self._map.checked or before is not None:
            self._follow(hands if self._map.checked or before is None else before, hands)
        if not (self.holds(now_ns) or held):
            return None
        values = hands.steering, hands.throttle, hands.brake
        return TeleopCommand(frame.t_ns, self._received_ns, *values, self.holds(now_ns), ORIGIN)

    def _problem(self, frame: RcChannels, now_ns: int) -> tuple[str, str]:
        """Return why a frame says nothing of the operator, for the count and in words; empty if it
        does."""
        assert self._map is not None
        if frame.failsafe:
            return "failsafe", "the receiver reports failsafe"
        if frame.frame_lost:
            return "repeated", "the receiver repeats its last frame"
        if frame.channels != self._values:
            self._values, self._changed_ns = frame.channels, now_ns
        elif self._still_ns and now_ns - self._changed_ns > self._still_ns:
            still_s = self._map.params.still_s
            return "repeated", (
                f"no channel has changed for {still_s:g} s, so the receiver repeats its last frame"
            )
        impossible = self._map.problem(frame.channels)
        return ("impossible", impossible) if impossible else ("", "")

    def _follow(self, before: Handset, hands: Handset) -> None:
        """Note what has been switched; ``before`` is the frame that must agree."""
        known = self._switches
        if known is None:
            # The position in which a switch is found is no request.
            if (before.use, before.arm, before.kill) == (hands.use, hands.arm, hands.kill):
                self._switches, self.killed = hands, hands.kill
            return
        use = hands.use if hands.use == before.use else known.use
        arm = hands.arm if hands.arm == before.arm else known.arm
        if hands.kill == before.kill:
            self.killed = hands.kill
        self._switches = hands._replace(use=use, arm=arm)
        if use != known.use:
            self._pushed = self._rested = False
            self._taken = use == "manual"
            if use in _REQUESTS:
                self._requests.append(_REQUESTS[use])
        if arm is not known.arm:
            self._requests.append(OperatorAction.ARM if arm else OperatorAction.DISARM)
            if arm and use == "auto":
                self._requests.append(OperatorAction.DRIVE)
        self._push(before, hands)

    def _push(self, before: Handset, hands: Handset) -> None:
        """Let a stick take over that was at rest and is pushed beyond the profile's threshold."""
        assert self._map is not None
        if least := self._map.params.takeover_stick:
            pushes = [max(abs(each.steering), abs(each.throttle)) for each in (before, hands)]
            if max(pushes) <= NEUTRAL:
                self._rested = True
            elif self._rested and not self._pushed and min(pushes) > least:
                self._pushed = self._taken = True

    def _forget(self) -> None:
        """Begin anew with a handset that was silent: what it switched meanwhile is no request."""
        self._switches = self._before = None
        self._in_a_row = 0
        self._pushed = self._rested = False

    # ---------------------------------------------------------------- state

    @property
    def fitted(self) -> bool:
        """True if the profile has a receiver."""
        return self._map is not None

    @property
    def required(self) -> bool:
        """True if the vehicle may not drive without the handset."""
        return self._map is not None and self._map.params.required

    @property
    def silence_s(self) -> float:
        """Time without a usable frame after which the handset is lost, s."""
        return self._silence_ns * 1e-9

    @property
    def least_link_quality(self) -> float:
        """Link quality below which the daemon warns; 0 without a receiver."""
        return 0.0 if self._map is None else self._map.params.least_link_quality

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last usable frame; ``NEVER_NS`` before the first."""
        return NEVER_NS if self._received_ns == -NEVER_NS else now_ns - self._received_ns

    def alive(self, now_ns: int) -> bool:
        """Return True if usable frames arrive."""
        return self._switches is not None and self.age_ns(now_ns) <= self._silence_ns

    def holds(self, now_ns: int) -> bool:
        """Return True if the operator has control: by the mode switch, or by a stick that was
        pushed."""
        switches = self._switches
        return (
            switches is not None
            and self.alive(now_ns)
            and (switches.use == "manual" or self._pushed)
        )

    def throttle(self, now_ns: int) -> float:
        """Return the throttle of the handset, 0 without one that is alive."""
        return self._switches.throttle if self._switches is not None and self.alive(now_ns) else 0.0

    def take_requests(self) -> list[OperatorAction]:
        """Drain what was switched since the last call."""
        requests, self._requests = self._requests, []
        return requests

    def take_takeover(self) -> bool:
        """Return True once after the operator took over: what stops the vehicle then does not
        outlast it."""
        taken, self._taken = self._taken, False
        return taken

    def disarmed(self) -> None:
        """End the control of a stick that was pushed, once it is at rest."""
        hands = self._switches
        if (
            self._pushed
            and hands is not None
            and max(abs(hands.steering), abs(hands.throttle)) <= NEUTRAL
        ):
            self._pushed = False

    def trouble_now(self, now_ns: int) -> str:
        """Return why the handset is not alive; empty if it is."""
        if self.alive(now_ns):
            return ""
        if now_ns - self._frame_ns > self._silence_ns:
            return "its receiver sends nothing"
        return self.trouble or "its first frames arrive"

    def status(self, now_ns: int) -> dict[str, Any] | None:
        """Return the state as plain values; None without a receiver."""
        if self._map is None:
            return None
        frame, switches = self.newest, self._switches
        alive = self.alive(now_ns)

        return {
            "alive": alive,
            "trouble": self.trouble_now(now_ns),
            "control": self.holds(now_ns),
            "killed": self.killed,
            "required": self.required,
            "link_quality": None if frame is None else _known(frame.link_quality),
            "rssi_dbm": None if frame is None else _known(frame.rssi_dbm),
            "snr_db": None if frame is None else _known(frame.snr_db),
            "channels": [] if frame is None else [_known(value) for value in frame.channels],
            "steering": switches.steering if alive and switches is not None else None,
            "throttle": switches.throttle if alive and switches is not None else None,
            "mode": switches.use if alive and switches is not None else None,
            "armed": switches.arm if alive and switches is not None else None,
            "unusable": dict(self.unusable),
        }


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
