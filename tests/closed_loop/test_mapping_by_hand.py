"""A person drives through an unknown place, the map is built, and the vehicle drives the same way
on it by itself."""

from itertools import islice
from math import atan2, cos, hypot, remainder, sin, tau
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

from sim_backend.connection import START_NS
from tests.mapping_bench import HALL
from vehicled.core.messages import (
    Fault,
    Mode,
    OperatorAction,
    OperatorCommand,
    StateEstimate,
    TeleopCommand,
)
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import Attachment, RunHeader
from vehicled.maps.map_file import read_map
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.mapping.build import GrowingMap, build, trajectory_error
from vehicled.offline.mapping.command import course_text
from vehicled.offline.mapping.live import follow
from vehicled.offline.mapping.reading import READ, of_messages, read
from vehicled.paths.catalog import load_course
from vehicled.paths.formats import course_from_bytes
from vehicled.paths.stored import to_json
from vehicled.profile import load_profile
from vehicled.profile.loading import load

SECOND = 1_000_000_000
COURSE = load_course("figure_eight")
SPEED_MPS = 1.5
AHEAD = 12
"""Samples of the course by which the person looks ahead."""


class Drive:
    """One lockstep drive, and what it recorded."""

    def __init__(self, tmp_path, course=COURSE, scenario=True, **given) -> None:
        (tmp_path / "hall.toml").write_text(HALL)
        overrides = [f"sim.scene={tmp_path / 'hall.toml'}", "sim.lidar.rays=361"]
        if given:
            overrides.append("localisation.map=hall.yaml")
        self.profile = load_profile("f1tenth_lidar", overrides)
        self.messages: list[Any] = []
        self.off_m: list[float] = []
        self.codes: list[str] = []
        self.pair = WrappedPair(
            self.profile, course, [], self, 3, link="messages", scenario=scenario, **given
        )

    def record(self, message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, READ):
            self.messages.append(message)
        if isinstance(message, Fault) and message.active:
            self.codes.append(message.code)
        if (
            isinstance(message, StateEstimate)
            and hasattr(self, "pair")
            and self.pair.machine.mode is Mode.AUTO
        ):
            true = self.pair.world.motion
            self.off_m.append(hypot(message.x_m - true.x_m, message.y_m - true.y_m))

    @property
    def now_s(self) -> float:
        return (self.pair.now_ns - START_NS) / SECOND

    def step(self) -> None:
        self.pair.grant()
        self.pair.reply()

    def ask(self, action: OperatorAction) -> None:
        now_ns = self.pair.now_ns
        self.pair.machine.on_message(OperatorCommand(now_ns, now_ns, action, "a test"), now_ns)


def by_hand(drive: Drive, seconds: float) -> None:
    """A person with a stick, who sees where the vehicle is."""
    asked, sequence, due_ns = 0, 0, 0
    while drive.now_s < seconds:
        drive.step()
        now_ns = drive.pair.now_ns
        if now_ns < due_ns:
            continue
        due_ns = now_ns + SECOND // 30
        if asked < 2 and drive.now_s > 1.0 + 0.3 * asked:
            drive.ask((OperatorAction.ARM, OperatorAction.TELEOP)[asked])
            asked += 1
        true, drives = drive.pair.world.motion, drive.pair.machine.mode is Mode.TELEOP
        nearest = int(np.hypot(COURSE.x_m - true.x_m, COURSE.y_m - true.y_m).argmin())
        # Two branches cross: the one of the person's own direction counts.
        turned = np.abs([remainder(y - true.yaw_rad, tau) for y in COURSE.yaw_rad.tolist()])
        away = np.hypot(COURSE.x_m - true.x_m, COURSE.y_m - true.y_m) + 2.0 * (turned > 0.8)
        nearest = int(away.argmin())
        goal = (nearest + AHEAD) % len(COURSE.x_m)
        dx, dy = COURSE.x_m[goal] - true.x_m, COURSE.y_m[goal] - true.y_m
        bearing = remainder(atan2(dy, dx) - true.yaw_rad, tau)
        wheel = atan2(2.0 * drive.profile.vehicle.wheelbase_m * sin(bearing), hypot(dx, dy))
        assert cos(bearing) > 0.0
        sequence += 1
        steering = min(max(wheel / 0.4189, -1.0), 1.0) if drives else 0.0
        throttle = min(max(0.1 * (SPEED_MPS - true.speed_mps), 0.0), 0.15) if drives else 0.0
        drive.pair.machine.on_message(
            TeleopCommand(now_ns, now_ns, steering, throttle, 0.0, True, "a person", sequence),
            now_ns,
        )


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """A drive by hand without any measured place, and its map."""
    drive = Drive(tmp_path_factory.mktemp("by_hand"), scenario=False)
    by_hand(drive, 42.0)
    made = of_messages("by hand", drive.messages, drive.profile, COURSE.datum)
    return drive, made, build(made, 0.05)


