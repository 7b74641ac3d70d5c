"""A kernel that hangs while driving is reset by the hardware watchdog that systemd serves; the
board boots and the service starts by itself, disarmed.
"""

from bench.board_vm.board import Board, expect

CONF = "/etc/systemd/system.conf.d/watchdog.conf"
LIMIT_S = 10


def check(board: Board) -> str:
    """Serve the watchdog as docs/service.md says, then crash the kernel."""
    board.shell("modprobe i6300esb")
    board.shell(
        f"printf '[Manager]\\nRuntimeWatchdogSec={LIMIT_S}\\n' | install -D -m 644 /dev/stdin "
        f"{CONF}; systemctl daemon-reexec"
    )
    board.wait_for(
        lambda: board.shell("cat /sys/class/watchdog/watchdog0/state").strip() == "active",
        "systemd does not serve it",
    )
    board.drive()
    board.shell("sync; echo 0 >/proc/sys/kernel/panic")
    board.machine.crash()
    board.wake()
    board.until_active()
    state = board.until("STANDBY")
    expect(
        abs((state["estimate"] or {}).get("speed_mps") or 0.0) < 0.2,
        "the vehicle moves though nobody drives it",
    )
    board.shell(f"rm {CONF}; systemctl daemon-reexec")
    return f"reset within {LIMIT_S} s by the watchdog"
