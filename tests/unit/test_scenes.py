"""Scenes by name: references, courses, lanes and starts, what fits them, and what ``vehicled
scenes`` says."""

import json
from math import degrees, hypot

import numpy as np
import pytest

from sim_backend.contact.fit import check_scene, start_pose
from sim_backend.profile_check import resolved_profile
from sim_backend.scene.describe import view_of
from sim_backend.scene.errors import SceneError
from sim_backend.scene.reading import load_scene
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.paths import scenes
from vehicled.paths.catalog import load_course
from vehicled.paths.errors import CourseError
from vehicled.profile import load, load_profile
from vehicled.run.plan import Plan
from vehicled.run.simulation import simulated_profile
from vehicled.run.spec import RunSpec

LARGEST = {"eight_track": "hunter_se", "race_track": "hunter_se", "forest_path": "rzr"}
"""Largest shipped vehicle that a scene is drawn for; the others are for cars."""
PARKED = '[[box]]\nname = "a parked car"\nat = [0, 0]\nsize_m = [4, 2]\n'


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", scenes.names())
def test_a_shipped_scene_fits_the_vehicles_that_it_is_drawn_for(name):
    view = view_of(name)
    assert view.title
    assert view.courses
    for profile in {
        LARGEST.get(name, "hmmwv"),
        "f1tenth" if name != "forest_path" else "husky_a200",
    }:
        loaded = load(profile, [f"sim.scene={name}"])
        for course, title in view.courses:
            assert title
            again = load_course(course.name)
            assert np.array_equal(again.x_m, course.x_m)
            resolved_profile(loaded, again)


@pytest.mark.parametrize(
    "name", ["town", "parking_lot", "intersection", "city_block", "race_track", "eight_track"]
)
def test_a_scene_in_another_size_is_the_same_scene(name):
    whole, small = view_of(name), view_of(f"{name}@0.1")
    assert np.allclose(0.1 * np.array(whole.extent_m), small.extent_m)
    assert np.allclose(0.1 * whole.scene.segments_m, small.scene.segments_m)
    for (one, _), (other, _) in zip(whole.courses, small.courses, strict=True):
        assert other.length_m == pytest.approx(0.1 * one.length_m, rel=1e-2)
        ratio = np.abs(other.speed_mps).max() / np.abs(one.speed_mps).max()
        assert ratio == pytest.approx(0.1**0.5), "the lateral acceleration stays"
    for (_, slow), (_, fast) in zip(small.scene.moving, whole.scene.moving, strict=True):
        assert slow.top_speed_mps == pytest.approx(0.1**0.5 * fast.top_speed_mps)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("town", ("town.toml", 1.0, "")),
        ("town@0.1", ("town.toml", 0.1, "")),
        ("town/ring", ("town.toml", 1.0, "ring")),
        ("town@0.5/ring", ("town.toml", 0.5, "ring")),
        ("a/b.toml@2/lap", ("b.toml", 2.0, "lap")),
        ("hall.yaml", ("hall.yaml", 1.0, "")),
    ],
)
def test_a_reference_names_file_size_and_course(text, parts):
    reference = scenes.parse(text)
    assert (reference.file.name, reference.scale, reference.course) == parts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("twon", 'no scene "twon"; did you mean "town"'),
        ("town@", "is no size; write town@0.1"),
        ("town@nan", "is no size"),
        ("town@0", "is no size"),
        ("town@1e9", "is no size"),
    ],
)
def test_a_wrong_reference_is_refused(text, said):
    with pytest.raises(CourseError, match=said):
        scenes.parse(text)
    with pytest.raises(SceneError, match=said):
        load_scene(text, load_course("square"))


def test_a_drive_in_a_scene_takes_its_first_course_unless_another_is_named(tmp_path):
    assert scenes.course_in("town", "") == "town/ring"
    assert scenes.course_in("town@0.1", "delivery") == "town@0.1/delivery"
    assert scenes.course_in("town", "square") == "square"
    bare = written(tmp_path, PARKED)
    assert scenes.course_in(bare, "") == ""
    plan = Plan.of(RunSpec(profile="opencav", scene="town"))
    assert plan.course.name == "town/ring"
    assert plan.loaded.profile.sim.scene == "town"
    assert Plan.of(RunSpec(profile="art", scene=bare)).course.name == "lot17"


