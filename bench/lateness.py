"""Lateness of a 200 Hz task: our event loop against the others, interleaved in one run.

    python bench/lateness.py --seconds 20 --plot lateness.png

Every contestant gets a short slice in turn, again and again, so that a noisy minute of the machine
is shared by all. Lateness is the start minus the planned release, which advances by the period
whatever happened. All run in the ordinary scheduling class unless ``--fifo`` is given; read the
ratios, the absolute figures are those of the machine and of its load.

``cyclictest`` (Debian package rt-tests) is the yardstick: the same task in C. The kernel adds 50 us
of timer slack to the sleeps of ordinary threads, cyclictest's included, but not to the timerfd that
our loop uses; so it runs a second time without slack, which shows what C can do at best. It is kept
from tuning the system (``--default-system``), as that would help only its own slices.
"""

import argparse
import asyncio
import ctypes
import gc
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from vehicled.runtime.loop import PreciseSelector, new_event_loop
from vehicled.runtime.timer import Alarm

PERIOD_NS = 5_000_000
WARM_UP = 5
"""Releases of each slice that are not counted, while the loop is fresh and the caches are cold."""

OURS, STOCK, CYCLICTEST = "ours", "asyncio", "cyclictest"
PR_SET_TIMERSLACK = 29

Slice = Callable[[int], list[int]]
"""Function that runs a slice of n releases and returns the lateness of each in ns."""


def ours(backend: str) -> Slice:
    """Return a slice of the pump's Alarm, on asyncio with the precise loop."""

    async def periodic(n: int) -> list[int]:
        late: list[int] = []
        release = time.monotonic_ns() + PERIOD_NS

        def on_due() -> int | None:
            nonlocal release
            late.append(time.monotonic_ns() - release)
            release += PERIOD_NS
            return release if len(late) < n else None

        with Alarm() as alarm:
            await alarm.serve(release, on_due)
        return late

    options = {"loop_factory": new_event_loop} if backend == "asyncio" else {}
    return lambda n: anyio.run(periodic, n, backend=backend, backend_options=options)


def asyncio_with(loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Slice:
    """Return a slice of ``asyncio.sleep`` until the release, on the given loop."""

    async def periodic(n: int) -> list[int]:
        late = []
        release = time.monotonic_ns() + PERIOD_NS
        for _ in range(n):
            await asyncio.sleep(max(0, release - time.monotonic_ns()) / 1e9)
            late.append(time.monotonic_ns() - release)
            release += PERIOD_NS
        return late

    def run(n: int) -> list[int]:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(periodic(n))

    return run


def trio_stock() -> Slice:
    """Return a slice of ``trio.sleep`` until the release."""
    import trio

    async def periodic(n: int) -> list[int]:
        late = []
        release = time.monotonic_ns() + PERIOD_NS
        for _ in range(n):
            await trio.sleep(max(0, release - time.monotonic_ns()) / 1e9)
            late.append(time.monotonic_ns() - release)
            release += PERIOD_NS
        return late

    return lambda n: trio.run(periodic, n)


def thread_sleep(n: int) -> list[int]:
    """Return a slice of ``time.sleep`` until the release, on a thread of its own."""
    late: list[int] = []

    def periodic() -> None:
        release = time.monotonic_ns() + PERIOD_NS
        for _ in range(n):
            time.sleep(max(0, release - time.monotonic_ns()) / 1e9)
            late.append(time.monotonic_ns() - release)
            release += PERIOD_NS

    thread = threading.Thread(target=periodic)
    thread.start()
    thread.join()
    return late


def cyclictest(program: str, fifo: int | None, *, slack: bool) -> Slice:
    """Return a slice of cyclictest, in C. Resolution 1 us; the middle of each microsecond is
    taken."""

    def run(n: int) -> list[int]:
        policy = ["--policy=other"] if fifo is None else ["--policy=fifo", f"--priority={fifo}"]
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            command = [
                program,
                "--quiet",
                "--threads=1",
                f"--interval={PERIOD_NS // 1000}",
                f"--loops={n}",
                "--histogram=500000",
            ]
            command += ["--default-system", f"--json={result}", *policy]
            # A program's default is the timer slack of the thread that starts it; 0 puts this
            # thread back to its own default.
            if not slack:
                _set_timer_slack(1)
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=60 + 2 * n * PERIOD_NS / 1e9
                )
            finally:
                if not slack:
                    _set_timer_slack(0)
            if done.returncode or not result.exists():
                raise RuntimeError(f"cyclictest failed ({done.returncode}): {done.stderr.strip()}")
            thread = json.loads(result.read_text())["thread"]["0"]
        late = [
            int(us) * 1000 + 500 for us, count in thread["histogram"].items() for _ in range(count)
        ]
        # What no bin holds was beyond the last one: half a second late, or more.
        return late + [int(thread["max"]) * 1000] * (n - len(late))

    return run


