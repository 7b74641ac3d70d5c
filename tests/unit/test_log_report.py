"""``vehicled log report`` and ``plot``: what the page says is what the log holds; what is not there
is said, never drawn empty."""

import base64
import gzip
import json
import re
import xml.etree.ElementTree as ElementTree
from html import unescape
from html.parser import HTMLParser
from math import hypot, nan, pi, sin
from pathlib import Path as File
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.closed_loop.browser import browser, executable
from vehicled.cli import main
from vehicled.core import messages as m
from vehicled.core.errors import SetupError
from vehicled.log.errors import LogError
from vehicled.log.pipe import WriterProcess
from vehicled.log.reader import LogReader
from vehicled.log.schema import Attachment, RunHeader, TaskRow
from vehicled.offline.analysis.plot import plot
from vehicled.offline.analysis.report.page import render, write_report
from vehicled.offline.analysis.report.samples import KeptSamples
from vehicled.offline.analysis.report.scan import Findings
from vehicled.offline.analysis.report.thin import COLUMNS, States, Thinned, TimeAxis
from vehicled.offline.analysis.report.verdict import stop_story, verdict
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import to_json

pytestmark = pytest.mark.xdist_group("report")  # what the tests look at is made once

START = 7_000_000_000
SECONDS = 40
TICK = 10_000_000
TASKS = [
    TaskRow(name=name, rate_hz=100.0, deadline_ns=5_000_000)
    for name in ("ingestion", "fusion", "control", "actuation")
]
VOID = {"meta", "br", "link", "img", "hr", "input"}
PANELS = {
    "states", "faults", "deadlines", "misses", "ages", "tracking", "heading", "estimation", "speed",
    "steering", "throttle", "gnss", "satellites", "nis", "rejected", "solver", "host",
    "temperature", "motor", "parameter-steering-gain-rad", "way-gnss", "way-imu", "ticks",
    "histogram-0", "histogram-1", "histogram-2", "histogram-3", "map", "speed-map", "collector",
}  # fmt: skip
PROFILE = (
    b"[limits]\nmax_speed_mps = 3.0\ncorridor_m = 2.0\n[vehicle.steering]\nmax_wheel_rad = 0.335\n"
)

ALONG_X = course_from_waypoints("lot17", [float(x) for x in range(50)], [0.0] * 50)


def header(**changes):
    fields: dict[str, Any] = {
        "run_id": "0123456789abcdef", "start_wall_ns": 1_790_000_000_000_000_000,
        "start_monotonic_ns": START, "profile": "art", "course": "lot17", "tasks": TASKS,
        "clock": "wall", "seed": 7, "fingerprint": "feedface", "controller": "mpc",
        "argv": ["vehicled", "sim", "<script>alert(1)</script>"],
    }  # fmt: skip
    return RunHeader(**(fields | changes))


def finish(writer, end=None):
    return File(
        writer.close(
            end if end is not None else {"outcome": "finished", "why": "the course is finished"}, 0
        ).path
    )


def start(folder, **changes):
    files = [
        Attachment("profile.toml", "text/plain", PROFILE),
        Attachment("course.json", "application/json", to_json(ALONG_X)),
    ]
    return WriterProcess.start(
        header(**changes), folder=str(folder), blocking=True, attachments=files
    )


