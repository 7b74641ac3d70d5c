"""Health readings of the vehicle's computer, once a second: disk, memory, processors, temperature,
clocks."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio

from vehicled.core.messages import NAN, HostHealth
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.observers import Observers, boundary

PERIOD_S = 1.0
READ_TIMEOUT_S = 5.0
"""Timeout of the readings, s; then the log counts as failing, because its disk may hang."""
CLOCK_NOISE_S = 0.05
"""Largest clock change that counts as normal clock discipline, s."""


class LogHealth(NamedTuple):
    """State of the log writer."""

    backlog_share: float = 0.0
    dropped: int = 0
    failure: str = ""
    loss: str = ""


class _Processors(NamedTuple):
    busy: int
    total: int


class HealthSampler:
    """Reads ``/proc`` and ``/sys``; values that the system does not offer are NaN."""

    def __init__(
        self,
        folder: Path,
        log: Callable[[], LogHealth] = LogHealth,
        observers: Observers | None = None,
    ) -> None:
        """Take the ``folder`` of the log. ``observers`` counts readings that failed."""
        self._observers = observers or Observers()
        self._folder = folder
        self._log = log
        self._zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
        self._throttles = sorted(Path("/sys/class/thermal").glob("cooling_device*/cur_state"))
        self._cpu = _processors()
        self._offset_ns, self._asleep_ns = _clock_offset_ns(), _asleep_ns()

    @boundary
    async def serve(self, report: Callable[[HostHealth], None]) -> None:
        """Report a reading every second until cancelled. One that fails is left out."""
        while True:
            await anyio.sleep(PERIOD_S)
            try:
                health = await self.read()
            except Exception as error:  # noqa: BLE001 - such as a thread that cannot be started; the drive goes on
                self._observers.failed("host health", error, lasting=True)
            else:
                report(health)

    async def read(self) -> HostHealth:
        """Take a reading. Files are read in a thread, because a hanging disk must not block the
        loop."""
        slow = (NAN, NAN, NAN, False)
        with anyio.move_on_after(READ_TIMEOUT_S) as scope:
            slow = await anyio.to_thread.run_sync(self._files, abandon_on_cancel=True)
        disk, memory, temperature, throttled = slow
        offset_ns, asleep_ns = _clock_offset_ns(), _asleep_ns()
        # A suspend moves the wall clock against the monotonic one, too, so it must be subtracted to
        # find a step.
        slept_s = (asleep_ns - self._asleep_ns) * 1e-9
        step_s = (offset_ns - self._offset_ns) * 1e-9 - slept_s
        self._offset_ns, self._asleep_ns = offset_ns, asleep_ns
        before, self._cpu = self._cpu, _processors()
        ticks = self._cpu.total - before.total
        log = self._log()
        return HostHealth(
            time.monotonic_ns(),
            disk,
            memory,
            (self._cpu.busy - before.busy) / ticks if ticks > 0 else NAN,
            temperature,
            throttled,
            step_s if abs(step_s) > CLOCK_NOISE_S else 0.0,
            slept_s if slept_s > CLOCK_NOISE_S else 0.0,
            log.backlog_share,
            log.dropped,
            log.failure,
            time.time(),
            log.loss,
            READ_TIMEOUT_S if scope.cancelled_caught else 0.0,
        )

    def _files(self) -> tuple[float, float, float, bool]:
        temperatures = [value for zone in self._zones if (value := _number(zone)) is not None]
        hottest_k = max(temperatures) / 1000.0 + ZERO_CELSIUS_K if temperatures else NAN
        throttled = any(
            (_number(device) or 0) > 0 for device in self._throttles if _is_processor(device)
        )
        return self._disk(), _memory(), hottest_k, throttled

    def _disk(self) -> float:
        place = self._folder
        while not place.exists() and place != place.parent:
            place = place.parent
        try:
            disk = os.statvfs(place)
        except OSError:
            return NAN
        return disk.f_bavail / disk.f_blocks if disk.f_blocks else NAN


def _clock_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _asleep_ns() -> int:
    """Return the time asleep since boot: the boot clock continues while the monotonic one stands
    still."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _is_processor(state: Path) -> bool:
    try:
        return (
            (state.parent / "type")
            .read_text()
            .strip()
            .lower()
            .startswith(("processor", "cpu", "thermal-cpufreq"))
        )
    except OSError:
        return False


def _memory() -> float:
    fields: dict[str, float] = {}
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines()[:4]:
            name, _, rest = line.partition(":")
            fields[name] = float(rest.split()[0])
    return (
        fields["MemAvailable"] / fields["MemTotal"]
        if "MemAvailable" in fields and fields.get("MemTotal")
        else NAN
    )


def _processors() -> _Processors:
    with suppress(OSError, ValueError, IndexError):
        values = [
            int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ]
        # The fourth and fifth values are idle time and disk wait.
        return _Processors(sum(values) - values[3] - values[4], sum(values))
    return _Processors(0, 0)
