"""A CAN interface that is set down while driving stops the vehicle; set up again, the port is
opened and the vehicle can be driven again.
"""

from bench.board_vm.board import Board


def check(board: Board) -> str:
    """Set can0 down and up."""
    board.drive()
    board.shell("ip link set can0 down")
    code = board.stopped("actuator_lost", "device_lost")
    board.until_port("drive", "LOST", "ERROR")
    board.shell("ip link set can0 up")
    took_s = board.until_port("drive", "OPENED")
    board.drive()
    board.stand()
    return f"stopped by {code}, opened {took_s:.1f} s after the interface was up"
