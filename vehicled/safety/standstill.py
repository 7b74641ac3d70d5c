"""Standstill detection from the estimate, the wheels and GNSS, with the reason if it fails."""

from math import isfinite

from vehicled.messages import Mode
from vehicled.safety.arming import ROLLING_MPS
from vehicled.safety.monitors.motion import MOVING_MPS
from vehicled.safety.rule import RuleInputs
from vehicled.vehicle import STANDSTILL_MPS

DOUBTED_NS = 3 * 10**9
"""Time for which the speed of a doubtful GNSS receiver still counts, ns. A wrong estimate, which stands because it trusts a
brake that does not act, rejects a correct receiver too."""
UNREST_NS = 3 * 10**9
"""Time after which a stop that has not ended reports why, ns."""


class StandstillDetector:
    """Detector of the standstill at the end of a stop."""

    def __init__(self) -> None:
        self._still_since_ns: int | None = None
        """Time since which the estimate has been at standstill; None while it moves."""
        self._moves_since_ns: int | None = None
        """Start of the present stop; None while there is none."""
        self._had_speed = False
        """True if the estimator has given a speed since the vehicle was last armed."""

    def stands(self, s: RuleInputs, *, gnss_stuck: bool, gnss_refused: bool) -> bool:
        """Return True at standstill; called once per tick. ``gnss_stuck`` and ``gnss_refused``: these rules are in force."""
        estimate = s.estimate
        # The estimate predicts with brake commands that may not have acted, so measured speeds must confirm it.
        estimated = estimate is not None and isfinite(estimate.speed_mps)
        if estimated or s.mode in (Mode.INIT, Mode.STANDBY, Mode.ARMED):
            self._had_speed = estimated
        # Before the estimator has started, measured speeds suffice, with the noise of GNSS. Afterwards they do not: an estimate
        # that was lost in motion proves no standstill.
        known = estimated or not self._had_speed
        limit_mps = STANDSTILL_MPS if estimated else MOVING_MPS
        if estimate is None or not (known and _fresh(s) and abs(s.speed_mps) < limit_mps):
            self._still_since_ns = None
            return False
        self._still_since_ns = s.now_ns if self._still_since_ns is None else self._still_since_ns
        doubted = s.monitors.gnss.rejected_in_a_row > 0 or gnss_refused
        unheard = gnss_stuck or (doubted and s.now_ns - self._still_since_ns >= DOUBTED_NS)
        return s.monitors.motion.measured_mps(s.now_ns, gnss_unheard=unheard) <= ROLLING_MPS

    def ended(self) -> None:
        """Note that no stop is in progress."""
        self._moves_since_ns = None

    def unrest(self, s: RuleInputs) -> list[str]:
        """Return why a stop has not ended, once it takes too long; the vehicle accepts no other request until it ends."""
        if self._moves_since_ns is None:
            self._moves_since_ns = s.now_ns
        if s.now_ns - self._moves_since_ns < UNREST_NS:
            return []
        estimate = s.estimate
        if estimate is None or not _fresh(s):
            said = "there is no fresh estimate: look after the sensors"
        elif not isfinite(s.speed_mps):
            said = "neither an estimate nor wheels nor GNSS tell its speed: look after the sensors"
        elif not abs(s.speed_mps) < STANDSTILL_MPS:
            said = f"the estimate says {s.speed_mps:.2f} m/s: hold the vehicle"
        else:
            speed = s.monitors.motion.measured_mps(s.now_ns, gnss_unheard=False)
            said = f"wheels or GNSS measure {speed:.2f} m/s and the estimate does not: hold the vehicle, look at both"
        return [f"it is not known to stand: {said}"]


def _fresh(s: RuleInputs) -> bool:
    return s.estimate_age_ns <= s.limits.estimate_silence_s * 1e9
