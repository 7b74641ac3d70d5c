"""The command line as text: help that fits, errors in one line that name the cure, names that are
completed."""

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.busy_computer import DEADLINE_S
from tests.examples import examples
from vehicled.cli import main
from vehicled.cli.commands import build_parser
from vehicled.cli.completion import complete
from vehicled.cli.completion import script as completion_script
from vehicled.run.command_line import CommandParser
from vehicled.run.log_names import log_name

PARSER = build_parser()
PAGES = list(PARSER.walk())
VEHICLED = [sys.executable, "-m", "vehicled"]


def said(*argv: str) -> tuple[int, str]:
    """Exit status and what the parser said, without running a command."""
    out = io.StringIO()
    with redirect_stderr(out), redirect_stdout(out):
        try:
            PARSER.parse(argv)
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
    return -1, out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.prog)
def test_help_fits_a_terminal_and_names_what_must_be_given(
    page: CommandParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = page.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert f"usage: {page.prog}" in text
    for columns in ("1", "0", "17", "500"):
        monkeypatch.setenv("COLUMNS", columns)
        assert page.format_help()


EXAMPLES = [
    example.partition("   ")[0]
    for page in PAGES
    for example in page.examples
    if example.startswith("vehicled ") and "|" not in example
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_typed_as_they_stand(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.mcap", "b.mcap"):
        (tmp_path / name).touch()
    assert said(*example.split()[1:]) == (-1, "")


def test_every_command_stands_in_the_help_once() -> None:
    text = PARSER.format_help()
    for name in PARSER.subcommands:
        assert text.count(f"\n  {name} ") == 1, name


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sime"], "vehicled: no command 'sime'; did you mean 'sim'? See 'vehicled --help'"),
        (["log", "inf"], "vehicled log: no command 'inf'; did you mean 'info'?"),
        (
            ["sim", "--cource", "lot17"],
            "vehicled sim: no option '--cource'; did you mean '--course'?",
        ),
        (
            ["log", "info", "x", "--jsn"],
            "vehicled log info: no option '--jsn'; did you mean '--json'?",
        ),
        (["sim", "--clock", "wal"], "vehicled sim: --clock: no value 'wal'; did you mean 'wall'?"),
        (["sim", "twice"], "vehicled sim: unexpected argument: 'twice'"),
        (
            ["sim", "--log", "logs/lap.mcap"],
            "vehicled sim: --log: expected a folder, in which the log gets a name of its own",
        ),
        (
            ["run", "--log", "lap.mcap"],
            "vehicled run: --log: expected a folder, in which the log gets a name of its own",
        ),
        ([], "vehicled: missing: COMMAND; see 'vehicled --help'"),
        (["log", "info"], "vehicled log info: missing: RUN"),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name(argv: list[str], message: str) -> None:
    status, text = said(*argv)
    assert status == 2
    assert text.startswith(message)
    assert text.count("\n") == 1


WORDS = [option for page in PAGES for action in page._actions for option in action.option_strings]
NAMES = [name for page in PAGES for name in page.subcommands]


@given(
    st.lists(
        st.one_of(st.sampled_from(NAMES), st.sampled_from(WORDS), st.text(max_size=8)), max_size=5
    )
)
@examples(60)
def test_no_list_of_arguments_ends_in_a_traceback(argv: list[str]) -> None:
    status, text = said(*argv)
    assert status in (-1, 0, 2)
    if status == 2:
        assert text.count("\n") == 1
        assert "help" in text


READERS = [
    ["check"],
    ["log", "info"],
    ["log", "timing"],
    ["log", "recover"],
    ["replay"],
    ["devices", "decode", "--type", "ublox"],
]


@given(
    st.sampled_from(READERS),
    st.sampled_from(["", ".mcap", ".toml", ".csv"]),
    st.binary(max_size=300),
)
@examples(40)
def test_no_file_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], ending: str, data: bytes
) -> None:
    file = tmp_path_factory.mktemp("any") / f"file{ending}"
    file.write_bytes(data)
    out = io.StringIO()
    with redirect_stderr(out), redirect_stdout(out):
        status = main([*words, str(file)])
    assert status in (0, 1, 2)
    assert "defect" not in out.getvalue()


# ---------------------------------------------------------------- what the shell may do to us


def process(*words: str, **more: object) -> "subprocess.CompletedProcess[str]":
    """Run the command line as users do."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*VEHICLED, *words], capture_output=True, text=True, timeout=DEADLINE_S, **more
    )


def test_closed_streams_are_no_error() -> None:
    shell = f"exec <&- >&- 2>&-; exec '{sys.executable}' -m vehicled courses"
    assert subprocess.run(["sh", "-c", shell], timeout=DEADLINE_S, check=False).returncode == 0


def test_a_reader_that_went_away_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m vehicled profiles --schema | head -1"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stderr == ""


def test_a_terminal_that_knows_no_lines_and_a_user_without_home(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "HOME"}
    done = process(
        "profiles",
        env=environment | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "1"},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_defect_is_one_line_that_says_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> int:
        raise KeyError("surprise")

    monkeypatch.setattr("vehicled.cli.catalog.courses", broken)
    assert main(["courses"]) == 70
    text = capsys.readouterr().err
    assert text.startswith(
        "vehicled: internal error, please report it: KeyError: 'surprise' (test_cli_parser.py, "
        "line "
    )
    assert text.count("\n") == 1
    monkeypatch.setenv("VEHICLED_TRACEBACK", "1")
    assert main(["courses"]) == 70
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last):")
    assert text.endswith("KeyError: 'surprise'\n")


# ---------------------------------------------------------------- names of logs


def test_logs_are_named_by_age_or_by_how_they_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    store = tmp_path / "vehicled" / "logs"
    store.mkdir(parents=True)
    for age, file in enumerate(
        (store / "art_new.mcap", tmp_path / "art_old.mcap", store / "rzr.mcap")
    ):
        file.touch()
        os.utime(file, (1e9 - age, 1e9 - age))
    (store / "art_new_part2.mcap").touch()
    assert log_name("latest") == str(store / "art_new.mcap")
    assert log_name("latest:2") == "art_old.mcap"
    assert log_name("latest:3") == log_name("rz") == str(store / "rzr.mcap")
    assert log_name(f"{store}/latest:2") == str(store / "rzr.mcap")
    assert log_name("art_old.mcap") == "art_old.mcap"
    assert log_name("nothing.mcap") == "nothing.mcap"
    for wrong, why in (("latest:9", "3 logs"), ("latest:no", "latest:2"), ("art", "2 logs")):
        status, text = said("log", "info", wrong)
        assert status == 2
        assert why in text
    (tmp_path / "latest").touch()
    assert log_name("latest") == "latest"


# ---------------------------------------------------------------- completion


def candidates(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the shell is given for the last word of a line."""
    shell = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    # It would take a descriptor that belongs to pytest.
    monkeypatch.setattr(
        "argcomplete.finders.CompletionFinder._init_debug_stream", lambda finder: None
    )
    monkeypatch.setattr("argcomplete.io.debug_stream", io.StringIO())
    out = io.StringIO()
    complete(build_parser(), output_stream=out, exit_method=lambda status: None)
    return [word for word in out.getvalue().split("\013") if word]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("vehicled si", {"sim", "simulator"}),
        ("vehicled log re", {"recover", "report"}),
        ("vehicled sim --prof", {"--profile"}),
        ("vehicled sim --profile ", {"art", "hmmwv"}),
        ("vehicled sim --profile=art_", {"--profile=art_vesc"}),
        ("vehicled sim --course fig", {"figure_eight"}),
        ("vehicled sim --course straight_run:", {"straight_run:speed_mps="}),
        ("vehicled sim --fail gn", {"gnss:"}),
        ("vehicled sim --fail gnss:st", {"gnss:stuck@"}),
        ("vehicled sim --controller pure", {"pure_pursuit"}),
        ("vehicled sim --set limits.max_sp", {"limits.max_speed_mps="}),
        ("vehicled sim --set lim", {"limits."}),
        ("vehicled sim --clock ", {"lockstep", "wall"}),
        ("vehicled log info lat", {"latest"}),
        ("vehicled ", set(PARSER.subcommands)),
        # What names by metavar or by the first positional argument got wrong.
        ("vehicled new controller ", set()),
        ("vehicled sim --profile=art_vesc --set devices.gn", {"devices.gnss."}),
        ("vehicled devices decode --type ubl", {"ublox"}),
        ("vehicled log cat latest --topic state_est", {"state_estimate"}),
        ("vehicled gap --judge pla", {"planar"}),
        ("vehicled twin show hmmwv_l", {"hmmwv_lfdm"}),
        ("vehicled experiment ekf-circle --noi", {"--noise"}),
        ("vehicled experiment ve", {"vepd"}),
        ("vehicled study run low_", {"low_rate"}),
        ("vehicled learn collect --controller m", {"mpc"}),
        ("vehicled data fetch ", {"mocap_ekf_mpc_2023"}),
    ],
)
def test_what_could_come_next(
    line: str, some: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = candidates(line, monkeypatch)
    assert some <= set(found), found
    assert line == "vehicled " or not {"controller", "driver", "estimator"} & set(found)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "vehicled",
        "vehicled check 'no end",
        "vehicled sim --seed x --cou",
        "vehicled log info no ",
    ],
)
def test_any_line_can_be_completed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(candidates(line, monkeypatch), list)


