"""Steps of the set-up: what the user does, what is needed, what is measured, and the keys of the
profile that it writes."""

from collections.abc import Callable, Mapping, Sequence
from math import cos, inf, isfinite, isnan, pi, remainder, sin
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field, structs
from msgspec.structs import asdict

from vehicled.core.mixing import Mix
from vehicled.live.setup import estimates
from vehicled.live.setup.estimates import Estimate, NotMeasuredError, rotation
from vehicled.live.setup.manoeuvres import (
    BrakeDrive,
    CircleDrive,
    Manoeuvre,
    Pace,
    ServoJog,
    WheelsFree,
)
from vehicled.live.setup.recording import Array, StepRecording
from vehicled.profile.mixing import mixings_of
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable, Profile
from vehicled.profile.toml_text import value_text

SQUARE_SIGMAS = 2.0
"""A unit that is within so many standard deviations of a right angle was mounted at one."""
SLOW_S = 4.0
"""Time within which every device must have sent what the profile expects."""
Motion = Literal["none", "by hand", "wheels off the ground", "drives"]


class Measured(Struct, frozen=True):
    """Outcome of a step."""

    verdicts: list[str]
    """Sentences for the user."""
    values: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Values of the profile by dotted key, each with its standard deviation as text."""
    wrong: bool = False
    """True if the profile contradicts the vehicle."""


class MotorOutput(Struct, frozen=True):
    """Output of an actuator that drives."""

    device: str
    output: int
    """Number among the outputs of the driver."""
    name: str
    """Name of the output in ``mix``; empty for a device that has the whole vehicle."""
    row: Mix

    @property
    def label(self) -> str:
        """Name for the user."""
        return f"{self.device}.{self.name}" if self.name else self.device

    @property
    def side(self) -> str:
        """Side that the profile says it drives; empty for both."""
        left, right = bool(self.row.left), bool(self.row.right)
        return "" if left is right else "left" if left else "right"


class MotorRun(Struct, frozen=True):
    """One motor, driven alone."""

    motor: MotorOutput
    recording: StepRecording
    answers: Mapping[str, str]


class Observed(Struct, frozen=True, kw_only=True):
    """All that a step is judged by."""

    profile: Profile
    recording: StepRecording
    answers: Mapping[str, str] = field(default_factory=dict)
    """Answers to the questions of the step."""
    jogged: Mapping[str, float] = field(default_factory=dict)
    """Steering commands at the ends, by ``left`` and ``right``."""
    runs: Sequence[MotorRun] = ()
    """Each of several motors, in a step that drives them one by one."""
    configurations: Mapping[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    """Contents of the configurations that the devices hold, and contradictions with the profile, by
    device."""
    arrived: Mapping[str, str] = field(default_factory=dict)
    """Fault of each device: empty if what the profile expects arrives, else what does."""


class Question(Struct, frozen=True):
    """Question after a recording."""

    name: str
    text: str
    usual: str = ""
    """Answer of a bare Enter."""
    instead_of: str = ""
    """Type of messages without which alone it is asked."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Keys of the possible answers with their meanings; empty for a number."""
    of_several: bool = False
    """True if it is asked only where several motors drive."""
    unless: Mapping[str, str] = field(default_factory=dict)
    """Answers to earlier questions after which it is not asked."""


class Wording(Struct, frozen=True):
    """Names of what the user presses, for the instructions."""

    enter: str
    hold: str
    left: str
    right: str

    def instructions(self, step: "SetupStep") -> str:
        """Return the instructions of a step."""
        return step.do.format(**asdict(self))


class SetupStep(Struct, frozen=True):
    """One step."""

    name: str
    title: str
    motion: Motion
    do: str
    """Instructions, in order, with the fields of :class:`Wording`."""
    judge: Callable[[Observed], Measured]
    manoeuvre: Callable[[Pace], Manoeuvre] | None = None
    questions: Sequence[Question] = ()
    needs: Sequence[str] = ()
    """Types of messages of which one source at least must be in the profile; ``speed`` is any that
    gives one."""
    each_motor: bool = False
    """True if several motors are driven one by one."""
    reads_configurations: bool = False
    """True if the configurations that the devices hold are read."""
    seconds: float = 0.0
    """Length of a recording that ends by itself; 0 for one that the user ends."""


