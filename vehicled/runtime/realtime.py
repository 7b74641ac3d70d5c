"""Real-time set-up of the process: applies everything permitted and reports each point with a
remedy.

Never raises, because a laptop without real-time privileges must run, too. A setting that is not
available in full is left unchanged, and its row says so.
"""

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
CAP_IPC_LOCK, CAP_SYS_NICE = 14, 23
AS_IT_IS = "as it is"
RUN_ON_LINUX = "run on Linux"
FROZEN_AT_START = gc.get_freeze_count()
"""Objects that the interpreter itself keeps from the garbage collector. If there are more, the
program has frozen its own."""
FIFO_PRIORITY = 40
"""Real-time priority of the loop, as in the systemd unit."""
BLAS_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class RealtimeRequest(Struct, frozen=True, kw_only=True):
    """Wanted settings. None or False leaves a setting unchanged and only reports it."""

    lock_memory: bool = True
    fifo_priority: int | None = FIFO_PRIORITY
    """Real-time priority, 1 to 99. Interrupt threads of the kernel run at 50; from there on they
    would have to wait for the loop.
    """
    timer_slack_ns: int | None = 1
    freeze_gc: bool = True
    collect: bool = True
    """Collect the garbage before and after the freeze, so that no collection is due soon."""
    switch_interval_s: float | None = 5e-4
    cpus: tuple[int, ...] | None = None
    """Processors to run on."""


class RealtimeSetting(Struct, frozen=True):
    """One setting of the report; ``cure`` is empty if it is as wanted."""

    what: str
    wanted: str
    got: str
    cure: str = ""

    @property
    def ok(self) -> bool:
        """True if the setting is as wanted."""
        return not self.cure


class RealtimeReport(Struct, frozen=True):
    """Result of the real-time set-up."""

    rows: tuple[RealtimeSetting, ...]

    @property
    def ok(self) -> bool:
        """True if all settings are as wanted."""
        return all(row.ok for row in self.rows)

    def as_dict(self) -> dict[str, str]:
        """Return the settings by name, for the header of a log."""
        return {
            row.what: row.got if row.ok else f"{row.got} (wanted: {row.wanted})"
            for row in self.rows
        }

    def to_text(self) -> str:
        """Return a table, with the remedy below each setting that is not as wanted."""
        what, wanted = (
            max([len(getattr(row, name)) for row in self.rows], default=0)
            for name in ("what", "wanted")
        )
        lines = []
        for row in self.rows:
            lines.append(
                (
                    f"{'ok' if row.ok else 'NO':<3}{row.what:<{what}}  {row.wanted:<{wanted}}  "
                    f"{row.got}"
                ).rstrip()
            )
            if row.cure:
                lines.append(f"   {'':<{what}}  -> {row.cure}")
        return "\n".join(lines)


def setup(request: RealtimeRequest | None = None) -> RealtimeReport:
    """Set the process up and report.

    Call it on the thread of the loop after everything is built and before the first tick, because
    existing objects are then excluded from garbage collection.
    """
    request = request or RealtimeRequest()
    points: tuple[tuple[str, Callable[[], RealtimeSetting]], ...] = (
        ("memory", lambda: _memory(request)),
        ("scheduling", lambda: _scheduling(request)),
        ("timer slack", lambda: _timer_slack(request)),
        ("garbage collector", lambda: _garbage_collector(request)),
        ("switch interval", lambda: _switch_interval(request)),
        ("processors", lambda: _affinity(request)),
        ("BLAS threads", _blas),
        ("CPU governor", _governor),
        ("preemption", _preemption),
        ("clock source", _clock_source),
        ("run delay", _run_delay),
    )
    rows = []
    for what, check in points:
        try:
            rows.append(check())
        except Exception as error:  # noqa: BLE001 - a point that cannot be had is a row of the report, whatever the reason
            rows.append(
                RealtimeSetting(
                    what, "-", f"{type(error).__name__}: {error}", "not possible on this system"
                )
            )
    return RealtimeReport(tuple(rows))


