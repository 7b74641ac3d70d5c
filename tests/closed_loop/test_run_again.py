"""A log gives the files of its run back, and the same run again in closed loop."""

import shutil
from pathlib import Path

import msgspec
import pytest

from tests import log_bench
from vehicled.cli import main
from vehicled.log.errors import LogError
from vehicled.log.offline import LogFile
from vehicled.log.reader import LogReader
from vehicled.log.schema import Attachment, FileRow, PluginRow, RunHeader
from vehicled.offline.replay.extraction import extract
from vehicled.paths.catalog import load_course
from vehicled.profile import load

LAW = """
from vehicled.control.pure_pursuit import PurePursuit

class Law(PurePursuit):
    pass
"""
SCENE = "[[circle]]\nat = [30.0, 30.0]\nradius_m = 1.0\n"
MAP = 'map = "maps/yard.yaml"\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A short drive with a scene, a failure, an override, a plugin and two laps: its folder, log
    and digest."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "rooms").mkdir()
        (folder / "rooms" / "room.toml").write_text(SCENE)
        (folder / "law.py").write_text(LAW)
        shutil.copy(load("art").path, folder / "mine.toml")
        options = [
            "--profile",
            "mine.toml",
            "--course",
            "circle_r2_ccw",
            "--laps",
            "2",
            "--seed",
            "5",
            "--duration",
            "8",
        ]
        options += [
            "--controller",
            "./law.py:Law",
            "--set",
            "sim.scene=rooms/room.toml",
            "--fail",
            "gnss:off@4+1",
            "--log",
            "logs",
        ]
        main(["sim", *options, "--quiet"])
        (log,) = folder.glob("logs/*.mcap")
    with LogReader(str(log)) as reader:
        return folder, str(log), reader.end["digest"]


def test_the_same_is_driven_again_from_the_log_alone(
    run: tuple[Path, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, log, digest = run
    monkeypatch.chdir(tmp_path)
    # The scene and the profile are in the log; the plugin is not run from it without a word.
    hidden = folder / "hidden"
    hidden.mkdir()
    for name in ("rooms", "mine.toml"):
        (folder / name).rename(hidden / name)
    try:
        main(["sim", "--like", log, "--no-log", "--quiet"])
    finally:
        for name in ("rooms", "mine.toml"):
            (hidden / name).rename(folder / name)
    shown = capsys.readouterr()
    assert digest in shown.out
    assert "seed 5" in shown.err
    assert "fail ['gnss:off@4+1']" in shown.err
    assert "digest equal to that of the log" in shown.err


def test_code_of_a_log_is_run_only_if_the_user_says_so(
    run: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, log, digest = run
    (folder / "law.py").rename(folder / "kept.py")
    try:
        assert main(["sim", "--like", log, "--no-log", "--quiet"]) == 2
        assert "--code log" in capsys.readouterr().err
        main(["sim", "--like", log, "--no-log", "--quiet", "--code", "log"])
        assert digest in capsys.readouterr().out
    finally:
        (folder / "kept.py").rename(folder / "law.py")
    assert main(["sim", "--code", "log"]) == 2
    assert "--code needs --like" in capsys.readouterr().err


def test_options_change_the_run_and_are_said(
    run: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, log, digest = run
    changes = ["--seed", "6", "--duration", "5", "--set", "limits.max_speed_mps=0.5"]
    main(["sim", "--like", log, "--no-log", "--quiet", *changes])
    shown = capsys.readouterr()
    assert "--seed 6 in place of 5" in shown.err
    assert "--duration 5.0 in place of 8.0" in shown.err
    assert "--set limits.max_speed_mps=0.5" in shown.err
    assert (
        "not comparable with that of the log: --seed, --duration, --set changed the run"
        in shown.err
    )
    assert digest not in shown.out
    assert main(["sim", "--like", log, "--laps", "3"]) == 2
    assert "--laps cannot be combined" in capsys.readouterr().err


def test_the_files_of_a_run_come_back(
    run: tuple[Path, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, log, _ = run
    out = tmp_path / "back"
    assert main(["log", "extract", log, "-o", str(out)]) == 0
    assert f"vehicled sim --profile {out}/profile.toml" in capsys.readouterr().out
    assert (out / "files" / "0" / "room.toml").read_text() == SCENE
    assert (out / "plugins" / "0" / "law.py").read_text() == LAW
    # Moved elsewhere, the profile still finds what it names.
    moved = tmp_path / "moved"
    out.rename(moved)
    monkeypatch.chdir(tmp_path)
    loaded = load(str(moved / "profile.toml"))
    assert loaded.profile.controller.name == f"{moved}/plugins/0/law.py:Law"
    assert loaded.profile.sim.scene == "files/0/room.toml"
    course = load_course(loaded.profile.course)
    assert course.length_m == pytest.approx(2 * load_course("circle_r2_ccw").length_m)
    assert main(["log", "extract", log, "-o", str(moved)]) == 2
    assert "exists already and is not overwritten" in capsys.readouterr().err


def test_an_imported_log_gives_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_bench.write(
        tmp_path / "run.mcap", log_bench.drive(1, seconds=1), course='{"name": "imported"}'
    )
    assert main(["log", "extract", log, "-o", str(tmp_path / "out")]) == 0
    assert "no course: the log was imported" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["profile.toml"]


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.py",
        "a/../../evil.py",
        "C:evil.py",
        "a\\evil.py",
        "x\x1b[2J.py",
        "/etc/evil.py",
        "~/evil.py",
    ],
)
@pytest.mark.parametrize("where", ["plugin", "file"])
def test_a_name_of_a_strangers_log_leads_nowhere(name: str, where: str, tmp_path: Path) -> None:
    profile = (Path(load("art").path)).read_text()
    plugins: list[PluginRow] = []
    files: list[FileRow] = []
    if where == "plugin":
        profile = profile.replace(
            'controller = "pure_pursuit"', 'controller = "law.py:Law"'
        ).replace('name = "pure_pursuit"', 'name = "law.py:Law"')
        plugins = [PluginRow(kind="controller", reference="/x/law.py:Law", hashes={name: "0"})]
        attachment = f"plugins/0/{name}"
    else:
        files = [
            FileRow(key="sim.scene", name="room.toml", path="/x/room.toml", hashes={name: "0"})
        ]
        attachment = f"files/0/{name}"
    header: RunHeader = msgspec.structs.replace(log_bench.header(), plugins=plugins, files=files)
    items = [
        Attachment("profile.toml", "application/toml", profile.encode()),
        Attachment("course.json", "application/json", log_bench.COURSE.encode()),
        Attachment(attachment, "text/plain", b"evil"),
    ]
    path = tmp_path / "run.mcap"
    with LogFile(path, header, items) as log:
        log.finish({"reason": "done"})
    assert where == "file" or "law.py:Law" in profile
    out = tmp_path / "deep" / "er" / "out"
    if name.startswith(("/", "~")):
        # Behind the folder of its row it leads nowhere else.
        extract(path, out)
        assert all(out in found.parents for found in tmp_path.rglob("*evil*"))
        return
    with pytest.raises(LogError, match="leads out of the folder"):
        extract(path, out)
    assert not list(tmp_path.rglob("*evil*"))
    assert not (tmp_path / "deep").exists()
