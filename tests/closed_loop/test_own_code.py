"""A user's own code from the first command to the replay: it drives, the log keeps it, and its
mistakes only stop the vehicle."""

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import vehicled as v
from vehicled.cli import main
from vehicled.core.messages import ActuatorCommand, Event, Fault, Mode
from vehicled.log.reader import LogReader

LAW = """
import time
from vehicled.control.path_follower import PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from msgspec import Struct, field

class P(Struct, frozen=True):
    fails: str = ""
    sound_steps: int = 100
    speed: SpeedParams = field(default_factory=SpeedParams)

class Law(PathFollower):
    Params = P
    def __init__(self, params, vehicle, limits, course, period_s):
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self.fails, self.sound_steps, self.steps = params.fails, params.sound_steps, 0
    def steer(self, state):
        self.steps += 1
        ahead = state.ahead
        place = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        curved = self.vehicle.wheelbase_m * place.curvature_per_m
        wheel = curved + place.heading_error_rad - place.cross_track_m
        if self.steps > self.sound_steps:
            if self.fails == "raises":
                raise KeyError("model")
            if self.fails == "infinite":
                wheel = float("nan")
            if self.fails == "cap":
                return SteeringDemand(wheel, float("nan"))
            if self.fails == "backward":
                return SteeringDemand(wheel, -1.0)
            if self.fails == "sleeps":
                time.sleep(60)
            while self.fails == "loops":
                wheel += 1.0
            if self.fails == "slow":
                time.sleep(0.02)
            if self.fails == "sometimes" and self.steps % 20 == 0:
                until = time.thread_time() + 0.008
                while time.thread_time() < until:
                    pass
        return SteeringDemand(wheel)
"""


@pytest.fixture
def law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a controller, in the present folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_law.py"
    path.write_text(LAW)
    return path


def sim(*arguments: str) -> int:
    """Drive with the controller of the present folder."""
    fixed = [
        "--course",
        "circle_r5_ccw",
        "--controller",
        "./my_law.py:Law",
        "--log",
        "logs",
        "--quiet",
        "--duration",
        "3",
    ]
    return main(["sim", *fixed, *arguments])


def the_log() -> str:
    """Return the only log."""
    (log,) = Path("logs").glob("*.mcap")
    return str(log)


def test_the_log_holds_the_code_and_a_replay_runs_exactly_that(
    law: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sim()
    assert main(["replay", the_log(), "--quiet"]) == 0
    assert "IDENTICAL" in capsys.readouterr().out
    law.write_text(LAW.replace("- place.cross_track_m", "- 2.0 * place.cross_track_m"))
    assert main(["replay", the_log(), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "my_law.py has been changed since" in said
    assert "--code log" in said
    assert main(["replay", the_log(), "--quiet", "--code", "log"]) == 0
    assert "IDENTICAL" in capsys.readouterr().out
    assert main(["replay", the_log(), "--quiet", "--code", "changed"]) == 0
    assert "WHAT IF --code changed" in capsys.readouterr().out
    law.unlink()
    assert main(["replay", the_log(), "--quiet"]) == 2
    assert "my_law.py is not on this computer" in capsys.readouterr().err
    assert main(["replay", the_log(), "--quiet", "--code", "log"]) == 0


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        ("raises", r"control raised KeyError: 'model' \(my_law.py:25 in steer\)"),
        ("infinite", r"control raised my_law.py:17 Law.steer returned wheel_rad = nan"),
        ("cap", r"control raised my_law.py:17 Law.steer returned speed_cap_mps = nan"),
        (
            "sleeps",
            r"control raised PluginStuckError: no return after 1 s \(my_law.py:33 in steer\)",
        ),
        (
            "loops",
            r"control raised PluginStuckError: no return after 1 s \(my_law.py:(34|35) in steer\)",
        ),
    ],
)
def test_a_failure_stops_the_vehicle_and_names_the_line(
    law: Path, fails: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sim("--set", f"controller.Law.fails={fails}", "--link-timeout", "30") == 1
    printed = "".join(capsys.readouterr())
    assert "in real time it would be late" not in printed
    with LogReader(the_log()) as log:
        (fault,) = [
            each.message
            for each in log.messages(Fault)
            if each.message.code == "task_raised" and each.message.active
        ]
        assert re.fullmatch(said, fault.reason)
        assert Mode.STOPPING in {each.message.mode for each in log.messages(ActuatorCommand)}
        first = next(
            each.message for each in log.messages(Event) if each.message.name == "task_raised"
        )
        assert "my_law.py" in first.fields


def test_a_negative_speed_cap_is_no_drive_backward(law: Path) -> None:
    sim("--set", "controller.Law.fails=backward")
    with LogReader(the_log()) as log:
        sent = [each.message for each in log.messages(ActuatorCommand)]
        assert min(each.throttle for each in sent) == 0.0
        assert sent[-1].brake > 0.0


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (
            "slow",
            (
                r"control with my_law.py:Law took longer than its deadline of 6 ms in (9\d|100)% "
                r"of its \d+ steps"
            ),
        ),
        (
            "sometimes",
            (
                r"control with my_law.py:Law computed for longer than its deadline of 6 ms in "
                r"([3-9]|1\d)% of its \d+ steps"
            ),
        ),
        ("never", ""),
    ],
)
def test_a_slow_controller_is_reported_in_lockstep(
    law: Path, capsys: pytest.CaptureFixture[str], fails: str, said: str
) -> None:
    sim(
        "--set",
        f"controller.Law.fails={fails}",
        "--set",
        "controller.Law.sound_steps=0",
        "--duration",
        "1.5",
    )
    printed = capsys.readouterr()
    main(["log", "timing", the_log()])
    timing = capsys.readouterr().out
    with LogReader(the_log()) as log:
        late_tasks = log.end.get("late_tasks", "")
    for text in (printed.err, " ".join(printed.out.split()), timing, late_tasks):
        assert (
            bool(re.search(said, text))
            if said
            else "really late" not in text and "would be late" not in text
        )


