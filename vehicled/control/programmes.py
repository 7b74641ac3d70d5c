"""Named programmes: open-loop manoeuvres of the ISO standards and of published data sets, fitted to
a vehicle.

Example: ``step_steer:speed_mps=20,ay_mps2=4``. The wheel angle is given, or computed from the
lateral acceleration as ``atan(wheelbase ay / v^2)``, ignoring tyre slip. Default speeds are a
fraction of what vehicle and limits allow.
"""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from math import atan, ceil, cos, expm1, isfinite, log, pi, radians, sin

from vehicled.control.programme import ProgrammeParams
from vehicled.control.programme_file import ProgrammeError
from vehicled.core.vehicle import Limits, Vehicle

STEP_S = 0.02
DEFAULT_FRACTION = 0.7
"""Default fraction of the highest speed and of the lateral acceleration limit."""


class Fit:
    """Default values that follow from a vehicle and its limits."""

    def __init__(self, vehicle: Vehicle, limits: Limits) -> None:
        self._vehicle = vehicle
        self.ay_mps2 = DEFAULT_FRACTION * limits.max_lateral_acceleration_mps2
        self.speed_mps = DEFAULT_FRACTION * min(limits.max_speed_mps, vehicle.drive.top_speed_mps)
        self.lock_rad = vehicle.steering.max_wheel_rad

    def wheel_rad(self, speed_mps: float, ay_mps2: float) -> float:
        """Return the wheel angle for a lateral acceleration at a speed, within the mechanical stop;
        left positive."""
        angle = atan(self._vehicle.wheelbase_m * ay_mps2 / (speed_mps * speed_mps))
        return min(max(angle, -self.lock_rad), self.lock_rad)

    def radius_wheel_rad(self, radius_m: float) -> float:
        """Return the wheel angle for a radius, within the mechanical stop."""
        return min(atan(self._vehicle.wheelbase_m / radius_m), self.lock_rad)

    @property
    def circle_m(self) -> float:
        """Radius of the default steady circle, m: twice the tightest one."""
        return 2.0 * self._vehicle.min_turn_radius_m


def _held(
    name: str, speed_mps: float, rows: list[tuple[float, float]], end_turn_rad: float = 0.0
) -> ProgrammeParams:
    """Return a programme from rows (time, wheel angle) at a constant speed."""
    return ProgrammeParams(
        name=name,
        t_s=[t for t, _ in rows],
        wheel_angle_rad=[wheel for _, wheel in rows],
        speed_mps=[speed_mps] * len(rows),
        holds_speed=[True] * len(rows),
        entry_speed_mps=speed_mps,
        end_turn_rad=end_turn_rad,
    )


def step_steer(
    fit: Fit, speed_mps: float = 0.0, ay_mps2: float = 0.0, rise_s: float = 0.2, hold_s: float = 5.0
) -> ProgrammeParams:
    """Hold the speed; turn the wheels to the angle of ``ay_mps2`` within ``rise_s`` and hold them
    (ISO 7401). Negative: right."""
    v, ay = speed_mps or fit.speed_mps, ay_mps2 or fit.ay_mps2
    wheel = fit.wheel_rad(v, ay)
    return _held(
        "step_steer",
        v,
        [(0.0, 0.0), (1.0, 0.0), (1.0 + rise_s, wheel), (1.0 + rise_s + hold_s, wheel)],
    )


def j_turn(
    fit: Fit,
    speed_mps: float = 0.0,
    ay_mps2: float = 0.0,
    rise_s: float = 0.5,
    turn_deg: float = 180.0,
) -> ProgrammeParams:
    """Drive a step steer until the vehicle has turned by ``turn_deg``."""
    v, ay = speed_mps or fit.speed_mps, ay_mps2 or fit.ay_mps2
    wheel = fit.wheel_rad(v, ay)
    longest_s = 3.0 * radians(turn_deg) * v / abs(ay)
    rows = [(0.0, 0.0), (1.0, 0.0), (1.0 + rise_s, wheel), (1.0 + rise_s + longest_s, wheel)]
    return _held("j_turn", v, rows, end_turn_rad=radians(turn_deg))