def test_legs_are_driven_forward_and_backward(tmp_path):
    text = (
        '[[course]]\nname = "turn"\nlegs = [[[0, 0], [12, 0]], [[8, 0], [4, 4], [0, '
        "4]]]\ncorner_radius_m = 2.0\n"
    )
    course = load_course(f"{written(tmp_path, text)}/turn")
    assert course.name == "mine/turn"
    assert len(course.cusps) == 1
    k = course.cusps[0]
    assert (course.x_m[k], course.y_m[k]) == pytest.approx((12.0, 0.0))
    assert (course.speed_mps[:k] > 0.0).all()
    assert (course.speed_mps[k:] < 0.0).all()
    assert abs(course.curvature_per_m).max() == pytest.approx(0.5, rel=0.15)


def test_a_rounded_lap_begins_on_its_first_straight(tmp_path):
    text = (
        '[[course]]\nname = "lap"\npoints = [[0, 0], [20, 0], [20, 10], [0, '
        "10]]\ncorner_radius_m = 3.0\nclosed = true\n"
    )
    course = load_course(f"{written(tmp_path, text)}/lap")
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((10.0, 0.0), abs=0.2)
    assert degrees(course.yaw_rad[0]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[course]]\nname = "a"\n', "course a: has no line; give one of points, legs and lane"),
        ('[[course]]\nname = "a"\nlane = "b"\n', 'no lane "b"; known: none'),
        (
            '[[course]]\nname = "a"\npoints = [[0, 0], [1, 0], [1, 1]]\ncorner_radius_m = 5\n',
            "choose a smaller corner_radius_m",
        ),
        (
            '[[course]]\nname = "a"\npoints = [[0, 0], [9, 0], [0, 0]]\ncorner_radius_m = 1\n',
            "use legs to change the direction",
        ),
        (
            '[[course]]\nname = "a"\npoints = [[0, 0], [0, 0], [9, 0]]\ncorner_radius_m = 1\n',
            "two points in a row are the same",
        ),
        ('[[course]]\nname = "A B"\npoints = [[0, 0], [9, 0]]\n', r"course\[0\].name: expected"),
        (
            '[[course]]\nname = "a"\npoints = [[0, 0], [9, "x"]]\n',
            r"course\[0\].points\[1\]\[1\]: expected `float`",
        ),
        (
            '[[course]]\nname = "a"\nspeed = 3\npoints = [[0, 0], [9, 0]]\n',
            r"course\[0\]: object contains unknown field `speed`",
        ),
        ("course = 3\n", "course must be a list of tables"),
        ("course = [\n", "not valid TOML"),
    ],
)
def test_a_wrong_course_of_a_scene_is_named_with_its_place(tmp_path, text, said):
    with pytest.raises(CourseError, match=said):
        load_course(f"{written(tmp_path, text)}/a")


def test_an_unknown_course_of_a_scene_lists_the_known_ones():
    with pytest.raises(
        CourseError, match=r'town.toml: no course "rnig"; known: ring, delivery, loops'
    ):
        load_course("town/rnig")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[circle]]\nradius_m = 1\n", "a circle needs either at or places"),
        (
            "[[circle]]\nat = [0, 0]\nplaces = [[1, 1]]\nradius_m = 1\n",
            "a circle needs either at or places",
        ),
        ("[[box]]\nat = [0, 0]\nsize_m = [1]\n", r"box\[0\].size_m"),
        ("[[wall]]\npoints = [[0, 0], [1, 1]]\nrestitution = 1.5\n", r"wall\[0\].restitution"),
        ("friction = -1\n", "friction"),
        ("[[strat]]\nname = 'a'\n", 'did you mean "start"'),
        ("[ground]\nhigh = 'a.csv'\n", 'did you mean "height"'),
    ],
)
def test_a_wrong_scene_is_named_with_its_place(tmp_path, text, said):
    with pytest.raises(SceneError, match=said) as caught:
        load_scene(written(tmp_path, text), load_course("square"))
    assert "mine.toml" in str(caught.value)


def test_a_start_inside_a_body_is_refused_with_the_nearest_free_place(tmp_path):
    scene, course = written(tmp_path, PARKED), load_course("straight_20m")
    profile = load_profile("art", [f"sim.scene={scene}"])
    with pytest.raises(
        SceneError, match=r"mine: the vehicle would start inside a parked car at \(0.00, 0.00\) m"
    ) as caught:
        check_scene(load_scene(scene, course), profile, course, "stand")
    place = str(caught.value).partition("this heading is (")[2].partition(")")[0]
    x, y = map(float, place.split(","))
    text = PARKED + f'[[start]]\nname = "free"\nat = [{x}, {y}]\n'
    scene = written(tmp_path, text)
    freed = load_profile("art", [f"sim.scene={scene}", "sim.start_pose=free"])
    check_scene(load_scene(scene, course), freed, course, "stand")
    assert hypot(x, y) < 2.0, "beside the car, not in front of it"
    assert start_pose(load_scene(scene, course), freed, course, "stand")[:2] == (x, y)
    with pytest.raises(SceneError, match='no start "nowhere"; known: free'):
        start_pose(
            load_scene(scene, course),
            load_profile("art", [f"sim.scene={scene}", "sim.start_pose=nowhere"]),
            course,
            "stand",
        )


