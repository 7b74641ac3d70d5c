"""Plugins: what is accepted, what is refused with which cure, and what is kept of their source."""

from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vehicled.core.messages import ControlCommand, Fault, ImuSample
from vehicled.profile import ProfileError, load, parse, plugins
from vehicled.profile.plugins import PluginError, PluginFaultError
from vehicled.profile.registry import resolve
from vehicled.run.findings import findings

LAW = """
from dataclasses import dataclass
from msgspec import Struct, field
from vehicled.control.path_follower import PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams

class Params(Struct, frozen=True):
    gain: float = 1.0
    speed: SpeedParams = field(default_factory=SpeedParams)

class Law(PathFollower):
    Params = Params
    def __init__(self, params, vehicle, limits, course, period_s):
        super().__init__(params.speed, vehicle, limits, course, period_s)
    def steer(self, state):
        return SteeringDemand(0.0)
"""


def write(folder: Path, text: str, name: str = "my_law.py") -> Path:
    """Write a plugin's file."""
    path = folder / name
    path.write_text(text)
    return path


def problems(reference: str, *overrides: str) -> str:
    """Return what the profile loader says about a controller."""
    with pytest.raises(ProfileError) as caught:
        load("art", [f"controller.name={reference}", *overrides])
    return str(caught.value)


def test_parameters_are_checked_with_the_profile(tmp_path: Path) -> None:
    reference = f"{write(tmp_path, LAW)}:Law"
    profile = load("art", [f"controller.name={reference}", "controller.Law.gain=2.5"]).profile
    assert profile.controller.selected.gain == 2.5
    assert profile.controller.label == "my_law.py:Law"
    assert 'unknown key; did you mean "gain"' in problems(reference, "controller.Law.gian=2")
    assert "must be a number" in problems(reference, "controller.Law.gain=fast")


def test_a_dataclass_will_do(tmp_path: Path) -> None:
    text = LAW.replace(
        "class Params(Struct, frozen=True):", "@dataclass(frozen=True)\nclass Params:"
    ).replace(
        "speed: SpeedParams = field(default_factory=SpeedParams)",
        "speed: SpeedParams = SpeedParams()",
    )
    reference = f"{write(tmp_path, text)}:Law"
    assert (
        load(
            "art", [f"controller.name={reference}", "controller.Law.gain=3"]
        ).profile.controller.selected.gain
        == 3.0
    )
    assert "controller.Law.gain" in problems(reference, "controller.Law.gain=true")


def test_who_follows_no_course_by_his_own_word_is_warned_of(tmp_path: Path) -> None:
    for follows in (True, False):
        path = write(
            tmp_path,
            LAW.replace(
                "    Params = Params\n", f"    Params = Params\n    follows_course = {follows}\n"
            ),
            f"{follows}.py".lower(),
        )
        found = [
            note
            for note in findings(load("art", [f"controller.name={path}:Law"]), on_road=False)
            if note.path == "controller.name"
        ]
        assert [note.level for note in found] == ([] if follows else ["warning"])
        assert all("the corridor are not watched" in note.message for note in found)
    assert not [
        note
        for note in findings(load("art", ["controller.name=programme"]), on_road=False)
        if note.path == "controller.name"
    ]


def test_a_parameter_that_no_file_can_hold_is_refused_where_it_is_set(tmp_path: Path) -> None:
    reference = f"{write(tmp_path, LAW.replace('gain: float = 1.0', 'gain: complex = 1j'))}:Law"
    assert "a profile cannot hold" in problems(reference, "controller.Law.gain=1")


def test_a_path_in_a_profile_is_relative_to_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = load("art").source.replace(
        '[controller]\nname = "', '[controller]\nname = "./laws/my_law.py:Law" # "', 1
    )
    (tmp_path / "laws").mkdir()
    path = write(tmp_path / "laws", LAW)
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.chdir("/")
    loaded = load(str(tmp_path / "mine.toml"))
    assert loaded.profile.controller.name == f"{path}:Law"
    assert loaded.source == text
    with pytest.raises(ProfileError, match="no such file"):
        parse(text)


