"""Accuracy targets per kind of run: the first matching rule applies. The manoeuvre is recognised
from the signals.

Each limit is about three times the median error of the published runs of its kind, and at least 1.3
times the largest error of runs that others' programs give with other speeds and steering
(docs/twin_validation.md, "Where the limits come from"). Gentle runs have less room: their limit of
slip lies below the effect of 10 % of the tyres' slope.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from vehicled.offline.twin.validation.manoeuvre import Trait

FIGURES = (
    "position",
    "speed",
    "yaw rate",
    "lateral speed",
    "roll",
    "slip",
    "load shares",
    "weight",
)
"""Figures in the order of the table."""


class Target(Struct, frozen=True, kw_only=True):
    """Largest errors that pass."""

    name: str
    limits: dict[str, float] = {}
    """Limits by figure, percent of its scale, while the reference's tyres are below their limit."""
    behaviour: bool = False
    """True to compare also the behaviour at the limit: plough or spin."""

    @property
    def judged(self) -> bool:
        """True if a run of this kind can fail."""
        return self.behaviour or bool(self.limits)


class TargetRule(Struct, frozen=True, kw_only=True):
    """Target and the runs it applies to; patterns match whole names of family, vehicle and
    model."""

    target: Target
    family: str
    vehicle: str = ".*"
    model: str = ".*"
    trait: Trait | None = None
    """Required trait of the manoeuvre; None: any."""
    limit_from_mps2: float = float("inf")
    """Peak lateral acceleration of the reference from which the behaviour is judged too."""


def _rule(
    name: str,
    runs: str,
    *limits: float | None,
    trait: Trait | None = None,
    limit_from_mps2: float = float("inf"),
) -> TargetRule:
    """Return a rule; ``runs`` is family, model and vehicle, each optional from the right."""
    family, model, vehicle = (*runs.split(), ".*", ".*")[:3]
    figures = {figure: limit for figure, limit in zip(FIGURES, limits) if limit is not None}
    target = Target(name=name, limits=figures)
    return TargetRule(
        target=target,
        family=family,
        model=model,
        vehicle=vehicle,
        trait=trait,
        limit_from_mps2=limit_from_mps2,
    )


