"""The vehicle drives on while another node fills its CAN bus with frames of the highest priority, and while frames come that belong to
nobody.
"""

from bench.board_vm.board import Board, expect, number_in

FRAMES_PER_S = 1000


def check(board: Board) -> str:
    """Flood a virtual CAN bus, on which the motor controller is."""
    board.shell("modprobe vcan; ip link show vcan0 2>/dev/null || ip link add vcan0 type vcan; ip link set vcan0 up")
    counter = "cat /sys/class/net/vcan0/statistics/rx_packets"
    with board.bus("can:vcan0"):
        board.drive()
        with board.running(f"cangen vcan0 -i -g {1000 / FRAMES_PER_S} -I 000 -L 8"):
            board.sleep(1.0)
            start, frames = board.now(), number_in(r"(\d+)", board.shell(counter))
            board.drives_on(6.0)
            frames = number_in(r"(\d+)", board.shell(counter)) - frames
            rate = frames / (board.now() - start)
        expect(rate > 0.5 * FRAMES_PER_S, f"only {rate:.0f} frames a second")
        board.drives_on(2.0)
        board.stand()
    return f"drove through {rate:.0f} frames a second"
