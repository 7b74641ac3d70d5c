"""A daemon that is killed while driving is restarted by systemd, disarmed and with the vehicle
standing; its log is closed, and the vehicle can be driven again.
"""

from bench.board_vm.board import UNIT, Board, expect


def check(board: Board) -> str:
    """Kill the daemon while driving."""
    board.drive()
    pid = board.pid()
    board.shell(f"kill -KILL {pid}")
    took_s = board.until_active(other_than=pid)
    state = board.until("STANDBY")
    expect(
        abs((state["estimate"] or {}).get("speed_mps") or 0.0) < 0.2,
        "the vehicle moves though nobody drives it",
    )
    expect(board.is_whole(board.newest_log(1)), "the log of the killed daemon has no end")
    restarts = board.show("NRestarts")
    expect(restarts == "1", f"{UNIT} has been restarted {restarts} times")
    board.drive()
    board.stand()
    return f"ready again after {took_s:.0f} s, log closed"
