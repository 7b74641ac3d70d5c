"""A new version is installed while the old one runs; the edited profile, the options and the logs
are kept, and after a restart the new version drives.
"""

from bench.board_vm.board import LOGS, PROFILE, Board, expect

NEW = "99.0.0"


def check(board: Board) -> str:
    """Install a copy of the checkout with another version, as a user who fetched it."""
    board.stand()
    old, pid = board.state()["version"], board.pid()
    logs = board.shell(f"ls {LOGS}").split()
    board.shell(f"echo '# edited' >>/etc/vehicled/{PROFILE}.toml")
    board.shell("rm -rf /srv/new; cp -r /srv/vehicled /srv/new")
    board.shell(
        f"sed -i 's/^__version__ = .*/__version__ = \"{NEW}\"/' /srv/new/vehicled/__init__.py"
    )
    said = board.shell(
        "cd /srv/new && sudo python3 -m vehicled service install --profile /bench/board.toml",
        user="alice",
        timeout_s=600.0,
    )
    expect(
        board.pid() == pid and board.state()["version"] == old,
        "the running daemon did not outlive the installation",
    )
    expect(
        "# edited" in board.shell(f"cat /etc/vehicled/{PROFILE}.toml"),
        "the edited profile was overwritten",
    )
    expect(
        f"/etc/vehicled/{PROFILE}.toml" in said, f"the edited profile is not named: {said[-400:]}"
    )
    board.shell(
        f"sudo vehicled service install --profile /etc/vehicled/{PROFILE}.toml",
        user="alice",
        timeout_s=200.0,
    )
    board.stop()
    board.start()
    expect(board.state()["version"] == NEW, f"{board.state()['version']} runs, not {NEW}")
    expect(set(logs) <= set(board.shell(f"ls {LOGS}").split()), "logs are missing")
    board.drive()
    board.stand()
    return f"{old} to {NEW}, edited profile kept"
