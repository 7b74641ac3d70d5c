"""Maps out of drives: keyframes, loop closures, pose graph, grid, and the files that drives are
read from."""

import dataclasses
import gzip
import json
import re
from contextlib import suppress
from math import nan, pi
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sim_backend.scene.reading import load_scene
from tests.log_bench import write
from tests.mapping_bench import HALL, drive, off, scene_of
from vehicled.cli import main
from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN
from vehicled.maps.map_file import read_map
from vehicled.maps.matching import PlanarPose
from vehicled.offline.mapping.build import Mapped, TrajectoryError, build, trajectory_error
from vehicled.offline.mapping.closures import ClosureOutcome, closures
from vehicled.offline.mapping.command import odometry_lines, quality_lines
from vehicled.offline.mapping.drive import GYRO_NOISE, UNKNOWN_NOISE, MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.pose_graph import Edge, MeasuredPlace, PoseGraph, RelativeCovariance
from vehicled.offline.mapping.quality import quality_of
from vehicled.offline.mapping.reading import DriveMessages, read
from vehicled.paths.catalog import load_course
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile


@pytest.fixture(scope="module")
def lap(tmp_path_factory):
    """A lap and what was made of it, by scans and odometry alone."""
    made = drive(scene_of(HALL, tmp_path_factory.mktemp("hall")))
    return made, build(made, 0.05)


def error_of(made: MappingDrive, mapped: Mapped) -> TrajectoryError:
    error = trajectory_error(made, mapped)
    assert error is not None
    return error


# ------------------------------------------------------------------ the map


def test_the_error_of_a_lap_is_a_centimetre_with_odometry_that_is_a_metre_off(lap):
    made, mapped = lap
    error = error_of(made, mapped)
    x, y, _ = made.odometry.at(made.odometry.t_ns[-1:])
    assert np.hypot(x[0] - made.truth.x_m[-1], y[0] - made.truth.y_m[-1]) > 1.0
    assert error.rms_m < 0.015
    assert error.rms_rad < 0.005
    assert error.aligned
    assert mapped.closures > 3
    assert mapped.unmatched == 0


def test_the_grid_shows_walls_free_room_and_what_no_ray_reached(lap):
    _, mapped = lap
    grid = mapped.grid

    def cell(x_m, y_m):
        """The cell of a place of the scene."""
        return grid.cells[int((y_m - grid.origin[1]) / 0.05), int((x_m - grid.origin[0]) / 0.05)]

    assert cell(0.0, 1.0) == cell(-10.0, -10.0) == FREE
    assert cell(4.4, 4.2) == UNKNOWN
    around = [cell(12.0 + d, 0.0) for d in (-0.05, 0.0, 0.05)]
    assert OCCUPIED in around


def test_positions_by_gnss_place_the_map_and_wild_ones_do_not_bend_it(lap):
    made, _ = lap
    rng = np.random.default_rng(2)
    places = np.stack((made.truth.x_m, made.truth.y_m), axis=1) + rng.normal(
        0.0, 0.02, (len(made.truth.t_ns), 2)
    )
    wild = rng.random(len(places)) < 0.2
    places[wild] += rng.uniform(2.0, 30.0, (wild.sum(), 2))
    placed = MappingDrive(
        name="hall", scans=made.scans, odometry=made.odometry, truth=made.truth,
        gnss_ns=made.truth.t_ns, gnss_m=places, gnss_sigma_m=np.full(len(places), 0.02),
    )  # fmt: skip
    mapped = build(placed, 0.1)
    error = error_of(placed, mapped)
    assert not error.aligned
    assert error.largest_m < 0.05
    assert 0.5 * len(mapped.frames) < mapped.places < 0.95 * len(mapped.frames)


@pytest.mark.parametrize("spoil", ["no scan", "no return", "stands"])
def test_what_cannot_be_mapped_is_said(lap, spoil):
    made, _ = lap
    scans = {
        "no scan": [],
        "no return": [
            type(s)(
                **{**{f: getattr(s, f) for f in s.__struct_fields__}, "ranges_m": (np.inf,) * 271}
            )
            for s in made.scans
        ],
        "stands": made.scans[:1],
    }[spoil]
    with pytest.raises(
        MappingDriveError,
        match={"no scan": "no laser scan", "no return": "nothing to map", "stands": "moved"}[spoil],
    ):
        build(MappingDrive(name="hall", scans=scans, odometry=made.odometry), 0.05)


