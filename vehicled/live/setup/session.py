"""One step of the set-up between its user and its devices, without clock, terminal and ports.

Nothing moves unless the step drives, its key repeats or a page's button is held, and the actuator
accepts commands. Every other key ends the recording, and then the actuator gets neutral commands
only, as before and after it.
"""

from enum import Enum
from math import inf, nan
from textwrap import fill
from typing import NamedTuple

from vehicled.core.messages import ActuatorCommand, Message, Mode
from vehicled.live.setup import estimates
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.estimates import NotMeasuredError
from vehicled.live.setup.manoeuvres import BRAKE, Manoeuvre, Moment, ServoJog, SetupDemand
from vehicled.live.setup.recording import SampleRecorder
from vehicled.live.setup.steps import (
    Measured,
    MotorOutput,
    MotorRun,
    Observed,
    Question,
    SetupStep,
    Wording,
    motor_outputs,
    motor_scales,
    mps_per_motor_radps,
    pace,
    questions,
    speed_source,
    toml_values,
)
from vehicled.live.teleop.keyboard import ESCAPE_NS, KeyRepeat
from vehicled.live.teleop.keys import Key, KeyDecoder
from vehicled.live.teleop.state import STALL_NS
from vehicled.profile.schema import Profile

PERIOD_NS = 20_000_000
"""Period of the commands to the actuator."""
READY_NS = 10_000_000_000
"""Longest wait for the devices of a step."""
BRAKED_NS = 2_000_000_000
"""Time for which a manoeuvre that was ended is braked; then the actuator is neutral."""
SHOWN_NS = 1_000_000_000
MOST_TEXT = 20
ESCAPE = chr(27)
COLUMNS = 100
"""Width of the instructions."""


class Stage(Enum):
    """Stage of a step."""

    READY = "ready"
    WAITING = "waiting for the devices"
    RECORDING = "recording"
    ASKING = "asking"
    DONE = "done"
    OVER = "over"


TERMINAL = Wording("press Enter", "the space bar", "the left arrow key", "the right arrow key")


class Ended(Enum):
    """Outcome of a step, as its user chose."""

    WRITE = "write"
    SKIP = "skip"
    QUIT = "quit"


class StepChoice(Enum):
    """Choice of the user while nothing drives: a key of the terminal, or a button of the page."""

    BEGIN = "begin"
    FINISH = "finish"
    """End of a recording, or of the servo's way."""
    WRITE = "write"
    AGAIN = "again"
    SKIP = "skip"
    QUIT = "end"


_LETTERS = {"q": StepChoice.QUIT, "s": StepChoice.SKIP, "r": StepChoice.AGAIN}
_ON_ENTER = (StepChoice.BEGIN, StepChoice.WRITE, StepChoice.AGAIN)


class LiveSample(NamedTuple):
    """Newest values of a step; None for one that does not arrive."""

    speed_mps: float | None
    rate_radps: tuple[float, ...] | None
    steering: float
    throttle: float
    brake: float