def covariance(position_m2):
    return (position_m2, 0, 0, 0, 0, position_m2, 0, 0, 0, 0, 1e-4, 0, 0, 0, 0, 1e-2)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A drive along x with everything in it: 5 cm beside the truth, a float episode, one stop with
    two causes, misses."""
    writer = start(tmp_path_factory.mktemp("full"))
    record = writer.sink.record
    along = tuple(float(x) for x in range(50))
    record(
        m.Path(START, "lot17", False, along, (0.0,) * 50, (0.0,) * 50, (0.0,) * 50, (1.0,) * 50),
        START,
    )
    record(
        m.ModeChange(
            START,
            m.Mode.STANDBY,
            m.Mode.AUTO,
            m.Reaction.NONE,
            "drives_course",
            "",
            "drives_course",
            "driving the course",
        ),
        START,
    )
    for k in range(SECONDS * 100):
        t = START + k * TICK
        x, late = 0.01 * k, k in (1500, 1501)
        truth = (x, 0.02 * sin(x), 0.02, 1.0, 0.0, 0.05)
        record(m.GroundTruth(t, t, *truth, battery_v=7.6), t)
        estimate = m.StateEstimate(
            t, t - 2_000_000, x, truth[1] + 0.05, 0.02, 1.01, 0.0, covariance(4e-4),
            m.EstimatorStatus.RUNNING, 1.0 + (k // 10) % 7, k // 1000, 0,
        )  # fmt: skip
        record(estimate, t)
        level = m.ControlLevel.SHIFTED_PLAN if 2000 <= k < 2010 else m.ControlLevel.PRIMARY
        reason = m.ControlReason.LATE if level else m.ControlReason.NONE
        command = m.ControlCommand(
            t, t, 0.1 * sin(x), 0.5, 0.0, 1.0, x, truth[1] + 0.05, -0.02, 0.0, level, reason,
            5 + k % 3,
        )  # fmt: skip
        record(command, t)
        mode = m.Mode.AUTO if k < 3900 else m.Mode.STOPPING
        record(
            m.ActuatorCommand(
                t,
                t - 2_000_000,
                0.5,
                0.0,
                0.3,
                0.1,
                mode,
                m.Reaction.NONE,
                0,
                level,
                1_000_000,
                60_000_000,
                2_000_000,
            ),
            t,
        )
        record(m.ImuSample(t, t + 500_000, (0.0, 0.0, 9.8), (0.0, 0.0, 0.0)), t)
        for task in range(4):
            begin = t + 1_000_000 + task * 100_000 + (9_000_000 if late and task == 2 else 0)
            missed = late and task == 2
            cause = m.Cause.GARBAGE_COLLECTION if missed else m.Cause.NONE
            record(
                m.TaskTick(
                    t, begin, begin + 100_000, 90_000, 5_000_000, 0, task, missed, cause, 255
                ),
                t,
            )
        if k % 10 == 0:
            carrier = m.CarrierSolution.FLOAT if 1000 <= k < 2000 else m.CarrierSolution.FIXED
            sigma2 = 0.01 if carrier is m.CarrierSolution.FLOAT else 2e-4
            fix = m.GnssFix(
                t - 60_000_000, t, 0.75, -1.56, 230.0,
                position_covariance_m2=(sigma2, 0, 0, 0, sigma2, 0, 0, 0, sigma2),
                fix_type=m.FixType.FIX_3D, carrier=carrier, satellites=24, hdop=0.7,
                correction_age_s=1.0,
            )  # fmt: skip
            record(fix, t)
            record(m.WireChunk(t, "gnss", m.Direction.RX, bytes(100)), t)
            record(m.WireChunk(t, "drive", m.Direction.TX, bytes(7)), t)
            record(m.MotorStatus(t, t, input_voltage_v=7.5, motor_temperature_k=300.0 + k / 400), t)
            record(m.HostHealth(t, 0.6, 0.4, 0.3, 320.0), t)
            record(
                m.Identification(
                    t,
                    0.3,
                    0.0,
                    0.4,
                    0.0,
                    2.0,
                    0.1,
                    0.2,
                    1.0,
                    0.0,
                    steering_gain_sigma_rad=0.2 / (1 + k),
                ),
                t,
            )
        if k % 500 == 0:
            record(m.GarbageCollection(t, 9_000_000 if k == 1500 else 200_000, 2, 10), t)
        if k == 1000:
            record(
                m.Fault(
                    t, "rtk_lost", "", m.Reaction.CAP_SPEED, True, "RTK is float, it was fixed"
                ),
                t,
            )
            record(m.Event(t, "warning", "loop_blocked", json.dumps({"where": "a<b.py:7"})), t)
            record(
                m.Event(
                    t,
                    "info",
                    "substitutes",
                    json.dumps({"stands_in": ["row 1, no brake: it coasts"] * 8}),
                ),
                t,
            )
        if k == 3900:
            record(
                m.Fault(
                    t,
                    "imu_silent",
                    "",
                    m.Reaction.CONTROLLED_STOP,
                    True,
                    "no IMU sample for 50 ms",
                    0.06,
                    0.05,
                    "s",
                ),
                t,
            )
            record(
                m.ModeChange(
                    t,
                    m.Mode.AUTO,
                    m.Mode.STOPPING,
                    m.Reaction.CONTROLLED_STOP,
                    "imu_silent",
                    "",
                    "imu_silent",
                    "no IMU sample for 50 ms",
                ),
                t,
            )
        writer.pump(t)
    return finish(writer, {"outcome": "not_finished", "why": "no IMU sample for 50 ms"})


@pytest.fixture(scope="module")
def found(full):
    return Findings(full)


@pytest.fixture(scope="module")
def page(found):
    return render(found)


class Checker(HTMLParser):
    """Every tag is closed, in order; keeps the figures, the text, and where anything points to."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.figures: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "figure":
            self.figures.append(values["id"].removeprefix("panel-"))
        self.links += [
            values[name] for name in ("src", "href", "action", "xlink:href") if name in values
        ]

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def text_of(page):
    return " ".join(Checker(page).text)


