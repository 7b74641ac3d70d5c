"""Commands ``vehicled status | arm | disarm | stop | mode | why``, which talk to a daemon on this
computer."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import convert

from vehicled.core.wire.usage import UsageRow, usage_lines
from vehicled.live.control_socket.client import Client, ControlError, HungUpError
from vehicled.live.control_socket.protocol import Action, ActionRequest, MarginsRequest
from vehicled.live.control_socket.socket_path import find
from vehicled.run.argument_types import PROFILE, between
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import clear, print_table
from vehicled.safety.reason import REFUSED, WITHDRAWN, ReasonCode

ARMING_TIMEOUT_S = 12.0
"""Longest wait for arming, s; a little longer than the daemon's own limit."""
POLL_S = 0.1
WAITS = {
    "ARMED": "driving waits for",
    "AUTO": "the change waits for",
    "STOPPING": "the stop does not end",
}
"""Label of the list of unmet conditions, by mode; any other mode is waiting to arm."""
NO_CAP = ("NONE", "WARN")
"""Reactions without a speed cap of their own; a cap then comes from the stopping distance alone."""
_RATE = between(0.1, 20.0, "expected a rate from 0.1 to 20 Hz")
MODES: dict[str, Action] = {
    "auto": "drive", "teleop": "teleop", "offboard": "offboard", "align": "align",
    "standby": "disarm", "reset": "reset",
}  # fmt: skip


