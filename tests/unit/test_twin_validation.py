"""Reference runs of a made-up model, written by the tests, beside a made-up model of ours: what is read, compared and judged."""

import csv
from math import cos, radians, sin, tan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.plant.twin_file import load_twin
from vehicled.cli import main
from vehicled.lab.validation import theory
from vehicled.lab.validation.drive import accelerated, commands_of, drive, linear_tyres
from vehicled.lab.validation.metrics import check_target, errors_of, rows_judged
from vehicled.lab.validation.reference import ReferenceRunError, find, read
from vehicled.lab.validation.result import RunComparison, TheoryCheck, Validation, worst_first
from vehicled.lab.validation.targets import REPORT_ONLY, Target, target_of
from vehicled.lab.validation.theory import CHECKS

_COLUMNS = ["t", "steer_rate_cmd", "accel_cmd", "delta", "x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll"]
WHEELBASE_M = 2.578


def bicycle(t: float) -> dict[str, float]:
    """A steady left turn at 10 m/s, radius 50 m, exactly."""
    yaw = 10.0 * t / 50.0
    return {
        "t": t,
        "delta": 0.05,
        "x": 50.0 * sin(yaw),
        "y": 50.0 * (1.0 - cos(yaw)),
        "yaw": yaw,
        "vx": 10.0,
        "yaw_rate": 0.2,
        "ay": 2.0,
    }


