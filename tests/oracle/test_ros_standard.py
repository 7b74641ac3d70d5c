"""Our descriptions and encoders of the standard types against the definitions that rosbags
carries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from tests.examples import examples
from vehicled.ros.cdr import CdrError
from vehicled.ros.fields import PRIMITIVES
from vehicled.ros.standard import Template, encode, standard_definition

PUBLISHED = (
    "sensor_msgs/NavSatFix", "sensor_msgs/Imu", "nav_msgs/Odometry", "nav_msgs/Path",
    "tf2_msgs/TFMessage", "diagnostic_msgs/DiagnosticArray",
)  # fmt: skip
ACKERMANN = "ackermann_msgs/AckermannDriveStamped"

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(), "byte": st.integers(0, 127), "uint8": st.integers(0, 255),
    "int8": st.integers(-128, 127), "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1), "uint32": st.integers(0, 2**32 - 1),
    "float32": st.floats(width=32), "float64": st.floats(), "string": st.text(max_size=9),
}  # fmt: skip


def _ours() -> Any:
    """A store that knows only what we register."""
    store = get_typestore(Stores.EMPTY)
    for name in (*PUBLISHED, ACKERMANN):
        found = standard_definition(name)
        store.register(get_types_from_msg(found.text, found.name))
    return store


OURS = _ours()


@pytest.mark.parametrize("release", [Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY, Stores.LATEST])
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_layout_is_that_of_ros_by_its_own_hash(name: str, release: Stores) -> None:
    full_name = standard_definition(name).name
    assert OURS.hash_rihs01(full_name) == get_typestore(release).hash_rihs01(full_name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_definition_and_constants_are_those_of_humble(name: str) -> None:
    found = standard_definition(name)
    humble = get_typestore(Stores.ROS2_HUMBLE)
    assert OURS.generate_msgdef(found.name, ros_version=2) == humble.generate_msgdef(
        found.name, ros_version=2
    )


def test_ackermann_drive_is_the_published_one() -> None:
    """rosbags does not carry ackermann_msgs; the sums are those every ROS 1 program compares, with
    the header of ROS 1."""
    ros1 = get_typestore(Stores.ROS1_NOETIC)
    stamped, *dependencies = standard_definition(ACKERMANN).text.split("=" * 80 + "\nMSG: ")
    (drive,) = (text for text in dependencies if text.startswith("ackermann_msgs/AckermannDrive\n"))
    ros1.register(get_types_from_msg(drive.partition("\n")[2], "ackermann_msgs/msg/AckermannDrive"))
    ros1.register(get_types_from_msg(stamped, "ackermann_msgs/msg/AckermannDriveStamped"))
    assert (
        ros1.generate_msgdef("ackermann_msgs/msg/AckermannDrive")[1]
        == "3512e91b48d69674a0e86fadf1ea8231"
    )
    assert (
        ros1.generate_msgdef("ackermann_msgs/msg/AckermannDriveStamped")[1]
        == "1fd5d7f58889cefd44d29f6653240d0c"
    )


def test_each_dependency_is_reported_once() -> None:
    text = standard_definition("nav_msgs/Odometry").text
    definitions = [line for line in text.splitlines() if line.startswith("MSG: ")]
    assert len(definitions) == len(set(definitions)) == 9
    assert text.count("=" * 80) == 9


def _values(desc: Any) -> st.SearchStrategy[Any]:
    """Nested sequences for a field as rosbags describes it."""
    kind, detail = desc
    if kind == Nodetype.BASE:
        return SCALARS[detail[0]]
    if kind == Nodetype.NAME:
        return st.tuples(*(_values(field) for _, field in OURS.fielddefs[detail][1]))
    element, length = detail
    size = {"min_size": length, "max_size": length} if kind == Nodetype.ARRAY else {"max_size": 3}
    return st.lists(_values(element), **size)


def _read(desc: Any, value: Any) -> Any:
    """A value that rosbags deserialised, as nested lists and tuples."""
    kind, detail = desc
    if kind == Nodetype.BASE:
        return value
    if kind == Nodetype.NAME:
        return tuple(
            _read(field, getattr(value, name)) for name, field in OURS.fielddefs[detail][1]
        )
    return (
        value.tolist()
        if isinstance(value, np.ndarray)
        else [_read(detail[0], item) for item in value]
    )


@pytest.mark.parametrize("name", [*PUBLISHED, ACKERMANN])
@given(data=st.data())
@examples(20)
def test_rosbags_reads_what_we_encode(name: str, data: st.DataObject) -> None:
    full_name = standard_definition(name).name
    desc = (Nodetype.NAME, full_name)
    value = data.draw(_values(desc))
    message = OURS.deserialize_cdr(encode(name, value), full_name)
    assert repr(_read(desc, message)) == repr(value)
    assert encode(name, value) == bytes(OURS.serialize_cdr(message, full_name, little_endian=True))


def _flat(value: Any) -> list[float]:
    """The numbers of nested sequences in order, without the texts."""
    if isinstance(value, str):
        return []
    return (
        [value]
        if isinstance(value, bool | int | float)
        else [number for item in value for number in _flat(item)]
    )


@pytest.mark.parametrize("poses", [0, 1, 3])
@pytest.mark.parametrize("frame", ["", "map", "base_link", "été"])
def test_a_template_writes_the_same_as_the_walk(frame: str, poses: int) -> None:
    header = ((1, 2), frame)
    value = (header, [(header, ((x, 2.0, 3.0), (0.0, 0.0, 0.6, 0.8))) for x in range(poses)])
    template = Template(
        "nav_msgs/Path",
        {"header.frame_id": frame, "poses.header.frame_id": frame},
        {"poses": poses},
    )
    assert template.encode(*_flat(value)) == encode("nav_msgs/Path", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("builtin_interfaces/Time", (2**31, 0)),
        ("builtin_interfaces/Time", (1,)),
        ("builtin_interfaces/Time", 1),
        ("std_msgs/Header", ((1, 2), 3)),
        ("geometry_msgs/PoseWithCovariance", (((0, 0, 0), (0, 0, 0, 1)), [0.0] * 35)),
        ("ackermann_msgs/AckermannDrive", (1e39, 0, 0, 0, 0)),
        ("diagnostic_msgs/KeyValue", ("key", None)),
        ("nav_msgs/Path", (((1, 2), "map"), "poses")),
    ],
)
def test_a_value_that_does_not_fit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(CdrError, match=name):
        encode(name, value)


@pytest.mark.parametrize("values", [(1,), (1, 2, 3), (2**31, 0), (0.5, 0), (None, 0)])
def test_a_template_refuses_what_does_not_fit(values: tuple[Any, ...]) -> None:
    with pytest.raises(CdrError, match="builtin_interfaces/Time"):
        Template("builtin_interfaces/Time", {}).encode(*values)


def test_a_template_wants_every_text_and_length_beforehand() -> None:
    with pytest.raises(KeyError, match="child_frame_id"):
        Template("nav_msgs/Odometry", {"header.frame_id": "map"})
    with pytest.raises(KeyError, match="poses"):
        Template("nav_msgs/Path", {"header.frame_id": "map"})


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_has_the_size_of_its_code(name: str) -> None:
    code, size = PRIMITIVES[name]
    assert np.dtype(code).itemsize == size
