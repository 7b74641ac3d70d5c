"""Tracks as users give them: files, maps, scenes; each mistake names its place and its cure."""

from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest

from vehicled.core.errors import UserError
from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN, OccupancyGrid
from vehicled.maps.map_file import write_map
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.line import resampled
from vehicled.offline.race.source import load_track, names, walls_scene
from vehicled.offline.race.track import RaceTrack, first_crossing, track_of
from vehicled.offline.race.track_file import track_from_text
from vehicled.offline.race.track_map import track_from_grid

TUM = "# x_m,y_m,w_tr_right_m,w_tr_left_m\n"


def rows(separator: str = ",", n: int = 24, radius: float = 10.0, right: str = "1.1") -> str:
    return "".join(
        separator.join((f"{radius * cos(a):.6f}", f"{radius * sin(a):.6f}", right, "0.9")) + "\n"
        for a in (2.0 * pi * k / n for k in range(n))
    )


@pytest.mark.parametrize(
    "text",
    [
        TUM + rows(),
        "# x_m, y_m, w_tr_right_m, w_tr_left_m\n" + rows(", "),
        "x_m,y_m,w_tr_right_m,w_tr_left_m\r\n" + rows().replace("\n", "\r\n"),
        "# 26815e17\n# x_m; y_m; w_tr_right_m; w_tr_left_m\n" + rows("; "),
        "x_m\ty_m\twidth_right\twidth_left\n" + rows("\t"),
        "% x y w_tr_right_m w_tr_left_m\n" + rows(" "),
        "x_m,y_m,w_tr_right_m,w_tr_left_m\n" + rows("; "),
        rows(),
        TUM + rows().rstrip("\n"),
        TUM + rows() + rows().splitlines()[0] + "\n",
    ],
    ids=[
        "commas",
        "blanks",
        "windows",
        "semicolons",
        "tabs",
        "columns",
        "mixed",
        "bare",
        "cut",
        "closed",
    ],
)
def test_a_track_is_read_however_its_table_is_written(text: str) -> None:
    track = track_from_text(text, "t.csv")
    assert len(track.x_m) == 24
    assert track.counter_clockwise
    assert track.right_m == pytest.approx(1.1)
    assert track.left_m == pytest.approx(0.9)
    assert np.hypot(*track.right_wall_m.T) == pytest.approx(11.1, abs=1e-3)
    assert np.hypot(*track.left_wall_m.T) == pytest.approx(9.1, abs=1e-3)


def test_a_column_is_known_by_its_name_and_not_by_its_place() -> None:
    text = "w_tr_left_m,x_m,y_m,w_tr_right_m,note_1\n" + "".join(
        f"0.9,{10.0 * cos(a):.6f},{10.0 * sin(a):.6f},1.1,0\n"
        for a in (2.0 * pi * k / 24 for k in range(24))
    )
    track = track_from_text(text, "t.csv")
    assert (track.right_m[0], track.left_m[0]) == (1.1, 0.9)


def test_a_clockwise_track_keeps_its_direction_and_its_sides() -> None:
    ccw = track_from_text(TUM + rows(), "t.csv")
    lines = rows().splitlines()
    cw = track_from_text(TUM + "\n".join([lines[0], *lines[:0:-1]]), "t.csv")
    assert not cw.counter_clockwise
    assert np.hypot(*cw.right_wall_m.T) == pytest.approx(8.9, abs=1e-3)
    back = ccw.reversed()
    assert not back.counter_clockwise
    assert back.points == pytest.approx(cw.points)
    assert back.right_m == pytest.approx(0.9)
    assert np.hypot(*back.right_wall_m.T) == pytest.approx(9.1, abs=1e-3)


