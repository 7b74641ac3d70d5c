"""RC receivers: what the channels of a handset mean. Pure.

Numbers of channels are in the receiver's own units, as its frames hold them: CRSF and SBUS count
172 to 1811 with the centre at 992, iBUS counts microseconds, 1000 to 2000. ``us = (ticks - 992) * 5
/ 8 + 1500`` converts what a handset or ArduPilot shows.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from math import isfinite, nan
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from vehicled.core.stick import shaped
from vehicled.core.wire.channels import ChannelEnds

Channel = Annotated[int, Meta(ge=1, le=18)]
Raw = Annotated[float, Meta(ge=-5000.0, le=5000.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Use = Literal["manual", "auto", "release", "stop"]

BEYOND_SHARE = 0.1
"""Fraction of the travel beyond an end at which a value is none of a handset; ArduPilot's limits of
900 and 2100 us."""
SWITCHED = 0.5
"""Deflection from the centre beyond which a switch is in an end position."""
CENTRED = 0.02
"""Largest deflection of a channel that a receiver has set to its centre."""


class RcAxis(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A stick, wheel or trigger, calibrated as ArduPilot's ``RCx_MIN``, ``RCx_TRIM``, ``RCx_MAX``,
    ``RCx_REVERSED``, ``RCx_DZ``."""

    channel: Channel
    """Number of the channel, from 1."""
    min: Raw | None = None
    """Lowest value; left out: the family's."""
    trim: Raw | None = None
    """Value at rest; left out: the family's centre. Equal to ``min`` or ``max`` for a throttle that
    rests at an end."""
    max: Raw | None = None
    """Highest value; left out: the family's."""
    reversed: bool = False
    """False: a higher value steers to the right, drives forward, brakes harder."""
    dead_zone: Annotated[float, Meta(ge=0.0, le=500.0)] = 10.0
    """Deviation from ``trim`` that counts as none."""
    expo: Share = 0.0
    """Curve, 0 linear to 1 cubic."""
    scale: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    """Largest result: 0.3 limits a throttle to three tenths."""

    def ends(self, family: ChannelEnds) -> ChannelEnds:
        """Return lowest value, value at rest and highest value."""
        low, centre, high = (
            own if own is not None else of
            for own, of in zip((self.min, self.trim, self.max), family)
        )
        return ChannelEnds(low, centre, high)

    def deflection(self, raw: float, family: ChannelEnds) -> float:
        """Return -1 to 1, higher values positive unless reversed; beyond the ends it is cut."""
        low, rest, high = self.ends(family)
        side = high - rest if raw >= rest else rest - low
        if side <= 0.0:
            return 0.0
        share = min(1.0, max(-1.0, (raw - rest) / side))
        share = self.scale * shaped(share, min(self.dead_zone / side, 0.9), self.expo)
        return -share + 0.0 if self.reversed else share


class SwitchPosition(Enum):
    """SwitchPosition of a switch."""

    LOW = "low"
    MIDDLE = "middle"
    HIGH = "high"


def position(raw: float, family: ChannelEnds) -> SwitchPosition:
    """Return the position of a switch."""
    low, centre, high = family
    if raw > centre + SWITCHED * (high - centre):
        return SwitchPosition.HIGH
    return SwitchPosition.LOW if raw < centre - SWITCHED * (centre - low) else SwitchPosition.MIDDLE


