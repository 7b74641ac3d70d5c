"""Server of one simulation that another program steps.

One program at a time; further ones are refused at once. Nothing runs between two requests, so a
program that pauses pauses the simulation.
"""

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from vehicled import __version__
from vehicled.core.errors import UserError
from vehicled.live.control_socket.access import HELLO_TIMEOUT_S, hello_refusal
from vehicled.live.control_socket.path_points import path_points
from vehicled.live.control_socket.protocol import (
    MAX_LINE,
    VERSION,
    HelloRequest,
    PathRequest,
    RequestError,
    answer,
    farewell,
    refusal,
)
from vehicled.run.plan import Plan
from vehicled.run.step_protocol import (
    ObserveRequest,
    ResetRequest,
    StepRequest,
    StepServerRequests,
    observed,
    parse_step,
)
from vehicled.run.stepwise import Action, Stepwise

READ_BYTES = 1 << 14
WRITE_TIMEOUT_S = 5.0
"""Timeout for a program that does not read its answers, s."""
BUSY = "another program steps this simulation: end it, or start a server of your own"


class _LeaveError(Exception):
    """The connection ends; the text is the reason."""


class StepServer:
    """Lets one program after the other step a simulation."""

    def __init__(self, plan: Plan, listener: socket.socket, token: str) -> None:
        """Begin the drive; without a ``token`` none is needed. Raises :class:`SetupError`."""
        self._plan = plan
        self._stepwise = Stepwise(plan)
        self._listener = listener
        self._token = token

    def serve(self, report: Callable[[str], None] = lambda text: None) -> None:
        """Serve until interrupted; ``report`` takes what people may want to know."""
        self._listener.setblocking(True)
        while True:
            program, _ = self._listener.accept()
            with program:
                report("a program has connected")
                try:
                    self._serve_program(program)
                except _LeaveError as error:
                    with suppress(OSError):
                        program.sendall(farewell(str(error)))
                    report(f"connection closed: {error}")
                except OSError as error:
                    report(f"connection lost: {error.strerror or error}")
                else:
                    report("the program has disconnected")

    def _serve_program(self, program: socket.socket) -> None:
        program.settimeout(WRITE_TIMEOUT_S)
        if program.family != socket.AF_UNIX:
            program.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer, greeted = b"", False
        deadline_s = time.monotonic() + HELLO_TIMEOUT_S
        while True:
            while b"\n" not in buffer:
                if len(buffer) > MAX_LINE:
                    raise _LeaveError(f"line too long: at most {MAX_LINE} bytes")
                self._wait(program, None if greeted else deadline_s)
                data = program.recv(READ_BYTES)
                if not data:
                    return
                buffer += data
            line, _, buffer = buffer.partition(b"\n")
            if not greeted and (refused := hello_refusal(line, self._token)):
                raise _LeaveError(refused)
            greeted = True
            if line.strip():
                program.sendall(self._answer(line))

    def _wait(self, program: socket.socket, deadline_s: float | None) -> None:
        """Wait until the program sends, and refuse others meanwhile."""
        while True:
            left_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)
            ready, _, _ = select.select([program, self._listener], [], [], left_s)
            if program in ready:
                return
            if self._listener in ready:
                other, _ = self._listener.accept()
                with other, suppress(OSError):
                    other.settimeout(0.0)
                    other.sendall(farewell(BUSY))
                    # A close with unread bytes would discard what was sent.
                    other.shutdown(socket.SHUT_WR)
                    other.settimeout(0.2)
                    other.recv(READ_BYTES)
            elif deadline_s is not None and time.monotonic() >= deadline_s:
                raise _LeaveError(f"no hello within {HELLO_TIMEOUT_S:.0f} s")

    def _answer(self, line: bytes) -> bytes:
        try:
            return self._done(parse_step(line))
        except (RequestError, UserError) as error:
            return refusal(str(error))

    def _done(self, request: StepServerRequests) -> bytes:
        simulation = self._stepwise
        match request:
            case HelloRequest():
                profile = self._plan.loaded.profile
                return answer(
                    protocol="step",
                    version=VERSION,
                    software=__version__,
                    profile=profile.name,
                    course=self._plan.course.name,
                    course_m=self._plan.course.length_m,
                    period_s=simulation.period_s,
                    wheelbase_m=profile.vehicle.wheelbase_m,
                )
            case PathRequest():
                return answer(path=path_points(self._plan.course, request.points))
            case ResetRequest():
                return answer(observation=observed(simulation.reset(request.seed), scan=False))
            case ObserveRequest():
                return answer(observation=observed(simulation.observe(), scan=request.scan))
            case StepRequest():
                seen = simulation.step(_action(request), until_s=request.until_s)
                return answer(observation=observed(seen, scan=request.scan))


def _action(request: StepRequest) -> Action | None:
    """Return the setpoint of a step; None if the controller drives."""
    turns = (request.wheel_angle_rad, request.curvature_per_m)
    if request.speed_mps is None:
        if turns != (None, None):
            raise RequestError("a step with curvature_per_m or wheel_angle_rad needs speed_mps too")
        return None
    return Action(request.speed_mps, *turns)
