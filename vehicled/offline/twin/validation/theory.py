"""Checks of every vehicle against theory, without reference data."""

from collections.abc import Callable
from math import inf, log2, sqrt, tan

import numpy as np

from sim_backend.plant.double_track.checks import ParameterError
from sim_backend.plant.double_track.constants import GRAVITY_MPS2
from sim_backend.plant.double_track.ground import Plane
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.parameters import Motor, TwinParameters
from vehicled.offline.twin.validation.result import TheoryCheck
from vehicled.offline.twin.validation.rig import (
    angle_rad,
    brisk_mps,
    drive,
    energy_j,
    ideal,
    linear_gradient,
    relaxation_m,
    steered,
    stiff,
)

_GENTLE_MPS2 = 0.02
"""Lateral acceleration at which every tyre is linear."""
_CRAWL_MPS = 0.05
_STIFFER = 50.0
"""Stiffness factor of the tyres for the kinematic limit; they need a finer step."""
_FINE_S = 1e-4
_SPEEDS = (0.5, 1.0, 2.0)
"""Speeds of the yaw gain check, relative to the brisk speed."""

CheckOutcome = tuple[str, str, bool | None]
"""Result, expectation, and pass or fail; None: not applicable."""
_NO_STEERING: CheckOutcome = ("does not steer its wheels", "", None)


def check_vehicle(parameters: TwinParameters) -> list[TheoryCheck]:
    """Run all checks of a vehicle. Never raises for a vehicle that loads."""
    return [
        TheoryCheck(parameters.identity.name, title, *_found(check, parameters))
        for title, check in CHECKS.items()
    ]


def _found(
    check: Callable[[TwinParameters], CheckOutcome], parameters: TwinParameters
) -> CheckOutcome:
    try:
        return check(parameters)
    except ParameterError as error:
        return str(error), "a vehicle that the check can vary", False


def static_loads(p: TwinParameters) -> CheckOutcome:
    """Check that a standing vehicle's wheels carry its weight, distributed by axle distances and
    weight shift."""
    table, _ = drive(p, np.zeros((500, 3)), 0.0)
    loads = [float(table[f"fz_{wheel}"][-1]) for wheel in ("fl", "fr", "rl", "rr")]
    weight = p.body.mass_kg * GRAVITY_MPS2
    front = weight * (
        (p.body.wheelbase_m - p.body.cg_to_front_m) / p.body.wheelbase_m + p.body.weight_shift
    )
    off = max(abs(sum(loads) / weight - 1.0), abs((loads[0] + loads[1]) / front - 1.0))
    return f"off by {off:.1e}", "loads sum to m g, front axle to its share, within 1e-9", off < 1e-9


def mirror(p: TwinParameters) -> CheckOutcome:
    """Check that left and right mirror each other bit by bit."""
    steps = np.arange(2000)
    ends = []
    for sign in (1.0, -1.0):
        commands = steered(sign * max(angle_rad(p), 0.05) * np.sin(0.004 * steps), len(steps))
        commands[:1500, 1], commands[1500:, 2] = 0.3, 0.2
        table, _ = drive(p, commands, brisk_mps(p))
        ends.append(
            [
                table["x"],
                sign * table["y"],
                sign * table["yaw"],
                table["vx"],
                sign * table["vy"],
                sign * table["roll"],
            ]
        )
    difference = float(np.max(np.abs(np.array(ends[0]) - np.array(ends[1]))))
    return (
        "equal" if difference == 0.0 else f"apart by {difference:.1e}",
        "mirrored run bit-equal",
        difference == 0.0,
    )


