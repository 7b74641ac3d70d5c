"""`vehicled service install` makes unit, user, rules, profile and command; a second call changes
nothing; a dry run changes nothing.
"""

from bench.board_vm.board import DROP_INS, OPTIONS, PROFILE, UNIT, Board, expect

FILES = (
    "/etc/systemd/system/vehicled@.service", "/etc/sysusers.d/vehicled.conf",
    "/etc/udev/rules.d/60-vehicled.rules", f"/etc/vehicled/{PROFILE}.toml",
    f"/etc/vehicled/{PROFILE}.sha256", f"/etc/vehicled/{PROFILE}.env", "/usr/local/bin/vehicled",
)  # fmt: skip


def check(board: Board) -> str:
    """Follow the first lines of docs/service.md as a user with sudo."""
    command = "sudo /opt/vehicled/bin/vehicled service install --profile /bench/board.toml"
    board.shell(f"{command} --dry-run", user="alice")
    expect(
        "vehicled@.service" not in board.shell("ls /etc/systemd/system"), "a dry run wrote the unit"
    )
    board.shell(command, user="alice")
    board.shell(f"ls {' '.join(FILES)}")
    again = board.shell(command, user="alice")
    expect("write " not in again, f"a second installation writes again: {again[-300:]}")
    board.shell("usermod -aG vehicled alice")
    board.shell(f"mkdir -p {DROP_INS}; cp /bench/slow.conf {DROP_INS}; systemctl daemon-reload")
    board.shell(f"echo '{OPTIONS}' >/etc/vehicled/{PROFILE}.env; systemctl enable {UNIT}")
    expect("dialout" in board.shell("id vehicled"), "the user vehicled is not in dialout")
    return f"{len(FILES)} files"
