"""Accuracy targets per kind of run: the first matching rule applies.

The numbers are what a prototype of the same equations reached with published parameters, and the differences between references: an
18-degree-of-freedom model is 0.5 to 2.5 % of the path away from the multi-body model of the same vehicle.
"""

import re

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True):
    """Largest errors that pass; None is reported without a limit."""

    name: str
    position_pct: float | None = None
    """RMS distance, percent of the path's length."""
    yaw_rate_pct: float | None = None
    """RMS error, percent of the largest yaw rate."""
    lateral_speed_mps: float | None = None
    roll_deg: float | None = None
    behaviour: bool = False
    """True to compare the behaviour at the limit (plough or spin) only, because references differ there."""

    @property
    def judged(self) -> bool:
        """True if a run of this kind can fail."""
        figures = (self.position_pct, self.yaw_rate_pct, self.lateral_speed_mps, self.roll_deg)
        return self.behaviour or any(figure is not None for figure in figures)


class TargetRule(Struct, frozen=True, kw_only=True):
    """Target and the runs it applies to; patterns match whole names."""

    target: Target
    family: str
    vehicle: str = ".*"
    model: str = ".*"
    manoeuvre: str = ".*"
    ay_from_mps2: float = 0.0
    """Least peak lateral acceleration of the runs."""


_LIMIT = Target(name="limit: plough or spin", behaviour=True)
_TURN = r"(brake|accel|stop|throttle)\w*_in_turn\w*"
_STRAIGHT = r"(straight|brake_straight|accel_straight|coast|full_throttle)\w*"

RULES = (
    TargetRule(family="chrono", manoeuvre=r"st\d\w*", target=Target(name="Chrono steer", position_pct=1.5, yaw_rate_pct=5.0)),
    TargetRule(
        family="chrono", manoeuvre=r"double_lane\w*", target=Target(name="Chrono lanes", position_pct=2.5, yaw_rate_pct=4.0)
    ),
    # No published prototype ran these; the target is the difference of the 18-degree-of-freedom model.
    TargetRule(family="chrono", target=Target(name="Chrono mixed", position_pct=2.5, yaw_rate_pct=5.0)),
    TargetRule(family="lfdm", manoeuvre=r".*lift_?off.*", target=_LIMIT),
    TargetRule(family="lfdm", vehicle="art", target=Target(name="LFDM ART", position_pct=1.0)),
    TargetRule(family="lfdm", manoeuvre=r"ramp_steer\w*", ay_from_mps2=5.0, target=_LIMIT),
    TargetRule(family="lfdm", vehicle="sedan", target=Target(name="LFDM sedan", position_pct=1.0)),
    TargetRule(family="lfdm", manoeuvre=_TURN, target=Target(name="LFDM combined slip", position_pct=1.0, yaw_rate_pct=5.0)),
    TargetRule(family="lfdm", manoeuvre=_STRAIGHT, target=Target(name="LFDM straight", position_pct=1.0)),
    TargetRule(family="lfdm", target=Target(name="LFDM steer", position_pct=1.0, yaw_rate_pct=4.0, roll_deg=0.3)),
    TargetRule(family="commonroad", manoeuvre=r".*lift_?off.*", target=_LIMIT),
    TargetRule(
        family="commonroad", manoeuvre=_TURN, target=Target(name="CommonRoad combined slip", position_pct=1.5, yaw_rate_pct=6.0)
    ),
    TargetRule(family="commonroad", ay_from_mps2=7.0, target=_LIMIT),
    TargetRule(
        family="commonroad",
        ay_from_mps2=5.0,
        target=Target(name="CommonRoad 5 to 7 m/s2", position_pct=2.0, yaw_rate_pct=8.0),
    ),
    TargetRule(
        family="commonroad",
        target=Target(name="CommonRoad below 5 m/s2", position_pct=1.0, yaw_rate_pct=5.0, lateral_speed_mps=0.1),
    ),
    TargetRule(family="f1tenth_gym", target=Target(name="gym, linear tyres", position_pct=0.5)),
    TargetRule(family="slipx", target=Target(name="slipx", position_pct=2.0)),
)

REPORT_ONLY = Target(name="report only")
"""Target of runs that match no rule."""


def target_of(family: str, vehicle: str, model: str, manoeuvre: str, ay_peak_mps2: float) -> Target:
    """Return the target of a run by its names and the reference's largest lateral acceleration. Never raises."""
    for rule in RULES:
        names = ((rule.family, family), (rule.vehicle, vehicle), (rule.model, model), (rule.manoeuvre, manoeuvre))
        if rule.ay_from_mps2 <= ay_peak_mps2 and all(re.fullmatch(pattern, name) for pattern, name in names):
            return rule.target
    return REPORT_ONLY
