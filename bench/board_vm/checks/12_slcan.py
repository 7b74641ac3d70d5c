"""The daemon's own slcan drives the serial CAN adapter without an interface of the kernel, and
opens it again after it was unplugged while driving.
"""

from bench.board_vm.board import BY_ID, LINKS, Board


def check(board: Board) -> str:
    """Leave out slcand and pull the adapter's plug while driving."""
    board.stop()
    board.shell(
        "pkill -x slcand; for i in $(seq 50); do ip link show can0 >/dev/null 2>&1 || exit 0; "
        "sleep 0.1; done; exit 1"
    )
    with board.options(
        f"--set devices.drive.port=can:slcan:{BY_ID}/{LINKS['drive']}?bitrate=500000"
    ):
        board.until_port("drive", "OPENED")
        board.drive()
        board.unplug("drive")
        code = board.stopped("actuator_lost", "device_lost")
        board.plug("drive")
        took_s = board.until_port("drive", "OPENED")
        board.drive()
        board.stand()
    board.shell("sh /bench/can.sh")
    return f"stopped by {code}, opened {took_s:.1f} s after the plug"
