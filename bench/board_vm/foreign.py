"""The package on a processor of another architecture: ``make board ARCH=arm64``.

A Debian of that architecture from its packages, its programs run by qemu-user on the host's kernel:
the locked packages are installed by their hashes, the lap is driven, unit tests are made. Nothing
of the kernel is tried here, nor time: the emulated processor is slower than a real one.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.board_vm.board import expect
from bench.board_vm.image import CACHE, ROOT, MissingToolError, inside, need, system, tracked

QEMU = {"arm64": "aarch64"}
"""Qemu's name of an architecture of Debian."""
BINFMT = Path("/proc/sys/fs/binfmt_misc")
DAEMON = "/opt/vehicled/bin"
LAP = ("sim", "--no-log", "--quiet", "--seed", "7")
TOOLS = (
    "attrs",
    "hypothesis",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
    "pytest",
    "sortedcontainers",
)
"""Packages of the development lock that the unit tests need."""
TESTS = (
    "tests/golden/test_vesc_vectors.py",
    "tests/golden/test_ublox_vectors.py",
    "tests/unit/test_arrays.py",
    "tests/unit/test_vesc_codec.py",
    "tests/unit/test_wire_can.py",
    "tests/unit/test_wire_clock.py",
    "tests/unit/test_wire_crc.py",
    "tests/unit/test_wire_framing.py",
    "tests/unit/test_wire_slcan.py",
    "tests/unit/test_loop_selector.py",
    "tests/unit/test_loop_alarm.py",
)
"""Bytes, numbers and the loop: what a processor or its C library could change."""


class Step(NamedTuple):
    """One thing that is tried in the foreign system."""

    name: str
    proves: str
    run: Callable[[Path], str]


def foreign(arch: str) -> Path:
    """Return the system of another architecture. Raises MissingToolError, also where the host's
    kernel does not run its programs."""
    qemu = f"qemu-{QEMU[arch]}"
    need(
        ("mmdebstrap", "mmdebstrap"),
        ("arch-test", "arch-test"),
        (f"{qemu}-static", "qemu-user-static binfmt-support"),
    )
    if os.geteuid() != 0:
        raise MissingToolError("the system is made by root, whose files it holds: sudo make board")
    if not (BINFMT / qemu).exists():
        raise MissingToolError(
            f"{BINFMT / qemu} is missing, so this kernel runs no {QEMU[arch]} programs: mount -t "
            f"binfmt_misc binfmt_misc {BINFMT} && update-binfmts --import {qemu}"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    return system(arch)


def install(root: Path) -> str:
    """The system was made by the lock; read what is in it."""
    version = inside(root, "/", [f"{DAEMON}/vehicled", "--version"], capture=True).strip()
    listed = inside(
        root, "/", [f"{DAEMON}/python", "-m", "pip", "list", "--format=freeze"], capture=True
    )
    names = [line for line in listed.splitlines() if "==" in line]
    expect(len(names) > 10, f"only {len(names)} packages: {listed[-300:]}")
    return f"{version}, {len(names)} packages"


def lap(root: Path) -> str:
    """Drive the lap there and here, and compare digests."""
    start = time.monotonic()
    there = inside(root, "/root", [f"{DAEMON}/vehicled", *LAP], capture=True)
    took_s = time.monotonic() - start
    here = subprocess.run(
        [f"{sysconfig.get_path('scripts')}/vehicled", *LAP],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    digests = [re.search(r"digest\W+([0-9a-f]{12,})", text) for text in (there, here)]
    expect(all(digests), f"no digest: {there.strip()[-400:]}")
    one, other = (found[1][:12] for found in digests if found)
    same = "as here" if one == other else f"here {other}"
    return f"digest {one}, {same}; {took_s:.0f} s of wall time"


def unit_tests(root: Path) -> str:
    """Copy the tests into the system and make some."""
    for path in tracked(["tests", "docs/results"]):
        target = root / "srv" / "vehicled" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    lock = re.findall(
        rf"^(?:{'|'.join(TOOLS)})==.*(?:\n .*)*",
        (ROOT / "requirements-dev.lock").read_text(),
        re.MULTILINE,
    )
    (root / "srv" / "tools.lock").write_text("\n".join(lock) + "\n")
    inside(
        root,
        "/srv",
        [
            f"{DAEMON}/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--target",
            "/srv/tools",
            "--upgrade",
            "-r",
            "/srv/tools.lock",
        ],
    )
    said = inside(
        root,
        "/srv/vehicled",
        [
            "env",
            "PYTHONPATH=/srv/tools:/srv/vehicled",
            "CI=true",
            f"{DAEMON}/python",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *TESTS,
        ],
        capture=True,
    )
    last = said.strip().splitlines()[-1] if said.strip() else ""
    expect("passed" in last and "failed" not in last and "error" not in last, said[-600:])
    return f"{len(TESTS)} files: {last.strip('= ')}"


def extras(root: Path) -> str:
    """Ask the package index for a wheel of every extra's packages and of what they need."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    arch = QEMU[root.name.split("-")[1]]
    missing = []
    for extra, packages in table.items():
        wanted = [package.split(";")[0].strip() for package in packages]
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--only-binary=:all:",
            "--python-version", "3.11", "--target", str(CACHE / "extras"),
            *(f"--platform=manylinux_2_{minor}_{arch}" for minor in (36, 34, 31, 28, 27, 17)),
            f"--platform=manylinux2014_{arch}",
            *wanted,
        ]  # fmt: skip
        if subprocess.run(command, capture_output=True).returncode != 0:
            missing.append(extra)
    expect(
        set(missing) <= {"ros2"}, f"no wheels for {', '.join(missing)}, of which only ros2 is known"
    )
    return f"{len(table)} extras, without wheels: {', '.join(missing) or 'none'}"


STEPS = (
    Step(
        "install",
        "Every package of the lock has a wheel for this processor, installed by its hash.",
        install,
    ),
    Step(
        "lap",
        "`vehicled sim --seed 7` drives the lap; whether its digest is that of this computer.",
        lap,
    ),
    Step(
        "unit_tests",
        "Tests of byte formats, clocks, small matrices and the event loop.",
        unit_tests,
    ),
    Step("extras", "Every extra but `ros2` has wheels for this processor.", extras),
)