def devices_of(profile: Profile) -> dict[str, DeviceTable]:
    """Return the devices with a port of their own that the set-up opens: not those of the
    simulation."""
    return {
        name: table
        for name, table in profile.devices.items()
        if table.port and table.driver.name != "msglink"
    }


def actuators_of(profile: Profile) -> list[str]:
    """Return the names of the actuators."""
    return [name for name, table in profile.devices.items() if table.capabilities is not None]


def motors_of(profile: Profile) -> list[str]:
    """Return the names of the actuators that drive."""
    mixings = mixings_of(profile)
    return [name for name in actuators_of(profile) if name not in mixings or mixings[name].drives]


def motor_outputs(profile: Profile) -> list[MotorOutput]:
    """Return the outputs that drive, in the order of the profile."""
    found, mixings = list[MotorOutput](), mixings_of(profile)
    for name in motors_of(profile):
        if name not in mixings:
            found.append(MotorOutput(name, 0, "", Mix(throttle=1.0)))
            continue
        kind = resolve("driver", profile.devices[name].driver.name)
        labels = tuple(getattr(kind, "actuator_outputs", ())) or tuple(profile.devices[name].mix)
        found += [
            MotorOutput(name, number, label, row)
            for number, (label, row) in enumerate(zip(labels, mixings[name].rows, strict=True))
            if row.drive
        ]
    return found


def servo_of(profile: Profile) -> str:
    """Return the name of the first actuator that steers; empty if the sides are driven apart
    instead."""
    names, mixings = actuators_of(profile), mixings_of(profile)
    steers = (
        name
        for name in names
        if name not in mixings or any(row.steering for row in mixings[name].rows)
    )
    return next(steers, "")


def _params(profile: Profile, name: str) -> tuple[str, Any]:
    """Return the table of a device's driver, and its parameters."""
    table = profile.devices[name].driver
    return f"devices.{name}.driver.{table.name}", table.selected


def _sender(profile: Profile, message: str) -> str:
    """Return the first device of its own port that sends a type of message; empty if none."""
    return next(
        (name for name, table in devices_of(profile).items() if message in table.messages), ""
    )


def mps_per_motor_radps(profile: Profile) -> float | None:
    """Return speed over motor speed by the numbers of the actuator's driver, else of the vehicle;
    None if no motor speed comes."""
    name = _sender(profile, "MotorStatus")
    return mps_per_radps_of(profile, name) if name else None


def mps_per_radps_of(profile: Profile, name: str) -> float:
    """Return speed over motor speed of one actuator."""
    params = profile.devices[name].driver.selected
    if hasattr(params, "erpm_per_mps"):
        return float(params.pole_pairs * 30.0 / pi / abs(params.erpm_per_mps))
    return profile.vehicle.drive.wheel_radius_m * profile.vehicle.drive.gear_ratio


def motor_scales(profile: Profile) -> dict[str, float]:
    """Return speed over motor speed of each of several actuators that drive and report; empty where
    one drives."""
    names = motors_of(profile)
    if len(actuators_of(profile)) < 2:
        return {}
    return {
        name: mps_per_radps_of(profile, name)
        for name in names
        if "MotorStatus" in profile.devices[name].messages
    }


def speed_source(profile: Profile) -> str:
    """Return the type of the messages that give the speed; empty if none does."""
    return next(
        (
            message
            for message in ("MotorStatus", "WheelSpeed", "GnssFix")
            if _sender(profile, message)
        ),
        "",
    )


# ---------------------------------------------------------------- judges


def _ports(seen: Observed) -> Measured:
    verdicts, values = [], dict[str, tuple[Any, str]]()
    table = devices_of(seen.profile)
    exchanged: set[str] = set()
    for name, text in seen.arrived.items():
        other = next(
            (each for each in table if f'as "{each}" expects' in text and each != name), ""
        )
        if other and name not in exchanged:
            verdicts.append(f"the ports of {name} and {other} are exchanged")
            exchanged |= {name, other}
            mine, theirs = table[name].port.partition("?"), table[other].port.partition("?")
            for each, path, options in ((name, theirs[0], mine[1:]), (other, mine[0], theirs[1:])):
                values[f"devices.{each}.port"] = path + "".join(options), "found by what arrives"
    for name, text in seen.arrived.items():
        if name not in exchanged:
            verdicts.append(f"{name}: {text or 'answers as the profile expects'}")
    contradicted = False
    for name, (said, wrong) in seen.configurations.items():
        if name not in exchanged and not seen.arrived.get(name):
            verdicts += [f"{name}: {line}" for line in said]
            verdicts += [f"{name}: CONTRADICTION: {line}" for line in wrong]
            contradicted = contradicted or bool(wrong)
    return Measured(verdicts, values, bool(exchanged or contradicted or any(seen.arrived.values())))


