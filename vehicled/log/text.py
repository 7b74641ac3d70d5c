"""Shortening of a text for display, at the end of a word."""


def shorten(text: str, most: int) -> str:
    """Return at most ``most`` characters, cut after a word and with an ellipsis; one endless word is cut within."""
    if len(text) <= most:
        return text
    return text[: most - 2].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"
