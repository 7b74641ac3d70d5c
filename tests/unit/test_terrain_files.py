"""Ground out of files, written by other people's writers; and what is said of bad ones."""

import json

import numpy as np
import pytest

from sim_backend.terrain.errors import TerrainError
from sim_backend.terrain.reading import load_terrain, read_raster
from tests.unit.test_scene_files import png_header
from vehicled.cli import main
from vehicled.profile import ProfileError, load_profile
from vehicled.profile.schema import TerrainTable as TerrainTable

try:
    # Here, because it opens a database of projections that stays open: no test can close it behind
    # itself.
    import laspy
except ImportError:
    laspy = None

EAST, NORTH = 500_000.0, 4_770_000.0


def plane(x, y):
    return 250.0 + 0.1 * (x - EAST) - 0.05 * (y - NORTH)


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(1)
    x, y = EAST + rng.uniform(0, 20, 20_000), NORTH + rng.uniform(0, 10, 20_000)
    outside = np.hypot(x - EAST - 6, y - NORTH - 5) > 1.5
    return np.column_stack((x, y, plane(x, y)))[outside]


def as_las(path, points):
    pytest.importorskip("laspy")
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.scales, header.offsets = [1e-4] * 3, [EAST, NORTH, 0.0]
    data = laspy.LasData(header)
    data.x, data.y, data.z = points.T
    data.write(str(path))


def as_ply(path, points, *, text=False):
    """Write the vertices as the PLY of a scanner: doubles, with a property that is no
    coordinate."""
    kind = "ascii" if text else "binary_little_endian"
    properties = "".join(f"property double {name}\n" for name in ("x", "y", "z", "intensity"))
    head = (
        f"ply\nformat {kind} 1.0\ncomment a scan\nelement vertex "
        f"{len(points)}\n{properties}end_header\n"
    )
    rows = np.column_stack((points, np.full(len(points), 0.5)))
    body = (
        "".join(f"{x!r} {y!r} {z!r} {w!r}\n" for x, y, z, w in rows.tolist()).encode()
        if text
        else rows.astype("<f8").tobytes()
    )
    path.write_bytes(head.encode() + body)


def as_text(path, points):
    lines = [f"{x:.4f} {y:.4f};{z:.4f}, 255" for x, y, z in points]
    path.write_text("\n".join(["x y z intensity", "# a remark", *lines, ""]))


@pytest.mark.parametrize(
    ("name", "write"), [("a.las", as_las), ("a.ply", as_ply), ("a.xyz", as_text)]
)
def test_a_cloud_becomes_the_ground_it_was_taken_of(tmp_path, points, name, write):
    write(tmp_path / name, points)
    raster = read_raster(str(tmp_path / name), 0.25)
    assert raster.points == len(points)
    assert raster.extent_m == pytest.approx((EAST, NORTH, EAST + 20, NORTH + 10))
    assert 80 < raster.holes < 140, "the disc of 7 m2 in cells of 1/16 m2, less at its rim"
    table = TerrainTable(
        height=str(tmp_path / name), resolution_m=0.25, origin_m=[EAST, NORTH, 250.0]
    )
    terrain = load_terrain(table)
    for x, y in ((3.0, 2.0), (12.3, 7.7), (17.1, 4.4)):
        height, slope_x, slope_y, friction = terrain.at(x, y)
        assert height == pytest.approx(0.1 * x - 0.05 * y, abs=2e-3)
        assert (slope_x, slope_y) == (pytest.approx(0.1, abs=0.01), pytest.approx(-0.05, abs=0.01))
        assert friction == 1.0
    assert terrain.at(6.0, 5.0)[0] == pytest.approx(0.35, abs=0.1), "filled"
    assert load_terrain(table) is terrain, "read once"


