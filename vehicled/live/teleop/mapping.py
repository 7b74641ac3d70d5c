"""Mappings of axes and buttons to steering, throttle and deadman: built-in for common pads, from a
TOML file for others.

Axes and buttons are named by the kernel's input codes, which are the same for all drivers, or by
number.
"""

from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from vehicled.core.errors import UserError
from vehicled.core.stick import shaped
from vehicled.live.teleop.js_event import FULL

Ref = str | Annotated[int, Meta(ge=0, le=255)]
"""Axis or button: ``ABS_X``, ``BTN_TL``, or a number."""
Raw = Annotated[int, Meta(ge=-FULL, le=FULL)]
MAX_BYTES = 64 << 10


class MappingError(UserError):
    """Invalid mapping; the text gives the place and the remedy."""


class Axis(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Conversion of an axis's raw value to -1..1, or to 0..1 for a trigger or pedal."""

    axis: Ref
    inverted: bool = False
    one_sided: bool = False
    """True for a trigger or pedal: released at ``minimum``, or at ``maximum`` if inverted."""
    minimum: Raw = -FULL
    centre: Raw = 0
    maximum: Raw = FULL
    dead_zone: Annotated[float, Meta(ge=0.0, lt=0.9)] = 0.08
    """Fraction of the range around the centre that counts as zero; the rest is scaled to the full
    range."""
    expo: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    """Curve, 0 linear to 1 cubic: fine near the centre, full at the end."""
    scale: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    """Largest value."""

    def __post_init__(self) -> None:
        if not (
            self.minimum < self.maximum
            and (self.one_sided or self.minimum < self.centre < self.maximum)
        ):
            raise ValueError(f"axis {self.axis}: minimum, centre and maximum must be increasing")

    def value(self, raw: int) -> float:
        """Return -1..1, or 0..1 if one-sided; 0 when released. Never raises."""
        if self.one_sided:
            share = (raw - self.minimum) / (self.maximum - self.minimum)
            share = min(1.0, max(0.0, 1.0 - share if self.inverted else share))
        else:
            side = self.maximum - self.centre if raw >= self.centre else self.centre - self.minimum
            share = min(1.0, max(-1.0, (raw - self.centre) / side))
            share = -share if self.inverted else share
        return self.scale * shaped(share, self.dead_zone, self.expo)


class PadMap(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mapping of a pad."""

    steering: Axis
    """Steering axis, positive left; most sticks are positive right and must be inverted."""
    throttle: Axis
    """Throttle axis. Two-sided: drives forward and backward; one-sided: forward, or backward while
    ``backward`` is held."""
    brake: Axis | None = None
    deadman: Annotated[list[Ref], Meta(min_length=1)]
    """Deadman buttons; one of them must be held."""
    backward: Ref | None = None
    take: Ref | None = None
    """Button that arms the vehicle and starts teleop."""
    stop: Ref | None = None
    emergency: Ref | None = None
    quiet_s: Annotated[float, Meta(ge=0.0, le=60.0)] = 0.0
    """Longest time without any movement of the pad while driving, s; then the vehicle brakes. The
    receiver of a wireless pad that is out of reach repeats the last position. 0 for pads with a
    cable.
    """
    names: list[str] = []
    """Name patterns of matching devices, with ``*``."""


def _gamepad(
    *names: str, left: str = "ABS_Z", right: str = "ABS_RZ", quiet_s: float = 0.0
) -> PadMap:
    """Return a gamepad mapping: left stick steers, triggers drive and brake, left shoulder is the
    deadman, right shoulder reverses.
    """
    return PadMap(
        steering=Axis(axis="ABS_X", inverted=True, expo=0.4),
        throttle=Axis(axis=right, one_sided=True, expo=0.3),
        brake=Axis(axis=left, one_sided=True),
        deadman=["BTN_TL"],
        backward="BTN_TR",
        take="BTN_START",
        stop="BTN_EAST",
        emergency="BTN_SELECT",
        quiet_s=quiet_s,
        names=list(names),
    )


MAPS: dict[str, PadMap] = {
    "xbox": _gamepad("*X-Box*", "*Xbox*360*", "*Microsoft*X*pad*", "Generic X-Box pad"),
    "xbox_bluetooth": _gamepad(
        "Xbox Wireless Controller", left="ABS_BRAKE", right="ABS_GAS", quiet_s=2.0
    ),
    "dualshock4": _gamepad("*Wireless Controller", "*DUALSHOCK*4*", quiet_s=2.0),
    "dualsense": _gamepad("*DualSense*", quiet_s=2.0),
    "f710": _gamepad("*F710*", "*F510*", quiet_s=2.0),
    "f710_direct": PadMap(
        steering=Axis(axis="ABS_X", inverted=True, expo=0.4),
        throttle=Axis(axis="ABS_RZ", inverted=True, expo=0.3),
        deadman=["BTN_TOP2"],
        take="BTN_BASE4",
        stop="BTN_THUMB2",
        emergency="BTN_BASE3",
        quiet_s=2.0,
        names=["*Logitech*Cordless RumblePad*", "*Logitech*RumblePad 2*", "*Logitech*Dual Action*"],
    ),
    "g29": PadMap(
        steering=Axis(axis="ABS_X", inverted=True, dead_zone=0.01),
        throttle=Axis(axis="ABS_Z", one_sided=True, inverted=True, dead_zone=0.04),
        brake=Axis(axis="ABS_RZ", one_sided=True, inverted=True, dead_zone=0.04),
        # Paddles behind the rim: both hands release them when they let go of the wheel.
        deadman=["BTN_TOP2", "BTN_PINKIE"],
        backward="BTN_BASE2",
        take="BTN_BASE4",
        stop="BTN_THUMB2",
        emergency="BTN_BASE3",
        names=["*G29*", "*G923*", "*G27*"],
    ),
}
"""Built-in mappings. The first one that matches the device's name, axes and buttons is used."""


class PadLayout(Struct, frozen=True):
    """Axes and buttons of a device: their names by number."""

    axes: list[str]
    buttons: list[str]


XPAD = PadLayout(
    ["ABS_X", "ABS_Y", "ABS_Z", "ABS_RX", "ABS_RY", "ABS_RZ", "ABS_HAT0X", "ABS_HAT0Y"],
    [
        f"BTN_{name}"
        for name in (
            "SOUTH",
            "EAST",
            "NORTH",
            "WEST",
            "TL",
            "TR",
            "SELECT",
            "START",
            "MODE",
            "THUMBL",
            "THUMBR",
        )
    ],
)
"""Layout of the kernel's driver for Xbox USB pads; also used for events from a file or pipe."""


def resolve(mapping: PadMap, layout: PadLayout, name: str) -> PadMap:
    """Return the mapping with numbers only. Raises :class:`MappingError` if the device lacks an
    axis or button."""

    def number(ref: Ref, what: str, known: list[str]) -> int:
        if isinstance(ref, int):
            if ref < len(known):
                return ref
        elif ref in known:
            return known.index(ref)
        kind = "axis" if known is layout.axes else "button"
        raise MappingError(
            f"{name} has no {kind} {ref} for {what}; it has {', '.join(known) or 'none'}: "
            "write a --map file"
        )

    def axis(spec: Axis, what: str) -> Axis:
        return msgspec.structs.replace(spec, axis=number(spec.axis, what, layout.axes))

    def button(ref: Ref | None, what: str) -> Ref | None:
        return None if ref is None else number(ref, what, layout.buttons)

    return msgspec.structs.replace(
        mapping,
        steering=axis(mapping.steering, "steering"),
        throttle=axis(mapping.throttle, "throttle"),
        brake=None if mapping.brake is None else axis(mapping.brake, "brake"),
        deadman=[number(ref, "deadman", layout.buttons) for ref in mapping.deadman],
        **{
            key: button(getattr(mapping, key), key)
            for key in ("backward", "take", "stop", "emergency")
        },
    )


def choose(name: str, layout: PadLayout) -> tuple[str, PadMap]:
    """Return name and resolved mapping for a device. Raises :class:`MappingError` if none
    matches."""
    for key, mapping in MAPS.items():
        if any(fnmatch(name.lower(), pattern.lower()) for pattern in mapping.names):
            try:
                return key, resolve(mapping, layout, name)
            except MappingError:
                continue  # The driver may be another one for the same pad, so try the next mapping.
    raise MappingError(
        f"no mapping for {name!r}; there are {', '.join(MAPS)}. It has the axes "
        f"{', '.join(layout.axes) or 'none'} and the buttons "
        f"{', '.join(layout.buttons) or 'none'}: write a --map file with them, see "
        "docs/driving_by_hand.md"
    )


def load(path: Path) -> PadMap:
    """Load a mapping file: a table of :class:`PadMap`, or ``like = "xbox"`` with changes. Raises
    :class:`MappingError`."""
    try:
        data = path.read_bytes()[: MAX_BYTES + 1]
    except OSError as error:
        raise MappingError(f"{path}: cannot read it: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise MappingError(f"{path}: too large for a mapping")
    try:
        table: dict[str, Any] = msgspec.toml.decode(data, type=dict[str, Any])
        like = table.pop("like", None)
        if like is not None:
            if like not in MAPS:
                raise MappingError(
                    f"{path}: unknown mapping like = {like!r}; choose from {', '.join(MAPS)}"
                )
            table = _merged(msgspec.to_builtins(MAPS[like]), table)
        return msgspec.convert(table, PadMap)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise MappingError(f"{path}: {error}") from None


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = (
            _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged
