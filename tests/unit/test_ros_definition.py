"""The text of our message definitions, and how a definition from a log is held against the struct
of today."""

from enum import IntEnum
from typing import Annotated

import msgspec
import pytest

from vehicled.core import messages
from vehicled.core.messages import (
    ActuatorCommand,
    Corrections,
    GnssFix,
    Message,
    TaskTick,
    WireChunk,
)
from vehicled.ros.cdr import CdrError, known_fields
from vehicled.ros.definition import definition
from vehicled.ros.fields import parse_type


class Colour(IntEnum):
    """Colour of a lamp."""

    RED = 0
    """Stop."""
    DARK_GREEN = 200


class Lamp(Message, frozen=True):
    """A lamp, in every kind of field that a message may have."""

    t_ns: messages.Int64
    on: bool
    brightness: float
    colour: Colour
    name: str
    firmware: bytes
    position_m: messages.Vector3
    """Position relative to the base."""
    spectrum: messages.Float64s
    hours: messages.UInt16 = 0


def test_every_kind_of_field_is_spelt_as_ros_spells_it() -> None:
    found = definition(Lamp)
    assert found.name == "vehicled_msgs/msg/Lamp"
    assert found.text == (
        "# A lamp, in every kind of field that a message may have.\n"
        "int64 t_ns\n"
        "bool on\n"
        "float64 brightness\n"
        "\n"
        "# Colour of a lamp.\n"
        "# Stop.\n"
        "uint8 COLOUR_RED=0\n"
        "uint8 COLOUR_DARK_GREEN=200\n"
        "uint8 colour\n"
        "string name\n"
        "uint8[] firmware\n"
        "# Position relative to the base.\n"
        "float64[3] position_m\n"
        "float64[] spectrum\n"
        "uint16 hours\n"
    )


def test_enumerations_that_share_a_member_do_not_share_a_constant() -> None:
    lines = definition(GnssFix).text.splitlines()
    assert {
        "uint8 FIX_TYPE_NONE=0",
        "uint8 FIX_TYPE_FIX_3D=4",
        "uint8 CARRIER_NONE=0",
        "uint8 CARRIER_FIXED=2",
    } <= set(lines)


@pytest.mark.parametrize("message_type", messages.ALL)
def test_names_in_a_definition_are_unique(message_type: type[Message]) -> None:
    lines = [
        line.partition("=")[0].split()
        for line in definition(message_type).text.splitlines()
        if line and line[0] != "#"
    ]
    names = [words[1] for words in lines]
    assert len(names) == len(set(names)) >= len(message_type.__struct_fields__)


def test_constants_that_would_collide_are_refused() -> None:
    first = IntEnum("first", {"B_C": 0})
    second = IntEnum("second", {"C": 0})
    clash = msgspec.defstruct(
        "Clash", [("a", first), ("a_b", second)], bases=(Message,), frozen=True, gc=False
    )
    with pytest.raises(TypeError, match=r"Clash\.a_b: constant A_B_C collides"):
        definition(clash)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (("count", int), r"Odd\.count: .* has no ROS 2 width"),
        (("names", tuple[str, ...]), r"Odd\.names: .* has no ROS 2 width"),
        (("Count", bool), r"Odd\.Count: ROS 2 field names"),
        (("a__b", bool), r"Odd\.a__b: ROS 2 field names"),
        (
            ("level", IntEnum("level", {"TOO_HIGH": 256})),
            r"LEVEL_TOO_HIGH = 256 does not fit uint8",
        ),
        (("level", IntEnum("level", {"mixed": 1})), r"LEVEL_mixed is not upper case"),
        (
            ("list", Annotated[tuple[int, ...], msgspec.Meta(extra={"ros": "int64[]"})]),
            r"no fields of ROS type int64\[\]",
        ),
        (
            ("text", Annotated[str, msgspec.Meta(extra={"ros": "string<=8"})]),
            "'string<=8' is no ROS 2 type",
        ),
    ],
)
def test_a_field_without_a_counterpart_is_named(field: tuple[str, type], complaint: str) -> None:
    odd = msgspec.defstruct("Odd", [field], bases=(Message,), frozen=True, gc=False)
    with pytest.raises((TypeError, ValueError), match=complaint):
        definition(odd)


@pytest.mark.parametrize("text", ["float64[0]", "float64[<=3]", "float64[3", "", "float64[3][3]"])
def test_types_that_cannot_be_laid_out_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no ROS 2 type"):
        parse_type(text)


@pytest.mark.parametrize("message_type", messages.ALL)
def test_a_definition_of_today_is_fully_known(message_type: type[Message]) -> None:
    assert known_fields(message_type, definition(message_type).text) == len(
        message_type.__struct_fields__
    )


def test_definitions_of_older_and_newer_writers_are_known_as_far_as_they_go() -> None:
    text = definition(GnssFix).text
    older = text[: text.index("float64 hdop")]
    assert known_fields(GnssFix, older) == GnssFix.__struct_fields__.index("hdop")
    assert known_fields(GnssFix, text + "string antenna  # appended later\n") == len(
        GnssFix.__struct_fields__
    )
    assert known_fields(GnssFix, text + "=" * 80 + "\nMSG: a/B\nfloat64 x\n") == len(
        GnssFix.__struct_fields__
    )


@pytest.mark.parametrize(
    ("message_type", "change", "complaint"),
    [
        (
            TaskTick,
            ("uint32 skipped", "uint16 skipped"),
            "`uint16 skipped` in the place of `uint32 skipped`",
        ),
        (
            WireChunk,
            ("string port", "string socket"),
            "`string socket` in the place of `string port`",
        ),
        (Corrections, ("uint8[] data\n", ""), "lacks data, which has no default"),
        (ActuatorCommand, ("float64 brake\n", ""), "in the place of `float64 brake`"),
    ],
)
def test_a_definition_of_something_else_is_refused(
    message_type: type[Message], change: tuple[str, str], complaint: str
) -> None:
    text = definition(message_type).text
    assert change[0] in text
    with pytest.raises(CdrError, match=complaint):
        known_fields(message_type, text.replace(*change))