def _matrix(roll: float, pitch: float, yaw: float) -> Array:
    z, y, x = (
        rotation(np.array(vector))
        for vector in ((0.0, 0.0, yaw), (0.0, pitch, 0.0), (roll, 0.0, 0.0))
    )
    return z @ y @ x


def _mounting(params: Any) -> Array:
    return _matrix(params.mounting_roll_rad, params.mounting_pitch_rad, params.mounting_yaw_rad)


def _unit(profile: Profile) -> tuple[str, Any]:
    """Return table and parameters of the inertial unit. Raises NotMeasuredError if its driver turns
    nothing."""
    name = _sender(profile, "ImuSample")
    table, params = _params(profile, name)
    if not hasattr(params, "mounting_roll_rad"):
        raise NotMeasuredError(
            f"the driver of {name} has no mounting: mount the unit as the driver expects"
        )
    return table, params


def _axes(seen: Observed) -> Measured:
    table, params = _unit(seen.profile)
    found = estimates.axes(seen.recording)
    whole = estimates.angles(_matrix(*found.value) @ _mounting(params))
    values = {}
    for name, angle, sigma in zip(("roll", "pitch", "yaw"), whole, found.sigma, strict=True):
        square = remainder(round(angle / (pi / 2)) * pi / 2, 2.0 * pi)
        angle = square if abs(angle - square) < SQUARE_SIGMAS * sigma else angle
        before = getattr(params, f"mounting_{name}_rad")
        if abs(remainder(angle - before, 2.0 * pi)) > SQUARE_SIGMAS * sigma:
            values[f"{table}.mounting_{name}_rad"] = (
                min(max(round(angle, 5), -3.14159), 3.14159),
                f"sigma {sigma:.2g} rad",
            )
    return Measured([found.verdict], values, found.wrong)


def _accelerometer(seen: Observed) -> Measured:
    table, params = _unit(seen.profile)
    found = estimates.accelerometer(seen.recording, _mounting(params).T)
    b0, k0 = np.array(params.accelerometer_bias_mps2), np.array(params.accelerometer_scale)
    bias, factor = b0 + np.array(found.value[:3]) / k0, k0 * np.array(found.value[3:])
    return Measured(
        [found.verdict],
        {
            f"{table}.accelerometer_bias_mps2": (
                _rounded(bias, 4),
                f"sigma {max(found.sigma[:3]):.2g} m/s2",
            ),
            f"{table}.accelerometer_scale": (
                _rounded(factor, 5),
                f"sigma {max(found.sigma[3:]):.2g}",
            ),
        },
        found.wrong,
    )


def _rounded(values: Sequence[float] | Array, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]


def _push(seen: Observed) -> Measured:
    profile = seen.profile
    if speed_source(profile) == "GnssFix":
        raise NotMeasuredError(
            "no wheel and no motor reports its speed, so that there is nothing to calibrate: "
            "skip this step"
        )
    if seen.recording.motors:
        return _pushed_motors(seen)
    return _pushed_by(seen, _sender(profile, speed_source(profile)), seen.recording)


def _pushed_motors(seen: Observed) -> Measured:
    """Judge the counts of each of several motors."""
    verdicts, values, wrong = list[str](), dict[str, tuple[Any, str]](), False
    for name in seen.recording.motors:
        try:
            one = _pushed_by(seen, name, seen.recording.of_motor(name))
        except NotMeasuredError as error:
            verdicts.append(f"{name}: {error}")
            wrong = True
            continue
        verdicts += [f"{name}: {verdict}" for verdict in one.verdicts]
        # Wheel and gear of the vehicle are written once, by the first motor.
        values = one.values | values
        wrong = wrong or one.wrong
    if not values:
        raise NotMeasuredError("; ".join(verdicts))
    return Measured(verdicts, values, wrong)


