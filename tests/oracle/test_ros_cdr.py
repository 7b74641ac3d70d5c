"""Our CDR records and definitions against those of rosbags, an independent implementation, and
against bytes counted by hand."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from tests.examples import examples
from vehicled.core import messages
from vehicled.core.messages import (
    Cause,
    Direction,
    Event,
    ImuSample,
    Message,
    OperatorAction,
    OperatorCommand,
    Path,
    TaskTick,
    WireChunk,
)
from vehicled.ros.cdr import CdrError, numpy_dtype, packer, unpacker
from vehicled.ros.definition import definition

EXAMPLES = 15
FIXED = tuple(
    kind for kind in messages.ALL if not any(t in definition(kind).text for t in ("string ", "[] "))
)


class Empty(Message, frozen=True):
    """A message without fields."""


class Mixed(Message, frozen=True):
    """Every alignment behind every kind of variable field."""

    small: messages.UInt8
    label: str
    wide: messages.UInt16
    blob: bytes
    count: messages.UInt32
    first: messages.Float64s
    second: messages.Float64s
    flag: bool
    remark: str
    t_ns: messages.Int64
    pair: messages.Vector2


EVERY = (*messages.ALL, Mixed, Empty)


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values that msgspec accepts for a field."""
    if get_origin(annotation) is Annotated:
        base, meta = get_args(annotation)
        if base is int:
            return st.integers(meta.ge, meta.le)
        return st.lists(
            st.floats(), min_size=meta.min_length or 0, max_size=min(meta.max_length, 20)
        ).map(tuple)
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return st.sampled_from(annotation)
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(), float: st.floats(), str: st.text(max_size=20),
        bytes: st.binary(max_size=20),
    }  # fmt: skip
    return kinds[annotation]


def _messages(message_type: type[Message]) -> st.SearchStrategy[Message]:
    hints = get_type_hints(message_type, include_extras=True)
    return st.builds(
        message_type, **{name: _values(hints[name]) for name in message_type.__struct_fields__}
    )


@pytest.fixture(scope="module")
def store() -> Any:
    store = get_typestore(Stores.EMPTY)
    for message_type in EVERY:
        found = definition(message_type)
        store.register(get_types_from_msg(found.text, found.name))
    return store


def _plain(values: Mapping[str, Any]) -> str:
    """Text equal for equal values: NaN equals NaN, 0.0 differs from -0.0, enumerations and numpy
    arrays as plain values."""
    plain = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value = bytes(value) if value.dtype == np.uint8 else tuple(value.tolist())
        plain[name] = int(value) if isinstance(value, IntEnum) else value
    return repr(plain)


def _ours(message: Message) -> str:
    return _plain(msgspec.structs.asdict(message))


def _rosbags_object(store: Any, message: Message) -> Any:
    values: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(message).items():
        if isinstance(value, tuple):
            value = np.array(value, dtype=np.float64)
        elif isinstance(value, bytes):
            value = np.frombuffer(value, dtype=np.uint8)
        values[name] = int(value) if isinstance(value, IntEnum) else value
    if not values:
        values["structure_needs_at_least_one_member"] = 0
    return store.types[definition(type(message)).name](**values)


@pytest.mark.parametrize("message_type", EVERY)
def test_rosbags_knows_fields_and_constants_as_we_mean_them(
    message_type: type[Message], store: Any
) -> None:
    constants, fields = store.fielddefs[definition(message_type).name]
    assert tuple(name for name, _ in fields) == (
        message_type.__struct_fields__ or ("structure_needs_at_least_one_member",)
    )
    hints = get_type_hints(message_type, include_extras=True)
    named = {f"{name.upper()}_{member.name}": member.value for name,
        hint in hints.items() if isinstance(hint, type)
             and issubclass(hint, IntEnum) for member in hint}  # fmt: skip
    assert {name: value for name, _, value in constants} == named