def test_every_panel_is_there_for_a_log_that_has_everything(page):
    checked = Checker(page)
    assert PANELS - set(checked.figures) == set()
    assert len(checked.figures) == len(set(checked.figures))
    assert "Not shown, and why" not in page


def test_the_page_is_whole_and_fetches_nothing(page):
    checked = Checker(page)
    assert checked.links == []
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert not re.search(r"\bnan\b|\binf\b|None", " ".join(checked.text))
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert not re.search(r"nan|inf", " ".join(node.get("d", "") for node in root.iter("path")))
        assert len(root), "an empty plot"
    assert 50_000 < len(page) < 600_000


def test_texts_of_the_log_are_no_markup(page):
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "a&lt;b.py:7" in page


def test_the_verdict_comes_first_with_the_chain_of_causes(page, found):
    judged = verdict(found)
    assert judged.good is False
    assert judged.headline == "Not finished: no IMU sample for 50 ms"
    (stop,) = judged.stops
    assert [fault.code for fault in stop.chain] == ["rtk_lost", "imu_silent"]
    text = text_of(page)
    order = [
        text.index(part)
        for part in ("Not finished", "RTK is float", "AUTO -> STOPPING", "Along the drive")
    ]
    assert order == sorted(order)
    assert "Budgets kept: 2 missed and 0 skipped of 16000 releases (garbage collection 2)." in text


def test_long_events_are_cut_behind_a_word(page):
    (words,) = re.findall(r'event substitutes</b> <span class="said">1 × ([^<]*)</span>', page)
    assert re.fullmatch(r"stands in (row 1, no brake: it coasts, )+row 1, no …", words)
    assert len(words) <= 140


def test_values_in_the_page_are_those_of_the_log(full, found, page):
    with LogReader(full) as log:
        commands = np.concatenate([rows for _, rows in log.arrays(m.ControlCommand)])
    series = found.series["control_command.cross_track_m"]
    assert series.n == len(commands) == SECONDS * 100
    assert series.max == commands["cross_track_m"].max()
    assert series.mean_magnitude == pytest.approx(np.abs(commands["cross_track_m"]).mean())
    # The curve in the page, read back by the numbers of its axis.
    (svg,) = re.findall(r'id="panel-tracking".*?(<svg class="plot".*?</svg>)', page, re.DOTALL)
    root = ElementTree.fromstring(svg)
    low, high = float(root.attrib["data-low"]), float(root.attrib["data-high"])
    curve = next(node for node in root.iter("path") if node.get("data-name") == "believed")
    drawn = [low + (1 - y / 1000) * (high - low) for y in heights(curve.attrib["d"])]
    assert max(drawn) == pytest.approx(commands["cross_track_m"].max(), abs=(high - low) / 1000)
    assert min(drawn) == pytest.approx(commands["cross_track_m"].min(), abs=(high - low) / 1000)


