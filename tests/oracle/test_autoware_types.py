"""Our descriptions of Autoware's types against its own definitions, as rosbags reads them, and
against the type hashes that its build computes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from tests.autoware_definitions import DEFINITIONS, autoware_store
from tests.examples import examples
from tests.oracle.test_ros_standard import SCALARS
from vehicled.ros.autoware_types import AUTOWARE
from vehicled.ros.standard import encode, standard_definition

OURS = sorted(line.partition(":")[0] for line in AUTOWARE.splitlines() if line[:1].isalpha())
THEIRS = autoware_store()


def _hashes() -> dict[str, str]:
    lines = (DEFINITIONS / "interface_type_hashes.jazzy.lock").read_text().splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: hashed for hashed, name, _ in rows}


def _described() -> Any:
    """A store that knows only our descriptions."""
    store = get_typestore(Stores.EMPTY)
    for name in (*OURS, "nav_msgs/Odometry", "geometry_msgs/AccelWithCovarianceStamped"):
        found = standard_definition(name)
        store.register(get_types_from_msg(found.text, found.name))
    return store


DESCRIBED = _described()


def test_every_definition_is_described() -> None:
    stored = {
        f"{path.parts[-3]}/{path.stem}"
        for path in DEFINITIONS.rglob("*")
        if path.suffix in (".msg", ".idl")
    }
    assert set(OURS) == stored


@pytest.mark.parametrize("name", OURS)
def test_fields_and_constants_are_those_of_the_definition(name: str) -> None:
    full_name = standard_definition(name).name
    (our_constants, ours), (constants, fields) = (
        store.fielddefs[full_name] for store in (DESCRIBED, THEIRS)
    )
    # The IDL bounds the points of a trajectory, which its bytes do not show.
    unbounded = [
        (field, (kind, (detail[0], 0)) if kind == Nodetype.SEQUENCE else (kind, detail))
        for field, (kind, detail) in fields
    ]
    assert list(ours) == unbounded
    assert list(our_constants) == list(constants)


@pytest.mark.parametrize("name", sorted(_hashes().keys() & DESCRIBED.fielddefs.keys()))
def test_the_type_hash_is_that_of_autowares_build(name: str) -> None:
    assert DESCRIBED.hash_rihs01(name) == _hashes()[name]


def _values(desc: Any) -> st.SearchStrategy[Any]:
    """Nested sequences for a field as rosbags describes it."""
    kind, detail = desc
    if kind == Nodetype.BASE:
        return SCALARS[detail[0]]
    if kind == Nodetype.NAME:
        return st.tuples(*(_values(field) for _, field in THEIRS.fielddefs[detail][1]))
    return st.lists(_values(detail[0]), max_size=3)


@pytest.mark.parametrize("name", OURS)
@given(data=st.data())
@examples(20)
def test_rosbags_reads_what_we_write_and_writes_the_same_bytes(
    name: str, data: st.DataObject
) -> None:
    full_name = standard_definition(name).name
    record = encode(name, data.draw(_values((Nodetype.NAME, full_name))))
    message = THEIRS.deserialize_cdr(record, full_name)
    assert bytes(THEIRS.serialize_cdr(message, full_name, little_endian=True)) == record