def sine_with_dwell(
    fit: Fit,
    speed_mps: float = 0.0,
    ay_mps2: float = 0.0,
    frequency_hz: float = 0.7,
    dwell_s: float = 0.5,
) -> ProgrammeParams:
    """Steer one sine period with a dwell at the second peak (ISO 19365), amplitude from
    ``ay_mps2``, without throttle."""
    v, ay = speed_mps or min(80.0 / 3.6, fit.speed_mps), ay_mps2 or fit.ay_mps2
    wheel, peak_s = fit.wheel_rad(v, ay), 0.75 / frequency_hz
    times = _times(1.0 / frequency_hz)
    first = [(t, wheel * sin(2.0 * pi * frequency_hz * t)) for t in times if t < peak_s]
    second = [(t + dwell_s, wheel * sin(2.0 * pi * frequency_hz * t)) for t in times if t > peak_s]
    rows = [*first, (peak_s, -wheel), (peak_s + dwell_s, -wheel), *second]
    end_s = 1.0 / frequency_hz + dwell_s
    rows = [*(row for row in rows if row[0] < end_s - 1e-9), (end_s, 0.0), (end_s + 2.0, 0.0)]
    n = len(rows)
    return ProgrammeParams(
        name="sine_with_dwell",
        t_s=[t for t, _ in rows],
        wheel_angle_rad=[w for _, w in rows],
        throttle=[0.0] * n,
        entry_speed_mps=v,
    )


def chirp(
    fit: Fit,
    speed_mps: float = 0.0,
    ay_mps2: float = 0.0,
    from_hz: float = 0.1,
    to_hz: float = 2.0,
    sweep_s: float = 30.0,
) -> ProgrammeParams:
    """Steer a sine of exponentially growing frequency at constant speed (ISO 7401)."""
    v, ay = speed_mps or fit.speed_mps, ay_mps2 or 0.5 * fit.ay_mps2
    wheel, growth = fit.wheel_rad(v, ay), log(to_hz / from_hz) / sweep_s
    times = _times(sweep_s)
    angle = [2.0 * pi * from_hz * (expm1(growth * t) / growth if growth else t) for t in times]
    rows = [(t, wheel * sin(a)) for t, a in zip(times, angle, strict=True)]
    return _held("chirp", v, rows)


def brake_in_turn(
    fit: Fit,
    speed_mps: float = 0.0,
    ay_mps2: float = 0.0,
    brake: float = 0.5,
    turn_s: float = 4.0,
    brake_s: float = 4.0,
) -> ProgrammeParams:
    """Drive a steady turn, then brake with the wheels held (ISO 7975)."""
    return _in_turn("brake_in_turn", fit, speed_mps, ay_mps2, brake, turn_s, brake_s)


def lift_off_in_turn(
    fit: Fit,
    speed_mps: float = 0.0,
    ay_mps2: float = 0.0,
    turn_s: float = 4.0,
    coast_s: float = 4.0,
) -> ProgrammeParams:
    """Drive a steady turn, then release the throttle with the wheels held (ISO 9816)."""
    return _in_turn("lift_off_in_turn", fit, speed_mps, ay_mps2, 0.0, turn_s, coast_s)


def _in_turn(
    name: str,
    fit: Fit,
    speed_mps: float,
    ay_mps2: float,
    brake: float,
    turn_s: float,
    after_s: float,
) -> ProgrammeParams:
    v, ay = speed_mps or fit.speed_mps, ay_mps2 or fit.ay_mps2
    wheel = fit.wheel_rad(v, ay)
    times = [0.0, 1.0, 1.0 + turn_s, 1.0 + turn_s + STEP_S, 1.0 + turn_s + after_s]
    return ProgrammeParams(
        name=name,
        t_s=times,
        wheel_angle_rad=[0.0, wheel, wheel, wheel, wheel],
        speed_mps=[v, v, v, 0.0, 0.0],
        throttle=[0.0] * 5,
        brake=[0.0, 0.0, 0.0, brake, brake],
        holds_speed=[True, True, False, False, False],
        entry_speed_mps=v,
    )


def steady_circle(
    fit: Fit, radius_m: float = 0.0, speed_mps: float = 0.0, rate_mps2: float = 0.1
) -> ProgrammeParams:
    """Hold the wheel angle of a radius and accelerate by ``rate_mps2`` to ``speed_mps`` (ISO 4138,
    constant steering angle).

    The yaw rate then shows the understeer gradient.
    """
    radius = radius_m or max(fit.circle_m, min(30.0, 4.0 * fit.circle_m))
    v = speed_mps or min(fit.speed_mps, (fit.ay_mps2 * radius) ** 0.5)
    wheel, start = fit.radius_wheel_rad(radius), 0.2 * v
    seconds = (v - start) / rate_mps2
    return ProgrammeParams(
        name="steady_circle",
        t_s=[0.0, 2.0, 4.0, 4.0 + seconds, 6.0 + seconds],
        wheel_angle_rad=[0.0, wheel, wheel, wheel, wheel],
        speed_mps=[start, start, start, v, v],
        entry_speed_mps=start,
    )


