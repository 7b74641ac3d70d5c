"""Recordings of other tools as courses: forms of time, gaps, noise, signs of speeds."""

import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests import log_bench
from vehicled.cli import main
from vehicled.core.messages import EstimatorStatus, Message, StateEstimate
from vehicled.paths import CourseError
from vehicled.paths.course import Course
from vehicled.paths.course_file import ReadOptions
from vehicled.paths.formats import course_from_bytes

LATITUDE, LONGITUDE = 48.2, 16.4
METRES_PER_DEGREE = 111_320.0 * np.cos(np.radians(LATITUDE))
EPOCH = datetime(2024, 5, 5, 23, 59, 40, tzinfo=UTC)


def place(x_m: float) -> tuple[float, float]:
    return LATITUDE, LONGITUDE + x_m / METRES_PER_DEGREE


def drive(
    seconds: float = 40.0, speed_mps: float = 1.5, rate_hz: float = 10.0
) -> list[tuple[float, float]]:
    """Time since the start and distance of each row."""
    return [(i / rate_hz, speed_mps * i / rate_hz) for i in range(round(seconds * rate_hz))]


def table(
    head: str, stamp: Callable[[float], str], rows: list[tuple[float, float]] | None = None
) -> bytes:
    lines = [f"{stamp(t)},{place(x)[0]:.9f},{place(x)[1]:.9f}" for t, x in rows or drive()]
    return "\n".join([f"{head},lat,lon", *lines]).encode()


def load(data: bytes | str, name: str = "a.csv", **options: object) -> Course:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return course_from_bytes(
            data.encode() if isinstance(data, str) else data,
            name,
            ReadOptions(**options),  # type: ignore[arg-type]
        )


def account(course: Course) -> str:
    assert course.account is not None
    return "\n".join(course.account.lines())


def clock(t: float) -> datetime:
    return EPOCH + timedelta(seconds=t)


def hms(t: float) -> str:
    return f"{clock(t):%H%M%S}.{clock(t).microsecond // 100_000}"


