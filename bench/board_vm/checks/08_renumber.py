"""A receiver that comes back under another number of the kernel, because a program holds its old
one, is found by its name in `/dev/serial/by-id`.
"""

from bench.board_vm.board import BY_ID, LINKS, Board, expect


def check(board: Board) -> str:
    """Unplug and plug in the receiver while driving and while another program holds its device."""
    link = f"{BY_ID}/{LINKS['gnss']}"
    before = board.shell(f"readlink -f {link}").strip()
    board.drive()
    with board.running(f"trap '' HUP; exec sleep 600 <{before}") as pid:
        board.wait_for(
            lambda: before in board.shell(f"readlink /proc/{pid}/fd/0 || true"), "it is not held"
        )
        board.unplug("gnss")
        board.until_port("gnss", "LOST", "ERROR")
        board.plug("gnss")
        took_s = board.until_port("gnss", "OPENED")
        after = board.shell(f"readlink -f {link}").strip()
        expect(after != before, f"the kernel gave it {before} again")
        board.drive()
        board.stand()
    return f"{before} became {after}, opened {took_s:.1f} s after the plug"
