"""A scripted stand-in for Autoware drives part of a lap over DDS: it reads the vehicle's state, and
sends gear and control commands, all in Autoware's own types."""

import os
import signal
import time
from math import atan2, cos, hypot, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.autoware_definitions import autoware_store
from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import ActionRequest
from vehicled.profile import load_profile

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from cyclonedds._clayer import ddspy_write

from tests.closed_loop.test_ros2 import PATIENT, vehicled
from tests.ros2_bench import Node, node, padded

pytestmark = pytest.mark.xdist_group("ros2")

STORE = autoware_store()
STATE = {
    "/localization/kinematic_state": "nav_msgs/Odometry",
    "/localization/acceleration": "geometry_msgs/AccelWithCovarianceStamped",
    "/vehicle/status/velocity_status": "autoware_vehicle_msgs/VelocityReport",
    "/vehicle/status/steering_status": "autoware_vehicle_msgs/SteeringReport",
    "/vehicle/status/control_mode": "autoware_vehicle_msgs/ControlModeReport",
    "/vehicle/status/gear_status": "autoware_vehicle_msgs/GearReport",
    "/path": "nav_msgs/Path",
}
CONTROL, GEAR = "autoware_control_msgs/Control", "autoware_vehicle_msgs/GearCommand"
AUTONOMOUS, DRIVE, PARK = 1, 2, 22
RADIUS_M, SPEED_MPS = 5.0, 1.0
WHEELBASE_M = load_profile("art").vehicle.wheelbase_m


class Autoware:
    """The nodes of Autoware that talk to a vehicle, as far as a lap on a circle needs them."""

    def __init__(self, other: Node) -> None:
        self._other = other
        self._controls = other.writer("/control/command/control_cmd", CONTROL)
        self._gears = other.writer("/control/command/gear_cmd", GEAR, latched=True)
        self.trajectories = other.writer(
            "/planning/scenario_planning/trajectory", "autoware_planning_msgs/Trajectory"
        )
        self.gear, self.speed_mps = PARK, 0.0
        self._middle_m: tuple[float, float] | None = None

    def newest(self, topic: str) -> Any:
        """Return the newest message of a topic."""
        name = STATE[topic].replace("/", "/msg/")
        return STORE.deserialize_cdr(self._other.received[topic][-1], name)

    def _middle(self) -> tuple[float, float]:
        """Return the middle of the circle, which is the course at first."""
        if self._middle_m is None:
            poses = self.newest("/path").poses
            places = [(each.pose.position.x, each.pose.position.y) for each in poses]
            x_m, y_m = np.mean(places, axis=0).tolist()
            self._middle_m = (x_m, y_m)
        return self._middle_m

    def place(self) -> tuple[float, float, float]:
        """Return distance from the middle of the circle, bearing from it, and heading."""
        middle = self._middle()
        pose = self.newest("/localization/kinematic_state").pose.pose
        x_m, y_m = pose.position.x - middle[0], pose.position.y - middle[1]
        yaw_rad = 2.0 * atan2(pose.orientation.z, pose.orientation.w)
        return hypot(x_m, y_m), atan2(y_m, x_m), yaw_rad

    def send(self) -> None:
        """Send the gear, and steer along the circle."""
        radius_m, bearing_rad, yaw_rad = self.place()
        turned_rad = yaw_rad - (bearing_rad + pi / 2.0)
        heading_error_rad = atan2(sin(turned_rad), cos(turned_rad))
        wheel_rad = atan2(WHEELBASE_M, RADIUS_M) - heading_error_rad + 0.5 * (radius_m - RADIUS_M)
        types = STORE.types
        stamp = types["builtin_interfaces/msg/Time"](*divmod(time.time_ns(), 10**9))
        never = types["builtin_interfaces/msg/Time"](0, 0)
        lateral = types["autoware_control_msgs/msg/Lateral"](stamp, never, wheel_rad, 0.0, False)
        longitudinal = types["autoware_control_msgs/msg/Longitudinal"](
            stamp, never, self.speed_mps, 0.0, 0.0, False, False
        )
        control = types["autoware_control_msgs/msg/Control"](stamp, never, lateral, longitudinal)
        gear = types["autoware_vehicle_msgs/msg/GearCommand"](stamp, self.gear)
        for writer, name, message in (
            (self._controls, CONTROL, control),
            (self._gears, GEAR, gear),
        ):
            data = STORE.serialize_cdr(message, name.replace("/", "/msg/"))
            ddspy_write(writer._ref, padded(bytes(data)))
        time.sleep(0.03)

    def send_trajectory(self, length_m: float) -> None:
        """Send a trajectory along the circle from the vehicle on, as a planner does ten times a
        second."""
        types = STORE.types
        _, bearing_rad, _ = self.place()
        middle = self._middle()
        points = []
        for k in range(round(length_m / 0.5) + 1):
            at = bearing_rad + 0.5 * k / RADIUS_M
            yaw_rad = at + pi / 2.0
            place = types["geometry_msgs/msg/Point"](
                middle[0] + RADIUS_M * cos(at), middle[1] + RADIUS_M * sin(at), 0.0
            )
            turned = types["geometry_msgs/msg/Quaternion"](
                0.0, 0.0, sin(0.5 * yaw_rad), cos(0.5 * yaw_rad)
            )
            pose = types["geometry_msgs/msg/Pose"](place, turned)
            zero = types["builtin_interfaces/msg/Duration"](0, 0)
            speed_mps = SPEED_MPS if 0.5 * k < length_m else 0.0
            points.append(
                types["autoware_planning_msgs/msg/TrajectoryPoint"](
                    zero, pose, speed_mps, 0.0, 0.0, 0.0, 0.0, 0.0
                )
            )
        stamp = types["builtin_interfaces/msg/Time"](*divmod(time.time_ns(), 10**9))
        header = types["std_msgs/msg/Header"](stamp, "map")
        message = types["autoware_planning_msgs/msg/Trajectory"](header, points)
        data = STORE.serialize_cdr(message, "autoware_planning_msgs/msg/Trajectory")
        ddspy_write(self.trajectories._ref, padded(bytes(data)))
        time.sleep(0.1)

    @property
    def matched(self) -> bool:
        """True once the vehicle has found the writers."""
        return all(writer.get_matched_subscriptions() for writer in (self._controls, self._gears))


