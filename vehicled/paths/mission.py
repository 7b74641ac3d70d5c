"""Meaning of the items of a mission, for files and for MAVLink alike: waypoints, speeds and waits.
Pure.

A mission item never moves the vehicle in another way than its sender meant: what cannot be driven
is refused with its reason, and only what moves nothing is left out, by name.
"""

from collections.abc import Sequence
from enum import IntEnum
from math import isfinite
from typing import NamedTuple

from vehicled.paths.course import MAX_SPEED_MPS
from vehicled.paths.errors import CourseError
from vehicled.paths.mission_commands import COMMANDS, CommandEffect, title
from vehicled.paths.waits import MAX_WAIT_S

WAYPOINT, LOITER_TIME, RETURN, DELAY, CHANGE_SPEED = 16, 19, 20, 93, 178
LOCAL_NED = 1
# MAV_FRAME: GLOBAL, GLOBAL_RELATIVE_ALT, their _INT forms, GLOBAL_TERRAIN_ALT and its _INT form.
# Heights are not used.
GLOBAL_FRAMES = frozenset({0, 3, 5, 6, 10, 11})
NO_CHANGE, DEFAULT = -1.0, -2.0
"""Speeds of DO_CHANGE_SPEED that are none."""


class Flaw(IntEnum):
    """Part of an item that is wrong; 1 to 4 are its parameters."""

    COMMAND = 0
    PARAM1 = 1
    PARAM2 = 2
    PARAM3 = 3
    PARAM4 = 4
    X = 5
    FRAME = 8
    MISSION = 9


class ItemError(CourseError):
    """An item of a mission cannot be driven; the text gives reason and cure."""

    def __init__(self, flaw: Flaw, text: str) -> None:
        super().__init__(text)
        self.flaw = flaw


class MissionItem(NamedTuple):
    """Item of a mission, whatever carried it. None stands for a value that is not set, which
    MAVLink writes as NaN."""

    command: int
    frame: int
    params: Sequence[float | None]
    """Parameters 1 to 4."""
    x: float | None
    """Latitude, deg; north in ``LOCAL_NED``, m."""
    y: float | None
    """Longitude, deg; east in ``LOCAL_NED``, m."""
    autocontinue: bool = True


class MissionStage(NamedTuple):
    """Waypoint of a mission."""

    x: float
    y: float
    local: bool
    """True for metres north and east of the map's origin, False for latitude and longitude."""
    speed_mps: float
    """Speed on the way here."""
    wait_s: float
    label: str
    """Name of its item in messages."""


class Mission:
    """Mission that is read item by item."""

    def __init__(
        self,
        default_speed_mps: float,
        *,
        home: tuple[float, float] | None = None,
        local: bool = False,
    ) -> None:
        """``home``: metres north and east of the map's origin, for NAV_RETURN_TO_LAUNCH. ``local``:
        True if waypoints in ``LOCAL_NED`` are accepted.
        """
        self._default_mps = self._speed_mps = default_speed_mps
        self._home, self._local = home, local
        self._wait_s = 0.0
        self.stages: list[MissionStage] = []
        self.changes = 0
        """Number of speed changes."""
        self.ignored: dict[str, list[str]] = {}
        """Labels of the items of which something is ignored, by what it is."""

    @property
    def speeds_mps(self) -> list[float]:
        """Speed from each waypoint on, m/s."""
        return [*(stage.speed_mps for stage in self.stages[1:]), self._speed_mps][
            : len(self.stages)
        ]

    @property
    def first_wait_s(self) -> float:
        """Wait before the first waypoint, s."""
        return self._wait_s

    def ignore(self, what: str, label: str) -> None:
        """Note that something is ignored."""
        self.ignored.setdefault(what, []).append(label)

    def add(self, item: MissionItem, label: str) -> None:
        """Add the next item. Raises :class:`ItemError`."""
        name, kind = COMMANDS.get(item.command, ("", CommandEffect.USER))
        if kind is CommandEffect.HARMLESS:
            self.ignore(f"{title(item.command)}: {kind.value}", label)
            return
        if kind is not CommandEffect.DRIVEN:
            reason = kind.value if name else "it is unknown"
            raise ItemError(
                Flaw.COMMAND,
                (
                    f"{title(item.command)} cannot be driven: {reason}; use waypoints (16), waits "
                    "(19, 93), speed changes (178) only"
                ),
            )
        if not item.autocontinue:
            self.ignore("autocontinue 0: the vehicle drives on, as ArduPilot's does", label)
        if item.command == CHANGE_SPEED:
            self._change_speed(item, label)
        elif item.command == DELAY:
            self._wait(_delay_s(item.params))
        elif item.command == RETURN:
            if self._home is None:
                raise ItemError(
                    Flaw.MISSION,
                    (
                        f"{title(RETURN)}: there is no launch place yet; arm the vehicle "
                        "first, or use waypoints"
                    ),
                )
            self._append(*self._home, True, label)
        else:
            self._waypoint(item, label)

    def _append(self, x: float, y: float, local: bool, label: str) -> None:
        self.stages.append(MissionStage(x, y, local, self._speed_mps, 0.0, label))

    def _waypoint(self, item: MissionItem, label: str) -> None:
        local = self._local and item.frame == LOCAL_NED
        if not (local or item.frame in GLOBAL_FRAMES):
            raise ItemError(
                Flaw.FRAME,
                (
                    f"coordinate frame {item.frame} is not global; give the waypoint as latitude "
                    "and longitude"
                ),
            )
        if item.x is None or item.y is None:
            raise ItemError(Flaw.X, "the waypoint has no position; give it one or delete it")
        hold_s, radius = item.params[0], item.params[2]
        wait_s = _duration_s(hold_s)
        if radius:
            self.ignore(
                f"{'loiter' if item.command == LOITER_TIME else 'pass-by'} radius of a waypoint",
                label,
            )
        if item.params[3]:
            self.ignore("heading at a waypoint", label)
        self._append(item.x, item.y, local, label)
        self._wait(wait_s)

    def _wait(self, wait_s: float) -> None:
        """Wait where the vehicle is by now: at the last waypoint, or before the first."""
        if not self.stages:
            self._wait_s = _sum_s(self._wait_s, wait_s)
        else:
            last = self.stages[-1]
            self.stages[-1] = last._replace(wait_s=_sum_s(last.wait_s, wait_s))

    def _change_speed(self, item: MissionItem, label: str) -> None:
        speed_mps, ignored = changed_speed(item.params, self._default_mps)
        if ignored:
            self.ignore(ignored, label)
        if speed_mps is None:
            return
        self._speed_mps = speed_mps
        self.changes += 1

    def remarks(self) -> list[str]:
        """Return one line for each thing that is ignored."""
        return [
            (
                f"ignored: {what} "
                f"({labels[0]}{f' and {len(labels) - 1} more' if len(labels) > 1 else ''})"
            )
            for what, labels in self.ignored.items()
        ]