def _pushed_by(seen: Observed, source: str, recording: StepRecording) -> Measured:
    profile = seen.profile
    table, params = _params(profile, source)
    found = estimates.pushed(
        recording, float(seen.answers["metres"]), getattr(params, "pole_pairs", None)
    )
    ratio, share = found.value[0], found.sigma[0] / abs(found.value[0])
    if not hasattr(params, "erpm_per_mps"):
        return Measured(
            [
                found.verdict,
                f"the driver of {source} has no scale to write: correct its own settings",
            ],
            {},
            found.wrong,
        )
    sigma = f"sigma {100.0 * share:.1f} %"
    values: dict[str, tuple[Any, str]] = {
        f"{table}.erpm_per_mps": (_digits(params.erpm_per_mps * ratio, 5), sigma)
    }
    other = estimates.other_pole_pairs(abs(ratio), found.sigma[0], params.pole_pairs)
    if other is not None:
        values[f"{table}.pole_pairs"] = other, "by the distance"
    # Filters take the speed of the motor by gear and wheel: their product must say the same.
    drive = profile.vehicle.drive
    reduced_m = (other or params.pole_pairs) * 30.0 / pi / abs(params.erpm_per_mps * ratio)
    change = reduced_m / (drive.wheel_radius_m * drive.gear_ratio)
    if abs(change - 1.0) > 0.002:
        key = "wheel_radius_m" if abs(change - 1.0) < 0.15 else "gear_ratio"
        values[f"vehicle.drive.{key}"] = _digits(getattr(drive, key) * change, 5), sigma
        values["vehicle.drive.inertia_kgm2"] = (
            _digits(drive.inertia_kgm2 * change**2, 5),
            "by mass, wheel and gear",
        )
    verdicts = [found.verdict]
    if hasattr(params, "behind") and found.wrong:
        verdicts.append(
            f"this is the mean of its controllers; multiply erpm_per_mps of those behind it by "
            f"{ratio:.3f}, too"
        )
    return Measured(verdicts, values, found.wrong)


def _digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _motor(seen: Observed) -> Measured:
    if seen.runs:
        return _motors(seen)
    found = estimates.direction(seen.recording, seen.answers["forward"] == "y")
    drive, odometry = found.value
    table, params = _params(seen.profile, motors_of(seen.profile)[0])
    keys = (
        ("erpm_per_mps",)
        if hasattr(params, "erpm_per_mps")
        else ("throttle_range_us", "brake_range_us", "reverse_range_us")
    )
    values: dict[str, tuple[Any, str]] = {}
    if drive < 0.0 and hasattr(params, keys[0]):
        values = {
            f"{table}.{key}": (-getattr(params, key), "the sign was seen")
            for key in keys
            if getattr(params, key)
        }
    # Both directions of such a driver follow from one sign: eyes and counts cannot part but by a
    # wrong answer.
    if odometry * drive < 0.0 and len(keys) == 1:
        raise NotMeasuredError(
            "the wheels were seen to turn one way and counted the other: do the step push, "
            "then look again"
        )
    return Measured([found.verdict], values, found.wrong)


WHEELS = {
    "1": "front left", "2": "front right", "3": "rear left", "4": "rear right",
    "l": "all on the left", "r": "all on the right", "a": "left and right", "n": "none",
}  # fmt: skip
"""Answers to which wheels a motor turned."""
_SIDE_OF = {"1": "left", "3": "left", "l": "left", "2": "right", "4": "right", "r": "right"}


