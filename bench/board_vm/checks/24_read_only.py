"""The service starts by itself and drives with a root file system that is read-only from the boot
on, and logs in memory; with a log folder that is read-only, too, it does not start and says why.
"""

from bench.board_vm.board import LOGS, UNIT, Board, expect

OPTIONS = "ro systemd.volatile=state"


def check(board: Board) -> str:
    """Boot from a disk that nobody may write to, and then as before."""
    board.power_cut()
    board.boot(OPTIONS)
    try:
        expect(board.status_of("touch /etc/probe")[0] != 0, "the root can be written to")
        board.until_active()
        board.drive()
        board.stand()
        board.stop()
        expect(board.is_whole(board.newest_log()), "the log has no end")
        board.shell(f"mount -t tmpfs -o ro tmpfs {LOGS}; systemctl start --no-block {UNIT}")
        board.wait_for(
            lambda: board.show("ExecMainStatus") == "75", "no status 75 without a log", 120.0
        )
        said = board.last_words()
        expect("read-only" in said.lower(), f"it does not say why: {said}")
    finally:
        board.power_cut()
        board.boot()
    board.until_active()
    return "drove with a read-only root, logs in memory"