VIENNA = timezone(timedelta(hours=2))
FORMS: dict[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("time", lambda t: f"{t:.1f}"),
    "unix seconds": ("time", lambda t: f"{clock(t).timestamp():.1f}"),
    "milliseconds without a name": ("time", lambda t: f"{1000 * t:.0f}"),
    "microseconds without a name": ("t", lambda t: f"{1e6 * t:.0f}"),
    "unix milliseconds": ("timestamp", lambda t: f"{1000 * clock(t).timestamp():.0f}"),
    "unix microseconds": ("timestamp", lambda t: f"{1e6 * clock(t).timestamp():.0f}"),
    "unix nanoseconds": ("stamp", lambda t: f"{round(10 * clock(t).timestamp()) * 10**8}"),
    "named milliseconds": ("time_ms", lambda t: f"{1000 * t:.0f}"),
    "named nanoseconds": ("t_ns", lambda t: f"{1e9 * t:.0f}"),
    "bracketed microseconds": ("Time [µs]", lambda t: f"{1e6 * t:.0f}"),
    "TimeUS": ("TimeUS", lambda t: f"{1e6 * t:.0f}"),
    "minutes": ("time_min", lambda t: f"{t / 60:.6f}"),
    "hhmmss over a minute and midnight": ("utc", hms),
    "hhmmss in the name": ("time_hhmmss", hms),
    "hhmmss without leading zeros": ("time", lambda t: str(float(hms(t)))),
    "time of day": ("time", lambda t: f"{clock(t):%H:%M:%S}.{clock(t).microsecond // 1000:03d}"),
    "time of day, am and pm": ("time",
        lambda t: f"{clock(t):%I:%M:%S}.{clock(t).microsecond // 1000:03d} {clock(t):%p}"),
    "minutes and seconds": ("time", lambda t: f"{int(t) // 60}:{t % 60:04.1f}"),
    "ISO 8601": ("time", lambda t: clock(t).isoformat()),
    "ISO 8601 in Vienna": ("time",
        lambda t: clock(t).astimezone(VIENNA).isoformat(timespec="milliseconds")),
    "ISO 8601 with Z and a blank": ("time",
        lambda t: f"{clock(t):%Y-%m-%d %H:%M:%S}.{clock(t).microsecond:06d}Z"),
    "ISO 8601, nanoseconds": ("time",
        lambda t: f"{clock(t):%Y-%m-%dT%H:%M:%S}.{clock(t).microsecond * 1000:09d}"),
    "compact": ("time", lambda t: f"{clock(t):%Y%m%d%H%M%S}.{clock(t).microsecond // 1000:03d}"),
    "slashes": ("GPST",
        lambda t: f"{clock(t):%Y/%m/%d %H:%M:%S}.{clock(t).microsecond // 1000:03d}"),
    "day first": ("time",
        lambda t: f"{clock(t):%d.%m.%Y %H:%M:%S}.{clock(t).microsecond // 1000:03d}"),
    "month first, pm": ("time",
        lambda t: f"{clock(t):%m/%d/%Y %I:%M:%S}.{clock(t).microsecond // 1000:03d} {clock(t):%p}"),
    "date apart": ("date,time",
        lambda t: f"{clock(t):%Y-%m-%d},{clock(t):%H:%M:%S}.{clock(t).microsecond // 1000:03d}"),
    "days of a spreadsheet": ("time", lambda t: f"{45417 + (86380 + t) / 86400:.9f}"),
    "days of MATLAB": ("time", lambda t: f"{739377 + (86380 + t) / 86400:.9f}"),
    "GPS week and seconds": ("week,tow",
        lambda t: f"{2313 + (t > 19.95)},{round(10 * (604780 + t)) % 6048000 / 10:.1f}"),
    "GPS seconds over the end of the week": ("tow", lambda t: f"{(604780 + t) % 604800:.1f}"),
    "iTOW": ("iTOW", lambda t: f"{(604780000 + 1000 * t) % 604800000:.0f}"),
    "counter of 32 bits in ms": ("millis",
        lambda t: f"{(2**32 - 20000 + round(1000 * t)) % 2**32}"),
    "counter of 32 bits in us": ("t_us",
        lambda t: f"{(2**32 - 20000000 + round(1e6 * t)) % 2**32}"),
    "ROS seconds and nanoseconds": (
        "header.stamp.sec,header.stamp.nanosec",
        lambda t: f"{1714953580 + round(10 * t) // 10},{round(10 * t) % 10 * 10**8}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_time_gives_the_speed_that_was_driven(form: str) -> None:
    course = load(table(*FORMS[form]))
    assert course.length_m == pytest.approx(59.85, abs=0.2)
    assert course.speed_mps[30:-30] == pytest.approx(1.5, abs=0.03)
    assert "a recorded trace, 39.9 s at 10 Hz" in account(course)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("milliseconds without a name", "time is taken as ms"),
        ("unix nanoseconds", "stamp is taken as ns"),
        ("hhmmss over a minute and midnight", "utc holds hours, minutes and seconds as hhmmss"),
        ("days of a spreadsheet", "time counts days"),
        ("day first", "time of day"),
        ("counter of 32 bits in ms", "the clock started again"),
    ],
)
def test_what_was_assumed_of_a_time_is_said(form: str, words: str) -> None:
    assert words in account(load(table(*FORMS[form])))


@pytest.mark.parametrize(
    ("head", "scale", "words"),
    [
        (
            "tow(msec)",
            1.0,
            ["tow(msec) is named as ms", "in s it is 1.5 m/s", "time_s", "a.csv:time=s"],
        ),
        ("time_s", 1000.0, ["time_s is named as s", "in ms it is 1.5 m/s", "a.csv:time=ms"]),
        ("time_ns", 1e6, ["in us it is 1.5 m/s"]),
        ("time", 1e-4, ["time fits no unit", "m/s in s", "a.csv:time="]),
    ],
)
def test_a_unit_that_makes_no_drive_is_refused_with_the_one_that_does(
    head: str, scale: float, words: list[str]
) -> None:
    data = table(head, lambda t: repr(scale * t))
    with pytest.raises(CourseError) as error:
        load(data)
    for word in words:
        assert word in str(error.value)
    if "in s it is" in str(error.value):
        assert load(data, time="s").speed_mps[30:-30] == pytest.approx(1.5, abs=0.03)


def test_a_time_that_goes_back_is_refused() -> None:
    rows = drive()
    data = table("time", lambda t: f"{t if t < 20 else t - 10:.1f}", rows)
    with pytest.raises(
        CourseError, match=r"line 202: time is 10 after 19\.9: put the rows in order"
    ):
        load(data)


OUTAGE = [(i * 0.1, i * 0.1) for i in range(300)] + [
    (90 + i * 0.1, 80 + i * 0.1) for i in range(300)
]


