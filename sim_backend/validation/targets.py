"""How near our model has to come, per kind of run: the first rule that fits holds.

The figures are what a prototype of the same equations reached with published parameters, and what the references are apart from
each other: an 18-degree-of-freedom model is 0.5 to 2.5 % of the path away from the multi-body model of the same vehicle.
"""

import re

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True):
    """Largest errors that pass; a figure that is None is told and not judged."""

    name: str
    position_pct: float | None = None
    """RMS distance as percent of the path's length."""
    yaw_rate_pct: float | None = None
    """RMS as percent of the largest yaw rate."""
    lateral_speed_mps: float | None = None
    roll_deg: float | None = None
    behaviour: bool = False
    """At the limit, where references differ from each other: does it plough or spin as the reference does?"""

    @property
    def judged(self) -> bool:
        """Whether a run of this kind can fail."""
        figures = (self.position_pct, self.yaw_rate_pct, self.lateral_speed_mps, self.roll_deg)
        return self.behaviour or any(figure is not None for figure in figures)


class Rule(Struct, frozen=True, kw_only=True):
    """A target and the runs it is for; patterns match whole names."""

    target: Target
    family: str
    vehicle: str = ".*"
    model: str = ".*"
    manoeuvre: str = ".*"
    ay_from_mps2: float = 0.0
    """Only for runs whose largest lateral acceleration is at least this."""


_LIMIT = Target(name="limit: plough or spin", behaviour=True)
_TURN = r"(brake|accel|stop|throttle)\w*_in_turn\w*"
_STRAIGHT = r"(straight|brake_straight|accel_straight|coast|full_throttle)\w*"

RULES = (
    Rule(family="chrono", manoeuvre=r"st\d\w*", target=Target(name="Chrono steer", position_pct=1.5, yaw_rate_pct=5.0)),
    Rule(family="chrono", manoeuvre=r"double_lane\w*", target=Target(name="Chrono lanes", position_pct=2.5, yaw_rate_pct=4.0)),
    # No published prototype ran these; the distance of the 18-degree-of-freedom model is the measure.
    Rule(family="chrono", target=Target(name="Chrono mixed", position_pct=2.5, yaw_rate_pct=5.0)),
    Rule(family="lfdm", manoeuvre=r".*lift_?off.*", target=_LIMIT),
    Rule(family="lfdm", vehicle="art", target=Target(name="LFDM ART", position_pct=1.0)),
    Rule(family="lfdm", manoeuvre=r"ramp_steer\w*", ay_from_mps2=5.0, target=_LIMIT),
    Rule(family="lfdm", vehicle="sedan", target=Target(name="LFDM sedan", position_pct=1.0)),
    Rule(family="lfdm", manoeuvre=_TURN, target=Target(name="LFDM combined slip", position_pct=1.0, yaw_rate_pct=5.0)),
    Rule(family="lfdm", manoeuvre=_STRAIGHT, target=Target(name="LFDM straight", position_pct=1.0)),
    Rule(family="lfdm", target=Target(name="LFDM steer", position_pct=1.0, yaw_rate_pct=4.0, roll_deg=0.3)),
    Rule(family="commonroad", manoeuvre=r".*lift_?off.*", target=_LIMIT),
    Rule(family="commonroad", manoeuvre=_TURN, target=Target(name="CommonRoad combined slip", position_pct=1.5, yaw_rate_pct=6.0)),
    Rule(family="commonroad", ay_from_mps2=7.0, target=_LIMIT),
    Rule(
        family="commonroad",
        ay_from_mps2=5.0,
        target=Target(name="CommonRoad 5 to 7 m/s2", position_pct=2.0, yaw_rate_pct=8.0),
    ),
    Rule(
        family="commonroad",
        target=Target(name="CommonRoad below 5 m/s2", position_pct=1.0, yaw_rate_pct=5.0, lateral_speed_mps=0.1),
    ),
    Rule(family="f1tenth_gym", target=Target(name="gym, linear tyres", position_pct=0.5)),
    Rule(family="slipx", target=Target(name="slipx", position_pct=2.0)),
)

REPORT_ONLY = Target(name="report only")
"""Of runs that no rule is for."""


def target_of(family: str, vehicle: str, model: str, manoeuvre: str, ay_peak_mps2: float) -> Target:
    """Target of a run by its names and the largest lateral acceleration of the reference. Never raises."""
    for rule in RULES:
        names = ((rule.family, family), (rule.vehicle, vehicle), (rule.model, model), (rule.manoeuvre, manoeuvre))
        if rule.ay_from_mps2 <= ay_peak_mps2 and all(re.fullmatch(pattern, name) for pattern, name in names):
            return rule.target
    return REPORT_ONLY
