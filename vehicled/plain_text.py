"""Text of others for display: names and reasons that a device, a simulator or a client chose."""


def printable(text: str, limit: int | None = None) -> str:
    """Return a text on one line with control, direction and other invisible characters escaped, cut after ``limit`` characters."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 3] + "..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
