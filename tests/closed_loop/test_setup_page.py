"""``vehicled setup --page`` in a real browser, with an emulated car on pseudo-terminals: what is
wrong is named there, and its servo moves only while a button is held."""

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.busy_computer import wait_until
from tests.closed_loop.browser import Tab, browser, executable
from tests.closed_loop.test_first_vehicle import VEHICLED, Emulated, new_profile
from vehicled.profile import load_profile

pytestmark = [
    pytest.mark.xdist_group("wall"),
    pytest.mark.skipif(executable() is None, reason="needs Chromium"),
]
PHONE = (390, 844)


class Setup:
    """The command, and the address that it printed."""

    def __init__(self, folder: Path, environment: dict[str, str], *steps: str) -> None:
        self._said = folder / "setup.txt"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [*VEHICLED, "setup", "--profile", "my_car", "--page", "127.0.0.1:0", *steps],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                env=environment, cwd=folder,
            )  # fmt: skip
        wait_until(lambda: "set-up: http" in self.text(), self.text)
        found = re.search(r"set-up: (http://[^/]+)/#(\S+)", self.text())
        assert found
        self.url, self.token = found[1], found[2]

    def text(self) -> str:
        return self._said.read_text()

    def page(self) -> ClientConnection:
        address = f"{self.url.replace('http', 'ws')}/socket?token={self.token}"
        return connect(address, compression=None, max_queue=None, ping_interval=None)


@contextmanager
def set_up(folder: Path, environment: dict[str, str], *steps: str) -> Iterator[Setup]:
    run = Setup(folder, environment, *steps)
    try:
        yield run
    finally:
        run.process.terminate()
        run.process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def car(folder: Path, environment: dict[str, str]) -> Iterator[Emulated]:
    """The car of docs/first_vehicle.md, whose motor is reversed."""
    emulated = Emulated(folder, environment)
    new_profile(folder, environment, emulated)
    yield emulated
    emulated.end()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        tab.size(*PHONE, dark=False, mobile=True)
        yield tab


def text(tab: Tab, name: str) -> str:
    return str(tab.value(f"document.getElementById('{name}').textContent"))


def click(tab: Tab, selector: str) -> None:
    tab.until(f"!document.querySelector('{selector}').disabled")
    tab.value(f"document.querySelector('{selector}').click()")


def choose(tab: Tab, choice: str) -> None:
    click(tab, f'button[data-choice="{choice}"]')


def begin(tab: Tab, run: Setup, step: str) -> None:
    """Open the page, and begin the step."""
    if run.url not in str(tab.value("location.href")):
        tab.open(f"{run.url}/#{run.token}")
    tab.until(f"document.getElementById('step').textContent === '{step}'")
    choose(tab, "begin")
    tab.until("document.getElementById('status').textContent.startsWith('recording')")


def place(tab: Tab, selector: str) -> tuple[float, float]:
    """Return the middle of an element on the screen."""
    script = (
        f"const e = document.querySelector('{selector}'); e.scrollIntoView({{block: 'center'}});"
        "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2];"
    )
    x, y = tab.value(f"(() => {{ {script} }})()")
    return x, y


def picture(tab: Tab, name: str) -> None:
    """Draw a picture of docs/first_vehicle.md anew, where ``SETUP_PICTURES`` names a folder."""
    if target := os.environ.get("SETUP_PICTURES"):
        tab.value("window.scrollTo(0, 0)")
        tab.listen(0.5)
        tab.picture(Path(target) / f"{name}.png")


def held(tab: Tab) -> str:
    return text(tab, "held")


MOVES = "document.getElementById('held').textContent.startsWith('HELD')"
RELEASED = "document.getElementById('held').textContent === 'released: nothing moves'"
READY = "!!document.querySelector('button[data-choice=\"begin\"]')"


def test_what_a_push_finds_is_shown_as_a_change_of_the_profile_and_then_written(
    folder: Path, environment: dict[str, str], car: Emulated, tab: Tab
) -> None:
    profile = folder / ".config/vehicled/profiles/my_car.toml"
    before = profile.read_text()
    with set_up(folder, environment, "push") as run:
        begin(tab, run, "push")
        car.move("wait 0.6", "push 5", "wait 0.5")
        tab.listen(12.0)
        choose(tab, "finish")
        tab.until("!document.getElementById('question').hidden")
        click(tab, "#answer-send")
        tab.until("!document.getElementById('p-result').hidden")
        assert "the motor is reversed" in text(tab, "found")
        assert re.search(r"measured \d{4}-\d\d-\d\d, sigma \d", text(tab, "values"))
        assert re.search(r"\+ *erpm_per_mps = -\d+", text(tab, "diff"))
        assert tab.value("document.getElementById('wrong').hidden") is False
        picture(tab, "setup_page")
        assert profile.read_text() == before
        choose(tab, "write")
        tab.until("document.getElementById('step').textContent === 'checklist'")
        assert profile.read_text() != before
        choose(tab, "end")
        wait_until(lambda: run.process.poll() is not None, run.text)
        assert run.process.returncode == 0, run.text()
    found = load_profile(str(profile)).devices["drive"].driver.selected
    assert found.erpm_per_mps == pytest.approx(-4407.3, rel=0.025)
    assert tab.complaints == []