def test_a_path_in_a_command_is_relative_to_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, LAW)
    monkeypatch.chdir(tmp_path)
    assert (
        load("art", ["controller.name=./my_law.py:Law"]).profile.controller.name
        == f"{tmp_path}/my_law.py:Law"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def Law(:\n", "my_law.py:1: "),
        ("import math\nx = 1 / 0\n", "my_law.py:2: ZeroDivisionError: division by zero"),
        (
            "import no_such_library\n",
            "my_law.py:1: ModuleNotFoundError: No module named 'no_such_library'; install it",
        ),
        ("raise SystemExit(3)\n", "my_law.py:1: SystemExit: 3"),
        ("class Other: pass\n", 'has no "Law"; it defines Other'),
        ("Law = 3\n", "is a int; a controller is a class"),
        ("class Law: pass\n", "must inherit from Controller of vehicled.control.interface"),
        (LAW.replace("def steer", "def steers"), "my_law.py:Law lacks steer"),
        (
            LAW.replace("limits, course, period_s):", "limits):"),
            "is made with (params, vehicle, limits, course, period_s)",
        ),
        (
            LAW + "    def step(self, estimate): ...\n",
            "step is called with (estimate, now_ns), but too many",
        ),
        (LAW.replace("frozen=True", "frozen=False"), "Params must be frozen"),
        (
            LAW.replace("Params = Params", "Params = {}"),
            "Params must be a frozen msgspec Struct or dataclass",
        ),
        ("x" * (plugins.MAX_BYTES + 1), "this is not a plugin"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    message = problems(f"{write(tmp_path, text)}:Law")
    assert said in message
    assert "controller" in message


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("./no/such/file.py:Law", "no such file"),
        ("no_such_package:Law", 'no module "no_such_package" is installed'),
        ("/etc/passwd:Law", "neither a .py file nor a module"),
        ("json:loads", "json:loads is a function; a controller is a class"),
        ("a b:c d", "neither a .py file nor a module"),
        ("./x.py:", "no such file"),
    ],
)
def test_a_wrong_reference_is_said(reference: str, said: str) -> None:
    assert said in problems(reference)


def test_a_class_may_not_hide_a_built_in_name(tmp_path: Path) -> None:
    reference = f"{write(tmp_path, LAW.replace('class Law', 'class mpc'))}:mpc"
    with pytest.raises(PluginError, match="name of a built-in controller"):
        resolve("controller", reference)


def test_the_text_of_the_file_and_of_what_it_imports_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "GAIN = 2.0\n", "its_helper.py")
    path = write(tmp_path, "import its_helper\n" + LAW)
    resolve("controller", f"{path}:Law")
    plugin = plugins.loaded("controller", f"{path}:Law")
    assert plugin is not None
    assert list(plugin.files) == ["my_law.py", "its_helper.py"]
    assert plugin.files["its_helper.py"] == b"GAIN = 2.0\n"


def test_an_edited_file_is_read_anew_only_when_a_profile_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, LAW)
    reference = f"{path}:Law"
    before = resolve("controller", reference)
    write(tmp_path, LAW.replace("gain: float = 1.0", "gain: float = 7.0"))
    assert resolve("controller", reference) is before
    assert load("art", [f"controller.name={reference}"]).profile.controller.selected.gain == 7.0
    assert resolve("controller", reference) is not before


def command(**changes: Any) -> ControlCommand:
    """Return a command."""
    return ControlCommand(
        **{"t_ns": 1, "newest_input_ns": 0, "wheel_angle_rad": 0.1, "throttle": 0.2, "brake": 0.0}
        | changes
    )


