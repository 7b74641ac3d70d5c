"""Rates that a board can sustain according to its measurements, and the comparison with a profile.

Rules for a board with wake-up lateness ``p99`` (99 %) and ``max``:

1. Four ``p99`` must fit into the period and into the deadline of a task: at most a quarter of the
   time is lost to waking.
2. ``max`` may be half of ``limits.estimate_silence_s``, the age of the estimate at which the
   vehicle brakes.
3. Two serial round trips (99 %) must fit into the period of a device on a serial port.
4. A write to the log's disk with fsync may take ``DISK_STALL_S``.

Rules 1 to 3 prevent arming. Rule 4 is only a warning, because the log writer is a separate process
with a bounded backlog.
"""

from msgspec import Struct, structs

from vehicled.profile.schema import Profile
from vehicled.runtime.board.measure import BoardMeasurements, TimeSpread

FRACTION_OF_PERIOD = 4
FRACTION_OF_SILENCE = 2
TRIPS_PER_PERIOD = 2
DISK_STALL_S = 2.0
MAX_CLAIM_HZ = 1000
"""Highest rate that is judged, Hz."""


class BoardCalibration(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Calibration of one board: the measurements and the rates derived from them."""

    board: str
    """Identity of the board."""
    kernel: str = ""
    measured: str = ""
    """Date of the measurement, as text."""
    fifo: bool = False
    """True if measured at real-time priority."""
    lateness_p99_ns: int = 0
    lateness_max_ns: int = 0
    round_trip_p99_ns: int = 0
    """Serial round trip (99 %), ns; 0 if not measured."""
    disk_max_ns: int = 0
    """Longest disk write, ns; 0 if not measured."""

    @property
    def task_hz(self) -> int:
        """Highest sustainable rate of a task, Hz."""
        return _rate(FRACTION_OF_PERIOD * self.lateness_p99_ns)

    @property
    def serial_hz(self) -> int:
        """Highest sustainable rate of a device on a serial port, Hz."""
        return _rate(TRIPS_PER_PERIOD * self.round_trip_p99_ns)


class Shortfall(Struct, frozen=True):
    """Requirement of a profile that the board does not meet."""

    what: str
    asked: str
    measured: str
    cure: str
    refuses: bool = True

    def __str__(self) -> str:
        return (
            f"{self.what}: the profile needs {self.asked}, this board has {self.measured}: "
            f"{self.cure}"
        )


def claim(
    measured: BoardMeasurements, *, board: str, kernel: str = "", when: str = ""
) -> BoardCalibration | None:
    """Return the calibration from the lateness at real-time priority, else at ordinary priority;
    None if neither was measured."""
    fifo = measured.worst(fifo=True) is not None
    late = measured.worst(fifo=fifo)
    if late is None:
        return None
    return BoardCalibration(
        board=board,
        kernel=kernel,
        measured=when,
        fifo=fifo,
        lateness_p99_ns=late.p99_ns,
        lateness_max_ns=late.max_ns,
        round_trip_p99_ns=_p99(measured.round_trip),
        disk_max_ns=0 if measured.disk is None else measured.disk.max_ns,
    )


def judge(profile: Profile, found: BoardCalibration) -> list[Shortfall]:
    """Return the shortfalls of the board for a profile, most severe first."""
    shortfalls = []
    cure = _cure(found)
    need_ns = FRACTION_OF_PERIOD * found.lateness_p99_ns
    late = f"wake-up lateness {found.lateness_p99_ns / 1e6:.2f} ms (99 %)"
    for name, task in structs.asdict(profile.tasks).items():
        if need_ns > 1e9 / task.rate_hz:
            text = f"{late}, enough for {found.task_hz} Hz"
            shortfalls.append(
                Shortfall(f"tasks.{name}.rate_hz", f"{task.rate_hz:g} Hz", text, cure)
            )
        elif need_ns > task.deadline_ms * 1e6:
            text = f"{late}, enough for a deadline of {need_ns / 1e6:.1f} ms"
            shortfalls.append(
                Shortfall(f"tasks.{name}.deadline_ms", f"{task.deadline_ms:g} ms", text, cure)
            )
    silence_s = profile.limits.estimate_silence_s
    if FRACTION_OF_SILENCE * found.lateness_max_ns > silence_s * 1e9:
        text = f"wake-up lateness {found.lateness_max_ns / 1e6:.1f} ms (max)"
        shortfalls.append(
            Shortfall("limits.estimate_silence_s", f"{silence_s * 1e3:g} ms", text, cure)
        )
    for name, device in profile.devices.items():
        rate_hz = device.rate_hz if device.port.startswith("serial:") else None
        if rate_hz and TRIPS_PER_PERIOD * found.round_trip_p99_ns > 1e9 / rate_hz:
            text = (
                f"a serial round trip of {found.round_trip_p99_ns / 1e6:.2f} ms (99 %), enough "
                f"for {found.serial_hz} Hz"
            )
            shortfalls.append(Shortfall(f"devices.{name}.rate_hz", f"{rate_hz:g} Hz", text, cure))
    if found.disk_max_ns > DISK_STALL_S * 1e9:
        shortfalls.append(
            Shortfall(
                "log.folder",
                f"disk writes within {DISK_STALL_S:g} s",
                f"one write of {found.disk_max_ns / 1e9:.1f} s",
                "put log.folder on an SSD or a faster card",
                refuses=False,
            )
        )
    return shortfalls


def _cure(found: BoardCalibration) -> str:
    if not found.fifo:
        return (
            "measure at real-time priority (sudo vehicled doctor), which the service uses; or "
            "lower the value in the profile"
        )
    return (
        "follow the advice of 'vehicled doctor' for this board, stop other programs, or lower "
        "the value in the profile"
    )


def _rate(period_ns: int) -> int:
    return MAX_CLAIM_HZ if period_ns <= 0 else min(MAX_CLAIM_HZ, 1_000_000_000 // period_ns)


def _p99(spread: TimeSpread | None) -> int:
    return 0 if spread is None else spread.p99_ns