def test_a_map_that_would_be_too_large_is_refused(lap):
    _, mapped = lap
    from vehicled.offline.mapping.render import rendered

    far = [PlanarPose(1e6 * k, 0.0, 0.0) for k in range(len(mapped.poses))]
    with pytest.raises(MappingDriveError, match="--resolution"):
        rendered(mapped.frames, far, 0.05)


# ------------------------------------------------------------------ loops and quality


@pytest.fixture(scope="module")
def track():
    """A lap and a bit on a track whose bends look alike for metres."""
    scene = load_scene("race_track", load_course("race_track/lap"))
    made = drive(
        scene, length_m=104.0, step_m=0.24, bias=0.002, course_name="race_track/lap", most_m=10.0
    )
    return made, build(made, 0.1)


def test_every_closure_of_a_track_is_right_and_the_map_is_not_bent(track):
    made, mapped = track
    there = made.truth.at(np.array([k.t_ns for k in mapped.frames], dtype=np.int64))
    true = [
        PlanarPose(float(x), float(y), float(yaw))
        for x, y, yaw in zip(there.x_m, there.y_m, there.yaw_rad)
    ]
    found = closures(mapped.frames, PoseGraph(mapped.poses, mapped.edges), set())
    edges = [a.edge for a in found if a.edge is not None]
    assert len(edges) > 3
    assert max(off(true[e.start].to(true[e.to]), e.measured)[0] for e in edges) < 0.1
    assert mapped.refused == 0
    assert not mapped.quality.bent
    assert error_of(made, mapped).rms_m < 0.1
    assert mapped.quality.drift_path_m > 80.0
    # Nothing was in the way: where a straight shows no place, just that is said.
    reasons = {outcome for part in mapped.quality.open_revisits for outcome in part.outcomes}
    assert reasons <= {ClosureOutcome.AMBIGUOUS, ClosureOutcome.CORRIDOR}


def test_a_drive_that_never_comes_back_says_so(tmp_path):
    made = drive(scene_of(HALL, tmp_path), length_m=9.0)
    mapped = build(made, 0.1)
    assert not mapped.quality.revisits
    assert any("never came back" in line for line in quality_lines(mapped))


def test_a_map_that_its_closures_bend_is_called_bent(lap):
    _, mapped = lap
    steps = [e for e in mapped.edges if not e.closure]
    poses = [
        p if k < 60 else PlanarPose(p.x_m + 0.6, p.y_m, p.yaw_rad)
        for k, p in enumerate(mapped.poses)
    ]
    assert not mapped.quality.bent
    quality = quality_of(mapped.frames, PoseGraph(poses, steps), [])
    assert quality.bent
    assert quality.bend_m == pytest.approx(0.6, abs=0.1)


def test_the_uncertainty_of_a_chain_grows_and_a_closure_takes_it_down():
    _, graph = ring()
    chain = PoseGraph(list(graph.poses), [e for e in graph.edges if not e.closure])
    near, far = (RelativeCovariance(chain).between(0, k) for k in (1, 39))
    assert np.allclose(near, np.diag((0.02**2, 0.02**2, 0.01**2)), rtol=1e-3)
    assert far[2, 2] == pytest.approx(39 * 0.01**2, rel=1e-3)
    assert np.linalg.eigvalsh(far[:2, :2])[-1] > 10 * 0.02**2
    graph.optimise()
    assert np.linalg.eigvalsh(RelativeCovariance(graph).between(0, 39)[:2, :2])[-1] < 0.05**2


def test_odometry_with_a_gyro_counts_for_more_than_wheels_alone():
    moved = PlanarPose(0.4, 0.0, 0.1)
    assert GYRO_NOISE.information(moved)[2, 2] > 100.0 * UNKNOWN_NOISE.information(moved)[2, 2]


# ------------------------------------------------------------------ pose graph