def block_of(page):
    """Return the single samples of a page: seconds and values by series, and the spans that they
    cover, in columns."""
    ((head, data),) = re.findall(r'id="samples" data-head="([^"]*)">([^<]*)<', page)
    head, raw = json.loads(unescape(head)), gzip.decompress(base64.b64decode(data))

    def numbers(count, kind):
        nonlocal raw
        block, raw = np.frombuffer(raw[: 4 * count], np.uint8), raw[4 * count :]
        return np.ascontiguousarray(block.reshape(4, count).T).view(kind).reshape(-1)

    times = [
        np.cumsum(numbers(count, "<i4").astype(np.int64)) * head["unit_us"] * 1e-6
        for count in head["counts"]
    ]
    found = {name: (times[k], numbers(len(times[k]), "<f4")) for name, k in head["series"].items()}
    assert raw == b""
    return found, head["spans"]


def test_single_samples_in_the_page_are_those_of_the_log(full, page):
    found, spans = block_of(page)
    with LogReader(full) as log:
        commands = np.concatenate([rows for _, rows in log.arrays(m.ControlCommand)])
        ticks = np.concatenate([rows for _, rows in log.arrays(m.TaskTick)])
    assert spans == [0, COLUMNS]
    seconds, values = found["control_command.cross_track_m"]
    assert seconds == pytest.approx((commands["t_ns"].astype(np.int64) - START) * 1e-9, abs=2e-6)
    assert values == pytest.approx(commands["cross_track_m"], rel=2**-12)
    mine = ticks[ticks["task"] == 2]
    for name, wanted in (
        ("start_us", (mine["start_ns"] - mine["release_ns"]) * 1e-3),
        ("end_us", (mine["end_ns"] - mine["release_ns"]) * 1e-3),
        ("cause", np.where(mine["missed"] != 0, m.Cause.GARBAGE_COLLECTION, -1)),
    ):
        assert found[f"task_tick.2.{name}"][1] == pytest.approx(wanted, rel=2**-12)


@given(instants=st.lists(st.integers(-5_000, 700_000), max_size=200), seconds=st.integers(301, 600))
def test_a_long_run_keeps_samples_at_its_ends_and_around_what_happened(instants, seconds):
    axis = TimeAxis(START, START + seconds * 10**9)
    samples = KeptSamples(axis)
    t_ns = START + np.arange(0, seconds * 1_000, 250, dtype=np.uint64) * 1_000_000
    looked = [START + t * 1_000_000 for t in instants]
    samples.look_at(np.array(looked, np.int64))
    samples.add("count", t_ns, np.arange(len(t_ns)))
    found, spans = block_of(samples.html())
    kept = set(np.rint(found["count"][0] * 1e3).astype(int).tolist())
    ends = [
        t for t in range(0, seconds * 1_000, 250) if t < 10_000 or t >= seconds * 1_000 - 10_000
    ]
    assert kept.issuperset(ends)
    inside = [t for t in instants if 0 <= t <= seconds * 1_000]
    for t in inside[:60]:
        assert kept.issuperset(
            k for k in range(0, seconds * 1_000, 250) if t - 2_000 <= k < t + 1_000
        )
    assert spans == sorted(spans)
    assert len(kept) <= 80 + 60 * 13
    around = [*inside, *ends]
    assert all(any(t - 2_000 <= k <= t + 1_000 for t in around) for k in kept)