def test_ply_as_text_is_the_same(tmp_path, points):
    as_ply(tmp_path / "a.ply", points[:500])
    as_ply(tmp_path / "b.ply", points[:500], text=True)
    one, two = (read_raster(str(tmp_path / name), 1.0) for name in ("a.ply", "b.ply"))
    assert np.allclose(one.values, two.values, atol=1e-3, equal_nan=True)


HEIGHTS = np.array([[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]])
"""North row first."""
SIDECAR = "step_m = 0.5\nx_m = 10.0\ny_m = 20.0\nscale = 0.01\noffset = -1.0\n"


def geotiff(
    path,
    *,
    model=1,
    point=False,
    scale=(0.5, 0.5, 0.0),
    no_data=None,
    shape=None,
    values=HEIGHTS,
    kind=np.float32,
):
    tifffile = pytest.importorskip("tifffile")
    keys = (1, 1, 0, 2, 1024, 0, 1, model, 1025, 0, 1, 2 if point else 1)
    tags = [
        (33550, "d", 3, scale, True),
        (33922, "d", 6, (0.0, 0.0, 0.0, 100.0, 50.0, 0.0), True),
        (34735, "H", len(keys), keys, True),
    ]
    if no_data is not None:
        tags.append((42113, "s", 0, no_data, True))
    pixels, colours = (
        (values.astype(kind), "minisblack") if shape is None else (np.zeros(shape, kind), "rgb")
    )
    tifffile.imwrite(path, pixels, extratags=tags, photometric=colours)


def test_a_geotiff_lies_where_its_tags_say(tmp_path):
    geotiff(tmp_path / "a.tif")
    area = read_raster(str(tmp_path / "a.tif"), 1.0)
    assert (area.x_m, area.y_m, area.step_m) == (100.25, 49.25, 0.5)
    assert np.array_equal(area.values, HEIGHTS[::-1])
    geotiff(tmp_path / "b.tif", point=True, no_data="4")
    at_points = read_raster(str(tmp_path / "b.tif"), 1.0)
    assert (at_points.x_m, at_points.y_m) == (100.0, 49.5)
    assert at_points.holes == 1


@pytest.mark.parametrize(
    ("kind", "stored", "text"),
    [
        (np.float32, -9999.9, "-9999.9"),
        (np.float32, np.finfo(np.float32).min, "-3.40282346638529e+38"),
        (np.float32, 1.70141e38, "1.70141e+38"),
        (np.float64, np.finfo(np.float64).min, "-1.79769313486232e+308"),
        (np.float64, -9999.9, "-9999.9"),
        (np.int16, -32768, "-32768"),
    ],
)
def test_no_data_of_any_kind_of_pixel_is_a_hole(tmp_path, kind, stored, text):
    geotiff(
        tmp_path / "a.tif",
        values=np.where(HEIGHTS == 4.0, stored, HEIGHTS),
        kind=kind,
        no_data=text,
    )
    found = read_raster(str(tmp_path / "a.tif"), 1.0)
    assert np.array_equal(
        found.values, np.where(HEIGHTS == 4.0, np.nan, HEIGHTS)[::-1], equal_nan=True
    )


