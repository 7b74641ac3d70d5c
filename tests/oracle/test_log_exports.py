"""Exports read back by others: rosbags, numpy and the csv module, pyarrow, XML and JSON parsers.
Counts, stamps, values."""

import csv
import json
import math
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests import log_bench as bench
from vehicled import cli
from vehicled.core.messages import Event, GnssFix, Message, StateEstimate, TaskTick, WireChunk
from vehicled.core.messages import Path as CoursePath
from vehicled.core.messages.records import Direction
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.export.exporting import export
from vehicled.paths.datum import LOT_17

SECONDS = 12


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("export")
    start = bench.START_NS
    first: list[tuple[int, Message]] = [
        (start, WireChunk(start, "gnss", Direction.RX, b"\x00\xffab")),
        (start, Event(start, "info", "a, \"quoted\"\nname", "{}")),
        (start, CoursePath(start, "x", False, (0.0, 1.0), (0.0, math.nan), (), (), (1.5,))),
        (start, GnssFix(start, start, math.nan, math.nan, math.inf)),
    ]  # fmt: skip
    return bench.write(folder / "run.mcap", [*first, *bench.drive(1, seconds=SECONDS)])


def test_csv_has_every_message_with_every_digit(log: str, tmp_path: Path) -> None:
    done = export(log, "csv", tmp_path / "csv")
    with LogReader(log) as reader:
        estimates = [record.message for record in reader.messages(StateEstimate)]
        counts = Counter(type(record.message).__name__ for record in reader.messages())
    assert sum(done.counts.values()) == sum(counts.values())
    with (tmp_path / "csv" / "state_estimate.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(estimates) == SECONDS * 100
    assert [int(row["t_ns"]) for row in rows] == [m.t_ns for m in estimates]
    assert [float(row["x_m"]) for row in rows] == [m.x_m for m in estimates]
    assert [float(row["covariance_5"]) for row in rows] == [m.covariance[5] for m in estimates]
    assert {row["status"] for row in rows} == {"RUNNING"}
    x = np.genfromtxt(
        tmp_path / "csv" / "state_estimate.csv",
        delimiter=",",
        names=True,
        dtype=None,
        encoding="utf-8",
    )
    assert x["yaw_rad"].tolist() == [m.yaw_rad for m in estimates]


def test_csv_of_awkward_values(log: str, tmp_path: Path) -> None:
    export(log, "csv", tmp_path / "csv", topics=["wire_chunk", "event", "path", "gnss_fix"])
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == [
        "event.csv",
        "gnss_fix.csv",
        "path.csv",
        "wire_chunk.csv",
    ]

    def row(name: str) -> dict[str, str]:
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as stream:
            return next(csv.DictReader(stream))

    assert row("wire_chunk")["data"] == "00ff6162"
    assert row("event")["name"] == 'a, "quoted"\nname'
    assert (row("path")["closed"], row("path")["y_m"], row("path")["yaw_rad"]) == (
        "0",
        "[0.0,null]",
        "[]",
    )
    assert (row("gnss_fix")["latitude_rad"], row("gnss_fix")["height_m"]) == ("", "inf")


def test_the_joined_table_holds_the_last_value_and_never_the_next(log: str, tmp_path: Path) -> None:
    export(log, "csv", tmp_path / "joined.csv", rate_hz=40.0, topics=["state_estimate", "gnss_fix"])
    with (tmp_path / "joined.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["t_s"]) for row in rows] == pytest.approx([k / 40 for k in range(len(rows))])
    assert int(rows[0]["utc_ns"]) == bench.WALL_NS
    assert (len(rows) - 1) / 40 == pytest.approx(SECONDS, abs=0.03)
    with LogReader(log) as reader:
        known = [
            (record.t_ns - bench.START_NS, record.message)
            for record in reader.messages(StateEstimate)
        ]
    for row in rows[1:]:
        now_ns = round(float(row["t_s"]) * 1e9)
        t_ns, newest = [entry for entry in known if entry[0] <= now_ns][-1]
        assert float(row["state_estimate.x_m"]) == newest.x_m
        assert float(row["state_estimate.age_s"]) == pytest.approx((now_ns - t_ns) / 1e9, abs=1e-9)
    assert float(rows[3]["gnss_fix.age_s"]) == pytest.approx(0.075)
    assert rows[5]["gnss_fix.fix_type"] == "4"
    with pytest.raises(LogError, match="rate"):
        export(log, "csv", tmp_path / "none.csv", rate_hz=0.0)


def test_parquet_read_by_pyarrow(log: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    done = export(log, "parquet", tmp_path / "pq")
    found = {Path(file).stem: parquet.read_table(file) for file in done.files}
    assert {name: table.num_rows for name, table in found.items()} == done.counts
    with LogReader(log) as reader:
        ticks = [record.message for record in reader.messages(TaskTick)]
        fixes = [record.message for record in reader.messages(GnssFix)]
    assert found["task_tick"]["end_ns"].to_pylist() == [m.end_ns for m in ticks]
    assert found["task_tick"]["missed"].to_pylist() == [m.missed for m in ticks]
    assert found["gnss_fix"]["latitude_rad"].to_pylist()[1:] == [m.latitude_rad for m in fixes][1:]
    assert found["gnss_fix"]["carrier"].to_pylist()[1] == "FIXED"
    assert found["wire_chunk"]["data"].to_pylist() == [b"\x00\xffab"]
    assert found["path"]["x_m"].to_pylist() == [[0.0, 1.0]]
    export(log, "parquet", tmp_path / "joined.parquet", rate_hz=10.0)
    table = parquet.read_table(tmp_path / "joined.parquet")
    assert table.num_rows == pytest.approx(SECONDS * 10, abs=2)
    assert table["state_estimate.status"].to_pylist()[5] == 2


def test_parquet_without_its_library_names_it(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(LogError, match=r"vehicled\[parquet\]"):
        export(log, "parquet", tmp_path / "pq")
    assert not (tmp_path / "pq").exists()


def truth() -> list[tuple[float, float]]:
    found = []
    for _, message in bench.drive(1, seconds=SECONDS):
        if isinstance(message, GnssFix):
            found.append((math.degrees(message.latitude_rad), math.degrees(message.longitude_rad)))
    return found


def test_gpx_read_by_an_xml_parser(log: str, tmp_path: Path) -> None:
    export(log, "gpx", tmp_path / "run.gpx")
    root = ElementTree.parse(tmp_path / "run.gpx").getroot()
    space = {"g": "http://www.topografix.com/GPX/1/1"}
    assert (root.tag, root.get("version")) == ("{http://www.topografix.com/GPX/1/1}gpx", "1.1")
    # The order that the schema of GPX demands.
    assert [child.tag.rsplit("}", 1)[1] for child in root] == ["metadata", "rte", "trk", "trk"]
    tracks = {
        t.findtext("g:name", "", space): t.findall(".//g:trkpt", space)
        for t in root.findall("g:trk", space)
    }
    assert len(tracks["gnss"]) == SECONDS * 10
    assert len(tracks["estimate"]) == SECONDS * 10
    for (latitude, longitude), fix, estimate in zip(truth(), tracks["gnss"], tracks["estimate"]):
        assert float(fix.get("lat", "")) == pytest.approx(latitude, abs=1e-9)
        assert float(fix.get("lon", "")) == pytest.approx(longitude, abs=1e-9)
        # 0.05 m of error at one sigma.
        assert float(estimate.get("lat", "")) == pytest.approx(latitude, abs=0.3 / 111_000)
    times = [
        datetime.fromisoformat(point.findtext("g:time", "", space)) for point in tracks["gnss"]
    ]
    assert times[0].timestamp() == bench.WALL_NS / 1e9
    assert (times[-1] - times[0]).total_seconds() == pytest.approx(SECONDS - 0.1)


def test_geojson_and_kml_read_by_parsers(log: str, tmp_path: Path) -> None:
    export(log, "geojson", tmp_path / "run.geojson")
    features = {
        f["properties"]["name"]: f
        for f in json.loads((tmp_path / "run.geojson").read_text())["features"]
    }
    assert features.keys() == {"circle", "estimate", "gnss"}
    lines = features["gnss"]["geometry"]["coordinates"]
    places = [point for line in lines for point in line]
    assert [(p[1], p[0]) for p in places] == [pytest.approx(place, abs=2e-9) for place in truth()]
    assert places[0][2] == pytest.approx(LOT_17.height_m, abs=1e-3)
    assert [len(line) for line in lines] == [
        len(times) for times in features["gnss"]["properties"]["coordTimes"]
    ]
    assert len(features["circle"]["geometry"]["coordinates"]) == 4  # closed

    export(log, "kml", tmp_path / "run.kml", rate_hz=1.0)
    space = {"k": "http://www.opengis.net/kml/2.2"}
    marks = ElementTree.parse(tmp_path / "run.kml").getroot().findall(".//k:Placemark", space)
    texts = {
        m.findtext("k:name", "", space): m.findtext(".//k:coordinates", "", space).split()
        for m in marks
    }
    assert len(texts["gnss"]) == SECONDS * 10
    assert len(texts["estimate"]) == SECONDS
    longitude, latitude, _ = map(float, texts["gnss"][0].split(","))
    assert (latitude, longitude) == pytest.approx(truth()[0], abs=2e-9)


def test_a_log_without_a_place_gives_its_fixes_only(tmp_path: Path) -> None:
    path = bench.write(tmp_path / "run.mcap", bench.drive(1, seconds=2), course="{}")
    done = export(path, "gpx", tmp_path / "run.gpx")
    assert done.counts == {"estimate": 0, "gnss": 20}
    assert "datum" in done.notes[0]
    nothing = bench.write(
        tmp_path / "no.mcap", [e for e in bench.drive(1, seconds=2) if isinstance(e[1], TaskTick)]
    )
    with pytest.raises(LogError, match="no track"):
        export(nothing, "kml", tmp_path / "no.kml")
    assert not (tmp_path / "no.kml").exists()


@pytest.mark.parametrize("topics", [(), ("gnss_fix", "state_estimate")])
def test_a_rosbag2_folder_opens_in_rosbags(
    log: str, tmp_path: Path, topics: tuple[str, ...]
) -> None:
    highlevel = pytest.importorskip("rosbags.highlevel")
    done = export(log, "rosbag2", tmp_path / "bag", topics=topics)
    counts: Counter[str] = Counter()
    fixes = []
    with highlevel.AnyReader([tmp_path / "bag"]) as bag:
        assert {c.topic: c.msgcount for c in bag.connections} == done.counts
        for connection, t_ns, data in bag.messages():
            message = bag.deserialize(data, connection.msgtype)
            counts[connection.topic] += 1
            if connection.topic == "/vehicled/gnss_fix":
                fixes.append((t_ns, message))
        assert bag.start_time == bench.WALL_NS
    assert counts == done.counts
    assert set(counts) >= {"/vehicled/gnss_fix", "/vehicled/state_estimate"}
    assert ("/gnss/fix" in counts) == (not topics)
    with LogReader(log) as reader:
        for (t_ns, found), record in zip(fixes, reader.messages(GnssFix), strict=True):
            assert t_ns == record.t_ns + reader.offset_ns
            assert np.array_equal(
                [found.latitude_rad, found.height_m],
                [record.message.latitude_rad, record.message.height_m],
                True,
            )


def test_data_that_cannot_be_exported_are_reported(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    for arguments, answer in (
        (["--to", "csv", "-o", str(tmp_path / "there")], "not overwritten"),
        (["--to", "gpx", "-o", str(tmp_path / "x"), "--topic", "gnss_fix"], "takes no topics"),
        (
            ["--to", "csv", "-o", str(tmp_path / "x"), "--topic", "gnss_fx"],
            'did you mean "gnss_fix"',
        ),
        (
            ["--to", "csv", "-o", str(tmp_path / "x"), "--topic", "motor_status"],
            "holds no messages motor_status",
        ),
        (["--to", "csv", "-o", str(tmp_path / "no" / "x")], "no such file or folder"),
    ):
        assert cli.main(["log", "export", log, *arguments]) == 2
        assert answer in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    empty = tmp_path / "empty.mcap"
    empty.write_bytes(b"")
    with pytest.raises(LogError, match="empty"):
        export(empty, "csv", tmp_path / "x")


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    peaks = []
    for count in (2_000, 5_000):
        estimates = (
            (t_ns, StateEstimate(t_ns, t_ns, 1.0 / t_ns, 2.0, 0.1, 1.5, 0.19, bench.COVARIANCE))
            for t_ns in range(bench.START_NS, bench.START_NS + count * 10_000_000, 10_000_000)
        )
        path = bench.write(tmp_path / f"{count}.mcap", estimates)
        tracemalloc.start()
        export(path, "csv", tmp_path / f"{count}", topics=["state_estimate"])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # What is held back to be put in order is two seconds, and the reader's chunks.
    assert peaks[1] < 1.3 * peaks[0]
