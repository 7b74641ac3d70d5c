"""Gamepad or steering wheel as a teleop source. Pure: gets events and times."""

from collections.abc import Iterable

from vehicled.live.teleop.js_event import JsEvent
from vehicled.live.teleop.mapping import Axis, PadMap
from vehicled.live.teleop.reading import RELEASED, Reading, TeleopRequestKind

HELD = 1


class Pad:
    """Teleop source for the axes and buttons of a pad, read through a mapping."""

    def __init__(self, mapping: PadMap, name: str, most_throttle: float = 1.0) -> None:
        """Take a resolved ``mapping``; ``most_throttle`` is the largest throttle, 0 to 1."""
        self.name = name
        self.trouble = ""
        self._map = mapping
        self._most = most_throttle
        self._axes: dict[int, int] = {}
        self._buttons: dict[int, int] = {}
        # The kernel reports 0, the middle, for an axis that has not moved, so a trigger counts only
        # after it was seen released.
        pedals = [
            axis
            for axis in (mapping.throttle, mapping.brake)
            if axis is not None and axis.one_sided
        ]
        self._unproven = {axis.axis: axis for axis in pedals}
        self._must_release = True
        """True until the deadman was released once; holding it before the start does not count."""
        self._moved_ns = 0
        self._quiet = False
        self._requests: list[TeleopRequestKind] = []
        by_button = {
            mapping.take: TeleopRequestKind.TAKE,
            mapping.stop: TeleopRequestKind.STOP,
            mapping.emergency: TeleopRequestKind.EMERGENCY,
        }
        self._request_of = {
            number: request for number, request in by_button.items() if number is not None
        }

    def feed(self, events: Iterable[JsEvent], now_ns: int) -> None:
        """Process events in their order."""
        for event in events:
            self._moved_ns = now_ns
            if event.axis:
                self._axes[event.number] = event.value
                pedal = self._unproven.get(event.number)
                if pedal is not None and pedal.value(event.value) == 0.0:
                    del self._unproven[event.number]
                continue
            before = self._buttons.get(event.number, 0)
            self._buttons[event.number] = event.value
            if (
                event.value == HELD
                and before != HELD
                and not event.initial
                and event.number in self._request_of
            ):
                self._requests.append(self._request_of[event.number])
            if not self._any_held():
                # A release between two readings counts, too.
                self._must_release = self._quiet = False

    def lost(self, why: str) -> None:
        """Note the loss of the device."""
        self.trouble = why
        self._axes.clear()
        self._buttons.clear()

    def read(self, now_ns: int) -> Reading:
        """Return the present reading."""
        if not self._any_held() or self._must_release or self._unproven or self.trouble:
            return RELEASED
        mapping = self._map
        throttle = self._value(mapping.throttle)
        if (
            mapping.throttle.one_sided
            and mapping.backward is not None
            and self._buttons.get(int(mapping.backward)) == HELD
        ):
            throttle = -throttle
        if (
            mapping.quiet_s > 0.0
            and throttle != 0.0
            and now_ns - self._moved_ns > mapping.quiet_s * 1e9
        ):
            self._quiet = self._must_release = True
            return RELEASED
        brake = self._value(mapping.brake) if mapping.brake is not None else 0.0
        return Reading(
            self._value(mapping.steering), throttle * self._most + 0.0, max(0.0, brake), True
        )

    def drain_requests(self) -> list[TeleopRequestKind]:
        """Return the requests since the last call."""
        requests, self._requests = self._requests, []
        return requests

    def let_go(self) -> None:
        """Require a release and a new press of the deadman."""
        self._must_release = True

    def hint(self, now_ns: int) -> str:
        """Return the state of the deadman for the status line."""
        if self.trouble:
            return self.trouble
        if self._unproven:
            return "press and release throttle and brake once"
        if self._quiet:
            return f"released: no movement for {self._map.quiet_s:g} s, is the pad in reach?"
        if self._must_release and self._any_held():
            return "release the deadman, then hold it"
        return "held" if self._any_held() else "released: hold the deadman"

    def _any_held(self) -> bool:
        return any(self._buttons.get(int(number)) == HELD for number in self._map.deadman)

    def _value(self, axis: Axis) -> float:
        raw = self._axes.get(int(axis.axis))
        return 0.0 if raw is None else axis.value(raw)