def test_png_and_csv_lie_where_the_file_beside_them_says(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray((HEIGHTS * 1000).astype(np.uint16)).save(tmp_path / "a.png")
    (tmp_path / "a.csv").write_text("300,400,500\n0,100,\n")
    for name in ("a.png", "a.csv"):
        (tmp_path / f"{name}.toml").write_text(
            SIDECAR.replace("0.01", "0.001") if name == "a.png" else SIDECAR
        )
    png, text = (read_raster(str(tmp_path / name), 1.0) for name in ("a.png", "a.csv"))
    assert (png.x_m, png.y_m, png.step_m) == (text.x_m, text.y_m, text.step_m) == (10.0, 20.0, 0.5)
    assert np.allclose(png.values, HEIGHTS[::-1] - 1.0)
    assert np.allclose(text.values, [[-1.0, 0.0, np.nan], [2.0, 3.0, 4.0]], equal_nan=True)
    assert text.holes == 1


def test_friction_comes_the_same_way(tmp_path):
    (tmp_path / "mu.csv").write_text("1.0,0.5\n0.5,0.25\n")
    (tmp_path / "mu.csv.toml").write_text("step_m = 1\nx_m = 0\ny_m = 0\n")
    terrain = load_terrain(TerrainTable(friction=str(tmp_path / "mu.csv"), friction_scale=0.8))
    assert terrain.at(0.0, 0.0) == (0.0, 0.0, 0.0, pytest.approx(0.4))
    assert terrain.at(0.5, 1.0)[3] == pytest.approx(0.6)
    (tmp_path / "mu.csv").write_text("1.0,-0.5\n0.5,0.25\n")
    with pytest.raises(TerrainError, match=r"friction from -0.5 to 1"):
        load_terrain(TerrainTable(friction=str(tmp_path / "mu.csv")))


LIST_PLY = """ply
format ascii 1.0
element vertex 2
property list uchar float x
property float y
property float z
end_header
2 1 2 0 0
1 1 0 0
"""


def bad(tmp_path, name, data, said, sidecar=None):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    if sidecar is not None:
        (tmp_path / f"{name}.toml").write_text(sidecar)
    with pytest.raises(TerrainError) as caught:
        read_raster(str(tmp_path / name), 0.25)
    assert said in str(caught.value)
    assert name.split(".")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "said", "sidecar"),
    [
        ("a.xyz", "", "has no points", None),
        ("a.xyz", "x y z\n1 2 3\n1 2\n", "line 3", None),
        ("a.xyz", "1 2 nan\n", "point 1", None),
        ("a.xyz", "0 0 0\n1e8 1e8 0\n", "larger resolution_m", None),
        ("a.xyz", "0 0 0\n1e12 0 0\n", "damaged", None),
        ("a.xyz", b"\xff\xfe\x00", "is not text", None),
        ("a.las", b"LASF" + bytes(300), "not a readable LAS file", None),
        ("a.laz", b"", "", None),
        ("a.ply", "ply\nformat ascii 1.0\nend_header\n", "vertices x, y, z", None),
        ("a.ply", LIST_PLY, "vertices x, y, z", None),
        ("a.tif", b"II*\0", "not a readable TIFF", None),
        ("a.png", b"\x89PNG\r\n", "not a readable image", None),
        ("a.csv", "1,2\n3\n", "line 2: 1 cells, the first line has 2", SIDECAR),
        ("a.csv", "1,2\n3,x\n", "line 2", SIDECAR),
        ("a.csv", "", "has no numbers", SIDECAR),
        ("a.csv", ",\n,\n", "no known value", SIDECAR),
        ("a.csv", "1,2\n", "write a.csv.toml beside it", None),
        ("a.csv", "1,inf\n", "values beyond 1e+09", SIDECAR),
        ("a.csv", "1,1e308\n", "mark holes", SIDECAR),
        ("a.csv", "1,1e308\n", "values beyond 1e+09", SIDECAR.replace("0.01", "1e9")),
        ("a.csv", "1,2\n", "lies beyond 1e+09 m", SIDECAR.replace("20.0", "1e10")),
        ("a.csv", "1,2\n", "y_m: missing", "step_m = 1\nx_m = 0\n"),
        (
            "a.csv",
            "1,2\n",
            "step_m (line 1): must be a number > 0",
            "step_m = -1\nx_m = 0\ny_m = 0\n",
        ),
        (
            "a.csv",
            "1,2\n",
            "step_m (line 1): must be a number",
            "step_m = true\nx_m = 0\ny_m = 0\n",
        ),
        ("a.csv", "1,2\n", 'did you mean "step_m"?', "step = 1\nx_m = 0\ny_m = 0\n"),
        (
            "a.csv",
            "1,2\n",
            "x_m (line 1): must be a number",
            f"x_m = 1{'0' * 400}\nstep_m = 1\ny_m = 0\n",
        ),
        ("a.csv", "1,2\n", "a.csv.toml: 1 problem", f"x_m = 1{'0' * 5000}\nstep_m = 1\ny_m = 0\n"),
        ("a.csv", "1,2\n", "nested too deeply", f"a = {'[' * 5000}"),
        ("a.obj", "v 0 0 0\n", ".obj is not supported", None),
    ],
)
def test_bad_files_name_the_place_and_the_cure(tmp_path, name, data, said, sidecar):
    for package, kinds in (
        ("laspy", (".las", ".laz")),
        ("trimesh", (".ply",)),
        ("tifffile", (".tif",)),
        ("PIL", (".png",)),
    ):
        if name.endswith(kinds):
            pytest.importorskip(package)
    bad(tmp_path, name, data, said, sidecar)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": 2}, "gdalwarp -t_srs"),
        ({"scale": (0.5, 0.7, 0.0)}, "make them square"),
        ({"scale": (0.0, 0.0, 0.0)}, "make them square"),
        ({"no_data": "nothing"}, "GDAL_NODATA"),
        ({"shape": (4, 4, 3)}, "one band"),
    ],
)
def test_a_geotiff_that_cannot_be_used_says_how_to_bring_it_about(tmp_path, changes, said):
    geotiff(tmp_path / "a.tif", **changes)
    with pytest.raises(TerrainError) as caught:
        read_raster(str(tmp_path / "a.tif"), 1.0)
    assert said in str(caught.value)


