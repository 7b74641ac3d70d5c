"""Text of others for display: names and reasons that a device, a simulator, a client or a foreign
log chose.

A terminal obeys control characters, and invisible ones can turn the order of a text around.
"""

import html
import json


def printable(text: str, limit: int | None = None) -> str:
    """Return a text on one line with control, direction and other invisible characters escaped, cut
    after ``limit`` characters."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 3] + "..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in cut)


def printable_lines(text: str) -> str:
    """Return a text with the same escaped, but for its line ends and tabs."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def escape(text: str) -> str:
    """Return a text for an HTML page: no markup, and the same escaped."""
    return html.escape(printable_lines(text))


def shorten(text: str, most: int) -> str:
    """Return at most ``most`` characters, cut after a word and with an ellipsis; one endless word
    is cut within."""
    if len(text) <= most:
        return text
    return text[: most - 2].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"


def _escaped(character: str) -> str:
    # As in JSON, so that JSON stays JSON with the same values.
    return json.dumps(character)[1:-1]
