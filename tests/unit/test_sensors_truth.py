"""Claims of a reference system, from simulated drives whose errors are known."""

import json
from collections.abc import Sequence
from math import degrees, isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from tests.reference_bench import ANTENNA_M, ARM_M, PROTOCOL, START_NS, Leg, drive
from vehicled.cli import main
from vehicled.core import shipped
from vehicled.core.messages import GnssFix, Message, ReferenceState
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import Attachment, RunHeader, TaskRow
from vehicled.offline.sensors.truth import (
    Series,
    TruthCheck,
    check,
    chi_square_05,
    independent,
    series,
)
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel
from vehicled.profile.sensors import ReferenceModel

RTK = GnssModel(rate_hz=10.0)


def judged(
    model: ReferenceModel, legs: Sequence[Leg] = tuple(PROTOCOL), **more: Any
) -> tuple[TruthCheck, dict[str, float]]:
    """The result of the protocol, and the true root mean square errors."""
    states, fixes, truths = drive(model, legs, **more)
    run = series("drive", states, fixes, LOT_17, ARM_M, ANTENNA_M)
    true = np.array([(m.x_m, m.y_m, m.yaw_rad, m.speed_mps) for m in truths]).T
    off = np.hypot(run.x_m - true[0], run.y_m - true[1]) / sqrt(2.0)
    errors = {"position": off, "speed": run.speed_mps - true[3], "heading": run.yaw_rad - true[2]}
    return check([run]), {name: float(np.sqrt(np.mean(each**2))) for name, each in errors.items()}


def sentence(found: TruthCheck, name: str, begin: str) -> str:
    (wanted,) = [each for each in found.checks if each.name == name]
    return next(text for text in wanted.findings if text.startswith(begin))


def number_before(text: str, unit: str) -> float:
    return float(text.partition(f" {unit}")[0].split()[-1])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_honest_reference_may_claim_about_what_it_is(seed: int) -> None:
    found, true = judged(ReferenceModel(), receiver=RTK, seed=seed)
    for name, error in true.items():
        assert 0.95 * error < found.claims[name] < 2.5 * error, name
    assert found.independent["position"] >= 4
    assert not any("mounting" in text or "one speed" in text for text in found.unknown)


def test_what_no_check_saw_stays_unknown() -> None:
    found, _ = judged(ReferenceModel(), [Leg(5.0), Leg(0.0, 8.0, 1.5)])
    assert all(isnan(found.claims[name]) for name in ("position", "speed"))
    said = "\n".join(found.unknown)
    for lacking in (
        "never stood",
        "twice",
        "to one side only",
        "no fixes of another receiver",
        "whole map",
        "another hour",
    ):
        assert lacking in said


@pytest.mark.parametrize(("sigma", "sees"), [(0.005, False), (0.05, True)])
def test_marks_alone_carry_a_claim_of_the_position(sigma: float, sees: bool) -> None:
    # Drifts that are over before the mark is reached again.
    found, true = judged(
        ReferenceModel(position_drift_m=sigma, position_drift_s=10.0, position_sigma_m=0.002)
    )
    assert found.independent["position"] == 12, "seven visits, two axes, one place"
    assert true["position"] < found.claims["position"] < 3.0 * true["position"]
    assert (found.claims["position"] > 0.02) == sees


def test_visits_that_face_the_same_way_hide_a_wrong_lever_arm() -> None:
    circle = [Leg(0.0, 8.0, 1.5), Leg(15.0)] * 3
    model = ReferenceModel(lever_arm_error_m=[0.2, 0.0, 0.0])
    hidden, _ = judged(model, [Leg(15.0), *circle])
    assert isnan(hidden.claims["position"])
    assert any("from the other side" in text for text in hidden.unknown)
    shown, true = judged(model)
    assert shown.claims["position"] > true["position"] > 0.1