def test_a_vehicle_without_any_place_can_be_driven_by_hand_and_maps_what_it_passes(mapped):
    drive, made, found = mapped
    assert drive.codes == []
    assert not drive.off_m
    assert found.frames[-1].path_m > 45.0
    error = trajectory_error(made, found)
    assert error is not None
    assert error.aligned
    assert error.rms_m < 0.02
    assert found.closures > 0


def test_it_drives_the_recorded_way_on_the_map_by_itself(mapped, tmp_path):
    _, made, found = mapped
    course = course_from_bytes(course_text(made, found, "line").encode(), "line.csv")
    drive = Drive(tmp_path, course, grid=found.grid)
    while drive.now_s < 8.0:
        drive.step()
    assert drive.pair.machine.mode is Mode.AUTO
    assert drive.codes == []
    assert np.sqrt(np.mean(np.square(drive.off_m))) < 0.05


def test_mapping_while_driving_gives_the_map_that_the_log_gives(mapped, tmp_path):
    """The log is written by its process, in several parts, while another follows it."""
    drive, _, _ = mapped
    messages = [m for m in drive.messages if m.t_ns < START_NS + 13 * SECOND]
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=SECOND, start_monotonic_ns=START_NS,
        profile="f1tenth_lidar", course="eight", clock="lockstep", seed=3, tasks=[],
    )  # fmt: skip
    writer = WriterProcess.start(
        header, folder=str(tmp_path), rotate_mb=0.8, blocking=True,
        attachments=[
            Attachment("profile.toml", "application/toml", load("f1tenth_lidar").source.encode()),
            Attachment("course.json", "application/json", to_json(COURSE)),
        ],
    )  # fmt: skip
    rest, drawn = iter(messages), set()

    def wait(_: float) -> None:
        for message in islice(rest, 800):
            writer.sink.record(message, message.t_ns)
            writer.pump(message.t_ns)
            if message is messages[-1]:
                assert writer.close({"reason": "done"}, message.t_ns).finished
        drawn.update(tmp_path.glob("*.live*.pgm"))
        if (tmp_path / "hall.yaml").exists():
            assert read_map(tmp_path / "hall.yaml").occupied.any()
        sleep(0.02)

    live, warning = follow(
        Path(writer.path), tmp_path / "hall.yaml", 0.05, with_gnss=True, every_s=0.0,
        show=lambda text: None, wait=wait,
    )  # fmt: skip
    assert warning == ""
    assert drawn
    assert list(tmp_path.glob("*_part2.mcap"))
    found = build(live.drive, 0.05, keyframes=live.keyframes)
    offline = build(read(Path(writer.path)), 0.05)
    assert len(found.frames) == len(offline.frames) > 20
    np.testing.assert_allclose(found.poses, offline.poses, atol=1e-6)
    assert (found.grid.cells == offline.grid.cells).mean() > 0.9999


def test_a_growing_map_closes_loops(mapped):
    _, made, found = mapped
    growing = GrowingMap()
    for share in (0.3, 0.6, 0.9, 1.0):
        part = growing.grown(made, found.frames[: int(share * len(found.frames))], 0.1)
    assert part.closures > 0
    error = trajectory_error(made, part)
    assert error is not None
    assert error.rms_m < 0.02