def test_the_servo_moves_only_while_a_button_is_held(
    folder: Path, environment: dict[str, str], car: Emulated, tab: Tab
) -> None:
    car.move("block")
    with set_up(folder, environment, "servo") as run:

        def again() -> tuple[float, float]:
            tab.until(READY)
            choose(tab, "begin")
            tab.until("!document.getElementById('hold').hidden")
            return place(tab, "#hold-left")

        begin(tab, run, "servo")
        assert held(tab) == "released: nothing moves"
        at = place(tab, "#hold-left")

        # The mouse is released.
        tab.mouse("mousePressed", *at)
        tab.until(MOVES)
        picture(tab, "setup_page_held")
        tab.mouse("mouseReleased", *at)
        tab.until(RELEASED)

        # The finger is lifted.
        tab.do(
            "Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": at[0], "y": at[1]}]
        )
        tab.until(MOVES)
        tab.do("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        tab.until(RELEASED)

        # The window loses its focus.
        tab.mouse("mousePressed", *at)
        tab.until(MOVES)
        tab.value("window.dispatchEvent(new Event('blur'))")
        tab.until(RELEASED)
        tab.mouse("mouseReleased", *at)

        # The tab is hidden.
        tab.key("keyDown", "ArrowLeft", "ArrowLeft")
        tab.until(MOVES)
        tab.value(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});"
            "document.dispatchEvent(new Event('visibilitychange')); delete document.hidden"
        )
        tab.until(RELEASED)
        tab.key("keyUp", "ArrowLeft", "ArrowLeft")

        # The stop of another page, which then looks on.
        tab.key("keyDown", "ArrowLeft", "ArrowLeft")
        tab.until(MOVES)
        with run.page() as other:
            wait_until(lambda: "another page was opened" in run.text(), run.text)
            tab.key("keyUp", "ArrowLeft", "ArrowLeft")
            again()
            tab.key("keyDown", "ArrowLeft", "ArrowLeft")
            tab.until(MOVES)
            other.send('{"do":"stop"}')
            wait_until(lambda: "stopped on a page" in run.text(), run.text)
            tab.key("keyUp", "ArrowLeft", "ArrowLeft")

            # Control goes to another page.
            again()
            tab.key("keyDown", "ArrowLeft", "ArrowLeft")
            tab.until(MOVES)
            other.send('{"do":"take"}')
            wait_until(lambda: "another page took control" in run.text(), run.text)
            tab.until("!document.getElementById('control').hidden")
            tab.key("keyUp", "ArrowLeft", "ArrowLeft")
            click(tab, "#take")
            tab.until("document.getElementById('control').hidden")

        # The connection breaks.
        again()
        tab.key("keyDown", "ArrowLeft", "ArrowLeft")
        tab.until(MOVES)
        tab.open("about:blank")
        wait_until(lambda: "has lost its connection" in run.text(), run.text)
    assert "set-up ended by SIGTERM; the actuator is at neutral" in run.text()


def test_what_the_eyes_see_is_answered_by_buttons(
    folder: Path, environment: dict[str, str], car: Emulated, tab: Tab
) -> None:
    car.move("block")
    with set_up(folder, environment, "motor") as run:
        begin(tab, run, "motor")
        tab.mouse("mousePressed", *place(tab, "#hold-drive"))
        tab.until("!document.getElementById('question').hidden")
        tab.mouse("mouseReleased", 0, 0)
        click(tab, 'button[data-answer="y"]')
        tab.until("!document.getElementById('p-result').hidden")
        assert "turn" in text(tab, "found")
    assert tab.complaints == []


def test_a_page_of_another_site_or_without_the_token_opens_no_socket(
    folder: Path, environment: dict[str, str], car: Emulated
) -> None:
    with set_up(folder, environment, "push") as run:
        address = f"{run.url.replace('http', 'ws')}/socket"
        for token, origin in (("", run.url), (run.token, "http://evil.example")):
            with pytest.raises(InvalidStatus):
                connect(f"{address}?token={token}", origin=origin, compression=None)  # type: ignore[arg-type]
        with run.page() as page:
            assert json.loads(page.recv(timeout=60))["step"] == "push"
            page.send("x" * 5000)
            with pytest.raises(ConnectionClosed, match="1009"):
                deque(page, maxlen=0)
            assert run.process.poll() is None
