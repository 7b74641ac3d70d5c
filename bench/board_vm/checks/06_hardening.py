"""`systemd-analyze verify` finds nothing to say about the unit, and its exposure is at most 2.3."""

from bench.board_vm.board import UNIT, Board, expect, number_in


def check(board: Board) -> str:
    """Let systemd judge the unit."""
    said = board.shell(f"systemd-analyze verify {UNIT} 2>&1").strip()
    expect(not said, f"verify says {said[:400]}")
    exposure = number_in(
        r"Overall exposure level for \S+: ([\d.]+)",
        board.shell(f"systemd-analyze security --no-pager {UNIT}"),
    )
    expect(exposure <= 2.3, f"exposure {exposure}")
    return f"exposure {exposure}"
