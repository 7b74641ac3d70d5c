"""Error frames of a CAN controller are reported while the vehicle drives on; one that says bus-off
stops it, the port is opened again, and the vehicle can be driven.
"""

from bench.board_vm.board import Board

PASSIVE, BUS_OFF = "20000204#000C000000007F00", "20000040#0000000000000000"
"""Error passive with its counters, and bus-off, as the kernel's drivers send them."""


def check(board: Board) -> str:
    """Send error frames on `vcan` as the driver of a controller does."""
    with board.on_vcan():
        board.drive()
        cursor = board.cursor()
        board.shell(f"cansend vcan0 {PASSIVE}")
        board.wait_for(
            lambda: any(event.get("code") == "can_bus_errors" for event in board.journal(cursor)),
            "error passive is not reported",
        )
        board.drives_on(3.0)
        board.shell(f"cansend vcan0 {BUS_OFF}")
        code = board.stopped("actuator_lost", "device_lost")
        board.until_port("drive", "OPENED")
        board.drive()
        board.stand()
    return f"drove on with errors; bus-off: stopped by {code}"
