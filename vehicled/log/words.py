"""Words of a log for people."""


def shorten(text: str, most: int) -> str:
    """At most ``most`` characters, cut behind a word and with an ellipsis where more was said; one endless word is cut within."""
    if len(text) <= most:
        return text
    return text[: most - 2].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"
