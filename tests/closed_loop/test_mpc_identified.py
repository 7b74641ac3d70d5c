"""The whole daemon identifies a vehicle that is not as the profile says, and drives better for
it."""

from collections.abc import Callable
from typing import Any

import pytest

BELIEF = {"gain_rad": 0.455, "delay_s": 0.2, "offset_rad": 0.0, "max_wheel_rad": 0.455}
TRUTH = {"gain_rad": 0.225, "delay_s": 0.4, "offset_rad": 0.0, "max_wheel_rad": 0.436}


def settings(**tables: dict[str, float]) -> list[str]:
    return [
        word
        for table, values in tables.items()
        for k, v in values.items()
        for word in ("--set", f"{table}.steering.{k}={v}")
    ]


# make test: test_mpc_courses.py follows a steering of half the gain, test_api.py drives with the
# identifier
@pytest.mark.soak
def test_identifying_online_it_keeps_to_the_course(
    drive: Callable[..., tuple[int, dict[str, Any], str]],
) -> None:
    status, result, said = drive(
        "--course", "sine", "--set", 'controller.name="mpc"', "--set",
        'identifier.name="single_track"',
        *settings(vehicle=BELIEF, sim=TRUTH),
    )  # fmt: skip
    assert status == 0, said
    assert result["finished"]
    assert result["cross_track_m"]["mean"] < 0.06


def test_wheels_that_are_smaller_than_believed_are_found_by_plain_gnss(
    drive: Callable[..., tuple[int, dict[str, Any], str]],
) -> None:
    status, result, said = drive(
        "--profile", "art_vesc", "--course", "sine", "--set", 'identifier.name="single_track"',
        "--set", "vehicle.drive.wheel_radius_m=0.0972", "--set",
        "sim.drive.wheel_radius_m=0.08451952624", "--set", 'sim.gnss.carrier="none"', "--set",
        "sim.gnss.sigma_m=0.05", "--set", "sim.gnss.walk_sigma_m=0.5",
    )  # fmt: skip
    assert status == 0, said
    assert result["finished"]
    assert abs(result["identified"]["wheel_scale"] / 0.8695 - 1.0) < 0.01
    assert result["estimate_speed_mps"]["mean"] < 0.03
    assert result["speed_mps"]["mean"] < 0.05