def test_numbers_of_numpy_become_plain_ones() -> None:
    made: Any = plugins.plain(
        command(throttle=np.float64(0.5), t_ns=np.int64(7), brake=np.float32(0.25)), "x"
    )
    assert (made.throttle, made.t_ns, made.brake) == (0.5, 7, 0.25)
    assert [type(value) for value in (made.throttle, made.t_ns, made.brake)] == [float, int, float]
    sample: Any = plugins.plain(ImuSample(0, 0, np.zeros(3), (0.0, 0.0, np.float64(1.0))), "x")  # type: ignore[arg-type]
    assert sample.specific_force_mps2 == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"throttle": "full"}, "throttle = 'full'"),
        ({"brake": None}, "brake = None"),
        ({"t_ns": 0.5}, "t_ns = 0.5"),
        ({"t_ns": 2**70}, "t_ns"),
    ],
)
def test_a_value_of_a_wrong_type_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PluginFaultError, match="x returned") as caught:
        plugins.plain(command(**changes), "x")
    assert said in str(caught.value)


STEPS = """
from vehicled.control.interface import Controller
class Law(Controller):
    made = None
    def __init__(self, params, vehicle, limits, course, period_s): ...
    finished = False
    def step(self, estimate, now_ns):
        return self.made
    def adapt(self, vehicle): ...
    def reset(self, s_m=None, wheel_rad=0.0): ...
"""


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "Law.step returned None; it must return a ControlCommand"),
        (ImuSample(0, 0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), "must return a ControlCommand"),
        (command(wheel_angle_rad=nan), "Law.step returned wheel_angle_rad = nan"),
        (command(brake=float("inf")), "Law.step returned brake = inf"),
    ],
)
def test_a_step_that_returns_something_else_is_named_with_its_line(
    tmp_path: Path, made: Any, said: str
) -> None:
    law = resolve("controller", f"{write(tmp_path, STEPS)}:Law")(None, None, None, None, 0.02)
    law.made = made
    with pytest.raises(PluginFaultError, match=r"my_law\.py:7 Law\.step") as caught:
        law.step(None, 0)
    assert said in str(caught.value)


DRIVER = """
from vehicled.core.messages import ImuSample
from vehicled.core.ports import Device
class Imu(Device):
    produces = (ImuSample,)
    def __init__(self, params, messages, command_lifetime_ns): ...
    def on_rx(self, data, t_rx_ns):
        if data == b"none": return None
        return [ImuSample(t_rx_ns, t_rx_ns, (0.0, 0.0, 1.0 / len(data)), (0.0, 0.0, 0.0))]
"""


def test_an_exception_of_a_driver_is_a_fault_that_ends_with_the_next_success(
    tmp_path: Path,
) -> None:
    device = resolve("driver", f"{write(tmp_path, DRIVER, 'my_imu.py')}:Imu")(None, [ImuSample], 0)
    (fault,) = device.on_rx(b"", 5)
    assert isinstance(fault, Fault)
    assert (fault.active, fault.code, fault.t_ns) == (True, "driver_failed", 5)
    assert "ZeroDivisionError" in fault.reason
    assert "my_imu.py:9 in on_rx" in fault.reason
    sample, over = device.on_rx(b"ab", 6)
    assert (type(sample), over.active) == (ImuSample, False)
    assert device.on_rx(b"none", 7) == []


def test_names_of_installed_packages_are_used_only_when_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import importlib.metadata

    asked: list[str] = []

    def points(group: str) -> list[Any]:
        asked.append(group)
        point = importlib.metadata.EntryPoint("theirs", "vehicled.control.stanley:Stanley", group)
        return [point] if group == "vehicled.controllers" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    load("art")
    assert asked == []
    profile = load("art", ["controller.name=theirs", "controller.theirs.gain_per_s=2"]).profile
    assert (profile.controller.name, profile.controller.selected.gain_per_s) == ("theirs", 2.0)
    assert resolve("controller", "theirs").__name__ == "Stanley"
