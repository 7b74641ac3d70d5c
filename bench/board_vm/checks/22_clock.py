"""Steps of the system's clock by ten years and by an hour, forward and back, change nothing for the
vehicle that drives."""

from bench.board_vm.board import Board, expect

STEPS = ("+10 years", "-10 years", "-1 hour", "+1 hour")


def check(board: Board) -> str:
    """Set the clock while driving."""
    board.drive()
    pid = board.pid()
    for step in STEPS:
        # Clocks of boards without a battery are set so by the first answer of a time server.
        board.shell(f'date --set="$(date) {step}"')
        board.drives_on(3.0)
    expect(board.pid() == pid, "the service was restarted")
    board.stand()
    return f"drove on through {', '.join(STEPS)}"
