"""A member of the group `vehicled` may ask, arm and read logs; a stranger may do none of it, and
its command names the remedy."""

from bench.board_vm.board import LOGS, Board, expect


def check(board: Board) -> str:
    """Ask as alice, who is a member, and as mallory, who is not."""
    expect(board.ask(do="status").get("ok"), "a member may not ask for the status")
    refused = board.ask(user="mallory", do="status")
    expect(
        refused.get("error") == "PermissionError", f"a stranger is answered: {str(refused)[:200]}"
    )
    expect(board.status_of(f"ls {LOGS}", user="alice")[0] == 0, "a member may not read the logs")
    expect(board.status_of(f"ls {LOGS}", user="mallory")[0] != 0, "a stranger may read the logs")
    status, said = board.status_of(
        "vehicled arm --profile /run/vehicled/board.sock", user="mallory"
    )
    expect(
        status != 0 and "group vehicled" in said,
        f"a stranger's command: status {status}, {said[-300:]}",
    )
    return "stranger refused"
