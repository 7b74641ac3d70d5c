"""Scenes out of files: TOML, GeoJSON, occupancy grids; and what is said of bad ones."""

import json
import struct
import zlib
from math import cos, degrees, hypot, inf, sin

import numpy as np
import pytest

from sim_backend.scene.anchor import anchored
from sim_backend.scene.errors import SceneError
from sim_backend.scene.rays import Rays
from sim_backend.scene.reading import load_scene
from sim_backend.sensors.gnss_zones import with_zones
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.profile.gnss import GnssModel

COURSE = load_course("lot17")
CIRCLE = load_course("circle_r5_ccw")


def range_to(scene, x, y, bearing, t_s=0.0, reach_m=100.0):
    rays = Rays(*(np.array([float(each)]) for each in (x, y, bearing)))
    return float(scene.cast(rays, np.array([t_s]), reach_m).range_m[0])


def written(tmp_path, text, name="scene.toml"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_no_name_is_an_empty_scene():
    assert load_scene("", COURSE).empty


def test_a_toml_scene_stands_where_it_says(tmp_path):
    scene = load_scene(
        written(
            tmp_path,
            """
            [[wall]]
            points = [[5, -1], [5, 1]]
            [[wall]]
            points = [[20, 0], [22, 0], [22, 2]]
            closed = true
            [[body]]
            points = [[-6, -1], [-4, -1], [-4, 1], [-6, 1]]
            [[circle]]
            at = [0, 8]
            radius_m = 0.5
            [[moving]]
            places = [[0, -8], [0, -4]]
            start_s = 2.0
            speed_mps = 2.0
            radius_m = 0.5
            """,
        ),
        COURSE,
    )
    assert not scene.empty
    assert range_to(scene, 0, 0, 0) == 5.0
    assert range_to(scene, 21, -3, np.pi / 2) == pytest.approx(3.0)
    assert range_to(scene, 21.5, 9, -np.pi / 2) == pytest.approx(7.5), "the side that closes it"
    assert range_to(scene, 0, 0, np.pi) == pytest.approx(4.0)
    assert range_to(scene, -5, 0, 0.3) == 0.0
    assert range_to(scene, 0, 0, np.pi / 2) == 7.5
    assert [
        range_to(scene, 0, 0, -np.pi / 2, t) for t in (0.0, 2.0, 3.0, 4.0, 9.0)
    ] == pytest.approx([7.5, 7.5, 5.5, 3.5, 3.5])


def test_places_along_the_course_and_a_corridor(tmp_path):
    text = (
        "[corridor]\nleft_m = 2.0\nright_m = 3.0\n[[circle]]\nat = { s_m = 12.0, left_m = 1.0 "
        "}\nradius_m = 0.2\n"
    )
    for course in (COURSE, CIRCLE):
        scene = load_scene(written(tmp_path, text), course)
        k = int(np.searchsorted(course.s_m, 12.0))
        x, y, yaw = float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])
        left = yaw + np.pi / 2
        assert range_to(scene, x, y, left) == pytest.approx(0.8, abs=0.05)
        # Beside the post the walls are free to see.
        back = k - 20
        x, y, yaw = float(course.x_m[back]), float(course.y_m[back]), float(course.yaw_rad[back])
        assert range_to(scene, x, y, yaw + np.pi / 2) == pytest.approx(2.0, abs=0.03)
        assert range_to(scene, x, y, yaw - np.pi / 2) == pytest.approx(3.0, abs=0.03)


def test_an_outline_turns_with_its_way(tmp_path):
    text = """
    [[moving]]
    places = [[0, 10], [10, 10], [10, 20]]
    times_s = [0, 10, 20]
    outline = [[2, -0.5], [2, 0.5], [-2, 0.5], [-2, -0.5]]
    """
    scene = load_scene(written(tmp_path, text), COURSE)
    assert range_to(scene, 20, 10, np.pi, 5.0) == pytest.approx(13.0), "its front, eastwards"
    assert range_to(scene, 10, 30, -np.pi / 2, 15.0) == pytest.approx(13.0), "its front, northwards"
    assert range_to(scene, 20, 15, np.pi, 15.0) == pytest.approx(9.5), "its side"
    assert range_to(scene, 10, 15, 0.0, 15.0) == 0.0, "inside"


