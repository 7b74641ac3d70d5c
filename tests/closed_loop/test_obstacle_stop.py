"""Obstacles on real courses in lockstep: it stops before them with the reason in words, and goes on
only when it is armed anew."""

from math import cos, hypot, inf, sin
from pathlib import Path

import pytest

from sim_backend.connection import START_NS
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    LaserScan,
    Mode,
    ObstacleRange,
    OperatorAction,
    OperatorCommand,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.profile import load_profile

SECOND = 1_000_000_000
COURSE = load_course("lot17")
SENSORS = {
    "scan": (
        "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
        "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45,0.0,0.15]",
    ),
    "range": ("devices.range.driver=msglink", 'devices.range.messages=["ObstacleRange"]',
        "devices.range.rate_hz=20"),
}  # fmt: skip
RADIUS_M = 0.2
LOOK_NS = 20_000_000


class Drive:
    """One lockstep drive, and what it reported."""

    def __init__(
        self,
        tmp_path: Path,
        scene: str,
        sensor: str = "scan",
        link: str = "messages",
        course=COURSE,
        failures=(),
        **overrides: str,
    ):
        (tmp_path / "scene.toml").write_text(scene)
        given = [f"{key}={value}" for key, value in overrides.items()]
        name = f"sim.scene={tmp_path / 'scene.toml'}" if scene else 'sim.scene=""'
        self.profile = load_profile("art_vesc", [*SENSORS.get(sensor, ()), name, *given])
        self.faults: list[Fault] = []
        self.readings: list[LaserScan | ObstacleRange] = []
        self.fastest_mps = 0.0
        self.pair = WrappedPair(self.profile, course, list(failures), self, 3, link=link)
        self.nearest_m = inf
        vehicle = self.profile.vehicle
        half = vehicle.width_m / 2
        front = (vehicle.length_m + vehicle.wheelbase_m) / 2
        rear = -(vehicle.length_m - vehicle.wheelbase_m) / 2
        self._outline = [(front, half), (front, 0.0), (front, -half), (rear, half), (rear, -half)]

    def record(self, message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active:
            self.faults.append(message)
        elif isinstance(message, LaserScan | ObstacleRange):
            self.readings.append(message)
        elif isinstance(message, ActuatorCommand) and message.mode is Mode.STANDBY:
            assert message.throttle == 0.0

    def until(self, seconds: float, post=None, stop=lambda: False) -> None:
        """Go on to this time of the run. ``post(t_s)``: middle of what is watched for the true
        distance to the vehicle."""
        due_ns = self.pair.now_ns
        while self.pair.now_ns < START_NS + seconds * SECOND and not stop():
            self.pair.grant()
            self.pair.reply()
            if post is not None and self.pair.now_ns >= due_ns:
                due_ns += LOOK_NS
                self.nearest_m = min(
                    self.nearest_m, self.gap_m(*post((self.pair.now_ns - START_NS) / SECOND))
                )

    def gap_m(self, x: float, y: float) -> float:
        """True distance from the outline of the vehicle to the post."""
        true = self.pair.world.motion
        c, s = cos(true.yaw_rad), sin(true.yaw_rad)
        corners = (
            (true.x_m + c * ahead - s * left, true.y_m + s * ahead + c * left)
            for ahead, left in self._outline
        )
        return min(hypot(cx - x, cy - y) for cx, cy in corners) - RADIUS_M

    def ask(self, *actions: OperatorAction) -> None:
        """The operator asks."""
        for action in actions:
            self.pair.machine.on_message(
                OperatorCommand(self.pair.now_ns, self.pair.now_ns, action, "a test"),
                self.pair.now_ns,
            )

    @property
    def codes(self) -> list[str]:
        """Codes of the faults."""
        return [fault.code for fault in self.faults]

    @property
    def digest(self) -> str:
        """Digest of every frame."""
        return self.pair.machine.digest.hexdigest()


def on_course(s_m: float, left_m: float = 0.0, course=COURSE) -> tuple[float, float]:
    k = int(course.s_m.searchsorted(s_m))
    x, y, yaw = float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])
    return x - left_m * sin(yaw), y + left_m * cos(yaw)


def post(x: float, y: float) -> str:
    return f"[[circle]]\nat = [{x}, {y}]\nradius_m = {RADIUS_M}\n"


@pytest.mark.parametrize(("sensor", "link"), [("scan", "wires"), ("range", "messages")])
def test_it_stops_before_a_post_on_the_lane_and_says_why(tmp_path, sensor, link):
    place = on_course(3.5)
    drive = Drive(tmp_path, post(*place), sensor, link)
    drive.until(6.0, lambda t: place)
    machine = drive.pair.machine
    assert machine.mode is Mode.STANDBY
    assert machine.why.startswith("obstacle ahead: something stands 0.")
    assert drive.codes == ["obstacle_in_sight", "obstacle_ahead"], "capped first, then stopped"
    assert 0.1 < drive.nearest_m < 0.5, "about the gap that the profile asks for"
    assert abs(drive.pair.world.motion.speed_mps) < 0.01