def rest_on_slope(p: TwinParameters) -> CheckOutcome:
    """Check that brakes and rolling resistance hold the vehicle on a slope within their limits."""
    weight = p.body.mass_kg * GRAVITY_MPS2
    resistance = min(p.front.tyre.rolling_resistance, p.rear.tyre.rolling_resistance)
    hold = (
        p.powertrain.hold_torque_nm * p.powertrain.reduction
        if isinstance(p.powertrain, Motor)
        else 0.0
    )
    torque = 2.0 * (p.brakes.front_torque_nm + p.brakes.rear_torque_nm) + hold
    slope = min(0.1, 0.5 * (torque / p.rear.loaded_radius_m / weight + resistance))
    if slope < 1e-3:
        return "no brake or rolling resistance", "", None
    model = DoubleTrack(p, ground=Plane(slope_x=slope))
    places = []
    for _ in range(4000):
        model.step(0.0, 0.0, 1.0)
        places.append(model.state.x_m)
    crept = abs(places[-1] - places[2000])
    return (
        f"crept {crept:.1e} m in 2 s at {100 * slope:.1f} %",
        "not one bit in 2 s, after 2 s to settle",
        crept == 0.0,
    )


def kinematic(p: TwinParameters) -> CheckOutcome:
    """Check that at a crawl the wheels do not slip: yaw rate v (tan front - tan rear) / L."""
    angle = angle_rad(p)
    if not angle:
        return _NO_STEERING
    # Carcasses relax over a distance, so crawling takes time.
    distance = 6.0 * max(relaxation_m(p.front), relaxation_m(p.rear))
    steps = int(min(max(distance / _CRAWL_MPS, 2.0), 60.0) * 1000)
    table, _ = drive(ideal(p), steered(angle, steps), _CRAWL_MPS)
    curvature = (tan(angle) - tan(p.steering.rear_ratio * angle)) / p.body.wheelbase_m
    off = float(table["yaw_rate"][-1] / (table["vx"][-1] * curvature)) - 1.0
    return (
        f"off by {100 * off:+.2f} %",
        f"yaw rate of the kinematic model within 1 % at {_CRAWL_MPS:g} m/s",
        abs(off) < 0.01,
    )


def yaw_gain(p: TwinParameters) -> CheckOutcome:
    """Check the steady yaw rate per steering angle v / (L + K v^2) with the K of the linear single
    track."""
    if not angle_rad(p):
        return _NO_STEERING
    length, gradient = linear_gradient(p, DoubleTrack(p).constants)
    worst = 0.0
    for factor in _SPEEDS:
        inverse, speed = _inverse_gain(p, factor * brisk_mps(p))
        worst = max(worst, abs((length + gradient * speed**2) / (speed * inverse) - 1.0))
    return (
        f"off by {100 * worst:.2f} %",
        "v / (L + K v^2) of linear theory within 2 %",
        worst < 0.02,
    )


def characteristic_speed(p: TwinParameters) -> CheckOutcome:
    """Check the speed of an understeering vehicle's largest yaw gain, sqrt(L / K), or an
    oversteering one's critical speed, sqrt(-L / K).
    """
    if not angle_rad(p):
        return _NO_STEERING
    length, gradient = linear_gradient(p, DoubleTrack(p).constants)
    inverse, speed = _inverse_gain(p, _SPEEDS[-1] * brisk_mps(p))
    measured = (speed * inverse - length) / speed**2
    wanted = (
        "sqrt(L / |K|) of linear theory within 5 %, or a K that is negligible at the driven speed"
    )
    if max(abs(gradient), abs(measured)) * speed**2 < 0.02 * length:
        return f"none: K {measured:+.1e}, theory {gradient:+.1e} rad s2/m", wanted, True
    ours, theirs = sqrt(length / abs(measured)), sqrt(length / abs(gradient)) if gradient else inf
    kind = "characteristic" if measured > 0 else "critical"
    holds = measured * gradient > 0 and abs(ours / theirs - 1.0) < 0.05
    return f"{kind} speed {ours:.2f} m/s, theory {theirs:.2f} m/s", wanted, holds