def straight(fit: Fit, throttle: float = 0.3, duration_s: float = 10.0) -> ProgrammeParams:
    """Drive AutoDRIVE's straight: constant throttle, straight wheels."""
    return _by_throttle("straight", throttle, [(0.0, 0.0), (duration_s, 0.0)])


def skidpad(
    fit: Fit, throttle: float = 0.3, wheel_rad: float = 0.1047, duration_s: float = 30.0
) -> ProgrammeParams:
    """Drive AutoDRIVE's skidpad: constant throttle and wheel angle."""
    return _by_throttle(
        "skidpad", throttle, [(0.0, 0.0), (1.0, wheel_rad), (duration_s, wheel_rad)]
    )


def fishhook(
    fit: Fit, throttle: float = 0.3, rate_radps: float = 0.006, duration_s: float = 60.0
) -> ProgrammeParams:
    """Drive AutoDRIVE's fishhook: constant throttle, wheels turned slowly at a constant rate."""
    end = min(rate_radps * duration_s, fit.lock_rad)
    return _by_throttle(
        "fishhook",
        throttle,
        [(0.0, 0.0), (end / rate_radps, end), (max(duration_s, end / rate_radps + 0.1), end)],
    )


def slalom(
    fit: Fit,
    throttle: float = 0.3,
    wheel_rad: float = 0.1047,
    rate_radps: float = 0.9,
    duration_s: float = 30.0,
) -> ProgrammeParams:
    """Drive AutoDRIVE's slalom: constant throttle, wheels at ``wheel_rad`` cos(``rate_radps``
    t)."""
    return _by_throttle(
        "slalom", throttle, [(t, wheel_rad * cos(rate_radps * t)) for t in _times(duration_s)]
    )


def _by_throttle(name: str, throttle: float, rows: list[tuple[float, float]]) -> ProgrammeParams:
    n = len(rows)
    return ProgrammeParams(
        name=name,
        t_s=[t for t, _ in rows],
        wheel_angle_rad=[w for _, w in rows],
        throttle=[throttle] * n,
    )


def _times(duration_s: float) -> list[float]:
    n = ceil(duration_s / STEP_S)
    return [k * duration_s / n for k in range(n + 1)]


PROGRAMMES: dict[str, Callable[..., ProgrammeParams]] = {
    function.__name__: function
    for function in (
        step_steer, j_turn, sine_with_dwell, chirp, brake_in_turn, lift_off_in_turn, steady_circle,
        straight, skidpad, fishhook, slalom,
    )
}  # fmt: skip
MAX_VALUE = 1e4


def named(text: str, vehicle: Vehicle, limits: Limits) -> ProgrammeParams:
    """Return the programme of a text such as ``step_steer:speed_mps=5,ay_mps2=2``. Raises
    ProgrammeError with the valid choices."""
    name, _, given = text.partition(":")
    if name not in PROGRAMMES:
        close = get_close_matches(name, PROGRAMMES, n=1, cutoff=0.5)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        raise ProgrammeError(
            f'no programme "{name[:60]}"; {hint}known: {", ".join(PROGRAMMES)}; or give a .csv file'
        )
    function = PROGRAMMES[name]
    known = [key for key in inspect.signature(function).parameters if key != "fit"]
    values: dict[str, float] = {}
    for item in filter(None, given.split(",")):
        key, equals, number = item.partition("=")
        if key not in known or not equals:
            raise ProgrammeError(
                f'{name}: "{item[:40]}" is not a parameter of this programme; write key=value, '
                f"known: {', '.join(known)}"
            )
        try:
            values[key] = float(number)
        except ValueError:
            raise ProgrammeError(f'{name}: {key} is "{number[:40]}"; it must be a number') from None
        signed = key in ("ay_mps2", "wheel_rad", "throttle")
        if not (
            isfinite(values[key])
            and 0.0 < abs(values[key]) <= MAX_VALUE
            and (signed or values[key] > 0.0)
        ):
            raise ProgrammeError(
                f"{name}: {key} is {number[:40]}; it must be "
                f"{'a number other than 0' if signed else 'above 0'}"
            )
    try:
        return function(Fit(vehicle, limits), **values)
    except ValueError as error:
        raise ProgrammeError(f"{name}: {error}") from None
