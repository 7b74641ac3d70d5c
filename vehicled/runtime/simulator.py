"""Simulator as a child process on a socket pair, without an address or a file."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

_QUIT_S = 0.1
"""Grace period at the end, s: a simulator without a link ends at once, unless it is stopped or stuck."""


class SimulatorProcess:
    """Context that starts ``python -m sim_backend`` and ends it."""

    def __init__(
        self,
        profile: str,
        overrides: Sequence[str],
        course: str,
        seed: int,
        link: str = "messages",
        failures: Sequence[str] = (),
        *,
        scenario: bool = True,
        start: str = "",
    ) -> None:
        """Start the process; without ``scenario`` the simulator does not arm the vehicle. Raises OSError."""
        self.sock, theirs = socket.socketpair()
        with theirs:
            arguments = ["--profile", profile, "--course", course, "--seed", str(seed), "--link", link]
            arguments += ["--listen", f"fd:{theirs.fileno()}"]
            if not scenario:
                arguments.append("--by-hand")
            if start:
                arguments += ["--start", start]
            for failure in failures:
                arguments += ["--fail", failure]
            for override in overrides:
                arguments += ["--set", override]
            # Pass on the interpreter's flags and path, so that the simulator belongs to this daemon's installation.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sim_backend", *arguments], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    @property
    def pid(self) -> int:
        """Process id, for signals and tracing."""
        return self._process.pid

    def __enter__(self) -> "SimulatorProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.sock.close()
        try:
            self._process.wait(_QUIT_S)
        except subprocess.TimeoutExpired:
            # The process is stopped or stuck; its link is gone, so it can be killed.
            self._process.kill()
            self._process.wait()