def gpx(rows: list[tuple[float, float]], cut: int = 0) -> str:
    points = [
        (
            f'<trkpt lat="{place(x)[0]:.9f}" '
            f'lon="{place(x)[1]:.9f}"><time>{clock(t).isoformat()}</time></trkpt>\n'
        )
        for t, x in rows
    ]
    if cut:
        points.insert(cut, "</trkseg><trkseg>\n")
    return (
        f'<gpx version="1.1"><trk><name>yard</name><trkseg>{"".join(points)}</trkseg></trk></gpx>'
    )


STAMPS = [f"<time>{clock(t).isoformat()}</time>" for t, _ in OUTAGE]
SPARSE = [(1.0 * i, 2.0 * i) for i in range(40)] + [(100.0 + i, 250 + 2.0 * i) for i in range(40)]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", table("time", lambda t: f"{t:.1f}", OUTAGE),
         ["line 301 to line 302", "60.1 s and 50.", "a.csv:gaps=bridge"]),
        ("a.gpx", gpx(OUTAGE), ["point 300 to line", "60.1 s and 50.", "a.gpx:gaps=bridge"]),
        ("a.csv", table("time", lambda t: f"{t:.1f}", SPARSE),
         ["line 41 to line 42", "61.0 s and 172."]),
        ("a.gpx", gpx(SPARSE), ["point 40 to line", "61.0 s and 172."]),
        ("a.gpx", gpx(OUTAGE, cut=300), ["2 lines", "line=2", "gaps=bridge"]),
        ("a.gpx", gpx(OUTAGE).replace(STAMPS[5], "").replace(STAMPS[9], "<time>now</time>"), [
            "point 300 to line", "60.1 s and 50."
        ]),
    ],
    ids=["table", "gpx", "sparse table", "sparse gpx", "segments", "two points without a time"],
)  # fmt: skip
def test_a_gap_is_refused_and_bridged_on_request(
    name: str, data: bytes | str, words: list[str]
) -> None:
    with pytest.raises(CourseError) as error:
        load(data, name)
    for word in words:
        assert word in str(error.value)
    course = load(data, name, bridge_gaps=True)
    whole_m = (SPARSE if "172" in words[-1] else OUTAGE)[-1][1]
    assert course.length_m == pytest.approx(whole_m, rel=3e-3)
    assert "gap bridged by a straight line" in account(course)


def test_a_gap_in_place_alone_is_a_gap_where_the_line_turns() -> None:
    arc = [(20 * np.sin(0.01 * k), 20 - 20 * np.cos(0.01 * k)) for k in range(150)]
    bent = "x,y\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in arc[:60] + arc[100:])
    with pytest.raises(CourseError, match=r"line 61 to line 62: nothing was recorded for 8\.\d m"):
        load(bent)
    # A straight part of a drawn line has no points in between.
    drawn = "x,y\n" + "".join(
        f"{x:.2f},0\n" for x in [*np.arange(0, 5, 0.1), *np.arange(15, 20, 0.1)]
    )
    assert "no waypoint for 10.1 m (line 51 to line 52)" in account(load(drawn))


def test_standing_is_no_gap_but_said() -> None:
    rows = [(t if t < 20 else t + 300, x) for t, x in drive()]
    course = load(table("time", lambda t: f"{t:.1f}", rows))
    assert "nothing was recorded for 300.1 s and 0.1 m (line 201 to line 202)" in account(
        course
    ) or "0.2 m" in account(course)


