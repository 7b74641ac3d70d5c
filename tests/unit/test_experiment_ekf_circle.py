"""The circle experiment: its noise, its truth, its tables, its command."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.offline.replications.experiments import ekf_circle
from vehicled.offline.replications.experiments.gps_noise import FORMS, GpsNoise
from vehicled.profile import load_profile
from vehicled.run.command_line import CommandParser


class Paper:
    """A console that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = []

    def progress(self, text: str) -> None:
        """Dropped."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Kept."""
        self.tables.append((title, columns, rows))

    def text(self, text: str) -> None:
        """Kept."""
        self.shown.append(text)


@pytest.fixture(scope="module")
def fonts() -> None:
    """Matplotlib keeps the font files open that it once drew with: it draws before anyone counts
    descriptors."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().set_title("a")
    figure.savefig(io.BytesIO())


def _run(*options: str) -> Paper:
    parser = CommandParser()
    ekf_circle.declare_experiment_ekf_circle(parser)
    paper = Paper()
    assert ekf_circle.run(parser.parse_args(options), paper) == 0
    return paper


@pytest.mark.parametrize("form", sorted(FORMS))
def test_noise_advances_with_time_and_not_with_the_reader(form: str) -> None:
    often, seldom = (GpsNoise(FORMS[form], np.random.default_rng(7)) for _ in range(2))
    for k in range(1, 201):
        last = often.at(k * 0.1)
    assert seldom.at(20.0).tolist() == last.tolist()
    assert GpsNoise(FORMS[form], np.random.default_rng(7)).at(0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("form", "seconds", "low", "high"),
    [("inner", 60, 0.2, 0.4), ("simulator", 120, 0.4, 0.9), ("judge", 30, 0.08, 0.16)],
)
def test_noise_is_as_large_as_what_ran(form: str, seconds: int, low: float, high: float) -> None:
    means = []
    for seed in range(12):
        noise = GpsNoise(FORMS[form], np.random.default_rng(seed))
        means.append(np.mean([np.hypot(*noise.at(t * 0.5)) for t in range(2 * seconds)]))
    assert low < np.mean(means) < high


def test_a_test_is_the_same_whatever_the_estimators() -> None:
    vehicle = load_profile("art_published").vehicle
    one = ekf_circle.drive(vehicle, ["ekf4"], "simulator", 10.0, (1, 3))
    two = ekf_circle.drive(vehicle, ["ekf4_published", "ekf4"], "simulator", 10.0, (1, 3))
    other = ekf_circle.drive(vehicle, [], "simulator", 10.0, (1, 4))
    np.testing.assert_array_equal(one.measured_m, two.measured_m)
    np.testing.assert_array_equal(one.estimates_m["ekf4"], two.estimates_m["ekf4"])
    assert not np.array_equal(one.truth_m, other.truth_m)


def test_the_truth_stands_and_then_drives_a_circle_at_the_believed_speed() -> None:
    """A drive without errors has radius l/tan(wheel) and the speed of its throttle."""
    vehicle = load_profile("art_published").vehicle
    points = np.array([(x, y) for x, y, _, _ in ekf_circle._truth(vehicle, 40.0, 1.0, 1.0)])
    step_s = ekf_circle.STEP_NS * 1e-9
    assert np.abs(points[: int(1.0 / step_s)]).max() == 0.0
    late = points[int(20.0 / step_s) :]
    assert np.hypot(*np.diff(late, axis=0).T).mean() / step_s == pytest.approx(
        ekf_circle.SPEED_MPS, rel=0.01
    )
    wheel = vehicle.steering.wheel_angle_rad(ekf_circle.STEERING)
    centre = 0.5 * (late.max(axis=0) + late.min(axis=0))
    assert np.hypot(*(late - centre).T) == pytest.approx(
        vehicle.wheelbase_m / np.tan(wheel), rel=0.01
    )


def test_tables_stand_side_by_side() -> None:
    paper = _run(
        "--tests", "2", "--duration", "20", "--estimator", "ekf4_published", "--estimator", "ekf4"
    )
    assert [title.split()[0] for title, _, _ in paper.tables] == ["mean", "max"]
    _, columns, rows = paper.tables[0]
    assert list(columns) == ["test", "EKF", "measured", "", "measured", "ekf4_published", "ekf4"]
    assert rows[0][:3] == ["1", "0.819", "0.791"]
    assert rows[-1][:3] == ["better than measured", "8 of 10", ""]
    assert all(len(row) == len(columns) for row in rows)


def test_json_holds_both_tables(fonts: None, tmp_path: Path) -> None:
    drawing = tmp_path / "circle.png"
    paper = _run(
        "--tests", "1", "--duration", "10", "--estimator", "ekf4", "--json", "--plot", str(drawing)
    )
    found = json.loads(paper.shown[0])
    assert set(found["ours"][0]["mean_m"]) == {"measurement", "ekf4"}
    assert 0.0 < found["ours"][0]["mean_m"]["ekf4"] <= found["ours"][0]["max_m"]["ekf4"]
    assert found["published"]["max_error_ekf_m"][1] == 3.553
    assert drawing.stat().st_size > 10_000


def test_published_numbers_are_those_of_the_table(shared_data: Path) -> None:
    table = np.genfromtxt(
        shared_data / "published_tables" / "art_ekf_circle.csv", delimiter=",", names=True
    )
    for name, values in ekf_circle.PUBLISHED.items():
        assert values == pytest.approx(table[name])


@pytest.mark.parametrize(
    "options",
    [
        ("--tests", "0"),
        ("--duration", "1"),
        ("--seed", "-1"),
        ("--plot", "x.txt"),
        ("--plot", "/none/x.png"),
        ("--estimator", "ekf4+drive"),
        ("--estimator", "ekf4_paper+0m"),
    ],
)
def test_arguments_that_cannot_be_used_say_so(options: tuple[str, str]) -> None:
    with pytest.raises(SetupError, match=options[0]):
        _run(*options)


def test_the_command_finds_its_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["experiment", "--help"])
    assert ended.value.code == 0
    assert "ekf-circle" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["experiment", "circles"])
    assert ended.value.code == 2
    assert (
        main(["experiment", "ekf-circle", "--tests", "1", "--duration", "5", "--estimator", "ekf4"])
        == 0
    )
    assert "published" in capsys.readouterr().out
    assert main(["experiment", "ekf-circle", "--estimator", "none"]) == 2


@pytest.mark.parametrize("form", ekf_circle.WALK_M)
def test_the_walk_that_planar_is_given_is_that_of_the_noise(form: str) -> None:
    walks = [GpsNoise(FORMS[form], np.random.default_rng(seed)) for seed in range(8)]
    errors = np.array([[walk.at(0.1 * k) for k in range(2000)] for walk in walks])
    largest = max(
        float(np.sqrt(((errors[:, k:] - errors[:, :-k]) ** 2).mean() / (0.1 * k)))
        for k in (1, 10, 20, 50, 100, 200, 500)
    )
    assert ekf_circle.WALK_M[form] == pytest.approx(largest, rel=0.3)


# Minutes of noise, many times; the numbers change with the forms of the noise alone.
@pytest.mark.soak
@pytest.mark.parametrize("form", ekf_circle.WHITE_SIGMA_M)
def test_the_white_noise_of_the_paper_s_filter_is_worth_the_walk(form: str) -> None:
    means = []
    for seed in range(30):
        noise = GpsNoise(FORMS[form], np.random.default_rng(seed))
        errors = np.array([noise.at(float(t)) for t in range(1500)])
        means += [errors[k : k + 300].mean(axis=0) for k in range(300, 1500, 300)]
    fixes = 300 * 1e9 / (ekf_circle.FIX_EVERY * ekf_circle.STEP_NS)
    assert float(np.sqrt(np.mean(np.square(means)) * fixes)) == pytest.approx(
        ekf_circle.WHITE_SIGMA_M[form], rel=0.25
    )


def test_the_configuration_of_a_published_filter_is_in_its_name() -> None:
    vehicle = load_profile("art_published").vehicle
    plain: Any = ekf_circle.make_estimator("ekf4_paper", vehicle, "simulator")
    estimator: Any = ekf_circle.make_estimator("ekf4_paper+drive+30m", vehicle, "simulator")
    assert plain._params.stall_torque_nm == 0.3
    assert estimator._params.stall_torque_nm == vehicle.drive.stall_torque_nm
    assert estimator._params.measured_position_sigma_m == 30.0
    estimator = ekf_circle.make_estimator("ekf4_paper+drive+noise", vehicle, "simulator")
    assert estimator._params.measured_position_sigma_m == ekf_circle.WHITE_SIGMA_M["simulator"]
