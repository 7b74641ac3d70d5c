"""`vehicled service uninstall` stops the service and removes what was installed and not edited;
user and logs are kept; nothing of the service is left in systemd.
"""

from bench.board_vm.board import LOGS, PROFILE, UNIT, Board, expect

GONE = (
    "/opt/vehicled", "/usr/local/bin/vehicled", "/etc/systemd/system/vehicled@.service",
    "/etc/sysusers.d/vehicled.conf", "/etc/udev/rules.d/60-vehicled.rules",
    f"/etc/vehicled/{PROFILE}.sha256",
)  # fmt: skip


def check(board: Board) -> str:
    """Uninstall while the vehicle is armed."""
    board.stand()
    said = board.shell("sudo vehicled service uninstall", user="alice", timeout_s=200.0)
    left = board.shell(f"ls -d {' '.join(GONE)} 2>/dev/null || true").split()
    expect(not left, f"left: {', '.join(left)}: {said[-300:]}")
    expect(board.show("ActiveState") == "inactive", f"the service is {board.show('ActiveState')}")
    expect(
        not board.shell(
            f"systemctl list-unit-files --no-legend '{UNIT}' 'vehicled@.service' || true"
        ).strip(),
        "systemd knows the unit",
    )
    board.shell(f"id vehicled; ls {LOGS}/*.mcap")
    return "user, logs and the edited options are kept"