def _motors(seen: Observed) -> Measured:
    """Judge several motors that were driven one by one."""
    verdicts, values = list[str](), dict[str, tuple[Any, str]]()
    wrong, crossed = False, list[MotorOutput]()
    for run in seen.runs:
        motor, wheel = run.motor, run.answers["wheel"]
        counts = _counts(run.recording)
        if wheel == "n":
            verdicts.append(
                f"{motor.label}: no wheel turned, "
                + (
                    "although it counts: its wheel is loose"
                    if counts
                    else "and it counts nothing: look at its power, its phases and its number"
                )
            )
            wrong = True
            continue
        forward = run.answers["forward"] == "y"
        side = _SIDE_OF.get(wheel, "")
        said = f"{motor.label}: turns {WHEELS[wheel]}, {'forward' if forward else 'BACKWARD'}"
        if motor.side and side and motor.side != side:
            said += f", where the profile says {motor.side}"
            crossed.append(motor)
        verdicts.append(said)
        if not forward:
            values |= _turned_round(seen.profile, motor)
        wrong = wrong or not forward
    for motor in crossed:
        values |= _other_side(motor, "the wheel was seen")
    if crossed:
        names = " and ".join(motor.label for motor in crossed)
        verdicts.append(f"left and right are exchanged: {names}")
    return Measured(verdicts, values, wrong or bool(crossed))


def _counts(recording: StepRecording) -> bool:
    return bool(np.abs(recording.speed_mps).max(initial=0.0) > 0.1)


def _turned_round(profile: Profile, motor: MotorOutput) -> dict[str, tuple[Any, str]]:
    """Return the values that turn a motor round: its scale, or the sign of its row in ``mix``."""
    table, params = _params(profile, motor.device)
    note = "the sign was seen"
    alone = [each.device for each in motor_outputs(profile)].count(motor.device) == 1
    if alone and hasattr(params, "erpm_per_mps"):
        return {f"{table}.erpm_per_mps": (-params.erpm_per_mps, note)}
    key = f"devices.{motor.device}.mix.{motor.name}"
    return {
        f"{key}.{column}": (-gain, note)
        for column in ("throttle", "left", "right")
        if (gain := getattr(motor.row, column))
    }


def _other_side(motor: MotorOutput, note: str) -> dict[str, tuple[Any, str]]:
    """Return the values that put a motor to the other side."""
    key = f"devices.{motor.device}.mix.{motor.name}"
    return {f"{key}.left": (motor.row.right, note), f"{key}.right": (motor.row.left, note)}


SERVO_KEYS = {
    "servo_center": ("servo_gain", "servo_min", "servo_max"),
    "steering_center_us": ("steering_range_us", "", ""),
}
"""Keys of drivers that hold a servo: by the key of its centre those of full steering and of its
ends."""
JOG_RANGE = (0.05, 0.95)
"""Positions between which the ends of a servo are looked for."""


def _servo(profile: Profile) -> tuple[str, Any, str, str]:
    """Return table, parameters, and the keys of centre and of full steering."""
    if not servo_of(profile):
        return "", None, "", ""
    table, params = _params(profile, servo_of(profile))
    for centre, (full, _, _) in SERVO_KEYS.items():
        if hasattr(params, centre):
            return table, params, centre, full
    return table, params, "", ""


def jog_overrides(profile: Profile) -> list[str]:
    """Return overrides with which the servo can be moved beyond the ends of the profile, for the
    step that finds them."""
    table, params, centre, full = _servo(profile)
    if centre != "servo_center":
        return []
    low, high = JOG_RANGE
    room = max(high - params.servo_center, params.servo_center - low)
    values = {
        "servo_min": low,
        "servo_max": high,
        full: room if getattr(params, full) > 0.0 else -room,
    }
    return [f"{table}.{key}={value}" for key, value in values.items()]


def _ends(seen: Observed) -> Measured:
    table, params, centre, full = _servo(seen.profile)
    if centre != "servo_center":
        raise NotMeasuredError(
            "the driver has no ends of the servo: its range follows from the circles"
        )
    if set(seen.jogged) != {"left", "right"}:
        raise NotMeasuredError(
            "both ends are needed: drive the servo to each, and end its way there"
        )
    low, high = JOG_RANGE
    places = {
        side: min(max(getattr(params, centre) + getattr(params, full) * u, low), high)
        for side, u in seen.jogged.items()
    }
    least, most = sorted(places.values())
    if most - least < 0.1:
        raise NotMeasuredError("the two ends are at nearly the same position: did the servo move?")
    reversed_servo = (places["left"] - places["right"]) * getattr(params, full) < 0.0
    values: dict[str, tuple[Any, str]] = {
        f"{table}.servo_min": (round(least, 3), "as the linkage allows, sigma 0.01"),
        f"{table}.servo_max": (round(most, 3), "as the linkage allows, sigma 0.01"),
    }
    middle = 0.5 * (least + most)
    if not least <= params.servo_center <= most:
        values[f"{table}.servo_center"] = round(middle, 3), "middle of the ends"
    if reversed_servo:
        values[f"{table}.{full}"] = -getattr(params, full), "the sign was seen"
    verdict = f"the servo may go from {least:.3f} to {most:.3f}"
    verdict += (
        "; it is reversed: a command to the left turned the wheels to the right" * reversed_servo
    )
    return Measured([verdict], values, reversed_servo)