def test_geojson_stands_where_the_map_has_it(tmp_path):
    def position(x, y):
        latitude, longitude, _ = COURSE.datum.to_geodetic(x, y, 0.0)
        return [degrees(longitude), degrees(latitude)]

    def feature(kind, coordinates, **properties):
        return {
            "type": "Feature",
            "geometry": {"type": kind, "coordinates": coordinates},
            "properties": properties,
        }

    ring = [position(*corner) for corner in ((9, -1), (11, -1), (11, 1), (9, 1), (9, -1))]
    features = [
        feature("LineString", [position(0, 5), position(4, 5)]),
        feature("Polygon", [ring]),
        feature("Point", position(0, -7), radius_m=1.0),
        feature(
            "LineString",
            [position(-20, 0), position(-10, 0)],
            radius_m=0.5,
            start_s=1.0,
            speed_mps=1.0,
        ),
    ]
    name = written(
        tmp_path, json.dumps({"type": "FeatureCollection", "features": features}), "scene.geojson"
    )
    scene = load_scene(name, COURSE)
    assert range_to(scene, 2, 0, np.pi / 2) == pytest.approx(5.0, abs=1e-3)
    assert range_to(scene, 0, 0, 0) == pytest.approx(9.0, abs=1e-3)
    assert range_to(scene, 0, 0, -np.pi / 2) == pytest.approx(6.0, abs=1e-3)
    assert range_to(scene, 0, 0, np.pi, 6.0) == pytest.approx(14.5, abs=1e-3)


PGM = b"P5\n# made by hand\n4 3\n255\n" + bytes(
    [0, 254, 254, 205, 254, 254, 254, 254, 254, 254, 254, 0]
)
MAP = (
    "image: map.pgm\nresolution: 0.5\norigin: [1.0, 2.0, 0.0]\noccupied_thresh: 0.65  # as "
    "usual\nfree_thresh: 0.25\nnegate: 0\n"
)


def test_a_map_of_map_server_stands_where_its_origin_says(tmp_path):
    (tmp_path / "map.pgm").write_bytes(PGM)
    scene = load_scene(written(tmp_path, MAP, "map.yaml"), COURSE)
    # Occupied: the first pixel, in the north-west, and the last, in the south-east; grey is unknown
    # and lets a beam pass.
    assert range_to(scene, 2.75, 2.25, -np.pi / 2) == 0.0
    assert range_to(scene, 1.25, 0.0, np.pi / 2) == pytest.approx(3.0)
    assert range_to(scene, 9.0, 3.25, np.pi) == pytest.approx(7.5)
    assert range_to(scene, 9.0, 2.25, np.pi) == pytest.approx(6.0)
    assert range_to(scene, 2.75, 9.0, -np.pi / 2) == pytest.approx(6.5)
    turned = MAP.replace("0.0]", f"{np.pi / 2}]")
    scene = load_scene(written(tmp_path, turned, "map.yaml"), COURSE)
    assert range_to(scene, 0.75, -5.5, np.pi / 2) == pytest.approx(9.0), "turned about its corner"


@pytest.mark.parametrize(
    "text",
    [
        (
            "image: map.pgm\nnegate: 0\noccupied_thresh: 0.65\norigin:\n- 1.0\n- 2.0\n- "
            "0.0\nresolution: 0.5\n"
        ),
        (
            "{image: map.pgm, resolution: 5.0e-01, origin: [1, 2, 0], negate: false, "
            "occupied_thresh: .65, mode: trinary}\n"
        ),
        (
            "%YAML 1.1\n---\nimage: 'map.pgm'\nresolution: 5e-1\norigin: [1.0,\n  2.0, "
            "0.0]\nfree_thresh: 0.196\n...\n"
        ),
        (
            "image: map.pgm\r\nresolution: 0.5\r\norigin: [1, 2, 0]\r\nmap_type: 2D_grid\r\ndata: "
            "{cells: 12}\r\n"
        ),
    ],
    ids=["yaml.safe_dump", "flow style", "version and end", "keys of another tool"],
)
def test_a_map_is_read_in_every_spelling_of_yaml(tmp_path, text):
    (tmp_path / "map.pgm").write_bytes(PGM)
    scene = load_scene(written(tmp_path, text, "map.yaml"), COURSE)
    assert range_to(scene, 9.0, 3.25, np.pi) == pytest.approx(7.5)
    assert range_to(scene, 1.25, 0.0, np.pi / 2) == pytest.approx(3.0)


