"""One step of the set-up between its user and its devices, without clock, terminal and ports.

Nothing moves unless the step drives, its key repeats, and the actuator accepts commands. Every
other key ends the recording, and then the actuator gets neutral commands only, as before and after
it.
"""

from enum import Enum
from math import nan
from textwrap import fill

from vehicled.core.messages import ActuatorCommand, Message, Mode
from vehicled.live.setup import estimates
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.estimates import NotMeasuredError
from vehicled.live.setup.manoeuvres import BRAKE, Manoeuvre, Moment, ServoJog, SetupDemand
from vehicled.live.setup.recording import SampleRecorder
from vehicled.live.setup.steps import (
    Measured,
    Observed,
    SetupStep,
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


class Ended(Enum):
    """Outcome of a step, as its user chose."""

    WRITE = "write"
    SKIP = "skip"
    QUIT = "quit"


class StepSession:
    """Runs one step. The host calls :meth:`on_keys`, :meth:`on_message` and, every ``PERIOD_NS``,
    :meth:`tick`."""

    def __init__(self, step: SetupStep, profile: Profile, day: str) -> None:
        """``day``: date that is written beside what is measured."""
        self.step = step
        self.stage = Stage.READY
        self.ended: Ended | None = None
        self.measured: Measured | None = None
        """Result; None if nothing was measured."""
        self._profile = profile
        self._day = day
        self._scale = mps_per_motor_radps(profile)
        self._recorder = self._new_recorder()
        self._manoeuvre: Manoeuvre | None = None
        self._decoder = KeyDecoder()
        self._repeat = KeyRepeat()
        self._arrow: Key | None = None
        self._questions = questions(step, profile)
        self._answers: dict[str, str] = {}
        self._jogged: dict[str, float] = {}
        self._typed = ""
        self._lines: list[str] = []
        self._since_ns = self._ticked_ns = self._keys_ns = self._brakes_until_ns = 0
        self._missing = ""
        self._shown_ns = 0
        self._devices: Devices | None = None
        self._say(f"\n{step.name}: {step.title}")
        if step.motion == "drives":
            self._say(
                "THE VEHICLE DRIVES in this step, while you hold the space bar and no longer."
            )
        elif step.motion == "wheels off the ground":
            self._say("THE WHEELS TURN in this step: they must touch nothing.")
        self._say(fill(step.do, COLUMNS))
        self._say(
            "Enter: begin   s: skip this step   q: end   (any key but those of the step stops it)"
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
            case Stage.READY | Stage.DONE if character == "q":
                self._end(Ended.QUIT)
            case Stage.READY | Stage.DONE if character == "s":
                self._end(Ended.SKIP)
            case Stage.READY if character == "\n":
                self.stage, self._since_ns = Stage.WAITING, now_ns
            case Stage.DONE if character == "r" or (character == "\n" and self.measured is None):
                self._again("")
            case Stage.DONE if character == "\n":
                self._end(Ended.WRITE)
            case Stage.WAITING:
                self._again("aborted")
            case Stage.ASKING:
                self._on_answer(character)
            case _:
                pass

    def _on_driving_key(self, key: Key, now_ns: int) -> None:
        manoeuvre = self._manoeuvre
        jogs = isinstance(manoeuvre, ServoJog)
        if key is Key.TAKE and (manoeuvre is None or jogs):
            if isinstance(manoeuvre, ServoJog):
                self._mark(manoeuvre.steering)
            else:
                self._finish()
        elif manoeuvre is not None and (
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
        self._repeat.let_go()
        self._jogged[side] = steering
        self._say(f"{side} end at the command {steering:+.2f}")
        if side == "right":
            self._finish()

    def _on_answer(self, character: str) -> None:
        question = self._questions[len(self._answers)]
        if character == ESCAPE:
            self._again("aborted")
        elif question.kind == "yes or no":
            if character in "yn":
                self._answer(character)
        elif character == "\n":
            text = self._typed.strip().replace(",", ".") or question.usual
            self._typed = ""
            try:
                if float(text) > 0.0:
                    self._answer(text)
            except ValueError:
                self._say(f'"{text}" is no number')
        elif character in "\x7f\x08":
            self._typed = self._typed[:-1]
        elif len(self._typed) < MOST_TEXT:
            self._typed += character

    def _answer(self, text: str) -> None:
        self._say(f"{self._questions[len(self._answers)].text}: {text}")
        self._answers[self._questions[len(self._answers)].name] = text
        if len(self._answers) == len(self._questions):
            self._judge()

    # ---------------------------------------------------------------- time

    def tick(self, now_ns: int) -> ActuatorCommand:
        """Return the command for the actuator, which is neutral unless a key is held in a step that
        drives."""
        dt_s = min((now_ns - self._ticked_ns) * 1e-9, 0.1)
        if now_ns - self._ticked_ns > STALL_NS:
            # Keys that waited meanwhile do not show that one is held now.
            self._repeat.let_go()
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
        held = self._repeat.held and not self._repeat.silent(now_ns)
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

    def status(self, now_ns: int) -> str:
        """Return the line that shows where the step is."""
        if self.stage is Stage.ASKING:
            return f"{self._questions[len(self._answers)].text}: {self._typed}"
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
                parts.append("held" if self._repeat.held else "released: hold the key")
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
        return f"missing: {self._missing}" if self._missing else "all six sides: press Enter"

    def _wait(self, now_ns: int) -> None:
        """Begin to record once the devices of the step are there."""
        lacking = self._lacking()
        if not lacking:
            self._recorder = self._new_recorder()
            self._manoeuvre = (
                None if self.step.manoeuvre is None else self.step.manoeuvre(pace(self._profile))
            )
            self._decoder, self._repeat, self._arrow = KeyDecoder(), KeyRepeat(), None
            self._jogged, self._answers = {}, {}
            self.stage, self._since_ns = Stage.RECORDING, now_ns
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
        return SampleRecorder(self._scale, speed_source(self._profile))

    def _finish(self) -> None:
        self._manoeuvre = None
        if self._questions:
            self.stage = Stage.ASKING
        else:
            self._judge()

    def _judge(self) -> None:
        arrived = {} if self._devices is None else self._devices.arrived()
        seen = Observed(
            profile=self._profile,
            recording=self._recorder.recording(),
            answers=self._answers,
            jogged=self._jogged,
            arrived=arrived,
        )
        self.stage = Stage.DONE
        try:
            self.measured = self.step.judge(seen)
        except NotMeasuredError as error:
            self.measured = None
            self._say(f"not measured: {error}")
            return
        self._say("found, and the profile is WRONG:" if self.measured.wrong else "found:")
        for verdict in self.measured.verdicts:
            self._say(f"  {verdict}")
        for key, text in toml_values(self.measured, self._day).items():
            self._say(f"  {key} = {text}")
        if not self.measured.values:
            self._say("  there is nothing to write")

    def _again(self, why: str) -> None:
        """Go back to the beginning of the step; what drives brakes first."""
        if self._manoeuvre is not None:
            self._brakes_until_ns = self._ticked_ns + BRAKED_NS
        self._manoeuvre = None
        self._typed, self._answers = "", {}
        self.measured = None
        self.stage = Stage.READY
        if why:
            self._say(why)
        self._say("Enter: begin   s: skip   q: end")

    def _end(self, how: Ended) -> None:
        self.stage, self.ended = Stage.OVER, how

    def _command(
        self, demand: SetupDemand, now_ns: int, mode: Mode = Mode.STANDBY
    ) -> ActuatorCommand:
        angle = self._profile.vehicle.steering.wheel_angle_rad(demand.steering)
        return ActuatorCommand(
            now_ns, 0, demand.throttle, demand.brake, demand.steering, angle, mode
        )

    def _say(self, text: str) -> None:
        self._lines.append(text)
