"""Profiles with an RC receiver: what cannot be meant, what is left open, and the line that a
receiver needs."""

import os
import pty
import termios

import anyio
import pytest

from vehicled.profile import ProfileError, load_profile
from vehicled.profile.notes import check
from vehicled.runtime.ports.address import SerialAddress, parse
from vehicled.runtime.ports.contract import PortCounts
from vehicled.runtime.ports.serial_channel import open_serial
from vehicled.runtime.ports.sharing import judge_ports

STICKS = "steering={channel=1},throttle={channel=3}"
MODE = "mode={channel=5}"


def settings(rc: str, driver: str = "crsf", port: str = "") -> list[str]:
    device = [
        f"devices.rc.driver={driver}",
        'devices.rc.messages=["RcChannels"]',
        "devices.rc.rate_hz=50",
    ]
    return [
        *device,
        *([f'devices.rc.port="{port}"'] if port else []),
        *([f"rc={{{rc}}}"] if rc else []),
    ]


@pytest.mark.parametrize(
    ("rc", "key", "part"),
    [
        ("", "rc", "missing table"),
        (STICKS, "rc", "can never take over"),
        (f"{STICKS},mode={{channel=5,high='auto'}}", "rc", "can never take over"),
        (
            f"steering={{channel=1}},throttle={{channel=1}},{MODE}",
            "rc.throttle.channel",
            "the channel of rc.steering too",
        ),
        (f"{STICKS},mode={{channel=17}}", "rc.mode.channel", "more than the 16 channels of crsf"),
        (f"{STICKS},{MODE},kill={{channel=5}}", "rc.kill.channel", "the channel of rc.mode too"),
        (
            f"steering={{channel=1,min=1900}},throttle={{channel=3}},{MODE}",
            "rc.steering",
            "must rise",
        ),
        (f"{STICKS},{MODE},failsafe={{channel=3}}", "rc.failsafe", "either below or above"),
        (f"{STICKS},{MODE},kil={{channel=7}}", "rc.kil", 'did you mean "kill"'),
        (f"{STICKS},{MODE},failsafe_tested='last week'", "rc.failsafe_tested", "last week"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_key(rc: str, key: str, part: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile("art_vesc", settings(rc))
    (problem,) = caught.value.problems
    assert problem.path == key
    assert part in problem.message


def test_a_table_without_a_receiver_and_two_receivers_are_refused() -> None:
    with pytest.raises(ProfileError, match="no device gives RcChannels"):
        load_profile("art_vesc", [f"rc={{{STICKS},{MODE}}}"])
    second = ["devices.other.driver=sbus", 'devices.other.messages=["RcChannels"]']
    with pytest.raises(ProfileError, match="a second RC receiver"):
        load_profile("art_vesc", [*settings(f"{STICKS},{MODE}"), *second])


def test_a_throttle_may_rest_at_its_end_and_sbus_has_digital_channels() -> None:
    profile = load_profile(
        "art_vesc",
        settings("steering={channel=1},throttle={channel=3,trim=172},mode={channel=17}", "sbus"),
    )
    assert profile.rc is not None
    assert profile.rc.throttle.trim == 172


@pytest.mark.parametrize(
    ("driver", "rc", "keys"),
    [
        ("crsf", f"{STICKS},{MODE},kill={{channel=7}},failsafe_tested='2026-05-01'", set()),
        ("crsf", f"{STICKS},{MODE}", {"rc.failsafe_tested", "rc.kill"}),
        ("ibus", f"{STICKS},{MODE},kill={{channel=7}}", {"rc.failsafe_tested", "rc.failsafe"}),
        ("ibus", f"{STICKS},{MODE},kill={{channel=7}},still_s=1.0", {"rc.failsafe_tested"}),
        (
            "ibus",
            f"{STICKS},{MODE},kill={{channel=7}},failsafe={{channel=3,below=950}}",
            {"rc.failsafe_tested"},
        ),
    ],
)
def test_what_is_left_open_is_noted(driver: str, rc: str, keys: set[str]) -> None:
    notes = check(load_profile("art_vesc", settings(rc, driver)))
    assert {note.path for note in notes if note.path.startswith("rc")} == keys


def test_a_packet_rate_that_one_lost_frame_turns_into_a_stop_is_noted() -> None:
    slow = [*settings(f"{STICKS},{MODE}"), "devices.rc.rate_hz=10"]
    (note,) = [
        each for each in check(load_profile("art_vesc", slow)) if each.path == "devices.rc.rate_hz"
    ]
    assert "one lost frame may stop" in note.message


@pytest.mark.parametrize(
    ("driver", "options", "fits"),
    [
        ("crsf", "baud=420000", True), ("crsf", "baud=416666", True),
        ("crsf", "baud=400000", False), ("crsf", "baud=115200", False),
        ("sbus", "baud=100000&frame=8E2", True), ("sbus", "baud=100000", False),
        ("ibus", "baud=115200", True), ("ibus", "baud=115200&frame=8E2", False),
    ],
)  # fmt: skip
def test_a_line_that_the_receiver_has_not_is_noted(driver: str, options: str, fits: bool) -> None:
    profile = load_profile(
        "art_vesc", settings(f"{STICKS},{MODE}", driver, f"serial:/dev/serial/by-id/rc?{options}")
    )
    found = [note for note in judge_ports(profile.devices) if note.path == "devices.rc.port"]
    assert (found == []) is fits, found


def test_a_line_with_parity_is_opened_as_such_and_drops_bytes_that_break_it() -> None:
    master, slave = pty.openpty()
    address = parse(f"pty:{os.ttyname(slave)}?baud=100000&frame=8E2")
    assert isinstance(address, SerialAddress)

    async def opened() -> list[int]:
        channel = await open_serial(address, PortCounts())
        attributes = termios.tcgetattr(channel.fileno())
        await channel.aclose(drain=False)
        return [attributes[0], attributes[2]]

    input_flags, control_flags = anyio.run(opened)
    assert input_flags & termios.INPCK
    assert input_flags & termios.IGNPAR
    assert control_flags & termios.CSTOPB
    os.close(master)
    os.close(slave)
