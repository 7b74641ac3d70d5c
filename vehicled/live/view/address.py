"""Addresses on which the page is served: ``127.0.0.1:8765``, ``[::]:8765``, ``:8765``, ``0.0.0.0``. Pure."""

import ipaddress
import re

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
_FORM = re.compile(r"^(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:]*))(?::(?P<port>\d{1,5}))?$")
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$")


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of an address, with defaults for missing parts. Raises ValueError with the expected form."""
    found = _FORM.match(text.strip())
    expected = f"{text!r} is not a listen address: use HOST:PORT, such as {DEFAULT_HOST}:{DEFAULT_PORT}, 0.0.0.0:8765 or [::]:8765"
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
