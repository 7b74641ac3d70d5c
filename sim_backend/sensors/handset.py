"""Handset of an RC operator and its receiver: sticks and switches as channels, in the receiver's
own units.

Left alone, the sticks rest and the mode switch lets others drive. ``--fail`` moves the operator's
hands and breaks the radio link.
"""

from collections.abc import Callable, Sequence
from math import inf, nan

from sim_backend.emulators.failures import SECOND_NS, Failure
from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import stream
from vehicled.core.messages import RcChannels
from vehicled.core.rc import RcAxis, RcMap, RcModeSwitch, RcSwitch, SwitchPosition, Use

DEFAULT_RATE_HZ = 50.0
LATENCY_NS = 8_000_000
"""Time from the stick to the receiver's frame, of a link with 50 packets per second or more."""
QUALITY, RSSI_DBM, SNR_DB = 0.99, -55.0, 9.0
BEND = 0.3
"""Steering of an operator who drives, to the left."""
RESTING: Sequence[Use] = ("release", "auto", "stop", "manual")
"""Uses of the mode switch, the first of which is where the operator leaves it."""
_RAW = {SwitchPosition.LOW: 0, SwitchPosition.MIDDLE: 1, SwitchPosition.HIGH: 2}


class HandsetSensor:
    """The operator's handset, as its receiver gives it."""

    def __init__(
        self,
        channels: RcMap,
        count: int,
        rate_hz: float | None,
        seed: int,
        entity: str,
        start_ns: int,
        failures: Callable[[], Sequence[Failure]],
    ) -> None:
        """``count``: channels of the receiver; ``failures`` returns those of its port."""
        self.rate_hz = rate_hz or DEFAULT_RATE_HZ
        self.least_latency_ns = LATENCY_NS
        self._map = channels
        self._count = count
        self._start_ns = start_ns
        self._failures = failures
        self._chance = stream(seed, entity)
        self._held: tuple[float, ...] = ()
        mode = channels.params.mode
        uses: dict[Use, SwitchPosition] = (
            {} if mode is None else {mode.use(each): each for each in reversed(SwitchPosition)}
        )
        self._uses = uses
        self._rest = next((each for each in RESTING if each in uses), None)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, RcChannels]:
        """Return the frame of this instant, see :class:`sim_backend.sensors.interface.Sensor`."""
        now = self._active(t_ns)
        channels = self._channels(now)
        if "stuck_channel" in now and self._held:
            at = min(round(now["stuck_channel"]), len(channels)) - 1
            channels = (*channels[:at], self._held[at], *channels[at + 1 :])
        if "frame_lost" in now and self._held:
            channels = self._held
        else:
            self._held = channels
        quality = now.get("link_quality", QUALITY)
        failsafe = "rc_failsafe" in now
        return t_ns + LATENCY_NS, RcChannels(
            t_ns,
            0,
            self._preset(channels) if failsafe else channels,
            failsafe,
            "frame_lost" in now,
            0.0 if failsafe else quality,
            RSSI_DBM if not failsafe else -120.0,
            SNR_DB if quality > 0.5 else -10.0,
        )

    def _active(self, t_ns: int) -> dict[str, float]:
        """Return the kinds of failures that last now, with their values."""
        since_s = (t_ns - self._start_ns) / SECOND_NS
        return {
            each.kind: nan if each.value is None else each.value
            for each in self._failures()
            if each.start_s
            <= since_s
            < (each.start_s + each.duration_s if each.duration_s < inf else inf)
        }

    def _channels(self, now: dict[str, float]) -> tuple[float, ...]:
        params, family = self._map.params, self._map.family
        values = [family.centre] * self._count
        if "centred" in now:
            return tuple(values)
        drives, pushes = "takeover" in now, "stick" in now
        throttle = (
            _default(now["takeover"], 0.3)
            if drives
            else _default(now["stick"], 0.5)
            if pushes
            else 0.0
        )
        steering = BEND if drives and throttle else 0.0
        use: Use | None = (
            "manual"
            if drives and "manual" in self._uses
            else "auto"
            if "auto" in now
            else self._rest
        )
        shares = {"steering": -steering, "throttle": throttle, "brake": 0.0}
        axes = dict(params.axes())
        for name, axis in axes.items():
            values[axis.channel - 1] = self._raw(axis, shares[name]) + float(
                self._chance.integers(-1, 1, endpoint=True)
            )
        if params.mode is not None and use in self._uses:
            values[params.mode.channel - 1] = self._position(params.mode, self._uses[use])
        for name, switch in (("arm", params.arm), ("kill", params.kill)):
            if switch is not None:
                values[switch.channel - 1] = self._position(
                    switch, _switched(switch, on=name in now)
                )
        if "swapped" in now:
            first, second = (axes[name].channel - 1 for name in ("steering", "throttle"))
            values[first], values[second] = values[second], values[first]
        return tuple(values)

    def _raw(self, axis: RcAxis, share: float) -> float:
        low, rest, high = axis.ends(self._map.family)
        share = -share if axis.reversed else share
        return float(round(rest + share * (high - rest if share >= 0.0 else rest - low)))

    def _position(self, switch: RcSwitch | RcModeSwitch, at: SwitchPosition) -> float:
        return self._map.family[_RAW[at]]

    def _preset(self, channels: tuple[float, ...]) -> tuple[float, ...]:
        """Return the channels that the receiver sends on its own: its preset, if the profile knows
        of one, else what it has."""
        preset = self._map.params.failsafe
        if preset is None:
            return channels
        beyond = preset.below - 1.0 if preset.below is not None else (preset.above or 0.0) + 1.0
        return (*channels[: preset.channel - 1], beyond, *channels[preset.channel :])


def _switched(switch: RcSwitch, *, on: bool) -> SwitchPosition:
    at = SwitchPosition(switch.on)
    if on:
        return at
    return SwitchPosition.HIGH if at is SwitchPosition.LOW else SwitchPosition.LOW


def _default(value: float, otherwise: float) -> float:
    return otherwise if value != value else value
