"""What a row of the failsafe matrix is made of."""

from collections.abc import Callable
from enum import Enum
from math import inf

from msgspec import Struct, field

from vehicled.messages import Mode, Reaction
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import MOVING


class Clear(Enum):
    """How a rule that has tripped is over."""

    REARM = "by arming anew"
    ITSELF = "by itself"


class Rule(Struct, frozen=True, kw_only=True):
    """When ``holds`` for ``persist_ms`` in one of ``modes``, ``reaction`` applies until it clears."""

    code: str
    reaction: Reaction
    holds: Callable[[SafetyInputs], bool]
    reason: Callable[[SafetyInputs], str]
    """In words, with the numbers of the moment it tripped."""
    detect_ms: float
    """What the detector needs until ``holds`` says so, with the limits as shipped."""
    persist_ms: float
    """How long it must hold before it trips: 0 only where a single sample leaves no doubt."""
    react_ms: float
    """From the fault to the changed actuator frame, at the most."""
    clear: Clear = Clear.REARM
    clear_ms: float = 0.0
    """With ``Clear.ITSELF``: how long it must be gone."""
    modes: frozenset[Mode] = MOVING
    cap_mps: Callable[[SafetyInputs], float] = lambda s: s.limits.capped_speed_mps
    """Speed allowed under ``Reaction.CAP_SPEED``."""
    releases_brake: bool = False
    """Under ``Reaction.DISABLE``: no current at all, for a motor that would only heat."""


class Row(Struct, frozen=True, kw_only=True):
    """One fault of the matrix: who notices it, and the rules that answer it."""

    number: int
    fault: str
    detector: str
    """Who notices it, in words."""
    reaction: str
    """What happens, in words."""
    rules: tuple[Rule, ...] = ()
    devices: tuple[str, ...] = ()
    """Codes of faults by which devices tell it themselves, with a reaction of their own."""
    outside: str = ""
    """What answers it where the supervisor cannot: the runtime, the controller, the board, systemd."""
    outside_ms: float = inf
    """Time limit of that answer."""
    substitute: dict[str, str] = field(default_factory=dict)
    """By capability of the actuator (``telemetry``, ``brake``, ``readable_timeout``): what stands in for it where it is missing."""
    unobeyed: str = ""
    """What is left when the drive does not obey this reaction: only an independent stop covers it."""
