"""The host's side of `make board`, as far as it needs no virtual machine."""

from pathlib import Path
from typing import Any

import pytest

from bench.board_vm import foreign as foreign_module
from bench.board_vm.__main__ import (
    FAILED,
    NOT_TRIED,
    PASSED,
    Check,
    checks,
    load,
    make,
    results,
    table,
)
from bench.board_vm.board import HERE, Board, FailedError, NotTriedError, expect, small_disk
from bench.board_vm.foreign import STEPS, TESTS, foreign
from bench.board_vm.image import ROOT, MissingToolError, digest, tracked
from bench.board_vm.machine import MachineError
from tests.figures import rendered


class NoBoard(Board):
    """A board that a check does not use."""

    def __init__(self) -> None:
        pass


class ScriptedBoard(Board):
    """A board whose guest runs no command, has a clock of its own and answers with the given
    state."""

    def __init__(self, **state: Any) -> None:
        self.ran: list[str] = []
        self.printed = ""
        self.clock_s = 0.0
        self.answer = {
            "mode": "STANDBY",
            "why": "",
            "estimate": {"speed_mps": 0.0},
            "chain": [],
            "ports": [],
        } | state

    def now(self) -> float:
        return self.clock_s

    def sleep(self, duration_s: float) -> None:
        self.clock_s += duration_s

    def status_of(
        self, command: str, *, user: str = "root", timeout_s: float = 120.0
    ) -> tuple[int, str]:
        self.ran.append(command)
        return 0, self.printed

    def until(
        self, *modes: str, timeout_s: float = 40.0, speed_mps: float = -100.0
    ) -> dict[str, Any]:
        return self.answer

    def state(self) -> dict[str, Any]:
        return self.answer


def raising(error: Exception) -> Check:
    def run(board: Board) -> str:
        raise error

    return Check("one", "It holds.", run)


def test_each_file_is_a_check_that_says_in_whole_sentences_what_it_proves():
    found = checks(HERE / "checks")
    assert [check.name for check in found[:2]] == ["install", "start"]
    assert len({check.name for check in found}) == len(found)
    assert all(check.proves.endswith(".") for check in found)


def test_a_check_without_a_docstring_is_refused(tmp_path: Path):
    (tmp_path / "01_one.py").write_text("def check(board):\n    pass\n")
    with pytest.raises(ValueError, match="docstring"):
        checks(tmp_path)


def test_a_named_check_is_made_after_those_that_it_needs():
    assert [check.name for check in checks(HERE / "checks", ["hardening"])] == [
        "install",
        "start",
        "hardening",
    ]
    with pytest.raises(ValueError, match="no check nothing"):
        checks(HERE / "checks", ["nothing"])


@pytest.mark.parametrize(
    ("error", "verdict", "seen"),
    [
        (FailedError("the speed is 3"), FAILED, "the speed is 3"),
        (NotTriedError("no pulses"), NOT_TRIED, "no pulses"),
        (MachineError("qemu has ended"), FAILED, "the bench: qemu has ended"),
        (KeyError("mode"), FAILED, "the check itself: KeyError: 'mode'"),
    ],
)
def test_a_verdict_is_never_better_than_what_happened(error: Exception, verdict: str, seen: str):
    found = make(raising(error), NoBoard())
    assert (found.verdict, found.seen) == (verdict, seen)


def test_what_a_passed_check_has_seen_is_one_line():
    assert make(Check("one", "It holds.", lambda board: "two\n lines"), NoBoard())[2:4] == (
        PASSED,
        "two lines",
    )


def test_expect_fails_a_check_with_what_was_seen():
    expect(1, "never said")
    with pytest.raises(FailedError, match="nothing was seen"):
        expect([], "nothing was seen")


def test_the_table_of_the_page_keeps_every_row_apart():
    verdicts = [
        make(raising(FailedError("a | b")), NoBoard()),
        make(raising(NotTriedError("x" * 300)), NoBoard()),
    ]
    page = rendered(results(verdicts, "a computer"))
    assert page.count("\n| one |") == 2
    assert "a / b" in page
    assert "**failed**" in page
    assert table(verdicts).count("\n") == 1


