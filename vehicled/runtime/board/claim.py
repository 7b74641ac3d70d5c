"""The rates that a board may claim, by what was measured on it, and whether a profile asks for more.

The rule, for a board on which 99 of 100 wake-ups are at most ``p99`` late and the latest is ``max`` late:

1. A task may have a rate and a deadline as long as four ``p99`` fit into its period, and into its deadline: at most a quarter of
   the time is lost to waking, the rest is for the task and for those that are due before it.
2. ``max`` may be half of ``limits.estimate_silence_s``, the age of the estimate at which the vehicle is braked.
3. A device on a serial port may have a rate as long as two round trips (99 of 100) fit into its period.
4. A write to the disk of the log, with fsync, may take ``DISK_STALL_S``.

1 to 3 refuse; 4 is told, for the log's writer is a process of its own and its backlog has a limit of its own.
"""

from msgspec import Struct, structs

from vehicled.profile.schema import Profile
from vehicled.runtime.board.measure import Measured, Spread

SHARE_OF_PERIOD = 4
SHARE_OF_SILENCE = 2
TRIPS_PER_PERIOD = 2
DISK_STALL_S = 2.0
MAX_CLAIM_HZ = 1000
"""The highest rate that anything is claimed for."""


class Claim(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What one board was measured to keep; the calibration that is stored."""

    board: str
    """Identity of the board."""
    kernel: str = ""
    measured: str = ""
    """When, as text."""
    fifo: bool = False
    """At real-time priority; without one the claim is that of an ordinary process."""
    lateness_p99_ns: int = 0
    lateness_max_ns: int = 0
    round_trip_p99_ns: int = 0
    """0 where it could not be measured."""
    disk_max_ns: int = 0
    """0 where it could not be measured."""

    @property
    def task_hz(self) -> int:
        """Highest rate of a task."""
        return _rate(SHARE_OF_PERIOD * self.lateness_p99_ns)

    @property
    def serial_hz(self) -> int:
        """Highest rate of a device on a serial port."""
        return _rate(TRIPS_PER_PERIOD * self.round_trip_p99_ns)


class Shortfall(Struct, frozen=True):
    """Something that a profile asks for and the board was not seen to keep."""

    what: str
    asked: str
    measured: str
    cure: str
    refuses: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.asked} asked for, {self.measured} measured on this board: {self.cure}"


def claim(measured: Measured, *, board: str, kernel: str = "", when: str = "") -> Claim | None:
    """By the lateness at real-time priority where it was measured, else without; None when there is none at all."""
    fifo = measured.worst(fifo=True) is not None
    late = measured.worst(fifo=fifo)
    if late is None:
        return None
    return Claim(
        board=board,
        kernel=kernel,
        measured=when,
        fifo=fifo,
        lateness_p99_ns=late.p99_ns,
        lateness_max_ns=late.max_ns,
        round_trip_p99_ns=_p99(measured.round_trip),
        disk_max_ns=0 if measured.disk is None else measured.disk.max_ns,
    )


def judge(profile: Profile, found: Claim) -> list[Shortfall]:
    """What the profile asks for beyond the claim, the weightiest first; empty when the board keeps all of it."""
    shortfalls = []
    cure = _cure(found)
    need_ns = SHARE_OF_PERIOD * found.lateness_p99_ns
    late = f"wake-ups up to {found.lateness_p99_ns / 1e6:.2f} ms late (99 %)"
    for name, task in structs.asdict(profile.tasks).items():
        if need_ns > 1e9 / task.rate_hz:
            text = f"{late}, good for {found.task_hz} Hz,"
            shortfalls.append(Shortfall(f"tasks.{name}.rate_hz", f"{task.rate_hz:g} Hz", text, cure))
        elif need_ns > task.deadline_ms * 1e6:
            text = f"{late}, good for a deadline of {need_ns / 1e6:.1f} ms,"
            shortfalls.append(Shortfall(f"tasks.{name}.deadline_ms", f"{task.deadline_ms:g} ms", text, cure))
    silence_s = profile.limits.estimate_silence_s
    if SHARE_OF_SILENCE * found.lateness_max_ns > silence_s * 1e9:
        text = f"a wake-up {found.lateness_max_ns / 1e6:.1f} ms late"
        shortfalls.append(Shortfall("limits.estimate_silence_s", f"{silence_s * 1e3:g} ms", text, cure))
    for name, device in profile.devices.items():
        rate_hz = device.rate_hz if device.port.startswith("serial:") else None
        if rate_hz and TRIPS_PER_PERIOD * found.round_trip_p99_ns > 1e9 / rate_hz:
            text = f"serial round trips up to {found.round_trip_p99_ns / 1e6:.2f} ms (99 %), good for {found.serial_hz} Hz,"
            shortfalls.append(Shortfall(f"devices.{name}.rate_hz", f"{rate_hz:g} Hz", text, cure))
    if found.disk_max_ns > DISK_STALL_S * 1e9:
        shortfalls.append(
            Shortfall(
                "log.folder",
                f"writes within {DISK_STALL_S:g} s",
                f"one of {found.disk_max_ns / 1e9:.1f} s",
                "put log.folder on an SSD, or take a faster card",
                refuses=False,
            )
        )
    return shortfalls


def _cure(found: Claim) -> str:
    if not found.fifo:
        return "measure at real-time priority (sudo vehicled doctor), as the service runs; or lower it in the profile"
    return (
        "see the cures of 'vehicled doctor' for this board (governor, preemption), end other programs, or lower it in the profile"
    )


def _rate(period_ns: int) -> int:
    return MAX_CLAIM_HZ if period_ns <= 0 else min(MAX_CLAIM_HZ, 1_000_000_000 // period_ns)


def _p99(spread: Spread | None) -> int:
    return 0 if spread is None else spread.p99_ns