def write_run(folder: Path, name: str = "bmw_320i__mb__circle_v10.csv", rows: int = 101, **columns: Any) -> Path:
    """A reference file; ``columns`` are functions of time in place of the circle's."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        for k in range(rows):
            row = dict.fromkeys(_COLUMNS, 0.0) | bicycle(0.01 * k)
            row |= {key: function(0.01 * k) for key, function in columns.items()}
            writer.writerow([row[key] for key in _COLUMNS])
    return path


class Puppet:
    """A model that drives the circle whatever it is told, ``wrong`` metres to the side; it remembers its commands."""

    def __init__(self, wrong: float = 0.0, *, rolled_over: bool = False, ends_at: int = 10**9) -> None:
        self.wrong = wrong
        self.diverged = ends_at < 10**9
        self.rolled_over = rolled_over
        self.ends_at = ends_at
        self.started: tuple[float, ...] = ()
        self.commands = np.zeros((0, 3))
        self.state = SimpleNamespace(forward_mps=0.0, lateral_mps=0.0)

    def __call__(self, parameters: Any, step_s: float) -> "Puppet":
        self.step_s = step_s
        return self

    def reset(self, x_m: float, y_m: float, yaw_rad: float, speed_mps: float) -> None:
        self.started = (x_m, y_m, yaw_rad, speed_mps)

    def step(self, steer_rad: float, throttle: float, brake: float) -> None:
        raise AssertionError("no family here prescribes the speed")

    def run(self, commands: Any, every: int = 1) -> dict[str, Any]:
        self.commands = commands
        t = self.step_s * np.arange(len(commands))
        rows = [bicycle(float(time)) for time in t]
        table = {name: np.array([row[name] for row in rows]) for name in ("x", "y", "yaw", "vx", "yaw_rate")}
        table |= {"t": t} | {name: np.zeros(len(t)) for name in ("vy", "roll", "roll_rate")}
        table["y"] = table["y"] + self.wrong
        for column in table.values():
            if column is not t:
                column[self.ends_at :] = np.nan
        return table


def compared(folder: Path, puppet: Puppet, target: Target | None = None, **columns: Any) -> RunComparison:
    write_run(folder / "commonroad", **columns)
    (source,) = find(folder).sources
    reference = read(source)
    ours = drive(reference, load_twin(source.twin).parameters, cast(Any, puppet))
    errors = errors_of(reference, ours)
    chosen = target or Target(name="any", position_pct=1.0, yaw_rate_pct=5.0, roll_deg=0.3)
    return RunComparison(reference, ours, errors, chosen, check_target(reference, ours, errors, chosen))


def test_the_same_drive_has_no_error(tmp_path):
    comparison = compared(tmp_path, Puppet())
    errors = comparison.errors
    assert errors.path_m == pytest.approx(10.0, rel=1e-4)
    assert (errors.position_m, errors.yaw_rate_pct, errors.speed_mps, errors.roll_deg) == pytest.approx((0, 0, 0, 0), abs=1e-9)
    assert comparison.judgement.passed
    assert comparison.judgement.share < 1e-6


def test_errors_are_root_mean_squares_over_path_and_peak(tmp_path):
    comparison = compared(
        tmp_path, Puppet(wrong=0.3), yaw_rate=lambda t: 0.2 + (0.02 if t < 0.505 else -0.02), roll=lambda t: radians(1.0)
    )
    errors = comparison.errors
    assert errors.position_m == pytest.approx(0.3)
    assert errors.position_pct == pytest.approx(3.0, rel=1e-3)
    assert errors.yaw_rate_pct == pytest.approx(100 * 0.02 / 0.22)
    assert errors.roll_deg == pytest.approx(1.0)
    assert not comparison.judgement.passed
    assert comparison.judgement.share == pytest.approx(1.0 / 0.3)
    assert [reason.split()[0] for reason in comparison.judgement.reasons] == ["position", "yaw", "roll"]


def test_a_reference_that_does_not_turn_has_no_yaw_rate_to_miss(tmp_path):
    comparison = compared(tmp_path, Puppet(), yaw_rate=lambda t: 0.001)
    assert np.isnan(comparison.errors.yaw_rate_pct)
    assert comparison.judgement.passed


def test_a_drive_that_ends_early_fails_with_the_time(tmp_path):
    comparison = compared(tmp_path, Puppet(ends_at=500))
    assert comparison.judgement.passed is False
    assert "diverged at 0.50 s" in comparison.judgement.reasons[0]
    assert compared(tmp_path, Puppet(rolled_over=True)).judgement.passed is False


def test_commands_act_from_the_first_grid_point_at_or_after_their_stamp(tmp_path):
    puppet = Puppet()
    compared(tmp_path, puppet, accel_cmd=lambda t: 1.0 if t > 0.295 else -2.0, delta=lambda t: 0.1 * t)
    assert puppet.commands.shape == (1001, 3)
    throttle, brake = accelerated(load_twin("bmw_320i").parameters, np.array([1.0, -2.0]))
    assert throttle[1] == brake[0] == 0.0
    assert (puppet.commands[:300, 1] == 0.0).all()
    assert (puppet.commands[300:, 1] == throttle[0]).all()
    assert (puppet.commands[:300, 2] == brake[1]).all()
    # The steering of the reference moves on between its rows.
    assert np.allclose(puppet.commands[:1000, 0], 0.1 * (0.001 * np.arange(1000) + 0.0005))
    assert puppet.started == (0.0, 0.0, 0.0, 10.0)


def test_full_brake_is_what_the_brakes_can_do():
    parameters = load_twin("bmw_320i").parameters
    brakes = parameters.brakes
    force = 2 * (
        brakes.front_torque_nm / parameters.front.loaded_radius_m + brakes.rear_torque_nm / parameters.rear.loaded_radius_m
    )
    most = force / parameters.body.mass_kg
    _, brake = accelerated(parameters, np.array([-0.5 * most, -3.0 * most]))
    assert brake == pytest.approx([0.5, 1.0])


def test_chrono_positions_and_velocities_are_those_of_its_own_points(tmp_path):
    """A vehicle that turns on the spot of its centre of mass moves the middle between its axles."""
    folder = tmp_path / "hmmwv_chrono"
    folder.mkdir()
    names = [
        "time_s",
        "steering_in",
        "x_m",
        "y_m",
        "vx_body_mps",
        "vy_body_mps",
        "yaw_rad",
        "roll_rad",
        "yaw_rate_radps",
        "front_toe_avg_rad",
    ]
    rows = [[0.02 * k, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0] for k in range(50)]
    for name, head, lines in (
        ("st9_left_motion.csv", names, rows),
        ("st9_left_commands.csv", ["time_s", "steering_in", "throttle_in", "brake_in"], [[0, 0, 0, 0], [1, 0.5, 1.0, 0]]),
    ):
        with (folder / name).open("w", newline="") as stream:
            csv.writer(stream).writerows([head, *lines])
    (source,) = find(tmp_path).sources
    reference = read(source)
    puppet = Puppet()
    parameters = load_twin("hmmwv_chrono").parameters
    ours = drive(reference, parameters, cast(Any, puppet))
    behind = parameters.body.cg_to_front_m - parameters.body.wheelbase_m / 2
    assert puppet.started[0] == pytest.approx(-behind)
    assert ours.x_m[0] == pytest.approx(behind)
    assert ours.vy_mps == pytest.approx(0.2 * (0.056 + behind))
    # Commands of this family run straight between their rows, and go through the vehicle's steering.
    orders = commands_of(reference, parameters)
    assert orders[490, 1] == pytest.approx(0.4905)
    assert orders[490, 0] == pytest.approx(
        np.interp(0.24525, parameters.steering.map_command, parameters.steering.map_angle_rad), rel=1e-6
    )


def test_tyres_made_linear_keep_their_slope():
    tyre = linear_tyres(load_twin("bmw_320i").parameters).front.tyre.lateral
    for slope, peak, slip in zip(tyre.slope_n, tyre.peak_force_n, tyre.peak_slip):
        sigma = 0.1 / slip
        force = slip * slope * sigma / (1 + sigma * (sigma + slope * slip / peak - 2))
        assert force == pytest.approx(0.1 * slope, rel=2e-4)


def test_a_creeping_end_is_left_out(tmp_path):
    folder = tmp_path / "lfdm"
    folder.mkdir()
    with (folder / "hmmwv__lf18__brake_v1.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["t", "steer", "throttle", "brake", "x", "y", "yaw", "vx", "vy", "yaw_rate", "roll"])
        speeds = [0.0, 0.2, 0.6, 1.0, 0.8, 0.55, 0.4, 0.1, 0.0, -0.02]
        writer.writerows([0.02 * k, 0, 0, 0, k, 0, 0, speed, 0, 0, 0] for k, speed in enumerate(speeds))
    (source,) = find(tmp_path).sources
    assert (source.twin, source.model, source.manoeuvre) == ("hmmwv_lfdm", "lf18", "brake_v1")
    assert rows_judged(read(source)) == 6


@pytest.mark.parametrize(
    ("name", "ay", "expected"),
    [
        (("commonroad", "vw_vanagon", "mb", "sine_0p5hz_v15"), 4.9, "CommonRoad below 5 m/s2"),
        (("commonroad", "vw_vanagon", "std", "dlc_v18"), 5.6, "CommonRoad 5 to 7 m/s2"),
        (("commonroad", "vw_vanagon", "mb", "ramp_steer_v14"), 9.0, "limit: plough or spin"),
        (("commonroad", "ford_escort", "mb", "brake_in_turn_v12_a2"), 8.0, "CommonRoad combined slip"),
        (("lfdm", "hmmwv", "lf18", "dlc_35mph"), 4.0, "LFDM steer"),
        (("lfdm", "hmmwv", "lf18", "brake_in_turn_9mps_b05"), 4.0, "LFDM combined slip"),
        (("lfdm", "hmmwv", "lf18", "brake_straight_12mps_b06"), 0.0, "LFDM straight"),
        (("lfdm", "art", "lf18", "ramp_steer_2mps"), 2.0, "LFDM ART"),
        (("chrono", "hmmwv_chrono", "chrono", "st8_left"), 6.0, "Chrono steer"),
        (("chrono", "hmmwv_chrono", "chrono", "double_lane9"), 6.0, "Chrono lanes"),
        (("f1tenth_gym", "f1fifth", "st", "step_steer_v5"), 3.0, "gym, linear tyres"),
        (("autodrive_nigel", "nigel", "autodrive_nigel", "parking"), 0.0, "report only"),
    ],
)
def test_runs_never_seen_get_their_target_by_name_and_acceleration(name, ay, expected):
    assert target_of(name[0], name[1], name[2], name[3], ay).name == expected


def test_what_a_folder_lacks_or_cannot_be_used_is_reported_with_the_cure(tmp_path):
    write_run(tmp_path / "commonroad")
    write_run(tmp_path / "commonroad", "notes.csv")
    write_run(tmp_path / "elsewhere", "readings.csv")
    found = find(tmp_path)
    assert [source.manoeuvre for source in found.sources] == ["circle_v10"]
    assert any("notes.csv" in problem and "rename or remove it" in problem for problem in found.problems)
    assert any(problem.startswith("lfdm:") for problem in found.problems)
    assert not any("readings" in problem for problem in found.problems)
    with pytest.raises(ReferenceRunError, match="no such folder"):
        find(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("t,x\n0,1\n1,2\n", "no column 'yaw_rate'"),
        ("t,x\n0,1,2\n", "line 2: 3 fields"),
        ("t,x\n0,one\n", "line 2: x is 'one', not a number"),
        ("\x00\xff", "has a header and no rows|not UTF-8"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(tmp_path, text, reason):
    path = write_run(tmp_path / "commonroad")
    (source,) = find(tmp_path).sources
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ReferenceRunError, match=reason):
        read(source)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [({"yaw": lambda t: float("nan")}, "column 'yaw' is not a finite"), ({"t": lambda t: 1.0}, "time does not increase")],
)
def test_numbers_that_are_none_are_refused(tmp_path, columns, reason):
    write_run(tmp_path / "commonroad", **columns)
    (source,) = find(tmp_path).sources
    with pytest.raises(ReferenceRunError, match=reason):
        read(source)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_run_or_a_reason(tmp_path_factory, raw):
    folder = tmp_path_factory.mktemp("any") / "lfdm"
    folder.mkdir()
    (folder / "hmmwv__lf18__x.csv").write_bytes(raw)
    for source in find(folder).sources:
        with pytest.raises(ReferenceRunError):
            read(source)


def test_the_limit_is_judged_by_behaviour(tmp_path):
    limit = Target(name="limit", behaviour=True)
    understeer = compared(tmp_path, Puppet(wrong=30.0), limit, delta=lambda t: 0.1)
    assert understeer.judgement.passed
    spun = compared(tmp_path, Puppet(), limit, delta=lambda t: 0.1, vy=lambda t: -10.0)
    assert spun.judgement.passed is False
    assert "the reference spins, ours ploughs" in spun.judgement.reasons[0]
    neutral = 10 * tan(0.0) + 0.2 * WHEELBASE_M / 10.0
    assert compared(tmp_path, Puppet(), limit, delta=lambda t: neutral).judgement.passed


def test_verdict_and_order(tmp_path):
    near = compared(tmp_path / "a", Puppet(wrong=0.01))
    far = compared(tmp_path / "b", Puppet(wrong=0.5))
    told = compared(tmp_path / "c", Puppet(wrong=5.0), REPORT_ONLY)
    ordered = worst_first([told, near, far])
    assert ordered == [far, near, told]
    good = Validation(str(tmp_path), [near, told], [], ["something is missing"], [TheoryCheck("a", "b", "", "", True)], [])
    assert good.passed
    assert (good.judged, good.headline()) == (1, "1 of 1 reference runs within their target, 1 of 1 checks against theory hold")
    assert not Validation(str(tmp_path), [near], [], [], [TheoryCheck("a", "b", "", "", False)], []).passed
    assert not Validation(str(tmp_path), ordered, [], [], [], []).passed
    assert not Validation(str(tmp_path), [], [], [], [], []).passed


@pytest.mark.parametrize("name", ["static loads", "mirror symmetry", "rest on a slope", "yaw gain", "energy"])
def test_theory_holds_for_a_small_car(name):
    found, wanted, holds = CHECKS[name](load_twin("f1tenth").parameters)
    assert holds, (found, wanted)


def test_theory_notices_wheels_that_do_not_roll_where_they_point(monkeypatch):
    """The linear single track of another vehicle is not this one's."""
    p = load_twin("f1tenth").parameters
    monkeypatch.setattr(theory, "linear_gradient", lambda p, c: (1.1 * p.body.wheelbase_m, 0.0))
    assert not theory.yaw_gain(p)[2]


def test_the_command_tells_what_is_wrong_and_writes_its_page(tmp_path, capsys):
    assert main(["twin", "validate", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    write_run(tmp_path / "commonroad")
    write_run(tmp_path / "commonroad", "delorean__mb__circle_v10.csv")
    page = tmp_path / "report.html"
    assert main(["twin", "validate", str(tmp_path), "--no-theory", "--json", "-o", str(page)]) == 1
    output = capsys.readouterr().out
    data = msgspec.json.decode(output)
    assert [run["run"] for run in data["runs"]] == ["commonroad/bmw_320i__mb__circle_v10"]
    assert "delorean" in data["failures"][0]["run"]
    assert "no twin of that name" in data["failures"][0]["reason"]
    text = page.read_text()
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.count('<figure class="panel">') == 5
    assert main(["twin", "validate", str(tmp_path), "--run", "nothing*"]) == 2
    assert "no run matches" in capsys.readouterr().err
    assert main(["twin", "validate", str(tmp_path), "-o", str(tmp_path / "no" / "where.html")]) == 2
