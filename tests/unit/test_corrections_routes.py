"""Corrections reach the receivers that they are made for, and no other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivers.ublox.device import UbloxDevice
from vehicled.core.messages import Corrections, GnssFix, Message
from vehicled.daemon.app import build, declared_stopwatch, wire
from vehicled.daemon.machine import Machine
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, notes, parse
from vehicled.profile.schema import Profile

ART = (Path(__file__).parents[2] / "profiles" / "art.toml").read_text()
RTCM = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")
CASTER = """
[devices.{name}]
port = "tcp:caster.example:2101"
driver = {{ name = "ntrip", ntrip = {{ mountpoint = "{name}" }} }}
messages = ["Corrections"]
"""
RECEIVER = """
[devices.{name}]
port = "serial:/dev/ttyACM9"
driver = "ublox"
messages = [{messages}]
"""


class Log:
    def record(self, message: Message, t_ns: int) -> None:
        pass


def profile(*tables: str, routes: Mapping[str, list[str]] | None = None) -> Profile:
    overrides = [
        f"devices.{name}.corrections_from={sources}" for name, sources in (routes or {}).items()
    ]
    return parse(ART + "".join(tables), "my.toml", overrides).profile


def machine(made: Profile) -> Machine:
    wiring = wire(made, "wires")
    return build(
        made, load_course("circle_r5_ccw"), wiring, declared_stopwatch(wiring), Log(), virtual=True
    )


def takers(made: Profile, source: str, message: Message) -> set[str]:
    """Devices that get a message which another one produced."""
    built = machine(made)
    taken: set[str] = set()
    for port in built.ports:
        device: Any = built.device(port)
        if Corrections in device.consumes or GnssFix in device.consumes:
            device.on_command = lambda command, now_ns, port=port: taken.add(port)
    built._dispatch(source, [message], 1)
    return taken


CORRECTION = Corrections(1, 1, "base", RTCM)
TWO_CASTERS = (CASTER.format(name="near"), CASTER.format(name="far"))
SECOND = RECEIVER.format(name="spare", messages='"GnssFix"')
BASE = RECEIVER.format(name="base", messages='"GnssFix", "Corrections"')


def test_a_caster_feeds_the_receivers_of_positions_and_never_a_moving_base_rover():
    made = profile(TWO_CASTERS[0], SECOND)
    assert takers(made, "near", CORRECTION) == {"gnss", "spare"}


def test_a_moving_base_feeds_its_rover_and_takes_the_casters_corrections():
    made = profile(TWO_CASTERS[0], BASE)
    assert takers(made, "near", CORRECTION) == {"gnss", "base"}
    assert takers(made, "base", CORRECTION) == {"heading"}


def test_two_casters_and_two_receivers_go_as_the_profile_says():
    made = profile(*TWO_CASTERS, SECOND, routes={"gnss": ["near"], "spare": ["far"]})
    assert takers(made, "near", CORRECTION) == {"gnss"}
    assert takers(made, "far", CORRECTION) == {"spare"}
    consumers = machine(made)._consumers
    assert [consumers[receiver, GnssFix] for receiver in ("gnss", "spare")] == [["near"], ["far"]]
    assert list(notes._corrections(made)) == []


def test_a_base_station_behind_a_receiver_of_ours_feeds_positions():
    made = profile(RECEIVER.format(name="station", messages='"Corrections"'))
    assert takers(made, "station", CORRECTION) == {"gnss"}
    station = machine(made).device("station")
    assert isinstance(station, UbloxDevice)
    assert station.consumes == ()


def test_a_rover_may_be_fed_and_a_receiver_kept_dry():
    made = profile(TWO_CASTERS[0], routes={"heading": ["near"], "gnss": []})
    assert takers(made, "near", CORRECTION) == {"heading"}


def test_two_stations_for_one_receiver_are_remarked():
    (note,) = notes._corrections(profile(*TWO_CASTERS))
    assert note.path == "devices.gnss.corrections_from"
    assert "near and of far" in note.message


def test_spartn_for_a_receiver_that_does_not_read_it_is_remarked():
    spartn = TWO_CASTERS[0].replace(
        'mountpoint = "near"', 'mountpoint = "near", protocol = "spartn"'
    )
    (note,) = notes._receiver_inputs(profile(spartn))
    assert note.path == "devices.gnss.driver"
    assert "SPARTN of near" in note.message
    made = parse(ART + spartn, "my.toml", ["devices.gnss.driver.ublox.spartn=true"]).profile
    assert list(notes._receiver_inputs(made)) == []
    assert list(notes._receiver_inputs(profile(spartn, routes={"gnss": []}))) == []


def test_a_wheel_speed_that_nothing_gives_is_remarked():
    made = parse(ART, "my.toml", ["devices.gnss.driver.ublox.wheel_speed_hz=10"]).profile
    (note,) = notes._receiver_inputs(made)
    assert note.path == "devices.gnss.driver.ublox.wheel_speed_hz"


@pytest.mark.parametrize(
    ("device", "sources", "part"),
    [
        ("gnss", ["nobody"], 'no device is called "nobody"; sources of corrections are near'),
        ("gnss", ["gnss"], "cannot correct itself"),
        ("gnss", ["imu"], '"imu" gives no corrections: add "Corrections" to its messages'),
        ("gnss", ["near", "near"], "named twice: near"),
        ("imu", ["near"], "takes no corrections"),
    ],
)
def test_routes_that_cannot_be_are_refused(device: str, sources: list[str], part: str):
    with pytest.raises(ProfileError) as caught:
        profile(TWO_CASTERS[0], routes={device: sources})
    (problem,) = caught.value.problems
    assert problem.path == f"devices.{device}.corrections_from"
    assert part in problem.message


def test_receivers_that_correct_each_other_and_drivers_without_corrections_are_refused():
    with pytest.raises(ProfileError, match="cannot correct each other"):
        profile(BASE, BASE.replace("base", "other"), routes={"base": ["other"], "other": ["base"]})
    with pytest.raises(ProfileError, match="reads none"):
        profile(BASE.replace('"ublox"', '"n100"'), routes={"gnss": ["base"]})
    with pytest.raises(ProfileError, match="computes nothing"):
        profile(TWO_CASTERS[0], BASE.replace('"GnssFix", ', ""), routes={"base": ["near"]})
