"""Address and access rules of the live view: token, host names, origins. Pure.

A browser sends requests to any address for any site. To keep other sites out, the server answers
only to its own addresses and names (against DNS rebinding), and opens a socket only for a page that
it served.
"""

import ipaddress
import re
import secrets
from collections.abc import Iterable
from hmac import compare_digest

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
_FORM = re.compile(r"^(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:]*))(?::(?P<port>\d{1,5}))?$")
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")
TOKEN_BYTES = 16
MAX_HOST = 255
FOXGLOVE_ORIGINS = frozenset({"https://app.foxglove.dev", "https://studio.foxglove.dev"})
"""Origins of Foxglove's application; it may read without a token if none is required."""


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class Access:
    """Access rules of one server."""

    def __init__(self, token: str, names: Iterable[str]) -> None:
        """Take the token, empty if none is required, and further ``names`` of the computer besides
        its addresses."""
        self._token = token.encode()
        self._names = {"localhost", *(name.lower() for name in names)}

    def knows(self, token: str | None) -> bool:
        """Return True if the token is right or none is required. Takes the same time for right and
        wrong tokens."""
        return not self._token or compare_digest(
            (token or "").encode("utf-8", "replace"), self._token
        )

    def ours(self, host: str | None) -> bool:
        """Return True if a Host header names this computer."""
        if not host or len(host) > MAX_HOST:
            return False
        name = _without_port(host.lower())
        return name in self._names or _is_address(name)

    def same_site(self, origin: str | None, host: str) -> bool:
        """Return True if a request comes from a page of this server, or not from a browser."""
        return origin is None or origin.lower() in (
            f"http://{host.lower()}",
            f"https://{host.lower()}",
        )

    def reads_foxglove(self, origin: str | None, host: str, token: str | None) -> bool:
        """Return True if a Foxglove socket may be opened; with the right token from any site."""
        if self._token:
            return self.knows(token)
        return self.same_site(origin, host) or origin in FOXGLOVE_ORIGINS


def _without_port(host: str) -> str:
    """Return the host of ``host`` or ``host:port``; empty if it is neither."""
    if host.startswith("["):
        name, closed, rest = host[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        whole = bool(closed)
    else:
        name, colon, port = host.partition(":")
        whole = True
    return name if whole and ((colon == ":" and port.isdecimal()) or not (colon or port)) else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return True if only this computer can connect to this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of an address, with defaults for missing parts. Raises ValueError with
    the expected form."""
    found = _FORM.match(text.strip())
    expected = (
        f"{text!r} is not a listen address: use HOST:PORT, such as "
        f"{DEFAULT_HOST}:{DEFAULT_PORT}, 0.0.0.0:8765 or [::]:8765"
    )
    if found is None:
        raise ValueError(expected)
    host = found["six"] or found["host"] or DEFAULT_HOST
    port = int(found["port"]) if found["port"] else DEFAULT_PORT
    if port > 65535:
        raise ValueError(expected)
    if found["six"] or not _NAME.match(host):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(expected) from None
    return host, port


def url_of(host: str, port: int) -> str:
    """Return the URL for a browser."""
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
