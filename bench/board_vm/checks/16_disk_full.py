"""The vehicle drives on while its disk is full, with a warning, and its log goes on when there is space again; with a full disk the
service does not start, and starts by itself when there is space.
"""

from bench.board_vm.board import LOGS, UNIT, Board, expect, small_disk

FILL = f"dd if=/dev/zero of={LOGS}/fill bs=64K 2>/dev/null; ls {LOGS}/fill"


def check(board: Board) -> str:
    """Fill a small disk while driving, free it, and fill it before a start."""
    with small_disk(board):
        board.drive()
        cursor = board.cursor()
        board.shell(FILL)
        warned_s = board.wait_for(lambda: board.state().get("log_trouble"), "no trouble with the log is reported", 60.0)
        board.drives_on(1.0)
        board.shell(f"rm {LOGS}/fill")
        board.wait_for(lambda: board.events(cursor, "log_waited"), "the log does not go on", 60.0)
        board.drives_on(1.0)
        board.stand()
        board.stop()
        expect(board.is_whole(board.newest_log()), "the log has no end")
        cursor = board.cursor()
        board.shell(FILL)
        board.status_of(f"systemctl reset-failed {UNIT}; systemctl start --no-block {UNIT}")
        board.wait_for(lambda: board.show("NRestarts") != "0", "it is not tried again")
        expect(board.show("ExecMainStatus") in ("75", "0"), f"status {board.show('ExecMainStatus')}: {board.last_words()}")
        expect("full" in board.last_words() or "space" in board.last_words(), f"it does not say why: {board.last_words()}")
        board.shell(f"rm {LOGS}/fill")
        took_s = board.until_active()
        board.drive()
        board.stand()
    return f"warned after {warned_s:.0f} s, ready {took_s:.0f} s after there was space"
