"""Tables of the pages on the interfaces, made from the tables in the code. ``python -m
tests.interface_tables`` renews the pages.

Each stands between ``<!-- NAME -->`` and ``<!-- end -->`` in its page.
"""

import re
from argparse import SUPPRESS, Action, _HelpAction, _SubParsersAction
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from tests.licences import EXCEPTIONS, installed_by, licence

if TYPE_CHECKING:
    from vehicled.live.bridges.ros2.requests import RequestKind

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- (?!end)(?P<name>[\w ]+) -->\n(?P<table>.*?)<!-- end -->", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    cells = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in cells
    )


# ---------------------------------------------------------------- MAVLink


def messages() -> str:
    """Messages that the vehicle takes."""
    from vehicled.live.bridges.mavlink.autopilot import TAKEN

    return table(
        ["message", "what comes of it", "needs `--mavlink-commands`"],
        [[f"`{name}`", row.does, "" if row.anybody else "yes"] for name, row in TAKEN.items()],
    )


def refused_messages() -> str:
    """Messages that the vehicle knows and refuses."""
    from vehicled.live.bridges.mavlink.autopilot import REFUSED

    by_cure: dict[str, list[str]] = {}
    for name, cure in REFUSED.items():
        by_cure.setdefault(cure, []).append(f"`{name}`")
    return table(
        ["message", "instead"], [[", ".join(names), cure] for cure, names in by_cure.items()]
    )


def command_rows() -> str:
    """Commands that the vehicle follows."""
    from pymavlink.dialects.v20 import ardupilotmega as mav

    from vehicled.live.bridges.mavlink.commands import commands
    from vehicled.live.bridges.mavlink.telemetry import Schedule

    rows = []
    for number, row in commands(Schedule()).items():
        params = [
            f"{k} {param.name}: {param.allowed}{', or unset' * param.unset}"
            for k, param in sorted(row.params.items())
        ]
        params += ["5, 6 place: latitude and longitude in a global frame"] if row.has_place else []
        name = mav.enums["MAV_CMD"][number].name.removeprefix("MAV_CMD_")
        rows.append([f"{number} `{name}`", row.does, "; ".join(params) or "none is read"])
    return table(["command", "what it does", "parameters"], rows)


def frames() -> str:
    """Coordinate frames of places and velocities."""
    from vehicled.live.bridges.mavlink.places import LOCAL_FRAMES, VELOCITY_FRAMES, frame_name
    from vehicled.paths.mission import GLOBAL_FRAMES, LOCAL_NED

    everywhere = "reposition, targets, mission items"
    rows = [
        [f"{number} `{frame_name(number)}`", "latitude and longitude", everywhere]
        for number in sorted(GLOBAL_FRAMES)
    ]
    for number, meaning in LOCAL_FRAMES.items():
        rows.append(
            [
                f"{number} `{frame_name(number)}`",
                meaning,
                "targets, mission items" if number == LOCAL_NED else "targets",
            ]
        )
    rows += [
        [f"{number} `{frame_name(number)}`", f"velocity, {meaning}", "targets"]
        for number, meaning in VELOCITY_FRAMES.items()
    ]
    return table(["frame", "means", "of"], rows)


def mission_items() -> str:
    """Commands in a mission, by what becomes of them."""
    from vehicled.paths.mission_commands import COMMANDS, CommandEffect

    rows = []
    for kind in CommandEffect:
        fate = {
            CommandEffect.DRIVEN: "driven",
            CommandEffect.HARMLESS: "ignored, with a line each",
        }.get(kind, "refused")
        names = ", ".join(
            f"{number} {name}"
            for number, (name, other) in sorted(COMMANDS.items())
            if other is kind
        )
        rows.append([fate, kind.value or "see below", names])
    return table(
        ["", "because", "commands"],
        [*rows, ["refused", "nobody knows what it moves", "every other number"]],
    )


# ---------------------------------------------------------------- ROS 2


