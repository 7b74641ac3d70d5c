"""The built wheel carries everything the daemon reads at run time."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import vehicled

BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built with the locked hatchling and no network."""
    folder = tmp_path_factory.mktemp("wheel")
    run = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / run.stdout.split()[-1]


def _shipped(root: Path, folder: str) -> set[str]:
    return {
        f"vehicled/_data/{path.relative_to(root)}"
        for path in (root / folder).rglob("*")
        if path.is_file()
    }


def test_profiles_courses_and_units_are_inside(wheel: Path, project_root: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert _shipped(project_root, "profiles") | _shipped(project_root, "systemd") <= inside
    assert {
        "vehicled/_data/profiles/art.toml",
        "vehicled/_data/systemd/vehicled@.service",
    } <= inside
    assert any(name.startswith("vehicled/_data/profiles/courses/lot17") for name in inside)


def test_all_modules_are_inside_and_nothing_else(wheel: Path, project_root: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    packages = ("vehicled", "drivers", "sim_backend")
    modules = {
        str(path.relative_to(project_root))
        for package in packages
        for path in (project_root / package).rglob("*.py")
    }
    assert modules <= inside
    clients = (project_root / "vehicled/cli/templates/clients").rglob("*")
    files = {
        str(path.relative_to(project_root))
        for path in clients
        if path.suffix in (".cpp", ".hpp", ".m")
    }
    assert "vehicled/cli/templates/clients/cpp/vehicled_client.hpp" in files
    assert files <= inside
    assert {name.split("/")[0] for name in inside} == {
        *packages,
        f"vehicled-{vehicled.__version__}.dist-info",
    }


def test_the_installed_wheel_reads_its_own_profiles(wheel: Path, tmp_path: Path) -> None:
    """Run the unpacked wheel alone, with the checkout out of reach."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    script = (
        "import vehicled.profile as p, vehicled.core.shipped as s; print(s.__file__); "
        "print(p.load_profile('art').name)"
    )
    # -P keeps the current folder off the path, and the unpacked wheel goes before the editable
    # install.
    environment = {"PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(tmp_path / "vehicled" / "core" / "shipped.py"), "art"]


def test_the_console_script_and_version(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"vehicled-{vehicled.__version__}.dist-info"
    assert "vehicled = vehicled.cli:main" in archive.read(f"{info}/entry_points.txt").decode()
    assert f"\nVersion: {vehicled.__version__}\n" in archive.read(f"{info}/METADATA").decode()


@pytest.mark.network
@pytest.mark.soak  # installs a hundred megabytes
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_release_drives_in_an_empty_environment(
    kind: str, project_root: Path, tmp_path: Path
) -> None:
    """Install it as ``uv tool install`` and ``pipx`` do."""
    build = (
        f"import sys; from hatchling.build import build_{kind} as build; print(build(sys.argv[1]))"
    )
    built = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=True,
    )
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    release = tmp_path / built.stdout.split()[-1]
    subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", release],
        capture_output=True,
        text=True,
        check=True,
    )
    drive = [str(programs / "vehicled"), "sim", "--course", "circle_r2_ccw", "--no-log", "--quiet"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        drive, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
