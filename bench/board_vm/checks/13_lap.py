"""The simulator on real ports drives the lap: receivers and inertial unit are USB devices, the
motor controller is on `vcan`, and the service stands at the end of its course.
"""

from bench.board_vm.board import Board, expect

LIMIT_M = 0.5


def check(board: Board) -> str:
    """Drive one lap on another CAN bus."""
    with board.on_vcan("--course circle_r5_ccw"):
        board.drive()
        worst_m, speeds = 0.0, []
        while (state := board.state())["mode"] == "AUTO":
            worst_m = max(worst_m, abs(state["cross_track_m"] or 0.0))
            speeds.append(state["estimate"]["speed_mps"])
            board.sleep(0.5)
        code = board.stopped("course_finished")
    expect(worst_m < LIMIT_M, f"{worst_m:.2f} m off the course")
    return f"{code}, at most {worst_m:.2f} m off the course at up to {max(speeds):.2f} m/s"
