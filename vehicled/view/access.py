"""Who may see the page and ask for something: token, names, origins. Pure.

A browser sends requests to any address for any site. What keeps other sites out is that the page answers only to addresses and to
names that are its own (a name of somebody else that was made to point here is refused: DNS rebinding), and that a socket is opened
only by a page that came from here.
"""

import ipaddress
import secrets
from collections.abc import Iterable
from hmac import compare_digest

TOKEN_BYTES = 16
MAX_HOST = 255
FOXGLOVE_ORIGINS = frozenset({"https://app.foxglove.dev", "https://studio.foxglove.dev"})
"""Where Foxglove's own application comes from; it reads, and may do so without a token where none is asked for."""


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


class Access:
    """The rules of one server."""

    def __init__(self, token: str, names: Iterable[str]) -> None:
        """``token`` may be empty: then nobody needs one. ``names``: by which the machine may be asked for besides its addresses."""
        self._token = token.encode()
        self._names = {"localhost", *(name.lower() for name in names)}

    def knows(self, token: str | None) -> bool:
        """Whether this is the token, or none is needed. Takes as long for a wrong one as for the right one."""
        return not self._token or compare_digest((token or "").encode("utf-8", "replace"), self._token)

    def ours(self, host: str | None) -> bool:
        """Whether a Host header names this machine."""
        if not host or len(host) > MAX_HOST:
            return False
        name = _without_port(host.lower())
        return name in self._names or _is_address(name)

    def same_site(self, origin: str | None, host: str) -> bool:
        """Whether a request comes from a page of ours, or from no browser at all."""
        return origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")

    def reads_foxglove(self, origin: str | None, host: str, token: str | None) -> bool:
        """Whether a Foxglove socket may be opened. Who shows the token was given it, whatever site that is."""
        if self._token:
            return self.knows(token)
        return self.same_site(origin, host) or origin in FOXGLOVE_ORIGINS


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
