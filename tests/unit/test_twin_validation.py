"""Reference runs of a made-up model, written by the tests, beside a made-up model of ours: what is
read, compared and judged."""

import csv
import re
from collections.abc import Callable
from math import cos, pi, sin, tan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.twin_file import load_twin
from vehicled.cli import main
from vehicled.core.arrays import rms
from vehicled.offline.twin.validation import mutants, runner, theory
from vehicled.offline.twin.validation.drive import accelerated, commands_of, drive, linear_tyres
from vehicled.offline.twin.validation.evidence import Finding, ParameterEffect, judge
from vehicled.offline.twin.validation.manoeuvre import traits_of
from vehicled.offline.twin.validation.metrics import check_target, deviations, judged_rows
from vehicled.offline.twin.validation.parameters import PARAMETERS, TwinParameter
from vehicled.offline.twin.validation.reference import (
    ReferenceRun,
    ReferenceRunError,
    ReferenceSource,
    find,
    read,
)
from vehicled.offline.twin.validation.result import (
    RunComparison,
    TheoryCheck,
    Validation,
    worst_first,
)
from vehicled.offline.twin.validation.runner import Selection, run_all
from vehicled.offline.twin.validation.targets import REPORT_ONLY, RULES, Target, target_of
from vehicled.offline.twin.validation.theory import CHECKS

_COLUMNS = [
    "t",
    "steer_rate_cmd",
    "accel_cmd",
    "delta",
    "x",
    "y",
    "yaw",
    "vx",
    "vy",
    "yaw_rate",
    "ax",
    "ay",
    "roll",
]
WHEELS = ("fl", "fr", "rl", "rr")
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