def test_too_few_visits_carry_nothing() -> None:
    found, _ = judged(ReferenceModel(), PROTOCOL[:3])
    assert isnan(found.claims["position"])
    assert any("2 visits are few" in text for text in found.unknown)


@pytest.mark.parametrize("misalignment", [-0.01, 0.02])
@pytest.mark.parametrize(("slip", "arm"), [(0.0, 0.0), (0.01, 0.1)])
def test_mounting_arm_and_slip_are_separated(misalignment: float, slip: float, arm: float) -> None:
    model = ReferenceModel(misalignment_rad=misalignment, lever_arm_error_m=[arm, 0.0, 0.0])
    found, true = judged(model, slip_rad_per_mps2=slip)
    assert found.yaw_offset_rad == pytest.approx(-misalignment, abs=0.0008)
    assert true["heading"] < found.claims["heading"] < 2.0 * true["heading"]
    assert number_before(
        sentence(found, "course against heading", "the lever arm"), "m further"
    ) == pytest.approx(arm, abs=0.01)
    stated = number_before(sentence(found, "course against heading", "slip"), "deg per")
    assert stated == pytest.approx(degrees(slip), abs=0.05)


def test_turns_to_one_side_or_at_one_speed_leave_them_together() -> None:
    model = ReferenceModel(lever_arm_error_m=[0.2, 0.0, 0.0])
    one_side, _ = judged(model, [Leg(20.0), Leg(0.0, 8.0, 1.5), Leg(15.0), Leg(0.0, 8.0, 2.5)])
    assert any("drive the figure both ways" in text for text in one_side.unknown)
    one_speed, _ = judged(
        model, [Leg(20.0), Leg(0.0, 8.0, 1.5, 2), Leg(15.0), Leg(0.0, -8.0, 1.5, 2)]
    )
    assert any("drive them slow and fast" in text for text in one_speed.unknown)
    together = sentence(one_speed, "course against heading", "lever arm and slip together")
    assert number_before(together, "m further") == pytest.approx(0.2, abs=0.02)


def test_a_wrong_lever_arm_shows_against_the_receiver() -> None:
    found, true = judged(ReferenceModel(lever_arm_error_m=[0.1, -0.05, 0.0]), receiver=RTK)
    stated = sentence(found, "against RTK fixes", "mean")
    assert number_before(stated, "m ahead") == pytest.approx(-0.1, abs=0.01)
    assert number_before(stated, "m to the left") == pytest.approx(0.05, abs=0.01)
    assert found.claims["position"] > 0.95 * true["position"] > 0.05


def test_an_overconfident_reference_claims_what_it_shows() -> None:
    found, true = judged(ReferenceModel(declared_share=0.1), receiver=RTK)
    for name, error in true.items():
        assert found.declared[name] < 0.2 * error
        assert found.claims[name] > 0.95 * error
    modest, _ = judged(ReferenceModel(declared_share=5.0), receiver=RTK)
    for name, declared in modest.declared.items():
        assert modest.claims[name] >= declared


def test_drives_of_two_logs_are_one_protocol() -> None:
    runs = []
    for seed in (1, 2):
        states, fixes, _ = drive(ReferenceModel(), PROTOCOL[:3], seed=seed)
        runs.append(series(f"drive {seed}", states, fixes, LOT_17, ARM_M, ANTENNA_M))
    found = check(runs)
    assert found.independent["position"] == 6, "four visits to one mark, in two logs"
    assert found.runs == ["drive 1", "drive 2"]


def test_a_rest_is_a_visit_only_after_the_vehicle_was_away() -> None:
    states, fixes, _ = drive(ReferenceModel(), [Leg(60.0)])
    run = series("rest", states, fixes, LOT_17, ARM_M, ANTENNA_M)
    at = run.t_s
    # A bump in the middle parts the rest in two.
    bumped = np.where((at > 29.0) & (at < 31.0), run.x_m + 0.3, run.x_m)
    found = check(
        [Series(**{name: getattr(run, name) for name in run.__struct_fields__} | {"x_m": bumped})]
    )
    assert "2 rests" in sentence(found, "at rest", "2 rests")
    assert any("no place was visited twice" in text for text in found.unknown)


