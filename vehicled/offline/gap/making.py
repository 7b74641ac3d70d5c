"""Finds the judge that an option names."""

from collections.abc import Sequence

from vehicled.core.vehicle import Vehicle
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.judges import DriveJudge, EstimatorJudge
from vehicled.offline.gap.robot_localization.judge import NAME, RobotLocalizationJudge


def make_judge(
    text: str, overrides: Sequence[str] = (), vehicle: Vehicle | None = None
) -> DriveJudge:
    """Return a judge by its name. Raises :class:`GapError`, RecordingError and UnknownNameError."""
    name, equals, file = text.partition("=")
    if name != NAME:
        return EstimatorJudge(text, overrides, vehicle)
    if not equals or not file:
        raise GapError(f"--judge {text}: name the parameter file of ekf_node: {NAME}=FILE.yaml")
    return RobotLocalizationJudge(file, overrides, vehicle)
