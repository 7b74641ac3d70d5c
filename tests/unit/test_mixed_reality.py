"""Mixed reality: the nearer of real and virtual obstacles counts, a lost virtual world is silent or
an obstacle, and the virtual world casts its bodies from the estimated pose."""

import ast
from math import inf, isclose, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Departing
from sim_backend.scene.reading import load_scene
from tests.busy_computer import wait_until
from tests.unit.test_safety_obstacle import scan_of, situation, straight
from vehicled.core.errors import SetupError
from vehicled.core.messages import LaserScan, VirtualScan, VirtualWorld, virtual_returns
from vehicled.core.ports import NEVER_NS
from vehicled.live.control_socket.client import HungUpError
from vehicled.offline.mixed.virtual_vehicles import VirtualVehicle, VirtualVehicleError
from vehicled.offline.mixed.world import RAYS, VirtualScene
from vehicled.offline.replay.compare import RUNTIME_EVENTS
from vehicled.paths.catalog import load_course
from vehicled.paths.datum import LOT_17, Datum
from vehicled.profile import ProfileError, load_profile
from vehicled.run.mixed_frames import ViewPoint
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec
from vehicled.safety.arming import blocked
from vehicled.safety.monitors import Monitors

PROFILE = load_profile("art_vesc")
OUTLINE = PROFILE.vehicle.outline
NOW = 50_000_000_000
MS = 1_000_000
CUT_IN = """
[[moving]]
places = [{ s_m = 10.0, left_m = -2.0 }, { s_m = 12.0, left_m = 0.0 }]
start_m = 5.0
start_spread_m = 1.0
speed_mps = 1.0
speed_spread_mps = 0.5
outline = [[0.3, 0.2], [-0.3, 0.2], [-0.3, -0.2], [0.3, -0.2]]
"""


def virtual(scan: LaserScan, *, overlaps: bool = False) -> VirtualScan:
    values = {name: getattr(scan, name) for name in LaserScan.__struct_fields__}
    return VirtualScan(**values, overlaps=overlaps)


class Watched:
    """Monitors of a vehicle at x = 5 m on a straight, and readings at 20 Hz."""

    def __init__(self, *, mixed: bool = True, stops_if_lost: bool = False) -> None:
        self.monitors = Monitors(PROFILE.limits, PROFILE.vehicle, course=straight())
        self.now_ns = NOW
        if mixed:
            world = VirtualWorld(NOW, NOW, "scene", stops_if_lost)
            self.monitors.on_message(world, NOW)

    @property
    def obstacle(self):
        return self.monitors.obstacle

    def read(self, *, real=None, virtually=None, times=3, overlaps=False, old_ns=0):
        """Readings of points at y = 0: x of the nearest, None for no reading at all."""
        for _ in range(times):
            self.now_ns += 50 * MS
            for x, make in (
                (real, lambda s: s),
                (virtually, lambda s: virtual(s, overlaps=overlaps)),
            ):
                if x is not None:
                    scan = scan_of([(x, 0.0)] if x < inf else [], t_ns=self.now_ns - old_ns)
                    self.monitors.on_message(make(scan), self.now_ns)
            s = situation(self.monitors, now_ns=self.now_ns, speed=1e-9)
            self.monitors.place.update(s)
            self.monitors.stopping.update(s)
            self.obstacle.update(s)
        return s


def free_m(**readings) -> float:
    watched = Watched()
    watched.read(**readings)
    return float(watched.obstacle.free_m)


def test_the_nearer_obstacle_counts():
    alone = Watched(mixed=False)
    alone.read(real=9.0)
    assert isclose(free_m(real=9.0, virtually=inf), alone.obstacle.free_m)
    assert isclose(free_m(real=9.0, virtually=12.0), alone.obstacle.free_m)
    assert isclose(free_m(real=12.0, virtually=9.0), alone.obstacle.free_m)
    assert isclose(free_m(virtually=9.0), alone.obstacle.free_m)
    assert free_m(real=inf, virtually=inf) == inf


def test_the_reason_names_a_virtual_body():
    watched = Watched()
    s = watched.read(real=9.0, virtually=5.7)
    assert watched.obstacle.what == "a virtual body"
    assert blocked(s).startswith("a virtual body stands")
    watched.read(real=5.65, virtually=9.0)
    assert watched.obstacle.what == "something"