@pytest.mark.parametrize("message_type", EVERY)
@given(data=st.data())
@examples(EXAMPLES)
def test_both_implementations_write_and_read_the_same(
    message_type: type[Message], store: Any, data: st.DataObject
) -> None:
    message = data.draw(_messages(message_type))
    name = definition(message_type).name
    record = packer(message_type)(message)

    theirs = store.deserialize_cdr(record, name)
    assert _plain(
        {field: getattr(theirs, field) for field in message_type.__struct_fields__}
    ) == _ours(message)
    assert record == bytes(
        store.serialize_cdr(_rosbags_object(store, message), name, little_endian=True)
    )
    assert _ours(unpacker(message_type)(record)) == _ours(message)
    assert _ours(unpacker(message_type)(memoryview(record))) == _ours(message)


@pytest.mark.parametrize("message_type", EVERY)
@given(data=st.data())
@examples(EXAMPLES)
def test_a_truncated_record_is_refused_and_a_longer_one_read(
    message_type: type[Message], data: st.DataObject
) -> None:
    message = data.draw(_messages(message_type))
    record = packer(message_type)(message)
    cut = data.draw(st.integers(0, len(record) - 1))
    with pytest.raises(CdrError, match=message_type.__name__):
        unpacker(message_type)(record[:cut])
    assert _ours(unpacker(message_type)(record + data.draw(st.binary(max_size=9)))) == _ours(
        message
    )


@pytest.mark.parametrize("message_type", EVERY)
@given(data=st.data())
@examples(EXAMPLES)
def test_damaged_bytes_give_a_message_or_the_one_error(
    message_type: type[Message], data: st.DataObject
) -> None:
    record = bytearray(packer(message_type)(data.draw(_messages(message_type))))
    if data.draw(st.booleans()):
        record[4:] = data.draw(st.binary(max_size=400))
    for position, value in data.draw(
        st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=8)
    ):
        if position < len(record):
            record[position] = value
    try:
        found = unpacker(message_type)(bytes(record))
    except CdrError:
        return
    assert _ours(unpacker(message_type)(packer(message_type)(found))) == _ours(found)


@pytest.mark.parametrize("message_type", FIXED)
@given(data=st.data())
@examples(EXAMPLES)
def test_records_of_fixed_size_are_one_array(
    message_type: type[Message], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(_messages(message_type), min_size=1, max_size=4))
    records = np.frombuffer(b"".join(map(packer(message_type), drawn)), numpy_dtype(message_type))
    for message, row in zip(drawn, records, strict=True):
        columns = {
            name: row[name] if row[name].ndim else row[name].item()
            for name in message_type.__struct_fields__
        }
        assert _plain(columns) == _ours(message)


def test_the_types_read_as_arrays_are_of_fixed_size() -> None:
    assert {TaskTick, ImuSample, messages.StateEstimate, messages.GroundTruth} <= set(FIXED)
    assert numpy_dtype(TaskTick).itemsize == 52
    with pytest.raises(TypeError, match=r"WireChunk\.port has no fixed size"):
        numpy_dtype(WireChunk)


HAND_COUNTED: Mapping[str, tuple[Message, str]] = MappingProxyType(
    {
        "one zero byte for nothing": (Empty(), "00010000 00"),
        "scalars side by side": (
            TaskTick(1, 2, 3, -1, 5, 6, 7, True, Cause.QUEUED, 255),
            (
                "00010000 0100000000000000 0200000000000000 0300000000000000 ffffffffffffffff "
                "0500000000000000 06000000 07 01 06 ff"
            ),
        ),
        "gap before the length of a sequence": (
            WireChunk(1, "ab", Direction.TX, b"\xaa\xbb"),
            "00010000 0100000000000000 03000000 616200 01 02000000 aabb 0000 00000000",
        ),
        "length of an empty string counts its NUL": (
            OperatorCommand(1, 2, OperatorAction.STOP, ""),
            "00010000 0100000000000000 0200000000000000 03 000000 01000000 00",
        ),
        "strings of several bytes per character": (
            Event(1, "é", "", "{}"),
            "00010000 0100000000000000 03000000 c3a900 00 01000000 00 000000 03000000 7b7d00",
        ),
        "no gap behind the length of an empty sequence": (
            Path(1, "p", True, (), (1.0,), (), (), ()),
            (
                "00010000 0100000000000000 02000000 7000 01 00 00000000 01000000 000000000000f03f "
                "00000000 00000000 00000000"
            ),
        ),
    }
)


