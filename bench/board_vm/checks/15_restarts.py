"""systemd gives up after ten restarts within a minute, and after one start with options that cannot be used; then the service is
started by hand.
"""

from bench.board_vm.board import PROFILE, UNIT, Board, expect

KILLER = f"""\
while :; do
    systemctl is-failed --quiet {UNIT} && exit
    pid=$(systemctl show {UNIT} --property=MainPID --value)
    test $pid != 0 && kill -KILL $pid
    sleep 0.1
done
"""


def check(board: Board) -> str:
    """Kill every daemon at its start, then give options that cannot be used."""
    board.shell(KILLER, timeout_s=100.0)
    restarts = board.show("NRestarts")
    expect(board.show("Result") == "start-limit-hit" or int(restarts) >= 9, f"failed by {board.show('Result')} after {restarts}")
    board.sleep(3.0)
    expect(board.show("ActiveState") == "failed", f"it is {board.show('ActiveState')} again")
    board.start()
    board.until("STANDBY")
    board.stop()
    file = f"/etc/vehicled/{PROFILE}.env"
    kept = board.shell(f"cat {file}").strip()
    try:
        board.shell(f"echo 'VEHICLED_OPTIONS=--laps many' >{file}")
        board.status_of(f"systemctl reset-failed {UNIT}; systemctl start {UNIT}", timeout_s=60.0)
        board.sleep(3.0)
        status, state = board.show("ExecMainStatus"), board.show("ActiveState")
        expect((state, status) == ("failed", "2"), f"with options that cannot be used it is {state}, status {status}")
        expect(board.show("NRestarts") == "0", "it was restarted with options that cannot be used")
    finally:
        board.shell(f"echo '{kept}' >{file}")
    board.start()
    board.until("STANDBY")
    return f"given up after {restarts} restarts"