RULES = (
    # Columns: position, speed, yaw rate, lateral speed, roll, slip, load shares, weight.
    _rule("Chrono steer", "chrono", 1.5, 4.0, 4.0, 12.0, 22.0, trait="one side"),
    _rule("Chrono lanes", "chrono", 2.0, 4.0, 2.5, 12.0, 22.0, trait="alternating"),
    _rule("Chrono mixed", "chrono", 2.5, 4.0, 3.0, 12.0, 22.0),
    _rule("LFDM ART", "lfdm .* art", 1.0, 1.2, 2.0, 4.0, 4.0, 5.0, 0.1, 0.1),
    _rule("LFDM straight", "lfdm", 0.3, 0.4, None, None, None, 0.8, 0.6, 0.1, trait="straight"),
    _rule(
        "LFDM ramp",
        "lfdm",
        0.6,
        0.6,
        1.5,
        2.5,
        1.5,
        0.5,
        0.25,
        0.1,
        trait="ramp",
        limit_from_mps2=5.0,
    ),
    _rule(
        "LFDM combined slip", "lfdm", 0.25, 0.4, 2.5, 3.0, 2.0, 0.5, 0.4, 0.1, trait="combined slip"
    ),
    _rule("LFDM steer", "lfdm", 0.6, 0.6, 1.5, 2.5, 1.5, 0.5, 0.25, 0.1),
    # Gentle: the acceleration comes without a jump, and the wheel speeds follow the slope of the
    # tyres.
    _rule(
        "CommonRoad mb gentle drive",
        "commonroad mb",
        0.3,
        0.3,
        None,
        None,
        None,
        0.065,
        0.5,
        0.2,
        trait="gentle drive",
    ),
    _rule(
        "CommonRoad mb gentle brake",
        "commonroad mb",
        0.3,
        0.3,
        None,
        None,
        None,
        0.11,
        0.5,
        0.2,
        trait="gentle brake",
    ),
    _rule(
        "CommonRoad mb straight",
        "commonroad mb",
        0.8,
        1.0,
        None,
        None,
        None,
        2.0,
        0.9,
        1.2,
        trait="straight",
    ),
    _rule(
        "CommonRoad mb slow", "commonroad mb", 0.4, 0.4, 1.0, 1.5, 2.5, None, 0.5, 0.1, trait="slow"
    ),
    _rule(
        "CommonRoad mb combined slip",
        "commonroad mb",
        0.8,
        0.8,
        5.0,
        6.0,
        6.0,
        1.2,
        0.9,
        0.4,
        trait="combined slip",
    ),
    _rule(
        "CommonRoad mb fast steer",
        "commonroad mb",
        0.4,
        1.2,
        4.0,
        16.0,
        10.0,
        0.25,
        1.5,
        0.8,
        trait="fast",
    ),
    _rule(
        "CommonRoad mb steer",
        "commonroad mb",
        0.4,
        1.2,
        2.0,
        7.5,
        5.0,
        0.25,
        1.5,
        0.8,
        limit_from_mps2=7.0,
    ),
    _rule(
        "CommonRoad std straight",
        "commonroad std",
        0.8,
        1.4,
        None,
        None,
        None,
        4.0,
        trait="straight",
    ),
    _rule("CommonRoad std slow", "commonroad std", 0.15, 0.1, 0.5, 0.5, None, 1.2, trait="slow"),
    _rule(
        "CommonRoad std combined slip",
        "commonroad std",
        0.8,
        1.5,
        12.0,
        24.0,
        None,
        6.0,
        trait="combined slip",
    ),
    _rule(
        "CommonRoad std steer",
        "commonroad std",
        0.35,
        0.3,
        2.0,
        7.5,
        None,
        0.8,
        limit_from_mps2=7.0,
    ),
    _rule("gym straight", "f1tenth_gym", 0.3, 0.3, trait="straight"),
    _rule("gym brake in turn", "f1tenth_gym", 1.0, 0.1, 5.0, 18.0, trait="combined slip"),
    _rule("gym steer", "f1tenth_gym", 1.0, 0.1, 5.0, 6.0),
    _rule("slipx l1 straight", "slipx l1", 2.0, trait="straight"),
    _rule("slipx l1 steer", "slipx l1", 0.4, 0.4, 6.0, 10.0),
    _rule(
        "slipx l2 straight",
        "slipx l2",
        0.8,
        2.0,
        None,
        None,
        None,
        1.5,
        0.25,
        0.1,
        trait="straight",
    ),
    _rule(
        "slipx l2 fast steer", "slipx l2", 0.4, 0.2, 1.3, 2.5, None, 1.2, 0.4, 0.1, trait="quick"
    ),
    _rule("slipx l2 steer", "slipx l2", 0.4, 0.2, 1.0, 2.5, None, 1.2, 0.4, 0.1),
)

REPORT_ONLY = Target(name="report only")
"""Target of runs that match no rule."""


def target_of(
    family: str, vehicle: str, model: str, traits: frozenset[Trait], ay_peak_mps2: float
) -> Target:
    """Return the target of a run by its source, manoeuvre and the reference's largest lateral
    acceleration. Never raises."""
    for rule in RULES:
        names = ((rule.family, family), (rule.vehicle, vehicle), (rule.model, model))
        if all(re.fullmatch(pattern, name) for pattern, name in names) and (
            rule.trait is None or rule.trait in traits
        ):
            target = rule.target
            if ay_peak_mps2 < rule.limit_from_mps2:
                return target
            return replace(target, name=f"{target.name}, to the limit", behaviour=True)
    return REPORT_ONLY