def changed_speed(params: Sequence[float | None], default_mps: float) -> tuple[float | None, str]:
    """Return the ground speed that a DO_CHANGE_SPEED asks for, m/s, None for no change, and what of
    it is ignored.

    ``params``: type of speed, speed (-1 no change, -2 default), throttle in %, 1 if relative.
    Raises :class:`ItemError`.
    """
    kind, speed, throttle, relative = params[:4]
    # Ground stations write 0 (airspeed) for rovers too, where it means the same; climb and descent
    # speeds are not ours.
    if kind not in (None, 0.0, 1.0, 2.0, 3.0):
        raise ItemError(Flaw.PARAM1, f"speed type {kind:g} is unknown; use 1, ground speed")
    if relative not in (None, 0.0):
        raise ItemError(
            Flaw.PARAM4, "a relative speed change cannot be driven; give the speed itself"
        )
    if throttle is not None and not (throttle in (NO_CHANGE, DEFAULT) or 0.0 <= throttle <= 100.0):
        raise ItemError(Flaw.PARAM3, f"throttle {throttle:g} % is out of range; leave it at -1")
    if speed is None or not (speed in (NO_CHANGE, DEFAULT) or 0.0 < speed <= MAX_SPEED_MPS):
        given = "no speed" if speed is None else f"{speed:g} m/s"
        raise ItemError(
            Flaw.PARAM2,
            (
                f"speed change to {given}; a target speed is above 0, at most {MAX_SPEED_MPS:g}: "
                "delete the item or correct it"
            ),
        )
    if kind in (2.0, 3.0):
        return None, "climb or descent speed"
    if speed == NO_CHANGE:
        if throttle is not None and throttle > 0.0:
            raise ItemError(
                Flaw.PARAM3,
                f"throttle {throttle:g} % without a speed cannot be driven; give a speed",
            )
        return None, "speed change that changes nothing"
    note = "" if throttle is None or throttle <= 0.0 else "throttle of a speed change"
    return (default_mps if speed == DEFAULT else speed), note


def _duration_s(value: float | None) -> float:
    if value is None:
        return 0.0
    if not (isfinite(value) and 0.0 <= value <= MAX_WAIT_S):
        raise ItemError(
            Flaw.PARAM1,
            f"a wait of {value:g} s cannot be driven; one lasts from 0 to {MAX_WAIT_S:g} s",
        )
    return value


def _delay_s(params: Sequence[float | None]) -> float:
    """Return the duration of a NAV_DELAY; one until a time of day has none."""
    seconds, *clock = params[:4]
    if (
        (seconds is None or seconds <= 0.0)
        and any(value is not None and value > 0.0 for value in clock)
    ) or seconds == -1.0:
        raise ItemError(
            Flaw.PARAM1,
            f"{title(DELAY)} until a time of day cannot be driven; give it a number of seconds",
        )
    return _duration_s(seconds)


def _sum_s(a: float, b: float) -> float:
    if not a + b <= MAX_WAIT_S:
        raise ItemError(Flaw.PARAM1, f"waits of {a + b:g} s at one place; at most {MAX_WAIT_S:g} s")
    return a + b


def unset(value: float) -> float | None:
    """Return a value of a message; None for NaN, by which MAVLink marks one that is not set.
    Infinite values stay."""
    return None if value != value else value
