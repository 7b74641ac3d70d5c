"""The commands `vehicled arm`, `mode auto`, `status` and `stop` of a member arm, drive and stop the
vehicle on the kernel's devices.
"""

from bench.board_vm.board import Board, expect, number_in


def check(board: Board) -> str:
    """Drive by the commands that a user types."""
    board.until("STANDBY")
    board.shell("vehicled arm && vehicled mode auto", user="alice")
    state = board.until("AUTO", speed_mps=0.8)
    text = board.shell("vehicled status", user="alice")
    expect("AUTO" in text, f"status says {text[:300]}")
    speed = number_in(r"speed\W+([\d.]+) m/s", text)
    board.shell("vehicled stop", user="alice")
    board.until("STANDBY", "ARMED", "STOPPING")
    stopped = board.until("STANDBY", "ARMED")
    expect(
        abs(stopped["estimate"]["speed_mps"]) < 0.1,
        f"it still rolls at {stopped['estimate']['speed_mps']:.2f} m/s",
    )
    return f"{speed:.2f} m/s, cross-track error {abs(state['cross_track_m']):.2f} m"