@pytest.mark.soak  # make test: tests/unit/test_autoware_bridge.py commands through the socket
def test_autoware_drives_part_of_a_lap(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    drive = ("sim", "--clock", "wall", "--by-hand", "--course", "circle_r5_ccw", *PATIENT,
             "--log", str(tmp_path), "--quiet")  # fmt: skip
    bridge = ("--ros2", "--ros2-commands", "--ros2-autoware")
    with node(STATE) as other, vehicled(*drive, *bridge, RUNTIME_DIRECTORY=str(folder)) as run:
        autoware = Autoware(other)
        try:
            other.take_until(lambda: all(other.received.values()) and autoware.matched)
            assert autoware.newest("/vehicle/status/control_mode").mode != AUTONOMOUS
            with Client(next(folder.glob("*.sock"))) as client:

                def mode() -> str:
                    autoware.send()
                    return str(client.status()["mode"])

                other.take_until(lambda: mode() != "INIT" and bool(client.status()["offboard"]))
                client.ask(ActionRequest("arm"))
                other.take_until(lambda: mode() == "ARMED")
                client.ask(ActionRequest("offboard"))
                other.take_until(lambda: mode() == "OFFBOARD")

                # A speed without the gear holds the vehicle, as one with gears would stand.
                autoware.speed_mps = SPEED_MPS
                for _ in range(10):
                    assert mode() == "OFFBOARD"
                other.take()
                assert abs(autoware.newest("/vehicle/status/velocity_status")
                           .longitudinal_velocity) < 0.1  # fmt: skip

                autoware.gear = DRIVE
                start_rad, errors_m = autoware.place()[1], []

                def quarter_driven() -> bool:
                    assert mode() == "OFFBOARD"
                    radius_m, bearing_rad, _ = autoware.place()
                    errors_m.append(abs(radius_m - RADIUS_M))
                    turned = (bearing_rad - start_rad) % (2.0 * pi)
                    return pi / 2.0 < turned < pi

                other.take_until(quarter_driven, timeout_s=120.0)
                assert autoware.newest("/vehicle/status/control_mode").mode == AUTONOMOUS
                assert autoware.newest("/vehicle/status/gear_status").report == DRIVE
                velocity = autoware.newest("/vehicle/status/velocity_status")
                assert velocity.longitudinal_velocity > 0.5
                assert velocity.heading_rate > 0.1
                assert autoware.newest("/vehicle/status/steering_status").steering_tire_angle > 0.0
                assert max(errors_m) < 1.0

                autoware.speed_mps = 0.0
                other.take_until(
                    lambda: (
                        mode() == "OFFBOARD"
                        and autoware.newest("/vehicle/status/velocity_status").longitudinal_velocity
                        < 0.1
                    )
                )
                autoware.gear = PARK
                other.take_until(
                    lambda: (
                        mode() == "OFFBOARD"
                        and autoware.newest("/vehicle/status/gear_status").report == PARK
                    )
                )
        finally:
            os.kill(run.pid, signal.SIGINT)
            printed, said = run.communicate()
    assert "ROS 2 with Autoware's topics and commands from it" in said, printed


@pytest.mark.soak
def test_trajectories_of_autoware_are_driven_and_their_end_stops_the_vehicle(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "v"
    drive = ("sim", "--clock", "wall", "--by-hand", "--course", "circle_r5_ccw", *PATIENT,
             "--log", str(tmp_path), "--quiet")  # fmt: skip
    bridge = ("--ros2", "--ros2-commands", "--ros2-autoware", "trajectory")
    with node(STATE) as other, vehicled(*drive, *bridge, RUNTIME_DIRECTORY=str(folder)) as run:
        autoware = Autoware(other)
        try:
            other.take_until(
                lambda: (
                    all(other.received.values())
                    and bool(autoware.trajectories.get_matched_subscriptions())
                )
            )
            with Client(next(folder.glob("*.sock"))) as client:

                def mode(length_m: float) -> str:
                    autoware.send_trajectory(length_m)
                    return str(client.status()["mode"])

                other.take_until(
                    lambda: mode(10.0) != "INIT" and client.status()["course"] == "ros2"
                )
                client.ask(ActionRequest("arm"))
                other.take_until(lambda: mode(10.0) == "ARMED")
                client.ask(ActionRequest("drive"))
                start_rad, errors_m = autoware.place()[1], []

                def quarter_driven() -> bool:
                    assert mode(10.0) == "AUTO"
                    radius_m, bearing_rad, _ = autoware.place()
                    errors_m.append(abs(radius_m - RADIUS_M))
                    return pi / 2.0 < (bearing_rad - start_rad) % (2.0 * pi) < pi

                other.take_until(quarter_driven, timeout_s=120.0)
                assert max(errors_m) < 1.0
                assert autoware.newest("/vehicle/status/control_mode").mode == AUTONOMOUS
                # Silence.
                other.take_until(lambda: client.status()["mode"] != "AUTO")
                assert "ros2" in str(client.status()["why"])
        finally:
            os.kill(run.pid, signal.SIGINT)
            printed, said = run.communicate()
    assert "ROS 2 with Autoware's topics" in said, printed