def _set_timer_slack(slack_ns: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), 0, 0, 0)


def contestants(fifo: int | None) -> tuple[dict[str, Slice], dict[str, str]]:
    """Return the contestants that can run here, and the reasons why others cannot."""
    field: dict[str, Slice] = {
        OURS: ours("asyncio"),
        STOCK: asyncio_with(None),
        "time.sleep": thread_sleep,
    }
    absent: dict[str, str] = {}
    if importlib.util.find_spec("trio"):
        field["ours on trio"] = ours("trio")
        field["trio"] = trio_stock()
    else:
        absent["trio"] = "not installed"
    if importlib.util.find_spec("uvloop"):
        import uvloop

        field["uvloop"] = asyncio_with(uvloop.new_event_loop)
    else:
        absent["uvloop"] = "not installed"
    if program := shutil.which("cyclictest"):
        field[CYCLICTEST] = cyclictest(program, fifo, slack=True)
        if fifo is None:
            field["cyclictest, no slack"] = cyclictest(program, fifo, slack=False)
    else:
        absent[CYCLICTEST] = "not installed (Debian: apt install rt-tests)"
    return field, absent


def measure(
    field: dict[str, Slice], seconds: float, slice_s: float
) -> dict[str, "np.ndarray[Any, Any]"]:
    """Measure the lateness (ns) of every contestant, slice by slice in turn."""
    per_slice = max(1, round(slice_s * 1e9 / PERIOD_NS))
    rounds = max(1, round(seconds / slice_s))
    late: dict[str, list[int]] = {name: [] for name in field}
    names = list(field)
    for k in range(rounds):
        # The order turns by one each round, so nobody always runs after the same neighbour.
        for name in names[k % len(names) :] + names[: k % len(names)]:
            print(f"\r{k + 1}/{rounds} {name:<24}", end="", file=sys.stderr, flush=True)
            # A collection is an accident of whoever came before.
            gc.collect()
            late[name] += (
                field[name](per_slice + WARM_UP)[WARM_UP:]
                if "cyclictest" not in name
                else field[name](per_slice)
            )
    print(f"\r{'':<40}\r", end="", file=sys.stderr, flush=True)
    return {name: np.array(values, dtype=np.int64) for name, values in late.items()}


def summary(late: dict[str, "np.ndarray[Any, Any]"]) -> dict[str, dict[str, float]]:
    """Return figures of each contestant in us, with its median over stock asyncio's and its mean
    over cyclictest's."""
    out: dict[str, dict[str, float]] = {}
    for name, ns in late.items():
        us = ns / 1e3
        out[name] = {
            "n": len(us),
            "median_us": float(np.median(us)),
            "p99_us": float(np.percentile(us, 99)),
            "max_us": float(us.max()),
            "mean_us": float(us.mean()),
            "early_share": float((ns < 0).mean()),
        }
    for row in out.values():
        row["median_over_asyncio"] = row["median_us"] / out[STOCK]["median_us"]
        if CYCLICTEST in out:
            row["mean_over_cyclictest"] = row["mean_us"] / out[CYCLICTEST]["mean_us"]
    return out


