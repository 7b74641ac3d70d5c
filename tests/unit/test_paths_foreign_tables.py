"""Waypoint tables of other collections: what they give, what is said of them, and what is
refused."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vehicled.paths import CourseError
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.course_file import ReadOptions
from vehicled.paths.formats import course_from_bytes

RADIUS_M = 8.0
N = 60
RING = [
    (RADIUS_M * math.cos(math.tau * k / N), RADIUS_M * math.sin(math.tau * k / N)) for k in range(N)
]
TANGENT = [math.tau * k / N + math.pi / 2 for k in range(N)]
VX = [2.0 + math.sin(math.tau * k / N) for k in range(N)]


def load(text: str, columns: tuple[str, ...] = ()) -> Course:
    return course_from_bytes(text.encode(), "ring.csv", ReadOptions(columns))


def account(course: Course) -> str:
    assert course.account is not None
    return "\n".join(course.account.lines())


def race_line(
    heading: Callable[[float], float] = lambda yaw: yaw - math.pi / 2, kappa: float = 1 / RADIUS_M
) -> str:
    """Table of TUM's optimiser: three comment lines, the last with the names, and the first point
    repeated at the end."""
    rows = [
        f"{math.tau * RADIUS_M * k / N:.7f};{x:.7f};{y:.7f};{heading(yaw):.7f};{kappa:.7f};"
        f"{v:.7f};0.0000000"
        for k, ((x, y), yaw, v) in enumerate(
            zip([*RING, RING[0]], [*TANGENT, TANGENT[0]], [*VX, VX[0]])
        )
    ]
    head = "# 8288b625-90b8-4275-83ed-3842478966d0\n# 603fd3987364b09f9aacb70d1ed12c268e24dd56\n"
    return (
        head + "# s_m; x_m; y_m; psi_rad; kappa_radpm; vx_mps; ax_mps2\n" + "\n".join(rows) + "\n"
    )


def test_a_race_line_is_a_lap_with_its_speeds() -> None:
    course = load(race_line())
    assert course.closed
    assert course.length_m == pytest.approx(math.tau * RADIUS_M, rel=2e-3)
    assert course.speed_mps.min() == pytest.approx(1.0, abs=0.01)
    assert course.speed_mps.max() == pytest.approx(3.0, abs=0.01)
    text = account(course)
    assert "vx_mps (speed, m/s)" in text
    for name in ("s_m", "psi_rad", "kappa_radpm", "ax_mps2"):
        assert name in text.split("ignored:")[1].splitlines()[0]


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        (lambda yaw: yaw - math.pi / 2, "counter-clockwise from north"),
        (lambda yaw: yaw, "counter-clockwise from east"),
        (lambda yaw: math.pi / 2 - yaw, "compass"),
        (lambda yaw: math.degrees(yaw), "degrees, not what the column's name says"),
        (lambda yaw: 0.0, "place holder"),
        (lambda yaw: 7.3 * yaw, "contradict"),
    ],
)
def test_the_zero_of_a_heading_is_reported(heading: Callable[[float], float], words: str) -> None:
    assert words in account(load(race_line(heading)))


def test_a_heading_against_the_rows_is_refused() -> None:
    with pytest.raises(CourseError, match="against the order of the waypoints"):
        load(race_line(lambda yaw: yaw + math.pi / 2))


@pytest.mark.parametrize(
    ("kappa", "words"),
    [
        (1 / RADIUS_M, ""),
        (-1 / RADIUS_M, "opposite sign"),
        (math.degrees(1 / RADIUS_M), "degrees per metre"),
    ],
)
def test_a_curvature_is_compared_with_the_line(kappa: float, words: str) -> None:
    text = account(load(race_line(kappa=kappa)))
    assert words in text
    assert ("note: curvatures" in text) == bool(words)


def test_half_widths_are_no_speeds() -> None:
    rows = "".join(f"{x}, {y}, 1.1, 1.1\n" for x, y in RING)
    course = load("# x_m, y_m, w_tr_right_m, w_tr_left_m\n" + rows)
    assert set(course.speed_mps) == {1.0}
    assert course.closed
    assert "w_tr_right_m, w_tr_left_m (width of the track" in account(course)
    with pytest.raises(CourseError, match="4 columns without a header"):
        load(rows)


def test_unnamed_columns_are_named_by_the_user(tmp_path: Path) -> None:
    file = tmp_path / "ring.csv"
    file.write_text("".join(f"{v} {x} 7 {y}\n" for (x, y), v in zip(RING, VX)))
    course = load_course(f"{file}:columns=speed,x,-,y")
    assert course.speed_mps.max() == pytest.approx(3.0, abs=0.01)
    for bad, words in (
        (":columns=x,y", "line 1: 4 values, but columns= names 2"),
        (":columns=x,x,y,-", "both mean x"),
        (":speed=2", "columns=x,y"),
        (":columns=", "columns=x,y"),
    ):
        with pytest.raises(CourseError, match=words.replace("?", ".")):
            load_course(f"{file}{bad}")


def test_a_wide_race_line_that_runs_into_its_start_is_a_lap() -> None:
    """Points 5 m apart, as in the collections of race tracks, and no point given twice."""
    course = load("# x_m,y_m\n" + "".join(f"{40 * x / 8:.6f},{40 * y / 8:.6f}\n" for x, y in RING))
    assert course.closed
    open_line = load(
        "x,y\n"
        + "".join(f"{5 * k},0\n" for k in range(30))
        + "".join(f"{145 - 5 * k},5\n" for k in range(30))
    )
    assert not open_line.closed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "X [yards],Y [yards]\n0,0\n100,0\n",
            '"X .yards." is in no known unit .m, mm.*convert it to m and name it x_m',
        ),
        ("lat [semicircles],lon\n0.7,0.1\n0.8,0.1\n", "no known unit .deg, rad"),
        ("x,y,speed [rpm]\n0,0,1\n1,0,1\n", "no known unit .m/s, km/h.*name it speed_mps"),
        ("x,y,z,yaw,velocity,change_flag\n0,0,0,0,5,0\n1,0,0,0,5,0\n", "Autoware.AI"),
        ("x,y\n0,0\n1,0,3\n", "line 3: 3 value"),
        ("x,y\n0,0\n1\n", "line 3: 1 value"),
        (
            "# x_m, y_m, w_tr_right_m, w_tr_left_m\n0,0,1\n1,0,1\n",
            "line 2: 3 values, but the header in line 1 names 4",
        ),
        ("# x_m, y_m\n", "only comments"),
        ("x,y\n0,0\nnan,nan\n1,0\n", "line 3.*x is nan"),
        ("x,y,v\n0,0,1\n1,0,nan\n", "line 3.*speed is nan"),
        ("x,y,v\n0,0,1\n1,0,\n", "line 3: 2 value|line 3: speed is empty"),
        ("x,y\n0,0\n1_0,0\n", "'1_0', not a number"),
        ("x;y\n0;0\n1,5;0\n2.5;1\n", "comma here and with a point elsewhere"),
    ],
)
def test_what_is_in_doubt_is_refused(text: str, words: str) -> None:
    with pytest.raises(CourseError, match=words):
        load(text)


@pytest.mark.parametrize(
    ("text", "length_m", "speed_mps", "says"),
    [
        ("x_mm,y_mm\n0,0\n10000,0\n", 10.0, 1.0, "x_mm (east, mm, converted to m)"),
        ("X [cm],Y [cm]\n0,0\n1000,0\n", 10.0, 1.0, "converted to m"),
        ("easting_ft;northing_ft\n0;0\n100;0\n", 30.48, 1.0, "east, ft, converted"),
        ("lat_rad,lon_rad\n0.84,0.2\n0.84001,0.2\n", 63.7, 1.0, "latitude, rad, converted to deg"),
        ("lat,lon\n481000000,115000000\n481001000,115000000\n", 11.12, 1.0, "1e-7 degrees"),
        ("x,y,speed [km/h]\n0,0,7.2\n10,0,7.2\n", 10.0, 2.0, "speed, km/h, converted to m/s"),
        ("x,y,v_mph\n0,0,10\n10,0,10\n", 10.0, 4.4704, "speed, mph"),
        ("x,y,speed (knots)\n0,0,10\n10,0,10\n", 10.0, 5.1444, "speed, knots"),
        ("x,y,velocity_kmh\n0,0,7.2\n10,0,7.2\n", 10.0, 2.0, "converted"),
    ],
)
def test_a_unit_in_a_name_is_converted_and_said(
    text: str, length_m: float, speed_mps: float, says: str
) -> None:
    course = load(text)
    assert course.length_m == pytest.approx(length_m, rel=2e-3)
    assert course.speed_mps.max() == pytest.approx(speed_mps, rel=1e-4)
    assert says in account(course)


def test_repeated_rows_are_reported() -> None:
    text = account(load("x,y\n" + "".join(f"{k // 2},0\n" for k in range(20))))
    assert "20 waypoints, an open line" in text
    assert "10 of them dropped" in text


def test_every_format_gives_an_account() -> None:
    for name in ("lot17", "lot17_two_speed"):
        assert "x_m (east, m)" in account(load_course(name))
    assert load_course("sine").account is None
    geometry = '{"type":"LineString","coordinates":[[11,48],[11.001,48]]}'
    line = f'{{"type":"Feature","properties":{{"stroke":"red"}},"geometry":{geometry}}}'
    text = account(course_from_bytes(line.encode(), "a.geojson"))
    assert "ignored: stroke" in text
    assert "no speeds: 1 m/s" in text
    with pytest.raises(CourseError, match='"speed" has no known unit'):
        course_from_bytes(line.replace("stroke", "speed").encode(), "a.geojson")
    fast = course_from_bytes(
        line.replace('"stroke":"red"', '"speed_kmh":7.2').encode(), "a.geojson"
    )
    assert set(fast.speed_mps) == {2.0}
    track = "".join(
        f'<trkpt lat="48" lon="11.00{k}"><time>t</time><speed>3</speed></trkpt>' for k in range(3)
    )
    text = account(
        course_from_bytes(f"<gpx><trk><trkseg>{track}</trkseg></trk></gpx>".encode(), "a.gpx")
    )
    assert "<time>" in text
    assert "recorded ones are no targets" in text
    rows = "".join(f"{k} 0 3 16 0 0 0 0 48 11.00{k} 50 1\n" for k in range(1, 4))
    text = account(
        course_from_bytes(
            f"QGC WPL 110\n0 1 0 16 0 0 0 0 48 11 5 1\n{rows}4 0 2 203 0 0 0 0 0 0 0 1\n".encode(),
            "a.txt",
        )
    )
    assert "home" in text
    assert "command 203" in text


def test_a_number_that_is_only_compared_may_be_missing() -> None:
    course = load("x,y,yaw\n0,0,n/a\n1,0,0\n2,0,0\n")
    assert np.isfinite(course.yaw_rad).all()


# ------------------------------------------------------------------ Autoware

QUATERNIONS = [(0.0, 0.0, math.sin(0.5 * yaw), math.cos(0.5 * yaw)) for yaw in TANGENT]
REST = "0,0,0,0,0"
"""Lateral speed, acceleration, heading rate and wheel angles."""


def autoware_table(form: str) -> str:
    """Return a trajectory as tools of Autoware write it."""
    recorded = (
        "longitudinal_velocity_mps, lateral_velocity_mps, acceleration_mps2, heading_rate_rps, "
        "front_wheel_angle_rad, rear_wheel_angle_rad"
    )
    heads = {
        "challenge": "x,y,z,x_quat,y_quat,z_quat,w_quat,speed",
        "points": f"x,y,z,qx,qy,qz,qw,{recorded}",
        "recorded": f"t_sec, t_nanosec, x, y, heading_real, heading_imag, {recorded}",
        "posed": "t_sec, t_nanosec, x, y, orientation_x, orientation_y, orientation_z, "
        f"orientation_w, {recorded}",
    }
    rows = []
    for (x, y), q, v in zip(RING, QUATERNIONS, VX, strict=True):
        turned = ",".join(f"{value:.7f}" for value in q)
        rows.append(
            {
                "challenge": f"{x + 89630:.4f},{y + 43130:.4f},6.5,{turned},{v:.3f}",
                "points": f"{x:.4f},{y:.4f},0,{turned},{v:.3f},{REST}",
                "recorded": f"0,0,{x:.4f},{y:.4f},{q[3]:.7f},{q[2]:.7f},{v:.3f},{REST}",
                "posed": f"0,0,{x:.4f},{y:.4f},{turned},{v:.3f},{REST}",
            }[form]
        )
    return "\n".join([heads[form], *rows]) + "\n"


@pytest.mark.parametrize("form", ["challenge", "points", "recorded", "posed"])
def test_a_trajectory_of_autoware_is_a_lap_with_its_speeds(form: str) -> None:
    course = load(autoware_table(form))
    assert course.closed
    assert course.length_m == pytest.approx(math.tau * RADIUS_M, rel=2e-3)
    assert course.speed_mps.min() == pytest.approx(1.0, abs=0.01)
    assert course.speed_mps.max() == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize("spacing_m", [0.1, 1.0])
def test_times_that_are_all_the_same_are_none(spacing_m: float) -> None:
    """The recorder of Autoware.Auto writes the time from the start, which often nobody filled
    in."""
    head = autoware_table("recorded").splitlines()[0]
    rows = [f"0, 0, {spacing_m * k:.2f}, 0, 1, 0, 2, {REST}" for k in range(100)]
    course = load("\n".join([head, *rows]))
    assert course.length_m == pytest.approx(99 * spacing_m)
    assert course.speed_mps[0] == 2.0
    assert "times are all the same" in account(course)