def changed(line: int, to: str) -> str:
    lines = (TUM + rows()).splitlines()
    lines[line - 1] = to
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t\.csv: the file is empty"),
        ("# x_m,y_m\n", r"only comments, no points"),
        ("x_m,y_m,w_tr_right_m,w_tr_left_m\n", r"a header without points"),
        (TUM + rows(n=5), r"5 different points; .* at least 8"),
        (changed(5, "nan,1,1,1"), r"t\.csv, line 5: x is nan; correct or delete the point"),
        (
            changed(5, "1,2,3"),
            r"line 5: 3 values, where the first line has 4 \(separated by commas",
        ),
        (changed(5, "1,2,x,1"), r"line 5: 'x' is not a number"),
        (
            TUM + rows("; ").replace(".", ","),
            r"line 2: '10,000000' is not a number; write decimal points",
        ),
        (
            "# x_m; y_m; w_tr_right_m; w_tr_left_m\n" + rows("|"),
            r"line 2: one value, .*separated by commas, semicolons, tabs or blanks",
        ),
        (
            "x_m y_m w_tr_right_m w_tr_left_m one more\n" + rows("; "),
            r"line 2: 4 values \(separated by semicolons\), but the header names 6; use one",
        ),
        (changed(5, "7,7,0,0"), r"line 5: the track is 0 m wide \(1 of 24 points\)"),
        (changed(5, "7,7,-1,1"), r"line 5: the width to the right is -1 m; .* never negative"),
        (changed(5, "7,7,1,4000"), r"line 5: the width to the left is 4000 m; .* units metres"),
        (changed(5, "7e6,7,1,1"), r"line 5: \(7e\+06, 7\) is further than 200 km .* millimetres"),
        (TUM + "\n".join(rows().splitlines()[:16]), r"the track is open: its last point \(line 17"),
        (TUM + rows() + rows(), r"crosses itself|turns back"),
        (changed(5, "-3,-3,1,1"), r"line \d+: the centre line turns back by|crosses itself"),
        (
            "s_m; x_m; y_m; psi_rad; kappa_radpm; vx_mps; ax_mps2\n0;1;2;3;4;5;6",
            r"race line without the widths",
        ),
        ("x_m,y_m\n" + "1,2\n" * 10, r"no column with the width to the right and to the left"),
        ("x_mm,y_mm,right,left\n" + rows(), r"column 'x_mm' is in mm; convert"),
        ("lat,lon,w_tr_right_m,w_tr_left_m\n" + rows(), r"positions in degrees; convert"),
        ("1,2,3\n" * 20, r"line 1: 3 columns without a header"),
        (TUM + rows(radius=0.1), r"the lap is 0\.62.* m long; .* units metres"),
        (TUM + rows(radius=0.8), r"wider than the loop of its centre line"),
    ],
)
def test_a_mistake_in_a_track_file_names_place_and_cure(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        _read(text)
    assert str(raised.value).startswith("t.csv")


def _read(text: str) -> RaceTrack:
    from vehicled.paths.course_file import text_of

    return track_from_text(text_of(text.encode(), "t.csv", "a table"), "t.csv")


def test_a_figure_of_eight_is_no_track() -> None:
    angle = np.arange(80) * 2.0 * pi / 80 + 0.01
    x, y = 10.0 * np.sin(angle), 5.0 * np.sin(2.0 * angle)
    with pytest.raises(RaceError, match=r"eight: the centre line crosses itself at \(.*, .*\) m"):
        track_of("eight", x, y, np.ones(80), np.ones(80))
    found = first_crossing(np.column_stack((x, y)))
    assert found is not None
    assert found[2] == pytest.approx((0.0, 0.0), abs=1e-2)


def test_the_inside_of_a_tight_bend_has_no_fold() -> None:
    straight = np.arange(0.0, 20.0, 0.5)
    turn = np.arange(0.1, 3.1, 0.5)
    right_end = np.column_stack((20.0 + 0.5 * np.sin(turn), 0.5 - 0.5 * np.cos(turn)))
    x = np.concatenate((straight, right_end[:, 0], 20.0 - straight, -right_end[:, 0] + 20.0))
    y = np.concatenate(
        (0.0 * straight, right_end[:, 1], 1.0 + 0.0 * straight, 1.0 - right_end[:, 1])
    )
    track = track_of("hairpins", x, y, np.full(len(x), 0.9), np.full(len(x), 0.45))
    fine = resampled(track.points, 4000)
    inside = track.left_wall_m
    apart = np.hypot(*(inside[:, None] - fine[None]).transpose(2, 0, 1)).min(axis=1)
    assert float(apart.min()) > 0.44


# ------------------------------------------------------------------------------------------- maps


def grid_of(
    inner: float,
    outer: float,
    *,
    origin: tuple[float, float, float] = (-8.0, -8.0, 0.0),
    outside: int = OCCUPIED,
) -> OccupancyGrid:
    cell = 0.05
    n = 320
    v, u = np.mgrid[0:n, 0:n]
    r = np.hypot((u + 0.5) * cell - 8.0, (v + 0.5) * cell - 8.0)
    cells = np.full((n, n), outside, np.int8)
    cells[(r > inner) & (r < outer)] = FREE
    cells[r <= inner] = OCCUPIED
    return OccupancyGrid(cells, cell, origin)


@pytest.mark.parametrize("outside", [OCCUPIED, UNKNOWN])
def test_the_centre_line_of_a_map_is_in_its_middle(outside: int) -> None:
    track = track_from_grid(grid_of(4.0, 6.0, outside=outside), "m")
    assert np.hypot(track.x_m, track.y_m) == pytest.approx(5.0, abs=0.04)
    assert track.left_m == pytest.approx(1.0, abs=0.06)
    assert track.right_m == pytest.approx(1.0, abs=0.06)
    assert track.counter_clockwise


def test_a_map_that_is_turned_gives_a_turned_track() -> None:
    grid = grid_of(4.0, 6.0, origin=(1.0, 2.0, 0.5))
    track = track_from_grid(grid, "m")
    x, y = 1.0 + cos(0.5) * 8.0 - sin(0.5) * 8.0, 2.0 + sin(0.5) * 8.0 + cos(0.5) * 8.0
    assert np.hypot(track.x_m - x, track.y_m - y) == pytest.approx(5.0, abs=0.04)


def test_walls_that_are_only_lines_separate_a_track_from_what_is_free_around_it() -> None:
    """The maps of F1TENTH tracks are white on both sides of their walls."""
    grid = grid_of(4.0, 6.0)
    cells = np.full(grid.cells.shape, FREE, np.int8)
    inside = grid.cells == FREE
    padded = np.pad(inside, 2)
    near = np.zeros_like(inside)
    for dv in range(5):
        for du in range(5):
            near |= padded[dv : dv + 320, du : du + 320]
    cells[near & ~inside] = OCCUPIED
    cells[:5] = FREE
    track = track_from_grid(grid._replace(cells=cells), "m")
    assert np.hypot(track.x_m, track.y_m) == pytest.approx(5.0, abs=0.05)


def test_specks_on_the_track_do_not_matter_and_branches_do() -> None:
    grid = grid_of(4.0, 6.0)
    cells = grid.cells.copy()
    cells[160:162, 258:260] = OCCUPIED
    track = track_from_grid(grid._replace(cells=cells), "m")
    assert np.hypot(track.x_m, track.y_m) == pytest.approx(5.0, abs=0.05)
    cells[150:170, 60:260] = FREE
    with pytest.raises(RaceError, match=r"m: the free cells surround two islands, .* branches"):
        track_from_grid(grid._replace(cells=cells), "m")


def test_a_map_without_a_ring_says_so() -> None:
    grid = grid_of(4.0, 6.0)
    cells = grid.cells.copy()
    cells[:, 158:162] = OCCUPIED
    cells[160:] = OCCUPIED
    with pytest.raises(RaceError, match=r"m: no free cells surround an island, .* close the walls"):
        track_from_grid(grid._replace(cells=cells), "m")
    with pytest.raises(RaceError, match="no free cells; check negate"):
        track_from_grid(grid._replace(cells=np.full((50, 50), OCCUPIED, np.int8)), "m")
    with pytest.raises(RaceError, match="cells wide; map it with cells"):
        track_from_grid(grid_of(4.0, 4.15), "m")


# ------------------------------------------------------------------------------------------ names


def test_every_name_and_kind_of_file_is_a_track(tmp_path: Path) -> None:
    assert names() == ["club", "kart_tenth"]
    for name in names():
        assert load_track(name).track.name == name
    source = load_track("race_track")
    assert source.scene == "race_track"
    assert source.track.length_m == pytest.approx(83.3, abs=0.5)
    assert np.hypot(source.track.x_m[0] - 3.84, source.track.y_m[0] - 3.11) < 0.5
    half = load_track("race_track@0.5").track
    assert half.length_m == pytest.approx(0.5 * source.track.length_m, rel=0.01)
    write_map(tmp_path / "ring.yaml", grid_of(4.0, 6.0))
    made = load_track(str(tmp_path / "ring.yaml"))
    assert made.scene == str(tmp_path / "ring.yaml")
    (tmp_path / "ring.csv").write_text(TUM + rows())
    assert load_track(str(tmp_path / "ring.csv")).scene == ""
    (tmp_path / "walls.toml").write_text(walls_scene(made.track))
    with pytest.raises(RaceError, match="neither a map nor a closed lane"):
        load_track(str(tmp_path / "walls.toml"))


def test_the_closed_lane_of_a_scene_is_a_track() -> None:
    track = load_track("town").track
    assert len(track.x_m) > 20
    assert track.remarks[0].startswith("lane")


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(RaceError, match=r'no track "clup"; did you mean "club"\?'):
        load_track("clup")
    with pytest.raises(UserError, match=r"none\.csv: cannot be read"):
        load_track("none.csv")
