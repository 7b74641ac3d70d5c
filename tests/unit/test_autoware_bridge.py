"""The bridge's process as Autoware meets it on the wire: topics, types and QoS of its own manifest,
and its commands."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.autoware_definitions import DEFINITIONS, autoware_store
from tests.unit.view_facts import STARTED_NS, estimate, packed
from vehicled.core.messages import ActuatorCommand, Mode
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.bridges.ros2.autoware import LATCHED_REPORTS, AutowareVehicle
from vehicled.ros.standard import encode

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from cyclonedds._clayer import ddspy_write
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import Policy

from tests.ros2_bench import PUBLISHED, Daemon, Node, bridge, node, padded
from tests.unit.test_ros2_server import asked, diagnostics, values
from vehicled.live.bridges.ros2.dds import idl_type
from vehicled.live.bridges.ros2.topics import dds_name

pytestmark = pytest.mark.xdist_group("ros2")

STORE = autoware_store()
CONTROL = ("/control/command/control_cmd", "autoware_control_msgs/Control")
GEAR = ("/control/command/gear_cmd", "autoware_vehicle_msgs/GearCommand")
TRAJECTORY = (
    "/planning/scenario_planning/trajectory",
    "autoware_planning_msgs/Trajectory",
)
STATE = {
    "/localization/kinematic_state",
    "/localization/acceleration",
    "/localization/initialization_state",
}
"""Topics of the vehicle beside the domain "vehicle" of the manifest."""
DRIVE = 2
ZERO = (0, 0)


def manifest() -> dict[str, dict[str, Any]]:
    """Return Autoware's topics by name."""
    content = json.loads((DEFINITIONS / "interface_manifest.json").read_text())
    found = {}
    for each in content["interfaces"]:
        if each["kind"] == "topic":
            found[each["interface"]] = each
    return found


def ours(domain: str) -> list[dict[str, Any]]:
    return [
        each
        for name, each in manifest().items()
        if (each["domain"] == domain and "predicted" not in name) or name in STATE
    ]


def dds_names(row: dict[str, Any]) -> tuple[str, str]:
    named = dds_name(row["interface"], row["type"])
    return named.topic, named.type_name


def endpoints(other: Node, kind: Any, wanted: set[tuple[str, str]]) -> dict[Any, Any]:
    """Return the endpoints in the domain by (topic, type) once the wanted ones are there."""
    seen: dict[Any, Any] = {}
    reader = BuiltinDataReader(other.participant, kind)

    def found() -> bool:
        for each in reader.take(200):
            if hasattr(each, "topic_name"):
                seen.setdefault((each.topic_name, each.type_name), []).append(each.qos)
        return wanted <= set(seen)

    other.take_until(found)
    return seen


@pytest.mark.parametrize(
    "type_name",
    sorted(
        type_name
        for auto in (False, True)
        for follow in ("control", "trajectory")
        for _, type_name in AutowareVehicle(follow, auto=auto).commands()
    ),
)
def test_the_bytes_of_commands_are_read_as_autoware_writes_them(type_name: str) -> None:
    full_name = type_name.replace("/", "/msg/")
    record = encode(type_name, values(type_name, count(1)))
    written = padded(
        bytes(STORE.serialize_cdr(STORE.deserialize_cdr(record, full_name), full_name))
    )
    ours: Any = idl_type(type_name)
    assert written == padded(record)
    assert padded(ours.deserialize(written).serialize(use_version_2=False)) == written
    assert ours.__idl_typename__.replace(".", "::") == dds_name("/x", type_name).type_name


def test_published_topics_types_and_qos_are_those_of_the_manifest() -> None:
    rows = ours("vehicle")
    assert len(rows) == 9
    with node() as other, bridge(autoware="control"):
        seen = endpoints(other, BuiltinTopicDcpsPublication, {dds_names(row) for row in rows})
    for row in rows:
        (qos,) = seen[dds_names(row)]
        assert isinstance(qos[Policy.Reliability], type(Policy.Reliability.Reliable(0)))
        latched = qos[Policy.Durability] == Policy.Durability.TransientLocal
        # Volatile readers accept latched writers; latched readers accept no others.
        assert latched or row["qos"]["durability"] == "volatile"
        assert latched is (row["interface"] in LATCHED_REPORTS)