def ring(count=40, seed=0):
    """Poses on a circle, and a graph whose odometry has drifted."""
    rng = np.random.default_rng(seed)
    true = [
        PlanarPose(5 * np.cos(a), 5 * np.sin(a), a + pi / 2)
        for a in np.linspace(0, 2 * pi, count, endpoint=False)
    ]
    information = np.diag((0.02**-2, 0.02**-2, 0.01**-2))
    graph = PoseGraph([true[0]])
    for i in range(1, count):
        x, y, yaw = true[i - 1].to(true[i])
        step = PlanarPose(
            x + rng.normal(0, 0.01), y + rng.normal(0, 0.01), yaw + rng.normal(0.004, 0.004)
        )
        graph.edges.append(Edge(i - 1, i, step, information))
        graph.poses.append(graph.poses[-1].then(step))
    for i in range(6):
        j = count - 6 + i
        graph.edges.append(
            Edge(i, j, true[i].to(true[j]), np.diag((0.03**-2, 0.03**-2, 0.01**-2)), closure=True)
        )
    return true, graph


def worst_m(true, graph):
    return max(off(a, b)[0] for a, b in zip(true, graph.poses))


def test_closures_take_the_drift_out():
    true, graph = ring()
    before = worst_m(true, graph)
    graph.optimise()
    assert before > 0.5
    assert worst_m(true, graph) < 0.1
    assert all(e.weight == 1.0 for e in graph.edges)


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_wrong_closures_do_not_bend_a_map(seed, count):
    true, graph = ring()
    rng = np.random.default_rng(seed)
    for _ in range(count):
        i, j = sorted(rng.choice(len(true), 2, replace=False).tolist())
        wrong = (
            true[i]
            .to(true[j])
            .then(PlanarPose(*rng.uniform((1.0, 1.0, 0.3), (4.0, 4.0, 2.0)).tolist()))
        )
        graph.edges.append(Edge(i, j, wrong, np.diag((0.03**-2, 0.03**-2, 0.01**-2)), closure=True))
    graph.optimise()
    assert all(e.weight < 0.5 for e in graph.edges[-count:])
    assert worst_m(true, graph) < 0.15


def test_one_wrong_closure_alone_does_not_bend_a_map_either():
    true, graph = ring()
    graph.edges = [e for e in graph.edges if not e.closure]
    graph.edges.append(
        Edge(
            5,
            30,
            true[5].to(true[30]).then(PlanarPose(3.0, 3.0, 1.5)),
            1e3 * np.eye(3),
            closure=True,
        )
    )
    before = worst_m(true, graph)
    graph.optimise()
    assert graph.edges[-1].weight < 0.5
    assert worst_m(true, graph) < before + 0.02


def test_places_of_the_antenna_place_the_graph():
    true, graph = ring()
    arm = (0.3, -0.1)
    for i in range(0, 40, 4):
        at = true[i].then(PlanarPose(*arm, 0.0))
        graph.places.append(MeasuredPlace(i, at.x_m, at.y_m, 0.02, arm))
    graph.poses = [PlanarPose(0.5, -0.4, 0.0).then(p) for p in graph.poses]
    graph.optimise()
    assert worst_m(true, graph) < 0.1


# ------------------------------------------------------------------ files


def carmen(made, words="FLASER"):
    """A CARMEN log of scans and odometry."""
    lines = [
        "# message_name [message contents]",
        "PARAM robot_frontlaser_offset 0.27 nohost 0",
        "ODOM 0 0 0 0 0 0 1.0 host 1.0",
    ]
    for scan in made.scans:
        x, y, yaw = made.odometry.pose(scan.t_ns)
        ranges = " ".join(f"{min(r, 81.0):.3f}" for r in scan.ranges_m[45:226])
        t = f"{scan.t_ns * 1e-9:.6f}"
        if words == "FLASER":
            lines.append(f"FLASER 181 {ranges} {x} {y} {yaw} {x} {y} {yaw} {t} host {t}")
        else:
            step = scan.angle_increment_rad
            head = f"ROBOTLASER1 0 {-90 * step} {181 * step} {step} 81 0.01 0 181"
            lines.append(f"{head} {ranges} 0 {x} {y} {yaw} {x} {y} {yaw} 0 0 0 0 0 {t} host {t}")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("words", ["FLASER", "ROBOTLASER1"])
