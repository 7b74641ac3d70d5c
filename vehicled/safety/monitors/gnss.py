"""Monitor of the GNSS solution over time."""

from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.safety.inputs import SafetyInputs

RESUME_FIXED_NS = 3_000_000_000
"""Time after which a carrier solution counts as regained, ns."""
FUTURE_NS = 1_000_000_000
"""Time by which the stamp of a fix may be ahead, ns; one from further in the future is of no use to
anyone."""


class GnssMonitor:
    """Monitor of the carrier solution, its loss and return, and consecutive rejections by the
    estimator's gate."""

    def __init__(self, moving_mps: float) -> None:
        """``moving_mps``: speed from which an estimate shows motion for certain."""
        self._moving_mps = moving_mps
        self.had_fixed = False
        """True if a fixed solution has been seen since start."""
        self.degraded_since_ns: int | None = None
        """Time at which the fixed solution was lost; None while it lasts. After a loss it counts
        again after ``RESUME_FIXED_NS``.
        """
        self.carrier = CarrierSolution.NONE
        self.rejected_in_a_row = 0
        self.same_in_a_row = 0
        """Number of consecutive fixes at exactly the same position while the vehicle moves."""
        self.repeats = False
        """True if the newest fix is at exactly the position of the one before, also at
        standstill."""
        self._place_rad = (float("nan"), float("nan"))
        self._moves = False
        self._fixed_since_ns: int | None = None

    def on_message(self, fix: GnssFix, now_ns: int) -> None:
        """Update from a fix."""
        if fix.t_ns - now_ns > FUTURE_NS:
            return
        place = fix.latitude_rad, fix.longitude_rad
        # Even at a crawl two fixes are centimetres apart, so equal positions mean that the receiver
        # is stuck.
        self.repeats = place == self._place_rad
        self.same_in_a_row = self.same_in_a_row + 1 if self._moves and self.repeats else 0
        self._place_rad = place
        self.carrier = fix.carrier
        if fix.carrier is CarrierSolution.FIXED and fix.fix_type >= FixType.FIX_2D:
            self.had_fixed = True
            if self._fixed_since_ns is None:
                self._fixed_since_ns = now_ns
            if (
                self.degraded_since_ns is not None
                and now_ns - self._fixed_since_ns >= RESUME_FIXED_NS
            ):
                self.degraded_since_ns = None
        else:
            self._fixed_since_ns = None
            if self.had_fixed and self.degraded_since_ns is None:
                self.degraded_since_ns = now_ns

    def update(self, s: SafetyInputs) -> None:
        """Update from the estimate: its consecutive rejections, and whether the vehicle moves."""
        self._moves = abs(s.speed_mps) > self._moving_mps
        self.rejected_in_a_row = s.estimate.rejected_in_a_row if s.estimate is not None else 0

    def degraded_s(self, now_ns: int) -> float:
        """Return the time since the loss of the fixed solution; 0 while it lasts."""
        return 0.0 if self.degraded_since_ns is None else (now_ns - self.degraded_since_ns) * 1e-9