def test_lockstep_says_which_tasks_it_charges_nothing(
    law: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = [
        f"--set=tasks.{name}.declared_us=0"
        for name in ("ingestion", "fusion", "control", "actuation")
    ]
    for options, said in (
        (free[2:3], "no miss, no skip; the profile declares no cost of control (declared_us)"),
        (free, "not judged: the profile declares no cost of a task"),
    ):
        sim(*options, "--duration", "0.3")
        assert said in " ".join(capsys.readouterr().out.split())
    main(["log", "timing", str(max(Path("logs").glob("*.mcap"), key=os.path.getmtime))])
    said = capsys.readouterr().out
    assert "not judged: lockstep charged nothing for ingestion, fusion, control, actuation" in said
    assert "all budgets kept" not in said


def test_a_changed_module_of_an_installed_package_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "their_laws").mkdir()
    module = tmp_path / "their_laws" / "law.py"
    module.write_text(LAW)
    theirs = ["--controller", "their_laws.law:Law", "--log", "logs", "--duration", "1.5"]
    assert main(["sim", "--course", "circle_r5_ccw", *theirs]) == 1
    assert main(["replay", the_log(), "--quiet"]) == 0
    module.write_text(LAW + "\n")
    assert main(["replay", the_log(), "--quiet"]) == 2
    assert "law.py has been changed since" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["controller", "estimator", "driver"])
def test_what_new_writes_passes_its_own_test(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", kind, "my_code", "--folder", str(tmp_path)]) == 0
    assert "MyCode" in capsys.readouterr().out
    test = tmp_path / "test_my_code.py"
    # A shorter course, which bends more.
    test.write_text(test.read_text().replace("circle_r5_ccw", "circle_r2_ccw"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_code.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert main(["new", kind, "my_code", "--folder", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err


OWN_WORLD = """
from drivers.imu.n100 import N100Device
from sim_backend.emulators.line import SerialLine, baud_of
from sim_backend.emulators.n100 import N100Unit
from sim_backend.plant.four_dof import FourDof

class Plant(FourDof):
    pass

class Driver(N100Device):
    pass

class Emulator(SerialLine):
    def __init__(self, port, device, seed, start_ns):
        unit = N100Unit(port, device, seed, start_ns)
        super().__init__(unit, port, seed, start_ns, host_baud=baud_of(device.port))

def decode(data):
    for k, byte in enumerate(data):
        yield "BYTE", {"place": k, "value": byte}
"""


def digest(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the digest of a short drive of the ART with its real protocols."""
    fixed = [
        "--profile",
        "art_published",
        "--course",
        "circle_r5_ccw",
        "--link",
        "wires",
        "--log",
        "logs",
        "--quiet",
        "--duration",
        "2",
        "--json",
    ]
    main(["sim", *fixed, *arguments])
    return str(msgspec.json.decode(capsys.readouterr().out)["digest"])


def test_a_plant_a_driver_and_an_emulator_of_ones_own_drive_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_world.py").write_text(OWN_WORLD)
    own = [
        "sim.plant=./my_world.py:Plant",
        "devices.imu.driver=./my_world.py:Driver",
        "devices.imu.emulator=./my_world.py:Emulator",
    ]
    assert digest(capsys, *(word for each in own for word in ("--set", each))) == digest(capsys)
    (log,) = [path for path in Path("logs").glob("*.mcap") if v.open_log(str(path)).header.plugins]
    assert main(["replay", str(log), "--quiet"]) == 0
    assert "IDENTICAL" in capsys.readouterr().out
    assert main(["sim", "--link", "wires", "--set", own[1], "--no-log"]) == 2
    assert 'no emulator has the protocol of driver "my_world.py:Driver"' in capsys.readouterr().err


def test_a_decoder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_world.py").write_text(OWN_WORLD)
    (tmp_path / "recording.bin").write_bytes(b"abc")
    assert (
        main(["devices", "decode", "recording.bin", "--type", "./my_world.py:decode", "--show"])
        == 0
    )
    assert "BYTE" in capsys.readouterr().out
