"""The vehicle drives on, with a warning, while its disk is full and when it becomes read-only; the
log goes on when there is space again. With a full disk the service does not start, says why, and
starts by itself when there is space.
"""

from bench.board_vm.board import LOGS, UNIT, Board, expect, small_disk

FILL = f"dd if=/dev/zero of={LOGS}/fill bs=64K 2>/dev/null; ls {LOGS}/fill"


def check(board: Board) -> str:
    """Fill a small disk while driving and before a start, then end its file system as the kernel
    does after an error."""
    with small_disk(board):
        board.drive()
        cursor = board.cursor()
        board.shell(FILL)
        warned_s = board.wait_for(
            lambda: board.state().get("log_trouble"), "no trouble with the log is reported"
        )
        board.drives_on(1.0)
        board.shell(f"rm {LOGS}/fill")
        board.wait_for(lambda: board.events(cursor, "log_waited"), "the log does not go on")
        board.drives_on(1.0)
        board.stand()
        board.stop()
        expect(board.is_whole(board.newest_log()), "the log has no end")

        board.shell(FILL)
        board.status_of(f"systemctl reset-failed {UNIT}; systemctl start --no-block {UNIT}")
        board.wait_for(
            lambda: board.show("ExecMainStatus") == "75", "no status 75 with a full disk", 120.0
        )
        expect(
            "full" in board.last_words() or "space" in board.last_words(),
            f"it does not say why: {board.last_words()}",
        )
        board.shell(f"rm {LOGS}/fill")
        took_s = board.until_active()

        board.drive()
        board.shell(f"mount -o remount,abort {LOGS}; ! touch {LOGS}/probe")
        board.wait_for(
            lambda: board.state().get("log_trouble"),
            "no trouble with the read-only disk is reported",
        )
        board.drives_on(3.0)
        board.stand()
    return f"full: warned after {warned_s:.0f} s; started {took_s:.0f} s after there was space"
