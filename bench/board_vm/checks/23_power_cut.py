"""After a power cut in mid-drive the board boots, the service starts by itself, disarmed, the logs
are readable, and the vehicle can be driven.
"""

from bench.board_vm.board import LOGS, Board, expect


def check(board: Board) -> str:
    """Switch off while driving, and on again."""
    board.drive()
    board.sleep(8.0)
    before = board.newest_log()
    board.power_cut()
    board.boot()
    board.until_active()
    state = board.until("STANDBY")
    expect(
        abs((state["estimate"] or {}).get("speed_mps") or 0.0) < 0.2,
        "the vehicle moves though nobody drives it",
    )
    board.shell(f"test -s {before}")
    whole = "closed" if board.is_whole(before) else "cut off"
    # The file's own index is lost with the power: reading must do without.
    board.shell(f"cd {LOGS} && vehicled log info {before}", timeout_s=120.0)
    board.drive()
    board.stand()
    return f"log of the drive {whole}, readable"
