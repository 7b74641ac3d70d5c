"""The running daemon holds what the unit promises: SCHED_FIFO 40 on its loop, locked memory,
seccomp, no capability, its own user.
"""

import re

from bench.board_vm.board import Board, expect, number_in


def check(board: Board) -> str:
    """Read /proc of the daemon."""
    pid = board.pid()
    status = board.shell(f"cat /proc/{pid}/status")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    expect(lines["Seccomp"] == "2", f"Seccomp: {lines['Seccomp']}")
    expect(lines["NoNewPrivs"] == "1", f"NoNewPrivs: {lines['NoNewPrivs']}")
    for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        expect(int(lines[name], 16) == 0, f"{name}: {lines[name]}")
    locked_mb = number_in(r"VmLck:\s+(\d+) kB", status) / 1024
    expect(locked_mb > 20.0, f"only {locked_mb:.0f} MB are locked")
    expect(
        board.shell(f"ps -o user= -p {pid}").strip() == "vehicled",
        "it does not run as the user vehicled",
    )
    threads = board.shell(f"ps -L -o tid=,cls=,rtprio= -p {pid}").split("\n")
    loop = next(line.split() for line in threads if line.split()[:1] == [str(pid)])
    expect(loop[1:] == ["FF", "40"], f"the loop's thread runs as {loop[1:]}")
    oom = board.shell(f"cat /proc/{pid}/oom_score_adj").strip()
    expect(oom == "-900", f"oom_score_adj: {oom}")
    # Set-up is not real-time work. The kernel says it once a boot; an emulated processor may be
    # throttled at other times.
    began_s, ready_s = (
        int(board.show(f"{name}TimestampMonotonic")) * 1e-6
        for name in ("InactiveExit", "ActiveEnter")
    )
    throttled = re.search(r"\[ *([\d.]+)\].*RT throttling", board.shell("dmesg"))
    in_set_up = throttled is not None and began_s < float(throttled.group(1)) < ready_s
    expect(not in_set_up, "the kernel throttled the daemon while it was set up")
    return f"FIFO 40, {locked_mb:.0f} MB locked"
