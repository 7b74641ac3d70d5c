"""Gamepads and wheels: the kernel's events, the mapping, the deadman on a shoulder button."""

import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vehicled.live.teleop.joystick import JoystickDevice, devices
from vehicled.live.teleop.js_event import FULL, JsDecoder, JsEvent, encode
from vehicled.live.teleop.mapping import (
    MAPS,
    XPAD,
    Axis,
    MappingError,
    PadLayout,
    PadMap,
    choose,
    load,
    resolve,
)
from vehicled.live.teleop.pad import Pad
from vehicled.live.teleop.reading import RELEASED, Reading, TeleopRequestKind

MS = 1_000_000
EVENTS = st.builds(
    JsEvent,
    st.integers(0, 2**32 - 1),
    st.integers(-FULL, FULL),
    st.just(True),
    st.integers(0, 255),
    st.booleans(),
) | st.builds(
    JsEvent,
    st.integers(0, 2**32 - 1),
    st.integers(0, 1),
    st.just(False),
    st.integers(0, 255),
    st.booleans(),
)


@given(st.lists(EVENTS, max_size=30), st.lists(st.integers(1, 20), max_size=40))
def test_events_come_back_however_they_are_cut(events: list[JsEvent], cuts: list[int]) -> None:
    data = b"".join(map(encode, events))
    decoder, found, at = JsDecoder(), list[JsEvent](), 0
    for size in [*cuts, len(data)]:
        found += decoder.feed(data[at : at + size])
        at += size
    assert found == events
    assert decoder.unknown == 0


@given(st.binary(max_size=500))
def test_garbage_gives_events_within_their_range_or_is_counted(data: bytes) -> None:
    decoder = JsDecoder()
    events = decoder.feed(data)
    assert len(events) + decoder.unknown == len(data) // 8
    assert all(-FULL <= event.value <= FULL for event in events)
    assert all(event.axis or event.value in (0, 1) for event in events)


def test_the_layout_is_that_of_the_kernel() -> None:
    assert encode(JsEvent(0x01020304, -2, True, 5, True)) == struct.pack(
        "=IhBB", 0x01020304, -2, 0x82, 5
    )


# ---------------------------------------------------------------- mapping

AXES = st.builds(
    lambda low, gap, high, **rest: Axis(
        axis=0, minimum=low, centre=low + gap, maximum=min(FULL, low + gap + high), **rest
    ),
    low=st.integers(-FULL, 0),
    gap=st.integers(1, 10_000),
    high=st.integers(1, 20_000),
    inverted=st.booleans(),
    one_sided=st.booleans(),
    dead_zone=st.floats(0.0, 0.89),
    expo=st.floats(0.0, 1.0),
    scale=st.floats(0.01, 1.0),
)


@given(AXES, st.lists(st.integers(-32768, 32767), min_size=2, max_size=20))
def test_an_axis_is_monotone_within_its_range_and_rests_at_rest(
    axis: Axis, raws: list[int]
) -> None:
    values = [axis.value(raw) for raw in sorted(raws)]
    low = 0.0 if axis.one_sided else -axis.scale
    assert all(low - 1e-12 <= value <= axis.scale + 1e-12 for value in values)
    assert all((a >= b if axis.inverted else a <= b) for a, b in pairwise(values))
    rest = (axis.maximum if axis.inverted else axis.minimum) if axis.one_sided else axis.centre
    assert axis.value(rest) == 0.0
    full = axis.minimum if axis.inverted else axis.maximum
    assert axis.value(full) == pytest.approx(axis.scale)


def test_expo_is_fine_near_rest_and_full_at_the_end() -> None:
    plain, bent = Axis(axis=0, dead_zone=0.0), Axis(axis=0, dead_zone=0.0, expo=1.0)
    assert bent.value(FULL // 4) < 0.1 * plain.value(FULL // 4)
    assert bent.value(FULL) == plain.value(FULL) == 1.0


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Microsoft X-Box 360 pad", "xbox"),
        ("Microsoft X-Box One S pad", "xbox"),
        ("Sony Interactive Entertainment Wireless Controller", "dualshock4"),
        ("Sony Interactive Entertainment DualSense Wireless Controller", "dualshock4"),
        ("Logitech Gamepad F710", "f710"),
    ],
)
def test_common_pads_are_known_by_name(name: str, key: str) -> None:
    assert choose(name, XPAD)[0] == key


def test_a_wheel_has_inverted_pedals_and_paddles_for_a_deadman() -> None:
    layout = PadLayout(
        ["ABS_X", "ABS_Y", "ABS_Z", "ABS_RZ", "ABS_HAT0X", "ABS_HAT0Y"],
        [
            f"BTN_{n}"
            for n in (
                "TRIGGER",
                "THUMB",
                "THUMB2",
                "TOP",
                "TOP2",
                "PINKIE",
                "BASE",
                "BASE2",
                "BASE3",
                "BASE4",
            )
        ],
    )
    key, mapping = choose("Logitech G29 Driving Force Racing Wheel", layout)
    assert key == "g29"
    assert mapping.deadman == [4, 5]
    assert mapping.throttle.value(FULL) == 0.0
    assert mapping.throttle.value(-FULL) == 1.0