def ros_topics() -> str:
    """Topics that ROS nodes may command with."""
    from vehicled.live.bridges.ros2.requests import REQUESTS
    from vehicled.live.bridges.ros2.topics import COMMANDS

    return _topics(COMMANDS, REQUESTS)


def _topics(commands: Mapping[tuple[str, str], str], kinds: Mapping[str, "RequestKind"]) -> str:
    rows = []
    for (topic, type_name), request in commands.items():
        row = kinds[type_name]
        framed = (
            " or ".join(f"`{frame}`" if frame else "none" for frame in row.frames) or "no header"
        )
        age = "any" if isinf(row.oldest_s) else f"{row.oldest_s:g} s"
        rows.append(
            [
                f"`{topic}`",
                f"`{type_name}`",
                f"`{request}`" if request else "",
                row.reads,
                framed,
                age if row.stamps else "no header",
            ]
        )
    return table(
        ["topic", "type", "request", "fields that are read", "frame", "oldest stamp"], rows
    )


def autoware_commands() -> str:
    """Topics on which Autoware's commands are taken."""
    from vehicled.live.bridges.ros2.autoware import AutowareVehicle

    controlled, planned = (
        AutowareVehicle(follow, auto=False) for follow in ("control", "trajectory")
    )
    kinds = controlled.requests(lambda _: None)
    return _topics({**controlled.commands(), **planned.commands()}, kinds)


def autoware_state() -> str:
    """Topics on which Autoware sees the vehicle."""
    from vehicled.live.bridges.ros2.autoware import LATCHED_REPORTS, AutowareVehicle

    found: dict[str, list[str]] = {}
    for each in AutowareVehicle("control", auto=False).projections():
        # A row of several sources has the rate of the periodic one.
        rate = "" if isinf(each.max_rate_hz) else f"{each.max_rate_hz:g} Hz"
        latched = "transient local" if each.topic in LATCHED_REPORTS else "volatile"
        found[each.topic] = [
            f"`{each.topic}`", f"`{each.schema_name.replace('/msg/', '/')}`", rate, latched
        ]  # fmt: skip
    return table(["topic", "type", "at most", "durability"], list(found.values()))


# ---------------------------------------------------------------- control socket


def requests() -> str:
    """Requests of the control socket with their fields."""
    from vehicled.live.control_socket import protocol

    return _requests(protocol.Request)


def step_requests() -> str:
    """Requests of a simulation that a program steps, with their fields."""
    from vehicled.run import step_protocol

    return _requests(step_protocol.StepServerRequests)


def _requests(union: Any) -> str:
    rows = []
    for request in get_args(union):
        info = msgspec.inspect.type_info(request)
        assert isinstance(info, msgspec.inspect.StructType)
        what = " ".join((request.__doc__ or "").split()).removesuffix(".")
        rows.append([f"`{info.tag}`", "; ".join(map(_field, info.fields)) or "none", what])
    return table(["`do`", "fields", "what it is"], rows)


def _field(field: msgspec.inspect.Field) -> str:
    text = f"`{field.name}` {_kind(field.type)}"
    if field.default is not msgspec.NODEFAULT:
        text += f" = {msgspec.json.encode(field.default).decode()}"
    return text


def _kind(kind: Any) -> str:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_kind(each) for each in kind.types)
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        name = "number" if isinstance(kind, inspect.FloatType) else "whole number"
        limits = [(kind.ge, "from"), (kind.gt, "above"), (kind.le, "to"), (kind.lt, "below")]
        return " ".join(
            [name, *(f"{word} {limit:g}" for limit, word in limits if limit is not None)]
        )
    if isinstance(kind, inspect.StrType):
        return f"text of at most {kind.max_length}" if kind.max_length else "text"
    names: dict[Any, str] = {
        inspect.BoolType: "true or false",
        inspect.BytesType: "Base64",
        inspect.NoneType: "null",
    }
    return names[type(kind)]


# ---------------------------------------------------------------- messages


