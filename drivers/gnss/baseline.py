"""Vector between the two antennas of a vehicle, which is its heading: its length, and when it is
none."""

from math import radians

from vehicled.core.wire.usage import Unused, UsageProblem

MAX_HEADING_SIGMA_RAD = radians(45.0)
"""Stated error beyond which a heading is none."""
MIN_BASELINE_M = 0.05
"""Length below which a vector has no direction: the error of RTK, about 0.01 m, turns it by more
than 10 degrees."""
LEARNABLE_BASELINE_M = 5.0
"""Longest distance of two antennas that is believed to lie on one vehicle without
``baseline_m``."""
RELEARN_VECTORS = 20
"""Vectors of one length in a row after which it replaces another that was learnt, from a wrong
first vector."""


class Baseline:
    """Length of the vector between the two antennas: stated in the profile, or that of the first
    vectors.

    A vector of another length is a wrong solution of the ambiguities, or leads to another base.
    """

    def __init__(self, stated_m: float, tolerance_m: float) -> None:
        self.length_m = stated_m
        """Length in force; 0 while it is unknown."""
        self._stated = stated_m > 0.0
        self._tolerance_m = tolerance_m
        self._other_m, self._others = 0.0, 0
        self._learnt: tuple[float, float] | None = None

    def problem(self, length_m: float, *, known: bool, fixed: bool) -> UsageProblem | None:
        """Return why a vector is not that of the two antennas. ``known``: its length has a
        meaning."""
        if not known:
            return UsageProblem(Unused.LENGTH_UNKNOWN)
        if length_m < MIN_BASELINE_M:
            return UsageProblem(Unused.OUT_OF_RANGE, "length", f"{length_m:.3f} m")
        if not self._stated and length_m > LEARNABLE_BASELINE_M:
            return UsageProblem(Unused.BASELINE_NOT_STATED, value=f"{length_m:.2f} m")
        if self.length_m == 0.0:
            if fixed:
                self._learn(length_m)
            return None
        if abs(length_m - self.length_m) <= self._tolerance_m:
            self._others = 0
            return None
        if fixed and not self._stated and self._relearns(length_m):
            return None
        return UsageProblem(
            Unused.WRONG_LENGTH, value=f"{length_m:.3f} m instead of {self.length_m:.3f} m"
        )

    def take_learnt(self) -> tuple[float, float] | None:
        """Return the former length, 0 for none, and the one that was learnt since the last call;
        None if none was."""
        learnt, self._learnt = self._learnt, None
        return learnt

    def _relearns(self, length_m: float) -> bool:
        agrees = self._others and abs(length_m - self._other_m) <= self._tolerance_m
        self._other_m, self._others = (self._other_m, self._others + 1) if agrees else (length_m, 1)
        if self._others < RELEARN_VECTORS:
            return False
        self._learn(length_m)
        return True

    def _learn(self, length_m: float) -> None:
        self._learnt = self.length_m, length_m
        self.length_m, self._others = length_m, 0
