"""The vehicle with each family of receivers for its position and its heading, on their own
bytes."""

import pytest

from tests.closed_loop.test_inertial_units_drive import Journal, course, drive
from vehicled.paths.course import Course

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