class LoopPriority:
    """Real-time priority of the loop, which is in force only while the loop runs. Imports, set-up
    and the end of a run would take the processor from everything else for seconds, until the kernel
    takes it away ("RT throttling activated").
    """

    def __init__(self) -> None:
        """Note the ordinary priority: call it before :func:`setup`, and :meth:`set_aside` after
        it."""
        self._ordinary = self._loop = _scheduler()

    def set_aside(self) -> None:
        """Return to the ordinary priority until the loop begins."""
        self._loop = _scheduler()
        _schedule(self._ordinary)

    def __enter__(self) -> None:
        _schedule(self._loop)

    def __exit__(self, *_: object) -> None:
        _schedule(self._ordinary)


def _scheduler() -> tuple[int, int] | None:
    """Return policy and priority; None if the system has none."""
    if not hasattr(os, "sched_getscheduler"):
        return None
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def _schedule(wanted: tuple[int, int] | None) -> None:
    if wanted is not None and wanted != (present := _scheduler()) and present is not None:
        policy, priority = wanted
        # Without privileges the flag cannot be taken away again.
        os.sched_setscheduler(
            0, policy | present[0] & os.SCHED_RESET_ON_FORK, os.sched_param(priority)
        )


def _memory(request: RealtimeRequest) -> RealtimeSetting:
    what = "memory"
    if not request.lock_memory:
        return RealtimeSetting(what, AS_IT_IS, f"{_status_kb('VmLck')} kB locked")
    wanted = "locked as touched"
    libc = _libc("mlockall")
    if libc is None:
        return RealtimeSetting(
            what, wanted, f"not locked: no mlockall on {sys.platform}", RUN_ON_LINUX
        )
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit != resource.RLIM_INFINITY and not capable(CAP_IPC_LOCK):
        # Under a limit the call may succeed and a later allocation fail in mid-drive.
        cure = (
            "LimitMEMLOCK=infinity in the systemd unit, or 'memlock unlimited' in "
            "/etc/security/limits.conf"
        )
        return RealtimeSetting(what, wanted, f"not locked: the limit is {limit // 1024} kB", cure)
    # Without ONFAULT every mapping becomes resident in full, with stacks and BLAS arenas: hundreds
    # of megabytes.
    if libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT):
        return RealtimeSetting(
            what,
            wanted,
            f"not locked: {os.strerror(ctypes.get_errno())}",
            "needs Linux 4.4 and CAP_IPC_LOCK",
        )
    return RealtimeSetting(what, wanted, f"locked as touched, {_status_kb('VmRSS')} kB resident")


def _scheduling(request: RealtimeRequest) -> RealtimeSetting:
    what, priority = "scheduling", request.fifo_priority
    wanted = AS_IT_IS if priority is None else f"fifo {priority}"
    if not hasattr(os, "sched_setscheduler"):
        return RealtimeSetting(
            what,
            wanted,
            f"no real-time classes on {sys.platform}",
            "" if priority is None else RUN_ON_LINUX,
        )
    if priority is None:
        return RealtimeSetting(what, wanted, _policy())
    try:
        # Reset on fork, so that helper threads and the log writer do not compete with the loop.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError as error:
        cure = (
            f"LimitRTPRIO={priority} in the systemd unit, or 'rtprio {priority}' in "
            "/etc/security/limits.conf"
        )
        return RealtimeSetting(what, wanted, f"{_policy()}: {error.strerror}", cure)
    throttle = _read("/proc/sys/kernel/sched_rt_runtime_us")
    return RealtimeSetting(
        what,
        wanted,
        _policy()
        + (", never throttled: a runaway loop freezes its processor" if throttle == "-1" else ""),
    )


