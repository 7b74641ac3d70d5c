"""What a validation comes to: comparisons with runs, checks against theory, and the verdict over both."""

from collections import Counter

from msgspec import Struct

from sim_backend.validation.metrics import Drive, Errors, Judgement
from sim_backend.validation.reference import Reference, Source
from sim_backend.validation.targets import Target


class Comparison(Struct, frozen=True, eq=False):
    """One reference run and ours beside it."""

    reference: Reference
    drive: Drive
    errors: Errors
    target: Target
    judgement: Judgement

    @property
    def source(self) -> Source:
        """The file."""
        return self.reference.source


class Failure(Struct, frozen=True):
    """A run that could not be compared, with the reason and the cure."""

    source: Source
    reason: str


class Check(Struct, frozen=True):
    """A property that follows from theory, of one vehicle. ``passed`` None: does not apply to it, as ``found`` tells."""

    vehicle: str
    name: str
    found: str
    wanted: str
    passed: bool | None


class Provenance(Struct, frozen=True):
    """How many numbers of a vehicle file are published, calibrated, derived and assumed."""

    vehicle: str
    published: int
    calibrated: int
    derived: int
    assumed: int


class Validation(Struct, frozen=True, eq=False):
    """Everything that was found."""

    folder: str
    comparisons: list[Comparison]
    """Worst first: those that miss their target, by how much; then those that keep it; then those not judged."""
    failures: list[Failure]
    problems: list[str]
    """Of the folder: what is missing or not recognised. They do not fail a validation, they shrink it."""
    checks: list[Check]
    provenance: list[Provenance]

    @property
    def missed(self) -> list[Comparison]:
        """Runs beyond their target."""
        return [comparison for comparison in self.comparisons if comparison.judgement.passed is False]

    @property
    def judged(self) -> int:
        """Runs that have a target."""
        return sum(comparison.judgement.passed is not None for comparison in self.comparisons)

    @property
    def failed_checks(self) -> list[Check]:
        """Checks against theory that do not hold."""
        return [check for check in self.checks if check.passed is False]

    @property
    def passed(self) -> bool:
        """Whether every target is kept, every check holds and something was judged at all."""
        return not (self.missed or self.failures or self.failed_checks) and bool(self.judged or self.checks)

    def headline(self) -> str:
        """The verdict in a sentence."""
        kept = self.judged - len(self.missed)
        text = f"{kept} of {self.judged} reference runs within their target"
        if self.checks:
            holding = sum(check.passed is True for check in self.checks)
            text += f", {holding} of {holding + len(self.failed_checks)} checks against theory hold"
        if self.failures:
            text += f", {len(self.failures)} runs could not be compared"
        return text


def worst_first(comparisons: list[Comparison]) -> list[Comparison]:
    """Sorted as :class:`Validation` wants them; names decide between equals, so that the order never changes."""

    def place(comparison: Comparison) -> tuple[int, float, str]:
        passed, share = comparison.judgement.passed, comparison.judgement.share
        if passed is None:
            position = comparison.errors.position_pct
            return 2, -position if position == position else 0.0, comparison.source.name
        return int(passed), -share, comparison.source.name

    return sorted(comparisons, key=place)


def count_provenance(vehicle: str, statuses: list[str]) -> Provenance:
    """Count the statuses of a vehicle file's numbers."""
    counts = Counter(statuses)
    return Provenance(vehicle, counts["published"], counts["calibrated"], counts["derived"], counts["assumed"])
