"""The image of daemon and simulator, built and tried: ``make image``.

Builds ``Containerfile`` with podman or docker, then tries the image: user and root file system,
bytecode, a drive of the two containers of ``compose.yaml`` in lockstep against the same drive
without containers, and the stop of a vehicle that drives. Status 1 if a check failed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.board_vm.image import ROOT, SUITE, WITHOUT_DOCUMENTS, MissingToolError, digest, need
from tests.busy_computer import WIDE_LIMITS

IMAGE = "localhost/vehicled"
ENGINES = ("podman", "docker")
CLOSED = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
)  # fmt: skip
"""Options of ``run`` that close a container as ``compose.yaml`` does."""
LINK = "tcp:127.0.0.1:7700"
DRIVE = {"PROFILE": "art", "COURSE": "lot17", "SEED": "7"}
DURATION_S = "5"
STOP_S = "30"
"""Time that the vehicle has to stand before its container is killed, s."""
PATIENCE_S = 120.0
DIGEST = re.compile(r'"digest": "([0-9a-f]{64})"')
NAME = "vehicled-try"
UNCOMPILED = """\
import sys, importlib.util as u, pathlib as p
files = [f for k in ("vehicled", "drivers", "sim_backend")
         for f in p.Path(u.find_spec(k).origin).parent.rglob("*.py")]
print(sum(not p.Path(u.cache_from_source(f)).exists() for f in files), "of", len(files))
"""


class FailedError(AssertionError):
    """A check does not hold; the text says what was seen."""


class NotTriedError(Exception):
    """A check cannot be made here; the text says why."""


def expect(true: object, seen: str) -> None:
    """Fail the check unless ``true``."""
    if not true:
        raise FailedError(seen.strip()[-1000:])


def attempt(*command: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Return status and output of a command, both streams together."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, **(environment or {})},
    )
    return done.returncode, done.stdout.strip()


def output(*command: str) -> str:
    """Return what a command printed. Fails the check if its status is not 0."""
    status, said = attempt(*command)
    expect(status == 0, f"{' '.join(command)}: status {status}: {said}")
    return said


def engine_here() -> str:
    """Return the first container engine that this computer has. Raises MissingToolError."""
    for name in ENGINES:
        if shutil.which(name):
            return name
    raise MissingToolError("neither podman nor docker is installed: sudo apt install podman")


def base_of_packages(engine: str) -> str:
    """Return a base image made of Debian's packages, imported if the engine does not have it."""
    options = ("--variant=minbase", *WITHOUT_DOCUMENTS)
    name = f"localhost/vehicled-base:{SUITE}-{digest(SUITE, *options)}"
    if attempt(engine, "image", "inspect", name)[0] != 0:
        need(("mmdebstrap", "mmdebstrap"))
        tar = ROOT / ".cache" / "container" / f"{SUITE}.tar"
        tar.parent.mkdir(parents=True, exist_ok=True)
        print(f"{name}: Debian {SUITE} from its packages", flush=True)
        subprocess.run(["mmdebstrap", "--quiet", *options, SUITE, str(tar)], check=True)
        subprocess.run([engine, "import", str(tar), name], check=True)
        tar.unlink()
    return name


def build(engine: str, base: str) -> None:
    """Build the image; ``base`` is its base, or empty for that of the Containerfile."""
    command = [engine, "build", "--file", "Containerfile", "--tag", IMAGE]
    if base:
        command += ["--build-arg", f"BASE={base}"]
    if certificates := os.environ.get("PIP_CERT"):
        command += ["--secret", f"id=certificates,src={certificates}"]
    subprocess.run([*command, "."], cwd=ROOT, check=True)


def run(engine: str, *command: str, entrypoint: str = "vehicled") -> str:
    """Run a command in a closed container without network; return what it printed."""
    return output(
        engine, "run", "--rm", *CLOSED, "--network", "none", "--entrypoint", entrypoint, IMAGE,
        *command,
    )  # fmt: skip


def check_closed(engine: str) -> str:
    """The container runs as a user other than root, and its root file system is read-only."""
    said = run(engine, "-c", "id; touch /opt/vehicled/new 2>&1 || true", entrypoint="sh")
    expect("uid=10001(vehicled)" in said and "(dialout)" in said, said)
    expect("Read-only file system" in said, said)
    return said.splitlines()[0]


def check_bytecode(engine: str) -> str:
    """Every module of the daemon and the simulator is compiled."""
    said = run(engine, "-c", UNCOMPILED, entrypoint="python3")
    expect(re.search(r"^0 of [1-9]", said, re.MULTILINE), f"modules without bytecode: {said}")
    return said.splitlines()[-1]


def check_lockstep(engine: str) -> str:
    """The drive of ``compose.yaml`` has the digest of the same drive without containers."""
    compose = composer(engine)
    # A drive that its duration ends has not finished its course: status 1.
    _, local = attempt(
        sys.executable, "-m", "vehicled", "sim", "--profile", DRIVE["PROFILE"], "--course",
        DRIVE["COURSE"], "--seed", DRIVE["SEED"], "--duration", DURATION_S, "--no-log", "--json",
        "--quiet",
    )  # fmt: skip
    environment = {**DRIVE, "OPTIONS": f"--duration {DURATION_S} --json --quiet"}
    project = [*compose, "--project-name", NAME]
    try:
        _, said = attempt(*project, "up", environment=environment)
    finally:
        attempt(*project, "down", "--volumes")
    here, there = DIGEST.findall(local), DIGEST.findall(said)
    expect(len(here) == 1 and here == there, f"{there} instead of {here}: {said}")
    return f"digest {here[0][:12]} here and there"