def test_the_same_map_as_text_as_png_and_named_by_a_scene(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    (tmp_path / "map.pgm").write_bytes(
        b"P2\n4 3\n255\n" + b" ".join(str(v).encode() for v in PGM[-12:]) + b"\n"
    )
    pillow.frombytes("L", (4, 3), PGM[-12:]).save(tmp_path / "map.png")
    (tmp_path / "text.yaml").write_text(MAP)
    (tmp_path / "image.yaml").write_text(MAP.replace("map.pgm", "map.png"))
    scenes = [load_scene(str(tmp_path / name), COURSE) for name in ("text.yaml", "image.yaml")]
    scenes.append(
        load_scene(
            written(tmp_path, 'map = "text.yaml"\n[[circle]]\nat = [50, 50]\nradius_m = 1\n'),
            COURSE,
        )
    )
    for bearing in np.linspace(-3, 3, 50):
        place = 2.0 - 6.0 * cos(bearing), 2.75 - 6.0 * sin(bearing)
        ranges = [range_to(scene, *place, bearing + 0.01, reach_m=12.0) for scene in scenes]
        assert ranges[0] == ranges[1] == ranges[2]


def test_an_eye_on_a_wall_meets_it_whichever_side_rounding_puts_it(tmp_path):
    for side in (5e-251, 1e-17, -1e-17, -5e-251):
        scene = load_scene(
            written(tmp_path, f"[[wall]]\npoints = [[{side}, 0], [{side}, 2]]\n"), COURSE
        )
        assert range_to(scene, 0, 1.5, 0.0 if side > 0.0 else np.pi) == pytest.approx(
            0.0, abs=1e-12
        )


def test_walls_of_a_grid_are_joined(tmp_path):
    from sim_backend.scene.occupancy import Occupancy

    occupied = np.zeros((40, 60), dtype=bool)
    occupied[10:30, 20:50] = True
    grid = Occupancy(occupied, 0.05, (0.0, 0.0, 0.0))
    assert len(grid.edges_m) == 4
    assert sorted(round(hypot(x2 - x1, y2 - y1), 9) for x1, y1, x2, y2 in grid.edges_m) == [
        1.0,
        1.0,
        1.5,
        1.5,
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "[[wall]]\npoints = [[0, 0]]\n", "wall[0].points"),
        ("a.toml", "[[wal]]\npoints = [[0, 0], [1, 1]]\n", 'did you mean "wall"'),
        ("a.toml", "[[circle]]\nat = [0, nan]\nradius_m = 1\n", "circle[0].at"),
        ("a.toml", "[[circle]]\nat = [0, 1]\nradius_m = 0\n", "circle[0].radius_m (line 1)"),
        ("a.toml", "[[moving]]\nplaces = [[0, 0], [1, 0]]\nradius_m = 1\n", "missing: the speed"),
        (
            "a.toml",
            "[[moving]]\nplaces = [[0, 0], [1, 0]]\ntimes_s = [1, 1]\nradius_m = 1\n",
            "must grow",
        ),
        ("a.toml", "[[moving]]\nplaces = [[0, 0]]\n", "either radius_m or an outline"),
        ("a.toml", "[[wall]\n", "line 1"),
        ("a.toml", 'map = "b.yaml"\n', "b.yaml: cannot be read"),
        ("a.geojson", '{"type": "Point", "coordinates": [1, 2]}', "feature 1: a Point is a circle"),
        (
            "a.geojson",
            '{"type": "LineString", "coordinates": [[1, 2], [500, 2]]}',
            "feature 1 position 2",
        ),
        (
            "a.geojson",
            '{"type": "MultiPoint", "coordinates": [[1, 2]]}',
            "draw walls as LineString",
        ),
        ("a.geojson", "[1, 2", "line 1"),
        ("a.yaml", "image: x.pgm\nresolution: 0\norigin: [0, 0, 0]\n", "resolution is 0 m"),
        ("a.yaml", "image: x.pgm\nresolution: 0.1\norigin: [0, 0]\n", "write origin: [x, y, yaw]"),
        ("a.yaml", "image: x.pgm\nresolution: 0.1\norigin: [0, 0, 0]\n", "x.pgm: cannot be read"),
        (
            "a.yaml",
            'image: "x\\0.pgm"\nresolution: 0.1\norigin: [0, 0, 0]\n',
            "image is relative to the YAML file",
        ),
        ("a.yaml", "image: x.pgm\nresoluton: 2\n", "'resoluton'; did you mean 'resolution'"),
        ("a.yaml", "image: x.pgm\n  resolution: 2\n", "line 2"),
        ("a.yaml", "image: x.pgm\nimage: y.pgm\n", "duplicate key"),
        ("a.yaml", "- image\n- x.pgm\n", "has no keys"),
        ("a.yaml", "", "has no keys"),
        ("a.yaml", "a: &a [1]\nimage: x.pgm\nresolution: *b\n", "is no YAML"),
        ("a.yaml", f"image: {'[' * 3000}\n", "is no YAML"),
        (
            "a.yaml",
            "image: x.pgm\nresolution: [0.1]\norigin: [0, 0, 0]\n",
            "resolution is '[0.1]', which is not a number",
        ),
        (
            "a.yaml",
            "image: x.pgm\nresolution: 0.1\norigin: [0, .nan, 0]\n",
            "origin is 'nan', which is not a number",
        ),
        (
            "a.yaml",
            f"image: x.pgm\nresolution: 1{'0' * 400}\norigin: [0, 0, 0]\n",
            "resolution is '1000",
        ),
        ("a.yaml", f"image: x.pgm\nresolution: 1{'0' * 5000}\norigin: [0, 0, 0]\n", "a.yaml: "),
        ("a.yaml", "resolution: 0.1\n", "image, origin missing"),
        ("a.stl", "solid", "unknown scene format"),
    ],
)
def test_bad_files_name_the_place_and_the_cure(tmp_path, name, text, said):
    with pytest.raises(SceneError) as caught:
        load_scene(written(tmp_path, text, name), COURSE)
    assert said in str(caught.value)
    assert name.split(".")[0] in str(caught.value)


