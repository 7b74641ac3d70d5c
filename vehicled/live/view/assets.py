"""Files of the page: read once and served from memory; no other file is served."""

from pathlib import Path

from msgspec import Struct

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M8 1l6 14-6-4-6 4z" '
    b'fill="#0072b2"/></svg>'
)


class Asset(Struct, frozen=True):
    """File of the page."""

    media_type: str
    body: bytes


def load_assets(*folders: str) -> dict[str, Asset]:
    """Return the files of folders beside this file by request path; a later folder replaces files
    of the same name."""
    files = [
        path
        for folder in folders
        for path in sorted(Path(__file__).with_name(folder).iterdir())
        if path.suffix in TYPES
    ]
    found = {f"/{path.name}": Asset(TYPES[path.suffix], path.read_bytes()) for path in files}
    found["/"] = found.pop("/index.html")
    found["/icon.svg"] = Asset("image/svg+xml", ICON)
    return found


def headers(host: str, media_type: str) -> list[tuple[str, str]]:
    """Return the headers of an answer: load only from this server, never cache, never in a frame.

    The socket is named besides ``'self'``, because older browsers do not include it. ``host`` must
    have been checked.
    """
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
        f"'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; frame-ancestors "
        "'none'"
    )
    return [
        ("Content-Type", media_type),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
        ("Cache-Control", "no-store"),
    ]
