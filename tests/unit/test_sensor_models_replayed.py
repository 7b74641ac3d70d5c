"""The error of a recorded receiver in simulation: written by the fit, read by the twin, and bad
files."""

from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from sim_backend.plant.interface import Motion
from sim_backend.scene.errors import SceneError
from sim_backend.sensors.gnss import Gnss
from tests import recordings_bench as bench
from vehicled.cli import main
from vehicled.core.messages import GnssFix
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import GnssModel, ReplayedError

STILL = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
TEXT = "run,t_s,east_m,north_m\na,0,1,2\na,1,2,4\na,3,0,0\nb,0,5,5\nb,1,5,5\n"


def places(text: str, folder: Path, seed: int, times_s: list[float], run: str = "") -> np.ndarray:
    """Return east and north (n, 2) of a standing receiver."""
    file = folder / "errors.csv"
    file.write_text(text)
    model = GnssModel(
        model="replayed",
        rate_hz=1.0,
        latency_jitter_ms=0.0,
        replayed=ReplayedError(file=str(file), run=run),
    )
    sensor, found = Gnss(model, (0.0, 0.0, 0.0), LOT_17, seed, "gnss", 0, 0), []
    for t_s in times_s:
        _, fix = sensor.sample(round(t_s * 1e9), STILL)
        assert isinstance(fix, GnssFix)
        assert all(map(isfinite, fix.position_covariance_m2))
        found.append(LOT_17.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)[:2])
    return np.array(found)


def test_the_error_is_that_of_the_file(tmp_path: Path) -> None:
    """Between its times on a straight line, and after its end backwards."""
    found = places(TEXT, tmp_path, 0, [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 6.5])
    wanted = [(1, 2), (1.5, 3), (2, 4), (1, 2), (0, 0), (1, 2), (1, 2), (1.5, 3)]
    assert found == pytest.approx(np.array(wanted, dtype=float), abs=1e-3)


def test_the_seed_or_the_name_chooses_the_run(tmp_path: Path) -> None:
    assert places(TEXT, tmp_path, 1, [0.0])[0] == pytest.approx([5.0, 5.0], abs=1e-3)
    assert places(TEXT, tmp_path, 1, [0.0], "a")[0] == pytest.approx([1.0, 2.0], abs=1e-3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("run,t_s,east_m\na,0,1\n", "no column north_m"),
        ("run,t_s,east_m,north_m\na,0,one,2\n", "line 2 holds no numbers"),
        ("run,t_s,east_m,north_m\na,0,nan,2\n", "not finite"),
        ("run,t_s,east_m,north_m\na,1,1,2\na,1,1,2\n", "does not grow"),
        ("run,t_s,east_m,north_m\na,1,1,2\n", "no run of two lines"),
        ("", "no column run"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SceneError, match=reason):
        places(text, tmp_path, 0, [0.0])


def test_a_missing_file_or_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SceneError, match="holds no run 'c'; there are a, b"):
        places(TEXT, tmp_path, 0, [0.0], "c")
    base = ["sim", "--quiet", "--set", "sim.gnss.model=replayed", "--log", str(tmp_path)]
    assert main(base) == 2
    assert "--errors FILE" in capsys.readouterr().err
    assert main([*base, "--set", f"sim.gnss.replayed.file={tmp_path}/none.csv"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_errors_that_the_fit_writes_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outdoor(tmp_path / "run.csv")
    file = tmp_path / "errors.csv"
    assert (
        main(
            ["sensors", "fit", str(tmp_path / "run.csv"), "--sensor", "gnss", "--errors", str(file)]
        )
        == 0
    )
    assert "sim.gnss.model=replayed" in capsys.readouterr().out
    rows = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=(1, 2, 3))
    found = places(file.read_text(), tmp_path, 0, rows[::40, 0].tolist())
    assert found == pytest.approx(rows[::40, 1:], abs=2e-3)
