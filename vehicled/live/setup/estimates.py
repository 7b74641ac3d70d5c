"""Estimators of the set-up: pure functions of the samples of one step. Each returns value, standard
deviation and a verdict.

What a person does by hand is less exact than any sensor: level ground, a lift about the axle, five
metres by tape. Those errors are stated as constants here and are part of every standard deviation.
Methods: six positions, W. T. Fong et al., "Methods for in-field user calibration of an inertial
measurement unit without external equipment", 2008, and ArduPilot's AccelCalibrator; compass, the
coefficients of deviation of Archibald Smith, "Admiralty manual for the deviations of the compass",
1874; steering and speed, the tuning guides of MuSHR and F1TENTH, with gyro and wheels in the place
of a tape.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import atan, atan2, cos, degrees, hypot, inf, isfinite, pi, remainder, sin, sqrt, tan

import numpy as np
from msgspec import Struct

from vehicled.core.errors import UserError
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.live.setup.recording import Array, StepRecording

LEVEL_RAD = 0.006
"""Standard deviation of a floor that is called level, and of the accelerometer's bias as an
angle."""
LIFT_RAD = 0.03
"""Standard deviation of the axis about which a person lifts the front."""
TAPE_M = 0.02
"""Standard deviation of a distance over which a vehicle is pushed along a tape."""
LATE_S = 0.03
"""Standard deviation of the time between two speeds beyond which they are not summed."""
STRAIGHT_RAD = 0.015
"""Standard deviation of the direction in which a person pushes."""
GRAVITY_RATIO = 0.002
"""Standard deviation of gravity on the earth, as a ratio."""
SCALE_RATIO = 0.01
"""Standard deviation of the speed, as a ratio, after the push."""
BLOCK_S = 0.25
STILL_RADPS, STILL_MPS2 = 0.05, 0.4
"""Largest angular rate about its mean, and deviation of the specific force, of a unit that nobody
touches."""
STEADY_RADPS = 0.005
"""Change of the mean rate that begins a motion, however slowly."""
LEAST_LIFT_RAD, LEAST_TURN_RAD = 0.17, 0.5
AT_STOP_RAD = 0.02
WHOLE_TURN_RAD = 5.8
"""Turn on the spot that shows all directions, rad."""
PAUSE_RAD, PAUSE_S = 0.12, 1.0
"""A turn is over where less than this is left of it, and the vehicle rests before it is pushed."""
SIDES = (
    "front up",
    "front down",
    "left side up",
    "left side down",
    "the right way up",
    "upside down",
)


class NotMeasuredError(UserError):
    """The samples of a step do not show what is sought. The text says what to do."""


class Estimate(Struct, frozen=True):
    """Result of one estimator."""

    value: tuple[float, ...]
    """Numbers, as the estimator documents them."""
    sigma: tuple[float, ...]
    """Standard deviations of the numbers."""
    verdict: str
    """Sentence for the user."""
    wrong: bool = False
    """True if the profile contradicts the vehicle: a sign, an axis, a number of pole pairs."""


def still_spans(rec: StepRecording, least_s: float = 0.5) -> list[tuple[int, int]]:
    """Return the spans of inertial samples, first and one past the last, during which the vehicle
    stood still."""
    if not rec.has_imu:
        return []
    edges = np.searchsorted(rec.imu_s, np.arange(rec.imu_s[0], rec.imu_s[-1] + BLOCK_S, BLOCK_S))
    spans: list[tuple[int, int]] = []
    for low, high in pairwise(edges.tolist()):
        rate, force = rec.rate_radps[low:high], rec.force_mps2[low:high]
        # A shaking unit has a large spread, a turning one a large mean.
        still = (
            high - low >= 5
            and np.abs(rate.mean(0)).max() < STILL_RADPS
            and rate.std(0).max() < STILL_RADPS
        )
        if not still or force.std(0).max() > STILL_MPS2:
            continue
        together = bool(spans) and spans[-1][1] == low
        if together:
            before = slice(spans[-1][0], low)
            doubt = STEADY_RADPS + 3.0 * rate.std(0).max() / sqrt(high - low)
            together = bool(
                np.abs(force.mean(0) - rec.force_mps2[before].mean(0)).max() < 0.2
                and np.abs(rate.mean(0) - rec.rate_radps[before].mean(0)).max() < doubt
            )
        spans = [*spans[:-1], (spans[-1][0], high)] if together else [*spans, (low, high)]
    return [
        (low, high)
        for low, high in spans
        if rec.imu_s[high - 1] - rec.imu_s[low] > least_s - BLOCK_S
    ]


def _still_means(rec: StepRecording, low: int, high: int) -> tuple[Array, Array]:
    """Return mean force and rate of a span."""
    return rec.force_mps2[low:high].mean(0), rec.rate_radps[low:high].mean(0)


def _began_still(rec: StepRecording) -> tuple[int, int]:
    spans = still_spans(rec)
    if not rec.has_imu:
        raise NotMeasuredError("no inertial samples arrive")
    if not spans or rec.imu_s[spans[0][0]] - rec.imu_s[0] > 2.0:
        raise NotMeasuredError(
            "the vehicle was not still at the beginning: leave it untouched for two seconds "
            "once it records"
        )
    low, high = spans[0]
    # The end may be the beginning of a motion.
    return low, max(
        low + (high - low) // 2, int(np.searchsorted(rec.imu_s, rec.imu_s[high - 1] - BLOCK_S))
    )


def _rotated(rec: StepRecording, low: int, bias: Array) -> Iterator[tuple[int, Array]]:
    """Yield sample numbers from ``low`` on, and the rotation from the body then to the body at
    ``low``."""
    attitude = np.eye(3)
    for k in range(low + 1, len(rec.imu_s)):
        turned = (
            0.5
            * (rec.rate_radps[k] + rec.rate_radps[k - 1] - 2.0 * bias)
            * (rec.imu_s[k] - rec.imu_s[k - 1])
        )
        attitude = attitude @ rotation(turned)
        yield k, attitude


def rotation(vector: Array) -> Array:
    """Return the matrix (3, 3) of a rotation vector (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector / angle if angle > 1e-12 else vector
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    matrix: Array = np.eye(3) + sin(angle) * cross + (1.0 - cos(angle)) * cross @ cross
    return matrix


def angles(matrix: Array) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a rotation Rz(yaw) Ry(pitch) Rx(roll)."""
    level = hypot(matrix[0, 0], matrix[1, 0])
    pitch = atan2(-matrix[2, 0], level)
    if level < 1e-6:
        # The x axis is vertical, so that only the sum of roll and yaw shows.
        return 0.0, pitch, atan2(-matrix[0, 1], matrix[1, 1])
    return atan2(matrix[2, 1], matrix[2, 2]), pitch, atan2(matrix[1, 0], matrix[0, 0])


def axes(rec: StepRecording) -> Estimate:
    """Estimate the axes of an inertial unit: still, then the front lifted and put down, then turned
    to the left on the ground.

    Values: roll, pitch, yaw of the rotation from the axes as recorded to those of the body, rad.
    Gravity at rest is up, the axis of the lift is the right side. Raises :class:`NotMeasuredError`.
    """
    low, high = _began_still(rec)
    force, bias = _still_means(rec, low, high)
    up = force / np.linalg.norm(force)
    tilts: list[tuple[float, int, Array]] = []
    path = list(_rotated(rec, high - 1, bias))
    for k, attitude in path:
        tilts.append((float(np.arccos(np.clip(up @ attitude @ up, -1.0, 1.0))), k, attitude))
    tilt, peak, lifted = max(tilts, key=lambda each: each[0], default=(0.0, 0, np.eye(3)))
    if tilt < LEAST_LIFT_RAD:
        raise NotMeasuredError(
            f"the front was lifted by {degrees(tilt):.0f} degrees: lift it by 20 to 40 and put "
            "it down again"
        )
    near = np.abs(rec.imu_s - rec.imu_s[peak]) < 0.1
    felt = rec.force_mps2[near].mean(0)
    felt /= np.linalg.norm(felt)
    if felt @ (lifted.T @ up) < felt @ (lifted @ up):
        raise NotMeasuredError(
            "gyro and accelerometer contradict each other: when one feels the front rise, the "
            "other feels it fall. An axis of one of them has the wrong sign, which no mounting "
            "explains: check the driver and its axes"
        )
    # A front that rises turns about the right side.
    left = (_axis(lifted) @ up) * up - _axis(lifted)
    left /= np.linalg.norm(left)
    down = next((k for angle, k, _ in tilts if k > peak and angle < 0.25 * tilt), len(rec.imu_s))
    turn = sum(
        float((rec.rate_radps[k] - bias) @ up) * (rec.imu_s[k] - rec.imu_s[k - 1])
        for k in range(down, len(rec.imu_s))
    )
    if turn < -LEAST_TURN_RAD:
        raise NotMeasuredError(
            "it turned to the right. If it was turned to the left, seen from above, then the "
            "accelerometer has the opposite sign (z is +9.81 m/s2 when level): check the driver"
        )
    if turn < LEAST_TURN_RAD:
        raise NotMeasuredError(
            "it was not turned after the lift: turn it to the left by about 90 degrees, on the "
            "ground"
        )
    found = np.array([np.cross(left, up), left, up])
    roll, pitch, yaw = angles(found)
    off = float(np.arccos(np.clip((np.trace(found) - 1.0) / 2.0, -1.0, 1.0)))
    sigma = (LEVEL_RAD, LEVEL_RAD, LIFT_RAD)
    if off < 3.0 * LIFT_RAD + 3.0 * LEVEL_RAD:
        return Estimate(
            (roll, pitch, yaw),
            sigma,
            f"the axes of the inertial unit are right, within {degrees(off):.1f} degrees",
        )
    names = [_direction(found[:, k]) for k in range(3)]
    verdict = (
        f"the unit is turned: its x axis points {names[0]}, y {names[1]}, z {names[2]}, by the "
        "profile forward, left, up"
    )
    return Estimate((roll, pitch, yaw), sigma, verdict, off > 0.35)


def _axis(matrix: Array) -> Array:
    """Return the axis of a rotation by less than half a turn, not normalised."""
    return np.array(
        [matrix[2, 1] - matrix[1, 2], matrix[0, 2] - matrix[2, 0], matrix[1, 0] - matrix[0, 1]]
    )


def _direction(vector: Array) -> str:
    k = int(np.argmax(np.abs(vector)))
    return (("forward", "back"), ("left", "right"), ("up", "down"))[k][int(vector[k] < 0.0)]


def sides(rec: StepRecording) -> dict[str, Array]:
    """Return the mean specific force on each of the six sides on which the vehicle has lain still
    so far."""
    found: dict[str, list[Array]] = {}
    for low, high in still_spans(rec, 1.0):
        force, _ = _still_means(rec, low, high)
        k = int(np.argmax(np.abs(force)))
        if abs(force[k]) > 0.75 * np.linalg.norm(force):
            found.setdefault(SIDES[2 * k + int(force[k] < 0.0)], []).append(force)
    return {name: np.mean(forces, axis=0) for name, forces in found.items()}


def accelerometer(rec: StepRecording, to_case: Array) -> Estimate:
    """Estimate bias and scale of an accelerometer from the six sides, by the length of gravity on
    each.

    ``to_case`` (3, 3) rotates from the recorded axes to those of the case. Values: bias of the
    three axes of the case, m/s2, then three factors: ``true = factor (measured - bias)``. Raises
    :class:`NotMeasuredError`.
    """
    forces = sides(rec)
    if missing := [name for name in SIDES if name not in forces]:
        raise NotMeasuredError(f"not seen still for a second: {', '.join(missing)}")
    measured = np.array([to_case @ force for force in forces.values()])
    bias, factor = np.zeros(3), np.ones(3)
    jacobian = np.empty((len(measured), 6))
    for _ in range(12):
        true = factor * (measured - bias)
        length = np.linalg.norm(true, axis=1)
        jacobian = np.hstack((-true * factor, true * (measured - bias))) / length[:, None]
        step = np.linalg.lstsq(jacobian, STANDARD_GRAVITY_MPS2 - length, rcond=None)[0]
        bias, factor = bias + step[:3], factor + step[3:]
    spans = still_spans(rec, 1.0)
    noise = max(
        float(rec.force_mps2[low:high].std(0).max()) / sqrt(high - low) for low, high in spans
    )
    # Hands and floors tremble slowly, which a mean does not remove.
    spread = np.sqrt(np.diag(np.linalg.pinv(jacobian.T @ jacobian))) * hypot(noise, 0.01)
    sigma = (*spread[:3], *np.hypot(spread[3:], GRAVITY_RATIO))
    if np.abs(bias).max() > 3.0 or np.abs(factor - 1.0).max() > 0.2:
        raise NotMeasuredError(
            f"bias {np.abs(bias).max():.1f} m/s2: no accelerometer is so wrong; was it still "
            "on each side?"
        )
    verdict = f"bias {_triple(bias)} m/s2, scale {_triple(factor)}"
    return Estimate(
        (*bias.tolist(), *factor.tolist()),
        tuple(float(s) for s in sigma),
        verdict,
        bool(np.abs(bias).max() > 0.6),
    )


def _triple(values: Array) -> str:
    return "(" + ", ".join(f"{value:.3f}" for value in values) + ")"


def pushed(rec: StepRecording, distance_m: float, pole_pairs: int | None) -> Estimate:
    """Estimate the scale of the odometry of a vehicle that was pushed forward by hand.

    Value: measured distance over true one, negative if the odometry counts backward. Raises
    :class:`NotMeasuredError`.
    """
    if len(rec.speed_s) < 10:
        raise NotMeasuredError(
            "no speed of wheel or motor arrives: this step needs a controller that reports it"
        )
    measured_m = float(np.trapezoid(rec.speed_mps, rec.speed_s))
    if abs(measured_m) < 0.02 * distance_m:
        raise NotMeasuredError(
            "the controller saw no motion. A motor without sensors is not seen when it turns "
            "slowly: push faster, or measure by driving"
        )
    top_mps = float(np.abs(rec.speed_mps).max())
    period_s = float(np.median(np.diff(rec.speed_s)))
    # What a trapezium cannot see: the ends of the motion, and samples that came late.
    late_s = float(np.diff(rec.speed_s).std())
    if late_s > LATE_S:
        raise NotMeasuredError(
            f"the speed arrives irregularly, by {1e3 * late_s:.0f} ms, so that its sum is no "
            "distance: the computer is overloaded"
        )
    sigma = (
        abs(measured_m / distance_m)
        * hypot(TAPE_M, 0.3 * top_mps * period_s, top_mps * late_s)
        / distance_m
    )
    if _pushed_backward(rec, top_mps):
        raise NotMeasuredError("it was pushed backward, by its accelerometer: push it forward")
    ratio = measured_m / distance_m
    return Estimate((ratio,), (sigma,), *scale_verdict(ratio, sigma, pole_pairs))


def _pushed_backward(rec: StepRecording, top_mps: float) -> bool:
    if not rec.has_imu:
        return False
    moving = np.nonzero(np.abs(rec.speed_mps) > 0.1 * top_mps)[0]
    fast = np.nonzero(np.abs(rec.speed_mps) > 0.8 * top_mps)[0]
    before = rec.imu_s < rec.speed_s[moving[0]] - 0.2
    rising = (rec.imu_s >= rec.speed_s[moving[0]] - 0.2) & (rec.imu_s <= rec.speed_s[fast[0]])
    if before.sum() < 10 or rising.sum() < 3:
        return False
    gained = float(np.sum(rec.force_mps2[rising, 0] - rec.force_mps2[before, 0].mean())) * float(
        np.median(np.diff(rec.imu_s))
    )
    return gained < -0.15


def scale_verdict(ratio: float, sigma: float, pole_pairs: int | None) -> tuple[str, bool]:
    """Return what a ratio of measured to true distance says, and whether the profile is wrong."""
    parts = []
    if ratio < 0.0:
        parts.append("the odometry counts backward: the motor is reversed")
    size = abs(ratio)
    other = other_pole_pairs(size, sigma, pole_pairs)
    if other is not None:
        parts.append(
            f"it counts {size:.2f} times the distance, as a motor with {other} pole pairs does "
            f"where the profile has {pole_pairs}; or the gear is {size:.2f} times that of the "
            "profile"
        )
    elif not 0.85 <= size <= 1.15:
        parts.append(
            f"it counts {size:.2f} times the distance: gear or wheel radius of the profile is wrong"
        )
    wrong = bool(parts)
    return "; ".join(
        parts
    ) or f"the odometry counts {size:.3f} times the distance, as wheels and tyres differ", wrong


def other_pole_pairs(size: float, sigma: float, pole_pairs: int | None) -> int | None:
    """Return the number of pole pairs that explains a ratio, if it is another than that of the
    profile."""
    if pole_pairs is None or pole_pairs > 14:
        return None
    other = round(size * pole_pairs)
    fits = other >= 1 and abs(size * pole_pairs / other - 1.0) < 3.0 * sigma / size + 0.04
    return other if fits and other != pole_pairs else None


def direction(rec: StepRecording, seen_forward: bool | None) -> Estimate:
    """Estimate the sign of drive and odometry from wheels off the ground that were driven forward.

    ``seen_forward``: what the user saw; None if nobody looked. Values: sign of the drive, sign of
    the odometry against it; 1 or -1, NaN if unknown. Raises :class:`NotMeasuredError`.
    """
    driven = (
        np.interp(rec.speed_s, rec.command_s, rec.commands[:, 0]) > 0.02
        if len(rec.command_s)
        else np.zeros(0, bool)
    )
    counts = float(np.sum(rec.speed_mps[driven])) if driven.any() else 0.0
    known = float(np.abs(rec.speed_mps[driven]).max(initial=0.0)) > 0.1
    if not known and seen_forward is None:
        raise NotMeasuredError("the wheels did not turn: hold the key longer")
    drive = float("nan") if seen_forward is None else 1.0 if seen_forward else -1.0
    odometry = (1.0 if counts > 0.0 else -1.0) if known else float("nan")
    parts = []
    if drive < 0.0:
        parts.append("the motor is reversed: a command forward turns the wheels backward")
    if odometry < 0.0:
        parts.append(
            "the speed counts backward while it drives forward by its own command: the "
            "sensor's direction is wrong"
        )
    verdict = "; ".join(parts) or "the motor turns forward, and its speed counts forward"
    return Estimate((drive, odometry), (0.0, 0.0), verdict, bool(parts))


def _speeds_at(rec: StepRecording, times: Array) -> Array:
    return (
        np.interp(times, rec.speed_s, rec.speed_mps) if len(rec.speed_s) else np.zeros(len(times))
    )


def steering(rec: StepRecording, wheelbase_m: float, most: float = 0.8) -> Estimate:
    """Estimate the steering from circles at several commands: gyro against wheel speed.

    Values: wheel angle per command, rad, negative if the wheels turn to the other side; command at
    which the vehicle drives straight; delay of the steering, s. Raises :class:`NotMeasuredError`.
    """
    low, high = _began_still(rec)
    _, bias = _still_means(rec, low, high)
    yaw_radps = rec.rate_radps[:, 2] - bias[2]
    rows = []
    for begin, end, command in _held(rec):
        inside = (rec.imu_s > begin + 0.5) & (rec.imu_s < end)
        speed = _speeds_at(rec, rec.imu_s[inside])
        inside_rate = yaw_radps[inside]
        driven = np.abs(speed) > 0.2
        if driven.sum() < 20 or abs(command) > most:
            continue
        v, w = speed[driven], inside_rate[driven]
        curvature = float(v @ w / (v @ v))
        # Neighbouring samples err alike: a fifth of them count.
        doubt = sqrt(float(np.mean((w - curvature * v) ** 2)) / float(v @ v) * 5.0)
        slope = wheelbase_m / (1.0 + (wheelbase_m * curvature) ** 2)
        rows.append((command, atan(wheelbase_m * curvature), max(slope * doubt, 2e-3)))
    commands = {row[0] for row in rows}
    if len(commands) < 3 or min(commands, default=0.0) >= 0.0 or max(commands, default=0.0) <= 0.0:
        raise NotMeasuredError(
            "too little was driven on both sides: hold the key until all circles are driven"
        )
    u, angle, doubt_rad = np.array(rows).T
    gain, offset, covariance = _fitted(u, angle, doubt_rad)
    inner = np.abs(u) < 0.5
    if inner.sum() >= 3:
        # At large commands the wheels may stand at their stops, where they show nothing of the
        # gain.
        near, middle, _ = _fitted(u[inner], angle[inner], doubt_rad[inner])
        kept = inner | (
            np.abs(angle - near * u - middle) < np.maximum(AT_STOP_RAD, 4.0 * doubt_rad)
        )
        u, angle, doubt_rad = u[kept], angle[kept], doubt_rad[kept]
        gain, offset, covariance = _fitted(u, angle, doubt_rad)
    residual = (angle - gain * u - offset) / doubt_rad
    # Where the linkage is not straight, the residuals say so.
    covariance = covariance * max(1.0, float(residual @ residual) / max(1, len(u) - 2))
    if abs(gain) < 3.0 * sqrt(covariance[0, 0]) or abs(gain) < 0.02:
        raise NotMeasuredError("the vehicle did not follow the steering: does the servo move?")
    straight = -offset / gain
    gain_sigma = hypot(sqrt(covariance[0, 0]), SCALE_RATIO * gain)
    straight_sigma = hypot(sqrt(covariance[1, 1]), straight * sqrt(covariance[0, 0])) / abs(gain)
    delay, delay_sigma = _steering_delay(rec, yaw_radps, wheelbase_m)
    parts = []
    if gain < 0.0:
        parts.append(
            "the steering is reversed: a command to the left turns the wheels to the right"
        )
    if abs(straight) > 0.4:
        parts.append(
            "the servo's centre is far off: move its horn by a tooth before you write this"
        )
    elif abs(straight) > 3.0 * straight_sigma and abs(straight) > 0.02:
        parts.append(f"it drives straight at the command {straight:+.3f}")
    verdict = f"{degrees(abs(gain)):.1f} degrees of wheel angle at full command; " + (
        "; ".join(parts) or "the centre is right"
    )
    return Estimate(
        (float(gain), float(straight), delay),
        (gain_sigma, straight_sigma, delay_sigma),
        verdict,
        bool(gain < 0.0),
    )


def _fitted(u: Array, angle: Array, doubt: Array) -> tuple[float, float, Array]:
    """Return gain and offset of a line by weighted least squares, and their covariance."""
    design = np.column_stack((u, np.ones(len(u)))) / doubt[:, None]
    covariance = np.asarray(np.linalg.inv(design.T @ design), float)
    gain, offset = covariance @ design.T @ (angle / doubt)
    return float(gain), float(offset), covariance


def steering_of_circles(circles: Sequence[tuple[float, float]], wheelbase_m: float) -> Estimate:
    """Estimate the steering from measured turning circles: pairs of command and diameter, m, of the
    middle of the rear axle.

    A diameter is positive for a circle to the left. Values and errors as :func:`steering`; the
    delay is NaN.
    """
    if {diameter > 0.0 for _, diameter in circles} != {True, False}:
        raise NotMeasuredError("circles to both sides are needed")
    u = np.array([command for command, _ in circles])
    angle = np.array([atan(2.0 * wheelbase_m / diameter) for _, diameter in circles])
    doubt = (
        np.array(
            [
                wheelbase_m / (1.0 + (2.0 * wheelbase_m / d) ** 2) * 2.0 * 2.0 * TAPE_M / d**2
                for _, d in circles
            ]
        )
        + 2e-3
    )
    gain, offset, covariance = _fitted(u, angle, doubt)
    straight = -offset / gain
    sigma = (sqrt(covariance[0, 0]), sqrt(covariance[1, 1]) / abs(gain), inf)
    verdict = (
        f"{degrees(abs(gain)):.1f} degrees of wheel angle at full command; it drives straight "
        f"at the command {straight:+.3f}"
    )
    verdict += (
        "; the steering is reversed: a command to the left turns the wheels to the right"
        * bool(gain < 0.0)
    )
    return Estimate((float(gain), float(straight), float("nan")), sigma, verdict, bool(gain < 0.0))


def _held(rec: StepRecording, least_s: float = 1.0) -> list[tuple[float, float, float]]:
    """Return spans of constant steering under throttle: begin, end, command."""
    spans: list[tuple[float, float, float]] = []
    begin = 0
    for k in range(1, len(rec.command_s) + 1):
        if k == len(rec.command_s) or rec.commands[k, 2] != rec.commands[begin, 2]:
            if (
                rec.command_s[k - 1] - rec.command_s[begin] >= least_s
                and rec.commands[begin:k, 0].any()
            ):
                spans.append(
                    (
                        float(rec.command_s[begin]),
                        float(rec.command_s[k - 1]),
                        float(rec.commands[begin, 2]),
                    )
                )
            begin = k
    return spans


def _steering_delay(
    rec: StepRecording, yaw_radps: Array, wheelbase_m: float
) -> tuple[float, float]:
    """Return the time from a step of the command to the first motion of the wheels, by the ramp
    between, and its sigma."""
    speed = _speeds_at(rec, rec.imu_s)
    angle = np.arctan(wheelbase_m * yaw_radps / np.where(np.abs(speed) > 0.2, speed, np.nan))
    found = []
    spans = _held(rec)
    for (_, before_end, before), (begin, _, after) in pairwise(spans):
        if begin - before_end > 0.1 or abs(after - before) < 0.3:
            continue
        old = angle[(rec.imu_s > begin - 0.4) & (rec.imu_s < begin)]
        new = angle[(rec.imu_s > begin + 0.7) & (rec.imu_s < begin + 1.0)]
        window = (rec.imu_s >= begin) & (rec.imu_s < begin + 0.7)
        if not len(old) or not len(new) or not window.any():
            continue
        level = (angle[window] - np.nanmean(old)) / (np.nanmean(new) - np.nanmean(old))
        times = rec.imu_s[window] - begin
        first, last = (
            float(times[int(np.argmax(level >= share))]) if (level >= share).any() else float("nan")
            for share in (0.2, 0.8)
        )
        if isfinite(first + last):
            found.append(first - (last - first) / 3.0)
    if not found:
        return float("nan"), inf
    spread = float(np.median(np.abs(np.array(found) - np.median(found))))
    return max(0.0, float(np.median(found))), hypot(1.5 * spread / sqrt(len(found)), 0.01)


def straight_run(rec: StepRecording, friction_mps2: float) -> tuple[Estimate, Estimate]:
    """Estimate delay of the drive, s, and deceleration of the brake without ``friction_mps2``,
    m/s2, from a start and a stop.

    Raises :class:`NotMeasuredError`.
    """
    drives, brakes = (np.nonzero(rec.commands[:, k] > 0.0)[0] for k in (0, 1))
    brakes = brakes[brakes > drives[0]] if len(drives) else brakes
    if not len(drives) or not len(brakes) or len(rec.speed_s) < 20:
        raise NotMeasuredError("the run was not driven to its end: hold the key until it brakes")
    started, stopped = float(rec.command_s[drives[0]]), float(rec.command_s[brakes[0]])
    top = float(np.abs(rec.speed_mps).max())
    if top < 0.3:
        raise NotMeasuredError("it did not get faster than 0.3 m/s")
    if _pushed_backward(rec, top):
        raise NotMeasuredError(
            "it drove backward, by its accelerometer: do the steps push and motor first"
        )
    rising = (rec.speed_s > started) & (rec.speed_s < stopped)
    peak = float(np.abs(rec.speed_mps[rising]).max())
    first = rec.speed_s[rising][int(np.argmax(np.abs(rec.speed_mps[rising]) > 0.4 * peak))]
    ramp = rising & (np.abs(rec.speed_mps) > 0.08 * peak) & (rec.speed_s <= first)
    if ramp.sum() < 4:
        raise NotMeasuredError("the start was too short to see the delay")
    slope, constant, sigma_s = _line(rec.speed_s[ramp] - started, np.abs(rec.speed_mps[ramp]))
    period_s = float(np.median(np.diff(rec.speed_s)))
    delay = max(0.0, -constant / slope)
    doubt_s = hypot(sigma_s, period_s / sqrt(12.0), 0.005)
    start = Estimate(
        (delay,), (doubt_s,), f"it starts {1e3 * delay:.0f} ms after the command", delay > 0.5
    )
    after = rec.speed_s > stopped
    speed, times = np.abs(rec.speed_mps[after]), rec.speed_s[after]
    braking = (speed < 0.85 * speed[:3].max()) & (speed > 0.15 * speed[:3].max())
    braking &= times < times[int(np.argmin(speed > 0.1 * speed[:3].max()))] + period_s
    if braking.sum() < 3:
        raise NotMeasuredError("the stop was too short to measure: nothing was braked")
    slope, _, _ = _line(times[braking], speed[braking])
    spread = float(
        np.std(
            speed[braking]
            - np.polyval(np.polyfit(times[braking], speed[braking], 1), times[braking])
        )
    )
    span = float(np.ptp(times[braking]))
    brake_mps2 = -slope - friction_mps2
    doubt = hypot(
        max(spread, 0.01) * sqrt(12.0 / braking.sum()) / max(span, period_s), 0.03 * abs(brake_mps2)
    )
    if brake_mps2 < max(3.0 * doubt, 0.1):
        brake = Estimate(
            (max(brake_mps2, 0.0),), (doubt,), "the brake does nothing: it coasts", True
        )
    else:
        brake = Estimate((brake_mps2,), (doubt,), f"the brake gives {brake_mps2:.2f} m/s2")
    return start, brake


def _line(x: Array, y: Array) -> tuple[float, float, float]:
    """Return slope, constant, and the sigma of where the line crosses zero."""
    (slope, constant), residual = np.polyfit(x, y, 1), 0.0
    if len(x) > 2:
        residual = float(np.std(y - slope * x - constant)) * sqrt(len(x) / (len(x) - 2))
    return float(slope), float(constant), residual / max(abs(float(slope)), 1e-9)


class _Turn(Struct):
    """A turn on the spot and the push after it."""

    yaw: Array
    """Yaw from the beginning at the inertial samples, rad."""
    end_s: float
    """End of the turn."""


def _turn(rec: StepRecording) -> _Turn:
    low, high = _began_still(rec)
    _, bias = _still_means(rec, low, high)
    rate = rec.rate_radps[:, 2] - bias[2]
    yaw = np.concatenate(([0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(rec.imu_s))))
    turning = np.nonzero(np.abs(yaw - yaw[-1]) > PAUSE_RAD)[0]
    if not len(turning) or np.ptp(yaw) < WHOLE_TURN_RAD:
        raise NotMeasuredError(
            f"it turned by {degrees(float(np.ptp(yaw))):.0f} degrees: turn it once round, 360 "
            "degrees"
        )
    return _Turn(yaw, float(rec.imu_s[turning[-1]]))


def antenna(rec: StepRecording) -> tuple[Estimate, float]:
    """Estimate the place of the antenna from a turn about the middle of the rear axle and a push
    straight ahead.

    Values: forward and left of the rear axle, m. Also returns the yaw at the beginning, rad. Raises
    :class:`NotMeasuredError`.
    """
    if len(rec.gnss_s) < 20:
        raise NotMeasuredError("too few fixes arrive")
    if not rec.gnss_sigma_m < 0.05:
        raise NotMeasuredError(
            "the fixes are not RTK fixed throughout: wait for it, with corrections"
        )
    turn = _turn(rec)
    yaw = np.interp(rec.gnss_s, rec.imu_s, turn.yaw)
    fixes = rec.east_north_m[:, 0] + 1j * rec.east_north_m[:, 1]
    on_spot = rec.gnss_s < turn.end_s
    design = np.column_stack((np.ones(on_spot.sum()), np.exp(1j * yaw[on_spot])))
    centre_arm = np.linalg.lstsq(design, fixes[on_spot], rcond=None)[0]
    noise = float(np.sqrt(np.mean(np.abs(fixes[on_spot] - design @ centre_arm) ** 2) / 2.0))
    # Errors of a receiver last for minutes; one turn averages few of them.
    arm_sigma = max(noise, rec.gnss_sigma_m) / sqrt(5.0)
    after = rec.gnss_s > turn.end_s + PAUSE_S
    moved = fixes[after][-3:].mean() - fixes[after][:2].mean() if after.sum() >= 6 else 0j
    if abs(moved) < 1.5:
        raise NotMeasuredError(
            "it was not pushed 3 m straight ahead after the turn, which shows where its front is"
        )
    heading = float(np.angle(moved))
    begin = remainder(heading - float(np.median(yaw[after])), 2.0 * pi)
    bent = abs(float(np.ptp(turn.yaw[rec.imu_s > turn.end_s + PAUSE_S])))
    direction_sigma = hypot(rec.gnss_sigma_m * sqrt(2.0) / abs(moved), STRAIGHT_RAD, 0.5 * bent)
    arm = centre_arm[1] * np.exp(-1j * begin)
    forward, left = float(arm.real), float(arm.imag)
    sigma = (hypot(arm_sigma, left * direction_sigma), hypot(arm_sigma, forward * direction_sigma))
    place = f"{_side(forward, 'ahead of', 'behind')} and {_side(left, 'left of', 'right of')}"
    return Estimate(
        (forward, left), sigma, f"the antenna is {place} the middle of the rear axle"
    ), begin


def _side(distance_m: float, more: str, less: str) -> str:
    return f"{abs(distance_m):.3f} m {more if distance_m >= 0.0 else less}"


def compass(rec: StepRecording, begin_rad: float | None) -> Estimate:
    """Estimate the deviation of a compass from a turn on the spot, by the gyro.

    ``begin_rad``: true yaw at the beginning; None if unknown. Values: factors of sin h, cos h (hard
    iron), sin 2h, cos 2h (soft iron) of the error at the shown yaw h, and its constant part, NaN if
    unknown; rad. Raises :class:`NotMeasuredError`.
    """
    turn = _turn(rec)
    during = rec.heading_s < turn.end_s
    if during.sum() < 20:
        raise NotMeasuredError("too few headings arrive")
    shown, yaw = rec.yaw_rad[during], np.interp(rec.heading_s[during], rec.imu_s, turn.yaw)
    error = np.unwrap(shown) - yaw
    design = np.column_stack(
        (np.sin(shown), np.cos(shown), np.sin(2 * shown), np.cos(2 * shown), np.ones(len(shown)))
    )
    factors, *_ = np.linalg.lstsq(design, error, rcond=None)
    noise = float(np.sqrt(np.mean((error - design @ factors) ** 2)))
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design))) * noise
    hard, soft = hypot(*factors[:2]), hypot(*factors[2:4])
    if hard + 2.0 * soft > 0.9:
        raise NotMeasuredError(
            "the iron of the vehicle outweighs the earth's field at the compass: mount it elsewhere"
        )
    constant = (
        float("nan") if begin_rad is None else remainder(float(factors[4]) - begin_rad, 2.0 * pi)
    )
    # A level turn leaves an error of the gyro's scale in what varies once.
    sigma = (*(hypot(float(s), 0.004) for s in spread[:4]), hypot(float(spread[4]), STRAIGHT_RAD))
    verdict = (
        f"hard iron turns the compass by up to {degrees(hard):.1f} degrees, soft iron by "
        f"{degrees(soft):.1f}"
    )
    if noise > 0.1:
        verdict += "; what is left varies strongly: is a motor or a steel floor near?"
    if isfinite(constant) and abs(constant) > 0.2:
        verdict += (
            f"; it shows {degrees(constant):+.0f} degrees more than the true yaw: declination "
            "or mounting"
        )
    return Estimate(
        (*factors[:4].tolist(), constant),
        sigma,
        verdict,
        bool(isfinite(constant) and abs(constant) > 0.5),
    )


def turning_diameter_m(wheel_angle_rad: float, wheelbase_m: float) -> float:
    """Return the diameter of the circle that the middle of the rear axle drives at a wheel
    angle."""
    return 2.0 * wheelbase_m / tan(wheel_angle_rad)
