"""Validation results: comparisons with reference runs, checks against theory, and the verdict."""

from collections import Counter

from msgspec import Struct

from vehicled.offline.twin.validation.evidence import LARGEST_PCT, Finding, ParameterEffect
from vehicled.offline.twin.validation.metrics import JudgedRows, ModelDrive, TargetResult
from vehicled.offline.twin.validation.reference import ReferenceRun, ReferenceSource
from vehicled.offline.twin.validation.targets import Target


class RunComparison(Struct, frozen=True, eq=False):
    """Reference run and our model's run."""

    reference: ReferenceRun
    drive: ModelDrive
    judged: JudgedRows
    errors: dict[str, float]
    """RMS deviation by figure over the judged rows, percent of its scale."""
    limits: dict[str, float]
    """Limits of this run by figure."""
    target: Target
    judgement: TargetResult
    effects: list[ParameterEffect]
    """Effects of the parameters on this run; empty if it is not judged."""

    @property
    def source(self) -> ReferenceSource:
        return self.reference.source


class FailedRun(Struct, frozen=True):
    """Run that could not be compared, with the reason and what to do."""

    source: ReferenceSource
    reason: str


class TheoryCheck(Struct, frozen=True):
    """Theoretical property of one vehicle. ``passed`` None: not applicable, ``found`` says why."""

    vehicle: str
    name: str
    found: str
    wanted: str
    passed: bool | None


class StatusCounts(Struct, frozen=True):
    """Number of published, calibrated, derived and assumed values in a vehicle file."""

    vehicle: str
    published: int
    calibrated: int
    derived: int
    assumed: int


class Validation(Struct, frozen=True, eq=False):
    """Complete validation result."""

    folder: str
    comparisons: list[RunComparison]
    """Comparisons, worst first: missed targets by their excess, then met ones, then those without
    target."""
    failures: list[FailedRun]
    problems: list[str]
    """Messages about the folder: missing or unrecognised files. They do not fail a validation, but
    reduce it."""
    checks: list[TheoryCheck]
    provenance: list[StatusCounts]
    findings: list[Finding]
    """Parameters estimated from all runs of a vehicle and model."""

    @property
    def deviating(self) -> list[Finding]:
        """Parameters that the runs show to be off."""
        return [finding for finding in self.findings if finding.passed is False]

    @property
    def missed(self) -> list[RunComparison]:
        """Runs beyond their target."""
        return [
            comparison for comparison in self.comparisons if comparison.judgement.passed is False
        ]

    @property
    def judged(self) -> int:
        """Number of runs with a target."""
        return sum(comparison.judgement.passed is not None for comparison in self.comparisons)

    @property
    def failed_checks(self) -> list[TheoryCheck]:
        """Failed checks against theory."""
        return [check for check in self.checks if check.passed is False]

    @property
    def passed(self) -> bool:
        """True if all targets are met, no parameter is off, all checks hold and at least one run or
        check was evaluated."""
        return not (self.missed or self.failures or self.failed_checks or self.deviating) and bool(
            self.judged or self.checks
        )

    def headline(self) -> str:
        """Verdict in one sentence."""
        kept = self.judged - len(self.missed)
        text = (
            f"{kept} of {self.judged} reference runs within their target"
            if self.judged
            else "no reference run judged"
        )
        if self.findings:
            shown = sum(finding.passed is not None for finding in self.findings)
            text += (
                f", {shown - len(self.deviating)} of {shown} parameters that the runs show "
                f"within {LARGEST_PCT:g} %"
            )
        if self.checks:
            holding = sum(check.passed is True for check in self.checks)
            text += f", {holding} of {holding + len(self.failed_checks)} checks against theory hold"
        if self.failures:
            text += f", {len(self.failures)} runs could not be compared"
        return text


def worst_first(comparisons: list[RunComparison]) -> list[RunComparison]:
    """Sort the comparisons as :class:`Validation` requires; ties are sorted by name."""

    def place(comparison: RunComparison) -> tuple[int, float, str]:
        passed, share = comparison.judgement.passed, comparison.judgement.share
        if passed is None:
            return 2, -comparison.errors.get("position", 0.0), comparison.source.name
        return int(passed), -share, comparison.source.name

    return sorted(comparisons, key=place)


def count_provenance(vehicle: str, statuses: list[str]) -> StatusCounts:
    """Count the statuses of a vehicle file's numbers."""
    counts = Counter(statuses)
    return StatusCounts(
        vehicle, counts["published"], counts["calibrated"], counts["derived"], counts["assumed"]
    )