def test_completion_of_a_drive_waits_for_no_library_of_numbers() -> None:
    code = "import sys; from vehicled.cli.commands import build_parser; p = build_parser()\n"
    code += (
        "for words in sys.argv[1:]: p.descend(words.split()).format_help()\nprint('numpy' in "
        "sys.modules)"
    )
    words = [
        "sim",
        "run",
        "status",
        "arm",
        "stop",
        "teleop",
        "topic echo",
        "goto",
        "log report",
        "service install",
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.strip() == "False"


@pytest.fixture
def path_with_vehicled(tmp_path: Path) -> str:
    """A PATH on which ``vehicled`` is this one."""
    command = tmp_path / "vehicled"
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m vehicled \"$@\"\n")
    command.chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def shell(name: str, script: str, path: str) -> list[str]:
    """Return the output of a script in a shell that has the completion, line by line."""
    if shutil.which(name) is None:
        pytest.skip(f"the program {name} is not installed")
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    done = subprocess.run(
        [name, *options, "-c", f"{completion_script(name) if name != 'zsh' else ''}\n{script}"],
        capture_output=True, text=True, timeout=DEADLINE_S, check=True,
        env=os.environ | {"PATH": path},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vehicled sim --prof", ["--profile"]),
        ("vehicled log compare --against latest --fail", ["--fail-on"]),
        ("vehicled sim --fail gnss:stu", ["stuck@", "stuck_channel@"]),
        ("vehicled sim --profile=art_ve", ["art_vesc"]),
    ],
)
def test_bash_completes(line: str, expected: list[str], path_with_vehicled: str) -> None:
    script = (
        f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _python_argcomplete vehicled "
        "2>/dev/null\n"
    )
    script += "printf '%s\\n' \"${COMPREPLY[@]}\""
    assert shell("bash", script, path_with_vehicled) == expected


def test_a_blank_follows_only_what_is_whole() -> None:
    for name in ("bash", "zsh"):
        assert "[=/:@.]" in completion_script(name)


def test_zsh_completes(path_with_vehicled: str) -> None:
    script = (
        '_describe() { print -rl -- "${completions[@]}" }; compdef() { }\n'
        + completion_script("zsh")
    )
    script += (
        "\nwords=(vehicled sim); BUFFER='vehicled sim --fail gnss:stu'; CURSOR=${#BUFFER}; "
        "_python_argcomplete"
    )
    assert "gnss\\:stuck@:" in shell("zsh", script, path_with_vehicled)
    assert (
        "--profile"
        in shell("zsh", script.replace("--fail gnss:stu", "--prof"), path_with_vehicled)[0]
    )


def test_fish_completes(path_with_vehicled: str) -> None:
    assert shell("fish", "complete -C 'vehicled sim --prof'", path_with_vehicled)[0] == "--profile"
    assert shell("fish", "complete -C 'vehicled sim --fail gnss:stu'", path_with_vehicled) == [
        "gnss:stuck@",
        "gnss:stuck_channel@",
    ]
