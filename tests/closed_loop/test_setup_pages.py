"""The set-up on its page, in lockstep with emulated devices: the page shows what the terminal
shows, and a button that is no longer held moves nothing."""

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.closed_loop.test_setup_steps import MINE, geared, wrong_truth
from tests.setup_bench import ENTER, LEFT, MS, RIGHT, SPACE, Car, Person, believed, truth
from vehicled.live.setup.pages import Choose, Hold, PageAnswer, SetupPages, TakeControl
from vehicled.live.setup.session import Stage, StepChoice, StepSession
from vehicled.live.teleop.keyboard import RELEASE_NS

HELD: dict[bytes, Literal["", "drive", "left", "right"]] = {
    SPACE: "drive",
    LEFT: "left",
    RIGHT: "right",
}


class AtThePage(Person):
    """A person at a page: each press becomes what the page sends."""

    until_s = float("inf")
    """Time of the recording after which the page's readings do not arrive any more."""
    shown: list[dict[str, Any]]
    """States of the page with a result."""

    def __init__(self, car: Car, session: StepSession, distance: str = "5") -> None:
        super().__init__(car, session, distance)
        self.pages = SetupPages(lambda step, measured: f"+ {step.name}")
        self.pages.begin(session)
        self.pages.on_message(self, TakeControl(), car.now_ns)
        self._n = self._held_press = 0
        self._held = b""

    def _press(self, data: bytes, now_ns: int) -> None:
        self._key_ns = now_ns
        state = self.pages.state(now_ns)
        if data in HELD:
            self._held_press += data != self._held
            self._held = data
            self._n += 1
            if self._car.since(now_ns) < self.until_s:
                self._send(Hold(HELD[data], self._held_press, self._n, now_ns // MS), now_ns)
            return
        self._held = b""
        if state["question"]:
            self._send(PageAnswer(data.decode().strip(), state["turn"]), now_ns)
        elif data == ENTER:
            if state["result"]:
                type(self).shown.append(state)
            self._send(Choose(StepChoice(state["choices"][0]), state["turn"]), now_ns)
        else:
            self._send(Choose(StepChoice.QUIT, state["turn"]), now_ns)

    def _send(self, message: Any, now_ns: int) -> None:
        assert self.pages.on_message(self, message, now_ns) == ""


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> tuple[Car, str]:
    folder = tmp_path_factory.mktemp("wrong")
    return Car(wrong_truth(folder)), geared()


def on_page(car: Car, step: str, text: str, folder: Path) -> dict[str, Any]:
    """Do a step at the page, and return the state that showed its result."""
    AtThePage.shown = []
    assert car.step(step, believed(text, folder), person=AtThePage) is not None, car.said[-5:]
    assert car.session is not None
    assert car.session.measured is not None
    (state,) = AtThePage.shown
    result: dict[str, Any] = state["result"]
    assert result["found"] == car.session.measured.verdicts
    assert result["diff"] == (f"+ {step}" if result["values"] else "")
    assert all(note.startswith("measured 2026-11-27, ") for _, _, note in result["values"])
    return result


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ("imu", "its x axis points left, y forward, z down"),
        ("push", "a motor with 3 pole pairs does where the profile has 2"),
        ("push", "the motor is reversed"),
        ("servo", "reversed"),
    ],
)
def test_what_is_wrong_is_named_on_the_page(
    wrong: tuple[Car, str], tmp_path: Path, step: str, named: str
) -> None:
    result = on_page(wrong[0], step, wrong[1], tmp_path)
    assert result["wrong"]
    assert named in "; ".join(result["found"])


def test_exchanged_ports_are_named_on_the_page(tmp_path: Path) -> None:
    car = Car(truth(tmp_path), cables={"imu": "gnss", "gnss": "imu"})
    result = on_page(car, "ports", MINE, tmp_path)
    assert result["found"][0] == "the ports of gnss and imu are exchanged"


def test_the_motor_is_driven_by_a_button_of_the_page(tmp_path: Path) -> None:
    result = on_page(Car(truth(tmp_path)), "motor", MINE, tmp_path)
    assert not result["wrong"]


def test_it_brakes_when_no_reading_arrives_any_more(tmp_path: Path) -> None:
    car = Car(truth(tmp_path))
    speeds: list[tuple[float, float]] = []

    class LosesTheNetwork(AtThePage):
        until_s = 4.0

        def act(self, now_ns: int) -> None:
            since_s = self._car.since(now_ns)
            if self._session.stage is Stage.RECORDING:
                speeds.append((since_s, abs(car.world.motion.speed_mps)))
                if since_s > 6.0:
                    self.pages.on_close(self)
                    self._session.choose(StepChoice.QUIT, now_ns)
                    return
            super().act(now_ns)

    assert car.step("circle", believed(MINE, tmp_path), person=LosesTheNetwork) is None
    assert max(speed for since_s, speed in speeds if since_s < 4.0) > 0.5
    late_s = 4.0 + RELEASE_NS * 1e-9 + 0.25
    assert max(speed for since_s, speed in speeds if since_s > late_s) < 0.02
    assert any("has lost its connection" in line for line in car.said)


def test_a_drive_that_is_over_is_braked(tmp_path: Path) -> None:
    car = Car(truth(tmp_path))
    at_the_end: list[float] = []

    class Waits(Person):
        """Looks at the result for two seconds."""

        def act(self, now_ns: int) -> None:
            if self._session.stage is Stage.DONE and len(at_the_end) < 100:
                at_the_end.append(abs(car.world.motion.speed_mps))
                return
            super().act(now_ns)

    assert car.step("circle", believed(MINE, tmp_path), person=Waits) is not None
    assert at_the_end[0] > 0.3
    # The brake of this vehicle takes 10 m/s2, its friction a tenth of that.
    assert at_the_end[15] < 0.02
