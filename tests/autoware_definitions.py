"""Autoware's own message definitions as rosbags reads them."""

import re
from pathlib import Path
from typing import Any

from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

DEFINITIONS = Path(__file__).parent / "golden" / "autoware"
"""Folder of the definitions; its ORIGIN.md says where they come from."""


def autoware_store() -> Any:
    """Return a store of ROS 2 Humble's types and Autoware's."""
    store = get_typestore(Stores.ROS2_HUMBLE)
    types: dict[str, Any] = {}
    for path in DEFINITIONS.rglob("*.msg"):
        name = f"{path.parts[-3]}/msg/{path.stem}"
        types |= get_types_from_msg(path.read_text(), name)
    for path in DEFINITIONS.rglob("*.idl"):
        # rosbags does not take the lines of the preprocessor.
        types |= get_types_from_idl(re.sub(r"(?m)^#include.*$", "", path.read_text()))
    for path in DEFINITIONS.rglob("*.srv"):
        request, _, response = path.read_text().partition("\n---")
        for part, text in (("Request", request), ("Response", response)):
            types |= get_types_from_msg(text, f"{path.parts[-3]}/srv/{path.stem}_{part}")
    store.register(types)
    return store