@pytest.mark.parametrize("auto", [False, True])
def test_commands_of_the_manifest_are_subscribed(tmp_path: Path, auto: bool) -> None:
    rows = [row for row in manifest().values() if row["interface"].startswith("/control/command")]
    assert len(rows) == 4
    wanted = {dds_names(row) for row in rows}
    if auto:
        wanted = {
            (
                topic,
                type_name.replace("autoware_", "autoware_auto_").replace(
                    "Control_", "AckermannControlCommand_"
                ),
            )
            for topic, type_name in wanted
        }
    with (
        node() as other,
        bridge(autoware="control", autoware_auto=auto, control_socket=str(tmp_path / "s")),
    ):
        seen = endpoints(other, BuiltinTopicDcpsSubscription, wanted)
    assert all(
        any(qos[Policy.Durability] == Policy.Durability.Volatile for qos in seen[key])
        for key in wanted
    )


def control(speed_mps: float, wheel_rad: float = 0.0) -> bytes:
    lateral = (ZERO, ZERO, wheel_rad, 0.0, True)
    longitudinal = (ZERO, ZERO, speed_mps, 0.0, 0.0, True, False)
    return padded(encode(CONTROL[1], (ZERO, ZERO, lateral, longitudinal)))


def report_standstill(process: BridgeProcess, mode: Mode = Mode.OFFBOARD) -> None:
    """Let the daemon say that the vehicle stands, in a mode."""
    report_standstill.now_ns += 50_000_000  # type: ignore[attr-defined]
    now_ns: int = report_standstill.now_ns  # type: ignore[attr-defined]
    at = msgspec.structs.replace(estimate(1.0, t_ns=now_ns), speed_mps=0.0, yaw_rate_radps=0.0)
    command = ActuatorCommand(now_ns, 0, 0.0, 0.0, 0.0, 0.125, mode)
    process.send(FrameKind.RECORDS, packed([(at, now_ns), (command, now_ns)]))


report_standstill.now_ns = STARTED_NS  # type: ignore[attr-defined]


@contextmanager
def autoware(
    tmp_path: Path, follow: str, before: Callable[[Node], Any] = lambda _: None
) -> Iterator[tuple[Node, Daemon, BridgeProcess]]:
    """Yield Autoware's node, the daemon and the bridge between them, which starts after the node
    has done something."""
    daemon = Daemon(tmp_path / "daemon.sock")
    topics = {
        "/diagnostics": PUBLISHED["/diagnostics"],
        "/vehicle/status/gear_status": "autoware_vehicle_msgs/GearReport",
        "/vehicle/status/control_mode": "autoware_vehicle_msgs/ControlModeReport",
    }
    try:
        with (
            node(topics) as other,
            nullcontext(before(other)),
            bridge(control_socket=str(tmp_path / "daemon.sock"), autoware=follow) as process,
        ):
            yield other, daemon, process
    finally:
        daemon.close()


def test_autoware_drives_in_the_gear_that_it_commands(tmp_path: Path) -> None:
    with autoware(tmp_path, "control") as (other, daemon, process):
        controls, gears = (other.writer(*key) for key in (CONTROL, GEAR))
        other.take_until(
            lambda: all(writer.get_matched_subscriptions() for writer in (controls, gears))
        )
        # Without a gear the vehicle is held.
        held = asked(other, daemon, controls, control(1.5, 0.25), ("setpoint", 0.0))
        assert held["wheel_angle_rad"] == 0.25
        other.take_until(lambda: any("no gear yet" in text for text in diagnostics(other).values()))

        gear = padded(encode(GEAR[1], (ZERO, DRIVE)))

        def engaged() -> bool:
            ddspy_write(gears._ref, gear)
            report_standstill(process)
            reports = other.received["/vehicle/status/gear_status"]
            return bool(reports) and reports[-1][12] == DRIVE

        other.take_until(engaged)
        driven = asked(other, daemon, controls, control(1.5, 0.25), ("setpoint", 1.5))
        assert driven["origin"] == "ros2"
        mode = other.received["/vehicle/status/control_mode"][-1]
        assert mode == padded(
            encode("autoware_vehicle_msgs/ControlModeReport", (stamp_of(mode), 1))
        )


