"""State of each failsafe rule: the value and the limit that it compares, and whether it is in
force. Pure."""

from math import inf, isfinite
from typing import Any

from msgspec import Struct

from vehicled.core.messages import Reaction
from vehicled.safety.matrix import MATRIX, RULES
from vehicled.safety.supervisor import Supervisor


class RuleState(Struct, frozen=True, array_like=True):
    """State of one rule. It is an array in JSON, because some fifty of them are sent several times
    a second."""

    code: str
    state: str
    """State: ``idle`` if not monitored in this mode, ``quiet``, ``holds`` but not long enough yet,
    or in ``force``."""
    value: float | None
    limit: float | None
    said: str
    """Reason as text, while the rule holds or is in force."""
    reaction: str
    """Reaction, ``S0`` to ``S4``."""
    words: str = ""
    """Text in place of an infinite value: ``clear`` for a free lane, ``none`` for an input that has
    not arrived."""


def standings(supervisor: Supervisor) -> list[RuleState]:
    """Return the state of every rule in matrix order, and of the devices' faults, at the
    supervisor's last step; empty before it.
    """
    s = supervisor.inputs
    if s is None:
        return []
    found = []
    for rule in RULES:
        said, reason = "", supervisor.in_force(rule.code)
        if reason is not None:
            state, said = "force", reason.text()
        elif supervisor.mode not in rule.modes:
            state = "idle"
        elif rule.holds(s):
            state, said = "holds", rule.reason(s)
        else:
            state = "quiet"
        value, limit = (None, None) if rule.limit is None else (rule.value(s), rule.limit(s))
        # An input may be newer than the supervisor's last step.
        shown = (
            round(max(value, 0.0) if rule.unit == "s" else value, 4)
            if value is not None and isfinite(value)
            else None
        )
        words = ("clear" if rule.sense.falls else "none") if value == inf else ""
        found.append(RuleState(rule.code, state, shown, limit, said, _grade(rule.reaction), words))
    active = s.monitors.device_faults.values()
    return found + [
        RuleState(f.code, "force", None, None, f"{f.origin}: {f.reason}", _grade(f.reaction))
        for f in active
    ]


def _grade(reaction: Reaction) -> str:
    return f"S{int(reaction) - 1}" if reaction else ""


def rows() -> list[dict[str, Any]]:
    """Return the constant part of the matrix for the page."""
    return [
        {
            "row": row.number,
            "fault": row.fault,
            "outside": row.outside,
            "rules": [
                {
                    "code": rule.code,
                    "reaction": _grade(rule.reaction),
                    "unit": rule.unit,
                    "under": rule.sense.falls,
                }
                for rule in row.rules
            ],
        }
        for row in MATRIX
    ]
