"""The vehicle with each family of receivers for its position and its heading, on their own
bytes."""

from typing import Any

import pytest

from tests.closed_loop.test_inertial_units_drive import Journal, course, drive
from vehicled.core.messages import Corrections
from vehicled.daemon.app import sources
from vehicled.paths.course import Course
from vehicled.profile import load_profile

__all__ = ["course"]
FAMILIES = ("septentrio", "unicore")


def receiver(driver: str) -> list[str]:
    """Overrides that put one receiver with two antennas in the place of the profile's two."""
    found = []
    for port, number in (("gnss", 8), ("heading", 9)):
        found += [
            f"devices.{port}.driver.name={driver}",
            f"devices.{port}.driver.{driver}.rate_hz=10",
            f"devices.{port}.driver.{driver}.baseline_m=0.5",
            f'devices.{port}.port="serial:/dev/ttyUSB{number}?baud=115200"',
        ]
    return [*found, f"devices.gnss.driver.{driver}.latency_ms=46.0"]


def driven(driver: str, course: Course) -> tuple[str, Journal]:
    digest, journal, pair = drive(receiver(driver), course)
    assert pair.machine.course_driven, pair.machine.why
    return digest, journal


@pytest.mark.parametrize("driver", FAMILIES)
def test_the_course_is_driven(driver: str, course: Course) -> None:
    _, journal = driven(driver, course)
    assert journal.names.count("gnss_configured") == 2
    assert set(journal.names) <= {
        "gnss_configured",
        "rtk_state",
        "receiver_ready",
        "substitutes",
        "commands_cut",
    }
    assert journal.off_m < 0.1


@pytest.mark.soak
@pytest.mark.parametrize("driver", FAMILIES)
def test_a_drive_repeats(driver: str, course: Course) -> None:
    assert driven(driver, course)[0] == driven(driver, course)[0]


def test_a_vehicle_with_a_moving_base_through_the_daemon_drives(course: Course) -> None:
    """Corrections were waited for as for measurements, and nobody noted their arrival."""
    _, journal, pair = drive(['devices.gnss.messages=["GnssFix","Corrections"]'], course)
    assert pair.machine.course_driven, pair.machine.why
    assert journal.kinds[Corrections] > 100
    rover: Any = pair.world.emulator(list(load_profile("art").devices).index("heading"))
    assert rover.device.corrections == journal.kinds[Corrections]


def test_what_does_not_move_the_vehicle_is_not_waited_for() -> None:
    scanner = [
        'devices.scanner.port="udp:192.168.1.201:2368?listen=2368"',
        "devices.scanner.driver.name=velodyne",
        'devices.scanner.messages=["LaserScan","HeightMap"]',
        "devices.scanner.rate_hz=10",
    ]
    found = [each.message.__name__ for each in sources(load_profile("art", scanner))]
    assert sorted(found) == ["GnssFix", "Heading", "ImuSample", "LaserScan"]
