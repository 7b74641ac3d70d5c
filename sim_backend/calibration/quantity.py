"""A number that can be fitted, and the model that it belongs to."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from sim_backend.calibration.run import Motion, Piece

Group = Literal["powertrain", "steering", "tyres", "inertia"]
GROUPS: tuple[Group, ...] = ("powertrain", "steering", "tyres", "inertia")
Needs = Literal[
    "drive", "throttle_range", "throttle_changes", "throttle_steps", "coasting", "turns", "straight",
    "left", "right", "steering_changes", "steering_steps", "lateral", "sliding", "yaw_jerk",
]  # fmt: skip
"""What a drive must show for a quantity to be seen in it; see :mod:`sim_backend.calibration.excitation`."""


class Quantity(Struct, frozen=True, kw_only=True):
    """One unknown of the fit, with what is believed of it before."""

    name: str
    group: Group
    unit: str
    start: float
    lower: float
    upper: float
    sigma: float
    """One standard deviation of the belief, about ``start``; also what the unknown is scaled with."""
    needs: tuple[Needs, ...]
    starts: tuple[dict[str, float], ...] = ()
    """Other values, of this and of others, to begin at: the fit may have more than one valley along it."""
    by_speed: bool = True
    """Seen in the speed that the throttle leads to; else in the path at the measured speed."""
    bends_path: bool = False
    """Seen in the speed, but the path at the measured speed depends on it too."""
    alone: bool = True
    """Can be left out of the fit by itself; else it is one of several that make one number of the file together."""


class Figure(Struct, frozen=True, kw_only=True):
    """A number of the vehicle's file, as found."""

    key: str
    value: Any
    sigma: float
    before: Any


Values = Mapping[str, float]


class Model(Protocol):
    """A vehicle whose numbers can be changed and that can be driven."""

    name: str

    def quantities(self, levels: Sequence[float], top_mps: float) -> list[Quantity]:
        """Everything that can be fitted, when the drives steer with commands near ``levels`` and reach ``top_mps``."""
        ...

    def drive(self, piece: Piece, values: Values, step_s: float, *, at_speed: bool, level: float = 1.0) -> Motion:
        """Open loop along the commands of a piece; with ``at_speed`` at the measured speed, without it by throttle and brake.
        ``level`` scales what the throttle does: the charge of the battery. ``values`` may have some quantities only."""
        ...

    def steps_s(self) -> tuple[float, float]:
        """Step to fit with, and step to judge with."""
        ...

    def figures(self, values: Values, sigma: Values) -> list[Figure]:
        """Numbers of the file that values and standard deviations by quantity make."""
        ...
