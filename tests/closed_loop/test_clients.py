"""Clients in C++ and MATLAB: each drives by setpoints, reads topics and steps a simulation, and
ends with the cause where something is wrong. Servers and clients pass the conformance test that
ships with the clients.

The C++ programs are built with the sanitizers, so that an error of memory fails the test. What is
written for MATLAB runs in GNU Octave.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT, Daemon, command
from vehicled.cli.new_client import CLIENTS
from vehicled.cli.templates.clients import conformance
from vehicled.core.messages import Mode, ModeChange
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import ActionRequest, SetpointRequest, TeleopRequest
from vehicled.live.control_socket.socket_path import SocketPathError, socket_path
from vehicled.log.reader import LogReader

WALL = pytest.mark.xdist_group("wall")
"""Drives in wall time share one worker with all others."""
BUILT = pytest.mark.xdist_group("clients")
"""One worker builds the programs."""
STAND_INS = ROOT / "tests" / "stand_ins"
COURSE = "circle_r5_ccw"
LANGUAGES = ("cpp", "matlab")
SLOW = {"silent", "drip", "frozen", "not_armed"}
"""Cases in which a client waits for its time limit."""
OF_OCTAVE = {"sound", "wrong_token", "cut", "unknown_place", "operator"}
"""Cases that stay in ``make test`` for the second language."""
DISTANCE_M = 1.5


@cache
def octave() -> str:
    """Return GNU Octave, which runs what is written for MATLAB."""
    program = shutil.which("octave-cli")
    if program is None:
        pytest.skip("the program octave-cli is not installed")
    loads = subprocess.run(
        [program, "-q", "--eval", "pkg load instrument-control"],
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )
    if loads.returncode != 0:
        pytest.skip("the program octave-cli is not installed with octave-instrument-control")
    return program


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return the function that builds the C++ programs, once."""

    @cache
    def build() -> Path:
        if shutil.which("g++") is None:
            pytest.skip("the program g++ is not installed")
        folder = tmp_path_factory.mktemp("cpp")
        flags = [
            "-std=c++17", "-O0", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
        ]  # fmt: skip
        for name in ("drive_lap", "read_topic", "step_lap"):
            done = subprocess.run(
                ["g++", *flags, str(CLIENTS / "cpp" / f"{name}.cpp"), "-o", str(folder / name)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        return folder

    return build


def words(
    language: str, program: str, built: Callable[[], Path], address: str, token: str, *more: str
) -> list[str]:
    """Return the command of a client; ``more`` are a distance, and a seed."""
    if language == "cpp":
        named = [word for pair in zip(("--distance", "--seed"), more) for word in pair]
        return [str(built() / program), address, token, *named]
    text = f"{program}('{address}', '{token}'{''.join(f', {each}' for each in more)});"
    return [
        octave(), "-q", "--path", str(CLIENTS / "matlab"), "--eval",
        f"pkg load instrument-control; {text}",
    ]  # fmt: skip


def run(command_words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a client to its end."""
    return subprocess.run(
        command_words, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, str]]:
    """Run ``vehicled serve``; give its address and its token."""
    with subprocess.Popen(
        [sys.executable, "-m", "vehicled", "serve", *arguments, "--listen", "tcp:127.0.0.1:0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().rpartition(": ")[2].strip()
            token = process.stdout.readline().removeprefix("token: ").strip()
            assert address.startswith("tcp:"), address
            yield address, token
        finally:
            process.kill()


@pytest.fixture(scope="module")
def stepped() -> Iterator[tuple[str, str]]:
    """Address and token of a simulation that is stepped."""
    with serving("simulation", "--course", COURSE, "--seed", "3") as found:
        yield found


class LiveRun:
    """A simulated vehicle in wall time, with its relay to TCP."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.daemon = Daemon(
            ["--clock", "wall", "--course", COURSE, "--seed", "3", *WIDE_LIMITS, *options], folder
        )
        self.path = socket_path("art")
        self.unix = f"unix:{self.path}"

    def client(self) -> Client:
        made: list[Client] = []

        def connected() -> bool:
            with suppress(SocketPathError):
                made.append(Client(self.path))
            return bool(made)

        wait_until(connected, lambda: self.daemon.process.poll() or "no control socket")
        return made[0]

    def wait_for(self, client: Client, *modes: str) -> None:
        wait_until(lambda: client.status()["mode"] in modes, lambda: client.status()["why"])

    def drive(self, client: Client, command_words: list[str]) -> str:
        """Drive until the client has its distance; again where the computer held it up for so long
        that the vehicle stopped."""
        for _ in range(8):
            done = run(command_words)
            if "setpoint" not in done.stderr or done.returncode == 0:
                break
            self.wait_for(client, "STANDBY")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
        self.daemon.process.communicate()


@contextmanager
def live(folder: Path, *options: str) -> Iterator[LiveRun]:
    """Run a vehicle, with a folder of its own for sockets."""
    before = os.environ.get("RUNTIME_DIRECTORY")
    with TemporaryDirectory(prefix="v") as sockets:
        os.environ["RUNTIME_DIRECTORY"] = sockets
        found = LiveRun(folder, *options)
        try:
            yield found
        finally:
            found.close()
            if before is None:
                del os.environ["RUNTIME_DIRECTORY"]
            else:
                os.environ["RUNTIME_DIRECTORY"] = before


# ---------------------------------------------------------------- servers


@BUILT
def test_a_stepped_simulation_keeps_to_the_protocol(stepped: tuple[str, str]) -> None:
    assert conformance.test_server(*stepped) == []


@WALL
def test_a_daemon_and_its_relay_keep_to_the_protocol(tmp_path: Path) -> None:
    with live(tmp_path, "--by-hand") as vehicle, vehicle.client() as client:
        vehicle.wait_for(client, "STANDBY")
        assert conformance.test_server(vehicle.unix, "") == []
        with serving("control") as (address, token):
            assert conformance.test_server(address, token) == []


@BUILT
def test_a_relay_without_a_daemon_says_so() -> None:
    with serving("control") as (address, token), conformance.closing(address, token) as wire:
        assert "no daemon is running" in wire.refused({"do": "hello", "version": 1, "token": token})
        assert wire.line() is None


@BUILT
def test_a_simulation_on_a_unix_socket_needs_no_token(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with subprocess.Popen(
        [sys.executable, "-m", "vehicled", "serve", "simulation", "--course", COURSE,
         "--listen", f"unix:{path}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert f"unix:{path}" in process.stdout.readline()
        with conformance.closing(f"unix:{path}", "") as wire:
            assert wire.hello()["protocol"] == "step"
        process.kill()


# ---------------------------------------------------------------- clients


def cases() -> list[object]:
    """Return kind, case and language of every defect; the slow ones for `make soak`."""
    found: list[object] = []
    for kind in ("control", "step"):
        more = conformance.PlayedServer.CONTROL_DEFECTS if kind == "control" else {}
        for case in ("sound", *conformance.PlayedServer.DEFECTS, *more):
            for language in LANGUAGES:
                usual = language == "cpp" or case in OF_OCTAVE
                rare = (
                    not usual
                    or (case in SLOW and (kind, case) != ("control", "silent"))
                    or (kind == "step" and language == "cpp" and case not in OF_OCTAVE)
                )
                marks = [pytest.mark.soak] if rare else []
                found.append(
                    pytest.param(kind, case, language, marks=marks, id=f"{kind}-{case}-{language}")
                )
    return found


@pytest.mark.parametrize(("kind", "case", "language"), cases())
@BUILT
def test_a_client_ends_with_the_cause(
    kind: str, case: str, language: str, built: Callable[[], Path]
) -> None:
    program = {"control": "drive_lap", "step": "step_lap"}[kind]
    template = words(language, program, built, "{address}", "{token}")
    assert conformance.test_client(kind, template, [case]) == []


@BUILT
def test_both_languages_step_the_same_drive(
    stepped: tuple[str, str], built: Callable[[], Path]
) -> None:
    said = []
    for language in LANGUAGES:
        done = run(words(language, "step_lap", built, *stepped, "2.0", "5"))
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    found = re.search(r"(\d+) steps, true cross-track error ([\d.]+) m RMS", said[0])
    assert found is not None, said[0]
    assert int(found[1]) > 20
    assert float(found[2]) < 0.1


@BUILT
def test_numbers_are_read_alike_without_the_newer_functions(
    stepped: tuple[str, str], built: Callable[[], Path], tmp_path: Path
) -> None:
    """Some standard libraries lack those of C++17 for floating point."""
    newer = run(words("cpp", "step_lap", built, *stepped, "1.0", "5"))
    subprocess.run(
        ["g++", "-std=c++17", "-DVEHICLED_STREAM_NUMBERS", str(CLIENTS / "cpp" / "step_lap.cpp"),
         "-o", str(tmp_path / "step_lap")],
        check=True,
    )  # fmt: skip
    address, token = stepped
    older = run([str(tmp_path / "step_lap"), address, token, "--distance", "1.0", "--seed", "5"])
    assert older.stdout == newer.stdout
    assert older.stdout


@contextmanager
def played() -> Iterator[tuple[str, str]]:
    """Play a daemon; give its address and its token."""
    server = conformance.PlayedServer("control", "")
    try:
        yield server.address, conformance.TOKEN
    finally:
        server.close()


@BUILT
def test_every_call_in_cpp_returns_or_names_the_mistake(
    stepped: tuple[str, str], tmp_path: Path
) -> None:
    program = compiled(tmp_path, "client_calls.cpp")
    with played() as daemon:
        done = run([str(program), *stepped, *daemon])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@BUILT
def test_every_call_in_matlab_returns_or_names_the_mistake(stepped: tuple[str, str]) -> None:
    with played() as daemon:
        given = "', '".join((*stepped, *daemon))
        done = run(
            [octave(), "-q", "--path", str(CLIENTS / "matlab"), "--path", str(STAND_INS / "matlab"),
             "--eval", f"pkg load instrument-control; calls('{given}')"]
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def compiled(folder: Path, source: str) -> Path:
    """Return a program that uses the header, built with the sanitizers."""
    if shutil.which("g++") is None:
        pytest.skip("the program g++ is not installed")
    done = subprocess.run(
        ["g++", "-std=c++17", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
         "-I", str(CLIENTS / "cpp"), str(STAND_INS / source), "-o", str(folder / "program")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "program"


def random_value(source: random.Random, depth: int) -> Any:
    """Return a value that JSON can hold."""
    match source.randrange(8 if depth < 4 else 6):
        case 0:
            return source.choice([None, True, False])
        case 1:
            return source.uniform(-1.0, 1.0) * 10.0 ** source.randrange(-300, 300)
        case 2:
            return float(source.randrange(-(2**53), 2**53))
        case 3 | 4 | 5:
            letters = 'ab\\"/\b\f\n\r\t\x01\x1f äß€\U0001f697'
            return "".join(source.choices(letters, k=source.randrange(8)))
        case 6:
            return [random_value(source, depth + 1) for _ in range(source.randrange(4))]
        case _:
            return {
                f"k{i}{source.choice('aé')}": random_value(source, depth + 1)
                for i in range(source.randrange(4))
            }


@BUILT
def test_json_is_read_and_written_as_python_does(tmp_path: Path) -> None:
    """Random values keep their content, and whatever is cut or changed in a line raises nothing but
    a refusal."""
    program = compiled(tmp_path, "client_json.cpp")
    source = random.Random(7)
    values = [random_value(source, 0) for _ in range(400)]
    sound = [json.dumps(value, ensure_ascii=source.random() < 0.5) for value in values]
    cut = []
    for line in sound:
        data = bytearray(line.encode())
        for _ in range(source.randrange(1, 4)):
            if data:
                data[source.randrange(len(data))] = source.choice(b'{}[]",:\\0e-.\x80\xff u')
        cut.append(bytes(data[: source.randrange(len(data) + 1)]).replace(b"\n", b" "))
    cut += [
        b"[" * 100_000,
        b'{"a":' * 10_000,
        b"1" * 100_000,
        b"1e999",
        b"-",
        b"nul",
        b'"\\u12',
    ]
    lines = [line.encode() for line in sound] + cut
    done = subprocess.run(
        [str(program)], input=b"\n".join(lines) + b"\n", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found = done.stdout.split(b"\n")
    assert [json.loads(line) for line in found[: len(values)]] == values
    assert len(found) == len(lines) + 1
    for spoiled, back in zip(cut, found[len(values) :], strict=False):
        if not _is_utf8(spoiled):
            continue  # Such bytes of a text are passed on as they are.
        try:
            expected = json.loads(spoiled)
        except (ValueError, RecursionError):
            assert back == b"refused", spoiled
        else:
            assert back == b"refused" or json.loads(back) == expected, spoiled


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@BUILT
def test_the_simulink_block_steps_the_simulation(stepped: tuple[str, str]) -> None:
    """Its methods are called in the order of Simulink, by a block that a stand-in plays."""
    address, token = stepped
    done = run(
        [octave(), "-q", "--path", str(CLIENTS / "matlab"),
         "--path", str(STAND_INS / "matlab"), "--eval",
         f"pkg load instrument-control; drive_sfun('{address}', '{token}')"]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = [float(text) for text in done.stdout.split()]
    assert len(outputs) == 9
    assert outputs[8] == 1.0, "the vehicle follows the setpoints"
    assert outputs[4] > 0.5, "the true vehicle has moved ahead"
    assert abs(outputs[4] - outputs[0]) < 0.2


@WALL
def test_a_program_in_cpp_drives_and_loses_its_lease(
    tmp_path: Path, built: Callable[[], Path]
) -> None:
    with live(tmp_path, "--by-hand") as vehicle, vehicle.client() as client:
        vehicle.wait_for(client, "STANDBY")
        wait_until(lambda: (client.status()["estimate"] or {}).get("status") == "RUNNING")
        topic = run(
            [str(built() / "read_topic"), vehicle.unix, "state_estimate", "covariance", "3"]
        )
        assert topic.stdout == "16 values\n" * 3, topic.stderr

        # Another program holds the lease.
        with vehicle.client() as holder, streaming(holder):
            refused = run(words("cpp", "drive_lap", built, vehicle.unix, ""))
        assert refused.returncode == 1
        assert "'planner' sends setpoints already" in refused.stderr
        time.sleep(1.2)

        # A person stops the vehicle.
        with subprocess.Popen(
            words("cpp", "drive_lap", built, vehicle.unix, ""), stderr=subprocess.PIPE, text=True
        ) as driving:
            wait_until(lambda: client.status()["mode"] == "OFFBOARD" or driving.poll() is not None)
            client.send(ActionRequest("stop", "operator"))
            assert driving.wait(DEADLINE_S) == 1
            assert driving.stderr is not None
            said = driving.stderr.read()
        assert re.search(r"(no longer follows|does not follow) the setpoints: \w+: ", said), said
        client.receive()
        vehicle.wait_for(client, "STANDBY")

        shown = vehicle.drive(
            client, words("cpp", "drive_lap", built, vehicle.unix, "", f"{DISTANCE_M}")
        )
        assert float(shown.split(": ")[1].split(" m in")[0]) >= DISTANCE_M
        vehicle.daemon.end()
    with LogReader(str(vehicle.daemon.log())) as log:
        modes = [record.message.after for record in log.messages(ModeChange)]
    assert Mode.OFFBOARD in modes


@WALL
def test_a_person_takes_over_from_a_program(tmp_path: Path, built: Callable[[], Path]) -> None:
    with live(tmp_path, "--by-hand") as vehicle, vehicle.client() as client:
        vehicle.wait_for(client, "STANDBY")
        wait_until(lambda: (client.status()["estimate"] or {}).get("status") == "RUNNING")
        with subprocess.Popen(
            words("cpp", "drive_lap", built, vehicle.unix, ""), stderr=subprocess.PIPE, text=True
        ) as driving:
            wait_until(lambda: client.status()["mode"] == "OFFBOARD" or driving.poll() is not None)
            readings = iter(range(10**6))

            def taken() -> bool:
                client.send(
                    TeleopRequest(
                        steering=0.0, throttle=0.0, deadman=True, sequence=next(readings),
                        origin="pad",
                    )
                )  # fmt: skip
                client.ask(ActionRequest("teleop", "pad"))
                return bool(client.status()["mode"] != "OFFBOARD")

            wait_until(taken)
            assert driving.wait(DEADLINE_S) == 1
            assert driving.stderr is not None
            assert "follow" in driving.stderr.read()


@WALL
def test_a_program_in_matlab_takes_over_from_the_course(
    tmp_path: Path, built: Callable[[], Path]
) -> None:
    octave()
    for attempt in range(5):
        with (
            live(tmp_path / f"{attempt}", "--laps", "3") as vehicle,
            vehicle.client() as client,
            serving("control") as (address, token),
        ):
            vehicle.wait_for(client, "AUTO")
            done = run(words("matlab", "drive_lap", built, address, token, f"{DISTANCE_M}"))
        # A computer that holds up the program for 0.2 s ends its drive.
        if done.returncode == 0 or "setpoint" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{COURSE}: ")


@WALL
def test_a_vehicle_stops_for_a_program_that_is_killed(
    tmp_path: Path, built: Callable[[], Path]
) -> None:
    """Through the relay, which passes on the end of a connection."""
    with (
        live(tmp_path, "--laps", "3") as vehicle,
        vehicle.client() as client,
        serving("control") as (address, token),
    ):
        vehicle.wait_for(client, "AUTO")
        with subprocess.Popen(words("cpp", "drive_lap", built, address, token)) as driving:
            wait_until(lambda: client.status()["mode"] != "AUTO" or driving.poll() is not None)
            driving.kill()
        with suppress(ControlError):  # the run ends with the drive
            wait_until(lambda: client.status()["why_code"] == "setpoints_ended")
        vehicle.daemon.end()
    with LogReader(str(vehicle.daemon.log())) as log:
        codes = {record.message.code for record in log.messages(ModeChange)}
    assert codes & {"setpoints_ended", "setpoint_stale"}


@WALL
def test_a_program_that_never_reads_does_not_hold_up_the_relay(tmp_path: Path) -> None:
    with live(tmp_path, "--by-hand") as vehicle, vehicle.client() as client:
        vehicle.wait_for(client, "STANDBY")
        with (
            serving("control") as (address, token),
            conformance.closing(address, token) as deaf,
            conformance.closing(address, token) as other,
        ):
            deaf.hello()
            for _ in range(8):
                deaf.send({"do": "path", "points": 2000})
            other.hello()
            for _ in range(20):
                other.accepted({"do": "path", "points": 100})


@contextmanager
def streaming(client: Client) -> Iterator[None]:
    """Send setpoints of another program for the duration of the block."""
    ended = threading.Event()

    def stream() -> None:
        sequence = 0
        while not ended.wait(0.02):
            sequence += 1
            client.send(
                SetpointRequest(
                    speed_mps=0.0, curvature_per_m=0.0, sequence=sequence, origin="planner"
                )
            )

    thread = threading.Thread(target=stream)
    thread.start()
    time.sleep(0.1)
    try:
        yield
    finally:
        ended.set()
        thread.join()


# ---------------------------------------------------------------- files


@BUILT
def test_the_written_client_is_built_by_cmake(tmp_path: Path) -> None:
    for name in ("cmake", "make", "g++"):
        if shutil.which(name) is None:
            pytest.skip(f"the program {name} is not installed")
    folder, build = str(tmp_path / "mine"), str(tmp_path / "mine" / "build")
    assert command("new", "client", folder, "--language", "cpp")[0] == 0
    for words_of_it in (
        ["cmake", "-S", folder, "-B", build], ["cmake", "--build", build, "--target", "read_topic"],
    ):  # fmt: skip
        done = run(words_of_it)
        assert done.returncode == 0, done.stdout + done.stderr
    done = run([f"{build}/read_topic", "unix:/nonexistent/v.sock", "state_estimate", "x_m"])
    assert done.returncode == 1
    assert "no server answers at unix:/nonexistent/v.sock: No such file" in done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@BUILT
def test_a_client_is_written_once(language: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    status, out, _ = command("new", "client", str(folder), "--language", language)
    assert status == 0
    source = CLIENTS / language
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    templates = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert there == templates | {Path("conformance.py")}
    assert f"written: {len(there)} files" in out
    status, _, said = command("new", "client", str(folder), "--language", language)
    assert status == 2
    assert "exists already" in said
