"""Feeding a recording to an estimator: order, times in between, predictions ahead of fixes, what is
identified."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests import recordings_bench as bench
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Identification,
    Message,
    StateEstimate,
)
from vehicled.offline.recordings import runner
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import Recording
from vehicled.profile import registry

STEP_NS = 100_000_000


class NotesParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    width: float = 1.0
    masks: tuple[bool, ...] = ()


class Notes:
    """An estimator, and an identifier, that writes down what it receives; its x counts the fixes it
    has seen."""

    Params: ClassVar[type[Any]] = NotesParams

    def __init__(
        self, params: Any = None, vehicle: Any = None, datum: Any = None, lever_arm_m: Any = None
    ) -> None:
        self.params = params
        self.rest = (vehicle, datum, lever_arm_m)
        self.calls: list[tuple[str, Any]] = []
        self.fixes = 0
        self.adapted: list[float] = []

    def observe(self, message: Message) -> None:
        self.calls.append(("observe", message))
        self.fixes += isinstance(message, GnssFix)

    def command(self, command: ActuatorCommand) -> None:
        self.calls.append(("command", command))

    def adapt(self, vehicle: Any) -> None:
        self.adapted.append(vehicle.steering.gain_rad)

    def step(self, now_ns: int) -> StateEstimate:
        self.calls.append(("step", now_ns))
        return StateEstimate(
            now_ns,
            now_ns,
            float(self.fixes),
            0.0,
            0.0,
            1.0,
            0.0,
            (0.0,) * 16,
            EstimatorStatus.RUNNING,
        )


class Teller:
    """Identifies a growing gain, once a second."""

    Params: ClassVar[type[Any]] = NotesParams

    def __init__(self, params: Any = None, vehicle: Any = None) -> None:
        pass

    def observe(self, message: Message) -> None:
        pass

    def command(self, command: ActuatorCommand) -> None:
        pass

    def step(self, estimate: StateEstimate, now_ns: int) -> Identification | None:
        if now_ns % 1_000_000_000:
            return None
        gain = 0.2 + 0.01 * (now_ns // 1_000_000_000)
        return Identification(
            now_ns, gain, 0.01, 0.3, 0.0, 2.5, 0.5, 0.4, 1.0, 0.0, steering_gain_sigma_rad=0.01
        )


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    (found,) = bench.load(bench.path_following(tmp_path / "run.csv"))
    return found


def test_a_tick_is_measurements_step_command(recording: Recording) -> None:
    notes = Notes()
    track = runner.run(recording, notes)
    names = [name for name, _ in notes.calls]
    k = names.index("step", names.index("step") + 1)
    assert names[k - 2 : k + 2] == ["observe", "observe", "step", "command"], (
        "heading and rate, step, then the command of that time"
    )
    assert track.t_ns.tolist() == list(recording.steps_ns)
    assert names.count("command") == len(recording.steps_ns)
    given = [call[1] for call in notes.calls if call[0] == "observe"]
    assert given == [m for m in recording.inputs if not isinstance(m, ActuatorCommand)]


def test_steps_in_between_are_taken_and_not_judged(recording: Recording) -> None:
    notes = Notes()
    track = runner.run(recording, notes, period_ns=20_000_000)
    steps = [value for name, value in notes.calls if name == "step"]
    assert len(steps) == 5 * (len(recording.steps_ns) - 1) + 1
    assert set(np.diff(steps)) == {20_000_000}
    assert len(track.t_ns) == len(recording.steps_ns)


def test_what_arrives_between_two_steps_comes_before_the_next(recording: Recording) -> None:
    late = [
        replace(m, t_rx_ns=m.t_rx_ns + 30_000_000) if isinstance(m, GnssFix) else m
        for m in recording.inputs
    ]
    notes = Notes()
    runner.run(Recording(**_fields(recording) | {"inputs": late}), notes)
    newest = 0
    for name, value in notes.calls:
        if name == "step":
            newest = value
        elif isinstance(value, GnssFix):
            assert newest == value.t_ns, (
                "a fix that arrives 30 ms after its row is fed after that row's step"
            )


def test_the_prediction_ahead_of_a_fix_does_not_know_it(recording: Recording) -> None:
    fixes = [m for m in recording.inputs if isinstance(m, GnssFix)]
    wanted = fixes[20].t_rx_ns
    track = runner.run(recording, Notes(), ahead_of=[wanted])
    k = track.t_ns.tolist().index(wanted)
    assert (track.ahead_x_m[k], track.x_m[k]) == (20.0, 21.0)
    assert np.isfinite(track.ahead_x_m).sum() == 1


def test_what_is_identified_reaches_the_estimator_and_the_track(recording: Recording) -> None:
    notes = Notes()
    track = runner.run(recording, notes, Teller())
    assert len(track.identified) == 30
    assert notes.adapted == pytest.approx([0.2 + 0.01 * k for k in range(1, 31)])
    gains = [vehicle.steering.gain_rad for vehicle in track.vehicles]
    assert gains[:2] == pytest.approx([0.21, 0.21])
    assert gains[-1] == pytest.approx(0.50)
    assert len(gains) == len(track.t_ns)


# --------------------------------------------------------------------------------------- parameters


def test_parameters_come_from_texts_and_from_mappings(recording: Recording) -> None:
    params = runner.parameters(
        Notes,
        "estimator",
        "notes",
        ["estimator.width=2.5", "identifier.width=9", "estimator.other.width=8"],
    )
    assert params.width == 2.5
    assert runner.parameters(Notes, "estimator", "notes", {"width": 3.0}).width == 3.0
    assert runner.parameters(
        Notes, "estimator", "notes", ["estimator.notes.masks=[true,false]"]
    ).masks == (True, False)
    with pytest.raises(
        RecordingError, match="estimator notes has no parameter hight; it has: width, masks"
    ):
        runner.parameters(Notes, "estimator", "notes", ["hight=1"])
    with pytest.raises(RecordingError, match=r"estimator notes: Expected `float`, got `str`"):
        runner.parameters(Notes, "estimator", "notes", ["width=wide"])
    with pytest.raises(RecordingError, match=r"estimator\.parameter=value"):
        runner.parameters(Notes, "estimator", "notes", ["width"])


def test_estimators_are_made_by_name(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ESTIMATORS, "notes", f"{__name__}:Notes")
    monkeypatch.setattr(
        runner,
        "resolve",
        lambda kind, name: Notes if name == "notes" else registry.resolve(kind, name),
    )
    made: Any = runner.make_estimator("notes", ["estimator.width=4"], recording)
    assert made.params.width == 4.0
    assert made.rest == (recording.vehicle, recording.datum, recording.lever_arm_m)
    assert runner.make_identifier("none", (), recording) is None
    assert runner.make_identifier(None, (), recording) is None
    with pytest.raises(registry.UnknownNameError):
        runner.make_estimator("nobody", (), recording)


def _fields(recording: Recording) -> dict[str, Any]:
    return {name: getattr(recording, name) for name in recording.__slots__}