class RcSwitch(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A switch that is on in one position and off in every other."""

    channel: Channel
    """Number of the channel, from 1."""
    on: Literal["low", "middle", "high"] = "high"
    """SwitchPosition in which it is on."""


class RcModeSwitch(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The switch by which the operator takes over. Each position has a use.

    ``manual``: the operator drives, whatever else drove. ``auto``: moving it there asks to drive
    the course. ``release``: others may drive. ``stop``: moving it there stops the vehicle; others
    may drive afterwards.
    """

    channel: Channel
    """Number of the channel, from 1."""
    low: Use = "release"
    """Use of the low position."""
    middle: Use = "release"
    """Use of the middle position."""
    high: Use = "manual"
    """Use of the high position."""

    def use(self, at: SwitchPosition) -> Use:
        """Return the use of a position."""
        use: Use = getattr(self, at.value)
        return use


class RcPreset(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The channel by which a receiver without a failsafe flag shows that it has lost its handset,
    as ArduPilot's ``FS_THR_VALUE``.

    The receiver's own failsafe is set to a value that the handset never sends.
    """

    channel: Channel
    """Number of the channel, from 1."""
    below: Raw | None = None
    """Lower values mean that the handset is lost."""
    above: Raw | None = None
    """Higher values mean that the handset is lost."""

    def __post_init__(self) -> None:
        if (self.below is None) is (self.above is None):
            raise ValueError("write either below or above")

    def shown(self, raw: float) -> bool:
        """Return True if the value says that the handset is lost."""
        return (self.below is not None and raw < self.below) or (
            self.above is not None and raw > self.above
        )


class RcParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The RC operator: channels of the handset, and how its loss counts."""

    steering: RcAxis
    """Steering stick or wheel."""
    throttle: RcAxis
    """Throttle stick or trigger; below rest it drives backward."""
    brake: RcAxis | None = None
    """Stick or lever of a brake of its own."""
    mode: RcModeSwitch | None = None
    """Switch by which the operator takes over."""
    arm: RcSwitch | None = None
    """Switch that arms as it is moved on, with the throttle at rest only, and disarms as it is
    moved off."""
    kill: RcSwitch | None = None
    """Switch that stops as an emergency stop while it is on: latched, until the vehicle is armed
    anew."""
    takeover_stick: Share = 0.0
    """Deflection of steering or throttle by which the operator takes over without the switch; 0:
    never."""
    required: bool = False
    """True: without the handset nothing is armed, and a drive of any kind is stopped. False: the
    vehicle drives on without it."""
    silence_s: Annotated[float, Meta(ge=0.1, le=30.0)] = 1.0
    """Time without a usable frame after which the handset counts as lost."""
    failsafe: RcPreset | None = None
    """The channel that shows the loss, for a receiver without a failsafe flag, such as iBUS."""
    still_s: Annotated[float, Meta(ge=0.0, le=600.0)] = 0.0
    """Time without any change of any channel after which the receiver counts as repeating its last
    frame; 0: never."""
    least_link_quality: Share = 0.5
    """Link quality below which the daemon warns."""
    failsafe_tested: Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$", max_length=10)] = ""
    """Date on which the handset was switched off and the loss was seen here, such as
    ``2026-05-01``."""

    def switches(self) -> Iterator[tuple[str, RcSwitch | RcModeSwitch]]:
        """Iterate over the switches by name."""
        for name in ("mode", "arm", "kill"):
            if (switch := getattr(self, name)) is not None:
                yield name, switch

    def axes(self) -> Iterator[tuple[str, RcAxis]]:
        """Iterate over the axes by name."""
        for name in ("steering", "throttle", "brake"):
            if (axis := getattr(self, name)) is not None:
                yield name, axis


class Handset(NamedTuple):
    """Sticks and switches of one frame."""

    steering: float
    """-1 to 1, positive left."""
    throttle: float
    brake: float
    use: Use | None
    """Use of the mode switch's position; None without one."""
    arm: bool | None
    """True if the arming switch is on; None without one."""
    kill: bool
    """True if the kill switch is on."""


class RcMap:
    """Reads the frames of a receiver as what an operator does, or says why a frame is none of an
    operator."""

    def __init__(self, params: RcParams, family: ChannelEnds, *, checked: bool = True) -> None:
        """``family``: ends of a channel as the receiver's driver states them; ``checked``: its
        frames have a checksum."""
        self.params = params
        self.family = family
        self.checked = checked
        """True if one frame is proof of what is in it."""
        self._axes = [(name, axis, axis.ends(family)) for name, axis in params.axes()]
        self._switches = list(params.switches())

    def problem(self, channels: Sequence[float]) -> str:
        """Return why the values cannot be those of a handset; empty if they can."""
        preset = self.params.failsafe
        if preset is not None and preset.shown(_value(channels, preset.channel)):
            return (
                f"channel {preset.channel} is at {_value(channels, preset.channel):g}, the "
                "receiver's own failsafe"
            )
        for name, channel, ends in self._mapped():
            raw = _value(channels, channel)
            if not isfinite(raw):
                return (
                    f"channel {channel} ({name}) is not in its frames: the handset sends "
                    "fewer, or others"
                )
            beyond = BEYOND_SHARE * (ends.high - ends.low)
            if not ends.low - beyond <= raw <= ends.high + beyond:
                return (
                    f"channel {channel} ({name}) is at {raw:g}, outside {ends.low:g} to "
                    f"{ends.high:g}"
                )
        if len(self._switches) > 1 and all(
            self._centred(channels, channel, ends) for _, channel, ends in self._mapped()
        ):
            return (
                "all channels are at their centre, as a receiver sets them that has lost its "
                "handset"
            )
        return ""

    def _mapped(self) -> Iterator[tuple[str, int, ChannelEnds]]:
        for name, axis, ends in self._axes:
            yield name, axis.channel, ends
        for name, switch in self._switches:
            yield name, switch.channel, self.family

    def _centred(self, channels: Sequence[float], channel: int, ends: ChannelEnds) -> bool:
        centre = self.family.centre
        return abs(_value(channels, channel) - centre) <= CENTRED * (ends.high - ends.low)

    def read(self, channels: Sequence[float]) -> Handset:
        """Return what the operator does. Call it for frames without a :meth:`problem`."""
        params, family = self.params, self.family
        steering, throttle = (
            axis.deflection(_value(channels, axis.channel), family)
            for axis in (params.steering, params.throttle)
        )
        brake = 0.0
        if params.brake is not None:
            brake = max(
                0.0, params.brake.deflection(_value(channels, params.brake.channel), family)
            )
        mode, arm, kill = (
            self._at(channels, switch) for switch in (params.mode, params.arm, params.kill)
        )
        return Handset(
            # A stick to the right raises the value, and a positive angle turns left.
            steering=-steering + 0.0,
            throttle=throttle,
            brake=brake,
            use=None if params.mode is None or mode is None else params.mode.use(mode),
            arm=None if params.arm is None or arm is None else arm.value == params.arm.on,
            kill=params.kill is not None and kill is not None and kill.value == params.kill.on,
        )

    def _at(
        self, channels: Sequence[float], switch: RcSwitch | RcModeSwitch | None
    ) -> SwitchPosition | None:
        return None if switch is None else position(_value(channels, switch.channel), self.family)


def _value(channels: Sequence[float], channel: int) -> float:
    return channels[channel - 1] if channel <= len(channels) else nan