def test_a_virtual_scan_proves_no_real_scanner_alive():
    watched = Watched()
    watched.read(virtually=inf)
    assert not watched.obstacle.sees
    assert watched.obstacle.age_ns(watched.now_ns) == NEVER_NS
    assert watched.monitors.sources.age_ns(LaserScan, watched.now_ns) == NEVER_NS
    for kind in (VirtualScan, VirtualWorld):
        assert watched.monitors.sources.age_ns(kind, watched.now_ns) == NEVER_NS


def test_a_blind_real_scanner_stays_blind():
    watched = Watched()
    for _ in range(3):
        watched.now_ns += 50 * MS
        scan = scan_of([], t_ns=watched.now_ns)
        watched.monitors.on_message(replace(scan, ranges_m=(nan,) * 721), watched.now_ns)
        watched.read(virtually=inf, times=1)
    assert "return no range" in watched.obstacle.blind


@pytest.mark.parametrize("stops", [False, True])
def test_a_silent_virtual_world_is_lost(stops):
    watched = Watched(stops_if_lost=stops)
    watched.read(virtually=inf)
    assert not watched.obstacle.lost
    assert watched.obstacle.free_m == inf
    watched.read(times=7)
    assert watched.obstacle.lost
    assert watched.obstacle.free_m == (0.0 if stops else inf)
    assert watched.obstacle.what == ("the lost virtual world" if stops else "something")
    watched.read(virtually=inf)
    assert not watched.obstacle.lost
    assert watched.obstacle.free_m == inf


def test_a_virtual_world_that_never_speaks_is_lost():
    watched = Watched(stops_if_lost=True)
    watched.read(times=7)
    assert watched.obstacle.lost
    assert watched.obstacle.free_m == 0.0


def test_a_lost_body_is_forgotten_and_the_drive_goes_on_as_without():
    watched = Watched()
    watched.read(virtually=9.0)
    assert watched.obstacle.free_m < inf
    watched.read(times=41)
    assert watched.obstacle.free_m == inf


@pytest.mark.parametrize("stops", [False, True])
def test_scans_that_come_too_late_are_those_of_a_lost_world(stops):
    watched = Watched(stops_if_lost=stops)
    watched.read(virtually=6.0, old_ns=500 * MS)
    assert watched.obstacle.lost
    assert watched.obstacle.free_m == (0.0 if stops else inf)


def test_a_body_that_overlaps_the_vehicle_blocks_it():
    # Its returns lie within the vehicle's outline, where a real scanner sees its own body.
    watched = Watched()
    watched.read(virtually=inf, overlaps=True)
    assert watched.obstacle.free_m == 0.0
    watched.read(virtually=inf)
    assert watched.obstacle.free_m == inf


def test_a_second_virtual_world_changes_nothing():
    watched = Watched(stops_if_lost=True)
    before = watched.obstacle
    watched.monitors.on_message(VirtualWorld(NOW, NOW, "other", stops_if_lost=False), NOW)
    assert watched.obstacle is before


def test_both_monitors_follow_another_course():
    watched = Watched()
    turned = load_course("circle_r5_ccw")
    watched.monitors.follow(turned)
    watched.read(real=inf, virtually=inf)
    assert watched.obstacle.free_m == inf


# ---------------------------------------------------------------- the virtual world


def world(tmp_path: Path, text: str, seed: int = 1) -> VirtualScene:
    (tmp_path / "scene.toml").write_text(text)
    return VirtualScene(str(tmp_path / "scene.toml"), straight(), seed, OUTLINE)


def view(x_m: float, progress_m: float, t_ns: int = 0) -> ViewPoint:
    return ViewPoint(t_ns, x_m, 0.0, 0.0, progress_m)