def stamp_of(record: bytes) -> tuple[int, int]:
    return int.from_bytes(record[4:8], "little"), int.from_bytes(record[8:12], "little")


def test_a_gear_that_was_sent_once_before_the_bridge_came_is_known(tmp_path: Path) -> None:
    """Autoware advises to send it on change, for those that join later (transient local)."""

    def send(other: Node) -> Any:
        gears = other.writer(*GEAR, latched=True)
        ddspy_write(gears._ref, padded(encode(GEAR[1], (ZERO, DRIVE))))
        return gears

    with autoware(tmp_path, "control", before=send) as (other, _, process):

        def engaged() -> bool:
            report_standstill(process)
            reports = other.received["/vehicle/status/gear_status"]
            return bool(reports) and reports[-1][12] == DRIVE

        other.take_until(engaged)


def trajectory(*speeds_mps: float) -> bytes:
    points = [
        (ZERO, ((2.0 * k, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)), speed_mps, *(0.0,) * 5)
        for k, speed_mps in enumerate(speeds_mps)
    ]
    return padded(encode(TRAJECTORY[1], ((ZERO, "map"), points)))


@pytest.mark.parametrize("end", ["refused", "silence"])
def test_while_a_trajectory_is_driven_its_end_stops_the_vehicle(tmp_path: Path, end: str) -> None:
    with autoware(tmp_path, "trajectory") as (other, daemon, process):
        writer = other.writer(*TRAJECTORY)
        other.take_until(lambda: bool(writer.get_matched_subscriptions()))

        def drives() -> bool:
            report_standstill(process, Mode.AUTO)
            reports = other.received["/vehicle/status/control_mode"]
            return bool(reports) and reports[-1][12] == 1

        other.take_until(drives)
        asked(other, daemon, writer, trajectory(1.0, 1.0, 0.0), ("course", None))
        assert not any(request["do"] == "request" for request in daemon.requests)

        def stopped() -> bool:
            if end == "refused":
                ddspy_write(writer._ref, trajectory(0.0, 0.0, 0.0))
            time.sleep(0.02)
            return {"do": "request", "action": "stop", "origin": "ros2"} in daemon.requests

        other.take_until(stopped)


def test_an_unusable_trajectory_does_not_stop_what_others_drive(tmp_path: Path) -> None:
    with autoware(tmp_path, "trajectory") as (other, daemon, process):
        writer = other.writer(*TRAJECTORY)
        other.take_until(lambda: bool(writer.get_matched_subscriptions()))

        def refused() -> bool:
            report_standstill(process, Mode.AUTO)
            ddspy_write(writer._ref, trajectory(0.0, 0.0))
            return any("standstill" in text for text in diagnostics(other).values())

        other.take_until(refused)
        assert not daemon.requests


def test_another_planner_neither_drives_nor_stops_the_vehicle(tmp_path: Path) -> None:
    with autoware(tmp_path, "trajectory") as (other, daemon, process):
        writer, stranger = other.writer(*TRAJECTORY), other.writer(*TRAJECTORY)
        other.take_until(
            lambda: all(each.get_matched_subscriptions() for each in (writer, stranger))
        )
        asked(other, daemon, writer, trajectory(1.0, 1.0, 0.0), ("course", None))

        def both_refused() -> bool:
            report_standstill(process, Mode.AUTO)
            ddspy_write(writer._ref, trajectory(1.0, 1.0, 0.0))
            ddspy_write(stranger._ref, trajectory(0.0, 0.0))
            ddspy_write(stranger._ref, trajectory(2.0, 2.0, 2.0))
            found = list(diagnostics(other).values())
            return any("another node sends trajectories" in text for text in found)

        other.take_until(both_refused)
        assert {request["do"] for request in daemon.requests} == {"course"}
