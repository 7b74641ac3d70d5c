"""The vehicle drives on while another program sends frames of the highest priority, which belong to
nobody, on its CAN bus: as many as the emulated computer takes."""

from bench.board_vm.board import Board, expect, number_in

FRAMES_PER_S = 200
COUNTER = "cat /sys/class/net/can0/statistics/tx_packets"


def check(board: Board) -> str:
    """Send frames on can0 from this computer: the kernel hands them to the daemon, and the adapter
    to the motor controller."""
    board.drive()
    with board.running(f"cangen can0 -i -g {1000 / FRAMES_PER_S} -I 000 -L 8"):
        board.sleep(1.0)
        start, before = board.now(), number_in(r"(\d+)", board.shell(COUNTER))
        board.drives_on(5.0)
        rate = (number_in(r"(\d+)", board.shell(COUNTER)) - before) / (board.now() - start)
    expect(rate > 0.3 * FRAMES_PER_S, f"only {rate:.0f} frames a second")
    board.drives_on(2.0)
    board.stand()
    return f"drove through {rate:.0f} frames a second"
