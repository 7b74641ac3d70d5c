"""systemd gives up after ten restarts within a minute, and after one start with options that cannot
be used; then the service starts by hand.
"""

from bench.board_vm.board import ENV, OPTIONS, UNIT, Board, expect

KILLER = f"""\
while ! systemctl is-failed --quiet {UNIT}; do
    pid=$(systemctl show {UNIT} --property=MainPID --value)
    test $pid != 0 && kill -KILL $pid
    sleep 0.1
done
"""


def check(board: Board) -> str:
    """Kill every daemon at its start, then give options that cannot be used."""
    board.stand()
    board.shell(KILLER, timeout_s=100.0)
    restarts = board.show("NRestarts")
    board.sleep(3.0)
    expect(
        board.show("ActiveState") == "failed",
        f"it is {board.show('ActiveState')} again after {restarts} restarts",
    )
    expect(int(restarts) <= 10, f"only given up after {restarts} restarts")
    try:
        board.shell(f"echo 'VEHICLED_OPTIONS=--laps many' >{ENV}")
        board.status_of(f"systemctl reset-failed {UNIT}; systemctl start {UNIT}", timeout_s=60.0)
        board.sleep(3.0)
        found = board.show("ActiveState"), board.show("ExecMainStatus"), board.show("NRestarts")
        expect(
            found == ("failed", "2", "0"),
            f"state, status and restarts with options that cannot be used: {', '.join(found)}",
        )
    finally:
        board.shell(f"echo '{OPTIONS}' >{ENV}")
    board.start()
    board.until("STANDBY")
    return f"given up after {restarts} restarts"