def test_a_scan_shows_the_bodies_where_they_are(tmp_path):
    scan = world(tmp_path, "[[circle]]\nat = [10.0, 0.0]\nradius_m = 0.5\n").scan(view(4.0, 4.0))
    middle_m = 0.5 * (OUTLINE.front_m - OUTLINE.rear_m)
    assert scan.x_m == middle_m
    assert isclose(scan.ranges_m[RAYS // 2], 9.5 - 4.0 - middle_m)
    assert min(virtual_returns(scan), key=lambda at: at[0]) == pytest.approx((9.5, 0.0), abs=0.03)
    assert not scan.overlaps


def test_bodies_depart_when_the_vehicle_has_come_so_far(tmp_path):
    around = world(
        tmp_path, CUT_IN.replace("start_spread_m = 1.0", "").replace("speed_spread_mps = 0.5", "")
    )
    ((_, car),) = around.scene.moving
    around.scan(view(4.9, 4.9))
    assert car.state(100.0)[:2] == pytest.approx((10.0, -2.0))
    around.scan(view(4.9, nan, 1_000 * MS))
    around.scan(view(5.0, 5.0, 2_000 * MS))
    assert car.departed_s == 2.0
    around.scan(view(6.0, 6.0, 3_000 * MS))
    assert car.departed_s == 2.0
    assert car.state(2.0 + 8**0.5 / 2)[:2] == pytest.approx((11.0, -1.0))
    assert car.state(9.0)[:2] == pytest.approx((12.0, 0.0))


def test_a_seed_draws_departure_and_speed(tmp_path):
    def drawn(seed: int) -> tuple[float, float]:
        ((_, car),) = world(tmp_path, CUT_IN, seed).scene.moving
        assert isinstance(car, Departing)
        return car.start_m, car.top_speed_mps

    found = [drawn(seed) for seed in range(20)]
    assert drawn(3) == found[3]
    assert len(set(found)) == 20
    assert all(4.0 <= start <= 6.0 and 0.5 <= speed <= 1.5 for start, speed in found)


def test_a_simulator_refuses_what_only_a_virtual_world_can_do(tmp_path):
    (tmp_path / "scene.toml").write_text(CUT_IN)
    with pytest.raises(SceneError, match=r"moving\[0\].start_m holds in mixed reality only"):
        load_scene(str(tmp_path / "scene.toml"), straight())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (CUT_IN.replace("start_m = 5.0", ""), "needs start_m"),
        (CUT_IN.replace("spread_mps = 0.5", "spread_mps = 1.5"), "must be less than speed_mps"),
        (CUT_IN.replace("places", "plaecs"), "plaecs"),
        ("[[moving", "scene.toml"),
    ],
)
def test_a_wrong_scene_says_what_is_wrong(tmp_path, wrong, why):
    with pytest.raises(SceneError, match=why):
        world(tmp_path, wrong)


def test_a_scene_on_another_map_is_refused(tmp_path):
    with pytest.raises(SceneError, match=r"nearest body is \d+ m from the course straight"):
        world(tmp_path, "[[circle]]\nat = [5000.0, 2.0]\nradius_m = 0.5\n")
    world(tmp_path, "[[box]]\nat = [90.0, 30.0]\nsize_m = [2.0, 0.4]\n")
    world(tmp_path, "")


def test_a_body_over_the_vehicle_overlaps_it(tmp_path):
    text = "[[box]]\nat = [10.0, 0.35]\nsize_m = [2.0, 0.4]\n"
    around = world(tmp_path, text)
    assert not around.scan(view(5.0, 5.0)).overlaps
    # Its side is 5 cm within that of the vehicle; the middle of the vehicle is outside.
    assert around.scan(view(10.0, 10.0)).overlaps
    inside = world(tmp_path, "[[box]]\nat = [10.0, 0.0]\nsize_m = [9.0, 9.0]\n")
    scan = inside.scan(view(10.0, 10.0))
    assert scan.overlaps
    assert set(scan.ranges_m) == {0.0}


def test_an_unknown_pose_gives_no_places():
    scan = virtual(scan_of([(7.0, 0.0)]))
    assert virtual_returns(scan) == []


# ---------------------------------------------------------------- virtual vehicles


def status(datum: Datum = LOT_17, **estimate) -> dict[str, Any]:
    pose = {"x_m": 3.0, "y_m": 4.0, "yaw_rad": 0.5, "speed_mps": 1.0, "status": "RUNNING"}
    place = {"latitude_rad": datum.latitude_rad, "longitude_rad": datum.longitude_rad}
    return {
        "profile": "art_vesc",
        "datum": place | {"height_m": datum.height_m},
        "estimate": pose | estimate,
    }


@pytest.fixture
def daemon(monkeypatch):
    """A daemon that answers with one state, then closes the connection."""
    answers = SimpleNamespace(status=status())

    def watch(rate_hz):
        yield answers.status
        raise HungUpError("the daemon closed the connection")

    client = SimpleNamespace(status=lambda: answers.status, watch=watch)
    monkeypatch.setattr("vehicled.offline.mixed.virtual_vehicles.find", lambda name: Path(name))
    monkeypatch.setattr("vehicled.offline.mixed.virtual_vehicles.Client", lambda path: client)
    return answers