def verdicts(table: dict[str, dict[str, float]]) -> list[str]:
    """Return the conclusions as sentences."""
    mine, stock = table[OURS], table[STOCK]

    def against(name: str, key: str, word: str) -> str:
        ratio = table[name][key] / mine[key]
        better = f"{ratio:.1f}x better than" if ratio >= 1 else f"{1 / ratio:.1f}x worse than"
        return f"ours is {better} {name if name != STOCK else 'stock asyncio'} at the {word}"

    lines = [
        (
            f"{against(STOCK, 'median_us', 'median')} ({mine['median_us']:.0f} us, "
            f"{stock['median_us']:.0f} us); aim: at least 4x"
        ),
        against(STOCK, "p99_us", "99th percentile"),
    ]
    if "ours on trio" in table:
        ratio = table["trio"]["median_us"] / table["ours on trio"]["median_us"]
        lines.append(f"ours on trio is {ratio:.1f}x better than trio at the median")
    for name in (CYCLICTEST, "cyclictest, no slack"):
        if name in table:
            aim = "; aim: at most 2.5" if name == CYCLICTEST else ""
            lines.append(
                f"ours has {mine['mean_us'] / table[name]['mean_us']:.2f} times the mean "
                f"lateness of {name}{aim}"
            )
    early = [
        f"{name} ({row['early_share']:.0%})"
        for name, row in table.items()
        if row["early_share"] > 0
    ]
    if early:
        lines.append(f"woken before the release: {', '.join(early)}")
    return lines


COLUMNS = (
    ("median", "median_us", ".1f"),
    ("p99", "p99_us", ".1f"),
    ("max", "max_us", ".0f"),
    ("mean", "mean_us", ".1f"),
    ("early", "early_share", ".0%"),
    ("median/asyncio", "median_over_asyncio", ".2f"),
    ("mean/cyclictest", "mean_over_cyclictest", ".2f"),
)


def as_text(table: dict[str, dict[str, float]], absent: dict[str, str]) -> str:
    """Print the table, best median first."""
    lines = [
        f"{'lateness, us':<22}"
        + "".join(f"{head:>{len(head) + 2 if '/' in head else 10}}" for head, _, _ in COLUMNS)
    ]
    for name, row in sorted(table.items(), key=lambda item: item[1]["median_us"]):
        cells = [
            (format(row[key], form) if key in row else "-", head) for head, key, form in COLUMNS
        ]
        lines.append(
            f"{name:<22}"
            + "".join(f"{cell:>{len(head) + 2 if '/' in head else 10}}" for cell, head in cells)
        )
    return "\n".join(lines + [f"{name:<22}{why}" for name, why in absent.items()])