def test_a_carmen_log_holds_scans_and_odometry(lap, tmp_path, words):
    made, _ = lap
    file = tmp_path / "hall.log.gz"
    file.write_bytes(gzip.compress(carmen(made, words).encode()))
    found = read(file, (0.27, 0.0))
    assert found.odometry is not None
    assert len(found.scans) == len(made.scans)
    assert found.scans[3].x_m == 0.27
    assert np.allclose(found.odometry.x_m, made.odometry.x_m, atol=1e-9)
    bearing = found.scans[0].angle_min_rad + 90 * found.scans[0].angle_increment_rad
    assert abs(bearing) < 0.01


def test_a_carmen_log_that_ends_within_a_scan_names_the_line(lap, tmp_path):
    made, _ = lap
    file = tmp_path / "hall.log"
    file.write_text(carmen(made)[:20_000])
    with pytest.raises(MappingDriveError, match=r"hall\.log, line \d+: is no complete scan"):
        read(file)


@given(st.binary(max_size=300))
def test_any_carmen_log_is_read_or_refused(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("carmen") / "any.log"
    file.write_bytes(b"FLASER 3 " + data + b"\nROBOTLASER1 0 " + data)
    with suppress(MappingDriveError):
        read(file)


def test_a_bag_of_ros_2_holds_scans_and_odometry(lap, tmp_path):
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    from rosbags.typesys import Stores, get_typestore

    made, _ = lap
    store = get_typestore(Stores.ROS2_HUMBLE)
    types = store.types
    scan_type, odometry_type = types["sensor_msgs/msg/LaserScan"], types["nav_msgs/msg/Odometry"]
    header = lambda t_ns: types["std_msgs/msg/Header"](  # noqa: E731
        stamp=types["builtin_interfaces/msg/Time"](sec=t_ns // 10**9, nanosec=t_ns % 10**9),
        frame_id="base",
    )
    point, quaternion, pose = (
        types[f"geometry_msgs/msg/{n}"] for n in ("Point", "Quaternion", "Pose")
    )
    zero = types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)
    twist = types["geometry_msgs/msg/TwistWithCovariance"](
        twist=types["geometry_msgs/msg/Twist"](linear=zero, angular=zero), covariance=np.zeros(36)
    )
    with rosbag2.Writer(tmp_path / "bag", version=9) as writer:
        scans = writer.add_connection("/scan", scan_type.__msgtype__, typestore=store)
        poses = writer.add_connection("/odom", odometry_type.__msgtype__, typestore=store)
        for s in made.scans:
            message = scan_type(
                header(s.t_ns), s.angle_min_rad, s.angle_min_rad + 270 * s.angle_increment_rad,
                s.angle_increment_rad, 0.0, 0.1, s.range_min_m, s.range_max_m,
                np.array(s.ranges_m, np.float32), np.zeros(0, np.float32),
            )  # fmt: skip
            writer.write(scans, s.t_ns, store.serialize_cdr(message, scan_type.__msgtype__))
            x, y, yaw = made.odometry.pose(s.t_ns)
            there = pose(point(x, y, 0.0), quaternion(0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)))
            covered = types["geometry_msgs/msg/PoseWithCovariance"](there, np.zeros(36))
            writer.write(
                poses,
                s.t_ns,
                store.serialize_cdr(
                    odometry_type(header(s.t_ns), "base", covered, twist), odometry_type.__msgtype__
                ),
            )
    found = read(tmp_path / "bag", (0.27, 0.0))
    assert found.odometry is not None
    assert len(found.scans) == len(made.scans)
    assert np.allclose(found.odometry.yaw_rad, made.odometry.yaw_rad, atol=1e-6)
    assert np.allclose(found.scans[7].ranges_m, made.scans[7].ranges_m, atol=1e-5)


def test_scans_alone_make_a_map_too(tmp_path):
    made = drive(scene_of(HALL, tmp_path), length_m=12.0)
    alone = MappingDrive(name="hall", scans=made.scans, odometry=None, truth=made.truth)
    assert error_of(alone, build(alone, 0.1)).rms_m < 0.03


# ------------------------------------------------------------------ scanners that are wrong


@pytest.fixture(scope="module")
def part(lap):
    """The first 20 m of the lap."""
    made, _ = lap
    return dataclasses.replace(made, scans=made.scans[:134])


def with_scans(made: MappingDrive, change) -> MappingDrive:
    """Return a drive with other scans: ``change`` of each one and its number."""
    return dataclasses.replace(made, scans=[change(s, k) for k, s in enumerate(made.scans)])