@pytest.mark.parametrize("case", HAND_COUNTED)
def test_bytes_as_the_specification_counts_them(case: str) -> None:
    message, expected = HAND_COUNTED[case]
    assert packer(type(message))(message).hex() == expected.replace(" ", "")


@pytest.mark.parametrize("header", ["00000000", "00030000", "01010000", "ff010000"])
def test_other_representations_are_refused(header: str) -> None:
    record = bytes.fromhex(header) + packer(Event)(Event(1, "info", "start", "{}"))[4:]
    with pytest.raises(CdrError, match="Event: is not little-endian plain CDR"):
        unpacker(Event)(record)


def test_the_options_of_the_header_are_ignored() -> None:
    event = Event(1, "info", "start", "{}")
    record = bytearray(packer(Event)(event))
    record[3] = 2  # how many bytes of padding end the record, as some middlewares say
    assert unpacker(Event)(bytes(record) + b"\0\0") == event


@pytest.mark.parametrize(
    "message",
    [
        ImuSample(1, 2, (1.0, 2.0), (4.0, 5.0, 6.0, 7.0)),
        ImuSample(2**63, 2, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)),
        ImuSample(1, 2, (1.0, 2.0, 3.0), (4.0, 5.0, "6")),  # type: ignore[arg-type]
        WireChunk(1, None, Direction.RX, b""),  # type: ignore[arg-type]
        TaskTick(1, 2, 3, 4, 5, -1, 7, True, Cause.NONE, 0),
        Path(1, "p", True, (None,), (), (), (), ()),  # type: ignore[arg-type]
        Event(1, "info", "start", "{}"),
    ],
    ids=[
        "arrays that shift",
        "too large",
        "no number",
        "no string",
        "negative",
        "no number in a sequence",
        "another type",
    ],
)
def test_a_message_that_does_not_fit_is_refused(message: Message) -> None:
    message_type = TaskTick if isinstance(message, Event) else type(message)
    with pytest.raises(CdrError, match=message_type.__name__):
        packer(message_type)(message)


def test_text_that_utf8_cannot_carry_is_escaped(store: Any) -> None:
    record = packer(Event)(Event(1, "info", "undecodable \udcff", "{}"))
    assert unpacker(Event)(record).name == "undecodable \\udcff"
    assert store.deserialize_cdr(record, definition(Event).name).name == "undecodable \\udcff"


def test_an_unknown_value_of_an_enumeration_is_refused() -> None:
    record = bytearray(packer(TaskTick)(TaskTick(1, 2, 3, 4, 5, 6, 7, True, Cause.NONE, 255)))
    record[-2] = 99
    with pytest.raises(CdrError, match=r"TaskTick: .*99"):
        unpacker(TaskTick)(bytes(record))


def test_a_string_without_its_nul_is_refused_as_rosbags_reads_it_short(store: Any) -> None:
    record = packer(Event)(Event(1, "info", "start", "{}"))
    with pytest.raises(CdrError, match="does not end in NUL"):
        unpacker(Event)(record[:-1] + b"x")
    with pytest.raises(SerdeError):
        store.deserialize_cdr(record[:-1], definition(Event).name)


@given(message=_messages(messages.GnssFix))
def test_records_of_an_older_writer_are_read_with_defaults(message: messages.GnssFix) -> None:
    count = messages.GnssFix.__struct_fields__.index("correction_age_s")
    older = msgspec.defstruct(
        "Older",
        [(field.name, field.type, field.default) if field.default is not msgspec.NODEFAULT
         else (field.name, field.type)
         for field in msgspec.structs.fields(messages.GnssFix)[:count]],
        bases=(Message,), frozen=True, gc=False,
    )  # fmt: skip
    assert issubclass(older, Message)
    known = msgspec.structs.astuple(message)[:count]
    record = packer(older)(older(*known))
    assert _ours(unpacker(messages.GnssFix, count)(record)) == _ours(messages.GnssFix(*known))
    assert numpy_dtype(messages.GnssFix, count).itemsize == len(record)
    with pytest.raises(CdrError):
        unpacker(messages.GnssFix)(record)