def write_run(
    folder: Path, name: str = "bmw_320i__mb__circle_v10.csv", rows: int = 101, **columns: Any
) -> Path:
    """A reference file; ``columns`` are functions of time in place of the circle's."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        names = [*_COLUMNS, *(key for key in columns if key not in _COLUMNS)]
        writer.writerow(names)
        for k in range(rows):
            row = dict.fromkeys(names, 0.0) | bicycle(0.01 * k)
            row |= {key: function(0.01 * k) for key, function in columns.items()}
            writer.writerow([row[key] for key in names])
    return path


class Puppet:
    """A model that drives the circle whatever the commands, ``wrong`` metres to the side; it
    remembers its commands."""

    def __init__(
        self, wrong: float = 0.0, *, rolled_over: bool = False, ends_at: int = 10**9
    ) -> None:
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
        table = {
            name: np.array([row[name] for row in rows])
            for name in ("x", "y", "yaw", "vx", "yaw_rate")
        }
        still = (
            "vy",
            "roll",
            "roll_rate",
            *(f"{name}_{wheel}" for name in ("w", "fz") for wheel in WHEELS),
        )
        table |= {"t": t} | {name: np.zeros(len(t)) for name in still}
        table["y"] = table["y"] + self.wrong
        for column in table.values():
            if column is not t:
                column[self.ends_at :] = np.nan
        return table


def compared(
    folder: Path, puppet: Puppet, target: Target | None = None, **columns: Any
) -> RunComparison:
    write_run(folder / "commonroad", **columns)
    (source,) = find(folder).sources
    reference = read(source)
    ours = drive(reference, load_twin(source.twin).parameters, cast(Any, puppet))
    rows = judged_rows(reference, ours)
    errors = {name: rms(values) for name, values in deviations(reference, ours, rows.rows).items()}
    chosen = target or Target(name="any", limits={"position": 1.0, "yaw rate": 5.0, "roll": 20.0})
    limits = {name: limit for name, limit in chosen.limits.items() if name in errors}
    return RunComparison(
        reference,
        ours,
        rows,
        errors,
        limits,
        chosen,
        check_target(reference, ours, errors, limits, chosen),
        [],
    )


def test_the_same_drive_has_no_error(tmp_path):
    comparison = compared(tmp_path, Puppet())
    assert set(comparison.errors) == {"position", "speed", "yaw rate", "lateral speed"}
    assert max(comparison.errors.values()) < 1e-9
    assert comparison.judgement.passed
    assert comparison.judgement.share < 1e-6


def test_errors_are_root_mean_squares_in_percent_of_path_and_peak(tmp_path):
    comparison = compared(
        tmp_path,
        Puppet(wrong=0.3),
        yaw_rate=lambda t: 0.2 + (0.02 if t < 0.505 else -0.02),
        roll=lambda t: 0.01 if t < 0.8 else 0.02,
    )
    errors = comparison.errors
    assert errors["position"] == pytest.approx(3.0, rel=1e-3)
    assert errors["yaw rate"] == pytest.approx(100 * 0.02 / 0.22)
    assert errors["roll"] == pytest.approx(100 * np.sqrt((80 * 0.25 + 21) / 101), rel=1e-3)
    assert not comparison.judgement.passed
    assert comparison.judgement.share == pytest.approx(errors["roll"] / 20.0)
    assert [reason.split()[0] for reason in comparison.judgement.reasons] == [
        "position",
        "yaw",
        "roll",
    ]


def test_a_reference_that_does_not_turn_has_no_lateral_motion_to_miss(tmp_path):
    comparison = compared(tmp_path, Puppet(), yaw_rate=lambda t: 0.001)
    assert set(comparison.errors) == {"position", "speed"}
    assert comparison.judgement.passed


def test_a_drive_that_ends_early_fails_with_the_time(tmp_path):
    comparison = compared(tmp_path, Puppet(ends_at=500))
    assert comparison.judgement.passed is False
    assert "diverged at 0.50 s" in comparison.judgement.reasons[0]
    assert compared(tmp_path, Puppet(rolled_over=True)).judgement.passed is False


def test_commands_act_from_the_first_grid_point_at_or_after_their_stamp(tmp_path):
    puppet = Puppet()
    compared(
        tmp_path, puppet, accel_cmd=lambda t: 1.0 if t > 0.295 else -2.0, delta=lambda t: 0.1 * t
    )
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
        brakes.front_torque_nm / parameters.front.loaded_radius_m
        + brakes.rear_torque_nm / parameters.rear.loaded_radius_m
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
        (
            "st9_left_commands.csv",
            ["time_s", "steering_in", "throttle_in", "brake_in"],
            [[0, 0, 0, 0], [1, 0.5, 1.0, 0]],
        ),
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
    # Commands of this family run straight between their rows, and go through the vehicle's
    # steering.
    orders = commands_of(reference, parameters)
    assert orders[490, 1] == pytest.approx(0.4905)
    assert orders[490, 0] == pytest.approx(
        np.interp(0.24525, parameters.steering.map_command, parameters.steering.map_angle_rad),
        rel=1e-6,
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
        writer.writerow(
            ["t", "steer", "throttle", "brake", "x", "y", "yaw", "vx", "vy", "yaw_rate", "roll"]
        )
        speeds = [0.0, 0.2, 0.6, 1.0, 0.8, 0.55, 0.4, 0.1, 0.0, -0.02]
        writer.writerows(
            [0.02 * k, 0, 0, 0, k, 0, 0, speed, 0, 0, 0] for k, speed in enumerate(speeds)
        )
    (source,) = find(tmp_path).sources
    assert (source.twin, source.model, source.manoeuvre) == ("hmmwv_lfdm", "lf18", "brake_v1")
    reference = read(source)
    ours = drive(reference, load_twin(source.twin).parameters, cast(Any, Puppet()))
    assert judged_rows(reference, ours).rows == 6


@pytest.mark.parametrize(
    ("columns", "limit"),
    [
        ({"delta": lambda t: 0.5 if t > 0.4 else 0.0}, "front axle slides"),
        (
            {
                "vy": lambda t: -2.0 if t > 0.4 else 0.0,
                "delta": lambda t: -0.15 if t > 0.4 else 0.05,
            },
            "rear axle slides",
        ),
        ({"w_fl": lambda t: 5.0 if t > 0.4 else 29.0}, "wheel locks"),
        ({"w_rr": lambda t: 50.0 if t > 0.4 else 29.0}, "wheel spins"),
        ({"fz_rl": lambda t: 0.0 if t > 0.4 else 3000.0}, "wheel lifts"),
    ],
)
def test_figures_are_judged_until_the_reference_reaches_its_limit(tmp_path, columns, limit):
    wheels = {f"w_{wheel}": lambda t: 29.0 for wheel in WHEELS}
    loads = {f"fz_{wheel}": lambda t: 3000.0 for wheel in WHEELS}
    judged = compared(tmp_path, Puppet(), **(wheels | loads | columns)).judged
    assert judged.limit == limit
    assert judged.rows in (41, 42)


def sine(hz: float) -> Callable[[float], float]:
    return lambda t: 0.1 * sin(2.0 * pi * hz * t)


def held(
    value: float, begin: float = 0.0, end: float = 99.0, rest: float = 0.0
) -> Callable[[float], float]:
    return lambda t: value if begin <= t < end else rest


ZERO, TURN = held(0.0), held(0.05, 1.0)


def shown(
    family: str,
    steer: Callable[[float], float],
    drive_at: Callable[[float], float] = ZERO,
    speed_mps: float = 15.0,
) -> ReferenceRun:
    """A reference run of 10 s at a speed; negative ``drive_at`` brakes. It turns as it steers."""
    t = np.arange(0.0, 10.0, 0.02)
    angle, driven = np.array([steer(each) for each in t]), np.array([drive_at(each) for each in t])
    pedals = family == "lfdm"
    flat = np.zeros(len(t))
    return ReferenceRun(
        ReferenceSource(family, "", "", "", "any_name", ""), t, flat, flat, flat, flat + speed_mps,
        flat, angle * speed_mps / 2.5, flat, t, angle,
        np.maximum(driven, 0.0) if pedals else driven, np.maximum(-driven, 0.0),
        angle * speed_mps**2 / 2.5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("run", "model", "ay", "expected"),
    [
        (shown("commonroad", sine(0.5)), "mb", 4.9, "CommonRoad mb steer"),
        (shown("commonroad", sine(1.5)), "mb", 3.0, "CommonRoad mb fast steer"),
        (shown("commonroad", sine(1.5)), "std", 5.6, "CommonRoad std steer"),
        (shown("commonroad", lambda t: 0.01 * t), "mb", 9.0, "CommonRoad mb steer, to the limit"),
        (shown("commonroad", TURN, held(-4.0, 3.0)), "mb", 8.0, "CommonRoad mb combined slip"),
        (shown("commonroad", ZERO, held(2.0, 3.0)), "std", 0.0, "CommonRoad std straight"),
        (shown("commonroad", TURN, speed_mps=1.0), "std", 1.0, "CommonRoad std slow"),
        (shown("commonroad", ZERO, lambda t: min(t, 2.0)), "mb", 0.0, "CommonRoad mb gentle drive"),
        (
            shown("commonroad", ZERO, lambda t: -min(t, 2.0)),
            "mb",
            0.0,
            "CommonRoad mb gentle brake",
        ),
        (shown("commonroad", ZERO, lambda t: -min(t, 2.0)), "std", 0.0, "CommonRoad std straight"),
        (shown("lfdm", sine(0.4), lambda t: 0.2 + 0.03 * sin(t)), "lf18", 4.0, "LFDM steer"),
        (shown("lfdm", TURN, held(-0.3, 3.0, 99.0, 0.2)), "lf18", 4.0, "LFDM combined slip"),
        (shown("lfdm", TURN, held(0.2, 0.0, 5.0)), "lf18", 4.0, "LFDM combined slip"),
        (shown("lfdm", ZERO, held(-0.3, 3.0)), "lf18", 0.0, "LFDM straight"),
        (
            shown("lfdm", lambda t: 0.01 * t, held(0.3, 0.0, 9.5)),
            "lf18",
            6.6,
            "LFDM ramp, to the limit",
        ),
        (shown("chrono", TURN), "chrono", 6.0, "Chrono steer"),
        (shown("chrono", sine(0.4), held(0.2, 0.0, 5.0)), "chrono", 6.0, "Chrono lanes"),
        (shown("chrono", lambda t: 0.1 if t < 4.0 else -0.1), "chrono", 6.0, "Chrono mixed"),
        (shown("f1tenth_gym", TURN), "st", 3.0, "gym steer"),
        (shown("slipx", ZERO, held(4.0, 1.0, 2.0)), "l2", 0.0, "slipx l2 straight"),
        (shown("slipx", sine(5.5)), "l2", 3.0, "slipx l2 fast steer"),
        (shown("autodrive_nigel", TURN), "", 0.0, "report only"),
    ],
)
def test_a_run_gets_its_target_by_its_signals(
    run: ReferenceRun, model: str, ay: float, expected: str
) -> None:
    """A throttle that is let go in a turn is one of them, whatever its file is called."""
    assert target_of(run.source.family, "hmmwv", model, traits_of(run), ay).name == expected


def test_a_force_on_the_body_reaches_what_is_commanded_beyond_the_current_of_the_motor() -> None:
    """slipx l1 brakes with 6 m/s2 where the current of the car's motor, which l2 has, ends at
    2.3."""
    reached = {}
    for model in ("l1", "l2"):
        run = shown("slipx", ZERO, held(-6.0), speed_mps=8.0)
        run = msgspec.structs.replace(run, source=msgspec.structs.replace(run.source, model=model))
        run = msgspec.structs.replace(
            run, **{name: getattr(run, name)[:26] for name in run.__struct_fields__[1:-2]}
        )
        ours = drive(run, load_twin("slipx_refcar").parameters, double_track)
        reached[model] = float(ours.vx_mps[5] - ours.vx_mps[-1]) / 0.4
    assert reached["l1"] == pytest.approx(6.0, abs=0.4)
    assert reached["l2"] == pytest.approx(0.4 / 0.05 / 3.5, abs=0.5)


def test_every_kind_that_turns_is_judged_by_its_yaw_rate():
    turning = [rule.target for rule in RULES if not re.search("straight|gentle", rule.target.name)]
    assert len(turning) > 15
    assert all(
        {"position", "speed", "yaw rate", "lateral speed"} <= set(target.limits)
        for target in turning
    )


def test_what_a_folder_lacks_or_cannot_be_used_is_reported_with_the_cure(tmp_path):
    write_run(tmp_path / "commonroad")
    write_run(tmp_path / "commonroad", "notes.csv")
    write_run(tmp_path / "elsewhere", "readings.csv")
    found = find(tmp_path)
    assert [source.manoeuvre for source in found.sources] == ["circle_v10"]
    assert any(
        "notes.csv" in problem and "rename or remove it" in problem for problem in found.problems
    )
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
    [
        ({"yaw": lambda t: float("nan")}, "column 'yaw' is not a finite"),
        ({"t": lambda t: 1.0}, "time does not increase"),
    ],
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
    assert compared(
        tmp_path, Puppet(), limit, delta=lambda t: 0.1, vy=lambda t: -6.0
    ).judgement.passed
    neutral = 10 * tan(0.0) + 0.2 * WHEELBASE_M / 10.0
    assert compared(tmp_path, Puppet(), limit, delta=lambda t: neutral).judgement.passed


def test_verdict_and_order(tmp_path):
    near = compared(tmp_path / "a", Puppet(wrong=0.01))
    far = compared(tmp_path / "b", Puppet(wrong=0.5))
    unjudged = compared(tmp_path / "c", Puppet(wrong=5.0), REPORT_ONLY)
    ordered = worst_first([unjudged, near, far])
    assert ordered == [far, near, unjudged]
    good = Validation(
        str(tmp_path),
        [near, unjudged],
        [],
        ["something is missing"],
        [TheoryCheck("a", "b", "", "", True)],
        [],
        [],
    )
    assert good.passed
    assert (good.judged, good.headline()) == (
        1,
        "1 of 1 reference runs within their target, 1 of 1 checks against theory hold",
    )
    assert not Validation(
        str(tmp_path), [near], [], [], [TheoryCheck("a", "b", "", "", False)], [], []
    ).passed
    off = Finding("commonroad", "mb", "bmw_320i", "mass", 1.0, 9.0, False)
    assert not Validation(str(tmp_path), [near], [], [], [], [], [off]).passed
    assert not Validation(str(tmp_path), ordered, [], [], [], [], []).passed
    assert not Validation(str(tmp_path), [], [], [], [], [], []).passed
    alone = Validation(str(tmp_path), [], [], [], [TheoryCheck("a", "b", "", "", True)], [], [])
    assert alone.headline() == "no reference run judged, 1 of 1 checks against theory hold"


@pytest.mark.parametrize(
    "name", ["static loads", "mirror symmetry", "rest on a slope", "yaw gain", "energy"]
)
def test_theory_holds_for_a_small_car(name):
    found, wanted, holds = CHECKS[name](load_twin("f1tenth").parameters)
    assert holds, (found, wanted)


def test_theory_notices_wheels_that_do_not_roll_where_they_point(monkeypatch):
    """The linear single track of another vehicle is not this one's."""
    p = load_twin("f1tenth").parameters
    monkeypatch.setattr(theory, "linear_gradient", lambda p, c: (1.1 * p.body.wheelbase_m, 0.0))
    assert not theory.yaw_gain(p)[2]


