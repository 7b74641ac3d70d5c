"""The stop that does not pass through this computer: a relay or a radio kill switch that cuts the
drive.

Every reaction of the failsafe matrix is a command to the actuator. A drive that no longer obeys (a
board that keeps its last pulses, a stage that is shorted, a throttle that sticks) is stopped by an
independent stop alone.
"""

from math import inf
from typing import Annotated, Literal

from msgspec import Meta, Struct

from vehicled.core.vehicle import Drive, NonNegative

Date = Annotated[
    str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="a date such as 2026-11-22, or empty")
]
KINDS = {"none": "none", "relay": "relay", "radio_kill_switch": "radio kill switch"}


class IndependentStop(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Independent stop of the vehicle, as declared by its owner: the daemon can neither see nor
    test it."""

    kind: Literal["none", "relay", "radio_kill_switch"] = "none"
    """Kind of the stop."""
    cuts: Annotated[str, Meta(max_length=100)] = ""
    """Part that it cuts, e.g. "supply of the motor controller"."""
    reaction_s: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.0
    """Time from the switch, or from the loss of its radio, to the cut."""
    range_m: NonNegative = 0.0
    """Range at which it was tested; 0 for a switch on the vehicle."""
    deceleration_mps2: NonNegative = 0.0
    """Deceleration once it has cut; 0 for a vehicle that coasts, by the friction of
    ``[vehicle.drive]``."""
    last_tested: Date = ""
    required: bool = False
    """Refuse arming without an independent stop."""

    def __post_init__(self) -> None:
        if self.kind == "none":
            return
        if not self.cuts.strip():
            raise ValueError(
                f'cuts is missing: say what the {KINDS[self.kind]} cuts, such as "supply of '
                'the motor controller"'
            )
        if self.reaction_s <= 0.0:
            raise ValueError(
                "reaction_s is missing: measure the time from pressing the button to the cut "
                f"of the {KINDS[self.kind]}"
            )
        if self.kind == "radio_kill_switch" and self.range_m <= 0.0:
            raise ValueError(
                "range_m is missing: say how far away the radio kill switch was seen to work"
            )

    def stop_distance_m(self, drive: Drive, speed_mps: float) -> float:
        """Return the distance from the switch to standstill; infinite for a vehicle that would
        coast on."""
        friction_mps2 = (
            drive.friction_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2
        )
        deceleration = self.deceleration_mps2 or friction_mps2
        if deceleration <= 0.0:
            return inf
        return speed_mps * self.reaction_s + speed_mps * speed_mps / (2.0 * deceleration)

    @property
    def described(self) -> str:
        """Return a description of the stop."""
        if self.kind == "none":
            return "none declared"
        reach = f", works to {self.range_m:g} m" if self.range_m else ""
        tested = f"last tested {self.last_tested}" if self.last_tested else "no test recorded"
        return f"{KINDS[self.kind]}, cuts {self.cuts} within {self.reaction_s:g} s{reach}, {tested}"

    @property
    def notice(self) -> str:
        """Return the arming notice for a vehicle without a stop; empty with one."""
        return "" if self.kind != "none" else NOTICE

    @property
    def refusal(self) -> str:
        """Return the reason that forbids arming; empty if allowed."""
        if self.kind != "none" or not self.required:
            return ""
        return (
            "the profile demands an independent stop and declares none: fit one and declare it "
            "in [safety.independent_stop]"
        )


NOTICE = (
    "no independent stop declared: a drive that no longer obeys (stuck, runaway, cut off) is "
    "stopped by nothing; fit a relay or a radio kill switch, and declare it in "
    "[safety.independent_stop]"
)
"""Arming notice for a vehicle without an independent stop."""
