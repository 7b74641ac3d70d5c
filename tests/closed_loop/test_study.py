"""Studies through the command line and the Python interface: driven, killed, resumed, on a cluster,
refused."""

import csv
import json
import os
import resource
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vehicled as v
from tests.busy_computer import DEADLINE_S
from tests.closed_loop import conftest
from vehicled.offline.studies.errors import StudyError

pytestmark = pytest.mark.xdist_group("study")  # one study is driven once, and most tests look at it

VEHICLED = [sys.executable, "-m", "vehicled"]
LINE = "straight_run:length_m=1,run_up_m=0.5,run_out_m=0.5,speed_mps=2"
STUDY = f"""
description = "Short drives."
profile = "art_published"
duration_s = 4
metrics = ["estimate_position_mean_m", "./own.py:twice", "./own.py:broken"]
keep_logs = "failed"
[set]
"tasks.control.deadline_ms" = "= 1000 / rate"
[factors]
course = ["{LINE}", "circle_r5_ccw"]
rate = {{ values = [100], keys = ["tasks.control.rate_hz"] }}
seed = [1, 2]
"""
OWN = """
def twice(drive):
    return {"error": 2 * drive.result.estimate_position_m.mean, "points": len(drive.trace)}

def broken(drive):
    return 1 / (drive.levels["seed"] - 2)
"""