def test_independent_observations() -> None:
    generator = np.random.default_rng(3)
    white = generator.normal(size=4000)
    assert independent(white) == pytest.approx(4000, rel=0.15)
    phi, slow = 0.95, [0.0]
    for step in generator.normal(size=8000):
        slow.append(phi * slow[-1] + step)
    # n (1 - phi) / (1 + phi) of a first-order process.
    assert independent(np.array(slow)) == pytest.approx(8000 * 0.05 / 1.95, rel=0.35)
    assert independent(np.full(500, 0.3)) == pytest.approx(1.0, abs=1.0)
    assert independent(0.3 + 0.01 * white) < 10.0, "white noise does not hide a constant error"
    assert independent(np.zeros(7)) == 7.0
    assert independent(np.zeros(0)) == 0.0


@pytest.mark.parametrize("degrees_of_freedom", [4.0, 10.0, 200.0])
def test_the_quantile_of_chi_square(degrees_of_freedom: float) -> None:
    assert chi_square_05(degrees_of_freedom) == pytest.approx(
        chi2.ppf(0.05, degrees_of_freedom), rel=0.04
    )


# ---------------------------------------------------------------- command


def write(folder: Path, states: Sequence[ReferenceState], fixes: Sequence[GnssFix]) -> str:
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=START_NS, profile="art", course="yard",
        tasks=[TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)],
    )  # fmt: skip
    profile = (shipped.folder("profiles") / "art.toml").read_text()
    profile += (
        '\n[devices.ins]\ndriver = "sbg"\nmessages = ["ReferenceState"]\nrate_hz = '
        f"50\nlever_arm_m = {list(ARM_M)}\n"
    )
    place = {
        "latitude_rad": LOT_17.latitude_rad,
        "longitude_rad": LOT_17.longitude_rad,
        "height_m": LOT_17.height_m,
    }
    attachments = [
        Attachment("profile.toml", "application/toml", profile.encode()),
        Attachment(
            "course.json", "application/json", json.dumps({"datum": place, "name": "yard"}).encode()
        ),
    ]
    writer = WriterProcess.start(header, folder=str(folder), blocking=True, attachments=attachments)
    stamped: list[tuple[int, Message]] = [
        *((state.t_ns, state) for state in states),
        *((fix.t_ns, fix) for fix in fixes),
    ]
    for t_ns, message in sorted(stamped, key=lambda each: each[0]):
        writer.sink.record(message, t_ns)
        writer.pump(t_ns)
    assert writer.close({"reason": "done"}, 10**12).finished
    (file,) = folder.glob("*.mcap")
    return str(file)


def test_the_command_says_what_may_be_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states, fixes, _ = drive(ReferenceModel(misalignment_rad=0.02), receiver=RTK)
    log = write(tmp_path, states, fixes)
    picture = tmp_path / "truth.svg"
    assert main(["sensors", "check-truth", log, "--plot", str(picture)]) == 0
    said = capsys.readouterr().out
    for text in (
        "May be claimed as truth",
        "7 visits to one place",
        "least_position_sigma_m = 0.0",
        "add -0.0",
    ):
        assert text in said
    assert "may be claimed" in picture.read_text()
    assert main(["sensors", "check-truth", log, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["claims"]["heading"] == pytest.approx(0.025, rel=0.2)


def test_a_log_without_a_reference_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states, fixes, _ = drive(ReferenceModel(), [Leg(1.0)], receiver=RTK)
    assert main(["sensors", "check-truth", write(tmp_path, states[:1], fixes)]) == 2
    assert 'messages = ["ReferenceState"]' in capsys.readouterr().err
    assert main(["sensors", "check-truth", write(tmp_path / "short", states, [])]) == 1
    assert "unknown: at rest" in capsys.readouterr().out
