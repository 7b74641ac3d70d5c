"""ROS 2 message definitions of our own messages, derived from the structs.

The text is what MCAP calls ``ros2msg``: a .msg file, followed for each message it refers to by a
line of 80 ``=``, a line ``MSG: package/Type`` and the .msg text of that message. Our own messages
refer to none.
"""

import inspect
from functools import cache

from msgspec import Struct

from vehicled.core.messages import Message
from vehicled.ros.fields import constants_of, fields_of

PACKAGE = "vehicled_msgs"
SEPARATOR = "=" * 80


class RosDefinition(Struct, frozen=True):
    """Named ROS 2 definition: ``name`` as in ``package/msg/Type``, ``text`` in ``ros2msg``."""

    name: str
    text: str


@cache
def definition(message_type: type[Message]) -> RosDefinition:
    """Return the definition of a message struct, docstrings as comments. Raises TypeError for a
    field without a ROS 2 counterpart.

    Fields keep name and order; ``IntEnum`` becomes uint8 with a constant per member, placed before
    its field.
    """
    lines = _comment(inspect.cleandoc(message_type.__doc__ or ""))
    constants = constants_of(message_type)
    for field in fields_of(message_type):
        if field.enum is not None:
            lines.append("")
            lines += _comment(inspect.cleandoc(field.enum.__doc__ or ""))
            for constant in constants[field.name]:
                lines += [
                    *_comment(constant.comment),
                    f"{constant.base} {constant.name}={constant.value}",
                ]
        lines += _comment(field.comment)
        lines.append(f"{field.type_text} {field.name}")
    return RosDefinition(f"{PACKAGE}/msg/{message_type.__name__}", "\n".join(lines) + "\n")


def _comment(text: str) -> list[str]:
    return [f"# {line}".rstrip() for line in text.splitlines()]
