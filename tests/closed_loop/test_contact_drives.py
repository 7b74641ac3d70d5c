"""Drives that touch something: pushed back, logged, judged, and ended where the user asks."""

from math import hypot

import pytest

import vehicled as v
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.core.messages import GroundTruth, ObstacleContact

WALL = 'restitution = 0.2\n[[wall]]\nname = "the end wall"\npoints = [[4, -3], [4, 3]]\n'
PLANTS = {"art_published": "four_dof", "art": "double_track", "husky_a200": "skid steering"}


def scene(tmp_path, text=WALL):
    path = tmp_path / "scene.toml"
    path.write_text(text)
    return str(path)


def rows(run, kind):
    """Return the messages of a type as tables."""
    found = run.messages(kind)
    return [dict(zip(found.dtype.names, row)) for row in found.tolist()]


def drive(tmp_path, profile="art", text=WALL, **options):
    overrides = options.pop("overrides", {})
    return v.simulate(
        profile,
        "straight_20m",
        scene=scene(tmp_path, text),
        overrides=overrides,
        duration_s=12.0,
        **options,
    )


@pytest.mark.parametrize("profile", PLANTS)
def test_a_wall_stops_the_vehicle_and_the_log_says_where_and_how_hard(tmp_path, profile):
    run = drive(tmp_path, profile)
    front_m = v.load_profile(profile).profile.vehicle.outline.front_m
    truths = rows(run, GroundTruth)
    assert not run.metrics.finished
    assert max(truth["x_m"] for truth in truths) == pytest.approx(4.0 - front_m, abs=0.01)
    contacts = rows(run, ObstacleContact)
    first = contacts[0]
    assert first["what"] == "the end wall"
    assert first["x_m"] == pytest.approx(4.0, abs=0.01)
    at_impact = next(truth for truth in reversed(truths) if truth["t_ns"] < first["t_ns"])
    assert first["speed_mps"] == pytest.approx(at_impact["speed_mps"], rel=0.2)
    assert first["impulse_ns"] > 0.0
    assert run.metrics.contacts[0]["what"] == "the end wall"
    again = drive(tmp_path, profile)
    assert again.metrics.digest == run.metrics.digest
    assert rows(again, ObstacleContact) == contacts


def test_the_user_may_end_the_run_at_the_first_contact(tmp_path, capsys):
    wall = scene(tmp_path)
    arguments = [
        "sim",
        "--profile",
        "art",
        "--course",
        "straight_20m",
        "--scene",
        wall,
        "--log",
        str(tmp_path),
        "--quiet",
    ]
    assert main([*arguments, "--end-on-contact"]) == 1
    shown = capsys.readouterr().out
    assert "contact with the end wall at (4.00, " in shown
    log = next(tmp_path.glob("*.mcap"))
    page = tmp_path / "report.html"
    assert main(["log", "report", str(log), "-o", str(page)]) == 0
    assert "1 contact(s), the hardest" in page.read_text()
    capsys.readouterr()
    assert main(["log", "cat", str(log), "--topic", "obstacle_contact"]) == 0
    assert "the end wall" in capsys.readouterr().out


def test_without_contact_the_vehicle_drives_through_as_if_nothing_stood_there(tmp_path):
    ghost = drive(tmp_path, overrides={"sim.contact": "none"})
    alone = v.simulate("art", "straight_20m", duration_s=12.0)
    assert ghost.metrics.digest == alone.metrics.digest
    assert ghost.metrics.contacts == []


def test_a_moving_body_pushes_the_vehicle(tmp_path):
    pusher = '[[moving]]\nname = "a lorry"\nplaces = [[-6, 0], [3, 0]]\nspeed_mps = 3.0\n'
    pusher += "outline = [[1, 1], [-1, 1], [-1, -1], [1, -1]]\n"
    run = v.simulate(
        "art", "straight_20m", scene=scene(tmp_path, pusher), duration_s=10.0, start="stand"
    )
    contacts = rows(run, ObstacleContact)
    assert contacts[0]["what"] == "a lorry"
    assert abs(contacts[0]["bearing_rad"]) > 1.6, "from behind"
    end = rows(run, GroundTruth)[-1]
    assert hypot(end["x_m"], end["y_m"]) > 2.0


def test_a_plant_that_cannot_be_pushed_is_refused_with_the_cure(tmp_path):
    plant = tmp_path / "plant.py"
    plant.write_text(
        "from sim_backend.plant.four_dof import FourDof\n"
        "class Ghost:\n"
        "    def __init__(self, sim, pose, step_s):\n"
        "        self._inside = FourDof(sim, pose, step_s)\n"
        "    @property\n"
        "    def motor_speed_radps(self): return self._inside.motor_speed_radps\n"
        "    def step(self, throttle, brake, wheel_angle_rad): self._inside.step(throttle, "
        "brake, wheel_angle_rad)\n"
        "    def motion(self): return self._inside.motion()\n"
    )
    named = {"sim.plant": f"{plant}:Ghost"}
    with pytest.raises(
        SetupError, match=r'has no rigid_body and strike.* or set sim.contact = "none"'
    ):
        drive(tmp_path, "art_published", overrides=named)
    assert (
        drive(tmp_path, "art_published", overrides=named | {"sim.contact": "none"}).metrics.driven_m
        > 5.0
    )


def test_a_drive_that_touches_nothing_has_the_digest_of_one_without_contact():
    """The vehicle drives between parked cars, so that contact looks at the scene."""
    runs = [
        v.simulate("art", "parking_lot/bay_in", scene="parking_lot", overrides={"sim.contact": c})
        for c in ("forces", "none")
    ]
    assert runs[0].metrics.finished
    assert not runs[0].metrics.contacts
    assert runs[0].metrics.digest == runs[1].metrics.digest