def test_a_pad_on_another_driver_is_taken_by_the_mapping_that_fits() -> None:
    layout = PadLayout(["ABS_X", "ABS_Y", "ABS_Z", "ABS_RZ", "ABS_GAS", "ABS_BRAKE"], XPAD.buttons)
    key, mapping = choose("Xbox Wireless Controller", layout)
    assert key == "xbox_bluetooth"
    assert (mapping.throttle.axis, mapping.steering.axis) == (4, 0)


def test_an_unknown_pad_is_refused_with_what_it_has() -> None:
    with pytest.raises(MappingError, match=r"(?s)flight stick.*ABS_X.*BTN_TRIGGER.*--map"):
        choose("flight stick", PadLayout(["ABS_X"], ["BTN_TRIGGER"]))


def test_a_file_says_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "pad.toml"
    file.write_text('like = "xbox"\ndeadman = ["BTN_TR", 4]\n[steering]\nexpo = 0.0\nscale = 0.5\n')
    mapping = resolve(load(file), XPAD, "pad")
    assert mapping.deadman == [5, 4]
    assert mapping.steering == Axis(axis=0, inverted=True, scale=0.5)
    assert mapping.throttle.axis == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "steering"),
        ('like = "atari"', "choose from xbox"),
        ('like = "xbox"\nspeed = 1', "speed"),
        ('like = "xbox"\n[steering]\nexpo = 3.0', "expo|<= 1.0"),
        ('like = "xbox"\n[steering]\nminimum = 100\n', "must be increasing"),
        ('like = "xbox"\ndeadman = []', "length"),
        ("= 1", "pad.toml"),
        ("\x00", "pad.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_reason(
    tmp_path: Path, text: str, line: str
) -> None:
    file = tmp_path / "pad.toml"
    file.write_text(text)
    with pytest.raises(MappingError, match=line):
        load(file)
    with pytest.raises(MappingError, match="cannot read"):
        load(tmp_path / "none.toml")


def test_what_the_device_lacks_is_named() -> None:
    with pytest.raises(MappingError, match="has no axis ABS_Z for brake"):
        resolve(MAPS["xbox"], PadLayout(["ABS_X", "ABS_RZ"], XPAD.buttons), "pad")


# ---------------------------------------------------------------- the pad

LEFT_X, LEFT_TRIGGER, RIGHT_TRIGGER = 0, 2, 5
EAST, SHOULDER, OTHER_SHOULDER, SELECT, START = 1, 4, 5, 6, 7


def axis(number: int, value: int, *, initial: bool = False) -> JsEvent:
    return JsEvent(0, value, True, number, initial)


def button(number: int, value: int, *, initial: bool = False) -> JsEvent:
    return JsEvent(0, value, False, number, initial)


def xbox(**changes: object) -> Pad:
    """A pad whose triggers have been seen at rest."""
    mapping: PadMap = resolve(MAPS["xbox"], XPAD, "pad")
    pad = Pad(replace(mapping, **changes), "pad")
    pad.feed(
        [axis(n, 0, initial=True) for n in range(8)]
        + [button(n, 0, initial=True) for n in range(11)],
        0,
    )
    pad.feed([axis(LEFT_TRIGGER, -FULL), axis(RIGHT_TRIGGER, -FULL)], 0)
    return pad


def test_the_shoulder_button_is_the_deadman() -> None:
    pad = xbox()
    pad.feed([axis(RIGHT_TRIGGER, FULL), axis(LEFT_X, -FULL)], 0)
    assert pad.read(0) == RELEASED
    pad.feed([button(SHOULDER, 1)], 0)
    assert pad.read(0) == Reading(1.0, 1.0, 0.0, True)
    pad.feed([button(OTHER_SHOULDER, 1)], 0)
    assert pad.read(0).throttle == -1.0
    pad.feed([axis(LEFT_TRIGGER, FULL)], 0)
    assert pad.read(0).brake == pytest.approx(1.0)
    pad.feed([button(SHOULDER, 0)], 0)
    assert pad.read(0) == RELEASED


def test_a_trigger_that_has_not_moved_is_not_believed() -> None:
    """The kernel reports the middle of its range until then: half throttle."""
    pad = Pad(resolve(MAPS["xbox"], XPAD, "pad"), "pad")
    pad.feed(
        [axis(n, 0, initial=True) for n in range(8)]
        + [button(n, 0, initial=True) for n in range(11)],
        0,
    )
    pad.feed([button(SHOULDER, 1)], 0)
    assert pad.read(0) == RELEASED
    assert "press and release throttle and brake" in pad.hint(0)
    pad.feed([axis(RIGHT_TRIGGER, FULL), axis(RIGHT_TRIGGER, -FULL), axis(LEFT_TRIGGER, -FULL)], 0)
    assert pad.read(0) == Reading(deadman=True)