def test_the_command_says_what_is_wrong_and_writes_its_page(tmp_path, capsys):
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


SLIPX_COLUMNS = (
    "x",
    "y",
    "yaw",
    "vx",
    "vy",
    "yaw_rate",
    *(f"{name}_{wheel}" for name in ("w", "fz") for wheel in WHEELS),
)
STEERING: dict[str, tuple[float, Callable[[float], float]]] = {
    "step_steer_v4": (4.0, lambda t: 0.08 * min(max(5.0 * t - 2.0, 0.0), 1.0)),
    "step_steer_v6": (6.0, lambda t: -0.04 * min(max(5.0 * t - 2.0, 0.0), 1.0)),
    "sine_1hz_v6": (6.0, lambda t: 0.05 * sin(6.28 * max(t - 0.5, 0.0))),
}


def parameter(name: str) -> TwinParameter:
    return next(parameter for parameter in PARAMETERS if parameter.name == name)


def write_own(
    path: Path,
    p: TwinParameters,
    speed: float,
    steering: Any,
    mps2: Any,
    duration_s: int = 3,
    row_ms: int = 10,
) -> None:
    """Write a reference run that our own model drove, with six digits."""
    path.parent.mkdir(exist_ok=True)
    model = double_track(p, 1e-3)
    model.reset(0.0, 0.0, 0.0, speed)
    t = 1e-3 * np.arange(1000 * duration_s + 1)
    acceleration = np.array([mps2(time) for time in t])
    table = model.run(
        np.stack(([steering(time + 5e-4) for time in t], *accelerated(p, acceleration)), axis=1)
    )
    columns: dict[str, Any] = {
        "t": t,
        "delta": [steering(time) for time in t],
        "accel_cmd": acceleration,
    }
    columns |= {column: table[column] for column in SLIPX_COLUMNS}
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(
            [f"{values[k]:.6g}" for values in columns.values()] for k in range(0, len(t), row_ms)
        )


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference runs on tyres 1 % softer than ours."""
    folder = tmp_path_factory.mktemp("made_up")
    softer = parameter("lateral slope").change(load_twin("slipx_refcar").parameters, 0.99)
    for name, (speed, steering) in STEERING.items():
        write_own(
            folder / "slipx" / f"refcar__l2__{name}.csv", softer, speed, steering, lambda t: 0.0
        )
    return folder


@pytest.mark.parametrize(
    ("name", "run", "speed", "steering", "mps2"),
    [
        (
            "relaxation",
            "slipx/refcar__l2__sine_5p5hz_0.csv",
            4.0,
            lambda t: 0.04 * sin(34.6 * t),
            lambda t: 0.0,
        ),
        (
            "longitudinal slope",
            "commonroad/ford_escort__mb__accel_gentle_0.csv",
            6.0,
            lambda t: 0.0,
            lambda t: min(t, 2.0),
        ),
        (
            "longitudinal slope",
            "commonroad/ford_escort__mb__brake_gentle_0.csv",
            24.0,
            lambda t: 0.0,
            lambda t: -min(2.5 * t, 5.0),
        ),
    ],
)
def test_a_run_of_its_kind_shows_the_parameter_10_percent_off(
    tmp_path, monkeypatch, name, run, speed, steering, mps2
):
    twin = "slipx_refcar" if name == "relaxation" else "ford_escort"
    write_own(
        tmp_path / run, load_twin(twin).parameters, speed, steering, mps2, duration_s=5, row_ms=2
    )
    (source,) = find(tmp_path).sources
    monkeypatch.setattr(mutants, "PARAMETERS", (parameter(name),))
    mutated = mutants.mutate(source)
    assert not isinstance(mutated, str)
    assert mutated.mutants["none", 0].share < 0.3
    assert min(mutated.mutants[name, change].share for change in (-10, 10)) > 1.0


def test_a_vehicle_whose_tyres_differ_by_1_percent_passes(made_up):
    validation = run_all(Selection(str(made_up), theory=False), jobs=1, progress=lambda text: None)
    assert validation.passed, validation.headline()
    assert (validation.judged, validation.problems[0].partition(":")[0]) == (3, "lfdm")
    estimate = next(
        finding for finding in validation.findings if finding.parameter == "lateral slope"
    )
    assert estimate.passed
    assert estimate.deviation_pct == pytest.approx(1.0, abs=0.3)


def test_a_wrong_parameter_is_named_by_all_runs_together(made_up, monkeypatch):
    """The vehicle file is wrong by 8 %, and the reference drove with 1 % less."""
    change = parameter("lateral slope").change
    wrong = msgspec.structs.replace(
        twin := load_twin("slipx_refcar"), parameters=change(twin.parameters, 1.08)
    )
    monkeypatch.setattr(runner, "load_twin", lambda name: wrong)
    validation = run_all(Selection(str(made_up), theory=False), jobs=1, progress=lambda text: None)
    assert not validation.passed
    assert "lateral slope" in [finding.parameter for finding in validation.deviating]
    estimate = next(
        finding for finding in validation.findings if finding.parameter == "lateral slope"
    )
    assert estimate.deviation_pct == pytest.approx(9.0, abs=1.5)


def test_the_detection_table_counts_runs_that_show_a_wrong_parameter(
    made_up, tmp_path, monkeypatch, capsys
):
    page = tmp_path / "mutants.html"
    assert main(["twin", "validate", str(made_up), "--mutants", "--json", "-o", str(page)]) == 0
    data = msgspec.json.decode(capsys.readouterr().out)
    found = {(row["parameter"], row["change_pct"]): row for row in data["detections"]}
    assert (found["none", 0]["failed"], found["none", 0]["together"]) == (0, [])
    for name in ("mass", "CG position", "lateral slope"):
        for change in (-10, 10):
            assert found[name, change]["failed"], name
            assert name in found[name, change]["together"]
    for name in ("drive torque", "brake torque", "steering ratio"):
        assert found[name, 10] | {"share": 0.0} == found[name, -10] | {
            "share": 0.0,
            "change_pct": 10,
        }
        assert not found[name, 10]["failed"]
    text = page.read_text()
    assert "unchanged" in text
    assert "<script" not in text
    assert main(["twin", "validate", str(made_up), "--mutants", "--plot-dir", str(tmp_path)]) == 2
    assert "leave out --plot-dir" in capsys.readouterr().err
    monkeypatch.setattr(mutants, "PARAMETERS", (parameter("steering ratio"),))
    assert main(["twin", "validate", str(made_up), "--mutants"]) == 0
    assert "none; needs a run that commands the steering" in " ".join(
        capsys.readouterr().out.split()
    )


def test_two_odd_runs_do_not_name_a_parameter():
    """Two of five runs would be explained by 40 % more mass."""
    runs = [
        ("mb", [ParameterEffect("mass", 4.0, 4.0 * deviation)], 4)
        for deviation in (4.0, 0.05, -0.05, 0.1, 4.0)
    ]
    judged = [
        (("commonroad", model, "bmw_320i"), effects, figures) for model, effects, figures in runs
    ]
    mass = next(finding for finding in judge(judged) if finding.parameter == "mass")
    assert (mass.passed, mass.deviation_pct) == (True, pytest.approx(1.0))
    few = next(finding for finding in judge(judged[:1] + judged[4:]) if finding.parameter == "mass")
    assert few.passed is None


MUTANTS = [
    ("mass", "commonroad/bmw_320i__mb__step_steer_v08"),
    ("CG position", "lfdm/hmmwv__lf18__left_10mph"),
    ("yaw inertia", "commonroad/ford_escort__mb__sine_1p0hz_v20"),
    ("lateral slope", "slipx/refcar__l2__step_steer_v6"),
    ("lateral peak", "commonroad/bmw_320i__std__ramp_steer_v18"),
    ("longitudinal peak", "lfdm/hmmwv__lf18__brake_in_turn_12mps_b03"),
    ("roll stiffness", "lfdm/hmmwv__lf18__dlc_30mph"),
]


@pytest.mark.parametrize(("name", "run"), MUTANTS)
def test_published_runs_show_a_parameter_that_is_10_percent_off(
    shared_data, monkeypatch, name, run
):
    family, _, stem = run.partition("/")
    if not (path := shared_data / "dynamics_reference" / family / f"{stem}.csv").is_file():
        pytest.skip("these reference runs are not on this machine")
    source = next(
        source for source in find(path.parent).sources if source.path == str(path.resolve())
    )
    monkeypatch.setattr(mutants, "PARAMETERS", (parameter(name),))
    mutated = mutants.mutate(source)
    assert not isinstance(mutated, str)
    assert mutated.mutants["none", 0].share <= 1.0
    assert max(mutated.mutants[name, change].share for change in (-10, 10)) > 1.0