def _timer_slack(request: RealtimeRequest) -> RealtimeSetting:
    what, slack_ns = "timer slack", request.timer_slack_ns
    wanted = AS_IT_IS if slack_ns is None else f"{slack_ns} ns"
    libc = _libc("prctl") if sys.platform == "linux" else None
    if libc is None:
        return RealtimeSetting(
            what,
            wanted,
            f"not settable on {sys.platform}",
            "" if slack_ns is None else RUN_ON_LINUX,
        )
    if slack_ns is not None:
        libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), 0, 0, 0)
    got_ns = libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    if got_ns == 0:
        return RealtimeSetting(what, wanted, "0 ns: a real-time thread has none")
    return RealtimeSetting(
        what,
        wanted,
        f"{got_ns} ns",
        "the kernel refused: see prctl(2)" if slack_ns not in (None, got_ns) else "",
    )


def _garbage_collector(request: RealtimeRequest) -> RealtimeSetting:
    if request.freeze_gc:
        if request.collect:
            gc.collect()
        gc.freeze()
        if request.collect:
            # The threshold of a full collection depends on the survivors of the last one; a
            # collection on an empty heap keeps later ones short.
            gc.collect()
    # Counting takes milliseconds, as a collection does.
    frozen = f"{gc.get_freeze_count()} objects frozen" if request.collect else "frozen"
    got = f"{frozen}, collector {'on' if gc.isenabled() else 'off'}"
    return RealtimeSetting(
        "garbage collector", "set-up frozen" if request.freeze_gc else AS_IT_IS, got
    )


def _switch_interval(request: RealtimeRequest) -> RealtimeSetting:
    interval_s = request.switch_interval_s
    if interval_s is not None:
        sys.setswitchinterval(interval_s)
    wanted = AS_IT_IS if interval_s is None else f"{interval_s * 1e3:g} ms"
    return RealtimeSetting("switch interval", wanted, f"{sys.getswitchinterval() * 1e3:g} ms")


def _affinity(request: RealtimeRequest) -> RealtimeSetting:
    what, cpus = "processors", request.cpus
    wanted = "any" if cpus is None else _numbers(cpus)
    if not hasattr(os, "sched_setaffinity"):
        return RealtimeSetting(
            what, wanted, f"no affinity on {sys.platform}", "" if cpus is None else RUN_ON_LINUX
        )
    if cpus is None:
        isolated = _read("/sys/devices/system/cpu/isolated")
        return RealtimeSetting(
            what,
            wanted,
            _numbers(os.sched_getaffinity(0)) + (f"; isolated: {isolated}" if isolated else ""),
        )
    before = os.sched_getaffinity(0)
    cure = (
        "choose processors that are online and permitted for this process (AllowedCPUs= of the "
        "unit)"
    )
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, ValueError, OverflowError) as error:
        return RealtimeSetting(what, wanted, f"{_numbers(before)}: {error}", cure)
    got = os.sched_getaffinity(0)
    if got == set(cpus):
        return RealtimeSetting(what, wanted, _numbers(got))
    # The kernel silently leaves out missing processors, so restore the old set if any is missing.
    os.sched_setaffinity(0, before)
    return RealtimeSetting(
        what, wanted, f"{_numbers(before)}: only {_numbers(got)} of these are available", cure
    )


def _blas() -> RealtimeSetting:
    what, wanted = "BLAS threads", "1"
    if "numpy" not in sys.modules:
        unset = [name for name in BLAS_VARIABLES if os.environ.get(name) != "1"]
        if not unset:
            return RealtimeSetting(what, wanted, "1 requested, numpy not loaded yet")
        return RealtimeSetting(
            what,
            wanted,
            f"numpy not loaded yet, {unset[0]} is not 1",
            f"set {unset[0]}=1 before the start",
        )
    # The number requested at import is unknown by now, so count the threads of the pool, which is
    # created at import.
    cure = "set OPENBLAS_NUM_THREADS=1 in the unit, or before the start"
    native = _native_threads()
    if native is None:
        asked = os.environ.get("OPENBLAS_NUM_THREADS", "default")
        return RealtimeSetting(
            what,
            wanted,
            f"{asked} requested; threads cannot be counted",
            "" if asked == "1" else cure,
        )
    return RealtimeSetting(
        what,
        wanted,
        f"1 and {native} that Python did not start" if native else "1",
        cure if native else "",
    )


