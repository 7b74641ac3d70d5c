"""Conformance test of the control protocol, version 1, for any server and any client. It needs
Python 3.11 and nothing else.

    python conformance.py server tcp:127.0.0.1:7714 --token TOKEN
    python conformance.py client --kind control -- ./drive_lap {address} {token}
    python conformance.py client --kind step -- ./step_lap {address} {token}

A server is asked what every server must answer or refuse; a daemon moves nothing for it. A client
is a command that drives the course: it meets a server that this program plays, which is sound once
and has one defect in every other case. With a defect the command must end by itself, with a status
other than 0, and name the cause. ``{address}`` and ``{token}`` are put in. Exit status: 0 all cases
passed, 1 some did not.
"""

import argparse
import json
import math
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

VERSION = 1
TIMEOUT_S = 20.0
"""Longest wait for any answer of a server, s."""
CLIENT_TIMEOUT_S = 60.0
"""Longest time that a client may take to end, s."""
TOKEN = "conformance-token"  # noqa: S105 - of the played server alone
Answer = dict[str, Any]


class CaseError(Exception):
    """A case that is not passed; the text says what was expected and what came."""


# ---------------------------------------------------------------- servers


class LineConnection:
    """Connection to the server under test."""

    def __init__(self, address: str, token: str) -> None:
        """Connect to an address."""
        self.address, self.token = address, token
        kind, _, rest = address.partition(":")
        if kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(TIMEOUT_S)
            self.socket.connect(rest)
        else:
            host, _, port = rest.rpartition(":")
            self.socket = socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S)
        self._buffer = b""

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, data: bytes | Answer) -> None:
        """Send a request, or bytes as they are."""
        self.socket.sendall(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")

    def line(self) -> Answer | None:
        """Return the next answer; None at the end of the connection."""
        while b"\n" not in self._buffer:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            except TimeoutError:
                raise CaseError(f"no answer within {TIMEOUT_S:g} s") from None
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        found = json.loads(line, parse_constant=_no_constant)
        if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):
            raise CaseError(f"an answer is an object with ok; this is {line[:80]!r}")
        return found

    def ask(self, request: bytes | Answer) -> Answer:
        """Send a request and return its answer."""
        self.send(request)
        found = self.line()
        if found is None:
            raise CaseError("the connection was closed in the place of an answer")
        return found

    def accepted(self, request: bytes | Answer) -> Answer:
        """Return the answer to a request that the server must accept."""
        found = self.ask(request)
        if not found["ok"]:
            raise CaseError(f"{request!r} was refused: {found.get('why')}")
        return found

    def refused(self, request: bytes | Answer) -> str:
        """Return why a request is refused that the server must refuse."""
        found = self.ask(request)
        if found["ok"] or not isinstance(found.get("why"), str) or not found["why"]:
            raise CaseError(f"{request!r} must be refused with a reason; the answer was {found}")
        return str(found["why"])

    def hello(self) -> Answer:
        """Say hello."""
        return self.accepted({"do": "hello", "version": VERSION, "token": self.token})


def _no_constant(text: str) -> float:
    raise CaseError(f"{text} is no JSON")


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise CaseError(what)


Case = Callable[[LineConnection], None]


def case_hello(wire: LineConnection) -> None:
    """A hello is answered with protocol, version and software."""
    found = wire.hello()
    _check(found.get("version") == VERSION, f"version {VERSION} expected: {found}")
    _check(found.get("protocol") in ("control", "step"), f"protocol unknown: {found}")
    _check(isinstance(found.get("software"), str), f"software is missing: {found}")


def case_other_version(wire: LineConnection) -> None:
    """Another version is refused."""
    wire.refused({"do": "hello", "version": VERSION + 998, "token": wire.token})


def case_wrong_token(wire: LineConnection) -> None:
    """Over TCP a wrong token is refused, and the connection ends."""
    if wire.address.startswith("tcp:"):
        wire.refused({"do": "hello", "version": VERSION, "token": wire.token + "x"})
        _check(wire.line() is None, "the connection must end after a wrong token")