def composer(engine: str) -> list[str]:
    """Return the command that reads ``compose.yaml``. Raises NotTriedError."""
    if engine == "podman" and shutil.which("podman-compose"):
        return ["podman-compose"]
    if attempt(engine, "compose", "version")[0] == 0:
        return [engine, "compose"]
    raise NotTriedError(f"neither podman-compose nor {engine} compose is installed")


def check_stop(engine: str) -> str:
    """The stop of a container brakes its vehicle, which then stands, and closes its log."""
    with driving(engine) as name:
        output(engine, "stop", name)
        said = output(engine, "logs", name)
        status = output(engine, "inspect", "--format", "{{.State.ExitCode}}", name)
        expect(status.splitlines()[-1] == "130", f"status {status}: {said}")
        expect("the vehicle stands" in said, said)
        log = output(
            engine, "run", "--rm", *CLOSED, "--volume", f"{NAME}:/var/lib/vehicled", IMAGE, "log",
            "info", "latest",
        )  # fmt: skip
        expect(re.search(r"ended: +orderly", log), log)
        return said.splitlines()[-1]


@contextmanager
def driving(engine: str) -> Iterator[str]:
    """Run simulator and daemon in wall time until the vehicle drives; give the daemon's name."""
    simulator, daemon = f"{NAME}-simulator", f"{NAME}-daemon"
    start = [engine, "run", "--detach", *CLOSED, "--stop-timeout", STOP_S]
    course = ("--course", "circle_r5_ccw")
    try:
        output(
            *start, "--name", simulator, "--network", "none", IMAGE, "simulator", "--listen", LINK,
            *course,
        )  # fmt: skip
        output(
            *start, "--name", daemon, "--network", f"container:{simulator}",
            "--volume", f"{NAME}:/var/lib/vehicled", IMAGE, "run", "--connect", LINK,
            "--connect-timeout", "60", "--link-timeout", "5", *course, *WIDE_LIMITS,
        )  # fmt: skip
        end_s = time.monotonic() + PATIENCE_S
        while not drives(engine, daemon):
            expect(time.monotonic() < end_s, output(engine, "logs", daemon))
            time.sleep(0.5)
        yield daemon
    finally:
        # One by one: the simulator's network stays as long as the daemon uses it.
        for command in (
            ["rm", "--force", daemon], ["rm", "--force", simulator], ["volume", "rm", NAME],
        ):  # fmt: skip
            attempt(engine, *command)


def drives(engine: str, name: str) -> bool:
    """Return True if the vehicle of a container moves in AUTO."""
    done = subprocess.run(
        [engine, "exec", name, "vehicled", "status", "--json"], capture_output=True, text=True
    )
    if done.returncode != 0:
        return False
    state = json.loads(done.stdout)
    return bool(state["mode"] == "AUTO" and state["estimate"]["speed_mps"] > 0.5)


CHECKS: tuple[Callable[[str], str], ...] = (
    check_closed,
    check_bytecode,
    check_lockstep,
    check_stop,
)


def verdicts(engine: str, checks: Sequence[Callable[[str], str]] = CHECKS) -> bool:
    """Make the checks and print what each proves and saw; return True if none failed."""
    passed = True
    for check in checks:
        try:
            verdict, seen = "passed", check(engine)
        except NotTriedError as error:
            verdict, seen = "not tried", str(error)
        except (FailedError, subprocess.TimeoutExpired) as error:
            verdict, seen, passed = "FAILED", str(error), False
        print(f"{verdict:<10} {check.__doc__}\n{'':<11}{seen}", flush=True)
    return passed


def main() -> int:
    """Build the image and make the checks."""
    parser = argparse.ArgumentParser(
        prog="make image", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    base = parser.add_mutually_exclusive_group()
    base.add_argument(
        "--base", default="", metavar="IMAGE", help="base image (default: that of Containerfile)"
    )
    base.add_argument(
        "--packages",
        action="store_true",
        help="make the base image of Debian's packages, where no registry can be reached; needs "
        "root and mmdebstrap",
    )
    parser.add_argument("--no-checks", action="store_true", help="only build")
    arguments = parser.parse_args()
    try:
        engine = engine_here()
        build(engine, base_of_packages(engine) if arguments.packages else arguments.base)
    except MissingToolError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"make image: {error.cmd[0]} failed with status {error.returncode}", file=sys.stderr)
        return 2
    size = output(engine, "image", "inspect", "--format", "{{.Size}}", IMAGE).splitlines()[-1]
    print(f"{IMAGE}: {int(size) / 1e6:.0f} MB", flush=True)
    return int(not arguments.no_checks and not verdicts(engine))


if __name__ == "__main__":
    sys.exit(main())