def _steering(seen: Observed) -> Measured:
    profile = seen.profile
    wheelbase_m = profile.vehicle.wheelbase_m
    if seen.answers.get("left", "") and seen.answers.get("right", ""):
        pairs = [(0.6, float(seen.answers["left"])), (-0.6, -float(seen.answers["right"]))]
        found = estimates.steering_of_circles(pairs, wheelbase_m)
    else:
        found = estimates.steering(seen.recording, wheelbase_m)
    if not servo_of(profile):
        return _sides(profile, found)
    return Measured([found.verdict], _steering_values(profile, found), found.wrong)


def _sides(profile: Profile, found: Estimate) -> Measured:
    """Judge the circles of a vehicle that turns by driving its sides apart."""
    gain = found.value[0]
    if gain < 0.0:
        motors = [motor for motor in motor_outputs(profile) if motor.side]
        names = " and ".join(motor.label for motor in motors)
        values = dict[str, tuple[Any, str]]()
        for motor in motors:
            values |= _other_side(motor, "by the gyro")
        verdict = (
            "left and right are exchanged, by the gyro: at a command to the left it turned right; "
            f"{names}"
        )
        return Measured([verdict], values, True)
    # A track that is larger than that of the profile turns the vehicle less, in the same ratio.
    ratio = profile.vehicle.steering.gain_rad / gain
    key = "wheelbase_m" if profile.vehicle.skid_steer else "track_m"
    track = getattr(profile.vehicle, key) * ratio
    verdict = f"it turns as with {track:.3g} m of {key.removesuffix('_m')}"
    sigma = f"sigma {found.sigma[0] / gain * 100.0:.2g} %"
    return Measured([verdict], {f"vehicle.{key}": (_digits(track, 4), sigma)}, False)


def _steering_values(profile: Profile, found: Estimate) -> dict[str, tuple[Any, str]]:
    gain, straight, delay = found.value
    table, params, centre, full = _servo(profile)
    gain_sigma = f"sigma {found.sigma[0]:.2g} rad"
    values: dict[str, tuple[Any, str]] = {}
    angle = abs(gain)
    if centre:
        moves = getattr(params, full)
        middle = getattr(params, centre) + moves * straight
        full_move = abs(moves)
        least, most = (
            getattr(params, key, None) if key else None for key in SERVO_KEYS[centre][1:]
        )
        if least is not None and most is not None:
            middle = min(max(middle, least + 0.02), most - 0.02)
            # Full steering is as far as the servo goes on its shorter side.
            full_move = min(middle - least, most - middle)
        angle *= full_move / abs(moves)
        sign = -1.0 if (moves < 0.0) is (gain > 0.0) else 1.0
        values[f"{table}.{centre}"] = _digits(middle, 4), f"sigma {found.sigma[1] * abs(moves):.2g}"
        values[f"{table}.{full}"] = _digits(sign * full_move, 4), gain_sigma
        values["vehicle.steering.offset_rad"] = 0.0, "the servo's centre holds it"
    else:
        values["vehicle.steering.offset_rad"] = (
            _digits(-gain * straight, 3),
            f"sigma {found.sigma[1] * angle:.2g} rad",
        )
    values["vehicle.steering.gain_rad"] = _digits(angle, 4), gain_sigma
    values["vehicle.steering.max_wheel_rad"] = _digits(angle, 4), "as far as the servo may go"
    if isfinite(delay) and found.sigma[2] < inf:
        values["vehicle.steering.delay_s"] = round(delay, 3), f"sigma {found.sigma[2]:.2g} s"
    return values