def test_a_scanner_that_is_upside_down_makes_no_mirrored_map(part):
    turned = with_scans(part, lambda s, _: replace(s, ranges_m=s.ranges_m[::-1]))
    with pytest.raises(MappingDriveError, match="upside down"):
        build(turned, 0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s, k: replace(s, angle_min_rad=s.angle_min_rad + 0.5), "29 degrees to the left"),
        (
            lambda s, k: replace(s, angle_increment_rad=0.6 * s.angle_increment_rad),
            "0.54 times as much as by its odometry",
        ),
        (
            lambda s, k: s if k < 90 else replace(s, ranges_m=(0.1,) * len(s.ranges_m)),
            "the scans show no motion",
        ),
    ],
    ids=["turned", "increment", "covered"],
)
def test_scans_that_contradict_the_odometry_are_said(part, change, said):
    lines = "\n".join(quality_lines(build(with_scans(part, change), 0.1)))
    assert re.search(said, lines)


def test_a_map_that_its_odometry_confirms_has_no_such_warning(lap):
    _, mapped = lap
    assert odometry_lines(dataclasses.replace(mapped, unseen_m=0.0)) == []
    assert mapped.unseen_m < 1.0


def test_a_scanner_that_stands_still_from_the_start_is_named(part):
    stuck = with_scans(part, lambda s, _: replace(s, ranges_m=part.scans[0].ranges_m))
    with pytest.raises(MappingDriveError, match="the scanner stands still"):
        build(stuck, 0.1)


def test_scans_without_a_geometry_are_left_out(part):
    messages = DriveMessages("hall", load_profile("f1tenth_lidar"), LOT_17)
    for k, scan in enumerate(part.scans[:9]):
        messages.add(scan if k % 3 else replace(scan, angle_increment_rad=nan))
    assert len(messages.drive().scans) == 6


# ------------------------------------------------------------------ the command


def test_the_command_writes_map_path_trajectory_and_picture(lap, tmp_path: Path, capsys):
    made, _ = lap
    log = tmp_path / "hall.log"
    log.write_text(carmen(made))
    out, path, tum, plot = (
        tmp_path / name for name in ("hall.yaml", "line.csv", "hall.tum", "hall.png")
    )
    given = [
        "map",
        "build",
        str(log),
        "-o",
        str(out),
        "--lidar",
        "0.27",
        "0",
        "--path",
        str(path),
        "--trajectory",
        str(tum),
    ]
    assert main([*given, "--plot", str(plot), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["keyframes"] == len(tum.read_text().splitlines())
    assert said["path_m"] == pytest.approx(52.5, abs=1.0)
    assert read_map(out).occupied.sum() > 500
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(["check", str(path)]) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nothing.log", "-o", "map.yaml"], "there is no such file"),
        (["{tmp}/some.txt", "-o", "map.yaml"], "neither a log"),
        (["{tmp}/empty.log", "-o", "{tmp}/map.yaml"], "holds no laser scan"),
        (["{tmp}/empty.log", "-o", "{tmp}/map.png"], "ends in .yaml"),
        (["{tmp}/empty.log", "-o", "/no/such/folder/map.yaml"], "existing, writable folder"),
        (["{tmp}/torn.bag", "-o", "{tmp}/map.yaml"], "cannot be read as a ROS bag"),
        (["{tmp}/empty.log", "--live", "-o", "{tmp}/map.yaml"], "--live follows a log (.mcap)"),
        (["a.mcap", "b.mcap", "--live", "-o", "{tmp}/map.yaml"], "--live follows one log"),
        (["{tmp}/done.mcap", "--live", "-o", "{tmp}/map.yaml"], "nothing is being recorded"),
    ],
)
def test_what_cannot_be_read_or_written_is_said(tmp_path, capsys, monkeypatch, given, said):
    (tmp_path / "some.txt").write_text("x")
    (tmp_path / "empty.log").write_text("# nothing\n")
    (tmp_path / "torn.bag").write_bytes(b"#ROSBAG V2.0\nxx")
    write(tmp_path / "done.mcap", [])
    monkeypatch.setattr("vehicled.offline.mapping.command.give_way", lambda: None)
    assert main(["map", "build", *(each.format(tmp=tmp_path) for each in given)]) == 2
    assert said in capsys.readouterr().err