def case_no_hello(wire: LineConnection) -> None:
    """Over TCP a connection that begins with something else is refused and ends."""
    if wire.address.startswith("tcp:"):
        wire.refused(b"GET / HTTP/1.1\r\n")
        _check(wire.line() is None, "the connection must end without a hello")


def case_no_request(wire: LineConnection) -> None:
    """Lines that are no request are refused, and the connection goes on."""
    wire.hello()
    for line in (
        b"{\n",
        b"[]\n",
        b'{"do":"nonsense"}\n',
        b'{"do":"path","more":1}\n',
        b"\xff\xfe\n",
    ):
        wire.refused(line)
    wire.accepted({"do": "path"})


def case_not_finite(wire: LineConnection) -> None:
    """NaN and infinite numbers are refused."""
    kind = "step" if wire.hello()["protocol"] == "step" else "setpoint"
    for number in (b"NaN", b"Infinity", b"1e999"):
        more = b"" if kind == "step" else b',"sequence":1'
        wire.refused(
            b'{"do":"%s","speed_mps":%s,"curvature_per_m":0%s}\n' % (kind.encode(), number, more)
        )


def case_cut_lines(wire: LineConnection) -> None:
    """Requests that arrive byte by byte or together are answered in order; empty lines are not."""
    wire.hello()
    wire.send(b"\n \n")
    for byte in b'{"do":"path","points":7}\n':
        wire.send(bytes([byte]))
    first = wire.line()
    wire.send(b'{"do":"path","points":2}\n{"do":"path","points":5}\n')
    found = [first, wire.line(), wire.line()]
    counts = [len(((each or {}).get("path") or {}).get("x_m", ())) for each in found]
    _check(counts == [7, 2, 5], f"7, 2 and 5 points were asked for, {counts} came")


def case_path(wire: LineConnection) -> None:
    """The columns of the path have one length, and the arc length increases."""
    wire.hello()
    path = wire.accepted({"do": "path", "points": 200})["path"]
    columns = ("s_m", "x_m", "y_m", "yaw_rad", "curvature_per_m", "speed_mps")
    _check(len({len(path[name]) for name in columns}) == 1, "columns of different lengths")
    _check(path["s_m"] == sorted(path["s_m"]), "the arc length decreases")
    _check(0.0 < path["s_m"][-1] <= path["length_m"] + 1e-3, "the path is longer than its length")


def case_long_line(wire: LineConnection) -> None:
    """A line of more than 4096 bytes is refused, and the connection ends."""
    wire.hello()
    wire.refused(b'{"do":"' + b"x" * 9000)
    _check(wire.line() is None, "the connection must end after a line that is too long")


def case_half_a_line(wire: LineConnection) -> None:
    """A program that ends in the middle of a line harms nobody."""
    wire.hello()
    wire.send(b'{"do":"pat')
    wire.close()
    with closing(wire.address, wire.token) as other:
        other.hello()


def case_status(wire: LineConnection) -> None:
    """The state has a mode, its reason, and what is waited for."""
    wire.hello()
    status = wire.accepted({"do": "status"})["status"]
    _check(isinstance(status["mode"], str) and isinstance(status["why"], str), f"{status}")
    _check(isinstance(status["waiting_for"], list), f"waiting_for is no list: {status}")


def case_actions(wire: LineConnection) -> None:
    """An action that does not exist is refused; a stop never is."""
    wire.hello()
    wire.refused({"do": "request", "action": "fly"})
    found = wire.accepted({"do": "request", "action": "stop", "origin": "conformance"})
    _check(isinstance(found.get("mode"), str), f"the answer lacks the mode: {found}")


def case_setpoints(wire: LineConnection) -> None:
    """A setpoint has one of curvature and wheel angle, in range; a sound one is not answered."""
    wire.hello()
    sound = {"do": "setpoint", "speed_mps": 0.0, "curvature_per_m": 0.0, "origin": "conformance"}
    wire.refused({**sound, "sequence": 1, "wheel_angle_rad": 0.0})
    wire.refused({**sound, "sequence": 1, "speed_mps": 1000.0})
    wire.refused({**sound, "sequence": -1})
    wire.send({**sound, "sequence": 2})
    _check("path" in wire.accepted({"do": "path"}), "the setpoint was answered")


