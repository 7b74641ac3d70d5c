"""Steps of the set-up in lockstep with emulated devices: a person who reads, presses keys, and
moves the vehicle by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim_backend.hand import parse_move
from sim_backend.profile_check import resolved_profile
from sim_backend.world import World, port_names
from vehicled.core.messages import PortState
from vehicled.core.ports import Send, SetBaud
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.session import PERIOD_NS, Ended, Stage, StepSession
from vehicled.live.setup.steps import (
    BY_NAME,
    Measured,
    MotorOutput,
    devices_of,
    jog_overrides,
    toml_values,
)
from vehicled.offline.twin.calibration.profile_write import with_values
from vehicled.paths.catalog import load_course
from vehicled.profile import Loaded, parse

MS = 1_000_000
LEFT, RIGHT, SPACE, ENTER = b"\x1b[D", b"\x1b[C", b" ", b"\n"
REPEAT_NS = 33 * MS
BY_HAND: Mapping[str, Sequence[str]] = {
    "imu": ("wait 0.6", "pitch -28", "pitch 0", "turn 95", "wait 0.5"),
    "accelerometer": (
        "wait 1", "pitch -84", "wait 1", "pitch 0", "pitch 86", "wait 1", "pitch 0", "roll 85",
        "wait 1", "roll 0", "roll -88", "wait 1", "roll 0", "roll 174", "wait 1", "roll 0",
    ),
    "push": ("wait 0.6", "push 5", "wait 0.5"),
    "motor": ("block",),
    "turn": ("wait 0.6", "turn 375", "wait 1.5", "push 3.2", "wait 1"),
}  # fmt: skip
"""Moves of each step, once it records."""
LONGEST_S = 120.0


def truth(folder: Path, text: str = "", *, base: str = "f1tenth_gnss") -> Loaded:
    """Return a vehicle as it really is: the base on the 4-DOF plant, and what differs."""
    head = f'name = "truth"\nbase = "{base}"\nwithout = ["sim.twin"]\n[sim]\nplant = "four_dof"\n'
    return parse(head + text, beside=folder)


class Person:
    """Reads what a step asks, and does it."""

    def __init__(self, car: "Car", session: StepSession, distance: str = "5") -> None:
        self._car = car
        self._session = session
        self._distance = distance
        self._key_ns = 0
        self._begun = False
        self.forward = 0.0
        """Sum of the speed of the wheels that were seen to turn."""
        self._motor: MotorOutput | None = None
        self._end_since_ns: int | None = None

    def act(self, now_ns: int) -> None:
        """Press a key, or move the vehicle, as the stage asks."""
        session, car = self._session, self._car
        match session.stage:
            case Stage.READY if now_ns - self._key_ns > 500 * MS:
                self._press(ENTER, now_ns)
                self._begun = False
            case Stage.RECORDING:
                self._record(now_ns)
            case Stage.ASKING:
                assert session.question is not None
                answer = {
                    "wheel": car.wheels_of(session.motor, self.forward),
                    "forward": "y" if self.forward > 0.0 else "n",
                }.get(session.question.name, f"{self._distance}\n")
                self._press(answer.encode(), now_ns)
            case Stage.DONE:
                self._press(ENTER if session.measured is not None else b"q", now_ns)
            case _:
                car.eyes(now_ns)

    def _record(self, now_ns: int) -> None:
        name = self._session.step.name
        hand = self._car.world.by_hand()
        if not self._begun:
            self._begun = True
            self._key_ns = now_ns
            for move in BY_HAND.get(name, ()):
                hand.do(parse_move(move))
            return
        if name in ("motor", "run", "circle"):
            if self._session.motor is not self._motor:
                self._motor, self.forward = self._session.motor, 0.0
            self.forward += self._car.world.motion.motor_speed_radps
            if now_ns - self._key_ns > REPEAT_NS and self._car.since(now_ns) > 2.5:
                self._press(SPACE, now_ns)
        elif name == "servo":
            self._jog(now_ns)
        elif name != "ports" and not hand.busy:
            self._press(ENTER, now_ns)

    def _jog(self, now_ns: int) -> None:
        """Hold an arrow key until the wheels go no further."""
        if now_ns - self._key_ns <= REPEAT_NS:
            return
        marked = self._car.marked()
        wanted = 1.0 if marked == 0 else -1.0
        angle = self._car.world.actuators.wheel_angle_rad
        if self._car.at_stop(wanted, angle):
            self._press(ENTER, now_ns)
            self._key_ns += 700 * MS
        else:
            self._press(self._car.arrow(wanted), now_ns)

    def _press(self, data: bytes, now_ns: int) -> None:
        self._key_ns = now_ns
        self._session.on_keys(data, now_ns)


class Car:
    """An emulated vehicle on wires, and the set-up that knows only a profile of it."""

    def __init__(
        self, true: Loaded, seed: int = 1, cables: Mapping[str, str] | None = None
    ) -> None:
        """``cables``: device of the vehicle at the port of each device of the profile, where they
        are exchanged."""
        course = load_course("figure_eight")
        self.true = resolved_profile(true, course, "stand")
        self.now_ns = 1_000 * MS
        self.world = World(
            self.true, course, seed, self.now_ns, wires=True, scenario=False, start="stand"
        )
        self._numbers = {name: number for number, name in enumerate(port_names(self.true))}
        self._cables = dict(cables or {})
        self.loose = ""
        """Motor whose shaft slips in its wheel."""
        self.said: list[str] = []
        self.session: StepSession | None = None
        self._since_ns = 0
        self._reversed = False

    def wheels_of(self, motor: MotorOutput | None, turned: float) -> str:
        """Return the answer of a person who sees the wheels of a motor turn: those that the true
        vehicle has at its cable."""
        if motor is None or motor.device == self.loose or abs(turned) < 1.0:
            return "n"
        mix = self.true.devices[self._cables.get(motor.device, motor.device)].mix
        row = mix[motor.name]
        return "a" if row.throttle else "l" if row.left else "r"

    def emulator(self, device: str) -> Any:
        """Return the emulator of a device."""
        return self.world.emulator(self._numbers[device])

    def eyes(self, now_ns: int) -> None:
        """Note when the recording may begin."""
        self._since_ns = now_ns

    def since(self, now_ns: int) -> float:
        return (now_ns - self._since_ns) * 1e-9

    def marked(self) -> int:
        return sum("end at the command" in line for line in self.said)

    def at_stop(self, wanted: float, angle: float) -> bool:
        steering = self.true.sim.steering
        assert steering is not None
        return wanted * angle > 0.985 * min(steering.max_wheel_rad, steering.gain_rad)

    def arrow(self, wanted: float) -> bytes:
        """Return the arrow key that moves the wheels as wanted, which the person has found out."""
        return (LEFT, RIGHT)[(wanted < 0.0) is not self._reversed]

    def step(
        self, name: str, believed: Loaded, *, distance: str = "5", person: type[Person] = Person
    ) -> Measured | None:
        """Run a step to its end, and return what it measured."""
        step = BY_NAME[name]
        if name == "servo":
            believed = parse(believed.source, overrides=jog_overrides(believed.profile))
            self._reversed = self._steering_reversed(believed)
        session = self.session = StepSession(step, believed.profile, "2026-11-27")
        devices = Devices(believed.profile, session.on_message)
        session.bind(devices)
        names = {
            device: self._numbers[self._cables.get(device, device)]
            for device in devices_of(believed.profile)
        }
        by_number = {number: device for device, number in names.items()}
        for device in names:
            devices.on_port(device, PortState.OPENED, "lockstep", self.now_ns)
        user, begun_ns, tick_ns = person(self, session, distance), self.now_ns, self.now_ns
        while session.stage is not Stage.OVER:
            self.now_ns += 5 * MS
            assert self.now_ns - begun_ns < LONGEST_S * 1000 * MS, (
                f"{session.stage}: {self.said[-5:]}"
            )
            for t_ns, port, data in self.world.advance(self.now_ns):
                if port in by_number:
                    devices.on_rx(by_number[port], data, t_ns)
            devices.on_time(self.now_ns)
            if self.now_ns >= tick_ns:
                tick_ns += PERIOD_NS
                user.act(self.now_ns)
                devices.command(session.tick(self.now_ns), self.now_ns)
                self.said += session.lines()
            for out in devices.take_tx():
                if isinstance(out.action, Send):
                    self.world.on_frame(names[out.port], self.now_ns, out.action.data)
                elif isinstance(out.action, SetBaud):
                    self.world.on_line(names[out.port], self.now_ns, out.action.baud)
        for device in names:
            devices.on_port(device, PortState.LOST, "closed", self.now_ns)
        if name == "motor":
            self.world.by_hand().do(parse_move("floor"))
        return session.measured if session.ended is Ended.WRITE else None

    def _steering_reversed(self, believed: Loaded) -> bool:
        gain = [
            each.devices["drive"].driver.selected.servo_gain
            for each in (self.true, believed.profile)
        ]
        return bool(gain[0] * gain[1] < 0.0)


def written(believed: str, measured: Measured, folder: Path) -> str:
    """Return the text of a profile with what a step measured."""
    text = with_values(believed, toml_values(measured, "2026-11-27"))
    parse(text, beside=folder)
    return text


def believed(text: str, folder: Path) -> Loaded:
    """Return the profile that the owner has."""
    return parse(text, beside=folder)