def test_samples_of_days_keep_their_times(tmp_path):
    axis = TimeAxis(START, START + 5 * 86_400 * 10**9)
    samples = KeptSamples(axis)
    t_ns = np.array([START, START + 86_400 * 10**9, axis.stop_ns - 10**9, axis.stop_ns])
    samples.look_at(t_ns[1:2])
    samples.add("count", t_ns, np.arange(4))
    found, _ = block_of(samples.html())
    assert found["count"][0] == pytest.approx((t_ns - START) * 1e-9, abs=3e-4)


@pytest.mark.skipif(executable() is None, reason="no Chromium is installed")
def test_a_reader_zooms_to_the_tick_that_missed(full, page, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(page)
    with browser(tmp_path / "profile") as tab:
        tab.size(1000, 4000, dark=False, mobile=False)
        tab.open(file.as_uri())
        tab.until(
            "[...document.querySelectorAll('.bar button')].some(b => "
            "b.textContent.startsWith('miss'))"
        )
        rests = tab.value("document.querySelectorAll('svg.ticks rect').length")
        tab.value(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'n', bubbles: true}))"
        )
        assert rests == 0
        assert tab.value("document.body.classList.contains('close')")
        assert (
            "control: starts after 10.2 ms, ends after 10.3 ms of 5 ms, missed (garbage collection)"
        ) in tab.value("document.querySelector('#panel-ticks .readout').textContent")
        red = "document.querySelectorAll('svg.ticks[data-task=\"2\"] rect.c6').length"
        assert tab.value(red) == 2
        # A look at a millisecond, and back to the whole run.
        for _ in range(7):
            tab.value(
                "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: "
                "true}))"
            )
        width = float(
            tab.value("document.querySelector('#time svg.plot').getAttribute('viewBox')").split()[2]
        )
        assert width / COLUMNS * SECONDS < 1e-3
        tab.value(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: "
            "true}))"
        )
        assert not tab.value("document.body.classList.contains('close')")
        assert tab.value("document.querySelectorAll('svg.ticks rect').length") == 0
        assert tab.complaints == []


def heights(path):
    y, found = 0, []
    for kind, a, b in re.findall(r"([Mlvh])(-?\d+)(?: (-?\d+))?", path):
        y = (
            int(b)
            if kind == "M"
            else y + int(b)
            if kind == "l"
            else y + int(a)
            if kind == "v"
            else y
        )
        found.append(y)
    return found


def test_the_story_of_a_stop_begins_with_its_cause(found, page):
    (stop,) = verdict(found).stops
    story = stop_story(found, stop)
    assert "no IMU sample for 50 ms (imu_silent: 0.06, limit 0.05 s)" in story.cause
    assert len(story.chain) == 1
    assert "RTK is float" in story.chain[0]
    assert story.consequences[-1].endswith("AUTO -> STOPPING: no IMU sample for 50 ms")
    assert (
        page.index("(imu_silent: ")
        < page.index("RTK is float, it was fixed (rtk_lost)")
        < page.index("What followed")
    )


def test_errors_against_the_truth(found):
    assert found.series["error.position_m"].max == pytest.approx(0.05, abs=1e-6)
    # The estimate lies 5 cm left of the truth and the truth goes along the course: the true error
    # is the truth's own.
    assert found.series["error.cross_track_m"].largest_magnitude == pytest.approx(0.02, abs=1e-5)
    assert found.series["error.heading_rad"].mean == pytest.approx(-0.02, abs=1e-6)
    assert found.series["error.position_m"].n < SECONDS * 100  # not while stopping


