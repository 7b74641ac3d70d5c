"""Drives without GNSS: the scanner locates the vehicle on a map, and where it cannot, the vehicle
does not start or stops."""

from math import hypot
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from tests.mapping_bench import CORRIDOR, HALL, scene_of
from tests.unit.test_maps import ALL_OVER, seen
from vehicled.core.messages import Fault, GroundTruth, MapMatch, MapPose, Mode, StateEstimate
from vehicled.maps.grid import OCCUPIED, UNKNOWN, OccupancyGrid
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

SECOND = 1_000_000_000
COURSE = load_course("figure_eight")
POST = "[[circle]]\nat = [1.5, 0.9]\nradius_m = 0.2\n"


@pytest.fixture(scope="module")
def grid(tmp_path_factory) -> OccupancyGrid:
    """The map of the hall, drawn from scans at known places."""
    scene = scene_of(HALL, tmp_path_factory.mktemp("hall"))
    points = [pose.place(*seen(scene, pose, k)) for k, pose in enumerate(ALL_OVER)]
    x, y = (np.concatenate([p[axis] for p in points]) for axis in (0, 1))
    cells = np.full((560, 560), UNKNOWN, np.int8)
    cells[((y + 14.0) / 0.05).astype(int), ((x + 14.0) / 0.05).astype(int)] = OCCUPIED
    return OccupancyGrid(cells, 0.05, (-14.0, -14.0, 0.0))


class Located:
    """One lockstep drive on a map, and what it reported."""

    def __init__(
        self,
        tmp_path: Path,
        grid: OccupancyGrid,
        scene: str = HALL,
        failures: tuple[str, ...] = (),
        **given: str,
    ) -> None:
        (tmp_path / "drive.toml").write_text(scene)
        overrides = [
            f"sim.scene={tmp_path / 'drive.toml'}",
            "localisation.map=hall.yaml",
            "sim.lidar.rays=541",
        ]
        overrides += [f"{key.replace('__', '.')}={value}" for key, value in given.items()]
        self.profile = load_profile("f1tenth_lidar", overrides)
        self.faults: list[Fault] = []
        self.poses: list[MapPose] = []
        self.estimates: list[StateEstimate] = []
        self.off_m: list[float] = []
        self.pair = WrappedPair(
            self.profile,
            COURSE,
            [parse_failure(each) for each in failures],
            self,
            3,
            link="messages",
            grid=grid,
        )

    def record(self, message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, Fault) and message.active:
            self.faults.append(message)
        elif isinstance(message, MapPose):
            self.poses.append(message)
        elif isinstance(message, StateEstimate):
            self.estimates.append(message)
            true = self.pair.world.motion if hasattr(self, "pair") else None
            if true is not None and self.pair.machine.mode is Mode.AUTO:
                self.off_m.append(hypot(message.x_m - true.x_m, message.y_m - true.y_m))
        assert not isinstance(message, GroundTruth) or message.t_ns >= 0

    def until(self, seconds: float, stop=lambda: False) -> "Located":
        """Go on to this time of the run."""
        while self.pair.now_ns < START_NS + seconds * SECOND and not stop():
            self.pair.grant()
            self.pair.reply()
        return self

    @property
    def codes(self) -> list[str]:
        return [fault.code for fault in self.faults]

    @property
    def waits(self) -> str:
        return "; ".join(self.pair.machine.waiting_for(self.pair.now_ns))


@pytest.mark.parametrize("estimator", ["planar", "ins"])
def test_a_kidnapped_vehicle_finds_its_place_and_drives_with_errors_of_centimetres(
    tmp_path, grid, estimator
):
    found = Located(tmp_path, grid, estimator__name=estimator).until(8.0)
    assert found.pair.machine.mode is Mode.AUTO
    assert found.codes == []
    assert len(found.off_m) > 300
    assert np.sqrt(np.mean(np.square(found.off_m))) < 0.05
    matched = [p for p in found.poses if p.outcome is MapMatch.MATCHED]
    assert len(matched) > 100
    assert all(np.linalg.eigvalsh(np.reshape(p.covariance, (3, 3))).min() > 0.0 for p in matched)


def test_the_same_drive_gives_the_same_frames(tmp_path, grid):
    digests = [Located(tmp_path, grid).until(3.5).pair.machine.digest.hexdigest() for _ in range(2)]
    assert digests[0] == digests[1]


def test_a_map_of_another_place_is_said_and_not_driven_on(tmp_path, grid):
    elsewhere = (
        "[[wall]]\npoints = [[-3, -2], [4, -2], [4, 1.8], [2, 2.6], [-3, 2]]\nclosed = true\n"
    )
    found = Located(tmp_path, grid, elsewhere, localisation__least_fit="0.8").until(6.0)
    assert found.pair.machine.mode is Mode.STANDBY
    assert "not located on its map: the scan fits nowhere" in found.waits
    assert not any(p.outcome is MapMatch.MATCHED for p in found.poses)


def test_a_scanner_upside_down_is_said_and_not_driven_with(tmp_path, grid):
    # Its sweep runs from the other side, which the message link hands on as it is; the daemon takes
    # it for one that is upright.
    found = Located(tmp_path, grid, localisation__least_fit="0.7")
    localiser = found.pair.machine.pipeline._localiser
    assert localiser is not None
    take = localiser.on_scan
    localiser.on_scan = lambda scan: take(replace(scan, ranges_m=scan.ranges_m[::-1]))  # type: ignore[method-assign]
    found.until(6.0)
    assert found.pair.machine.mode is Mode.STANDBY
    assert "not located on its map" in found.waits


@pytest.mark.parametrize("failure", ["scanner:off", "scanner:no_returns"])
def test_a_scanner_that_stops_turning_or_sees_nothing_stops_the_vehicle(tmp_path, grid, failure):
    found = Located(
        tmp_path, grid, failures=(f"{failure}@4+30",), limits__obstacle_silence_s="20"
    ).until(9.0)
    assert {"map_lost", "map_lost_long"} <= set(found.codes)
    assert abs(found.pair.world.motion.speed_mps) < 0.01
    assert max(found.off_m) < 0.1
    assert "not located on its map" in found.waits


def test_rain_of_outliers_and_a_mirror_do_not_move_the_vehicle(tmp_path, grid):
    rain = Located(tmp_path, grid, failures=("scanner:rain=0.2@4+3",)).until(8.0)
    assert max(rain.off_m) < 0.08
    mirror = Located(tmp_path, grid, failures=("scanner:mirror@4+3",)).until(8.0)
    assert max(mirror.off_m) < 0.25


def test_what_stands_there_since_the_map_was_made_does_not_matter(tmp_path, grid):
    found = Located(tmp_path, grid, HALL + POST).until(7.0)
    assert found.pair.machine.mode is Mode.AUTO
    assert max(found.off_m) < 0.08


def test_a_corridor_gives_no_certainty_along_it(tmp_path):
    cells = np.full((80, 2400), UNKNOWN, np.int8)
    cells[[10, 69]] = OCCUPIED
    corridor = OccupancyGrid(cells, 0.05, (-60.0, -2.0, 0.0))
    start = "[0.0, 0.0, 0.0]"
    found = Located(
        tmp_path, corridor, CORRIDOR, localisation__start=start, localisation__start_reach_m="0.5"
    ).until(5.0)
    matched = [p for p in found.poses if p.outcome is MapMatch.MATCHED]
    if matched:
        along = max(p.covariance[0] for p in matched)
        assert along > 1.0
        assert max(p.covariance[4] for p in matched) < 0.05**2
    assert found.pair.machine.mode is not Mode.AUTO
