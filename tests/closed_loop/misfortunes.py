"""Failures that may happen to a drive, as text in the syntax of ``--fail``, and seeded pairs of
them at bad moments.

Devices break as ``sim_backend.emulators.failures`` has it. Four ports more that no vehicle has
stand for the rest of the world: ``asks`` is the operator, ``says`` utters messages that no sound
device would, ``spoils`` are mistakes in the tasks, and ``host`` is the computer and its link to the
ground.
"""

from collections.abc import Sequence
from enum import Enum
from random import Random

from msgspec import Struct

from sim_backend.emulators.failures import Failure, parse_failure

VESC_ONLY = (
    "drive:fault=4", "drive:slip=1", "drive:slip=-0.6", "drive:heat=360", "drive:heat=375",
    "drive:battery=9.7", "drive:battery=8.5", "says:motor_nan", "says:motor_huge",
)  # fmt: skip
WIRES_ONLY = ("gnss:jamming", "gnss:spoofing", "imu:baud=9600")
DEVICES = (
    "gnss:off", "gnss:stuck", "gnss:garbage", "gnss:wrong", "gnss:slow=8", "gnss:delayed=0.6",
    "gnss:intermittent", "gnss:usb", "gnss:brownout", "gnss:no_fix", "gnss:cold_start",
    "gnss:float", "gnss:multipath", "gnss:multipath=5", "heading:off", "heading:stuck",
    "heading:garbage", "heading:wrong=0.5", "heading:delayed=0.6", "heading:intermittent",
    "imu:off", "imu:stuck", "imu:garbage", "imu:wrong=0.5", "imu:slow=40", "imu:delayed=0.3",
    "imu:intermittent", "imu:usb", "imu:brownout", "imu:saturation", "drive:off", "drive:stuck",
    "drive:garbage", "drive:slow=5", "drive:delayed=0.3", "drive:intermittent", "drive:usb",
    "drive:brownout", "drive:blocked", "drive:runaway=0.6", "drive:runaway=-0.6", "drive:pull=-1",
    "drive:pull=2",
)  # fmt: skip
ASKED = (
    "asks:stop", "asks:disarm", "asks:emergency_stop", "asks:teleop", "asks:drive", "asks:arm",
    "asks:reset", "asks:everything", "asks:hand",
)  # fmt: skip
SAID = (
    "says:gnss_nan", "says:gnss_far", "says:gnss_future", "says:gnss_past",
    "says:gnss_no_covariance", "says:imu_nan", "says:imu_huge", "says:heading_nan",
    "says:heading_huge", "says:heading_certain", "says:wheel_nan", "says:wheel_huge",
    "says:stick_nan", "says:stick_full", "says:range_nan",
)  # fmt: skip
SPOILT = (
    "spoils:estimate_nan", "spoils:estimate_jumps", "spoils:estimate_diverged",
    "spoils:estimate_raises", "spoils:command_nan", "spoils:command_huge", "spoils:command_raises",
    "spoils:fusion_slow", "spoils:control_slow",
)  # fmt: skip
HOST = (
    "host:nan",
    "host:slept",
    "host:clock_back",
    "host:disk_full",
    "host:throttled",
    "host:ground_lost",
)

AT_ONCE = frozenset(text for text in ASKED if text != "asks:hand") | {
    "host:slept",
    "host:clock_back",
}
"""Failures without a duration."""
OUTSIDE = frozenset({"asks", "says", "spoils", "host"})
"""Ports that no vehicle has."""
STOPPING = (
    "asks:stop",
    "asks:disarm",
    "imu:off",
    "gnss:multipath=5",
    "heading:wrong=0.5",
    "spoils:command_raises",
    "drive:usb",
)
"""Failures that stop a vehicle within a second."""
FLOATING = ("gnss:float", "gnss:no_fix", "gnss:cold_start")
"""Failures after which the receiver finds its fixed position again."""


class Moment(Enum):
    """Start of the second failure."""

    ARMING = "while it is armed"
    FIXED = "while float becomes fixed"
    TURN = "in the middle of a turn"
    STOP = "during a stop"


class Case(Struct, frozen=True, kw_only=True):
    """One drive with its failures."""

    seed: int
    moment: Moment
    profile: str
    link: str
    course: str
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        happens = ", ".join(str(failure) for failure in self.failures)
        return (
            f"seed {self.seed}: {self.profile}, {self.link}, {self.course}, "
            f"{self.moment.value}: {happens}"
        )


def possible(profile: str, link: str) -> list[str]:
    """Return all failures that a vehicle can have."""
    found = [*DEVICES, *ASKED, *SAID, *SPOILT, *HOST]
    if profile == "art_vesc":
        found += VESC_ONLY
    if link == "wires":
        found += WIRES_ONLY
    return found


def pair(seed: int) -> Case:
    """Return two failures at a bad moment; the moments take turns."""
    random = Random(f"pair {seed}")
    moment = list(Moment)[seed % len(Moment)]
    profile, link = random.choice(("art", "art_vesc")), random.choice(("wires", "messages"))
    texts = possible(profile, link)
    first, second = random.choice(texts), random.choice(texts)
    course = random.choice(("circle_r5_ccw", "circle_r5_cw"))
    match moment:
        case Moment.ARMING:
            failures = [_at(random, text, random.uniform(0.05, 0.7)) for text in (first, second)]
        case Moment.FIXED:
            before = _at(random, random.choice(FLOATING), random.uniform(2.0, 3.0))
            failures = [
                before,
                _at(random, second, before.start_s + before.duration_s + random.uniform(-0.1, 0.3)),
            ]
        case Moment.TURN:
            course = random.choice(("circle_r2_ccw", "circle_r2_cw"))
            at_s = random.uniform(2.0, 3.5)
            failures = [
                _at(random, first, at_s),
                _at(random, second, at_s + random.uniform(0.0, 1.0)),
            ]
        case Moment.STOP:
            before = _at(random, random.choice(STOPPING), random.uniform(2.0, 3.0))
            failures = [before, _at(random, second, before.start_s + random.uniform(0.05, 0.8))]
    return Case(
        seed=seed,
        moment=moment,
        profile=profile,
        link=link,
        course=course,
        failures=tuple(failures),
    )


def misfortunes(
    random: Random, profile: str, link: str, until_s: float, pause_s: tuple[float, float]
) -> Sequence[Failure]:
    """Return one or two failures at a time with pauses to recover. A longer time begins like a
    shorter one."""
    texts, found, at_s = possible(profile, link), list[Failure](), random.uniform(1.0, 4.0)
    while at_s < until_s:
        chosen = random.sample(texts, random.choice((1, 2, 2)))
        if all(text.endswith("_raises") for text in chosen):
            # The third within ten seconds ends a run, as it should.
            del chosen[1:]
        for text in chosen:
            found.append(_at(random, text, at_s + random.uniform(0.0, 1.0)))
        at_s = max(end_s(failure) for failure in found) + random.uniform(*pause_s)
    return found


def end_s(failure: Failure) -> float:
    """Return the time at which the failure is over."""
    return failure.start_s if kind(failure) in AT_ONCE else failure.start_s + failure.duration_s


def kind(failure: Failure) -> str:
    """Return port and kind, without times and values."""
    return f"{failure.port}:{failure.kind}"


def _at(random: Random, text: str, start_s: float) -> Failure:
    return parse_failure(f"{text}@{start_s:.3f}+{random.uniform(0.2, 2.5):.3f}")
