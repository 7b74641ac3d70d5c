"""Record of what was read from a course file, so that the user can check it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSummary:
    """Contents that a reader used, ignored and noticed in a course file."""

    form: str
    """Kind of file, and its dialect."""
    used: tuple[tuple[str, str], ...] = ()
    """Names as the file writes them, with their meaning and unit."""
    ignored: tuple[tuple[str, str], ...] = ()
    """Names that do not change the course, with the reason; empty where the reason is that the name
    says nothing to us."""
    remarks: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the account as lines of text."""
        found = [f"read as {self.form}"]
        if self.used:
            found.append("used: " + ", ".join(f"{name} ({meaning})" for name, meaning in self.used))
        by_reason: dict[str, list[str]] = {}
        for name, why in self.ignored:
            by_reason.setdefault(why, []).append(name)
        if by_reason:
            groups = (
                ", ".join(names) + (f" ({why})" if why else "") for why, names in by_reason.items()
            )
            found.append("ignored: " + ", ".join(groups))
        return [*found, *(f"note: {remark}" for remark in self.remarks)]