def png_header(columns, rows):
    """A grey PNG whose pixels are missing."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0), b"IDAT")
    framed = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        for chunk in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize(
    "image",
    [
        b"",
        b"P5\n4 3\n255\n\0\0",
        b"P5 999999 999999 255 ",
        b"P5 0 3 255 ",
        b"P5 2 2 0 ....",
        b"P2\n2 2\n255\n1 2 x 4",
        b"GIF89a",
        png_header(10_000, 10_000),
        png_header(20_000, 20_000),
    ],
    ids=[
        "empty",
        "short",
        "huge",
        "none",
        "no values",
        "letters",
        "another kind",
        "large PNG",
        "huge PNG",
    ],
)
def test_damaged_images_are_refused(tmp_path, image):
    (tmp_path / "map.pgm").write_bytes(image)
    with pytest.raises(SceneError, match=r"map\.pgm"):
        load_scene(written(tmp_path, MAP, "map.yaml"), COURSE)


def test_zones_in_the_home_of_nobody_are_not_there():
    with pytest.raises(
        SceneError, match=r"~nobody-of-this-name/a\.geojson: .* is relative to the profile"
    ):
        with_zones(GnssModel(zones_file="~nobody-of-this-name/a.geojson"), COURSE.datum)


@pytest.mark.parametrize("name", ["nowhere.toml", "~nobody-of-this-name/hall.toml"])
def test_a_file_that_is_not_there_is_named(name):
    with pytest.raises(SceneError, match=rf"{name}: .* is relative to the profile"):
        load_scene(name, COURSE)


def test_paths_count_from_the_profile(tmp_path, monkeypatch):
    profile = load_profile("art", ["sim.scene=scenes/a.toml"])
    near = anchored(profile, str(tmp_path / "mine.toml"))
    assert near.sim.scene == str(tmp_path / "scenes" / "a.toml")
    assert near.sim.terrain.height == ""
    assert anchored(profile, "").sim.scene == "scenes/a.toml"
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for name, place in (
        ("~/a.toml", f"{tmp_path}/me/a.toml"),
        ("~nobody-of-this-name/a.toml", f"{tmp_path}/~nobody-of-this-name/a.toml"),
    ):
        assert (
            anchored(
                load_profile("art", [f"sim.scene={name}"]), str(tmp_path / "mine.toml")
            ).sim.scene
            == place
        )


def test_many_segments_are_found_by_tiles_as_without():
    from sim_backend.scene.rays import Hits
    from sim_backend.scene.shapes import Segments, Tiled

    rng = np.random.default_rng(3)
    middles = rng.uniform(-150, 150, (3000, 2))
    ends = np.hstack((middles, middles + rng.uniform(-4, 4, (3000, 2))))
    ends[:5, 2:] = rng.uniform(-150, 150, (5, 2))
    tiled, plain = Tiled(ends), Segments(ends)
    for k in range(40):
        x, y = rng.uniform(-160, 160, 2)
        rays = Rays(np.full(64, x), np.full(64, y), np.linspace(0, 6.2, 64) + k)
        one, two = Hits(64), Hits(64)
        tiled.cast(rays, 25.0, one)
        plain.cast(rays, 25.0, two)
        assert np.array_equal(one.range_m, two.range_m)
        assert (one.range_m < inf).any() or max(abs(x), abs(y)) > 140