def _run(seen: Observed) -> Measured:
    drive = seen.profile.vehicle.drive
    start, brake = estimates.straight_run(
        seen.recording, max(0.0, -drive.acceleration_mps2(0.0, 0.5))
    )
    values: dict[str, tuple[Any, str]] = {
        "vehicle.drive.delay_s": (round(start.value[0], 3), f"sigma {start.sigma[0]:.2g} s"),
    }
    if not brake.wrong:
        values["vehicle.drive.brake_deceleration_mps2"] = (
            _digits(brake.value[0], 3),
            f"sigma {brake.sigma[0]:.2g} m/s2",
        )
    return Measured([start.verdict, brake.verdict], values, start.wrong or brake.wrong)


def _turn(seen: Observed) -> Measured:
    profile, rec = seen.profile, seen.recording
    verdicts, values, wrong, begin = [], dict[str, tuple[Any, str]](), False, None
    gnss, heading = _sender(profile, "GnssFix"), _sender(profile, "Heading")
    if not gnss and not heading:
        raise NotMeasuredError(
            "neither GNSS nor a heading device is in the profile: skip this step"
        )
    if gnss:
        try:
            found, begin = estimates.antenna(rec)
        except NotMeasuredError as error:
            if not (heading and rec.magnetic):
                raise
            verdicts.append(f"antenna: {error}")
        else:
            verdicts.append(found.verdict)
            up = profile.devices[gnss].lever_arm_m[2]
            values[f"devices.{gnss}.lever_arm_m"] = (
                [*_rounded(found.value, 3), up],
                f"sigma {max(found.sigma):.2g} m; up by ruler",
            )
    if heading and rec.magnetic:
        verdict, more, off = _compass(profile, heading, rec, begin)
        verdicts.append(verdict)
        values |= more
        wrong = off
    return Measured(verdicts, values, wrong)


def _compass(
    profile: Profile, name: str, rec: StepRecording, begin: float | None
) -> tuple[str, dict[str, tuple[Any, str]], bool]:
    table, params = _params(profile, name)
    if not hasattr(params, "compass_deviation_rad") or profile.devices[name].driver.name == "sbg":
        return (
            f"the driver of {name} takes no deviation: calibrate the compass in the device",
            {},
            False,
        )
    offset = params.yaw_offset_rad
    # The deviation belongs to the yaw that the device itself shows.
    shown = np.array([_undone(params.compass_deviation_rad, yaw - offset) for yaw in rec.yaw_rad])
    found = estimates.compass(structs.replace(rec, yaw_rad=shown), begin)
    *factors, constant = found.value
    values: dict[str, tuple[Any, str]] = {
        f"{table}.compass_deviation_rad": (
            _rounded(factors, 4),
            f"sigma {max(found.sigma[:4]):.2g} rad",
        ),
    }
    if not isnan(constant):
        values[f"{table}.yaw_offset_rad"] = (
            round(remainder(-constant, 2.0 * pi), 4),
            f"sigma {found.sigma[4]:.2g} rad",
        )
    return found.verdict, values, found.wrong


def _undone(factors: Sequence[float], yaw: float) -> float:
    """Return the yaw that a device showed before its deviation was taken away."""
    b, c, d, e = factors
    shown = yaw
    for _ in range(30 if any(factors) else 0):
        shown = yaw + b * sin(shown) + c * cos(shown) + d * sin(2.0 * shown) + e * cos(2.0 * shown)
    return shown


# ---------------------------------------------------------------- table

