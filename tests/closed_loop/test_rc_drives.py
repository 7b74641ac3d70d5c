"""Drives with an RC receiver: three protocols on wires, takeover, losses of the handset, and a
drive from the handset alone."""

from typing import Any

import pytest

from sim_backend.connection import START_NS
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import parse_failure
from tests.grid import covering
from vehicled.core.messages import Fault, Message, Mode, ModeChange, RcChannels, TeleopCommand
from vehicled.offline.failsafe.stage import InjectionScene, TrialStage
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

FAMILIES = ("crsf", "sbus", "ibus")
TABLE = (
    "steering={channel=1},throttle={channel=3},mode={channel=5,middle='auto'},arm={channel=6},"
    "kill={channel=7}"
)
LOSSES = (
    "off",
    "rc_failsafe",
    "frame_lost",
    "centred",
    "garbage",
    "intermittent=0.3",
    "usb",
    "brownout",
)
SPOILT = (
    "half_frames=0.4",
    "link_quality=0.2",
    "stuck",
    "stuck_channel=3",
    "swapped",
    "delayed=0.1",
    "slow=2",
)


class Recorder:
    """Keeps mode changes, faults and the newest messages."""

    def __init__(self) -> None:
        self.changes: list[ModeChange] = []
        self.faults: list[Fault] = []
        self.newest: dict[type[Message], Message] = {}

    def record(self, message: Message, log_time_ns: int) -> None:
        self.newest[type(message)] = message
        if isinstance(message, ModeChange):
            self.changes.append(message)
        elif isinstance(message, Fault) and message.active:
            self.faults.append(message)

    @property
    def modes(self) -> list[Mode]:
        """Modes in order, from the first change on."""
        return [change.after for change in self.changes]


def drive(
    family: str,
    failures: str,
    seconds: float,
    *,
    link: str = "messages",
    more: str = "",
    scene: InjectionScene = InjectionScene.COURSE,
) -> tuple[TrialStage, Recorder]:
    """Drive for a while with failures, which count from the start."""
    device = (
        f"devices.rc.driver={family}",
        'devices.rc.messages=["RcChannels"]',
        "devices.rc.rate_hz=50",
    )
    profile = load_profile("art_vesc", [*device, f"rc={{{TABLE}{more}}}"])
    recorder = Recorder()
    parsed = [parse_failure(each) for each in failures.split()]
    stage = TrialStage(profile, load_course("circle_r5_ccw"), scene, link, parsed, recorder, 3)
    while stage.now_ns < START_NS + seconds * 1e9:
        stage.step()
    return stage, recorder


def unit(stage: TrialStage) -> Any:
    """Return the emulated receiver."""
    world = stage.pair.world
    found: Any = world.emulator(list(stage.profile.devices).index("rc"))
    found = found.emulator if isinstance(found, FailingEmulator) else found
    return found.device


@pytest.mark.parametrize("family", FAMILIES)
def test_a_takeover_on_wires_and_what_the_handset_is_shown(family: str) -> None:
    stage, recorder = drive(family, "rc:takeover=0.35@3+2", 6.0, link="wires")
    assert recorder.modes == [Mode.STANDBY, Mode.AUTO, Mode.TELEOP, Mode.STOPPING, Mode.STANDBY]
    taken = recorder.changes[2]
    # One frame, or two without a checksum, the time in the air, and one tick.
    assert taken.t_ns - START_NS - 3_000_000_000 < 70_000_000
    assert taken.origin == "rc"
    reading = recorder.newest[TeleopCommand]
    assert isinstance(reading, TeleopCommand)
    assert reading.origin == "rc"
    (channels,) = [
        row for row in stage.pair.machine.usage if row.port == "rc" and row.message == "CHANNELS"
    ]
    assert channels.used > 0.95 * channels.arrived > 200
    shown = unit(stage).shown
    if family == "crsf":
        assert {"BATTERY", "GPS", "ATTITUDE", "FLIGHT_MODE"} <= set(shown)
        assert shown["FLIGHT_MODE"].text == "STANDBY"
        assert 9.0 < shown["BATTERY"].voltage_v < 14.0
    elif family == "ibus":
        assert 9.0 < shown["VOLTAGE"] < 14.0
    else:
        assert not shown


