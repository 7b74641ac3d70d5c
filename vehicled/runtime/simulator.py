"""The simulator as a child process, on a socket pair: no address, no file, nothing left behind."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

_QUIT_S = 0.1
"""A simulator without a link ends at once; one that does not is stopped or stuck."""


class SimulatorProcess:
    """Starts ``python -m sim_backend`` and owns it: leaving the scope ends it."""

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
        """Without ``scenario`` nobody in there arms the vehicle. Raises OSError when the process cannot be started."""
        self.sock, theirs = socket.socketpair()
        with theirs:
            arguments = [
                "--profile",
                profile,
                "--course",
                course,
                "--seed",
                str(seed),
                "--link",
                link,
                "--listen",
                f"fd:{theirs.fileno()}",
            ]
            if not scenario:
                arguments.append("--by-hand")
            if start:
                arguments += ["--start", start]
            for failure in failures:
                arguments += ["--fail", failure]
            for override in overrides:
                arguments += ["--set", override]
            # The interpreter's own flags and path go along: the simulator must be the one that belongs to this daemon.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sim_backend", *arguments], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    @property
    def pid(self) -> int:
        """Process id, for those who want to stop or trace it."""
        return self._process.pid

    def __enter__(self) -> "SimulatorProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.sock.close()
        try:
            self._process.wait(_QUIT_S)
        except subprocess.TimeoutExpired:
            # Stopped, or stuck: it has lost its link and nobody will miss it.
            self._process.kill()
            self._process.wait()