def case_lease(wire: LineConnection) -> None:
    """While one program sends setpoints, another one is refused."""
    wire.hello()
    sound = {"do": "setpoint", "speed_mps": 0.0, "curvature_per_m": 0.0}
    with closing(wire.address, wire.token) as other:
        other.hello()
        for sequence in range(5):
            wire.send({**sound, "sequence": sequence, "origin": "first"})
            wire.accepted({"do": "path", "points": 2})
            other.send({**sound, "sequence": sequence, "origin": "second"})
            found = other.ask({"do": "path", "points": 2})
            if not found["ok"]:
                _check(bool(found.get("why")), f"the refusal has no reason: {found}")
                return
            # A computer that is busy may have let more than the second of the lease pass.
            time.sleep(1.5)
    raise CaseError("a second program was not refused")


def case_topics(wire: LineConnection) -> None:
    """A topic gives its messages, at most at the rate that is asked for; an unknown one is
    refused."""
    wire.hello()
    wire.refused({"do": "subscribe", "topic": "nonsense"})
    with closing(wire.address, wire.token) as other:
        other.hello()
        began_s, count = time.monotonic(), 0
        other.send({"do": "subscribe", "topic": "state_estimate", "rate_hz": 20})
        while count < 5:
            found = other.line()
            _check(found is not None and found["ok"], f"the subscription ended: {found}")
            count += "message" in (found or {})
            _check(time.monotonic() - began_s < TIMEOUT_S, "five messages did not come")
        _check(time.monotonic() - began_s > 0.15, "faster than the rate that was asked for")


def case_stepping(wire: LineConnection) -> None:
    """A step goes on for one period or until a time; an observation for none."""
    period_s = wire.hello()["period_s"]
    began = wire.accepted({"do": "reset", "seed": 3})["observation"]
    seen = wire.accepted({"do": "step"})["observation"]
    _check(
        math.isclose(seen["time_s"] - began["time_s"], period_s, abs_tol=1e-6),
        f"a step of {seen['time_s'] - began['time_s']} s, period {period_s} s",
    )
    until_s = seen["time_s"] + 3 * period_s
    seen = wire.accepted({"do": "step", "until_s": until_s})["observation"]
    _check(math.isclose(seen["time_s"], until_s, abs_tol=1e-6), "until_s was not kept")
    _check(wire.accepted({"do": "observe"})["observation"] == seen, "an observation is a step")


def case_scan(wire: LineConnection) -> None:
    """A scan says of each ray why its range is null."""
    wire.hello()
    scan = wire.accepted({"do": "observe", "scan": True})["observation"]["scan"]
    if scan is None:
        return
    known = "".join("r" if each is not None else "." for each in scan["ranges_m"])
    _check(len(known) == len(scan["rays"]), "rays has another length than ranges_m")
    _check(set(scan["rays"]) <= set("ronx"), "rays has other letters than r, o, n and x")
    _check(
        all((a == "r") is (b == "r") for a, b in zip(known, scan["rays"], strict=True)),
        "a ray with the letter r has no range, or one without it has one",
    )


def case_same_seed(wire: LineConnection) -> None:
    """The same seed gives the same bytes."""
    wire.hello()
    drives = []
    for _ in range(2):
        wire.accepted({"do": "reset", "seed": 5})
        for _ in range(20):
            seen = wire.accepted({"do": "step", "speed_mps": 0.5, "curvature_per_m": 0.1})
        drives.append(seen)
    _check(drives[0] == drives[1], "two drives with one seed differ")


def case_bad_steps(wire: LineConnection) -> None:
    """A step with half a setpoint is refused, and does not count as a step."""
    wire.hello()
    before = wire.accepted({"do": "observe"})["observation"]["time_s"]
    wire.refused({"do": "step", "speed_mps": 1.0})
    wire.refused({"do": "step", "curvature_per_m": 0.1})
    wire.refused({"do": "step", "speed_mps": 1.0, "curvature_per_m": 0.1, "wheel_angle_rad": 0.1})
    after = wire.accepted({"do": "observe"})["observation"]["time_s"]
    _check(before == after, "a refused step was one")