class StepSession:
    """Runs one step. The host calls :meth:`on_message` and, every ``PERIOD_NS``, :meth:`tick`; a
    terminal calls :meth:`on_keys`, and a page :meth:`choose`, :meth:`hold`, :meth:`answer` and
    :meth:`abort`."""

    def __init__(
        self, step: SetupStep, profile: Profile, day: str, wording: Wording = TERMINAL
    ) -> None:
        """``day``: date that is written beside what is measured. ``wording``: that of the front
        end; the keys of a terminal are named on a terminal only."""
        self.step = step
        self.stage = Stage.READY
        self.ended: Ended | None = None
        self.measured: Measured | None = None
        """Result; None if nothing was measured."""
        self.failure = ""
        """Why nothing was measured; empty before the judgement, and if something was."""
        self._profile = profile
        self.day = day
        self._scale, self._scales = mps_per_motor_radps(profile), motor_scales(profile)
        motors = motor_outputs(profile)
        self._motors = motors if step.each_motor and len(motors) > 1 else []
        self._runs: list[MotorRun] = []
        self._recorder = self._new_recorder()
        self._manoeuvre: Manoeuvre | None = None
        self._decoder = KeyDecoder()
        self._repeat = KeyRepeat()
        self._arrow: Key | None = None
        self._questions = questions(step, profile)
        self._answers: dict[str, str] = {}
        self._jogged: dict[str, float] = {}
        self._typed = ""
        self._held_until_ns = 0
        self._last = SetupDemand()
        self._lines: list[str] = []
        self._since_ns = self._ticked_ns = self._keys_ns = self._brakes_until_ns = 0
        self._missing = ""
        self._shown_ns = 0
        self._devices: Devices | None = None
        self._hints = wording is TERMINAL
        self._say(f"\n{step.name}: {step.title}")
        if step.motion == "drives":
            self._say(
                f"THE VEHICLE DRIVES in this step, while you hold {wording.hold} and no longer."
            )
        elif step.motion == "wheels off the ground":
            self._say("THE WHEELS TURN in this step: they must touch nothing.")
        self._say(fill(wording.instructions(step), COLUMNS))
        if self._hints:
            self._say(
                "Enter: begin   s: skip this step   q: end   (any key but those of the step stops "
                "it)"
            )

    def bind(self, devices: Devices) -> None:
        """Take the devices, which this step commands."""
        self._devices = devices

    def lines(self) -> list[str]:
        """Drain the lines for the user."""
        lines, self._lines = self._lines, []
        return lines

    def on_message(self, name: str, message: Message) -> None:
        """Take a message of a device, or a command that was sent."""
        self._recorder.add(message)

    # ---------------------------------------------------------------- keys

    def on_keys(self, data: bytes, now_ns: int) -> None:
        """Handle bytes of the terminal."""
        self._keys_ns = now_ns
        if self.stage is Stage.RECORDING:
            # Keys that arrive together count once, as after a stall.
            for key in dict.fromkeys(self._decoder.feed(data)):
                self._on_driving_key(key, now_ns)
            return
        for character in data.decode("ascii", "replace").replace("\r", "\n"):
            self._on_character(character, now_ns)

    def _on_character(self, character: str, now_ns: int) -> None:
        match self.stage:
            case Stage.WAITING:
                self._again("aborted")
            case Stage.ASKING:
                self._on_answer(character)
            case _ if character == "\n":
                self.choose(next(each for each in _ON_ENTER if each in self.choices), now_ns)
            case _ if character in _LETTERS:
                self.choose(_LETTERS[character], now_ns)
            case _:
                pass

    # ---------------------------------------------------------------- choices

    @property
    def choices(self) -> tuple[StepChoice, ...]:
        """Choices that the present stage has."""
        match self.stage:
            case Stage.READY:
                return (StepChoice.BEGIN, StepChoice.SKIP, StepChoice.QUIT)
            case Stage.RECORDING if self._manoeuvre is None or self.jogs:
                return (StepChoice.FINISH,)
            case Stage.DONE if self.measured is None:
                return (StepChoice.AGAIN, StepChoice.SKIP, StepChoice.QUIT)
            case Stage.DONE:
                return (StepChoice.WRITE, StepChoice.AGAIN, StepChoice.SKIP, StepChoice.QUIT)
            case _:
                return ()

    def choose(self, choice: StepChoice, now_ns: int) -> None:
        """Follow a choice; one that the stage does not have is ignored."""
        if choice not in self.choices:
            return
        match choice:
            case StepChoice.BEGIN:
                self.stage, self._since_ns = Stage.WAITING, now_ns
            case StepChoice.FINISH if isinstance(self._manoeuvre, ServoJog):
                self._mark(self._manoeuvre.steering)
            case StepChoice.FINISH:
                self._finish()
            case StepChoice.WRITE:
                self._end(Ended.WRITE)
            case StepChoice.AGAIN:
                self._again("")
            case StepChoice.SKIP:
                self._end(Ended.SKIP)
            case StepChoice.QUIT:
                self._end(Ended.QUIT)

    @property
    def drives(self) -> bool:
        """True while a held key or button moves something."""
        return self.stage is Stage.RECORDING and self._manoeuvre is not None

    @property
    def jogs(self) -> bool:
        """True while the servo follows the keys for left and right."""
        return self.stage is Stage.RECORDING and isinstance(self._manoeuvre, ServoJog)

    def hold(self, key: Key | None, until_ns: int) -> None:
        """Take a reading of a page's dead-man button: the key that is held, None if none is, and
        the time until which that counts."""
        if not self.drives:
            return
        if key is not None and key not in ((Key.LEFT, Key.RIGHT) if self.jogs else (Key.HOLD,)):
            self.abort(f"aborted by a button ({key.value}); the actuator is at neutral")
            return
        self._arrow = key
        self._held_until_ns = 0 if key is None else until_ns

    def abort(self, why: str) -> None:
        """End what the step does at once; what drives brakes."""
        if self.stage in (Stage.WAITING, Stage.RECORDING, Stage.ASKING):
            self._again(why)

    def held(self, now_ns: int) -> bool:
        """Return True while the key repeats or the button is held."""
        return now_ns < self._held_until_ns or (
            self._repeat.held and not self._repeat.silent(now_ns)
        )

    @property
    def question(self) -> Question | None:
        """Question that waits for an answer; None if none does."""
        return self._next_question() if self.stage is Stage.ASKING else None

    def _next_question(self) -> Question | None:
        return next(
            (
                each
                for each in self._questions
                if each.name not in self._answers
                and not each.unless.items() & self._answers.items()
            ),
            None,
        )

    @property
    def motor(self) -> MotorOutput | None:
        """Motor that is driven, where several are driven one by one."""
        return self._motors[min(len(self._runs), len(self._motors) - 1)] if self._motors else None

    def answer(self, text: str) -> None:
        """Answer the question; what is no answer is said."""
        question = self.question
        if question is None:
            return
        if question.options:
            if text in question.options:
                self._answer(question, text)
            return
        text = text.strip().replace(",", ".") or question.usual
        try:
            if 0.0 < float(text) < inf:
                self._answer(question, text)
                return
        except ValueError:
            pass
        self._say(f'"{text}" is no number above 0')

    # ---------------------------------------------------------------- keys of a terminal

    def _on_driving_key(self, key: Key, now_ns: int) -> None:
        jogs = self.jogs
        if key is Key.TAKE and StepChoice.FINISH in self.choices:
            self.choose(StepChoice.FINISH, now_ns)
        elif self._manoeuvre is not None and (
            (key in (Key.LEFT, Key.RIGHT) and jogs) or (key is Key.HOLD and not jogs)
        ):
            if self._arrow is not key:
                self._repeat.let_go()
            self._arrow = key
            self._repeat.press(key, now_ns)
        else:
            self._again(f"aborted by a key ({key.value}); the actuator is at neutral")

    def _mark(self, steering: float) -> None:
        side = "right" if "left" in self._jogged else "left"
        self._let_go()
        self._jogged[side] = steering
        self._say(f"{side} end at the command {steering:+.2f}")
        if side == "right":
            self._finish()

    def _on_answer(self, character: str) -> None:
        question = self.question
        if character == ESCAPE:
            self._again("aborted")
        elif question is not None and question.options:
            self.answer(character)
        elif character == "\n":
            text, self._typed = self._typed, ""
            self.answer(text)
        elif character in "\x7f\x08":
            self._typed = self._typed[:-1]
        elif len(self._typed) < MOST_TEXT:
            self._typed += character

    def _answer(self, question: Question, text: str) -> None:
        self._say(f"{question.text}: {question.options.get(text, text)}")
        self._answers[question.name] = text
        self._ask_on()

    def _ask_on(self) -> None:
        """Ask the next question; after the last one go on to the next motor, or judge."""
        if self._next_question() is not None:
            self.stage = Stage.ASKING
            return
        motor = self.motor
        if motor is not None:
            run = MotorRun(motor, self._recorder.recording(), self._answers)
            self._runs.append(run)
            self._answers = {}
            if len(self._runs) < len(self._motors):
                self.stage, self._since_ns = Stage.WAITING, self._ticked_ns
                return
        self._judge()

    # ---------------------------------------------------------------- time

    def tick(self, now_ns: int) -> ActuatorCommand:
        """Return the command for the actuator, which is neutral unless a key is held in a step that
        drives."""
        dt_s = min((now_ns - self._ticked_ns) * 1e-9, 0.1)
        if now_ns - self._ticked_ns > STALL_NS:
            # Keys that waited meanwhile do not show that one is held now.
            self._let_go()
        self._ticked_ns = now_ns
        if self.stage is Stage.WAITING:
            self._wait(now_ns)
        if self.stage is not Stage.RECORDING:
            return self._command(BRAKE if now_ns < self._brakes_until_ns else SetupDemand(), now_ns)
        if self.step.seconds and now_ns - self._since_ns > self.step.seconds * 1e9:
            self._finish()
        manoeuvre = self._manoeuvre
        if manoeuvre is None:
            return self._command(SetupDemand(), now_ns)
        if self._decoder.waits and now_ns - self._keys_ns > ESCAPE_NS:
            self._again("aborted by the Esc key; the actuator is at neutral")
            return self._command(BRAKE, now_ns)
        self._repeat.expire(now_ns)
        held = self.held(now_ns)
        arrow = {Key.LEFT: 1, Key.RIGHT: -1}.get(self._arrow, 0) if self._arrow is not None else 0
        speed = self._recorder.speed_mps
        refusal = "" if self._devices is None else self._devices.refusal
        demand = manoeuvre.demand(Moment(dt_s, held, nan if speed is None else speed, arrow))
        if refusal:
            self._again(f"aborted: {refusal}")
            demand = BRAKE
        elif manoeuvre.trouble:
            self._again(manoeuvre.trouble)
        elif manoeuvre.over:
            self._finish()
        return self._command(demand, now_ns, Mode.TELEOP)

    def stop(self, now_ns: int) -> ActuatorCommand:
        """Return the last command of a step that ends, or is ended: the brake where it drove, else
        neutral."""
        drove = self._manoeuvre is not None or now_ns < self._brakes_until_ns
        return self._command(BRAKE if drove else SetupDemand(), now_ns)

    def live(self) -> LiveSample:
        """Return the newest values."""
        last = self._last
        return LiveSample(
            self._recorder.speed_mps,
            self._recorder.rate_radps,
            last.steering,
            last.throttle,
            last.brake,
        )

    def status(self, now_ns: int) -> str:
        """Return the line that shows where the step is."""
        if (question := self.question) is not None:
            options = question.options
            plain = all(meaning.startswith(key) for key, meaning in options.items())
            keys = ", ".join(
                key if plain else f"{key} {meaning}" for key, meaning in options.items()
            )
            return f"{question.text} ({keys})" if keys else f"{question.text}: {self._typed}"
        if self.stage is Stage.DONE:
            return (
                "Enter: write   r: again   s: skip   q: end"
                if self.measured
                else "Enter: again   s: skip   q: end"
            )
        parts = [self.stage.value]
        if self.stage is Stage.RECORDING:
            parts.append(f"{(now_ns - self._since_ns) * 1e-9:.0f} s")
            if self._manoeuvre is not None:
                parts.append("held" if self.held(now_ns) else "released")
            if self._recorder.speed_mps is not None:
                parts.append(f"{self._recorder.speed_mps:+.2f} m/s")
            if self.step.name == "accelerometer":
                parts.append(self._sides_missing(now_ns))
        return "  ".join(parts)

    def _sides_missing(self, now_ns: int) -> str:
        if now_ns - self._shown_ns > SHOWN_NS:
            self._shown_ns = now_ns
            seen = estimates.sides(self._recorder.recording())
            self._missing = ", ".join(name for name in estimates.SIDES if name not in seen)
        return f"missing: {self._missing}" if self._missing else "all six sides"

    def _wait(self, now_ns: int) -> None:
        """Begin to record once the devices of the step are there."""
        lacking = self._lacking()
        if not lacking:
            self._recorder = self._new_recorder()
            self._manoeuvre = (
                None if self.step.manoeuvre is None else self.step.manoeuvre(pace(self._profile))
            )
            self._decoder, self._repeat = KeyDecoder(), KeyRepeat()
            self._let_go()
            self._jogged, self._answers = {}, {}
            self.stage, self._since_ns = Stage.RECORDING, now_ns
            if self._devices is not None:
                self._devices.drive_only(self.motor)
                if self.step.reads_configurations:
                    self._devices.ask_configurations(now_ns)
            if self.motor is not None:
                self._say(f"motor {self.motor.label}")
        elif now_ns - self._since_ns > READY_NS:
            self._again(f"not begun: {lacking}")

    def _lacking(self) -> str:
        devices = self._devices
        if devices is None or self.step.name == "ports":
            return ""
        for need in self.step.needs:
            wanted = speed_source(self._profile) if need == "speed" else need
            if not devices.sent(wanted):
                return f"{wanted} does not arrive: do the step ports"
        return devices.refusal if self.step.manoeuvre is not None else ""

    def _new_recorder(self) -> SampleRecorder:
        motor = self.motor
        alone = motor.device if motor is not None and motor.device in self._scales else ""
        return SampleRecorder(self._scale, speed_source(self._profile), self._scales, alone)

    def _let_go(self) -> None:
        self._repeat.let_go()
        self._arrow, self._held_until_ns = None, 0

    def _finish(self) -> None:
        self._brake()
        self._ask_on()

    def _judge(self) -> None:
        devices = self._devices
        seen = Observed(
            profile=self._profile,
            recording=self._recorder.recording(),
            answers=self._answers,
            jogged=self._jogged,
            runs=self._runs,
            arrived={} if devices is None else devices.arrived(),
            configurations={} if devices is None else devices.configurations(),
        )
        self.stage = Stage.DONE
        try:
            self.measured = self.step.judge(seen)
        except NotMeasuredError as error:
            self.measured, self.failure = None, str(error)
            self._say(f"not measured: {error}")
            return
        self._say("found, and the profile is WRONG:" if self.measured.wrong else "found:")
        for verdict in self.measured.verdicts:
            self._say(f"  {verdict}")
        for key, text in toml_values(self.measured, self.day).items():
            self._say(f"  {key} = {text}")
        if not self.measured.values:
            self._say("  there is nothing to write")

    def _again(self, why: str) -> None:
        """Go back to the beginning of the step; what drives brakes first."""
        self._brake()
        self._typed, self._answers = "", {}
        self.measured, self.failure = None, ""
        self._runs = []
        self.stage = Stage.READY
        if why:
            self._say(why)
        if self._hints:
            self._say("Enter: begin   s: skip   q: end")

    def _brake(self) -> None:
        """End the manoeuvre; what drove brakes, because a vehicle without a brake command rolls
        on."""
        if self._manoeuvre is not None:
            self._brakes_until_ns = self._ticked_ns + BRAKED_NS
        self._manoeuvre = None

    def _end(self, how: Ended) -> None:
        self.stage, self.ended = Stage.OVER, how

    def _command(
        self, demand: SetupDemand, now_ns: int, mode: Mode = Mode.STANDBY
    ) -> ActuatorCommand:
        self._last = demand
        angle = self._profile.vehicle.steering.wheel_angle_rad(demand.steering)
        return ActuatorCommand(
            now_ns, 0, demand.throttle, demand.brake, demand.steering, angle, mode
        )

    def _say(self, text: str) -> None:
        self._lines.append(text)
