"""Pulses that the kernel stamps get the names of their seconds from the receiver; when they fail,
that is reported, and the vehicle drives on.
"""

from bench.board_vm.board import Board, expect, number_in

SOURCE = (
    "--set devices.pps.port=pps:/sys/class/pps/pps0 --set devices.pps.driver.name=pps --set "
    'devices.pps.driver.pps.tolerance_us=50000 --set devices.pps.messages=["TimePulse"]'
)
"""An emulated processor stamps an interrupt late by milliseconds."""


def check(board: Board) -> str:
    """Make pulses at the parallel port, then end them."""
    board.shell("modprobe parport_pc; modprobe pps_parport clear_wait=0")
    cursor = board.cursor()
    with board.options(SOURCE):
        with board.running("exec python3 /bench/pulse.py"):
            board.until_port("pps", "OPENED")
            board.drive()
            board.wait_for(
                lambda: "from UTC" in board.shell("vehicled status", user="alice"),
                "no pulse is named",
            )
            offset_us = number_in(
                r"of this computer is ([-+]?[\d.]+)", board.shell("vehicled status", user="alice")
            )
            board.drives_on(1.0)
        board.wait_for(
            lambda: any(event.get("code") == "pps_silent" for event in board.journal(cursor)),
            "the end of the pulses is not reported",
        )
        board.drives_on(1.0)
        board.stand()
    expect(abs(offset_us) < 1e5, f"the clock is {offset_us * 1e-6:.2f} s from UTC")
    return f"clock {offset_us * 1e-3:+.1f} ms from the pulses"