def message_definitions() -> str:
    """Definitions of the messages in the format of ROS 2."""
    from vehicled.core.messages import ALL
    from vehicled.log.schema import topic_of
    from vehicled.ros.definition import definition

    return "\n".join(
        f"### {kind.__name__}\n\n`{topic_of(kind)}`\n\n```\n{definition(kind).text}```\n"
        for kind in ALL
    )


# ---------------------------------------------------------------- command line


def commands() -> str:
    """Commands with their arguments."""
    from vehicled.cli.commands import build_parser

    parts = []
    for page in build_parser().walk():
        rows = []
        for action in page._actions:
            if isinstance(action, _SubParsersAction):
                rows += [
                    [f"[`{row.dest}`](#{page.prog.replace(' ', '-')}-{row.dest})", str(row.help)]
                    for row in action._choices_actions
                ]
            elif action.help != SUPPRESS and not isinstance(action, _HelpAction):
                rows.append([_spelling(action), str(action.help)])
        about = f"{page.description}\n\n" if page.description else ""
        parts.append(f"## {page.prog}\n\n{about}{table(['argument', ''], rows) if rows else ''}")
    return "\n".join(parts).replace("%%", "%")


def _spelling(action: Action) -> str:
    metavar = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    value = metavar or (
        "{" + ",".join(map(str, action.choices)) + "}"
        if action.choices is not None
        else action.dest
    )
    takes = "" if action.nargs == 0 else f" {value}"
    return f"`{', '.join(action.option_strings)}{takes}`" if action.option_strings else f"`{value}`"


# ---------------------------------------------------------------- packages


def licences() -> str:
    """Packages that are installed with the daemon and with each extra, and their licences."""
    rows = []
    for extra, packages in installed_by().items():
        named = ", ".join(
            f"{package} ({licence(package) or 'not installed here'})" for package in packages
        )
        rows.append([f"`vehicled[{extra}]`" if extra else "`vehicled`", named])
    return table(["installed by", "packages"], rows)


def other_licences() -> str:
    """Packages under another licence than those above."""
    return table(
        ["package", "licence", "why it may be used"],
        [[name, *row] for name, row in EXCEPTIONS.items()],
    )


def supported_devices() -> str:
    """Supported devices, each with its notes and its evidence."""
    from vehicled.profile.supported_devices import SUPPORTED

    return table(
        ["driver", "device", "wire", "output", "evidence"],
        [
            [
                f"[{', '.join(f'`{name}`' for name in each.drivers)}](../drivers/{each.notes})",
                each.devices,
                each.ports,
                each.does,
                f"{each.evidence.value}: {each.seen}",
            ]
            for each in SUPPORTED
        ],
    )


def evidence() -> str:
    """Kinds of evidence."""
    from vehicled.profile.supported_devices import MEANING

    return table(["evidence", "means"], [[kind.value, text] for kind, text in MEANING.items()])


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "docs/mavlink.md": {
        "messages": messages, "refused messages": refused_messages, "commands": command_rows,
        "frames": frames, "mission items": mission_items,
    },
    "docs/ros2.md": {"commands": ros_topics},
    "docs/autoware.md": {"state": autoware_state, "commands": autoware_commands},
    "docs/control_socket.md": {"requests": requests},
    "docs/control_protocol.md": {"requests": step_requests},
    "docs/messages.md": {"messages": message_definitions},
    "docs/command_reference.md": {"commands": commands},
    "docs/devices.md": {"supported devices": supported_devices, "evidence": evidence},
    "docs/licences.md": {"licences": licences, "other licences": other_licences},
}  # fmt: skip
"""Tables by page and name."""


def renewed(page: str) -> str:
    """Return the text of a page with its tables made anew."""
    tables = TABLES[page]
    return BLOCK.sub(
        lambda block: f"<!-- {block['name']} -->\n{tables[block['name']]()}<!-- end -->",
        (ROOT / page).read_text(),
    )


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(renewed(page))
