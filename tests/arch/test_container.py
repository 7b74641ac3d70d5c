"""``Containerfile``, ``.dockerignore`` and ``compose.yaml`` agree with each other, the lock and the
command line. ``make image`` builds and runs what they describe."""

import importlib.metadata as metadata
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from bench.board_vm.image import SUITE
from bench.container.__main__ import CLOSED, DRIVE, STOP_S
from tests.arch.test_locked_packages import IMAGE_LOCK
from tests.arch.test_wheel import BUILD
from vehicled.cli.commands import build_parser
from vehicled.run.secret import read_secret
from vehicled.run.signals import STOPS

DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")


@pytest.fixture(scope="module")
def containerfile(project_root: Path) -> str:
    """The text, with continued lines joined."""
    return (project_root / "Containerfile").read_text().replace("\\\n", " ")


@pytest.fixture(scope="module")
def services(project_root: Path) -> dict[str, dict[str, Any]]:
    """The services of ``compose.yaml``, anchors resolved."""
    found: dict[str, dict[str, Any]] = YAML(typ="safe").load(project_root / "compose.yaml")[
        "services"
    ]
    return found


def context(project_root: Path) -> list[str]:
    """Return what ``.dockerignore`` lets into the build."""
    lines = (project_root / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def parsed(command: str) -> dict[str, Any]:
    """Return the arguments of a command of compose with the defaults of its variables."""
    return vars(build_parser().parse(shlex.split(DEFAULT.sub(r"\2", command))))


def closure(*names: str) -> set[str]:
    """Return these packages with all that they need on this computer."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            needs = map(Requirement, metadata.requires(name) or ())
            waiting += [
                canonicalize_name(need.name)
                for need in needs
                if need.marker is None or need.marker.evaluate({"extra": ""})
            ]
    return found


def test_the_files_of_the_build_are_there_and_suffice(project_root: Path, tmp_path: Path) -> None:
    names = context(project_root)
    for name in names:
        source, target = project_root / name, tmp_path / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        cwd=tmp_path / "src",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert IMAGE_LOCK in names


def test_the_packages_come_from_the_lock_by_their_hashes(containerfile: str) -> None:
    installs = re.findall(r"pip install ([^&\n]*)", containerfile)
    assert [shlex.split(words) for words in installs] == [
        ["--no-cache-dir", "--require-hashes", "--only-binary=:all:", "-r", IMAGE_LOCK],
        ["--no-cache-dir", "--no-deps", "--no-build-isolation", "."],
    ]


def test_the_tools_of_the_build_are_taken_away_and_nothing_else(containerfile: str) -> None:
    removed = set(re.findall(r"pip uninstall --yes ([^&\n]*)", containerfile)[0].split())
    assert removed == closure("hatchling") - closure("vehicled", "websockets")


def test_the_image_stops_by_a_signal_for_which_the_vehicle_brakes(containerfile: str) -> None:
    (signal,) = re.findall(r"^STOPSIGNAL (\w+)", containerfile, re.MULTILINE)
    assert signal in [number.name for number in STOPS]


def test_the_base_is_the_debian_that_is_made_of_packages(containerfile: str) -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)", containerfile, re.MULTILINE)
    assert base.endswith(f"/debian:{SUITE}-slim")


def test_a_password_is_read_from_the_folder_of_the_image(
    containerfile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = re.findall(r"(\w+)=/run/secrets\b(?!/)", containerfile)
    monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "caster").write_text("secret")
    assert read_secret("password", key="key", file="", credential="caster")[0] == "secret"


def test_both_containers_drive_the_same_and_find_each_other(
    services: dict[str, dict[str, Any]],
) -> None:
    simulator = parsed(services["simulator"]["command"])
    daemon = parsed(services["daemon"]["command"])
    port = simulator["listen"].rpartition(":")[2]
    assert daemon["connect"] == f"tcp:simulator:{port}"
    assert daemon["connect_timeout"] > 0.0
    assert daemon["clock"] == "lockstep"
    driven = {"PROFILE": simulator["profile"], "COURSE": simulator["course"]}
    assert driven == {"PROFILE": daemon["profile"], "COURSE": daemon["course"]}
    assert driven | {"SEED": str(simulator["seed"])} == DRIVE


def test_both_containers_are_closed_and_have_time_to_brake(
    services: dict[str, dict[str, Any]],
) -> None:
    for service in services.values():
        options = ["--read-only"] if service["read_only"] else []
        options += [f"--tmpfs={folder}" for folder in service["tmpfs"]]
        options += [word for name in service["cap_drop"] for word in ("--cap-drop", name)]
        options += [word for name in service["security_opt"] for word in ("--security-opt", name)]
        assert tuple(options) == CLOSED
        assert service["stop_grace_period"] == f"{STOP_S}s"
        assert (Path(service["build"]["context"]) / service["build"]["dockerfile"]).exists()


def test_logs_go_to_a_volume(
    containerfile: str, services: dict[str, dict[str, Any]], project_root: Path
) -> None:
    (home,) = re.findall(r"HOME=(\S+)", containerfile)
    assert services["daemon"]["volumes"] == [f"logs:{home}"]
    volumes = YAML(typ="safe").load(project_root / "compose.yaml")["volumes"]
    assert list(volumes) == ["logs"]