def test_the_cache_knows_content_name_and_order_of_its_inputs(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    before = digest("suite", one, two)
    assert before == digest("suite", one, two)
    assert (
        len(
            {
                before,
                digest("other", one, two),
                digest("suite", two, one),
                digest("suit", "e", one, two),
            }
        )
        == 4
    )
    two.write_bytes(b"3")
    assert digest("suite", one, two) != before


def test_the_image_holds_what_the_service_is_installed_from():
    names = {path.name for path in tracked()}
    assert {
        "requirements.lock",
        "pyproject.toml",
        "vehicled@.service",
        "art.toml",
        "service.py",
    } <= names


def test_a_check_is_loaded_from_its_file_under_its_name():
    assert load(HERE / "checks" / "03_access.py").name == "access"


def test_a_condition_is_waited_for_by_the_clock_of_the_guest():
    board = ScriptedBoard()
    assert board.wait_for(lambda: board.clock_s >= 3.0, "never", 5.0) >= 3.0
    with pytest.raises(FailedError, match="no port after 5 s"):
        board.wait_for(lambda: False, "no port", 5.0)


def test_a_vehicle_that_rolls_or_stopped_for_another_reason_is_no_stop():
    chain = [
        {"code": "deadlines_share", "reaction": "CAP_SPEED"},
        {"code": "gnss_silent", "reaction": "CONTROLLED_STOP"},
        {"code": "imu_silent", "reaction": "BRAKE"},
    ]
    assert ScriptedBoard(chain=chain).stopped("imu_silent") == "imu_silent"
    assert ScriptedBoard(chain=chain).stopped() == "gnss_silent"
    with pytest.raises(FailedError, match="not by vesc_silent"):
        ScriptedBoard(chain=chain).stopped("vesc_silent")
    with pytest.raises(FailedError, match="by nothing"):
        ScriptedBoard().stopped()
    with pytest.raises(FailedError, match=r"rolls at 0\.50 m/s"):
        ScriptedBoard(chain=chain, estimate={"speed_mps": 0.5}).stopped()


def test_the_cursor_of_the_journal_is_found_after_what_journalctl_says():
    board = ScriptedBoard()
    board.printed = "-- No entries --\n-- cursor: s=9d87;i=3ea\n"
    assert board.cursor() == "s=9d87;i=3ea"


def test_a_vehicle_that_waits_in_auto_does_not_drive_on():
    ScriptedBoard(mode="AUTO", estimate={"speed_mps": 1.0}).drives_on(1.0)
    with pytest.raises(FailedError, match=r"moves at 0\.00 m/s"):
        ScriptedBoard(mode="AUTO").drives_on(1.0)
    with pytest.raises(FailedError, match="STOPPING"):
        ScriptedBoard(mode="STOPPING").drives_on(1.0)


@pytest.mark.parametrize(
    ("change", "last"),
    [
        (lambda board: board.options("--seed 1"), "systemctl stop"),
        (lambda board: board.on_vcan("--seed 1"), "sh /bench/simulator.sh"),
        (small_disk, "systemctl start"),
    ],
)
def test_a_failed_check_leaves_the_service_as_it_was(change: Any, last: str):
    """The next check that drives starts a service that stands still."""
    board = ScriptedBoard()
    before = len(board.ran)
    with pytest.raises(FailedError, match="halfway"), change(board):
        raise FailedError("halfway")
    undone = board.ran[-2:]
    assert len(board.ran) > before + 3
    assert any(last in command for command in undone)
    assert "--seed" not in " ".join(undone)


def test_a_kernel_that_runs_no_foreign_programs_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(foreign_module, "need", lambda *tools: None)
    monkeypatch.setattr(foreign_module, "BINFMT", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(MissingToolError, match=r"qemu-aarch64 is missing.*mount -t binfmt_misc"):
        foreign("arm64")


def test_the_unit_tests_of_a_foreign_system_exist():
    assert all((ROOT / name).is_file() for name in TESTS)
    assert [step.name for step in STEPS] == ["install", "lap", "unit_tests", "extras"]


def test_a_step_of_a_foreign_system_fails_like_a_check(tmp_path: Path):
    def fails(root: Path) -> str:
        raise FailedError(f"nothing in {root.name}")

    verdict = make(STEPS[0]._replace(run=fails), tmp_path)
    assert (verdict.verdict, verdict.seen) == (FAILED, f"nothing in {tmp_path.name}")
