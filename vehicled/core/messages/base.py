"""Base class of the messages, and their field types with ROS 2 widths."""

from typing import Annotated

from msgspec import Meta, Struct

NAN = float("nan")

# Each annotation holds range and ROS 2 width, so that one definition serves both validation and the
# CDR layout.
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra={"ros": "int64"})]
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1, extra={"ros": "uint32"})]
UInt16 = Annotated[int, Meta(ge=0, le=2**16 - 1, extra={"ros": "uint16"})]
UInt8 = Annotated[int, Meta(ge=0, le=2**8 - 1, extra={"ros": "uint8"})]
Vector2 = Annotated[
    tuple[float, ...], Meta(min_length=2, max_length=2, extra={"ros": "float64[2]"})
]
Vector3 = Annotated[
    tuple[float, ...], Meta(min_length=3, max_length=3, extra={"ros": "float64[3]"})
]
Matrix3 = Annotated[
    tuple[float, ...], Meta(min_length=9, max_length=9, extra={"ros": "float64[9]"})
]
Matrix4 = Annotated[
    tuple[float, ...], Meta(min_length=16, max_length=16, extra={"ros": "float64[16]"})
]
Float64s = Annotated[tuple[float, ...], Meta(max_length=1_000_000, extra={"ros": "float64[]"})]

NAN3: tuple[float, ...] = (NAN,) * 3
NAN9: tuple[float, ...] = (NAN,) * 9


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of all messages: immutable, compact on the link, invisible to the garbage collector."""