def plot(
    late: dict[str, "np.ndarray[Any, Any]"], table: dict[str, dict[str, float]], path: str
) -> None:
    """Plot distribution curves: the bulk left, the tail right."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    colours = {
        OURS: "#c1121f",
        "ours on trio": "#f08c00",
        STOCK: "#1864ab",
        "trio": "#4dabf7",
        "uvloop": "#7950f2",
        "time.sleep": "#2b8a3e",
    }
    colours |= {CYCLICTEST: "#000000", "cyclictest, no slack": "#868e96"}
    figure, (bulk, tail) = plt.subplots(1, 2, figsize=(13, 6), sharex=True, constrained_layout=True)
    for name, row in sorted(table.items(), key=lambda item: item[1]["median_us"]):
        # Wake-ups before the release have no place on a logarithmic axis: they stand at its left
        # end.
        us = np.sort(np.maximum(late[name] / 1e3, 1.0))
        share = np.arange(1, len(us) + 1) / len(us)
        early = f", {row['early_share']:.0%} early" if row["early_share"] else ""
        style: dict[str, Any] = {
            "color": colours.get(name),
            "lw": 2.6 if name == OURS else 1.6,
            "ls": "--" if CYCLICTEST in name else "-",
        }
        style["zorder"] = 3 if name == OURS else 2
        bulk.step(
            us,
            share,
            where="post",
            label=f"{name}: median {row['median_us']:.0f} us{early}",
            **style,
        )
        tail.step(us, 1.0 - share + 1.0 / len(us), where="pre", **style)
    bulk.set(
        xscale="log",
        ylabel="releases started by then",
        ylim=(0, 1.005),
        title="Bulk: share of releases started within a lateness",
    )
    tail.set(
        yscale="log",
        ylabel="releases still not started",
        title="Tail: share of releases later than that",
    )
    top = max(float(ns.max()) for ns in late.values()) / 1e3
    bulk.set_xlim(10 if all((ns > 10_000).all() for ns in late.values()) else 1, top * 1.2)
    bulk.yaxis.set_major_formatter(PercentFormatter(1.0))
    tail.yaxis.set_major_formatter(FuncFormatter(lambda y, _pos: f"{100 * y:g}%"))
    for axes in (bulk, tail):
        axes.set_xlabel("lateness of the start, us")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _pos: f"{x:,.0f}"))
        axes.grid(visible=True, which="major", color="#dee2e6", lw=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    figure.suptitle(
        f"Lateness of a {1e9 / PERIOD_NS:.0f} Hz task, {table[OURS]['n']:.0f} releases each, "
        f"{platform.platform(terse=True)}"
    )
    figure.savefig(path, dpi=130)


def main(argv: list[str] | None = None) -> int:
    """Run, print table and conclusions. Non-zero only if a contestant could not be run."""
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="measured time of each contestant (default 10)"
    )
    parser.add_argument(
        "--slice", type=float, default=1.0, help="length of one turn in seconds (default 1)"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="run only this contestant besides ours and asyncio; may be repeated",
    )
    parser.add_argument(
        "--fifo",
        type=int,
        metavar="PRIORITY",
        help="run everything at this real-time priority instead",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--plot", metavar="PNG", help="write the distribution curves to this file")
    options = parser.parse_args(argv)
    if options.seconds <= 0 or options.slice <= 0:
        parser.error("--seconds and --slice must be positive")
    if options.fifo is not None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.fifo))
        except (AttributeError, OSError) as error:
            print(
                f"--fifo {options.fifo}: {error}; run as root, or with 'ulimit -r {options.fifo}'",
                file=sys.stderr,
            )
            return 1
    field, absent = contestants(options.fifo)
    if options.only:
        if unknown := set(options.only) - set(field):
            parser.error(f"--only {', '.join(sorted(unknown))}: choose from {', '.join(field)}")
        field = {name: run for name, run in field.items() if name in {OURS, STOCK, *options.only}}
    try:
        late = measure(field, options.seconds, options.slice)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"could not run: {error}", file=sys.stderr)
        return 1
    table = summary(late)
    with PreciseSelector() as selector:
        precise, reason = selector.precise, selector.reason
    if options.json:
        host = {
            "platform": platform.platform(),
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "load": os.getloadavg(),
        }
        setting = {
            "period_ns": PERIOD_NS,
            "seconds": options.seconds,
            "slice_s": options.slice,
            "fifo": options.fifo,
            "precise": precise,
        }
        print(
            json.dumps(
                {
                    "host": host,
                    **setting,
                    "results": table,
                    "absent": absent,
                    "verdicts": verdicts(table),
                },
                indent=2,
            )
        )
    else:
        print(as_text(table, absent))
        print("\n" + "\n".join(verdicts(table)))
    if not precise:
        print(f"note: our loop is not precise here: {reason}", file=sys.stderr)
    if options.plot:
        plot(late, table, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