STEPS = (
    SetupStep(
        "ports", "every device answers at its port", "none",
        "Switch all devices on. Nothing moves.",
        _ports, reads_configurations=True, seconds=SLOW_S,
    ),
    SetupStep(
        "accelerometer", "bias and scale of the accelerometer", "by hand",
        "Lay the vehicle still on each of its six sides for 2 s: on its wheels, on its back, "
        "nose up, nose down, left side up, "
        "left side down. It need not be exact, and you may hold it. The line below names what is "
        "missing; {enter} when "
        "nothing is.",
        _accelerometer, needs=("ImuSample",),
    ),
    SetupStep(
        "imu", "axes of the inertial unit", "by hand",
        "Put the vehicle on a level floor and {enter}. Leave it for 2 s; lift its front by "
        "10 to 20 cm and put it "
        "down; turn it to the left by about 90 degrees, on the floor; leave it for 1 s and {enter}"
        ".",
        _axes, needs=("ImuSample",),
    ),
    SetupStep(
        "push", "scale and sign of the odometry", "by hand",
        "Mark 5 m on the floor. Put the rear axle at the first mark, wheels straight, and {enter}"
        ". Leave it for 2 s, push it "
        "forward to the second mark at a walking pace, and {enter}.",
        _push, questions=(Question("metres", "distance that it was pushed, m", usual="5"),),
        needs=("speed",),
    ),
    SetupStep(
        "motor", "direction of the motor", "wheels off the ground",
        "Put the vehicle on a block so that no wheel touches anything. Then {enter}, and hold "
        "{hold} for 2 s and watch the "
        "wheels. They turn only while it is held.",
        _motor, WheelsFree,
        (
            Question("wheel", "which wheels turned?", options=WHEELS, of_several=True),
            Question(
                "forward", "did the wheels turn forward?", options={"y": "yes", "n": "no"},
                unless={"wheel": "n"},
            ),
        ), each_motor=True,
    ),
    SetupStep(
        "servo", "ends of the servo", "wheels off the ground",
        "On the block still: {enter}. Hold {left} until the wheels are fully "
        "left, just before the servo hums, and "
        "{enter}; then {right}, and {enter}. Use the other key if they turn the "
        "wrong way.",
        _ends, ServoJog,
    ),
    SetupStep(
        "run", "delay of the drive, and brake", "drives",
        "Put it on the floor with 5 m of free way ahead. Then {enter}, and hold {hold}: "
        "it drives straight ahead and "
        "brakes. It brakes as soon as you let go.",
        _run, BrakeDrive, needs=("speed",),
    ),
    SetupStep(
        "circle", "centre, gain and delay of the steering", "drives",
        "It needs room of 12 wheelbases in each direction. Then {enter}, leave it for 2 s, then "
        "hold {hold} for 15 s: it "
        "drives circles at walking pace, and brakes as soon as you let go. Hold it again to go on.",
        _steering, CircleDrive,
        (
            Question(
                "left", "diameter of its circle to the left, by the middle of the rear axle, m",
                instead_of="ImuSample",
            ),
            Question("right", "diameter of its circle to the right, m", instead_of="ImuSample"),
        ),
        needs=("speed",),
    ),
    SetupStep(
        "turn", "antenna and compass", "by hand",
        "Outdoors, with RTK fixed. Then {enter} and leave it for 2 s. Lift the front wheels a "
        "little and turn it once round on the "
        "middle of its rear axle, to the left, in about 15 s. Leave it for 2 s, push it 3 m "
        "straight ahead, and {enter}.",
        _turn, needs=("ImuSample",),
    ),
)  # fmt: skip
"""All steps, in the order in which each can rely on those before: a biased accelerometer tilts the
axes."""
BY_NAME = {step.name: step for step in STEPS}


def questions(step: SetupStep, profile: Profile) -> list[Question]:
    """Return the questions of a step that this vehicle needs."""
    several = len(motor_outputs(profile)) > 1
    return [
        each
        for each in step.questions
        if not (each.instead_of and _sender(profile, each.instead_of))
        and (several or not each.of_several)
    ]


def pace(profile: Profile) -> Pace:
    """Return speeds, throttles and circles for a vehicle."""
    return Pace.of(
        profile.vehicle, profile.limits.max_speed_mps, by_tape=not _sender(profile, "ImuSample")
    )


def missing(step: SetupStep, profile: Profile) -> str:
    """Return why a step cannot be done with this profile; empty if it can."""
    for need in step.needs:
        if need == "speed" and not speed_source(profile):
            return "nothing in the profile reports a speed"
        if need != "speed" and not _sender(profile, need):
            return f"no device with a port sends {need}"
    if step.manoeuvre is not None and not devices_of(profile).keys() >= {*actuators_of(profile)}:
        return "an actuator has no port"
    if step.manoeuvre is ServoJog and not servo_of(profile):
        return "no servo steers"
    return ""


def toml_values(measured: Measured, day: str) -> dict[str, str]:
    """Return the values as TOML with a comment that says when they were measured, and how well."""
    return {
        key: f"{value_text(value)}  # measured {day}, {note}"
        for key, (value, note) in measured.values.items()
    }