@pytest.mark.parametrize("closed", ["# closed: yes\n", ""])
def test_dense_rows_without_times_are_smoothed_if_their_noise_zigzags(closed: str) -> None:
    noise = np.random.default_rng(1).normal(0.0, 0.02, (800, 2))
    ring = [
        (6 * np.sin(a), 6 - 6 * np.cos(a)) for a in np.linspace(0, 2 * np.pi, 800, endpoint=False)
    ] + noise
    course = load(closed + "x_m,y_m\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in ring))
    assert course.closed
    assert course.length_m == pytest.approx(37.7, abs=0.2)
    radius = np.hypot(course.x_m, course.y_m - 6)
    assert radius == pytest.approx(6.0, abs=0.03)
    assert course.curvature_per_m == pytest.approx(1 / 6, abs=0.3)
    assert "zigzag by their noise" in account(course)
    assert "smoothed over 2 m, by at most 0.0" in account(course)


def test_dense_rows_at_a_centimetre_keep_their_speeds() -> None:
    rng = np.random.default_rng(2)
    x = np.arange(0, 20, 0.01)
    rows = zip(
        x + rng.normal(0, 0.02, len(x)),
        2 * np.sin(0.3 * x) + rng.normal(0, 0.02, len(x)),
        1 + 0.1 * x,
        strict=True,
    )
    course = load("x,y,v\n" + "".join(f"{a:.4f},{b:.4f},{c:.3f}\n" for a, b, c in rows))
    true_m = float(np.hypot(np.diff(x), np.diff(2 * np.sin(0.3 * x))).sum())
    assert course.length_m == pytest.approx(true_m, abs=0.1)
    assert course.speed_mps[0] == pytest.approx(1.0, abs=0.02)
    assert course.speed_mps[-1] == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize(
    "along", [[*np.arange(0, 10, 0.1), *np.arange(15, 25, 0.1)], np.cumsum([0.05, 0.2] * 100)]
)
def test_gaps_and_uneven_distances_are_no_noise(along: list[float]) -> None:
    corner = [(x, 0.0) for x in along] + [(along[-1], y) for y in along]
    course = load("x_m,y_m\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in corner))
    assert "zigzag" not in account(course)
    assert course.length_m == pytest.approx(2 * along[-1], abs=0.2)


@pytest.mark.parametrize("points", ["square", "tight circle", "rounded to cm"])
def test_a_dense_drawing_is_left_as_it_is(points: str) -> None:
    side = np.arange(0, 5, 0.05)
    drawings = {
        "square": [(t, 0.0) for t in side]
        + [(5.0, t) for t in side]
        + [(5 - t, 5.0) for t in side]
        + [(0.0, 5 - t) for t in side],
        "tight circle": [
            (0.5 * np.cos(a), 0.5 * np.sin(a))
            for a in np.linspace(0, 2 * np.pi, 100, endpoint=False)
        ],
        "rounded to cm": [
            (round(0.1 * k, 2), round(2 * float(np.sin(0.03 * k)), 2)) for k in range(200)
        ],
    }
    course = load("x,y\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in drawings[points]))
    assert "smoothed" not in account(course)
    assert course.waypoints == len(drawings[points])


def rows(*columns: npt.ArrayLike) -> str:
    return "".join(
        ",".join(map(str, row)) + "\n"
        for row in zip(*(np.asarray(c).tolist() for c in columns), strict=True)
    )


T = np.arange(0.0, 20.0, 0.1)


def test_a_sign_that_the_line_does_not_follow_is_refused() -> None:
    forward = np.where(T < 10, 1.0, -1.0)
    with pytest.raises(
        CourseError, match=r"changes its sign at 10\.\d s but the vehicle does not turn back there"
    ):
        load("t,x,y,v\n" + rows(T, T, 0 * T, forward))
    with pytest.raises(CourseError, match=r"line 12.*changes its sign"):
        load("x,y,v\n" + rows(np.arange(20), np.zeros(20), np.where(np.arange(20) < 10, 1, -1)))
    with pytest.raises(CourseError, match="headings point against"):
        load("t,x,y,v,yaw\n" + rows(T, T, 0 * T, -np.ones(len(T)), 0 * T))
    back = load("t,x,y,v\n" + rows(T, np.where(T < 10, T, 20 - T), 0 * T, forward))
    assert len(back.cusps) == 1


def test_a_course_in_reverse_says_so() -> None:
    for text in (
        "x,y,v\n0,0,-1\n5,0,-1\n10,0,-1\n",
        "t,x,y,v\n" + rows(T, T, 0 * T, -np.ones(len(T))),
    ):
        assert "driven in reverse all along" in account(load(text))


def test_a_speed_of_zero_ends_a_course_and_is_refused_on_the_way() -> None:
    course = load("x,y,v\n0,0,0\n1,0,2\n5,0,2\n9,0,1\n10,0,0\n")
    assert (course.speed_mps[0], course.speed_mps[-1]) == pytest.approx((2.0, 1.0))
    assert "speed 0 at an end" in account(course)
    with pytest.raises(CourseError, match="line 3: speed is 0"):
        load("x,y,v\n0,0,1\n5,0,0\n10,0,1\n")


POSE = "field.pose.pose"


def at(x: float, separator: str = ",") -> str:
    """Latitude and longitude of a place in degrees."""
    return separator.join(f"{value:.9f}" for value in place(x)[:2])


def clock_ns(t: float) -> int:
    """Time of a bag's row in nanoseconds."""
    return round(10 * t) * 10**8 + 1714953580 * 10**9


def day_time(t: float) -> str:
    """Instant in the format of RTKLIB."""
    return f"{clock(t):%Y/%m/%d %H:%M:%S}.{clock(t).microsecond // 1000:03d}"


ROSTOPIC = (
    f"%time,field.header.seq,field.header.frame_id,{POSE}.position.x,{POSE}.position.y,{POSE}.position.z,{POSE}.orientation.x,"
    f"{POSE}.orientation.y"
)
RTKLIB = (
    "% program   : RTKLIB ver.2.4.3\n% obs start : 2019/06/08 08:03:55.5 GPST (week2056 "
    "547435.5s)\n"
    "%  GPST                  latitude(deg) longitude(deg)  height(m)   Q  ns   sdn(m)  age(s) "
    " ratio"
)


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("a.csv", ROSTOPIC,
         lambda t, x: f"{clock_ns(t)},{round(10 * t)},odom,{x:.4f},0,0,0,0"),
        ("a.csv",
         "__time,/odom/pose/pose/position/x,/odom/pose/pose/position/y,/odom/twist/twist/linear/x",
         lambda t, x: f"{1714953580 + t:.3f},{x:.4f},0,1.5"),
        ("a.txt", "# timestamp tx ty tz qx qy qz qw", lambda t, x: f"{t:.2f} {x:.4f} 0 0 0 0 0 1"),
        ("a.pos", RTKLIB,
         lambda t, x: f"{day_time(t)}   {at(x, '   ')}   100.0   1   9   0.01  0.00    3.0"),
        ("a.pos", "%  GPST          latitude(deg) longitude(deg)  height(m)   Q  ns",
         lambda t, x: f"2313 {518380 + t:.3f}   {at(x, '   ')}   100.0   1   9"),
        ("a.csv", "Time [s];Latitude;Longitude;Easting;Northing",
         lambda t, x: f"{t:.1f};{place(x)[0]:.9f};{place(x)[1]:.9f};{600000 + x:.3f};5340000"),
        ("a.csv", "latitude,longitude,time(millisecond),datetime(utc),speed(mph)",
         lambda t, x: f"{at(x)},{1000 * t:.0f},{clock(t):%Y-%m-%d %H:%M:%S},{1.5 / 0.44704:.5f}"),
        ("a.csv", "time,lat,lon,elevation,accuracy,bearing,speed,satellites,provider",
         lambda t, x: f"{clock(t).isoformat()},{at(x)},200,3,90,1.5,12,gps"),
        ("a.csv", "timestamp,lat,lon,alt",
         lambda t, x: f"{t:.1f},{round(1e7 * place(x)[0])},{round(1e7 * place(x)[1])},1"),
    ],
    ids=["rostopic", "PlotJuggler", "TUM", "RTKLIB", "RTKLIB week", "survey", "airdata",
        "GPSLogger", "1e-7"],
)  # fmt: skip
def test_tables_of_other_tools_are_recordings(
    name: str, head: str, row: Callable[[float, float], str]
) -> None:
    course = load(head + "\n" + "\n".join(row(t, x) for t, x in drive()), name)
    assert course.length_m == pytest.approx(59.85, abs=0.3)
    assert course.speed_mps[30:-30] == pytest.approx(1.5, abs=0.05)
    assert "a recorded trace" in account(course)


def test_a_gap_in_a_log_is_named_by_its_times_and_bridged_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of a straight drive at 1 m/s, without 60 s in its middle."""

    def states() -> Iterator[tuple[int, Message]]:
        for k in range(200, 14000):
            if not 4000 < k < 10000:
                t_ns = log_bench.START_NS + 10_000_000 * k
                covariance = log_bench.COVARIANCE
                yield (
                    t_ns,
                    StateEstimate(
                        t_ns,
                        t_ns,
                        0.01 * k,
                        0.0,
                        0.0,
                        1.0,
                        0.0,
                        covariance,
                        EstimatorStatus.RUNNING,
                    ),
                )

    log, out = log_bench.write(tmp_path / "run.mcap", states()), tmp_path / "path.csv"
    assert main(["record-path", log, "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert "nothing was recorded from 40.0 to 100.0 s, over 60.0 m" in said
    assert "--bridge-gaps" in said
    assert not out.exists()
    assert main(["record-path", log, "-o", str(out), "--bridge-gaps"]) == 0
    assert "gap bridged by a straight line: from 40.0 to 100.0 s, 60.0 m" in capsys.readouterr().out
    assert main(["record-path", log, "-o", str(tmp_path / "end.csv"), "--from", "100"]) == 0