def command(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run ``vehicled study`` in this process; return exit status and both outputs."""
    return conftest.command("study", *words, folder=folder)


def records(folder: Path) -> dict[str, Any]:
    with sqlite3.connect(folder / "study.sqlite", timeout=DEADLINE_S) as table:
        return {key: json.loads(row) for key, row in table.execute("SELECT key, row FROM record")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "short.toml").write_text(STUDY)
    (folder / "own.py").write_text(OWN)
    return folder


@pytest.fixture(scope="module")
def driven(folder: Path) -> tuple[int, str, str]:
    return command(folder, "short.toml")


def rows(folder: Path) -> list[dict[str, Any]]:
    return sorted(records(folder / "study_short").values(), key=lambda row: row["number"])


def test_all_runs_are_driven_and_a_metric_that_raises_is_named(
    folder: Path, driven: tuple[int, str, str]
) -> None:
    status, out, said = driven
    assert status == 1
    assert "4 runs: " in out
    assert "metric broken: ZeroDivisionError: division by zero (own.py:6 in broken)" in said
    found = rows(folder)
    assert [row["levels"]["seed"] for row in found] == [1, 2, 1, 2]
    for row in found:
        assert row["metrics"]["twice.error"] == pytest.approx(
            2 * row["metrics"]["estimate_position_mean_m"]
        )
        assert row["metrics"]["twice.points"] > 10
        assert (row["metrics"]["broken"] is None) == (row["levels"]["seed"] == 2)


def test_the_command_of_a_run_repeats_it_in_two_processes(
    folder: Path, driven: tuple[int, str, str]
) -> None:
    row = rows(folder)[2]
    words = [*VEHICLED, *shlex.split(row["command"])[1:], "--json", "--no-log", "--quiet"]
    again = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert json.loads(again.stdout)["digest"] == row["digest"]


def test_the_logs_of_failed_runs_are_kept(folder: Path, driven: tuple[int, str, str]) -> None:
    failed = [row for row in rows(folder) if row["outcome"] == "failed"]
    assert failed
    for row in failed:
        assert v.open_log(row["log"]).end["digest"] == row["digest"]
    assert not any(row["log"] for row in rows(folder) if row["outcome"] == "finished")


def test_the_page_has_effects_failures_and_their_commands(
    folder: Path, driven: tuple[int, str, str]
) -> None:
    page = (folder / "study_short" / "report.html").read_text()
    assert "change to the first level, paired" in page
    assert "vehicled sim --profile art_published --seed 1 --course circle_r5_ccw" in page
    assert 'href="logs/' in page
    assert "metric broken" in page


def test_the_table_is_flat_for_other_programs(folder: Path, driven: tuple[int, str, str]) -> None:
    assert command(folder, "export", "study_short", "-o", "runs.csv")[0] == 0
    head, first = (folder / "runs.csv").read_text().splitlines()[:2]
    assert head.startswith("key,number,course,rate,seed,outcome,why,cross_track_mean_m,")
    assert next(csv.reader([first]))[1:5] == ["1", LINE, "100", "1"]
    with sqlite3.connect(folder / "study_short" / "study.sqlite") as table:
        assert table.execute(
            'SELECT count(*) FROM runs WHERE rate = 100 AND "twice.error" > 0'
        ).fetchone() == (4,)


def test_a_second_call_drives_nothing_and_a_changed_study_is_refused(
    folder: Path, driven: tuple[int, str, str]
) -> None:
    before = records(folder / "study_short")
    assert command(folder, "short.toml")[1] == driven[1]
    assert records(folder / "study_short") == before
    (folder / "other.toml").write_text('name = "short"\n' + STUDY.replace("[100]", "[100, 50]"))
    status, _, said = command(folder, "other.toml")
    assert status == 2
    assert "-rate = { values = [100]" in said
    assert "+rate = { values = [100, 50]" in said
    assert "--extend" in said
    assert "problems" not in said  # the cure is no problem of its own
    assert "8 runs" in command(folder, "other.toml", "--extend", "--output", "study_short")[1]
    after = records(folder / "study_short")
    # Runs that still belong were not driven again.
    assert {key: row["cpu_s"] for key, row in before.items()} == {
        key: after[key]["cpu_s"] for key in before
    }
    assert len(after) == 8


def test_a_level_that_was_removed_leaves_the_report_and_a_changed_metric_is_noticed(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text("def one(drive):\n    return 1\n")
    text = "duration_s = 1\nmetrics = ['./own.py:one']\n[factors]\nseed = {}\n"
    (tmp_path / "few.toml").write_text(text.format([1, 2, 3]))
    assert len(v.study(tmp_path / "few.toml", output=tmp_path / "out").rows) == 3
    (tmp_path / "few.toml").write_text(text.format([3, 1]))
    fewer = v.study(tmp_path / "few.toml", output=tmp_path / "out", extend=True)
    assert [(row.number, row.levels["seed"]) for row in fewer.rows] == [(1, 3), (2, 1)]
    (tmp_path / "own.py").write_text("def one(drive):\n    return 2\n")
    with pytest.raises(StudyError, match=r"own\.py.* has changed"):
        v.study(tmp_path / "few.toml", output=tmp_path / "out")
    again = v.study(tmp_path / "few.toml", output=tmp_path / "out", extend=True)
    assert [row.metrics["one"] for row in again.rows] == [2, 2]


def test_killed_and_resumed(tmp_path: Path) -> None:
    study = "duration_s = 1\n[factors]\nseed = {from = 1, to = 6}\n"
    (tmp_path / "many.toml").write_text(study)
    process = subprocess.Popen(
        [*VEHICLED, "study", "many.toml", "--jobs", "1", "--quiet"], cwd=tmp_path
    )
    table = tmp_path / "study_many"
    until = time.monotonic() + DEADLINE_S
    while len(_records_if_any(table)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = records(table)
    assert 2 <= len(kept) < 6
    assert "6 runs" in command(tmp_path, "many.toml")[1]
    assert {key: records(table)[key] for key in kept} == kept


def _records_if_any(folder: Path) -> dict[str, Any]:
    try:
        return records(folder) if (folder / "study.sqlite").exists() else {}
    except sqlite3.OperationalError:
        return {}


def _mind_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text("duration_s = 2\n[factors]\nseed = {from = 1, to = 40}\n")
    words = [*VEHICLED, "study", "many.toml", "--jobs", "1"]
    # A test run in the background ignores Ctrl-C, and its children would, too.
    process = subprocess.Popen(
        words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=_mind_ctrl_c
    )
    until = time.monotonic() + DEADLINE_S
    while not _records_if_any(tmp_path / "study_many") and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert "the same command goes on" in process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 130
    assert records(tmp_path / "study_many")


def test_a_process_that_dies_costs_its_run_alone(tmp_path: Path) -> None:
    deadly = (
        "    if drive.levels['seed'] == 2:\n        os.kill(os.getpid(), signal.SIGKILL)\n    "
        "return 1\n"
    )
    (tmp_path / "own.py").write_text(f"import os, signal\ndef deadly(drive):\n{deadly}")
    (tmp_path / "deadly.toml").write_text(
        'duration_s = 1\nmetrics = ["./own.py:deadly"]\n[factors]\nseed = [1, 2, 3]\n'
    )
    status, _, said = command(tmp_path, "deadly.toml")
    assert status == 1
    assert "run 2 crashed: the process of the run died with signal SIGKILL (2 times)" in said
    assert sorted(row["outcome"] for row in records(tmp_path / "study_deadly").values()) == [
        "crashed",
        "failed",
        "failed",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("controller = 'mpc'\n[factors]\ncontroller.mpc.horizn = [10, 20]\n", "horizn"),
        ("[factors]\nprofile = ['art', 'nothing']\n", 'profile "nothing"'),
        ("[factors]\ncourse = ['nowhere']\n", "nowhere"),
        ("fail = 'gnss:melted@3'\n", "melted"),
        ("[factors]\nlimits.max_speed_mps = [-3]\n", "limits.max_speed_mps"),
    ],
)
def test_a_wrong_level_is_refused_before_the_first_run(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(StudyError, match=words):
        v.study(tmp_path / "wrong.toml", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_keeps_what_was_finished(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text("duration_s = 1\n[factors]\nseed = {from = 1, to = 30}\n")

    def small_files() -> None:
        # The nearest that a test without privileges comes to a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = subprocess.run(
        [*VEHICLED, "study", "many.toml", "--jobs", "1", "--quiet"], cwd=tmp_path,
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, preexec_fn=small_files,
    )  # fmt: skip
    assert done.returncode == 2
    assert "finished runs are kept" in done.stderr
    assert records(tmp_path / "study_many")


def test_an_optimisation_finds_the_same_again(tmp_path: Path) -> None:
    study = {
        "name": "search",
        "profile": "art_published",
        "course": "straight_run:length_m=1,run_up_m=1,run_out_m=1,speed_mps=3",
        "duration_s": 20,
        "factors": {"speed": {"low": 0.5, "high": 2.0, "keys": ["limits.max_speed_mps"]}},
        "optimise": {"metric": "driving_s", "trials": 4, "batch": 2},
    }
    first = v.study(study, output=tmp_path / "a")
    assert {row.outcome for row in first.rows} == {"finished"}
    speeds = [row.levels["speed"] for row in first.rows]
    best = min(first.rows, key=lambda row: row.metrics["driving_s"] or 1e9)
    assert best.levels["speed"] == max(speeds)
    cpu = {row.key: row.cpu_s for row in first.rows}
    study["optimise"]["trials"] = 5  # type: ignore[index]
    more = v.study(study, output=tmp_path / "a", extend=True)
    assert cpu.items() <= {row.key: row.cpu_s for row in more.rows}.items()
    study["optimise"]["metric"] = "manoeuvre_heading_mean_rad"  # type: ignore[index]
    study["course"] = "circle_r1_slow"
    study["duration_s"] = 60
    study["optimise"]["trials"] = 2  # type: ignore[index]
    with pytest.raises(StudyError, match="no finished drive has manoeuvre_heading_mean_rad"):
        v.study(study, output=tmp_path / "b")
    more.report(tmp_path / "page.html")
    assert "Best trial" in (tmp_path / "page.html").read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    file = tmp_path / "scheduler.json"
    words = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": tmp_path,
    }
    options = ["--scheduler-file", str(file)]
    processes = [
        subprocess.Popen(
            [*words, "scheduler", *options, "--port", "0", "--no-dashboard", "--host", "127.0.0.1"],
            **quiet,
        )
    ]
    worker = [
        *words,
        "worker",
        *options,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    ]
    processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    yield file, processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.soak  # make test: the same pool of workers on this computer, of which one dies, too
def test_a_cluster_of_which_a_worker_dies_drives_the_same_runs(
    tmp_path: Path, cluster: tuple[Path, list[subprocess.Popen[bytes]]]
) -> None:
    file, (_, doomed, _) = cluster
    study = {"name": "far", "duration_s": 1, "factors": {"seed": {"from": 1, "to": 4}}}

    def kill_one(state: Any) -> None:
        if state.driven == 1:
            doomed.kill()

    until = time.monotonic() + DEADLINE_S
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    far = v.study(study, output=tmp_path / "far", on=str(file), progress=kill_one)
    near = v.study(study, output=tmp_path / "near")
    assert doomed.poll() is not None
    assert [(row.levels, row.outcome, row.metrics, row.digest) for row in far.rows] == [
        (row.levels, row.outcome, row.metrics, row.digest) for row in near.rows
    ]
    assert all(row.digest for row in near.rows)
