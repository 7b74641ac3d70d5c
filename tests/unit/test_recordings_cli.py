"""``vehicled bench recorded`` as a user meets it."""

import io
import json
from pathlib import Path

import pytest

from tests import recordings_bench as bench
from vehicled.cli import main
from vehicled.offline.recordings.loading import sources
from vehicled.profile import load_profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bench.outdoor(tmp_path / "data" / "outdoor" / "one.csv")
    bench.mocap(tmp_path / "data" / "indoor" / "two.csv")
    return tmp_path / "data"


def test_every_recording_is_run_and_every_kind_summed_up(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["bench", "recorded", str(folder), "--estimator", "ekf4", "--identifier", "none"]) == 0
    )
    out, err = capfd.readouterr()
    for title in ("rtk, ekf4", "plain, ekf4", "plain_start, ekf4", "mocap, ekf4"):
        assert title in out
    assert out.count("all 1") == 8, "errors and prediction of four kinds"
    assert "1/2 indoor/two (mocap)" in err
    assert "4 recordings in" in err


def test_json_holds_recordings_and_the_whole(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "bench",
                "recorded",
                str(folder),
                "--json",
                "--kind",
                "rtk",
                "--kind",
                "mocap",
                "--identifier",
                "none",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["kind"]) for row in found["recordings"]] == [
        ("indoor/two", "mocap"),
        ("outdoor/one", "rtk"),
    ]
    assert found["recordings"][1]["estimate"]["position_m"]["mean"] < 0.05
    assert len(found["recordings"][1]["bridges"]) == 1, "RTK withheld for 3.7 s from second 15 on"
    assert {row["kind"] for row in found["overall"]} == {"mocap", "rtk"}


def test_the_vehicle_of_a_csv_file_is_that_of_the_profile(folder: Path) -> None:
    vehicle = load_profile("f1tenth").vehicle
    (source,) = [each for each in sources(folder, vehicle) if each.name == "indoor/two"]
    assert source.load(None)[0].vehicle == vehicle
    (source,) = [each for each in sources(folder) if each.name == "indoor/two"]
    assert source.load(None)[0].vehicle == load_profile("art_published").vehicle


def test_parameters_reach_the_estimator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bench",
        "recorded",
        str(folder),
        "--json",
        "--only",
        "TWO",
        "--identifier",
        "none",
    ]
    errors = []
    for more in ([], ["--set", "estimator.gnss_sigma_floor_m=5"]):
        assert main([*arguments, *more]) == 0
        errors.append(
            json.loads(capsys.readouterr().out)["recordings"][0]["estimate"]["position_m"]["mean"]
        )
    assert errors[0] != errors[1]


@pytest.fixture(scope="module")
def fonts() -> None:
    """Matplotlib keeps the font files open that it once drew with: it draws before anyone counts
    descriptors."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    figure.suptitle("a, (1)")
    figure.savefig(io.BytesIO())


def test_pictures_of_one_and_of_many(
    fonts: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, many = folder / "one.png", folder / "many.png"
    arguments = ["bench", "recorded", str(folder), "--identifier", "none"]
    assert main([*arguments, "--only", "two", "--plot", str(one)]) == 0
    assert main([*arguments, "--outage", "0", "--plot", str(many)]) == 0
    for file in (one, many):
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 10_000
    assert main([*arguments, "--only", "two", "--plot", str(folder / "nowhere" / "x.png")]) == 2
    assert "cannot be written; choose a file in an existing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/nowhere"], "no such file or folder"),
        (["{empty}"], "holds no recording"),
        (["{data}", "--kind", "moon"], "unknown kind 'moon': there are mocap"),
        (
            ["{data}", "--kind", "path"],
            "no recording of kind path; there are: bare_plain, bare_rtk, mocap, plain",
        ),
        (["{data}", "--kind", "bare_rtk"], "is of kind bare_rtk"),
        (
            ["{data}", "--only", "three"],
            "no recording has 'three' in its name; there are 2, such as indoor/two",
        ),
        (["{data}", "--estimator", "ekf5"], 'did you mean "ekf4"'),
        (["{data}", "--identifier", "nobody"], 'unknown identifier "nobody"'),
        (
            ["{data}", "--set", "estimator.wings=2", "--identifier", "none"],
            "estimator ekf4 has no parameter wings",
        ),
        (["{data}", "--profile", "atr"], 'did you mean "art"'),
    ],
)
def test_mistakes_are_named_and_cost_no_traceback(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"data": str(folder), "empty": str(tmp_path / "empty")}
    status = main(["bench", "recorded", *(argument.format(**places) for argument in arguments)])
    out, err = capsys.readouterr()
    assert status == 2
    assert words in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--outage", "-1"], ["--rate", "fast"]])
def test_numbers_out_of_range_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "recorded", str(folder), *arguments])
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err