def case_second_program(wire: LineConnection) -> None:
    """A second program is refused at once, and the first goes on."""
    wire.hello()
    with closing(wire.address, wire.token) as other:
        found = other.line()
        _check(found is not None and not found["ok"], f"the second program was admitted: {found}")
    wire.accepted({"do": "observe"})


@contextmanager
def closing(address: str, token: str) -> Iterator[LineConnection]:
    """Connect for the duration of the block."""
    wire = LineConnection(address, token)
    try:
        yield wire
    finally:
        wire.close()


COMMON: tuple[Case, ...] = (
    case_hello, case_other_version, case_wrong_token, case_no_hello, case_no_request,
    case_not_finite, case_cut_lines, case_path, case_long_line, case_half_a_line,
)  # fmt: skip
SERVERS: dict[str, tuple[Case, ...]] = {
    "control": (case_status, case_actions, case_setpoints, case_lease, case_topics),
    "step": (case_stepping, case_scan, case_same_seed, case_bad_steps, case_second_program),
}


def test_server(address: str, token: str) -> list[str]:
    """Return what a server does wrong, a line for each case."""
    with closing(address, token) as wire:
        kind = str(wire.hello()["protocol"])
    failed = []
    for case in (*COMMON, *SERVERS.get(kind, ())):
        time.sleep(0.05)
        try:
            with closing(address, token) as wire:
                case(wire)
        except (CaseError, OSError, ValueError, KeyError, TypeError) as error:
            failed.append(f"{case.__name__}: {type(error).__name__}: {error}")
        print(f"{'FAILED' if failed and failed[-1].startswith(case.__name__) else 'passed'}  "
              f"{(case.__doc__ or '').splitlines()[0]}")  # fmt: skip
    return failed


# ---------------------------------------------------------------- clients


