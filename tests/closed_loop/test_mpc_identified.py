"""The whole daemon under predictive control, on a vehicle that steers half as far and twice as late as the profile says."""

from collections.abc import Callable
from typing import Any

BELIEF = {"gain_rad": 0.455, "delay_s": 0.2, "offset_rad": 0.0, "max_wheel_rad": 0.455}
TRUTH = {"gain_rad": 0.225, "delay_s": 0.4, "offset_rad": 0.0, "max_wheel_rad": 0.436}


def settings(**tables: dict[str, float]) -> list[str]:
    return [word for table, values in tables.items() for k, v in values.items() for word in ("--set", f"{table}.steering.{k}={v}")]


def test_identifying_online_it_keeps_to_the_course(drive: Callable[..., tuple[int, dict[str, Any], str]]) -> None:
    status, result, said = drive(
        "--course", "sine", "--set", 'controller.name="mpc"', "--set", 'identifier.name="single_track"',
        *settings(vehicle=BELIEF, sim=TRUTH),
    )  # fmt: skip
    assert status == 0, said
    assert result["finished"]
    assert result["cross_track_m"]["mean"] < 0.06
