"""Mixing matrix: what each output of the actuators gets of a command.

A row per output, a column per input. ``throttle`` and ``steering`` are those of the command.
``left`` and ``right`` are the throttles of the two sides of a vehicle that turns by driving them
apart: ``throttle (1 -+ d)``, with the difference ``d = tan(wheel angle) track / (2 wheelbase)`` of
a vehicle that follows the curve of its virtual front wheel.
"""

from collections.abc import Mapping, Sequence
from math import inf, tan
from typing import Annotated, Literal

from msgspec import Meta, Struct

OutputKind = Literal["drive", "steer"]
"""Purpose of an output: a motor, or a servo that turns wheels."""
Gain = Annotated[float, Meta(ge=-1.0, le=1.0)]


class Mix(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Row of the mixing matrix: gains of one output. A negative one turns the output round."""

    throttle: Gain = 0.0
    """Gain of the throttle, for a motor."""
    steering: Gain = 0.0
    """Gain of the steering, for a servo; negative for rear wheels that counter-steer."""
    left: Gain = 0.0
    """Gain of the throttle of the left side, for a motor."""
    right: Gain = 0.0
    """Gain of the throttle of the right side, for a motor."""

    @property
    def drive(self) -> float:
        """Sum of the gains of a motor; its sign is the motor's direction."""
        return self.throttle + self.left + self.right


class Sides(Struct, frozen=True):
    """Geometry by which the sides are driven apart."""

    gain_rad: float
    """Angle of the virtual front wheel at steering 1."""
    ratio: float
    """Half of the track, over the wheelbase."""

    def difference(self, steering: float) -> float:
        """Return half of the difference of the sides over their mean, positive in a left turn."""
        return self.ratio * tan(self.gain_rad * steering)


class Mixing:
    """Rows of the outputs of one device."""

    def __init__(self, rows: Sequence[Mix], sides: Sides | None = None) -> None:
        """``sides``: needed if any device of the vehicle has ``left`` or ``right``; the throttle
        then leaves room for the faster side, the same on every device."""
        self.rows = tuple(rows)
        self._sides = sides

    def outputs(self, throttle: float, steering: float) -> tuple[float, ...]:
        """Return the outputs, -1 to 1, for a throttle and a steering of -1 to 1."""
        left = right = throttle
        if self._sides is not None:
            apart = self._sides.difference(steering)
            # Both sides shrink alike, because one that is cut alone would straighten the curve.
            fastest = abs(throttle) * (1.0 + abs(apart))
            if fastest > 1.0:
                throttle /= fastest
            left, right = throttle * (1.0 - apart), throttle * (1.0 + apart)
        return tuple(
            _clipped(
                row.throttle * throttle
                + row.steering * steering
                + row.left * left
                + row.right * right
            )
            for row in self.rows
        )

    @property
    def directions(self) -> tuple[float, ...]:
        """Sign of each output when the vehicle drives forwards: -1 for a motor that is mounted the
        other way round, 0 for none."""
        return tuple(
            0.0 if row.drive == 0.0 else 1.0 if row.drive > 0.0 else -1.0 for row in self.rows
        )

    @property
    def drives(self) -> bool:
        """True if any output is a motor that drives."""
        return any(self.directions)


def plain(kinds: Mapping[str, OutputKind]) -> Mixing:
    """Return the mixing of a vehicle with one actuator: motors get the throttle, servos the
    steering."""
    return Mixing(
        [Mix(throttle=1.0) if kind == "drive" else Mix(steering=1.0) for kind in kinds.values()]
    )


def sides_of(rows: Sequence[Mix], gain_rad: float, ratio: float) -> Sides | None:
    """Return the geometry of the sides if any row of the vehicle needs it."""
    return Sides(gain_rad, ratio) if any(row.left or row.right for row in rows) else None


def _clipped(value: float) -> float:
    # Not a number stays one: the driver brakes then.
    return 1.0 if 1.0 < value < inf else -1.0 if -inf < value < -1.0 else value