class PlayedServer:
    """Server with one defect. Its vehicle moves along its setpoints."""

    DEFECTS: ClassVar[dict[str, tuple[str, str]]] = {
        "absent": ("(?i)refused|no server|connect", "nothing listens"),
        "other_version": ("(?i)version", "the server speaks another version"),
        "refused_version": ("(?i)version 9", "the server refuses the client's version"),
        "wrong_token": ("(?i)wrong token", "the server refuses the token"),
        "silent": ("(?i)no answer|time", "the server never answers"),
        "drip": ("(?i)no answer|time", "the server sends a byte a second"),
        "cut": ("(?i)clos|connection|answer", "the connection is cut in the middle of a line"),
        "garbage": ("(?i)not vehicled|does not answer as|JSON", "something else answers"),
        "flood": ("(?i)line|JSON|answer", "the server sends a line without an end"),
        "refused": ("the plan does not allow this", "a request is refused"),
        "ended": ("the run has ended", "the run ends"),
        "unknown_place": ("(?i)nan|finite|unknown", "the estimate has no position"),
    }
    CONTROL_DEFECTS: ClassVar[dict[str, tuple[str, str]]] = {
        "lease_refused": ("planner", "another program holds the lease"),
        "operator": ("TELEOP", "a person takes over"),
        "not_armed": ("no GNSS fix", "the vehicle is never armed"),
        "frozen": ("(?i)time|frozen|no message", "the daemon freezes during the drive"),
    }

    def __init__(self, kind: str, defect: str) -> None:
        """``defect``: one of the keys above, or empty."""
        self._kind, self._defect = kind, defect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        self.mistakes: list[str] = []
        """Lines of the client that no client may send."""
        self._lock = threading.Lock()
        self._pose = [0.0, 0.0, 0.0]
        self._time_s = 0.0
        self._mode, self._setpoints, self._sequence = "STANDBY", 0, -1
        self._moved_s = time.monotonic()
        self._ended = threading.Event()
        self._programs: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if defect == "absent":
            self._listener.close()
        else:
            self._begin(self._accept)

    def _begin(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        """End all connections, and stop listening."""
        self._ended.set()
        for each in (self._listener, *self._programs):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                program, _ = self._listener.accept()
                self._programs.append(program)
                self._begin(self._serve, program)

    def _serve(self, program: socket.socket) -> None:
        with program, program.makefile("rb") as reader, suppress(OSError):
            lines = (line for line in reader if line.strip())
            for number, line in enumerate(lines):
                try:
                    request = json.loads(line, parse_constant=_no_constant)
                except (ValueError, CaseError) as error:
                    self.mistakes.append(f"{line[:80]!r}: {error}")
                    return
                if number == 0 and request.get("do") != "hello":
                    self.mistakes.append(f"the first line is no hello: {line[:80]!r}")
                if not self._broken(program, number):
                    self._answer(program, request)

    def _broken(self, program: socket.socket, number: int) -> bool:
        """Show a defect that concerns every request; return True if it did."""
        match self._defect:
            case "silent":
                self._ended.wait()
            case "frozen" if self._setpoints > 5:
                self._ended.wait()
            case "drip":
                for byte in b'{"ok":true,"protocol":"control","version":1}\n':
                    program.sendall(bytes([byte]))
                    if self._ended.wait(1.0):
                        break
            case "garbage":
                program.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            case "flood":
                while not self._ended.is_set():
                    program.sendall(b'{"ok":true,"text":"' + b"x" * 65536)
            case "other_version":
                _send(program, protocol=self._kind, version=VERSION + 1, software="played")
            case "refused_version":
                _refuse(program, "this side speaks version 9")
            case "wrong_token":
                _refuse(program, "wrong token", ended=True)
            case "cut" if number > 0:
                program.sendall(b'{"ok":true,"pa')
                program.shutdown(socket.SHUT_RDWR)
            case "refused" if number > 0:
                _refuse(program, "the plan does not allow this")
            case "ended" if number > 0:
                _refuse(program, "the run has ended", ended=True)
            case _:
                return False
        return True

    def _answer(self, program: socket.socket, request: Answer) -> None:
        do = request.get("do")
        match do:
            case "hello":
                if request.get("version") != VERSION or request.get("token") != TOKEN:
                    self.mistakes.append(f"hello without version and token: {request}")
                _send(program, protocol=self._kind, version=VERSION, software="played",
                      period_s=0.01, profile="played", course="line", course_m=4.0)  # fmt: skip
            case "path":
                points = [0.1 * i for i in range(41)]
                _send(program, path={
                    "name": "line", "closed": False, "length_m": 4.0, "s_m": points,
                    "x_m": points, "y_m": [0.2] * 41, "yaw_rad": [0.0] * 41,
                    "curvature_per_m": [0.0] * 41, "speed_mps": [2.0] * 41,
                })  # fmt: skip
            case "status":
                _send(program, status=self._status())
            case "request":
                self._act(str(request.get("action")))
                _send(program, mode=self._mode)
            case "setpoint":
                self._take(program, request)
            case "watch":
                while not self._ended.wait(0.05):
                    _send(program, status=self._status())
            case "subscribe":
                while not self._ended.wait(0.02):
                    if self._defect == "frozen" and self._setpoints > 5:
                        self._ended.wait()
                    _send(program, t_ns=1, skipped=0, message=self._estimate())
            case "reset" | "step" | "observe":
                self._step(request, do)
                _send(program, observation={
                    "time_s": self._time_s, "mode": "OFFBOARD", "reaction": "NONE", "why": "",
                    "finished": False, "over": False, "estimate": self._estimate(),
                    "truth": self._estimate(), "control": None, "command": None,
                })  # fmt: skip
            case _:
                self.mistakes.append(f"no request of this protocol: {request}")
                _refuse(program, "not a request")

    def _status(self) -> Answer:
        waits = ["no GNSS fix"] if self._defect == "not_armed" else []
        return {"mode": self._mode, "why": "played", "waiting_for": waits, "estimate": None}

    def _act(self, action: str) -> None:
        if action == "arm" and self._mode == "STANDBY" and self._defect != "not_armed":
            self._mode = "ARMED"
        elif action == "offboard" and self._mode == "ARMED":
            self._mode = "OFFBOARD"
        elif action in ("disarm", "stop"):
            self._mode = "STANDBY"

    def _take(self, program: socket.socket, request: Answer) -> None:
        self._setpoints += 1
        if request.get("sequence", -1) <= self._sequence:
            self.mistakes.append(f"the sequence does not count up: {request}")
        self._sequence = request.get("sequence", -1)
        if self._defect == "lease_refused" and self._setpoints == 1:
            _refuse(program, "'planner' sends setpoints already: end it first")
        if self._defect == "operator" and self._mode == "OFFBOARD" and self._setpoints > 20:
            self._mode = "TELEOP"
        now_s = time.monotonic()
        if self._mode == "OFFBOARD":
            self._move(request, min(now_s - self._moved_s, 0.2))
        self._moved_s = now_s

    def _step(self, request: Answer, do: str) -> None:
        if do == "reset":
            self._pose, self._time_s = [0.0, 0.0, 0.0], 0.5
        elif do == "step":
            until_s = request.get("until_s", self._time_s + 0.01)
            self._move(request, until_s - self._time_s)
            self._time_s = until_s

    def _move(self, request: Answer, period_s: float) -> None:
        speed, curvature = request.get("speed_mps", 1.0), request.get("curvature_per_m", 0.0)
        with self._lock:
            x, y, yaw = self._pose
            way = speed * period_s
            self._pose = [x + way * math.cos(yaw), y + way * math.sin(yaw), yaw + way * curvature]

    def _estimate(self) -> Answer:
        with self._lock:
            x, y, yaw = self._pose
        unknown = self._defect == "unknown_place"
        return {"t_ns": time.monotonic_ns(), "x_m": None if unknown else x,
                "y_m": None if unknown else y, "yaw_rad": yaw, "speed_mps": 0.0}  # fmt: skip


def _send(program: socket.socket, **values: Any) -> None:
    program.sendall(json.dumps({"ok": True, **values}).encode() + b"\n")


def _refuse(program: socket.socket, why: str, *, ended: bool = False) -> None:
    more = {"ended": True} if ended else {}
    program.sendall(json.dumps({"ok": False, "why": why, **more}).encode() + b"\n")


def client_problem(kind: str, defect: str, expected: str, command: list[str]) -> str:
    """Return what a client does wrong with one defect; empty if nothing."""
    server = PlayedServer(kind, defect)
    words = [
        word.replace("{address}", server.address).replace("{token}", TOKEN) for word in command
    ]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=CLIENT_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it has not ended within {CLIENT_TIMEOUT_S:g} s"
    finally:
        server.close()
    said = (done.stdout + done.stderr).strip()
    if server.mistakes:
        return f"it sent what no client may send: {server.mistakes[0]}"
    if done.returncode < 0:
        return f"signal {-done.returncode} ended it: {said[-500:]}"
    if not defect:
        return "" if done.returncode == 0 else f"status {done.returncode}: {said[-500:]}"
    if done.returncode == 0:
        return f"its status is 0; it said: {said[-500:]}"
    return "" if re.search(expected, said) else f"it does not name the cause: {said[-500:]}"


def test_client(kind: str, command: list[str], cases: list[str]) -> list[str]:
    """Return what a client does wrong, a line for each case."""
    defects = {"": ("", "a sound server"), **PlayedServer.DEFECTS}
    if kind == "control":
        defects |= PlayedServer.CONTROL_DEFECTS
    failed = []
    for defect, (expected, title) in defects.items():
        if cases and (defect or "sound") not in cases:
            continue
        problem = client_problem(kind, defect, expected, command)
        print(f"{'FAILED' if problem else 'passed'}  {title}", flush=True)
        if problem:
            failed.append(f"{defect or 'sound'}: {problem}")
    return failed


def main() -> int:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sides = parser.add_subparsers(dest="side", required=True)
    server = sides.add_parser("server", help="test a server")
    server.add_argument("address", help="tcp:HOST:PORT or unix:PATH")
    server.add_argument("--token", default="")
    client = sides.add_parser("client", help="test a client")
    client.add_argument("--kind", choices=("control", "step"), default="control")
    client.add_argument("--case", action="append", default=[], help="only this one; repeatable")
    client.add_argument("command", nargs="+")
    given = parser.parse_args()
    try:
        failed = (
            test_server(given.address, given.token)
            if given.side == "server"
            else test_client(given.kind, given.command, given.case)
        )
    except (CaseError, OSError, ValueError) as error:
        print(f"the test cannot begin: {error}", file=sys.stderr)
        return 1
    for line in failed:
        print(line, file=sys.stderr)
    print(f"{len(failed)} cases failed" if failed else "all cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