def test_nothing_is_armed_while_it_stands_there_and_the_drive_goes_on_from_there_afterwards(
    tmp_path,
):
    place = on_course(3.0)
    drive = Drive(tmp_path, post(*place))
    drive.until(5.0)
    stopped_at = drive.pair.world.motion
    drive.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    drive.until(5.5)
    machine = drive.pair.machine
    assert machine.mode is Mode.STANDBY
    assert "clear the lane" in machine.why
    drive.pair.world.scene._circles.middles_m[0, 0] += 50.0
    drive.until(8.0, stop=lambda: machine.mode is Mode.AUTO)
    assert machine.mode is Mode.AUTO, "the request was still waiting"
    drive.until(9.5)
    true = drive.pair.world.motion
    assert hypot(true.x_m - stopped_at.x_m, true.y_m - stopped_at.y_m) > 1.0


def crossing(
    at_s: float, s_m: float = 3.2, speed_mps: float = 1.0
) -> tuple[str, tuple[float, float], tuple[float, float]]:
    """Somebody who crosses the lane from right to left, in the middle of it at that time."""
    (x1, y1), (x2, y2) = on_course(s_m, -3.0), on_course(s_m, 3.0)
    start_s = at_s - 3.0 / speed_mps
    text = (
        f"[[moving]]\nplaces = [[{x1}, {y1}], [{x2}, {y2}]]\nstart_s = {start_s}\nspeed_mps = "
        f"{speed_mps}\nradius_m = {RADIUS_M}\n"
    )
    return text, (x1, y1), (x2, y2)


def test_it_stops_for_somebody_who_crosses_and_does_not_go_on_by_itself(tmp_path):
    text, (x1, y1), (x2, y2) = crossing(3.3)

    def where(t_s):
        share = min(max((t_s - 0.3) / 6.0, 0.0), 1.0)
        return x1 + share * (x2 - x1), y1 + share * (y2 - y1)

    drive = Drive(tmp_path, text)
    drive.until(8.0, where)
    machine = drive.pair.machine
    assert "obstacle_ahead" in drive.codes or "obstacle_too_near" in drive.codes
    assert machine.mode is Mode.STANDBY
    assert "obstacle ahead" in machine.why
    assert drive.nearest_m > 0.05
    assert machine.pipeline.monitors.obstacle.free_m == inf, "the lane is free again"
    drive.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    drive.until(10.0)
    assert machine.mode is Mode.AUTO
    assert drive.pair.world.motion.speed_mps > 0.5


def test_an_obstacle_that_has_crossed_in_time_only_slows_it_down(tmp_path):
    drive = Drive(tmp_path, crossing(1.6, speed_mps=4.0)[0])
    drive.until(5.0)
    assert drive.pair.machine.mode is Mode.AUTO
    assert set(drive.codes) <= {"obstacle_in_sight"}
    assert drive.pair.world.motion.speed_mps > 0.8


def test_wheels_that_do_not_follow_the_plan_round_a_post_are_braked_before_it(tmp_path):
    course = load_course("straight_run:length_m=20,speed_mps=3")
    place = on_course(9.0, course=course)
    drive = Drive(tmp_path, post(*place), course=course)
    drive.pair.controller.lateral_offset = LateralOffset(8.0, 0.3, 0.0, 0.0, 1.2)  # type: ignore[attr-defined]
    drive.until(8.0, lambda t: place, stop=lambda: "obstacle_too_near" in drive.codes)
    assert drive.pair.world.motion.speed_mps > 2.0
    drive.until(10.0, lambda t: place, stop=lambda: drive.pair.machine.mode is Mode.STANDBY)
    assert drive.pair.machine.mode is Mode.STANDBY
    assert 0.05 < drive.nearest_m < 0.8


def test_obstacles_beside_the_lane_or_outside_a_bend_are_ignored(tmp_path):
    """Posts a little further than the vehicle is wide, on both sides, all along; and one straight
    ahead of where a bend begins."""
    drive = Drive(
        tmp_path, "\n".join(post(*on_course(s, left)) for s in (2.5, 3.5) for left in (-0.75, 0.75))
    )
    drive.until(4.5)
    assert drive.pair.machine.mode is Mode.AUTO
    assert drive.codes == []
    circle = load_course("circle_r5_ccw")
    x, y, yaw = float(circle.x_m[20]), float(circle.y_m[20]), float(circle.yaw_rad[20])
    aside = Drive(tmp_path, post(x + 3.2 * cos(yaw), y + 3.2 * sin(yaw)), course=circle)
    aside.until(5.0)
    assert aside.codes == []


@pytest.mark.soak  # make test: other drives repeat
def test_runs_without_anything_in_sight_are_the_same_to_the_byte(tmp_path):
    far = post(500.0, 500.0)
    digests = set()
    for scene, sensor in (("", "none"), (post(*on_course(3.0)), "none")):
        drive = Drive(tmp_path, scene, sensor)
        drive.until(2.0)
        digests.add(drive.digest)
        assert drive.codes == []
    assert len(digests) == 1, "a scene that no sensor looks at changes nothing"
    watched = [Drive(tmp_path, scene, "scan") for scene in ("", far)]
    for drive in watched:
        drive.until(2.0)
        assert drive.codes == []
        assert len(drive.readings) > 30
    assert {drive.digest for drive in watched} == digests, "nor do scans in which nothing is seen"
