"""The vehicle drives on, with a warning, when its disk becomes read-only, as a worn card does."""

from bench.board_vm.board import LOGS, Board, small_disk


def check(board: Board) -> str:
    """End the file system of the logs as the kernel does after an error."""
    with small_disk(board):
        board.drive()
        board.shell(f"mount -o remount,abort {LOGS}; ! touch {LOGS}/probe")
        warned_s = board.wait_for(lambda: board.state().get("log_trouble"), "no trouble with the log is reported", 60.0)
        board.drives_on(3.0)
        board.stand()
    return f"warned after {warned_s:.0f} s"