def test_a_deadman_held_before_anybody_watched_does_not_count() -> None:
    pad = Pad(resolve(MAPS["xbox"], XPAD, "pad"), "pad")
    pad.feed([axis(LEFT_TRIGGER, -FULL, initial=True), axis(RIGHT_TRIGGER, -FULL, initial=True)], 0)
    pad.feed([button(SHOULDER, 1, initial=True)], 0)
    assert pad.read(0) == RELEASED
    pad.feed([button(SHOULDER, 0), button(SHOULDER, 1)], 0)
    assert pad.read(0).deadman
    pad.let_go()
    assert pad.read(0) == RELEASED
    assert "release the deadman" in pad.hint(0)


def test_a_wireless_pad_out_of_reach_does_not_drive_on() -> None:
    pad = xbox(quiet_s=2.0)
    pad.feed([button(SHOULDER, 1), axis(RIGHT_TRIGGER, FULL)], 0)
    assert pad.read(1999 * MS).throttle == 1.0
    pad.feed([axis(LEFT_X, 5)], 1999 * MS)
    assert pad.read(3998 * MS).throttle == 1.0
    assert pad.read(4000 * MS) == RELEASED
    assert "in reach" in pad.hint(4000 * MS)
    pad.feed([axis(LEFT_X, 500)], 4010 * MS)
    assert pad.read(4010 * MS) == RELEASED, "held anew, or not at all"
    pad.feed([button(SHOULDER, 0), button(SHOULDER, 1)], 4020 * MS)
    assert pad.read(4020 * MS).throttle == 1.0


def test_at_rest_a_wireless_pad_may_be_as_quiet_as_it_likes() -> None:
    pad = xbox(quiet_s=2.0)
    pad.feed([button(SHOULDER, 1)], 0)
    assert pad.read(60_000 * MS).deadman


def test_buttons_ask_when_they_are_pressed_and_only_then() -> None:
    pad = xbox()
    pad.feed([button(START, 1, initial=True)], 0)
    assert pad.drain_requests() == []
    pad.feed(
        [button(START, 0), button(START, 1), button(START, 1), button(EAST, 1), button(SELECT, 1)],
        0,
    )
    assert pad.drain_requests() == [
        TeleopRequestKind.TAKE,
        TeleopRequestKind.STOP,
        TeleopRequestKind.EMERGENCY,
    ]
    assert pad.drain_requests() == []


def test_unplugged_it_has_let_go() -> None:
    pad = xbox()
    pad.feed([button(SHOULDER, 1), axis(RIGHT_TRIGGER, FULL)], 0)
    pad.lost("pad was unplugged")
    assert pad.read(0) == RELEASED
    assert pad.trouble == pad.hint(0) == "pad was unplugged"


@given(st.lists(st.tuples(st.lists(EVENTS, max_size=10), st.integers(0, 10**9)), max_size=20))
def test_random_events_give_readings_within_their_range(
    bursts: list[tuple[list[JsEvent], int]],
) -> None:
    pad, now_ns = xbox(), 0
    for events, wait_ns in bursts:
        now_ns += wait_ns
        pad.feed(events, now_ns)
        reading = pad.read(now_ns)
        assert abs(reading.steering) <= 1.0
        assert abs(reading.throttle) <= 1.0
        assert 0.0 <= reading.brake <= 1.0
        assert reading.deadman or reading == RELEASED


# ---------------------------------------------------------------- the device


def test_a_pipe_of_events_is_a_pad_and_its_end_the_unplugging(tmp_path: Path) -> None:
    path = tmp_path / "js0"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    with JoystickDevice(path) as joystick:
        assert joystick.layout == XPAD
        assert joystick.events() == []
        data = b"".join(map(encode, [button(SHOULDER, 1), axis(LEFT_X, 77)]))
        os.write(writer, data[:13])
        assert joystick.events() == [button(SHOULDER, 1)]
        os.write(writer, data[13:])
        assert joystick.events() == [axis(LEFT_X, 77)]
        os.close(writer)
        with pytest.raises(EOFError, match="its recorded events have ended"):
            joystick.events()


def test_what_is_no_joystick_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MappingError, match="not a joystick"):
        JoystickDevice(Path("/dev/null"))
    with pytest.raises(MappingError, match="cannot open"):
        JoystickDevice(tmp_path / "js9")


def test_devices_are_found_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("js10", "js2", "jsx", "event0"):
        (tmp_path / name).touch()
    assert [path.name for path in devices(tmp_path)] == ["js2", "js10"]
