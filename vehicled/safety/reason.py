"""Reason of a mode: a code with its arguments, so that no program has to read a sentence. Its text
is for people only."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from vehicled.core.observers import boundary


class ReasonCode(StrEnum):
    """Reasons that are no rule and no fault of a device. Every other code of a :class:`Reason` is
    one of those."""

    MUST_STAND = "must_stand"
    STANDS = "stands"
    STANDSTILL_ASSUMED = "standstill_assumed"
    ARMING_CHECKS = "arming_checks"
    ARMING_WAITS = "arming_waits"
    ARMING_REFUSED = "arming_refused"
    ARMING_WITHDRAWN = "arming_withdrawn"
    DRIVING_CHECKS = "driving_checks"
    DRIVING_WAITS = "driving_waits"
    DRIVING_REFUSED = "driving_refused"
    DRIVING_WITHDRAWN = "driving_withdrawn"
    ARMED = "armed"
    DRIVES_COURSE = "drives_course"
    ALIGNS = "aligns"
    TELEOP = "teleop"
    OFFBOARD = "offboard"
    STOP_REQUESTED = "stop_requested"
    DISARM_REQUESTED = "disarm_requested"
    DISARMED_BY_FAULT = "disarmed_by_fault"
    EMERGENCY_STOP = "emergency_stop"
    COURSE_FINISHED = "course_finished"
    HEADING_KNOWN = "heading_known"
    ALIGNMENT_FAILED = "alignment_failed"
    ROLLS_RELEASED = "rolls_released"
    RESET = "reset"


TEXTS = {
    ReasonCode.MUST_STAND: "waiting for the vehicle to stand still",
    ReasonCode.STANDS: "waiting to be armed",
    ReasonCode.STANDSTILL_ASSUMED: (
        "standstill assumed by the model after {details} s: no fresh wheel or GNSS speed"
    ),
    ReasonCode.ARMING_CHECKS: "arming waits for its checks",
    ReasonCode.ARMING_WAITS: "arming waits: {details}",
    ReasonCode.ARMING_REFUSED: "arming refused: {details}",
    ReasonCode.ARMING_WITHDRAWN: "arming called off by {by}",
    ReasonCode.DRIVING_CHECKS: "driving waits for its checks",
    ReasonCode.DRIVING_WAITS: "driving waits: {details}",
    ReasonCode.DRIVING_REFUSED: "driving refused: {details}",
    ReasonCode.DRIVING_WITHDRAWN: "driving called off by {by}",
    ReasonCode.ARMED: "armed",
    ReasonCode.DRIVES_COURSE: "driving the {course}{appended}",
    ReasonCode.ALIGNS: "driving straight ahead to learn the heading",
    ReasonCode.TELEOP: "driven by hand: {by}",
    ReasonCode.OFFBOARD: "driven by the setpoints of {by}",
    ReasonCode.STOP_REQUESTED: "stopped by {by}",
    ReasonCode.DISARM_REQUESTED: "disarmed by {by}",
    ReasonCode.DISARMED_BY_FAULT: "disarmed: {details}",
    ReasonCode.EMERGENCY_STOP: "emergency stop by {by}",
    ReasonCode.COURSE_FINISHED: "the {course} is finished",
    ReasonCode.HEADING_KNOWN: "{details}",
    ReasonCode.ALIGNMENT_FAILED: "alignment failed: {details}",
    ReasonCode.ROLLS_RELEASED: "it rolled at {details} m/s: braked",
    ReasonCode.RESET: "reset: waiting to be armed",
}
"""Text of each code. ``details`` are joined by semicolons, ``appended`` are the same after a
comma."""

REFUSED = frozenset({ReasonCode.ARMING_REFUSED, ReasonCode.DRIVING_REFUSED})
"""Codes of a request that was refused."""
WITHDRAWN = frozenset({ReasonCode.ARMING_WITHDRAWN, ReasonCode.DRIVING_WITHDRAWN})
"""Codes of a request that another one withdrew while it waited for its checks."""


class TrippedValue(Struct, frozen=True):
    """Comparison that made a rule trip: its value and limit at that moment."""

    value: float
    limit: float
    unit: str
    sense: str
    """Comparison as a person writes it: ``>``, ``>=``, ``<`` or ``<=``."""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.value:.4g} {self.sense} {self.limit:.4g}{unit}"


class Reason(Struct, frozen=True):
    """Why the supervisor is in its mode. ``str()`` renders it."""

    code: str
    """A :class:`ReasonCode`, the code of a rule, or the code of a fault that a device reports."""
    by: str = ""
    """Origin of the request, of the driver or of the device; empty if the supervisor acts on its
    own."""
    details: tuple[str, ...] = ()
    """Arguments of the text: the checks that fail, or the values at a trip."""
    after: "Reason | None" = None
    """Earlier reason that still applies: why the stop began that this one made harder."""
    measured: TrippedValue | None = None
    """Value and limit of the rule; None if the reason is not a comparison of numbers."""

    def then(self, later: "Reason") -> "Reason":
        """Return the later reason, with this one as the beginning."""
        first = self if later.after is None else self.then(later.after)
        return Reason(later.code, later.by, later.details, first, later.measured)

    def parts(self) -> Iterator["Reason"]:
        """Iterate over this reason and all earlier ones, the newest first."""
        part: Reason | None = self
        while part is not None:
            yield part
            part = part.after

    @boundary
    def text(self, course: str = "course") -> str:
        """Return the text for people; the code alone if that fails. ``course``: word for what is
        driven."""
        try:
            return "; then ".join(part._own_text(course) for part in reversed(list(self.parts())))
        except Exception:  # noqa: BLE001 - a text must not hold up the reaction that it explains
            return str(self.code)

    def _own_text(self, course: str) -> str:
        details, appended = (
            "; ".join(self.details),
            "".join(f", {detail}" for detail in self.details),
        )
        if self.code in TEXTS:
            return TEXTS[ReasonCode(self.code)].format(
                by=self.by, details=details, appended=appended, course=course
            )
        return f"{self.by}: {details}" if self.by else details

    __str__ = text
