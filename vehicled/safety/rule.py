"""Types of the failsafe matrix: a row is one fault, a rule is one condition with its reaction."""

from collections.abc import Callable
from enum import Enum
from math import inf, isnan
from operator import ge, gt, le, lt
from typing import NamedTuple

from msgspec import Struct, field

from vehicled.core.error_text import error_text
from vehicled.core.messages import Mode, Reaction
from vehicled.core.observers import boundary
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import Limits
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import MOVING
from vehicled.safety.monitors import Monitors
from vehicled.safety.reason import Reason, TrippedValue


class Clear(Enum):
    """Condition that clears a tripped rule."""

    REARM = "by arming anew"
    ITSELF = "by itself"


class Sense(Enum):
    """Comparison of value and limit for which a rule holds. None of them holds for NaN."""

    OVER = ">"
    REACHES = ">="
    """Holds from the limit on, for counts."""
    UNDER = "<"
    WITHIN = "<="
    """Holds up to the limit, for free distances."""

    def __init__(self, symbol: str) -> None:
        """``symbol``: the comparison as a person writes it."""
        self.compare: Callable[[float, float], bool] = {">": gt, ">=": ge, "<": lt, "<=": le}[
            symbol
        ]
        self.falls = symbol in ("<", "<=")
        """True if the rule trips as its value falls."""


def seconds(age_ns: int) -> float:
    """Return an age or duration in s; infinite for ``NEVER_NS``."""
    return age_ns / 1e9 if age_ns < NEVER_NS else inf


class RuleInputs(SafetyInputs, frozen=True, kw_only=True):
    """Inputs of all rules and arming checks at one instant: the values of the tick, and the
    monitors behind them."""

    monitors: Monitors


class _LimitsAlone(NamedTuple):
    """Inputs without any value of a tick: a limit that can be computed from them is constant."""

    limits: Limits


class Rule(Struct, frozen=True, kw_only=True):
    """One condition of the matrix and its reaction.

    The rule trips once it has held for ``persist_ms`` in one of ``modes``. ``reaction`` then
    applies until it clears.
    """

    code: str
    reaction: Reaction
    value: Callable[[RuleInputs], float]
    """Value to compare, in ``unit``; NaN while it is unknown or does not apply. Without a ``limit``
    it is a flag."""
    limit: Callable[[RuleInputs], float] | None = None
    """Limit in ``unit``; None if the rule holds while a flag is set."""
    sense: Sense = Sense.OVER
    unit: str = ""
    reason: Callable[[RuleInputs], str]
    """Text for the operator, with the values at the moment of the trip."""
    detect_ms: float
    """Longest time from the fault until the rule holds, ms, with the default limits."""
    persist_ms: float
    """Time for which the condition must hold before the rule trips, ms; 0 only where one sample is
    proof."""
    react_ms: float
    """Longest time from the fault to the changed actuator frame, ms."""
    clear: Clear = Clear.REARM
    clear_ms: float = 0.0
    """Time for which the condition must be false before the rule clears, ms; used with
    ``Clear.ITSELF``."""
    modes: frozenset[Mode] = MOVING
    cap_mps: Callable[[RuleInputs], float] = lambda s: s.limits.capped_speed_mps
    """Speed limit under ``Reaction.CAP_SPEED``, m/s."""
    releases_brake: bool = False
    """True if ``Reaction.DISABLE`` also releases the brake: current through a blocked motor would
    only heat it."""

    def holds(self, s: RuleInputs) -> bool:
        """Return True if the flag is set, or if the value is beyond its limit."""
        value = self.value(s)
        return bool(value if self.limit is None else self.sense.compare(value, self.limit(s)))

    def constant_limit(self, limits: Limits) -> float | None:
        """Return the limit if it reads nothing but these limits; None if it changes from tick to
        tick, or there is none."""
        if self.limit is None:
            return None
        try:
            return self.limit(_LimitsAlone(limits))  # type: ignore[arg-type]
        except AttributeError:
            return None

    def measured(self, s: RuleInputs) -> TrippedValue | None:
        """Return value and limit at this instant; None without a limit or while the value is
        unknown."""
        if self.limit is None or isnan(value := self.value(s)):
            return None
        return TrippedValue(value, self.limit(s), self.unit, self.sense.value)

    @boundary
    def reason_now(self, s: RuleInputs) -> Reason:
        """Return the reason of a trip at this instant. Text and numbers that cannot be made do not
        hold up the reaction."""
        try:
            return Reason(self.code, details=(self.reason(s),), measured=self.measured(s))
        except Exception as error:  # noqa: BLE001 - they only explain
            return Reason(
                self.code, details=(f"{self.code} (its text failed: {error_text(error)})",)
            )


class Row(Struct, frozen=True, kw_only=True):
    """One fault of the matrix: its detector, and the rules that react to it."""

    number: int
    fault: str
    detector: str
    """Text that names the detector."""
    reaction: str
    """Text that describes the reaction."""
    rules: tuple[Rule, ...] = ()
    devices: tuple[str, ...] = ()
    """Codes of the faults that devices report themselves, each with its own reaction."""
    outside: str = ""
    """Component that reacts where the supervisor cannot: the runtime, the motor controller, the
    board, systemd."""
    outside_ms: float = inf
    """Longest time until ``outside`` reacts, ms."""
    substitute: dict[str, str] = field(default_factory=dict)
    """Text per missing capability of the actuator (``telemetry``, ``brake``, ``readable_timeout``):
    what replaces it."""
    unobeyed: str = ""
    """Text that describes what happens if the drive does not obey the reaction; only an independent
    stop covers that case."""
