"""A daemon that hangs while driving is ended by systemd's watchdog and restarted, disarmed and with
the vehicle standing; its log is closed.
"""

from bench.board_vm.board import Board, expect, number_in


def check(board: Board) -> str:
    """Stop the process as a hang does."""
    board.drive()
    pid, cursor, start = board.pid(), board.cursor(), board.now()
    board.shell(f"kill -STOP {pid}")
    board.wait_for(lambda: board.pid() != pid, "the daemon still hangs")
    noticed_s = board.now() - start
    board.until_active(other_than=pid)
    expect(
        any("Watchdog timeout" in str(event.get("systemd")) for event in board.journal(cursor)),
        "not by the watchdog",
    )
    board.until("STANDBY")
    expect(board.is_whole(board.newest_log(1)), "the log of the daemon that hung has no end")
    limit_s = number_in(r"(\d+)", board.show("WatchdogUSec"))
    board.drive()
    board.stand()
    return f"ended after {noticed_s:.1f} s, limit {limit_s:.0f} s"
