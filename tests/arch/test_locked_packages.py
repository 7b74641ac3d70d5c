"""Locked packages: the lock files are complete, and an aarch64 board can install them without a
compiler."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.licences import EXCEPTIONS, licence, locked, permitted

LOCKS = ("requirements.lock", "requirements-dev.lock")
IMAGE_LOCK = "requirements-image.lock"
MORE_LOCKS = (
    IMAGE_LOCK, "requirements-bench.lock", "requirements-docs.lock", "requirements-sdist.lock",
)  # fmt: skip
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
NO_NETWORK = re.compile(
    r"Retrying|NewConnectionError|ConnectTimeout|ProxyError|Name or service|Network is "
    r"unreachable"
)


def _names(lock: Path) -> set[str]:
    return {
        match[1]
        for match in re.finditer(r"^([a-z0-9][a-z0-9.-]*)==", lock.read_text(), re.MULTILINE)
    }


@pytest.mark.parametrize("name", LOCKS + MORE_LOCKS)
def test_a_lock_holds_names_versions_and_hashes_only(project_root: Path, name: str) -> None:
    """No address of an index, no option, no unpinned package: any mirror must do, and give the same
    files."""
    pinned = re.compile(r"[a-z0-9][a-z0-9.-]*==[\w.]+( ; [\w.<>=!'\"() ]+)? \\")
    hashed = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    lines = (project_root / name).read_text().splitlines()
    assert [
        line for line in lines if not pinned.fullmatch(line) and not hashed.fullmatch(line)
    ] == []


def test_the_locks_agree_and_cover_the_project(project_root: Path) -> None:
    def pins(name: str) -> set[str]:
        return set(
            re.findall(r"^[a-z0-9.-]+==[\w.]+", (project_root / name).read_text(), re.MULTILINE)
        )

    runtime, everything = (pins(name) for name in LOCKS)
    assert pins(IMAGE_LOCK) <= runtime <= everything
    project = tomllib.loads((project_root / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    declared = {re.split(r"[^A-Za-z0-9.-]", each, maxsplit=1)[0] for each in wanted}
    # What `make sim` draws with, and what `vehicled sim --view` beside it serves its page with.
    assert declared | {"matplotlib", "websockets"} <= _names(project_root / LOCKS[0])
    assert declared | {"websockets"} <= _names(project_root / IMAGE_LOCK)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("MIT OR GPL-2.0", True),
        ("MIT AND GPL-2.0", False),
        ("", False),
        ("LGPL-3.0", False),
    ],
)
def test_alternatives_of_a_licence_count_and_additions_bind(expression: str, allowed: bool) -> None:
    assert permitted(expression) is allowed


def test_every_licence_is_allowed_or_has_a_reason() -> None:
    found = {name: each for name in locked(*LOCKS) if (each := licence(name)) is not None}
    refused = {name: each for name, each in found.items() if not permitted(each)}
    assert refused == {name: each for name, (each, _) in EXCEPTIONS.items() if name in found}


@pytest.mark.network
@pytest.mark.soak  # asks a package index for 12 s, and the answer changes with the lock file alone
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_package_of_the_runtime_has_a_binary_aarch64_wheel(
    project_root: Path, tmp_path: Path, python: str
) -> None:
    lock, report = project_root / LOCKS[0], tmp_path / "report.json"
    # The index is asked once for each version of the file: the wheels of a hash do not change.
    passed = (
        Path(os.environ["XDG_CACHE_HOME"])
        / "locked_packages"
        / f"{python} {hashlib.sha256(lock.read_bytes()).hexdigest()}"
    )
    if passed.exists():
        pytest.skip("this lock file has passed here before")
    options = [option for platform in PLATFORMS for option in ("--platform", platform)]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += [
        "--retries",
        "1",
        "--timeout",
        "20",
        "--require-hashes",
        "--no-deps",
        "--ignore-installed",
        "--only-binary=:all:",
    ]
    command += [*options, "--implementation", "cp", "--python-version", python]
    command += [
        "--target",
        str(tmp_path / "target"),
        "--report",
        str(report),
        "--requirement",
        str(lock),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0 and NO_NETWORK.search(run.stderr):
        pytest.skip("no package index can be reached")
    assert run.returncode == 0, run.stderr
    wheels = [
        item["download_info"]["url"].rsplit("/", 1)[-1]
        for item in json.loads(report.read_text())["install"]
    ]
    assert {wheel.split("-")[0].lower().replace("_", "-") for wheel in wheels} == _names(lock)
    assert [wheel for wheel in wheels if not wheel.endswith(("aarch64.whl", "-any.whl"))] == []
    passed.parent.mkdir(parents=True, exist_ok=True)
    passed.touch()
