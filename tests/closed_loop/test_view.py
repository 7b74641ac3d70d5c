"""The live view of a daemon that drives: by a scripted driver on its socket, and by a browser that
is looked at.

One simulation on the wall clock for all of it. What is judged is what the page showed and what the
log holds.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from websockets.sync.client import ClientConnection, connect

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS
from tests.closed_loop.browser import Tab, browser, executable
from tests.closed_loop.conftest import ROOT
from tests.closed_loop.view_panels import MOOD, SPEEDS, STAND_INS
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Message,
    Mode,
    OperatorCommand,
    TeleopCommand,
)
from vehicled.log.reader import LogReader

VEHICLED = [sys.executable, "-m", "vehicled"]
SILENCE_S = 2.0
"""Limit of the daemon. It is that long because a busy computer may keep a page waiting for longer
than 0.2 s."""
FAST_MPS = 0.4
MOST_THROTTLE = 0.6
SIZES = {
    "phone": (390, 844, True),
    "small phone": (320, 568, True),
    "phone on its side": (667, 375, True),
    "desktop": (1440, 900, False),
}


class Page:
    """A page without a browser: it answers beats with readings."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.n = 0
        self.beat = 0
        self.frozen = False
        """Beats that arrive are not read: what it sends grows old."""
        self.mode = self.why = ""
        self.speed_mps = 0.0
        self.notes: list[str] = []
        self.sent = 0

    def listen(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while True:
            # All that has arrived is read, as in a browser: otherwise readings would get older with
            # each turn on a busy computer.
            try:
                message = json.loads(self.socket.recv(timeout=max(end_s - time.monotonic(), 0.0)))
            except TimeoutError:
                return
            if message["k"] == "beat" and not self.frozen:
                self.beat = message["b"]
            elif message["k"] == "note":
                self.notes.append(message["text"])
            if (state := message.get("state")) is not None:
                self.mode, self.why = state["status"]["mode"], state["status"]["why"]
                self.speed_mps = (state["status"]["estimate"] or {}).get("speed_mps") or 0.0

    def request(self, what: str) -> None:
        self.socket.send(json.dumps({"do": "request", "action": what}))

    def read(self, throttle: float = 0.0, *, deadman: bool = True) -> None:
        self.n += 1
        reading = {
            "steering": 0.4 if throttle else 0.0,
            "throttle": throttle,
            "brake": 0.0,
            "deadman": deadman,
        }
        self.socket.send(json.dumps({"do": "teleop", **reading, "n": self.n, "beat": self.beat}))

    def until(self, holds: Callable[[], bool], throttle: float | None = 0.0) -> None:
        """Read on until a condition holds; None of a throttle only listens."""
        end_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end_s, (self.mode, self.why, self.notes)
            if throttle is not None:
                self.read(throttle)
            self.listen(0.03)

    def until_standby(self) -> None:
        self.until(lambda: self.mode == "STANDBY", None)

    def drive(self) -> None:
        self.until_standby()
        self.request("teleop")
        self.until(lambda: self.mode == "TELEOP")
        self.until(lambda: self.speed_mps > FAST_MPS, 1.0)


def _released(page: Page) -> None:
    page.drive()
    page.read(deadman=False)


def _silent(page: Page) -> None:
    page.drive()


def _stale(page: Page) -> None:
    """The driver goes on pushing, but the readings hang in a network that answers no more."""
    page.drive()
    page.frozen = True
    page.until(lambda: page.mode != "TELEOP", 1.0)


def _closed(page: Page) -> None:
    page.drive()
    page.socket.close()


SCRIPTS: dict[str, Callable[[Page], None]] = {
    "released": _released,
    "silent": _silent,
    "stale": _stale,
    "closed": _closed,
}


class PageState(Struct):
    """State of the browser's page."""

    complaints: list[str]
    sizes: dict[str, dict[str, Any]]
    texts: dict[str, Any]


class Drives(Struct, frozen=True):
    """Results of the drive."""

    drives: dict[str, tuple[int, int]]
    messages: list[tuple[int, Message]]
    printed: str
    seen: PageState | None

    def of(self, name: str, *kinds: type[Message]) -> list[tuple[int, Any]]:
        """Messages of one drive, by log time."""
        start_ns, end_ns = self.drives[name]
        return [
            (t, m) for t, m in self.messages if start_ns <= t <= end_ns and isinstance(m, kinds)
        ]


@contextmanager
def _daemon(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A simulation by hand with a view; its address, and what it printed."""
    overrides = [
        "view.teleop=true",
        f"view.most_throttle={MOST_THROTTLE}",
        "limits.corridor_m=50",
        f"limits.teleop_silence_s={SILENCE_S}",
    ]
    options = [*WIDE_LIMITS, *(word for override in overrides for word in ("--set", override))]
    options += ["--link-timeout", "60", "--quiet", "--json"]
    place = [
        "--profile",
        "art_vesc",
        "--course",
        "sine",
        "--view",
        "127.0.0.1:0",
        "--log",
        str(folder),
    ]
    process = subprocess.Popen(
        [*VEHICLED, "sim", "--clock", "wall", "--strict-clock", "--by-hand", *place, *options],
        cwd=ROOT,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        printed = [next(line for line in process.stderr if "http" in line)]
        yield printed[0].partition(": ")[2].strip(), printed
        process.send_signal(2)
        process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Drives:
    """The whole script, once."""
    folder = tmp_path_factory.mktemp("view")
    drives, seen = {}, None
    with _daemon(folder) as (url, printed):
        address, _, token = url.partition("#")
        socket_url = f"{address.replace('http', 'ws')}socket?token={token}"
        # One that never reads stays there all the time.
        with connect(socket_url, compression=None, max_queue=1, close_timeout=0.05):
            for name, script in SCRIPTS.items():
                start_ns = time.monotonic_ns()
                with connect(socket_url, compression=None, close_timeout=0.05) as socket:
                    script(Page(socket))
                    with connect(socket_url, compression=None, close_timeout=0.05) as onlooker:
                        Page(onlooker).until_standby()
                drives[name] = start_ns, time.monotonic_ns()
            if executable() is not None:
                start_ns = time.monotonic_ns()
                with browser(folder / "browser") as tab:
                    seen = _inspect(tab, url)
                drives["browser"] = start_ns, time.monotonic_ns()
    with LogReader(max(folder.glob("*.mcap"), key=lambda file: file.stat().st_mtime_ns)) as log:
        kinds = (ActuatorCommand, Event, Fault, OperatorCommand, TeleopCommand)
        messages = [(record.t_ns, record.message) for record in log.messages(*kinds)]
    return Drives(drives, messages, "".join(printed), seen)


_OVERFLOW = """[...document.querySelectorAll("body *")].filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width && !e.closest(".scroll") && (r.right > innerWidth + 1 || r.left < -1);
  }).map((e) => `${e.tagName} ${e.id} ${e.className}`)"""
_EMPTY = """[...document.querySelectorAll(".panel")]
  .filter((p) => !p.hidden && p.innerText.trim().length < 12).map((p) => p.id)"""
_BLANK = """[...document.querySelectorAll("canvas")].filter((c) => {
    const settings = { willReadFrequently: true };
    const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", settings);
    copy.drawImage(c, 0, 0);
    const pixels = copy.getImageData(0, 0, c.width, c.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size < 4;
  }).length"""
_SPEED = (
    "parseFloat(document.querySelector('.gauge.wide').innerText.match(/(\\d+\\.\\d+) m\\/s/)[1])"
)
_PAD = (
    "(({ x, y, width, height }) => [x, y, width, "
    "height])(document.getElementById('pad').getBoundingClientRect())"
)
_SMALL = """[...document.querySelectorAll("button")]
  .filter((b) => b.offsetParent && b.offsetHeight < 36).map((b) => b.id)"""


def _hold(
    tab: Tab,
    press: Callable[[], None],
    let_go: Callable[[], None],
    push: Callable[[], None],
    shown: str,
) -> None:
    """Hold the deadman, push once the daemon lets drive, and go on until the page shows something.
    A page that a busy machine held up has let go, and must be pressed anew."""
    for _ in range(20):
        press()
        tab.listen(0.2)
        while tab.value("document.getElementById('pad').classList.contains('held')"):
            if tab.value("document.getElementById('mode').textContent") == "TELEOP":
                push()
                if tab.value(shown):
                    return
            tab.listen(0.1)
        let_go()
        tab.until(
            "document.getElementById('mode').textContent === 'ARMED' || "
            "!document.getElementById('teleop-take').disabled"
        )
        if tab.value("!document.getElementById('teleop-take').disabled"):
            tab.value("document.getElementById('teleop-take').click()")
    raise AssertionError(tab.value("document.getElementById('why').textContent"))


_IN_SIGHT = """(() => {
  const view = visualViewport;
  const box = document.getElementById("teleop-emergency").getBoundingClientRect();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  return box.left >= view.offsetLeft - 1 && box.right <= view.offsetLeft + view.width + 1
    && box.top >= view.offsetTop && box.bottom <= view.offsetTop + view.height + 1
    && document.elementFromPoint(x, y).id === "teleop-emergency";
})()"""
"""True if the whole button can be seen and nothing lies on it."""


def _stops_in_sight(tab: Tab, *, mobile: bool) -> Iterator[bool]:
    """Scroll through the page, and zoom into it as with two fingers."""
    for place in ("0", "document.body.scrollHeight / 2", "document.body.scrollHeight"):
        tab.value(f"scrollTo(0, {place})")
        for zoom in (1.0, 2.5) if mobile else (1.0,):
            tab.do("Emulation.setPageScaleFactor", pageScaleFactor=zoom)
            tab.listen(0.3)
            yield tab.value(_IN_SIGHT)
    tab.do("Emulation.setPageScaleFactor", pageScaleFactor=1.0)
    tab.value("scrollTo(0, 0)")


def _inspect(tab: Tab, url: str) -> PageState:
    """Take the wheel with a finger, drive, look away; the same with the keys; then look at the page
    in every size."""
    width, height, mobile = SIZES["phone"]
    tab.size(width, height, dark=False, mobile=mobile)
    tab.open(url)
    tab.until(
        "document.getElementById('mode').textContent === 'STANDBY' && "
        "!document.body.classList.contains('stale')"
    )
    texts = {"address": tab.value("location.href")}
    tab.value("document.getElementById('teleop-take').click()")
    tab.until("document.getElementById('mode').textContent === 'ARMED'")
    left, top, width, height = tab.value(_PAD)
    x, y = left + width / 2, top + height / 2
    _hold(
        tab,
        lambda: tab.mouse("mousePressed", x, y),
        lambda: tab.mouse("mouseReleased", x, y),
        lambda: tab.mouse("mouseMoved", x - 30, y - 70),
        f"{_SPEED} > 0.1",
    )
    texts["driving"] = tab.value("document.querySelector('.gauge.wide').innerText")
    # Whoever turns to another window lets go.
    tab.value("window.dispatchEvent(new Event('blur'))")
    tab.until("document.getElementById('mode').textContent === 'STANDBY'")
    tab.mouse("mouseReleased", x, y)
    texts["why"] = tab.value("document.getElementById('why').textContent")
    texts["stop"] = tab.value("document.getElementById('p-stop').innerText")
    texts["log"] = tab.value("document.getElementById('log').innerText")
    texts["deadlines"] = tab.value("document.getElementById('deadlines').innerText")
    texts["parts"] = tab.value("document.getElementById('p-parts').innerText")
    # By keys, as on a desk.
    tab.value("document.getElementById('teleop-take').click()")
    tab.until("document.getElementById('mode').textContent === 'ARMED'")
    tab.value("document.activeElement.blur()")
    _hold(
        tab,
        lambda: tab.key("keyDown", "Space", " "),
        lambda: tab.key("keyUp", "Space", " "),
        lambda: None,
        "true",
    )
    tab.key("keyUp", "Space", " ")
    tab.until("document.getElementById('mode').textContent === 'STANDBY'")
    sizes = {}
    for name, (width, height, mobile) in SIZES.items():
        for dark in (False, True):
            tab.size(width, height, dark=dark, mobile=mobile)
            tab.listen(0.3)
            found = {
                key: tab.value(script)
                for key, script in (
                    ("overflow", _OVERFLOW),
                    ("empty", _EMPTY),
                    ("blank", _BLANK),
                    ("small", _SMALL),
                )
            }
            found["stops"] = dark or all(_stops_in_sight(tab, mobile=mobile))
            found["wider"] = tab.value("document.documentElement.scrollWidth > innerWidth")
            found["ground"] = tab.value("getComputedStyle(document.body).backgroundColor")
            sizes[f"{name} {'dark' if dark else 'light'}"] = found
    for reaction, v, cap in SPEEDS:
        texts[f"{reaction} {v} {cap}"] = tab.value(MOOD.format(reaction=reaction, v=v, cap=cap))
    texts["stand-ins"] = tab.value(STAND_INS)
    return PageState(tab.complaints, sizes, texts)


def test_the_address_is_printed_with_its_token(sitting: Drives) -> None:
    assert re.match(
        r"live view and teleoperation: http://127\.0\.0\.1:\d+/#[\w-]{20,}\n$", sitting.printed
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_drives_within_its_limits(sitting: Drives, name: str) -> None:
    driven = [m for _, m in sitting.of(name, ActuatorCommand) if m.mode is Mode.TELEOP]
    assert 0.3 < max(m.throttle for m in driven) <= MOST_THROTTLE + 1e-6
    assert max(m.steering for m in driven) > 0.0


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("released", "deadman_released"),
        ("silent", "teleop_lost"),
        ("stale", "teleop_lost"),
        ("closed", "teleop_unplugged"),
    ],
)
def test_it_brakes_for_the_right_reason(sitting: Drives, name: str, code: str) -> None:
    trips = [
        m.code
        for _, m in sitting.of(name, Fault)
        if m.active and m.code.startswith(("teleop", "deadman"))
    ]
    assert trips[0] == code
    stopped = [m for _, m in sitting.of(name, ActuatorCommand) if m.mode is Mode.STOPPING]
    assert stopped
    assert all(m.throttle == 0.0 and m.brake == 1.0 for m in stopped)


@pytest.mark.parametrize("name", ["silent", "stale"])
def test_no_command_rests_on_a_reading_older_than_it_may_be(sitting: Drives, name: str) -> None:
    readings = [t for t, m in sitting.of(name, TeleopCommand) if not m.unplugged]
    for t, command in sitting.of(name, ActuatorCommand):
        if command.mode is Mode.TELEOP and command.throttle > 0.0:
            assert t - max(r for r in readings if r <= t) <= SILENCE_S * 1e9


def test_no_reading_is_passed_on_twice(sitting: Drives) -> None:
    for name in sitting.drives:
        numbers = [
            (m.origin, m.sequence) for _, m in sitting.of(name, TeleopCommand) if not m.unplugged
        ]
        assert len(set(numbers)) == len(numbers) > 10


def test_requests_of_the_page_are_in_the_log_under_its_name(sitting: Drives) -> None:
    origins = {m.origin for _, m in sitting.of("released", OperatorCommand)}
    assert len(origins) == 1
    assert re.fullmatch(r"web page \d+ at 127\.0\.0\.1", origins.pop())


def test_the_log_holds_the_cost_of_the_view(sitting: Drives) -> None:
    (cost,) = [
        json.loads(m.fields)
        for _, m in sitting.messages
        if isinstance(m, Event) and m.name == "bridge_cost"
    ]
    assert cost["turns"] > 50
    assert cost["frames"]["the live view"] > 50
    assert cost["dropped"] == {"the live view": 0}


@pytest.fixture
def seen(sitting: Drives) -> PageState:
    """State of the browser's page."""
    if sitting.seen is None:
        pytest.skip("no Chromium on this machine")
    return sitting.seen


def test_nothing_overflows_and_nothing_is_empty_at_any_width(seen: PageState) -> None:
    assert len(seen.sizes) == 2 * len(SIZES)
    for name, found in seen.sizes.items():
        assert found["overflow"] == [], name
        assert found["empty"] == [], name
        assert found["small"] == [], name
        assert found["blank"] == 0, name
        assert not found["wider"], name


def test_the_emergency_stop_is_in_sight_however_far_the_page_is_scrolled(seen: PageState) -> None:
    assert [name for name, found in seen.sizes.items() if not found["stops"]] == []


def test_dark_is_dark_and_light_is_light(seen: PageState) -> None:
    grounds = {
        name: sum(map(int, re.findall(r"\d+", found["ground"])[:3]))
        for name, found in seen.sizes.items()
    }
    assert all(
        (ground < 150) if "dark" in name else (ground > 600) for name, ground in grounds.items()
    )


def test_the_console_stays_silent(seen: PageState) -> None:
    assert seen.complaints == []


def test_the_token_does_not_stay_in_the_address(seen: PageState) -> None:
    assert "#" not in seen.texts["address"]


def test_the_page_says_what_happens(seen: PageState) -> None:
    speed = re.search(r"(\d+\.\d+) m/s", seen.texts["driving"])
    assert speed is not None
    assert float(speed[1]) > 0.1
    assert seen.texts["why"] == "the deadman was released"
    assert "deadman_released" in seen.texts["stop"]
    assert "ARMED -> TELEOP: driven by hand: web page" in seen.texts["log"]
    for text in ("ingestion", "fusion", "control", "actuation"):
        assert text in seen.texts["deadlines"]
    assert "art_vesc, simulated vehicle" in seen.texts["parts"]


@pytest.mark.parametrize(("reaction", "v", "cap"), SPEEDS)
def test_only_a_cap_that_acts_is_a_warning(
    seen: PageState, reaction: str, v: float, cap: str
) -> None:
    assert seen.texts[f"{reaction} {v} {cap}"] == SPEEDS[reaction, v, cap]


def test_what_stands_in_for_what_lacks_is_folded_below_what_could_stop_it(seen: PageState) -> None:
    assert seen.texts["stand-ins"] == [
        "None: no rule holds",
        False,
        "Substitutes for missing actuator capabilities (2)",
        2,
    ]


def test_a_view_needs_the_wall_clock() -> None:
    done = subprocess.run(
        [*VEHICLED, "sim", "--view"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--clock wall" in done.stderr