def declare_status(parser: CommandParser) -> None:
    """Show what a running daemon is doing and waiting for."""
    parser.add_argument("--watch", action="store_true", help="repeat until Ctrl-C")
    parser.add_argument(
        "--rate", type=_RATE, default=2.0, metavar="HZ", help="repetitions per second (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    to_daemon(parser, status)


def declare_arm(parser: CommandParser) -> None:
    """Arm a running daemon; waits for the arming checks."""
    to_daemon(parser, arm)


def declare_disarm(parser: CommandParser) -> None:
    """Disarm it; a moving vehicle brakes first."""
    to_daemon(parser, disarm)


def declare_stop(parser: CommandParser) -> None:
    """Brake now."""
    parser.add_argument(
        "--emergency",
        action="store_true",
        help="disable the drive until the vehicle is armed again",
    )
    to_daemon(parser, stop)


def declare_mode(parser: CommandParser) -> None:
    """Drive the course, drive manually or by setpoints, find the heading by driving straight ahead,
    or disarm."""
    parser.add_argument(
        "mode",
        choices=tuple(MODES),
        help="mode to enter; `reset` leaves FAULT, and accepts a place that has jumped",
    )
    parser.add_argument(
        "--arm", action="store_true", help="arm first, with the checks of this mode"
    )
    to_daemon(parser, mode)


def declare_why(parser: CommandParser) -> None:
    """Explain the present mode, with the chain of causes."""
    parser.add_argument(
        "--margins", action="store_true", help="print value and limit of every rule, too"
    )
    to_daemon(parser, why)


def to_daemon(parser: CommandParser, run: Callable[[Namespace], int]) -> None:
    """Let ``run`` be what a command does that talks to a daemon on this computer."""
    parser.add_argument(
        "--profile",
        type=PROFILE,
        metavar="P",
        help="profile of the daemon, or its socket (default: the only running daemon)",
    )
    parser.set_defaults(run=run)


def status(arguments: Namespace) -> int:
    """Print what the daemon is doing and waiting for."""
    with Client(find(arguments.profile)) as client:
        if not arguments.watch:
            _show(client.status(), as_json=arguments.json)
            return 0
        for state in client.watch(arguments.rate):
            if arguments.json:
                print(msgspec.json.encode(state).decode(), flush=True)
                continue
            if sys.stdout.isatty():
                clear()
            _show(state, as_json=False)
    return 0


def arm(arguments: Namespace) -> int:
    """Arm, and wait until the vehicle is armed or the request is refused."""
    with Client(find(arguments.profile)) as client:
        client.ask(ActionRequest("arm"))
        return _wait(client, "ARMED")


def disarm(arguments: Namespace) -> int:
    """Disarm; a moving vehicle brakes first."""
    with Client(find(arguments.profile)) as client:
        try:
            client.ask(ActionRequest("disarm"))
            return _wait(client, "STANDBY")
        except HungUpError:
            # A manually driven simulation ends when disarmed.
            print("the run has ended")
            return 0


def stop(arguments: Namespace) -> int:
    """Brake now; ``--emergency`` also disables the drive until the vehicle is armed again."""
    with Client(find(arguments.profile)) as client:
        client.ask(ActionRequest("emergency_stop" if arguments.emergency else "stop"))
        state = client.status()
        print(f"{state['mode']}: {state['why']}")
    return 0


def mode(arguments: Namespace) -> int:
    """Change the mode: drive the course, drive manually, find the heading, disarm, leave FAULT or
    accept a place that jumped."""
    with Client(find(arguments.profile)) as client:
        if arguments.arm:
            client.ask(ActionRequest("arm"))
        client.ask(ActionRequest(MODES[arguments.mode]))
        if arguments.mode == "reset":
            return _wait(client, "RESET", arms=True)
        done = _wait(client, arguments.mode.upper(), arms=arguments.arm)
        return _follow_alignment(client) if arguments.mode == "align" else done


def why(arguments: Namespace) -> int:
    """Print the reason for the present mode, the chain of causes, and unmet arming checks."""
    with Client(find(arguments.profile)) as client:
        state = client.status()
        rules = client.ask(MarginsRequest())["rules"] if arguments.margins else []
    print(f"{state['mode']}: {state['why']}")
    for link in state["chain"]:
        measured = f" ({link['measured']})" if link.get("measured") else ""
        print(
            f"  {link['ago_s']:8.1f} s ago  {link['reaction'].lower():<16} {link['code']}: "
            f"{link['reason']}{measured}"
        )
    for text in state["waiting_for"]:
        print(f"  {WAITS.get(state['mode'], 'arming waits for')}: {text}")
    if rules:
        _show_margins(rules)
    return 0


def _show_margins(rules: list[list[Any]]) -> None:
    """Print value and limit of every rule that is watched in this mode, the tripped ones first."""
    # Imported here, because the matrix brings numpy, which no other command on a daemon needs.
    from vehicled.safety.margins import RuleState
    from vehicled.safety.matrix import RULES

    units = {rule.code: (rule.sense.value, rule.unit) for rule in RULES}
    rows = []
    for rule in sorted(
        convert(rules, list[RuleState]),
        key=lambda rule: ("force", "holds", "quiet", "idle").index(rule.state),
    ):
        if rule.state == "idle" or (rule.limit is None and rule.state == "quiet"):
            continue
        sense, unit = units.get(rule.code, ("", ""))
        value = rule.words or ("-" if rule.value is None else f"{rule.value:g}")
        limit = "" if rule.limit is None else f"{sense} {rule.limit:g} {unit}".rstrip()
        rows.append([rule.state, rule.code, value, limit, rule.reaction, rule.said])
    print_table("rules", ["state", "rule", "value", "trips at", "grade", "reason"], rows)


def _follow_alignment(client: Client) -> int:
    """Wait until the vehicle has stopped, and print what it has learnt. Ctrl-C stops it."""
    try:
        while (state := client.status())["mode"] in ("ALIGN", "STOPPING"):
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        client.ask(ActionRequest("stop"))
        raise
    if state["mode"] == "STANDBY" and any(
        link["code"] == "heading_known" for link in state["chain"]
    ):
        print(f"STANDBY: {state['why']}")
        return 0
    print(f"vehicled: {state['mode']}: {state['why']}", file=sys.stderr)
    return 1


def _wait(client: Client, wanted: str, *, arms: bool = False) -> int:
    """Wait for a mode. Raises :class:`ControlError` with the reasons if it is refused.

    ``arms``: arming was requested, too. An interruption withdraws the request, so that the vehicle
    does not start later, unattended.
    """
    try:
        return _follow(client, wanted, arms or wanted in ("ARMED", "ALIGN"))
    except KeyboardInterrupt:
        client.ask(ActionRequest("stop"))
        raise


def _follow(client: Client, wanted: str, arms: bool) -> int:
    end_s = time.monotonic() + ARMING_TIMEOUT_S
    shown = ""
    while True:
        state = client.status()
        if state["mode"] == ("STANDBY" if wanted == "RESET" else wanted):
            print(f"{state['mode']}: {state['why']}")
            return 0
        if wanted == "STANDBY" and state["mode"] == "FAULT":
            print(f"FAULT: {state['why']}; the vehicle is not armed")
            return 0
        if state["why"] != shown and state.get("why_code") not in REFUSED:
            shown = state["why"]
            print(f"{state['mode']}: {shown}", file=sys.stderr)
        # Arming and aligning begin in these modes, while their checks are pending.
        refused = state.get("why_code") in REFUSED | WITHDRAWN or (
            not arms and state["mode"] in ("STANDBY", "FAULT")
        )
        if refused or time.monotonic() > end_s:
            raise ControlError(f"{state['mode']}: {state['why']}{_reasons(state)}")
        time.sleep(POLL_S)


def _reasons(state: dict[str, Any]) -> str:
    waiting = state["waiting_for"]
    return (
        "".join(f"\n  {text}" for text in waiting)
        if waiting and state.get("why_code") != ReasonCode.ARMING_REFUSED
        else ""
    )


def _show(state: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(state), indent=2).decode())
        return
    estimate = state["estimate"]
    usage = convert(state.get("messages", []), list[UsageRow])
    rows = [
        ["mode", f"{state['mode']}: {state['why']}"],
        ["reaction", state["reaction"].lower() + _cap(state)],
        [
            "course",
            (
                f"{state['course']}, {_number(state['progress_m'], 1)} of {state['course_m']:.1f} "
                f"m, {state['controller']}"
            ),
        ],
        ["off the course", f"{_number(state['cross_track_m'], 2)} m"],
        [
            "speed",
            (
                f"{_number(estimate and estimate['speed_mps'], 2)} m/s, wanted "
                f"{_number(state['target_speed_mps'], 2)} m/s"
            ),
        ],
        ["lane", _lane(state.get("lane"))],
        *[["RC handset", text] for text in _rc(state.get("rc"))],
        ["estimate", "none so far" if estimate is None else _place(estimate, state["estimator"])],
        ["ports", "; ".join(f"{p['name']} {p['state'].lower()}" for p in state["ports"])],
        ["messages", _messages(usage)],
        *[["", text] for text in usage_lines(usage)],
        [
            "deadlines",
            ", ".join(
                f"{d['task']} {d['misses']} of {d['releases']} missed" for d in state["deadlines"]
            ),
        ],
        ["commands cut", _cut(state["clipped"])],
        ["log", state.get("log_trouble") or state["log"] or "none written"],
        ["independent stop", state.get("independent_stop", "")],
        *([["mixed reality", mixed]] if (mixed := state.get("mixed_reality")) else []),
    ]
    waits = WAITS.get(state["mode"], "arming waits for")
    rows += [[waits if k == 0 else "", text] for k, text in enumerate(state["waiting_for"])]
    rows += [
        ["stands in" if k == 0 else "", text] for k, text in enumerate(state.get("substitutes", ()))
    ]
    print_table(
        f"{state['profile']} (vehicled {state['version']}, up {state['up_s']:.0f} s)",
        ["", ""],
        rows,
    )