def test_a_virtual_vehicle_stands_at_its_place_on_our_map(daemon):
    origin = Datum(LOT_17.latitude_rad + 100.0 / 6_371_000.0, LOT_17.longitude_rad, 230.0)
    daemon.status = status(origin)
    vehicle = VirtualVehicle("car", LOT_17, OUTLINE)
    motion = vehicle.new_motion()
    assert motion is not None
    assert (motion.x_m, motion.y_m) == pytest.approx((3.0, 104.0), abs=0.5)
    assert vehicle.outline == OUTLINE
    around = VirtualScene("", straight(), 1, OUTLINE)
    around.follow("car", replace(motion, x_m=5.0, y_m=0.0), vehicle.outline, 0.0)
    around.follow("car", replace(motion, x_m=9.0, y_m=0.0, yaw_rad=0.0), vehicle.outline, 1.0)
    first, last = (
        around.scan(view(4.0, 4.0, t_ms * MS)).ranges_m[RAYS // 2] for t_ms in (0, 1_000)
    )
    assert last == pytest.approx(first + 4.0, abs=0.5)


def test_a_lost_virtual_vehicle_stands(daemon):
    vehicle = VirtualVehicle("car", LOT_17, OUTLINE)
    # Its daemon has closed the connection.
    wait_until(lambda: "closed" in vehicle.lost, lambda: vehicle.lost)
    motion = vehicle.new_motion()
    assert motion is not None
    assert (motion.speed_mps, motion.x_m) == (0.0, pytest.approx(3.0))
    assert vehicle.new_motion() is None
    assert vehicle.take_warnings() == [
        "virtual vehicle car: the daemon closed the connection; its body stays where it is"
    ]
    assert vehicle.take_warnings() == []


def test_a_map_elsewhere_is_refused(daemon):
    daemon.status = status(Datum.from_degrees(52.0, 13.0))
    with pytest.raises(VirtualVehicleError, match=r"its map lies .* km from that of this run"):
        VirtualVehicle("car", LOT_17, OUTLINE)
    daemon.status["datum"] = None
    with pytest.raises(VirtualVehicleError, match="does not say where its map lies"):
        VirtualVehicle("car", LOT_17, OUTLINE)


def test_a_virtual_vehicle_without_a_pose_or_with_a_strange_profile_is_reported_once(daemon):
    daemon.status = status(x_m=None) | {"profile": "nobody knows"}
    vehicle = VirtualVehicle("car", LOT_17, replace_half(OUTLINE))
    assert vehicle.new_motion() is None
    assert vehicle.outline == replace_half(OUTLINE)
    first = vehicle.take_warnings()
    assert any("not known here" in text for text in first)
    assert any("it is nowhere yet" in text for text in first)
    assert vehicle.take_warnings() == []


def replace_half(outline):
    return outline._replace(half_m=outline.half_m + 0.1)


# ---------------------------------------------------------------- options, events of the runtime


def test_options_that_lack_a_world_are_refused(tmp_path):
    with pytest.raises(SetupError, match="--mixed-loss needs a virtual world"):
        Plan.of(RunSpec(profile="art_vesc", mixed_loss="stop"))
    with pytest.raises(SetupError, match="--mixed-vehicle needs --clock wall"):
        Plan.of(RunSpec(profile="art_vesc", mixed_vehicles=("car",)))
    spec = RunSpec(profile="art_vesc", clock="wall", mixed="a", mixed_vehicles=("b", "c"))
    assert spec.mixed_name == "a, vehicle b, vehicle c"


def test_no_device_may_send_virtual_messages():
    for kind in (VirtualScan, VirtualWorld):
        with pytest.raises(ProfileError, match=kind.__name__):
            load_profile("art", [f'devices.gnss.messages=["{kind.__name__}"]'])


def test_a_replay_leaves_out_every_event_that_the_machine_does_not_make():
    root = Path(__file__).parents[2] / "vehicled"
    found = {}
    for package in ("run", "runtime", "live", "log"):
        for file in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and ast.unparse(node.func) == "Event.of"
                    and isinstance(node.args[2], ast.Constant)
                ):
                    found[node.args[2].value] = file.name
    assert len(found) > 5
    assert {name: file for name, file in found.items() if name not in RUNTIME_EVENTS} == {}
