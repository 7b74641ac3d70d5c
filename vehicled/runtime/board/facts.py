"""Settings of a board that can be read at once, each with a remedy if it is not as wanted. Changes
nothing."""

import hashlib
import os
import platform
import resource
import sys
from pathlib import Path

from vehicled.runtime import realtime
from vehicled.runtime.realtime import FIFO_PRIORITY, RealtimeSetting

HOT_C = 80.0
"""Temperature from which boards throttle, deg C."""
LOW_DISK_FRACTION = 0.05
"""Free fraction of the disk below which arming is refused."""
_READ_ONLY = realtime.RealtimeRequest(
    lock_memory=False,
    fifo_priority=None,
    timer_slack_ns=None,
    freeze_gc=False,
    switch_interval_s=None,
)
_STATE = ("CPU governor", "preemption", "clock source", "run delay")
"""Points of the real-time set-up that belong to the computer, not to the process."""
_SERVICE_HAS_IT = (
    "the service sets this; for a shell: echo '{who} - {what}' | sudo tee "
    "/etc/security/limits.d/{file}.conf, then log in again"
)
_THROTTLED = Path("/sys/devices/platform/soc/soc:firmware/get_throttled")
"""Throttling state of a Raspberry Pi: bits 0 to 3 for now, bits 16 to 19 for the time since
power-on."""


def identity() -> str:
    """Return the identity of this board: its serial number, else a hash of the system's machine id;
    may be empty."""
    serial = _read("/proc/device-tree/serial-number").strip("\0 \n")
    if serial:
        return serial
    machine = _read("/etc/machine-id")
    return hashlib.sha256(f"vehicled {machine}".encode()).hexdigest()[:12] if machine else ""


def model() -> str:
    """Return the model of this board."""
    return _read("/proc/device-tree/model").strip("\0 \n") or _cpu_model() or platform.machine()


def may_use_fifo(priority: int = FIFO_PRIORITY) -> bool:
    """Return True if this process may run its loop at real-time priority."""
    if not hasattr(os, "sched_setscheduler"):
        return False
    running = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    if running in (os.SCHED_FIFO, os.SCHED_RR):
        return True
    return realtime.capable(realtime.CAP_SYS_NICE) or _rtprio_limit() >= priority


def state(folder: Path) -> list[RealtimeSetting]:
    """Return all points; ``folder`` is that of the log."""
    rows = [row for row in realtime.setup(_READ_ONLY).rows if row.what in _STATE]
    return [
        _python(),
        _kernel(),
        *rows,
        _rt_limit(),
        _memory_limit(),
        _swap(),
        _heat(),
        _throttling(),
        _disk(folder),
    ]


def _python() -> RealtimeSetting:
    got = f"{platform.python_version()}, {64 if sys.maxsize > 2**32 else 32} bit"
    cure = (
        ""
        if sys.version_info >= (3, 11)
        else "vehicled service install provides one: see docs/service.md"
    )
    return RealtimeSetting("Python", "3.11 or newer", got, cure)


def _kernel() -> RealtimeSetting:
    return RealtimeSetting(
        "kernel",
        "Linux",
        f"{platform.system()} {platform.release()}",
        "" if sys.platform == "linux" else "run on Linux",
    )


def _rt_limit() -> RealtimeSetting:
    what, wanted = "RT priority", f"{FIFO_PRIORITY} allowed"
    limit = _rtprio_limit()
    if may_use_fifo():
        return RealtimeSetting(
            what, wanted, "any, by capability" if limit < FIFO_PRIORITY else f"up to {limit}"
        )
    cure = _SERVICE_HAS_IT.format(
        who="@vehicled", what=f"rtprio {FIFO_PRIORITY}", file="vehicled-rtprio"
    )
    return RealtimeSetting(what, wanted, f"up to {limit}", cure)


def _memory_limit() -> RealtimeSetting:
    what, wanted = "locked memory", "unlimited"
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit == resource.RLIM_INFINITY:
        return RealtimeSetting(what, wanted, "unlimited")
    if realtime.capable(realtime.CAP_IPC_LOCK):
        return RealtimeSetting(what, wanted, "unlimited, by capability")
    cure = _SERVICE_HAS_IT.format(
        who="@vehicled", what="memlock unlimited", file="vehicled-memlock"
    )
    return RealtimeSetting(what, wanted, f"{limit // 1024} kB", cure)


def _swap() -> RealtimeSetting:
    lines = _read("/proc/swaps").splitlines()[1:]
    on_disk = [
        line.split()[0] for line in lines if not Path(line.split()[0]).name.startswith("zram")
    ]
    cure = (
        (
            "harmless while memory is locked, as by the service; otherwise: sudo swapoff "
            f"{on_disk[0]}"
        )
        if on_disk
        else ""
    )
    return RealtimeSetting(
        "swap", "none on disk", ", ".join(line.split()[0] for line in lines) or "none", cure
    )


def _heat() -> RealtimeSetting:
    found = []
    for zone in Path("/sys/class/thermal").glob("thermal_zone*"):
        value = _read(str(zone / "temp"))
        if value.lstrip("-").isdigit():
            found.append((int(value) / 1000.0, _read(str(zone / "type")) or zone.name))
    if not found:
        return RealtimeSetting("temperature", f"below {HOT_C:.0f} C", "not reported by this system")
    hottest, where = max(found)
    cure = f"cool the board: processors slow down from {HOT_C:.0f} C" if hottest >= HOT_C else ""
    return RealtimeSetting(
        "temperature", f"below {HOT_C:.0f} C", f"{hottest:.0f} C ({where})", cure
    )


def _throttling() -> RealtimeSetting:
    what, wanted = "throttling", "never"
    register = _read(str(_THROTTLED))
    if register:
        bits = int(register, 16)
        undervoltage = bool(bits & 0x1_0001)
        reading = {0: "never"}.get(
            bits, ("now" if bits & 0xF else "since power-on") + f" (0x{bits:x})"
        )
        cure = (
            "use the manufacturer's power supply and a short cable"
            if undervoltage
            else "cool the board"
        )
        return RealtimeSetting(what, wanted, reading, cure if bits else "")
    slowed = [
        zone.parent.name
        for zone in Path("/sys/class/thermal").glob("cooling_device*/cur_state")
        if _read(str(zone)) not in ("", "0")
        and _read(str(zone.parent / "type"))
        .lower()
        .startswith(("processor", "cpu", "thermal-cpufreq"))
    ]
    return RealtimeSetting(
        what,
        wanted,
        f"now, by {', '.join(slowed)}" if slowed else "not now",
        "cool the board" if slowed else "",
    )


def _disk(folder: Path) -> RealtimeSetting:
    what, wanted = "disk of the log", f"{LOW_DISK_FRACTION:.0%} free"
    place = existing(folder)
    try:
        disk = os.statvfs(place)
    except OSError as error:
        return RealtimeSetting(
            what, wanted, f"{place}: {error.strerror}", "choose another log.folder in the profile"
        )
    free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0
    got = f"{free:.0%} free, {disk.f_bavail * disk.f_frsize / 1e9:.1f} GB"
    return RealtimeSetting(
        what,
        wanted,
        got,
        "" if free >= LOW_DISK_FRACTION else f"free space in {place}, or lower log.quota_mb",
    )


def existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _rtprio_limit() -> int:
    limit: int = (
        resource.getrlimit(resource.RLIMIT_RTPRIO)[0] if hasattr(resource, "RLIMIT_RTPRIO") else 0
    )
    return 99 if limit == resource.RLIM_INFINITY else limit


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