def _governor() -> RealtimeSetting:
    what, wanted = "CPU governor", "performance"
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    found = {
        _read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus
    } - {""}
    if not found:
        return RealtimeSetting(what, wanted, "none: the clock is not governed by this system")
    cure = (
        ""
        if found == {wanted}
        else "cpupower frequency-set -g performance (on a Jetson: jetson_clocks)"
    )
    return RealtimeSetting(what, wanted, ", ".join(sorted(found)), cure)


def _preemption() -> RealtimeSetting:
    what, wanted = "preemption", "full or PREEMPT_RT"
    version = os.uname().version
    if _read("/sys/kernel/realtime") == "1" or "PREEMPT_RT" in version.replace(
        "PREEMPT RT", "PREEMPT_RT"
    ):
        return RealtimeSetting(what, wanted, "PREEMPT_RT")
    # The file marks the active mode, "none voluntary (full)", and is readable only by root.
    modes = _read("/sys/kernel/debug/sched/preempt")
    current = modes[modes.find("(") + 1 : modes.find(")")] if "(" in modes else ""
    if "PREEMPT_DYNAMIC" in version:
        if not current:
            return RealtimeSetting(what, wanted, "dynamic, mode not readable")
        return RealtimeSetting(
            what,
            wanted,
            f"dynamic, {current}",
            "" if current in ("full", "lazy") else "boot with preempt=full",
        )
    if "PREEMPT_VOLUNTARY" not in version and "PREEMPT" in version:
        return RealtimeSetting(what, wanted, "full")
    got = "voluntary or none" if sys.platform == "linux" else f"unknown on {sys.platform}"
    return RealtimeSetting(what, wanted, got, "use a kernel with CONFIG_PREEMPT, best PREEMPT_RT")


def _clock_source() -> RealtimeSetting:
    got = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    # These are read through a system call and, on PCs, slow hardware: 1 us and more per reading.
    slow = got in ("hpet", "acpi_pm", "jiffies", "refined-jiffies")
    return RealtimeSetting(
        "clock source",
        "fast",
        got or "unknown",
        "boot with tsc=reliable if the processor's TSC is sound" if slow else "",
    )


def _run_delay() -> RealtimeSetting:
    # The first value is the thread's run time: it is 0 without statistics.
    kept = (_read("/proc/thread-self/schedstat") or "0").split()[0] != "0"
    cure = (
        ""
        if kept
        else (
            "use a kernel with CONFIG_SCHEDSTATS: a miss by preemption may be named blocked or "
            "wake_up without"
        )
    )
    return RealtimeSetting("run delay", "recorded", "recorded" if kept else "not recorded", cure)


def _libc(function: str) -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
    return libc if hasattr(libc, function) else None


def _policy() -> str:
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    names = {
        os.SCHED_OTHER: "other",
        os.SCHED_FIFO: "fifo",
        os.SCHED_RR: "rr",
        os.SCHED_BATCH: "batch",
        os.SCHED_IDLE: "idle",
    }
    name = names.get(policy, f"policy {policy}")
    return (
        f"{name} {os.sched_getparam(0).sched_priority}"
        if policy in (os.SCHED_FIFO, os.SCHED_RR)
        else name
    )


def capable(capability: int) -> bool:
    """Return True if this process has a capability of ``linux/capability.h``, by number."""
    effective = _status("CapEff")
    return bool(effective) and bool(int(effective, 16) >> capability & 1)


def _status_kb(name: str) -> int:
    value = _status(name)
    return int(value.split()[0]) if value else 0


def _status(name: str) -> str:
    for line in _read("/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _native_threads() -> int | None:
    """Return the number of threads that Python did not start; None if they cannot be counted."""
    try:
        return max(0, len(os.listdir("/proc/self/task")) - threading.active_count())
    except OSError:
        return None


def _numbers(cpus: "set[int] | tuple[int, ...]") -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