@pytest.mark.parametrize(("sigma_m", "coarse"), [(0.0, False), (0.005, False), (0.02, True)])
def test_a_truth_by_a_reference_says_how_good_it_is(tmp_path, sigma_m, coarse):
    writer = start(tmp_path)
    for k in range(300):
        t = START + k * TICK
        writer.sink.record(m.ActuatorCommand(t, t, 0.5, 0.0, 0.3, 0.1, m.Mode.AUTO), t)
        writer.sink.record(
            m.GroundTruth(
                t, t, 0.01 * k, 0.0, 0.0, 1.0, 0.0, nan, nan, sigma_m, 0.1 * sigma_m, sigma_m
            ),
            t,
        )
        estimate = m.StateEstimate(
            t, t, 0.01 * k, 0.05, 0.02, 1.1, 0.0, covariance(4e-4), m.EstimatorStatus.RUNNING
        )
        writer.sink.record(estimate, t)
    sentences = [text for _, text in verdict(Findings(finish(writer))).sentences]
    stated = [text for text in sentences if text.startswith("Truth by a reference system")]
    sizes = f"{sigma_m:.3f} m, {5.7296 * sigma_m:.2f} degrees, {sigma_m:.3f} m/s"
    assert stated == ([f"Truth by a reference system, one sigma: {sizes}."] if sigma_m else [])
    judgement = (
        "too coarse to judge the estimated position: 0.0283 m against a mean error of 0.05 m"
    )
    assert any(judgement in text for text in sentences) == coarse
    assert not any("estimated heading" in text or "estimated speed" in text for text in sentences)


def test_the_way_of_a_measurement(found):
    for name, latency_ms in (("GNSS epoch", 60.0), ("IMU sample", 0.5)):
        assert found.journey.stages[name]["arrival"].quantile_ns(0.5) / 1e6 == pytest.approx(
            latency_ms, rel=0.03
        )
    # The four tasks follow each other at 1.0, 1.1, 1.2, 1.3 ms behind the release; the IMU's sample
    # is there at 0.5 ms.
    total = found.journey.totals["IMU sample"]
    assert total["ingestion"].quantile_ns(0.5) / 1e6 == pytest.approx(1.1, rel=0.03)
    assert total["actuation"].quantile_ns(0.5) / 1e6 == pytest.approx(1.4, rel=0.03)
    assert total["actuation"].n >= SECONDS * 100 - 2


def test_states_misses_and_ports(found, page):
    assert [state for _, _, state in found.states["carrier"].bands()] == [2, 1, 2]
    begin, end, _ = found.states["carrier"].bands()[1]
    assert (end - begin) * found.axis.column_s == pytest.approx(10.0, abs=0.3)
    assert int(found.misses[m.Cause.GARBAGE_COLLECTION].sum()) == 2
    received = found.ports["gnss", m.Direction.RX]
    assert (received.chunks, received.bytes, received.longest_silence_ns) == (
        SECONDS * 10,
        SECONDS * 1000,
        100_000_000,
    )
    assert found.ports["drive", m.Direction.TX].bytes == SECONDS * 70
    assert f"<td>{SECONDS * 10}</td><td>{SECONDS * 1000}</td>" in page
    assert "Commands from lower levels: 10 shifted plan." in page
    with LogReader(found.path) as log:
        assert log.layout.statistics is not None
        stated = {
            log.layout.channels[c].topic: n
            for c, n in log.layout.statistics.channel_message_counts.items()
        }
    assert found.counts == stated


def test_missing_data_are_reported_and_not_drawn(tmp_path):
    writer = start(tmp_path, clock="lockstep")
    for k in range(50):
        t = START + k * TICK
        writer.sink.record(
            m.StateEstimate(
                t, t, 0.1 * k, nan, 0.0, 1.0, 0.0, (nan,) * 16, m.EstimatorStatus.RUNNING
            ),
            t,
        )
        writer.pump(t)
    found = Findings(finish(writer))
    page = render(found)
    checked = Checker(page)
    assert {"states", "speed"} <= set(checked.figures)
    assert not set(checked.figures) & {
        "gnss",
        "host",
        "misses",
        "nis",
        "solver",
        "way-gnss",
        "histogram-0",
        "map",
    }
    text = " ".join(checked.text)
    for sentence in (
        "Not shown, and why",
        "not in lockstep",
        "The log has no GNSS fixes",
        "The log has no task ticks",
    ):
        assert sentence in text
    assert not re.search(r"\bnan\b", text)


