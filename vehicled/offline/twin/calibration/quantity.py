"""Interface of the calibration models, and their fitted quantities."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from vehicled.offline.twin.calibration.run import RunSegment, SimulatedMotion

Group = Literal["powertrain", "steering", "tyres", "inertia"]
GROUPS: tuple[Group, ...] = ("powertrain", "steering", "tyres", "inertia")
Needs = Literal[
    "drive", "throttle_range", "throttle_changes", "throttle_steps", "coasting", "turns",
    "straight", "left", "right", "steering_changes", "steering_steps", "lateral", "sliding",
    "yaw_jerk",
]  # fmt: skip
"""Excitation that a quantity needs; see :mod:`vehicled.offline.twin.calibration.excitation`."""


class Quantity(Struct, frozen=True, kw_only=True):
    """Unknown of the fit, with its prior."""

    name: str
    group: Group
    unit: str
    start: float
    lower: float
    upper: float
    sigma: float
    """Prior standard deviation about ``start``; also the scale of the unknown."""
    needs: tuple[Needs, ...]
    model_error: float = 0.0
    """Standard deviation that remains however good the drives are, because the drive of the fit is
    not that of the vehicle."""
    starts: tuple[dict[str, float], ...] = ()
    """Further starting values, of this and of others, because the cost may have several minima
    along it."""
    by_speed: bool = True
    """True if fitted to the speed that the throttle causes; else to the path at the measured
    speed."""
    bends_path: bool = False
    """True if fitted to the speed while the path at the measured speed depends on it too."""
    alone: bool = True
    """True if it can be left out of the fit singly; else it forms one number of the file with
    others."""


class CalibratedNumber(Struct, frozen=True, kw_only=True):
    """Calibrated number of the vehicle's file."""

    key: str
    value: Any
    sigma: float
    before: Any


Values = Mapping[str, float]


class CalibrationModel(Protocol):
    """Vehicle with variable parameters that can be driven."""

    name: str

    def quantities(self, levels: Sequence[float], top_mps: float) -> list[Quantity]:
        """Return all quantities that can be fitted if the drives steer with commands near
        ``levels`` and reach ``top_mps``."""
        ...

    def drive(
        self,
        piece: RunSegment,
        values: Values,
        step_s: float,
        *,
        at_speed: bool,
        level: float = 1.0,
    ) -> SimulatedMotion:
        """Drive open loop along the commands of a piece; with ``at_speed`` at the measured speed,
        without it by throttle and brake. ``level`` scales the throttle: the charge of the battery.
        ``values`` may be partial.
        """
        ...

    def steps_s(self) -> tuple[float, float]:
        """Step for fitting, and step for evaluation."""
        ...

    def figures(self, values: Values, sigma: Values) -> list[CalibratedNumber]:
        """Return the numbers of the file for values and standard deviations by quantity."""
        ...