def _inverse_gain(p: TwinParameters, speed_mps: float) -> tuple[float, float]:
    """Return the steering angle per yaw rate in a steady gentle turn, and its speed."""
    c = DoubleTrack(p).constants
    length, gradient = linear_gradient(p, c)
    angle = _GENTLE_MPS2 * abs(length + gradient * speed_mps**2) / speed_mps**2
    lag = 10.0 * max(relaxation_m(p.front), relaxation_m(p.rear)) / speed_mps
    table, _ = drive(ideal(p), steered(angle, int((4.0 + min(lag, 10.0)) * 1000)), speed_mps)
    return angle / float(table["yaw_rate"][-1]), float(table["vx"][-1])


def energy(p: TwinParameters) -> CheckOutcome:
    """Check that the vehicle loses energy after a turn without input."""
    commands = steered(0.0, 4000)
    commands[:500, 0] = angle_rad(p)
    vehicle = ideal(p)
    table, model = drive(vehicle, commands, brisk_mps(p))
    values = energy_j(model.constants, table)[501:]
    growth = float(np.max(values - np.minimum.accumulate(values)) / values[0])
    return (
        f"grows by {growth:.1e} (relative)",
        "grows by less than 1e-4 (relative) without input",
        growth < 1e-4,
    )


def step_halving(p: TwinParameters) -> CheckOutcome:
    """Check that halving the step halves the error: the integration is of first order."""
    ends = []
    vehicle = ideal(p)
    for step_s in (2e-3, 1e-3, 5e-4, 1.25e-4):
        steps = round(3.0 / step_s) + 1
        angles = angle_rad(p) * np.sin(np.pi * step_s * np.arange(steps))
        table, _ = drive(vehicle, steered(angles, steps), brisk_mps(p), step_s)
        ends.append(
            np.array([table["x"][-1], table["y"][-1], table["yaw"][-1] * p.body.wheelbase_m])
        )
    _, middle, fine = (float(np.linalg.norm(end - ends[-1])) for end in ends[:-1])
    # The reference at 1/8 ms has an error too: at first order, 1 ms differs (1 - 1/8) / (1/2 - 1/8)
    # times as much as 1/2 ms.
    order = log2(middle / fine) - log2(0.875 / 0.375) + 1.0 if fine > 0.0 and middle > 0.0 else inf
    small = middle < 1e-4 * brisk_mps(p)
    return (
        f"order {order:.2f}, {1e3 * middle:.2g} mm at 1 ms",
        "order at least 0.8, or 1 ms in time at 1 ms",
        order > 0.8 or small,
    )


def four_dof_limit(p: TwinParameters) -> CheckOutcome:
    """Check that on tyres without slip the rear axle follows the kinematic single track of the
    4-DOF model."""
    angle = angle_rad(p)
    if not angle or p.steering.rear_ratio:
        return "not steered by the front axle alone", "", None
    angles = 0.5 * angle * np.sin(np.pi * _FINE_S * np.arange(round(3.0 / _FINE_S)))
    table, _ = drive(stiff(ideal(p), _STIFFER), steered(angles, len(angles)), brisk_mps(p), _FINE_S)
    wanted = table["vx"] * np.tan(angles) / p.body.wheelbase_m
    rear = p.body.wheelbase_m - p.body.cg_to_front_m
    sideways = (table["vy"] - rear * table["yaw_rate"]) / p.body.wheelbase_m
    off = np.maximum(np.abs(table["yaw_rate"] - wanted), np.abs(sideways))[round(0.2 / _FINE_S) :]
    worst = float(off.max() / np.abs(wanted).max())
    return (
        f"off by {100 * worst:.2f} %",
        f"v tan(steer) / L within 2 % on tyres {_STIFFER:g} times as stiff, like the 4-DOF model",
        worst < 0.02,
    )


CHECKS: dict[str, Callable[[TwinParameters], CheckOutcome]] = {
    "static loads": static_loads,
    "mirror symmetry": mirror,
    "rest on a slope": rest_on_slope,
    "kinematic limit": kinematic,
    "yaw gain": yaw_gain,
    "characteristic speed": characteristic_speed,
    "energy": energy,
    "step halving": step_halving,
    "4-DOF limit": four_dof_limit,
}
