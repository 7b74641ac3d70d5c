"""An inertial unit that is unplugged while driving stops the vehicle; plugged in again, its port is opened and the vehicle can
be driven again.
"""

from bench.board_vm.board import Board


def check(board: Board) -> str:
    """Pull the plug while driving."""
    board.drive()
    board.unplug("imu")
    code = board.stopped("imu_silent", "device_lost")
    board.until_port("imu", "LOST", "ERROR")
    board.plug("imu")
    took_s = board.until_port("imu", "OPENED")
    board.drive()
    board.stand()
    return f"stopped by {code}, opened {took_s:.1f} s after the plug"