CASES = covering(
    [(kind, family) for kind in LOSSES + SPOILT for family in FAMILIES], lambda case: case
)


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_a_handset_that_is_not_required_stops_no_drive_however_it_fails(
    kind: str, family: str
) -> None:
    stage, recorder = drive(family, f"rc:{kind}@2+1.7", 5.0, link="wires")
    assert recorder.modes == [Mode.STANDBY, Mode.AUTO]
    assert not [
        fault
        for fault in recorder.faults
        if fault.code.startswith("rc_") and fault.code != "rc_link_poor"
    ]
    assert stage.pair.machine.pipeline.monitors.rc.alive(stage.now_ns), "it is there again"


@pytest.mark.parametrize(
    ("kind", "family"),
    [("off", "sbus"), ("rc_failsafe", "crsf"), ("centred", "ibus"), ("garbage", "sbus")],
)
def test_his_drive_stops_with_the_handset_and_does_not_go_on_with_it(
    kind: str, family: str
) -> None:
    _, recorder = drive(family, f"rc:takeover=0.35@2.5+9 rc:{kind}@4+1.5", 8.0, link="wires")
    assert recorder.modes == [Mode.STANDBY, Mode.AUTO, Mode.TELEOP, Mode.STOPPING, Mode.STANDBY]
    stop = recorder.changes[3]
    assert stop.first_code == "teleop_lost"
    assert stop.t_ns - START_NS - 4_000_000_000 < 280_000_000


def test_a_failsafe_of_ibus_is_a_preset_of_the_profile() -> None:
    preset = ",failsafe={channel=3,below=950}"
    _, recorder = drive(
        "ibus", "rc:takeover=0.35@2.5+9 rc:rc_failsafe@4+1.5", 6.0, link="wires", more=preset
    )
    assert recorder.modes[-2:] == [Mode.STOPPING, Mode.STANDBY]
    assert "own failsafe" in recorder.changes[3].reason


def test_a_receiver_that_holds_is_seen_where_the_profile_says_how() -> None:
    holds = "rc:takeover=0.35@2.5+9 rc:stuck@4+9"
    _, recorder = drive("ibus", holds, 6.0)
    assert recorder.modes[-1] is Mode.TELEOP, "nothing shows the loss: docs/rc.md"
    _, recorder = drive("ibus", holds, 6.0, more=",still_s=0.5")
    assert recorder.changes[3].first_code == "teleop_lost"
    assert "repeats its last frame" in recorder.changes[3].reason


def test_the_handset_alone_arms_drives_the_course_and_kills() -> None:
    _, recorder = drive(
        "crsf", "rc:arm@1+9 rc:auto@1.5+9 rc:kill@4+1", 6.0, scene=InjectionScene.PARKED
    )
    assert recorder.modes == [Mode.STANDBY, Mode.ARMED, Mode.AUTO, Mode.FAULT]
    assert [change.origin for change in recorder.changes[1:3]] == ["", "rc"]
    assert recorder.changes[3].code == "rc_killed"


def test_a_stick_pushed_beyond_the_threshold_takes_over() -> None:
    _, recorder = drive("crsf", "rc:stick=0.6@3+1", 5.0, more=",takeover_stick=0.4")
    assert recorder.modes == [Mode.STANDBY, Mode.AUTO, Mode.TELEOP]
    _, recorder = drive("crsf", "rc:stick=0.6@3+1", 5.0)
    assert recorder.modes == [Mode.STANDBY, Mode.AUTO]


def test_exchanged_channels_show_before_arming() -> None:
    more = ",required=true"
    _, recorder = drive(
        "crsf",
        "rc:takeover=0.5@0.2+9 rc:swapped@0.1+9 rc:arm@1+9",
        3.0,
        scene=InjectionScene.PARKED,
        more=more,
    )
    assert recorder.modes == [Mode.STANDBY]
    frame = recorder.newest[RcChannels]
    assert isinstance(frame, RcChannels)
    assert frame.channels[0] > 1100.0, "the throttle is on the channel of the steering"
