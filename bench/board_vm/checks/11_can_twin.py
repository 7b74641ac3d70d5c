"""A second motor controller with the same identifier, whose wheels stand, does not stay unnoticed:
the vehicle stops."""

from bench.board_vm.board import Board

STANDING = f"cangen can0 -i -e -g 50 -I {(9 << 8) | 1:X} -L 8 -D 0000000000000000"
"""STATUS of the VESC with identifier 1: no speed, no current, no duty."""


def check(board: Board) -> str:
    """Add the status of a second controller to the bus while the first one drives."""
    board.drive()
    with board.running(STANDING):
        code = board.stopped(timeout_s=90.0)
    board.drive()
    board.stand()
    return f"stopped by {code}"