def test_a_missing_extra_is_named(tmp_path, monkeypatch, points):
    import sys

    for name, package in (
        ("a.las", "laspy"),
        ("a.ply", "trimesh.exchange.ply"),
        ("a.tif", "tifffile"),
        ("a.png", "PIL"),
    ):
        (tmp_path / name).write_bytes(b"x")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(TerrainError, match=r"vehicled\[terrain\]"):
            read_raster(str(tmp_path / name), 1.0)


@pytest.mark.parametrize("name", ["nowhere.tif", "~nobody-of-this-name/hill.tif"])
def test_a_file_that_is_not_there_is_named(name):
    with pytest.raises(TerrainError, match=rf"{name}: .* is relative to the profile"):
        read_raster(name, 1.0)


@pytest.mark.parametrize("side", [6_000, 20_000])
def test_an_image_that_is_too_large_is_refused_by_its_header(tmp_path, side):
    pytest.importorskip("PIL")
    (tmp_path / "a.png").write_bytes(png_header(side, side))
    with pytest.raises(TerrainError, match=r"a\.png: .* nodes.*: cut it"):
        read_raster(str(tmp_path / "a.png"), 1.0)


def test_a_plant_that_knows_no_ground_refuses_one():
    with pytest.raises(ProfileError, match="knows level ground only"):
        load_profile("art_published", ["sim.terrain.height=hill.tif"])


@pytest.fixture(scope="module")
def fonts(tmp_path_factory):
    """A picture drawn before: matplotlib keeps the files of its fonts open."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    figure.suptitle("warm")
    figure.add_subplot().set(title="°")
    figure.savefig(tmp_path_factory.mktemp("warm") / "warm.png")


def test_the_command_prints_extent_slopes_and_holes(tmp_path, points, capsys, fonts):
    as_text(tmp_path / "a.xyz", points)
    picture = tmp_path / "a.png"
    assert main(["twin", "terrain", str(tmp_path / "a.xyz"), "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["x_m"] == pytest.approx([EAST, EAST + 20])
    assert found["slope_median"] == pytest.approx(0.1118, abs=0.003)
    assert found["points"] == len(points)
    assert 0 < found["holes"] < 140
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["twin", "terrain", str(tmp_path / "no.xyz")]) == 2
    assert "no such file" in capsys.readouterr().err
