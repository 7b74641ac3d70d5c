"""Notifications to systemd by the protocol of sd_notify(3). Does nothing outside systemd.

Never blocks and never raises. A watchdog message that cannot be sent is lost, so systemd sees a
daemon that cannot send.
"""

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Connection to the service manager of the environment; ``reason`` says why there is none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.reason = ""
        self._socket: socket.socket | None = None
        self._address = environ.get("NOTIFY_SOCKET", "")
        if not self._address:
            self.reason = "not started by systemd (NOTIFY_SOCKET is not set)"
            return
        if self._address[0] not in "/@":
            self.reason = (
                f"NOTIFY_SOCKET={self._address}: only paths and abstract names (@) are supported"
            )
            return
        if self._address[0] == "@":
            self._address = "\0" + self._address[1:]
        try:
            self._socket = socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | getattr(socket, "SOCK_CLOEXEC", 0)
            )
            self._socket.setblocking(False)
        except OSError as error:
            self.reason = f"no Unix socket: {error.strerror}"

    @property
    def reached(self) -> bool:
        """True if there is a service manager."""
        return self._socket is not None

    def ready(self, status: str = "") -> bool:
        """Report that start-up is complete. This and the methods below return True if the socket
        accepted the message."""
        return self._send("READY=1" + (f"\nSTATUS={_one_line(status)}" if status else ""))

    def status(self, text: str) -> bool:
        """Set the line shown by ``systemctl status``."""
        return self._send(f"STATUS={_one_line(text)}")

    def watchdog(self) -> bool:
        """Report that the daemon is alive."""
        return self._send("WATCHDOG=1")

    def extend(self, least_s: float) -> bool:
        """Ask for at least so much time from now on for starting or ending, whatever the timeouts
        of the unit."""
        return self._send(f"EXTEND_TIMEOUT_USEC={round(least_s * 1e6)}")

    def stopping(self, status: str = "", least_s: float = 0.0) -> bool:
        """Report that an orderly shutdown has begun. ``least_s``: time that it needs, also of the
        watchdog."""
        lines = ["STOPPING=1"]
        if status:
            lines.append(f"STATUS={_one_line(status)}")
        if least_s:
            lines += [
                f"{name}={round(least_s * 1e6)}"
                for name in ("EXTEND_TIMEOUT_USEC", "WATCHDOG_USEC")
            ]
        return self._send("\n".join(lines))

    def close(self) -> None:
        """Close the socket. Safe to repeat."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self.reason = "closed"

    def _send(self, text: str) -> bool:
        if self._socket is None:
            return False
        try:
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except (OSError, ValueError):
            return False
        return True


def _one_line(text: str) -> str:
    # A line break would start another assignment.
    return " ".join(text.splitlines())


def watchdog_interval_ns(environ: Mapping[str, str] = os.environ) -> int:
    """Return the watchdog timeout (ns) of systemd for this process; 0 without a watchdog."""
    try:
        interval_us = int(environ.get("WATCHDOG_USEC", ""))
        pid = int(environ.get("WATCHDOG_PID", str(os.getpid())))
    except ValueError:
        return 0
    return interval_us * 1000 if interval_us > 0 and pid == os.getpid() else 0