def _messages(usage: list[UsageRow]) -> str:
    """Return how many of the messages of each port were used."""
    counts: dict[str, tuple[int, int]] = {}
    for row in usage:
        used, arrived = counts.get(row.port, (0, 0))
        counts[row.port] = used + row.used, arrived + row.arrived
    return (
        "; ".join(f"{port} {used} of {arrived} used" for port, (used, arrived) in counts.items())
        or "none so far"
    )


def _cap(state: dict[str, Any]) -> str:
    if state["speed_cap_mps"] is None:
        return ""
    purpose = " to stop within the corridor" if state["reaction"] in NO_CAP else ""
    return f", at most {state['speed_cap_mps']:.2f} m/s{purpose}"


def _lane(lane: dict[str, Any] | None) -> str:
    if lane is None:
        return "no obstacle sensor"
    free = "clear" if lane["free_m"] is None else f"free for {lane['free_m']:.2f} m"
    return f"{free}, a stop takes {_number(lane['stop_m'], 2)} m"


def _rc(rc: dict[str, Any] | None) -> list[str]:
    """Return what is known of the RC handset; nothing without a receiver."""
    if rc is None:
        return []
    parts = (
        ["has control" if rc["control"] else "lets others drive"]
        if rc["alive"]
        else [f"lost: {rc['trouble']}"]
    )
    parts += ["KILL SWITCH ON"] if rc["killed"] else []
    if rc["link_quality"] is not None:
        parts.append(f"link {100 * rc['link_quality']:.0f} %")
    if rc["rssi_dbm"] is not None:
        parts.append(f"{rc['rssi_dbm']:.0f} dBm")
    if rc["alive"]:
        parts.append(f"steering {rc['steering']:+.2f}, throttle {rc['throttle']:+.2f}")
    unusable = [f"{count} {reason}" for reason, count in rc["unusable"].items() if count]
    parts += [f"frames not used: {', '.join(unusable)}"] if unusable else []
    channels = " ".join("-" if value is None else f"{value:.0f}" for value in rc["channels"])
    return [", ".join(parts), *([f"channels {channels}"] if channels else [])]


def _cut(clipped: dict[str, Any]) -> str:
    kinds = ", ".join(f"{kind} {n}" for kind, n in clipped["by_kind"].items() if n)
    return f"{clipped['commands']} ({kinds})" if kinds else "none"


def _place(estimate: dict[str, Any], name: str) -> str:
    place = (
        f"({_number(estimate['x_m'], 2)}, {_number(estimate['y_m'], 2)}) m, "
        f"{_number(estimate['yaw_rad'], 3)} rad"
    )
    return (
        f"{estimate['status'].lower()} ({name}), {place}, sigma {_number(estimate['sigma_m'], 3)} m"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
