"""Skeleton of the HTML pages: each is one file that fetches nothing and may be opened from a
mail."""

from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files

from vehicled import __version__
from vehicled.core.plain_text import escape


def resource(package: str, name: str) -> str:
    """Return the text of a style sheet or script that lies beside a package's modules."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def page(
    title: str,
    style: str,
    sections: Iterable[str],
    origin: str,
    *,
    script: str = "",
    pictures: bool = False,
    body: str = "",
) -> str:
    """Return a page. ``origin`` ends the sentence that says what made it; ``body`` holds attributes
    of the body.

    The page may run its own ``script`` and show ``pictures`` that it contains, and nothing else.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    policy += ("; script-src 'unsafe-inline'" if script else "") + (
        "; img-src data:" if pictures else ""
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta '
        f'http-equiv="Content-Security-Policy" content="{policy}"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light '
        'dark">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body{body}>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>Made by vehicled {escape(__version__)}{escape(origin)}.</footer>\n"
        + (f"<script>\n{script}</script>" if script else "")
        + "</body></html>\n"
    )


def table(
    heads: Sequence[str], rows: Iterable[str], numeric: Collection[int] = (), kind: str = ""
) -> str:
    """Return a table that scrolls sideways. ``rows`` are HTML, ``numeric`` the columns of
    numbers."""
    head = "".join(
        f"<th{' class=n' if k in numeric else ''}>{escape(text)}</th>"
        for k, text in enumerate(heads)
    )
    named = f' class="{kind}"' if kind else ""
    return (
        "<div "
        f'class="scroll"><table{named}><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def row(cells: Iterable[str], *, named: bool = False) -> str:
    """Return a row of texts; ``named``: the first one is its name."""
    first, *others = cells
    tag = "th" if named else "td"
    return (
        f"<tr><{tag}>{escape(first)}</{tag}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
    )