def test_a_log_that_ends_before_its_first_message(tmp_path):
    path = finish(start(tmp_path))
    text = text_of(render(Findings(path)))
    assert "The log has no messages" in text
    assert "No fault" not in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_cut_log_gives_what_is_whole(full, tmp_path, share):
    data = full.read_bytes()
    path = tmp_path / "cut.mcap"
    path.write_bytes(data[: int(len(data) * share)])
    output = tmp_path / "cut.html"
    judged = write_report(path, output)
    assert judged.good is None
    text = text_of(output.read_text())
    assert "cut.mcap is incomplete" in text
    assert "does not say how the run ended" in text or "no messages" in text


def test_a_damaged_chunk_is_reported(full, tmp_path):
    data = bytearray(full.read_bytes())
    with LogReader(full) as log:
        row = log.layout.chunks[len(log.layout.chunks) // 2]
    data[int(row["offset"]) + 80] ^= 0x55
    path = tmp_path / "bad.mcap"
    path.write_bytes(data)
    assert "chunks of bad.mcap are damaged and left out" in text_of(render(Findings(path)))


def test_files_that_are_no_log(tmp_path, capsys):
    for name, content, said in (
        ("zero", b"", "empty"),
        ("png", b"\x89PNG\r\n\x1a\n" + bytes(90), "a PNG image"),
    ):
        path = tmp_path / f"{name}.mcap"
        path.write_bytes(content)
        assert main(["log", "report", str(path)]) == 2
        assert said in capsys.readouterr().err
        assert not path.with_suffix(".html").exists()


def test_the_command_writes_beside_the_log_or_to_the_given_file(full, tmp_path, capsys):
    assert main(["log", "report", str(full), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert "Not finished" in capsys.readouterr().out
    assert main(["log", "report", str(full), "-o", str(tmp_path / "no" / "r.html")]) == 2


def test_thinning_keeps_every_spike_and_its_place():
    axis = TimeAxis(0, 1_000_000 * 1_000)
    t_ns = np.arange(1_000_000) * 1_000
    values = np.zeros(1_000_000)
    values[123_456] = 9.0
    one, several = Thinned(), Thinned()
    one.add(axis.columns(t_ns), values)
    for part in np.split(np.arange(1_000_000), 10):
        several.add(axis.columns(t_ns[part]), values[part])
    assert np.array_equal(one.high, several.high, equal_nan=True)
    (column,) = np.flatnonzero(one.high == 9.0)
    assert column == 123_456 * COLUMNS // 1_000_000
    assert one.n == several.n == 1_000_000


def test_times_outside_of_the_run_are_not_drawn():
    axis = TimeAxis(1_000_000, 2_000_000)
    assert axis.columns(np.array([0, 1_000_000, 2_000_000, 3_000_000, -(2**62)])).tolist() == [
        -1,
        0,
        COLUMNS - 1,
        -1,
        -1,
    ]


def test_a_short_bad_state_is_not_lost_among_good_ones():
    states = States((2, 1, 0))
    states.add(
        np.repeat(np.arange(10), 100), np.where(np.arange(1000) == 555, 0, 2).astype(np.uint8)
    )
    assert states.bands() == [(0, 5, 2), (5, 6, 0), (6, 10, 2)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (["state_estimate"], "names no field"),
        (["state_estimte.speed_mps"], 'did you mean "state_estimate"'),
        (["state_estimate.speed"], 'did you mean "speed_mps"'),
        (["fault.reason"], "no numeric field"),
        (["imu_sample.angular_rate_radps"], "has 3 numbers"),
        (["imu_sample.angular_rate_radps[3]"], "has 3 numbers"),
        (["state_estimate.speed_mps[0]"], "is one number"),
        (["heading.yaw_rad"], "no finite value"),
        ([], "nothing to draw"),
    ],
)
def test_plot_names_what_is_wrong(full, tmp_path, fields, said):
    with pytest.raises(LogError, match=re.escape(said)):
        plot(full, fields, tmp_path / "p.png")


DRAWN = [
    "state_estimate.speed_mps",
    "imu_sample.specific_force_mps2[2]",
    "host_health.cpu_busy_share",
]


@pytest.fixture(scope="module")
def picture(full, tmp_path_factory):
    """Drawn here, because matplotlib keeps the files of its fonts open."""
    pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("plot") / "p.png"
    plot(full, DRAWN, path)
    return path


def test_plot_draws_into_a_picture(full, picture, tmp_path):
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SetupError, match="cannot write the plot"):
        plot(full, DRAWN, tmp_path / "p.docx")


def test_collections_are_drawn_where_they_were(found, page):
    drawn = found.series["collector.ms"]
    assert (drawn.n, drawn.max) == (SECONDS // 5, 9.0)
    at = int(found.axis.columns(np.array([START + 1500 * TICK]))[0])
    assert drawn.high[at] == 9.0
    assert "the longest 9.0 ms" in text_of(page)


def test_ellipses_and_places_are_those_of_the_estimate(found):
    assert len(found.ellipses) > 30
    assert all(
        hypot(y, 0) < 0.08 and xx == pytest.approx(4e-4)
        for _, y, xx, _, _ in found.ellipses.values()
    )
    assert found.series["sigma.yaw_rad"].max < pi


def test_the_cause_of_the_last_stop_comes_before_older_stops_and_names_what_was_injected(tmp_path):
    writer = start(tmp_path)
    record = writer.sink.record

    def change(t_s, before, after, reaction, code, text, first=""):
        t = START + round(t_s * 1e9)
        record(m.ModeChange(t, before, after, reaction, code, "", first or code, text), t)

    def event(t_s, name, failure):
        t = START + round(t_s * 1e9)
        record(m.Event(t, "info", name, json.dumps({"failure": failure, "at_s": t_s})), t)

    mode, stop = m.Mode, m.Reaction.CONTROLLED_STOP
    change(1, mode.STANDBY, mode.ALIGN, m.Reaction.NONE, "aligns", "driving straight ahead")
    change(
        3, mode.ALIGN, mode.STOPPING, stop, "heading_known", "the heading is known to 0.7 degrees"
    )
    event(4, "failure_injected", "gnss:off@4+1")
    event(5, "failure_over", "gnss:off@4+1")
    change(6, mode.ARMED, mode.AUTO, m.Reaction.NONE, "drives_course", "driving the course")
    event(20, "failure_injected", "imu:off@20")
    t = START + 20_050_000_000
    record(m.Fault(t, "imu_silent", "", stop, True, "no IMU sample for 50 ms", 0.06, 0.05, "s"), t)
    change(20.05, mode.AUTO, mode.STOPPING, stop, "imu_silent", "no IMU sample for 50 ms")
    t = START + 21_000_000_000
    record(m.Fault(t, "stalled", "", m.Reaction.DISABLE, True, "it does not move"), t)
    change(
        21,
        mode.STOPPING,
        mode.FAULT,
        m.Reaction.DISABLE,
        "stalled",
        "then it does not move",
        "imu_silent",
    )
    event(25, "failure_injected", "drive:off@25")
    path = finish(writer, {"outcome": "not_finished", "why": "no IMU sample for 50 ms"})
    found = Findings(path)
    story = stop_story(found, verdict(found).stops[-1])
    assert "imu_silent" in story.cause
    assert story.injected == ["20.00 s: imu:off@20 (--fail)"]
    assert [line.partition(": ")[2] for line in story.consequences] == [
        "it does not move (stalled)", "AUTO -> STOPPING: no IMU sample for 50 ms",
        "STOPPING -> FAULT: then it does not move",
    ]  # fmt: skip
    text = text_of(render(found))
    stated = text[text.index("Why it stopped") :]
    order = [
        stated.index(part)
        for part in (
            "(imu_silent: ",
            "Injected",
            "What followed",
            "Stops before",
            "the heading is known",
        )
    ]
    assert order == sorted(order)
    assert "Injected with --fail: gnss:off@4+1, imu:off@20, drive:off@25." in text
