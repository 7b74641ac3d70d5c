"""Monitor of the localisation on a map: when a scan last fitted, and what is wrong since."""

from math import nan

from vehicled.core.messages import MapMatch, MapPose
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.safety.inputs import SafetyInputs

TEXTS = {
    MapMatch.SEARCHING: "its place on the map is being searched: let it stand",
    MapMatch.MATCHED: "no scan arrives: look at the scanner",
    MapMatch.UNFIT: (
        "the scan fits nowhere: look whether the map is of this place and up to date, and "
        "whether the scanner is mounted as the profile says"
    ),
    MapMatch.AMBIGUOUS: (
        "it looks like several places: drive it by hand to one that does not, or state "
        "localisation.start"
    ),
    MapMatch.BLIND: (
        "the scanner sees hardly anything: look at its window and at what stands around"
    ),
}


class LocalisationMonitor:
    """Monitor of the poses on the map. Silent for a vehicle without one."""

    def __init__(self) -> None:
        self.mapped = False
        """True if the vehicle is located on a map."""
        self.outcome = MapMatch.SEARCHING
        """Outcome of the newest scan."""
        self.fit = nan
        """Fraction of the newest scan that fits, at its best place."""
        self.lost_s = nan
        """Time since a scan last fitted, s; NaN without a map, and before the first that did."""
        self._matched_ns: int | None = None
        """Time of validity of the newest matched scan; None before the first."""
        self.repeats = False
        """True if the newest pose repeats the one before, to the last digit, while the vehicle
        moves: also one from a device."""
        self._place = (nan, nan, nan)
        self._moves = False

    def on_message(self, pose: MapPose, now_ns: int) -> None:
        """Update from the result of a scan, or a pose of a device. One that repeats itself locates
        nothing."""
        self.outcome, self.fit = pose.outcome, pose.fit
        place = pose.x_m, pose.y_m, pose.yaw_rad
        self.repeats = self._moves and place == self._place
        self._place = place
        if pose.outcome is MapMatch.MATCHED and not self.repeats:
            self._matched_ns = min(pose.t_ns, now_ns)

    def update(self, s: SafetyInputs) -> None:
        """Note for how long no scan has fitted; called once per tick."""
        self._moves = abs(s.speed_mps) > STANDSTILL_MPS
        if self._matched_ns is not None and (self.mapped or self.repeats):
            self.lost_s = (s.now_ns - self._matched_ns) * 1e-9
        else:
            self.lost_s = nan

    @property
    def located(self) -> bool:
        """True if the newest scan fits."""
        return self.outcome is MapMatch.MATCHED and self._matched_ns is not None

    @property
    def why(self) -> str:
        """Text of what is wrong, with its cure."""
        if self.repeats:
            return "its poses repeat themselves while it moves: look at what sends them"
        fit = f" ({100 * self.fit:.0f} % of it)" if self.outcome is MapMatch.UNFIT else ""
        return TEXTS[self.outcome].replace("the scan fits nowhere", f"the scan fits nowhere{fit}")
