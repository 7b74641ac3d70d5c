"""`systemctl start` returns when the daemon is ready, with all ports open and mode and reason in
`systemctl status`."""

from bench.board_vm.board import UNIT, Board, expect


def check(board: Board) -> str:
    """Start the service and read what systemd shows of it."""
    start = board.now()
    board.shell(f"systemctl start {UNIT}", timeout_s=200.0)
    took_s = board.now() - start
    for name in ("gnss", "imu", "heading", "drive"):
        board.until_port(name, "OPENED")
    board.until("STANDBY")
    status = board.shell(f"systemctl status {UNIT} --no-pager -n 0")
    expect("STANDBY" in status, f"no mode in the status line: {status[-400:]}")
    return f"ready after {took_s:.0f} s"
