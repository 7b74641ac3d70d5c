"""The vehicle with each inertial unit that there is a driver for, on that unit's own bytes."""

from collections import Counter

import pytest

from vehicled.core.messages import Event, Fault, GroundTruth, Message, Reaction
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile

COURSE = "# name: yard\n# datum_deg: 43.0705, -89.4090, 230\n# closed: no\nx_m,y_m\n0,0\n2,0\n4,0\n"
LIMIT_NS = 40_000_000_000


def imu(driver: str, rate_hz: int, **more: object) -> list[str]:
    """Overrides that put another unit in the place of the profile's."""
    own = {"rate_hz": rate_hz, **more}
    return [
        f"devices.imu.driver.name={driver}",
        *[f"devices.imu.driver.{driver}.{key}={value}" for key, value in own.items()],
        f"devices.imu.rate_hz={rate_hz}",
        f"sim.imu.rate_hz={rate_hz}",
    ]


UNITS = {
    "xsens": imu("xsens", 400),
    "vectornav": imu("vectornav", 400),
    "mip": imu("mip", 250),
    "sbg": imu("sbg", 200),
    "witmotion": imu("witmotion", 200, configure="true"),
    # It has no gyro, so it is the vehicle's heading, beside another unit.
    "bno08x": [
        "devices.heading.driver.name=bno08x",
        'devices.heading.port="serial:/dev/ttyUSB1?baud=115200"',
        "devices.heading.rate_hz=100",
        "sim.heading.rate_hz=100",
        "sim.heading.kind=inertial",
    ],
}


class Journal:
    """Journal listener that keeps the checked data of a drive."""

    def __init__(self, course: Course) -> None:
        self._tracker = PathTracker(course)
        self.names: list[str] = []
        self.kinds: Counter[type[Message]] = Counter()
        self.off_m = 0.0

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.kinds[type(message)] += 1
        if isinstance(message, Event):
            self.names.append(message.name)
        elif isinstance(message, Fault) and message.reaction > Reaction.WARN:
            self.names.append(message.code)
        elif isinstance(message, GroundTruth):
            point = self._tracker.update(message.x_m, message.y_m, message.yaw_rad)
            self.off_m = max(self.off_m, abs(point.cross_track_m))


def drive(overrides: list[str], course: Course) -> tuple[str, Journal, WrappedPair]:
    """The course to its end: digest of all frames to the actuator."""
    journal = Journal(course)
    offset = f"devices.heading.driver.bno08x.yaw_offset_rad={float(course.yaw_rad[0])}"
    profile = load_profile("art", [*overrides, offset] if "bno08x" in overrides[0] else overrides)
    pair = WrappedPair(profile, course, [], journal, 7)
    while True:
        pair.grant()
        if pair.machine.over(pair.now_ns) or pair.now_ns > LIMIT_NS:
            return pair.machine.digest.hexdigest(), journal, pair
        pair.reply()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A straight of 4 m."""
    file = tmp_path_factory.mktemp("course") / "yard.csv"
    file.write_text(COURSE)
    return load_course(str(file))


@pytest.mark.soak
@pytest.mark.parametrize("unit", UNITS)
def test_a_drive_repeats(unit: str, course: Course) -> None:
    assert drive(UNITS[unit], course)[0] == drive(UNITS[unit], course)[0]


@pytest.mark.parametrize("unit", UNITS)
def test_the_course_is_driven(unit: str, course: Course) -> None:
    _, journal, pair = drive(UNITS[unit], course)
    assert pair.machine.course_driven, pair.machine.why
    assert journal.names.count("imu_configured") == (unit in ("xsens", "vectornav", "mip", "sbg"))
    assert set(journal.names) <= {
        "gnss_configured",
        "imu_configured",
        "rtk_state",
        "receiver_ready",
        "substitutes",
        "commands_cut",
    }
    assert journal.off_m < 0.1