@pytest.mark.parametrize(
    "text",
    ["[[circle]]\nat = [0, 0]\nradius_m = 20\n", "[[box]]\nat = [0, 0]\nsize_m = [90, 90]\n"],
)
def test_a_start_deep_inside_a_body_is_refused(tmp_path, text):
    scene, course = written(tmp_path, text), load_course("straight_20m")
    with pytest.raises(SceneError, match=r"would start inside (circle|box) 1"):
        check_scene(load_scene(scene, course), load_profile("art", [f"sim.scene={scene}"]), course)


def test_the_pushed_and_the_aligned_vehicle_are_compared_where_they_stand(tmp_path):
    course = load_course("straight_20m")
    scene = written(tmp_path, PARKED.replace("at = [0, 0]", "at = [-4, 0]"))
    profile = load_profile("art", [f"sim.scene={scene}"])
    check_scene(load_scene(scene, course), profile, course, "stand")
    for start in ("push", "align"):
        with pytest.raises(SceneError, match="would start inside a parked car"):
            check_scene(load_scene(scene, course), profile, course, start)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[lane]]\nname = "path"\npoints = [[0, 0], [9, 0]]\nwidth_m = 0.3\n',
            "lane path is 0.30 m wide, and the vehicle of profile art",
        ),
        ("[[wall]]\nname = 'the end'\npoints = [[6, -1], [6, 1]]\n",
         r"at 5\.\d m of course mine/a its body meets the end"),
        ("", r"turns with a radius of 0\.\d\d m, and the vehicle with 1\.\d\d m at full lock"),
    ],
)  # fmt: skip
def test_a_vehicle_that_does_not_fit_is_refused_with_place_and_cure(tmp_path, text, said):
    points = "[[0, 0], [9, 0]]" if text else "[[0, 0], [9, 0], [9, 9]]\ncorner_radius_m = 0.5"
    scene = written(
        tmp_path,
        (
            '[[circle]]\nat = [90, 90]\nradius_m = 1\n[[course]]\nname = "a"\npoints = '
            f"{points}\n{text}"
        ),
    )
    plan = Plan.of(RunSpec(profile="art", scene=scene))
    with pytest.raises(SetupError, match=said) as caught:
        simulated_profile(plan)
    assert "take a smaller vehicle, or build the scene larger, such as mine@" in str(caught.value)


def test_a_scene_with_ground_needs_a_vehicle_that_drives_on_one():
    profile = resolved_profile(
        load("husky_a200", ["sim.scene=forest_path"]), load_course("forest_path/round")
    )
    assert profile.sim.terrain.height.endswith("forest_path.csv")
    assert profile.sim.terrain.friction_scale == 0.8
    with pytest.raises(SceneError, match="has ground, but plant"):
        resolved_profile(
            load("art_published", ["sim.scene=forest_path"]), load_course("forest_path/round")
        )
    with pytest.raises(SceneError, match="leave out @"):
        resolved_profile(
            load("husky_a200", ["sim.scene=forest_path@0.5"]), load_course("forest_path@0.5/round")
        )


def test_vehicled_scenes_lists_shows_and_draws(tmp_path, capsys):
    assert main(["scenes"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in scenes.names())
    picture = tmp_path / "lot.svg"
    assert main(["scenes", "parking_lot", "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    for word in ("bay_reverse", "with parts in reverse", "a parked van", "entrance", "6 m wide"):
        assert word in shown
    assert picture.read_text().startswith("<?xml")
    assert main(["scenes", "town", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "town"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scenes", "nowhere"], 'no scene "nowhere"'),
        (["scenes", "nothing.toml"], "cannot be read"),
        (["scenes", "town/ring"], "names a course"),
        (["scenes", "--plot", "a.png"], "--plot draws one scene"),
        (["scenes", "town", "--plot", "a.stl"], "a.stl"),
        (["sim", "--scene", "nowhere"], 'no scene "nowhere"'),
        (["sim", "--scene", "eight_track", "--profile", "hmmwv"], "lane eight is 1.20 m wide"),
    ],
)
def test_a_wrong_command_is_answered_in_one_line(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
