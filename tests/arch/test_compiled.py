"""The compiled build means the same: how its modules are divided, without a compiler, and as a long
test the build itself."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

DRIVE = """
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import RunSpec
import vehicled.daemon.machine, vehicled.safety.inputs
spec = RunSpec(profile="art", course="lot17", seed=7, duration_s={seconds})
done = simulate(Plan.of(spec), SimulationSpec(in_process=True))
module = vehicled.safety.inputs.SafetyInputs.__module__
print(vehicled.daemon.machine.__file__, module, done.result.digest)
"""
MISTAKES = (
    "limits.nothing=1",
    "vehicle.wheelbase_m=true",
    "controller.pure_pursuit.speed.nothing=2",
    "estimator.ekf4.gate=x",
    "x=1",
)
OWN_CODE = """
from vehicled.control.pure_pursuit import PurePursuit
from vehicled.estimation.ekf4.estimator import Ekf4

class MyController(PurePursuit):
    def limit_speed(self, cap_mps):
        super().limit_speed(min(cap_mps, 1.0))

class MyEstimator(Ekf4):
    def step(self, now_ns):
        return super().step(now_ns)
"""


@pytest.fixture(scope="module")
def hook(project_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "compiled_hook", project_root / ".ci" / "compiled" / "hook.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks itself up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def listed(project_root: Path) -> list[str]:
    project = tomllib.loads((project_root / "pyproject.toml").read_text())
    modules: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"][
        "modules"
    ]
    return modules


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder."""
    # -P keeps the current folder off the path, and PYTHONPATH goes before the editable install.
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def divide(
    hook: ModuleType, folder: Path, **texts: str
) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Write modules and divide them; return native text, plain text and moved names by module."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    divider = hook.Divider(folder, [f"{name}.py" for name in texts])
    found = {name: divider.divide(f"{name}.py") for name in texts}
    return {name: (each.native, each.plain, each.moved) for name, each in found.items()}


def test_a_class_is_compiled_only_if_its_bases_are(hook: ModuleType, tmp_path: Path) -> None:
    first = (
        "class Base:\n    pass\n\n\nclass Options(Struct, frozen=True):\n    x: int\n\n\nclass "
        "LostError(Exception):\n    y = 1\n"
    )
    second = (
        "from first import Base, Options\n\n\nclass Native(Base):\n    pass\n\n\nclass "
        "Plain(Options):\n    y: int\n"
    )
    found = divide(hook, tmp_path, first=first, second=second)
    assert found["first"][2] == ("Options", "LostError")
    assert found["second"][2] == ("Plain",)
    assert f"{hook.EXTENSIBLE}class Native(Base)" in found["second"][0]
    assert "class Plain" not in found["second"][0]


def test_what_a_definition_reads_moves_and_what_its_methods_read_is_handed_over(
    hook: ModuleType, tmp_path: Path
) -> None:
    text = (
        "import math\nLOW = 1\nHIGH = 2 * LOW\n\n\ndef help():\n    return math.pi\n\n\n"
        "class P(Struct, frozen=True):\n    x: int = HIGH\n\n    def area(self):\n        "
        "return help() * self.x\n"
    )
    native, plain, moved = divide(hook, tmp_path, module=text)["module"]
    assert moved == ("LOW", "HIGH", "P")
    assert "__name__ = 'module'" in plain
    assert "def help" not in plain
    assert "    return math.pi\nsetattr(_plain, 'help', help)\n" in native


def test_a_name_with_two_values_is_refused(hook: ModuleType, tmp_path: Path) -> None:
    text = (
        "count = 0\n\n\ndef add():\n    global count\n    count += 1\n\n\nclass P(Struct, "
        "frozen=True):\n    x: int = count\n"
    )
    with pytest.raises(hook.DivisionError, match=r"module\.py: count is bound more than once"):
        divide(hook, tmp_path, module=text)


def test_nothing_that_the_compiler_would_change_is_compiled(
    hook: ModuleType, listed: list[str], project_root: Path
) -> None:
    divider = hook.Divider(project_root, listed)
    compiled = 0
    for path in listed:
        for node in ast.walk(ast.parse(divider.divide(path).native)):
            if isinstance(node, ast.ClassDef):
                compiled += 1
                assert not node.keywords, f"{path}: {node.name} has options, which mypyc ignores"
                assert [ast.unparse(item) for item in node.decorator_list] == [
                    hook.EXTENSIBLE.strip().lstrip("@")
                ], (
                    path,
                    node.name,
                )
    assert compiled > 50


def test_the_divided_modules_drive_the_same(
    hook: ModuleType, listed: list[str], project_root: Path, tmp_path: Path
) -> None:
    hook.write_divided(project_root, listed, tmp_path)
    (tmp_path / "profiles").symlink_to(project_root / "profiles")
    for path in listed:
        # What remains for the compiler is Python too.
        file = tmp_path / path
        file.write_text(file.read_text().replace(hook.EXTENSIBLE, ""))
    script = DRIVE.format(seconds=2.0)
    plain, divided = run(project_root, "-c", script), run(tmp_path, "-c", script)
    assert plain.returncode == divided.returncode == 0, divided.stderr
    assert divided.stdout.split()[0] == str(tmp_path / "vehicled" / "daemon" / "machine.py")
    assert plain.stdout.split()[1:] == divided.stdout.split()[1:]


@pytest.mark.soak
@pytest.mark.network
def test_the_compiled_wheel_means_the_same(project_root: Path, tmp_path: Path) -> None:
    """Build the wheel, for minutes, and run it alone: the lap, profiles with errors, and a
    controller of one's own."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(project_root),
    ]
    environment = os.environ | {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    folder = tmp_path / "unpacked"
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(folder)
    script = DRIVE.format(seconds=None)
    plain, compiled = run(project_root, "-c", script), run(folder, "-c", script)
    assert plain.returncode == compiled.returncode == 0, compiled.stderr
    assert Path(compiled.stdout.split()[0]).suffix != ".py"
    assert plain.stdout.split()[1:] == compiled.stdout.split()[1:]
    assert "(compiled)" in run(folder, "-m", "vehicled", "doctor", "--seconds", "0").stdout
    profile, own = tmp_path / "art.toml", tmp_path / "own.py"
    profile.write_bytes((project_root / "profiles" / "art.toml").read_bytes())
    own.write_text(OWN_CODE)
    command = ["-m", "vehicled", "sim", "--no-log", "--profile", str(profile)]
    for mistake in MISTAKES:
        refused = [run(place, *command, "--set", mistake) for place in (project_root, folder)]
        assert "1 problem" in refused[0].stderr
        assert refused[0].stderr == refused[1].stderr
    command += [
        "--duration",
        "20",
        "--controller",
        f"{own}:MyController",
        "--estimator",
        f"{own}:MyEstimator",
        "--json",
    ]
    drives = [run(place, *command) for place in (project_root, folder)]
    digests = [json.loads(drive.stdout)["digest"] for drive in drives]
    assert digests[0] == digests[1]
